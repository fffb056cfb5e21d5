// shows: life and death: whatever a program queues behind a kernel of seconds waits, and then succeeds: copies,
//   launches, events, threads
//
//     backlog SECONDS SHARE WHAT...
//
// A stream stands still for SECONDS, behind a kernel or a host function of the program. Meanwhile the program gives it
// SHARE (1: all) of each WHAT; every result is checked.
#include "../cuda/check.h"
#include "../cuda/passing.h"
#include "../lib/now.h"
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vector>

static double seconds = 0.2, share = 1;
static cudaStream_t stream;                       /* waits for no other, and no other for it */
static cudaStream_t other;

struct big { unsigned words[750]; };              /* 3,000 bytes of parameters */

__global__ void run_for(unsigned long long ns) { pass(ns, 100000); }

__global__ void wait_for(volatile unsigned *flag)
{
    while (!*flag)
        __nanosleep(100000);
}

__global__ void count(unsigned *counter)
{
    ++*counter;
}

__global__ void count_big(unsigned *counter, big parameters)
{
    *counter += parameters.words[0] + parameters.words[749];
}

static size_t part(size_t all)
{
    size_t some = (size_t)((double)all * share);
    return some ? some : 1;
}

static void hold(cudaStream_t held = stream)
{
    run_for<<<1, 1, 0, held>>>((unsigned long long)(seconds * 1e9));
    MUST(cudaGetLastError());
}

static unsigned *new_counter()
{
    unsigned *counter;
    MUST(cudaMalloc(&counter, sizeof *counter));
    MUST(cudaMemset(counter, 0, sizeof *counter));
    MUST(cudaDeviceSynchronize());
    return counter;
}

static void counted(unsigned *counter, size_t expected)
{
    unsigned value = 0;
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
    HOLDS(value == expected);
    MUST(cudaFree(counter));
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 2654435761u >> 13);
}

static void fill(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(i);
}

static void holds_pattern(const unsigned char *bytes, size_t size)
{
    size_t wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong += bytes[i] != byte_at(i);
    HOLDS(wrong == 0);
}

/* One synchronous copy of pageable memory, as the issue of the day had it: the default stream, the default way. */
static void one_copy()
{
    size_t size = part(256u << 20);
    std::vector<unsigned char> bytes(size);
    unsigned char *device;
    fill(bytes.data(), size);
    MUST(cudaMalloc(&device, size));
    hold(cudaStreamLegacy);
    MUST(cudaMemcpy(device, bytes.data(), size, cudaMemcpyHostToDevice));
    memset(bytes.data(), 0, size);
    hold(cudaStreamLegacy);
    MUST(cudaMemcpy(bytes.data(), device, size, cudaMemcpyDeviceToHost));
    holds_pattern(bytes.data(), size);
    MUST(cudaFree(device));
}

static void asynchronous_copies(bool pinned)
{
    size_t size = 4 << 20, number = part(48);
    unsigned char *bytes, *device;
    if (pinned)
        MUST(cudaMallocHost(&bytes, size * number));
    else
        MUST((bytes = (unsigned char *)malloc(size * number)) ? cudaSuccess : cudaErrorMemoryAllocation);
    fill(bytes, size * number);
    MUST(cudaMalloc(&device, size * number));
    hold();
    for (size_t i = 0; i < number; i++)
        MUST(cudaMemcpyAsync(device + i * size, bytes + i * size, size, cudaMemcpyHostToDevice, stream));
    MUST(cudaStreamSynchronize(stream));
    memset(bytes, 0, size * number);
    hold();
    for (size_t i = 0; i < number; i++)
        MUST(cudaMemcpyAsync(bytes + i * size, device + i * size, size, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    holds_pattern(bytes, size * number);
    MUST(cudaFree(device));
    if (pinned)
        MUST(cudaFreeHost(bytes));
    else
        free(bytes);
}

static void small_copies()
{
    size_t size = 60000, number = part(3000);
    std::vector<unsigned char> bytes(size * number);
    unsigned char *device;
    fill(bytes.data(), bytes.size());
    MUST(cudaMalloc(&device, bytes.size()));
    hold();
    for (size_t i = 0; i < number; i++)
        MUST(cudaMemcpyAsync(device + i * size, bytes.data() + i * size, size, cudaMemcpyHostToDevice, stream));
    MUST(cudaStreamSynchronize(stream));
    memset(bytes.data(), 0, bytes.size());
    MUST(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost));
    holds_pattern(bytes.data(), bytes.size());
    MUST(cudaFree(device));
}

static void launches()
{
    size_t number = part(150000);
    unsigned *counter = new_counter();
    hold();
    for (size_t i = 0; i < number; i++)
        count<<<1, 1, 0, stream>>>(counter);
    MUST(cudaGetLastError());
    counted(counter, number);
}

static void big_launches()
{
    size_t number = part(60000);
    unsigned *counter = new_counter();
    big parameters = {};
    hold();
    for (size_t i = 0; i < number; i++) {
        parameters.words[0] = parameters.words[749] = (unsigned)i % 3;
        count_big<<<1, 1, 0, stream>>>(counter, parameters);
    }
    MUST(cudaGetLastError());
    counted(counter, 2 * (number / 3 * 3 + (number % 3 == 2)));
}

static void events()
{
    size_t number = part(150000);
    std::vector<cudaEvent_t> some(1000);
    for (cudaEvent_t &event : some)
        MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    hold();
    for (size_t i = 0; i < number; i++)
        MUST(cudaEventRecord(some[i % some.size()], stream));
    GIVES(cudaErrorNotReady, seconds > 2 && share < 1 ? cudaEventQuery(some[0]) : cudaErrorNotReady);
    for (cudaEvent_t &event : some) {
        MUST(cudaEventSynchronize(event));
        MUST(cudaEventDestroy(event));
    }
}

static void sleep_here(void *)
{
    usleep((useconds_t)(seconds * 1e6));
}

static void behind_a_host_function()
{
    size_t number = part(150000), size = part(128u << 20);
    unsigned *counter = new_counter();
    std::vector<unsigned char> bytes(size);
    unsigned char *device;
    fill(bytes.data(), size);
    MUST(cudaMalloc(&device, size));
    MUST(cudaLaunchHostFunc(stream, sleep_here, NULL));
    for (size_t i = 0; i < number; i++)
        count<<<1, 1, 0, stream>>>(counter);
    MUST(cudaMemcpyAsync(device, bytes.data(), size, cudaMemcpyHostToDevice, stream));
    counted(counter, number);
    memset(bytes.data(), 0, size);
    MUST(cudaMemcpy(bytes.data(), device, size, cudaMemcpyDeviceToHost));
    holds_pattern(bytes.data(), size);
    MUST(cudaFree(device));
}

/* A second thread works on a stream of its own while the first one's stream stands still, with all that it takes queued
 * behind it. */
struct worker { unsigned *counter; unsigned char *device; bool stop; unsigned rounds; double longest; };

static void *work_beside(void *argument)
{
    worker *mine = (worker *)argument;
    unsigned value = 0;
    std::vector<unsigned char> bytes(1 << 20), back(1 << 20);
    while (!__atomic_load_n(&mine->stop, __ATOMIC_RELAXED)) {
        double began = now_s();
        count<<<1, 1, 0, other>>>(mine->counter);
        bytes[0]++;
        MUST(cudaMemcpyAsync(mine->device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, other));
        MUST(cudaMemcpyAsync(back.data(), mine->device, bytes.size(), cudaMemcpyDeviceToHost, other));
        MUST(cudaMemcpyAsync(&value, mine->counter, sizeof value, cudaMemcpyDeviceToHost, other));
        MUST(cudaStreamSynchronize(other));
        HOLDS(value == ++mine->rounds && back == bytes);
        if (now_s() - began > mine->longest)
            mine->longest = now_s() - began;
    }
    return NULL;
}

static void second_thread()
{
    size_t number = part(150000);
    unsigned *counter = new_counter();
    worker beside = {};
    pthread_t thread;
    beside.counter = new_counter();
    MUST(cudaMalloc(&beside.device, 1 << 20));
    MUST(pthread_create(&thread, NULL, work_beside, &beside) ? cudaErrorUnknown : cudaSuccess);
    hold();
    for (size_t i = 0; i < number; i++)
        count<<<1, 1, 0, stream>>>(counter);
    counted(counter, number);
    __atomic_store_n(&beside.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    printf("beside: %u rounds, the longest took %.2f s\n", beside.rounds, beside.longest);
    HOLDS(beside.rounds > 0);
}

/* What ends the kernel comes from another thread, when the first one has long been waiting for room. */
static void *release_later(void *argument)
{
    unsigned one = 1;
    usleep((useconds_t)(seconds * 1e6));
    MUST(cudaMemcpyAsync(argument, &one, sizeof one, cudaMemcpyHostToDevice, other));
    MUST(cudaStreamSynchronize(other));
    return NULL;
}

static void released_by_another()
{
    size_t number = part(300000);
    unsigned *counter = new_counter(), *flag = new_counter();
    pthread_t thread;
    wait_for<<<1, 1, 0, stream>>>(flag);
    MUST(pthread_create(&thread, NULL, release_later, flag) ? cudaErrorUnknown : cudaSuccess);
    for (size_t i = 0; i < number; i++)
        count<<<1, 1, 0, stream>>>(counter);
    counted(counter, number);
    pthread_join(thread, NULL);
    MUST(cudaFree(flag));
}

static void pageable() { asynchronous_copies(false); }
static void pinned() { asynchronous_copies(true); }

static const struct { const char *name; void (*run)();
} cases[] = {
    { "copy", one_copy },        { "pageable", pageable },
    { "pinned", pinned },        { "small", small_copies },
    { "launches", launches },    { "parameters", big_launches },
    { "events", events },        { "host", behind_a_host_function },
    { "thread", second_thread }, { "released", released_by_another },
};

int main(int argc, char **argv)
{
    if (argc > 1)
        seconds = atof(argv[1]);
    if (argc > 2)
        share = atof(argv[2]);
    else
        share = 0.02;                             /* without arguments: only that all of it works */
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (const auto &one : cases) {
        bool wanted = argc <= 3;
        for (int i = 3; i < argc; i++)
            wanted |= strcmp(argv[i], one.name) == 0;
        if (!wanted)
            continue;
        double began = now_s();
        one.run();
        printf("%s: %.2f s\n", one.name, now_s() - began);
        fflush(stdout);
    }
    return check_result("backlog");
}
