/*
 * Programs that share memory and events move together between two servers with the software GPU (core_move_together,
 * docs/moving.md). Arguments: unix or tcp, and the path of cricket-rpc-server. Each test in a process of its own, whose
 * children are the programs of the group: each exports memory and an event to the next one in a ring.
 *
 * shows: moving: two and three programs that share memory by cudaIpc* and exported handles, and events, move together,
 *   there and back: each finds what the others write, at the same addresses, and memory that nobody opened before is
 *   opened by the handle of before
 * shows: moving: a program that is killed, or refuses, at any of the places where the programs of a group wait for each
 *   other makes all others stay, or (when they have decided) go: none is at two servers, or at none
 * shows: moving: a program that shares memory with one that does not move with it stays, and says with whom
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/core/moved_program.h"
#include "tests/lib/unit.h"

enum { PIECE = 2 << 20 };
#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
enum { MOST = 3, WORDS = 4096, BYTES = WORDS * 4, ROUNDS = 12, PATIENCE_S = 30, NOBODY = -1 };

/* ---- what the programs of a test have in common ---- */

enum decision { OPEN, GO, STAY };
static struct common {
    atomic_int arrived[ROUNDS + 1][CORE_MEETS_SEALED + 1], decided[ROUNDS + 1];
    atomic_int met; /* how often somebody came to a barrier */
    int count, to;
    int killed, refuses, where; /* a program that does not get over that meeting; NOBODY */
    bool after;                 /* it has come there before it is killed */
    bool stranger;              /* the last program does not move */
    _Atomic uint64_t sessions[MOST];
    CUipcMemHandle memory[MOST], late[MOST];
    CUipcEventHandle events[MOST];
    int descriptors[MOST], processes[MOST]; /* of exported handles */
} * common;

static void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL); }

/* Of all programs, which must be alive. */
static void barrier(int *passed)
{
    ++*passed;
    atomic_fetch_add(&common->met, 1);
    time_t until = time(NULL) + PATIENCE_S;
    while (atomic_load(&common->met) < *passed * common->count && time(NULL) < until)
        nap();
    CHECK(time(NULL) < until);
}

struct member {
    int number, round, passed;
};

static bool decide(int round, enum decision wanted)
{
    int open = OPEN;
    atomic_compare_exchange_strong(&common->decided[round], &open, wanted);
    return atomic_load(&common->decided[round]) == (int)wanted;
}

static bool all_are_members(uint64_t session, const uint64_t *partners, unsigned count)
{
    bool all = session != 0;
    for (unsigned i = 0; i < count; i++) {
        bool found = false;
        for (int m = 0; m < common->count; m++)
            found |= atomic_load(&common->sessions[m]) == partners[i];
        all &= found;
    }
    return all;
}

/* What a cluster does: waits until all have come, or until one cannot come any more. */
static int meet(void *context, enum core_meeting where, uint64_t session, const uint64_t *partners, unsigned count)
{
    const struct member *self = context;
    const int members = common->count - common->stranger;
    const bool ill = where == (enum core_meeting)common->where;
    if (ill && common->killed == self->number && !common->after)
        raise(SIGKILL);
    if (ill && common->refuses == self->number)
        return decide(self->round, STAY) ? CORE_NOT_READY : 0;
    if (where == CORE_MEETS_PREPARED)
        atomic_store(&common->sessions[self->number], session);
    if (atomic_fetch_add(&common->arrived[self->round][where], 1) + 1 == members && where == CORE_MEETS_SEALED)
        decide(self->round, GO);
    if (ill && common->killed == self->number)
        raise(SIGKILL);
    for (time_t until = time(NULL) + PATIENCE_S; time(NULL) < until; nap()) {
        if (atomic_load(&common->decided[self->round]) == STAY)
            return CORE_NOT_READY;
        if (where == CORE_MEETS_SEALED ? atomic_load(&common->decided[self->round]) == GO
                                       : atomic_load(&common->arrived[self->round][where]) == members)
            return where == CORE_MEETS_RESTED && !all_are_members(session, partners, count) && decide(self->round, STAY)
                       ? CORE_NOT_SUPPORTED
                       : 0;
    }
    return decide(self->round, STAY) ? CORE_NOT_READY : 0;
}

/* 0: it is at that server. */
static int move_together(struct member *self, int to)
{
    self->round++;
    int code = core_move_together(server_uris[to], 20000, meet, self, why, sizeof why);
    if (code)
        decide(self->round, STAY);
    return code;
}

static void expect_at(int server)
{
    char address[128];
    core_server_address(NULL, address, sizeof address);
    CHECK(strcmp(address, server_uris[server]) == 0);
}

/* ---- a program ---- */

struct program {
    CUdeviceptr own, other, late;   /* other: of the one before in the ring */
    CUdeviceptr piece, other_piece; /* by exported handles */
    CUevent record, heard;
    CUstream stream;
    int before;
};

static uint32_t value(int number, int round, int word) { return (uint32_t)(number * 1000003 + round * 7919 + word); }

static void fill(struct program *p, CUdeviceptr at, int number, int round)
{
    uint32_t words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = value(number, round, i);
    OK(cuMemcpyHtoDAsync_v2(at, words, BYTES, p->stream));
    OK(cuStreamSynchronize(p->stream));
}

static void expect(struct program *p, CUdeviceptr at, int number, int round)
{
    uint32_t words[WORDS];
    OK(cuMemcpyDtoHAsync_v2(words, at, BYTES, p->stream));
    OK(cuStreamSynchronize(p->stream));
    for (int i = 0; i < WORDS; i++)
        if (words[i] != value(number, round, i)) {
            fprintf(stderr, "word %d of program %d in round %d is %u, not %u\n", i, number, round, words[i],
                    value(number, round, i));
            CHECK(false);
        }
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = { .location = { .type = 1 /* CU_MEM_LOCATION_TYPE_DEVICE */ }, .flags = 3 };
    CUdeviceptr at;
    OK(cuMemAddressReserve(&at, PIECE, 0, 0, 0));
    OK(cuMemMap(at, PIECE, 0, handle, 0));
    OK(cuMemSetAccess(at, PIECE, &access, 1));
    return at;
}

static void make_piece(struct member *self, struct program *p)
{
    CUmemAllocationProp properties = { .type = 1 /* CU_MEM_ALLOCATION_TYPE_PINNED */,
                                       .requestedHandleTypes = POSIX,
                                       .location = { .type = 1 } };
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, PIECE, &properties, 0));
    p->piece = map(handle);
    OK(cuMemExportToShareableHandle(&common->descriptors[self->number], handle, POSIX, 0));
    common->processes[self->number] = (int)getpid();
}

static void take_piece(struct program *p)
{
    char path[64];
    CUmemGenericAllocationHandle handle;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", common->processes[p->before], common->descriptors[p->before]);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, POSIX));
    p->other_piece = map(handle);
    OK(cuMemRelease(handle));
    close(fd);
}

static void begin(struct member *self, struct program *p)
{
    moved_begin();
    p->before = (self->number + common->count - 1) % common->count;
    OK(cuStreamCreate(&p->stream, 1 /* CU_STREAM_NON_BLOCKING */));
    OK(cuMemAlloc_v2(&p->own, 2 * BYTES));
    OK(cuMemAlloc_v2(&p->late, BYTES));
    OK(cuEventCreate(&p->record, 2 | 4 /* CU_EVENT_DISABLE_TIMING, CU_EVENT_INTERPROCESS */));
    OK(cuIpcGetMemHandle(&common->memory[self->number], p->own));
    OK(cuIpcGetMemHandle(&common->late[self->number], p->late));
    OK(cuIpcGetEventHandle(&common->events[self->number], p->record));
    fill(p, p->late, self->number, 77);
    make_piece(self, p);
    barrier(&self->passed);
    OK(cuIpcOpenMemHandle_v2(&p->other, common->memory[p->before], 1));
    OK(cuIpcOpenEventHandle(&p->heard, common->events[p->before]));
    take_piece(p);
    barrier(&self->passed);
}

/* Each writes into its own memory and into that of the one before, and finds what the others have written. */
static void use(struct member *self, struct program *p, int round)
{
    fill(p, p->own, self->number, round);
    fill(p, p->other + BYTES, self->number + 10, round);
    fill(p, p->other_piece + BYTES, self->number + 20, round);
    OK(cuEventRecord(p->record, p->stream));
    barrier(&self->passed);
    OK(cuStreamWaitEvent(p->stream, p->heard, 0));
    expect(p, p->other, p->before, round);
    expect(p, p->own + BYTES, (self->number + 1) % common->count + 10, round);
    expect(p, p->piece + BYTES, (self->number + 1) % common->count + 20, round);
    barrier(&self->passed);
}

static void open_late(struct program *p)
{
    CUdeviceptr at;
    OK(cuIpcOpenMemHandle_v2(&at, common->late[p->before], 1));
    expect(p, at, p->before, 77);
    OK(cuIpcCloseMemHandle(at));
}

static void there_and_back(struct member *self)
{
    struct program p;
    begin(self, &p);
    for (int round = 0; round < ROUNDS - 1; round++) {
        use(self, &p, round);
        if (round % 2 == 0 && move_together(self, self->round % 2 == 0)) {
            fprintf(stderr, "program %d: %s\n", self->number, why);
            CHECK(false);
        }
        expect_at(self->round % 2);
        expect(&p, p.other, p.before, round);
        if (round == 4)
            open_late(&p);
        barrier(&self->passed);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

/* One of them does not get over a meeting. */
static void one_fails(struct member *self)
{
    struct program p;
    begin(self, &p);
    use(self, &p, 0);
    int code = move_together(self, 1);
    const bool gone = atomic_load(&common->decided[1]) == GO;
    if ((code == 0) != gone) {
        fprintf(stderr, "program %d: decided %d, but %d: %s\n", self->number, atomic_load(&common->decided[1]), code,
                why);
        CHECK(false);
    }
    expect_at(gone);
    expect(&p, p.own, self->number, 0);
    fill(&p, p.own, self->number, 5);
    expect(&p, p.own, self->number, 5);
    if (p.before != common->killed)
        expect(&p, p.other + BYTES, self->number + 10, 0);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

static void stranger(struct member *self)
{
    struct program p;
    begin(self, &p);
    use(self, &p, 0);
    if (self->number < common->count - 1) {
        CHECK(move_together(self, 1) != 0);
        CHECK(core_move(server_uris[1], 2000, why, sizeof why) == CORE_NOT_SUPPORTED);
        CHECK(strstr(why, "the others are"));
    }
    barrier(&self->passed);
    use(self, &p, 1);
}

/* ---- tests ---- */

static struct common *common_make(int count)
{
    struct common *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(made != MAP_FAILED);
    made->count = count;
    made->killed = made->refuses = NOBODY;
    return made;
}

/* All of them end well, but for one that is killed. */
static void run(void (*program)(struct member *))
{
    pid_t children[MOST];
    for (int i = 0; i < common->count; i++) {
        children[i] = fork();
        if (!children[i]) {
            program(&(struct member){ .number = i });
            fflush(stderr);
            _exit(0);
        }
    }
    for (int left = common->count; left; left--) {
        int status, i = 0;
        pid_t ended = wait(&status);
        while (i < common->count - 1 && children[i] != ended)
            i++;
        if (i == common->killed && WIFSIGNALED(status)) { /* what the cluster learns */
            for (int round = 1; round <= ROUNDS; round++)
                decide(round, STAY);
            continue;
        }
        if (status)
            fprintf(stderr, "program %d ended with %#x\n", i, (unsigned)status);
        CHECK(status == 0);
    }
    munmap(common, sizeof *common);
}

static void body_two(void)
{
    common = common_make(2);
    run(there_and_back);
}

static void body_three(void)
{
    common = common_make(3);
    run(there_and_back);
}

static void body_stranger(void)
{
    common = common_make(3);
    common->stranger = true;
    run(stranger);
}

static void body_killed(void)
{
    for (int where = CORE_MEETS_PREPARED; where <= CORE_MEETS_SEALED; where++)
        for (int after = 0; after < 2; after++) {
            common = common_make(2 + after);
            common->killed = where % 2;
            common->where = where;
            common->after = after;
            run(one_fails);
        }
}

static void body_refuses(void)
{
    for (int where = CORE_MEETS_PREPARED; where <= CORE_MEETS_SEALED; where++) {
        common = common_make(3);
        common->refuses = where % 3;
        common->where = where;
        run(one_fails);
    }
}

TEST(two_programs) { assert_int_equal(isolated(body_two, 120), 0); }
TEST(three_programs) { assert_int_equal(isolated(body_three, 180), 0); }
TEST(one_that_stays) { assert_int_equal(isolated(body_stranger, 120), 0); }
TEST(one_that_is_killed) { assert_int_equal(isolated(body_killed, 240), 0); }
TEST(one_that_refuses) { assert_int_equal(isolated(body_refuses, 240), 0); }

int main(int argc, char **argv)
{
    if (argc < 3 || two_servers_start(argv[1], argv[2])) {
        fprintf(stderr, "%s: cannot start the servers; usage: %s unix|tcp SERVER\n", argv[0], argv[0]);
        return 1;
    }
    int failures = unit_run(NULL, NULL);
    two_servers_end();
    return failures;
}
