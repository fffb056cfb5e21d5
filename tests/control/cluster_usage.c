/*
 * cluster_usage.c: the record of use (usage.h) without a cluster, against a resource DB that is played and has much to
 * do.
 *
 * shows: usage: while half of the queue of the resource DB is full nothing is written, and all of it afterwards; what
 *   it refuses, ends of rows and totals of a server that has gone too, is written later; a row is summed up with its
 *   deletion or not at all
 * shows: usage: a program that only keeps its place pays nothing while a worker serves another of its server; rows of
 *   a server have what their VM has, also where the node says late whom a worker has served
 * shows: usage: after a restart of the cluster manager a program counts once, a new one does not pay for the outage,
 *   and a node that was lost before says until when its programs were served; why those end that were served alone
 * shows: usage: a clock that is set charges nobody for that, and deletes no rows for a day
 * shows: usage: 1,000 programs that come and go at once lose nothing of what their server is charged; the work for each
 *   does not grow with their number
 * shows: usage: a node's late reports about 1,000 programs of one server divide what was charged as if each had come in
 *   time; the reports of one call are divided together, and those of a node that was lost need no search
 */
#include "control-managers/cluster-manager/usage.h"
#include "tests/lib/unit.h"

#include "control-managers/cluster-manager/usage_state.h"

enum { ROWS = 4000, PATIENCE_MS = 20000 };

/* ---- the resource DB ---- */

static struct db_usage rows[ROWS];
static size_t row_count, waiting;
static unsigned batches;

static void put(const struct db_change *change)
{
    size_t i = 0;
    if (change->kind != DB_USAGE)
        return;
    while (i < row_count && rows[i].id != change->row.usage.id)
        i++;
    if (change->action == DB_DELETE) {
        if (i < row_count)
            rows[i] = rows[--row_count];
        return;
    }
    assert_true(i < ROWS);
    rows[i] = change->row.usage;
    row_count += i == row_count;
}

int db_worker_apply(struct db_worker *db, const struct db_change *changes, size_t count,
                    void (*done)(void *, int, const char *), void *context, struct db_job **job)
{
    (void)db;
    (void)job;
    batches++;
    for (size_t i = 0; i < count; i++)
        put(&changes[i]);
    if (done)
        done(context, 0, "");
    return 0;
}

size_t db_worker_waiting(const struct db_worker *db) { return (void)db, waiting; }
unsigned db_worker_silence(const struct db_worker *db) { return (void)db, 0; }

static uint64_t asked_about[8]; /* programs that the node was asked about */
static unsigned asked, asked_other;

uint64_t node_send_order(struct cluster *cluster, struct node *node, const struct message *what)
{
    asked_other += what->kind != NODE_ORDER_SERVED;
    asked_about[asked++ % 8] = what->program;
    return (void)cluster, (void)node, what->program;
}

/* All SM-microseconds of these rows. */
static uint64_t sum_of(enum db_usage_kind kind, const char *vm)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].kind == kind && strcmp(rows[i].vm, vm) == 0)
            sum += rows[i].sm_us;
    return sum;
}

/* ---- a cluster with one server ---- */

static struct cluster_config values = { .detail_days = 30, .keep_days = 400 };
static struct cluster cluster;
static struct node node;
static struct gpu gpu = { .id = "g" };
static struct vm vm;
static struct server server;
static struct program program;

static int set_up(void **state)
{
    (void)state;
    row_count = waiting = batches = asked = asked_other = 0;
    cluster = (struct cluster){ .loop = loop_create(), .values = &values, .loaded = true, .next_id = 1,
                                .id_limit = UINT64_MAX, .usage = usage_create() };
    snprintf(vm.row.name, sizeof vm.row.name, "v");
    server = (struct server){ .row = { .id = 1000, .sms = 4, .vm = "v", .node = "n", .gpus = "g" }, .vm = &vm,
                              .node = &node, .gpus = { &gpu }, .gpu_count = 1, .state = CTL_SERVER_STARTING };
    program = (struct program){ .id = 77, .vm = &vm, .server = &server, .uid = 5,
                                .executable = (char *)(uintptr_t)"x" };
    server.cluster = program.cluster = &cluster;
    assert_true(map_put_id(&cluster.servers, 1000, &server));
    usage_begin(&cluster);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    usage_free(cluster.usage);
    map_free(&server.counted.by_program);
    map_free(&cluster.servers);
    follow_free(&cluster.follow);
    loop_destroy(cluster.loop);
    return 0;
}

static struct loop_timer turn;
static void nothing(struct loop_timer *timer, void *context) { (void)timer, (void)context; }

static void run(unsigned ms)
{
    uint64_t until = loop_now(cluster.loop) + ms;
    while (loop_now(cluster.loop) < until) {
        loop_timer_start(cluster.loop, &turn, 50, nothing, NULL);
        loop_run_once(cluster.loop);
    }
    loop_timer_stop(&turn);
}

/* Until the DB has all that memory has of the VM. */
static void until_written(void)
{
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    uint64_t until = loop_now(cluster.loop) + PATIENCE_MS;
    assert_non_null(total);
    while (!row_count || total->unsaved || sum_of(DB_USAGE_TOTAL, "v") != total->saved_sm_us) {
        assert_true(loop_now(cluster.loop) < until);
        run(200);
    }
}

TEST_WITH(test_half_full, set_up, tear_down)
{
    waiting = DB_WORKER_MAX / 2;
    usage_attached(&cluster, &program);
    run(2500); /* a turn of saving */
    assert_int_equal(batches, 0);
    usage_accrue(&cluster, &server);
    uint64_t used = program.used->row.sm_us;
    assert_true(used > 4 * 2000000 && server.counted.dirty);
    waiting = 0;
    until_written();
    assert_true(sum_of(DB_USAGE_PROGRAM, "v") >= used);
    assert_int_equal(sum_of(DB_USAGE_PROGRAM, "v"), sum_of(DB_USAGE_TOTAL, "v"));
}

TEST_WITH(test_refused_at_the_end, set_up, tear_down)
{
    usage_attached(&cluster, &program);
    run(300);
    waiting = DB_WORKER_MAX / 4 * 3;
    batches = 0;
    usage_detached(&cluster, &program, "exit: as the test says");
    map_remove_id(&cluster.servers, 1000);
    usage_server_gone(&cluster, &server);
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    assert_true(!batches && total->unsaved);
    run(2500);
    assert_int_equal(batches, 0);
    waiting = 0;
    until_written();
    assert_int_equal(sum_of(DB_USAGE_TOTAL, "v"), total->sm_us);
    uint64_t used = sum_of(DB_USAGE_PROGRAM, "v"); /* the server was there for a moment without it */
    assert_true(used && used <= total->sm_us && used + 4 * 500000 > total->sm_us);
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].kind == DB_USAGE_PROGRAM)
            assert_string_equal(rows[i].why, "exit: as the test says");
}

TEST_WITH(test_sums_of_days, set_up, tear_down)
{
    enum { OLD = 300 };
    uint64_t all = 0, kept = 0, summed = 0;
    for (unsigned i = 0; i < OLD; i++) {
        int64_t ended = loop_time() - INT64_C(40) * 86400 * 1000000;
        struct db_change change = { .action = DB_PUT, .kind = DB_USAGE };
        change.row.usage = (struct db_usage){ .id = 5000 + i, .kind = DB_USAGE_PROGRAM, .program = i + 1, .vm = "v",
                                              .gpu = "g", .begun = ended - 1, .ended = ended, .sm_us = i,
                                              .programs = 1 };
        put(&change);
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
    summed = sum_of(DB_USAGE_DAY, "v") + sum_of(DB_USAGE_PROGRAM, "v");
    assert_int_equal(kept, all);
    assert_int_equal(summed, all);
    assert_int_equal(cluster.usage->count, 1);
    assert_int_equal(cluster.usage->rows[0]->row.programs, OLD);
}

/* ---- who shares a server ---- */

enum { SHARERS = 4 };
static const int64_t second = 1000000;
static struct program sharers[SHARERS];

/* Programs 100 and above have places on the server, which runs. */
static void attach_all(void)
{
    server.state = CTL_SERVER_RUNNING;
    server.ordered = vm.named = true;
    for (unsigned i = 0; i < SHARERS; i++) {
        sharers[i] = program;
        sharers[i].id = 100 + i;
        sharers[i].used = NULL;
        sharers[i].counted = false;
        usage_attached(&cluster, &sharers[i]);
    }
}

/* Moves all that is known of the server into the past, as if so much time had passed. */
static void pass(int64_t us)
{
    server.counted.accrued -= us;
    server.counted.heard -= server.counted.heard ? us : 0;
    for (struct used *used = server.counted.rows; used; used = used->next) {
        used->row.begun -= us;
        used->row.accrued -= us;
        used->attached -= us;
        used->lingers_since -= us;
        used->left -= used->left ? us : 0;
        used->gone -= used->gone ? us : 0;
        for (unsigned i = 0; i < used->pasts; i++)
            used->past[i].when -= us;
    }
    usage_accrue(&cluster, &server);
}

static void says(uint64_t id, int64_t ended)
{
    const node_left left = { .server = server.row.id, .prog = id, .ended = ended };
    usage_left(&cluster, &server, &left);
    usage_divide(&cluster);
}

static uint64_t sm_us_of(uint64_t id)
{
    for (size_t i = 0; i < cluster.usage->count; i++)
        if (cluster.usage->rows[i]->row.program == id)
            return cluster.usage->rows[i]->row.sm_us;
    fail();
    return 0;
}

/* Within a tenth of a second of its SMs. */
static void has_seconds(uint64_t id, double seconds)
{
    double has = (double)sm_us_of(id) / 4e6;
    if (has < seconds - 0.1 || has > seconds + 0.1)
        fail_msg("program %d has %.3f s, not %.3f s", (int)id, has, seconds);
}

/* Rows and VM have the same, but for what could not be divided. */
static void nothing_is_lost(void)
{
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster.usage->count; i++)
        sum += cluster.usage->rows[i]->row.sm_us;
    assert_int_equal(sum + server.counted.undivided, total->sm_us);
    assert_true(server.counted.undivided <= SHARERS);
}

TEST_WITH(test_places_cost_nothing, set_up, tear_down)
{
    attach_all();
    pass(4 * second); /* all may be served */
    for (unsigned i = 1; i < SHARERS; i++)
        says(100 + i, loop_time() - second); /* one call, and an exec */
    has_seconds(100, 0.75 + 1);
    has_seconds(101, 0.75);
    pass(40 * second);
    has_seconds(100, 0.75 + 41);
    nothing_is_lost();
    for (unsigned i = 1; i < SHARERS; i++) {
        usage_detached(&cluster, &sharers[i], "exit: as the test says");
        says(100 + i, loop_time() - 41 * second);
        has_seconds(100 + i, 0.75);
        assert_true(cluster.usage->rows[i]->row.ended > loop_time() - second);
    }
    has_seconds(100, 0.75 + 41);
    nothing_is_lost();
}

TEST_WITH(test_without_a_worker_all_share, set_up, tear_down)
{
    attach_all();
    pass(4 * second);
    for (unsigned i = 0; i < SHARERS; i++)
        says(100 + i, loop_time() - second);
    pass(40 * second);
    for (unsigned i = 0; i < SHARERS; i++)
        has_seconds(100 + i, 11);
    nothing_is_lost();
}

TEST_WITH(test_places_without_a_worker, set_up, tear_down)
{
    attach_all();
    says(100, -1);
    pass(8 * second);
    usage_ask(&cluster, &server);
    assert_int_equal(asked, 0);
    pass(8 * second);
    usage_ask(&cluster, &server);
    usage_ask(&cluster, &server);
    assert_int_equal(asked, SHARERS - 1); /* once, and not about the one that is served */
    assert_int_equal(asked_other, 0);
    for (unsigned i = 0; i < asked; i++)
        assert_int_not_equal(asked_about[i], 100);
    for (unsigned i = 1; i < SHARERS; i++)
        says(100 + i, 0); /* none ever did */
    has_seconds(100, 16);
    has_seconds(101, 0);
    pass(8 * second);
    has_seconds(100, 24);
    nothing_is_lost();
}

TEST_WITH(test_served_between_reports, set_up, tear_down)
{
    attach_all();
    pass(4 * second);
    for (unsigned i = 1; i < SHARERS; i++)
        says(100 + i, loop_time());
    server.counted.heard = loop_time();
    pass(8 * second);
    says(101, -1); /* some time since the report before */
    has_seconds(100, 1 + 4);
    has_seconds(101, 1 + 4);
    says(102, loop_time() - 2 * second); /* came and went */
    has_seconds(102, 1 + 6.0 / 3);
    has_seconds(100, 1 + 6.0 / 3 + 2.0 / 2);
    nothing_is_lost();
    pass(2 * second);
    nothing_is_lost();
}

TEST_WITH(test_an_end_without_witness, set_up, tear_down)
{
    attach_all();
    pass(4 * second);
    vm.named = false; /* the client manager is away, and names it no more */
    says(101, loop_time() - 2 * second);
    usage_detached(&cluster, &sharers[1], "exit: as the test says");
    says(101, loop_time() - 2 * second);
    assert_true(cluster.usage->rows[1]->row.ended < loop_time() - second);
    has_seconds(101, 0.5);
    has_seconds(100, 0.5 + 2.0 / 3);
    nothing_is_lost();
}

/* ---- what an earlier run of this manager knows ---- */

static struct used *load_program(uint64_t id, int64_t ended)
{
    struct db_usage row = { .id = 5000 + id, .kind = DB_USAGE_PROGRAM, .program = id, .server = 1000, .vm = "v",
                            .node = "n", .gpu = "g", .begun = loop_time() - 100 * second, .ended = ended, .programs = 1,
                            .accrued = loop_time() - 20 * second };
    usage_load(&cluster, &row);
    cluster.usage->first_id = 500;
    return cluster.usage->rows[cluster.usage->count - 1];
}

/* This manager was away for 20 s. */
static void load_server(void)
{
    struct db_usage row = { .id = 4000, .kind = DB_USAGE_SERVER, .server = 1000, .accrued = loop_time() - 20 * second };
    usage_load(&cluster, &row);
    server.adopted = server.counted.behind = true;
}

TEST_WITH(test_a_program_counts_once, set_up, tear_down)
{
    load_program(program.id, loop_time() - 30 * second); /* suspended before */
    usage_attached(&cluster, &program);
    assert_int_equal(program.used->row.programs, 0);
    attach_all();
    assert_int_equal(sharers[0].used->row.programs, 1);
}

TEST_WITH(test_who_pays_for_an_outage, set_up, tear_down)
{
    load_server();
    load_program(78, 0);
    struct program lost = program, again = program, new = program;
    lost.id = 77; /* its row was not written */
    again.id = 78;
    new.id = 501;
    usage_attached(&cluster, &lost);
    usage_attached(&cluster, &again);
    usage_attached(&cluster, &new); /* before the node's first figures */
    server.counted.behind = false;
    usage_accrue(&cluster, &server);
    has_seconds(77, 10);
    has_seconds(78, 10);
    has_seconds(501, 0);
}

TEST_WITH(test_a_lost_node_may_say_more_later, set_up, tear_down)
{
    attach_all();
    says(101, loop_time()); /* without a worker: it is not charged for what comes */
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
    has_seconds(100, 30.0 / (SHARERS - 1));
    has_seconds(101, 0);
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    assert_int_equal(total->sm_us + written[0].sm_us, sm_us_of(100));
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

TEST_WITH(test_the_clock_is_set, set_up, tear_down)
{
    attach_all();
    pass(4 * second);
    set_clock(3600 * second);
    has_seconds(100, 1);
    pass(4 * second);
    has_seconds(100, 2);
    set_clock(-3600 * second);
    pass(4 * second);
    has_seconds(100, 3);
    nothing_is_lost();
}

TEST_WITH(test_the_clock_was_set, set_up, tear_down)
{
    const int64_t year = 365 * 86400 * second;
    struct db_usage row = { .id = 4000, .kind = DB_USAGE_SERVER, .server = 1000, .accrued = loop_time() + year };
    usage_load(&cluster, &row);
    attach_all();
    server.counted.behind = false;
    pass(4 * second);
    has_seconds(100, 1); /* not free until the clock is there */
    row.accrued = loop_time() - year;
    usage_load(&cluster, &row);
    uint64_t before = server.counted.sm_us;
    server.counted.behind = false;
    usage_accrue(&cluster, &server);
    assert_true(server.counted.sm_us - before < UINT64_C(4) * 8 * 86400 * 1000000);
}

TEST_WITH(test_nothing_is_deleted_by_a_wrong_clock, set_up, tear_down)
{
    load_program(77, loop_time() - second);
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

TEST_WITH(test_why_it_ended, set_up, tear_down)
{
    attach_all();
    for (unsigned i = 0; i < SHARERS; i++)
        usage_detached(&cluster, &sharers[i], i == 2 ? "killed: as the test says" : "exit: as the test says");
    says(103, loop_time());
    pass(8 * second);
    server.stopping = true;
    snprintf(server.text, sizeof server.text, "its VM was removed");
    says(101, loop_time());
    says(102, loop_time());
    usage_end_rows(&cluster, &server, "lost: its GPU server has gone");
    assert_string_equal(why_of(100), "lost: its GPU server has gone");
    assert_string_equal(why_of(101), "stopped: its VM was removed");
    assert_string_equal(why_of(102), "killed: as the test says");
    assert_string_equal(why_of(103), "exit: as the test says");
}

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
        run(ms);
    clock_t again = clock();
    for (size_t i = 0; i < count; i++)
        usage_detached(&cluster, &programs[i], "exit: as the test says");
    spent += clock() - again;
    free(programs);
    return spent;
}

TEST_WITH(test_crowd_charged, set_up, tear_down)
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

TEST_WITH(test_crowd_is_cheap, set_up, tear_down)
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

/* ---- many late reports ---- */

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

TEST_WITH(test_late_reports, set_up, tear_down)
{
    struct program *programs = attach_many(MANY);
    pass(8 * second);
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
        pass(8 * second);
        clock_t cost = say_late(programs, MANY, of_a_call);
        least = !i || cost < least ? cost : least;
        for (size_t n = 0; n < MANY; n++)
            usage_detached(&cluster, &programs[n], "exit: as the test says");
        usage_end_rows(&cluster, &server, "lost: as the test says");
        free(programs);
    }
    return least;
}

TEST_WITH(test_late_reports_are_cheap, set_up, tear_down)
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
        struct used *used = load_program(10000 + i, loop_time() - 30 * second);
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

TEST_WITH(test_reports_of_the_lost_are_cheap, set_up, tear_down)
{
    enum { FEW = 1000, TIMES = 16 };
    waiting = DB_WORKER_MAX;
    clock_t few = cost_of_lost(FEW), many = cost_of_lost(TIMES * FEW);
    print_message("%d reports: %ld us, %d: %ld us\n", FEW, (long)few, TIMES * FEW, (long)many);
    assert_true(many < 4 * TIMES * (few + 1000));
}

TEST_WITH(test_idle_between_workers, set_up, tear_down)
{
    attach_all();
    pass(4 * second);
    for (unsigned i = 1; i < SHARERS; i++)
        says(100 + i, loop_time() - 2 * second);
    pass(2 * second);
    server.counted.heard = loop_time();
    pass(4 * second);
    says(101, -1); /* since then at most */
    says(102, loop_time() - 5 * second); /* divides the time before, too */
    has_seconds(100, 0.5 + 2 + 2 + 2);
    has_seconds(101, 0.5 + 2);
    has_seconds(102, 0.5);
    nothing_is_lost();
}

int main(void) { return unit_run(NULL, NULL); }
