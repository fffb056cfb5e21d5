/* shows: Software GPU arrays, texture and surface objects: creation, copies to and from arrays, kernels that read and
 *   write through them, views in other formats, of some layers and of some levels */
/* test_textures.c: CUDA arrays, their copies, cuTexObject* and cuSurfObject*. What a fetch gives is
 * tests/exec/textures.c's business. */
#include "kernels.h"
#include "softgpu_test.h"

enum { W = 13, H = 6, D = 3 };

static const char ptx_texture[] =
    PTX_HEAD ".visible .entry read(.param .u64 t, .param .u64 out)\n"
             "{\n    .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<9>;\n"
             "    ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 "
             "%r3, %ntid.x;\n"
             "    cvt.rn.f32.u32 %f1, %r1; cvt.rn.f32.u32 %f2, %r2; add.f32 %f1, %f1, 0f3F000000; add.f32 %f2, %f2, "
             "0f3F000000;\n"
             "    tex.2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd1, {%f1, %f2}];\n"
             "    mad.lo.u32 %r8, %r2, %r3, %r1; mul.wide.u32 %rd3, %r8, 4; add.s64 %rd3, %rd3, %rd2; st.global.u32 "
             "[%rd3], %r4;\n    ret;\n}\n"
             /* the same with coordinates of 0 to 1, in a picture of 13 to 6 */
             ".visible .entry unit(.param .u64 t, .param .u64 out)\n"
             "{\n    .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<9>;\n"
             "    ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 "
             "%r3, %ntid.x; mov.u32 %r4, 0;\n"
             "    cvt.rn.f32.u32 %f1, %r1; cvt.rn.f32.u32 %f2, %r2; add.f32 %f1, %f1, 0f3F000000; add.f32 %f2, %f2, "
             "0f3F000000; div.rn.f32 %f1, %f1, 0f41500000; div.rn.f32 %f2, %f2, 0f40C00000;\n"
             "    tex.a2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd1, {%r4, %f1, %f2, %f2}];\n"
             "    mad.lo.u32 %r8, %r2, %r3, %r1; mul.wide.u32 %rd3, %r8, 4; add.s64 %rd3, %rd3, %rd2; st.global.u32 "
             "[%rd3], %r4;\n    ret;\n}\n"
             ".visible .entry fetch(.param .u64 t, .param .u64 out)\n"
             "{\n    .reg .b32 %r<9>; .reg .b64 %rd<5>;\n"
             "    ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;\n"
             "    tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [%rd1, {%r1}];\n"
             "    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd3, %rd2; st.global.u32 [%rd3], %r4;\n    ret;\n}\n"
             ".visible .entry write(.param .u64 s)\n"
             "{\n    .reg .b32 %r<9>; .reg .b64 %rd<5>;\n"
             "    ld.param.u64 %rd1, [s]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; shl.b32 %r3, %r1, 2; mad.lo.u32 "
             "%r4, %r2, 1000, %r1;\n"
             "    sust.b.2d.b32.trap [%rd1, {%r3, %r2}], {%r4};\n    ret;\n}\n";

static CUfunction kernel(CUmodule *m, const char *name)
{
    CUfunction f;
    if (!*m)
        OK(cuModuleLoadData(m, ptx_texture));
    OK(cuModuleGetFunction(&f, *m, name));
    return f;
}

static CUarray array(size_t w, size_t h, size_t d, CUarray_format format, unsigned channels, unsigned flags)
{
    CUarray a;
    CUDA_ARRAY3D_DESCRIPTOR want = { .Width = w, .Height = h, .Depth = d, .Format = format, .NumChannels = channels,
                                     .Flags = flags }, got;
    OK(cuArray3DCreate(&a, &want));
    OK(cuArray3DGetDescriptor(&got, a));
    assert_memory_equal(&got, &want, offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags) + sizeof got.Flags); /* no padding */
    return a;
}

TEST(life_of_arrays)
{
    size_t before, with, after, total;
    OK(cuMemGetInfo(&before, &total));
    CUarray a = array(1024, 1024, 4, CU_AD_FORMAT_FLOAT, 2, CUDA_ARRAY3D_LAYERED), b;
    OK(cuMemGetInfo(&with, &total));
    assert_true(before - with >= 1024 * 1024 * 4 * 8);       /* accounted */
    OK(cuArrayDestroy(a));
    OK(cuMemGetInfo(&after, &total));
    assert_int_equal(after, before);
    CUDA_ARRAY3D_DESCRIPTOR d3;
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(a));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuArray3DGetDescriptor(&d3, a));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy((CUarray)(uintptr_t)12345));
    CUDA_ARRAY_DESCRIPTOR want = { .Width = 5, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4 }, got;
    OK(cuArrayCreate(&b, &want));
    OK(cuArrayGetDescriptor(&got, b));
    assert_true(got.Width == 5 && !got.Height && got.Format == CU_AD_FORMAT_HALF && got.NumChannels == 4);
    OK(cuArrayDestroy(b));
    static const CUDA_ARRAY3D_DESCRIPTOR bad[] = {
        { .Width = 0, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 },
        { .Width = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 3 },
        { .Width = 4, .Format = (CUarray_format)0x55, .NumChannels = 1 },
        { .Width = 1u << 30, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 },
        { .Width = 4, .Depth = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 },
        { .Width = 4,
          .Height = 4,
          .Depth = 5,
          .Format = CU_AD_FORMAT_FLOAT,
          .NumChannels = 1,
          .Flags = CUDA_ARRAY3D_CUBEMAP },
        { .Width = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = 1u << 30 }
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&a, &bad[i]));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(NULL, &bad[0]));
    a = array(4, 4, 12, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED);
    OK(cuArrayDestroy(a));
}

/* A context's end takes its arrays and objects along. */
TEST(end_of_a_context)
{
    CUcontext c, primary;
    size_t before, after, total;
    OK(cuCtxGetCurrent(&primary));
    OK(cuMemGetInfo(&before, &total));
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&c, NULL, 0, 0));
#else
    OK(cuCtxCreate(&c, 0, 0));
#endif
    CUarray a = array(1000, 1000, 0, CU_AD_FORMAT_FLOAT, 1, 0);
    CUDA_RESOURCE_DESC from = { .resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a };
    CUDA_TEXTURE_DESC how = { .flags = CU_TRSF_NORMALIZED_COORDINATES };
    CUtexObject t;
    OK(cuTexObjectCreate(&t, &from, &how, NULL));
    OK(cuCtxDestroy(c));
    OK(cuCtxSetCurrent(primary));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(a));
    OK(cuTexObjectDestroy(t));
    OK(cuMemGetInfo(&after, &total));
    assert_int_equal(after, before);
}

TEST(copies)
{
    CUarray a = array(W, H, D, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0),
            b = array(W, H, D, CU_AD_FORMAT_UNSIGNED_INT16, 2, CUDA_ARRAY3D_LAYERED);
    enum { ROW = W * 4, PITCH = 64, ALL = PITCH * H * D };
    unsigned char out[ALL], in[ALL];
    for (int i = 0; i < ALL; i++)
        out[i] = (unsigned char)(i * 5 + i / 64);
    memset(in, 0, sizeof in);
    CUDA_MEMCPY3D up = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = out, .srcPitch = PITCH, .srcHeight = H,
                         .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = a,
                         .WidthInBytes = ROW, .Height = H, .Depth = D };
    CUDA_MEMCPY3D across = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                             .dstArray = b,
                             .WidthInBytes = ROW, .Height = H, .Depth = D };
    CUDA_MEMCPY3D down = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = b, .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = in, .dstPitch = PITCH, .dstHeight = H,
                           .WidthInBytes = ROW, .Height = H, .Depth = D };
    OK(cuMemcpy3D(&up));
    OK(cuMemcpy3DAsync(&across, NULL));
    OK(cuMemcpy3D(&down));
    for (int r = 0; r < H * D; r++)
        assert_memory_equal(in + r * PITCH, out + r * PITCH, ROW);
    /* a part, to device memory and back, from inside to inside */
    CUdeviceptr d;
    OK(cuMemAlloc(&d, ALL));
    CUDA_MEMCPY3D part = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .srcXInBytes = 4, .srcY = 2, .srcZ = 1,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = d,
                           .dstPitch = PITCH, .dstHeight = H, .WidthInBytes = 40, .Height = 4, .Depth = 2 };
    OK(cuMemcpy3D(&part));
    OK(cuMemcpyDtoH(in, d, ALL));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 4; y++)
            assert_memory_equal(in + (z * H + y) * PITCH, out + ((z + 1) * H + y + 2) * PITCH + 4, 40);
    part.srcXInBytes = 16;                                    /* out of the row, the column, the depth */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&part));
    part.srcXInBytes = 4, part.srcY = 3;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&part));
    part.srcY = 2, part.srcZ = 2;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&part));
    part.srcZ = SIZE_MAX;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&part));
    CUDA_MEMCPY2D flat = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .srcXInBytes = 4, .srcY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = in, .dstPitch = 17,
                           .WidthInBytes = 12, .Height = 3 };
    OK(cuMemcpy2DUnaligned(&flat));
    for (int y = 0; y < 3; y++)
        assert_memory_equal(in + y * 17, out + (y + 1) * PITCH + 4, 12);
    flat.srcXInBytes = 3;                                     /* inside an element */
    OK(cuMemcpy2D(&flat));
    assert_memory_equal(in, out + PITCH + 3, 12);
    flat.srcXInBytes = 4;
    memset(in, 0, sizeof in);
    OK(cuMemcpy2DAsync(&flat, NULL));
    OK(cuStreamSynchronize(NULL));
    assert_memory_equal(in + 17, out + 2 * PITCH + 4, 12);
    OK(cuArrayDestroy(a));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuMemcpy2D(&flat));
    OK(cuArrayDestroy(b));
    /* lines */
    a = array(100, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0), b = array(100, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0);
    OK(cuMemcpyHtoA(a, 10, out, 50));
    OK(cuMemcpyAtoA(b, 20, a, 10, 50));
    OK(cuMemcpyAtoD(d, b, 20, 50));
    OK(cuMemcpyDtoA(a, 0, d, 50));
    OK(cuMemcpyHtoAAsync(a, 50, out, 5, NULL));
    OK(cuMemcpyAtoHAsync(in, a, 0, 55, NULL));
    OK(cuStreamSynchronize(NULL));
    assert_memory_equal(in, out, 50);
    assert_memory_equal(in + 50, out, 5);
    OK(cuMemcpyAtoH(in, b, 20, 50));
    assert_memory_equal(in, out, 50);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA(a, 51, out, 50));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH(in, a, SIZE_MAX, 2));
    OK(cuArrayDestroy(a));
    OK(cuArrayDestroy(b));
    OK(cuMemFree(d));
}

/* A surface is written by one kernel and read as a texture by another; the same from pitched and from linear memory. */
TEST(objects)
{
    CUmodule m = NULL;
    CUarray a = array(W, H, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST),
            plain = array(W, H, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    CUDA_RESOURCE_DESC from = { .resType = CU_RESOURCE_TYPE_ARRAY,
                                .res.array.hArray = a }, other = { .resType = CU_RESOURCE_TYPE_ARRAY,
                                                                   .res.array.hArray = plain }, got;
    CUDA_TEXTURE_DESC how = { .addressMode = { CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_BORDER,
                                               CU_TR_ADDRESS_MODE_CLAMP }, .flags = CU_TRSF_READ_AS_INTEGER }, how_got;
    CUsurfObject s;
    CUtexObject t, second;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&s, &other));     /* not made for it */
    OK(cuSurfObjectCreate(&s, &from));
    OK(cuTexObjectCreate(&t, &from, &how, NULL));
    OK(cuTexObjectGetResourceDesc(&got, t));
    assert_ptr_equal(got.res.array.hArray, a);
    OK(cuTexObjectGetTextureDesc(&how_got, t));
    assert_memory_equal(&how_got, &how, sizeof how);
    OK(cuSurfObjectGetResourceDesc(&got, s));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceDesc(&got, s));
    CUdeviceptr out;
    uint32_t numbers[H][W];
    OK(cuMemAlloc(&out, sizeof numbers));
    void *write_arguments[] = { &s }, *read_arguments[] = { &t, &out };
    OK(cuLaunchKernel(kernel(&m, "write"), 1, 1, 1, W, H, 1, 0, NULL, write_arguments, NULL));
    OK(cuLaunchKernel(kernel(&m, "read"), 1, 1, 1, W, H, 1, 0, NULL, read_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    for (uint32_t y = 0; y < H; y++)
        for (uint32_t x = 0; x < W; x++)
            assert_int_equal(numbers[y][x], y * 1000 + x);
    OK(cuTexObjectDestroy(t));
    OK(cuTexObjectDestroy(t));
    OK(cuTexObjectDestroy(s));
    /* pitched memory, with two texels' rows between */
    CUdeviceptr pitched;
    OK(cuMemAlloc(&pitched, 64 * H));
    CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = pitched, .dstPitch = 64,
                           .WidthInBytes = W * 4, .Height = H };
    OK(cuMemcpy2D(&copy));
    CUDA_RESOURCE_DESC sheet = { .resType = CU_RESOURCE_TYPE_PITCH2D,
                                 .res.pitch2D = { .devPtr = pitched,
                                                  .format = CU_AD_FORMAT_UNSIGNED_INT32,
                                                  .numChannels = 1,
                                                  .width = W,
                                                  .height = H,
                                                  .pitchInBytes = 64 } };
    OK(cuTexObjectCreate(&t, &sheet, &how, NULL));
    OK(cuMemsetD8(out, 0, sizeof numbers));
    OK(cuLaunchKernel(kernel(&m, "read"), 1, 1, 1, W, H, 1, 0, NULL, read_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    assert_int_equal(numbers[H - 1][W - 1], (H - 1) * 1000 + W - 1);
    CUDA_RESOURCE_DESC line = { .resType = CU_RESOURCE_TYPE_LINEAR,
                                .res.linear = { .devPtr = pitched, .format = CU_AD_FORMAT_UNSIGNED_INT32,
                                                .numChannels = 1, .sizeInBytes = W * 4 } };
    OK(cuTexObjectCreate(&second, &line, &how, NULL));
    void *fetch_arguments[] = { &second, &out };
    OK(cuLaunchKernel(kernel(&m, "fetch"), 1, 1, 1, W + 2, 1, 1, 0, NULL, fetch_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    for (uint32_t x = 0; x < W + 2; x++)
        assert_int_equal((&numbers[0][0])[x], x < W ? x : 0);
    /* cuda-samples' convolutionFFT2D makes one that is longer than the allocation, and reads its beginning */
    CUtexObject longer;
    line.res.linear.sizeInBytes = 1 << 20;
    OK(cuTexObjectCreate(&longer, &line, &how, NULL));
    fetch_arguments[0] = &longer;
    OK(cuLaunchKernel(kernel(&m, "fetch"), 1, 1, 1, W, 1, 1, 0, NULL, fetch_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    for (uint32_t x = 0; x < W; x++)
        assert_int_equal((&numbers[0][0])[x], x);
    OK(cuTexObjectDestroy(longer));
    /* what is refused */
    CUDA_TEXTURE_DESC linear = how, strange = how;
    linear.filterMode = CU_TR_FILTER_MODE_LINEAR;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &from, &linear, NULL));
    strange.addressMode[1] = (CUaddress_mode)9;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &from, &strange, NULL));
    sheet.res.pitch2D.pitchInBytes = 60;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &sheet, &how, NULL));
    line.res.linear.sizeInBytes = 3;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &line, &how, NULL));
    line.res.linear.sizeInBytes = 64;
    line.res.linear.devPtr += 4;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &line, &how, NULL));
    from.res.array.hArray = (CUarray)(uintptr_t)99;
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuTexObjectCreate(&t, &from, &how, NULL));
    from.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuTexObjectCreate(&t, &from, &how, NULL));
    OK(cuTexObjectDestroy(t));                               /* refusals left the handle alone */
    OK(cuTexObjectDestroy(second));
    OK(cuSurfObjectDestroy(s));
    OK(cuArrayDestroy(plain));
    OK(cuArrayDestroy(a));
    OK(cuMemFree(pitched));
    OK(cuMemFree(out));
    OK(cuModuleUnload(m));
}

/* A program may destroy an object right after the launch that uses it. */
TEST(destroyed_before_the_kernel_runs)
{
    CUmodule m = NULL;
    CUfunction fetch = kernel(&m, "fetch");
    CUstream stream;
    CUdeviceptr in, out, gate;
    uint32_t numbers[W], most = 0;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&in, sizeof numbers));
    OK(cuMemAlloc(&out, sizeof numbers));
    OK(cuMemAlloc(&gate, 4));
    for (uint32_t x = 0; x < W; x++)
        numbers[x] = 100 + x;
    OK(cuMemcpyHtoD(in, numbers, sizeof numbers));
    CUDA_RESOURCE_DESC line = { .resType = CU_RESOURCE_TYPE_LINEAR,
                                .res.linear = { .devPtr = in, .format = CU_AD_FORMAT_UNSIGNED_INT32,
                                                .numChannels = 1, .sizeInBytes = sizeof numbers } };
    CUDA_TEXTURE_DESC how = { .flags = CU_TRSF_READ_AS_INTEGER };
    for (uint32_t round = 1; round <= 50; round++) {
        CUtexObject t, next;
        OK(cuTexObjectCreate(&t, &line, &how, NULL));
        most = (uint32_t)t > most ? (uint32_t)t : most;
        void *arguments[] = { &t, &out };
        OK(cuMemsetD8(out, 0, sizeof numbers));
        OK(cuCtxSynchronize());
        OK(cuStreamWaitValue32(stream, gate, round, CU_STREAM_WAIT_VALUE_EQ));
        OK(cuLaunchKernel(fetch, 1, 1, 1, W, 1, 1, 0, stream, arguments, NULL));
        OK(cuTexObjectDestroy(t));
        OK(cuTexObjectDestroy(t));
        OK(cuTexObjectCreate(&next, &line, &how, NULL));     /* takes no handle that a launch may use */
        assert_int_not_equal((uint32_t)next, (uint32_t)t);
        OK(cuMemcpyHtoD(gate, &round, 4));
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
        for (uint32_t x = 0; x < W; x++)
            assert_int_equal(numbers[x], 100 + x);
        OK(cuTexObjectDestroy(next));
    }
    assert_in_range(most, 1, 20);                            /* of the executor's table: it does not grow */
    OK(cuMemFree(gate));
    OK(cuMemFree(out));
    OK(cuMemFree(in));
    OK(cuStreamDestroy(stream));
    OK(cuModuleUnload(m));
}

/* Texels of 32 bits, seen as other formats; some layers; some levels. */
TEST(views)
{
    CUmodule m = NULL;
    CUarray a = array(W, H, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST);
    CUDA_RESOURCE_DESC from = { .resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a };
    CUDA_TEXTURE_DESC how = { .flags = CU_TRSF_READ_AS_INTEGER };
    CUDA_RESOURCE_VIEW_DESC view = { .format = CU_RES_VIEW_FORMAT_UINT_4X8, .width = W, .height = H }, got;
    CUsurfObject s;
    CUtexObject t;
    CUdeviceptr out;
    uint32_t numbers[H][W];
    OK(cuMemAlloc(&out, sizeof numbers));
    OK(cuSurfObjectCreate(&s, &from));
    void *write_arguments[] = { &s }, *read_arguments[] = { &t, &out };
    OK(cuLaunchKernel(kernel(&m, "write"), 1, 1, 1, W, H, 1, 0, NULL, write_arguments, NULL));
    for (unsigned k = 0; k < 3; k++) {
        static const CUresourceViewFormat formats[] = { CU_RES_VIEW_FORMAT_UINT_4X8, CU_RES_VIEW_FORMAT_SINT_2X16,
                                                        CU_RES_VIEW_FORMAT_FLOAT_1X32 };
        static const uint32_t masks[] = { 0xff, 0xffff, 0xffffffff };
        view.format = formats[k];
        OK(cuTexObjectCreate(&t, &from, &how, &view));
        OK(cuTexObjectGetResourceViewDesc(&got, t));
        assert_memory_equal(&got, &view, sizeof view);
        OK(cuLaunchKernel(kernel(&m, "read"), 1, 1, 1, W, H, 1, 0, NULL, read_arguments, NULL));
        OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
        for (uint32_t y = 0; y < H; y++)
            for (uint32_t x = 0; x < W; x++)
                assert_int_equal(numbers[y][x], (y * 1000 + x) & masks[k]);
        OK(cuTexObjectDestroy(t));
    }
    /* a format of another size, other extents, levels and layers that are not there */
    CUDA_RESOURCE_VIEW_DESC wrong[] = { view, view, view, view, view };
    wrong[0].format = CU_RES_VIEW_FORMAT_UINT_2X32;
    wrong[1].width = W + 1;
    wrong[2].lastMipmapLevel = 1;
    wrong[3].lastLayer = 1;
    wrong[4].format = (CUresourceViewFormat)99;
    for (unsigned k = 0; k < 5; k++)
        FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &from, &how, &wrong[k]));
    view.format = CU_RES_VIEW_FORMAT_UNSIGNED_BC1;           /* blocks need elements of two or four words */
    view.width *= 4;
    view.height *= 4;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &from, &how, &view));
    OK(cuTexObjectCreate(&t, &from, &how, NULL));
    OK(cuTexObjectGetResourceViewDesc(&got, t));           /* it has none */
    assert_int_equal(got.format, CU_RES_VIEW_FORMAT_NONE);
    OK(cuTexObjectDestroy(t));
    OK(cuSurfObjectDestroy(s));
    /* the second of three layers */
    CUarray layers = array(W, H, 3, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED);
    for (uint32_t z = 0; z < 3; z++) {
        for (uint32_t i = 0; i < H * W; i++)
            numbers[i / W][i % W] = z * 100000 + i;
        CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = numbers, .srcPitch = W * 4,
                               .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = layers, .dstZ = z,
                               .WidthInBytes = W * 4, .Height = H, .Depth = 1 };
        OK(cuMemcpy3D(&copy));
    }
    from.res.array.hArray = layers;
    view = (CUDA_RESOURCE_VIEW_DESC){ .format = CU_RES_VIEW_FORMAT_UINT_1X32, .width = W, .height = H, .depth = 3,
                                      .firstLayer = 1, .lastLayer = 1 };
    OK(cuTexObjectCreate(&t, &from, &how, &view));
    OK(cuLaunchKernel(kernel(&m, "read"), 1, 1, 1, W, H, 1, 0, NULL, read_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    for (uint32_t i = 0; i < H * W; i++)
        assert_int_equal(numbers[i / W][i % W], 100000 + i);
    OK(cuTexObjectDestroy(t));
    OK(cuArrayDestroy(layers));
    /* from the second level on */
    CUDA_ARRAY3D_DESCRIPTOR pyramid = { .Width = 2 * W, .Height = 2 * H, .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                        .NumChannels = 1 };
    CUmipmappedArray levels;
    CUarray second;
    OK(cuMipmappedArrayCreate(&levels, &pyramid, 3));
    OK(cuMipmappedArrayGetLevel(&second, levels, 1));
    for (uint32_t i = 0; i < H * W; i++)
        numbers[i / W][i % W] = i + 7;
    CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = numbers, .srcPitch = W * 4,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = second, .WidthInBytes = W * 4,
                           .Height = H };
    OK(cuMemcpy2D(&copy));
    from = (CUDA_RESOURCE_DESC){ .resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = levels };
    view = (CUDA_RESOURCE_VIEW_DESC){ .format = CU_RES_VIEW_FORMAT_UINT_1X32, .width = 2 * W, .height = 2 * H,
                                      .firstMipmapLevel = 1, .lastMipmapLevel = 2 };
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &from, &how, &view)); /* levels need such coordinates */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&t, &from, &how, NULL));
    how.flags |= CU_TRSF_NORMALIZED_COORDINATES;
    OK(cuTexObjectCreate(&t, &from, &how, &view));
    OK(cuMemsetD8(out, 0, sizeof numbers));
    OK(cuLaunchKernel(kernel(&m, "unit"), 1, 1, 1, W, H, 1, 0, NULL, read_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    for (uint32_t i = 0; i < H * W; i++)
        assert_int_equal(numbers[i / W][i % W], i + 7);
    OK(cuTexObjectDestroy(t));
    OK(cuMipmappedArrayDestroy(levels));
    /* the second and third of three layers, from the second level on */
    pyramid.Depth = 3;
    pyramid.Flags = CUDA_ARRAY3D_LAYERED;
    OK(cuMipmappedArrayCreate(&levels, &pyramid, 2));
    OK(cuMipmappedArrayGetLevel(&second, levels, 1));
    for (uint32_t z = 0; z < 3; z++) {
        for (uint32_t i = 0; i < H * W; i++)
            numbers[i / W][i % W] = z * 1000 + i;
        CUDA_MEMCPY3D layer = { .srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = numbers,
                                .srcPitch = W * 4,
                                .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                .dstArray = second,
                                .dstZ = z,
                                .WidthInBytes = W * 4,
                                .Height = H,
                                .Depth = 1 };
        OK(cuMemcpy3D(&layer));
    }
    from.res.mipmap.hMipmappedArray = levels;
    view.lastMipmapLevel = 1;
    view.depth = 3;
    view.firstLayer = 1;
    view.lastLayer = 2;
    OK(cuTexObjectCreate(&t, &from, &how, &view));
    OK(cuLaunchKernel(kernel(&m, "unit"), 1, 1, 1, W, H, 1, 0, NULL, read_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    for (uint32_t i = 0; i < H * W; i++)
        assert_int_equal(numbers[i / W][i % W], 1000 + i);
    OK(cuTexObjectDestroy(t));
    OK(cuMipmappedArrayDestroy(levels));
    how.flags = CU_TRSF_READ_AS_INTEGER;
    /* outside: the bits of a border colour; sRGB is accepted */
    from = (CUDA_RESOURCE_DESC){ .resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a };
    how.addressMode[0] = how.addressMode[1] = CU_TR_ADDRESS_MODE_BORDER;
    memcpy(how.borderColor, (uint32_t[4]){ 70000, 0xFFC00001, 1, 1 }, sizeof how.borderColor);
    OK(cuTexObjectCreate(&t, &from, &how, NULL));
    OK(cuLaunchKernel(kernel(&m, "read"), 1, 1, 1, W + 1, 1, 1, 0, NULL, read_arguments, NULL));
    OK(cuMemcpyDtoH(numbers, out, sizeof numbers));
    assert_int_equal(numbers[0][W - 1], W - 1);
    assert_int_equal(numbers[1][0], 70000);
    OK(cuTexObjectDestroy(t));
    memset(how.borderColor, 0, sizeof how.borderColor);
    view = (CUDA_RESOURCE_VIEW_DESC){ .format = CU_RES_VIEW_FORMAT_UINT_4X8, .width = W, .height = H };
    how.flags = CU_TRSF_SRGB;
    OK(cuTexObjectCreate(&t, &from, &how, &view));
    OK(cuTexObjectDestroy(t));
    OK(cuArrayDestroy(a));
    OK(cuMemFree(out));
    OK(cuModuleUnload(m));
}

/* Last: the fault stays. The array's memory may be anybody's by now, so its object must not reach it. */
/* Four blocks of one colour each, as an array of blocks and as a view of an array of words: the texels of both. */
TEST(compressed_blocks)
{
    enum { SIDE = 8, BLOCKS = 2 };
    static const uint16_t colours[BLOCKS][BLOCKS] = { { 0xf800, 0x07e0 }, { 0x001f, 0xffff } };
    static const uint32_t red[BLOCKS][BLOCKS] = { { 0x3f800000, 0 }, { 0, 0x3f800000 } }; /* 1.0f */
    uint16_t blocks[BLOCKS][BLOCKS][4] = { { { 0 } } }, back[BLOCKS][BLOCKS][4];
    CUmodule m = NULL;
    CUarray a[] = { array(SIDE, SIDE, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0),
                    array(BLOCKS, BLOCKS, 0, CU_AD_FORMAT_UNSIGNED_INT32, 2, 0) };
    const CUDA_RESOURCE_VIEW_DESC view = { .format = CU_RES_VIEW_FORMAT_UNSIGNED_BC1, .width = SIDE, .height = SIDE };
    const CUDA_TEXTURE_DESC how = { .flags = 0 };
    CUDA_ARRAY3D_DESCRIPTOR wrong = { .Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_BC1_UNORM,
                                      .NumChannels = 4, .Flags = CUDA_ARRAY3D_SURFACE_LDST };
    CUarray none;
    CUdeviceptr out;
    uint32_t texels[SIDE][SIDE];
    for (unsigned y = 0; y < BLOCKS; y++)
        for (unsigned x = 0; x < BLOCKS; x++)
            blocks[y][x][0] = blocks[y][x][1] = colours[y][x];
    OK(cuMemAlloc(&out, sizeof texels));
    for (unsigned k = 0; k < 2; k++) {
        CUDA_RESOURCE_DESC from = { .resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a[k] };
        CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = blocks, .srcPitch = sizeof blocks[0],
                               .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = a[k],
                               .WidthInBytes = sizeof blocks[0], .Height = BLOCKS };
        CUtexObject t;
        void *arguments[] = { &t, &out };
        OK(cuMemcpy2D(&copy));
        copy.Height = BLOCKS + 1;                            /* there are two rows of blocks */
        FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
        copy = (CUDA_MEMCPY2D){ .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a[k], .dstHost = back,
                                .dstMemoryType = CU_MEMORYTYPE_HOST, .dstPitch = sizeof back[0],
                                .WidthInBytes = sizeof back[0], .Height = BLOCKS };
        memset(back, 0, sizeof back);
        OK(cuMemcpy2D(&copy));
        assert_memory_equal(back, blocks, sizeof blocks);
        OK(cuTexObjectCreate(&t, &from, &how, k ? &view : NULL));
        OK(cuLaunchKernel(kernel(&m, "read"), 1, 1, 1, SIDE, SIDE, 1, 0, NULL, arguments, NULL));
        OK(cuMemcpyDtoH(texels, out, sizeof texels));
        for (unsigned y = 0; y < SIDE; y++)
            for (unsigned x = 0; x < SIDE; x++)
                assert_int_equal(texels[y][x], red[y / 4][x / 4]);
        OK(cuTexObjectDestroy(t));
        OK(cuArrayDestroy(a[k]));
    }
    FAILS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&none, &wrong)); /* no surface has blocks */
    wrong.Flags = 0;
    wrong.NumChannels = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&none, &wrong));
    wrong.NumChannels = 4;
    wrong.Height = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&none, &wrong));
    OK(cuMemFree(out));
    OK(cuModuleUnload(m));
}

TEST(object_of_an_array_that_is_gone)
{
    CUmodule m = NULL;
    CUarray a = array(W, H, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST);
    CUDA_RESOURCE_DESC from = { .resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a };
    CUsurfObject s;
    OK(cuSurfObjectCreate(&s, &from));
    CUfunction write = kernel(&m, "write");
    void *arguments[] = { &s };
    OK(cuLaunchKernel(write, 1, 1, 1, W, H, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    OK(cuArrayDestroy(a));
    OK(cuLaunchKernel(write, 1, 1, 1, W, H, 1, 0, NULL, arguments, NULL));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuSurfObjectDestroy(s));
}

int main(void) { return unit_run(with_context, NULL); }
