// shows: order: random work of every kind (flat and boxed copies, sets, kernels, host functions, allocations, waits)
//   over every kind of stream and memory, against a model
// shows: errors: bad arguments in the midst of running work give their code, are the last error once, and change
//   nothing
//
// One thread after the other would be dull: several, each with memory, streams and a model of its own. An operation
// goes to any of a thread's streams; before it, what its memory was used for on other streams is waited for, in one of
// the ways that CUDA offers (an event, a synchronisation, polling, or the legacy stream's rules alone). So the memory
// must end where the model does. What each call returned is printed, thread by thread: tests/cuda/differ.py compares it
// over the transports.
//
// differ [seed [steps [threads [trace]]]]
#include "model.h"
#include "wrong.h"

// ---- operations ----

static cudaMemcpyKind kind_of(Thread *t, const Memory *to, const Memory *from)
{
    if (draw(t, 3) == 0)
        return cudaMemcpyDefault;
    return of_host(to) ? (of_host(from) ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost)
                       : (of_host(from) ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice);
}

// After a call: pageable memory was used in the call, whatever the stream does; so was all memory of copies in the
// host.
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
    TRACE(t, "copy in stream %d of %zu bytes, memory %zu at %zu to %zu at %zu\n", s, n, from - &t->memories[0], b,
          to - &t->memories[0], a);
    if (to->kind == VARIABLE && !t->stream_device[s] &&
        (kind == cudaMemcpyDefault || kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) && draw(t, 2))
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
    cudaExtent e = {1 + draw(t, draw(t, 3) ? 100 : 2000), 1 + draw(t, draw(t, 4) ? 20 : 200),
                    draw(t, 2) ? 1 : 1 + draw(t, 6)};
    Box a, b;
    if (!draw_box(t, to, e, &a) || !draw_box(t, from, e, &b))
        return;
    prepare(t, to, from, s);
    cudaMemcpyKind kind = kind_of(t, to, from);
    TRACE(t, "box in stream %d of %zu x %zu x %zu, memory %zu at %zu (%zu x %zu) to %zu at %zu (%zu x %zu)\n", s,
          e.width, e.height, e.depth, from - &t->memories[0], b.at, b.pitch, b.rows, to - &t->memories[0], a.at,
          a.pitch, a.rows);
    if (e.depth == 1 && draw(t, 3)) {
        if (t->legacy[s] && draw(t, 2))
            GOOD(t, cudaMemcpy2D(to->at + a.at, a.pitch, from->at + b.at, b.pitch, e.width, e.height, kind));
        else
            GOOD(t, cudaMemcpy2DAsync(to->at + a.at, a.pitch, from->at + b.at, b.pitch, e.width, e.height, kind,
                                      t->streams[s]));
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
            memcpy(&to->model[a.at + (z * a.rows + y) * a.pitch], &from->model[b.at + (z * b.rows + y) * b.pitch],
                   e.width);
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
    TRACE(t, "  %zu x %zu x %zu at %zu (%zu x %zu) to %d\n", e.width, e.height, e.depth, box.at, box.pitch, box.rows,
          value & 255);
    if (e.depth == 1 && draw(t, 2))
        GOOD(t, cudaMemset2DAsync(m->at + box.at, box.pitch, value, e.width, e.height, t->streams[s]));
    else
        GOOD(t, cudaMemset3DAsync(make_cudaPitchedPtr(m->at + box.at, box.pitch, box.pitch, box.rows), value, e,
                                  t->streams[s]));
    for (size_t z = 0; z < e.depth; z++)
        for (size_t y = 0; y < e.height; y++)
            memset(&m->model[box.at + (z * box.rows + y) * box.pitch], value, e.width);
}

static void launch(Thread *t, Memory *m, Memory *other, int s)
{
    if (m->where != t->stream_device[s])
        return;
    size_t n = draw_size(t, m->model.size()), at = draw(t, m->model.size() - n + 1);
    TRACE(t, "kernel in stream %d on memory %zu, %zu at %zu, perhaps with %zu\n", s, m - &t->memories[0], n, at,
          other - &t->memories[0]);
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
            GOOD(t,
                 cudaStreamCreateWithFlags(&t->streams[s], t->blocking[s] ? cudaStreamDefault : cudaStreamNonBlocking));
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
        threads[i].alone = count == 1;
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
