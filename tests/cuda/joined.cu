// shows: order: what is put into an idle blocking stream waits for the legacy stream, and the other way round: kernels,
//   sets, copies of every kind of memory, host functions, callbacks, events
// shows: order: thousands of launches that wait for their turn on the server come before the legacy stream's work
//   behind them, and the other way round
// shows: order: a copy from host to host, also an "asynchronous" one, has been done when it returns, and comes behind
//   its stream
//
// For each kind of operation: one stream is held by a kernel that spins on a flag and then writes 1; the operation, in
// the other stream, must come behind that, although its own stream has nothing to do. A thread lets the kernel go after
// a while, because some of the copies may wait, as natively.
#include "check.h"
#include <pthread.h>
#include <unistd.h>

__global__ void wait_then_write(volatile int *flag, int *p, int n)
{
    while (!*flag)
        __nanosleep(20000);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = 1;
}
__global__ void write_two(int *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = 2;
}

enum { WORDS = 40000, PITCH = 500 };
enum Way {
    KERNEL,
    SET,
    SET_2D,
    ON_DEVICE,
    BOX_ON_DEVICE,
    FROM_PAGEABLE,
    FROM_PINNED,
    FROM_REGISTERED,
    BOX_FROM_PAGEABLE,
    BOX_FROM_PINNED,
    BOX_FROM_REGISTERED,
    TO_PAGEABLE,
    TO_PINNED,
    TO_REGISTERED,
    BOX_TO_PAGEABLE,
    BOX_TO_PINNED,
    BOX_TO_REGISTERED,
    HOST_FUNCTION,
    CALLBACK,
    EVENT,
    SYMBOL,
    WAYS
};
static const char *const names[] = { "kernel",
                                     "memset",
                                     "memset 2D",
                                     "on the device",
                                     "box on the device",
                                     "from pageable",
                                     "from pinned",
                                     "from registered",
                                     "box from pageable",
                                     "box from pinned",
                                     "box from registered",
                                     "to pageable",
                                     "to pinned",
                                     "to registered",
                                     "box to pageable",
                                     "box to pinned",
                                     "box to registered",
                                     "host function",
                                     "callback",
                                     "event",
                                     "symbol" };

__device__ int variable[WORDS];
static int *device, *twos, *flag, *pinned, *registered, *pageable, released, ran, ran_early;
static cudaStream_t free_stream;

static void *release(void *)
{
    int one = 1;
    usleep(3000);
    __atomic_store_n(&released, 1, __ATOMIC_SEQ_CST);
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, free_stream));
    MUST(cudaStreamSynchronize(free_stream));
    return NULL;
}

static void run(void *)
{
    ran++;
    ran_early += !__atomic_load_n(&released, __ATOMIC_SEQ_CST);
}
static void CUDART_CB run_function(void *data) { run(data); }
static void CUDART_CB run_callback(cudaStream_t, cudaError_t, void *data) { run(data); }

static void fill(int *p, int value)
{
    for (int i = 0; i < WORDS; i++)
        p[i] = value;
}

static void all_are(const int *p, int n, int value, const char *what, const char *which)
{
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += p[i] != value;
    if (wrong) {
        fprintf(stderr, "%s, %s: %d of %d words are not %d\n", what, which, wrong, n, value);
        check_failures++;
    }
}

// `primed`: the second stream has had work, which is over.
static void order(Way way, cudaStream_t first, cudaStream_t second, bool primed, int n, const char *which)
{
    pthread_t thread;
    cudaEvent_t event;
    int *source = way == FROM_PINNED || way == BOX_FROM_PINNED           ? pinned
                  : way == FROM_REGISTERED || way == BOX_FROM_REGISTERED ? registered
                                                                         : pageable;
    int *target = way == TO_PINNED || way == BOX_TO_PINNED           ? pinned
                  : way == TO_REGISTERED || way == BOX_TO_REGISTERED ? registered
                                                                     : pageable;
    int *p = device, width = n < PITCH ? n : PITCH - 10, rows = n / PITCH ? n / PITCH : 1;
    released = ran = ran_early = 0;
    MUST(cudaMemset(flag, 0, sizeof *flag));
    MUST(cudaMemset(device, 0, WORDS * sizeof(int)));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (way == SYMBOL)
        MUST(cudaGetSymbolAddress((void **)&p, variable));
    if (primed)
        write_two<<<1, 32, 0, second>>>(twos, WORDS);
    MUST(cudaDeviceSynchronize());
    fill(pageable, 2);
    fill(pinned, 2);
    fill(registered, 2);
    wait_then_write<<<1, 64, 0, first>>>(flag, p, WORDS);
    pthread_create(&thread, NULL, release, NULL);
    switch (way) {
    case KERNEL: write_two<<<1, 64, 0, second>>>(p, n); break;
    case SET: MUST(cudaMemsetAsync(p, 2, n * sizeof(int), second)); break;
    case SET_2D: MUST(cudaMemset2DAsync(p, PITCH * sizeof(int), 2, width * sizeof(int), rows, second)); break;
    case ON_DEVICE: MUST(cudaMemcpyAsync(p, twos, n * sizeof(int), cudaMemcpyDeviceToDevice, second)); break;
    case BOX_ON_DEVICE:
        MUST(cudaMemcpy2DAsync(p, PITCH * sizeof(int), twos, PITCH * sizeof(int), width * sizeof(int), rows,
                               cudaMemcpyDeviceToDevice, second));
        break;
    case FROM_PAGEABLE: case FROM_PINNED: case FROM_REGISTERED:
        MUST(cudaMemcpyAsync(p, source, n * sizeof(int), cudaMemcpyHostToDevice, second));
        break;
    case BOX_FROM_PAGEABLE: case BOX_FROM_PINNED: case BOX_FROM_REGISTERED:
        MUST(cudaMemcpy2DAsync(p, PITCH * sizeof(int), source, PITCH * sizeof(int), width * sizeof(int), rows,
                               cudaMemcpyHostToDevice, second));
        break;
    case TO_PAGEABLE: case TO_PINNED: case TO_REGISTERED:
        MUST(cudaMemcpyAsync(target, p, n * sizeof(int), cudaMemcpyDeviceToHost, second));
        break;
    case BOX_TO_PAGEABLE: case BOX_TO_PINNED: case BOX_TO_REGISTERED:
        MUST(cudaMemcpy2DAsync(target, PITCH * sizeof(int), p, PITCH * sizeof(int), width * sizeof(int), rows,
                               cudaMemcpyDeviceToHost, second));
        break;
    case HOST_FUNCTION: MUST(cudaLaunchHostFunc(second, run_function, NULL)); break;
    case CALLBACK: MUST(cudaStreamAddCallback(second, run_callback, NULL, 0)); break;
    case EVENT:
        MUST(cudaEventRecord(event, second));
        while (cudaEventQuery(event) == cudaErrorNotReady)
            ;
        run(NULL);
        break;
    case SYMBOL:
        MUST(cudaMemcpyToSymbolAsync(variable, pageable, n * sizeof(int), 0, cudaMemcpyHostToDevice, second));
        break;
    default: break;
    }
    pthread_join(thread, NULL);
    MUST(cudaDeviceSynchronize());
    if (way >= TO_PAGEABLE && way <= BOX_TO_REGISTERED) {
        for (int y = 0; y < (way >= BOX_TO_PAGEABLE ? rows : 1); y++)
            all_are(target + y * PITCH, way >= BOX_TO_PAGEABLE ? width : n, 1, names[way], which);
    } else if (way == HOST_FUNCTION || way == CALLBACK || way == EVENT) {
        if (ran_early || ran != 1) {
            fprintf(stderr, "%s, %s: ran %d times, %d too early\n", names[way], which, ran, ran_early);
            check_failures++;
        }
    } else {
        static int seen[WORDS];
        bool boxed = way == SET_2D || way == BOX_ON_DEVICE || (way >= BOX_FROM_PAGEABLE && way <= BOX_FROM_REGISTERED);
        MUST(cudaMemcpy(seen, p, sizeof seen, cudaMemcpyDeviceToHost));
        for (int y = 0; y < (boxed ? rows : 1); y++)
            all_are(seen + y * PITCH, boxed ? width : n, way == SET || way == SET_2D ? 0x02020202 : 2, names[way],
                    which);
    }
    MUST(cudaEventDestroy(event));
}

// A host function of one stream changes what a copy of the other has brought, or is to take.
static void CUDART_CB plus_one(void *data)
{
    int *p = (int *)data;
    usleep(500);
    for (int i = 0; i < WORDS; i++)
        p[i]++;
}

static void chain(cudaStream_t a, cudaStream_t b, int *host, const char *which)
{
    static int seen[WORDS];
    MUST(cudaMemset(device, 0, WORDS * sizeof(int)));
    MUST(cudaDeviceSynchronize());
    fill(host, 0);
    int expected = 0;
    for (int round = 0; round < 8; round++) {
        cudaStream_t s = round % 2 ? a : b, t = round % 2 ? b : a;
        MUST(cudaMemcpyAsync(host, device, WORDS * sizeof(int), cudaMemcpyDeviceToHost, s));
        MUST(cudaLaunchHostFunc(t, plus_one, host));
        MUST(cudaMemcpyAsync(device, host, WORDS * sizeof(int), cudaMemcpyHostToDevice, s));
        MUST(cudaLaunchHostFunc(t, plus_one, host));
        MUST(cudaMemcpyAsync(device, host, WORDS * sizeof(int), cudaMemcpyHostToDevice, t));
        expected += 2;
    }
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(seen, device, sizeof seen, cudaMemcpyDeviceToHost));
    all_are(seen, WORDS, expected, "chain", which);
}

// More than a driver takes at once: what waits elsewhere for its turn keeps its place before the other stream's work.
__global__ void count_up(int *p) { atomicAdd(p, 1); }

static int issued;
static void *release_when_issued(void *)
{
    for (int i = 0; i < 300 && !__atomic_load_n(&issued, __ATOMIC_SEQ_CST); i++)
        usleep(1000);                                    // natively a launch may wait: then it is let go all the same
    return release(NULL);
}

static void behind_many(cudaStream_t first, cudaStream_t second, const char *which)
{
    enum { LAUNCHES = 3000 };
    pthread_t thread;
    issued = 0;
    MUST(cudaMemset(flag, 0, sizeof *flag));
    MUST(cudaMemset(device, 0, WORDS * sizeof(int)));
    MUST(cudaDeviceSynchronize());
    pinned[0] = -1;
    wait_then_write<<<1, 1, 0, first>>>(flag, device + 1, 1);
    pthread_create(&thread, NULL, release_when_issued, NULL);
    for (int i = 0; i < LAUNCHES; i++)
        count_up<<<1, 1, 0, first>>>(device);
    MUST(cudaMemcpyAsync(pinned, device, sizeof *pinned, cudaMemcpyDeviceToHost, second));
    __atomic_store_n(&issued, 1, __ATOMIC_SEQ_CST);
    MUST(cudaStreamSynchronize(second));
    if (pinned[0] != LAUNCHES) {
        fprintf(stderr, "%s: a copy behind %d launches sees %d of them\n", which, LAUNCHES, pinned[0]);
        check_failures++;
    }
    pthread_join(thread, NULL);
    MUST(cudaDeviceSynchronize());
}

static void host_to_host(cudaStream_t stream, int *to, int *from, const char *which)
{
    pthread_t thread;
    released = ran = ran_early = 0;
    MUST(cudaMemset(flag, 0, sizeof *flag));
    MUST(cudaMemset(device, 0, WORDS * sizeof(int)));
    MUST(cudaDeviceSynchronize());
    fill(pinned, 5);
    fill(registered, 5);
    fill(pageable, 5);
    fill(to, 0);
    wait_then_write<<<1, 64, 0, stream>>>(flag, device, WORDS);
    MUST(cudaLaunchHostFunc(stream, run_function, NULL));
    pthread_create(&thread, NULL, release, NULL);
    MUST(cudaMemcpyAsync(to, from, WORDS * sizeof(int), cudaMemcpyHostToHost, stream));
    HOLDS(ran == 1 && !ran_early);                       // what was before it in its stream is over
    all_are(to, WORDS, 5, "host to host", which);
    fill(from, 6);                                       // taken
    MUST(cudaStreamSynchronize(stream));
    all_are(to, WORDS, 5, "host to host, later", which);
    pthread_join(thread, NULL);
}

int main()
{
    cudaStream_t blocking;
    int *whole;
    MUST(cudaMalloc((void **)&device, WORDS * sizeof(int)));
    MUST(cudaMalloc((void **)&twos, WORDS * sizeof(int)));
    MUST(cudaMalloc((void **)&flag, sizeof(int)));
    MUST(cudaMallocHost((void **)&pinned, WORDS * sizeof(int)));
    whole = (int *)malloc((WORDS + 1000) * sizeof(int));
    registered = whole + 77;
    MUST(cudaHostRegister(registered, WORDS * sizeof(int), 0));
    pageable = (int *)malloc(WORDS * sizeof(int));
    MUST(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
    write_two<<<1, 64>>>(twos, WORDS);
    MUST(cudaDeviceSynchronize());
    for (int way = 0; way < WAYS; way++)
        for (int n : {7, 5000, (int)WORDS}) {
            MUST(cudaStreamCreate(&blocking));
            order((Way)way, 0, blocking, false, n, "legacy, then a new blocking stream");
            order((Way)way, 0, blocking, true, n, "legacy, then a blocking stream");
            order((Way)way, blocking, 0, true, n, "a blocking stream, then legacy");
            order((Way)way, cudaStreamPerThread, cudaStreamLegacy, true, n, "the per-thread stream, then legacy");
            order((Way)way, cudaStreamLegacy, cudaStreamPerThread, true, n, "legacy, then the per-thread stream");
            MUST(cudaStreamDestroy(blocking));
        }
    MUST(cudaStreamCreate(&blocking));
    for (int *host : {pinned, registered}) {
        chain(0, blocking, host, host == pinned ? "pinned" : "registered");
        chain(cudaStreamPerThread, 0, host, host == pinned ? "pinned, per thread" : "registered, per thread");
    }
    behind_many(blocking, 0, "a blocking stream, then legacy");
    behind_many(0, blocking, "legacy, then a blocking stream");
    behind_many(cudaStreamPerThread, 0, "the per-thread stream, then legacy");
    host_to_host(blocking, pageable, pinned, "pinned to pageable");
    host_to_host(blocking, pinned, registered, "registered to pinned");
    host_to_host(0, registered, pageable, "pageable to registered");
    MUST(cudaHostUnregister(registered));
    free(whole);
    free(pageable);
    MUST(cudaFreeHost(pinned));
    MUST(cudaStreamDestroy(blocking));
    return check_result("joined");
}
