// shows: conformance: threads: what belongs to a thread, what threads share, which calls go on while another thread
//   waits, line by line with NVIDIA's runtime
#include "../gate.h"

__global__ void none() {}
__global__ void add(int *at, int n) { atomicAdd(at, n); }
__device__ int variable;
static void CUDART_CB nothing(void *) {}

/* ---- what belongs to a thread ---- */

static cudaStream_t of_first;
static void fresh()
{
    int device = 7;
    unsigned flags = 7;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    WORKS(cudaPeekAtLastError(), "a new thread");
    WORKS(cudaGetDevice(&device), "a new thread");
    VALUE("device", "%d", device);
    WORKS(cudaGetDeviceFlags(&flags), "a new thread");
    WORKS(cudaThreadExchangeStreamCaptureMode(&mode), "a new thread");
    VALUE("mode", "%d", (int)mode);
    WORKS(cudaStreamQuery(of_first), "another thread's stream");
    none<<<1, 1, 0, of_first>>>();
    WORKS(cudaStreamSynchronize(of_first), "another thread's stream");
    WORKS(cudaStreamDestroy(of_first), "another thread's stream");
    SAYS(cudaSetDevice(99), "an error of this thread");
    cudaSetDevice(99);
}
static void own()
{
    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    WORKS(cudaThreadExchangeStreamCaptureMode(&mode), "first thread");
    VALUE("mode", "%d", (int)mode);
    MUST(cudaStreamCreate(&of_first));
    in_thread(fresh);
    WORKS(cudaPeekAtLastError(), "first thread");
    mode = cudaStreamCaptureModeGlobal;
    WORKS(cudaThreadExchangeStreamCaptureMode(&mode), "first thread");
    VALUE("mode", "%d", (int)mode);
    SAYS(cudaStreamQuery(of_first), "destroyed by another thread");
    mode = (cudaStreamCaptureMode)9;
    SAYS(cudaThreadExchangeStreamCaptureMode(&mode), "mode 9");
    SAYS(cudaThreadExchangeStreamCaptureMode(NULL), "null pointer");
}

/* ---- while another thread waits ---- */

static struct gate *g;
static cudaStream_t held, idle;
static cudaEvent_t behind;
static int way, waiter_has_returned;
static cudaError_t waiter_result;
static pthread_barrier_t begins;
static char *memory, *pinned;
static void *waiter(void *)
{
    static char host[1 << 16];
    pthread_barrier_wait(&begins);
    switch (way) {
    case 0: waiter_result = cudaDeviceSynchronize(); break;
    case 1: waiter_result = cudaStreamSynchronize(held); break;
    case 2: waiter_result = cudaEventSynchronize(behind); break;
    case 3: waiter_result = cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost); break;
    case 4: waiter_result = cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice); break;
    case 5: waiter_result = cudaMemcpyToSymbol(variable, host, 4); break;
    default: waiter_result = cudaStreamSynchronize(0); break;
    }
    __atomic_store_n(&waiter_has_returned, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void beside_a_waiter()
{
    static const char *const ways[] = { "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
                                        "cudaMemcpy from the device", "cudaMemcpy to the device",
                                        "cudaMemcpyToSymbol", "cudaStreamSynchronize(0)" };
    pthread_t thread;
    for (way = 0; way < 7; way++) {
        int device, value = 5;
        void *p, *h;
        size_t free_bytes, total;
        cudaStream_t s;
        cudaEvent_t e;
        cudaFuncAttributes attributes;
        cudaPointerAttributes pointer;
        printf("while another thread is in %s:\n", ways[way]);
        waiter_has_returned = 0;
        gate_close(g, held, 100000);
        MUST(cudaEventRecord(behind, held));
        pthread_barrier_init(&begins, NULL, 2);
        pthread_create(&thread, NULL, waiter, NULL);
        pthread_barrier_wait(&begins);
        WORKS(cudaGetDevice(&device), "meanwhile");
        WORKS(cudaMalloc(&p, 1 << 16), "meanwhile");
        WORKS(cudaMallocHost(&h, 1 << 16), "meanwhile");
        WORKS(cudaMemGetInfo(&free_bytes, &total), "meanwhile");
        WORKS(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "meanwhile");
        WORKS(cudaEventCreate(&e), "meanwhile");
        add<<<1, 1, 0, s>>>((int *)p, 1);
        WORKS(cudaGetLastError(), "a launch meanwhile");
        WORKS(cudaMemcpyAsync(p, &value, 4, cudaMemcpyHostToDevice, s), "meanwhile");
        WORKS(cudaMemcpyAsync(h, p, 4, cudaMemcpyDeviceToHost, s), "meanwhile");
        WORKS(cudaEventRecord(e, s), "meanwhile");
        WORKS(cudaLaunchHostFunc(s, nothing, NULL), "meanwhile");
        WORKS(cudaEventSynchronize(e), "meanwhile");
        WORKS(cudaStreamSynchronize(s), "meanwhile");
        VALUE("copied", "%d", *(int *)h);
        WORKS(cudaFuncGetAttributes(&attributes, (const void *)add), "meanwhile");
        WORKS(cudaPointerGetAttributes(&pointer, p), "meanwhile");
        GIVES(cudaErrorNotReady, cudaStreamQuery(held), "meanwhile");
        GIVES(cudaErrorNotReady, cudaEventQuery(behind), "meanwhile");
        WORKS(cudaStreamDestroy(s), "meanwhile");
        WORKS(cudaEventDestroy(e), "meanwhile");
        VALUE("it has returned", "%d", __atomic_load_n(&waiter_has_returned, __ATOMIC_SEQ_CST));
        gate_open(g);
        pthread_join(thread, NULL);
        VALUE("result", "%s", cudaGetErrorName(waiter_result));
        MUST(cudaFree(p));
        MUST(cudaFreeHost(h));
    }
}

/* ---- what threads share: all of them do the same at once ---- */

enum { THREADS = 4, ROUNDS = 60 };
static int *sum;
static pthread_barrier_t together;
static int wrong;
static void *worker(void *of)
{
    int number = (int)(uintptr_t)of, value[16], got[16];
    cudaStream_t s;
    cudaEvent_t e;
    int *p;
    pthread_barrier_wait(&together); /* the first use of the device by all at once */
    MUST(cudaStreamCreateWithFlags(&s, number % 2 ? cudaStreamNonBlocking : 0));
    MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = sizeof value + (size_t)(i * 1000);
        if (i % 2)
            MUST(cudaMalloc(&p, size));
        else
            MUST(cudaMallocAsync((void **)&p, size, s));
        for (int k = 0; k < 16; k++)
            value[k] = number * 1000 + i + k;
        MUST(cudaMemcpyAsync(p, value, sizeof value, cudaMemcpyHostToDevice, s));
        add<<<1, 1, 0, s>>>(p + 3, 7);
        add<<<1, 1, 0, s>>>(sum, 1);
        MUST(cudaGetLastError());
        MUST(cudaEventRecord(e, s));
        MUST(cudaStreamWaitEvent(s, e, 0));
        MUST(cudaMemcpyAsync(got, p, sizeof got, cudaMemcpyDeviceToHost, s));
        MUST(cudaStreamSynchronize(s));
        value[3] += 7;
        if (memcmp(got, value, sizeof got))
            __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
        if (i % 2)
            MUST(cudaFree(p));
        else
            MUST(cudaFreeAsync(p, s));
    }
    MUST(cudaEventDestroy(e));
    MUST(cudaStreamDestroy(s));
    return NULL;
}
static void at_once()
{
    pthread_t thread[THREADS];
    int value = 0;
    MUST(cudaMalloc(&sum, 4));
    MUST(cudaMemset(sum, 0, 4));
    MUST(cudaDeviceSynchronize()); /* the set is behind no work of non-blocking streams */
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, worker, (void *)(uintptr_t)i);
    for (auto t : thread)
        pthread_join(t, NULL);
    WORKS(cudaMemcpy(&value, sum, 4, cudaMemcpyDeviceToHost), "the sum of all");
    VALUE("sum", "%d", value);
    VALUE("wrong", "%d", wrong);
}

/* The first call of a process, by several threads at once. */
static void *first_caller(void *)
{
    void *p;
    pthread_barrier_wait(&together);
    none<<<1, 1>>>();
    cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess || cudaMalloc(&p, 64) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
    return NULL;
}
static void first_calls()
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (auto &t : thread)
        pthread_create(&t, NULL, first_caller, NULL);
    for (auto t : thread)
        pthread_join(t, NULL);
    VALUE("first calls that failed", "%d", wrong);
}

int main()
{
    in_child(first_calls);
    MUST(cudaFree(0));
    g = gate_new();
    MUST(cudaStreamCreate(&held));
    MUST(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&behind, cudaEventDisableTiming | cudaEventBlockingSync));
    MUST(cudaMalloc(&memory, 1 << 16));
    MUST(cudaMallocHost(&pinned, 64));
    own();
    beside_a_waiter();
    at_once();
    return 0;
}
