/* tensors.c: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor against a model: ranks, types, edges, steps,
 * swizzling, several blocks of a cluster. */
#include "tests/exec/main.h"

#include <stdio.h>
#include <string.h>

#include "softgpu/tensor.h"

enum { BOX_BYTES = 16384, TENSOR_BYTES = 1 << 18 };

static uint64_t seed = 20261122;
static uint32_t random_below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static void fill_random(void *to, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)to)[i] = (unsigned char)random_below(256);
}

/* A map of a tensor with that many dimensions, and a box of it. *lines: of the box; *pitch: bytes between two lines */
static void make_map(struct sg_tensor *t, unsigned rank, void *memory, unsigned *lines, unsigned *pitch)
{
    uint64_t stride;
    unsigned each;
    memset(t, 0, sizeof *t);
    t->magic = SG_TENSOR_MAGIC;
    t->rank = (uint8_t)rank;
    t->type = (uint8_t)random_below(SG_TENSOR_TYPES);
    t->swizzle = (uint8_t)random_below(4);
    t->fill_nan = t->type >= SG_TENSOR_F16 && random_below(2);
    t->address = ARG(memory);
    each = sg_tensor_size(t->type);
    unsigned pieces = 1 + random_below(t->swizzle ? 1u << t->swizzle : 8);
    t->box[0] = (uint16_t)(pieces * 16 / each);
    t->steps[0] = 1;
    t->last[0] = random_below(t->box[0] + 20);
    stride = ((uint64_t)(t->last[0] + 1) * each + 15 + 16 * random_below(2)) / 16 * 16;
    *lines = 1;
    for (unsigned k = 1; k < rank; k++) {
        t->box[k] = (uint16_t)(1 + random_below(rank > 3 ? 3 : 5));
        t->steps[k] = (uint8_t)(1 + random_below(3));
        t->last[k] = random_below(6);
        t->strides[k - 1] = stride;
        stride *= t->last[k] + 1;
        *lines *= t->box[k];
    }
    *pitch = t->swizzle ? 16u << t->swizzle : t->box[0] * each;
}

/* Where the element of that line and place lies in global memory; NULL: beyond the tensor's edges. */
static unsigned char *global_of(const struct sg_tensor *t, const int32_t from[], unsigned line, unsigned place)
{
    int64_t first = (int64_t)from[0] + place;
    uint64_t at = t->address + (uint64_t)(first * sg_tensor_size(t->type));
    bool inside = first >= 0 && first <= t->last[0];
    for (unsigned k = 1; k < t->rank; k++) {
        int64_t here = from[k] + (int64_t)(line % t->box[k]) * t->steps[k];
        line /= t->box[k];
        inside &= here >= 0 && here <= (int64_t)t->last[k];
        at += (uint64_t)here * t->strides[k - 1];
    }
    return inside ? (unsigned char *)(uintptr_t)at : NULL;
}

static unsigned shared_of(const struct sg_tensor *t, unsigned pitch, unsigned line, unsigned byte)
{
    unsigned at = line * pitch + byte;
    return at ^ (at >> 7 & ((1u << t->swizzle) - 1)) << 4;
}

static void missing_value(const struct sg_tensor *t, unsigned char *to)
{
    const uint64_t nan = t->type == SG_TENSOR_F64    ? UINT64_C(0x7ff8000000000000)
                         : t->type == SG_TENSOR_F16  ? 0x7e00
                         : t->type == SG_TENSOR_BF16 ? 0x7fc0
                                                     : 0x7fc00000;
    memset(to, 0, 8);
    if (t->fill_nan)
        memcpy(to, &nan, 8);
}

/* arguments: the map, five coordinates as 32-bit numbers, 16384 bytes to or from, the bytes that a box has */
#define ENTRY(name, body)                                                                                           \
    ".visible .entry " name "(.param .u64 map, .param .u64 at, .param .u64 box, .param .u64 bytes)\n{\n"             \
    ".reg .pred p<4>; .reg .b32 r<16>; .reg .b64 a<8>;\n"                                                            \
    "ld.param.u64 a0, [map]; ld.param.u64 a1, [at]; ld.param.u64 a2, [box]; ld.param.u32 r9, [bytes];\n"             \
    "ld.global.u32 r0, [a1]; ld.global.u32 r1, [a1+4]; ld.global.u32 r2, [a1+8]; ld.global.u32 r3, [a1+12]; "        \
    "ld.global.u32 r4, [a1+16]; mov.u32 r5, s; mov.u32 r6, bar;\n" body "\nret;\n}\n"
#define SHARED ".shared .align 1024 .b8 s[16384]; .shared .align 8 .b64 bar;\n"
#define FROM_SHARED                                                                                                  \
    "mov.u32 r7, 0;\nC: add.u32 r8, r5, r7; cvt.u64.u32 a3, r7; add.u64 a3, a3, a2; ld.shared.u32 r10, [r8]; "       \
    "st.global.u32 [a3], r10; add.u32 r7, r7, 4; setp.lt.u32 p1, r7, 16384;\n@p1 bra C;\n"
#define TO_SHARED                                                                                                    \
    "mov.u32 r7, 0;\nC: add.u32 r8, r5, r7; cvt.u64.u32 a3, r7; add.u64 a3, a3, a2; ld.global.u32 r10, [a3]; "       \
    "st.shared.u32 [r8], r10; add.u32 r7, r7, 4; setp.lt.u32 p1, r7, 16384;\n@p1 bra C;\n"
#define COORDINATES1 "{r0}"
#define COORDINATES2 "{r0, r1}"
#define COORDINATES3 "{r0, r1, r2}"
#define COORDINATES4 "{r0, r1, r2, r3}"
#define COORDINATES5 "{r0, r1, r2, r3, r4}"
#define LOAD(n)                                                                                                      \
    ENTRY("load" #n, TO_SHARED                                                                                       \
          "mbarrier.init.shared.b64 [r6], 1; mbarrier.arrive.expect_tx.shared.b64 _, [r6], r9;\n"                    \
          "cp.async.bulk.tensor." #n "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [r5], [a0, "        \
          COORDINATES##n "], [r6];\nW: mbarrier.try_wait.parity.shared.b64 p2, [r6], 0;\n@!p2 bra W;\n"               \
          "mov.u32 r7, 0;\nD: add.u32 r8, r5, r7; cvt.u64.u32 a3, r7; add.u64 a3, a3, a2; ld.shared.u32 r10, [r8]; " \
          "st.global.u32 [a3], r10; add.u32 r7, r7, 4; setp.lt.u32 p1, r7, 16384;\n@p1 bra D;\n")
#define STORE(n)                                                                                                     \
    ENTRY("store" #n, TO_SHARED                                                                                      \
          "cp.async.bulk.prefetch.tensor." #n "d.L2.global [a0, " COORDINATES##n "];\n"                              \
          "cp.async.bulk.tensor." #n "d.global.shared::cta.bulk_group [a0, " COORDINATES##n "], [r5];\n"             \
          "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;")
#define REDUCE(n, op)                                                                                                \
    ENTRY(#op #n, TO_SHARED                                                                                          \
          "cp.reduce.async.bulk.tensor." #n "d.global.shared::cta." #op ".tile.bulk_group [a0, " COORDINATES##n      \
          "], [r5];\n")
#define EACH(what) what(1) what(2) what(3) what(4) what(5)

static struct sg_tensor *map;
static int32_t *from;
static unsigned char *box, *tensor;

static void choose(unsigned rank, unsigned *lines, unsigned *pitch)
{
    make_map(map, rank, tensor, lines, pitch);
    for (unsigned k = 0; k < 5; k++)
        from[k] = (int32_t)random_below(2 * map->box[k] + map->last[k] + 2) - map->box[k] - 1;
    fill_random(box, BOX_BYTES);
}

static void load_into_memory(const char *ptx)
{
    gpu_load(ptx);
    map = gpu_alloc(128);
    from = gpu_alloc(64);
    box = gpu_alloc(BOX_BYTES);
    tensor = gpu_alloc(TENSOR_BYTES);
    fill_random(tensor, TENSOR_BYTES);
}

static void boxes_are_loaded(void **state)
{
    (void)state;
    static unsigned char expected[BOX_BYTES];
    load_into_memory(SHARED EACH(LOAD));
    for (int i = 0; i < 300; i++) {
        unsigned rank = 1 + random_below(5), lines, pitch;
        char name[16];
        choose(rank, &lines, &pitch);
        unsigned each = sg_tensor_size(map->type);
        memcpy(expected, box, BOX_BYTES);
        for (unsigned line = 0; line < lines; line++)
            for (unsigned place = 0; place < map->box[0]; place++) {
                unsigned char value[8];
                const unsigned char *at = global_of(map, from, line, place);
                missing_value(map, value);
                if (at)
                    memcpy(value, at, each);
                if (map->type == SG_TENSOR_F32_FTZ || map->type == SG_TENSOR_TF32_FTZ)
                    if (!((value[3] & 0x7f) | (value[2] & 0x80)))
                        memset(value, 0, 3), value[3] &= 0x80;
                memcpy(expected + shared_of(map, pitch, line, place * each), value, each);
            }
        snprintf(name, sizeof name, "load%u", rank);
        assert_int_equal(gpu_run(name, 1, 1, 4, ARG(map), ARG(from), ARG(box),
                                 (uint64_t)lines * map->box[0] * each), CUDA_SUCCESS);
        assert_memory_equal(box, expected, BOX_BYTES);
    }
}

static void boxes_are_stored(void **state)
{
    (void)state;
    static unsigned char expected[TENSOR_BYTES];
    load_into_memory(SHARED EACH(STORE));
    for (int i = 0; i < 200; i++) {
        unsigned rank = 1 + random_below(5), lines, pitch;
        char name[16];
        choose(rank, &lines, &pitch);
        unsigned each = sg_tensor_size(map->type);
        memcpy(expected, tensor, TENSOR_BYTES);
        for (unsigned line = 0; line < lines; line++)
            for (unsigned place = 0; place < map->box[0]; place++) {
                unsigned char *at = global_of(map, from, line, place);
                if (at)
                    memcpy(expected + (at - tensor), box + shared_of(map, pitch, line, place * each), each);
            }
        snprintf(name, sizeof name, "store%u", rank);
        assert_int_equal(gpu_run(name, 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(0)), CUDA_SUCCESS);
        assert_memory_equal(tensor, expected, TENSOR_BYTES);
    }
}

static void boxes_are_added(void **state)
{
    (void)state;
    static uint32_t expected[TENSOR_BYTES / 4];
    load_into_memory(SHARED REDUCE(2, add) REDUCE(3, xor));
    for (int i = 0; i < 100; i++) {
        unsigned rank = 2 + random_below(2), lines, pitch;
        do
            choose(rank, &lines, &pitch);
        while (map->type != SG_TENSOR_U32 && map->type != SG_TENSOR_S32);
        memcpy(expected, tensor, TENSOR_BYTES);
        for (unsigned line = 0; line < lines; line++)
            for (unsigned place = 0; place < map->box[0]; place++) {
                unsigned char *at = global_of(map, from, line, place);
                uint32_t value;
                memcpy(&value, box + shared_of(map, pitch, line, place * 4), 4);
                if (at && rank == 2)
                    expected[(at - tensor) / 4] += value;
                else if (at)
                    expected[(at - tensor) / 4] ^= value;
            }
        assert_int_equal(gpu_run(rank == 2 ? "add2" : "xor3", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(0)),
                         CUDA_SUCCESS);
        assert_memory_equal(tensor, expected, TENSOR_BYTES);
    }
}

/* The first block loads a line of 64 bytes into blocks 0 and 3 of its cluster. */
static void a_box_reaches_several_blocks(void **state)
{
    (void)state;
    load_into_memory(SHARED ENTRY("k",
        "mov.u32 r10, %cluster_ctarank; st.shared.u32 [r5], 0; mbarrier.init.shared.b64 [r6], 1; "
        "mbarrier.arrive.expect_tx.shared.b64 _, [r6], r9; barrier.cluster.arrive; barrier.cluster.wait;\n"
        "setp.ne.u32 p1, r10, 0; mov.b32 r11, 9; .reg .b16 h; cvt.u16.u32 h, r11;\n@p1 bra R;\n"
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [r5], "
        "[a0, {r0}], "
        "[r6], h;\n"
        "R: barrier.cluster.arrive; barrier.cluster.wait;\nmbarrier.test_wait.parity.shared.b64 p2, [r6], 0; "
        "selp.u32 r12, 1, 0, p2; ld.shared.u32 r13, [r5]; mul.wide.u32 a3, r10, 8; add.u64 a3, a3, a2; "
        "st.global.u32 [a3], r12; st.global.u32 [a3+4], r13;"));
    *map = (struct sg_tensor){ .magic = SG_TENSOR_MAGIC, .rank = 1, .type = SG_TENSOR_U32, .address = ARG(tensor),
                               .last = { 99 }, .box = { 16 }, .steps = { 1 } };
    from[0] = 5;
    struct gpu_shape shape = { { 4, 1, 1 }, { 1, 1, 1 }, 0, 0, { 4, 1, 1 } };
    const uint64_t arguments[] = { ARG(map), ARG(from), ARG(box), 64 };
    assert_int_equal(gpu_launch("k", &shape, 4, arguments, 20), CUDA_SUCCESS);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(((uint32_t *)(void *)box)[2 * i], i % 3 == 0);
        assert_int_equal(((uint32_t *)(void *)box)[2 * i + 1], i % 3 == 0 ? ((uint32_t *)(void *)tensor)[5] : 0);
    }
}

static void wrong_maps_end_the_kernel(void **state)
{
    (void)state;
    load_into_memory(SHARED EACH(LOAD) REDUCE(2, and));
    unsigned lines, pitch;
    choose(2, &lines, &pitch);
    const uint64_t bytes = (uint64_t)lines * map->box[0] * sg_tensor_size(map->type);
    assert_int_equal(gpu_run("load3", 1, 1, 4, ARG(map), ARG(from), ARG(box), bytes), CUDA_ERROR_ILLEGAL_INSTRUCTION);
    assert_int_equal(gpu_run("load2", 1, 1, 4, ARG(map) + 16, ARG(from), ARG(box), bytes),
                     CUDA_ERROR_MISALIGNED_ADDRESS);
    assert_int_equal(gpu_run("load2", 1, 1, 4, UINT64_C(4096), ARG(from), ARG(box), bytes), CUDA_ERROR_ILLEGAL_ADDRESS);
    map->type = SG_TENSOR_F32;
    map->box[0] = 4;
    from[0] = from[1] = 0;
    assert_int_equal(gpu_run("and2", 1, 1, 4, ARG(map), ARG(from), ARG(box), bytes), CUDA_ERROR_ILLEGAL_INSTRUCTION);
    map->address = 4096;
    assert_int_equal(gpu_run("load2", 1, 1, 4, ARG(map), ARG(from), ARG(box), bytes), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_non_null(gpu_refuses(SHARED ENTRY("g", "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4."
                                             "mbarrier::"
                                             "complete_tx::bytes [r5], [a0, {r0, r1, r2, r3, r4}], [r6];"), "g"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXEC_TEST(boxes_are_loaded),
        EXEC_TEST(boxes_are_stored),
        EXEC_TEST(boxes_are_added),
        EXEC_TEST(a_box_reaches_several_blocks),
        EXEC_TEST(wrong_maps_end_the_kernel),
    };
    return EXEC_MAIN(tests);
}
