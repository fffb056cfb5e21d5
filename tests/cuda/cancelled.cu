// shows: a guest in the program: a thread that is cancelled inside a CUDA call ends behind it, and every later call
//   works; also the first call of the process, and with asynchronous cancellation
//
// With an argument: the first call of the process is cancelled.
#include "check.h"
#include "passing.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

__global__ void run_for(unsigned long long ns) { pass(ns, 20000); }

__global__ void bump(int *p) { ++*p; }
__global__ void first_use(int *p) { *p += 2; }
__global__ void says() { printf("a kernel prints\n"); }

/* The code that the compiler makes of <<<>>> cannot be ended in its middle: it has parts that exceptions must not
 * pass. */
static void launch(const void *kernel, const void *argument, cudaStream_t in = 0)
{
    void *arguments[] = {(void *)argument};
    cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, in);
}

static void launch_run_for(unsigned long long ns, cudaStream_t in = 0) { launch((const void *)run_for, &ns, in); }

/* What is printed is a cancellation point, and would not be seen. */
#undef GIVES
#define GIVES(expected, call) gives(__LINE__, expected, call)
static void gives(int line, cudaError_t expected, cudaError_t got)
{
    int before;
    if (got == expected)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    fprintf(stderr, "%s:%d: got %d (%s), expected %d\n", __FILE__, line, (int)got, cudaGetErrorName(got),
            (int)expected);
    check_failures++;
    pthread_setcancelstate(before, &before);
}

static const size_t LARGE = 8 << 20;
static const unsigned long long MS = 1000000;

static int *counter;
static char *device_room, *host_room, *pinned;
static cudaStream_t stream;
static cudaEvent_t event;
static int called, in_call;                 // written by other threads: with atomic built-ins, which may be cancelled

static void pause_ms(long ms)
{
    timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

static double now_ms()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void CUDART_CB host_function(void *) { __atomic_fetch_add(&called, 1, __ATOMIC_SEQ_CST); }

/* ---- what is done while a cancellation is pending, or comes ---- */

static void wait_for_device()
{
    launch_run_for(30 * MS, stream);
    GIVES(cudaSuccess, cudaDeviceSynchronize());
}

static void wait_for_stream()
{
    launch_run_for(30 * MS, stream);
    GIVES(cudaSuccess, cudaStreamSynchronize(stream));
}

static void wait_for_event()
{
    launch_run_for(30 * MS, stream);
    GIVES(cudaSuccess, cudaEventRecord(event, stream));
    GIVES(cudaSuccess, cudaEventSynchronize(event));
}

static void copy_out()
{
    launch_run_for(30 * MS);
    GIVES(cudaSuccess, cudaMemcpy(host_room, device_room, LARGE, cudaMemcpyDeviceToHost));
    GIVES(cudaSuccess, cudaMemcpyAsync(pinned, device_room, LARGE, cudaMemcpyDeviceToHost, stream));
    GIVES(cudaSuccess, cudaStreamSynchronize(stream));
}

static void copy_in()
{
    launch_run_for(30 * MS);
    GIVES(cudaSuccess, cudaMemcpy(device_room, host_room, LARGE, cudaMemcpyHostToDevice));
    GIVES(cudaSuccess, cudaMemcpyAsync(device_room, pinned, LARGE, cudaMemcpyHostToDevice, stream));
    GIVES(cudaSuccess, cudaMemcpy2D(device_room, 4096, host_room, 2048, 2000, 1000, cudaMemcpyHostToDevice));
    GIVES(cudaSuccess, cudaMemset(device_room, 0, LARGE));
}

/* More than any queue takes. (With chaos each launch is late by half a millisecond in the mean.) */
static void fill_the_queue()
{
    const int launches = getenv("FLYT_SOFTGPU_CHAOS") ? 2000 : 20000;
    launch_run_for(30 * MS, stream);
    for (int i = 0; i < launches; i++)
        launch((const void *)bump, &counter, stream);
    GIVES(cudaSuccess, cudaStreamSynchronize(stream));
}

static void manage()
{
    void *memory, *host;
    cudaStream_t other;
    cudaEvent_t another;
    size_t free_bytes, total;
    GIVES(cudaSuccess, cudaMalloc(&memory, 300 << 20));
    GIVES(cudaSuccess, cudaMallocHost(&host, 5 << 20));
    GIVES(cudaSuccess, cudaStreamCreate(&other));
    GIVES(cudaSuccess, cudaEventCreate(&another));
    const double launched = now_ms();
    launch_run_for(100 * MS, other);
    GIVES(cudaSuccess, cudaEventRecord(another, other));
    cudaError_t event_state = cudaEventQuery(another), stream_state = cudaStreamQuery(other);
    if (now_ms() < launched + 100) {          // on a busy machine the kernel may have ended
        GIVES(cudaErrorNotReady, event_state);
        GIVES(cudaErrorNotReady, stream_state);
    }
    GIVES(cudaSuccess, cudaStreamWaitEvent(stream, another, 0));
    GIVES(cudaSuccess, cudaMemGetInfo(&free_bytes, &total));
    GIVES(cudaSuccess, cudaStreamDestroy(other));
    GIVES(cudaSuccess, cudaEventDestroy(another));
    GIVES(cudaSuccess, cudaFreeHost(host));
    GIVES(cudaSuccess, cudaFree(memory));
}

static void call_back()
{
    int before = __atomic_load_n(&called, __ATOMIC_SEQ_CST);
    GIVES(cudaSuccess, cudaLaunchHostFunc(stream, host_function, NULL));
    GIVES(cudaSuccess, cudaStreamSynchronize(stream));
    HOLDS(__atomic_load_n(&called, __ATOMIC_SEQ_CST) == before + 1);
}

static void load_code()
{
    launch((const void *)first_use, &counter);
    GIVES(cudaSuccess, cudaGetLastError());
    GIVES(cudaSuccess, cudaDeviceSynchronize());
}

static void print()
{
    says<<<1, 1>>>();
    GIVES(cudaSuccess, cudaDeviceSynchronize());
    GIVES(cudaErrorNotSupported, cudaGraphicsUnmapResources(1, NULL, 0));      // says so on stderr
    cudaGetLastError();
}

static void (*const operations[])() = {wait_for_device, wait_for_stream, wait_for_event, copy_out, copy_in,
                                       fill_the_queue, manage, call_back, load_code, print};

/* ---- that the rest of the program goes on ---- */

static void goes_on()
{
    int before, after;
    MUST(cudaDeviceSynchronize());            // what the thread has begun
    MUST(cudaMemcpy(&before, counter, sizeof before, cudaMemcpyDeviceToHost));
    bump<<<1, 1>>>(counter);
    MUST(cudaMemcpy(&after, counter, sizeof after, cudaMemcpyDeviceToHost));
    HOLDS(after == before + 1);
    MUST(cudaDeviceSynchronize());
}

struct task { void (*operation)(); int type; bool pending, returned; };

static void *cancelled(void *context)
{
    task *mine = (task *)context;
    int before;
    if (mine->pending) {                      // so it ends at the first cancellation point that it comes to
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        pthread_cancel(pthread_self());
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    } else {
        pthread_setcanceltype(mine->type, &before);
    }
    __atomic_store_n(&in_call, 1, __ATOMIC_SEQ_CST);
    mine->operation();
    __atomic_store_n(&mine->returned, true, __ATOMIC_SEQ_CST);
    for (;;)
        pause_ms(1);                          // here it ends
    return NULL;
}

static void run(void (*operation)(), int type, bool pending, long after_ms, int number = -1)
{
    task mine = {operation, type, pending, false};
    pthread_t thread;
    void *result = NULL;
    in_call = 0;
    HOLDS(pthread_create(&thread, NULL, cancelled, &mine) == 0);
    if (!pending) {
        while (!__atomic_load_n(&in_call, __ATOMIC_SEQ_CST))
            pause_ms(1);
        pause_ms(after_ms);
        pthread_cancel(thread);
    }
    HOLDS(pthread_join(thread, &result) == 0);
    HOLDS(result == PTHREAD_CANCELED);
    if (pending && !mine.returned)
        fprintf(stderr, "operation %d has a cancellation point\n", number);
    HOLDS(!pending || mine.returned);
    goes_on();
}

/* Calls that never wait, over and over, until somebody ends the thread in the middle of one. */
static void short_calls()
{
    for (;;) {
        launch((const void *)bump, &counter, stream);
        cudaEventRecord(event, stream);
        cudaEventQuery(event);
        cudaMemsetAsync(device_room, 0, 64, stream);
        cudaStreamSynchronize(stream);
        pthread_testcancel();
    }
}

static void nothing(int) {}

static int first_call()
{
    task mine = {[] { MUST(cudaMalloc((void **)&counter, sizeof *counter)); }, 0, true, false};
    pthread_t thread;
    void *result = NULL;
    HOLDS(pthread_create(&thread, NULL, cancelled, &mine) == 0);
    HOLDS(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && mine.returned);
    MUST(cudaMemset(counter, 0, sizeof *counter));
    goes_on();
    return check_failures;
}

int main(int argc, char **argv)
{
    alarm(55);                                // a call that hangs is what this is about
    signal(SIGUSR1, nothing);
    if (argc > 1)
        return first_call();
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "cancelled", "first", (char *)NULL);
        _exit(101);
    }
    int status = -1;
    waitpid(child, &status, 0);
    HOLDS(status == 0);

    MUST(cudaMalloc((void **)&counter, sizeof *counter));
    MUST(cudaMemset(counter, 0, sizeof *counter));
    MUST(cudaMalloc((void **)&device_room, LARGE));
    MUST(cudaMallocHost((void **)&pinned, LARGE));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    host_room = (char *)calloc(1, LARGE);
    goes_on();
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        run(operations[i], PTHREAD_CANCEL_DEFERRED, true, 0, (int)i);
    for (int type : {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS})
        for (auto operation : {wait_for_device, wait_for_stream, wait_for_event, copy_out, copy_in, fill_the_queue})
            for (long after : {0l, 7l})
                run(operation, type, false, after);
    for (int i = 0; i < 50; i++)
        run(short_calls, i % 5 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, false, i % 4);
    return check_result("cancelled");
}
