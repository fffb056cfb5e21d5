// shows: conformance: host functions and callbacks of streams: order, arguments, what they may call, what they hold
//   back, behind a fault, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void none() {}
__global__ void faulty(int *at) { *at = 1; }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char order[512];
static int written;
static pthread_t caller;
static bool elsewhere_always = true;

static void note(char c)
{
    pthread_mutex_lock(&lock);
    order[written++] = c;
    pthread_mutex_unlock(&lock);
}
static void CUDART_CB function(void *letter) { note((char)(uintptr_t)letter); }
static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *letter)
{
    note((char)(uintptr_t)letter);
    if (status != cudaSuccess)
        note('!');
}
static void *letter(char c) { return (void *)(uintptr_t)c; }

static void say_order(const char *about)
{
    pthread_mutex_lock(&lock);
    order[written] = 0;
    printf("%s: %s\n", about, order);
    written = 0;
    pthread_mutex_unlock(&lock);
}

/* What a callback was told. It prints nothing: the thread that gave it prints meanwhile. */
static struct told { cudaStream_t stream; cudaError_t status; } told;
static void CUDART_CB notes(cudaStream_t stream, cudaError_t status, void *to)
{
    elsewhere_always = elsewhere_always && !pthread_equal(pthread_self(), caller);
    *(struct told *)to = { stream, status };
}

static void usual()
{
    cudaStream_t s, t;
    cudaEvent_t e;
    caller = pthread_self();
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int i = 0; i < 26; i++) {
        if (i % 3 == 0)
            MUST(cudaStreamAddCallback(s, callback, letter((char)('a' + i)), 0));
        else
            MUST(cudaLaunchHostFunc(s, function, letter((char)('a' + i))));
        if (i % 4 == 0)
            none<<<1, 1, 0, s>>>();
    }
    WORKS(cudaStreamSynchronize(s), "26 of them");
    say_order("order");
    WORKS(cudaLaunchHostFunc(s, function, letter('1')), "first stream");
    WORKS(cudaEventRecord(e, s), "behind it");
    WORKS(cudaStreamWaitEvent(t, e, 0), "the other one waits");
    WORKS(cudaStreamAddCallback(t, callback, letter('2'), 0), "second stream");
    WORKS(cudaEventRecord(e, t), "behind it");
    WORKS(cudaStreamWaitEvent(s, e, 0), "and back");
    WORKS(cudaLaunchHostFunc(s, function, letter('3')), "first stream");
    WORKS(cudaStreamSynchronize(s), "across streams");
    say_order("order across streams");
    WORKS(cudaLaunchHostFunc(s, function, letter('a')), "blocking stream");
    WORKS(cudaLaunchHostFunc(0, function, letter('b')), "legacy stream, behind it");
    WORKS(cudaLaunchHostFunc(s, function, letter('c')), "blocking stream, behind that");
    WORKS(cudaDeviceSynchronize(), "legacy");
    say_order("order with the legacy stream");
    cudaStream_t streams[] = { s, t, 0, cudaStreamLegacy, cudaStreamPerThread };
    const char *names[] = { "a stream", "a non-blocking one", "stream 0", "cudaStreamLegacy", "cudaStreamPerThread" };
    for (int i = 0; i < 5; i++) {
        told = { NULL, cudaErrorUnknown };
        WORKS(cudaStreamAddCallback(streams[i], notes, &told, 0), names[i]);
        MUST(cudaDeviceSynchronize());
        VALUE("the callback's status", "%d", (int)told.status);
        VALUE("it was given its stream", "%d", told.stream == streams[i]);
    }
    VALUE("in another thread", "%d", elsewhere_always);
    WORKS(cudaLaunchHostFunc(s, function, letter('x')), "in a stream that ends");
    WORKS(cudaStreamDestroy(s), "with a function");
    WORKS(cudaDeviceSynchronize(), "a stream that has ended");
    say_order("function of a stream that has ended");
    SAYS(cudaLaunchHostFunc(s, function, letter('y')), "a stream that has ended");
    SAYS(cudaStreamAddCallback(s, callback, letter('y'), 0), "a stream that has ended");
    SAYS(cudaStreamAddCallback(WRONG(cudaStream_t), callback, NULL, 0), "no stream");
    for (unsigned flags = 1; flags < 8; flags *= 2)
        SAYS(cudaStreamAddCallback(t, callback, letter('z'), flags), "flags");
    SAYS(cudaStreamAddCallback(t, NULL, NULL, 0), "null function");
    SAYS(cudaLaunchHostFunc(t, NULL, NULL), "null function");
    WORKS(cudaStreamSynchronize(t), "none of these ran");
    say_order("nothing");
    MUST(cudaEventDestroy(e));
    MUST(cudaStreamDestroy(t));
}

/* ---- what they may call ---- */

static char *device;
static void CUDART_CB calls_of_cuda(void *about)
{
    int value = 7;
    void *p = NULL;
    size_t size, total;
    char host[16];
    cudaStream_t s;
    cudaEvent_t e = NULL;
    cudaDeviceProp prop;
    cudaFuncAttributes attributes;
    cudaPointerAttributes pointer;
    const char *where = (const char *)about;
    SAYS(cudaGetLastError(), where);
    SAYS(cudaGetDevice(&value), where);
    SAYS(cudaGetDeviceCount(&value), where);
    SAYS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0), where);
    SAYS(cudaGetDeviceProperties(&prop, 0), where);
    SAYS(cudaDriverGetVersion(&value), where);
    SAYS(cudaRuntimeGetVersion(&value), where);
    SAYS(cudaMalloc(&p, 64), where);
    SAYS(cudaFree(NULL), where);
    SAYS(cudaFree(device), where);
    SAYS(cudaMallocHost(&p, 64), where);
    SAYS(cudaMallocAsync(&p, 64, 0), where);
    SAYS(cudaMemcpy(device, host, 4, cudaMemcpyHostToDevice), where);
    SAYS(cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, 0), where);
    SAYS(cudaMemset(device, 0, 4), where);
    SAYS(cudaMemGetInfo(&size, &total), where);
    SAYS(cudaDeviceSynchronize(), where);
    SAYS(cudaStreamSynchronize(0), where);
    SAYS(cudaStreamQuery(0), where);
    SAYS(cudaStreamCreate(&s), where);
    SAYS(cudaEventCreate(&e), where);
    SAYS(cudaEventRecord(e, 0), where);
    SAYS(cudaEventQuery(e), where);
    SAYS(cudaLaunchHostFunc(0, function, NULL), where);
    SAYS(cudaFuncGetAttributes(&attributes, (const void *)none), where);
    SAYS(cudaPointerGetAttributes(&pointer, device), where);
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, (const void *)none, 32, 0), where);
    SAYS(cudaDeviceGetLimit(&size, cudaLimitStackSize), where);
    SAYS(cudaProfilerStart(), where);
    none<<<1, 1>>>();
    SAYS(cudaGetLastError(), "a launch");
}
static void CUDART_CB calls_of_cuda_too(cudaStream_t, cudaError_t, void *about) { calls_of_cuda(about); }

static void calls()
{
    MUST(cudaMalloc((void **)&device, 64));
    none<<<1, 1>>>();
    MUST(cudaDeviceSynchronize());
    MUST(cudaLaunchHostFunc(0, calls_of_cuda, (void *)"in a function"));
    WORKS(cudaDeviceSynchronize(), "behind a function that calls CUDA");
    MUST(cudaStreamAddCallback(0, calls_of_cuda_too, (void *)"in a callback", 0));
    WORKS(cudaDeviceSynchronize(), "behind a callback that calls CUDA");
    WORKS(cudaFree(device), "still there");
}

/* ---- what they hold back ---- */

static void waits()
{
    cudaStream_t s, t;
    cudaEvent_t e;
    char *memory;
    static char host[64];
    MUST(cudaMalloc((void **)&memory, 64));
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&e));
    hold_begin(s, 100000);
    GIVES(cudaErrorNotReady, cudaStreamQuery(s), "its function runs");
    GIVES(cudaErrorNotReady, cudaStreamQuery(0), "legacy, a function runs in a blocking stream");
    WORKS(cudaStreamQuery(t), "another stream");
    none<<<1, 1, 0, t>>>();
    WORKS(cudaStreamSynchronize(t), "a kernel in another stream");
    WORKS(cudaMemcpyAsync(memory, host, 64, cudaMemcpyHostToDevice, t), "in another stream");
    WORKS(cudaMemcpyAsync(host, memory, 64, cudaMemcpyDeviceToHost, t), "in another stream");
    WORKS(cudaStreamSynchronize(t), "copies in another stream");
    WORKS(cudaEventRecord(e, s), "behind the function");
    GIVES(cudaErrorNotReady, cudaEventQuery(e), "behind the function");
    WORKS(cudaLaunchHostFunc(s, function, letter('b')), "behind the function");
    WORKS(cudaStreamAddCallback(s, callback, letter('c'), 0), "behind the function");
    say_order("none yet");
    hold_end();
    say_order("then both");
    WORKS(cudaEventQuery(e), "then");
    WAITS(s, , cudaStreamAddCallback(s, callback, letter('d'), 0), "behind a function");
    WAITS(s, , cudaStreamAddCallback(0, callback, letter('d'), 0), "legacy");
    WAITS(s, , cudaLaunchHostFunc(t, function, letter('d')), "another stream");
    MUST(cudaDeviceSynchronize());
    MUST(cudaEventDestroy(e));
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(t));
    MUST(cudaFree(memory));
    written = 0;
}

/* ---- two threads, one stream ---- */

enum { EACH = 60 };
static cudaStream_t shared;
static void *giver(void *of)
{
    for (int i = 0; i < EACH; i++)
        MUST(cudaLaunchHostFunc(shared, function, letter((char)(*(char *)of + i))));
    return NULL;
}
static void threads()
{
    pthread_t one, two;
    char low = 1, high = 1 + EACH, next_low = low, next_high = high;
    MUST(cudaStreamCreate(&shared));
    pthread_create(&one, NULL, giver, &low);
    pthread_create(&two, NULL, giver, &high);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    WORKS(cudaStreamSynchronize(shared), "functions of two threads");
    bool in_order = written == 2 * EACH;
    for (int i = 0; i < written; i++)
        in_order = in_order && (order[i] < high ? order[i] == next_low++ : order[i] == next_high++);
    VALUE("each thread's in order", "%d", in_order);
    written = 0;
    MUST(cudaStreamDestroy(shared));
}

/* ---- while a stream is captured ---- */

static void captured()
{
    cudaStream_t s;
    cudaGraph_t g = NULL;
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    WORKS(cudaLaunchHostFunc(s, function, letter('k')), "captured");
    SAYS(cudaStreamAddCallback(s, callback, letter('l'), 0), "captured");
    SAYS(cudaLaunchHostFunc(s, function, letter('m')), "behind it");
    SAYS(cudaStreamEndCapture(s, &g), "then");
    VALUE("a graph", "%d", g != NULL);
    say_order("while captured");
    WORKS(cudaStreamAddCallback(s, callback, letter('n'), 0), "not captured any more");
    WORKS(cudaStreamSynchronize(s), "it");
    say_order("then");
    MUST(cudaStreamDestroy(s));
}

/* ---- behind a fault: a process of its own ---- */

static void CUDART_CB notes_status(cudaStream_t, cudaError_t status, void *letter)
{
    note((char)(uintptr_t)letter);
    note(status == cudaSuccess ? '.' : status == cudaErrorIllegalAddress ? '!' : '?');
}

static void behind_a_fault()
{
    cudaStream_t s, t;
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreate(&t));
    MUST(cudaStreamAddCallback(s, notes_status, letter('a'), 0));
    MUST(cudaLaunchHostFunc(s, function, letter('b')));
    faulty<<<1, 1, 0, s>>>((int *)0x100);
    SAYS(cudaStreamSynchronize(s), "the fault");
    SAYS(cudaLaunchHostFunc(s, function, letter('c')), "behind the fault");
    SAYS(cudaStreamAddCallback(s, notes_status, letter('d'), 0), "behind the fault");
    SAYS(cudaLaunchHostFunc(t, function, letter('e')), "another stream, behind the fault");
    SAYS(cudaDeviceSynchronize(), "behind the fault");
    say_order("before the fault");
}

/* A callback is called behind a fault, too, and hears of it; a function is not called. The stream may be over for
   others before the callback has run. */
static void in_front_of_a_fault()
{
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    hold_begin(s, 100000);
    faulty<<<1, 1, 0, s>>>((int *)0x100);
    MUST(cudaLaunchHostFunc(s, function, letter('a')));
    MUST(cudaStreamAddCallback(s, notes_status, letter('b'), 0));
    hold_let_go();
    SAYS(cudaStreamSynchronize(s), "the fault");
    SAYS(cudaDeviceSynchronize(), "behind the fault");
    for (int i = 0; i < 1000 && !__atomic_load_n(&written, __ATOMIC_ACQUIRE); i++)
        usleep(10000);
    say_order("given before the fault");
}

int main()
{
    in_child(behind_a_fault);
    in_child(in_front_of_a_fault);
    MUST(cudaFree(0));
    usual();
    calls();
    waits();
    threads();
    captured();
    return 0;
}
