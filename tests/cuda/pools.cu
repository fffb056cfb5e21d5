// shows: memory pools: allocation and free are ordered by streams, and wait for none; what a pool holds, uses and gives
//   back; which freed memory an allocation may have, by the three attributes; errors
// shows: memory pools: random work of several streams on memory of several pools is never disturbed, and the counts of
//   each pool are those of a model
#include "check.h"
#include "../lib/dice.h"

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#define MiB ((size_t)1 << 20)
enum { STREAMS = 4, POOLS = 3, STEPS = 1500 };

__global__ void fill(unsigned *p, size_t n, unsigned value)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] = value + (unsigned)i;
}

__global__ void look(const unsigned *p, size_t n, unsigned value, unsigned *wrong)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (p[i] != value + (unsigned)i)
            atomicAdd(wrong, 1);
}

// A stream that waits until the host lets it go.
static std::atomic<int> gate_open;
static void CUDART_CB wait_for_gate(void *)
{
    while (!gate_open.load())
        std::this_thread::yield();
}
static void shut(cudaStream_t stream)
{
    gate_open = 0;
    MUST(cudaLaunchHostFunc(stream, wait_for_gate, NULL));
}
static void open_gate() { gate_open = 1; }

static size_t of(cudaMemPool_t pool, cudaMemPoolAttr attribute)
{
    unsigned long long value = 12345;
    MUST(cudaMemPoolGetAttribute(pool, attribute, &value));
    return (size_t)value;
}

static void allow(cudaMemPool_t pool, int events, int opportunistic, int internal)
{
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &events));
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &opportunistic));
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &internal));
}

static void hold(cudaMemPool_t pool, unsigned long long bytes)
{
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
}

static cudaMemPoolProps properties()
{
    cudaMemPoolProps p;
    memset(&p, 0, sizeof p);
    p.allocType = cudaMemAllocationTypePinned;
    p.location.type = cudaMemLocationTypeDevice;
    return p;
}

static cudaMemPool_t new_pool()
{
    cudaMemPool_t pool;
    cudaMemPoolProps p = properties();
    MUST(cudaMemPoolCreate(&pool, &p));
    return pool;
}

static void attributes_and_errors()
{
    int supported = 0, flag = 5, device_count;
    cudaMemPool_t first, pool, got;
    MUST(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    HOLDS(supported == 1);
    MUST(cudaGetDeviceCount(&device_count));
    MUST(cudaDeviceGetDefaultMemPool(&first, 0));
    MUST(cudaDeviceGetMemPool(&got, 0));
    HOLDS(first && got == first);
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetMemPool(&got, device_count));
    MUST(cudaMemPoolGetAttribute(first, cudaMemPoolReuseFollowEventDependencies, &flag));
    HOLDS(flag == 1);
    HOLDS(of(first, cudaMemPoolAttrReleaseThreshold) == 0);
    GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(first));
    cudaMemPoolProps p = properties();
    p.location.id = device_count;
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &p));
    p = properties();
    p.allocType = cudaMemAllocationTypeInvalid;
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &p));
    p = properties();
    p.location.type = (cudaMemLocationType)0;
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &p));
    pool = new_pool();
    MUST(cudaDeviceSetMemPool(0, pool));
    MUST(cudaDeviceGetMemPool(&got, 0));
    HOLDS(got == pool);
    unsigned long long one = 1;
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &one));
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &one));
    GIVES(cudaErrorInvalidValue, cudaMemPoolGetAttribute(pool, (cudaMemPoolAttr)99, &one));
    cudaMemLocation here = properties().location;
    cudaMemAccessFlags access = cudaMemAccessFlagsProtNone;
    MUST(cudaMemPoolGetAccess(&access, pool, &here));
    HOLDS(access == cudaMemAccessFlagsProtReadWrite);
    cudaMemAccessDesc none = { here, cudaMemAccessFlagsProtNone }, all = { here, cudaMemAccessFlagsProtReadWrite };
    GIVES(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, &none, 1));
    MUST(cudaMemPoolSetAccess(pool, &all, 1));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaDeviceGetMemPool(&got, 0));
    HOLDS(got == first);
    GIVES(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
    GIVES(cudaErrorInvalidValue, cudaMemPoolTrimTo(pool, 0));
    void *memory = &memory, *ordinary;
    GIVES(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&memory, 64, pool, 0));
    GIVES(cudaErrorInvalidValue, cudaDeviceSetMemPool(0, pool));
    MUST(cudaMallocAsync(&memory, 0, 0));
    MUST(cudaMallocAsync(&memory, 1000, 0));
    HOLDS((size_t)memory % 256 == 0);
    GIVES(cudaErrorInvalidValue, cudaFreeAsync((char *)memory + 16, 0));
    cudaPointerAttributes known;
    MUST(cudaPointerGetAttributes(&known, memory));
    HOLDS(known.type == cudaMemoryTypeDevice && known.device == 0);
    MUST(cudaFreeAsync(memory, 0));
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(memory, 0));
    MUST(cudaMallocAsync(&memory, 1000, 0));
    MUST(cudaFree(memory));                        // either may be freed with the other's function
    GIVES(cudaErrorInvalidValue, cudaFree(memory));
    MUST(cudaMalloc(&ordinary, 1000));
    MUST(cudaFreeAsync(ordinary, 0));
    MUST(cudaDeviceSynchronize());
    HOLDS(of(first, cudaMemPoolAttrUsedMemCurrent) == 0 && of(first, cudaMemPoolAttrReservedMemCurrent) == 0);
    cudaGetLastError();
}

static void counts()
{
    cudaMemPool_t pool = new_pool();
    cudaStream_t stream;
    void *a, *b;
    MUST(cudaStreamCreate(&stream));
    MUST(cudaMallocFromPoolAsync(&a, 3 * MiB, pool, stream));
    MUST(cudaMallocFromPoolAsync(&b, 2 * MiB, pool, stream));
    HOLDS(of(pool, cudaMemPoolAttrUsedMemCurrent) == 5 * MiB);
    HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) >= 5 * MiB);
    MUST(cudaFreeAsync(b, stream));
    HOLDS(of(pool, cudaMemPoolAttrUsedMemCurrent) == 3 * MiB);
    HOLDS(of(pool, cudaMemPoolAttrUsedMemHigh) == 5 * MiB);
    unsigned long long zero = 0;
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
    HOLDS(of(pool, cudaMemPoolAttrUsedMemHigh) == 3 * MiB);
    size_t reserved = of(pool, cudaMemPoolAttrReservedMemCurrent);
    hold(pool, ~0ull);
    MUST(cudaFreeAsync(a, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) == reserved);
    MUST(cudaMemPoolTrimTo(pool, reserved));
    HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) == reserved);
    MUST(cudaMemPoolTrimTo(pool, 0));
    HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    HOLDS(of(pool, cudaMemPoolAttrReservedMemHigh) == reserved);
    // beyond the threshold, memory goes with the next synchronisation of any kind
    hold(pool, 0);
    cudaEvent_t event;
    MUST(cudaEventCreate(&event));
    for (int how = 0; how < 3; how++) {
        MUST(cudaMallocFromPoolAsync(&a, 3 * MiB, pool, stream));
        MUST(cudaFreeAsync(a, stream));
        MUST(cudaEventRecord(event, stream));
        HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) > 0);
        if (how == 0)
            MUST(cudaStreamSynchronize(stream));
        else if (how == 1)
            MUST(cudaEventSynchronize(event));
        else
            MUST(cudaDeviceSynchronize());
        HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    }
    // what work uses stays
    shut(stream);
    MUST(cudaMallocFromPoolAsync(&a, 3 * MiB, pool, stream));
    MUST(cudaFreeAsync(a, stream));
    MUST(cudaMemPoolTrimTo(pool, 0));
    HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) > 0);
    open_gate();
    MUST(cudaStreamSynchronize(stream));
    HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaMemPoolDestroy(pool));
}

// Memory that was freed in a stream with work under way: who gets it?
static void reuse()
{
    cudaStream_t one, two;
    cudaEvent_t event;
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int events = 0; events < 2; events++)
        for (int opportunistic = 0; opportunistic < 2; opportunistic++) {
            cudaMemPool_t pool = new_pool();
            void *first, *p, *q;
            hold(pool, ~0ull);
            allow(pool, events, opportunistic, 0);
            MUST(cudaMallocFromPoolAsync(&first, MiB, pool, one));
            shut(one);
            MUST(cudaFreeAsync(first, one));
            MUST(cudaMallocFromPoolAsync(&p, MiB, pool, two)); // nothing orders it behind the free
            HOLDS(p != first);
            MUST(cudaMallocFromPoolAsync(&q, MiB, pool, one)); // the stream does
            HOLDS(q == first);
            MUST(cudaFreeAsync(q, one));
            MUST(cudaFreeAsync(p, one));
            MUST(cudaEventRecord(event, one));
            MUST(cudaStreamWaitEvent(two, event, 0));
            MUST(cudaMallocFromPoolAsync(&q, MiB, pool, two)); // an event does
            HOLDS((q == first || q == p) == (events == 1));
            open_gate();
            MUST(cudaDeviceSynchronize());
            MUST(cudaFreeAsync(q, two));
            MUST(cudaDeviceSynchronize());
            MUST(cudaMallocFromPoolAsync(&first, MiB, pool, one));
            MUST(cudaFreeAsync(first, one));
            MUST(cudaStreamSynchronize(one));              // the free has completed, and nothing orders the two
            MUST(cudaMemPoolTrimTo(pool, 0));
            MUST(cudaMallocFromPoolAsync(&first, 64 * MiB, pool, one));
            MUST(cudaFreeAsync(first, one));
            MUST(cudaStreamSynchronize(one));
            MUST(cudaMallocFromPoolAsync(&q, 64 * MiB, pool, two));
            HOLDS((q == first) == (opportunistic == 1));
            MUST(cudaFreeAsync(q, two));
            MUST(cudaMemPoolDestroy(pool));
        }
    MUST(cudaDeviceSynchronize());
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(one));
    MUST(cudaStreamDestroy(two));
}

// Events lead to the stream of the free by way of a third stream: only those that it recorded behind its own wait.
static void reuse_by_way_of_another()
{
    cudaStream_t one, middle, two;
    cudaEvent_t freed, early, late;
    cudaMemPool_t pool = new_pool();
    void *first, *p, *q;
    for (cudaStream_t *s : { &one, &middle, &two })
        MUST(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
    for (cudaEvent_t *e : { &freed, &early, &late })
        MUST(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    hold(pool, ~0ull);
    allow(pool, 1, 0, 0);
    MUST(cudaMallocFromPoolAsync(&first, MiB, pool, one));
    shut(one);
    MUST(cudaFreeAsync(first, one));
    MUST(cudaEventRecord(freed, one));
    MUST(cudaEventRecord(early, middle));
    MUST(cudaStreamWaitEvent(middle, freed, 0));
    MUST(cudaEventRecord(late, middle));
    MUST(cudaStreamWaitEvent(two, early, 0));
    MUST(cudaMallocFromPoolAsync(&p, MiB, pool, two));
    HOLDS(p != first);
    MUST(cudaStreamWaitEvent(two, late, 0));
    MUST(cudaMallocFromPoolAsync(&q, MiB, pool, two));
    HOLDS(q == first);
    open_gate();
    MUST(cudaFreeAsync(p, two));
    MUST(cudaFreeAsync(q, two));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemPoolDestroy(pool));
    for (cudaStream_t s : { one, middle, two })
        MUST(cudaStreamDestroy(s));
    for (cudaEvent_t e : { freed, early, late })
        MUST(cudaEventDestroy(e));
}

// A pool that cannot grow: the stream is made to wait for the free, if that is allowed.
static void dependencies_of_the_pool(unsigned *wrong)
{
    cudaStream_t one, two;
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
#if CUDART_VERSION >= 12020
    cudaMemPool_t pool;
    cudaMemPoolProps p = properties();
    p.maxSize = 32 * MiB;
    MUST(cudaMemPoolCreate(&pool, &p));
    size_t n = 24 * MiB / sizeof(unsigned);
    unsigned *a, *b;
    MUST(cudaMallocFromPoolAsync((void **)&a, 24 * MiB, pool, one));
    shut(one);
    fill<<<16, 128, 0, one>>>(a, n, 77);
    MUST(cudaFreeAsync(a, one));
    allow(pool, 1, 1, 0);
    GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync((void **)&b, 24 * MiB, pool, two));
    allow(pool, 1, 1, 1);
    MUST(cudaMallocFromPoolAsync((void **)&b, 24 * MiB, pool, two));
    HOLDS(b == a);
    fill<<<16, 128, 0, two>>>(b, n, 3);
    look<<<16, 128, 0, two>>>(b, n, 3, wrong);
    HOLDS(cudaStreamQuery(two) == cudaErrorNotReady);
    open_gate();
    MUST(cudaFreeAsync(b, two));
    MUST(cudaDeviceSynchronize());
    GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync((void **)&b, 33 * MiB, pool, two));
    MUST(cudaMemPoolDestroy(pool));
#endif
    MUST(cudaStreamDestroy(one));
    MUST(cudaStreamDestroy(two));
    cudaGetLastError();
}

// The stream in which memory was freed has gone, with its work under way; the pool, too.
static void ends(unsigned *wrong)
{
    cudaMemPool_t pool = new_pool();
    cudaStream_t one, two;
    unsigned *a, *b;
    size_t n = 4 * MiB / sizeof(unsigned);
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    MUST(cudaMallocFromPoolAsync((void **)&a, 64 * MiB, pool, one));
    shut(one);
    fill<<<16, 128, 0, one>>>(a, n, 77);
    MUST(cudaFreeAsync(a, one));
    MUST(cudaStreamDestroy(one));
    MUST(cudaMallocFromPoolAsync((void **)&b, 64 * MiB, pool, two));
    HOLDS(b != a);
    fill<<<16, 128, 0, two>>>(b, n, 9);
    open_gate();
    look<<<16, 128, 0, two>>>(b, n, 9, wrong);
    MUST(cudaMemPoolDestroy(pool));                        // the allocation stays
    look<<<16, 128, 0, two>>>(b, n, 9, wrong);
    MUST(cudaFreeAsync(b, two));
    MUST(cudaDeviceSynchronize());
    MUST(cudaStreamDestroy(two));
}

// Two streams that wait for each other through the legacy stream, and no event.
static void legacy_order(unsigned *wrong)
{
    cudaStream_t blocking;
    unsigned *a, *b;
    size_t n = 4 * MiB / sizeof(unsigned);
    MUST(cudaStreamCreate(&blocking));
    for (int i = 0; i < 20; i++) {
        cudaStream_t first = i % 2 ? blocking : 0, second = i % 2 ? 0 : blocking, third = i % 4 < 2 ? first : second;
        MUST(cudaMallocAsync((void **)&a, 4 * MiB, first));
        fill<<<16, 128, 0, first>>>(a, n, 100 + i);
        look<<<16, 128, 0, second>>>(a, n, 100 + i, wrong);
        MUST(cudaFreeAsync(a, third));                 // comes behind both
        MUST(cudaMallocAsync((void **)&b, 4 * MiB, second));
        fill<<<16, 128, 0, second>>>(b, n, 200 + i);
        look<<<16, 128, 0, first>>>(b, n, 200 + i, wrong);
        MUST(cudaFreeAsync(b, first));
    }
    MUST(cudaDeviceSynchronize());
    // the work that a free comes behind is the other stream's alone
    cudaStream_t apart;
    MUST(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {
        cudaMemPool_t pool = new_pool();
        cudaStream_t works = i ? blocking : 0, frees = i ? 0 : blocking;
        MUST(cudaMallocFromPoolAsync((void **)&a, 64 * MiB, pool, works)); // all that the pool has
        shut(works);
        fill<<<16, 128, 0, works>>>(a, n, 5);
        MUST(cudaFreeAsync(a, frees));
        MUST(cudaMallocFromPoolAsync((void **)&b, 64 * MiB, pool, apart));
        HOLDS(b != a);
        open_gate();
        MUST(cudaDeviceSynchronize());
        MUST(cudaFreeAsync(b, apart));
        MUST(cudaMemPoolDestroy(pool));
    }
    MUST(cudaStreamDestroy(apart));
    MUST(cudaStreamDestroy(blocking));
}

// ---- random work ----

struct allocation {
    unsigned *p;
    size_t size;
    unsigned value;
    int stream, pool; // the stream that its contents are ordered behind
};

static unsigned long long seed = 1;
static void random_work(unsigned *wrong)
{
    cudaStream_t streams[STREAMS];
    cudaMemPool_t pools[POOLS];
    cudaEvent_t event;
    size_t used[POOLS] = { 0 };
    std::vector<allocation> live;
    std::map<size_t, size_t> taken; // by address
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < STREAMS; i++)
        if (i)
            MUST(cudaStreamCreateWithFlags(&streams[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        else
            streams[0] = 0;
    MUST(cudaDeviceGetDefaultMemPool(&pools[0], 0));
    for (int i = 1; i < POOLS; i++)
        pools[i] = new_pool();
    hold(pools[1], 8 * MiB);
    hold(pools[2], ~0ull);
    for (int step = 0; step < STEPS; step++) {
        unsigned what = dice(&seed, 100);
        if (what < 45 && live.size() < 40) {
            allocation a;
            a.pool = (int)dice(&seed, POOLS);
            a.stream = (int)dice(&seed, STREAMS);
            a.size = 4 * (size_t)(1 + dice(&seed, dice(&seed, 8) ? 3000 : 500000));
            a.value = dice(&seed, 1u << 30);
            MUST(cudaMallocFromPoolAsync((void **)&a.p, a.size, pools[a.pool], streams[a.stream]));
            auto next = taken.lower_bound((size_t)a.p);
            HOLDS(next == taken.end() || next->first >= (size_t)a.p + a.size);
            HOLDS(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= (size_t)a.p);
            taken[(size_t)a.p] = a.size;
            used[a.pool] += (a.size + 511) / 512 * 512;
            fill<<<4, 64, 0, streams[a.stream]>>>(a.p, a.size / 4, a.value);
            live.push_back(a);
        } else if (what < 85 && !live.empty()) {
            size_t which = dice(&seed, (unsigned)live.size());
            allocation &a = live[which];
            int stream = dice(&seed, 3) ? a.stream : (int)dice(&seed, STREAMS);
            if (stream != a.stream) {
                MUST(cudaEventRecord(event, streams[a.stream]));
                MUST(cudaStreamWaitEvent(streams[stream], event, 0));
                a.stream = stream;
            }
            look<<<4, 64, 0, streams[stream]>>>(a.p, a.size / 4, a.value, wrong);
            if (dice(&seed, 2)) {
                taken.erase((size_t)a.p);
                used[a.pool] -= (a.size + 511) / 512 * 512;
                MUST(cudaFreeAsync(a.p, streams[stream]));
                live[which] = live.back();
                live.pop_back();
            }
        } else if (what < 90) {
            MUST(cudaStreamSynchronize(streams[dice(&seed, STREAMS)]));
        } else if (what < 92) {
            MUST(cudaDeviceSynchronize());
        } else if (what < 94) {
            MUST(cudaMemPoolTrimTo(pools[dice(&seed, POOLS)], dice(&seed, 64) * MiB));
        } else if (what < 96) {
            allow(pools[dice(&seed, POOLS)], (int)dice(&seed, 2), (int)dice(&seed, 2), (int)dice(&seed, 2));
        } else if (what < 98) { // another stream in its place
            int i = 1 + (int)dice(&seed, STREAMS - 1);
            for (allocation &a : live)
                if (a.stream == i) {
                    MUST(cudaEventRecord(event, streams[i]));
                    MUST(cudaStreamWaitEvent(0, event, 0));
                    a.stream = 0;
                }
            MUST(cudaStreamDestroy(streams[i]));
            MUST(cudaStreamCreateWithFlags(&streams[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        }
        int pool = (int)dice(&seed, POOLS);
        HOLDS(of(pools[pool], cudaMemPoolAttrUsedMemCurrent) == used[pool]);
        HOLDS(of(pools[pool], cudaMemPoolAttrReservedMemCurrent) >= used[pool]);
    }
    for (allocation &a : live) {
        look<<<4, 64, 0, streams[a.stream]>>>(a.p, a.size / 4, a.value, wrong);
        MUST(cudaFreeAsync(a.p, streams[a.stream]));
    }
    MUST(cudaDeviceSynchronize());
    HOLDS(of(pools[0], cudaMemPoolAttrReservedMemCurrent) == 0);
    for (int i = 1; i < POOLS; i++)
        MUST(cudaMemPoolDestroy(pools[i]));
    for (int i = 1; i < STREAMS; i++)
        MUST(cudaStreamDestroy(streams[i]));
    MUST(cudaEventDestroy(event));
}

static void all_of_the_memory()
{
    size_t available, after, total;
    void *p;
    MUST(cudaMemGetInfo(&available, &total));
    cudaError_t error = cudaMallocAsync(&p, 2 * total, 0);
    HOLDS(error == cudaErrorMemoryAllocation);
    cudaGetLastError();
    // what a pool holds and nobody uses is there for others
    cudaMemPool_t pool = new_pool();
    hold(pool, ~0ull);
    size_t most = available / 4 * 3;
    MUST(cudaMallocFromPoolAsync(&p, most, pool, 0));
    MUST(cudaFreeAsync(p, 0));
    MUST(cudaDeviceSynchronize());
    HOLDS(of(pool, cudaMemPoolAttrReservedMemCurrent) >= most);
    MUST(cudaMalloc(&p, most));
    MUST(cudaFree(p));
    MUST(cudaMemPoolDestroy(pool));
    // a reset ends pools
    MUST(cudaMallocAsync(&p, 64 * MiB, 0));
    MUST(cudaDeviceReset());
    MUST(cudaMemGetInfo(&after, &total));
    HOLDS(after >= available);
    MUST(cudaMallocAsync(&p, 64 * MiB, 0));
    MUST(cudaFreeAsync(p, 0));
    MUST(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    unsigned *wrong, count = 1;
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    attributes_and_errors();
    counts();
    reuse();
    reuse_by_way_of_another();
    MUST(cudaMalloc(&wrong, sizeof *wrong));
    MUST(cudaMemset(wrong, 0, sizeof *wrong));
    dependencies_of_the_pool(wrong);
    ends(wrong);
    legacy_order(wrong);
    random_work(wrong);
    MUST(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
    HOLDS(count == 0);
    MUST(cudaFree(wrong));
    all_of_the_memory();
    return check_result("pools");
}
