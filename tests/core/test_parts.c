/* Parts of the client core that need no server: switches, visible devices, trees, the address map, the window,
 * boxes. */
#include "cpu/client/core/session/capability.h"
#include "cpu/client/core/code/code.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/move_ahead.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/span.h"
#include "cpu/common/tree.h"
#include "cpu/code/fatbin.h"
#include "cpu/code/hash.h"
#include "tests/lib/unit.h"
#include "work.h"

TEST(perf_words)
{
    struct perf p;
    perf_parse(&p, NULL);
    assert_false(p.no_async || p.no_batch || p.no_cache || p.no_pipeline || p.no_shm);
    perf_parse(&p, "no_async,no_cache");
    assert_true(p.no_async && p.no_cache);
    assert_false(p.no_batch || p.no_pipeline);
    perf_parse(&p, ",no_batch,");
    assert_true(p.no_batch);
    assert_false(p.no_async || p.no_shm);
    perf_parse(&p, "no_shm");
    assert_true(p.no_shm);
}

/* ---- visible devices ---- */

static flyt_device four[4];

static int four_devices(void **unused)
{
    (void)unused;
    static char *const bus[] = { "0000:c1:00.0", "0000:41:00.0", "0000:81:00.0", "0000:01:00.0" };
    for (int i = 0; i < 4; i++) {
        memset(four[i].uuid, 0xA0 + (i >> 1), sizeof four[i].uuid);    /* 0 and 1 begin alike */
        four[i].uuid[15] = (char)i;
        four[i].pci_bus_id = bus[i];
    }
    return 0;
}

static void visible_is(const char *text, const char *expected)
{
    int out[FLYT_MAX_DEVICES];
    char got[64] = "";
    int count = device_visible(text, four, 4, out);
    for (int i = 0; i < count; i++)
        got[i] = (char)('0' + out[i]);
    if (strcmp(got, expected) != 0)
        fail_msg("CUDA_VISIBLE_DEVICES=%s gives %s, not %s", text ? text : "(unset)", got, expected);
}

TEST_WITH(visible_devices, four_devices, NULL)
{
    unsetenv("CUDA_DEVICE_ORDER");
    visible_is(NULL, "0123");
    visible_is("", "");
    visible_is("2", "2");
    visible_is("3,1", "31");
    visible_is(" 3 , 1 ", "31");
    visible_is("1,-1,2", "1");
    visible_is("-1", "");
    visible_is("0,9,1", "0");
    visible_is("0,x,1", "0");
    visible_is("0x1", "");
    visible_is("1,1", "");
    visible_is("99999999999999999999", "");
    visible_is("GPU-a1a1a1a1", "");                  /* two begin so */
    visible_is("GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a103", "3");
    visible_is("GPU-A1A1A1A1-a1a1-a1a1-a1a1-a1a1a1a1a102,GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a001", "21");
    visible_is("GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0000", "");      /* too long */
    visible_is("GPU-", "");
    visible_is("GPU-ff", "");
    visible_is("MIG-1,0", "");
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    visible_is(NULL, "3120");
    visible_is("0,3", "30");
    setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
    visible_is("0,3", "03");
    unsetenv("CUDA_DEVICE_ORDER");
}

/* ---- the tree, against a sorted array ---- */

TEST(tree_model)
{
    enum { KEYS = 512 };
    static struct tree_node nodes[KEYS];
    static bool in[KEYS];
    struct tree tree = { NULL };
    for (int i = 0; i < KEYS; i++)
        nodes[i] = (struct tree_node){ .key = (uint64_t)(i / 2) * 10, .tie = (uint64_t)i % 2 };
    for (int step = 0; step < 20000; step++) {
        int i = (int)(random_next() % KEYS);
        if (in[i])
            tree_remove(&tree, &nodes[i]);
        else
            tree_insert(&tree, &nodes[i]);
        in[i] = !in[i];
        uint64_t key = random_next() % (KEYS * 5 + 20), tie = random_next() % 3;
        struct tree_node *above = NULL, *below = NULL;
        for (int k = 0; k < KEYS; k++) {
            bool not_after = nodes[k].key < key || (nodes[k].key == key && nodes[k].tie <= tie);
            bool not_before = nodes[k].key > key || (nodes[k].key == key && nodes[k].tie >= tie);
            if (in[k] && not_after)
                below = &nodes[k];
            if (in[k] && not_before && !above)
                above = &nodes[k];
        }
        assert_ptr_equal(tree_at_or_above(&tree, key, tie), above);
        assert_ptr_equal(tree_at_or_below(&tree, key, tie), below);
    }
}

/* ---- the window, against a map of granules ---- */

TEST(window_model)
{
    enum { GRANULES = 256 };
    const uint64_t base = UINT64_C(1) << 40, granule = 1 << 21;
    static bool taken[GRANULES];
    static struct { uint64_t at, count; } held[GRANULES];
    int holding = 0;
    assert_int_equal(window_open(base, GRANULES * granule, granule), 0);
    for (int step = 0; step < 20000; step++) {
        uint64_t count = 1 + random_next() % 20;
        if (random_next() % 5 < 3 && holding < GRANULES) {
            uint64_t wanted = random_next() % GRANULES, from = random_next() % GRANULES;
            uint64_t at = step % 7 == 0
                              ? window_take_top(count * granule)
                              : window_take(base + wanted * granule, base + from * granule, count * granule, granule);
            bool possible = false, wanted_free = wanted + count <= GRANULES;
            for (uint64_t i = 0, run = 0; i < GRANULES; i++) {
                run = taken[i] ? 0 : run + 1;
                possible |= run >= count;
            }
            for (uint64_t i = wanted; i < wanted + count && i < GRANULES; i++)
                wanted_free &= !taken[i];
            assert_int_equal(at != 0, possible);
            if (!at)
                continue;
            if (wanted_free && step % 7)
                assert_int_equal(at, base + wanted * granule);
            for (uint64_t i = 0; i < count; i++) {
                assert_false(taken[(at - base) / granule + i]);
                taken[(at - base) / granule + i] = true;
            }
            held[holding].at = (at - base) / granule;
            held[holding++].count = count;
        } else if (holding) {
            int which = (int)(random_next() % (uint64_t)holding);
            window_give(base + held[which].at * granule, held[which].count * granule);
            for (uint64_t i = 0; i < held[which].count; i++)
                taken[held[which].at + i] = false;
            held[which] = held[--holding];
        }
    }
}

/* ---- boxes ---- */

/* Cut into parts of at most `most` bytes, or, where `other` is not 0, of at most one and the other by turns. */
static void boxes_cover(size_t width, size_t height, size_t depth, size_t most, size_t other)
{
    const struct copy_span whole = { { 0, width, height }, { 0, 2 * width, height + 1 }, { width, height, depth } };
    struct copy_cut cut = copy_cut_begin(&whole);
    struct copy_span part;
    size_t next = 0;
    for (unsigned i = 0; copy_cut_next(&cut, other && i % 2 ? other : most, &part); i++) {
        assert_true(part.extent.width && part.extent.height && part.extent.depth);
        assert_true(copy_bytes(&part) <= (other && i % 2 ? other : most));
        /* Each part begins where the last ended, in the order of memory; and at the same place on both sides. */
        assert_int_equal(part.to.address, next);
        size_t row = next / width;
        assert_int_equal(part.from.address,
                         (row / height * (height + 1) + row % height) * 2 * width + next % width);
        assert_true(next % width + part.extent.width <= width);
        assert_true(part.extent.height == 1 || part.extent.width == width);
        assert_true(row % height + part.extent.height <= height);
        assert_true(part.extent.depth == 1 || part.extent.height == height);
        next += copy_bytes(&part);
        assert_int_equal(cut.bytes, width * height * depth - next);
    }
    assert_int_equal(next, width * height * depth);
}

/* The parts of [from, end) that a span has, or that none has, as whoever looks for all of them walks. */
static unsigned walk(bool (*next)(const struct ahead_spans *, uint64_t, uint64_t, struct ahead_span *),
                     const struct ahead_spans *spans, uint64_t from, uint64_t end, struct ahead_span *last)
{
    unsigned count = 0;
    struct ahead_span part;
    for (; count < 10 && next(spans, from, end, &part); from = part.end, count++)
        *last = part;
    return count;
}

/* What a new server has may reach further than the heap, which became smaller while the move went on. */
TEST(spans_of_a_move)
{
    struct ahead_spans spans = { 0 };
    struct ahead_span last;
    assert_true(ahead_spans_add(&spans, 10, 20) && ahead_spans_add(&spans, 30, 40) && ahead_spans_add(&spans, 20, 22));
    assert_int_equal(spans.count, 2);
    assert_int_equal(walk(ahead_spans_part, &spans, 0, 100, &last), 2);
    assert_int_equal(last.start, 30);
    assert_int_equal(last.end, 40);
    assert_int_equal(walk(ahead_spans_part, &spans, 12, 18, &last), 1);
    assert_int_equal(last.start, 12);
    assert_int_equal(last.end, 18);
    assert_int_equal(walk(ahead_spans_part, &spans, 22, 30, &last), 0);
    assert_int_equal(walk(ahead_spans_gap, &spans, 12, 18, &last), 0);
    assert_int_equal(walk(ahead_spans_gap, &spans, 15, 35, &last), 1);
    assert_int_equal(last.start, 22);
    assert_int_equal(last.end, 30);
    assert_int_equal(walk(ahead_spans_gap, &spans, 0, 50, &last), 3);
    free(spans.all);
}

TEST(boxes)
{
    boxes_cover(1, 1, 1, FLYT_MAX_INLINE, 0);
    boxes_cover(7, 5, 3, FLYT_MAX_INLINE, 0);
    boxes_cover(FLYT_MAX_INLINE, 2, 2, FLYT_MAX_INLINE, 0);
    boxes_cover(FLYT_MAX_INLINE + 1, 2, 2, FLYT_MAX_INLINE, 0);
    boxes_cover(3 * FLYT_MAX_INLINE - 5, 3, 1, FLYT_MAX_INLINE, 0);
    boxes_cover(1000, 3000, 3, FLYT_MAX_INLINE, 0);
    boxes_cover(100, 100, 1000, FLYT_MAX_INLINE, 0);
    boxes_cover(1000, 30, 5, 700, 50000);
    boxes_cover(100, 100, 20, 350, 25000);
    boxes_cover(1 << 20, 1, 1, 4096, 65536);
    uint64_t bytes;
    assert_int_equal(box_check(&(struct core_box){ 0x1000, 64, 4 }, &(struct core_extent){ 10, 3, 2 }, &bytes), 0);
    assert_int_equal(bytes, 6 * 64 + 10);
    assert_int_equal(box_check(&(struct core_box){ 0x1000, 8, 4 }, &(struct core_extent){ 10, 3, 2 }, &bytes), 1);
    assert_int_equal(box_check(&(struct core_box){ 0x1000, 64, 2 }, &(struct core_extent){ 10, 3, 2 }, &bytes), 1);
    assert_int_equal(box_check(&(struct core_box){ 0x1000, SIZE_MAX / 2, 4 }, &(struct core_extent){ 10, 30, 2 },
                               &bytes), 1);
    assert_int_equal(box_check(&(struct core_box){ UINT64_MAX - 4, 64, 4 }, &(struct core_extent){ 10, 1, 1 }, &bytes),
                     1);
    assert_int_equal(box_check(&(struct core_box){ 0x1000, 0, 0 }, &(struct core_extent){ 10, 1, 1 }, &bytes), 0);
}

/* ---- images ---- */

/* A container with `entries` bytes of zeros as entries (never looked at here). */
static uint8_t *container(uint64_t entries, uint8_t mark)
{
    uint8_t *c = calloc(1, 16 + entries);
    assert_non_null(c);
    memcpy(c, &(uint32_t){ FATBIN_CONTAINER_MAGIC }, 4);
    memcpy(c + 4, &(uint16_t){ 1 }, 2);
    memcpy(c + 6, &(uint16_t){ 16 }, 2);
    memcpy(c + 8, &entries, 8);
    if (entries)
        memset(c + 16, mark, entries);
    return c;
}

/* What travels is the concatenation: main first, then those prelinked, each padded to 8; the hash is of that. */
TEST(bundles)
{
    static const uint64_t entries[3] = { 64, 13, 8 };        /* 80, 29 + 3, 24 bytes */
    uint8_t *parts[3], whole[80 + 32 + 24] = { 0 }, expected[HASH_SIZE];
    for (int i = 0, at = 0; i < 3; i++) {
        parts[i] = container(entries[i], (uint8_t)(i + 1));
        memcpy(whole + at, parts[i], 16 + entries[i]);
        at += (int)((16 + entries[i] + 7) / 8 * 8);
    }
    const void *extra[] = { parts[1], parts[2], NULL };
    struct fatbin_wrapper two = { FATBIN_WRAPPER_MAGIC, 2, parts[0], extra }, one = { FATBIN_WRAPPER_MAGIC, 1, parts[0],
                                                                                      "a file name" };
    static const char damaged[64] = "\177ELF";
    struct image_bundle b;
    const char *why;
    assert_int_equal(bundle_make(&two, &b, &why), 0);
    assert_int_equal(b.kind, FLYT_IMAGE_FATBIN);
    assert_int_equal(b.count, 3);
    assert_int_equal(b.size, sizeof whole);
    hash_bytes(whole, sizeof whole, expected);
    assert_memory_equal(b.hash, expected, HASH_SIZE);
    bundle_free(&b);
    assert_int_equal(bundle_make(&one, &b, &why), 0);        /* version 1: nothing follows */
    assert_int_equal(b.size, 80);
    bundle_free(&b);
    assert_int_equal(bundle_make(parts[2], &b, &why), 0);    /* a bare container */
    assert_int_equal(b.size, 24);
    bundle_free(&b);
    static const char ptx[] = "// comment\n.version 9.0\n.target sm_75\n";
    assert_int_equal(bundle_make(ptx, &b, &why), 0);
    assert_int_equal(b.kind, FLYT_IMAGE_PTX);
    assert_int_equal(b.size, sizeof ptx);                    /* with its NUL */
    bundle_free(&b);
    assert_int_equal(bundle_make(NULL, &b, &why), CORE_INVALID_IMAGE);
    assert_int_equal(bundle_make("some text", &b, &why), CORE_INVALID_IMAGE);
    assert_int_equal(bundle_make("", &b, &why), CORE_INVALID_IMAGE);
    assert_int_equal(bundle_make(damaged, &b, &why), CORE_INVALID_IMAGE);
    memset(parts[0], 0, 4);
    assert_int_equal(bundle_make(&two, &b, &why), CORE_INVALID_IMAGE);
    for (int i = 0; i < 3; i++)
        free(parts[i]);
}

/* ---- compute capabilities ---- */

static unsigned settled(const char *const *paths, const char *row, bool suits)
{
    struct capability_view view = { 0 };
    unsigned by = ~0u;
    bool all;
    for (; *paths; paths++)
        capability_note(&view, *paths);
    unsigned capability = capability_settle(&view, &by, &all);
    assert_string_equal(capability_name(by), row);
    assert_int_equal(all, suits);
    return capability;
}
#define SETTLED(row, suits, ...) settled((const char *const[]){ __VA_ARGS__, NULL }, row, suits)

/* JAX is right with 9.0 and 13.0, and quick with 9.0: what else is loaded may ask for the slow one. */
TEST(capability_of_jax)
{
    static const char jax[] = "/v/jax_cuda12_plugin/_versions.so";
    static const struct { const char *other; unsigned capability; } cases[] = {
        { "/v/libm.so.6", 90 }, { "/v/tensorflow/libtensorflow_framework.so.2", 130 }, { "/v/triton/libtriton.so", 90 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct capability_view view = { 0 };
        unsigned row;
        bool suits;
        capability_note(&view, jax);
        capability_note(&view, cases[i].other);
        assert_int_equal(capability_settle(&view, &row, &suits), cases[i].capability);
        assert_true(suits);
    }
}

TEST(capabilities_follow_what_is_loaded)
{
    const char *triton = "/venv/triton/_C/libtriton.so";
    assert_int_equal(SETTLED("", true, "/lib/libc.so.6", "/lib/libtritonic/libother.so"), 0);
    assert_int_equal(SETTLED("Triton", true, "/lib/libc.so.6", triton), 120);
    assert_int_equal(SETTLED("Triton", true, "libtriton.so.3"), 120);
    assert_int_equal(SETTLED("PyTorch of Debian", true, "/usr/lib/x86_64-linux-gnu/libtorch_cuda.so.2.6"), 99);
    assert_int_equal(SETTLED("", true, "/opt/libtorch_cuda.so"), 0);
    assert_int_equal(SETTLED("CuTe", true, "/venv/cutlass/_mlir/_cutlass_ir.cu12.cpython-311-x86_64.so"), 120);
    assert_int_equal(SETTLED("JAX", true, "/venv/jax_cuda13_plugin/_versions.so"), 90);
    assert_int_equal(SETTLED("TensorFlow", true, "/venv/tensorflow/libtensorflow_framework.so.2"), 130);
    assert_int_equal(SETTLED("Triton", false, triton, "/venv/tensorflow/libtensorflow_framework.so.2"), 120);
    assert_int_equal(SETTLED("Triton", true, "/venv/torch/lib/libtorch_cuda.so", triton), 120);
    /* The first row of the table decides where nothing suits all. */
    assert_int_equal(SETTLED("Triton", false, "/lib/x86_64-linux-gnu/libtorch_cuda.so.2.6", triton), 120);
}

TEST(capabilities_are_read)
{
    const struct {
        const char *text;
        unsigned capability;
    } cases[] = {
        { "9.0", 90 }, { "90", 90 }, { "9", 90 },   { "12.1", 121 }, { "121", 121 }, { "9.9", 99 },  { "99.9", 999 },
        { "", 0 },     { "9.", 0 },  { "nine", 0 }, { "9.0a", 0 },   { "2.0", 0 },   { "12.10", 0 }, { "-9.0", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(capability_parse(cases[i].text), cases[i].capability);
}

int main(void) { return unit_run(NULL, NULL); }
