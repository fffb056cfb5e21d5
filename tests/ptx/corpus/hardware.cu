// What the hardware gives: textures, surfaces, warps, cooperative groups, half, bfloat16, matrix units, clusters.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
namespace cg = cooperative_groups;

__global__ void textures(cudaTextureObject_t t, cudaTextureObject_t layered, cudaSurfaceObject_t s, float4 *out)
{
    int i = threadIdx.x;
    float4 a = tex2D<float4>(t, i + .5f, 2.f);
    a.x += tex3D<float>(t, i, 1, 2) + tex1Dfetch<float>(t, i) + tex2DLayered<float>(layered, i, i, 3) + tex2DLod<float>(t, i, i, 1.f);
    a.y += tex2Dgather<float4>(t, i, i, 1).z;
    surf2Dwrite(a, s, i * 16, 3);
    out[i] = surf2Dread<float4>(s, i * 16, 4);
}
__global__ void warps(int *a, __half2 *h, __nv_bfloat16 *b)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int x = a[threadIdx.x];
    x += __shfl_down_sync(~0u, x, 3) + __ballot_sync(~0u, x > 3) + __popc(x) + cg::reduce(warp, x, cg::plus<int>());
    x += __match_any_sync(~0u, x) + __dp4a(x, x, 3) + __vabsdiffu4(x, 5) + __byte_perm(x, 3, 0x5410) + __funnelshift_l(x, 3, 5);
    h[threadIdx.x] = __hfma2(h[threadIdx.x], h[1], __float2half2_rn(0.5f));
    b[threadIdx.x] = __hadd(b[threadIdx.x], __float2bfloat16(1.5f));
    a[threadIdx.x] = x + (int)clock64() + (int)(sinf((float)x) + sqrt((double)x) + __expf(3.f));
    cg::this_grid().sync();
}
__global__ void matrix(half *a, float *c)
{
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.f);
    load_matrix_sync(fa, a, 16);
    load_matrix_sync(fb, a, 16);
    mma_sync(fc, fa, fb, fc);
    store_matrix_sync(c, fc, 16, mem_row_major);
}
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) clusters(int *a)
{
    __shared__ int s[4];
    auto cluster = cg::this_cluster();
    s[threadIdx.x & 3] = cluster.block_rank();
    cluster.sync();
    a[threadIdx.x] = *cluster.map_shared_rank(&s[1], 1);
}
#endif
