/* shows: The Driver API for programs: texture objects of linear memory: kernels read through them; wrong and ended ones
 *   are refused; they end with their context */
/* test_textures.c: texture objects, which are made by generated code alone (cpu/api, class object), and other forwarded
   calls. On the software GPU inside this process, or on the server of FLYT_SERVER. */
#include "tests/lib/unit_cuda.h"

enum { TEXELS = 32 };

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry fetch(.param .u64 texture, .param .u64 out)\n{\n"
    "    .reg .b64 %rd<4>; .reg .b32 %r<6>;\n"
    "    ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [out];\n"
    "    mov.u32 %r1, %tid.x;\n"
    "    tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1}];\n"
    "    mad.wide.u32 %rd3, %r1, 4, %rd2;\n    st.global.u32 [%rd3], %r2;\n    ret;\n}\n";

static CUdeviceptr data, out;
static CUfunction fetch;

static int set_up(void **state)
{
    (void)state;
    CUcontext primary;
    CUmodule module;
    unsigned words[TEXELS];
    for (unsigned i = 0; i < TEXELS; i++)
        words[i] = 100 + i;
    if (setenv("FLYT_SERVER", "local:software", 0) || cuInit(0) || cuDevicePrimaryCtxRetain(&primary, 0) ||
        cuCtxSetCurrent(primary) || cuModuleLoadData(&module, ptx) || cuModuleGetFunction(&fetch, module, "fetch"))
        return -1;
    return cuMemAlloc(&data, sizeof words) || cuMemAlloc(&out, sizeof words) || cuMemcpyHtoD(data, words, sizeof words)
               ? -1 : 0;
}

static CUDA_RESOURCE_DESC words_at(CUdeviceptr address, size_t bytes)
{
    return (CUDA_RESOURCE_DESC){ .resType = CU_RESOURCE_TYPE_LINEAR,
                                 .res.linear = { .devPtr = address, .format = CU_AD_FORMAT_UNSIGNED_INT32,
                                                 .numChannels = 1, .sizeInBytes = bytes } };
}

static const CUDA_TEXTURE_DESC as_integers = { .flags = CU_TRSF_READ_AS_INTEGER };

static CUresult create(CUtexObject *texture, const CUDA_RESOURCE_DESC *from)
{
    return cuTexObjectCreate(texture, from, &as_integers, NULL);
}

static void reads(CUtexObject texture, unsigned first)
{
    unsigned words[TEXELS] = { 0 };
    void *arguments[] = { &texture, &out };
    OK(cuLaunchKernel(fetch, 1, 1, 1, TEXELS, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(words, out, sizeof words));
    for (unsigned i = 0; i < TEXELS; i++)
        assert_int_equal(words[i], first + i);
}

TEST(a_kernel_reads)
{
    CUtexObject one, two;
    CUDA_RESOURCE_DESC from = words_at(data, TEXELS * 4), told;
    CUDA_TEXTURE_DESC how;
    CUDA_RESOURCE_VIEW_DESC view = { .format = CU_RES_VIEW_FORMAT_NONE };
    OK(create(&one, &from));
    OK(cuTexObjectCreate(&two, &from, &as_integers, &view));
    assert_true(one && two && one != two);
    reads(one, 100);
    reads(two, 100);
    memset(&told, 0xff, sizeof told);
    OK(cuTexObjectGetResourceDesc(&told, one));
    assert_int_equal(told.resType, CU_RESOURCE_TYPE_LINEAR);
    assert_int_equal(told.res.linear.devPtr, data);
    assert_int_equal(told.res.linear.format, CU_AD_FORMAT_UNSIGNED_INT32);
    assert_int_equal(told.res.linear.numChannels, 1);
    assert_int_equal(told.res.linear.sizeInBytes, TEXELS * 4);
    OK(cuTexObjectGetTextureDesc(&how, one));
    assert_memory_equal(&how, &as_integers, sizeof how);
    OK(cuTexObjectDestroy(one));
    reads(two, 100);
    OK(cuTexObjectDestroy(two));
}

TEST(wrong_ones_are_refused)
{
    CUtexObject texture;
    CUDA_RESOURCE_DESC from = words_at(data, TEXELS * 4), wrong;
    FAILS(CUDA_ERROR_INVALID_VALUE, create(NULL, &from));
    FAILS(CUDA_ERROR_INVALID_VALUE, create(&texture, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &from, NULL, NULL));
    wrong = words_at(data + 4, TEXELS);                       /* not aligned */
    FAILS(CUDA_ERROR_INVALID_VALUE, create(&texture, &wrong));
    wrong = words_at(4096, TEXELS * 4);                       /* nobody's memory */
    FAILS(CUDA_ERROR_INVALID_VALUE, create(&texture, &wrong));
    wrong = from;
    wrong.res.linear.format = (CUarray_format)9999;
    FAILS(CUDA_ERROR_INVALID_VALUE, create(&texture, &wrong));
    wrong = (CUDA_RESOURCE_DESC){ .resType = CU_RESOURCE_TYPE_ARRAY };
    FAILS(CUDA_ERROR_INVALID_HANDLE, create(&texture, &wrong));
    OK(cuTexObjectDestroy(0));
    OK(cuTexObjectDestroy(12345));
    OK(create(&texture, &from));
    OK(cuTexObjectDestroy(texture));
    OK(cuTexObjectDestroy(texture));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceDesc(&wrong, texture));
}

TEST(the_widest_is_told)
{
    int attribute;
    size_t width = 0;
    OK(cuDeviceGetAttribute(&attribute, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 0));
    OK(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 0));
    assert_int_equal(width, attribute);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetTexture1DLinearMaxWidth(NULL, CU_AD_FORMAT_FLOAT, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 3, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetTexture1DLinearMaxWidth(&width, (CUarray_format)9999, 1, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 1, 99));
}

TEST(they_end_with_their_context)
{
    CUcontext before, made;
    CUdeviceptr there;
    CUtexObject texture, mine;
    CUDA_RESOURCE_DESC from = words_at(data, TEXELS * 4);
    OK(create(&mine, &from));
    OK(cuCtxGetCurrent(&before));
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&made, NULL, 0, 0));
#else
    OK(cuCtxCreate(&made, 0, 0));
#endif
    OK(cuMemAlloc(&there, 4096));
    from = words_at(there, 4096);
    OK(create(&texture, &from));
    OK(cuCtxDestroy(made));
    OK(cuCtxSetCurrent(before));
    OK(cuTexObjectDestroy(texture));
    reads(mine, 100);
    OK(cuTexObjectDestroy(mine));
}

int main(void) { return unit_run(set_up, NULL); }
