// shows: order: a kernel spins on a flag that another thread sets by a copy, with 10,000 launches queued behind it: it
//   ends
// shows: order: memsets and launches of a stream never pass each other; cudaDeviceSynchronize waits for every stream
// shows: order: a pageable source may be written again as soon as the copy has returned, also while its stream is held
// shows: order: while a kernel runs, allocation, asynchronous copies and sets, events and other streams' work do not
//   wait for it
// shows: order: a synchronous copy that has returned comes before what is begun afterwards, also on streams that wait
//   for no other
// shows: order: the same with a kernel behind the copy that waits for that stream
// shows: memory: cudaFree waits for queued work, and the address it gave back is not touched by what was queued before
#include "check.h"
#include <pthread.h>

__global__ void wait_for(volatile int *flag)
{
    while (!*flag)
        __nanosleep(20000);
}

__global__ void count(int *p)
{
    atomicAdd(p, 1);
}

__global__ void expect_then_set(int *p, int expected, int value, int *wrong)
{
    if (*p != expected)
        atomicAdd(wrong, 1);
    *p = value;
}

__global__ void fill_slowly(int *p, int n, int value, int pause)
{
    long long until = clock64() + pause;
    while (clock64() < until)
        ;
    for (int i = 0; i < n; i++)
        p[i] = value;
}

enum { LAUNCHES = 10000 };
struct held { int *flag, *counter; cudaStream_t stream; int launched; };

static void *launch_behind(void *argument)
{
    struct held *held = (struct held *)argument;
    for (int i = 0; i < LAUNCHES; i++) {
        count<<<1, 1, 0, held->stream>>>(held->counter);
        __atomic_store_n(&held->launched, i + 1, __ATOMIC_RELAXED);
    }
    MUST(cudaGetLastError());
    return NULL;
}

// A launch may block when a thousand are queued (as on a GPU), so the flag is set by another thread, and while it does.
static void launches_behind_a_held_stream()
{
    struct held held = { 0 };
    pthread_t thread;
    cudaStream_t other;
    int one = 1, seen = 0;
    MUST(cudaMalloc((void **)&held.flag, sizeof(int)));
    MUST(cudaMalloc((void **)&held.counter, sizeof(int)));
    MUST(cudaMemset(held.flag, 0, sizeof(int)));
    MUST(cudaMemset(held.counter, 0, sizeof(int)));
    MUST(cudaStreamCreateWithFlags(&held.stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, held.stream>>>(held.flag);
    pthread_create(&thread, NULL, launch_behind, &held);
    while (__atomic_load_n(&held.launched, __ATOMIC_RELAXED) < 500)
        ;
    GIVES(cudaErrorNotReady, cudaStreamQuery(held.stream));
    MUST(cudaMemcpyAsync(&seen, held.counter, sizeof seen, cudaMemcpyDeviceToHost, other));
    MUST(cudaStreamSynchronize(other));
    HOLDS(seen == 0);
    MUST(cudaMemcpyAsync(held.flag, &one, sizeof one, cudaMemcpyHostToDevice, other));
    pthread_join(thread, NULL);
    MUST(cudaStreamSynchronize(held.stream));
    MUST(cudaMemcpy(&seen, held.counter, sizeof seen, cudaMemcpyDeviceToHost));
    HOLDS(seen == LAUNCHES);
    MUST(cudaStreamDestroy(held.stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaFree(held.flag));
    MUST(cudaFree(held.counter));
}

static void memsets_and_launches_keep_their_order()
{
    int *p, *wrong, seen;
    cudaStream_t stream;
    MUST(cudaMalloc((void **)&p, sizeof *p));
    MUST(cudaMalloc((void **)&wrong, sizeof *wrong));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
    for (int i = 0; i < 512; i++) {
        MUST(cudaMemsetAsync(p, i & 127, sizeof *p, stream));
        expect_then_set<<<1, 1, 0, stream>>>(p, (i & 127) * 0x01010101, -1, wrong);
    }
    MUST(cudaMemcpyAsync(&seen, wrong, sizeof seen, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(seen == 0);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(p));
    MUST(cudaFree(wrong));
}

static void device_synchronize_waits_for_all()
{
    enum { STREAMS = 12 };
    cudaStream_t streams[STREAMS];
    int *p, seen[STREAMS];
    MUST(cudaMalloc((void **)&p, sizeof seen));
    MUST(cudaMemset(p, 0, sizeof seen));
    // streams that do not wait for the default one do not wait for that
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < STREAMS; i++) {
        MUST(cudaStreamCreateWithFlags(&streams[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        fill_slowly<<<1, 1, 0, streams[i]>>>(p + i, 1, i + 1, 100000 * (STREAMS - i));
    }
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < STREAMS; i++)
        GIVES(cudaSuccess, cudaStreamQuery(streams[i]));
    MUST(cudaMemcpy(seen, p, sizeof seen, cudaMemcpyDeviceToHost));
    for (int i = 0; i < STREAMS; i++) {
        HOLDS(seen[i] == i + 1);
        MUST(cudaStreamDestroy(streams[i]));
    }
    MUST(cudaFree(p));
}

// Many sources are taken while the stream is held, large and small; none may be read later. Another thread lets it go,
// since a GPU's driver may wait for the stream when it has taken as much as it can.
struct release { int *flag; cudaStream_t stream; int ready; };

static void *let_go(void *argument)
{
    struct release *release = (struct release *)argument;
    int one = 1;
    for (volatile int i = 0; i < 30000000 && !__atomic_load_n(&release->ready, __ATOMIC_RELAXED); i++)
        ;
    MUST(cudaMemcpyAsync(release->flag, &one, sizeof one, cudaMemcpyHostToDevice, release->stream));
    return NULL;
}

static void sources_are_taken()
{
    enum { COPIES = 40, LARGE = 1 << 20 };
    struct release release = { 0 };
    pthread_t thread;
    cudaStream_t stream;
    char *device, *source = (char *)malloc(LARGE), *back = (char *)malloc(LARGE);
    size_t sizes[] = { 1, 100, 5000, 70000, LARGE };
    MUST(cudaMalloc((void **)&device, (size_t)COPIES * LARGE));
    MUST(cudaMalloc((void **)&release.flag, sizeof(int)));
    MUST(cudaMemset(release.flag, 0, sizeof(int)));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&release.stream, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, stream>>>(release.flag);
    pthread_create(&thread, NULL, let_go, &release);
    for (int i = 0; i < COPIES; i++) {
        memset(source, i + 1, LARGE);
        MUST(cudaMemcpyAsync(device + (size_t)i * LARGE, source, sizes[i % 5], cudaMemcpyHostToDevice, stream));
        memset(source, 0xee, LARGE);
    }
    __atomic_store_n(&release.ready, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < COPIES; i++) {
        size_t wrong = 0;
        MUST(cudaMemcpy(back, device + (size_t)i * LARGE, sizes[i % 5], cudaMemcpyDeviceToHost));
        for (size_t k = 0; k < sizes[i % 5]; k++)
            wrong += back[k] != i + 1;
        HOLDS(wrong == 0);
    }
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(release.stream));
    MUST(cudaFree(device));
    MUST(cudaFree(release.flag));
    free(source);
    free(back);
}

// If one of these waited, the kernel would never end: it is let go by the last of them.
static void nothing_waits_for_a_held_stream()
{
    enum { SMALL = 1000, LARGE = 3 << 20 };
    cudaStream_t held, other;
    cudaEvent_t event;
    int *flag, one = 1;
    char *device, *more, *pinned, *back, pageable[SMALL], seen[SMALL];
    MUST(cudaMalloc((void **)&flag, sizeof *flag));
    MUST(cudaMalloc((void **)&device, LARGE));
    MUST(cudaMallocHost((void **)&pinned, LARGE));
    MUST(cudaMallocHost((void **)&back, LARGE));
    MUST(cudaMemset(flag, 0, sizeof *flag));
    MUST(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, held>>>(flag);

    memset(pinned, 5, LARGE);
    memset(pageable, 6, SMALL);
    memset(back, 0, LARGE);
    MUST(cudaMalloc((void **)&more, LARGE));
    MUST(cudaMemsetAsync(device, 4, LARGE, held));
    MUST(cudaMemcpyAsync(device + SMALL, pinned, LARGE - SMALL, cudaMemcpyHostToDevice, held));
    MUST(cudaMemcpyAsync(device + 2 * SMALL, pageable, SMALL, cudaMemcpyHostToDevice, held));
    MUST(cudaMemcpyAsync(back, device, LARGE, cudaMemcpyDeviceToHost, held));
    MUST(cudaEventCreate(&event));
    MUST(cudaEventRecord(event, held));
    GIVES(cudaErrorNotReady, cudaEventQuery(event));
    GIVES(cudaErrorNotReady, cudaStreamQuery(held));
    HOLDS(back[0] == 0 && back[LARGE - 1] == 0);

    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaMemsetAsync(more, 9, LARGE, other));
    fill_slowly<<<1, 1, 0, other>>>((int *)more, 1, 0x08080808, 0);
    MUST(cudaMemcpyAsync(seen, more, SMALL, cudaMemcpyDeviceToHost, other));
    MUST(cudaStreamSynchronize(other));
    HOLDS(seen[0] == 8 && seen[4] == 9 && seen[SMALL - 1] == 9);
    GIVES(cudaErrorNotReady, cudaStreamQuery(held));
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, other));

    MUST(cudaEventSynchronize(event));
    HOLDS(back[0] == 4 && back[SMALL - 1] == 4 && back[SMALL] == 5 && back[2 * SMALL - 1] == 5 &&
          back[2 * SMALL] == 6 && back[3 * SMALL - 1] == 6 && back[3 * SMALL] == 5 && back[LARGE - 1] == 5);
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(held));
    MUST(cudaStreamDestroy(other));
    MUST(cudaFreeHost(pinned));
    MUST(cudaFreeHost(back));
    MUST(cudaFree(more));
    MUST(cudaFree(device));
    MUST(cudaFree(flag));
}

__global__ void expect_all(const char *p, int n, char expected, int *wrong)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (p[i] != expected)
            atomicAdd(wrong, 1);
}

static void copies_that_returned_come_first()
{
    enum { ROUNDS = 60, MOST = 300000 };
    static const int sizes[] = { 100, 3000, 70000, MOST };
    cudaStream_t stream;
    char *source = (char *)malloc(MOST), *device;
    int *wrong, seen;
    MUST(cudaMalloc((void **)&device, MOST));
    MUST(cudaMalloc((void **)&wrong, sizeof *wrong));
    MUST(cudaMemset(wrong, 0, sizeof *wrong));
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < ROUNDS; i++) {
        int size = sizes[i % 4];
        bool early = i % 3;                             // the stream is made before the copy, or after it
        memset(source, i + 1, size);
        if (early)
            MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        MUST(cudaMemcpy(device, source, size, cudaMemcpyHostToDevice));
        if (!early)
            MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        expect_all<<<1, 256, 0, stream>>>(device, size, (char)(i + 1), wrong);
        MUST(cudaStreamSynchronize(stream));
        MUST(cudaStreamDestroy(stream));
    }
    MUST(cudaMemcpy(&seen, wrong, sizeof seen, cudaMemcpyDeviceToHost));
    HOLDS(seen == 0);
    MUST(cudaFree(device));
    MUST(cudaFree(wrong));
    free(source);
}

__global__ void set(volatile int *flag)
{
    *flag = 1;
}

// A stream that would not wait for the copy is made when a kernel behind the copy waits for what that stream does.
static void kernels_behind_returned_copies_are_not_waited_for()
{
    enum { ROUNDS = 24, MOST = 1000000 };
    static const int sizes[] = { 100, 3000, 70000, MOST };
    cudaStream_t blocking, apart;
    char *source = (char *)malloc(MOST), *device;
    int *wrong, *flag, seen;
    MUST(cudaMalloc((void **)&device, MOST));
    MUST(cudaMalloc((void **)&wrong, sizeof *wrong));
    MUST(cudaMalloc((void **)&flag, sizeof *flag));
    MUST(cudaMemset(wrong, 0, sizeof *wrong));
    for (int i = 0; i < ROUNDS; i++) {
        // both in the legacy stream; the kernel in another; the stream gone before
        int size = sizes[i % 4], where = i / 4 % 3;
        memset(source, i + 1, size);
        MUST(cudaMemset(flag, 0, sizeof *flag));
        if (where)
            MUST(cudaStreamCreate(&blocking));
        MUST(cudaDeviceSynchronize());
        MUST(cudaMemcpy(device, source, size, cudaMemcpyHostToDevice));
        wait_for<<<1, 1, 0, where ? blocking : NULL>>>(flag);
        MUST(cudaGetLastError());
        if (where == 2)
            MUST(cudaStreamDestroy(blocking));
        MUST(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
        expect_all<<<1, 256, 0, apart>>>(device, size, (char)(i + 1), wrong);
        set<<<1, 1, 0, apart>>>(flag);
        MUST(cudaDeviceSynchronize());
        MUST(cudaStreamDestroy(apart));
        if (where == 1)
            MUST(cudaStreamDestroy(blocking));
    }
    MUST(cudaMemcpy(&seen, wrong, sizeof seen, cudaMemcpyDeviceToHost));
    HOLDS(seen == 0);
    MUST(cudaFree(device));
    MUST(cudaFree(wrong));
    MUST(cudaFree(flag));
    free(source);
}

static void free_waits()
{
    enum { N = 20000 };
    cudaStream_t stream;
    int *p, *again, *h = (int *)malloc(N * sizeof *h);
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 5; round++) {
        MUST(cudaMalloc((void **)&p, N * sizeof *p));
        fill_slowly<<<1, 1, 0, stream>>>(p, N, 7, 200000);
        MUST(cudaFree(p));
        GIVES(cudaSuccess, cudaStreamQuery(stream));        // cudaFree has waited
        MUST(cudaMalloc((void **)&again, N * sizeof *again));
        MUST(cudaMemset(again, 1, N * sizeof *again));
        MUST(cudaDeviceSynchronize());
        MUST(cudaMemcpy(h, again, N * sizeof *h, cudaMemcpyDeviceToHost));
        int wrong = 0;
        for (int i = 0; i < N; i++)
            wrong += h[i] != 0x01010101;
        HOLDS(wrong == 0);
        MUST(cudaFree(again));
    }
    free(h);
    MUST(cudaStreamDestroy(stream));
}

int main()
{
    launches_behind_a_held_stream();
    memsets_and_launches_keep_their_order();
    device_synchronize_waits_for_all();
    sources_are_taken();
    nothing_waits_for_a_held_stream();
    copies_that_returned_come_first();
    kernels_behind_returned_copies_are_not_waited_for();
    free_waits();
    return check_result("held");
}
