/* moved_group.c: see moved_group.h. */
#include "tests/core/moved_group.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { PIECE = 2 << 20, LATE_ROUND = 77, NAP_NS = 500000 };
#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

struct group_common *common;
char group_why[512];

static void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL); }

void group_barrier(struct member *self)
{
    ++self->passed;
    atomic_fetch_add(&common->met, 1);
    time_t until = time(NULL) + GROUP_PATIENCE_S;
    while (atomic_load(&common->met) < self->passed * common->count && time(NULL) < until)
        nap();
    CHECK(time(NULL) < until);
}

/* ---- the cluster ---- */

static bool decide(int round, enum group_decision wanted)
{
    int open = GROUP_OPEN;
    atomic_compare_exchange_strong(&common->decided[round], &open, wanted);
    return atomic_load(&common->decided[round]) == (int)wanted;
}

enum group_decision group_decided(const struct member *self)
{
    return (enum group_decision)atomic_load(&common->decided[self->round]);
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

/* The others have to wait for it: none of them writes into the memory of another one meanwhile. */
static void be_late(void)
{
    enum { LATE_NS = 100000000 };
    const int before = atomic_load(&common->writes);
    nanosleep(&(struct timespec){ .tv_nsec = LATE_NS }, NULL);
    CHECK(atomic_load(&common->writes) == before);
}

/* Whether all that live have come to that meeting. At the last one it is decided then that they go. */
static bool all_have_come(int round, enum core_meeting where)
{
    const int members = atomic_load(&common->living) - (common->stranger != GROUP_NOBODY);
    const bool all = atomic_load(&common->arrived[round][where]) == members;
    return all && where == CORE_MEETS_SEALED ? decide(round, GROUP_GO) : all;
}

/* Waits until all have come, or until one cannot come any more. */
static int meet(void *context, enum core_meeting where, uint64_t session, const uint64_t *partners, unsigned count)
{
    const struct member *self = context;
    const bool ill = where == (enum core_meeting)common->where && self->round == common->round;
    if (ill && common->killed == self->number && !common->after)
        raise(SIGKILL);
    if (ill && common->refuses == self->number)
        return decide(self->round, GROUP_STAY) ? CORE_NOT_READY : 0;
    if (where == CORE_MEETS_PREPARED)
        atomic_store(&common->sessions[self->number], session);
    if (where == CORE_MEETS_MADE && common->slow == self->number)
        be_late();
    atomic_fetch_add(&common->arrived[self->round][where], 1);
    if (ill && common->killed == self->number) {
        all_have_come(self->round, where);
        raise(SIGKILL);
    }
    for (time_t until = time(NULL) + GROUP_PATIENCE_S; time(NULL) < until; nap()) {
        if (atomic_load(&common->decided[self->round]) == GROUP_STAY)
            return CORE_NOT_READY;
        if (all_have_come(self->round, where) || group_decided(self) == GROUP_GO)
            return where == CORE_MEETS_RESTED && !all_are_members(session, partners, count) &&
                           decide(self->round, GROUP_STAY)
                       ? CORE_NOT_SUPPORTED
                       : 0;
    }
    return decide(self->round, GROUP_STAY) ? CORE_NOT_READY : 0;
}

static int ended(struct member *self, int code)
{
    if (code)
        decide(self->round, GROUP_STAY);
    return code;
}

int group_move(struct member *self, int to)
{
    self->round++;
    return ended(self, core_move_together(server_uris[to], 20000, meet, self, group_why, sizeof group_why));
}

int group_suspend(struct member *self)
{
    self->round++;
    return ended(self, core_suspend_together(20000, meet, self, group_why, sizeof group_why));
}

int group_resume(struct member *self, int to)
{
    self->round++;
    return ended(self, core_resume_together(server_uris[to], meet, self, group_why, sizeof group_why));
}

int group_checkpoint(struct member *self, const char *file)
{
    self->round++;
    return ended(self, core_checkpoint_together(file, meet, self, group_why, sizeof group_why));
}

void group_expect_at(int server)
{
    char address[128];
    core_server_address(NULL, address, sizeof address);
    CHECK(strcmp(address, server_uris[server]) == 0);
}

struct group_common *group_make(int count)
{
    struct group_common *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(made != MAP_FAILED);
    made->count = count;
    atomic_store(&made->living, count);
    made->round = 1;
    made->killed = made->refuses = made->stranger = made->slow = GROUP_NOBODY;
    return made;
}

/* What the cluster learns. In this order: nobody may find that all that live have come to a meeting of this round. */
static void one_is_killed(void)
{
    decide(common->round, GROUP_STAY);
    atomic_fetch_sub(&common->living, 1);
}

void group_run(void (*program)(struct member *))
{
    pid_t children[GROUP_MOST];
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
        pid_t child = wait(&status);
        while (i < common->count - 1 && children[i] != child)
            i++;
        if (i == common->killed && WIFSIGNALED(status)) {
            one_is_killed();
            continue;
        }
        if (status)
            fprintf(stderr, "program %d ended with %#x\n", i, (unsigned)status);
        CHECK(status == 0);
    }
    munmap(common, sizeof *common);
}

/* ---- a program ---- */

static uint32_t value(int number, int round, int word) { return (uint32_t)(number * 1000003 + round * 7919 + word); }

void group_fill(struct group_program *p, CUdeviceptr at, int number, int round)
{
    uint32_t words[GROUP_WORDS];
    for (int i = 0; i < GROUP_WORDS; i++)
        words[i] = value(number, round, i);
    OK(cuMemcpyHtoDAsync_v2(at, words, GROUP_BYTES, p->stream));
    OK(cuStreamSynchronize(p->stream));
}

void group_expect(struct group_program *p, CUdeviceptr at, int number, int round)
{
    uint32_t words[GROUP_WORDS];
    OK(cuMemcpyDtoHAsync_v2(words, at, GROUP_BYTES, p->stream));
    OK(cuStreamSynchronize(p->stream));
    for (int i = 0; i < GROUP_WORDS; i++)
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

static void make_piece(struct member *self, struct group_program *p)
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

static void take_piece(struct group_program *p)
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

void group_begin(struct member *self, struct group_program *p)
{
    const int count = common->count;
    moved_begin();
    p->before = !common->star ? (self->number + count - 1) % count : self->number ? 0 : GROUP_NOBODY;
    OK(cuStreamCreate(&p->stream, 1 /* CU_STREAM_NON_BLOCKING */));
    OK(cuMemAlloc_v2(&p->own, (1 + GROUP_MOST) * GROUP_BYTES));
    OK(cuMemAlloc_v2(&p->late, GROUP_BYTES));
    OK(cuEventCreate(&p->record, 2 | 4 /* CU_EVENT_DISABLE_TIMING, CU_EVENT_INTERPROCESS */));
    OK(cuIpcGetMemHandle(&common->memory[self->number], p->own));
    OK(cuIpcGetMemHandle(&common->late[self->number], p->late));
    OK(cuIpcGetEventHandle(&common->events[self->number], p->record));
    group_fill(p, p->late, self->number, LATE_ROUND);
    make_piece(self, p);
    group_barrier(self);
    if (p->before != GROUP_NOBODY) {
        OK(cuIpcOpenMemHandle_v2(&p->other, common->memory[p->before], 1));
        OK(cuIpcOpenEventHandle(&p->heard, common->events[p->before]));
        take_piece(p);
    }
    group_barrier(self);
}

static CUdeviceptr part_of(CUdeviceptr of, int number)
{
    return of + (CUdeviceptr)(1 + number) * (CUdeviceptr)GROUP_BYTES;
}

/* What that one has in memory of this program, if it lives. */
static void expect_other(struct member *self, struct group_program *p, int other, int round)
{
    const int count = common->count;
    const int before = !common->star ? (other + count - 1) % count : other ? 0 : GROUP_NOBODY;
    if (before != self->number)
        return;
    group_expect(p, part_of(p->own, other), other + 10, round);
    group_expect(p, part_of(p->piece, other), other + 20, round);
}

void group_look(struct member *self, struct group_program *p, int round)
{
    group_expect(p, p->own, self->number, round);
    for (int other = 0; other < common->count; other++)
        expect_other(self, p, other, round);
    if (p->before == GROUP_NOBODY)
        return;
    group_expect(p, p->other, p->before, round);
    group_expect(p, part_of(p->other, self->number), self->number + 10, round);
    group_expect(p, part_of(p->other_piece, self->number), self->number + 20, round);
}

void group_use(struct member *self, struct group_program *p, int round)
{
    group_fill(p, p->own, self->number, round);
    if (p->before != GROUP_NOBODY) {
        group_fill(p, part_of(p->other, self->number), self->number + 10, round);
        group_fill(p, part_of(p->other_piece, self->number), self->number + 20, round);
    }
    OK(cuEventRecord(p->record, p->stream));
    group_barrier(self);
    if (p->before != GROUP_NOBODY)
        OK(cuStreamWaitEvent(p->stream, p->heard, 0));
    group_look(self, p, round);
    group_barrier(self);
}

void group_open_late(struct group_program *p)
{
    CUdeviceptr at;
    if (p->before == GROUP_NOBODY)
        return;
    OK(cuIpcOpenMemHandle_v2(&at, common->late[p->before], 1));
    group_expect(p, at, p->before, LATE_ROUND);
    OK(cuIpcCloseMemHandle(at));
}
