// shows: memory: pinned memory of 1 byte to 40 MiB: copies both ways, flat and in boxes, checked byte by byte; freed
//   and allocated again
// shows: memory: a kernel reads, writes and counts in pinned memory under the program's own pointer, and sees a flag
//   that the program sets
// shows: order: a copy from pinned memory reads it when its turn has come, behind kernels and copies into it
// shows: memory: cudaHostRegister: asynchronous copies both ways from and to an unaligned range; mapping is an error
// shows: memory: FLYT_REGISTER=remap: a registered range and its neighbours keep their contents, kernels use it,
//   unregistering undoes it
// shows: order: with every chunk held by a stream that does not move, copies of other streams arrive, also the one that
//   it waits for
// shows: threads: four threads copy pageable and pinned memory at once, each byte checked
// shows: fork: the child does not have the parent's pinned memory, or a copy of its own, and the parent keeps it
#include "check.h"
#include <sys/mman.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void add_all(unsigned char *p, size_t n, int value)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (unsigned char)(p[i] + value);
}

__global__ void wait_for(volatile int *flag)
{
    while (!*flag)
        __nanosleep(20000);
}

__global__ void count_in(int *counter)
{
    atomicAdd(counter, 1);
}

static bool mapped;                          // kernels use host memory
static bool shared;                          // it is the same memory for program and server
static bool small_room;                      // but little of it: what does not fit is not mapped

static unsigned char pattern(size_t i, unsigned seed)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
    return (unsigned char)(x >> 56 ^ x >> 24);
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = pattern(i, seed);
}

static bool same(const unsigned char *p, size_t n, unsigned seed, int plus)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (unsigned char)(pattern(i, seed) + plus)) {
            fprintf(stderr, "byte %zu of %zu is %d, not %d\n", i, n, p[i], (unsigned char)(pattern(i, seed) + plus));
            return false;
        }
    return true;
}

static void device_pointer(void *host)
{
    void *device = NULL;
    cudaError_t e = cudaHostGetDevicePointer(&device, host, 0);
    if (small_room && e == cudaErrorNotSupported)
        return;
    HOLDS(e == (mapped ? cudaSuccess : cudaErrorNotSupported));
    HOLDS(!mapped || device == host);
    cudaPointerAttributes a;
    MUST(cudaPointerGetAttributes(&a, host));
    HOLDS(a.type == cudaMemoryTypeHost && a.hostPointer == host && a.devicePointer == (mapped ? host : NULL));
}

static void sizes()
{
    static const size_t all[] = { 1, 100, 4096, 70000, 1 << 20, (3 << 20) + 5, 40 << 20 };
    for (int round = 0; round < 2; round++)
        for (size_t n : all) {
            unsigned char *a, *b, *d;
            MUST(cudaMallocHost((void **)&a, n));
            MUST(cudaHostAlloc((void **)&b, n, cudaHostAllocMapped | cudaHostAllocPortable));
            MUST(cudaMalloc((void **)&d, n));
            device_pointer(a);
            device_pointer(b + n - 1);
            fill(a, n, 1 + round);
            memset(b, 0, n);
            MUST(cudaMemcpyAsync(d, a, n, cudaMemcpyHostToDevice));
            add_all<<<8, 64>>>(d, n < 100000 ? n : 100000, 0);
            MUST(cudaMemcpyAsync(b, d, n, cudaMemcpyDeviceToHost));
            MUST(cudaDeviceSynchronize());
            HOLDS(same(b, n, 1 + round, 0));
            MUST(cudaMemcpy(a, d, n, cudaMemcpyDefault));
            HOLDS(same(a, n, 1 + round, 0));
            memset(a, 0, n);
            MUST(cudaMemcpyAsync(a, b, n, cudaMemcpyHostToHost));
            MUST(cudaStreamSynchronize(0));
            HOLDS(same(a, n, 1 + round, 0));
            unsigned char *keep = a;
            MUST(cudaFreeHost(a));
            GIVES(cudaErrorInvalidValue, cudaFreeHost(keep));
            MUST(cudaFreeHost(b));
            MUST(cudaFree(d));
        }
    // many small ones that live together
    enum { MANY = 1200 };
    static unsigned char *p[MANY];
    for (int i = 0; i < MANY; i++) {
        MUST(cudaMallocHost((void **)&p[i], 1 + i * 7));
        fill(p[i], 1 + i * 7, i);
    }
    for (int i = 0; i < MANY; i += 2)
        MUST(cudaFreeHost(p[i]));
    for (int i = 1; i < MANY; i += 2) {
        HOLDS(same(p[i], 1 + i * 7, i, 0));
        MUST(cudaFreeHost(p[i]));
    }
}

static void boxes()
{
    enum { W = 300, H = 50, PITCH = 333 };
    unsigned char *host, *back, *d, *pageable = (unsigned char *)malloc(PITCH * H);
    size_t pitch;
    MUST(cudaMallocHost((void **)&host, PITCH * H));
    MUST(cudaMallocHost((void **)&back, PITCH * H));
    MUST(cudaMallocPitch((void **)&d, &pitch, W, H));
    fill(host, PITCH * H, 9);
    memset(back, 0, PITCH * H);
    MUST(cudaMemcpy2DAsync(d, pitch, host, PITCH, W, H, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2DAsync(back, PITCH, d, pitch, W, H, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy2D(pageable, PITCH, d, pitch, W, H, cudaMemcpyDeviceToHost));
    MUST(cudaDeviceSynchronize());
    for (int y = 0; y < H; y++)
        for (int x = 0; x < PITCH; x++) {
            HOLDS(back[y * PITCH + x] == (x < W ? host[y * PITCH + x] : 0));
            HOLDS(x >= W || pageable[y * PITCH + x] == host[y * PITCH + x]);
        }
    MUST(cudaMemset(d, 0, pitch * H));
    MUST(cudaMemcpy2D(d, pitch, host, PITCH, W, H, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2D(back, PITCH, d, pitch, W, H, cudaMemcpyDeviceToHost));
    HOLDS(memcmp(back, host, W) == 0 && memcmp(back + PITCH * (H - 1), host + PITCH * (H - 1), W) == 0);
    MUST(cudaFree(d));
    MUST(cudaFreeHost(host));
    MUST(cudaFreeHost(back));
    free(pageable);
}

// Ordinary memory, several chunks: slices with gaps between rows and between each other. A row may be longer than a
// chunk.
static void large_boxes()
{
    // width, rows, slices, pitch
    static const size_t all[][4] = { { 3000, 400, 3, 3100 }, { 700000, 3, 2, 700001 }, { 20, 2000, 4, 64 } };
    for (auto &b : all) {
        size_t width = b[0], rows = b[1], slices = b[2], pitch = b[3], high = rows + 2, bytes = pitch * high * slices;
        unsigned char *from = (unsigned char *)malloc(bytes), *back = (unsigned char *)malloc(bytes);
        cudaPitchedPtr d;
        MUST(cudaMalloc3D(&d, make_cudaExtent(width, high, slices)));
        for (int registered = 0; registered < 2; registered++) {
            fill(from, bytes, 11 + registered);
            memset(back, 0, bytes);
            if (registered)
                MUST(cudaHostRegister(back, bytes, 0));
            cudaMemcpy3DParms in = {}, out = {};
            in.srcPtr = make_cudaPitchedPtr(from, pitch, width, high);
            in.dstPtr = d;
            in.extent = out.extent = make_cudaExtent(width, rows, slices);
            in.kind = cudaMemcpyHostToDevice;
            out.srcPtr = d;
            out.dstPtr = make_cudaPitchedPtr(back, pitch, width, high);
            out.kind = cudaMemcpyDeviceToHost;
            MUST(cudaMemcpy3DAsync(&in, 0));
            memset(from, 0, bytes);          // it has been taken
            MUST(cudaMemcpy3DAsync(&out, 0));
            MUST(cudaDeviceSynchronize());
            size_t wrong = 0;
            for (size_t i = 0; i < bytes; i++) {
                bool inside = i % pitch < width && i / pitch % high < rows;
                wrong += back[i] != (inside ? pattern(i, 11 + registered) : 0);
            }
            HOLDS(wrong == 0);
            if (registered)
                MUST(cudaHostUnregister(back));
        }
        MUST(cudaFree(d.ptr));
        free(from);
        free(back);
    }
}

static void zero_copy()
{
    enum { N = 3 << 20 };
    unsigned char *p;
    int *flag, *counter;
    if (!mapped || small_room)
        return;
    MUST(cudaMallocHost((void **)&p, N));
    fill(p, N, 3);
    add_all<<<16, 128>>>(p, N, 5);
    MUST(cudaDeviceSynchronize());
    HOLDS(same(p, N, 3, 5));

    MUST(cudaMallocHost((void **)&flag, 2 * sizeof(int)));
    counter = flag + 1;
    flag[0] = flag[1] = 0;
    wait_for<<<1, 1>>>(flag);
    count_in<<<4, 64>>>(counter);
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    MUST(cudaDeviceSynchronize());
    HOLDS(*counter == 256);
    MUST(cudaMemset(p, 7, 1000));
    MUST(cudaDeviceSynchronize());
    HOLDS(p[0] == 7 && p[999] == 7 && p[1000] == (unsigned char)(pattern(1000, 3) + 5));
    MUST(cudaFreeHost(flag));
    MUST(cudaFreeHost(p));
}

static void read_in_turn()
{
    enum { N = 1 << 20 };
    unsigned char *p, *q, *a, *b;
    int *gate;
    cudaStream_t s, other;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaMallocHost((void **)&p, N));
    MUST(cudaMallocHost((void **)&q, N));
    MUST(cudaMalloc((void **)&a, N));
    MUST(cudaMalloc((void **)&b, N));
    MUST(cudaMalloc((void **)&gate, sizeof(int)));
    MUST(cudaMemset(gate, 0, sizeof(int)));
    fill(p, N, 20);
    MUST(cudaMemcpy(a, p, N, cudaMemcpyHostToDevice));
    memset(p, 0, N);
    wait_for<<<1, 1, 0, s>>>(gate);
    add_all<<<8, 64, 0, s>>>(a, N, 1);
    MUST(cudaMemcpyAsync(p, a, N, cudaMemcpyDeviceToHost, s));   // fills p …
    MUST(cudaMemcpyAsync(b, p, N, cudaMemcpyHostToDevice, s));   // … which this reads
    add_all<<<8, 64, 0, s>>>(b, N, 1);
    MUST(cudaMemcpyAsync(q, b, N, cudaMemcpyDeviceToHost, s));
    MUST(cudaMemsetAsync(gate, 1, sizeof(int), other));
    MUST(cudaStreamSynchronize(s));
    HOLDS(same(p, N, 20, 1));
    HOLDS(same(q, N, 20, 2));
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(other));
    MUST(cudaFree(a));
    MUST(cudaFree(b));
    MUST(cudaFree(gate));
    MUST(cudaFreeHost(p));
    MUST(cudaFreeHost(q));
}

static void registered()
{
    enum { N = (2 << 20) + 12345 };
    unsigned char *memory = (unsigned char *)malloc(N + 100), *p = memory + 7, *d;
    void *device;
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    MUST(cudaMalloc((void **)&d, N));
    fill(p, N, 31);
    MUST(cudaHostRegister(p, N, cudaHostRegisterMapped));
    GIVES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(p, N, 0));
    void *hole = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap((char *)hole + (48 << 20), 4096);
    GIVES(cudaErrorInvalidValue, cudaHostRegister(hole, 64 << 20, 0));
    cudaGetLastError();
    munmap(hole, 64 << 20);
    if (getenv("FLYT_SERVER") && (shared || !mapped))
        GIVES(cudaErrorNotSupported, cudaHostGetDevicePointer(&device, p, 0));
    for (int i = 0; i < 3; i++) {            // each reads what the one before brought
        MUST(cudaMemcpyAsync(d, p, N, cudaMemcpyHostToDevice, s));
        add_all<<<8, 64, 0, s>>>(d, N, 1);
        MUST(cudaMemcpyAsync(p, d, N, cudaMemcpyDeviceToHost, s));
    }
    MUST(cudaStreamSynchronize(s));
    HOLDS(same(p, N, 31, 3));
    MUST(cudaHostUnregister(p));
    GIVES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(p));
    MUST(cudaStreamDestroy(s));
    MUST(cudaFree(d));
    free(memory);
}

static void remapped()
{
    enum { N = (1 << 20) + 777, EDGE = 5000 };
    // aligned, so that q ends in the page in which p begins
    unsigned char *memory = (unsigned char *)aligned_alloc(65536, (N + 2 * EDGE + 65535) / 65536 * 65536),
                  *p = memory + EDGE + 3, *q = memory + 64, *device, *d;
    if (!shared || small_room || !getenv("FLYT_SERVER")) {
        free(memory);
        return;
    }
    setenv("FLYT_REGISTER", "remap", 1);
    fill(memory, N + 2 * EDGE, 40);
    MUST(cudaHostRegister(p, N, cudaHostRegisterMapped));
    HOLDS(same(memory, N + 2 * EDGE, 40, 0));
    MUST(cudaHostGetDevicePointer((void **)&device, p, 0));
    HOLDS(device != p);
    add_all<<<8, 64>>>(device, N, 1);
    MUST(cudaDeviceSynchronize());
    for (size_t i = 0; i < N + 2 * EDGE; i++)
        if (memory[i] != (unsigned char)(pattern(i, 40) + (memory + i >= p && memory + i < p + N))) {
            HOLDS(!"contents of a remapped range");
            break;
        }
    MUST(cudaMalloc((void **)&d, N));
    MUST(cudaMemcpyAsync(d, p, N, cudaMemcpyHostToDevice));
    add_all<<<8, 64>>>(d, N, 1);
    MUST(cudaMemcpyAsync(p, d, N, cudaMemcpyDeviceToHost));
    MUST(cudaDeviceSynchronize());
    HOLDS(p[0] == (unsigned char)(pattern(EDGE + 3, 40) + 2) &&
          p[N - 1] == (unsigned char)(pattern(EDGE + 3 + N - 1, 40) + 2));
    // its last page is the first of p's: copies work, mapping does not
    MUST(cudaHostRegister(q, EDGE - 100, 0));
    void *none;
    GIVES(cudaErrorNotSupported, cudaHostGetDevicePointer(&none, q, 0));
    MUST(cudaMemcpyAsync(d, q, EDGE - 100, cudaMemcpyHostToDevice));
    MUST(cudaDeviceSynchronize());
    MUST(cudaHostUnregister(q));
    pid_t child = fork();
    if (child == 0)
        _exit(memory[0] == pattern(0, 40) ? 0 : 1);      // its heap is whole
    int status = -1;
    waitpid(child, &status, 0);
    HOLDS(status == 0);
    MUST(cudaHostUnregister(p));
    HOLDS(p[0] == (unsigned char)(pattern(EDGE + 3, 40) + 2) && memory[0] == pattern(0, 40));
    p[0] = 1;
    GIVES(cudaErrorInvalidValue, cudaHostGetDevicePointer(&none, p, 0));
    MUST(cudaFree(d));
    free(memory);
    // the stack of this thread is not replaced: what the thread stores there meanwhile would be lost
    volatile int mine[64] = { 1, 2, 3 };
    MUST(cudaHostRegister((void *)mine, sizeof mine, cudaHostRegisterDefault));
    HOLDS(mine[0] == 1 && mine[1] == 2 && mine[2] == 3);
    MUST(cudaHostUnregister((void *)mine));
    HOLDS(mine[0] == 1 && mine[1] == 2 && mine[2] == 3);
    unsetenv("FLYT_REGISTER");
}

enum { COPIES = 48, PART = 512 << 10 };      // more than there are chunks
struct behind { unsigned char *to, *back; cudaStream_t stream; int queued; };

// Copies behind what holds the stream, each of which may have to wait for it, and back.
static void *copy_behind(void *argument)
{
    struct behind *behind = (struct behind *)argument;
    unsigned char *source = (unsigned char *)malloc(PART);
    for (int i = 0; i < COPIES; i++) {
        fill(source, PART, 100 + i);
        MUST(cudaMemcpyAsync(behind->to + (size_t)i * PART, source, PART, cudaMemcpyHostToDevice, behind->stream));
        __atomic_store_n(&behind->queued, i + 1, __ATOMIC_RELEASE);
    }
    MUST(cudaMemcpyAsync(behind->back, behind->to, (size_t)COPIES * PART, cudaMemcpyDeviceToHost, behind->stream));
    MUST(cudaStreamSynchronize(behind->stream));
    free(source);
    return NULL;
}

// A kernel in one stream waits for the last bytes of a copy in another, and takes all chunks with what is queued behind
// it.
static void all_chunks_held()
{
    enum { OTHER = 9 << 20, END = 3 << 20 };
    unsigned char *back = (unsigned char *)malloc((size_t)COPIES * PART), *a, *b;
    unsigned char *big = (unsigned char *)malloc(OTHER), *again = (unsigned char *)malloc(OTHER);
    int *flags;                              // the last one ends the wait
    cudaStream_t held, other;
    MUST(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&a, (size_t)COPIES * PART));
    MUST(cudaMalloc((void **)&b, OTHER));
    MUST(cudaMalloc((void **)&flags, END));
    MUST(cudaMemset(flags, 0, END));
    MUST(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, held>>>(flags + END / sizeof(int) - 1);
    struct behind behind = { a, back, held, 0 };
    pthread_t thread;
    pthread_create(&thread, NULL, copy_behind, &behind);
    // all of them, or as many as may be queued
    for (int queued = 0, still = 0; queued < COPIES && still < 20; usleep(10000)) {
        int now = __atomic_load_n(&behind.queued, __ATOMIC_ACQUIRE);
        still = now == queued ? still + 1 : 0;
        queued = now;
    }
    fill(big, OTHER, 77);
    MUST(cudaMemcpyAsync(b, big, OTHER, cudaMemcpyHostToDevice, other));
    MUST(cudaMemcpyAsync(again, b, OTHER, cudaMemcpyDeviceToHost, other));
    MUST(cudaStreamSynchronize(other));
    HOLDS(same(again, OTHER, 77, 0));
    GIVES(cudaErrorNotReady, cudaStreamQuery(held));
    int *word = (int *)calloc(1, END);
    word[END / sizeof(int) - 1] = 1;
    // the last chunk of it lets the other stream go
    MUST(cudaMemcpyAsync(flags, word, END, cudaMemcpyHostToDevice, other));
    pthread_join(thread, NULL);
    for (int i = 0; i < COPIES; i++)
        HOLDS(same(back + (size_t)i * PART, PART, 100 + i, 0));
    // and now that all are back, once more
    MUST(cudaMemcpy(b, big, OTHER, cudaMemcpyHostToDevice));
    memset(again, 0, OTHER);
    MUST(cudaMemcpy(again, b, OTHER, cudaMemcpyDeviceToHost));
    HOLDS(same(again, OTHER, 77, 0));
    MUST(cudaStreamDestroy(held));
    MUST(cudaStreamDestroy(other));
    MUST(cudaFree(a));
    MUST(cudaFree(b));
    MUST(cudaFree(flags));
    free(word);
    free(back);
    free(big);
    free(again);
}

// Streams that are destroyed while copies are in them, many more than there are chunks.
static void streams_that_go()
{
    enum { STREAMS = 60, N = 300000 };
    unsigned char *source = (unsigned char *)malloc(N), *back = (unsigned char *)malloc(N), *d;
    MUST(cudaMalloc((void **)&d, (size_t)STREAMS * N));
    for (int i = 0; i < STREAMS; i++) {
        cudaStream_t s;
        MUST(cudaStreamCreate(&s));
        fill(source, N, i);
        MUST(cudaMemcpyAsync(d + (size_t)i * N, source, N, cudaMemcpyHostToDevice, s));
        MUST(cudaStreamDestroy(s));
    }
    for (int i = 0; i < STREAMS; i++) {
        MUST(cudaMemcpy(back, d + (size_t)i * N, N, cudaMemcpyDeviceToHost));
        HOLDS(same(back, N, i, 0));
    }
    MUST(cudaFree(d));
    free(source);
    free(back);
}

static void *one_thread(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument, state = seed * 7919 + 1;
    enum { MOST = 3 << 20, ROUNDS = 12 };
    unsigned char *pinned, *d, *pageable = (unsigned char *)malloc(MOST);
    cudaStream_t s;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaMallocHost((void **)&pinned, MOST));
    MUST(cudaMalloc((void **)&d, MOST));
    for (unsigned i = 0; i < ROUNDS; i++) {
        state = state * 1664525 + 1013904223;
        size_t n = 1 + (state >> 8) % (i % 3 ? MOST : 50000);
        unsigned char *from = i & 1 ? pinned : pageable, *to = i & 2 ? pinned : pageable;
        fill(from, n, seed + i);
        MUST(cudaMemcpyAsync(d, from, n, cudaMemcpyHostToDevice, s));
        add_all<<<4, 64, 0, s>>>(d, n < 20000 ? n : 20000, 0);
        if (from == pageable)
            memset(from, 0, n);              // it has been taken
        else
            MUST(cudaStreamSynchronize(s));
        memset(to, 0, n);
        MUST(cudaMemcpyAsync(to, d, n, cudaMemcpyDeviceToHost, s));
        MUST(cudaStreamSynchronize(s));
        HOLDS(same(to, n, seed + i, 0));
    }
    MUST(cudaStreamDestroy(s));
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(d));
    free(pageable);
    return NULL;
}

static void threads()
{
    pthread_t all[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, one_thread, (void *)(100 * (i + 1)));
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

static bool says_what_it_touches()
{
    cudaDeviceProp properties;
    MUST(cudaGetDeviceProperties(&properties, 0));
    return strstr(properties.name, "software");
}

static void forked()
{
    unsigned char *p;
    if (!mapped || small_room)
        return;
    MUST(cudaMallocHost((void **)&p, 10000));
    fill(p, 10000, 50);
    add_all<<<4, 64>>>(p, 10000, 0);
    MUST(cudaDeviceSynchronize());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        p[0] = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    // of a GPU that does not say what its kernels touch, the pages stay shut until the program needs them
    if (shared || says_what_it_touches())
        HOLDS((WIFEXITED(status) && WEXITSTATUS(status) == 0) == !shared);
    HOLDS(same(p, 10000, 50, 0));
    MUST(cudaFreeHost(p));
}

static void after_a_reset()
{
    unsigned char *p, *d;
    MUST(cudaMallocHost((void **)&p, 100000));
    MUST(cudaDeviceReset());
    MUST(cudaMalloc((void **)&d, 100000));
    fill(p, 100000, 60);
    MUST(cudaMemcpy(d, p, 100000, cudaMemcpyHostToDevice));
    add_all<<<8, 64>>>(d, 100000, 1);
    memset(p, 0, 100000);
    MUST(cudaMemcpy(p, d, 100000, cudaMemcpyDeviceToHost));
    HOLDS(same(p, 100000, 60, 1));
    MUST(cudaFreeHost(p));
    MUST(cudaFree(d));
}

int main(int argc, char **argv)
{
    int can = -1;
    const char *server = getenv("FLYT_SERVER"), *bar = getenv("FLYT_BAR");
    MUST(cudaDeviceGetAttribute(&can, cudaDevAttrCanMapHostMemory, 0));
    mapped = can != 0;
    small_room = argc > 1 && strcmp(argv[1], "small") == 0;
    shared = mapped && (!server || strncmp(server, "shm:", 4) == 0 || strncmp(server, "local:", 6) == 0 || bar ||
                        small_room);
    if (server && !getenv("FLYT_SOFTGPU_CHAOS") && strncmp(server, "unix:", 5))  // chaos can refuse the place for it
        HOLDS(mapped);
    sizes();
    boxes();
    large_boxes();
    zero_copy();
    read_in_turn();
    registered();
    remapped();
    all_chunks_held();
    streams_that_go();
    threads();
    forked();
    after_a_reset();
    return check_result("pinned");
}
