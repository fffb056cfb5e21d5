/*
 * Programs that share memory and events are suspended, resumed and saved together (core_suspend_together, docs/
 * elastic.md), with two servers with the software GPU. Arguments: unix or tcp, and the path of cricket-rpc-server. Each
 * test in a process of its own, whose children are the programs of the group (moved_group.h).
 *
 * shows: suspending: two and three programs that share memory by cudaIpc* and exported handles, and events, are
 *   suspended and resumed together at either server: each finds what the others have written, and goes on to, at the
 *   same addresses
 * shows: suspending: a program that is killed, or refuses, at any of the places where the programs of a group wait for
 *   each other makes all others stay as they were, or (when they have decided) go; those that had no memory of it go on
 * shows: suspending: a program that has memory which another one has freed, or that ended, is not suspended; one that
 *   lost it while it was suspended stays suspended, by name
 * shows: checkpoints: of programs that share memory there is one of each, of one moment: none of them writes before all
 *   have written theirs; none where one of them refuses
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/core/moved_group.h"
#include "tests/lib/unit.h"

enum { ROUNDS = 6 };
static const char lost[] = "has the program that made it ended?", freed[] = "which has ended or freed it";

static void must(struct member *self, int code, const char *what)
{
    if (code)
        fprintf(stderr, "program %d: %s gives %d: %s\n", self->number, what, code, group_why);
    CHECK(code == 0);
}

/* ---- there and back ---- */

static void rest_and_go_on(struct member *self)
{
    struct group_program p;
    group_begin(self, &p);
    for (int round = 0; round < ROUNDS; round++) {
        group_use(self, &p, round);
        must(self, group_suspend(self), "suspend");
        if (round == 2) /* there is no server: all of them stay suspended, and try again */
            CHECK(core_resume("tcp://127.0.0.1:1", group_why, sizeof group_why) != 0);
        group_barrier(self);
        must(self, group_resume(self, round % 2 == 0), "resume");
        group_expect_at(round % 2 == 0);
        group_look(self, &p, round);
        if (round == 3)
            group_open_late(&p);
        group_barrier(self);
    }
    group_use(self, &p, ROUNDS);
    must(self, group_move(self, 1), "move");
    group_look(self, &p, ROUNDS);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

/* ---- one of them fails ---- */

/* Where this program is, and it has everything. */
static void goes_on(struct member *self, struct group_program *p, int server)
{
    const bool dead_before = p->before == common->killed;
    group_expect_at(server);
    group_expect(p, p->own, self->number, 0);
    group_fill(p, p->own, self->number, 5);
    group_expect(p, p->own, self->number, 5);
    if (p->before != GROUP_NOBODY && !dead_before)
        group_expect(p, p->other + (CUdeviceptr)(1 + self->number) * GROUP_BYTES, self->number + 10, 0);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

/* In the first round: while they are suspended. */
static void suspend_fails(struct member *self)
{
    struct group_program p;
    group_begin(self, &p);
    group_use(self, &p, 0);
    const int code = group_suspend(self);
    const bool gone = group_decided(self) == GROUP_GO;
    CHECK((code == 0) == gone);
    if (!gone) {
        goes_on(self, &p, 0);
        return;
    }
    if (common->star) {
        must(self, group_resume(self, 1), "resume");
        goes_on(self, &p, 1);
        return;
    }
    /* In a ring the next one cannot come back, and the others do not go on without it. */
    CHECK(group_resume(self, 1) != 0);
    if (p.before == common->killed)
        CHECK(strstr(group_why, lost) != NULL);
}

/* In the second round: while they are resumed. */
static void resume_fails(struct member *self)
{
    struct group_program p;
    group_begin(self, &p);
    group_use(self, &p, 0);
    must(self, group_suspend(self), "suspend");
    int code = group_resume(self, 1);
    CHECK((code == 0) == (group_decided(self) == GROUP_GO));
    if (!code) {
        goes_on(self, &p, 1);
        return;
    }
    must(self, group_resume(self, 0), "resume again");
    goes_on(self, &p, 0);
}

static void run_failing(void (*program)(struct member *), int round, int where, bool after, bool kills)
{
    common = group_make(3);
    common->star = true;
    common->round = round;
    common->where = where;
    common->after = after;
    if (kills)
        common->killed = 2;
    else
        common->refuses = where % 3;
    group_run(program);
}

static void each_place(bool kills)
{
    for (int where = CORE_MEETS_PREPARED; where <= CORE_MEETS_SEALED; where++)
        for (int after = 0; after <= (kills ? 1 : 0); after++) {
            if (where != CORE_MEETS_MADE)
                run_failing(suspend_fails, 1, where, after, kills);
            if (where != CORE_MEETS_RESTED)
                run_failing(resume_fails, 2, where, after, kills);
        }
}

static void body_killed(void) { each_place(true); }
static void body_refuses(void) { each_place(false); }

/* In a ring, behind the decision. */
static void body_killed_ring(void)
{
    common = group_make(3);
    common->killed = 1;
    common->where = CORE_MEETS_SEALED;
    common->after = true;
    group_run(suspend_fails);
}

/* ---- memory that nobody keeps ---- */

/* The first program frees memory that the others have open. */
static void freed_memory(struct member *self)
{
    struct group_program p;
    CUdeviceptr late = 0;
    group_begin(self, &p);
    group_use(self, &p, 0);
    if (self->number)
        OK(cuIpcOpenMemHandle_v2(&late, common->late[0], 1));
    group_barrier(self);
    if (!self->number)
        OK(cuMemFree_v2(p.late));
    group_barrier(self);
    CHECK(group_suspend(self) != 0);
    if (self->number)
        CHECK(strstr(group_why, freed) != NULL || strstr(group_why, "another program of the group") != NULL);
    group_look(self, &p, 0);
    if (late)
        OK(cuIpcCloseMemHandle(late));
    group_barrier(self);
    must(self, group_suspend(self), "suspend");
    group_barrier(self);
    must(self, group_resume(self, 1), "resume");
    group_look(self, &p, 0);
}

static void body_freed(void)
{
    common = group_make(3);
    common->star = true;
    group_run(freed_memory);
}

/* A program alone, whose partner has ended. */
static void maker_ended(struct member *self)
{
    struct group_program p;
    group_begin(self, &p);
    group_use(self, &p, 0);
    if (!self->number)
        raise(SIGKILL);
    /* The server learns a moment later that it has ended. */
    for (time_t until = time(NULL) + GROUP_PATIENCE_S; time(NULL) < until; usleep(1000)) {
        CHECK(core_suspend(2000, group_why, sizeof group_why) == CORE_NOT_SUPPORTED);
        if (strstr(group_why, freed))
            break;
    }
    CHECK(strstr(group_why, freed) != NULL);
    goes_on(self, &p, 0);
}

static void body_ended(void)
{
    common = group_make(2);
    common->star = true;
    common->killed = 0;
    common->round = 0;
    group_run(maker_ended);
}

/* ---- checkpoints ---- */

static atomic_bool writing_ends;

static void *write_on(void *context)
{
    struct group_program *p = context;
    const CUdeviceptr at = p->other ? p->other : p->own;
    CUstream stream;
    moved_begin();
    OK(cuStreamCreate(&stream, 1));
    while (!atomic_load(&writing_ends)) {
        static uint32_t words[GROUP_WORDS];
        OK(cuMemcpyHtoDAsync_v2(at, words, GROUP_BYTES, stream));
        OK(cuStreamSynchronize(stream));
        atomic_fetch_add(&common->writes, 1);
    }
    return NULL;
}

static void saved(struct member *self)
{
    struct group_program p;
    pthread_t thread;
    char file[256];
    snprintf(file, sizeof file, "%s/saved-%d", getenv("TEST_FOLDER"), self->number);
    group_begin(self, &p);
    group_use(self, &p, 0);
    if (self->number)                         /* the first one has memory that the others write */
        pthread_create(&thread, NULL, write_on, &p);
    while (atomic_load(&common->writes) < 10)
        usleep(1000);
    CHECK(group_checkpoint(self, file) == (common->refuses == GROUP_NOBODY ? 0 : CORE_NOT_READY));
    CHECK((access(file, F_OK) == 0) == (common->refuses == GROUP_NOBODY));
    group_barrier(self);
    CHECK(core_checkpoint(file, "", group_why, sizeof group_why) == CORE_NOT_SUPPORTED);
    group_barrier(self);
    atomic_store(&writing_ends, true);
    if (self->number)
        pthread_join(thread, NULL);
    unlink(file);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

static void body_saved(void)
{
    for (int last = CORE_MEETS_SEALED + 1; last >= CORE_MEETS_PREPARED; last--) {
        common = group_make(3);
        common->star = true;
        common->slow = last > CORE_MEETS_MADE ? 0 : GROUP_NOBODY;
        common->where = last;
        common->refuses = last > CORE_MEETS_SEALED ? GROUP_NOBODY : last % 3;
        group_run(saved);
    }
}

static void body_two(void)
{
    common = group_make(2);
    group_run(rest_and_go_on);
}

static void body_three(void)
{
    common = group_make(3);
    group_run(rest_and_go_on);
}

TEST(two_programs) { assert_int_equal(isolated(body_two, 120), 0); }
TEST(three_programs) { assert_int_equal(isolated(body_three, 180), 0); }
TEST(one_that_is_killed) { assert_int_equal(isolated(body_killed, 300), 0); }
TEST(one_that_is_killed_in_a_ring) { assert_int_equal(isolated(body_killed_ring, 120), 0); }
TEST(one_that_refuses) { assert_int_equal(isolated(body_refuses, 240), 0); }
TEST(memory_that_was_freed) { assert_int_equal(isolated(body_freed, 120), 0); }
TEST(memory_of_a_program_that_ended) { assert_int_equal(isolated(body_ended, 120), 0); }
TEST(saved_together) { assert_int_equal(isolated(body_saved, 240), 0); }

int main(int argc, char **argv) { return two_servers_run(argc, argv, ""); }
