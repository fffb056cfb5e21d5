// shows: warps of a block: a shared array that the next iteration reuses without a second barrier still holds what the
//   slowest warp has to read, as on hardware
//
// Such programs have a race, but on hardware the warps of a block are issued in turn, and none gets from one barrier
// to the stores of the next iteration before the others have executed the few instructions behind the barrier. Two
// public programs depend on it. With FLYT_SOFTGPU_CHAOS, which is there to bring races to light, the program does not
// apply.
#include "check.h"

enum { ITERATIONS = 25 };

// A tree in shared memory; every thread reads the result at the top.
__global__ void tree(const int *in, int *out)
{
    extern __shared__ int part[];
    int t = threadIdx.x, n = blockDim.x, seen = 0;
    for (int k = 0; k < ITERATIONS; k++) {
        part[t] = in[(blockIdx.x * ITERATIONS + k) * n + t];
        __syncthreads();
        for (int half = n / 2; half > 0; half /= 2) {
            if (t < half)
                part[t] += part[t + half];
            __syncthreads();
        }
        seen = (int)((unsigned)seen * 31 + part[0]);
    }
    out[blockIdx.x * n + t] = seen;
}

// Sums of warps in shared memory, which the first warp adds; two of them one after the other, and no barrier in
// between.
__device__ int block_sum(int v)
{
    __shared__ int sums[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    for (int by = 16; by > 0; by /= 2)
        v += __shfl_down_sync(0xffffffff, v, by);
    if (lane == 0)
        sums[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? sums[lane] : 0;
    if (warp == 0)
        for (int by = 16; by > 0; by /= 2)
            v += __shfl_down_sync(0xffffffff, v, by);
    return v;
}

__global__ void sums(const int *in, int *out)
{
    int t = threadIdx.x, n = blockDim.x, seen = 0;
    for (int k = 0; k < ITERATIONS; k++) {
        int v = in[(blockIdx.x * ITERATIONS + k) * n + t], once = block_sum(v), twice = block_sum(2 * v);
        seen = (int)((unsigned)seen * 31 + once + twice);
    }
    out[blockIdx.x * n + t] = t == 0 ? seen : 0;
}

static void host(int which, const int *in, int *out, int n)
{
    for (int t = 0; t < n; t++)
        out[t] = 0;
    for (int k = 0; k < ITERATIONS; k++) {
        int total = 0;
        for (int t = 0; t < n; t++)
            total += in[k * n + t];
        for (int t = 0; t < (which ? 1 : n); t++)
            out[t] = (int)((unsigned)out[t] * 31 + (unsigned)(which ? 3 * total : total));
    }
}

int main()
{
    if (getenv("FLYT_SOFTGPU_CHAOS")) {
        printf("chaos brings the program's races to light\n");
        return 77;
    }
    const int blocks = 8, most = 1024;
    static int in[blocks * ITERATIONS * most], out[blocks * most], want[most];
    int *din, *dout;
    for (int i = 0; i < blocks * ITERATIONS * most; i++)
        in[i] = i * 7919 % 1009;
    MUST(cudaMalloc((void **)&din, sizeof in));
    MUST(cudaMalloc((void **)&dout, sizeof out));
    MUST(cudaMemcpy(din, in, sizeof in, cudaMemcpyHostToDevice));
    void (*kernels[])(const int *, int *) = { tree, sums };
    for (int which = 0; which < 2; which++)
        for (int n = 64; n <= most; n *= 2) {
            kernels[which]<<<blocks, n, n * sizeof(int)>>>(din, dout);
            MUST(cudaGetLastError());
            MUST(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
            int wrong = 0;
            for (int b = 0; b < blocks; b++) {
                host(which, in + b * ITERATIONS * n, want, n);
                for (int t = 0; t < n; t++)
                    wrong += out[b * n + t] != want[t];
            }
            if (wrong)
                fprintf(stderr, "kernel %d, blocks of %d: %d of %d threads wrong\n", which, n, wrong, blocks * n);
            HOLDS(wrong == 0);
        }
    return check_result("reuse");
}
