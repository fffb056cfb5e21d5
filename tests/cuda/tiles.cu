// shows: cooperative groups: tiles of 64 to 512 threads (sync, reduce, shfl, any, ballot of the block's part) in code
//   for sm_80 and later
// shows: shared memory: what the system reserves of each block: attribute, property, occupancy, the offsets that PTX
//   gives
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

// Each thread's value, its tile's sum, largest and running sum; tiles must neither mix nor disturb the block's own
// shared memory.
template <unsigned Size> __global__ void in_tiles(const int *in, int *out, int rounds)
{
    __shared__ int mine[1024];
    extern __shared__ int dynamic[];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<Size>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0, most = 0, before = 0, any = 0;
    mine[threadIdx.x] = ~i;
    dynamic[threadIdx.x] = i * 3;
    for (int r = 0; r < rounds; r++) {
        int v = in[i] + r;
        sum += cg::reduce(tile, v, cg::plus<int>());
        most += cg::reduce(tile, v, cg::greater<int>());
        before += cg::inclusive_scan(tile, v, cg::plus<int>());
        any += tile.any(v == r) + 2 * tile.all(v >= r) + 4 * tile.shfl(v, r % Size);
        tile.sync();
    }
    bool kept = mine[threadIdx.x] == ~i && dynamic[threadIdx.x] == i * 3;
    out[i * 6] = sum; out[i * 6 + 1] = most; out[i * 6 + 2] = before; out[i * 6 + 3] = any;
    out[i * 6 + 4] = (int)tile.thread_rank() + 1000 * (int)tile.meta_group_rank();
    out[i * 6 + 5] = kept;
}

template <unsigned Size> void tiles()
{
    const int threads = 1024, blocks = 3, n = threads * blocks, rounds = 9;
    static int in[n], out[n * 6];
    int *din, *dout;
    for (int i = 0; i < n; i++)
        in[i] = i * 7919 % 1000;
    MUST(cudaMalloc((void **)&din, sizeof in));
    MUST(cudaMalloc((void **)&dout, sizeof out));
    MUST(cudaMemcpy(din, in, sizeof in, cudaMemcpyHostToDevice));
    in_tiles<Size><<<blocks, threads, threads * sizeof(int)>>>(din, dout, rounds);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int first = 0; first < n; first += Size) {
        int sum = 0, most = 0, any = 0;
        for (int r = 0; r < rounds; r++) {
            int largest = 0, some = 0, all = 1;
            for (unsigned k = 0; k < Size; k++) {
                int v = in[first + k] + r;
                sum += v;
                largest = v > largest ? v : largest;
                some |= v == r;
                all &= v >= r;
            }
            most += largest;
            any += some + 2 * all + 4 * (in[first + r % (int)Size] + r);
        }
        for (unsigned k = 0, before = 0; k < Size; k++) {
            for (int r = 0; r < rounds; r++)
                before += in[first + k] + r;
            const int *got = out + (first + k) * 6;
            int rank = (int)k + 1000 * (first % threads / (int)Size);
            wrong +=
                got[0] != sum || got[1] != most || got[2] != (int)before || got[3] != any || got[4] != rank || !got[5];
        }
    }
    if (wrong)
        fprintf(stderr, "tiles of %u: %d of %d threads wrong\n", Size, wrong, n);
    HOLDS(wrong == 0);
    MUST(cudaFree(din));
    MUST(cudaFree(dout));
}

__global__ void offsets(unsigned *out)
{
#if __CUDA_ARCH__ >= 800
    __shared__ int first;
    extern __shared__ int dynamic[];
    unsigned begin, end, cap, zero, one;
    asm("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(begin));
    asm("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(end));
    asm("mov.u32 %0, %%reserved_smem_offset_cap;" : "=r"(cap));
    asm("mov.u32 %0, %%reserved_smem_offset_0;" : "=r"(zero));
    asm("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(one));
    first = 1;
    dynamic[0] = 2;
    out[0] = begin; out[1] = end; out[2] = cap; out[3] = zero; out[4] = one;
    out[5] = (unsigned)__cvta_generic_to_shared(&first);
    out[6] = (unsigned)__cvta_generic_to_shared(dynamic);
#endif
}

int main()
{
    cudaDeviceProp prop;
    MUST(cudaGetDeviceProperties(&prop, 0));
    if (prop.major < 8) {
        printf("needs a device of compute capability 8.0\n");
        return 77;
    }
    tiles<64>();
    tiles<128>();
    tiles<256>();
    tiles<512>();

    unsigned *dout, out[7];
    int reserved, blocks, per_sm;
    MUST(cudaMalloc((void **)&dout, sizeof out));
    offsets<<<1, 1, 64>>>(dout);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
    MUST(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, 0));
    HOLDS(reserved == 1024);
    HOLDS(prop.reservedSharedMemPerBlock == (size_t)reserved);
    unsigned begin = out[0], end = out[1];
    HOLDS(end - begin == (unsigned)reserved && out[2] >= end - begin);
    for (int k = 3; k < 5; k++)
        HOLDS(out[k] >= begin && out[k] < end);
    HOLDS(end - out[4] >= 288);                              // what cooperative groups takes from there on
    for (int k = 5; k < 7; k++)
        HOLDS(out[k] < begin || out[k] >= end);              // the kernel's own lies elsewhere

    // so much dynamic memory that the SM has room for k blocks only if nothing were reserved
    MUST(cudaDeviceGetAttribute(&per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0));
    MUST(cudaFuncSetAttribute(in_tiles<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, per_sm / 4 - (1 << 10)));
    cudaFuncAttributes attributes;
    MUST(cudaFuncGetAttributes(&attributes, in_tiles<64>));
    size_t fixed = attributes.sharedSizeBytes, share = (size_t)per_sm / 4;
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, in_tiles<64>, 64, share - fixed - reserved));
    HOLDS(blocks == 4);
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, in_tiles<64>, 64, share - fixed));
    HOLDS(blocks == 3);
    return check_result("tiles");
}
