/* shows: Software GPU order: random work over blocking, non-blocking and NULL streams against a sequential model, also
 *   under chaos; many threads */
/*
 * test_random.c: random work over many streams, ordered only by what CUDA promises, against a model that does it in
 * sequence; and several threads at once. Best with FLYT_SOFTGPU_CHAOS, which delays and reorders what may be.
 */
#include "softgpu_test.h"
#include "kernels.h"

#include <pthread.h>

enum { STREAMS = 6, BUFFERS = 10, WORDS = 4096, STEPS = 1500, THREADS = 6 };

/* out[i] = a[i] * 3 + b[i] */
static const char ptx_mix[] = PTX_HEAD
    ".visible .entry mix(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<8>;\n"
    "    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b]; ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "    setp.ge.u32 %p1, %r5, %r1;\n    @%p1 ret;\n"
    "    mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd2, %rd4; add.s64 %rd6, %rd3, %rd4; add.s64 %rd7, %rd1, %rd4;\n"
    "    ld.global.u32 %r6, [%rd5]; ld.global.u32 %r7, [%rd6];\n"
    "    mad.lo.u32 %r8, %r6, 3, %r7;\n    st.global.u32 [%rd7], %r8;\n    ret;\n}\n";

struct buffer {
    CUdeviceptr at;
    unsigned *model;
    int writer;                              /* stream that wrote it last */
    unsigned readers;                        /* bit s: stream s has read it since */
};

struct world {
    CUstream streams[STREAMS];               /* 0: the NULL stream; 1 and 2: blocking; the others: not */
    CUevent events[STREAMS];
    struct buffer buffers[BUFFERS];
    CUfunction mix;
    uint64_t random;
};

static unsigned roll(struct world *w, unsigned below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (unsigned)(w->random % below);
}

/* Does CUDA order work of stream `before` and later work of `after` without an event? */
static int ordered(int before, int after)
{
    return before == after || ((before == 0 || after == 0) && before < 3 && after < 3);
}

static void wait_for(struct world *w, int stream, int other)
{
    if (ordered(other, stream))
        return;
    OK(cuEventRecord(w->events[other], w->streams[other]));
    OK(cuStreamWaitEvent(w->streams[stream], w->events[other], 0));
}

static void reads(struct world *w, int stream, struct buffer *b)
{
    wait_for(w, stream, b->writer);
    b->readers |= 1u << stream;
}

static void writes(struct world *w, int stream, struct buffer *b)
{
    wait_for(w, stream, b->writer);
    for (int s = 0; s < STREAMS; s++)
        if (b->readers >> s & 1u)
            wait_for(w, stream, s);
    b->readers = 0;
    b->writer = stream;
}

static void step(struct world *w)
{
    int s = (int)roll(w, STREAMS);
    struct buffer *out = &w->buffers[roll(w, BUFFERS)], *a = &w->buffers[roll(w, BUFFERS)],
                  *b = &w->buffers[roll(w, BUFFERS)];
    unsigned value = roll(w, 1u << 30), n = 1 + roll(w, WORDS), done[4];
    switch (roll(w, 8)) {
    case 0:
        writes(w, s, out);
        OK(cuMemsetD32Async(out->at, value, n, w->streams[s]));
        for (unsigned i = 0; i < n; i++)
            out->model[i] = value;
        break;
    case 1: case 2:
        if (a == out)
            return;
        reads(w, s, a);
        writes(w, s, out);
        OK(cuMemcpyDtoDAsync(out->at, a->at, 4 * n, w->streams[s]));
        memcpy(out->model, a->model, 4 * n);
        break;
    case 3:                                  /* pageable source, used again at once */
        writes(w, s, out);
        for (int i = 0; i < 4; i++)
            out->model[i] = done[i] = value + (unsigned)i;
        OK(cuMemcpyHtoDAsync(out->at, done, sizeof done, w->streams[s]));
        memset(done, 0, sizeof done);
        break;
    case 4:                                  /* into pageable memory: waits */
        reads(w, s, a);
        OK(cuMemcpyDtoHAsync(done, a->at, sizeof done, w->streams[s]));
        assert_memory_equal(done, a->model, sizeof done);
        break;
    default: {
        reads(w, s, a);
        reads(w, s, b);
        writes(w, s, out);
        void *params[] = { &out->at, &a->at, &b->at, &n };
        OK(cuLaunchKernel(w->mix, (n + 127) / 128, 1, 1, 128, 1, 1, 0, w->streams[s], params, NULL));
        for (unsigned i = 0; i < n; i++)
            out->model[i] = a->model[i] * 3 + b->model[i];
    }
    }
}

static void build(struct world *w, uint64_t seed, CUfunction mix)
{
    *w = (struct world){ .random = seed * 0x9E3779B97F4A7C15u + 1, .mix = mix };
    for (int s = 1; s < STREAMS; s++)
        OK(cuStreamCreate(&w->streams[s], s < 3 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    for (int s = 0; s < STREAMS; s++)
        OK(cuEventCreate(&w->events[s], CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < BUFFERS; i++) {
        w->buffers[i].model = calloc(WORDS, 4);
        OK(cuMemAlloc(&w->buffers[i].at, 4 * WORDS));
        OK(cuMemsetD32(w->buffers[i].at, 0, WORDS));
    }
}

static void compare_and_free(struct world *w)
{
    unsigned *got = malloc(4 * WORDS);
    OK(cuCtxSynchronize());
    for (int i = 0; i < BUFFERS; i++) {
        OK(cuMemcpyDtoH(got, w->buffers[i].at, 4 * WORDS));
        assert_memory_equal(got, w->buffers[i].model, 4 * WORDS);
        OK(cuMemFree(w->buffers[i].at));
        free(w->buffers[i].model);
    }
    free(got);
    for (int s = 0; s < STREAMS; s++) {
        OK(cuEventDestroy(w->events[s]));
        if (s)
            OK(cuStreamDestroy(w->streams[s]));
    }
}

TEST(against_a_model)
{
    CUmodule m;
    CUfunction mix;
    OK(cuModuleLoadData(&m, ptx_mix));
    OK(cuModuleGetFunction(&mix, m, "mix"));
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct world w;
        build(&w, seed, mix);
        for (int i = 0; i < STEPS; i++)
            step(&w);
        compare_and_free(&w);
    }
    OK(cuModuleUnload(m));
}

/* ---- threads ---- */

static CUcontext shared;
#define STEP(call)                                   \
    do {                                             \
        if ((call) != CUDA_SUCCESS) {                \
            fprintf(stderr, "# %s failed\n", #call); \
            return (void *)1;                        \
        }                                            \
    } while (0)

static void *worker(void *argument)
{
    unsigned id = (unsigned)(uintptr_t)argument;
    STEP(cuCtxSetCurrent(shared));
    for (unsigned round = 0; round < 12; round++) {
        CUmodule m;
        CUfunction mix;
        CUstream s;
        CUevent e;
        CUdeviceptr a, b, global;
        size_t size;
        unsigned n = 1000, got = 0;
        STEP(cuModuleLoadData(&m, round % 2 ? ptx_mix : ptx_variables));
        STEP(cuStreamCreate(&s, id % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        STEP(cuEventCreate(&e, 0));
        STEP(cuMemAlloc(&a, 4000 + 600000 * (round % 3)));
        STEP(cuMemAlloc(&b, 4000));
        STEP(cuMemsetD32Async(a, id, n, s));
        STEP(cuMemsetD32Async(b, round, n, s));
        if (round % 2) {
            STEP(cuModuleGetFunction(&mix, m, "mix"));
            void *params[] = { &b, &a, &b, &n };
            STEP(cuLaunchKernel(mix, 8, 1, 1, 128, 1, 1, 0, s, params, NULL));
        } else {
            STEP(cuModuleGetGlobal(&global, &size, m, "table"));
            STEP(cuMemcpyDtoDAsync(b, global, 4, s));
        }
        STEP(cuEventRecord(e, s));
        STEP(cuEventSynchronize(e));
        STEP(cuMemcpyDtoHAsync(&got, b, 4, s));
        if (got != (round % 2 ? 3 * id + round : 10))
            return (void *)2;
        if (round % 4 == 3)
            STEP(cuCtxSynchronize());
        STEP(cuMemFree(a));
        STEP(cuMemFree(b));
        STEP(cuEventDestroy(e));
        STEP(cuStreamDestroy(s));
        STEP(cuModuleUnload(m));
    }
    return NULL;
}

TEST(many_threads)
{
    pthread_t threads[THREADS];
    OK(cuCtxGetCurrent(&shared));
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
}

int main(void) { return unit_run(with_context, without_context); }
