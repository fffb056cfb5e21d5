// shows: waiting and order: who polls an event or a stream sees its end soon, and a fault of its kernel; who waits long
//   wakes soon
// shows: speed: over shared memory a program that polls an event sees its end within 20 us
// shows: life and death: a kernel that runs for seconds is waited for and polled without a time limit
//
// With an argument it measures: waiting N prints, for kernels of 0.1 ms to 1 s (N of each), how long after a kernel's
// end the call that waits for it returns. The kernel's end is by %globaltimer, which for the software GPU is the host's
// clock.
#include "check.h"
#include "passing.h"
#include <algorithm>
#include <time.h>
#include <vector>

__global__ void run_for(unsigned long long ns, unsigned long long *end)
{
    pass(ns, 20000);
    *end = device_ns();
}

/* Runs until release(). */
__global__ void held(volatile int *flag)
{
    while (*flag == 0)
        __nanosleep(20000);
}

static unsigned long long now(clockid_t clock = CLOCK_REALTIME)
{
    timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

enum Way { STREAM_SYNCHRONIZE, EVENT_SYNCHRONIZE, DEVICE_SYNCHRONIZE, POLL_EVENT, POLL_STREAM, WAYS };
static const char *const names[WAYS] = {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize",
                                        "cudaEventQuery", "cudaStreamQuery"};

static cudaStream_t stream, other;
static int *flag;
static cudaEvent_t event;
static unsigned long long *end;
static long polls;

static cudaError_t wait(Way way)
{
    cudaError_t error = cudaErrorUnknown;
    switch (way) {
    case STREAM_SYNCHRONIZE:
        return cudaStreamSynchronize(stream);
    case EVENT_SYNCHRONIZE:
        return cudaEventSynchronize(event);
    case DEVICE_SYNCHRONIZE:
        return cudaDeviceSynchronize();
    case POLL_EVENT:
        while ((error = cudaEventQuery(event)) == cudaErrorNotReady)
            polls++;
        return error;
    case POLL_STREAM:
        while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady)
            polls++;
        return error;
    default:
        return error;
    }
}

static void hold(cudaStream_t in)
{
    flag++;                                       /* each is used once */
    held<<<1, 1, 0, in>>>(flag);
}

static void release()
{
    int one = 1;
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, other));
}

/* Nanoseconds from the kernel's end to the return of the call that waited. */
static long long late(Way way, unsigned long long ns)
{
    unsigned long long ended;
    run_for<<<1, 1, 0, stream>>>(ns, end);
    MUST(cudaEventRecord(event, stream));
    MUST(wait(way));
    unsigned long long returned = now();
    MUST(cudaMemcpy(&ended, end, sizeof ended, cudaMemcpyDeviceToHost));
    return (long long)(returned - ended);
}

static void measure(int count)
{
    for (int way = 0; way < WAYS; way++)
        for (unsigned long long ns = 100000; ns <= 1000000000; ns *= 10) {
            std::vector<long long> found;
            polls = 0;
            unsigned long long cpu = now(CLOCK_PROCESS_CPUTIME_ID), wall = now();
            for (int i = 0; i < (ns >= 100000000 ? std::min(count, 5) : count); i++)
                found.push_back(late((Way)way, ns));
            cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
            wall = now() - wall;
            std::sort(found.begin(), found.end());
            printf("%-22s kernel %7.1f ms: returns after p50 %7.1f us, max %7.1f us; the program's CPU %3.0f %%\n",
                   names[way], ns / 1e6, found[found.size() / 2] / 1e3, found.back() / 1e3, 100.0 * cpu / wall);
        }
}

/* The bounds are for a busy machine with sanitizers; `measure` shows the real figures. */
static void returns_soon()
{
    for (int way = 0; way < WAYS; way++)
        for (unsigned long long ns = 100000; ns <= 100000000; ns *= 10) {
            unsigned long long best = ~0ull;
            /* more often where the machine is busy: a pause that is always there is in each of them */
            for (int i = 0; i < 5 || (i < 40 && best > 5000000); i++) {
                unsigned long long began = now(CLOCK_MONOTONIC);
                run_for<<<1, 1, 0, stream>>>(ns, end);
                MUST(cudaEventRecord(event, stream));
                MUST(wait((Way)way));
                best = std::min(best, now(CLOCK_MONOTONIC) - began - ns);
            }
            if (best > 5000000)
                fprintf(stderr, "%s returns %.1f ms after a kernel of %.1f ms at best\n", names[way], best / 1e6,
                        ns / 1e6);
            HOLDS(best <= 5000000);
        }
}

/* The best of many: the machine may be busy, but a pause anywhere on the way would be in each of them. */
static void seen_at_once()
{
    const char *server = getenv("FLYT_SERVER");
    if (!server || strncmp(server, "shm:", 4) != 0 || getenv("FLYT_SOFTGPU_CHAOS") || getenv("FLYT_PERF") ||
        getenv("ASAN_OPTIONS"))
        return;
    long long best = 1ll << 60;
    for (int i = 0; i < 1000 && best > 20000; i++)
        best = std::min(best, late(POLL_EVENT, 50000 + i % 10 * 10000));
    if (best > 20000)
        fprintf(stderr, "a program that polls an event sees its end %.1f us late at best\n", best / 1e3);
    HOLDS(best <= 20000);
}

/* An event that was found complete stays so, whatever is learnt elsewhere; a stream that waited for it proves it
 * too. */
static void never_behind()
{
    for (int i = 0; i < 200; i++) {
        run_for<<<1, 1, 0, stream>>>(20000, end);
        MUST(cudaEventRecord(event, stream));
        MUST(cudaStreamWaitEvent(other, event, 0));
        while (cudaStreamQuery(other) == cudaErrorNotReady)
            cudaEventQuery(event);
        GIVES(cudaSuccess, cudaEventQuery(event));
        GIVES(cudaSuccess, cudaStreamQuery(stream));
        GIVES(cudaSuccess, cudaEventQuery(event));
    }
    /* Nor is a new record complete because the old one was. */
    for (int i = 0; i < 20; i++) {
        hold(stream);
        MUST(cudaEventRecord(event, stream));
        GIVES(cudaErrorNotReady, cudaEventQuery(event));
        GIVES(cudaErrorNotReady, cudaEventQuery(event));
        GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
        release();
        MUST(cudaStreamSynchronize(stream));
        GIVES(cudaSuccess, cudaEventQuery(event));
        GIVES(cudaSuccess, cudaStreamQuery(stream));
    }
}

/* Streams come and go, so that their ids are used again: no new stream counts as finished by an old one's numbers. */
static void used_again()
{
    for (int i = 0; i < 60; i++) {
        cudaStream_t one;
        MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
        for (int k = 0; k < 30 - i % 7; k++)
            run_for<<<1, 1, 0, one>>>(0, end);
        hold(one);
        GIVES(cudaErrorNotReady, cudaStreamQuery(one));
        release();
        while (i % 2 && cudaStreamQuery(one) == cudaErrorNotReady)
            ;
        MUST(cudaStreamDestroy(one));
        MUST(cudaStreamSynchronize(stream));
        if (i % 3 == 0)
            MUST(cudaDeviceSynchronize());
    }
    MUST(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaMalloc(&end, sizeof *end));
    MUST(cudaMalloc(&flag, 200 * sizeof *flag));
    MUST(cudaMemset(flag, 0, 200 * sizeof *flag));
    MUST(cudaDeviceSynchronize());
    late(STREAM_SYNCHRONIZE, 1000);
    if (argc > 1) {
        measure(atoi(argv[1]));
        return 0;
    }
    returns_soon();
    seen_at_once();
    never_behind();
    used_again();
    late(POLL_EVENT, 2000000000);

    /* Last: its error stays. Polling must tell it, also when it has been told "not ready" before. */
    hold(stream);
    run_for<<<1, 1, 0, stream>>>(0, (unsigned long long *)16);
    MUST(cudaEventRecord(event, stream));
    for (int i = 0; i < 1000; i++)
        GIVES(cudaErrorNotReady, cudaEventQuery(event));
    release();
    GIVES(cudaErrorIllegalAddress, wait(POLL_EVENT));
    GIVES(cudaErrorIllegalAddress, wait(POLL_STREAM));
    return check_result("waiting");
}
