//     stalls STATE SECONDS
//
// A program in a state of its connection, so that somebody can stop it, or its server, or cut the network, in just that
// state: says "ready" when it is there, goes on until a line comes on stdin, checks every result, and says "done".
// SECONDS: how long a kernel runs.
#include "../cuda/check.h"
#include "../cuda/passing.h"
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
#include <vector>

enum { SIZE = 24 << 20 };

static double seconds;
static cudaStream_t stream;
static unsigned char *device, *pageable, *pinned;
static unsigned *counter, counted;
static unsigned round_number;

__global__ void run_for(unsigned long long ns) { pass(ns, 100000); }

__global__ void count(unsigned *counter)
{
    ++*counter;
}

static unsigned char byte_at(size_t i, unsigned round)
{
    return (unsigned char)((i + round) * 2654435761u >> 13);
}

static void fill(unsigned char *bytes)
{
    round_number++;
    for (size_t i = 0; i < SIZE; i += 61)
        bytes[i] = byte_at(i, round_number);
}

static void holds_pattern(const unsigned char *bytes)
{
    size_t wrong = 0;
    for (size_t i = 0; i < SIZE; i += 61)
        wrong += bytes[i] != byte_at(i, round_number);
    HOLDS(wrong == 0);
}

static void hold()
{
    run_for<<<1, 1, 0, stream>>>((unsigned long long)(seconds * 1e9));
}

static void launch(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        count<<<1, 1, 0, stream>>>(counter);
    counted += times;
    MUST(cudaGetLastError());
}

static void check_counter()
{
    unsigned value = 0;
    MUST(cudaMemcpyAsync(&value, counter, sizeof value, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(value == counted);
}

/* ---- the states ---- */

static void idle()
{
    pollfd in = {0, POLLIN, 0};
    poll(&in, 1, -1);
    launch(1);
    check_counter();
}

/* One thread waits for a kernel. */
static void wait_for_kernel()
{
    hold();
    launch(1);
    check_counter();
}

/* One asks again and again whether it has ended. */
static void ask()
{
    hold();
    launch(1);
    while (cudaStreamQuery(stream) == cudaErrorNotReady)
        ;
    check_counter();
}

static void launches()
{
    launch(200);
    check_counter();
}

static void copy_in()
{
    fill(pageable);
    MUST(cudaMemcpy(device, pageable, SIZE, cudaMemcpyHostToDevice));
}

static void copy_in_end()
{
    memset(pageable, 0, SIZE);
    MUST(cudaMemcpy(pageable, device, SIZE, cudaMemcpyDeviceToHost));
    holds_pattern(pageable);
}

static void copy_out()
{
    MUST(cudaMemcpy(pageable, device, SIZE, cudaMemcpyDeviceToHost));
    holds_pattern(pageable);
}

static void copy_pinned()
{
    fill(pinned);
    MUST(cudaMemcpyAsync(device, pinned, SIZE, cudaMemcpyHostToDevice, stream));
    MUST(cudaStreamSynchronize(stream));
    memset(pinned, 0, SIZE);
    MUST(cudaMemcpyAsync(pinned, device, SIZE, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    holds_pattern(pinned);
}

/* Two writers of the connection: one is held up by what it has queued behind a kernel. */
static void backlog()
{
    hold();
    launch(150000);
    check_counter();
}

/* Answers that nobody reads while the program stands still: more of them than any buffer holds. */
static void copies_out_behind_kernel()
{
    hold();
    for (int i = 0; i < 8; i++)
        MUST(cudaMemcpyAsync(pinned, device, SIZE, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    holds_pattern(pinned);
}

static void count_here(void *user)
{
    ++*(unsigned *)user;
}

static void host_functions()
{
    unsigned here = 0;
    for (int i = 0; i < 20; i++) {
        MUST(cudaLaunchHostFunc(stream, count_here, &here));
        launch(1);
    }
    check_counter();
    HOLDS(here == 20);
}

static void memory()
{
    void *some[8];
    for (int i = 0; i < 8; i++)
        MUST(cudaMalloc(&some[i], (size_t)4 << 20));
    launch(1);
    for (int i = 0; i < 8; i++)
        MUST(cudaFree(some[i]));
    check_counter();
}

/* Several threads use the connection, one of them mostly to read it. */
static bool stop;

static void *work_beside(void *)
{
    cudaStream_t mine;
    unsigned *here, value, rounds = 0;
    MUST(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
    MUST(cudaMalloc(&here, sizeof *here));
    MUST(cudaMemsetAsync(here, 0, sizeof *here, mine));
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        count<<<1, 1, 0, mine>>>(here);
        MUST(cudaMemcpyAsync(&value, here, sizeof value, cudaMemcpyDeviceToHost, mine));
        MUST(cudaStreamSynchronize(mine));
        HOLDS(value == ++rounds);
    }
    return NULL;
}

static pthread_t beside[3];

static void threads()
{
    if (!beside[0])
        for (pthread_t &thread : beside)
            pthread_create(&thread, NULL, work_beside, NULL);
    copy_in();
    launches();
}

static void threads_end()
{
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (pthread_t thread : beside)
        pthread_join(thread, NULL);
    copy_in_end();
}

static const struct { const char *name; void (*run)(), (*end)(); bool once;
} states[] = {
    { "idle", idle, NULL, true },
    { "wait", wait_for_kernel, NULL, true },
    { "ask", ask, NULL, true },
    { "launch", launches },
    { "in", copy_in, copy_in_end },
    { "out", copy_out },
    { "pinned", copy_pinned },
    { "backlog", backlog, NULL, true },
    { "answers", copies_out_behind_kernel, NULL, true },
    { "host", host_functions },
    { "memory", memory },
    { "threads", threads, threads_end },
};

static bool told_to_end()
{
    pollfd in = {0, POLLIN, 0};
    return poll(&in, 1, 0) > 0;
}

static void say(const char *word)
{
    printf("%s\n", word);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    seconds = argc > 2 ? atof(argv[2]) : 1;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&device, SIZE));
    MUST(cudaMalloc(&counter, sizeof *counter));
    MUST(cudaMallocHost(&pinned, SIZE));
    pageable = (unsigned char *)malloc(SIZE);
    MUST(cudaMemset(counter, 0, sizeof *counter));
    fill(pageable);
    MUST(cudaMemcpy(device, pageable, SIZE, cudaMemcpyHostToDevice));
    launch(1);
    check_counter();
    for (const auto &state : states) {
        if (argc < 2 || strcmp(argv[1], state.name) != 0)
            continue;
        if (state.once)
            say("ready");
        state.run();
        if (!state.once)
            say("ready");
        while (!state.once && !told_to_end())
            state.run();
        if (state.end)
            state.end();
        if (check_result("stalls"))
            return 1;
        say("done");
        return 0;
    }
    fprintf(stderr, "stalls: no such state\n");
    return 2;
}
