// shows: conformance: events: which record they stand for, which streams they wait for, threads, what blocks, line by
//   line with NVIDIA's runtime
#include "../gate.h"

__global__ void none() {}
__global__ void add(int *at, int n) { *at += n; }

static cudaStream_t held, idle, other;
static struct gate *g;

static void flags()
{
    cudaEvent_t e;
    for (unsigned f = 0; f <= 8; f++) {
        cudaError_t r = cudaEventCreateWithFlags(&e, f);
        printf("cudaEventCreateWithFlags: %u -> %s\n", f, cudaGetErrorName(r));
        cudaGetLastError();
        if (r == cudaSuccess) {
            SAYS(cudaEventRecord(e, idle), "it");
            SAYS(cudaEventSynchronize(e), "it");
            SAYS(cudaEventQuery(e), "it");
            SAYS(cudaEventDestroy(e), "it");
        }
    }
}

/* An event stands for its last record, a wait for the record that was the last one when the wait was given. */
static void which_record()
{
    cudaEvent_t e, f;
    float ms;
    MUST(cudaEventCreate(&e));
    MUST(cudaEventCreate(&f));
    gate_close(g, held, 100000);
    WORKS(cudaEventRecord(e, held), "behind a kernel");
    GIVES(cudaErrorNotReady, cudaEventQuery(e), "behind a kernel");
    WORKS(cudaStreamWaitEvent(other, e, 0), "the kernel");
    WORKS(cudaEventRecord(e, idle), "again, in an idle stream");
    WORKS(cudaEventSynchronize(e), "the last record");
    WORKS(cudaEventQuery(e), "the last record");
    GIVES(cudaErrorNotReady, cudaStreamQuery(other), "waits for the first record");
    WORKS(cudaEventRecord(f, other), "behind the wait");
    GIVES(cudaErrorNotReady, cudaEventQuery(f), "behind the wait");
    GIVES(cudaErrorNotReady, cudaEventElapsedTime(&ms, e, f), "one is done");
    GIVES(cudaErrorNotReady, cudaEventElapsedTime(&ms, f, e), "one is done");
    WORKS(cudaEventRecord(e, held), "again, behind the kernel");
    GIVES(cudaErrorNotReady, cudaEventQuery(e), "not any more");
    WORKS(cudaStreamWaitEvent(idle, e, 0), "the kernel");
    WORKS(cudaEventDestroy(e), "another stream waits for it");
    GIVES(cudaErrorNotReady, cudaStreamQuery(idle), "waits for an event that has ended");
    SAYS(cudaEventQuery(e), "it has ended");
    SAYS(cudaEventRecord(e, idle), "it has ended");
    SAYS(cudaEventSynchronize(e), "it has ended");
    SAYS(cudaStreamWaitEvent(idle, e, 0), "it has ended");
    SAYS(cudaEventElapsedTime(&ms, e, f), "it has ended");
    gate_open(g);
    WORKS(cudaStreamSynchronize(idle), "all");
    WORKS(cudaEventSynchronize(f), "all");
    WORKS(cudaDeviceSynchronize(), "all");
    MUST(cudaEventDestroy(f));
    /* A stream that waits for its own event, and one that is recorded nowhere. */
    MUST(cudaEventCreate(&e));
    WORKS(cudaStreamWaitEvent(idle, e, 0), "never recorded");
    WORKS(cudaEventRecord(e, idle), "in a stream");
    WORKS(cudaStreamWaitEvent(idle, e, 0), "of its own");
    WORKS(cudaStreamWaitEvent(0, e, 0), "legacy");
    WORKS(cudaStreamWaitEvent(cudaStreamPerThread, e, 0), "per thread");
    WORKS(cudaStreamSynchronize(idle), "no wait for itself");
    MUST(cudaEventDestroy(e));
}

/* A record in the legacy stream stands for the blocking streams, too. */
static void legacy()
{
    cudaEvent_t e;
    cudaStream_t apart;
    MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    MUST(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    gate_close(g, held, 100000);
    WORKS(cudaEventRecord(e, 0), "legacy, a blocking stream works");
    GIVES(cudaErrorNotReady, cudaEventQuery(e), "legacy, a blocking stream works");
    WORKS(cudaEventRecord(e, apart), "a non-blocking stream");
    WORKS(cudaEventSynchronize(e), "a non-blocking stream");
    none<<<1, 1, 0, other>>>();
    WORKS(cudaEventRecord(e, other), "a blocking stream");
    GIVES(cudaErrorNotReady, cudaEventQuery(e), "a blocking stream, behind the legacy record");
    gate_open(g);
    WORKS(cudaEventSynchronize(e), "all");
    MUST(cudaDeviceSynchronize());
    gate_close(g, apart, 100000);
    WORKS(cudaEventRecord(e, 0), "legacy, a non-blocking stream works");
    WORKS(cudaEventSynchronize(e), "legacy, a non-blocking stream works");
    WORKS(cudaEventRecord(e, apart), "behind the kernel");
    WORKS(cudaStreamWaitEvent(0, e, 0), "legacy waits for it");
    GIVES(cudaErrorNotReady, cudaStreamQuery(0), "it waits");
    none<<<1, 1, 0, other>>>();
    GIVES(cudaErrorNotReady, cudaStreamQuery(other), "a blocking stream, behind the legacy stream");
    gate_open(g);
    WORKS(cudaStreamSynchronize(other), "all");
    MUST(cudaDeviceSynchronize());
    MUST(cudaStreamDestroy(apart));
    MUST(cudaEventDestroy(e));
}

static void times()
{
    cudaEvent_t e[3];
    float a = -1, b = -1, c = -1;
    for (auto &x : e)
        MUST(cudaEventCreate(&x));
    WORKS(cudaEventRecord(e[0], idle), "first");
    none<<<1, 1, 0, idle>>>();
    WORKS(cudaEventRecord(e[1], idle), "second");
    none<<<1, 1, 0, idle>>>();
    WORKS(cudaStreamSynchronize(idle), "both");
    WORKS(cudaEventRecord(e[2], other), "in another stream");
    WORKS(cudaEventSynchronize(e[2]), "third");
    WORKS(cudaEventElapsedTime(&a, e[0], e[1]), "forward");
    WORKS(cudaEventElapsedTime(&b, e[1], e[0]), "backward");
    WORKS(cudaEventElapsedTime(&c, e[0], e[2]), "across streams");
    VALUE("forward", "%d", a > 0);
    VALUE("backward is its negative", "%d", a == -b);
    VALUE("across streams is more", "%d", c >= a);
    WORKS(cudaEventElapsedTime(&a, e[0], e[0]), "itself");
    VALUE("none", "%d", a == 0);
    SAYS(cudaEventElapsedTime(&a, NULL, e[0]), "null event");
    SAYS(cudaEventElapsedTime(&a, e[0], NULL), "null event");
    SAYS(cudaEventElapsedTime(&a, WRONG(cudaEvent_t), e[0]), "no event");
    for (auto &x : e)
        MUST(cudaEventDestroy(x));
}

/* One thread records, the others wait for it and work behind it. */
static cudaEvent_t shared;
static int *counter, returned;
static void *waiter(void *)
{
    cudaStream_t s;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamWaitEvent(s, shared, 0));
    MUST(cudaEventSynchronize(shared));
    __atomic_fetch_add(&returned, 1, __ATOMIC_SEQ_CST);
    MUST(cudaStreamDestroy(s));
    return NULL;
}
static void threads()
{
    pthread_t thread[3];
    int value = -1;
    MUST(cudaEventCreateWithFlags(&shared, cudaEventDisableTiming | cudaEventBlockingSync));
    MUST(cudaMalloc((void **)&counter, 4));
    MUST(cudaMemset(counter, 0, 4));
    gate_close(g, held, 100000);
    add<<<1, 1, 0, held>>>(counter, 5);
    MUST(cudaEventRecord(shared, held));
    for (auto &t : thread)
        pthread_create(&t, NULL, waiter, NULL);
    GIVES(cudaErrorNotReady, cudaEventQuery(shared), "others wait for it");
    WORKS(cudaEventRecord(shared, held), "others wait for it");
    none<<<1, 1, 0, idle>>>();
    WORKS(cudaStreamSynchronize(idle), "others wait for an event");
    void *p;
    WORKS(cudaMalloc(&p, 4096), "others wait for an event");
    VALUE("waiting", "%d", 3 - __atomic_load_n(&returned, __ATOMIC_SEQ_CST));
    gate_open(g);
    for (auto t : thread)
        pthread_join(t, NULL);
    VALUE("returned", "%d", returned);
    WORKS(cudaMemcpy(&value, counter, 4, cudaMemcpyDeviceToHost), "the result");
    VALUE("value", "%d", value);
    MUST(cudaFree(p));
    MUST(cudaFree(counter));
    MUST(cudaEventDestroy(shared));
}

static void waits()
{
    cudaEvent_t e, f;
    float ms;
    MUST(cudaEventCreate(&e));
    MUST(cudaEventCreate(&f));
    MUST(cudaEventRecord(e, idle));
    MUST(cudaEventSynchronize(e));
    WAITS_FOR_KERNEL(false, g, held, , cudaEventSynchronize(e), "recorded before");
    WAITS_FOR_KERNEL(false, g, held, , cudaEventRecord(f, held), "behind the kernel");
    WAITS_FOR_KERNEL(false, g, held, , cudaEventRecord(f, 0), "legacy");
    WAITS_FOR_KERNEL(false, g, held, , cudaEventQuery(f), "recorded earlier");
    WAITS_FOR_KERNEL(false, g, held, , (cudaEventRecord(f, held), cudaEventElapsedTime(&ms, e, f)), "recorded behind");
    WAITS_FOR_KERNEL(true, g, held, , (cudaEventRecord(f, held), cudaEventSynchronize(f)), "recorded behind");
    WAITS_FOR_KERNEL(false, g, held, , (cudaEventRecord(f, held), cudaStreamWaitEvent(0, f, 0)), "recorded behind");
    WAITS_FOR_KERNEL(false, g, held, , cudaEventCreate(&f), "any");
    WAITS_FOR_KERNEL(false, g, held, (cudaEventCreate(&f)), (cudaEventRecord(f, held), cudaEventDestroy(f)),
                     "recorded behind");
    MUST(cudaEventDestroy(e));
}

static void handles()
{
    cudaEvent_t e;
    cudaIpcEventHandle_t handle;
    MUST(cudaEventCreate(&e));
    SAYS(cudaIpcGetEventHandle(NULL, e), "null pointer");
    SAYS(cudaIpcGetEventHandle(&handle, e), "not for processes");
    SAYS(cudaIpcGetEventHandle(&handle, NULL), "null event");
    SAYS(cudaIpcGetEventHandle(&handle, WRONG(cudaEvent_t)), "no event");
    MUST(cudaEventDestroy(e));
    memset(&handle, 0, sizeof handle);
    SAYS(cudaIpcOpenEventHandle(&e, handle), "no handle");
    SAYS(cudaIpcOpenEventHandle(NULL, handle), "null pointer");
}

int main()
{
    MUST(cudaFree(0));
    g = gate_new();
    MUST(cudaStreamCreate(&held));
    MUST(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    MUST(cudaStreamCreate(&other));
    flags();
    which_record();
    legacy();
    times();
    threads();
    waits();
    handles();
    return 0;
}
