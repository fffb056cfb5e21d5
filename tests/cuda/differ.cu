// shows: order: random work of every kind (flat and boxed copies, sets, kernels, host functions, allocations, waits) over every kind of stream and memory, against a model
// shows: errors: bad arguments in the midst of running work give their code, are the last error once, and change nothing
//
// One thread after the other would be dull: several, each with memory, streams and a model of its own. An operation goes to any
// of a thread's streams; before it, what its memory was used for on other streams is waited for, in one of the ways that CUDA
// offers (an event, a synchronisation, polling, or the legacy stream's rules alone). So the memory must end where the model does.
// What each call returned is printed, thread by thread: tests/cuda/differ.py compares it over the transports.
//
// differ [seed [steps [threads [trace]]]]
#include "check.h"
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

static unsigned draw(Thread *t, unsigned below)
{
    t->random = t->random * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(t->random >> 33) % below;
}

static bool traced;                   // tell what each operation is about, on stderr

#define TRACE(t, ...) (traced ? (void)(fprintf(stderr, "%d.%d ", (t)->who, (t)->step), fprintf(stderr, __VA_ARGS__)) : (void)0)

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
    if (one_device && (t->legacy[before] || t->legacy[after]) && t->blocking[before] && t->blocking[after] && draw(t, 3))
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
            GOOD(t, cudaHostAlloc((void **)&m->at, size, draw(t, 2) ? cudaHostAllocPortable : cudaHostAllocWriteCombined));
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
        snprintf(why, sizeof why, "%zu of %zu bytes wrong, the first at %zu: %d instead of %d", wrong, m->model.size(), first, got[first], m->model[first]);
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
        GOOD(t, cudaMemcpyAsync(got.data(), m->at, got.size(), draw(t, 2) ? cudaMemcpyDeviceToHost : cudaMemcpyDefault, t->streams[s]));
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

// ---- operations ----

static cudaMemcpyKind kind_of(Thread *t, const Memory *to, const Memory *from)
{
    if (draw(t, 3) == 0)
        return cudaMemcpyDefault;
    return of_host(to) ? (of_host(from) ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost)
                       : (of_host(from) ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice);
}

// After a call: pageable memory was used in the call, whatever the stream does; so was all memory of copies in the host.
static void used(Memory *to, Memory *from, int stream)
{
    bool in_host = of_host(to) && of_host(from);
    for (Memory *m : {to, from})
        if (m->kind == PAGEABLE || in_host) {
            m->users &= ~(1u << stream);
            if (m->writer == stream)
                m->writer = -1;
        }
}

// Pageable memory, and what is copied in the host, must be in order before the call.
static void prepare(Thread *t, Memory *to, Memory *from, int stream)
{
    bool in_host = of_host(to) && of_host(from);
    if (from->kind == PAGEABLE || in_host)
        settle(t, from, false);
    if (to->kind == PAGEABLE || in_host)
        settle(t, to, true);
    reads(t, from, stream);
    writes(t, to, stream);
    GOOD(t, cudaSetDevice(t->stream_device[stream]));
}

static void copy_flat(Thread *t, Memory *to, Memory *from, int s)
{
    size_t n = draw_size(t, std::min(to->model.size(), from->model.size()));
    size_t a = draw(t, to->model.size() - n + 1), b = draw(t, from->model.size() - n + 1);
    prepare(t, to, from, s);
    cudaMemcpyKind kind = kind_of(t, to, from);
    TRACE(t, "copy in stream %d of %zu bytes, memory %zu at %zu to %zu at %zu\n", s, n, from - &t->memories[0], b, to - &t->memories[0], a);
    if (to->kind == VARIABLE && !t->stream_device[s] && (kind == cudaMemcpyDefault || kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && draw(t, 2))
        GOOD(t, cudaMemcpyToSymbolAsync(symbols, from->at + b, n, t->who * SYMBOL + a, kind, t->streams[s]));
    else if (from->kind == VARIABLE && !t->stream_device[s] && draw(t, 2))
        GOOD(t, cudaMemcpyFromSymbolAsync(to->at + a, symbols, n, t->who * SYMBOL + b, kind, t->streams[s]));
    else if (t->legacy[s] && draw(t, 2))
        GOOD(t, cudaMemcpy(to->at + a, from->at + b, n, kind));
    else if (!of_host(to) && !of_host(from) && draw(t, 2))
        GOOD(t, cudaMemcpyPeerAsync(to->at + a, to->where, from->at + b, from->where, n, t->streams[s]));
    else
        GOOD(t, cudaMemcpyAsync(to->at + a, from->at + b, n, kind, t->streams[s]));
    memcpy(&to->model[a], &from->model[b], n);
    used(to, from, s);
}

struct Box { size_t pitch, rows, at; };                  // rows: of a slice

static bool draw_box(Thread *t, const Memory *m, const cudaExtent &e, Box *out)
{
    out->pitch = e.width + draw(t, 40);
    out->rows = e.height + (e.depth > 1 ? draw(t, 3) : 0);
    size_t bytes = ((e.depth - 1) * out->rows + e.height - 1) * out->pitch + e.width;
    if (bytes > m->model.size())
        return false;
    size_t slack = m->model.size() - bytes;
    if (e.depth > 1)                                     // cudaPitchedPtr: positions are within rows, so begin at a row
        slack = 0;
    out->at = draw(t, slack + 1);
    return true;
}

static void copy_box(Thread *t, Memory *to, Memory *from, int s)
{
    cudaExtent e = {1 + draw(t, draw(t, 3) ? 100 : 2000), 1 + draw(t, draw(t, 4) ? 20 : 200), draw(t, 2) ? 1 : 1 + draw(t, 6)};
    Box a, b;
    if (!draw_box(t, to, e, &a) || !draw_box(t, from, e, &b))
        return;
    prepare(t, to, from, s);
    cudaMemcpyKind kind = kind_of(t, to, from);
    TRACE(t, "box in stream %d of %zu x %zu x %zu, memory %zu at %zu (%zu x %zu) to %zu at %zu (%zu x %zu)\n", s, e.width, e.height, e.depth,
          from - &t->memories[0], b.at, b.pitch, b.rows, to - &t->memories[0], a.at, a.pitch, a.rows);
    if (e.depth == 1 && draw(t, 3)) {
        if (t->legacy[s] && draw(t, 2))
            GOOD(t, cudaMemcpy2D(to->at + a.at, a.pitch, from->at + b.at, b.pitch, e.width, e.height, kind));
        else
            GOOD(t, cudaMemcpy2DAsync(to->at + a.at, a.pitch, from->at + b.at, b.pitch, e.width, e.height, kind, t->streams[s]));
    } else {
        cudaMemcpy3DParms p = {};
        p.srcPtr = make_cudaPitchedPtr(from->at + b.at, b.pitch, b.pitch, b.rows);
        p.dstPtr = make_cudaPitchedPtr(to->at + a.at, a.pitch, a.pitch, a.rows);
        p.extent = e;
        p.kind = kind;
        if (t->legacy[s] && draw(t, 2))
            GOOD(t, cudaMemcpy3D(&p));
        else
            GOOD(t, cudaMemcpy3DAsync(&p, t->streams[s]));
    }
    for (size_t z = 0; z < e.depth; z++)
        for (size_t y = 0; y < e.height; y++)
            memcpy(&to->model[a.at + (z * a.rows + y) * a.pitch], &from->model[b.at + (z * b.rows + y) * b.pitch], e.width);
    used(to, from, s);
}

static void set(Thread *t, Memory *m, int s)
{
    int value = (int)draw(t, 1000);
    if (m->kind == PAGEABLE)
        return;
    TRACE(t, "set in stream %d of memory %zu\n", s, m - &t->memories[0]);
    writes(t, m, s);
    GOOD(t, cudaSetDevice(t->stream_device[s]));
    if (draw(t, 2)) {
        size_t n = draw_size(t, m->model.size()), at = draw(t, m->model.size() - n + 1);
        TRACE(t, "  %zu at %zu to %d\n", n, at, value & 255);
        memset(&m->model[at], value, n);
        if (!t->legacy[s] || draw(t, 2)) {
            GOOD(t, cudaMemsetAsync(m->at + at, value, n, t->streams[s]));
            return;
        }
        GOOD(t, cudaMemset(m->at + at, value, n));
        if (of_host(m)) {                                // it is done when it returns
            m->users = 0;
            m->writer = -1;
        }
        return;
    }
    cudaExtent e = {1 + draw(t, 300), 1 + draw(t, 40), draw(t, 2) ? 1 : 1 + draw(t, 4)};
    Box box;
    if (!draw_box(t, m, e, &box))
        return;
    TRACE(t, "  %zu x %zu x %zu at %zu (%zu x %zu) to %d\n", e.width, e.height, e.depth, box.at, box.pitch, box.rows, value & 255);
    if (e.depth == 1 && draw(t, 2))
        GOOD(t, cudaMemset2DAsync(m->at + box.at, box.pitch, value, e.width, e.height, t->streams[s]));
    else
        GOOD(t, cudaMemset3DAsync(make_cudaPitchedPtr(m->at + box.at, box.pitch, box.pitch, box.rows), value, e, t->streams[s]));
    for (size_t z = 0; z < e.depth; z++)
        for (size_t y = 0; y < e.height; y++)
            memset(&m->model[box.at + (z * box.rows + y) * box.pitch], value, e.width);
}

static void launch(Thread *t, Memory *m, Memory *other, int s)
{
    if (m->where != t->stream_device[s])
        return;
    size_t n = draw_size(t, m->model.size()), at = draw(t, m->model.size() - n + 1);
    TRACE(t, "kernel in stream %d on memory %zu, %zu at %zu, perhaps with %zu\n", s, m - &t->memories[0], n, at, other - &t->memories[0]);
    if (!of_host(other) && other != m && other->where == m->where && draw(t, 2)) {
        n = std::min(n, other->model.size());
        reads(t, other, s);
        writes(t, m, s);
        GOOD(t, cudaSetDevice(t->stream_device[s]));
        mix<<<2, 64, 0, t->streams[s]>>>(m->at + at, other->at, n);
        for (size_t i = 0; i < n; i++)
            m->model[at + i] = (byte)(m->model[at + i] + 3 * other->model[i]);
    } else {
        int by = 2 * (int)draw(t, 50) + 1, plus = (int)draw(t, 256);
        writes(t, m, s);
        GOOD(t, cudaSetDevice(t->stream_device[s]));
        affine<<<1 + draw(t, 3), 64, 0, t->streams[s]>>>(m->at + at, n, by, plus);
        for (size_t i = 0; i < n; i++)
            m->model[at + i] = (byte)(m->model[at + i] * by + plus);
    }
    expect(t, "launch", cudaSuccess, cudaGetLastError());
}

// A host function changes host memory in its turn.
struct Change { Thread *t; byte *at; size_t n; byte plus; };
static void change(void *data)
{
    Change *c = (Change *)data;
    for (size_t i = 0; i < c->n; i++)
        c->at[i] = (byte)(c->at[i] + c->plus);
    __atomic_fetch_add(&c->t->called, 1, __ATOMIC_RELAXED);
    delete c;
}
static void CUDART_CB change_called(void *data) { change(data); }
static void CUDART_CB change_called_back(cudaStream_t, cudaError_t, void *data) { change(data); }

static void host_function(Thread *t, Memory *m, int s)
{
    size_t n = draw_size(t, m->model.size()), at = draw(t, m->model.size() - n + 1);
    byte plus = (byte)draw(t, 256);
    TRACE(t, "host function in stream %d on memory %zu, %zu at %zu\n", s, m - &t->memories[0], n, at);
    writes(t, m, s);
    GOOD(t, cudaSetDevice(t->stream_device[s]));
    Change *c = new Change{t, m->at + at, n, plus};
    if (draw(t, 2))
        GOOD(t, cudaLaunchHostFunc(t->streams[s], change_called, c));
    else
        GOOD(t, cudaStreamAddCallback(t->streams[s], change_called_back, c, 0));
    t->due++;
    for (size_t i = 0; i < n; i++)
        m->model[at + i] = (byte)(m->model[at + i] + plus);
}

static void new_stream(Thread *t, int s)
{
    if (t->legacy[s] || s == 1)
        return;
    TRACE(t, "stream %d made anew\n", s);
    synchronize(t, s);
    forget_stream(t, s);
    GOOD(t, cudaStreamDestroy(t->streams[s]));
    GOOD(t, cudaSetDevice(t->stream_device[s]));
    t->blocking[s] = draw(t, 2);
    GOOD(t, cudaStreamCreateWithFlags(&t->streams[s], t->blocking[s] ? cudaStreamDefault : cudaStreamNonBlocking));
}

// ---- what must fail ----

#define FAILS(code, call)                                                                                                   \
    do {                                                                                                                    \
        expect(t, #call, code, call);                                                                                       \
        expect(t, "the last error after it", code, cudaPeekAtLastError());                                                  \
        expect(t, "the last error after it", code, cudaGetLastError());                                                     \
        expect(t, "the last error after that", cudaSuccess, cudaGetLastError());                                            \
    } while (0)

__global__ void needs_shared(byte *p)
{
    extern __shared__ byte room[];
    room[threadIdx.x] = 1;
    *p = room[0];
}

static void CUDART_CB never(void *) { fprintf(stderr, "a host function that was refused runs\n"); abort(); }
static void CUDART_CB never_back(cudaStream_t, cudaError_t, void *) { never(NULL); }

static void fail_copies(Thread *t, Memory *d, Memory *h, Memory *p, cudaStream_t s)
{
    size_t n = d->model.size();
    byte *host = h->at, *pinned = p->at, *spare = NULL;
    cudaPitchedPtr pitched = make_cudaPitchedPtr(d->at, 100, 100, 4), in_host = make_cudaPitchedPtr(host, 100, 100, 4);
    cudaMemcpy3DParms cube = {};
    switch (draw(t, 24)) {
    case 0: FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d->at, host, 1, (cudaMemcpyKind)5)); break;
    case 1: FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(d->at, host, 1, (cudaMemcpyKind)-1, s)); break;
    case 2: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(NULL, host, 1, cudaMemcpyHostToDevice, s)); break;
    case 3: FAILS(cudaErrorInvalidValue, cudaMemcpy(d->at, NULL, 1, cudaMemcpyDefault)); break;
    case 4: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(pinned, d->at + 1, n, cudaMemcpyDeviceToHost, s)); break;
    case 5: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(d->at + n - 1, pinned, 2, cudaMemcpyHostToDevice, s)); break;
    case 6: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(d->at + 5, d->at, n, cudaMemcpyDeviceToDevice, s)); break;
    case 7: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(host, host + 1, 1, cudaMemcpyHostToDevice, s)); break;
    case 8: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(d->at, d->at + 10, 1, cudaMemcpyHostToDevice, s)); break;
    case 9: FAILS(cudaErrorInvalidValue, cudaMemcpy(host, d->at, 1, cudaMemcpyHostToHost)); break;
    case 10: FAILS(cudaErrorInvalidValue, cudaMemsetAsync(d->at + 1, 0, n, s)); break;
    case 11: FAILS(cudaErrorInvalidValue, cudaMemset(NULL, 0, 1)); break;
    case 12: FAILS(cudaErrorInvalidValue, cudaMemset2DAsync(d->at, n, 0, n, 2, s)); break;
    case 13: FAILS(cudaErrorInvalidPitchValue, cudaMemcpy2DAsync(d->at, 9, host, 10, 10, 2, cudaMemcpyHostToDevice, s)); break;
    case 14: FAILS(cudaErrorInvalidPitchValue, cudaMemcpy2D(d->at, 10, host, 9, 10, 2, cudaMemcpyHostToDevice)); break;
    case 15: FAILS(cudaErrorInvalidValue, cudaMemcpy2DAsync(d->at, n, host, 10, 10, 2, cudaMemcpyHostToDevice, s)); break;
    case 16:
        cube.srcPtr = in_host, cube.dstPtr = pitched, cube.kind = cudaMemcpyHostToDevice;
        cube.extent = make_cudaExtent(101, 1, 1);
        FAILS(cudaErrorInvalidPitchValue, cudaMemcpy3DAsync(&cube, s));
        break;
    case 17:
        cube.srcPtr = in_host, cube.dstPtr = pitched, cube.kind = cudaMemcpyHostToDevice;
        cube.extent = make_cudaExtent(100, 4, 1 + n / 400);
        FAILS(cudaErrorInvalidValue, cudaMemcpy3D(&cube));
        break;
    case 18: FAILS(cudaErrorInvalidValue, cudaMemcpyToSymbolAsync(symbols, host, 2, sizeof symbols - 1, cudaMemcpyHostToDevice, s)); break;
    case 19: FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(symbols, host, 1, 0, cudaMemcpyDeviceToHost)); break;
    case 20: FAILS(cudaErrorInvalidSymbol, cudaMemcpyFromSymbol(host, host, 1)); break;
    case 21:
        GOOD(t, cudaMalloc((void **)&spare, 3000));
        GOOD(t, cudaFree(spare));
        FAILS(cudaErrorInvalidValue, cudaFree(spare));
        break;
    case 22: FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromSymbolAsync(host, symbols, 1, 0, cudaMemcpyHostToDevice, s)); break;
    default: FAILS(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(d->at, 99, d->at, 0, 1, s));
    }
}

static void fail_memory(Thread *t, Memory *d, Memory *h, Memory *p, Memory *r)
{
    void *out;
    unsigned flags;
    switch (draw(t, 20)) {
    case 0: FAILS(cudaErrorInvalidValue, cudaFree(d->at + 1)); break;
    case 1: FAILS(cudaErrorInvalidValue, cudaFree(h->at)); break;
    case 2: FAILS(cudaErrorInvalidValue, cudaFree(p->at)); break;
    case 3: FAILS(cudaErrorInvalidValue, cudaFreeHost(d->at)); break;
    case 4: FAILS(cudaErrorInvalidValue, cudaFreeHost(h->at)); break;
    case 5: FAILS(cudaErrorInvalidValue, cudaFreeHost(p->at + 1)); break;
    case 6: FAILS(cudaErrorMemoryAllocation, cudaMalloc(&out, (size_t)1 << 50)); break;
    case 7: FAILS(cudaErrorMemoryAllocation, cudaMallocHost(&out, (size_t)1 << 50)); break;
    case 8: FAILS(cudaErrorInvalidValue, cudaMalloc((void **)NULL, 1)); break;
    case 9: FAILS(cudaErrorInvalidValue, cudaHostAlloc(&out, 1, 0x100)); break;
    case 10: FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(r->at, 1, 0)); break;
    case 11: FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(h->at)); break;
    case 12: FAILS(cudaErrorInvalidValue, cudaHostRegister(NULL, 1, 0)); break;
    case 13: FAILS(cudaErrorInvalidValue, cudaHostRegister(h->at, 0, 0)); break;
    case 14: FAILS(cudaErrorInvalidValue, cudaHostRegister(h->at, 1, 0x100)); break;
    case 15: FAILS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&out, h->at, 0)); break;
    case 16: FAILS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&out, p->at, 1)); break;
    case 17: FAILS(cudaErrorInvalidValue, cudaHostGetFlags(&flags, h->at)); break;
    case 18: FAILS(cudaErrorInvalidValue, cudaMallocHost((void **)NULL, 1)); break;
    default: FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(p->at, 1, 0));
    }
}

#define FAILS_TO_LAUNCH(code, ...)                                                                                          \
    do {                                                                                                                    \
        __VA_ARGS__;                                                                                                        \
        FAILS_LATER(code, #__VA_ARGS__);                                                                                    \
    } while (0)
#define FAILS_LATER(code, text)                                                                                             \
    do {                                                                                                                    \
        expect(t, text, code, cudaGetLastError());                                                                          \
        expect(t, "the last error after that", cudaSuccess, cudaGetLastError());                                            \
    } while (0)

static void fail_rest(Thread *t, Memory *d, cudaStream_t s, int device)
{
    cudaStream_t stream, no_stream = (cudaStream_t)(size_t)0xdead00;
    cudaEvent_t event, plain;
    cudaFuncAttributes attributes;
    cudaDeviceProp properties;
    float time;
    int number;
    void *address;
    GOOD(t, cudaSetDevice(device));
    GOOD(t, cudaEventCreate(&event));
    switch (draw(t, 28)) {
    case 0: FAILS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(no_stream)); break;
    case 1: FAILS(cudaErrorInvalidResourceHandle, cudaMemsetAsync(d->at, 0, 1, no_stream)); break;
    case 2: FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(0)); break;
    case 3: FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(NULL, s)); break;
    case 4: FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&time, event, event)); break;
    case 5:
        GOOD(t, cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
        GOOD(t, cudaEventRecord(plain, s));
        GOOD(t, cudaEventRecord(event, s));
        GOOD(t, cudaEventSynchronize(event));
        FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&time, plain, event));
        GOOD(t, cudaEventDestroy(plain));
        break;
    case 6: FAILS(cudaErrorInvalidValue, cudaEventElapsedTime(NULL, event, event)); break;
    case 7: FAILS(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 8)); break;
    case 8: FAILS(cudaErrorInvalidValue, cudaStreamCreate(NULL)); break;
    case 9: FAILS(cudaErrorInvalidValue, cudaEventCreateWithFlags(&plain, 0x80)); break;
    case 10: FAILS(cudaErrorInvalidValue, cudaLaunchHostFunc(s, NULL, NULL)); break;
    case 11: FAILS(cudaErrorInvalidValue, cudaStreamAddCallback(s, never_back, NULL, 1)); break;
    case 12: FAILS(cudaErrorInvalidResourceHandle, cudaLaunchHostFunc(no_stream, never, NULL)); break;
    case 13: FAILS(cudaErrorInvalidDevice, cudaSetDevice(99)); break;
    case 14: FAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, -1)); break;
    case 15: FAILS(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 99)); break;
    case 16: FAILS(cudaErrorInvalidValue, cudaDeviceGetAttribute(&number, (cudaDeviceAttr)100000, 0)); break;
    case 17: FAILS(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&attributes, (const void *)&draw)); break;
    case 18: FAILS(cudaErrorInvalidValue, cudaFuncSetAttribute(affine, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 24)); break;
    case 19: FAILS(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, number)); break;
    case 20: FAILS_TO_LAUNCH(cudaErrorInvalidConfiguration, affine<<<0, 1, 0, s>>>(d->at, 1, 1, 1)); break;
    case 21: FAILS_TO_LAUNCH(cudaErrorInvalidConfiguration, affine<<<1, 1025, 0, s>>>(d->at, 1, 1, 1)); break;
    case 22: FAILS_TO_LAUNCH(cudaErrorInvalidConfiguration, affine<<<dim3(1, 1, 70000), 1, 0, s>>>(d->at, 1, 1, 1)); break;
    case 23: FAILS_TO_LAUNCH(cudaErrorInvalidValue, needs_shared<<<1, 32, 1 << 20, s>>>(d->at)); break;
    case 24: FAILS_TO_LAUNCH(cudaErrorInvalidResourceHandle, affine<<<1, 1, 0, no_stream>>>(d->at, 1, 1, 1)); break;
    case 25: FAILS(cudaErrorInvalidValue, cudaStreamWaitEvent(s, event, 0x80)); break;
    case 26: FAILS(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(s, NULL, 0)); break;
    default:
        if (t->devices > 1) {                            // things of one device on another
            GOOD(t, cudaSetDevice(1 - device));
            GOOD(t, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
            GOOD(t, cudaSetDevice(device));
            FAILS_TO_LAUNCH(cudaErrorInvalidResourceHandle, affine<<<1, 1, 0, stream>>>(d->at, 1, 1, 1));
            GOOD(t, cudaStreamDestroy(stream));
        }
    }
    GOOD(t, cudaEventDestroy(event));
    expect(t, "the last error", cudaSuccess, cudaGetLastError());
}

// ---- a thread ----

static Memory *any(Thread *t, bool device, bool host)
{
    for (;;) {
        Memory *m = &t->memories[draw(t, t->memories.size())];
        if (of_host(m) ? host : device)
            return m;
    }
}

static Memory *of_kind(Thread *t, Kind kind)
{
    for (Memory &m : t->memories)
        if (m.kind == kind)
            return &m;
    return NULL;
}

static void step(Thread *t)
{
    int s = draw(t, STREAMS);
    Memory *m = any(t, true, true), *other = any(t, true, true);
    switch (draw(t, 22)) {
    default:
        if (m != other)
            copy_flat(t, m, other, s);
        break;
    case 6: case 7: case 8: case 9:
        if (m != other)
            copy_box(t, m, other, s);
        break;
    case 10: case 11:
        set(t, draw(t, 4) ? any(t, true, false) : any(t, false, true), s);
        break;
    case 12: case 13: case 14:
        launch(t, any(t, true, false), other, s);
        break;
    case 15:
        host_function(t, any(t, false, true), s);
        break;
    case 16:
        fail_copies(t, of_kind(t, DEVICE), of_kind(t, PAGEABLE), of_kind(t, PINNED), t->streams[s]);
        break;
    case 17:
        fail_memory(t, of_kind(t, DEVICE), of_kind(t, PAGEABLE), of_kind(t, PINNED), of_kind(t, REGISTERED));
        break;
    case 18:
        fail_rest(t, of_kind(t, DEVICE), t->streams[s], t->stream_device[s]);
        break;
    case 19:
        look(t, m);
        break;
    case 20:
        look(t, m);
        unmake(t, m);
        make(t, m);
        break;
    case 21:
        new_stream(t, s);
    }
}

static void *work(void *argument)
{
    Thread *t = (Thread *)argument;
    for (int s = 0; s < STREAMS; s++) {
        t->stream_device[s] = s < 2 || s % 2 ? 0 : t->devices - 1;
        t->legacy[s] = s == 0;
        t->blocking[s] = s < 4;
        GOOD(t, cudaSetDevice(t->stream_device[s]));
        if (s == 0)
            t->streams[s] = draw(t, 2) ? cudaStreamLegacy : 0;
        else if (s == 1)
            t->streams[s] = cudaStreamPerThread;
        else
            GOOD(t, cudaStreamCreateWithFlags(&t->streams[s], t->blocking[s] ? cudaStreamDefault : cudaStreamNonBlocking));
    }
    for (int d = 0; d < t->devices; d++) {
        GOOD(t, cudaSetDevice(d));
        GOOD(t, cudaEventCreateWithFlags(&t->mark[d], d ? cudaEventDefault : cudaEventDisableTiming));
    }
    for (int i = 0; i < DEVICE_BUFFERS + HOST_BUFFERS; i++) {
        t->memories.push_back(Memory());
        t->memories.back().kind = i == 0 ? VARIABLE : i < DEVICE_BUFFERS ? DEVICE : i < DEVICE_BUFFERS + 2 ? PINNED
                                : i < DEVICE_BUFFERS + 4 ? REGISTERED : PAGEABLE;
        make(t, &t->memories.back());
    }
    for (t->step = 1; t->step <= t->steps && !t->wrong; t->step++)
        step(t);
    for (Memory &m : t->memories)
        if (!t->wrong) {
            look(t, &m);
            unmake(t, &m);
        }
    for (int s = 2; s < STREAMS; s++)
        GOOD(t, cudaStreamDestroy(t->streams[s]));
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 120, count = argc > 3 ? atoi(argv[3]) : 4, devices;
    std::vector<Thread> threads(count);
    traced = argc > 4;
    MUST(cudaGetDeviceCount(&devices));
    for (int i = 0; i < count; i++) {
        threads[i].who = i;
        threads[i].steps = steps;
        threads[i].devices = std::min(devices, 2);
        threads[i].random = seed * 1000003 + i * 7919;
        pthread_create(&threads[i].id, NULL, work, &threads[i]);
    }
    for (Thread &t : threads) {
        pthread_join(t.id, NULL);
        check_failures += t.wrong;
    }
    MUST(cudaDeviceSynchronize());
    for (const Thread &t : threads) {
        HOLDS(t.called == t.due);
        if (argc > 1)
            fputs(t.log.c_str(), stdout);
    }
    if (check_failures)
        fprintf(stderr, "seed %llu, %d steps, %d threads\n", seed, steps, count);
    return check_result("differ");
}
