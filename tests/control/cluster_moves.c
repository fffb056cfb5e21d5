/*
 * The states of a move (moves.h) under random events, whatever order they come in.
 * shows: moving: a move ends once, and gives its reservation back once; the program is the target's only if its library
 *   has said so; and nothing is ordered after it was called off
 */
#include <stdlib.h>

#include "control-managers/cluster-manager/moves.h"
#include "tests/lib/unit.h"

enum { RUNS = 200000, EVENTS = 24, HAPPENINGS = MOVE_CANCEL + 1 };

struct move_seen {
    bool ordered, off, switched, freed, ended, said_moved;
};

static void one_step(struct move_course *moving, struct move_seen *seen, enum move_happening happening)
{
    const struct move_course before = *moving;
    unsigned todo = moves_step(moving, happening);
    bool moved = happening == MOVE_HAS_MOVED || happening == MOVE_AT_TARGET;
    assert_true(moving->state >= before.state);
    assert_false(before.cancelled && !moving->cancelled);
    if (moves_ended(&before)) {
        assert_int_equal(todo, 0);
        assert_int_equal(moving->state, before.state);
        return;
    }
    /* The end, and giving back what was reserved, are one. */
    assert_int_equal(!!(todo & MOVE_END), moves_ended(moving));
    assert_int_equal(!!(todo & MOVE_FREE_TARGET), moves_ended(moving));
    assert_int_equal(!!(todo & MOVE_SWITCH), moving->state == ADMIN_MOVE_DONE);
    assert_false((todo & MOVE_SWITCH) && (!moved || !seen->ordered));
    /* Once the library may know of it, no clock and no administrator ends it: only it does, or the program's end. */
    if (seen->ordered && moves_ended(moving))
        assert_true(moved || happening == MOVE_IS_REFUSED || happening == MOVE_PROGRAM_GONE);
    assert_false((todo & MOVE_ORDER) && moving->cancelled);
    assert_false((todo & MOVE_CALL_OFF) && !seen->ordered);
    seen->ordered |= !!(todo & MOVE_ORDER);
    seen->off |= !!(todo & MOVE_CALL_OFF);
    assert_false(seen->off && !moving->cancelled);
}

TEST(test_random)
{
    unsigned ends[2] = { 0 };
    srand(7);
    for (int run = 0; run < RUNS; run++) {
        struct move_course moving = { .state = ADMIN_MOVE_RESERVED };
        struct move_seen seen = { 0 };
        for (int i = 0; i < EVENTS; i++)
            one_step(&moving, &seen, (enum move_happening)(rand() % HAPPENINGS));
        /* Whatever came before, the end of the program ends the move. */
        one_step(&moving, &seen, MOVE_PROGRAM_GONE);
        assert_true(moves_ended(&moving));
        ends[moving.state == ADMIN_MOVE_DONE]++;
    }
    assert_true(ends[0] > RUNS / 10 && ends[1] > RUNS / 10);
}

TEST(test_usual)
{
    struct move_course moving = { .state = ADMIN_MOVE_RESERVED };
    assert_int_equal(moves_step(&moving, MOVE_HAS_MOVED), 0); /* a client manager that was told nothing */
    assert_int_equal(moves_step(&moving, MOVE_TARGET_RUNS), MOVE_ORDER);
    assert_int_equal(moves_step(&moving, MOVE_TARGET_RUNS), 0);
    assert_int_equal(moves_step(&moving, MOVE_CLIENT_BACK), MOVE_ORDER);
    assert_int_equal(moves_step(&moving, MOVE_IS_TAKEN), 0);
    assert_int_equal(moving.state, ADMIN_MOVE_TAKEN);
    assert_int_equal(moves_step(&moving, MOVE_CANCEL), MOVE_CALL_OFF);
    assert_int_equal(moves_step(&moving, MOVE_CANCEL), 0);
    assert_int_equal(moves_step(&moving, MOVE_CLIENT_BACK), MOVE_CALL_OFF);
    /* It was too late. */
    assert_int_equal(moves_step(&moving, MOVE_HAS_MOVED), MOVE_SWITCH | MOVE_FREE_TARGET | MOVE_END);
    assert_int_equal(moving.state, ADMIN_MOVE_DONE);
}

int main(void) { return unit_run(NULL, NULL); }
