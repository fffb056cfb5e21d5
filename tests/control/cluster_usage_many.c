/*
 * cluster_usage_many.c: the record of use (usage.h) of many programs, without a cluster.
 *
 * shows: usage: 1,000 programs that come and go at once lose nothing of what their server is charged; the work for each
 *   does not grow with their number
 * shows: usage: a GPU server that claims for ever to serve whoever was there keeps no more rows than it has workers
 * shows: usage: a node's late reports about 1,000 programs of one server divide what was charged as if each had come in
 *   time; the reports of one call are divided together, and those of a node that was lost need no search
 */
#include <time.h>

#include "tests/control/usage_rig.h"

/* ---- programs that come and go ---- */

/* `count` programs come at once, use the server for `ms`, and go at once. Processor time for their coming and going. */
static clock_t crowd(size_t count, unsigned ms)
{
    struct program *programs = calloc(count, sizeof *programs);
    assert_non_null(programs);
    clock_t spent = clock();
    for (size_t i = 0; i < count; i++) {
        programs[i] = program;
        programs[i].id = cluster.next_id++;
        programs[i].used = NULL;
        if (i) /* the first one begins the account */
            usage_accrue(&cluster, &server);
        usage_attached(&cluster, &programs[i]);
    }
    spent = clock() - spent;
    if (ms)
        rig_run(ms);
    clock_t again = clock();
    for (size_t i = 0; i < count; i++)
        usage_detached(&cluster, &programs[i], "exit: as the test says");
    spent += clock() - again;
    free(programs);
    return spent;
}

TEST_WITH(test_crowd_charged, rig_set_up, rig_tear_down)
{
    enum { CROWD = 1000 };
    uint64_t sum = 0;
    waiting = DB_WORKER_MAX / 2;
    crowd(CROWD, 300);
    for (size_t i = 0; i < cluster.usage->count; i++)
        sum += cluster.usage->rows[i]->row.sm_us;
    assert_in_range(sum, 4 * 300000, server.counted.sm_us);
    assert_int_equal(sum + server.counted.undivided, server.counted.sm_us);
}

TEST_WITH(test_crowd_is_cheap, rig_set_up, rig_tear_down)
{
    enum { FEW = 500, MANY = 8 * FEW, TRIES = 5 };
    clock_t few = 0, many = 0;
    waiting = DB_WORKER_MAX; /* rows that the DB does not have are summed as soon as there are too many */
    for (int i = 0; i < TRIES; i++) {
        clock_t now = crowd(FEW, 0);
        few = !i || now < few ? now : few;
        now = crowd(MANY, 0);
        many = !i || now < many ? now : many;
    }
    print_message("%d programs: %ld us, %d: %ld us\n", FEW, (long)few, MANY, (long)many);
    assert_true(many < 5 * MANY / FEW * (few + 1));
}

/* Programs that have left their client manager, and whose node never says that nobody serves them: as many rows go on
   as a server has workers. */
TEST_WITH(test_rows_that_go_on_are_bounded, rig_set_up, rig_tear_down)
{
    enum { WORKERS = 4096, ROUNDS = 12, AT_ONCE = 500 };
    server.state = CTL_SERVER_RUNNING;
    server.ordered = vm.named = true;
    for (int i = 0; i < ROUNDS; i++)
        crowd(AT_ONCE, 0);
    assert_in_range(server.counted.by_program.count, WORKERS, WORKERS + AT_ONCE);
}

/* ---- late reports ---- */

static struct program *attach_many(size_t count)
{
    struct program *programs = calloc(count, sizeof *programs);
    assert_non_null(programs);
    server.state = CTL_SERVER_RUNNING;
    server.ordered = vm.named = true;
    for (size_t i = 0; i < count; i++) {
        programs[i] = program;
        programs[i].id = cluster.next_id++;
        programs[i].used = NULL;
        usage_attached(&cluster, &programs[i]);
    }
    return programs;
}

/* They have been served for 8 s. Program i left after (i + 1) / count of it, but for the last one, and the node says it
   now, in calls of so many reports. Processor time for that. */
static clock_t say_late(const struct program *programs, size_t count, size_t of_a_call)
{
    int64_t end = server.counted.accrued;
    clock_t spent = clock();
    for (size_t i = 0; i + 1 < count; i++) {
        const node_left left = { .server = server.row.id, .prog = programs[i].id,
                                 .ended = end - 8 * second * (int64_t)(count - i - 1) / (int64_t)count };
        usage_left(&cluster, &server, &left);
        if (i % of_a_call == of_a_call - 1)
            usage_divide(&cluster);
    }
    usage_divide(&cluster);
    return clock() - spent;
}

enum { MANY = 1000 };

TEST_WITH(test_late_reports, rig_set_up, rig_tear_down)
{
    struct program *programs = attach_many(MANY);
    rig_pass(8 * second);
    say_late(programs, MANY, CTL_MAX_REPORTS);
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    uint64_t sum = server.counted.undivided;
    double expected = 0;
    for (unsigned i = 0; i < MANY; i++) {
        expected += 8.0 / MANY / (MANY - i); /* so many shared the i-th part of the time */
        double has = (double)programs[i].used->row.sm_us / 4e6;
        if (has < 0.98 * expected - 0.001 || has > 1.02 * expected + 0.001)
            fail_msg("program %u of %d has %.4f s, not %.4f s", i, MANY, has, expected);
        sum += programs[i].used->row.sm_us;
    }
    assert_int_equal(sum, total->sm_us);
    free(programs);
}

/* Of a server with MANY programs, the least of some tries. */
static clock_t cost_of_reports(size_t of_a_call)
{
    enum { TRIES = 3 };
    clock_t least = 0;
    for (int i = 0; i < TRIES; i++) {
        struct program *programs = attach_many(MANY);
        rig_pass(8 * second);
        clock_t cost = say_late(programs, MANY, of_a_call);
        least = !i || cost < least ? cost : least;
        for (size_t n = 0; n < MANY; n++)
            usage_detached(&cluster, &programs[n], "exit: as the test says");
        usage_end_rows(&cluster, &server, "lost: as the test says");
        free(programs);
    }
    return least;
}

TEST_WITH(test_late_reports_are_cheap, rig_set_up, rig_tear_down)
{
    waiting = DB_WORKER_MAX;
    clock_t one = cost_of_reports(1), together = cost_of_reports(CTL_MAX_REPORTS);
    print_message("%d late reports: %ld us, one in a call: %ld us\n", MANY, (long)together, (long)one);
    assert_true(together < one / 8);
}

/* Of a node that was lost with so many programs. */
static clock_t cost_of_lost(unsigned count)
{
    snprintf(node.row.name, sizeof node.row.name, "n");
    for (unsigned i = 0; i < count; i++) {
        struct used *used = rig_load_program(10000 + i, loop_time() - 30 * second);
        usage_set_rate(cluster.usage, used, 1);
    }
    clock_t spent = clock();
    for (unsigned i = 0; i < count; i++) {
        const node_left left = { .server = 1000, .prog = 10000 + i, .ended = loop_time() - 10 * second };
        usage_left_lost(&cluster, &node, &left);
    }
    spent = clock() - spent;
    assert_int_equal(cluster.usage->lost.count, 0);
    return spent;
}

TEST_WITH(test_reports_of_the_lost_are_cheap, rig_set_up, rig_tear_down)
{
    enum { FEW = 1000, TIMES = 16 };
    waiting = DB_WORKER_MAX;
    clock_t few = cost_of_lost(FEW), many = cost_of_lost(TIMES * FEW);
    print_message("%d reports: %ld us, %d: %ld us\n", FEW, (long)few, TIMES * FEW, (long)many);
    assert_true(many < 4 * TIMES * (few + 1000));
}

int main(void) { return unit_run(NULL, NULL); }
