/* shows: Software GPU textures and surfaces: each geometry, filters, address modes, formats, out-of-range surface
 *   accesses, handles that are none, offsets, border colours, sRGB */
/* textures.c: tex, tld4, suld, sust, txq, suq against references written from the programming guide, texel by texel. */
#include "tests/exec/main.h"

#include <math.h>

#include "softgpu/texture.h"

enum { POINTS = 64, WIDTH = 7, HEIGHT = 5, DEPTH = 3, LAYERS = 12, CHANNELS = 4, PITCH = 128 };
static const char *const geometry[] = { "1d", "2d", "3d", "a1d", "a2d", "cube", "acube" };
static const unsigned dimensions_of[] = { 1, 2, 3, 1, 2, 3, 3 };
enum { G1D, G2D, G3D, GA1D, GA2D, GCUBE, GACUBE };

struct point { float at[3]; uint32_t layer; };

/* out[i] = four words of the fetch at in[i]; extra: text behind the coordinates */
static void load_fetch(unsigned g, const char *opcode, const char *types, const char *extra)
{
    char ptx[3000], coordinates[64];
    bool layered = g == GA1D || g == GA2D || g == GACUBE, integer = !strcmp(strrchr(types, '.'), ".s32");
    const char *l = layered ? "r7, " : "";
    char names[3][16];
    for (int k = 0; k < 3; k++)
        snprintf(names[k], sizeof names[k], "%c%d", integer ? 'r' : 'f', k + 4);
    if (dimensions_of[g] == 1)
        snprintf(coordinates, sizeof coordinates, "{%s%s}", l, names[0]);
    else if (dimensions_of[g] == 2)
        snprintf(coordinates, sizeof coordinates, layered ? "{%s%s, %s, %s}" : "{%s%s, %s}", l, names[0], names[1],
                 names[1]);
    else
        snprintf(coordinates, sizeof coordinates, layered ? "{%s%s, %s, %s}" : "{%s%s, %s, %s, f7}", l, names[0],
                 names[1], names[2]);
    snprintf(ptx, sizeof ptx,
             ".visible .entry k(.param .u64 out, .param .u64 in, .param .u64 t)\n{\n%s"
             "ld.param.u64 a1, [in]; ld.param.u64 a2, [t]; mul.wide.u32 a3, r1, 16; add.u64 a4, a3, a1; add.u64 a3, "
             "a3, a0;\n"
             "ld.global.v4.u32 {r4, r5, r6, r7}, [a4]; ld.global.v2.f32 {f4, f5}, [a4]; ld.global.f32 f6, [a4+8]; "
             "mov.f32 f7, 0f00000000;\n"
             "%s.%s.%s {r8, r9, r10, r11}, [a2, %s]%s;\nst.global.v4.u32 [a3], {r8, r9, r10, r11};\nret;\n}\n",
             HEAD, opcode, geometry[g], types, coordinates, extra);
    gpu_load(ptx);
}

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float number(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Four floats per texel, all different. */
static struct sg_texture sheet(unsigned g)
{
    bool cube = g == GCUBE || g == GACUBE;
    uint32_t width = cube ? 4 : WIDTH,
             height = g == G1D || g == GA1D ? 1
                      : cube                ? 4
                                            : HEIGHT,
             depth = g == G3D ? DEPTH : 1;
    uint32_t layers = g == GA1D || g == GA2D || g == GACUBE ? LAYERS : g == GCUBE ? 6 : 1;
    unsigned char *memory = gpu_alloc((size_t)PITCH * height * depth * layers);
    for (uint32_t z = 0; z < depth * layers; z++)
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++)
                for (uint32_t c = 0; c < CHANNELS; c++) {
                    float v =
                        (float)(x * 3 + y * 50 + z * 700) + (float)c * 0.25f + (float)((x * 7 + y * 5 + z) % 4) * 11;
                    memcpy(memory + ((size_t)z * height + y) * PITCH + x * 16 + c * 4, &v, 4);
                }
    return (struct sg_texture){ .base = ARG(memory),
                                .pitch = PITCH,
                                .slice = (uint64_t)PITCH * height,
                                .width = width,
                                .height = height,
                                .depth = depth,
                                .layers = layers,
                                .format = SG_TEXEL_F32,
                                .channels = 4,
                                .wrap = { SG_CLAMP, SG_CLAMP, SG_CLAMP } };
}

static long folded(long i, long n, unsigned mode)
{
    if (mode == SG_BORDER)
        return i < 0 || i >= n ? -1 : i;
    while (i < 0 || i >= n)
        i = mode == SG_WRAP     ? i + (i < 0 ? n : -n)
            : mode == SG_MIRROR ? (i < 0 ? -1 - i : 2 * n - 1 - i)
            : i < 0             ? 0
                                : n - 1;
    return i;
}

static double texel(const struct sg_texture *t, long x, long y, long z, long layer, unsigned c)
{
    if (x < 0 || y < 0 || z < 0)
        return 0;
    const float *p = (const float *)(uintptr_t)(t->base + (uint64_t)x * 16 + (uint64_t)y * t->pitch +
                                                (uint64_t)(z + layer) * t->slice);
    return (double)p[c];
}

/* Along one dimension after the other, in doubles. */
static double reference(const struct sg_texture *t, unsigned dimensions, const float at[3], long layer, unsigned c,
                        long index[3], unsigned d)
{
    if (d == dimensions)
        return texel(t, index[0], index[1], index[2], layer, c);
    long n = (long)(d == 0 ? t->width : d == 1 ? t->height : t->depth);
    unsigned mode = t->normalized || t->wrap[d] == SG_BORDER ? t->wrap[d] : SG_CLAMP;
    double x = (double)at[d] * (t->normalized ? (double)n : 1.0) - (t->linear_filter ? 0.5 : 0.0);
    long low = (long)floor(x);
    double weight = (double)lround((x - (double)low) * 256) / 256;
    index[d] = folded(low, n, mode);
    double first = reference(t, dimensions, at, layer, c, index, d + 1);
    if (!t->linear_filter)
        return first;
    index[d] = folded(low + 1, n, mode);
    double second = reference(t, dimensions, at, layer, c, index, d + 1);
    return (1 - weight) * first + weight * second;
}

/* From -2.5 to 2.5 sizes, in steps that a float holds exactly with every size here. */
static void scatter(struct point *p, bool normalized)
{
    for (uint32_t i = 0; i < POINTS; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            float v = (float)((i * (37 + 14 * k) + 11 * k) % 1280) / 256.0f - 2.5f;
            p[i].at[k] = (v + 1.0f / 2048) * (normalized ? 1.0f : 4.0f);
        }
        p[i].layer = i % (LAYERS + 2);                    /* the last ones are outside: clamped */
    }
}

EXEC_TEST(geometries_filters_and_modes)
{
    for (unsigned g = G1D; g <= GA2D; g++)
        for (unsigned variant = 0; variant < 16; variant++) {
            load_fetch(g, variant & 8 ? "tex.level" : "tex", "v4.f32.f32", variant & 8 ? ", f7" : "");
            struct sg_texture t = sheet(g);
            t.linear_filter = variant & 1;
            t.normalized = variant & 2;
            for (unsigned k = 0; k < 3; k++)
                t.wrap[k] = (uint8_t)((variant + k) % 4);
            struct point *in = gpu_alloc(POINTS * sizeof *in);
            uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out);
            scatter(in, t.normalized);
            uint64_t handle = sg_texture_add(&t);
            assert_int_equal(gpu_run("k", 1, POINTS, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
            for (unsigned i = 0; i < POINTS; i++)
                for (unsigned c = 0; c < 4; c++) {
                    long index[3] = { 0 },
                         layer = (long)in[i].layer < (long)t.layers ? (long)in[i].layer : (long)t.layers - 1;
                    double want = reference(&t, dimensions_of[g], in[i].at, t.layers > 1 ? layer : 0, c, index, 0),
                           got = (double)number(out[i][c]);
                    if (t.linear_filter ? fabs(got - want) > 1e-5 * (fabs(want) + 1) : got != want)
                        fail_msg("%s variant %u point %u (%g %g %g) channel %u: %g not %g", geometry[g], variant, i,
                                 (double)in[i].at[0], (double)in[i].at[1], (double)in[i].at[2], c, got, want);
                }
            sg_texture_remove(handle);
            gpu_reset();
        }
}

EXEC_TEST(weights_have_eight_bits)
{
    load_fetch(G1D, "tex", "v4.f32.f32", "");
    float *memory = gpu_alloc(512);
    memory[1] = 1;
    struct sg_texture t = { .base = ARG(memory), .pitch = 512, .slice = 512, .width = 2, .height = 1, .depth = 1,
                            .layers = 1, .format = SG_TEXEL_F32,
                            .channels = 1, .wrap = { SG_CLAMP, SG_CLAMP, SG_CLAMP }, .linear_filter = true };
    uint64_t handle = sg_texture_add(&t);
    struct point *in = gpu_alloc(POINTS * sizeof *in);
    uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out);
    for (unsigned i = 0; i < POINTS; i++)
        in[i].at[0] = 0.5f + (float)i / 1024.0f;
    assert_int_equal(gpu_run("k", 1, POINTS, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
    for (unsigned i = 0; i < POINTS; i++) {
        assert_true(number(out[i][0]) == (float)((i + 2) / 4) / 256.0f);     /* rounded to the nearest 1/256 */
        assert_int_equal(out[i][1], 0);                                     /* channels that it lacks */
        assert_int_equal(out[i][3], 0);
    }
    sg_texture_remove(handle);
}

EXEC_TEST(cube_maps)
{
    static const struct { float d[3]; unsigned face; float s, t;
    } cases[] = { /* the guide's table */
                  { { 1, .25f, .5f }, 0, -.5f, -.25f }, { { -1, .25f, .5f }, 1, .5f, -.25f },
                  { { .25f, 1, .5f }, 2, .25f, .5f },   { { .25f, -1, .5f }, 3, .25f, -.5f },
                  { { .25f, .5f, 1 }, 4, .25f, -.5f },  { { .25f, .5f, -1 }, 5, -.25f, -.5f },
                  { { -8, 2, 4 }, 1, .5f, -.25f }
    };
    for (unsigned g = GCUBE; g <= GACUBE; g++)
        for (unsigned linear = 0; linear < 2; linear++) {
            load_fetch(g, "tex", "v4.f32.f32", "");
            struct sg_texture t = sheet(g);
            t.linear_filter = linear;
            t.normalized = true;
            uint64_t handle = sg_texture_add(&t);
            struct point *in = gpu_alloc(POINTS * sizeof *in);
            uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out);
            for (unsigned i = 0; i < 14; i++) {
                memcpy(in[i].at, cases[i % 7].d, 12);
                in[i].layer = i / 7;
            }
            assert_int_equal(gpu_run("k", 1, 14, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
            for (unsigned i = 0; i < 14; i++)
                for (unsigned c = 0; c < 4; c++) {
                    long index[3] = { 0 };
                    const float on[3] = { (cases[i % 7].s + 1) / 2, (cases[i % 7].t + 1) / 2, 0 };
                    long layer = (long)cases[i % 7].face + (g == GACUBE ? (long)(i / 7) * 6 : 0);
                    if (fabs((double)number(out[i][c]) - reference(&t, 2, on, layer, c, index, 0)) > 1e-3)
                        fail_msg("%s direction %u channel %u", geometry[g], i, c);
                }
            sg_texture_remove(handle);
            gpu_reset();
        }
}

EXEC_TEST(formats_by_index)
{
    static const struct { uint8_t format, unit; uint32_t raw; uint32_t want; float number;
    } cases[] = { { SG_TEXEL_U8, 0, 0xfe, 0xfe, 0 },
                  { SG_TEXEL_S8, 0, 0xfe, 0xfffffffe, 0 },
                  { SG_TEXEL_U16, 0, 0xfffe, 0xfffe, 0 },
                  { SG_TEXEL_S16, 0, 0xfffe, 0xfffffffe, 0 },
                  { SG_TEXEL_U32, 0, 0xdeadbeef, 0xdeadbeef, 0 },
                  { SG_TEXEL_S32, 0, 0xdeadbeef, 0xdeadbeef, 0 },
                  { SG_TEXEL_F32, 0, 0x40490fdb, 0x40490fdb, 0 },
                  { SG_TEXEL_F16, 0, 0x3e00, 0, 1.5f },
                  { SG_TEXEL_F16, 0, 0x0001, 0, 0x1p-24f },
                  { SG_TEXEL_F16, 0, 0xfc00, 0xff800000, 0 },
                  { SG_TEXEL_U8, 1, 0xff, 0, 1 },
                  { SG_TEXEL_U8, 1, 51, 0, 0.2f },
                  { SG_TEXEL_S8, 1, 0x80, 0, -1 },
                  { SG_TEXEL_S8, 1, 0x81, 0, -1 },
                  { SG_TEXEL_U16, 1, 0xffff, 0, 1 },
                  { SG_TEXEL_S16, 1, 0x8000, 0, -1 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (unsigned channels = 1; channels <= 4; channels *= 2) {
            load_fetch(G1D, "tex", c % 2 ? "v4.u32.s32" : "v4.s32.s32", "");
            unsigned size = sg_texel_bytes(cases[c].format);
            unsigned char *memory = gpu_alloc(1024);
            memcpy(memory + (5 * channels + channels - 1) * size, &cases[c].raw, size);
            struct sg_texture t = { .base = ARG(memory),
                                    .pitch = 512,
                                    .slice = 512,
                                    .width = 6,
                                    .height = 1,
                                    .depth = 1,
                                    .layers = 1,
                                    .format = cases[c].format,
                                    .channels = (uint8_t)channels,
                                    .linear_memory = true,
                                    .unit = cases[c].unit };
            uint64_t handle = sg_texture_add(&t);
            struct { int32_t at[4]; } *in = gpu_alloc(POINTS * sizeof *in);
            uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out);
            in[0].at[0] = 5;
            in[1].at[0] = 6;
            in[2].at[0] = -1;
            assert_int_equal(gpu_run("k", 1, 3, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
            uint32_t want = cases[c].want ? cases[c].want : bits(cases[c].number);
            if (out[0][channels - 1] != want)
                fail_msg("format %u, %u channels, case %zu: %#x not %#x", cases[c].format, channels, c,
                         out[0][channels - 1], want);
            for (unsigned k = 0; k < 4; k++)
                assert_true(!out[1][k] && !out[2][k]);                     /* outside of linear memory */
            sg_texture_remove(handle);
            gpu_reset();
        }
}

EXEC_TEST(halves_gather_and_odd_numbers)
{
    gpu_load(".visible .entry k(.param .u64 out, .param .u64 t)\n{\n" HEAD
             "ld.param.u64 a1, [t]; mov.f32 f4, 0f3F800000; mov.f32 f5, 0f40000000; mov.f32 f1, 0f7FC00000; mov.f32 "
             "f2, 0fFF800000;\n"
             "tex.2d.v2.f16x2.f32 {r4, r5}, [a1, {f4, f5}]; tld4.g.2d.v4.f32.f32 {f6, f7, f3, f0}, [a1, {f4, f5}];\n"
             "tex.grad.2d.v4.f32.f32 {r6, r7, r8, r9}, [a1, {f1, f2}], {f4, f4}, {f5, f5};\n"
             "txq.width.b32 r10, [a1]; txq.height.b32 r11, [a1];\n"
             "st.global.v4.u32 [a0], {r4, r5, r10, r11}; st.global.v4.f32 [a0+16], {f6, f7, f3, f0}; st.global.v4.u32 "
             "[a0+32], {r6, r7, r8, r9};\nret;\n}\n");
    struct sg_texture t = sheet(G2D);
    uint64_t handle = sg_texture_add(&t);
    uint32_t *out = gpu_alloc(64);
    assert_int_equal(gpu_run("k", 1, 1, 2, ARG(out), handle), CUDA_SUCCESS);
    const uint16_t halves[4] = { 0x5720, 0x5724, 0x5728, 0x572c };         /* texel 1, 2 holds 114 + c / 4 */
    assert_memory_equal(out, halves, sizeof halves);
    assert_int_equal(out[2], WIDTH);
    assert_int_equal(out[3], HEIGHT);
    static const int corners[4][2] = { { 0, 2 }, { 1, 2 }, { 1, 1 }, { 0, 1 } };
    for (unsigned c = 0; c < 4; c++)
        assert_true((double)number(out[4 + c]) == texel(&t, corners[c][0], corners[c][1], 0, 0, 1));
    /* not a number, and far outside: the corner */
    for (unsigned c = 0; c < 4; c++)
        assert_true((double)number(out[8 + c]) == texel(&t, 0, 0, 0, 0, c));
    sg_texture_remove(handle);
}

EXEC_TEST(surfaces)
{
    static const struct {
        const char *type;
        unsigned bytes, count;
    } types[] = { { "b8", 1, 1 },     { "b16", 2, 1 },    { "b32", 4, 1 },   { "b64", 8, 1 },    { "v2.b8", 1, 2 },
                  { "v2.b32", 4, 2 }, { "v2.b64", 8, 2 }, { "v4.b8", 1, 4 }, { "v4.b16", 2, 4 }, { "v4.b32", 4, 4 } };
    static const char *const modes[] = { "trap", "clamp", "zero" };
    static const char *const at[] = { "{r4}", "{r4, r5}", "{r4, r5, r6, r6}", "{r7, r4}", "{r7, r4, r5, r5}" };
    for (unsigned g = G1D; g <= GA2D; g++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            for (unsigned mode = 0; mode < 3; mode++) {
                unsigned size = types[k].bytes * types[k].count, cell = types[k].bytes;
                const char *values = types[k].count == 1   ? cell == 8  ? "a4"
                                                             : cell < 4 ? "h1"
                                                                        : "r8"
                                     : types[k].count == 2 ? cell == 8  ? "a4, a5"
                                                             : cell < 4 ? "h1, h2"
                                                                        : "r8, r9"
                                     : cell < 4            ? "h1, h2, h3, h4"
                                                           : "r8, r9, r10, r11";
                const char *vector = types[k].count == 1 ? "" : types[k].count == 2 ? ".v2" : ".v4";
                char ptx[3000];
                snprintf(ptx, sizeof ptx,
                         ".visible .entry k(.param .u64 out, .param .u64 in, .param .u64 from, .param .u64 to)\n{\n%s"
                         "ld.param.u64 a1, [in]; ld.param.u64 a2, [from]; ld.param.u64 a3, [to]; mul.wide.u32 a6, r1, "
                         "16; add.u64 a1, a1, a6; add.u64 a7, a0, a6;\n"
                         "ld.global.v4.u32 {r4, r5, r6, r7}, [a1];\nsuld.b.%s.%s.%s {%s}, [a2, %s];\nst.global%s.b%u "
                         "[a7], {%s};\nsust.b.%s.%s.%s [a3, %s], {%s};\nret;\n}\n",
                         HEAD, geometry[g], types[k].type, modes[mode], values, at[g], vector, cell * 8, values,
                         geometry[g], types[k].type, modes[mode], at[g], values);
                gpu_load(ptx);
                struct sg_texture from = sheet(g), to = sheet(g);
                from.surface = to.surface = true;
                size_t whole = (size_t)from.slice * from.depth * from.layers;
                unsigned char *memory = (unsigned char *)(uintptr_t)to.base, *expected = gpu_alloc(whole),
                              (*out)[16] = gpu_alloc(POINTS * 16);
                memset(memory, 0xEE, whole);
                memset(expected, 0xEE, whole);
                struct { int32_t at[4]; } *in = gpu_alloc(POINTS * sizeof *in);
                uint64_t a = sg_texture_add(&from), b = sg_texture_add(&to);
                int32_t row = (int32_t)(from.width * 16 / size);
                for (unsigned i = 0; i < POINTS; i++) {
                    int32_t x = mode ? (int32_t)(i * 5) % (row + 4) - 2 : (int32_t)(i * 5) % row,
                            y = (int32_t)i % (int32_t)(from.height + 2 * !!mode) - !!mode;
                    int32_t z = (int32_t)(i / 3) % (int32_t)(from.depth + 2 * !!mode) - !!mode,
                            layer = (int32_t)(i % (from.layers + !!mode));
                    memcpy(in[i].at, (int32_t[4]){ x * (int32_t)size, y, z, layer }, 16);
                }
                assert_int_equal(gpu_run("k", 1, POINTS, 4, ARG(out), ARG(in), a, b), CUDA_SUCCESS);
                for (unsigned i = 0; i < POINTS; i++) {
                    long most[4] = { (long)(row - 1) * (long)size, (long)from.height - 1, (long)from.depth - 1,
                                     (long)from.layers - 1 }, p[4];
                    bool outside = false;
                    for (unsigned d = 0; d < 4; d++) {
                        bool used = d < dimensions_of[g] || (d == 3 && g >= GA1D);
                        p[d] = used ? in[i].at[d] : 0;
                        outside |= p[d] < 0 || p[d] > most[d];
                        p[d] = p[d] < 0 ? 0 : p[d] > most[d] ? most[d] : p[d];
                    }
                    size_t offset = (size_t)p[0] + (size_t)p[1] * from.pitch + (size_t)(p[2] + p[3]) * from.slice;
                    unsigned char zero[16] = { 0 };
                    bool none = outside && mode == 2;
                    if (memcmp(out[i], none ? zero : (const unsigned char *)(uintptr_t)from.base + offset, size))
                        fail_msg("suld %s %s %s point %u", geometry[g], types[k].type, modes[mode], i);
                    if (!none)
                        memcpy(expected + offset, (const unsigned char *)(uintptr_t)from.base + offset, size);
                }
                if (memcmp(memory, expected, whole))
                    fail_msg("sust %s %s %s", geometry[g], types[k].type, modes[mode]);
                sg_texture_remove(a);
                sg_texture_remove(b);
                gpu_reset();
            }
}

EXEC_TEST(formatted_stores)
{
    gpu_load(".visible .entry k(.param .u64 out, .param .u64 t)\n{\n" HEAD
             "ld.param.u64 a1, [t]; mov.u32 r4, 300; mov.u32 r5, 7; mov.u32 r6, 0;\n"
             "sust.p.2d.v4.b32.trap [a1, {r1, r6}], {r4, r5, r1, r4}; suq.width.b32 r7, [a1]; "
             "suq.channel_data_type.b32 r8, [a1]; st.global.v2.u32 [a0], {r7, r8};\nret;\n}\n");
    unsigned char *memory = gpu_alloc(64);
    struct sg_texture t = { .base = ARG(memory), .pitch = 64, .slice = 64, .width = 4, .height = 1, .depth = 1,
                            .layers = 1, .format = SG_TEXEL_U8, .channels = 4, .surface = true };
    uint64_t handle = sg_texture_add(&t);
    uint32_t *out = gpu_alloc(8);
    assert_int_equal(gpu_run("k", 1, 4, 2, ARG(out), handle), CUDA_SUCCESS);
    for (unsigned i = 0; i < 4; i++) {
        const unsigned char want[4] = { 255, 7, (unsigned char)i, 255 };
        assert_memory_equal(memory + 4 * i, want, 4);
    }
    assert_int_equal(out[0], 4);
    assert_int_equal(out[1], 0x10DA);
    sg_texture_remove(handle);
}

/* Every thread adds to the same element of a row, takes part in a minimum, and sets a bit far beyond the edge. */
EXEC_TEST(reductions)
{
    gpu_load(".visible .entry bytes(.param .u64 out, .param .u64 t)\n{\n" HEAD
             "ld.param.u64 a1, [t]; mov.u32 r4, 4; mov.u32 r5, 1; mov.u32 r6, 0; mov.u32 r7, 1000; shl.b32 r8, "
             "r5, r1;\n"
             "sured.b.add.2d.u32.trap [a1, {r4, r5}], r1; sub.s32 r9, r6, r1; sured.b.min.2d.s32.trap [a1, {r6, "
             "r5}], r9;"
             " sured.b.or.2d.b32.clamp [a1, {r7, r7}], r8; sured.b.add.2d.u32.zero [a1, {r7, r6}], r4;\n"
             "cvt.u64.u32 a2, r1; shl.b64 a2, a2, 33; sured.b.max.2d.u64.trap [a1, {r6, r6}], a2;\nret;\n}\n"
             ".visible .entry elements(.param .u64 out, .param .u64 t)\n{\n" HEAD
             "ld.param.u64 a1, [t]; mov.u32 r4, 3; mov.u32 r5, 1; mov.u32 r6, 0; sub.s32 r7, r6, r1;\n"
             "sured.p.max.2d.b32.trap [a1, {r4, r5}], r7; sured.p.add.2d.b32.trap [a1, {r6, r5}], r1;\nret;\n}\n"
             ".visible .entry outside(.param .u64 out, .param .u64 t)\n{\n" HEAD
             "ld.param.u64 a1, [t]; mov.u32 r4, 64; mov.u32 r5, 0; sured.b.add.2d.u32.trap [a1, {r4, r5}], "
             "r1;\nret;\n}\n");
    uint32_t *memory = gpu_alloc(64);
    struct sg_texture t = { .base = ARG(memory), .pitch = 32, .slice = 64, .width = 8, .height = 2, .depth = 1,
                            .layers = 1, .format = SG_TEXEL_S32, .channels = 1, .surface = true };
    uint64_t handle = sg_texture_add(&t);
    assert_int_equal(gpu_run("bytes", 1, 32, 2, ARG(memory), handle), CUDA_SUCCESS);
    assert_int_equal(memory[0], 0);
    assert_int_equal(memory[1], 31 << 1);
    assert_int_equal((int32_t)memory[8], -31);
    assert_int_equal(memory[9], 31 * 16);
    assert_int_equal(memory[15], UINT32_MAX);
    memory[11] = (uint32_t)-100;
    memory[8] = 0;
    assert_int_equal(gpu_run("elements", 1, 32, 2, ARG(memory), handle), CUDA_SUCCESS);
    assert_int_equal(memory[11], 0);
    assert_int_equal(memory[8], 31 * 16);
    assert_int_equal(gpu_run("outside", 1, 1, 2, ARG(memory), handle), CUDA_ERROR_LAUNCH_FAILED);
    sg_texture_remove(handle);
}

/* Each is an error of the kernel, and the next kernel runs. */
EXEC_TEST(what_is_refused)
{
    gpu_load(".visible .entry read(.param .u64 out, .param .u64 t)\n{\n" HEAD
             "ld.param.u64 a1, [t]; mov.f32 f1, 0f3F800000; tex.2d.v4.f32.f32 {f4, f5, f6, f7}, [a1, {f1, f1}]; "
             "st.global.f32 [a0], f4;\nret;\n}\n"
             ".visible .entry write(.param .u64 out, .param .u64 t, .param .u32 x)\n{\n" HEAD
             "ld.param.u64 a1, [t]; ld.param.u32 r5, [x]; mov.u32 r4, 0; sust.b.2d.b32.trap [a1, {r5, r4}], "
             "{r1};\nret;\n}\n");
    uint32_t *out = gpu_alloc(64);
    struct sg_texture t = sheet(G2D), s = t, gone = t;
    s.surface = true;
    gone.base = 0x1000;
    uint64_t texture = sg_texture_add(&t), surface = sg_texture_add(&s), unmapped = sg_texture_add(&gone),
             destroyed = sg_texture_add(&t);
    sg_texture_remove(destroyed);
    sg_texture_remove(destroyed);
    uint64_t again = sg_texture_add(&t);                                   /* in the same slot, another handle */
    assert_int_not_equal(again, destroyed);
    const uint64_t bad[] = { 0, 1, UINT64_MAX, ARG(out), destroyed, unmapped, surface, texture ^ (UINT64_C(1) << 40) };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gpu_run("read", 1, 32, 2, ARG(out), bad[i]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(gpu_run("write", 1, 32, 3, ARG(out), texture, UINT64_C(0)), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(gpu_run("write", 1, 32, 3, ARG(out), surface, UINT64_C(4096)), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(gpu_run("write", 1, 32, 3, ARG(out), surface, UINT64_C(2)), CUDA_ERROR_MISALIGNED_ADDRESS);
    assert_int_equal(gpu_run("write", 1, 32, 3, ARG(out), surface, UINT64_C(4)), CUDA_SUCCESS);
    assert_int_equal(gpu_run("read", 1, 32, 2, ARG(out), again), CUDA_SUCCESS);
    const uint64_t all[] = { texture, surface, unmapped, again };
    for (size_t i = 0; i < 4; i++)
        sg_texture_remove(all[i]);
    assert_non_null(gpu_refuses(KERNEL("k", "tex.2dms.v4.f32.s32 {f4, f5, f6, f7}, [a0, {r1, r1, r1, r1}];"), "k"));
    assert_non_null(gpu_refuses(KERNEL("k", "tex.2d.v4.f32.f32 {f4, f5, f6}, [a0, {f1, f1}];"), "k"));
    assert_non_null(gpu_refuses(KERNEL("k", "tex.3d.v4.f32.f32 {f4, f5, f6, f7}, [a0, {f1, f1}];"), "k"));
}

/* Every form that nvcc makes of the functions in its texture and surface headers: decoded, and passed by. */
EXEC_TEST(forms_of_the_compiler)
{
    gpu_load(".visible .entry k(.param .u64 out, .param .u64 t)\n{\n" HEAD
             ".reg .f32 %f<80>; .reg .b32 %r<30>; .reg .b16 %rs<20>; .reg .b64 %rd<10>; .reg .pred %p<3>;\n"
             "ld.param.u64 %rd3, [t]; mov.u64 %rd2, %rd3; mov.u64 %rd9, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 "
             "%r7, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1;\n"
             "tex.2d.v4.f32.f32 {%f68, %f69, %f70, %f71}|%p1, [%rd3, {%f1, %f2}];\nselp.u32 %r3, 1, 0, %p1; "
             "st.global.u32 [a0], %r3;\nbra END;\n"
             "tex.1d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%rd3, {%r2}];\ntex.1d.v4.f32.f32 {%f8, %f9, %f10, %f11}, [%rd3, "
             "{%f1}];\n"
             "tex.3d.v4.f32.f32 {%f16, %f17, %f18, %f19}, [%rd3, {%f1, %f2, %f3, %f3}];\ntex.a1d.v4.f32.f32 {%f20, "
             "%f21, %f22, %f23}, [%rd3, {%r2, %f1}];\n"
             "tex.a2d.v4.f32.f32 {%f24, %f25, %f26, %f27}, [%rd3, {%r2, %f1, %f2, %f2}];\ntex.cube.v4.f32.f32 {%f28, "
             "%f29, %f30, %f31}, [%rd3, {%f1, %f2, %f3, %f3}];\n"
             "tex.acube.v4.f32.f32 {%f32, %f33, %f34, %f35}, [%rd3, {%r2, %f1, %f2, %f3}];\ntex.level.2d.v4.f32.f32 "
             "{%f36, %f37, %f38, %f39}, [%rd3, {%f1, %f2}], %f3;\n"
             "tex.grad.3d.v4.f32.f32 {%f40, %f41, %f42, %f43}, [%rd3, {%f1, %f2, %f3, %f3}], {%f1, %f2, %f3, %f3}, "
             "{%f1, %f2, %f3, %f3};\n"
             "tex.grad.2d.v4.f32.f32 {%f44, %f45, %f46, %f47}, [%rd3, {%f1, %f2}], {%f1, %f2}, {%f1, "
             "%f2};\ntld4.g.2d.v4.f32.f32 {%f48, %f49, %f50, %f51}, [%rd3, {%f1, %f2}];\n"
             "tex.2d.v4.u32.f32 {%r3, %r4, %r5, %r6}, [%rd3, {%f1, %f2}];\ntex.level.cube.v4.f32.f32 {%f52, %f53, "
             "%f54, %f55}, [%rd3, {%f1, %f2, %f3, %f3}], %f1;\n"
             "tex.level.acube.v4.f32.f32 {%f56, %f57, %f58, %f59}, [%rd3, {%r2, %f1, %f2, %f3}], "
             "%f1;\ntex.level.a2d.v4.f32.f32 {%f60, %f61, %f62, %f63}, [%rd3, {%r2, %f1, %f2, %f2}], %f1;\n"
             "tex.grad.a2d.v4.f32.f32 {%f64, %f65, %f66, %f67}, [%rd3, {%r2, %f1, %f2, %f2}], {%f1, %f2}, {%f1, %f2};\n"
             "sust.b.3d.v4.b32.clamp [%rd2, {%r1, %r2, %r2, %r2}], {%r10, %r11, %r12, %r13};\nsust.b.a2d.b8.zero "
             "[%rd2, {%r2, %r2, %r2, %r2}], {%rs6};\n"
             "sust.b.1d.b64.trap [%rd2, {%r1}], {%rd9};\nsust.b.a1d.b16.trap [%rd2, {%r2, %r1}], "
             "{%rs5};\nsuld.b.3d.b32.trap {%r20}, [%rd2, {%r7, %r2, %r2, %r2}];\n"
             "suld.b.a2d.b32.trap {%r21}, [%rd2, {%r2, %r7, %r2, %r2}];\nsust.b.2d.v4.b8.trap [%rd2, {%r7, %r2}], "
             "{%rs7, %rs8, %rs9, %rs10};\n"
             "suld.b.2d.v4.b8.trap {%rs11, %rs12, %rs13, %rs14}, [%rd2, {%r7, %r2}];\nsust.b.2d.v2.b16.trap [%rd2, "
             "{%r7, %r2}], {%rs5, %rs5};\nsuld.b.1d.v2.b32.trap {%r24, %r25}, [%rd2, {%r1}];\n"
             "END: ret;\n}\n");
    struct sg_texture t = sheet(G2D);
    uint64_t handle = sg_texture_add(&t);
    uint32_t *out = gpu_alloc(64);
    assert_int_equal(gpu_run("k", 1, 32, 2, ARG(out), handle), CUDA_SUCCESS);
    assert_int_equal(out[0], 1);
    sg_texture_remove(handle);
}

/* Objects come and go, also in numbers that make the table grow, while a kernel uses another. */
EXEC_TEST(comings_and_goings)
{
    gpu_load(".visible .entry k(.param .u64 out, .param .u64 t)\n{\n" HEAD
             "ld.param.u64 a1, [t]; mov.f32 f1, 0f3F800000; mov.f32 f2, 0f00000000; mov.u32 r4, 0;\n"
             "AGAIN: tex.2d.v4.f32.f32 {f4, f5, f6, f7}, [a1, {f1, f1}]; max.f32 f2, f2, f4; add.u32 r4, r4, 1; "
             "setp.lt.u32 p1, r4, 200; @p1 bra AGAIN;\nst.global.f32 [a0], f2;\nret;\n}\n");
    struct sg_texture t = sheet(G2D);
    uint64_t handle = sg_texture_add(&t), others[300];
    float *out = gpu_alloc(64);
    const uint64_t arguments[] = { ARG(out), handle };
    struct gpu_shape shape = { { 8, 1, 1 }, { 32, 1, 1 }, 0, 0, { 0 } };
    struct gpu_running *running = gpu_begin("k", &shape, 2, arguments);
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 300; i++) {
            others[i] = sg_texture_add(&t);
            assert_true(others[i] && others[i] != handle && (!i || others[i] != others[i - 1]));
        }
        for (unsigned i = 0; i < 300; i++)
            sg_texture_remove(others[i]);
    }
    assert_int_equal(gpu_wait(running, 60), CUDA_SUCCESS);
    assert_true((double)*out == texel(&t, 1, 1, 0, 0, 0));
    struct sg_texture copy;
    assert_true(sg_texture_get(handle, &copy) && copy.base == t.base);
    assert_false(sg_texture_get(others[7], &copy));
    sg_texture_remove(handle);
    assert_false(sg_texture_get(handle, &copy));
}

/* With an offset a fetch gives what it gives as many texels further on. */
EXEC_TEST(offsets_count_texels)
{
    static const int offset[] = { -3, 2, 1 };
    static const struct { const char *opcode, *types, *level; } forms[] = {
        { "tex", "v4.f32.f32", "" },
        { "tex", "v4.f32.s32", "" },
        { "tex.level", "v4.f32.f32", ", f7" },
        { "tld4.r", "v4.f32.f32", "" },
    };
    for (unsigned form = 0; form < 4; form++)
        for (unsigned g = G1D; g <= GA2D; g++)
            for (unsigned mode = 0; mode < 4; mode++) {
                bool gathers = form == 3, whole = form == 1;
                char extra[64];
                if (gathers && g != G2D && g != GA2D)
                    continue;
                snprintf(extra, sizeof extra,
                         dimensions_of[g] == 1   ? "%s, -3"
                         : dimensions_of[g] == 2 ? "%s, {-3, 2}"
                                                 : "%s, {-3, 2, 1, 0}",
                         forms[form].level);
                struct sg_texture t = sheet(g);
                t.linear_filter = mode & 1;
                for (unsigned k = 0; k < 3; k++)
                    t.wrap[k] = mode & 2 ? SG_BORDER : SG_CLAMP;
                uint64_t handle = sg_texture_add(&t);
                struct point *in = gpu_alloc(POINTS * sizeof *in);
                uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out), (*want)[4] = gpu_alloc(POINTS * sizeof *out);
                scatter(in, false);
                for (unsigned i = 0; whole && i < POINTS; i++)
                    for (unsigned k = 0; k < 3; k++)
                        in[i].at[k] = number((uint32_t)(int32_t)in[i].at[k]);
                load_fetch(g, forms[form].opcode, forms[form].types, extra);
                assert_int_equal(gpu_run("k", 1, POINTS, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
                for (unsigned i = 0; i < POINTS; i++)
                    for (unsigned k = 0; k < dimensions_of[g]; k++)
                        in[i].at[k] = whole ? number(bits(in[i].at[k]) + (uint32_t)offset[k])
                                            : in[i].at[k] + (float)offset[k];
                load_fetch(g, forms[form].opcode, forms[form].types, forms[form].level);
                assert_int_equal(gpu_run("k", 1, POINTS, 3, ARG(want), ARG(in), handle), CUDA_SUCCESS);
                assert_memory_equal(out, want, POINTS * sizeof *out);
                sg_texture_remove(handle);
                gpu_reset();
            }
    /* with wrapped coordinates */
    load_fetch(G1D, "tex", "v4.f32.f32", ", -3");
    struct sg_texture t = sheet(G1D);
    t.normalized = true;
    t.wrap[0] = SG_WRAP;
    uint64_t handle = sg_texture_add(&t);
    struct point *in = gpu_alloc(POINTS * sizeof *in);
    uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out);
    for (unsigned i = 0; i < WIDTH; i++)
        in[i].at[0] = ((float)i + 0.5f) / WIDTH;
    assert_int_equal(gpu_run("k", 1, WIDTH, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
    for (unsigned i = 0; i < WIDTH; i++)
        assert_true((double)number(out[i][1]) == texel(&t, (i + WIDTH - 3) % WIDTH, 0, 0, 0, 1));
    sg_texture_remove(handle);
    assert_non_null(gpu_refuses(KERNEL("k", "tex.cube.v4.f32.f32 {f4, f5, f6, f7}, [a0, {f1, f1, f1, f1}], {r1, r1};"),
                                "k"));
    assert_non_null(gpu_refuses(KERNEL("k", "tex.2d.v4.f32.f32 {f4, f5, f6, f7}, [a0, {f1, f1}], f2;"), "k"));
    assert_non_null(gpu_refuses(KERNEL("k", "tex.2d.v4.f32.f32 {f4, f5, f6, f7}, [a0, {f1, f1}], r1;"), "k"));
}

EXEC_TEST(borders_have_a_colour)
{
    load_fetch(G2D, "tex", "v4.f32.f32", "");
    struct sg_texture t = sheet(G2D);
    t.linear_filter = true;
    t.wrap[0] = t.wrap[1] = SG_BORDER;
    memcpy(t.border, (float[]){ 1, -2, 0.5f, 64 }, sizeof t.border);
    uint64_t handle = sg_texture_add(&t);
    struct point *in = gpu_alloc(POINTS * sizeof *in);
    uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out);
    in[0] = (struct point){ .at = { -4, 2 } };
    in[1] = (struct point){ .at = { 0, 2.5f } };         /* half of the border, half of the first texel */
    assert_int_equal(gpu_run("k", 1, 2, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
    for (unsigned c = 0; c < 4; c++) {
        assert_true(number(out[0][c]) == t.border[c]);
        assert_true((double)number(out[1][c]) == ((double)t.border[c] + texel(&t, 0, 2, 0, 0, c)) / 2);
    }
    sg_texture_remove(handle);
}

/* Both pieces of the curve; what lies between two colours is mixed in linear light. The fourth channel is no colour. */
EXEC_TEST(colours_of_srgb)
{
    load_fetch(G1D, "tex", "v4.f32.f32", "");
    unsigned char *memory = gpu_alloc(512);
    memcpy(memory, (unsigned char[]){ 0, 10, 128, 128, 255, 11, 128, 128 }, 8);
    struct sg_texture t = { .base = ARG(memory), .pitch = 512, .slice = 512, .width = 2, .height = 1, .depth = 1,
                            .layers = 1, .format = SG_TEXEL_U8, .channels = 4, .unit = true, .srgb = true,
                            .linear_filter = true };
    memset(t.wrap, SG_CLAMP, sizeof t.wrap);
    uint64_t handle = sg_texture_add(&t);
    struct point *in = gpu_alloc(POINTS * sizeof *in);
    uint32_t (*out)[4] = gpu_alloc(POINTS * sizeof *out);
    in[0].at[0] = 0.5f;
    in[1].at[0] = 1.5f;
    in[2].at[0] = 1.0f;
    assert_int_equal(gpu_run("k", 1, 3, 3, ARG(out), ARG(in), handle), CUDA_SUCCESS);
    const double low = 10 / 255.0 / 12.92, high = pow((11 / 255.0 + 0.055) / 1.055, 2.4),
                 half = pow((128 / 255.0 + 0.055) / 1.055, 2.4);
    const double want[3][4] = { { 0, low, half, 128 / 255.0 },
                                { 1, high, half, 128 / 255.0 },
                                { 0.5, (low + high) / 2, half, 128 / 255.0 } };
    for (unsigned i = 0; i < 3; i++)
        for (unsigned c = 0; c < 4; c++)
            assert_true(fabs((double)number(out[i][c]) - want[i][c]) < 1e-6);
    sg_texture_remove(handle);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
