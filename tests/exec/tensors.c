/*
 * tensors.c: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor against a model: ranks, types, edges, steps,
 * swizzling, several blocks of a cluster, im2col, gather4 and scatter4, packed types; tensormap.
 *
 * shows: software GPU: tensor copies of all modes, im2col, im2col::w, gather4 and scatter4 among them, with every
 *   swizzle, move what a model on the host says; tensormap.replace changes each field.
 */
#include "tests/exec/main.h"

#include "softgpu/tensor.h"
#include "tests/lib/dice.h"

enum { BOX_BYTES = 16384, TENSOR_BYTES = 1 << 18 };

static uint64_t seed = 20261122;
static uint32_t random_below(uint32_t n) { return dice(&seed, n); }

static void fill_random(void *to, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)to)[i] = (unsigned char)random_below(256);
}

/* By enum sg_tensor_swizzle, in bytes: pieces change places within a span. */
static const unsigned spans[] = { 16, 32, 64, 128, 128, 128, 128 }, pieces_of[] = { 16, 16, 16, 16, 32, 32, 64 };

/* A map of a tensor with that many dimensions, and a box of it. *lines: of the box; *pitch: bytes between two lines */
static void make_map(struct sg_tensor *t, unsigned rank, void *memory, unsigned *lines, unsigned *pitch)
{
    uint64_t stride;
    unsigned each;
    memset(t, 0, sizeof *t);
    t->magic = SG_TENSOR_MAGIC;
    t->rank = (uint8_t)rank;
    t->type = (uint8_t)random_below(SG_TENSOR_U4);
    t->swizzle = (uint8_t)random_below(SG_TENSOR_SWIZZLES);
    t->fill_nan = t->type >= SG_TENSOR_F16 && random_below(2);
    t->address = ARG(memory);
    each = sg_tensor_unit(t->type).shared;
    unsigned pieces = 1 + random_below(t->swizzle ? spans[t->swizzle] / 16 : 8);
    t->box[0] = (uint16_t)(pieces * 16 / each);
    t->steps[0] = 1;
    t->last[0] = random_below(t->box[0] + 20);
    stride = ((uint64_t)(t->last[0] + 1) * each + 15 + 16 * random_below(2)) / 16 * 16;
    *lines = 1;
    for (unsigned k = 1; k < rank; k++) {
        unsigned count = 1 + random_below(rank > 3 ? 3 : 5);
        t->steps[k] = (uint8_t)(1 + random_below(3));
        t->box[k] = (uint16_t)(count * t->steps[k] - random_below(t->steps[k]));
        t->last[k] = random_below(6);
        t->strides[k - 1] = stride;
        stride *= t->last[k] + 1;
        *lines *= count;
    }
    *pitch = t->swizzle ? spans[t->swizzle] : t->box[0] * each;
}

/* Where the element of that line and place lies in global memory; NULL: beyond the tensor's edges. */
static unsigned char *global_of(const struct sg_tensor *t, const int32_t from[], unsigned line, unsigned place)
{
    int64_t first = (int64_t)from[0] + place;
    uint64_t at = t->address + (uint64_t)(first * sg_tensor_unit(t->type).shared);
    bool inside = first >= 0 && first <= t->last[0];
    for (unsigned k = 1; k < t->rank; k++) {
        int64_t here = from[k] + (int64_t)(line % sg_tensor_count(t, k)) * t->steps[k];
        line /= sg_tensor_count(t, k);
        inside &= here >= 0 && here <= (int64_t)t->last[k];
        at += (uint64_t)here * t->strides[k - 1];
    }
    return inside ? (unsigned char *)(uintptr_t)at : NULL;
}

static unsigned shared_of(const struct sg_tensor *t, unsigned pitch, unsigned line, unsigned byte)
{
    unsigned at = line * pitch + byte, piece = pieces_of[t->swizzle], row = at / 128;
    if (t->swizzle == SG_TENSOR_SWIZZLE_PIECES_32_FLIP && row % 2) /* the halves of 16 bytes, in each second row */
        at ^= 8;
    return at ^ (row % (spans[t->swizzle] / piece)) * piece;
}

static void missing_value(const struct sg_tensor *t, unsigned char *to)
{
    const uint64_t nan = UINT64_C(0x7ff77ff77ff77ff7); /* of elements of 2, 4 and 8 bytes */
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

/* to_memory: nothing can be stored with the swizzle that flips. */
static void choose_for(bool to_memory, unsigned rank, unsigned *lines, unsigned *pitch)
{
    do
        make_map(map, rank, tensor, lines, pitch);
    while (to_memory && map->swizzle == SG_TENSOR_SWIZZLE_PIECES_32_FLIP);
    for (unsigned k = 0; k < 5; k++)
        from[k] = (int32_t)random_below(2 * map->box[k] + map->last[k] + 2) - map->box[k] - 1;
    fill_random(box, BOX_BYTES);
}

static void choose(unsigned rank, unsigned *lines, unsigned *pitch) { choose_for(true, rank, lines, pitch); }

static void load_into_memory(const char *ptx)
{
    gpu_load(ptx);
    map = gpu_alloc(128);
    from = gpu_alloc(64);
    box = gpu_alloc(BOX_BYTES);
    tensor = gpu_alloc(TENSOR_BYTES);
    fill_random(tensor, TENSOR_BYTES);
}

EXEC_TEST(boxes_are_loaded)
{
    static unsigned char expected[BOX_BYTES];
    load_into_memory(SHARED EACH(LOAD));
    for (int i = 0; i < 300; i++) {
        unsigned rank = 1 + random_below(5), lines, pitch;
        char name[16];
        choose_for(false, rank, &lines, &pitch);
        unsigned each = sg_tensor_unit(map->type).shared;
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

EXEC_TEST(boxes_are_stored)
{
    static unsigned char expected[TENSOR_BYTES];
    load_into_memory(SHARED EACH(STORE));
    for (int i = 0; i < 200; i++) {
        unsigned rank = 1 + random_below(5), lines, pitch;
        char name[16];
        choose(rank, &lines, &pitch);
        unsigned each = sg_tensor_unit(map->type).shared;
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

EXEC_TEST(boxes_are_added)
{
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
EXEC_TEST(a_box_reaches_several_blocks)
{
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

EXEC_TEST(wrong_maps_end_the_kernel)
{
    load_into_memory(SHARED EACH(LOAD) STORE(1) REDUCE(2, and));
    *map = (struct sg_tensor){ .magic = SG_TENSOR_MAGIC,
                               .rank = 1,
                               .type = SG_TENSOR_U32,
                               .address = ARG(tensor),
                               .last = { 99 },
                               .box = { 16 },
                               .steps = { 1 },
                               .swizzle = SG_TENSOR_SWIZZLE_PIECES_32_FLIP };
    assert_int_equal(gpu_run("store1", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(0)),
                     CUDA_ERROR_ILLEGAL_INSTRUCTION);
    unsigned lines, pitch;
    choose(2, &lines, &pitch);
    const uint64_t bytes = (uint64_t)lines * map->box[0] * sg_tensor_unit(map->type).shared;
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
    assert_non_null(gpu_refuses(SHARED ENTRY("g", "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::"
                                                  "complete_tx::bytes [r5], [a0, {r0, r1, r2}], [r6], {r3};"),
                                "g"));
    assert_non_null(gpu_refuses(SHARED ENTRY("g", "cp.async.bulk.tensor.2d.shared::cluster.global.im2col::w.mbarrier::"
                                                  "complete_tx::bytes [r5], [a0, {r0, r1}], [r6], {r3, r4};"),
                                "g"));
    assert_non_null(gpu_refuses(SHARED ENTRY("g", "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::h.mbarrier::"
                                                  "complete_tx::bytes [r5], [a0, {r0, r1, r2}], [r6], {r3, r4};"),
                                "g"));
}

/* --- modes --- */

#define WAIT_AND_RETURN                                                                                              \
    "W: mbarrier.try_wait.parity.shared.b64 p2, [r6], 0;\n@!p2 bra W;\nmov.u32 r7, 0;\n"                             \
    "D: add.u32 r8, r5, r7; cvt.u64.u32 a3, r7; add.u64 a3, a3, a2; ld.shared.u32 r10, [r8]; "                       \
    "st.global.u32 [a3], r10; add.u32 r7, r7, 4; setp.lt.u32 p1, r7, 16384;\n@p1 bra D;\n"
#define LOADED "mbarrier.init.shared.b64 [r6], 1; mbarrier.arrive.expect_tx.shared.b64 _, [r6], r9;\n"
#define PIXELS(n, offsets)                                                                                           \
    ENTRY("pixels" #n, TO_SHARED LOADED ".reg .b16 h<3>; ld.global.u16 h0, [a1+20]; ld.global.u16 h1, [a1+22]; "     \
          "ld.global.u16 h2, [a1+24];\ncp.async.bulk.tensor." #n "d.shared::cluster.global.im2col.mbarrier::"        \
          "complete_tx::bytes [r5], [a0, " COORDINATES##n "], [r6], " offsets ";\n" WAIT_AND_RETURN)                 \
    ENTRY("back" #n, TO_SHARED "cp.async.bulk.tensor." #n "d.global.shared::cta.im2col_no_offs.bulk_group [a0, "     \
          COORDINATES##n "], [r5]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;")

/* A map of an image of rank 3 to 5: channels, spatial dimensions, images. */
static void make_image(struct sg_tensor *t, unsigned rank)
{
    unsigned lines, pitch;
    make_map(t, rank, tensor, &lines, &pitch);
    unsigned each = sg_tensor_unit(t->type).shared;
    uint64_t stride = 0;
    t->im2col = 1;
    t->pixels = (uint16_t)(1 + random_below(40));
    for (unsigned k = 1; k < rank; k++) {
        t->steps[k] = k < rank - 1 ? (uint8_t)(1 + random_below(2)) : 1;
        t->last[k] = 2 + random_below(4);
        stride = k == 1 ? (t->last[0] + 1 + 15) * each / 16 * 16 : stride * (t->last[k - 1] + 1);
        t->strides[k - 1] = stride;
        t->box[k] = 1;
        if (k < rank - 1) {
            t->lower[k - 1] = (int16_t)((int)random_below(4) - 2);
            t->upper[k - 1] = (int16_t)((int)random_below(4) - 2);
        }
    }
}

/* The pixel of that number, counted from `from` within the bounding box: where its channels lie; NULL: outside. */
static unsigned char *pixel_of(const struct sg_tensor *t, const int32_t at[], const uint16_t *offsets, unsigned number,
                               unsigned channel)
{
    int position[SG_TENSOR_RANK];
    const unsigned last = t->rank - 1u;
    for (unsigned k = 1; k <= last; k++)
        position[k] = at[k];
    while (number--) { /* one step through all dimensions, carrying */
        unsigned k = 1;
        for (; k < last; k++) {
            position[k] += t->steps[k];
            if (position[k] < (int)t->last[k] + 1 + t->upper[k - 1])
                break;
            position[k] = t->lower[k - 1];
        }
        if (k == last)
            position[last]++;
    }
    int64_t c = (int64_t)at[0] + channel;
    uint64_t address = t->address + (uint64_t)(c * sg_tensor_unit(t->type).global);
    bool inside = c >= 0 && c <= (int64_t)t->last[0];
    for (unsigned k = 1; k <= last; k++) {
        int64_t here = position[k] + (k < last && offsets ? offsets[k - 1] : 0);
        inside &= here >= 0 && here <= (int64_t)t->last[k];
        address += (uint64_t)here * t->strides[k - 1];
    }
    return inside ? (unsigned char *)(uintptr_t)address : NULL;
}

#define ROW(n, mode, name)                                                                                    \
    ENTRY(name #n, TO_SHARED LOADED ".reg .b16 h<3>; ld.global.u16 h0, [a1+20]; ld.global.u16 h1, [a1+22];\n" \
                                    "cp.async.bulk.tensor." #n "d.shared::cluster.global." mode               \
                                    ".mbarrier::complete_tx::bytes [r5], [a0, " COORDINATES##n                \
          "], [r6], {h0, h1};\n" WAIT_AND_RETURN)
#define ROWS(n) ROW(n, "im2col::w", "row") ROW(n, "im2col::w::128", "long")

/* The pixel of that number along the row, from image to image; NULL: outside. */
static unsigned char *row_pixel(const struct sg_tensor *t, const int32_t at[], unsigned offset, unsigned number,
                                unsigned channel)
{
    const unsigned last = t->rank - 1u;
    const int end = (int)t->last[1] + t->upper[0];
    int x = at[1], image = at[last];
    for (unsigned i = 0; i < number; i++)
        if ((x += t->steps[1]) > end) {
            x = t->lower[0];
            image++;
        }
    int64_t index[SG_TENSOR_RANK] = { (int64_t)at[0] + channel, x + (int)offset, 0, 0, 0 };
    for (unsigned k = 2; k < last; k++)
        index[k] = at[k];
    index[last] = image;
    uint64_t address = t->address + (uint64_t)(index[0] * sg_tensor_unit(t->type).global);
    bool inside = index[0] >= 0 && index[0] <= (int64_t)t->last[0];
    for (unsigned k = 1; k <= last; k++) {
        inside &= index[k] >= 0 && index[k] <= (int64_t)t->last[k];
        address += (uint64_t)index[k] * t->strides[k - 1];
    }
    return inside ? (unsigned char *)(uintptr_t)address : NULL;
}

/* A map for it: swizzled, a box with pixels, and lines that fit in shared memory with their halos. */
static void make_row(unsigned rank, bool all_128, unsigned halo)
{
    unsigned lines;
    do {
        make_image(map, rank);
        map->im2col = all_128 ? SG_TENSOR_IM2COL_W128 : SG_TENSOR_IM2COL_W;
        lines = all_128 ? 4 * (32 + halo) : map->pixels + halo;
    } while ((map->swizzle != SG_TENSOR_SWIZZLE_64 && map->swizzle != SG_TENSOR_SWIZZLE_128 &&
              map->swizzle != SG_TENSOR_SWIZZLE_PIECES_32) ||
             lines * spans[map->swizzle] > BOX_BYTES || (int)map->last[1] + map->upper[0] < map->lower[0]);
    if (all_128)
        map->pixels = 0;
}

EXEC_TEST(rows_go_through_images)
{
    static unsigned char expected[BOX_BYTES];
    load_into_memory(SHARED ROWS(3) ROWS(4) ROWS(5));
    for (int i = 0; i < 200; i++) {
        const unsigned rank = 3 + random_below(3), halo = random_below(4), offset = random_below(3);
        const bool all_128 = random_below(2);
        uint16_t *info = (uint16_t *)(void *)(from + 5);
        char name[16];
        make_row(rank, all_128, all_128 && halo > 2 ? 0 : halo);
        info[0] = all_128 && halo > 2 ? 0 : (uint16_t)halo;
        info[1] = (uint16_t)offset;
        const unsigned each = sg_tensor_unit(map->type).shared, pitch = spans[map->swizzle],
                       group = all_128 ? 32 : map->pixels, lines = (all_128 ? 4 : 1) * (group + info[0]);
        from[0] = (int32_t)random_below(map->last[0] + 8) - 4;
        for (unsigned k = 1; k < rank; k++)
            from[k] = (int32_t)random_below(4) - (k == 1);
        from[1] += map->lower[0];
        fill_random(box, BOX_BYTES);
        memcpy(expected, box, BOX_BYTES);
        for (unsigned line = 0; line < lines; line++)
            for (unsigned channel = 0; channel < map->box[0]; channel++) {
                const unsigned number = line / (group + info[0]) * group + line % (group + info[0]);
                unsigned char value[8], *at = row_pixel(map, from, offset, number, channel);
                missing_value(map, value);
                if (at)
                    memcpy(value, at, each);
                if (map->type == SG_TENSOR_F32_FTZ || map->type == SG_TENSOR_TF32_FTZ)
                    if (!((value[3] & 0x7f) | (value[2] & 0x80)))
                        memset(value, 0, 3), value[3] &= 0x80;
                memcpy(expected + shared_of(map, pitch, line, channel * each), value, each);
            }
        snprintf(name, sizeof name, "%s%u", all_128 ? "long" : "row", rank);
        assert_int_equal(gpu_run(name, 1, 1, 4, ARG(map), ARG(from), ARG(box), (uint64_t)lines * map->box[0] * each),
                         CUDA_SUCCESS);
        assert_memory_equal(box, expected, BOX_BYTES);
    }
    make_row(3, true, 0);
    assert_int_equal(gpu_run("row3", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(1)),
                     CUDA_ERROR_ILLEGAL_INSTRUCTION);
}

EXEC_TEST(pixels_become_columns)
{
    static unsigned char expected[TENSOR_BYTES];
    load_into_memory(SHARED PIXELS(3, "{h0}") PIXELS(4, "{h0, h1}") PIXELS(5, "{h0, h1, h2}"));
    for (int i = 0; i < 300; i++) {
        unsigned rank = 3 + random_below(3);
        bool back = random_below(3) == 0;
        char name[16];
        do
            make_image(map, rank);
        while ((back && map->swizzle == SG_TENSOR_SWIZZLE_PIECES_32_FLIP) ||
               map->pixels * (map->swizzle ? spans[map->swizzle] : sg_tensor_line_bytes(map)) > BOX_BYTES);
        unsigned each = sg_tensor_unit(map->type).shared;
        unsigned pitch = map->swizzle ? spans[map->swizzle] : map->box[0] * each;
        from[0] = (int32_t)random_below(map->last[0] + 8) - 4;
        for (unsigned k = 1; k < rank; k++)
            from[k] = k < rank - 1 ? map->lower[k - 1] + (int)(map->steps[k] * random_below(3)) : (int)random_below(3);
        uint16_t *offsets = (uint16_t *)(void *)(from + 5);
        for (unsigned k = 0; k < 3; k++)
            offsets[k] = (uint16_t)random_below(3);
        fill_random(box, BOX_BYTES);
        memcpy(expected, back ? tensor : box, back ? TENSOR_BYTES : BOX_BYTES);
        for (unsigned pixel = 0; pixel < map->pixels; pixel++)
            for (unsigned channel = 0; channel < map->box[0]; channel++) {
                unsigned char value[8], *at = pixel_of(map, from, back ? NULL : offsets, pixel, channel);
                unsigned where = shared_of(map, pitch, pixel, channel * each);
                missing_value(map, value);
                if (back && at) {
                    memcpy(expected + (at - tensor), box + where, each);
                    continue;
                }
                if (at)
                    memcpy(value, at, each);
                if (map->type == SG_TENSOR_F32_FTZ || map->type == SG_TENSOR_TF32_FTZ)
                    if (!((value[3] & 0x7f) | (value[2] & 0x80)))
                        memset(value, 0, 3), value[3] &= 0x80;
                if (!back)
                    memcpy(expected + where, value, each);
            }
        snprintf(name, sizeof name, "%s%u", back ? "back" : "pixels", rank);
        assert_int_equal(gpu_run(name, 1, 1, 4, ARG(map), ARG(from), ARG(box),
                                 (uint64_t)map->pixels * map->box[0] * each), CUDA_SUCCESS);
        assert_memory_equal(back ? tensor : box, expected, back ? TENSOR_BYTES : BOX_BYTES);
    }
}

EXEC_TEST(four_lines_are_gathered_and_scattered)
{
    static unsigned char expected[TENSOR_BYTES];
    load_into_memory(SHARED ENTRY("gather", TO_SHARED LOADED
                                  "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::"
                                  "bytes [r5], [a0, " COORDINATES5 "], [r6];\n" WAIT_AND_RETURN)
                     ENTRY("scatter", TO_SHARED
                           "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [a0, " COORDINATES5
                           "], [r5]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"));
    for (int i = 0; i < 200; i++) {
        unsigned lines, pitch;
        bool back = i % 2;
        choose(2, &lines, &pitch);
        map->box[1] = map->steps[1] = 1;
        map->last[1] = 9;
        for (unsigned k = 1; k < 5; k++)
            from[k] = (int32_t)(random_below(12) + 12 * random_below(2) * back) - 1;
        while (back && (from[1] == from[2] || from[1] == from[3] || from[1] == from[4] || from[2] == from[3] ||
                        from[2] == from[4] || from[3] == from[4]))
            for (unsigned k = 1; k < 5; k++)
                from[k] = (int32_t)random_below(12) - 1;
        unsigned each = sg_tensor_unit(map->type).shared;
        memcpy(expected, back ? tensor : box, back ? TENSOR_BYTES : BOX_BYTES);
        for (unsigned line = 0; line < 4; line++)
            for (unsigned place = 0; place < map->box[0]; place++) {
                const int32_t begin[] = { from[0], from[1 + line] };
                unsigned char value[8], *at = global_of(map, begin, 0, place);
                unsigned where = shared_of(map, pitch, line, place * each);
                missing_value(map, value);
                if (back && at) {
                    memcpy(expected + (at - tensor), box + where, each);
                    continue;
                }
                if (at)
                    memcpy(value, at, each);
                if (map->type == SG_TENSOR_F32_FTZ || map->type == SG_TENSOR_TF32_FTZ)
                    if (!((value[3] & 0x7f) | (value[2] & 0x80)))
                        memset(value, 0, 3), value[3] &= 0x80;
                if (!back)
                    memcpy(expected + where, value, each);
            }
        assert_int_equal(gpu_run(back ? "scatter" : "gather", 1, 1, 4, ARG(map), ARG(from), ARG(box),
                                 UINT64_C(4) * map->box[0] * each), CUDA_SUCCESS);
        assert_memory_equal(back ? tensor : box, expected, back ? TENSOR_BYTES : BOX_BYTES);
    }
}

/* 256 by 4 numbers of 4 or 6 bits; a box of 128 by 3 that ends beyond the last line. */
EXEC_TEST(packed_numbers_are_spread)
{
    static const struct { uint8_t type; unsigned global, shared; } cases[] = {
        { SG_TENSOR_U4, 8, 8 }, { SG_TENSOR_U4_WIDE, 8, 16 }, { SG_TENSOR_U6_WIDE, 12, 16 },
    };
    load_into_memory(SHARED LOAD(2) STORE(2));
    for (unsigned c = 0; c < 3; c++) {
        unsigned global = cases[c].global, shared = cases[c].shared;
        *map = (struct sg_tensor){ .magic = SG_TENSOR_MAGIC, .rank = 2, .type = cases[c].type, .address = ARG(tensor),
                                   .last = { 255, 3 }, .box = { 128, 3 }, .steps = { 1, 1 },
                                   .strides = { 16 * global } };
        from[0] = 128;
        from[1] = 2;
        memset(box, 0xcc, BOX_BYTES);
        fill_random(tensor, 4096);
        assert_int_equal(gpu_run("load2", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(3) * 8 * shared),
                         CUDA_SUCCESS);
        for (unsigned group = 0; group < 24; group++) {
            static const unsigned char zeros[16];
            const unsigned char *at = tensor + (2 + group / 8) * 16 * global + (8 + group % 8) * global;
            assert_memory_equal(box + group * shared, group < 16 ? at : zeros, global);
        }
        assert_int_equal(box[24 * shared], 0xcc);
        unsigned char before = tensor[4 * 16 * global];
        memset(box, 0x5a, BOX_BYTES);
        assert_int_equal(gpu_run("store2", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(0)), CUDA_SUCCESS);
        assert_int_equal(tensor[2 * 16 * global + 8 * global], 0x5a);
        assert_int_equal(tensor[4 * 16 * global - 1], 0x5a);
        assert_int_equal(tensor[4 * 16 * global], before);
    }
}

#define REPLACE(field, type, value) "tensormap.replace.tile." field ".shared::cta.b1024." type " [r5], " value ";\n"

EXEC_TEST(fields_of_a_map_are_replaced)
{
    static const struct sg_tensor start = { .magic = SG_TENSOR_MAGIC, .rank = 1, .type = SG_TENSOR_U8, .box = { 16 },
                                            .steps = { 1, 1, 1, 1, 1 } };
    load_into_memory(SHARED ENTRY("k",
        "mov.u32 r7, 0;\nC: add.u32 r8, r5, r7; cvt.u64.u32 a3, r7; add.u64 a3, a3, a0; ld.global.u32 r10, [a3]; "
        "st.shared.u32 [r8], r10; add.u32 r7, r7, 4; setp.lt.u32 p1, r7, 128;\n@p1 bra C;\n"
        "ld.global.u64 a4, [a1+24]; mov.u64 a5, 4096;\n"
        REPLACE("rank", "b32", "2") REPLACE("box_dim", "b32", "0, r0") REPLACE("box_dim", "b32", "2, 7")
        REPLACE("global_dim", "b32", "0, r1") REPLACE("global_dim", "b32", "1, 11") REPLACE("global_dim", "b32", "2, 1")
        REPLACE("global_stride", "b64", "0, a5") REPLACE("global_stride", "b64", "1, 65536")
        REPLACE("element_stride", "b32", "1, r2") REPLACE("elemtype", "b32", "0x8")
        REPLACE("interleave_layout", "b32", "0") REPLACE("swizzle_atomicity", "b32", "1")
        REPLACE("swizzle_mode", "b32", "3") REPLACE("fill_mode", "b32", "1")
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [a2], [r5], 128;\n"
        "fence.proxy.tensormap::generic.acquire.gpu [a2], 128;\n"
        "tensormap.replace.tile.global_address.global.b1024.b64 [a2], a4;"));
    *map = start;
    from[0] = 64, from[1] = 100, from[2] = 3;
    memcpy(from + 6, &(uint64_t){ ARG(tensor) }, 8);
    assert_int_equal(gpu_run("k", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(0)), CUDA_SUCCESS);
    /* static: its padding is compared too, and is 0 there */
    static struct sg_tensor expected = { .magic = SG_TENSOR_MAGIC, .rank = 3, .type = SG_TENSOR_F32_FTZ,
                                         .box = { 64, 0, 7 }, .last = { 99, 10, 0 }, .strides = { 4096, 65536 },
                                         .steps = { 1, 3, 1, 1, 1 }, .fill_nan = 1,
                                         .swizzle = SG_TENSOR_SWIZZLE_PIECES_32, .swizzle_mode = 3,
                                         .swizzle_pieces = 1 };
    struct sg_tensor t;
    expected.address = ARG(tensor);
    memcpy(&t, box, sizeof t);
    assert_memory_equal(&t, &expected, sizeof t);
    assert_memory_equal(map, &start, sizeof start);
    /* made from nothing: what is not replaced has one element in each dimension */
    memset(map, 0, 128);
    expected.box[1] = expected.box[3] = expected.box[4] = 1;
    assert_int_equal(gpu_run("k", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(0)), CUDA_SUCCESS);
    memcpy(&t, box, sizeof t);
    assert_memory_equal(&t, &expected, sizeof t);
    memset(map, 0x5a, 128);
    assert_int_equal(gpu_run("k", 1, 1, 4, ARG(map), ARG(from), ARG(box), UINT64_C(0)),
                     CUDA_ERROR_ILLEGAL_INSTRUCTION);
    static const char *const wrong[] = {
        REPLACE("rank", "b32", "0, 1"), REPLACE("box_dim", "b32", "5, 1"), REPLACE("global_stride", "b64", "4, 1"),
        REPLACE("elemtype", "b32", "16"), REPLACE("interleave_layout", "b32", "1"), REPLACE("colour", "b32", "1"),
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[1024];
        snprintf(text, sizeof text, ".shared .align 128 .b8 s[128];\n.visible .entry k()\n{\n.reg .b32 r5; "
                                    "mov.u32 r5, s;\n%sret;\n}\n", wrong[i]);
        assert_non_null(gpu_refuses(text, "k"));
    }
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
