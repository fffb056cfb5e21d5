// shows: conformance: errors: names and texts, the last error of each thread, what every kind of fault of a kernel
//   gives, which calls find it, what a reset does then, line by line with NVIDIA's runtime
#include "../suite.h"

#include <assert.h>

__global__ void none() {}
__global__ void writes(int *at) { *at = 1; }
__global__ void reads(int *at, int *to) { *to = *at; }
__global__ void misaligned(char *at) { *(volatile int *)(at + 1) = 1; }
__global__ void asserts(int n) { assert(n == 1); }
__global__ void traps() { __trap(); }
__global__ void shared_beyond(int n)
{
    __shared__ int room[32];
    volatile int *r = room;
    r[n] = 1;
}
__device__ int variable;

/* ---- names ---- */

static void names()
{
    for (int code = -1; code <= 1000; code++) {
#if RUNTIME == 12 /* 12.4 and 12.9 say other things of these */
        if (code == 27 || code == 226 || code == 721 || (code >= 913 && code <= 915))
            continue;
#endif
        const char *name = cudaGetErrorName((cudaError_t)code), *text = cudaGetErrorString((cudaError_t)code);
        if (strcmp(name, "unrecognized error code") || strcmp(text, "unrecognized error code"))
            printf("error %d: %s: %s\n", code, name, text);
    }
    printf("error 10000: %s\n", cudaGetErrorName((cudaError_t)10000));
}

/* ---- the last error ---- */

static pthread_barrier_t meet;
static void *second_thread(void *)
{
    WORKS(cudaPeekAtLastError(), "a thread without errors");
    printf("its own error: %s\n", cudaGetErrorName(cudaSetDevice(77)));
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    printf("it stays, whatever other threads do: %s\n", cudaGetErrorName(cudaPeekAtLastError()));
    return NULL;
}

static void last_error()
{
    pthread_t thread;
    void *p;
    float ms;
    cudaEvent_t e;
    cudaStream_t s;
    pthread_barrier_init(&meet, NULL, 2);
    pthread_create(&thread, NULL, second_thread, NULL);
    pthread_barrier_wait(&meet);
    WORKS(cudaPeekAtLastError(), "another thread has one");
    printf("an error of this thread: %s\n", cudaGetErrorName(cudaMalloc(NULL, 4)));
    printf("of this thread: %s\n", cudaGetErrorName(cudaGetLastError()));
    pthread_barrier_wait(&meet);
    pthread_join(thread, NULL);
    /* Not ready is no error that stays. */
    MUST(cudaStreamCreate(&s));
    MUST(cudaEventCreate(&e));
    hold_begin(s, 100000);
    MUST(cudaEventRecord(e, s));
    printf("not ready: %s", cudaGetErrorName(cudaStreamQuery(s)));
    printf(" leaves %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("not ready: %s", cudaGetErrorName(cudaEventQuery(e)));
    printf(" leaves %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("not ready: %s", cudaGetErrorName(cudaEventElapsedTime(&ms, e, e)));
    printf(" leaves %s\n", cudaGetErrorName(cudaGetLastError()));
    hold_end();
    none<<<1, 5000>>>();
    printf("a launch of 5000 threads leaves some: %d\n", cudaPeekAtLastError() != cudaSuccess);
    none<<<1, 1>>>();
    printf("a good launch behind it leaves some: %d\n", cudaPeekAtLastError() != cudaSuccess);
    printf("a call behind it: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("some are left: %d\n", cudaGetLastError() != cudaSuccess);
    printf("none are left: %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("too much memory: %s", cudaGetErrorName(cudaMalloc(&p, (size_t)1 << 60)));
    printf(" leaves %s", cudaGetErrorName(cudaPeekAtLastError()));
    printf(", then %s", cudaGetErrorName(cudaMalloc(&p, 64)));
    printf(" leaves %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("attributes of no memory: %s", cudaGetErrorName(cudaFuncGetAttributes(NULL, (const void *)none)));
    printf(" leaves %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("names change nothing: %s", cudaGetErrorName(cudaSetDevice(77)));
    printf(" %s", cudaGetErrorString(cudaErrorUnknown));
    printf(" leaves %s\n", cudaGetErrorName(cudaGetLastError()));
    MUST(cudaStreamDestroy(s));
    MUST(cudaEventDestroy(e));
    MUST(cudaFree(p));
}

/* ---- faults ---- */

static int kind;
static int *room;
static void fault(cudaStream_t s)
{
    switch (kind) {
    case 0: writes<<<1, 1, 0, s>>>((int *)0x100); break;
    case 1: reads<<<1, 1, 0, s>>>((int *)0x100, room); break;
    case 2: misaligned<<<1, 1, 0, s>>>((char *)room); break;
    case 3: asserts<<<1, 1, 0, s>>>(2); break;
    case 4: traps<<<1, 1, 0, s>>>(); break;
    default: shared_beyond<<<1, 1, 0, s>>>(1 << 20); break;
    }
}
static const char *const kinds[] = { "a write to no memory", "a read from no memory", "a misaligned write",
                                     "an assertion", "a trap", "a write beyond shared memory" };

static void other_thread()
{
    int *p;
    cudaPeekAtLastError();
    SAYS(cudaMalloc(&p, 4), "in another thread");
    SAYS(cudaDeviceSynchronize(), "in another thread");
}

static void each_kind()
{
    cudaStream_t s;
    int value;
    MUST(cudaMalloc(&room, 64));
    MUST(cudaStreamCreate(&s));
    none<<<1, 1, 0, s>>>(); /* a kernel that is first used behind the fault: docs/limits.md */
    fault(s);
    WORKS(cudaGetLastError(), kinds[kind]);
    SAYS(cudaStreamSynchronize(s), kinds[kind]);
    SAYS(cudaPeekAtLastError(), kinds[kind]);
    SAYS(cudaGetLastError(), "it stays");
    SAYS(cudaGetLastError(), "it stays");
    SAYS(cudaMemcpy(&value, room, 4, cudaMemcpyDeviceToHost), "behind it");
    none<<<1, 1>>>();
    SAYS(cudaGetLastError(), "a launch behind it");
    SAYS(cudaGetDevice(&value), "behind it");
    in_thread(other_thread);
    SAYS(cudaSetDevice(77), "another error");
    SAYS(cudaPeekAtLastError(), "behind another error");
#if RUNTIME >= 12 /* docs/limits.md: 11.8 lets the reset pass and never works again */
    SAYS(cudaDeviceReset(), "behind it");
    SAYS(cudaGetLastError(), "behind the reset");
    SAYS(cudaFree(NULL), "behind the reset");
    SAYS(cudaMalloc(&room, 64), "behind the reset");
    none<<<1, 1>>>();
    SAYS(cudaGetLastError(), "a launch behind the reset");
    SAYS(cudaDeviceSynchronize(), "behind the reset");
#endif
}

/* Which call finds it first. */
static int finder;
static void found()
{
    cudaStream_t s, t;
    cudaEvent_t e;
    char host[64];
    cudaError_t r;
    void *p;
    kind = 0;
    MUST(cudaMalloc(&room, 64));
    MUST(cudaMalloc(&p, 64));
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreate(&t));
    MUST(cudaEventCreate(&e));
    fault(s);
    MUST(cudaEventRecord(e, s));
    switch (finder) {
    case 0: SAYS(cudaDeviceSynchronize(), "the first call"); break;
    case 1: SAYS(cudaStreamSynchronize(s), "the first call"); break;
    case 2: SAYS(cudaEventSynchronize(e), "the first call"); break;
    case 3: SAYS(cudaMemcpy(host, room, 64, cudaMemcpyDeviceToHost), "the first call"); break;
    case 4: SAYS(cudaMemcpyFromSymbol(host, variable, 4), "the first call"); break;
    case 5: SAYS(cudaStreamSynchronize(0), "the first call"); break;
    case 6:
        while ((r = cudaStreamQuery(s)) == cudaErrorNotReady)
            sched_yield();
        SAYS(r, "cudaStreamQuery");
        break;
    case 7:
        while ((r = cudaEventQuery(e)) == cudaErrorNotReady)
            sched_yield();
        SAYS(r, "cudaEventQuery");
        break;
    case 8:
        MUST(cudaStreamWaitEvent(t, e, 0));
        SAYS(cudaStreamSynchronize(t), "another stream, which waited");
        break;
    case 9:
#if RUNTIME >= 12
        SAYS(cudaDeviceReset(), "the first call");
#endif
        break;
    case 10: SAYS(cudaFree(p), "the first call"); break;
    default: break;
    }
    SAYS(cudaPeekAtLastError(), "then");
    SAYS(cudaDeviceSynchronize(), "then");
}

int main()
{
    for (kind = 0; kind < 6; kind++)
        in_child(each_kind);
    for (finder = 0; finder < 11; finder++)
        in_child(found);
    names();
    last_error();
    return 0;
}
