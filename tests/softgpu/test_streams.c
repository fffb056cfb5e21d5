/* shows: Software GPU streams: order, NULL stream rules, events, host functions, values in memory, 1,024 outstanding */
/* test_streams.c: order in and between streams, events, host functions, values in memory, the bound on what is
 * outstanding. */
#include "softgpu_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static void nap(long microseconds)
{
    struct timespec t = { microseconds / 1000000, microseconds % 1000000 * 1000 };
    nanosleep(&t, NULL);
}

/* A pinned word that a stream waits for: holds whatever comes behind it until the test says so. */
static atomic_uint *gate;

static int make_gate(void **state)
{
    (void)state;
    if (with_context(state) || cuMemHostAlloc((void **)&gate, 4096, 0))
        return -1;
    atomic_store(gate, 0);
    return 0;
}

static void shut(CUstream s)
{
    atomic_store(gate, 0);
    OK(cuStreamWaitValue32(s, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

static void open_gate(void) { atomic_store(gate, 1); }

TEST(order_in_a_stream)
{
    CUstream s;
    CUdeviceptr d;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&d, 4 * 500));
    unsigned *back;
    OK(cuMemHostAlloc((void **)&back, 4 * 500, 0));
    for (unsigned i = 0; i < 500; i++) {
        OK(cuMemsetD32Async(d, i, 500, s));
        OK(cuMemcpyDtoHAsync(&back[i], d + 4 * (i % 500), 4, s));
    }
    OK(cuStreamSynchronize(s));
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(back[i], i);
    OK(cuMemFreeHost(back));
    OK(cuMemFree(d));
    OK(cuStreamDestroy(s));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(s));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(s));
}

TEST(query_and_events)
{
    CUstream s;
    CUevent before, after, untimed;
    float ms;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, before, after));        /* never recorded */
    OK(cuEventQuery(before));
    OK(cuEventRecord(before, s));
    shut(s);
    OK(cuEventRecord(after, s));
    OK(cuEventRecord(untimed, s));
    OK(cuEventSynchronize(before));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(after));
    FAILS(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, before, after));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, before, untimed));
    nap(5000);
    open_gate();
    OK(cuEventSynchronize(after));
    OK(cuEventElapsedTime(&ms, before, after));
    assert_true(ms >= 4.0f && ms < 60000.0f);
    OK(cuStreamSynchronize(s));
    OK(cuStreamQuery(s));
    OK(cuEventDestroy(before));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(before));
    OK(cuEventDestroy(after));
    OK(cuEventDestroy(untimed));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&before, 64));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&before, CU_EVENT_INTERPROCESS));
    OK(cuStreamDestroy(s));
}

TEST(waiting_for_events)
{
    CUstream a, b;
    CUevent e;
    CUdeviceptr d;
    unsigned got;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&d, 8));
    OK(cuMemsetD32Async(d, 1, 2, a));
    OK(cuStreamSynchronize(a));
    shut(a);
    OK(cuMemsetD32Async(d, 2, 1, a));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemcpyDtoDAsync(d + 4, d, 4, b));
    OK(cuEventRecord(e, b));                 /* recording again does not change what b waits for */
    nap(2000);
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    OK(cuStreamDestroy(a));                  /* with work in it: it is done all the same */
    open_gate();
    OK(cuStreamSynchronize(b));
    OK(cuMemcpyDtoH(&got, d + 4, 4));
    assert_int_equal(got, 2);
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(b));
    OK(cuMemFree(d));
}

/* The NULL stream waits for blocking streams and they for it; non-blocking ones take no part. */
TEST(legacy_default_stream)
{
    CUstream blocking, other, free_one;
    CUdeviceptr d;
    unsigned got;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&d, 16));
    OK(cuMemsetD8(d, 0, 16));
    OK(cuCtxSynchronize());                  /* a non-blocking stream is not ordered behind it */
    shut(blocking);
    OK(cuMemsetD32Async(d, 7, 1, blocking));
    OK(cuMemcpyDtoDAsync(d + 4, d, 4, NULL));         /* waits for `blocking` */
    OK(cuMemcpyDtoDAsync(d + 8, d + 4, 4, other));    /* waits for the NULL stream */
    OK(cuMemsetD32Async(d + 12, 9, 1, free_one));
    OK(cuStreamSynchronize(free_one));
    OK(cuMemcpyDtoHAsync(&got, d + 12, 4, free_one));
    OK(cuStreamSynchronize(free_one));
    assert_int_equal(got, 9);
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
    open_gate();
    OK(cuStreamSynchronize(other));
    unsigned all[4];
    OK(cuMemcpyDtoH(all, d, 16));
    assert_int_equal(all[1], 7);
    assert_int_equal(all[2], 7);
    OK(cuMemFree(d));
    OK(cuStreamDestroy(blocking));
    OK(cuStreamDestroy(other));
    OK(cuStreamDestroy(free_one));
}

static void *synchronise_legacy(void *context)
{
    CUresult r = cuCtxSetCurrent(context);
    return (void *)(uintptr_t)(r ? r : cuStreamSynchronize(NULL));
}

/* It waits for the blocking streams, but is no work: what another blocking stream is given meanwhile does not wait. */
TEST(synchronised_legacy_stream)
{
    CUstream held, other;
    CUevent e;
    CUcontext context;
    pthread_t thread;
    void *result;
    OK(cuStreamCreate(&held, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuCtxGetCurrent(&context));
    shut(held);
    assert_int_equal(pthread_create(&thread, NULL, synchronise_legacy, context), 0);
    bool ended = true;
    for (int i = 0; i < 50 && ended; i++) {  /* in one of these rounds the thread waits */
        OK(cuEventRecord(e, other));
        ended = false;
        for (int ms = 0; ms < 10000 && !ended; ms++) {
            ended = cuEventQuery(e) == CUDA_SUCCESS;
            nap(1000);
        }
    }
    assert_true(ended);
    open_gate();
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    OK(cuStreamQuery(held));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(held));
    OK(cuStreamDestroy(other));
}

TEST(synchronous_calls_see_blocking_streams)
{
    CUstream s;
    CUdeviceptr d;
    unsigned got = 0;
    OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&d, 4 * MIB));
    for (unsigned i = 1; i <= 50; i++) {
        OK(cuMemsetD32Async(d, i, MIB, s));
        OK(cuMemcpyDtoH(&got, d + 4 * MIB - 4, 4));
        assert_int_equal(got, i);
    }
    OK(cuMemFree(d));
    OK(cuStreamDestroy(s));
}

struct log { atomic_int count; int order[64]; };

static void CUDA_CB note(void *data)
{
    struct log *l = data;
    int at = atomic_fetch_add(&l->count, 1);
    l->order[at] = at;
}

static void CUDA_CB note_callback(CUstream s, CUresult status, void *data)
{
    (void)s;
    struct log *l = data;
    l->order[atomic_fetch_add(&l->count, 1)] = status == CUDA_SUCCESS ? 100 : -1;
}

static CUresult inside;
static void CUDA_CB calls_cuda(void *data)
{
    size_t a, b;
    (void)data;
    inside = cuMemGetInfo(&a, &b);
}

TEST(host_functions)
{
    CUstream s;
    struct log l = { 0 };
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    shut(s);
    OK(cuLaunchHostFunc(s, note, &l));
    OK(cuStreamAddCallback(s, note_callback, &l, 0));
    OK(cuLaunchHostFunc(s, note, &l));
    nap(1000);
    assert_int_equal(atomic_load(&l.count), 0);
    open_gate();
    OK(cuStreamSynchronize(s));
    assert_int_equal(atomic_load(&l.count), 3);
    assert_int_equal(l.order[0], 0);
    assert_int_equal(l.order[1], 100);
    assert_int_equal(l.order[2], 2);
    OK(cuLaunchHostFunc(s, calls_cuda, NULL));
    OK(cuStreamSynchronize(s));
    assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(s, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(s, note_callback, NULL, 1));
    OK(cuStreamDestroy(s));
}

struct arrival { unsigned *data, first, count, wrong; };

static void CUDA_CB look(CUstream s, CUresult status, void *data)
{
    (void)s;
    struct arrival *a = data;
    for (unsigned i = 0; i < a->count; i++)
        a->wrong += status != CUDA_SUCCESS || a->data[i] != a->first;
}

/* What a stream copied to pinned memory before a callback is there when it runs. */
TEST(callbacks_see_copies)
{
    enum { STREAMS = 6, COUNT = 700000 };
    struct arrival a[STREAMS];
    CUstream s[STREAMS];
    CUdeviceptr d[STREAMS], e[STREAMS];
    for (unsigned i = 0; i < STREAMS; i++) {
        a[i] = (struct arrival){ NULL, i + 100, COUNT, 0 };
        OK(cuStreamCreate(&s[i], CU_STREAM_DEFAULT));
        OK(cuMemHostAlloc((void **)&a[i].data, 4 * COUNT, 0));
        OK(cuMemAlloc(&d[i], 4 * COUNT));
        OK(cuMemAlloc(&e[i], 4 * COUNT));
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        OK(cuMemcpyHtoDAsync(d[i], a[i].data, 4 * COUNT, s[i]));
        OK(cuMemsetD32Async(d[i], i + 100, COUNT, s[i]));
        OK(cuMemcpyDtoDAsync(e[i], d[i], 4 * COUNT, s[i]));
        OK(cuMemcpyDtoHAsync(a[i].data, e[i], 4 * COUNT, s[i]));
        OK(cuStreamAddCallback(s[i], look, &a[i], 0));
    }
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < STREAMS; i++) {
        assert_int_equal(a[i].wrong, 0);
        OK(cuMemFreeHost(a[i].data));
        OK(cuMemFree(d[i]));
        OK(cuMemFree(e[i]));
        OK(cuStreamDestroy(s[i]));
    }
}

TEST(values_in_memory)
{
    CUstream a, b;
    CUdeviceptr d;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&d, 64));
    OK(cuMemsetD8(d, 0, 64));
    OK(cuCtxSynchronize());
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(a, d + 2, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64(a, d + 4, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(a, (CUdeviceptr)(uintptr_t)&d, 0, 0));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cuStreamWaitValue32(a, d, 0, CU_STREAM_WAIT_VALUE_FLUSH));
    OK(cuStreamWaitValue64(a, d, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue32(a, d + 8, 5, 0));
    nap(1000);
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    OK(cuStreamWriteValue64(b, d, 1ull << 40, 0));
    OK(cuStreamSynchronize(a));
    unsigned got;
    OK(cuMemcpyDtoH(&got, d + 8, 4));
    assert_int_equal(got, 5);
    CUstreamBatchMemOpParams batch[3] = { 0 };
    batch[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    batch[0].waitValue.address = d + 16;
    batch[0].waitValue.value = 6;
    batch[0].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
    batch[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    batch[1].writeValue.address = d + 20;
    batch[1].writeValue.value = 8;
    batch[2].operation = 99;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(a, 3, batch, 0));
    OK(cuStreamQuery(a));                    /* nothing of a refused batch was queued */
    OK(cuStreamBatchMemOp(a, 2, batch, 0));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    OK(cuMemsetD32Async(d + 16, 2, 1, b));   /* any write is seen, not only cuStreamWriteValue's */
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH(&got, d + 20, 4));
    assert_int_equal(got, 8);
    OK(cuMemFree(d));
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

static atomic_int pushed;
static CUcontext shared_context;

static void *push_many(void *stream)
{
    static CUdeviceptr d;
    if (cuCtxSetCurrent(shared_context) || cuMemAlloc(&d, 4))
        return (void *)1;
    for (int i = 0; i < 1500; i++) {
        if (cuMemsetD32Async(d, (unsigned)i, 1, stream))
            return (void *)2;
        atomic_fetch_add(&pushed, 1);
    }
    return cuStreamSynchronize(stream) || cuMemFree(d) ? (void *)3 : NULL;
}

/* Where a driver takes more, this fails and leaves its stream blocked until a later test opens the gate
   (tests/driver/conformance.py). */
TEST(at_most_1024)
{
    CUstream s;
    pthread_t thread;
    void *result;
    OK(cuCtxGetCurrent(&shared_context));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    shut(s);                                 /* itself one of the 1,024 */
    atomic_store(&pushed, 0);
    assert_int_equal(pthread_create(&thread, NULL, push_many, s), 0);
    for (int i = 0; i < 20000 && atomic_load(&pushed) < 1023; i++)
        nap(500);
    nap(20000);
    assert_int_equal(atomic_load(&pushed), 1023);
    open_gate();
    pthread_join(thread, &result);
    assert_null(result);
    assert_int_equal(atomic_load(&pushed), 1500);
    OK(cuStreamDestroy(s));
}

TEST(questions_about_streams)
{
    CUstream s;
    int least, greatest, priority;
    unsigned flags;
    CUcontext c, current;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least);
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest - 100));
    OK(cuStreamGetPriority(s, &priority));
    assert_int_equal(priority, greatest);
    OK(cuStreamGetFlags(s, &flags));
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetCtx(s, &c));
    OK(cuCtxGetCurrent(&current));
    assert_ptr_equal(c, current);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&s, 2));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize((CUstream)0x1234));
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamDestroy(s));
}

TEST(asynchronous_source_is_taken)
{
    CUstream s;
    CUdeviceptr d;
    unsigned source[16], got[16];
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&d, sizeof source));
    shut(s);
    for (unsigned i = 0; i < 16; i++)
        source[i] = i;
    OK(cuMemcpyHtoDAsync(d, source, sizeof source, s));
    memset(source, 0xFF, sizeof source);     /* pageable: the program may use it again at once */
    open_gate();
    OK(cuMemcpyDtoHAsync(got, d, sizeof got, s));      /* into pageable memory: waits */
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(got[i], i);
    OK(cuMemFree(d));
    OK(cuStreamDestroy(s));
}

int main(void) { return unit_run(make_gate, without_context); }
