/*
 * Programs that share memory and events move together between two servers with the software GPU (core_move_together,
 * docs/moving.md). Arguments: unix or tcp, and the path of cricket-rpc-server. Each test in a process of its own, whose
 * children are the programs of the group (moved_group.h).
 *
 * shows: moving: two and three programs that share memory by cudaIpc* and exported handles, and events, move together,
 *   there and back: each finds what the others write, at the same addresses, and memory that nobody opened before is
 *   opened by the handle of before
 * shows: moving: a program that is killed, or refuses, at any of the places where the programs of a group wait for each
 *   other makes all others stay, or (when they have decided) go: none is at two servers, or at none
 * shows: moving: a program that shares memory with one that does not move with it stays, and says with whom
 */
#include "tests/core/moved_group.h"
#include "tests/lib/unit.h"

enum { ROUNDS = 11 };

static void there_and_back(struct member *self)
{
    struct group_program p;
    group_begin(self, &p);
    for (int round = 0; round < ROUNDS; round++) {
        group_use(self, &p, round);
        if (round % 2 == 0 && group_move(self, self->round % 2 == 0)) {
            fprintf(stderr, "program %d: %s\n", self->number, group_why);
            CHECK(false);
        }
        group_expect_at(self->round % 2);
        group_look(self, &p, round);
        if (round == 4)
            group_open_late(&p);
        group_barrier(self);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

/* One of them does not get over a meeting. */
static void one_fails(struct member *self)
{
    struct group_program p;
    group_begin(self, &p);
    group_use(self, &p, 0);
    int code = group_move(self, 1);
    const bool gone = group_decided(self) == GROUP_GO;
    if ((code == 0) != gone) {
        fprintf(stderr, "program %d: decided %d, but %d: %s\n", self->number, group_decided(self), code,
                group_why);
        CHECK(false);
    }
    group_expect_at(gone);
    group_expect(&p, p.own, self->number, 0);
    group_fill(&p, p.own, self->number, 5);
    group_expect(&p, p.own, self->number, 5);
    if (p.before != common->killed)
        group_expect(&p, p.other + (CUdeviceptr)(1 + self->number) * GROUP_BYTES, self->number + 10, 0);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

static void stranger(struct member *self)
{
    struct group_program p;
    group_begin(self, &p);
    group_use(self, &p, 0);
    if (self->number < common->count - 1) {
        CHECK(group_move(self, 1) != 0);
        CHECK(core_move(server_uris[1], 2000, group_why, sizeof group_why) == CORE_NOT_SUPPORTED);
        CHECK(strstr(group_why, "the others are"));
    }
    group_barrier(self);
    group_use(self, &p, 1);
}

/* ---- tests ---- */

static void body_two(void)
{
    common = group_make(2);
    group_run(there_and_back);
}

static void body_three(void)
{
    common = group_make(3);
    group_run(there_and_back);
}

static void body_stranger(void)
{
    common = group_make(3);
    common->stranger = 2;
    group_run(stranger);
}

static void body_killed(void)
{
    for (int where = CORE_MEETS_PREPARED; where <= CORE_MEETS_SEALED; where++)
        for (int after = 0; after < 2; after++) {
            common = group_make(2 + after);
            common->killed = where % 2;
            common->where = where;
            common->after = after;
            group_run(one_fails);
        }
}

static void body_refuses(void)
{
    for (int where = CORE_MEETS_PREPARED; where <= CORE_MEETS_SEALED; where++) {
        common = group_make(3);
        common->refuses = where % 3;
        common->where = where;
        group_run(one_fails);
    }
}

TEST(two_programs) { assert_int_equal(isolated(body_two, 120), 0); }
TEST(three_programs) { assert_int_equal(isolated(body_three, 180), 0); }
TEST(one_that_stays) { assert_int_equal(isolated(body_stranger, 120), 0); }
TEST(one_that_is_killed) { assert_int_equal(isolated(body_killed, 240), 0); }
TEST(one_that_refuses) { assert_int_equal(isolated(body_refuses, 240), 0); }

int main(int argc, char **argv) { return two_servers_run(argc, argv, ""); }
