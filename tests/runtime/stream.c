/* Streams, events, host functions. */
#include "tests/runtime/api.h"

TEST_WITH(streams_and_bad_handles, runtime_begin, NULL)
{
    core_stream stream;
    unsigned flags;
    int value = -1;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    assert_int_equal(cudaStreamCreate(NULL), 1);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, 2), 1);
    assert_int_equal(cudaStreamCreateWithPriority(&stream, 1, -3), 0);
    assert_int_equal(cudaStreamGetFlags(stream, &flags), 0);
    assert_int_equal(flags, 1);
    assert_int_equal(cudaStreamGetPriority(stream, &value), 0);
    assert_int_equal(value, -3);
    assert_int_equal(cudaStreamIsCapturing(stream, &status), 0);
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    assert_int_equal(cudaStreamIsCapturing(stream, NULL), 1);
    assert_int_equal(cudaStreamSynchronize(stream), 0);
    assert_int_equal(cudaStreamDestroy(stream), 0);
    assert_int_equal(cudaStreamDestroy(stream), 400);
    assert_int_equal(cudaStreamSynchronize(stream), 400);
    assert_int_equal(cudaStreamIsCapturing(stream, &status), 400);
    assert_int_equal(cudaStreamDestroy(0), 400);
    assert_int_equal(cudaGetLastError(), 400);
}

TEST_WITH(per_thread_forms_mean_another_default_stream, runtime_begin, NULL)
{
    assert_int_equal(cudaStreamQuery(0), 0);
    assert_int_equal(fake_core()->stream, 0);
    assert_int_equal(cudaStreamQuery_ptsz(0), 0);
    assert_int_equal(fake_core()->stream, CORE_STREAM_PER_THREAD);
    assert_int_equal(cudaStreamQuery_ptsz(CORE_STREAM_LEGACY), 0);
    assert_int_equal(fake_core()->stream, CORE_STREAM_LEGACY);
}

TEST_WITH(capture_modes_are_exchanged, runtime_begin, NULL)
{
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(mode, 0);
    mode = 1;
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(mode, 2);
    mode = 3;
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), 1);
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(NULL), 1);
}

TEST_WITH(events, runtime_begin, NULL)
{
    core_event event;
    float milliseconds = 0;
    assert_int_equal(cudaEventCreate(NULL), 1);
    assert_int_equal(cudaEventCreateWithFlags(&event, 8), 1);
    assert_int_equal(cudaEventCreateWithFlags(&event, 4), 1);
    assert_int_equal(cudaEventCreateWithFlags(&event, 6), 0);
    assert_int_equal(cudaEventDestroy(event), 0);
    assert_int_equal(cudaEventCreateWithFlags(&event, 2), 0);
    assert_int_equal(cudaEventRecord(event, 0), 0);
    assert_int_equal(cudaEventRecord(event, 12345), 400);
    assert_int_equal(cudaEventRecord(0, 0), 400);
    assert_int_equal(cudaEventQuery(0), 400);
    assert_int_equal(cudaEventElapsedTime(NULL, event, event), 1);
    assert_int_equal(cudaEventElapsedTime(&milliseconds, event, 0), 400);
    assert_int_equal(cudaEventElapsedTime(&milliseconds, event, event), 0);
    assert_true(milliseconds > 1.4f);
    assert_int_equal(cudaStreamWaitEvent(0, event, 2), 1);
    assert_int_equal(cudaStreamWaitEvent(0, event, 0), 0);
    assert_int_equal(cudaEventDestroy(event), 0);
    assert_int_equal(cudaEventDestroy(0), 400);
}

static int ran, ran_status;
static void *ran_user;
static void function(void *user) { ran++, ran_user = user; }
static void callback(cudaStream_t stream, cudaError_t status, void *user)
{
    (void)stream;
    ran += 10, ran_status = (int)status, ran_user = user;
}

TEST_WITH(host_functions, runtime_begin, NULL)
{
    int mark;
    ran = 0;
    assert_int_equal(cudaLaunchHostFunc(0, function, &mark), 0);
    assert_int_equal(ran, 1);
    assert_ptr_equal(ran_user, &mark);
    assert_int_equal(cudaLaunchHostFunc(0, NULL, &mark), 1);
    assert_int_equal(cudaStreamAddCallback(0, callback, &mark, 1), 1);
    assert_int_equal(cudaStreamAddCallback(0, NULL, &mark, 0), 1);
    fake_core()->latched = 719;
    assert_int_equal(cudaStreamAddCallback(0, callback, &mark, 0), 0);
    assert_int_equal(ran, 11);
    assert_int_equal(ran_status, 719);
}

TEST_WITH(a_host_function_that_is_refused_leaks_nothing, runtime_begin, NULL)
{
    assert_int_equal(cudaFree(NULL), 0);
    fake_core()->next_error = 400;
    assert_int_equal(cudaLaunchHostFunc(0, function, NULL), 400);      /* the leak sanitizer looks on */
}

int stream_tests(void)
{
    return unit_run(NULL, NULL);
}
