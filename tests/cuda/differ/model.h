// model.h: a thread of differ, its streams and its memory, and what each piece of memory must hold. An operation on
// memory asks for the order that it needs (reads, writes), and tells the model what it did.
#ifndef DIFFER_MODEL_H
#define DIFFER_MODEL_H

#include "../check.h"
#include "../../lib/dice.h"
#include <algorithm>
#include <map>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

typedef unsigned char byte;
enum { STREAMS = 6, DEVICE_BUFFERS = 5, HOST_BUFFERS = 5, LONGEST = 900000, SYMBOL = 5000 };

__device__ byte symbols[8][SYMBOL];                      // one row for each thread

__global__ void affine(byte *p, size_t n, int by, int plus)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (byte)(p[i] * by + plus);
}
__global__ void mix(byte *p, const byte *q, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (byte)(p[i] + 3 * q[i]);
}

enum Kind { DEVICE, VARIABLE, PINNED, REGISTERED, PAGEABLE };

struct Memory {
    Kind kind;
    int where;                        // the device that has it
    byte *at, *whole;                 // whole: what was allocated for a registered range
    std::vector<byte> model;
    int writer;                       // the stream that wrote last, -1: nothing is under way
    unsigned users;                   // streams that may still use it, a bit each
};

struct Thread {
    pthread_t id;
    unsigned long long random;
    int who, steps, devices, wrong;
    bool alone; // no other thread allocates
    std::vector<Memory> memories;
    cudaStream_t streams[STREAMS];
    int stream_device[STREAMS];
    bool blocking[STREAMS], legacy[STREAMS];
    std::vector<cudaEvent_t> events;
    cudaEvent_t mark[2];              // one for each device
    std::string log;
    int step;
    unsigned called, due;             // host functions
};

static unsigned draw(Thread *t, unsigned below) { return dice(&t->random, below); }

static bool traced;                   // tell what each operation is about, on stderr

#define TRACE(t, ...) \
    (traced ? (void)(fprintf(stderr, "%d.%d ", (t)->who, (t)->step), fprintf(stderr, __VA_ARGS__)) : (void)0)

static void note(Thread *t, const char *what, cudaError_t code)
{
    char line[240];
    snprintf(line, sizeof line, "%d.%d %s %d\n", t->who, t->step, what, (int)code);
    t->log += line;
}

static void broken(Thread *t, const char *what, const char *why)
{
    if (!t->wrong++)
        fprintf(stderr, "thread %d, step %d: %s: %s\n", t->who, t->step, what, why);
}

static void expect(Thread *t, const char *what, cudaError_t expected, cudaError_t got)
{
    note(t, what, got);
    if (got != expected) {
        char why[160];
        snprintf(why, sizeof why, "%d (%s) instead of %d", (int)got, cudaGetErrorName(got), (int)expected);
        broken(t, what, why);
    }
}
#define GOOD(t, call) expect(t, #call, cudaSuccess, call)

// ---- order ----

static void forget_stream(Thread *t, int s)
{
    for (Memory &m : t->memories) {
        m.users &= ~(1u << s);
        if (m.writer == s)
            m.writer = -1;
    }
}

static void synchronize(Thread *t, int s)
{
    GOOD(t, cudaSetDevice(t->stream_device[s]));         // the default streams are the current device's
    GOOD(t, cudaStreamSynchronize(t->streams[s]));
}

// What was queued on `before` comes before what will be on `after`.
static void order(Thread *t, int before, int after)
{
    bool one_device = t->stream_device[before] == t->stream_device[after];
    TRACE(t, "  stream %d before %d\n", before, after);
    if (one_device && (t->legacy[before] || t->legacy[after]) && t->blocking[before] && t->blocking[after] &&
        draw(t, 3))
        return;                                          // CUDA does it
    int way = draw(t, 8);
    TRACE(t, "    by way %d\n", way);
    switch (way) {
    case 0:
        synchronize(t, before);
        forget_stream(t, before);
        break;
    case 1: {
        cudaError_t code;
        GOOD(t, cudaSetDevice(t->stream_device[before]));
        while ((code = cudaStreamQuery(t->streams[before])) == cudaErrorNotReady)
            ;
        expect(t, "cudaStreamQuery", cudaSuccess, code);
        break;
    }
    case 2: {
        cudaError_t code;
        GOOD(t, cudaSetDevice(t->stream_device[before]));
        GOOD(t, cudaEventRecord(t->mark[t->stream_device[before]], t->streams[before]));
        while ((code = cudaEventQuery(t->mark[t->stream_device[before]])) == cudaErrorNotReady)
            ;
        expect(t, "cudaEventQuery", cudaSuccess, code);
        break;
    }
    case 3:
        GOOD(t, cudaSetDevice(t->stream_device[before]));
        GOOD(t, cudaEventRecord(t->mark[t->stream_device[before]], t->streams[before]));
        GOOD(t, cudaEventSynchronize(t->mark[t->stream_device[before]]));
        break;
    case 4:
        if (draw(t, 4) == 0) {
            GOOD(t, cudaSetDevice(t->stream_device[before]));
            GOOD(t, cudaDeviceSynchronize());
            break;
        }
        // falls through
    case 5: {                                            // an event that is gone as soon as it is waited for
        cudaEvent_t once;
        GOOD(t, cudaSetDevice(t->stream_device[before]));
        GOOD(t, cudaEventCreateWithFlags(&once, cudaEventDisableTiming));
        GOOD(t, cudaEventRecord(once, t->streams[before]));
        GOOD(t, cudaSetDevice(t->stream_device[after]));
        GOOD(t, cudaStreamWaitEvent(t->streams[after], once, 0));
        GOOD(t, cudaEventDestroy(once));
        break;
    }
    default:
        GOOD(t, cudaSetDevice(t->stream_device[before]));
        GOOD(t, cudaEventRecord(t->mark[t->stream_device[before]], t->streams[before]));
        GOOD(t, cudaSetDevice(t->stream_device[after]));
        GOOD(t, cudaStreamWaitEvent(t->streams[after], t->mark[t->stream_device[before]], 0));
    }
    GOOD(t, cudaSetDevice(t->stream_device[after]));
}

static void reads(Thread *t, Memory *m, int stream)
{
    if (m->writer >= 0 && m->writer != stream)
        order(t, m->writer, stream);
    m->users |= 1u << stream;
}

static void writes(Thread *t, Memory *m, int stream)
{
    for (int s = 0; s < STREAMS; s++)
        if (s != stream && m->users >> s & 1)
            order(t, s, stream);
    m->users = 1u << stream;
    m->writer = stream;
}

// The program itself is about to look at it, or to write to it.
static void settle(Thread *t, Memory *m, bool also_readers)
{
    for (int s = 0; s < STREAMS; s++)
        if ((also_readers || m->writer == s) && m->users >> s & 1)
            synchronize(t, s);
    if (also_readers)
        m->users = 0;
    m->writer = -1;
}

// ---- memory ----

static bool of_host(const Memory *m) { return m->kind >= PINNED; }

static void fill(Thread *t, Memory *m)
{
    byte value = (byte)draw(t, 256);
    for (size_t i = 0; i < m->model.size(); i++)
        m->model[i] = value = (byte)(value * 5 + 17 + (i >> 8));
}

static size_t draw_size(Thread *t, size_t most)
{
    size_t size = draw(t, 6) ? 1 + draw(t, 6000) : draw(t, 3) ? 1 + draw(t, 150000) : 1 + draw(t, LONGEST);
    return std::min(size, most);
}

static void make(Thread *t, Memory *m)
{
    size_t size = draw(t, 3) ? 4000 + draw(t, 60000) : 4000 + draw(t, LONGEST);
    m->writer = -1;
    m->users = 0;
    m->where = draw(t, t->devices);
    if (m->kind == VARIABLE) {
        m->where = 0;
        size = SYMBOL;
    }
    m->model.assign(size, 0);
    switch (m->kind) {
    case DEVICE:
        GOOD(t, cudaSetDevice(m->where));
        GOOD(t, cudaMalloc((void **)&m->at, size));
        fill(t, m);
        GOOD(t, cudaMemcpy(m->at, m->model.data(), size, cudaMemcpyHostToDevice));
        break;
    case VARIABLE:
        GOOD(t, cudaSetDevice(0));
        GOOD(t, cudaGetSymbolAddress((void **)&m->at, symbols));
        m->at += t->who * SYMBOL;
        fill(t, m);
        GOOD(t, cudaMemcpyToSymbol(symbols, m->model.data(), size, t->who * SYMBOL));
        break;
    case PINNED:
        if (draw(t, 2))
            GOOD(t, cudaMallocHost((void **)&m->at, size));
        else
            GOOD(t,
                 cudaHostAlloc((void **)&m->at, size, draw(t, 2) ? cudaHostAllocPortable : cudaHostAllocWriteCombined));
        break;
    case REGISTERED: {
        size_t before = draw(t, 5000);
        m->whole = (byte *)malloc(before + size + 5000);
        m->at = m->whole + before;
        GOOD(t, cudaHostRegister(m->at, size, draw(t, 2) ? cudaHostRegisterPortable : cudaHostRegisterDefault));
        break;
    }
    default:
        m->at = (byte *)malloc(size);
    }
    if (of_host(m)) {
        fill(t, m);
        memcpy(m->at, m->model.data(), size);
    }
}

static void compare(Thread *t, const Memory *m, const byte *got)
{
    size_t wrong = 0, first = 0;
    for (size_t i = m->model.size(); i-- > 0;)
        if (got[i] != m->model[i])
            wrong++, first = i;
    if (wrong) {
        static const char *const names[] = {"device", "variable", "pinned", "registered", "pageable"};
        char why[160];
        snprintf(why, sizeof why, "%zu of %zu bytes wrong, the first at %zu: %d instead of %d", wrong, m->model.size(),
                 first, got[first], m->model[first]);
        broken(t, names[m->kind], why);
    }
}

static void look(Thread *t, Memory *m)
{
    TRACE(t, "look at memory %zu\n", m - &t->memories[0]);
    if (of_host(m)) {
        settle(t, m, false);
        compare(t, m, m->at);
        return;
    }
    std::vector<byte> got(m->model.size());
    int s = draw(t, STREAMS);
    if (m->kind == VARIABLE && draw(t, 2)) {             // in the legacy stream
        s = 0;
        while (!t->legacy[s] || t->stream_device[s])
            s++;
        reads(t, m, s);
        GOOD(t, cudaSetDevice(0));
        GOOD(t, cudaMemcpyFromSymbol(got.data(), symbols, got.size(), t->who * SYMBOL));
    } else {
        reads(t, m, s);
        GOOD(t, cudaSetDevice(t->stream_device[s]));
        GOOD(t, cudaMemcpyAsync(got.data(), m->at, got.size(), draw(t, 2) ? cudaMemcpyDeviceToHost : cudaMemcpyDefault,
                                t->streams[s]));
    }
    compare(t, m, got.data());                           // pageable: it is there when the call returns
}

// Memory goes away while work on it is queued: cudaFree and cudaFreeHost wait for it.
static void unmake(Thread *t, Memory *m)
{
    switch (m->kind) {
    case DEVICE:
        GOOD(t, cudaFree(m->at));
        break;
    case PINNED:
        settle(t, m, false);
        compare(t, m, m->at);
        GOOD(t, cudaFreeHost(m->at));
        break;
    case REGISTERED:
        GOOD(t, cudaHostUnregister(m->at));
        settle(t, m, true);
        compare(t, m, m->at);
        free(m->whole);
        break;
    case PAGEABLE:
        settle(t, m, true);
        free(m->at);
        break;
    default:
        settle(t, m, true);
    }
    m->at = NULL;
}

#endif
