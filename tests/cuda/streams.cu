// shows: streams: order within a stream, independence of non-blocking ones, the legacy default stream joins the others
// shows: events: record, wait, query, elapsed time, reuse
// shows: host functions: in stream order, with callbacks, while the stream waits
// shows: host functions: CUDA calls in them are refused (800) instead of waiting for ever, and disturb nothing
#include "check.h"
#include <unistd.h>

__global__ void add(int *p, int value) { *p += value; }
__global__ void times(int *p, int value) { *p *= value; }
__global__ void spin(long long cycles)
{
    long long start = clock64();
    while (clock64() - start < cycles)
        ;
}
__global__ void wait_for(volatile int *flag)
{
    while (*flag == 0)
        __nanosleep(20000);
}

static void order_in_a_stream()
{
    int *d, h = 0, expected = 1;
    cudaStream_t stream;
    MUST(cudaMalloc(&d, sizeof *d));
    MUST(cudaStreamCreate(&stream));
    int one = 1;
    MUST(cudaMemcpyAsync(d, &one, sizeof one, cudaMemcpyHostToDevice, stream));
    for (int i = 0; i < 300; i++) {
        add<<<1, 1, 0, stream>>>(d, i);
        times<<<1, 1, 0, stream>>>(d, 3);
        expected = (int)((unsigned)(expected + i) * 3u);
    }
    MUST(cudaMemcpyAsync(&h, d, sizeof h, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(h == expected);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(d));
}

static void events_across_streams()
{
    int *d, h = 0;
    cudaStream_t a, b;
    cudaEvent_t done, start, end;
    float ms = -1;
    MUST(cudaMalloc(&d, sizeof *d));
    MUST(cudaMemset(d, 0, sizeof *d));
    MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    MUST(cudaEventCreate(&start));
    MUST(cudaEventCreate(&end));
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < 50; i++) {
        add<<<1, 1, 0, a>>>(d, 1);
        MUST(cudaEventRecord(done, a));
        MUST(cudaStreamWaitEvent(b, done, 0));
        times<<<1, 1, 0, b>>>(d, 2);
        MUST(cudaEventRecord(done, b));
        MUST(cudaStreamWaitEvent(a, done, 0));
        if (i == 25)
            MUST(cudaMemsetAsync(d, 0, sizeof *d, a));
    }
    MUST(cudaStreamSynchronize(b));
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    unsigned expected = 0;
    for (int i = 0; i < 50; i++)
        expected = i == 25 ? 0 : (expected + 1) * 2;
    HOLDS(h == (int)expected);

    GIVES(cudaSuccess, cudaEventQuery(done));
    int *flag, one = 1;
    MUST(cudaMalloc((void **)&flag, sizeof *flag));
    MUST(cudaMemset(flag, 0, sizeof *flag));
    MUST(cudaDeviceSynchronize());
    MUST(cudaEventRecord(start, a));
    wait_for<<<1, 1, 0, a>>>(flag);
    MUST(cudaEventRecord(end, a));
    GIVES(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
    cudaGetLastError();
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, b));
    MUST(cudaEventSynchronize(end));
    MUST(cudaEventElapsedTime(&ms, start, end));
    HOLDS(ms > 0.0f && ms < 60000.0f);
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, done, end));
    cudaGetLastError();
    MUST(cudaEventDestroy(done));
    MUST(cudaEventDestroy(start));
    MUST(cudaEventDestroy(end));
    MUST(cudaStreamDestroy(a));
    MUST(cudaStreamDestroy(b));
    MUST(cudaFree(d));
}

static void a_kernel_waits_for_another_streams_copy()
{
    int *flag, one = 1;
    cudaStream_t a, b;
    MUST(cudaMalloc(&flag, sizeof *flag));
    MUST(cudaMemset(flag, 0, sizeof *flag));
    MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, a>>>(flag);
    GIVES(cudaErrorNotReady, cudaStreamQuery(a));
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, b));
    MUST(cudaStreamSynchronize(a));
    GIVES(cudaSuccess, cudaStreamQuery(a));
    MUST(cudaStreamDestroy(a));
    MUST(cudaStreamDestroy(b));
    MUST(cudaFree(flag));
}

static void legacy_default_stream_joins()
{
    int *d, h = 0;
    cudaStream_t stream;
    MUST(cudaMalloc(&d, sizeof *d));
    MUST(cudaStreamCreate(&stream));          // blocking with regard to the default stream
    MUST(cudaMemset(d, 0, sizeof *d));
    for (int i = 0; i < 20; i++) {
        spin<<<1, 1, 0, stream>>>(20000);
        add<<<1, 1, 0, stream>>>(d, 1);
        times<<<1, 1>>>(d, 2);
    }
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == (1 << 21) - 2);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(d));
}

struct note { int seen[8]; int count; };
static void CUDART_CB take_note(void *data)
{
    struct note *note = (struct note *)data;
    usleep(2000);
    note->seen[note->count] = note->count;
    note->count++;
}
static void CUDART_CB take_note_with_status(cudaStream_t, cudaError_t status, void *data)
{
    if (status == cudaSuccess)
        take_note(data);
}

static void host_functions()
{
    struct note note = {{0}, 0};
    int *d, h = 0;
    cudaStream_t stream;
    MUST(cudaMalloc(&d, sizeof *d));
    MUST(cudaMemset(d, 0, sizeof *d));
    MUST(cudaStreamCreate(&stream));
    for (int i = 0; i < 3; i++) {
        add<<<1, 1, 0, stream>>>(d, 1);
        MUST(cudaLaunchHostFunc(stream, take_note, &note));
        add<<<1, 1, 0, stream>>>(d, 1);
        MUST(cudaStreamAddCallback(stream, take_note_with_status, &note, 0));
    }
    MUST(cudaStreamSynchronize(stream));
    HOLDS(note.count == 6);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 6);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(d));
}

// What the stream copied to pinned memory before a host function is there when the function runs.
struct arrival { int *data; int count, first, wrong; };
static void CUDART_CB look(cudaStream_t, cudaError_t, void *data)
{
    struct arrival *arrival = (struct arrival *)data;
    for (int i = 0; i < arrival->count; i++)
        arrival->wrong += arrival->data[i] != arrival->first + i + 1;
}
__global__ void increment(int *data, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i]++;
}
static void host_functions_see_copies()
{
    const int workloads = 8, count = 700000;
    struct arrival arrivals[workloads];
    cudaStream_t streams[workloads];
    int *d[workloads];
    for (int w = 0; w < workloads; w++) {
        arrivals[w] = {NULL, count, w * 1000, 0};
        MUST(cudaStreamCreate(&streams[w]));
        MUST(cudaMalloc((void **)&d[w], count * sizeof(int)));
        MUST(cudaHostAlloc((void **)&arrivals[w].data, count * sizeof(int), cudaHostAllocPortable));
        for (int i = 0; i < count; i++)
            arrivals[w].data[i] = w * 1000 + i;
    }
    for (int w = 0; w < workloads; w++) {
        MUST(cudaMemcpyAsync(d[w], arrivals[w].data, count * sizeof(int), cudaMemcpyHostToDevice, streams[w]));
        increment<<<(count + 511) / 512, 512, 0, streams[w]>>>(d[w], count);
        MUST(cudaMemcpyAsync(arrivals[w].data, d[w], count * sizeof(int), cudaMemcpyDeviceToHost, streams[w]));
        MUST(cudaStreamAddCallback(streams[w], look, &arrivals[w], 0));
    }
    MUST(cudaDeviceSynchronize());
    for (int w = 0; w < workloads; w++) {
        HOLDS(arrivals[w].wrong == 0);
        MUST(cudaFreeHost(arrivals[w].data));
        MUST(cudaFree(d[w]));
        MUST(cudaStreamDestroy(streams[w]));
    }
}

// Each of these natively gives this, and would wait for the function itself otherwise.
struct refused { cudaStream_t stream; int *device, *pinned; cudaEvent_t event; int calls; };
static void CUDART_CB try_calls(void *data)
{
    struct refused *r = (struct refused *)data;
    int *more, word = 0;
    GIVES(cudaErrorNotPermitted, cudaStreamSynchronize(r->stream));
    GIVES(cudaErrorNotPermitted, cudaDeviceSynchronize());
    GIVES(cudaErrorNotPermitted, cudaEventSynchronize(r->event));
    GIVES(cudaErrorNotPermitted, cudaMalloc((void **)&more, 100));
    GIVES(cudaErrorNotPermitted, cudaFree(r->device));
    GIVES(cudaErrorNotPermitted, cudaFreeHost(r->pinned));
    GIVES(cudaErrorNotPermitted, cudaMemcpy(&word, r->device, sizeof word, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorNotPermitted, cudaMemcpyAsync(r->device, &word, sizeof word, cudaMemcpyHostToDevice, r->stream));
    GIVES(cudaErrorNotPermitted, cudaStreamQuery(r->stream));
    GIVES(cudaErrorNotPermitted, cudaSetDevice(0));
    GIVES(cudaErrorNotPermitted, cudaDeviceReset());
    add<<<1, 1, 0, r->stream>>>(r->device, 100);
    GIVES(cudaErrorNotPermitted, cudaGetLastError());
    GIVES(cudaSuccess, cudaGetLastError());
    r->calls++;
}
static void CUDART_CB try_calls_back(cudaStream_t, cudaError_t, void *data) { try_calls(data); }
static void host_functions_call_nothing()
{
    struct refused r = {};
    int h = 0;
    MUST(cudaMalloc(&r.device, sizeof h));
    MUST(cudaMallocHost(&r.pinned, sizeof h));
    MUST(cudaMemset(r.device, 0, sizeof h));
    MUST(cudaStreamCreate(&r.stream));
    MUST(cudaEventCreate(&r.event));
    add<<<1, 1, 0, r.stream>>>(r.device, 1);
    MUST(cudaLaunchHostFunc(r.stream, try_calls, &r));
    MUST(cudaStreamAddCallback(r.stream, try_calls_back, &r, 0));
    MUST(cudaEventRecord(r.event, r.stream));
    add<<<1, 1, 0, r.stream>>>(r.device, 1);
    MUST(cudaStreamSynchronize(r.stream));
    GIVES(cudaSuccess, cudaGetLastError());
    HOLDS(r.calls == 2);
    MUST(cudaMemcpy(&h, r.device, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 2);
    MUST(cudaEventDestroy(r.event));
    MUST(cudaStreamDestroy(r.stream));
    MUST(cudaFreeHost(r.pinned));
    MUST(cudaFree(r.device));
}

// Synchronising with a stream that waited for another's copy means that the copy has arrived.
static void copies_of_other_streams_have_arrived()
{
    const int count = 100000;
    int *d, *host, wrong = 0;
    cudaStream_t a, b;
    cudaEvent_t copied;
    MUST(cudaMalloc((void **)&d, count * sizeof(int)));
    MUST(cudaMallocHost((void **)&host, count * sizeof(int)));
    MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&copied));
    MUST(cudaMemset(d, 0, count * sizeof(int)));
    MUST(cudaDeviceSynchronize());
    for (int round = 1; round <= 200; round++) {
        host[count - 1] = host[0] = -1;
        increment<<<(count + 511) / 512, 512, 0, a>>>(d, count);
        MUST(cudaMemcpyAsync(host, d, count * sizeof(int), cudaMemcpyDeviceToHost, a));
        MUST(cudaEventRecord(copied, a));
        MUST(cudaStreamWaitEvent(b, copied, 0));
        if (round % 3 == 0)
            add<<<1, 1, 0, b>>>(d, 0);
        if (round % 2)
            MUST(cudaStreamSynchronize(b));
        else
            while (cudaStreamQuery(b) == cudaErrorNotReady)
                ;
        wrong += host[0] != round || host[count - 1] != round;
    }
    HOLDS(wrong == 0);
    cudaGetLastError();
    MUST(cudaEventDestroy(copied));
    MUST(cudaStreamDestroy(a));
    MUST(cudaStreamDestroy(b));
    MUST(cudaFreeHost(host));
    MUST(cudaFree(d));
}

int main()
{
    order_in_a_stream();
    copies_of_other_streams_have_arrived();
    host_functions_see_copies();
    host_functions_call_nothing();
    events_across_streams();
    a_kernel_waits_for_another_streams_copy();
    legacy_default_stream_joins();
    host_functions();
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamSynchronize((cudaStream_t)(size_t)0x123456789));
    cudaGetLastError();
    MUST(cudaDeviceSynchronize());
    return check_result("streams");
}
