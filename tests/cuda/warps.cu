// shows: shuffles: all four forms, widths, 64-bit values, predicates
// shows: votes and matches: any, all, ballot, match_any, match_all, activemask, reduce
// shows: shared memory and barriers: static, dynamic, __syncthreads_count/and/or, reduction, transposition
#include "check.h"

__global__ void shuffles(int *out)
{
    int lane = threadIdx.x;
    int v = lane * 10 + 1;
    out[0 * 32 + lane] = __shfl_sync(~0u, v, 5);
    out[1 * 32 + lane] = __shfl_up_sync(~0u, v, 3);
    out[2 * 32 + lane] = __shfl_down_sync(~0u, v, 4, 16);
    out[3 * 32 + lane] = __shfl_xor_sync(~0u, v, 9);
    double d = __shfl_sync(~0u, lane + 0.5, (lane + 1) & 31);
    out[4 * 32 + lane] = (int)(d * 2);
    out[5 * 32 + lane] = lane & 1 ? __shfl_sync(0xaaaaaaaau, v, 7) : __shfl_sync(0x55555555u, v, 6);
}

__global__ void votes(unsigned *out)
{
    unsigned lane = threadIdx.x & 31;
    out[0 * 32 + lane] = __any_sync(~0u, lane == 9);
    out[1 * 32 + lane] = __all_sync(~0u, lane < 31);
    out[2 * 32 + lane] = __ballot_sync(~0u, lane % 3 == 0);
    out[3 * 32 + lane] = __match_any_sync(~0u, lane / 5);
    int all;
    out[4 * 32 + lane] = __match_all_sync(~0u, 7, &all);
    out[5 * 32 + lane] = all;
    out[6 * 32 + lane] = lane < 12 ? __activemask() & 1 : 1;
    out[7 * 32 + lane] = __popc(lane) + __clz(lane) * 100 + __ffs(lane) * 10000 + (__brev(lane) >> 27) * 1000000;
}

__global__ void reduce(const int *in, int *out)
{
    extern __shared__ int part[];
    __shared__ int twice[64];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    if (t < 64)
        twice[t] = part[0] * 2;
    int counted = __syncthreads_count(t % 7 == 0);
    int all = __syncthreads_and(t >= 0), any = __syncthreads_or(t == 77);
    if (t == 0)
        out[blockIdx.x] = twice[63] + counted * 1000000 + all + any;
}

__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[16][17];
    tile[threadIdx.y][threadIdx.x] = in[(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x];
    __syncthreads();
    out[(blockIdx.x * 16 + threadIdx.y) * n + blockIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

int main()
{
    int *d, h[6 * 32];
    MUST(cudaMalloc((void **)&d, 1 << 20));
    shuffles<<<1, 32>>>(d);
    MUST(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) {
        HOLDS(h[i] == 51);
        HOLDS(h[32 + i] == (i < 3 ? i : i - 3) * 10 + 1);
        HOLDS(h[64 + i] == (i % 16 + 4 < 16 ? i + 4 : i) * 10 + 1);
        HOLDS(h[96 + i] == (i ^ 9) * 10 + 1);
        HOLDS(h[128 + i] == 2 * ((i + 1) & 31) + 1);
        HOLDS(h[160 + i] == (i & 1 ? 71 : 61));
    }
    unsigned v[8 * 32];
    votes<<<1, 32>>>((unsigned *)d);
    MUST(cudaMemcpy(v, d, sizeof v, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < 32; i++) {
        unsigned ballot = 0, match = 0;
        for (unsigned j = 0; j < 32; j++) {
            ballot |= (unsigned)(j % 3 == 0) << j;
            match |= (unsigned)(j / 5 == i / 5) << j;
        }
        HOLDS(v[i] == 1 && v[32 + i] == 0 && v[64 + i] == ballot && v[96 + i] == match && v[128 + i] == ~0u &&
              v[160 + i] == 1 && v[192 + i] == 1);
        unsigned brev = 0;
        for (int b = 0; b < 5; b++)
            brev |= ((i >> b) & 1) << (4 - b);
        HOLDS(v[224 + i] == (unsigned)__builtin_popcount(i) + (i ? (unsigned)__builtin_clz(i) : 32) * 100 +
                                (unsigned)__builtin_ffs((int)i) * 10000 + brev * 1000000);
    }
    const int blocks = 37, threads = 256;
    int *in = (int *)malloc(blocks * threads * sizeof(int)), *din, out[blocks];
    MUST(cudaMalloc((void **)&din, blocks * threads * sizeof(int)));
    for (int i = 0; i < blocks * threads; i++)
        in[i] = i % 101 - 30;
    MUST(cudaMemcpy(din, in, blocks * threads * sizeof(int), cudaMemcpyHostToDevice));
    reduce<<<blocks, threads, threads * sizeof(int)>>>(din, d);
    MUST(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    for (int b = 0; b < blocks; b++) {
        int sum = 0;
        for (int i = 0; i < threads; i++)
            sum += in[b * threads + i];
        HOLDS(out[b] == sum * 2 + 37 * 1000000 + 2);
    }
    const int n = 128;
    static float from[n * n], to[n * n];
    float *df, *dt;
    MUST(cudaMalloc((void **)&df, sizeof from));
    MUST(cudaMalloc((void **)&dt, sizeof to));
    for (int i = 0; i < n * n; i++)
        from[i] = i * 0.5f;
    MUST(cudaMemcpy(df, from, sizeof from, cudaMemcpyHostToDevice));
    transpose<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(df, dt, n);
    MUST(cudaMemcpy(to, dt, sizeof to, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++)
            wrong += to[x * n + y] != from[y * n + x];
    HOLDS(wrong == 0);
    return check_result("warps");
}
