/* shows: Software GPU memory: what kernels and copies of all forms write while a watcher asks again and again is among
 *   what it is told, so that a copy which follows these answers ends up equal; and no more than that is */
/* watched_memory.c: what a GPU server asks of the software GPU (softgpu/driver/calls/watch.c) before a session moves:
   which memory has been written. The watcher keeps a copy of a window as a move does, granule by granule. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/address_space.h"
#include "softgpu_test.h"
#include "tests/lib/dice.h"

CUresult softgpu_watch(uint64_t base, uint8_t *changed, uint64_t size, uint64_t *granule, bool again);

enum { GRANULES = 24, BITS = 65536, UNTOUCHED = 3 };
#define WINDOW ((size_t)256 << 20)
#define HELD   ((size_t)GRANULES * GRANULE)

/* Each writes to `a`, with values from `v`. */
#define KERNEL(name, body) \
    ".visible .entry " name "(.param .u64 a, .param .u32 v) {\n" \
    "  .reg .u64 %a<8>; .reg .u32 %i<16>; .reg .pred %p<4>; .reg .f32 %f<16>; .reg .b16 %h<4>;\n" \
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [v]; mov.u32 %i2, %tid.x; mov.u32 %i3, %ctaid.x;\n" \
    "  mad.lo.u32 %i2, %i3, 64, %i2; add.u32 %i1, %i1, %i2;\n" body "  ret;\n}\n"

static const char ptx[] =
    ".version 8.6\n.target sm_90\n.address_size 64\n"
    ".shared .align 128 .b8 row[256];\n"
    KERNEL("bytes", "  cvt.u64.u32 %a2, %i2; add.u64 %a2, %a1, %a2; st.global.u8 [%a2], %i1;\n")
    KERNEL("halves", "  mad.wide.u32 %a2, %i2, 2, %a1; st.global.u16 [%a2], %i1;\n")
    KERNEL("words", "  mad.wide.u32 %a2, %i2, 4, %a1; st.global.u32 [%a2], %i1;\n")
    KERNEL("doubles", "  mad.wide.u32 %a2, %i2, 8, %a1; cvt.u64.u32 %a3, %i1; st.global.u64 [%a2], %a3;\n")
    KERNEL("pairs", "  mad.wide.u32 %a2, %i2, 8, %a1; st.global.v2.u32 [%a2], {%i1, %i2};\n")
    KERNEL("fours", "  mad.wide.u32 %a2, %i2, 16, %a1; st.global.v4.u32 [%a2], {%i1, %i2, %i1, %i1};\n")
    KERNEL("some", "  and.b32 %i4, %i2, 3; setp.eq.u32 %p1, %i4, 1; mad.wide.u32 %a2, %i2, 4, %a1;\n"
                   "  @%p1 st.global.u32 [%a2], %i1;\n")
    KERNEL("one", "  setp.ne.u32 %p1, %i2, 5; @%p1 ret; st.global.u32 [%a1], %i1;\n")
    KERNEL("generic", "  mad.wide.u32 %a2, %i2, 4, %a1; st.u32 [%a2], %i1;\n")
    KERNEL("same", "  st.global.u32 [%a1], 77;\n")
    /* a lane in each granule of four, and beyond the middle of it */
    KERNEL("scattered", "  and.b32 %i4, %i2, 3; mul.wide.u32 %a2, %i4, 2097152; mad.wide.u32 %a3, %i2, 4, %a2;\n"
                        "  add.u64 %a3, %a1, %a3; st.global.u32 [%a3], %i1;\n")
    KERNEL("adds", "  mad.wide.u32 %a2, %i2, 4, %a1; atom.global.add.u32 %i5, [%a2], %i1;\n")
    KERNEL("reduces", "  red.global.add.u32 [%a1], %i1;\n")
    KERNEL("swaps", "  mad.wide.u32 %a2, %i2, 4, %a1; atom.global.exch.b32 %i5, [%a2], %i1;\n")
    KERNEL("compares", "  mad.wide.u32 %a2, %i2, 4, %a1; ld.global.u32 %i6, [%a2];\n"
                       "  atom.global.cas.b32 %i5, [%a2], %i6, %i1;\n")
    KERNEL("loops", "  mov.u32 %i6, 0; mad.wide.u32 %a2, %i2, 4, %a1;\n"
                    "L: mad.lo.u32 %i1, %i1, 1664525, 1013904223; st.global.u32 [%a2], %i1; add.u64 %a2, %a2, 1024;\n"
                    "  add.u32 %i6, %i6, 1; setp.lt.u32 %p1, %i6, 2000; @%p1 bra L;\n")
    KERNEL("bulk", "  and.b32 %i4, %i2, 63; shl.b32 %i4, %i4, 2; mov.u32 %i7, row; add.u32 %i4, %i4, %i7;\n"
                   "  st.shared.u32 [%i4], %i1; bar.sync 0; fence.proxy.async; setp.ne.u32 %p1, %i4, %i7;\n"
                   "  @%p1 bra E; cp.async.bulk.global.shared::cta.bulk_group [%a1], [%i7], 256;\n"
                   "  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nE:\n")
    KERNEL("tiles", "  cvt.rn.f32.u32 %f1, %i1;\n"
                    "  wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%a1],"
                    " {%f1, %f1, %f1, %f1, %f1, %f1, %f1, %f1}, 16;\n");

static const char *const kernels[] = {
    "bytes", "halves", "words", "doubles", "pairs", "fours", "some", "one", "generic", "same", "scattered", "adds",
    "reduces", "swaps", "compares", "loops", "bulk", "tiles"
};
enum { KERNELS = sizeof kernels / sizeof *kernels, DRIVER_FORMS = 7, STREAMS = 3 };

static CUdeviceptr base;
static CUmemGenericAllocationHandle handle;
static CUfunction functions[KERNELS];
static CUstream streams[STREAMS];
static unsigned char *copy, *now;
static atomic_bool ends;
static atomic_uint asked, copied;

static void map(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle *h)
{
    const CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                             .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
    const CUmemAccessDesc access = { .location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    OK(cuMemCreate(h, size, &properties, 0));
    OK(cuMemMap(at, size, 0, *h, 0));
    OK(cuMemSetAccess(at, size, &access, 1));
}

/* Where a window of its own finds room, as the server asks for it (window_hints in cpu/server/memory/memory.c).
   Elsewhere it would be a part of the window that all other memory lies in. */
static CUdeviceptr place(unsigned number)
{
    static const CUdeviceptr usual[] = { UINT64_C(0x240000000000), UINT64_C(0x280000000000) };
    static const CUdeviceptr narrow[] = { ADDRESS_SPACE_LOW, UINT64_C(0x003000000000) };
    return address_space_is_narrow() ? narrow[number] : usual[number];
}

static int setup(void **state)
{
    int failed = with_context(state);
    CUmodule module;
    if (failed)
        return failed;
    OK(cuMemAddressReserve(&base, WINDOW, 0, place(0), 0));
    assert_int_equal(base, place(0));
    map(base, HELD, &handle);
    OK(cuMemsetD8(base, 0, HELD));
    OK(cuModuleLoadData(&module, ptx));
    for (int i = 0; i < KERNELS; i++)
        OK(cuModuleGetFunction(&functions[i], module, kernels[i]));
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    copy = calloc(1, HELD);
    now = malloc(HELD);
    return !copy || !now;
}

static int tear_down(void **state)
{
    OK(cuMemUnmap(base, HELD));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(base, WINDOW));
    free(copy);
    free(now);
    return without_context(state);
}

static uint8_t bits[BITS];

static CUresult ask(bool again)
{
    uint64_t granule = 0;
    memset(bits, 0, sizeof bits);
    CUresult r = softgpu_watch(base, bits, sizeof bits, &granule, again);
    assert_true(r || granule == GRANULE);
    return r;
}

static bool is_set(unsigned granule) { return bits[granule / 8] >> granule % 8 & 1; }

static unsigned count_set(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < 8 * BITS; i++)
        count += is_set(i);
    return count;
}

/* As a move does: what has changed, a piece at a time, in a stream of its own. */
static void copy_changed(CUstream stream)
{
    enum { PIECE = 1 << 19 };
    for (unsigned g = 0; g < GRANULES; g++)
        for (size_t at = 0; at < GRANULE && is_set(g); at += PIECE) {
            OK(cuMemcpyDtoHAsync(copy + (size_t)g * GRANULE + at, base + (size_t)g * GRANULE + at, PIECE, stream));
            OK(cuStreamSynchronize(stream));
        }
}

static void *watch(void *context)
{
    CUstream stream;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!atomic_load(&ends)) {
        OK(ask(true));
        atomic_fetch_add(&asked, 1);
        atomic_fetch_add(&copied, count_set());
        copy_changed(stream);
    }
    OK(cuStreamDestroy(stream));
    return NULL;
}

static CUdeviceptr granule_at(unsigned g) { return base + (size_t)g * GRANULE; }

/* Anywhere but in the granule that is to stay untouched; what a kernel writes there lies in four granules at most. */
static CUdeviceptr somewhere(uint64_t *seed)
{
    unsigned g;
    do
        g = dice(seed, GRANULES - 4);
    while (g <= UNTOUCHED && g + 4 > UNTOUCHED);
    return granule_at(g) + 256 * dice(seed, 4096);
}

static void write_by_driver(uint64_t *seed, unsigned form, CUstream stream)
{
    static unsigned char host[4096];
    const CUdeviceptr at = somewhere(seed), from = somewhere(seed);
    const uint32_t value = dice(seed, 1u << 30);
    memset(host, (int)value, sizeof host);
    const CUDA_MEMCPY2D box = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 64,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = at, .dstPitch = 512,
                                .WidthInBytes = 64, .Height = 64 };
    switch (form) {
    case 0: OK(cuMemcpyHtoD(at, host, sizeof host)); break;
    case 1: OK(cuMemcpyDtoDAsync(at, from, 100000, stream)); break;
    case 2: OK(cuMemsetD8Async(at, (unsigned char)value, 3000, stream)); break;
    case 3: OK(cuMemsetD32Async(at, value, GRANULE / 2, stream)); break;
    case 4: OK(cuMemsetD2D16Async(at, 1024, (unsigned short)value, 10, 1000, stream)); break;
    case 5: OK(cuStreamWriteValue32(stream, at, value, 0)); break;
    default: OK(cuMemcpy2DAsync(&box, stream)); OK(cuStreamSynchronize(stream));
    }
}

static void compare(void)
{
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(now, base, HELD));
    for (unsigned g = 0; g < GRANULES; g++)
        if (memcmp(now + (size_t)g * GRANULE, copy + (size_t)g * GRANULE, GRANULE) != 0)
            fail_msg("what is in granule %u was not copied", g);
}

TEST(all_writes_are_seen)
{
    enum { ROUNDS = 12, WRITES = 250 };
    CUcontext context;
    uint64_t seed = 1;
    OK(cuCtxGetCurrent(&context));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t watcher;
        atomic_store(&ends, false);
        assert_int_equal(pthread_create(&watcher, NULL, watch, context), 0);
        for (int i = 0; i < WRITES; i++) {
            CUstream stream = streams[dice(&seed, STREAMS)];
            unsigned form = dice(&seed, KERNELS + DRIVER_FORMS);
            CUdeviceptr at = somewhere(&seed);
            uint32_t value = dice(&seed, 1u << 30);
            if (form >= KERNELS)
                write_by_driver(&seed, form - KERNELS, stream);
            else
                OK(cuLaunchKernel(functions[form], 1 + dice(&seed, 3), 1, 1, 64, 1, 1, 0, stream,
                                  (void *[]){ &at, &value }, NULL));
        }
        OK(cuCtxSynchronize());
        atomic_store(&ends, true);
        pthread_join(watcher, NULL);
        OK(ask(round % 2));              /* the watch ends, or goes on in the next round */
        copy_changed(streams[0]);
        compare();
    }
    if (ROUNDS % 2 == 0)
        OK(ask(false));
    assert_true(atomic_load(&asked) > ROUNDS);
}

TEST(only_writes_are_seen)
{
    unsigned long long flags;
    const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
    uint32_t value = 1;
    CUdeviceptr at = granule_at(9) + 4096, other;
    CUmemGenericAllocationHandle more;
    OK(ask(true));
    assert_int_equal(count_set(), GRANULES);             /* all that is memory, at first */
    OK(ask(true));
    assert_int_equal(count_set(), 0);
    OK(cuMemcpyDtoH(now, base, HELD));                   /* reading is no writing */
    OK(cuMemGetAccess(&flags, &device, at));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(ask(true));
    assert_int_equal(count_set(), 0);
    OK(cuLaunchKernel(functions[2], 1, 1, 1, 64, 1, 1, 0, NULL, (void *[]){ &at, &value }, NULL));
    OK(cuMemsetD8(granule_at(11) - 1, 1, 2));
    OK(cuCtxSynchronize());
    OK(ask(true));
    assert_int_equal(count_set(), 3);
    assert_true(is_set(9) && is_set(10) && is_set(11));
    map(base + HELD, GRANULE, &more);                    /* what becomes memory */
    OK(ask(true));
    assert_true(count_set() == 1 && is_set(GRANULES));
    OK(cuMemUnmap(base + HELD, GRANULE));
    OK(cuMemRelease(more));
    OK(ask(true));
    assert_int_equal(count_set(), 0);                    /* it is none any more */
    OK(cuMemAddressReserve(&other, WINDOW, 0, place(1), 0));
    assert_int_equal(other, place(1));
    uint64_t granule;
    assert_int_equal(softgpu_watch(other, bits, sizeof bits, &granule, true), CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(softgpu_watch(base + GRANULE, bits, sizeof bits, &granule, true), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(other, WINDOW));
    OK(ask(false));
    OK(ask(false));                                      /* nobody watches: nothing is known */
    assert_int_equal(count_set(), 0);
    OK(ask(true));
    assert_int_equal(count_set(), GRANULES);
    OK(ask(false));
}

int main(void) { return unit_run(setup, tear_down); }
