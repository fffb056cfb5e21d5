/*
 * test_lanes.c: when large copies go with the calls and when on connections of their own (lanes_choice.c), told by what
 * is said about their speed.
 *
 * shows: lanes: large copies go with the calls while a part takes less than a millisecond, and over lanes when it takes
  *   longer for a while
 * shows: lanes: a copy that was held up once changes nothing; they go back to the calls after fast copies, after each
  *   mistake later
 * shows: lanes: a program that may use four processors keeps them
 */
#include "cpu/client/core/copy/lane_state.h"
#include "tests/lib/unit.h"

enum { PART = 512 * 1024, LARGE = 64 << 20 };
#define US UINT64_C(1000)

static void parts(unsigned count, uint64_t ns)
{
    for (unsigned i = 0; i < count; i++)
        lanes_pace(PART, ns);
}

static unsigned copies_until_back(uint64_t ns)
{
    unsigned count = 0;
    while (lanes_beside() && count < 100000) {
        lanes_tune(0, LARGE, ns);
        count++;
    }
    return count;
}

static int begin(void **state)
{
    (void)state;
    lanes.offered = true;
    lanes.fixed = lanes.many = false;
    lanes.settled = true;                 /* nothing to be opened here */
    lanes_choose(false);
    return 0;
}

TEST_WITH(follows_the_speed, begin, NULL)
{
    parts(1000, 900 * US);
    assert_false(lanes_beside());
    parts(40, 1100 * US);
    assert_false(lanes_beside());
    parts(8, 1100 * US);
    assert_true(lanes_beside());
    /* 0.67 GB/s: fast enough for a start, not to go back */
    assert_int_equal(copies_until_back(100 * 1000 * US), 100000);
    unsigned first = copies_until_back(20 * 1000 * US);
    assert_in_range(first, 1, 100);
    parts(60, 5000 * US);
    assert_true(lanes_beside());
    assert_true(copies_until_back(20 * 1000 * US) > first);
    assert_false(lanes_beside());
}

TEST_WITH(not_by_one, begin, NULL)
{
    for (unsigned i = 0; i < 100; i++) {
        lanes_pace(PART, 50 * 1000 * US);
        parts(16, 200 * US);
    }
    assert_false(lanes_beside());
    parts(1, 30 * 1000 * US);
    parts(1, 30 * 1000 * US);             /* a very slow one: no need to see 4 MiB of it */
    assert_true(lanes_beside());
    for (unsigned i = 0; i < 50; i++) {   /* one slow copy in between, and the count begins anew */
        lanes_tune(1, LARGE, 20 * 1000 * US);
        lanes_tune(1, LARGE, 900 * 1000 * US);
    }
    assert_true(lanes_beside());
}

TEST_WITH(always_where_there_are_processors, begin, NULL)
{
    lanes.many = true;
    lanes_choose(true);
    assert_int_equal(copies_until_back(5 * 1000 * US), 100000);
}

TEST_WITH(not_where_it_is_settled, begin, NULL)
{
    lanes.fixed = true;
    parts(100, 100 * 1000 * US);
    assert_false(lanes_beside());
    lanes.fixed = false;
    lanes.offered = false;
    parts(100, 100 * 1000 * US);
    assert_false(lanes_beside());
    assert_false(lanes_wanted(LARGE, true));
}

int main(void) { return unit_run(NULL, NULL); }
