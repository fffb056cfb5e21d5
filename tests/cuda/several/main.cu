// A program on all devices that it sees, of one GPU server or of several (tests/cuda/several.py).
//
//   random SEED STEPS   what it prints depends on the seed and the number of devices: not on how many servers have them
//   look                prints which devices reach each other's memory, and what of several servers is refused
//   arrays              large copies, arrays and textures of each device, and copies from array to array of all pairs
//   lost                prints "ready", waits for a line, then prints what each device says from then on
//   freed               frees memory, an array and a device while copies across that use them are queued
//   crowd               many copies across behind a kernel, in one stream
//   held                a host function waits for the program, which waits for a copy and an event across
//   behind              prints "ready" with a copy from the last device queued, waits for a line, then prints errors
//   stay URI            asks for a move to that server, and prints why the program stays
//   traffic             copies of all shapes between device 0 and the last one: prints the most bytes that the
//                       program's own connections have carried for one of them
//   peer                peer copies that must wait for work of the other device, and between variables of two devices
//   names               whether UUIDs and PCI ids of all devices differ and name their devices
//   cut                 prints "ready" between two copies, waits for a line, then prints what the second one has made
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../check.h"

enum { WIDTH = 96, ROWS = 40, SLICES = 4, NUMBERS = WIDTH * ROWS * SLICES, BYTES = NUMBERS * 4 };
enum { BUFFERS = 3, STREAMS = 2 };

__device__ unsigned device_total;
__constant__ unsigned device_factor = 3;

__global__ void stir(unsigned *numbers, unsigned salt)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < NUMBERS)
        numbers[i] = numbers[i] * (device_factor * 2 + 1) + (i ^ salt);
}

__global__ void sum(const unsigned *numbers)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < NUMBERS)
        atomicAdd(&device_total, numbers[i] >> 7);
}

struct buffer {
    int device;             // -1: pinned memory of the host
    unsigned *at;
    cudaEvent_t last;       // behind all that uses it
    bool used;
};

struct stream {
    int device;
    cudaStream_t stream;
};

static uint64_t state;
static unsigned below(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % n;
}

static std::vector<buffer> buffers;
static std::vector<stream> streams;
static int devices;

static void begin(const stream &s, buffer &b)
{
    if (b.used)
        MUST(cudaStreamWaitEvent(s.stream, b.last, 0));
}

// An event belongs to a device: that of the stream in which it is recorded.
static void end(const stream &s, buffer &b)
{
    if (b.used)
        MUST(cudaEventDestroy(b.last));
    MUST(cudaSetDevice(s.device));
    MUST(cudaEventCreateWithFlags(&b.last, cudaEventDisableTiming));
    MUST(cudaEventRecord(b.last, s.stream));
    b.used = true;
}

static void copy_box(const buffer &to, const buffer &from, cudaStream_t s)
{
    cudaMemcpy3DParms p = {};
    p.dstPtr = make_cudaPitchedPtr(to.at, WIDTH * 4, WIDTH, ROWS);
    p.srcPtr = make_cudaPitchedPtr(from.at, WIDTH * 4, WIDTH, ROWS);
    p.dstPos = make_cudaPos(4 * below(8), below(4), below(2));
    p.srcPos = make_cudaPos(4 * below(8), below(4), below(2));
    p.extent = make_cudaExtent(4 * (WIDTH / 2), ROWS / 2, 2);
    p.kind = cudaMemcpyDefault;
    MUST(cudaMemcpy3DAsync(&p, s));
}

static void copy(const stream &s, buffer &to, buffer &from)
{
    size_t at = below(NUMBERS / 2), more = 4 * (1 + below(NUMBERS / 2));
    switch (below(5)) {
    case 0:
        if (to.device >= 0 && from.device >= 0) {
            MUST(cudaMemcpyPeerAsync(to.at, to.device, from.at, from.device, BYTES, s.stream));
            break;
        }
        // fall through
    case 1: MUST(cudaMemcpyAsync(to.at, from.at, BYTES, cudaMemcpyDefault, s.stream)); break;
    case 2: MUST(cudaMemcpyAsync(to.at + at, from.at + at, more, cudaMemcpyDefault, s.stream)); break;
    case 3:
        MUST(cudaMemcpy2DAsync(to.at + below(8), WIDTH * 4, from.at + below(8), WIDTH * 4, 4 * (WIDTH / 2), ROWS,
                                cudaMemcpyDefault, s.stream));
        break;
    default: copy_box(to, from, s.stream);
    }
}

static void step()
{
    stream &s = streams[below((unsigned)streams.size())];
    buffer &a = buffers[below((unsigned)buffers.size())], &b = buffers[below((unsigned)buffers.size())];
    unsigned salt = below(1 << 30);
    MUST(cudaSetDevice(s.device));
    begin(s, a);
    switch (below(8)) {
    case 0:
    case 1:
        if (a.device == s.device)
            stir<<<(NUMBERS + 127) / 128, 128, 0, s.stream>>>(a.at, salt);
        else if (a.device >= 0)
            MUST(cudaMemsetAsync(a.at, (int)(salt & 255), BYTES / 2, s.stream));
        break;
    case 2:
        if (a.device == s.device)
            sum<<<(NUMBERS + 127) / 128, 128, 0, s.stream>>>(a.at);
        break;
    case 3: {
        std::vector<unsigned> here(NUMBERS);
        for (unsigned &n : here)
            n = salt += 77;
        MUST(cudaMemcpyAsync(a.at, here.data(), BYTES, cudaMemcpyDefault, s.stream));
        break;
    }
    default:
        if (&a == &b)
            break;
        begin(s, b);
        copy(s, a, b);
        end(s, b);
    }
    end(s, a);
    if (!below(16)) {           // what needs no event of ours
        buffer &c = buffers[below((unsigned)buffers.size())], &d = buffers[below((unsigned)buffers.size())];
        for (int i = 0; i < devices; i++) {
            MUST(cudaSetDevice(i));
            MUST(cudaDeviceSynchronize());
        }
        if (&c != &d && c.device >= 0 && d.device >= 0)
            MUST(cudaMemcpyPeer(c.at, c.device, d.at, d.device, BYTES));
    }
}

static void show(const buffer &b)
{
    std::vector<unsigned> here(NUMBERS);
    MUST(cudaMemcpy(here.data(), b.at, BYTES, cudaMemcpyDefault));
    uint64_t hash = 14695981039346656037u;
    for (unsigned n : here)
        hash = (hash ^ n) * 1099511628211u;
    printf("device %d: %016llx\n", b.device, (unsigned long long)hash);
}

static int random_work(uint64_t seed, int steps)
{
    state = seed;
    printf("%d devices\n", devices);
    for (int d = 0; d < devices; d++) {
        MUST(cudaSetDevice(d));
        unsigned factor = 3 + (unsigned)d, zero = 0;
        MUST(cudaMemcpyToSymbol(device_factor, &factor, sizeof factor));
        MUST(cudaMemcpyToSymbol(device_total, &zero, sizeof zero));
        for (int i = 0; i < BUFFERS; i++) {
            buffer b = { d, nullptr, nullptr, false };
            MUST(cudaMalloc(&b.at, BYTES));
            MUST(cudaMemset(b.at, i, BYTES));
            buffers.push_back(b);
        }
        for (int i = 0; i < STREAMS; i++) {
            stream s = { d, nullptr };
            MUST(cudaStreamCreateWithFlags(&s.stream, i ? cudaStreamDefault : cudaStreamNonBlocking));
            streams.push_back(s);
        }
        MUST(cudaDeviceSynchronize());
    }
    buffer host = { -1, nullptr, nullptr, false };
    MUST(cudaMallocHost(&host.at, BYTES));
    for (int i = 0; i < NUMBERS; i++)
        host.at[i] = (unsigned)i;
    buffers.push_back(host);
    for (int i = 0; i < steps; i++)
        step();
    for (int d = 0; d < devices; d++) {
        unsigned total;
        MUST(cudaSetDevice(d));
        MUST(cudaDeviceSynchronize());
        MUST(cudaMemcpyFromSymbol(&total, device_total, sizeof total));
        printf("device %d adds up %u\n", d, total);
    }
    for (const buffer &b : buffers)
        show(b);
    return 0;
}

static int look()
{
    void *memory;
    cudaIpcMemHandle_t handle;
    printf("%d devices\n", devices);
    for (int a = 0; a < devices; a++)
        for (int b = 0; b < devices; b++) {
            int can = 0;
            if (a == b)
                continue;
            MUST(cudaDeviceCanAccessPeer(&can, a, b));
            MUST(cudaSetDevice(a));
            printf("%d reaches %d: %d, enabling gives %d\n", a, b, can, (int)cudaDeviceEnablePeerAccess(b, 0));
            cudaGetLastError();
        }
    printf("managed memory gives %d\n", (int)cudaMallocManaged(&memory, 4096));
    cudaGetLastError();
    MUST(cudaMalloc(&memory, 4096));
    printf("a handle for other programs gives %d\n", (int)cudaIpcGetMemHandle(&handle, memory));
    cudaGetLastError();
    return 0;
}

enum { SIDE = 32 };

__global__ void fetch(unsigned *to, cudaTextureObject_t from)
{
    to[threadIdx.y * SIDE + threadIdx.x] = tex2D<unsigned>(from, threadIdx.x + 0.5f, threadIdx.y + 0.5f);
}

// So large that they would have connections of their own with one server.
static int large()
{
    enum { LARGE = 4 << 20 };
    int wrong = 0;
    for (int d = 0; d < devices; d++) {
        char *here, *back, *there;
        MUST(cudaSetDevice(d));
        MUST(cudaMallocHost(&here, LARGE));
        MUST(cudaMallocHost(&back, LARGE));
        MUST(cudaMalloc(&there, LARGE));
        for (int i = 0; i < LARGE; i++)
            here[i] = (char)(i * 31 + d);
        MUST(cudaMemcpyAsync(there, here, LARGE, cudaMemcpyDefault, 0));
        MUST(cudaMemcpyAsync(back, there, LARGE, cudaMemcpyDefault, 0));
        MUST(cudaDeviceSynchronize());
        wrong += memcmp(here, back, LARGE) != 0;
    }
    return wrong;
}

static int arrays()
{
    std::vector<cudaArray_t> all((size_t)devices);
    std::vector<cudaTextureObject_t> textures((size_t)devices);
    std::vector<unsigned> here(SIDE * SIDE), there(SIDE * SIDE);
    const cudaChannelFormatDesc form = cudaCreateChannelDesc<unsigned>();
    int wrong = large();
    for (int d = 0; d < devices; d++) {
        cudaResourceDesc from = {};
        cudaTextureDesc how = {};
        MUST(cudaSetDevice(d));
        MUST(cudaMallocArray(&all[(size_t)d], &form, SIDE, SIDE));
        from.resType = cudaResourceTypeArray;
        from.res.array.array = all[(size_t)d];
        MUST(cudaCreateTextureObject(&textures[(size_t)d], &from, &how, nullptr));
    }
    for (int from = 0; from < devices; from++)
        for (int to = 0; to < devices; to++) {
            unsigned *memory;
            cudaMemcpy3DParms p = {};
            for (unsigned i = 0; i < SIDE * SIDE; i++)
                here[i] = i * 7 + (unsigned)(from * devices + to);
            MUST(cudaSetDevice(from));
            MUST(cudaMemcpy2DToArray(all[(size_t)from], 0, 0, here.data(), SIDE * 4, SIDE * 4, SIDE,
                                     cudaMemcpyDefault));
            p.srcArray = all[(size_t)from];
            p.dstArray = all[(size_t)to];
            p.extent = make_cudaExtent(SIDE, SIDE, 1);
            p.kind = cudaMemcpyDefault;
            if (from != to)
                MUST(cudaMemcpy3D(&p));
            MUST(cudaSetDevice(to));
            MUST(cudaMalloc(&memory, SIDE * SIDE * 4));
            fetch<<<1, dim3(SIDE, SIDE)>>>(memory, textures[(size_t)to]);
            MUST(cudaMemcpy(there.data(), memory, SIDE * SIDE * 4, cudaMemcpyDefault));
            MUST(cudaFree(memory));
            wrong += there != here;
        }
    printf("%d pairs wrong\n", wrong);
    return wrong != 0;
}

// The first error, and 0 if there is none.
static int use(unsigned *memory)
{
    cudaError_t error = cudaMemset(memory, 5, BYTES);
    if (!error) {
        stir<<<(NUMBERS + 127) / 128, 128>>>(memory, 9);
        error = cudaGetLastError();
    }
    if (!error)
        error = cudaDeviceSynchronize();
    cudaGetLastError();
    return (int)error;
}

static int lost()
{
    std::vector<unsigned *> memory((size_t)devices);
    char line[16];
    for (int d = 0; d < devices; d++) {
        MUST(cudaSetDevice(d));
        MUST(cudaMalloc(&memory[(size_t)d], BYTES));
        MUST((cudaError_t)use(memory[(size_t)d]));
    }
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 2;
    for (int turn = 0; turn < 2; turn++)
        for (int d = 0; d < devices; d++) {
            MUST(cudaSetDevice(d));
            printf("device %d: %d\n", d, use(memory[(size_t)d]));
        }
    for (int d = 1; d < devices; d++) {
        MUST(cudaSetDevice(0));
        printf("from %d to 0: %d\n", d, (int)cudaMemcpyPeer(memory[0], 0, memory[(size_t)d], d, BYTES));
        cudaGetLastError();
    }
    printf("device 0 at the end: %d\n", use(memory[0]));
    printf("free: %d\n", (int)cudaFree(memory[0]));
    return 0;
}

__global__ void slow(unsigned *number, unsigned value, unsigned turns)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < turns; i++)
        sum += (i * value) ^ sum;
    *number = sum == 12345678 ? value + 1 : value;
}

enum { TURNS = 1000000 };

// Of device 0, and of the last one.
struct pair {
    cudaStream_t stream;
    unsigned *here, *there;
    int last;
};

static pair pair_make()
{
    pair p = { nullptr, nullptr, nullptr, devices - 1 };
    MUST(cudaSetDevice(p.last));
    MUST(cudaMalloc(&p.there, BYTES));
    MUST(cudaMemset(p.there, 0, BYTES));
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc(&p.here, BYTES));
    MUST(cudaMemset(p.here, 0, BYTES));
    MUST(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    return p;
}

static unsigned first_of(const unsigned *memory)
{
    unsigned number;
    MUST(cudaMemcpy(&number, memory, sizeof number, cudaMemcpyDefault));
    return number;
}

static int freed()
{
    const cudaChannelFormatDesc form = cudaCreateChannelDesc<unsigned>();
    pair p = pair_make();
    unsigned *more;
    cudaArray_t array;
    MUST(cudaMalloc(&more, BYTES));
    slow<<<1, 1, 0, p.stream>>>(more, 31, TURNS);
    MUST(cudaMemcpyAsync(p.there, more, BYTES, cudaMemcpyDefault, p.stream));
    MUST(cudaFree(more));
    printf("source freed: %u\n", first_of(p.there));
    MUST(cudaMallocAsync(&more, BYTES, p.stream));
    slow<<<1, 1, 0, p.stream>>>(more, 32, TURNS);
    MUST(cudaMemcpyAsync(p.there, more, BYTES, cudaMemcpyDefault, p.stream));
    MUST(cudaFreeAsync(more, p.stream));
    MUST(cudaStreamSynchronize(p.stream));
    printf("source freed in the stream: %u\n", first_of(p.there));
    MUST(cudaMallocArray(&array, &form, SIDE, SIDE));
    slow<<<1, 1, 0, p.stream>>>(p.here, 33, TURNS);
    MUST(cudaMemcpy2DToArrayAsync(array, 0, 0, p.there, SIDE * 4, SIDE * 4, SIDE, cudaMemcpyDefault, p.stream));
    printf("array freed: %d\n", (int)cudaFreeArray(array));
    slow<<<1, 1, 0, p.stream>>>(p.here, 34, TURNS);
    MUST(cudaMemcpyAsync(p.there, p.here, BYTES, cudaMemcpyDefault, p.stream));
    MUST(cudaMemsetAsync(p.there, 1, BYTES, p.stream));
    MUST(cudaSetDevice(p.last));
    printf("device reset: %d\n", (int)cudaDeviceReset());
    MUST(cudaSetDevice(0));
    MUST(cudaDeviceSynchronize());
    printf("device 0: %u\n", first_of(p.here));
    return 0;
}

static int crowd()
{
    pair p = pair_make();
    slow<<<1, 1, 0, p.stream>>>(p.here, 61, TURNS);
    for (int i = 0; i < 700; i++)
        MUST(cudaMemcpyAsync(p.there + i, p.here, 4, cudaMemcpyDefault, p.stream));
    printf("many copies: %d\n", (int)cudaStreamSynchronize(p.stream));
    printf("the last one: %u\n", first_of(p.there + 699));
    return 0;
}

static std::atomic<bool> released;

static void CUDART_CB hold(void *)
{
    while (!released)
        usleep(1000);
}

static int held()
{
    pair p = pair_make();
    cudaStream_t holding, other;
    cudaEvent_t event;
    MUST(cudaSetDevice(p.last));
    MUST(cudaStreamCreateWithFlags(&holding, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&event));
    MUST(cudaLaunchHostFunc(holding, hold, nullptr));
    slow<<<1, 1, 0, other>>>(p.there, 41, TURNS);
    MUST(cudaEventRecord(event, other));
    MUST(cudaSetDevice(0));
    MUST(cudaStreamWaitEvent(p.stream, event, 0));
    MUST(cudaMemcpyPeerAsync(p.here, 0, p.there, p.last, BYTES, p.stream));
    MUST(cudaStreamSynchronize(p.stream));
    printf("while a host function waits: %u\n", first_of(p.here));
    released = true;
    MUST(cudaSetDevice(p.last));
    MUST(cudaDeviceSynchronize());
    return 0;
}

// Behind the copy is work of device 0, and behind that, by an event, of device 1.
static std::atomic<int> told{-1}, ran;
static void CUDART_CB count(void *) { ran++; }
static void CUDART_CB tell(cudaStream_t, cudaError_t error, void *) { told = error; }

static int behind()
{
    pair p = pair_make();
    cudaStream_t idle, next;
    cudaEvent_t event;
    char line[16];
    MUST(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&event));
    MUST(cudaLaunchHostFunc(p.stream, hold, nullptr));
    MUST(cudaMemcpyAsync(p.here, p.there, BYTES, cudaMemcpyDefault, p.stream));
    MUST(cudaEventRecord(event, p.stream));
    MUST(cudaSetDevice(1));
    MUST(cudaStreamCreateWithFlags(&next, cudaStreamNonBlocking));
    MUST(cudaStreamWaitEvent(next, event, 0));
    MUST(cudaLaunchHostFunc(next, count, nullptr));
    MUST(cudaStreamAddCallback(next, tell, nullptr, 0));
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 2;
    released = true;
    printf("the next stream: %d\n", (int)cudaStreamSynchronize(next));
    MUST(cudaSetDevice(0));
    printf("the stream: %d\n", (int)cudaStreamSynchronize(p.stream));
    printf("again: %d\n", (int)cudaStreamSynchronize(p.stream));
    printf("memory: %d\n", (int)cudaMemcpy(line, p.here, 4, cudaMemcpyDefault));
    MUST(cudaSetDevice(2));
    printf("device 2: %d\n", (int)cudaDeviceSynchronize());
    for (int ms = 0; told < 0 && ms < 10000; ms++)
        usleep(1000);
    printf("functions: %d ran, a callback was told %d\n", (int)ran, (int)told);
    return 0;
}

static int stay(const char *uri)
{
    char why[256] = "";
    unsigned *memory;
    void *core = dlopen("libflyt-client.so", RTLD_LAZY | RTLD_NOLOAD);
    int (*move)(const char *, unsigned, char *, size_t) =
        core ? (int (*)(const char *, unsigned, char *, size_t))dlsym(core, "flyt_core_move") : nullptr;
    if (!move)
        return 2;
    MUST(cudaMalloc(&memory, BYTES));
    printf("move: %d, %s\n", move(uri, 5000, why, sizeof why), why);
    printf("device 0: %d\n", use(memory));
    return 0;
}

// As core_statistics of cpu/client/core/api_session.h.
struct statistics {
    uint64_t travelled, waited, local, bytes_sent, bytes_received;
    unsigned lanes;
};

static uint64_t carried()
{
    static void *core = dlopen("libflyt-client.so", RTLD_LAZY | RTLD_NOLOAD);
    static void (*ask)(statistics *) = core ? (void (*)(statistics *))dlsym(core, "flyt_core_statistics") : nullptr;
    statistics now = {};
    if (!ask)
        exit(2);
    ask(&now);
    return now.bytes_sent + now.bytes_received;
}

enum { TRAFFIC = 24 << 20 };

static bool is_filled(const unsigned char *memory, int value)
{
    std::vector<unsigned char> here(TRAFFIC);
    MUST(cudaMemcpy(here.data(), memory, TRAFFIC, cudaMemcpyDefault));
    for (unsigned char byte : here)
        if (byte != value)
            return false;
    return true;
}

// One copy of each kind, all of TRAFFIC bytes; what travelled for the most expensive one.
static int traffic()
{
    const int last = devices - 1, pitch = 4096, rows = TRAFFIC / pitch;
    unsigned char *here, *there;
    cudaStream_t stream;
    cudaMemcpy3DParms p = {};
    uint64_t most = 0;
    int wrong = 0;
    MUST(cudaSetDevice(last));
    MUST(cudaMalloc(&there, TRAFFIC));
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc(&here, TRAFFIC));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 8; round++) {
        unsigned char *to = round % 2 ? here : there, *from = round % 2 ? there : here;
        const int value = 3 * round + 5;
        MUST(cudaSetDevice(round % 2 ? last : 0));
        MUST(cudaMemset(from, value, TRAFFIC));
        MUST(cudaDeviceSynchronize());
        MUST(cudaSetDevice(0));
        MUST(cudaMemcpyPeerAsync(to, round % 2 ? 0 : last, from, round % 2 ? last : 0, 4, stream));   // makes the link
        MUST(cudaStreamSynchronize(stream));
        const uint64_t before = carried();
        switch (round / 2) {
        case 0: MUST(cudaMemcpyPeer(to, round % 2 ? 0 : last, from, round % 2 ? last : 0, TRAFFIC)); break;
        case 1: MUST(cudaMemcpyAsync(to, from, TRAFFIC, cudaMemcpyDefault, stream)); break;
        case 2: MUST(cudaMemcpy2DAsync(to, pitch, from, pitch, pitch / 2, rows, cudaMemcpyDefault, stream)); break;
        default:
            p.dstPtr = make_cudaPitchedPtr(to, pitch, pitch, rows / 4);
            p.srcPtr = make_cudaPitchedPtr(from, pitch, pitch, rows / 4);
            p.extent = make_cudaExtent(pitch - 64, rows / 4, 4);
            p.kind = cudaMemcpyDefault;
            MUST(cudaMemcpy3DAsync(&p, stream));
        }
        MUST(cudaStreamSynchronize(stream));
        const uint64_t bytes = carried() - before;
        most = bytes > most ? bytes : most;
        if (round < 4)
            wrong += !is_filled(to, value);
    }
    printf("%d wrong, at most %llu bytes\n", wrong, (unsigned long long)most);
    return wrong != 0;
}

// The copies say nothing of streams: CUDA orders them behind all that both devices have under way.
static int peer()
{
    pair p = pair_make();
    cudaStream_t other;
    unsigned here = 0, there = 0;
    void *at_here, *at_there;
    MUST(cudaSetDevice(p.last));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    slow<<<1, 1, 0, other>>>(p.there, 71, TURNS);
    MUST(cudaSetDevice(0));
    MUST(cudaMemcpyPeer(p.here, 0, p.there, p.last, 4));
    printf("behind the other device's work: %u\n", first_of(p.here));
    for (int d = 0; d < devices; d++) {
        unsigned value = 100u + (unsigned)d;
        MUST(cudaSetDevice(d));
        MUST(cudaMemcpyToSymbol(device_total, &value, sizeof value));
        MUST(cudaDeviceSynchronize());
    }
    MUST(cudaGetSymbolAddress(&at_there, device_total));
    MUST(cudaSetDevice(0));
    MUST(cudaGetSymbolAddress(&at_here, device_total));
    for (int current = 0; current < devices; current += p.last) {
        MUST(cudaSetDevice(current));
        MUST(cudaMemcpyPeer(p.here, 0, at_there, p.last, 4));
        there = first_of(p.here);
        MUST(cudaMemcpyPeer(p.there, p.last, at_here, 0, 4));
        here = first_of(p.there);
        printf("variables: %u %u\n", here, there - (unsigned)p.last);
    }
    MUST(cudaMemcpyPeer(at_here, 0, at_there, p.last, 4));
    MUST(cudaSetDevice(0));
    MUST(cudaMemcpyFromSymbol(&here, device_total, sizeof here));
    printf("from variable to variable: %u\n", here - (unsigned)p.last);
    return 0;
}

static int names()
{
    std::vector<cudaDeviceProp> all((size_t)devices);
    int same = 0, wrong = 0;
    for (int d = 0; d < devices; d++) {
        char bus[32];
        int found = -1, domain = -1;
        MUST(cudaGetDeviceProperties(&all[(size_t)d], d));
        MUST(cudaDeviceGetPCIBusId(bus, sizeof bus, d));
        MUST(cudaDeviceGetByPCIBusId(&found, bus));
        MUST(cudaDeviceGetAttribute(&domain, cudaDevAttrPciDomainId, d));
        wrong += found != d || domain != all[(size_t)d].pciDomainID || (int)strtol(bus, nullptr, 16) != domain;
        for (int e = 0; e < d; e++)
            same += memcmp(&all[(size_t)d].uuid, &all[(size_t)e].uuid, sizeof all[0].uuid) == 0;
    }
    printf("%d devices, %d same UUIDs, %d wrong places\n", devices, same, wrong);
    return 0;
}

static int cut()
{
    pair p = pair_make();
    char line[16];
    MUST(cudaMemsetAsync(p.here, 7, BYTES, p.stream)); // it does not wait for the default stream
    MUST(cudaMemcpyAsync(p.there, p.here, BYTES, cudaMemcpyDefault, p.stream));
    MUST(cudaStreamSynchronize(p.stream));
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 2;
    MUST(cudaMemsetAsync(p.here, 9, BYTES, p.stream));
    MUST(cudaMemcpyAsync(p.there, p.here, BYTES, cudaMemcpyDefault, p.stream));
    printf("a copy: %d\n", (int)cudaStreamSynchronize(p.stream));
    printf("it has: %x\n", first_of(p.there));
    MUST(cudaMemset(p.here, 11, BYTES));
    printf("one that waits: %d\n", (int)cudaMemcpyPeer(p.there, p.last, p.here, 0, BYTES));
    printf("it has: %x\n", first_of(p.there));
    return 0;
}

int main(int argc, char **argv)
{
    MUST(cudaGetDeviceCount(&devices));
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "random") == 0 && argc == 4)
        return random_work(strtoull(argv[2], nullptr, 10), atoi(argv[3]));
    if (strcmp(what, "stay") == 0 && argc == 3)
        return stay(argv[2]);
    return strcmp(what, "look") == 0     ? look()
           : strcmp(what, "arrays") == 0 ? arrays()
           : strcmp(what, "lost") == 0   ? lost()
           : strcmp(what, "freed") == 0  ? freed()
           : strcmp(what, "crowd") == 0  ? crowd()
           : strcmp(what, "held") == 0   ? held()
           : strcmp(what, "behind") == 0 ? behind()
           : strcmp(what, "traffic") == 0 ? traffic()
           : strcmp(what, "cut") == 0    ? cut()
           : strcmp(what, "peer") == 0   ? peer()
           : strcmp(what, "names") == 0  ? names()
                                         : 2;
}
