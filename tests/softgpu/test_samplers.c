/* shows: software GPU: PTX with samplers of their own (.samplerref, texmode_independent): every address mode and filter
 *   against a model, over texture objects and references; initialisers; txq, suq and istypep; opaque parameters */
/* test_samplers.c: PTX as OpenCL's compiler writes it for samplers, loaded by a program of the driver API. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <math.h>

#include "kernels.h"
#include "softgpu_test.h"

enum { N = 8, COORDINATES = 96 };
#define INDEPENDENT ".version 7.0\n.target sm_70, texmode_independent\n.address_size 64\n"

/* In the order of the PTX ISA's numbers, which txq gives. */
static const char *const modes[] = { "wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border" };
enum { WRAP, MIRROR, CLAMP_OGL, CLAMP_TO_EDGE, CLAMP_TO_BORDER, MODES };

#define HEAD                                                                                                      \
    "    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<4>;\n"                                 \
    "    ld.param.u64 %rd1, [texture]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [out]; mov.u32 %r1, %tid.x;\n" \
    "    mad.wide.u32 %rd4, %r1, 4, %rd2; mad.wide.u32 %rd5, %r1, 4, %rd3; ld.global.f32 %f1, [%rd4];\n"
#define PARAMETERS "(.param .u64 texture, .param .u64 in, .param .u64 out)\n{\n"
#define READ(texture, sampler)                                                                                    \
    "    tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [" texture ", " sampler ", {%f1}]; st.global.f32 [%rd5], %f2;\n" \
    "    ret;\n}\n"

static const char unified[] = PTX_HEAD
    ".global .texref set = { normalized_coords = 1, filter_mode = linear, addr_mode_0 = mirror, addr_mode_1 = wrap };\n"
    ".global .texref plain;\n.global .surfref picture;\n.global .u64 number;\n"
    ".visible .entry ask(.param .u64 object, .param .u64 surface, .param .u64 levels, .param .u64 out)\n"
    "{\n    .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>;\n"
    "    ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [surface]; ld.param.u64 %rd3, [levels];\n"
    "    ld.param.u64 %rd4, [out]; mov.u32 %r19, 1;\n"
    "    txq.addr_mode_0.b32 %r1, [%rd1]; txq.addr_mode_1.b32 %r2, [%rd1]; txq.addr_mode_2.b32 %r3, [%rd1];\n"
    "    txq.filter_mode.b32 %r4, [%rd1]; txq.normalized_coords.b32 %r5, [%rd1]; txq.array_size.b32 %r6, [%rd1];\n"
    "    txq.num_mipmap_levels.b32 %r7, [%rd1]; txq.num_mipmap_levels.b32 %r8, [%rd3];\n"
    "    txq.level.width.b32 %r9, [%rd3], %r19; txq.num_samples.b32 %r10, [%rd1];\n"
    "    suq.memory_layout.b32 %r11, [%rd2]; suq.array_size.b32 %r12, [%rd2];\n"
    "    mov.u64 %rd5, set; mov.u64 %rd6, picture; mov.u64 %rd7, number;\n"
    "    istypep.texref %p1, %rd5; istypep.texref %p2, %rd6; istypep.surfref %p3, %rd6; istypep.texref %p4, %rd7;\n"
    "    istypep.texref %p5, %rd1; istypep.samplerref %p6, %rd5;\n"
    "    selp.u32 %r13, 1, 0, %p1; @%p2 or.b32 %r13, %r13, 2; @%p3 or.b32 %r13, %r13, 4; @%p4 or.b32 %r13, %r13, 8;\n"
    "    @%p5 or.b32 %r13, %r13, 16; @%p6 or.b32 %r13, %r13, 32;\n"
    "    st.global.v4.u32 [%rd4], {%r1, %r2, %r3, %r4}; st.global.v4.u32 [%rd4+16], {%r5, %r6, %r7, %r8};\n"
    "    st.global.v4.u32 [%rd4+32], {%r9, %r10, %r11, %r12}; st.global.u32 [%rd4+48], %r13;\n    ret;\n}\n";

static CUdeviceptr in, out;
static CUarray array;
static float texels[N], coordinates[COORDINATES];

static int set_up(void **state)
{
    const CUDA_ARRAY_DESCRIPTOR shape = { .Width = N, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
    for (int i = 0; i < N; i++)
        texels[i] = (float)(i * i + 3);
    for (int i = 0; i < COORDINATES; i++)
        coordinates[i] = (float)(i - COORDINATES / 2) / 16.0f + (i % 5 == 0 ? 0.01f : 0);
    return with_context(state) || cuMemAlloc(&in, sizeof coordinates) || cuMemAlloc(&out, sizeof coordinates) ||
                   cuMemcpyHtoD(in, coordinates, sizeof coordinates) || cuArrayCreate(&array, &shape) ||
                   cuMemcpyHtoA(array, 0, texels, sizeof texels)
               ? -1
               : 0;
}

/* Of the array, with normalized coordinates unless texels are wanted. */
static CUtexObject object(CUaddress_mode wrap, CUfilter_mode filter, unsigned flags)
{
    CUtexObject o;
    const CUDA_RESOURCE_DESC from = { .resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array };
    const CUDA_TEXTURE_DESC how = { .addressMode = { wrap, CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_MIRROR },
                                    .filterMode = filter,
                                    .flags = flags };
    OK(cuTexObjectCreate(&o, &from, &how, NULL));
    return o;
}

/* ---- the model ---- */

static float texel(long i, int mode, bool normalized, bool linear)
{
    if (i >= 0 && i < N)
        return texels[i];
    if (mode == CLAMP_TO_BORDER || (mode == CLAMP_OGL && linear))
        return 0;
    if (mode == WRAP && normalized)
        return texels[(i % N + N) % N];
    if (mode == MIRROR && normalized) {
        long k = (i % (2 * N) + 2 * N) % (2 * N);
        return texels[k < N ? k : 2 * N - 1 - k];
    }
    return texels[i < 0 ? 0 : N - 1];
}

static float expected(float x, int mode, bool linear, bool normalized)
{
    double u = normalized ? (double)x * N : x;
    if (mode == CLAMP_OGL)
        u = u < 0 ? 0 : u > N ? N : u;
    if (!linear)
        return texel((long)floor(u), mode, normalized, false);
    u -= 0.5;
    const double part = floor((u - floor(u)) * 256 + 0.5) / 256;
    return (float)((1 - part) * texel((long)floor(u), mode, normalized, true) +
                   part * texel((long)floor(u) + 1, mode, normalized, true));
}

static void compare(int mode, bool linear, bool normalized)
{
    float got[COORDINATES];
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (int i = 0; i < COORDINATES; i++) {
        const float want = expected(coordinates[i], mode, linear, normalized);
        if (fabsf(got[i] - want) > (linear ? 0.25f : 0)) /* where x falls between two weights */
            fail_msg("%s, %s, %s: %g gives %g instead of %g", modes[mode], linear ? "linear" : "nearest",
                     normalized ? "normalized" : "texels", coordinates[i], got[i], want);
    }
}

static void run(CUmodule m, const char *name, CUtexObject texture)
{
    CUfunction f;
    void *arguments[] = { &texture, &in, &out };
    OK(cuModuleGetFunction(&f, m, name));
    OK(cuMemsetD32(out, 0x7fc00000, COORDINATES));
    OK(cuLaunchKernel(f, 1, 1, 1, COORDINATES, 1, 1, 0, NULL, arguments, NULL));
}

/* ---- the tests ---- */

/* The texture's own sampler is another one, and is not asked. */
TEST(every_mode)
{
    CUtexObject o = object(CU_TR_ADDRESS_MODE_BORDER, CU_TR_FILTER_MODE_POINT, CU_TRSF_NORMALIZED_COORDINATES);
    for (int mode = 0; mode < MODES; mode++)
        for (int kind = 0; kind < 4; kind++) {
            const bool linear = kind & 1, texel_units = kind & 2;
            char text[2048];
            CUmodule m;
            snprintf(text, sizeof text,
                     INDEPENDENT ".global .samplerref s = { addr_mode_0 = %s, filter_mode = %s, "
                                 "force_unnormalized_coords = %d };\n.visible .entry k" PARAMETERS "%s",
                     modes[mode], linear ? "linear" : "nearest", texel_units, HEAD READ("%rd1", "s"));
            OK(cuModuleLoadData(&m, text));
            run(m, "k", o);
            compare(mode, linear, !texel_units);
            OK(cuModuleUnload(m));
        }
    OK(cuTexObjectDestroy(o));
}

static const char mixed[] = INDEPENDENT
    ".global .texref t = { normalized_coords = 1 };\n.global .samplerref plain;\n"
    ".global .samplerref s = { addr_mode_0 = mirror, filter_mode = linear };\n"
    ".visible .entry by_name" PARAMETERS HEAD
        READ("t", "s") ".visible .entry by_address" PARAMETERS HEAD "    mov.u64 %rd6, t; mov.u64 %rd7, s;\n" READ(
            "%rd6",
            "%rd7") ".visible .entry unsaid" PARAMETERS HEAD READ("%rd1",
                                                                  "plain") ".visible .entry borrowed" PARAMETERS HEAD
            READ("t", "%rd1") ".visible .entry wrong" PARAMETERS HEAD READ(
                "s",
                "t") ".visible .entry without" PARAMETERS HEAD
                     "    tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [t, {%f1}]; st.global.f32 [%rd5], %f2;\n    ret;\n}\n"
                     ".visible .entry no_sampler" PARAMETERS HEAD "    mov.u64 %rd6, t;\n" READ(
                         "t", "%rd2") ".visible .entry gather" PARAMETERS HEAD
                                      "    tld4.r.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd1, s, {%f1, %f1}]; "
                                      "st.global.f32 [%rd5], %f5;\n    ret;\n}\n"
                                      ".visible .entry ask" PARAMETERS HEAD
                                      "    txq.filter_mode.b32 %r2, [s]; txq.addr_mode_0.b32 %r3, [s]; "
                                      "txq.force_unnormalized_coords.b32 %r4, [s];\n"
                                      "    mov.u64 %rd6, s; txq.addr_mode_1.b32 %r5, [%rd6]; istypep.samplerref %p1, "
                                      "%rd6; selp.u32 %r6, 1, 0, %p1;\n"
                                      "    st.global.v4.u32 [%rd3], {%r2, %r3, %r4, %r5}; st.global.u32 [%rd3+16], "
                                      "%r6;\n    ret;\n}\n"
                                      ".visible .entry opaque(.param .u64 texture, .param .texref a, .param "
                                      ".samplerref b, .param .u64 in, .param "
                                      ".surfref c, .param .u64 out)\n{\n" HEAD
                                      "    suq.width.b32 %r2, [c]; txq.filter_mode.b32 %r3, [b]; add.u32 %r2, %r2, "
                                      "%r3; cvt.rn.f32.u32 %f6, %r2;\n"
                                      "    tex.1d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [a, b, {%f1}]; add.f32 %f2, %f2, "
                                      "%f6; st.global.f32 [%rd5], %f2;\n"
                                      "    ret;\n}\n";

TEST(names_addresses_and_objects)
{
    CUmodule m;
    CUtexref t;
    CUfunction f;
    uint32_t answers[5];
    OK(cuModuleLoadData(&m, mixed));
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&t, m, "s"));
    OK(cuModuleGetTexRef(&t, m, "t"));
    OK(cuTexRefSetArray(t, array, CU_TRSA_OVERRIDE_FORMAT));
    run(m, "by_name", 0);
    compare(MIRROR, true, true);
    run(m, "by_address", 0);
    compare(MIRROR, true, true);
    CUtexObject o = object(CU_TR_ADDRESS_MODE_BORDER, CU_TR_FILTER_MODE_LINEAR, 0);
    run(m, "unsaid", o); /* texels, as the texture says */
    compare(CLAMP_TO_EDGE, false, false);
    run(m, "borrowed", o); /* the object as a sampler */
    compare(CLAMP_TO_BORDER, true, false);
    OK(cuTexRefSetFlags(t, 0));
    run(m, "by_name", 0);
    compare(MIRROR, true, false);
    run(m, "ask", 0);
    OK(cuMemcpyDtoH(answers, out, sizeof answers));
    assert_int_equal(answers[0], 1);
    assert_int_equal(answers[1], MIRROR);
    assert_int_equal(answers[2], 0);
    assert_int_equal(answers[3], CLAMP_TO_EDGE);
    assert_int_equal(answers[4], 1);
    run(m, "gather", o);
    OK(cuCtxSynchronize());
    assert_int_not_equal(cuModuleGetFunction(&f, m, "wrong"), CUDA_SUCCESS);
    assert_int_not_equal(cuModuleGetFunction(&f, m, "without"), CUDA_SUCCESS);
    OK(cuTexObjectDestroy(o));
    OK(cuModuleUnload(m));
}

/* Nothing of CUDA's can set them: they take no room, and what is read through them is 0. */
TEST(opaque_parameters)
{
    CUmodule m;
    CUfunction f;
    uint64_t unused = 0;
    float got[COORDINATES];
    size_t offset, size;
    void *arguments[] = { &unused, NULL, NULL, &in, NULL, &out };
    OK(cuModuleLoadData(&m, mixed));
    OK(cuModuleGetFunction(&f, m, "opaque"));
    OK(cuFuncGetParamInfo(f, 1, &offset, &size));
    assert_int_equal(size, 0);
    OK(cuFuncGetParamInfo(f, 3, &offset, &size));
    assert_true(offset == 8 && size == 8);
    OK(cuMemsetD32(out, 0x7fc00000, COORDINATES));
    OK(cuLaunchKernel(f, 1, 1, 1, COORDINATES, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (int i = 0; i < COORDINATES; i++)
        assert_true(got[i] == 0);
    OK(cuModuleUnload(m));
}

TEST(unified_mode)
{
    CUmodule m, none;
    CUtexref t;
    CUfilter_mode filter;
    CUaddress_mode wrap;
    CUfunction f;
    CUsurfObject surface;
    CUmipmappedArray levels;
    CUtexObject o, pyramid;
    CUarray drawn;
    unsigned flags;
    uint32_t got[13];
    OK(cuModuleLoadData(&m, unified));
    OK(cuModuleGetTexRef(&t, m, "set"));
    OK(cuTexRefGetFlags(&flags, t));
    OK(cuTexRefGetFilterMode(&filter, t));
    assert_true(flags == CU_TRSF_NORMALIZED_COORDINATES && filter == CU_TR_FILTER_MODE_LINEAR);
    OK(cuTexRefGetAddressMode(&wrap, t, 0));
    assert_int_equal(wrap, CU_TR_ADDRESS_MODE_MIRROR);
    OK(cuTexRefGetAddressMode(&wrap, t, 1));
    assert_int_equal(wrap, CU_TR_ADDRESS_MODE_WRAP);
    OK(cuTexRefGetAddressMode(&wrap, t, 2));
    assert_int_equal(wrap, CU_TR_ADDRESS_MODE_CLAMP);

    const CUDA_ARRAY3D_DESCRIPTOR layers = { .Width = 16,
                                             .Height = 16,
                                             .Depth = 3,
                                             .Format = CU_AD_FORMAT_FLOAT,
                                             .NumChannels = 1,
                                             .Flags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST },
                                  plane = { .Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
    OK(cuArray3DCreate(&drawn, &layers));
    OK(cuMipmappedArrayCreate(&levels, &plane, 3));
    CUDA_RESOURCE_DESC from = { .resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = drawn };
    OK(cuSurfObjectCreate(&surface, &from));
    from = (CUDA_RESOURCE_DESC){ .resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = levels };
    const CUDA_TEXTURE_DESC how = { .flags = CU_TRSF_NORMALIZED_COORDINATES };
    OK(cuTexObjectCreate(&pyramid, &from, &how, NULL));
    o = object(CU_TR_ADDRESS_MODE_BORDER, CU_TR_FILTER_MODE_LINEAR, CU_TRSF_NORMALIZED_COORDINATES);
    void *arguments[] = { &o, &surface, &pyramid, &out };
    OK(cuModuleGetFunction(&f, m, "ask"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    static const uint32_t wanted[13] = {
        CLAMP_TO_BORDER, CLAMP_TO_EDGE, MIRROR, 1, 1, 0, 0, 3, 8, 0, 0, 3, 1 | 4 | 16
    };
    for (int i = 0; i < 13; i++)
        assert_int_equal(got[i], wanted[i]);
    OK(cuTexObjectDestroy(o));
    OK(cuTexObjectDestroy(pyramid));
    OK(cuSurfObjectDestroy(surface));
    OK(cuArrayDestroy(drawn));
    OK(cuMipmappedArrayDestroy(levels));
    OK(cuModuleUnload(m));
    FAILS(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&none, PTX_HEAD ".global .samplerref s;\n"));
}

/* Last: the context is lost. */
TEST(a_sampler_that_is_none)
{
    CUmodule m;
    CUtexref t;
    OK(cuModuleLoadData(&m, mixed));
    OK(cuModuleGetTexRef(&t, m, "t"));
    OK(cuTexRefSetArray(t, array, CU_TRSA_OVERRIDE_FORMAT));
    run(m, "no_sampler", 0);
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

/* The context has ended with a fault. */
static int tear_down(void **state)
{
    without_context(state);
    return 0;
}

int main(void) { return unit_run(set_up, tear_down); }
