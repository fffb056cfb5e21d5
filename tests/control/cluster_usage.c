/*
 * cluster_usage.c: the record of use (usage.h) without a cluster, against a resource DB that is played and has much to
 * do.
 *
 * shows: usage: no counter of a node, a GPU or a VM wraps or falls, whatever a GPU server says of itself
 * shows: usage: while half of the queue of the resource DB is full nothing is written, and all of it afterwards; what
 *   it refuses, ends of rows and totals of a server that has gone too, is written later; a row is summed up with its
 *   deletion or not at all
 * shows: usage: a program that only keeps its place pays nothing while a worker serves another of its server; rows of
 *   a server have what their VM has, also where the node says late whom a worker has served
 * shows: usage: after a restart of the cluster manager a program counts once, a new one does not pay for the outage,
 *   and a node that was lost before says until when its programs were served; why those end that were served alone
 * shows: usage: a clock that is set charges nobody for that, and deletes no rows for a day
 */
#include "tests/control/usage_rig.h"

TEST_WITH(test_half_full, rig_set_up, rig_tear_down)
{
    waiting = DB_WORKER_MAX / 2;
    usage_attached(&cluster, &program);
    rig_run(2500); /* a turn of saving */
    assert_int_equal(batches, 0);
    usage_accrue(&cluster, &server);
    uint64_t used = program.used->row.sm_us;
    assert_true(used > 4 * 2000000 && server.counted.dirty);
    waiting = 0;
    rig_until_written();
    assert_true(rig_sum_of(DB_USAGE_PROGRAM, "v") >= used);
    assert_int_equal(rig_sum_of(DB_USAGE_PROGRAM, "v"), rig_sum_of(DB_USAGE_TOTAL, "v"));
}

TEST_WITH(test_refused_at_the_end, rig_set_up, rig_tear_down)
{
    usage_attached(&cluster, &program);
    rig_run(300);
    waiting = DB_WORKER_MAX / 4 * 3;
    batches = 0;
    usage_detached(&cluster, &program, "exit: as the test says");
    map_remove_id(&cluster.servers, 1000);
    usage_server_gone(&cluster, &server);
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    assert_true(!batches && total->unsaved);
    rig_run(2500);
    assert_int_equal(batches, 0);
    waiting = 0;
    rig_until_written();
    assert_int_equal(rig_sum_of(DB_USAGE_TOTAL, "v"), total->sm_us);
    uint64_t used = rig_sum_of(DB_USAGE_PROGRAM, "v"); /* the server was there for a moment without it */
    assert_true(used && used <= total->sm_us && used + 4 * 500000 > total->sm_us);
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].kind == DB_USAGE_PROGRAM)
            assert_string_equal(rows[i].why, "exit: as the test says");
}

TEST_WITH(test_sums_of_days, rig_set_up, rig_tear_down)
{
    enum { OLD = 300 };
    uint64_t all = 0, kept = 0, summed = 0;
    for (unsigned i = 0; i < OLD; i++) {
        int64_t ended = loop_time() - INT64_C(40) * 86400 * 1000000;
        struct db_change change = { .action = DB_PUT, .kind = DB_USAGE };
        change.row.usage = (struct db_usage){ .id = 5000 + i, .kind = DB_USAGE_PROGRAM, .program = i + 1, .vm = "v",
                                              .gpu = "g", .begun = ended - 1, .ended = ended, .sm_us = i,
                                              .programs = 1 };
        rig_put(&change);
        usage_load(&cluster, &change.row.usage);
        all += i;
    }
    waiting = DB_WORKER_MAX / 4 * 3;
    usage_grow_old(&cluster);
    assert_int_equal(batches, 0);
    waiting = DB_WORKER_MAX / 2; /* what is summed by hand here may be written */
    for (int i = 0; i < 100 && cluster.usage->count > 1; i++)
        usage_grow_old(&cluster);
    for (size_t i = 0; i < cluster.usage->count; i++)
        kept += cluster.usage->rows[i]->row.sm_us;
    summed = rig_sum_of(DB_USAGE_DAY, "v") + rig_sum_of(DB_USAGE_PROGRAM, "v");
    assert_int_equal(kept, all);
    assert_int_equal(summed, all);
    assert_int_equal(cluster.usage->count, 1);
    assert_int_equal(cluster.usage->rows[0]->row.programs, OLD);
}

/* ---- who shares a server ---- */

TEST_WITH(test_places_cost_nothing, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_pass(4 * second); /* all may be served */
    for (unsigned i = 1; i < SHARERS; i++)
        rig_says(100 + i, loop_time() - second); /* one call, and an exec */
    rig_has_seconds(100, 0.75 + 1);
    rig_has_seconds(101, 0.75);
    rig_pass(40 * second);
    rig_has_seconds(100, 0.75 + 41);
    rig_nothing_is_lost();
    for (unsigned i = 1; i < SHARERS; i++) {
        usage_detached(&cluster, &sharers[i], "exit: as the test says");
        rig_says(100 + i, loop_time() - 41 * second);
        rig_has_seconds(100 + i, 0.75);
        assert_true(cluster.usage->rows[i]->row.ended > loop_time() - second);
    }
    rig_has_seconds(100, 0.75 + 41);
    rig_nothing_is_lost();
}

TEST_WITH(test_without_a_worker_all_share, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_pass(4 * second);
    for (unsigned i = 0; i < SHARERS; i++)
        rig_says(100 + i, loop_time() - second);
    rig_pass(40 * second);
    for (unsigned i = 0; i < SHARERS; i++)
        rig_has_seconds(100 + i, 11);
    rig_nothing_is_lost();
}

TEST_WITH(test_places_without_a_worker, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_says(100, -1);
    rig_pass(8 * second);
    usage_ask(&cluster, &server);
    assert_int_equal(asked, 0);
    rig_pass(8 * second);
    usage_ask(&cluster, &server);
    usage_ask(&cluster, &server);
    assert_int_equal(asked, SHARERS - 1); /* once, and not about the one that is served */
    assert_int_equal(asked_other, 0);
    for (unsigned i = 0; i < asked; i++)
        assert_int_not_equal(asked_about[i], 100);
    for (unsigned i = 1; i < SHARERS; i++)
        rig_says(100 + i, 0); /* none ever did */
    rig_has_seconds(100, 16);
    rig_has_seconds(101, 0);
    rig_pass(8 * second);
    rig_has_seconds(100, 24);
    rig_nothing_is_lost();
}

TEST_WITH(test_served_between_reports, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_pass(4 * second);
    for (unsigned i = 1; i < SHARERS; i++)
        rig_says(100 + i, loop_time());
    server.counted.heard = loop_time();
    rig_pass(8 * second);
    rig_says(101, -1); /* some time since the report before */
    rig_has_seconds(100, 1 + 4);
    rig_has_seconds(101, 1 + 4);
    rig_says(102, loop_time() - 2 * second); /* came and went */
    rig_has_seconds(102, 1 + 6.0 / 3);
    rig_has_seconds(100, 1 + 6.0 / 3 + 2.0 / 2);
    rig_nothing_is_lost();
    rig_pass(2 * second);
    rig_nothing_is_lost();
}

TEST_WITH(test_an_end_without_witness, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_pass(4 * second);
    vm.named = false; /* the client manager is away, and names it no more */
    rig_says(101, loop_time() - 2 * second);
    usage_detached(&cluster, &sharers[1], "exit: as the test says");
    rig_says(101, loop_time() - 2 * second);
    assert_true(cluster.usage->rows[1]->row.ended < loop_time() - second);
    rig_has_seconds(101, 0.5);
    rig_has_seconds(100, 0.5 + 2.0 / 3);
    rig_nothing_is_lost();
}

TEST_WITH(test_idle_between_workers, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_pass(4 * second);
    for (unsigned i = 1; i < SHARERS; i++)
        rig_says(100 + i, loop_time() - 2 * second);
    rig_pass(2 * second);
    server.counted.heard = loop_time();
    rig_pass(4 * second);
    rig_says(101, -1); /* since then at most */
    rig_says(102, loop_time() - 5 * second); /* divides the time before, too */
    rig_has_seconds(100, 0.5 + 2 + 2 + 2);
    rig_has_seconds(101, 0.5 + 2);
    rig_has_seconds(102, 0.5);
    rig_nothing_is_lost();
}

/* ---- what an earlier run of this manager knows ---- */

/* This manager was away for 20 s. */
static void load_server(void)
{
    struct db_usage row = { .id = 4000, .kind = DB_USAGE_SERVER, .server = 1000, .accrued = loop_time() - 20 * second };
    usage_load(&cluster, &row);
    server.adopted = server.counted.behind = true;
}

static u_quad_t total_calls(enum total_of of, const char *name)
{
    static const char letters[] = { [TOTAL_VM] = 'v', [TOTAL_NODE] = 'n', [TOTAL_GPU] = 'g' };
    char key[TOTAL_KEY_SIZE];
    snprintf(key, sizeof key, "%c %s", letters[of], name);
    const struct total *total = map_get(&cluster.usage->totals, key);
    return total ? total->all.calls : 0;
}

/* A server that was taken over says that it has done more than numbers can hold, again and again as another process. */
TEST_WITH(test_no_counter_wraps, rig_set_up, rig_tear_down)
{
    node_usage says = { .server = 1000, .epoch = 1, .figures = { .calls = 1000 } };
    u_quad_t before = 0;
    rig_attach_all();
    server.row.created = loop_time() - 10 * second;
    usage_report(&cluster, &server, &says);
    assert_int_equal(total_calls(TOTAL_NODE, server.row.node), 1000);
    for (int i = 0; i < 40; i++) {
        says.epoch++;
        says.figures = (ctl_figures){ .calls = UINT64_MAX - (unsigned)i, .busy_us = UINT64_MAX, .bytes_in = UINT64_MAX,
                                      .errors = UINT64_MAX };
        rig_pass(10 * second);
        usage_report(&cluster, &server, &says);
        const u_quad_t now = total_calls(TOTAL_NODE, server.row.node);
        assert_true(now > before);
        assert_true(total_calls(TOTAL_VM, server.row.vm) >= now);
        before = now;
    }
    /* 100 million calls per second, and no program is busy for longer than the time. */
    assert_true(before < UINT64_C(100000000) * 12 * 42);
    assert_true(server.counted.all.busy_us <= 41 * 10 * (u_quad_t)second * (server.workers + 1) + (u_quad_t)second);
    assert_true(server.counted.all.bytes_in > 0);
}

TEST_WITH(test_a_program_counts_once, rig_set_up, rig_tear_down)
{
    rig_load_program(program.id, loop_time() - 30 * second); /* suspended before */
    usage_attached(&cluster, &program);
    assert_int_equal(program.used->row.programs, 0);
    rig_attach_all();
    assert_int_equal(sharers[0].used->row.programs, 1);
}

TEST_WITH(test_who_pays_for_an_outage, rig_set_up, rig_tear_down)
{
    load_server();
    rig_load_program(78, 0);
    struct program lost = program, again = program, new = program;
    lost.id = 77; /* its row was not written */
    again.id = 78;
    new.id = 501;
    usage_attached(&cluster, &lost);
    usage_attached(&cluster, &again);
    usage_attached(&cluster, &new); /* before the node's first figures */
    server.counted.behind = false;
    usage_accrue(&cluster, &server);
    rig_has_seconds(77, 10);
    rig_has_seconds(78, 10);
    rig_has_seconds(501, 0);
}

TEST_WITH(test_a_lost_node_may_say_more_later, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_says(101, loop_time()); /* without a worker: it is not charged for what comes */
    snprintf(node.row.name, sizeof node.row.name, "n");
    usage_settle(&cluster, &server);
    usage_end_rows(&cluster, &server, "lost: as the test says");
    struct db_usage written[2] = { cluster.usage->rows[0]->row, cluster.usage->rows[1]->row };
    usage_free(cluster.usage); /* this manager begins anew */
    cluster.usage = usage_create();
    map_remove_id(&cluster.servers, 1000);
    for (int i = 0; i < 2; i++) {
        written[i].begun -= 80 * second;
        written[i].ended -= 60 * second;
        usage_load(&cluster, &written[i]);
    }
    for (int i = 0; i < 2; i++) {
        const node_left left = { .server = 1000, .prog = 100 + i, .ended = loop_time() - 30 * second };
        usage_left_lost(&cluster, &node, &left);
        usage_left_lost(&cluster, &node, &left); /* once */
    }
    rig_has_seconds(100, 30.0 / (SHARERS - 1));
    rig_has_seconds(101, 0);
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    assert_int_equal(total->sm_us + written[0].sm_us, rig_sm_us_of(100));
}

/* ---- the clock ---- */

/* As if the clock had been set by so much. */
static void set_clock(int64_t step)
{
    usage_accrue(&cluster, &server);
    cluster.usage->clock.now -= step;
    server.counted.accrued -= step;
    for (struct used *used = server.counted.rows; used; used = used->next) {
        used->row.begun -= step;
        used->row.accrued -= step;
        for (unsigned i = 0; i < used->pasts; i++)
            used->past[i].when -= step;
    }
    usage_accrue(&cluster, &server);
}

TEST_WITH(test_the_clock_is_set, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    rig_pass(4 * second);
    set_clock(3600 * second);
    rig_has_seconds(100, 1);
    rig_pass(4 * second);
    rig_has_seconds(100, 2);
    set_clock(-3600 * second);
    rig_pass(4 * second);
    rig_has_seconds(100, 3);
    rig_nothing_is_lost();
}

TEST_WITH(test_the_clock_was_set, rig_set_up, rig_tear_down)
{
    const int64_t year = 365 * 86400 * second;
    struct db_usage row = { .id = 4000, .kind = DB_USAGE_SERVER, .server = 1000, .accrued = loop_time() + year };
    usage_load(&cluster, &row);
    rig_attach_all();
    server.counted.behind = false;
    rig_pass(4 * second);
    rig_has_seconds(100, 1); /* not free until the clock is there */
    row.accrued = loop_time() - year;
    usage_load(&cluster, &row);
    uint64_t before = server.counted.sm_us;
    server.counted.behind = false;
    usage_accrue(&cluster, &server);
    assert_true(server.counted.sm_us - before < UINT64_C(4) * 8 * 86400 * 1000000);
}

TEST_WITH(test_nothing_is_deleted_by_a_wrong_clock, rig_set_up, rig_tear_down)
{
    rig_load_program(77, loop_time() - second);
    set_clock(401 * 86400 * second);
    cluster.usage->rows[0]->row.ended -= 401 * 86400 * second;
    usage_grow_old(&cluster);
    assert_int_equal(cluster.usage->rows[0]->row.kind, DB_USAGE_PROGRAM);
    cluster.usage->clock.since -= 86400 * second; /* a day later */
    usage_grow_old(&cluster);
    assert_int_equal(cluster.usage->count, 0);
}

/* ---- why ---- */

static const char *why_of(uint64_t id)
{
    for (size_t i = 0; i < cluster.usage->count; i++)
        if (cluster.usage->rows[i]->row.program == id)
            return cluster.usage->rows[i]->row.why;
    return "no row";
}

TEST_WITH(test_why_it_ended, rig_set_up, rig_tear_down)
{
    rig_attach_all();
    for (unsigned i = 0; i < SHARERS; i++)
        usage_detached(&cluster, &sharers[i], i == 2 ? "killed: as the test says" : "exit: as the test says");
    rig_says(103, loop_time());
    rig_pass(8 * second);
    server.stopping = true;
    snprintf(server.text, sizeof server.text, "its VM was removed");
    rig_says(101, loop_time());
    rig_says(102, loop_time());
    usage_end_rows(&cluster, &server, "lost: its GPU server has gone");
    assert_string_equal(why_of(100), "lost: its GPU server has gone");
    assert_string_equal(why_of(101), "stopped: its VM was removed");
    assert_string_equal(why_of(102), "killed: as the test says");
    assert_string_equal(why_of(103), "exit: as the test says");
}

int main(void) { return unit_run(NULL, NULL); }
