// shows: pinned memory in kernels: kernels read and write it by the program's own pointer and the device pointer, at
//   any size and offset, from a parameter, a structure and a pointer that lies in device memory
// shows: pinned memory in kernels: what a kernel wrote is there after every call that waits, and after a query that
//   says that the work has ended; host functions read and write it between kernels
// shows: pinned memory in kernels: counters and atomics over many launches without a wait, of two streams in order
// shows: pinned memory in kernels: copies and sets of the same memory keep to the order of the streams
// shows: pinned memory in kernels: program and kernel write different bytes of one word while the kernel runs
// shows: pinned memory in kernels: program and kernel wait for words of each other without any call
// shows: pinned memory in kernels: a kernel reads a word that the program writes again and again
// shows: pinned memory in kernels: graphs, also launched again after the program has written
// shows: pinned memory in kernels: read(2) and other threads fill it; allocated again it has nothing of before
// shows: pinned memory in kernels: allocated again at the same address, by a pointer that lies in device memory only
// shows: pinned memory in kernels: registered memory by its device pointer; what else lies in its pages stays
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

__global__ void add(int *p, size_t n, int value)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] += value;
}
__global__ void copy_ints(int *to, const int *from, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}
struct two { int many; int *from; char gap[3]; int *to; };
__global__ void by_structure(two t)
{
    for (int i = threadIdx.x; i < t.many; i += blockDim.x)
        t.to[i] = t.from[i] * 2;
}
__global__ void by_table(int *const *table, int which, int value) { table[which][threadIdx.x] += value; }
__global__ void count(int *counter) { atomicAdd(counter, 1); }
__global__ void store(int *to, int value) { *to = value; }
__global__ void store_byte(unsigned char *to, int value) { *to = (unsigned char)value; }
__global__ void wait_for(volatile int *gate)
{
    while (!*gate)
        __nanosleep(20000);
}
__global__ void late_byte(volatile int *gate, volatile unsigned char *to, int value)
{
    to[0] = 1;                               // it has begun
    while (!*gate)
        __nanosleep(20000);
    to[4] = (unsigned char)value;
}

__global__ void wait_until(const volatile int *word, int value)
{
    while (*word < value)
        ;
}

// Answers requests of the program as they come.
__global__ void mailbox(volatile int *request, volatile int *answer, const volatile int *in, int *out, int n,
                        int rounds)
{
    for (int round = 1; round <= rounds; round++) {
        while (*request != round)
            __nanosleep(20000);
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            out[i] = in[i] + round;
        __threadfence_system();
        __syncthreads();
        if (threadIdx.x == 0)
            *answer = round;
    }
}

static bool indirect = true;                 // a kernel may find the pointer in device memory

template <class T> static T *pinned(size_t n, unsigned flags = 0)
{
    T *p;
    MUST(cudaHostAlloc((void **)&p, n * sizeof(T), flags));
    return p;
}
template <class T> static T *on_device(size_t n)
{
    T *p;
    MUST(cudaMalloc((void **)&p, n * sizeof(T)));
    return p;
}
static cudaStream_t stream()
{
    cudaStream_t s;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
static cudaEvent_t event()
{
    cudaEvent_t e;
    MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}
static void fill(int *p, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (int)(i * 2654435761u) ^ seed;
}
static bool same(const int *p, size_t n, int seed, int plus)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ((int)(i * 2654435761u) ^ seed) + plus) {
            fprintf(stderr, "word %zu of %zu is %d, not %d\n", i, n, p[i], ((int)(i * 2654435761u) ^ seed) + plus);
            return false;
        }
    return true;
}

static void attributes()
{
    int can = 0, unified = 0;
    MUST(cudaDeviceGetAttribute(&can, cudaDevAttrCanMapHostMemory, 0));
    MUST(cudaDeviceGetAttribute(&unified, cudaDevAttrUnifiedAddressing, 0));
    HOLDS(can && unified);
    int *p = pinned<int>(100), *device = NULL;
    MUST(cudaHostGetDevicePointer((void **)&device, p + 3, 0));
    HOLDS(device == p + 3);
    cudaPointerAttributes a;
    MUST(cudaPointerGetAttributes(&a, p + 3));
    HOLDS(a.type == cudaMemoryTypeHost && a.hostPointer == p + 3 && a.devicePointer == p + 3);
    MUST(cudaFreeHost(p));
}

static void sizes()
{
    static const size_t all[] = { 1, 25, 1024, 17500, 1 << 18, (5 << 17) + 5 };
    for (size_t n : all)
        for (unsigned flags : { 0u, (unsigned)cudaHostAllocMapped, (unsigned)cudaHostAllocPortable }) {
            int *p = pinned<int>(n, flags), *d = on_device<int>(n), *q = p;
            if (flags)
                MUST(cudaHostGetDevicePointer((void **)&q, p, 0));
            fill(p, n, 1);
            copy_ints<<<8, 128>>>(d, q, n);
            add<<<8, 128>>>(q, n, 5);
            MUST(cudaDeviceSynchronize());
            HOLDS(same(p, n, 1, 5));
            fill(p, n, 9);                   // and once more, now that the server knows the memory
            add<<<8, 128>>>(q, n, 1);
            MUST(cudaMemcpy(p, d, sizeof(int), cudaMemcpyDeviceToHost));
            HOLDS(p[0] == (0 ^ 1));
            p[0] = (0 ^ 9) + 1;
            HOLDS(same(p, n, 9, 1));
            MUST(cudaMemcpy(p, d, n * sizeof(int), cudaMemcpyDeviceToHost));
            HOLDS(same(p, n, 1, 0));
            MUST(cudaFree(d));
            MUST(cudaFreeHost(p));
        }
}

static void parameters()
{
    enum { N = 64 };
    int *a = pinned<int>(N), *b = pinned<int>(N), **table = on_device<int *>(2);
    fill(a, N, 3);
    by_structure<<<1, 32>>>({ N, a, "", b });
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < N; i++)
        HOLDS(b[i] == a[i] * 2);
    MUST(cudaFreeHost(b));
    if (indirect) {
        b = pinned<int>(3 << 20);            // granules that no kernel has seen
        fill(b, 3 << 20, 5);
        int *pointers[2] = { a, b + (2 << 20) };
        MUST(cudaMemcpy(table, pointers, sizeof pointers, cudaMemcpyHostToDevice));
        by_table<<<1, 32>>>(table, 1, 4);
        by_table<<<1, 32>>>(table, 0, 1);
        MUST(cudaDeviceSynchronize());
        HOLDS(same(a, 32, 3, 1) && same(b, 2 << 20, 5, 0));
        for (int i = 0; i < 33; i++)
            HOLDS(b[(2 << 20) + i] == ((int)(((2 << 20) + i) * 2654435761u) ^ 5) + (i < 32 ? 4 : 0));
        b[(2 << 20) + 1] = 50;
        by_table<<<1, 32>>>(table, 1, 4);
        MUST(cudaStreamSynchronize(0));
        HOLDS(b[(2 << 20) + 1] == 54);
        MUST(cudaFreeHost(b));
    }
    MUST(cudaFreeHost(a));
    MUST(cudaFree(table));
}

static void CUDART_CB look(void *at)
{
    int *p = (int *)at;
    p[1] = p[0] + 100;
}
static void CUDART_CB look_too(cudaStream_t, cudaError_t, void *at) { look(at); }

static void waits()
{
    int *p = pinned<int>(4), *d = on_device<int>(4);
    cudaStream_t s = stream();
    cudaEvent_t e = event();
    for (int round = 1; round < 40; round += 10) {
        store<<<1, 1, 0, s>>>(p, round);
        MUST(cudaStreamSynchronize(s));
        HOLDS(*p == round);
        store<<<1, 1, 0, s>>>(p, round + 1);
        MUST(cudaDeviceSynchronize());
        HOLDS(*p == round + 1);
        store<<<1, 1, 0, s>>>(p, round + 2);
        MUST(cudaEventRecord(e, s));
        MUST(cudaEventSynchronize(e));
        HOLDS(*p == round + 2);
        store<<<1, 1, 0, s>>>(p, round + 3);
        MUST(cudaEventRecord(e, s));
        while (cudaEventQuery(e) == cudaErrorNotReady)
            ;
        HOLDS(*p == round + 3);
        store<<<1, 1, 0, s>>>(p, round + 4);
        while (cudaStreamQuery(s) == cudaErrorNotReady)
            ;
        HOLDS(*p == round + 4);
        cudaGetLastError();
        store<<<1, 1>>>(p, round + 5);
        MUST(cudaMemcpy(p + 2, d, sizeof(int), cudaMemcpyDeviceToHost));
        HOLDS(*p == round + 5);
        store<<<1, 1, 0, s>>>(p, round + 6);
        MUST(cudaLaunchHostFunc(s, look, p));
        add<<<1, 1, 0, s>>>(p + 1, 1, 1);    // reads what the function wrote
        MUST(cudaStreamSynchronize(s));
        HOLDS(p[0] == round + 6 && p[1] == round + 107);
        store<<<1, 1, 0, s>>>(p, round + 7);
        MUST(cudaStreamAddCallback(s, look_too, p, 0));
        add<<<1, 1, 0, s>>>(p + 1, 1, 1);
        MUST(cudaStreamSynchronize(s));
        HOLDS(p[0] == round + 7 && p[1] == round + 108);
        int *gone = on_device<int>(1);
        store<<<1, 1, 0, s>>>(p, round + 8);
        MUST(cudaFree(gone));                // waits for everything
        HOLDS(*p == round + 8);
    }
    MUST(cudaFreeHost(p));
    MUST(cudaFree(d));
    MUST(cudaStreamDestroy(s));
    MUST(cudaEventDestroy(e));
}

static void counters()
{
    enum { LAUNCHES = 200 };
    int *p = pinned<int>(2), *d = on_device<int>(1);
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t e = event();
    p[0] = 7;
    p[1] = 0;
    for (int i = 0; i < LAUNCHES; i++) {
        count<<<2, 64, 0, a>>>(p);
        add<<<1, 1, 0, a>>>(p + 1, 1, 3);
    }
    MUST(cudaEventRecord(e, a));
    MUST(cudaStreamWaitEvent(b, e, 0));
    copy_ints<<<1, 1, 0, b>>>(d, p, 1);      // the other stream sees them
    count<<<1, 64, 0, b>>>(p);
    MUST(cudaStreamSynchronize(b));
    HOLDS(p[0] == 7 + 128 * LAUNCHES + 64 && p[1] == 3 * LAUNCHES);
    int seen = 0;
    MUST(cudaMemcpy(&seen, d, sizeof seen, cudaMemcpyDeviceToHost));
    HOLDS(seen == 7 + 128 * LAUNCHES);
    p[0] = 1;                                // a reset by the program counts
    count<<<1, 32, 0, b>>>(p);
    MUST(cudaStreamSynchronize(b));
    HOLDS(p[0] == 33);
    MUST(cudaFreeHost(p));
    MUST(cudaFree(d));
    MUST(cudaStreamDestroy(a));
    MUST(cudaStreamDestroy(b));
    MUST(cudaEventDestroy(e));
}

// Behind what holds the stream, so that everything is queued before anything runs.
static void beside_copies(size_t n)
{
    int *p = pinned<int>(n), *d = on_device<int>(n), *f = on_device<int>(n), *gate = on_device<int>(1);
    std::vector<int> seen(n);
    cudaStream_t s = stream(), other = stream(), opener = stream();
    cudaEvent_t e = event();
    for (int held = 0; held < 2; held++)
        for (int way = 0; way < 6; way++) {
            MUST(cudaMemset(gate, 0, sizeof(int)));
            fill(seen.data(), n, way);
            MUST(cudaMemcpy(d, seen.data(), n * sizeof(int), cudaMemcpyHostToDevice));
            memset(p, 0, n * sizeof(int));
            MUST(cudaDeviceSynchronize());
            if (held)
                wait_for<<<1, 1, 0, s>>>(gate);
            int plus = 0;
            switch (way) {
            case 0:                          // a copy brings what the kernel reads and writes
                MUST(cudaMemcpyAsync(p, d, n * sizeof(int), cudaMemcpyDeviceToHost, s));
                add<<<8, 128, 0, s>>>(p, n, 1);
                plus = 1;
                break;
            case 1:                          // in another stream
                MUST(cudaMemcpyAsync(p, d, n * sizeof(int), cudaMemcpyDeviceToHost, s));
                MUST(cudaEventRecord(e, s));
                MUST(cudaStreamWaitEvent(other, e, 0));
                add<<<8, 128, 0, other>>>(p, n, 2);
                MUST(cudaEventRecord(e, other));
                MUST(cudaStreamWaitEvent(s, e, 0));
                plus = 2;
                break;
            case 2:                          // a copy takes what the kernel wrote
                copy_ints<<<8, 128, 0, s>>>(p, d, n);
                MUST(cudaMemcpyAsync(f, p, n * sizeof(int), cudaMemcpyHostToDevice, s));
                add<<<8, 128, 0, s>>>(f, n, 3);
                MUST(cudaMemcpyAsync(p, f, n * sizeof(int), cudaMemcpyDeviceToHost, s));
                plus = 3;
                break;
            case 3:                          // a copy overwrites what the kernel wrote
                add<<<8, 128, 0, s>>>(p, n, 77);
                MUST(cudaMemcpyAsync(p, d, n * sizeof(int), cudaMemcpyDeviceToHost, s));
                break;
            case 4:                          // a set, between kernels
                add<<<8, 128, 0, s>>>(p, n, 77);
                MUST(cudaMemsetAsync(p, 0, n * sizeof(int), s));
                add<<<8, 128, 0, s>>>(p, n, 4);
                copy_ints<<<8, 128, 0, s>>>(f, p, n);
                MUST(cudaMemcpyAsync(p, d, n * sizeof(int), cudaMemcpyDeviceToHost, s));
                break;
            case 5:                          // kernel, copy, kernel, copy
                add<<<8, 128, 0, s>>>(p, n, 1);
                MUST(cudaMemcpyAsync(f, p, n * sizeof(int), cudaMemcpyHostToDevice, s));
                MUST(cudaMemcpyAsync(p, d, n * sizeof(int), cudaMemcpyDeviceToHost, s));
                add<<<8, 128, 0, s>>>(p, n, 5);
                MUST(cudaMemcpyAsync(d, p, n * sizeof(int), cudaMemcpyHostToDevice, s));
                plus = 5;
                break;
            }
            if (held)
                MUST(cudaMemsetAsync(gate, 1, sizeof(int), opener));
            MUST(cudaStreamSynchronize(s));
            bool good = same(p, n, way, plus);
            if (way >= 4) {
                MUST(cudaMemcpy(seen.data(), f, n * sizeof(int), cudaMemcpyDeviceToHost));
                for (size_t i = 0; i < n; i++)
                    good = good && seen[i] == (way == 4 ? 4 : 1);
            }
            if (way == 5) {
                MUST(cudaMemcpy(seen.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost));
                good = good && same(seen.data(), n, way, plus);
            }
            if (!good)
                fprintf(stderr, "copies, way %d, %zu words, %s\n", way, n, held ? "held" : "not held");
            HOLDS(good);
        }
    // copies between pinned memory, and synchronous ones
    int *q = pinned<int>(n);
    fill(p, n, 30);
    add<<<8, 128, 0, s>>>(p, n, 1);
    MUST(cudaMemcpyAsync(q, p, n * sizeof(int), cudaMemcpyHostToHost, s));
    MUST(cudaStreamSynchronize(s));
    HOLDS(same(q, n, 30, 1));
    add<<<8, 128>>>(q, n, 1);
    MUST(cudaMemcpy(d, q, n * sizeof(int), cudaMemcpyHostToDevice));
    add<<<8, 128>>>(q, n, 50);
    MUST(cudaMemcpy(q, d, n * sizeof(int), cudaMemcpyDeviceToHost));
    MUST(cudaDeviceSynchronize());
    HOLDS(same(q, n, 30, 2));
    MUST(cudaFreeHost(p));
    MUST(cudaFreeHost(q));
    MUST(cudaFree(d));
    MUST(cudaFree(f));
    MUST(cudaFree(gate));
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(other));
    MUST(cudaStreamDestroy(opener));
    MUST(cudaEventDestroy(e));
}

static void one_word()
{
    unsigned char *p = pinned<unsigned char>(8);
    int *gate = on_device<int>(1);
    cudaStream_t s = stream(), other = stream();
    for (int round = 1; round < 20; round++) {
        memset(p, 0, 8);
        MUST(cudaMemset(gate, 0, sizeof(int)));
        MUST(cudaDeviceSynchronize());
        late_byte<<<1, 1, 0, s>>>(gate, p, round);
        p[5] = (unsigned char)(round + 100);  // beside the byte that the kernel will write
        store_byte<<<1, 1, 0, other>>>(p + 6, round + 50);
        MUST(cudaStreamSynchronize(other));
        HOLDS(p[6] == round + 50 && p[5] == round + 100);
        p[7] = 9;
        MUST(cudaMemsetAsync(gate, 1, sizeof(int), other));
        MUST(cudaStreamSynchronize(s));
        HOLDS(p[0] == 1 && p[4] == round && p[5] == round + 100 && p[6] == round + 50 && p[7] == 9);
    }
    MUST(cudaFreeHost(p));
    MUST(cudaFree(gate));
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(other));
}

// No call between: the program and the kernel wait for each other's words, and find what was written before them. The
// word of the answer lies before what it announces, and the word of the request behind.
static void without_calls()
{
    enum { N = 3000, ROUNDS = 12 };
    int *all = pinned<int>(2 * N + 64), *in = all + 32, *out = in + N;
    int *request = all + 2 * N + 63, *answer = all;
    if (!indirect)
        return;                              // docs/pinned-memory.md: such a GPU promises no order
    memset(all, 0, (2 * N + 64) * sizeof(int));
    mailbox<<<1, 64>>>(request, answer, in, out, N, ROUNDS);
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    cudaGetLastError();
    for (int round = 1; round <= ROUNDS; round++) {
        fill(in, N, round);
        __atomic_store_n(request, round, __ATOMIC_RELEASE);
        while (__atomic_load_n(answer, __ATOMIC_ACQUIRE) != round)
            usleep(100);
        HOLDS(same(out, N, round, round));
    }
    MUST(cudaDeviceSynchronize());
    MUST(cudaFreeHost(all));
}

// The program never stops writing: each look of the kernel may come between two of its patches.
static void without_pause()
{
    enum { ROUNDS = 300 };
    int *word = pinned<int>(1);
    *word = 0;
    wait_until<<<4, 32>>>(word, ROUNDS);
    for (int round = 1; round <= ROUNDS; round++) {
        __atomic_store_n(word, round, __ATOMIC_RELEASE);
        usleep(100);
    }
    MUST(cudaDeviceSynchronize());
    MUST(cudaFreeHost(word));
}

static void graphs()
{
    enum { N = 3000 };
    int *p = pinned<int>(N), *q = pinned<int>(N), *d = on_device<int>(N);
    cudaStream_t s = stream();
    cudaGraph_t graph;
    cudaGraphExec_t run;
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    add<<<4, 128, 0, s>>>(p, N, 1);
    copy_ints<<<4, 128, 0, s>>>(d, p, N);
    MUST(cudaMemcpyAsync(q, d, N * sizeof(int), cudaMemcpyDeviceToHost, s));
    add<<<4, 128, 0, s>>>(q, N, 10);
    MUST(cudaMemcpyAsync(d, q, N * sizeof(int), cudaMemcpyHostToDevice, s));
    MUST(cudaLaunchHostFunc(s, look, p));
    add<<<1, 1, 0, s>>>(p + 1, 1, 1);
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&run, graph, NULL, NULL, 0));
    std::vector<int> seen(N);
    for (int round = 0; round < 5; round++) {
        fill(p, N, round);
        MUST(cudaGraphLaunch(run, s));
        if (round % 2)
            MUST(cudaStreamSynchronize(s));
        else
            MUST(cudaDeviceSynchronize());
        HOLDS(p[1] == p[0] + 101);
        p[1] = ((int)2654435761u ^ round) + 1;
        HOLDS(same(p, N, round, 1) && same(q, N, round, 11));
        MUST(cudaMemcpy(seen.data(), d, N * sizeof(int), cudaMemcpyDeviceToHost));
        HOLDS(same(seen.data(), N, round, 11));
    }
    fill(p, N, 50);
    for (int i = 0; i < 3; i++)              // without a wait between
        MUST(cudaGraphLaunch(run, s));
    MUST(cudaStreamSynchronize(s));
    p[1] = ((int)2654435761u ^ 50) + 3;
    HOLDS(same(p, N, 50, 3));
    MUST(cudaGraphExecDestroy(run));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaFreeHost(p));
    MUST(cudaFreeHost(q));
    MUST(cudaFree(d));
    MUST(cudaStreamDestroy(s));
}

struct filler { int *p; size_t n; int seed; };
static void *fill_in_thread(void *argument)
{
    const filler *f = (const filler *)argument;
    fill(f->p, f->n, f->seed);
    return NULL;
}

static void from_outside()
{
    enum { N = 40000 };
    int *p = pinned<int>(N), ends[2];
    for (int round = 0; round < 3; round++) {
        add<<<8, 128>>>(p, N, 1);            // it is a kernel's memory now
        MUST(cudaDeviceSynchronize());
        std::vector<int> bytes(N);
        fill(bytes.data(), N, round);
        FILE *file = tmpfile();
        HOLDS(fwrite(bytes.data(), sizeof(int), N, file) == N && fflush(file) == 0);
        rewind(file);
        for (size_t got = 0; got < N * sizeof(int);) {
            ssize_t now = read(fileno(file), (char *)p + got, N * sizeof(int) - got);
            if (now <= 0) {
                HOLDS(now > 0);
                break;
            }
            got += (size_t)now;
        }
        fclose(file);
        add<<<8, 128>>>(p, N, 1);
        MUST(cudaDeviceSynchronize());
        HOLDS(pipe(ends) == 0 && write(ends[1], p, 4096) == 4096);        // and out of it
        int first[1024];
        HOLDS(read(ends[0], first, 4096) == 4096 && same(first, 1024, round, 1));
        close(ends[0]);
        close(ends[1]);
        HOLDS(same(p, N, round, 1));
        filler f = { p, N, 70 + round };
        pthread_t thread;
        pthread_create(&thread, NULL, fill_in_thread, &f);
        pthread_join(thread, NULL);
        add<<<8, 128>>>(p, N, 1);
        MUST(cudaDeviceSynchronize());
        HOLDS(same(p, N, 70 + round, 1));
    }
    fflush(stdout);
    MUST(cudaFreeHost(p));
}

static void again()
{
    for (int round = 0; round < 30; round++) {
        size_t n = 10 + (round * 7919) % 5000;
        int *p = pinned<int>(n), *q = pinned<int>(n);
        memset(p, 0, n * sizeof(int));
        fill(q, n, round);
        add<<<2, 64>>>(p, n, round);
        add<<<2, 64>>>(q, n, 1);
        if (round % 3 == 0) {
            MUST(cudaFreeHost(p));           // while the kernel may be at it
            p = pinned<int>(n);
            memset(p, 0x11, n * sizeof(int));
            add<<<2, 64>>>(p, n, 1);
            MUST(cudaDeviceSynchronize());
            for (size_t i = 0; i < n; i++)
                HOLDS(p[i] == 0x11111112);
        }
        MUST(cudaDeviceSynchronize());
        HOLDS(same(q, n, round, 1));
        MUST(cudaFreeHost(p));
        MUST(cudaFreeHost(q));
    }
}

__device__ int *cell;
__global__ void add_to_cell(int value) { *cell += value; }

// The same address again: the server still has memory there, so a kernel that finds the pointer in device memory gets
// to it without being noticed.
static void again_by_a_pointer_in_memory()
{
    for (int round = 0; indirect && round < 8; round++) {
        int *word = pinned<int>(1), *beside = pinned<int>(1);
        *word = round;
        MUST(cudaMemcpyToSymbol(cell, &word, sizeof word));
        add_to_cell<<<1, 1>>>(100);
        MUST(cudaDeviceSynchronize());
        HOLDS(*word == round + 100);
        MUST(cudaFreeHost(word));
        *beside = round;
        MUST(cudaMemcpyToSymbol(cell, &beside, sizeof beside));
        add_to_cell<<<1, 1>>>(1000);
        MUST(cudaDeviceSynchronize());
        HOLDS(*beside == round + 1000);
        MUST(cudaFreeHost(beside));
    }
}

static void registered()
{
    enum { N = 70001 };
    unsigned char *memory = (unsigned char *)malloc((N + 4000) * sizeof(int));
    int *p = (int *)(memory + 4004), *device, *d = on_device<int>(N);
    memset(memory, 0x5a, (N + 4000) * sizeof(int));
    fill(p, N, 3);
    MUST(cudaHostRegister(p, N * sizeof(int), cudaHostRegisterMapped));
    cudaError_t e = cudaHostGetDevicePointer((void **)&device, p, 0);
    if (e == cudaErrorNotSupported) {        // on one machine without FLYT_REGISTER=remap
        cudaGetLastError();
    } else {
        MUST(e);
        cudaPointerAttributes a;
        MUST(cudaPointerGetAttributes(&a, p));
        HOLDS(a.type == cudaMemoryTypeHost && a.hostPointer == p && a.devicePointer == device);
        MUST(cudaPointerGetAttributes(&a, device + 5));
        HOLDS(a.type == cudaMemoryTypeHost && a.hostPointer == p + 5 && a.devicePointer == device + 5);
        for (int round = 0; round < 3; round++) {
            fill(p, N, round);
            add<<<8, 128>>>(device, N, 1);
            memory[0] = memory[4003] = (unsigned char)round;
            MUST(cudaDeviceSynchronize());
            HOLDS(same(p, N, round, 1));
            HOLDS(memory[4003] == round && memory[4002] == 0x5a && ((unsigned char *)(p + N))[0] == 0x5a);
        }
        add<<<8, 128>>>(device, N, 1);
        MUST(cudaMemcpyAsync(d, p, N * sizeof(int), cudaMemcpyHostToDevice));        // both names of it
        MUST(cudaMemcpyAsync(device, d, N * sizeof(int), cudaMemcpyDeviceToDevice));
        add<<<8, 128>>>(device, N, 1);
        MUST(cudaMemcpy(d, device, N * sizeof(int), cudaMemcpyDefault));
        MUST(cudaDeviceSynchronize());
        HOLDS(same(p, N, 2, 3));
    }
    MUST(cudaHostUnregister(p));
    MUST(cudaFree(d));
    free(memory);
}

static void *one_thread(void *argument)
{
    enum { N = 5000, ROUNDS = 25 };
    int seed = (int)(intptr_t)argument;
    int *p = pinned<int>(N), *d = on_device<int>(N);
    cudaStream_t s = stream();
    for (int i = 0; i < ROUNDS; i++) {
        fill(p, N, seed + i);
        add<<<4, 64, 0, s>>>(p, N, 1);
        MUST(cudaMemcpyAsync(d, p, N * sizeof(int), cudaMemcpyHostToDevice, s));
        add<<<4, 64, 0, s>>>(d, N, 1);
        MUST(cudaMemcpyAsync(p, d, N * sizeof(int), cudaMemcpyDeviceToHost, s));
        MUST(cudaStreamSynchronize(s));
        HOLDS(same(p, N, seed + i, 2));
    }
    MUST(cudaFreeHost(p));
    MUST(cudaFree(d));
    MUST(cudaStreamDestroy(s));
    return NULL;
}

static void threads()
{
    pthread_t all[4];
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, one_thread, (void *)(1000 * (i + 1)));
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

static void after_a_reset()
{
    int *p = pinned<int>(1000);
    fill(p, 1000, 1);
    add<<<4, 64>>>(p, 1000, 1);
    MUST(cudaDeviceReset());                 // at once; what the kernel wrote may be lost, the memory too
    p = pinned<int>(1000);
    fill(p, 1000, 2);
    add<<<4, 64>>>(p, 1000, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(same(p, 1000, 2, 1));
    MUST(cudaFreeHost(p));
}

// What cannot work over a network, for messages.py: ends with the error that the program sees.
static int wrong(const char *what)
{
    int *p = pinned<int>(1000), *q = NULL, **table = on_device<int *>(1);
    store<<<1, 1>>>(p, 1);
    MUST(cudaDeviceSynchronize());
    if (strcmp(what, "registered") == 0) {
        q = (int *)malloc(4096);
        MUST(cudaHostRegister(q, 4096, 0));
        store<<<1, 1>>>(q, 1);
    } else if (strcmp(what, "freed") == 0) {
        q = pinned<int>(5 << 20);
        MUST(cudaFreeHost(q));
        store<<<1, 1>>>(q, 1);
    } else if (strcmp(what, "large") == 0) {
        q = pinned<int>(64 << 20);
        store<<<1, 1>>>(q, 1);
    } else {                                 // by way of device memory
        MUST(cudaMemcpy(table, &p, sizeof p, cudaMemcpyHostToDevice));
        MUST(cudaFreeHost(p));
        p = pinned<int>(5 << 20);
        MUST(cudaMemcpy(table, &p, sizeof p, cudaMemcpyHostToDevice));
        by_table<<<1, 32>>>(table, 0, 1);
    }
    cudaError_t launched = cudaGetLastError(), ended = cudaDeviceSynchronize();
    printf("address %p: launch %d, end %d\n", (void *)(q ? q : p), (int)launched, (int)ended);
    return launched || ended;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return wrong(argv[1]);
    const char *perf = getenv("FLYT_PERF");
    indirect = !perf || !strstr(perf, "no_pull");
    int can = 0;
    MUST(cudaDeviceGetAttribute(&can, cudaDevAttrCanMapHostMemory, 0));
    if (!can) {
        printf("no room for the window of host memory\n");
        return 77;
    }
    attributes();
    parameters();
    sizes();
    waits();
    counters();
    beside_copies(500);
    beside_copies(90000);
    one_word();
    without_calls();
    without_pause();
    graphs();
    from_outside();
    again();
    again_by_a_pointer_in_memory();
    registered();
    threads();
    after_a_reset();
    return check_result("pinned_kernels");
}
