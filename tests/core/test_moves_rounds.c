/*
 * Programs write to their memory all the time while a session moves from server to server (core_move,
 * docs/moving.md, "Rounds"): most of it is copied while they go on. Or they do so while checkpoints of changes are
 * made, with which they go on after a loss (docs/elastic.md). Each thread keeps a model of what its memory has to hold.
 * Arguments: unix, tcp or direct, the path of cricket-rpc-server, and how many moves there are.
 *
 * shows: moving: threads that write by kernels, copies and sets, free and allocate, while what they have is copied in
 *   rounds, find every byte as they left it after each of many moves
 * shows: moving: memory of the kinds that is not copied beforehand (pools, managed memory, handles, arrays, variables)
 *   has what was written last, too
 * shows: recovery: threads that write by kernels, copies and sets, free and allocate, and memory of all these kinds,
 *   while checkpoints are made of what the server has seen written, have every byte as they left it after each of many
 *   losses of their worker; so does a program that uses two GPUs of one server, one of which writes to the other's
 *   memory
 * shows: moving: a context that is reset while its memory is copied calls the move off, or it succeeds; a program that
 *   does not come to rest goes on, and moves later
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/core/held_move.h"
#include "tests/core/moved_program.h"
#include "tests/lib/dice.h"
#include "tests/lib/unit.h"

/* add(address, count, value): adds the value and the index to each word; spin(flag): until *flag is not 0. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 8 .u32 counter;\n"
    ".visible .entry add(.param .u64 a, .param .u32 n, .param .u32 v) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<8>; .reg .pred %p;\n"
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [n]; ld.param.u32 %i4, [v];\n"
    "  mov.u32 %i3, %tid.x; mov.u32 %i5, %ctaid.x; mov.u32 %i6, %ntid.x; mov.u32 %i7, %nctaid.x;\n"
    "  mad.lo.u32 %i3, %i5, %i6, %i3; mul.lo.u32 %i6, %i6, %i7;\n"
    "L: setp.ge.u32 %p, %i3, %i1; @%p ret;\n"
    "  mad.wide.u32 %a2, %i3, 4, %a1; ld.global.u32 %i2, [%a2]; add.u32 %i2, %i2, %i3; add.u32 %i2, %i2, %i4;\n"
    "  st.global.u32 [%a2], %i2; add.u32 %i3, %i3, %i6; bra L;\n}\n"
    ".visible .entry count() {\n"
    "  .reg .u32 %i<4>; ld.global.u32 %i1, [counter]; add.u32 %i1, %i1, 1; st.global.u32 [counter], %i1; ret;\n}\n"
    ".visible .entry spin(.param .u64 a) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<4>; .reg .pred %p; ld.param.u64 %a1, [a];\n"
    "L: ld.volatile.global.u32 %i1, [%a1]; setp.eq.u32 %p, %i1, 0; @%p bra L; ret;\n}\n";

enum { THREADS = 3, BLOCKS = 3, WORDS = 3 << 20 >> 2, PART = 1 << 16, LARGE = 40 << 20 };

static CUcontext context;
static CUfunction add, count, spin;
static CUmodule module;
static unsigned moves_most = 4;
static atomic_bool stop;
static atomic_uint steps_of_all;

static void begin(void)
{
    context = moved_begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&add, module, "add"));
    OK(cuModuleGetFunction(&count, module, "count"));
    OK(cuModuleGetFunction(&spin, module, "spin"));
}

static void launch_on(CUfunction function, CUstream s, CUdeviceptr at, uint32_t words, uint32_t value)
{
    OK(cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 0, s, (void *[]){ &at, &words, &value }, NULL));
}

static void launch_add(CUstream s, CUdeviceptr at, uint32_t words, uint32_t value)
{
    launch_on(add, s, at, words, value);
}

/* ---- threads with a model of their memory ---- */

struct worker {
    pthread_t thread;
    uint64_t seed;
    CUstream stream;
    CUdeviceptr block[BLOCKS];
    uint32_t *model[BLOCKS], *host;
    unsigned steps, checks;
};

static void check_block(struct worker *w, unsigned b)
{
    OK(cuMemcpyDtoHAsync_v2(w->host, w->block[b], (size_t)WORDS * 4, w->stream));
    OK(cuStreamSynchronize(w->stream));
    for (unsigned i = 0; i < WORDS; i++)
        if (w->host[i] != w->model[b][i]) {
            fprintf(stderr, "block %u word %u (step %u): 0x%x instead of 0x%x\n", b, i, w->steps, w->host[i],
                    w->model[b][i]);
            _exit(1);
        }
    w->checks++;
}

/* Its memory may go back to the server, and be mapped anew. */
static void large(struct worker *w)
{
    CUdeviceptr at;
    uint32_t words[4];
    OK(cuMemAlloc_v2(&at, LARGE));
    OK(cuMemsetD32Async(at, w->steps, LARGE / 4, w->stream));
    launch_add(w->stream, at + LARGE - 64, 16, 1);
    OK(cuMemcpyDtoHAsync_v2(words, at + LARGE - 16, 16, w->stream));
    OK(cuStreamSynchronize(w->stream));
    CHECK(words[0] == w->steps + 12 + 1 && words[3] == w->steps + 15 + 1);
    OK(cuMemFree_v2(at));
}

static void step(struct worker *w)
{
    const unsigned b = dice(&w->seed, BLOCKS), o = dice(&w->seed, BLOCKS), what = dice(&w->seed, 32);
    const uint32_t from = dice(&w->seed, WORDS - PART), words = 1 + dice(&w->seed, PART), value = dice(&w->seed, 1000);
    uint32_t *model = w->model[b] + from;
    const CUdeviceptr at = w->block[b] + 4 * (CUdeviceptr)from;
    w->steps++;
    atomic_fetch_add(&steps_of_all, 1);
    if (what < 14) {
        launch_add(w->stream, at, words, value);
        for (uint32_t i = 0; i < words; i++)
            model[i] += i + value;
    } else if (what < 20) {
        OK(cuMemsetD32Async(at, value, words, w->stream));
        for (uint32_t i = 0; i < words; i++)
            model[i] = value;
    } else if (what < 25) {
        for (uint32_t i = 0; i < words; i++)
            model[i] = value + i * 3;
        OK(cuMemcpyHtoDAsync_v2(at, model, 4 * (size_t)words, w->stream));
        OK(cuStreamSynchronize(w->stream));
    } else if (what < 29 && b != o) {
        OK(cuMemcpyDtoDAsync_v2(at, w->block[o] + 4 * (CUdeviceptr)from, 4 * (size_t)words, w->stream));
        memcpy(model, w->model[o] + from, 4 * (size_t)words);
    } else if (what == 29) {
        OK(cuStreamSynchronize(w->stream));
        OK(cuMemFree_v2(w->block[b]));
        OK(cuMemAlloc_v2(&w->block[b], (size_t)WORDS * 4));
        OK(cuMemcpyHtoDAsync_v2(w->block[b], w->model[b], (size_t)WORDS * 4, w->stream));
        OK(cuStreamSynchronize(w->stream));
    } else if (what == 30) {
        large(w);
    } else {
        check_block(w, b);
    }
}

static void worker_begin(struct worker *w, uint64_t seed)
{
    w->seed = seed;
    OK(cuStreamCreate(&w->stream, 1));
    CHECK((w->host = malloc((size_t)WORDS * 4)) != NULL);
    for (unsigned b = 0; b < BLOCKS; b++) {
        CHECK((w->model[b] = calloc(WORDS, 4)) != NULL);
        OK(cuMemAlloc_v2(&w->block[b], (size_t)WORDS * 4));
        OK(cuMemsetD32Async(w->block[b], 0, WORDS, w->stream));
    }
}

static void *work(void *mine)
{
    struct worker *w = mine;
    OK(cuCtxSetCurrent(context));
    while (!atomic_load(&stop))
        step(w);
    for (unsigned b = 0; b < BLOCKS; b++)
        check_block(w, b);
    return NULL;
}

/* Checkpoints hold what was written since the one before. The worker is lost, in place of a move. */
static atomic_uint checkpoints;        /* that the log has named */

static void *read_log(void *shown)
{
    static char line[4096];
    FILE *log = fdopen(STDERR_FILENO + 1, "r");
    while (log && fgets(line, sizeof line, log)) {
        dprintf((int)(intptr_t)shown, "%s", line);
        atomic_fetch_add(&checkpoints, strstr(line, "a checkpoint took") != NULL);
    }
    return NULL;
}

static void protect(void)
{
    int ends[2], shown = dup(STDERR_FILENO);
    pthread_t thread;
    setenv("FLYT_RECOVERY", "checkpoint:100ms:512M", 1);
    setenv("FLYT_LOG", "info", 1);
    CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0 && dup2(ends[0], STDERR_FILENO + 1) >= 0);
    CHECK(pthread_create(&thread, NULL, read_log, (void *)(intptr_t)shown) == 0);
}

/* When the next checkpoint has been made. None is made where nothing is called. */
static void lose(void)
{
    size_t room, all;
    for (unsigned before = atomic_load(&checkpoints); atomic_load(&checkpoints) == before; usleep(10000))
        OK(cuMemGetInfo_v2(&room, &all));
    CHECK(two_servers_signal_workers(SIGKILL) > 0);
}

/* The threads have got further at another worker. */
static void lose_and_go_on(void)
{
    enum { FURTHER = 10 * THREADS };
    lose();
    for (unsigned lost = atomic_load(&steps_of_all); atomic_load(&steps_of_all) - lost < FURTHER;)
        usleep(1000);
}

static void write_all_the_time(bool loses)
{
    struct worker workers[THREADS] = { 0 };
    begin();
    for (unsigned i = 0; i < THREADS; i++) {
        worker_begin(&workers[i], i + 1);
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < moves_most; i++) {
        if (loses)
            lose_and_go_on();
        else
            moved_to((int)(i + 1) % 2, false, 20000);
        usleep(10000);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(workers[i].steps >= moves_most && workers[i].checks >= BLOCKS);
}

static void body_writing(void) { write_all_the_time(false); }

static void body_writing_and_losing(void)
{
    protect();
    write_all_the_time(true);
}

/* ---- what is copied at rest alone ---- */

static uint32_t word_at(CUdeviceptr at)
{
    uint32_t word = 0;
    OK(cuMemcpyDtoH_v2(&word, at, 4));
    return word;
}

static void write_other_kinds(bool loses)
{
    enum { SIZE = 4 << 20 };
    CUdeviceptr counter, heap, pooled, managed, mapped;
    CUmemGenericAllocationHandle handle;
    size_t size;
    begin();
    const CUmemAllocationProp properties = { .type = 1, .location = { .type = 1 } };
    const CUmemAccessDesc access = { .location = { .type = 1 }, .flags = 3 };
    OK(cuModuleGetGlobal_v2(&counter, &size, module, "counter"));
    OK(cuMemAlloc_v2(&heap, SIZE));
    OK(cuMemAllocAsync(&pooled, SIZE, 0));
    OK(cuMemAllocManaged(&managed, SIZE, 1));
    OK(cuMemAddressReserve(&mapped, SIZE, 0, 0, 0));
    OK(cuMemCreate(&handle, SIZE, &properties, 0));
    OK(cuMemMap(mapped, SIZE, 0, handle, 0));
    OK(cuMemSetAccess(mapped, SIZE, &access, 1));
    const CUdeviceptr all[] = { heap, pooled, managed, mapped };
    for (unsigned i = 0; i < 4; i++)
        OK(cuMemsetD32Async(all[i], 0, SIZE / 4, 0));
    for (unsigned round = 1; round <= moves_most; round++) {
        for (unsigned i = 0; i < 4; i++)
            launch_add(0, all[i] + SIZE - 64, 16, 1);
        OK(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
        if (loses)
            lose();
        else
            moved_to((int)round % 2, false, 0);
        CHECK(word_at(counter) == round);
        for (unsigned i = 0; i < 4; i++)
            CHECK(word_at(all[i] + SIZE - 4) == round * 16 && word_at(all[i]) == 0);
    }
}

static void body_other_kinds(void) { write_other_kinds(false); }

static void body_other_kinds_and_losing(void)
{
    protect();
    write_other_kinds(true);
}

/* Each device writes to its own memory, the first one also to that of the second. */
static void body_two_devices_and_losing(void)
{
    enum { SIZE = 4 << 20, WRITTEN = 64 };
    struct { CUcontext context; CUmodule module; CUfunction add; CUdeviceptr at; } on[2];
    protect();
    OK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        CUdevice device;
        OK(cuDeviceGet(&device, i));
        OK(cuDevicePrimaryCtxRetain(&on[i].context, device));
        OK(cuCtxSetCurrent(on[i].context));
        OK(cuModuleLoadData(&on[i].module, ptx));
        OK(cuModuleGetFunction(&on[i].add, on[i].module, "add"));
        OK(cuMemAlloc_v2(&on[i].at, SIZE));
        OK(cuMemsetD32_v2(on[i].at, 0, SIZE / 4));
    }
    OK(cuCtxSetCurrent(on[0].context));
    OK(cuCtxEnablePeerAccess(on[1].context, 0));
    const CUdeviceptr mine = on[0].at + SIZE - WRITTEN, its = on[1].at + SIZE - WRITTEN, copied = on[1].at + 4096;
    for (unsigned round = 1; round <= moves_most; round++) {
        OK(cuCtxSetCurrent(on[1].context));
        launch_on(on[1].add, 0, its, WRITTEN / 4, 1);
        OK(cuCtxSynchronize());
        OK(cuCtxSetCurrent(on[0].context));
        launch_on(on[0].add, 0, mine, WRITTEN / 4, 1);
        launch_on(on[0].add, 0, on[1].at, WRITTEN / 4, 2);
        OK(cuMemcpyPeer(copied, on[1].context, mine, on[0].context, WRITTEN));
        lose();
        CHECK(word_at(mine + WRITTEN - 4) == round * 16 && word_at(its + WRITTEN - 4) == round * 16);
        CHECK(word_at(on[1].at + WRITTEN - 4) == round * 17 && word_at(copied + WRITTEN - 4) == round * 16);
    }
}

/* ---- what ends meanwhile ---- */

static void *reset_again_and_again(void *unused)
{
    (void)unused;
    CUdevice device;
    OK(cuDeviceGet(&device, 0));
    OK(cuCtxSetCurrent(context));
    while (!atomic_load(&stop)) {
        CUdeviceptr at;
        CUcontext again;
        OK(cuDevicePrimaryCtxReset_v2(device));
        OK(cuDevicePrimaryCtxRetain(&again, device));
        OK(cuCtxSetCurrent(again));
        OK(cuMemAlloc_v2(&at, 8 << 20));
        OK(cuMemsetD32_v2(at, 7, 2 << 20));
        CHECK(word_at(at + 4096) == 7);
        usleep(2000);
    }
    return NULL;
}

static void body_context_ends(void)
{
    pthread_t thread;
    unsigned moved = 0, tries = 0;
    int where = 0;
    begin();
    CHECK(pthread_create(&thread, NULL, reset_again_and_again, NULL) == 0);
    for (; tries < 4 * moves_most && moved < moves_most; tries++) {
        const int code = moved_try(!where, 5000);
        if (code && code != 600)
            fprintf(stderr, "not moved: %d: %s\n", code, why);
        CHECK(code == 0 || code == 600);
        moved += !code;
        where = code ? where : !where;
        usleep(1000);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    moved_to(!where, false, 5000);
    fprintf(stderr, "# moved %u times of %u while its context was reset\n", moved, tries);
}

/* The context ends, and begins again with memory at the same address, when the move has made a stream in it: the move
   names the stream no more, which would be an error of the program's. */
static void ends_at(const char *point)
{
    pthread_t mover;
    atomic_int code = -1;
    CUcontext again;
    CUdevice device;
    CUdeviceptr at;
    begin();
    OK(cuDeviceGet(&device, 0));
    OK(cuMemAlloc_v2(&at, 8 << 20));
    OK(cuMemsetD32_v2(at, 3, 2 << 20));
    OK(cuCtxSynchronize());
    hold(point);
    CHECK(pthread_create(&mover, NULL, held_move, &code) == 0);
    hold_await(&code);
    OK(cuDevicePrimaryCtxReset_v2(device));
    OK(cuDevicePrimaryCtxRetain(&again, device));
    OK(cuCtxSetCurrent(again));
    OK(cuMemAlloc_v2(&at, 8 << 20));
    OK(cuMemsetD32_v2(at, 7, 2 << 20));
    OK(cuCtxSynchronize());
    unlink(hold_path);
    pthread_join(mover, NULL);
    CHECK(code == 600);
    OK(cuCtxSynchronize());
    CHECK(word_at(at + 4096) == 7 && core_sticky() == 0 && core_take_latched() == 0);
    moved_to(1, false, HELD_LIMIT_MS);
    CHECK(word_at(at + 4096) == 7 && core_sticky() == 0 && core_take_latched() == 0);
}

/* With a bridge the servers have each other's memory, and none is copied in rounds. */
static void body_context_ends_in_the_preparation(void)
{
    ends_at(strcmp(servers_kind, "bridge") == 0 ? "code" : "round");
}
static void body_context_ends_behind_the_preparation(void) { ends_at("prepared"); }

/* The kernel waits for a value that the program writes. */
static void body_not_at_rest(void)
{
    CUdeviceptr at, flag;
    CUstream stream, other;
    uint32_t one = 1;
    begin();
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&other, 1));
    OK(cuMemAlloc_v2(&at, LARGE));
    OK(cuMemAlloc_v2(&flag, 4));
    OK(cuMemsetD32_v2(flag, 0, 1));
    OK(cuMemsetD32_v2(at, 3, LARGE / 4));
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){ &flag }, NULL));
    for (int i = 0; i < 3; i++) {
        CHECK(moved_try(1, 100) == 600);
        launch_add(other, at, 16, 1);
        OK(cuStreamSynchronize(other));
        CHECK(word_at(at + 4) == 3 + 2 * (uint32_t)(i + 1));
    }
    OK(cuMemcpyHtoDAsync_v2(flag, &one, 4, other));
    OK(cuStreamSynchronize(stream));
    moved_to(1, false, 0);
    CHECK(word_at(at + 4) == 3 + 6 && word_at(at + LARGE - 4) == 3);
    OK(cuStreamDestroy_v2(stream));
    OK(cuStreamCreate(&stream, 1));
    launch_add(stream, at, 16, 1);
    OK(cuStreamSynchronize(stream));
    moved_to(0, false, 0);
    CHECK(word_at(at + 4) == 3 + 8);
}

#define ISOLATED(name, limit) TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(writing, 300)
ISOLATED(writing_and_losing, 300)
ISOLATED(other_kinds, 120)
ISOLATED(other_kinds_and_losing, 120)
ISOLATED(two_devices_and_losing, 120)
ISOLATED(context_ends, 120)
ISOLATED(context_ends_in_the_preparation, 60)
ISOLATED(context_ends_behind_the_preparation, 60)
ISOLATED(not_at_rest, 60)

int main(int argc, char **argv)
{
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    if (argc > 3)
        moves_most = (unsigned)atoi(argv[3]);
    return two_servers_run(argc, argv, " [moves]");
}
