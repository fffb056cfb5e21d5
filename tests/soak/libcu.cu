// libcu.cu: libcu++: atomics, semaphores, latches, barriers, asynchronous copies, and the parts of cuda::std that run
// on both sides.
#include "tests/soak/soak.h"
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/tuple>

using soak::memory;

template <class T> using atomic = cuda::atomic_ref<T, cuda::thread_scope_device>;

// --- counters, and a list that every thread puts an element on ---

__global__ void count(const unsigned *in, int n, unsigned *sums, unsigned long long *most, double *total, int *head,
                      int *next)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomic<unsigned>(sums[in[i] % 61]).fetch_add(in[i], cuda::memory_order_relaxed);
        atomic<unsigned long long>(*most).fetch_max((unsigned long long)in[i] << 20 | (unsigned)i);
        atomic<double>(*total).fetch_add(in[i] % 1000);
        atomic<int> top(*head);
        int old = top.load(cuda::memory_order_relaxed);
        do
            next[i] = old;
        while (!top.compare_exchange_weak(old, i, cuda::memory_order_release, cuda::memory_order_relaxed));
    }
}

SOAK(libcu_atomic)
{
    int n = d.size(30000), blocks = 1 + (int)d.below(20), threads = 1 + (int)d.below(300);
    soak::now("atomics", n);
    std::vector<unsigned> in = soak::values<unsigned>(d, n), sums(61, 0);
    unsigned long long most = 0;
    double total = 0;
    for (int i = 0; i < n; i++) {
        sums[in[i] % 61] += in[i];
        most = std::max(most, (unsigned long long)in[i] << 20 | (unsigned)i);
        total += in[i] % 1000;
    }
    memory<unsigned> din(in), dsums(std::vector<unsigned>(61, 0));
    memory<unsigned long long> dmost(std::vector<unsigned long long>(1, 0));
    memory<double> dtotal(std::vector<double>(1, 0));
    memory<int> dhead(std::vector<int>(1, -1)), dnext(n);
    count<<<blocks, threads>>>(din, n, dsums, dmost, dtotal, dhead, dnext);
    MUST(cudaGetLastError());
    soak::same(sums, dsums.get(61), "sums");
    soak::same_one(most, dmost.first(), "largest");
    soak::same_one(total, dtotal.first(), "total");
    std::vector<int> next = dnext.get(n), seen(n, 0);
    int steps = 0;
    for (int at = dhead.first(); at >= 0 && at < n && steps <= n; at = next[at], steps++)
        seen[at]++;
    soak::same(std::vector<int>(n, 1), seen, "list");
}

// --- a semaphore that guards plain memory; a latch that all pass together ---

struct guarded {
    cuda::binary_semaphore<cuda::thread_scope_device> lock;
    cuda::latch<cuda::thread_scope_device> all;
    soak::quad sum;
    unsigned late;
};

__global__ void prepare(guarded *g, int blocks)
{
    new (&g->lock) cuda::binary_semaphore<cuda::thread_scope_device>(1);
    new (&g->all) cuda::latch<cuda::thread_scope_device>(blocks);
    g->sum = soak::quad{{0, 0, 0, 0}};
    g->late = 0;
}

__global__ void add_guarded(guarded *g, const soak::quad *in, int n)
{
    if (threadIdx.x)
        return;
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        g->lock.acquire();
        g->sum = g->sum + in[i];
        g->lock.release();
    }
    g->all.arrive_and_wait();
    g->lock.acquire();
    g->late += g->sum.v[0];
    g->lock.release();
}

SOAK(libcu_semaphore)
{
    int n = d.size(2000), blocks = 1 + (int)d.below(8);
    soak::now("semaphore and latch", n);
    std::vector<soak::quad> in = soak::values<soak::quad>(d, n);
    soak::quad sum = {{0, 0, 0, 0}};
    for (const soak::quad &x : in)
        sum = sum + x;
    memory<soak::quad> din(in);
    memory<guarded> g(1);
    prepare<<<1, 1>>>(g, blocks);
    add_guarded<<<blocks, 32>>>(g, din, n);
    MUST(cudaGetLastError());
    guarded *result = (guarded *)malloc(sizeof *result);
    MUST(cudaMemcpy((void *)result, (guarded *)g, sizeof *result, cudaMemcpyDeviceToHost));
    soak::same_one(sum, result->sum, "sum");
    soak::same_one(sum.v[0] * (unsigned)blocks, result->late, "after the latch");
    free(result);
}

// --- tiles that come by memcpy_async, with a barrier and with a pipeline ---

__global__ void tiles(const int *in, long long *out, int tile_count, int tile, bool by_pipeline)
{
    extern __shared__ int shared[];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    if (threadIdx.x == 0)
        init(&ready, blockDim.x);
    __syncthreads();
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    long long sum = 0;
    if (by_pipeline) {
        for (int k = blockIdx.x, stage = 0; k < tile_count; k += gridDim.x, stage ^= 1) {
            pipe.producer_acquire();
            for (int i = threadIdx.x; i < tile; i += blockDim.x)
                cuda::memcpy_async(shared + stage * tile + i, in + (size_t)k * tile + i, sizeof(int), pipe);
            pipe.producer_commit();
            pipe.consumer_wait();
            __syncthreads();
            for (int i = threadIdx.x; i < tile; i += blockDim.x)
                sum += shared[stage * tile + (i + 7) % tile] * (long long)(i + 1);
            pipe.consumer_release();
            __syncthreads();
        }
    } else {
        for (int k = blockIdx.x; k < tile_count; k += gridDim.x) {
            for (int i = threadIdx.x; i < tile; i += blockDim.x)
                cuda::memcpy_async(shared + i, in + (size_t)k * tile + i, sizeof(int), ready);
            ready.arrive_and_wait();
            for (int i = threadIdx.x; i < tile; i += blockDim.x)
                sum += shared[(i + 7) % tile] * (long long)(i + 1);
            ready.arrive_and_wait();
        }
    }
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(*(unsigned long long *)out)
        .fetch_add((unsigned long long)sum);
}

SOAK(libcu_async)
{
    int tile = 1 + (int)d.below(500), count = 1 + (int)d.below(60), blocks = 1 + (int)d.below(6),
        threads = 32 * (1 + (int)d.below(8));
    bool by_pipeline = d.one_in(2);
    soak::now(by_pipeline ? "pipeline" : "barrier", (long long)tile * count);
    std::vector<int> in = soak::values<int>(d, tile * count);
    unsigned long long sum = 0;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < tile; i++)
            sum += (unsigned long long)(in[k * tile + (i + 7) % tile] * (long long)(i + 1));
    memory<int> din(in);
    memory<long long> dout(std::vector<long long>(1, 0));
    tiles<<<blocks, threads, 2 * tile * sizeof(int)>>>(din, dout, count, tile, by_pipeline);
    MUST(cudaGetLastError());
    soak::same_one((long long)sum, dout.first(), "sum");
}

// --- the same function on both sides ---

__host__ __device__ unsigned long long mixture(unsigned long long x, unsigned long long y)
{
    namespace std_ = cuda::std;
    unsigned long long r = (unsigned long long)std_::popcount(x) + 100 * (unsigned long long)std_::countl_zero(y | 1) +
                           10000 * (unsigned long long)std_::countr_zero(x | 2);
    r += std_::rotl(x, (int)(y & 63)) ^ std_::rotr(y, (int)(x & 63));
    r ^= std_::bit_floor(x) + std_::bit_width(y);
    unsigned __int128 wide = (unsigned __int128)x << 64 | y, by = ((unsigned __int128)(y >> (x & 63)) << 32) | (x | 1);
    r += (unsigned long long)(wide / by) ^ (unsigned long long)(wide % by) ^ (unsigned long long)((wide * by) >> 64);
    std_::complex<double> a((double)(x & 1023), (double)(y & 1023)), b((double)(y >> 54), (double)(x >> 54));
    std_::complex<double> c = a * b + a;
    r += (unsigned long long)(long long)c.real() + 3 * (unsigned long long)(long long)c.imag();
    std_::array<unsigned, 5> list = {(unsigned)x, (unsigned)y, (unsigned)(x >> 32), (unsigned)(y >> 32),
                                     (unsigned)(x + y)};
    for (unsigned i = 1; i < list.size(); i++)
        for (unsigned k = i; k > 0 && list[k] < list[k - 1]; k--) {
            unsigned t = list[k];
            list[k] = list[k - 1];
            list[k - 1] = t;
        }
    std_::tuple<unsigned, unsigned long long> two = std_::make_tuple(list[2], x % (y | 1));
    return r ^ std_::get<0>(two) ^ std_::get<1>(two) << 7;
}

__global__ void mix(const unsigned long long *x, const unsigned long long *y, unsigned long long *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = mixture(x[i], y[i]);
}

SOAK(libcu_std)
{
    int n = d.size(20000);
    soak::now("cuda::std on both sides", n);
    std::vector<unsigned long long> x = soak::values<unsigned long long>(d, n),
                                    y = soak::values<unsigned long long>(d, n, d.one_in(8)), want(n);
    for (int i = 0; i < n; i++) {
        x[i] >>= d.below(64);
        want[i] = mixture(x[i], y[i]);
    }
    memory<unsigned long long> dx(x), dy(y), dout(n);
    mix<<<(n + 127) / 128, 128>>>(dx, dy, dout, n);
    MUST(cudaGetLastError());
    soak::same(want, dout.get(n));
}
