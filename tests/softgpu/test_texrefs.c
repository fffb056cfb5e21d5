/* shows: Texture and surface references (cuTexRef…, cuSurfRef…): a launch sees what they were bound to when it was
 *   called, whatever it waits for; offsets, formats, flags, pitched memory, arrays, levels; errors; ended handles */
/* test_texrefs.c: variables of type .texref and .surfref, as nvcc 11.8 writes them for texture<> and surface<>. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "kernels.h"
#include "softgpu_test.h"

enum { N = 32, W = 8, H = 4, ALIGNMENT = 512 };

static const char ptx[] = PTX_HEAD
    ".global .texref words;\n.global .texref other;\n.global .texref plane;\n.global .surfref picture;\n"
    ".global .u64 pointer = words;\n"
    ".visible .entry fetch(.param .u64 out)\n"
    "{\n    .reg .b32 %r<7>; .reg .b64 %rd<4>;\n"
    "    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;\n"
    "    tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [words, {%r1}];\n"
    "    mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r2;\n    ret;\n}\n"
    ".visible .entry both(.param .u64 out)\n"
    "{\n    .reg .b32 %r<9>; .reg .b64 %rd<5>;\n"
    "    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u64 %rd3, other; ld.global.u64 %rd4, [pointer];\n"
    "    tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%rd3, {%r1}];\n"
    "    tex.1d.v4.u32.s32 {%r6, %r3, %r4, %r5}, [%rd4, {%r1}];\n"
    "    mad.lo.u32 %r7, %r6, 1000, %r2;\n"
    "    mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r7;\n    ret;\n}\n"
    ".visible .entry look(.param .u64 out, .param .f32 scale)\n"
    "{\n    .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<9>;\n"
    "    ld.param.u64 %rd1, [out]; ld.param.f32 %f7, [scale]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;\n"
    "    cvt.rn.f32.u32 %f1, %r1; cvt.rn.f32.u32 %f2, %r2; add.f32 %f1, %f1, 0f3F000000;\n"
    "    add.f32 %f2, %f2, 0f3F000000; mul.f32 %f1, %f1, %f7; mul.f32 %f2, %f2, %f7;\n"
    "    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [plane, {%f1, %f2}];\n"
    "    mad.lo.u32 %r3, %r2, 8, %r1; mad.wide.u32 %rd2, %r3, 4, %rd1; st.global.f32 [%rd2], %f3;\n"
    "    ret;\n}\n"
    ".visible .entry level(.param .u64 out)\n"
    "{\n    .reg .b64 %rd<4>; .reg .f32 %f<9>;\n"
    "    ld.param.u64 %rd1, [out]; mov.f32 %f1, 0f3E800000; mov.f32 %f2, 0f3F800000;\n"
    "    tex.level.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [plane, {%f1, %f1}], %f2;\n"
    "    st.global.f32 [%rd1], %f3;\n    ret;\n}\n"
    ".visible .entry ask(.param .u64 out)\n"
    "{\n    .reg .b32 %r<4>; .reg .b64 %rd<4>;\n    ld.param.u64 %rd1, [out];\n"
    "    txq.width.b32 %r1, [plane]; txq.height.b32 %r2, [plane]; suq.width.b32 %r3, [picture];\n"
    "    st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2; st.global.u32 [%rd1+8], %r3;\n    ret;\n}\n"
    ".visible .entry draw(.param .u32 base)\n"
    "{\n    .reg .b32 %r<7>;\n    ld.param.u32 %r5, [base];\n"
    "    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; shl.b32 %r3, %r1, 2; mad.lo.u32 %r4, %r2, 8, %r1;\n"
    "    add.u32 %r4, %r4, %r5; sust.b.2d.b32.trap [picture, {%r3, %r2}], {%r4};\n    ret;\n}\n"
    ".visible .entry load(.param .u64 out)\n"
    "{\n    .reg .b32 %r<6>; .reg .b64 %rd<4>;\n    ld.param.u64 %rd1, [out];\n"
    "    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; shl.b32 %r3, %r1, 2;\n"
    "    suld.b.2d.b32.zero {%r4}, [picture, {%r3, %r2}];\n"
    "    mad.lo.u32 %r5, %r2, 8, %r1; mad.wide.u32 %rd2, %r5, 4, %rd1; st.global.u32 [%rd2], %r4;\n    ret;\n}\n";

static CUmodule module;
static CUdeviceptr data, out;

static int set_up(void **state)
{
    uint32_t words[4 * ALIGNMENT];
    for (uint32_t i = 0; i < 4 * ALIGNMENT; i++)
        words[i] = i;
    return with_context(state) || cuModuleLoadData(&module, ptx) || cuMemAlloc(&data, sizeof words) ||
                   cuMemAlloc(&out, sizeof words) || cuMemcpyHtoD(data, words, sizeof words)
               ? -1
               : 0;
}

static CUtexref texref(const char *name)
{
    CUtexref t;
    OK(cuModuleGetTexRef(&t, module, name));
    return t;
}

static CUfunction kernel(const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

static void launch(const char *name, unsigned x, unsigned y, CUdeviceptr to, CUstream stream)
{
    float scale = 1;
    void *arguments[] = { &to, &scale };
    OK(cuLaunchKernel(kernel(name), 1, 1, 1, x, y, 1, 0, stream, arguments, NULL));
}

static void words_from(CUtexref t, CUdeviceptr at, size_t count)
{
    OK(cuTexRefSetFormat(t, CU_AD_FORMAT_UNSIGNED_INT32, 1));
    OK(cuTexRefSetFlags(t, CU_TRSF_READ_AS_INTEGER));
    OK(cuTexRefSetAddress(NULL, t, at, count * 4));
}

static void expect(CUdeviceptr at, uint32_t first, uint32_t count, uint32_t step)
{
    uint32_t got[N];
    OK(cuMemcpyDtoH(got, at, count * 4));
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(got[i], first + i * step);
}

/* First: nothing has been bound yet. */
TEST(unbound)
{
    OK(cuMemsetD32(out, 77, N));
    launch("fetch", N, 1, out, NULL);
    expect(out, 0, N, 0);
    launch("load", W, H, out, NULL);
    expect(out, 0, N, 0);
    CUdeviceptr address;
    CUarray array;
    CUmipmappedArray mipmap;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefGetAddress(&address, texref("words")));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefGetArray(&array, texref("words")));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefGetMipmappedArray(&mipmap, texref("words")));
}

TEST(names)
{
    CUtexref t;
    CUsurfref s;
    assert_ptr_equal(texref("words"), texref("words"));
    assert_true(texref("words") != texref("other"));
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&t, module, "none"));
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&t, module, "picture"));
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&t, module, "pointer"));
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetSurfRef(&s, module, "words"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuModuleGetTexRef(NULL, module, "words"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuModuleGetTexRef(&t, module, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetTexRef(&t, NULL, "words"));
}

TEST(settings)
{
    CUtexref t;
    CUaddress_mode wrap;
    CUfilter_mode filter;
    CUarray_format format;
    int channels, anisotropy;
    unsigned flags;
    float bias, least, most, color[4] = { 1, 2, 3, 4 }, got[4];
    OK(cuTexRefCreate(&t));
    OK(cuTexRefGetFlags(&flags, t));
    assert_int_equal(flags, 0);
    OK(cuTexRefGetAddressMode(&wrap, t, 1));
    assert_int_equal(wrap, CU_TR_ADDRESS_MODE_CLAMP);
    OK(cuTexRefGetFilterMode(&filter, t));
    assert_int_equal(filter, CU_TR_FILTER_MODE_POINT);
    OK(cuTexRefSetAddressMode(t, 1, CU_TR_ADDRESS_MODE_BORDER));
    OK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    OK(cuTexRefSetMipmapFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    OK(cuTexRefSetMipmapLevelBias(t, 0.5f));
    OK(cuTexRefSetMipmapLevelClamp(t, 1, 3));
    OK(cuTexRefSetMaxAnisotropy(t, 4));
    OK(cuTexRefSetBorderColor(t, color));
    OK(cuTexRefSetFlags(t, CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB));
    OK(cuTexRefSetFormat(t, CU_AD_FORMAT_HALF, 4));
    OK(cuTexRefGetAddressMode(&wrap, t, 1));
    assert_int_equal(wrap, CU_TR_ADDRESS_MODE_BORDER);
    OK(cuTexRefGetFilterMode(&filter, t));
    assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
    OK(cuTexRefGetMipmapFilterMode(&filter, t));
    assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
    OK(cuTexRefGetMipmapLevelBias(&bias, t));
    OK(cuTexRefGetMipmapLevelClamp(&least, &most, t));
    assert_true(bias == 0.5f && least == 1 && most == 3);
    OK(cuTexRefGetMaxAnisotropy(&anisotropy, t));
    assert_int_equal(anisotropy, 4);
    OK(cuTexRefGetBorderColor(got, t));
    assert_memory_equal(got, color, sizeof color);
    OK(cuTexRefGetFlags(&flags, t));
    assert_int_equal(flags, CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB);
    OK(cuTexRefGetFormat(&format, &channels, t));
    assert_true(format == CU_AD_FORMAT_HALF && channels == 4);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFormat(t, CU_AD_FORMAT_FLOAT, 3));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFormat(t, (CUarray_format)0x55, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddressMode(t, 3, CU_TR_ADDRESS_MODE_WRAP));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddressMode(t, 0, (CUaddress_mode)4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFilterMode(t, (CUfilter_mode)2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags(t, 1u << 30));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetBorderColor(t, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefGetFilterMode(NULL, t));
    OK(cuTexRefDestroy(t));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefDestroy(t));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags(t, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefDestroy(texref("words"))); /* its module's */
}

TEST(addresses)
{
    CUtexref t = texref("words");
    CUdeviceptr address;
    size_t offset = 99;
    words_from(t, data, N);
    OK(cuTexRefSetAddress(&offset, t, data, N * 4));
    assert_int_equal(offset, 0);
    OK(cuTexRefGetAddress(&address, t));
    assert_int_equal(address, data);
    launch("fetch", N, 1, out, NULL);
    expect(out, 0, N, 1);
    /* the texture begins at a multiple of 512; the kernel must add the offset */
    OK(cuTexRefSetAddress(&offset, t, data + 16, 16));
    assert_int_equal(offset, 16);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress(NULL, t, data + 16, 16));
    launch("fetch", N, 1, out, NULL);
    expect(out, 0, 8, 1);
    expect(out + 32, 0, N - 8, 0); /* outside */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress(NULL, t, data, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress(NULL, t, ALIGNMENT, 64));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress(&offset, t, data, (size_t)1 << 40));
    launch("fetch", 8, 1, out, NULL);
    expect(out, 0, 8, 1);                  /* it is as it was */
    OK(cuTexRefSetAddress(NULL, t, 0, 0)); /* NVIDIA's runtime unbinds so */
    launch("fetch", N, 1, out, NULL);
    expect(out, 0, N, 0);
}

/* The stream waits until the program lets it go on: then all launches have been called. */
TEST(each_launch_its_own)
{
    enum { LAUNCHES = 12 };
    CUtexref t = texref("words");
    CUstream stream;
    CUdeviceptr flag;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&flag, 4));
    OK(cuMemsetD32(flag, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (unsigned k = 0; k < LAUNCHES; k++) {
        if (k % 3 != 2) /* or as the launch before */
            words_from(t, data + k * ALIGNMENT, N);
        launch("fetch", 8, 1, out + k * 32, stream);
    }
    words_from(t, data + LAUNCHES * ALIGNMENT, N);
    OK(cuMemsetD32Async(flag, 1, 1, NULL));
    OK(cuStreamSynchronize(stream));
    for (unsigned k = 0; k < LAUNCHES; k++)
        expect(out + k * 32, (k - (k % 3 == 2)) * (ALIGNMENT / 4), 8, 1);
    OK(cuMemFree(flag));
    OK(cuStreamDestroy(stream));
}

/* By the address of the variable, and by one that the program has stored. */
TEST(by_address)
{
    words_from(texref("words"), data, N);
    words_from(texref("other"), data + ALIGNMENT, N);
    launch("both", N, 1, out, NULL);
    expect(out, ALIGNMENT / 4, N, 1001);
}

TEST(pitched)
{
    enum { PITCH = 512 };
    CUtexref t = texref("plane");
    CUDA_ARRAY_DESCRIPTOR shape = { .Width = W, .Height = H, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
    CUDA_ARRAY_DESCRIPTOR wrong;
    CUdeviceptr memory;
    unsigned char bytes[H][PITCH];
    float got[H][W];
    uint32_t asked[3];
    for (unsigned y = 0; y < H; y++)
        for (unsigned x = 0; x < PITCH; x++)
            bytes[y][x] = (unsigned char)(y * 50 + x * 3);
    OK(cuMemAlloc(&memory, sizeof bytes));
    OK(cuMemcpyHtoD(memory, bytes, sizeof bytes));
    OK(cuTexRefSetFlags(t, 0));
    OK(cuTexRefSetAddress2D(t, &shape, memory, PITCH));
    launch("look", W, H, out, NULL);
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (unsigned y = 0; y < H; y++)
        for (unsigned x = 0; x < W; x++)
            assert_true(got[y][x] == (float)bytes[y][x] / 255.0f); /* integers as floats of 0 … 1 */
    launch("ask", 1, 1, out, NULL);
    OK(cuMemcpyDtoH(asked, out, sizeof asked));
    assert_true(asked[0] == W && asked[1] == H && asked[2] == 0);
    /* halfway between two texels, after the launch before */
    OK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    float scale = 2;
    void *arguments[] = { &out, &scale };
    OK(cuLaunchKernel(kernel("look"), 1, 1, 1, 2, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(got, out, 8));
    assert_true(got[0][0] > 0.1f && got[0][0] < 0.11f); /* (0 + 3 + 50 + 53) / 4 / 255 */
    OK(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_POINT));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress2D(t, NULL, memory, PITCH));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress2D(t, &shape, memory + 1, PITCH));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress2D(t, &shape, memory, PITCH - 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress2D(t, &shape, memory, 4));
    wrong = shape;
    wrong.Height = 1000;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress2D(t, &wrong, memory, (size_t)1 << 20));
    wrong = shape;
    wrong.NumChannels = 3;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress2D(t, &wrong, memory, PITCH));
    OK(cuTexRefSetAddress(NULL, t, 0, 0));
    OK(cuMemFree(memory));
}

static CUarray array_of(unsigned base, unsigned flags)
{
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = W, .Height = H, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = flags
    };
    float values[H][W];
    for (unsigned i = 0; i < H * W; i++)
        values[i / W][i % W] = (float)(base + i);
    CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = values,
                           .srcPitch = sizeof values[0],
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .WidthInBytes = sizeof values[0],
                           .Height = H };
    OK(cuArray3DCreate(&array, &shape));
    copy.dstArray = array;
    OK(cuMemcpy2D(&copy));
    return array;
}

TEST(arrays)
{
    CUtexref t = texref("plane");
    CUarray one = array_of(100, 0), two = array_of(200, 0), got;
    CUarray_format format;
    int channels;
    float values[H * W];
    OK(cuTexRefSetArray(t, one, CU_TRSA_OVERRIDE_FORMAT));
    OK(cuTexRefGetArray(&got, t));
    assert_ptr_equal(got, one);
    OK(cuTexRefGetFormat(&format, &channels, t));
    assert_true(format == CU_AD_FORMAT_FLOAT && channels == 1);
    launch("look", W, H, out, NULL);
    OK(cuTexRefSetArray(t, two, 0));
    launch("look", W, H, out + sizeof values, NULL);
    for (unsigned k = 0; k < 2; k++) {
        OK(cuMemcpyDtoH(values, out + k * sizeof values, sizeof values));
        for (unsigned i = 0; i < H * W; i++)
            assert_true(values[i] == (float)(100 * (k + 1) + i));
    }
    /* normalized coordinates that wrap: 2.5 and 1.5 of the picture's size are its middle */
    OK(cuTexRefSetFlags(t, CU_TRSF_NORMALIZED_COORDINATES));
    OK(cuTexRefSetAddressMode(t, 0, CU_TR_ADDRESS_MODE_WRAP));
    OK(cuTexRefSetAddressMode(t, 1, CU_TR_ADDRESS_MODE_WRAP));
    launch("look", 3, 2, out, NULL);
    OK(cuMemcpyDtoH(values, out, sizeof values));
    assert_true(values[0] == values[2] && values[0] == 200 + H / 2 * W + W / 2);
    OK(cuTexRefSetFlags(t, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetArray(t, one, 2));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuTexRefSetArray(t, NULL, CU_TRSA_OVERRIDE_FORMAT));
    OK(cuArrayDestroy(one));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuTexRefSetArray(t, one, CU_TRSA_OVERRIDE_FORMAT));
    OK(cuArrayDestroy(two));
}

TEST(levels)
{
    CUtexref t = texref("plane");
    CUmipmappedArray mipmap, got;
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = W, .Height = H, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
    float values[H * W], value;
    OK(cuMipmappedArrayCreate(&mipmap, &shape, 2));
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < H * W; i++)
            values[i] = (float)(k + 5);
        OK(cuMipmappedArrayGetLevel(&level, mipmap, k));
        CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST,
                               .srcHost = values,
                               .srcPitch = (W >> k) * 4u,
                               .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                               .dstArray = level,
                               .WidthInBytes = (W >> k) * 4u,
                               .Height = H >> k };
        OK(cuMemcpy2D(&copy));
    }
    OK(cuTexRefSetFlags(t, CU_TRSF_NORMALIZED_COORDINATES));
    OK(cuTexRefSetMipmapLevelClamp(t, 0, 1));
    OK(cuTexRefSetMipmappedArray(t, mipmap, CU_TRSA_OVERRIDE_FORMAT));
    OK(cuTexRefGetMipmappedArray(&got, t));
    assert_ptr_equal(got, mipmap);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefGetArray(&level, t));
    launch("level", 1, 1, out, NULL);
    OK(cuMemcpyDtoH(&value, out, 4));
    assert_true(value == 6);
    OK(cuTexRefSetMipmapLevelClamp(t, 0, 0));
    launch("level", 1, 1, out, NULL);
    OK(cuMemcpyDtoH(&value, out, 4));
    assert_true(value == 5);
    OK(cuTexRefSetAddress(NULL, t, 0, 0));
    OK(cuTexRefSetFlags(t, 0));
    OK(cuMipmappedArrayDestroy(mipmap));
}

TEST(surfaces)
{
    CUsurfref s;
    CUarray one = array_of(0, CUDA_ARRAY3D_SURFACE_LDST), two = array_of(0, CUDA_ARRAY3D_SURFACE_LDST),
            fixed = array_of(0, 0), got;
    OK(cuModuleGetSurfRef(&s, module, "picture"));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuSurfRefGetArray(&got, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuSurfRefSetArray(s, fixed, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuSurfRefSetArray(s, one, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags((CUtexref)s, 0));
    for (unsigned k = 0; k < 2; k++) {
        unsigned base = 1000 * (k + 1);
        void *arguments[] = { &base };
        OK(cuSurfRefSetArray(s, k ? two : one, 0));
        OK(cuLaunchKernel(kernel("draw"), 1, 1, 1, W, H, 1, 0, NULL, arguments, NULL));
    }
    OK(cuSurfRefGetArray(&got, s));
    assert_ptr_equal(got, two);
    launch("load", W, H, out, NULL);
    expect(out, 2000, N, 1);
    OK(cuSurfRefSetArray(s, one, 0));
    launch("load", W, H, out, NULL);
    expect(out, 1000, N, 1);
    OK(cuArrayDestroy(one));
    OK(cuArrayDestroy(two));
    OK(cuArrayDestroy(fixed));
}

TEST(ends_with_its_module)
{
    CUmodule second;
    CUtexref t, own = texref("words");
    OK(cuModuleLoadData(&second, ptx));
    OK(cuModuleGetTexRef(&t, second, "words"));
    assert_true(t != own);
    words_from(t, data + ALIGNMENT, N);
    words_from(own, data, N);
    launch("fetch", N, 1, out, NULL);
    expect(out, 0, N, 1); /* each module has its own */
    OK(cuModuleUnload(second));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags(t, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags(NULL, 0));
    launch("fetch", N, 1, out, NULL);
    expect(out, 0, N, 1);
}

int main(void) { return unit_run(set_up, without_context); }
