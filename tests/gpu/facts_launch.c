/* facts_launch.c: errors, launches, streams and captures. See facts.c. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

static void sticky_in_process(void)
{
    CUcontext second = NULL;
    start();
    launch(kernel("touch"), 1, 1, NULL, 0);
    CUresult fault = synchronize();
    CALL(cuDevicePrimaryCtxReset_v2, (CUdevice), device);
    CUresult after_reset = CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &second, device);
    CUdeviceptr p;
    CUresult alloc = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, 64);
    printf("fault gives %d; after a reset of the primary context: retain %d, allocation %d", fault, after_reset, alloc);
}

static void sticky_other_process(void)
{
    pid_t child = fork();       /* before cuInit */
    if (child == 0) {
        start();
        launch(kernel("touch"), 1, 1, NULL, 0);
        synchronize();
        _exit(0);
    }
    start();
    CUdeviceptr p = allocate(64);
    waitpid(child, NULL, 0);
    CUresult result = launch(kernel("touch"), 1, 1, NULL, p);
    printf("while another process faults: launch %d, synchronise %d", result, synchronize());
}

static void trap_code(void)
{
    start();
    launch(kernel("stop"), 1, 1, NULL, 0);
    printf("trap gives %d", synchronize());
}

static void launch_bounds_code(void)
{
    start();
    printf("128 threads for .maxntid 64: %d; 2048 threads: %d; grid 0: %d", launch(kernel("few"), 1, 128, NULL, 0),
           launch(kernel("touch"), 1, 2048, NULL, 0), launch(kernel("touch"), 0, 1, NULL, 0));
}

static void launches_until_blocked(void)
{
    start();
    CUdeviceptr flag = allocate(64), p = allocate(64);
    CUstream stream = new_stream();
    CUfunction touch = kernel("touch");
    NEED(launch(kernel("wait"), 1, 1, stream, flag));
    for (int count = 0; count < 20000; count++) {
        /* A launch that blocks does so for ever: what is printed until then is the answer. */
        if (count % 50 == 0 && count >= 900) {
            printf("%s%d", count == 900 ? "launches made behind a running kernel: " : " ", count);
            fflush(stdout);
        }
        if (count == 2000) {
            store(flag, 1);
            printf("; none blocked");
            return;
        }
        NEED(launch(touch, 1, 1, stream, p));
    }
}

static void *allocate_elsewhere(void *result)
{
    CUdeviceptr p;
    CALL(cuCtxSetCurrent, (CUcontext), context);
    *(CUresult *)result = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, 64);
    return NULL;
}

static void capture_and_another_thread(void)
{
    static const char *const modes[] = {"global", "thread-local", "relaxed"};
    start();
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = new_stream();
        CUgraph graph = NULL;
        CUresult other = 0;
        pthread_t thread;
        NEED(CALL(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode), stream, (CUstreamCaptureMode)mode));
        pthread_create(&thread, NULL, allocate_elsewhere, &other);
        pthread_join(thread, NULL);
        printf("%s%s: allocation in another thread %d, end of capture %d", mode ? "; " : "", modes[mode], other,
               CALL(cuStreamEndCapture, (CUstream, CUgraph *), stream, &graph));
    }
}

static volatile int callback_runs;
static void count_run(void *unused)
{
    (void)unused;
    callback_runs++;
}

static void host_function_after_error(void)
{
    start();
    CUstream stream = new_stream();
    launch(kernel("touch"), 1, 1, stream, 0);
    CUresult queued = CALL(cuLaunchHostFunc, (CUstream, CUhostFn, void *), stream, count_run, NULL);
    CUresult synced = CALL(cuStreamSynchronize, (CUstream), stream);
    printf("host function behind a fault: queueing %d, synchronise %d, ran %d times", queued, synced, callback_runs);
}

static void wait_value_latency(void)
{
    start();
    uint32_t *flag;
    CUdeviceptr p;
    NEED(CALL(cuMemHostAlloc, (void **, size_t, unsigned), (void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(CALL(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned), &p, flag, 0));
    *flag = 0;
    CUstream stream = new_stream();
    CUresult result = CALL(cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, cuuint32_t, unsigned), stream, p, 1,
                           CU_STREAM_WAIT_VALUE_GEQ);
    if (result) {
        printf("cuStreamWaitValue32 on mapped host memory: %d", result);
        return;
    }
    usleep(50000);
    double t = now();
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    NEED(CALL(cuStreamSynchronize, (CUstream), stream));
    printf("a stream that waits for a value in host memory goes on %.0f us after it was written", (now() - t) * 1e6);
}

static void cooperative_launch(void)
{
    int supported = 0;
    start();
    CALL(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice), &supported,
         CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device);
    CUdeviceptr p = allocate(64);
    void *arguments[] = {&p};
    CUresult result =
        CALL(cuLaunchCooperativeKernel,
             (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **),
             kernel("touch"), 2, 1, 1, 32, 1, 1, 0, NULL, arguments);
    printf("cooperative launch: attribute %d, launch %d, synchronise %d", supported, result, synchronize());
}

/* A stream is held by a kernel: how many others do not wait for it? */
static void streams_beside(void)
{
    enum { STREAMS = 40 };
    CUstream all[STREAMS];
    start();
    CUfunction wait = kernel("wait"), touch = kernel("touch");
    CUdeviceptr flag = allocate(4), other = allocate(4);
    NEED(launch(touch, 1, 1, NULL, other));
    NEED(synchronize());
    for (int i = 0; i < STREAMS; i++)
        all[i] = new_stream();
    NEED(launch(wait, 1, 1, all[0], flag));
    for (int k = 0; k < 8; k++)
        NEED(launch(touch, 1, 1, all[0], other));
    for (int i = 1; i < STREAMS; i++)
        NEED(launch(touch, 1, 1, all[i], other));
    usleep(300000);
    int ended = 0;
    for (int i = 1; i < STREAMS; i++)
        ended += CALL(cuStreamQuery, (CUstream), all[i]) == CUDA_SUCCESS;
    printf("%d of %d have ended", ended, STREAMS - 1);
    CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream), flag, &(uint32_t){ 1 }, 4, all[1]);
    printf("; all %d", synchronize());
}

static void launch_time(void)
{
    enum { LAUNCHES = 20000 };
    start();
    CUdeviceptr p = allocate(64);
    CUfunction touch = kernel("touch");
    NEED(launch(touch, 1, 1, NULL, p));
    NEED(synchronize());
    double t = now();
    for (int i = 0; i < LAUNCHES; i++)
        NEED(launch(touch, 1, 1, NULL, p));
    double issued = now() - t;
    NEED(synchronize());
    double done = now() - t;
    t = now();
    for (int i = 0; i < 1000; i++) {
        NEED(launch(touch, 1, 1, NULL, p));
        NEED(synchronize());
    }
    printf("a launch takes %.2f us of the caller's time, %.2f us with its run; launch and synchronise %.1f us",
           issued / LAUNCHES * 1e6, done / LAUNCHES * 1e6, (now() - t) * 1e3);
}

const struct fact launch_facts[] = {
    {"sticky-in-process", sticky_in_process, "700 stays until the process ends"},
    {"sticky-other-process", sticky_other_process, "0, 0 without MPS"},
    {"trap-code", trap_code, "719"},
    {"launch-bounds-code", launch_bounds_code, "1 or 701; 1; 1"},
    {"launches-until-blocked", launches_until_blocked, "near 1,000; no answer within the limit means blocked"},
    {"capture-and-another-thread", capture_and_another_thread, "global: refused and invalidated; others: 0, 0"},
    {"host-function-after-error", host_function_after_error, "does not run"},
    {"wait-value-latency", wait_value_latency, "a few us"},
    {"cooperative-launch", cooperative_launch, "1, 0, 0, also under MPS"},
    {"streams-beside", streams_beside, "all"},
    {"launch-time", launch_time, "2 to 5 us"},
    {NULL, NULL, NULL},
};
