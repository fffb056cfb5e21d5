// shows: launches: tensor maps (cuTensorMapEncodeTiled) and the tensor copies of kernels with them, as libcu++ makes
//   them: tiles of a matrix, beyond its edges too, swizzled, stored back; wrong maps are refused
#include "check.h"
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <cuda/ptx>

namespace ptx = cuda::ptx;

enum { ROWS = 70, COLUMNS = 100, PITCH = 112, TILE_ROWS = 16, TILE_COLUMNS = 32 };

// Copies the matrix tile by tile to another one, doubled; each element passes through shared memory.
__global__ void doubled(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to)
{
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 900
    __shared__ alignas(1024) int tile[TILE_ROWS][TILE_COLUMNS];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    int x = blockIdx.x * TILE_COLUMNS, y = blockIdx.y * TILE_ROWS;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        const int32_t at[] = { x, y };
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &from, at,
                                  cuda::device::barrier_native_handle(bar));
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
    } else
        token = bar.arrive();
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < TILE_ROWS * TILE_COLUMNS; i += blockDim.x)
        (&tile[0][0])[i] *= 2;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        const int32_t at[] = { x, y };
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &to, at, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
#endif
}

static PFN_cuTensorMapEncodeTiled_v12000 encode;
static PFN_cuTensorMapReplaceAddress_v12000 replace;

static CUresult map_of(CUtensorMap *map, void *address, CUtensorMapSwizzle swizzle, unsigned columns = TILE_COLUMNS,
                       unsigned long long pitch = PITCH * sizeof(int))
{
    cuuint64_t dims[] = { COLUMNS, ROWS }, strides[] = { pitch };
    cuuint32_t box[] = { columns, TILE_ROWS }, steps[] = { 1, 1 };
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, address, dims, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

int main()
{
    static int host[ROWS][PITCH], found[ROWS][PITCH];
    int *from, *to, major = 0;
    MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 9) {
        printf("tensor copies need compute capability 9.0\n");
        return 77;
    }
    cudaDriverEntryPointQueryResult known;
    MUST(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000, cudaEnableDefault,
                                          &known));
    MUST(cudaGetDriverEntryPointByVersion("cuTensorMapReplaceAddress", (void **)&replace, 12000, cudaEnableDefault,
                                          &known));
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < PITCH; x++)
            host[y][x] = 1000 * y + x;
    MUST(cudaMalloc((void **)&from, sizeof host));
    MUST(cudaMalloc((void **)&to, sizeof host));
    MUST(cudaMemcpy(from, host, sizeof host, cudaMemcpyHostToDevice));

    alignas(128) CUtensorMap source = {}, destination = {}, other = {};
    HOLDS(map_of(&source, from, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_SUCCESS);
    HOLDS(map_of(&destination, to, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_SUCCESS);
    for (int swizzled = 0; swizzled < 2; swizzled++) {
        MUST(cudaMemset(to, 0xff, sizeof host));
        doubled<<<dim3(4, 5), 64>>>(source, destination);
        GIVES(cudaSuccess, cudaDeviceSynchronize());
        MUST(cudaMemcpy(found, to, sizeof found, cudaMemcpyDeviceToHost));
        int wrong = 0;
        for (int y = 0; y < ROWS; y++)
            for (int x = 0; x < PITCH; x++)
                wrong += found[y][x] != (x < COLUMNS ? 2 * host[y][x] : -1);
        HOLDS(!wrong);
        HOLDS(map_of(&source, from, CU_TENSOR_MAP_SWIZZLE_128B) == CUDA_SUCCESS);
        HOLDS(map_of(&destination, from, CU_TENSOR_MAP_SWIZZLE_128B) == CUDA_SUCCESS);
        HOLDS(replace(&destination, to) == CUDA_SUCCESS);
    }
    other = source;
    HOLDS(map_of(&other, (char *)from + 4, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(map_of(&other, from, CU_TENSOR_MAP_SWIZZLE_NONE, 257) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(map_of(&other, from, CU_TENSOR_MAP_SWIZZLE_NONE, 3) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(map_of(&other, from, CU_TENSOR_MAP_SWIZZLE_64B) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(map_of(&other, from, CU_TENSOR_MAP_SWIZZLE_NONE, TILE_COLUMNS, 404) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(map_of((CUtensorMap *)((char *)&other + 32), from, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(map_of(nullptr, from, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(replace(&other, (char *)from + 8) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(!memcmp(&other, &source, sizeof other));
    return check_result("tensors");
}
