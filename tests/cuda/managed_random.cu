// shows: managed memory: random programs of kernels, copies, sets, host functions, graphs, attaching, prefetching and
//   accesses of the program agree with a model on the host
//
// The program keeps CUDA's rules for concurrentManagedAccess 0: it waits before it touches what work may use.
#include <vector>

#include "managed.h"
#include "../lib/dice.h"

enum { BUFFERS = 12, STREAMS = 3, NOBODY = -1, EVERYBODY = STREAMS, THE_HOST = STREAMS + 1 };

static unsigned long long seed;
static unsigned below(unsigned n) { return dice(&seed, n); }

struct buffer {
    unsigned *memory = NULL;
    std::vector<unsigned> model;
    int user = NOBODY;                        // the last stream with work on it
    int scope = EVERYBODY;
};

static buffer buffers[BUFFERS];
static cudaStream_t streams[STREAMS];
static cudaEvent_t events[STREAMS];
static bool busy[STREAMS];

__global__ void change(unsigned *a, size_t n, unsigned by)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] = a[i] * 3 + by;
}

__global__ void mix(unsigned *a, const unsigned *b, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] += b[i] ^ 5;
}

static void wait_for_all()
{
    MUST(cudaDeviceSynchronize());
    for (bool &b : busy)
        b = false;
}

// The program may touch it from here on.
static void settle(const buffer &b)
{
    if (b.scope == THE_HOST)
        return;
    if (b.scope == EVERYBODY) {
        for (int s = 0; s < STREAMS; s++)
            if (busy[s]) {
                wait_for_all();
                return;
            }
    } else if (busy[b.scope]) {
        MUST(cudaStreamSynchronize(streams[b.scope]));
        busy[b.scope] = false;
    }
}

// Some stream for work on it, or NOBODY. What other streams have done with it comes first.
static int stream_for(buffer &b)
{
    if (b.scope == THE_HOST)
        return NOBODY;
    int s = b.scope < STREAMS ? b.scope : (int)below(STREAMS);
    if (b.user != NOBODY && b.user != s) {
        MUST(cudaEventRecord(events[b.user], streams[b.user]));
        MUST(cudaStreamWaitEvent(streams[s], events[b.user], 0));
    }
    b.user = s;
    busy[s] = true;
    return s;
}

static void renew(buffer &b)
{
    wait_for_all();
    if (b.memory)
        MUST(cudaFree(b.memory));
    size_t n = below(2) ? 1 + below(2000) : 1 + below(200000);
    b = buffer();
    b.memory = managed<unsigned>(n);
    b.model.resize(n);
    for (size_t i = 0; i < n; i++)
        b.memory[i] = b.model[i] = below(1000);
}

static void part(const buffer &b, size_t *from, size_t *count)
{
    *from = below((unsigned)b.model.size());
    *count = 1 + below((unsigned)(b.model.size() - *from));
    if (below(3) == 0)
        *from = 0, *count = b.model.size();
}

static void touch(buffer &b, bool write)
{
    size_t from, count, step = 1 + below(3) * below(700);
    part(b, &from, &count);
    settle(b);
    for (size_t i = from; i < from + count; i += step) {
        if (b.memory[i] != b.model[i]) {
            fprintf(stderr, "buffer %d [%zu] is %u, not %u\n", (int)(&b - buffers), i, b.memory[i], b.model[i]);
            check_failures++;
            return;
        }
        if (write)
            b.memory[i] = b.model[i] = (unsigned)i * 7 + below(9);
    }
}

static void launch(buffer &b)
{
    size_t from, count;
    int s = stream_for(b);
    if (s == NOBODY)
        return;
    part(b, &from, &count);
    unsigned by = below(100);
    change<<<2, 128, 0, streams[s]>>>(b.memory + from, count, by);
    for (size_t i = from; i < from + count; i++)
        b.model[i] = b.model[i] * 3 + by;
}

static void launch_two(buffer &a, buffer &b)
{
    if (&a == &b || a.scope != EVERYBODY || b.scope != EVERYBODY)
        return;
    size_t n = a.model.size() < b.model.size() ? a.model.size() : b.model.size();
    int s = stream_for(a);
    if (b.user != NOBODY && b.user != s) {
        MUST(cudaEventRecord(events[b.user], streams[b.user]));
        MUST(cudaStreamWaitEvent(streams[s], events[b.user], 0));
    }
    b.user = s;
    if (below(2)) {
        mix<<<2, 128, 0, streams[s]>>>(a.memory, b.memory, n);
        for (size_t i = 0; i < n; i++)
            a.model[i] += b.model[i] ^ 5;
    } else {
        MUST(cudaMemcpyAsync(a.memory, b.memory, n * sizeof(unsigned), cudaMemcpyDefault, streams[s]));
        std::copy(b.model.begin(), b.model.begin() + n, a.model.begin());
    }
}

static void copy_in_or_out(buffer &b)
{
    size_t from, count;
    part(b, &from, &count);
    std::vector<unsigned> own(count);
    settle(b);
    if (below(2)) {
        for (size_t i = 0; i < count; i++)
            own[i] = b.model[from + i] = below(77);
        MUST(cudaMemcpy(b.memory + from, own.data(), count * sizeof(unsigned), cudaMemcpyDefault));
    } else {
        MUST(cudaMemcpy(own.data(), b.memory + from, count * sizeof(unsigned), cudaMemcpyDefault));
        HOLDS(std::equal(own.begin(), own.end(), b.model.begin() + from));
    }
}

static void set(buffer &b)
{
    size_t from, count;
    int s = stream_for(b);
    if (s == NOBODY)
        return;
    part(b, &from, &count);
    unsigned value = below(256);
    MUST(cudaMemsetAsync(b.memory + from, (int)value, count * sizeof(unsigned), streams[s]));
    std::fill(b.model.begin() + from, b.model.begin() + from + count, value * 0x01010101u);
}

struct task { unsigned *at; size_t count, step; };
static void CUDART_CB increase(void *data)
{
    task *t = (task *)data;
    for (size_t i = 0; i < t->count; i += t->step)
        t->at[i]++;
    delete t;
}

// No other stream may be at work, unless the memory is this one's.
static void call(buffer &b)
{
    if (b.scope == EVERYBODY)
        wait_for_all();
    int s = stream_for(b);
    if (s == NOBODY)
        return;
    task *t = new task;
    size_t from;
    part(b, &from, &t->count);
    t->at = b.memory + from;
    t->step = 1 + below(900);
    for (size_t i = 0; i < t->count; i += t->step)
        b.model[from + i]++;
    MUST(cudaLaunchHostFunc(streams[s], increase, t));
    if (b.scope == EVERYBODY)                 // and none may begin before it has ended
        wait_for_all();
}

static void graph(buffer &b)
{
    int s = stream_for(b);
    if (s == NOBODY)
        return;
    cudaGraph_t made;
    cudaGraphExec_t executable;
    size_t n = b.model.size();
    MUST(cudaStreamBeginCapture(streams[s], cudaStreamCaptureModeRelaxed));
    change<<<2, 128, 0, streams[s]>>>(b.memory, n, 1);
    change<<<2, 128, 0, streams[s]>>>(b.memory, n / 2, 2);
    MUST(cudaStreamEndCapture(streams[s], &made));
    MUST(cudaGraphInstantiate(&executable, made, NULL, NULL, 0));
    for (int round = 0; round < 2; round++) {
        touch(b, true);
        MUST(cudaGraphLaunch(executable, streams[s]));
        busy[s] = true;
        for (size_t i = 0; i < n; i++)
            b.model[i] = b.model[i] * 3 + 1;
        for (size_t i = 0; i < n / 2; i++)
            b.model[i] = b.model[i] * 3 + 2;
    }
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(made));
}

static void attach(buffer &b)
{
    wait_for_all();
    b.user = NOBODY;
    b.scope = (int)below(THE_HOST + 1);
    int s = b.scope < STREAMS ? b.scope : 0;
    MUST(cudaStreamAttachMemAsync(streams[s], b.memory, 0,
                                  b.scope == EVERYBODY  ? cudaMemAttachGlobal
                                  : b.scope == THE_HOST ? cudaMemAttachHost
                                                        : cudaMemAttachSingle));
    MUST(cudaStreamSynchronize(streams[s]));
}

static void prefetch(buffer &b)
{
    size_t from, count;
    settle(b);
    int s = stream_for(b);
    if (s == NOBODY)
        return;
    part(b, &from, &count);
#if CUDART_VERSION >= 13000
    const cudaMemLocation place = { below(2) ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, 0 };
    MUST(cudaMemPrefetchAsync(b.memory + from, count * sizeof(unsigned), place, 0, streams[s]));
    MUST(cudaMemAdvise(b.memory, sizeof(unsigned), cudaMemAdviseSetReadMostly, place));
#else
    int place = below(2) ? 0 : cudaCpuDeviceId;
    MUST(cudaMemPrefetchAsync(b.memory + from, count * sizeof(unsigned), place, streams[s]));
    MUST(cudaMemAdvise(b.memory, sizeof(unsigned), cudaMemAdviseSetReadMostly, place));
#endif
}

static void step()
{
    buffer &b = buffers[below(BUFFERS)], &other = buffers[below(BUFFERS)];
    switch (below(24)) {
    case 0: renew(b); break;
    case 1: attach(b); break;
    case 2: prefetch(b); break;
    case 3: graph(b); break;
    case 4: call(b); break;
    case 5: case 6: set(b); break;
    case 7: case 8: copy_in_or_out(b); break;
    case 9: case 10: case 11: launch_two(b, other); break;
    case 12: case 13: case 14: touch(b, false); break;
    case 15: case 16: case 17: touch(b, true); break;
    default: launch(b); break;
    }
}

int main(int count, char **arguments)
{
    unsigned long long first = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    int steps = count > 2 ? atoi(arguments[2]) : 300;
    seed = first;
    for (int s = 0; s < STREAMS; s++) {
        MUST(cudaStreamCreateWithFlags(&streams[s], s ? cudaStreamNonBlocking : cudaStreamDefault));
        MUST(cudaEventCreateWithFlags(&events[s], cudaEventDisableTiming));
    }
    for (buffer &b : buffers)
        renew(b);
    for (int i = 0; i < steps && !check_failures; i++) {
        step();
        if (check_failures)
            fprintf(stderr, "seed %llu, step %d\n", first, i);
    }
    wait_for_all();
    for (buffer &b : buffers)
        if (!check_failures)
            HOLDS(std::equal(b.model.begin(), b.model.end(), b.memory));
    return check_result("managed_random") | run_by_signal(arguments);
}
