// shows: peers: kernels of one device read, write and do atomics on memory of another with permission, and get error
//   700 without; copies between devices with and without it; pools, and allocations that are captured, with the access
//   of their pool; what a reset takes back; kernels that wait for each other
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1 << 16, LARGE = 6 << 20 };

__device__ int variable = 5;

__global__ void fill(int *p, int n, int first)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = first + i;
}

__global__ void add(const int *from, int *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] += from[i];
}

__global__ void count(int *p) { atomicAdd_system(p, 1); }
__global__ void count_long(volatile int *p)
{
    for (int i = 0; i < 100000; i++)
        *p += 1;
}
__global__ void set(int *p, int value) { *p = value; }
__global__ void get(const int *p, int *out) { *out = *p; }

static int devices;

static int *memory(int device, size_t bytes)
{
    void *p;
    MUST(cudaSetDevice(device));
    MUST(cudaMalloc(&p, bytes));
    MUST(cudaMemset(p, 0, bytes));
    MUST(cudaDeviceSynchronize()); // a memset returns early, and other devices do not wait for it
    return (int *)p;
}

static int value_at(const int *p)
{
    int value;
    MUST(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void codes()
{
    int can = -1, value;
    MUST(cudaSetDevice(0));
    MUST(cudaDeviceCanAccessPeer(&can, 0, 0));
    HOLDS(can == 0);
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, devices));
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, -1, 0));
    GIVES(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(devices, 0));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
    GIVES(cudaErrorInvalidDevice, cudaDeviceDisablePeerAccess(devices));
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0));
    cudaGetLastError();
    if (devices < 2)
        return;
    MUST(cudaDeviceCanAccessPeer(&can, 0, 1));
    HOLDS(can == 1);
    MUST(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 1));
    HOLDS(value == 1);
    MUST(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrNativeAtomicSupported, 1, 0));
    HOLDS(value == 1);
    GIVES(cudaErrorInvalidValue, cudaDeviceGetP2PAttribute(&value, (cudaDeviceP2PAttr)99, 0, 1));
    GIVES(cudaErrorInvalidValue, cudaDeviceGetP2PAttribute(NULL, cudaDevP2PAttrAccessSupported, 0, 1));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    GIVES(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(1, 1));
    MUST(cudaDeviceEnablePeerAccess(1, 0));
    GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
    MUST(cudaSetDevice(1)); // one direction only
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
    MUST(cudaSetDevice(0));
    MUST(cudaDeviceDisablePeerAccess(1));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    cudaGetLastError();
}

// Device `user` reaches what lies on device `owner`: what was there before, and what comes later.
static void kernels(int user, int owner)
{
    int *before = memory(owner, COUNT * sizeof(int)), *large = memory(owner, LARGE);
    int *own = memory(user, COUNT * sizeof(int)), *their_variable;
    MUST(cudaSetDevice(owner));
    MUST(cudaGetSymbolAddress((void **)&their_variable, variable));
    MUST(cudaSetDevice(user));
    MUST(cudaDeviceEnablePeerAccess(owner, 0));
    int *after = memory(owner, COUNT * sizeof(int)), *pitched;
    size_t pitch;
    MUST(cudaMallocPitch((void **)&pitched, &pitch, 100, 10));
    MUST(cudaSetDevice(user));
    fill<<<COUNT / 256, 256>>>(before, COUNT, 7);
    fill<<<LARGE / 4 / 256, 256>>>(large, LARGE / 4, 0);
    fill<<<1, 25>>>(pitched + 9 * pitch / 4, 25, 70);
    add<<<COUNT / 256, 256>>>(before, own, COUNT);
    add<<<COUNT / 256, 256>>>(own, after, COUNT);
    count<<<10, 100>>>(after);
    get<<<1, 1>>>(their_variable, own + 1);
    set<<<1, 1>>>(their_variable, 50 + user);
    MUST(cudaDeviceSynchronize());
    HOLDS(value_at(after) == 1007 && value_at(after + COUNT - 1) == COUNT - 1 + 7);
    HOLDS(value_at(large + LARGE / 4 - 1) == LARGE / 4 - 1);
    HOLDS(value_at(pitched + 9 * pitch / 4 + 24) == 94);
    HOLDS(value_at(own + 1) == 5);
    MUST(cudaSetDevice(owner));
    int now;
    MUST(cudaMemcpyFromSymbol(&now, variable, sizeof now));
    HOLDS(now == 50 + user);
    now = 5;
    MUST(cudaMemcpyToSymbol(variable, &now, sizeof now));
    struct cudaPointerAttributes a;
    MUST(cudaSetDevice(user));
    MUST(cudaPointerGetAttributes(&a, after));
    HOLDS(a.type == cudaMemoryTypeDevice && a.device == owner && a.devicePointer == after);
    MUST(cudaDeviceDisablePeerAccess(owner));
    for (int *p : { before, large, after, own, pitched })
        MUST(cudaFree(p));
}

static void copies(int user, int owner)
{
    int *from = memory(owner, COUNT * sizeof(int)), *to = memory(user, COUNT * sizeof(int));
    cudaStream_t stream;
    for (int access = 0; access < 2; access++) {
        MUST(cudaSetDevice(user));
        if (access)
            MUST(cudaDeviceEnablePeerAccess(owner, 0));
        MUST(cudaStreamCreate(&stream));
        MUST(cudaSetDevice(owner));
        fill<<<COUNT / 256, 256>>>(from, COUNT, 100 + access);
        MUST(cudaMemcpyPeer(to, user, from, owner, COUNT * sizeof(int)));
        HOLDS(value_at(to + COUNT - 1) == COUNT - 1 + 100 + access);
        MUST(cudaSetDevice(user));
        MUST(cudaMemsetAsync(to, 0, COUNT * sizeof(int), stream));
        MUST(cudaMemcpyPeerAsync(to, user, from, owner, 1000 * sizeof(int), stream));
        MUST(cudaStreamSynchronize(stream));
        HOLDS(value_at(to + 999) == 1099 + access && value_at(to + 1000) == 0);
        cudaMemcpy3DPeerParms p;
        memset(&p, 0, sizeof p);
        p.srcPtr = make_cudaPitchedPtr(from, 256, 256, 16);
        p.dstPtr = make_cudaPitchedPtr(to, 512, 512, 16);
        p.extent = make_cudaExtent(256, 16, 2);
        p.srcDevice = owner;
        p.dstDevice = user;
        MUST(cudaMemcpy3DPeer(&p));
        HOLDS(value_at(to + 16 * 128 + 15 * 128 + 63) == 100 + access + 16 * 64 + 15 * 64 + 63);
        MUST(cudaMemset(to, 0, COUNT * sizeof(int)));
        MUST(cudaMemcpy3DPeerAsync(&p, stream));
        MUST(cudaStreamSynchronize(stream));
        HOLDS(value_at(to + 31 * 128) == 100 + access + 31 * 64);
        MUST(cudaStreamDestroy(stream));
    }
    MUST(cudaDeviceDisablePeerAccess(owner));
    MUST(cudaFree(from));
    MUST(cudaFree(to));
}

static cudaMemPool_t pool_of(int device)
{
    cudaMemPool_t pool;
    MUST(cudaDeviceGetDefaultMemPool(&pool, device));
    return pool;
}

static void pools(int user, int owner)
{
    cudaMemAccessDesc access = { { cudaMemLocationTypeDevice, user }, cudaMemAccessFlagsProtReadWrite };
    cudaMemLocation where = { cudaMemLocationTypeDevice, user };
    cudaMemAccessFlags flags;
    int *first, *second;
    MUST(cudaSetDevice(owner));
    MUST(cudaMallocAsync((void **)&first, COUNT * sizeof(int), 0));
    MUST(cudaStreamSynchronize(0));
    MUST(cudaMemPoolGetAccess(&flags, pool_of(owner), &where));
    HOLDS(flags == cudaMemAccessFlagsProtNone);
    MUST(cudaMemPoolSetAccess(pool_of(owner), &access, 1));
    MUST(cudaMemPoolGetAccess(&flags, pool_of(owner), &where));
    HOLDS(flags == cudaMemAccessFlagsProtReadWrite);
    MUST(cudaMallocAsync((void **)&second, 80 << 20, 0)); // of memory that the pool does not have yet
    MUST(cudaStreamSynchronize(0));
    MUST(cudaSetDevice(user));
    fill<<<COUNT / 256, 256>>>(first, COUNT, 3);
    set<<<1, 1>>>(second + (80 << 18) - 1, 9);
    MUST(cudaDeviceSynchronize());
    HOLDS(value_at(first + 5) == 8 && value_at(second + (80 << 18) - 1) == 9);
    MUST(cudaSetDevice(owner));
    MUST(cudaFreeAsync(first, 0));
    MUST(cudaFreeAsync(second, 0));
    MUST(cudaStreamSynchronize(0));
    access.flags = cudaMemAccessFlagsProtNone;
    MUST(cudaMemPoolSetAccess(pool_of(owner), &access, 1));
    MUST(cudaMemPoolGetAccess(&flags, pool_of(owner), &where));
    HOLDS(flags == cudaMemAccessFlagsProtNone);
    access.location.id = owner;
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool_of(owner), &access, 1));
    cudaGetLastError();
}

// What a stream of `user` allocates while it is captured, from the pool of `owner`: an executable of the graph.
static cudaGraphExec_t capture_allocation(int owner, cudaStream_t stream, int **memory, cudaMemAllocNodeParams *params)
{
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    size_t count = 1;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    MUST(cudaMallocFromPoolAsync((void **)memory, COUNT * sizeof(int), pool_of(owner), stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphGetNodes(graph, &node, &count));
    MUST(cudaGraphMemAllocNodeGetParams(node, params));
    HOLDS(params->dptr == *memory && params->bytesize == COUNT * sizeof(int));
    HOLDS(params->poolProps.allocType == cudaMemAllocationTypePinned);
    HOLDS(params->poolProps.location.type == cudaMemLocationTypeDevice && params->poolProps.location.id == owner);
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

// A captured allocation has the access that its pool gives at that time; later changes of the pool do not reach it.
static void captures(int user, int owner)
{
    cudaMemAccessDesc access = { { cudaMemLocationTypeDevice, user }, cudaMemAccessFlagsProtReadWrite };
    cudaMemAllocNodeParams params;
    cudaPointerAttributes attributes;
    cudaStream_t stream;
    int *memory;
    MUST(cudaSetDevice(user));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMemPoolSetAccess(pool_of(owner), &access, 1));
    cudaGraphExec_t executable = capture_allocation(owner, stream, &memory, &params);
    access.flags = cudaMemAccessFlagsProtNone;
    MUST(cudaMemPoolSetAccess(pool_of(owner), &access, 1));
    HOLDS(params.accessDescCount == 1 && params.accessDescs[0].location.id == user &&
          params.accessDescs[0].location.type == cudaMemLocationTypeDevice &&
          params.accessDescs[0].flags == cudaMemAccessFlagsProtReadWrite);
    MUST(cudaPointerGetAttributes(&attributes, memory));
    HOLDS(attributes.device == owner);
    MUST(cudaGraphLaunch(executable, stream));
    fill<<<COUNT / 256, 256, 0, stream>>>(memory, COUNT, 7);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaSetDevice(owner));
    count<<<1, 10>>>(memory + 5);
    MUST(cudaDeviceSynchronize());
    HOLDS(value_at(memory + 5) == 22);
    count_long<<<1, 1>>>(memory);
    MUST(cudaFree(memory)); // waits for both devices
    MUST(cudaStreamQuery(0));
    MUST(cudaGraphExecDestroy(executable));

    executable = capture_allocation(user, stream, &memory, &params); // the pool gives no access
    HOLDS(params.accessDescCount == 0);
    MUST(cudaGraphExecDestroy(executable));
    GIVES(cudaErrorInvalidValue, cudaMallocFromPoolAsync((void **)&memory, 64, NULL, stream));
    cudaGetLastError();
    MUST(cudaStreamDestroy(stream));
}

// All devices reach pinned and managed memory without asking.
static void everybodys(int user, int owner)
{
    int *pinned, *managed, can;
    MUST(cudaSetDevice(owner));
    MUST(cudaDeviceGetAttribute(&can, cudaDevAttrCanMapHostMemory, user));
    if (can) {
        MUST(cudaHostAlloc((void **)&pinned, 4096, cudaHostAllocMapped | cudaHostAllocPortable));
        *pinned = 3;
        MUST(cudaSetDevice(user));
        count<<<1, 10>>>(pinned);
        MUST(cudaDeviceSynchronize());
        HOLDS(*pinned == 13);
        MUST(cudaFreeHost(pinned));
    }
    MUST(cudaDeviceGetAttribute(&can, cudaDevAttrManagedMemory, user));
    if (can) {
        MUST(cudaSetDevice(owner));
        MUST(cudaMallocManaged((void **)&managed, COUNT * sizeof(int)));
        managed[0] = 3;
        MUST(cudaSetDevice(user));
        count<<<1, 10>>>(managed);
        MUST(cudaDeviceSynchronize());
        HOLDS(managed[0] == 13);
        MUST(cudaSetDevice(owner));
        count<<<1, 10>>>(managed);
        MUST(cudaDeviceSynchronize());
        HOLDS(managed[0] == 23);
        MUST(cudaFree(managed));
    }
}

static void resets()
{
    int *p;
    MUST(cudaSetDevice(0));
    MUST(cudaDeviceEnablePeerAccess(1, 0));
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceEnablePeerAccess(0, 0));
    MUST(cudaDeviceReset()); // device 1: takes both back
    MUST(cudaSetDevice(0));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    cudaGetLastError();
    MUST(cudaDeviceEnablePeerAccess(1, 0));
    p = memory(1, 64);
    MUST(cudaSetDevice(0));
    set<<<1, 1>>>(p, 4);
    MUST(cudaDeviceSynchronize());
    HOLDS(value_at(p) == 4);
    MUST(cudaFree(p));
    MUST(cudaDeviceReset());
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    cudaGetLastError();
}

// Two kernels on two devices that wait for each other, through memory of one of them.
__global__ void play(volatile int *ball, int mine, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        while (*ball != 2 * i + mine)
            ;
        __threadfence_system();
        *ball = 2 * i + mine + 1;
    }
}

static void plays()
{
    int *ball = memory(0, 64);
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceEnablePeerAccess(0, 0));
    play<<<1, 1>>>(ball, 1, 100);
    MUST(cudaSetDevice(0));
    play<<<1, 1>>>(ball, 0, 100);
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceSynchronize());
    HOLDS(value_at(ball) == 200);
    MUST(cudaDeviceDisablePeerAccess(0));
    MUST(cudaFree(ball));
}

// Each device adds what its neighbour has to its own, and the sum goes round.
static void ring()
{
    int *own[16];
    cudaStream_t streams[16];
    cudaEvent_t events[16];
    for (int d = 0; d < devices; d++) {
        own[d] = memory(d, COUNT * sizeof(int));
        if (devices > 1)
            MUST(cudaDeviceEnablePeerAccess((d + devices - 1) % devices, 0));
        MUST(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&events[d], cudaEventDisableTiming));
        fill<<<COUNT / 256, 256, 0, streams[d]>>>(own[d], COUNT, d);
        MUST(cudaEventRecord(events[d], streams[d]));
    }
    for (int d = 1; d < devices; d++) {
        MUST(cudaSetDevice(d));
        MUST(cudaStreamWaitEvent(streams[d], events[d - 1], 0));
        add<<<COUNT / 256, 256, 0, streams[d]>>>(own[d - 1], own[d], COUNT);
        MUST(cudaEventRecord(events[d], streams[d]));
    }
    MUST(cudaEventSynchronize(events[devices - 1]));
    HOLDS(value_at(own[devices - 1] + 10) == devices * (devices - 1) / 2 + 10 * devices);
    for (int d = 0; d < devices; d++) {
        MUST(cudaSetDevice(d));
        MUST(cudaStreamDestroy(streams[d]));
        MUST(cudaEventDestroy(events[d]));
        MUST(cudaFree(own[d]));
        if (devices > 1)
            MUST(cudaDeviceDisablePeerAccess((d + devices - 1) % devices));
    }
}

// ---- what a kernel of device 0 must not do: each in a process of its own, for the fault ends its work ----

enum way { NEVER, ONE_WAY, DISABLED, OWNER_RESET, USER_RESET, POOL, POOL_TAKEN, CAPTURED, WAYS };

static void faults(enum way way)
{
    cudaMemAccessDesc access = { { cudaMemLocationTypeDevice, 0 }, cudaMemAccessFlagsProtReadWrite };
    int *p = memory(1, 64);
    if (way == ONE_WAY)
        MUST(cudaDeviceEnablePeerAccess(0, 0));
    MUST(cudaSetDevice(0));
    if (way == DISABLED || way == OWNER_RESET || way == USER_RESET) {
        MUST(cudaDeviceEnablePeerAccess(1, 0));
        set<<<1, 1>>>(p, 3);
        MUST(cudaDeviceSynchronize());
    }
    if (way == DISABLED) {
        set<<<1, 1>>>(p, 4); // has been launched: keeps its access
        MUST(cudaDeviceDisablePeerAccess(1));
        MUST(cudaDeviceSynchronize());
    }
    if (way == USER_RESET)
        MUST(cudaDeviceReset());
    MUST(cudaSetDevice(1));
    if (way == OWNER_RESET) {
        MUST(cudaDeviceReset());
        p = memory(1, 64);
    }
    if (way == CAPTURED) {
        cudaStream_t stream;
        cudaMemAllocNodeParams params;
        MUST(cudaStreamCreate(&stream));
        MUST(cudaGraphLaunch(capture_allocation(1, stream, &p, &params), stream));
    } else if (way >= POOL) {
        MUST(cudaMallocAsync((void **)&p, 64, 0));
    }
    if (way == POOL_TAKEN) {
        MUST(cudaMemPoolSetAccess(pool_of(1), &access, 1));
        access.flags = cudaMemAccessFlagsProtNone;
        MUST(cudaMemPoolSetAccess(pool_of(1), &access, 1));
    }
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(0));
    if (way == POOL || way == CAPTURED) // is about other memory
        MUST(cudaDeviceEnablePeerAccess(1, 0));
    set<<<1, 1>>>(p, 5);
    GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    _exit(check_failures != 0);
}

// Before this process uses CUDA.
static void fault_in_child(int way)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        MUST(cudaGetDeviceCount(&devices));
        if (devices > 1)
            faults((enum way)way);
        _exit(0);
    }
    HOLDS(child > 0 && waitpid(child, &status, 0) == child);
    if (status != 0)
        fprintf(stderr, "way %d: status %#x\n", way, status);
    HOLDS(status == 0);
}

int main()
{
    for (int way = 0; way < WAYS; way++)
        fault_in_child(way);
    MUST(cudaGetDeviceCount(&devices));
    codes();
    ring();
    for (int user = 0; user < devices; user++)
        for (int owner = 0; owner < devices; owner++)
            if (user != owner) {
                kernels(user, owner);
                copies(user, owner);
                pools(user, owner);
                captures(user, owner);
                everybodys(user, owner);
            }
    if (devices > 1) {
        plays();
        resets();
    }
    return check_result("peers");
}
