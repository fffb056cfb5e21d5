/*
 * Programs with arrays, mipmapped arrays, textures, surfaces and modules that come and go move between two servers with
 * the software GPU (core_move, docs/moving.md): they compute the same as without. Arguments: unix or tcp, and the path
 * of cricket-rpc-server; and `suspend`, if sessions are to be suspended and resumed in place of moves. Each test in a
 * process of its own.
 *
 * shows: moving: arrays of each shape, mipmapped arrays, texture and surface objects are made again at another server
 *   with the same handles and contents; one whose array has ended stays one that kernels cannot use
 * shows: moving: what kernels have allocated with malloc() is at the same addresses, and can be freed and added to
 * shows: moving: managed memory keeps what the program and what kernels have written, page by page
 * shows: moving: variables, and pointers to functions that kernels have stored, are the same at another server,
 *   whatever else was loaded before
 */
#include <string.h>
#include <unistd.h>

#include "tests/core/kernels.h"
#include "tests/core/moved_program.h"
#include "tests/lib/dice.h"
#include "tests/lib/fnv.h"
#include "tests/lib/unit.h"

/* One block of 32 threads each, thread t for column t. paint(surface, height, value): value + x + 100 y; look(texture,
   out, height, level); store(): keeps a pointer to a function; apply(out): calls it. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 8 .u64 kept;\n"
    ".func (.reg .u32 %r) twice(.reg .u32 %a) { add.u32 %r, %a, %a; ret; }\n"
    ".func (.reg .u32 %r) thrice(.reg .u32 %a) { mul.lo.u32 %r, %a, 3; ret; }\n"
    ".visible .entry paint(.param .u64 s, .param .u32 h, .param .u32 v) {\n"
    "  .reg .u64 %s; .reg .u32 %h, %v, %x, %y, %b; .reg .pred %p;\n"
    "  ld.param.u64 %s, [s]; ld.param.u32 %h, [h]; ld.param.u32 %v, [v]; mov.u32 %x, %tid.x; mov.u32 %y, 0;\n"
    "  add.u32 %v, %v, %x; shl.b32 %b, %x, 2;\n"
    "L: setp.ge.u32 %p, %y, %h; @%p ret;\n"
    "  sust.b.2d.b32.zero [%s, {%b, %y}], {%v}; add.u32 %v, %v, 100; add.u32 %y, %y, 1; bra L;\n}\n"
    ".visible .entry look(.param .u64 t, .param .u64 o, .param .u32 h, .param .f32 l) {\n"
    "  .reg .u64 %t, %o, %a; .reg .u32 %h, %x, %y, %i, %r<4>; .reg .f32 %f<5>; .reg .pred %p;\n"
    "  ld.param.u64 %t, [t]; ld.param.u64 %o, [o]; ld.param.u32 %h, [h]; ld.param.f32 %f4, [l];\n"
    "  mov.u32 %x, %tid.x; mov.u32 %y, 0; cvt.rn.f32.u32 %f0, %x; add.f32 %f0, %f0, 0f3F000000;\n"
    "  mul.f32 %f0, %f0, 0f3D000000;\n"
    "L: setp.ge.u32 %p, %y, %h; @%p ret;\n"
    "  cvt.rn.f32.u32 %f1, %y; add.f32 %f1, %f1, 0f3F000000; cvt.rn.f32.u32 %f2, %h; div.rn.f32 %f1, %f1, %f2;\n"
    "  tex.level.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%t, {%f0, %f1}], %f4;\n"
    "  mad.lo.u32 %i, %y, 32, %x; mad.wide.u32 %a, %i, 4, %o; st.global.u32 [%a], %r0;\n"
    "  add.u32 %y, %y, 1; bra L;\n}\n"
    ".visible .entry store(.param .u32 w) {\n"
    "  .reg .u64 %a; .reg .u32 %w; .reg .pred %p;\n"
    "  ld.param.u32 %w, [w]; setp.ne.u32 %p, %w, 0; mov.u64 %a, twice; @%p mov.u64 %a, thrice;\n"
    "  st.global.u64 [kept], %a; ret;\n}\n"
    ".visible .entry apply(.param .u64 o, .param .u32 v) {\n"
    "  .reg .u64 %a, %o; .reg .u32 %v, %r;\n"
    "  ld.param.u64 %o, [o]; ld.param.u32 %v, [v]; ld.global.u64 %a, [kept];\n"
    "  P: .callprototype (.reg .u32 _) _ (.reg .u32 _);\n"
    "  call (%r), %a, (%v), P; st.global.u32 [%o], %r; ret;\n}\n";

/* A module with a variable of so many words, which a kernel adds to. */
static const char ptx_variable[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .b8 words[%u];\n"
    ".visible .entry count(.param .u64 o, .param .u32 v) {\n"
    "  .reg .u64 %%o; .reg .u32 %%v, %%c;\n"
    "  ld.param.u64 %%o, [o]; ld.param.u32 %%v, [v]; ld.global.u32 %%c, [words]; add.u32 %%c, %%c, %%v;\n"
    "  st.global.u32 [words], %%c; st.global.u32 [%%o], %%c; ret;\n}\n";

static CUfunction paint, look, store, apply, push, pop, walk;

static void begin(void)
{
    CUmodule module;
    moved_begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&paint, module, "paint"));
    OK(cuModuleGetFunction(&look, module, "look"));
    OK(cuModuleGetFunction(&store, module, "store"));
    OK(cuModuleGetFunction(&apply, module, "apply"));
    OK(cuModuleLoadData(&module, KERNELS_BEGIN KERNELS_LIST));
    OK(cuModuleGetFunction(&push, module, "push"));
    OK(cuModuleGetFunction(&pop, module, "pop"));
    OK(cuModuleGetFunction(&walk, module, "walk"));
}

static bool suspends;                        /* in place of moves: the session is suspended, and resumed elsewhere */

static void move_to(int number) { moved_to(number, suspends, 0); }

static int launch(CUfunction f, void **arguments)
{
    return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, 0, arguments, NULL);
}

/* ---- random programs ---- */

enum { ARRAYS = 6, MODULES = 4, WIDTH = 32, HEIGHT_MOST = 40, DEPTH_MOST = 4, LEVELS = 3, STEPS = 150,
       MANAGED_WORDS = 65536 };

static uint64_t seed, hash;

/* kind 0: two dimensions, with a texture and a surface; 1: three; 2: layers; 3: a cube; 4: mipmapped, with a texture;
   5: one dimension */
static struct shaped {
    bool there;
    int kind;
    CUarray array, level[LEVELS];
    CUmipmappedArray mipmap;
    CUtexObject texture;
    CUsurfObject surface;
    uint32_t width, height, depth;
} arrays[ARRAYS];

static uint32_t host[WIDTH * HEIGHT_MOST * 16];

/* A box of it, or all of it: in, or out and into the hash. */
static void array_copy(const struct shaped *a, unsigned level, bool whole, bool in)
{
    const uint32_t w = a->width >> level, h = (a->height ? a->height : 1) >> level, d = a->depth ? a->depth : 1;
    const uint32_t x = whole ? 0 : dice(&seed, w), y = whole ? 0 : dice(&seed, h), z = whole ? 0 : dice(&seed, d);
    CUDA_MEMCPY3D copy = { .WidthInBytes = 4 * (whole ? w : 1 + dice(&seed, w - x)),
                           .Height = whole ? h : 1 + dice(&seed, h - y), .Depth = whole ? d : 1 + dice(&seed, d - z) };
    const CUarray array = a->kind == 4 ? a->level[level] : a->array;
    size_t words = copy.WidthInBytes / 4 * copy.Height * copy.Depth;
    CHECK(words <= sizeof host / sizeof *host);
    if (in) {
        for (size_t i = 0; i < words; i++)
            host[i] = dice(&seed, 100000);
        copy.srcMemoryType = 1;
        copy.srcHost = host;
        copy.srcPitch = copy.WidthInBytes;
        copy.srcHeight = copy.Height;
        copy.dstMemoryType = 3;
        copy.dstArray = array;
        copy.dstXInBytes = 4 * x;
        copy.dstY = y;
        copy.dstZ = z;
        OK(cuMemcpy3D_v2(&copy));
        return;
    }
    copy.dstMemoryType = 1;
    copy.dstHost = host;
    copy.dstPitch = copy.WidthInBytes;
    copy.dstHeight = copy.Height;
    copy.srcMemoryType = 3;
    copy.srcArray = array;
    copy.srcXInBytes = 4 * x;
    copy.srcY = y;
    copy.srcZ = z;
    OK(cuMemcpy3D_v2(&copy));
    fnv_add(&hash, host, words * 4);
}

static CUtexObject texture_of(const CUDA_RESOURCE_DESC *from)
{
    CUtexObject texture;
    const CUDA_TEXTURE_DESC how = { .flags = 3 /* integers, normalized coordinates */, .maxMipmapLevelClamp = 10 };
    OK(cuTexObjectCreate(&texture, from, &how, NULL));
    return texture;
}

/* Fresh memory holds anything. */
static void array_new(struct shaped *a)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = { .Format = 3 /* u32 */, .NumChannels = 1 };
    *a = (struct shaped){ .there = true, .kind = (int)dice(&seed, 6), .width = WIDTH };
    a->height = a->kind == 5 ? 0 : a->kind == 3 ? WIDTH : 1 + dice(&seed, HEIGHT_MOST);
    a->depth = a->kind == 1 || a->kind == 2 ? 1 + dice(&seed, DEPTH_MOST) : a->kind == 3 ? 6 : 0;
    shape.Flags = a->kind == 2 ? 1 /* layered */ : a->kind == 3 ? 4 /* cube */ : a->kind == 0 ? 2 /* surface */ : 0;
    shape.Width = a->width;
    shape.Height = a->height;
    shape.Depth = a->depth;
    if (a->kind == 4) {
        shape.Height = a->height = WIDTH;
        OK(cuMipmappedArrayCreate(&a->mipmap, &shape, LEVELS));
        for (unsigned i = 0; i < LEVELS; i++) {
            if (i == 1)
                continue;                     /* a level that the program has not asked for */
            OK(cuMipmappedArrayGetLevel(&a->level[i], a->mipmap, i));
            array_copy(a, i, true, true);
        }
        a->texture = texture_of(&(CUDA_RESOURCE_DESC){ .resType = 1, .res.mipmap = { a->mipmap } });
        return;
    }
    OK(cuArray3DCreate_v2(&a->array, &shape));
    array_copy(a, 0, true, true);
    if (a->kind)
        return;
    const CUDA_RESOURCE_DESC from = { .resType = 0, .res.array = { a->array } };
    a->texture = texture_of(&from);
    OK(cuSurfObjectCreate(&a->surface, &from));
}

static void array_end(struct shaped *a)
{
    bool early = dice(&seed, 2); /* textures may go before or behind their array, or, leaving, never */
    if (early && a->texture)
        OK(cuTexObjectDestroy(a->texture));
    if (a->kind == 4)
        OK(cuMipmappedArrayDestroy(a->mipmap));
    else
        OK(cuArrayDestroy(a->array));
    if (!early && a->texture && dice(&seed, 2))
        OK(cuTexObjectDestroy(a->texture));
    if (a->surface && dice(&seed, 2))
        OK(cuSurfObjectDestroy(a->surface));
    a->there = false;
}

static void array_kernel(const struct shaped *a, CUdeviceptr out)
{
    uint32_t value = dice(&seed, 1000), height = a->height;
    float level = (float)(2 * dice(&seed, 2));
    if (a->surface && dice(&seed, 2)) {
        uint64_t surface = a->surface;
        OK(launch(paint, (void *[]){ &surface, &height, &value }));
        return;
    }
    if (!a->texture)
        return;
    uint64_t texture = a->texture;
    OK(launch(look, (void *[]){ &texture, &out, &height, &level }));
    OK(cuMemcpyDtoH_v2(host, out, WIDTH * height * 4));
    fnv_add(&hash, host, WIDTH * height * 4);
}

static void random_program(uint64_t with, bool moves)
{
    CUmodule modules[MODULES] = { 0 };
    CUdeviceptr out, words, managed;
    size_t size;
    int where = 0;
    uint32_t got;
    seed = with;
    begin();
    OK(cuMemAlloc_v2(&out, sizeof host));
    OK(cuMemAllocManaged(&managed, MANAGED_WORDS * 4, 1));
    uint32_t *shared = (uint32_t *)managed;
    memset(shared, 0, MANAGED_WORDS * 2);
    OK(launch(store, (void *[]){ &(uint32_t){ 0 } }));
    for (int step = 0; step < STEPS; step++) {
        struct shaped *a = &arrays[dice(&seed, ARRAYS)];
        CUmodule *m = &modules[dice(&seed, MODULES)];
        uint32_t value = dice(&seed, 1000);
        CUfunction count;
        if (dice(&seed, 10) == 0 && moves)
            move_to(where = !where);
        /* The program and kernels write managed memory; half of its pages are not written at all. */
        uint32_t word = dice(&seed, MANAGED_WORDS / 2), from = dice(&seed, MANAGED_WORDS / 2 - 4096);
        CUdeviceptr at = managed + 4 * dice(&seed, MANAGED_WORDS / 2);
        switch (dice(&seed, 4)) {
        case 0:
            shared[word] = value;
            break;
        case 1:
            OK(launch(apply, (void *[]){ &at, &value }));
            break;
        case 2:
            fnv_add(&hash, shared + from, 4096 * 4);
            break;
        default:
            break;
        }
        uint64_t bytes = 16 + dice(&seed, 20000);
        switch (dice(&seed, 4)) {
        case 0:
            OK(launch(push, (void *[]){ &bytes, &value }));
            break;
        case 1:
            OK(launch(pop, NULL));
            break;
        case 2:
            OK(launch(walk, (void *[]){ &out }));
            OK(cuMemcpyDtoH_v2(&got, out, 4));
            fnv_add(&hash, &got, 4);
            break;
        default:
            break;
        }
        OK(cuCtxSynchronize());
        switch (a->there ? dice(&seed, 8) : 0) {
        case 0:
            if (a->there)
                array_end(a);
            else
                array_new(a);
            break;
        case 1:
        case 2:
            array_copy(a, a->kind == 4 ? 2 * dice(&seed, 2) : 0, false, true);
            break;
        case 3:
            array_copy(a, a->kind == 4 ? 2 * dice(&seed, 2) : 0, false, false);
            break;
        case 4:
        case 5:
            array_kernel(a, out);
            break;
        case 6:
            if (dice(&seed, 3) == 0)
                OK(launch(store, (void *[]){ &(uint32_t){ value % 2 } }));
            OK(launch(apply, (void *[]){ &out, &value }));
            OK(cuMemcpyDtoH_v2(&got, out, 4));
            fnv_add(&hash, &got, 4);
            break;
        default:
            if (!*m || dice(&seed, 4) == 0) {
                char text[sizeof ptx_variable + 32];
                if (*m)
                    OK(cuModuleUnload(*m));
                snprintf(text, sizeof text, ptx_variable, 64u << dice(&seed, 16));
                OK(cuModuleLoadData(m, text));
            }
            OK(cuModuleGetFunction(&count, *m, "count"));
            OK(launch(count, (void *[]){ &out, &value }));
            OK(cuMemcpyDtoH_v2(&got, out, 4));
            fnv_add(&hash, &got, 4);
            OK(cuModuleGetGlobal_v2(&words, &size, *m, "words"));
            OK(cuMemcpyDtoH_v2(&got, words, 4));
            fnv_add(&hash, &got, 4);
        }
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
    printf("%016llx\n", (unsigned long long)hash);
}

static uint64_t program_seed;
static void body_still(void) { random_program(program_seed, false); }
static void body_moving(void) { random_program(program_seed, true); }

TEST(random_programs)
{
    for (program_seed = 1; program_seed <= 6; program_seed++) {
        char still[2000], moving[2000];
        assert_int_equal(isolated_output(body_still, 60, still, sizeof still), 0);
        assert_int_equal(isolated_output(body_moving, 60, moving, sizeof moving), 0);
        assert_string_equal(still, moving);
    }
}

/* ---- an array whose rows are longer than a call can carry ---- */

static void body_wide(void)
{
    enum { ELEMENTS = 100000, ROWS = 3 };
    static uint8_t data[ROWS][ELEMENTS][16], got[ROWS][ELEMENTS][16];
    const CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = ELEMENTS, .Height = ROWS, .Format = 3, .NumChannels = 4 };
    CUDA_MEMCPY3D copy = { .WidthInBytes = sizeof data[0], .Height = ROWS, .Depth = 1, .srcMemoryType = 1,
                           .srcHost = data, .srcPitch = sizeof data[0], .srcHeight = ROWS, .dstMemoryType = 3 };
    begin();
    for (size_t i = 0; i < sizeof data; i++)
        ((uint8_t *)data)[i] = (uint8_t)(i * 7 + i / 251);
    OK(cuArray3DCreate_v2(&copy.dstArray, &shape));
    OK(cuMemcpy3D_v2(&copy));
    move_to(1);
    const CUDA_MEMCPY3D back = { .WidthInBytes = sizeof data[0], .Height = ROWS, .Depth = 1, .dstMemoryType = 1,
                                 .dstHost = got, .dstPitch = sizeof data[0], .dstHeight = ROWS, .srcMemoryType = 3,
                                 .srcArray = copy.dstArray };
    OK(cuMemcpy3D_v2(&back));
    CHECK(memcmp(data, got, sizeof data) == 0 && core_sticky() == 0);
}

/* ---- a texture whose array has ended ---- */

static void body_ended(void)
{
    struct shaped *a = &arrays[0];
    CUtexObject others[8];
    CUdeviceptr memory;
    begin();
    seed = 3;
    do
        array_new(a);
    while (a->kind);
    OK(cuMemAlloc_v2(&memory, 4096));
    OK(cuArrayDestroy(a->array));
    for (int i = 1; i <= 3; i++) {
        move_to(i % 2);
        /* none gets the value of the one that is no more */
        for (int t = 0; t < 8; t++) {
            others[t] = texture_of(&(CUDA_RESOURCE_DESC){ .resType = 2, .res.linear = { memory, 3, 1, 4096 } });
            CHECK(others[t] != a->texture && others[t] != a->surface);
        }
        for (int t = 0; t < 8; t++)
            OK(cuTexObjectDestroy(others[t]));
    }
    OK(cuTexObjectDestroy(a->texture));
    OK(cuTexObjectDestroy(a->texture)); /* no error natively either */
    uint32_t height = 1, value = 0;
    uint64_t surface = a->surface;
    OK(launch(paint, (void *[]){ &surface, &height, &value }));
    CHECK(cuCtxSynchronize() == 700);
}

/* ---- a program that has ended all its contexts, but whose session keeps page-locked memory of its own ---- */

static void body_contextless(void)
{
    static uint8_t data[3 << 20], got[sizeof data];
    CUdeviceptr memory;
    for (int i = 1; i <= 3; i++) {
        begin();
        memset(data, i, sizeof data);
        OK(cuMemAlloc_v2(&memory, sizeof data));
        OK(cuMemcpyHtoD_v2(memory, data, sizeof data));
        OK(cuMemcpyDtoH_v2(got, memory, sizeof data));
        CHECK(memcmp(data, got, sizeof data) == 0);
        OK(cuDevicePrimaryCtxReset_v2(0));
        OK(cuDevicePrimaryCtxRelease_v2(0));
        move_to(i % 2);
    }
}

#define ISOLATED(name, limit) TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(wide, 60)
ISOLATED(ended, 60)
ISOLATED(contextless, 60)

int main(int argc, char **argv)
{
    suspends = argc > 3 && strcmp(argv[3], "suspend") == 0;
    return two_servers_run(argc, argv, " [suspend]");
}
