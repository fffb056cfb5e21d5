// shows: launches: tensor maps (cuTensorMapEncodeTiled) and the tensor copies of kernels with them, as libcu++ makes
//   them: tiles of a matrix, beyond its edges too, swizzled, stored back; the taps of a filter by
//   cuTensorMapEncodeIm2col; maps of every swizzle and of cuTensorMapEncodeIm2colWide; wrong maps are refused
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
static PFN_cuTensorMapEncodeIm2col_v12000 encode_im2col;

/* Taps of a filter of 3 by 3 over an image of 6 by 5 pixels of 8 channels, with a border of one pixel: each tap's
   pixels in a column, through shared memory. */
enum { CHANNELS = 8, WIDTH = 6, HEIGHT = 5, IMAGES = 2, PIXELS = WIDTH * HEIGHT * IMAGES, TAPS = 9 };

__global__ void columns(const __grid_constant__ CUtensorMap image, int *to)
{
#if __CUDA_ARCH__ >= 900
    __shared__ alignas(128) int column[PIXELS * CHANNELS];
    __shared__ uint64_t bar;
    unsigned shared = (unsigned)__cvta_generic_to_shared(column), at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        unsigned short x = blockIdx.x % 3, y = blockIdx.x / 3;
        ptx::mbarrier_init(&bar, 1);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "n"(sizeof column) : "memory");
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
                     "[%1, {%2, %3, %3, %2}], [%4], {%5, %6};" ::"r"(shared),
                     "l"(&image), "r"(0), "r"(-1), "r"(at), "h"(x), "h"(y)
                     : "memory");
    }
    __syncthreads();
    while (!ptx::mbarrier_try_wait_parity(&bar, 0))
        ;
    for (int i = threadIdx.x; i < PIXELS * CHANNELS; i += blockDim.x)
        to[blockIdx.x * PIXELS * CHANNELS + i] = column[i];
#endif
}

static void taps_of_a_filter()
{
    static int host[IMAGES][HEIGHT][WIDTH][CHANNELS], found[TAPS][IMAGES][HEIGHT][WIDTH][CHANNELS];
    int *image, *to, wrong = 0;
    for (int i = 0; i < PIXELS * CHANNELS; i++)
        (&host[0][0][0][0])[i] = i + 1;
    MUST(cudaMalloc((void **)&image, sizeof host));
    MUST(cudaMalloc((void **)&to, sizeof found));
    MUST(cudaMemcpy(image, host, sizeof host, cudaMemcpyHostToDevice));
    alignas(128) CUtensorMap map = {}, other = {};
    const cuuint64_t dims[] = { CHANNELS, WIDTH, HEIGHT, IMAGES };
    const cuuint64_t strides[] = { sizeof host[0][0][0], sizeof host[0][0], sizeof host[0] };
    const cuuint32_t steps[] = { 1, 1, 1, 1 };
    const int lower[] = { -1, -1 }, upper[] = { -1, -1 }, far[] = { -129, -1 };
    auto make = [&](CUtensorMap *m, unsigned rank, const int *low, unsigned channels, unsigned pixels) {
        return encode_im2col(m, CU_TENSOR_MAP_DATA_TYPE_INT32, rank, image, dims, strides, low, upper, channels, pixels,
                             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    HOLDS(make(&map, 4, lower, CHANNELS, PIXELS) == CUDA_SUCCESS);
    columns<<<TAPS, 64>>>(map, to);
    GIVES(cudaSuccess, cudaDeviceSynchronize());
    MUST(cudaMemcpy(found, to, sizeof found, cudaMemcpyDeviceToHost));
    for (int tap = 0; tap < TAPS; tap++)
        for (int n = 0; n < IMAGES; n++)
            for (int y = 0; y < HEIGHT; y++)
                for (int x = 0; x < WIDTH; x++)
                    for (int c = 0; c < CHANNELS; c++) {
                        int row = y - 1 + tap / 3, column = x - 1 + tap % 3;
                        bool inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH;
                        wrong += found[tap][n][y][x][c] != (inside ? host[n][row][column][c] : 0);
                    }
    HOLDS(!wrong);
    HOLDS(make(&other, 2, lower, CHANNELS, PIXELS) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(make(&other, 4, far, CHANNELS, PIXELS) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(make(&other, 4, nullptr, CHANNELS, PIXELS) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(make(&other, 4, lower, 257, PIXELS) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(make(&other, 4, lower, CHANNELS, 1025) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(make(nullptr, 4, lower, CHANNELS, PIXELS) == CUDA_ERROR_INVALID_VALUE);
    MUST(cudaFree(image));
    MUST(cudaFree(to));
}

static CUresult map_of(CUtensorMap *map, void *address, CUtensorMapSwizzle swizzle, unsigned columns = TILE_COLUMNS,
                       unsigned long long pitch = PITCH * sizeof(int))
{
    cuuint64_t dims[] = { COLUMNS, ROWS }, strides[] = { pitch };
    cuuint32_t box[] = { columns, TILE_ROWS }, steps[] = { 1, 1 };
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, address, dims, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// What the Driver API's reference says of the arguments. 801: a device that does not have it, or an interleaved map.
static void swizzles_and_rows(void *image)
{
    const cuuint64_t dims[] = { 64, 9, 7, 4 }, strides[] = { 256, 256 * 9, 256 * 9 * 7 };
    const cuuint32_t steps[] = { 1, 1, 1, 1 }, box[] = { 8, 4, 2, 1 };
    alignas(128) CUtensorMap map = {};
    auto tiled = [&](CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, unsigned rank = 4) {
        return encode(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, rank, image, dims, strides, box, steps, interleave, swizzle,
                      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    const CUtensorMapInterleave none = CU_TENSOR_MAP_INTERLEAVE_NONE, wide = CU_TENSOR_MAP_INTERLEAVE_32B;
    for (int swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; swizzle++)
        HOLDS(tiled(none, (CUtensorMapSwizzle)swizzle) == CUDA_SUCCESS);
    HOLDS(tiled(none, (CUtensorMapSwizzle)7) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(tiled(wide, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(tiled(wide, CU_TENSOR_MAP_SWIZZLE_32B, 2) == CUDA_ERROR_INVALID_VALUE);

    PFN_cuTensorMapEncodeIm2colWide_v12080 rows = nullptr;
    cudaDriverEntryPointQueryResult known;
    MUST(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2colWide", (void **)&rows, 12080, cudaEnableDefault,
                                          &known));
    struct row {
        unsigned rank = 4;
        int lower = -1, upper = -1;
        unsigned channels = 16, pixels = 64;
        int mode = 0, swizzle = CU_TENSOR_MAP_SWIZZLE_64B, interleave = 0;
    };
    auto made = [&](const row &r) {
        return rows(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, r.rank, image, dims, strides, r.lower, r.upper, r.channels,
                    r.pixels, steps, (CUtensorMapInterleave)r.interleave, (CUtensorMapIm2ColWideMode)r.mode,
                    (CUtensorMapSwizzle)r.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    auto refused = [&](auto change) {
        row r;
        change(r);
        HOLDS(made(r) == CUDA_ERROR_INVALID_VALUE);
    };
    int major = 0;
    MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    HOLDS(made(row()) == (major < 10 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS));
    if (major < 10)
        return;
    row long_rows;
    long_rows.mode = CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
    long_rows.pixels = 5000; // not looked at
    HOLDS(made(long_rows) == CUDA_SUCCESS);
    refused([](row &r) { r.rank = 2; });
    refused([](row &r) { r.rank = 6; });
    refused([](row &r) { r.lower = -32769; });
    refused([](row &r) { r.upper = 32768; });
    refused([](row &r) { r.lower = 0, r.upper = -9; }); // a box without pixels
    refused([](row &r) { r.channels = 32; });           // more than the span of the swizzle
    refused([](row &r) { r.channels = 257; });
    refused([](row &r) { r.pixels = 1025; });
    refused([](row &r) { r.mode = 2; });
    refused([](row &r) { r.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; });
    refused([](row &r) { r.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; });
    refused([](row &r) { r.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B; });
    refused([](row &r) { r.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; });
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
    MUST(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", (void **)&encode_im2col, 12000, cudaEnableDefault,
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
    taps_of_a_filter();
    swizzles_and_rows(from);
    return check_result("tensors");
}
