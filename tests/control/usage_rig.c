/* usage_rig.c: see usage_rig.h. */
#include "tests/control/usage_rig.h"

enum { PATIENCE_MS = 20000 };

/* ---- the resource DB ---- */

struct db_usage rows[ROWS];
size_t row_count, waiting;
unsigned batches;

void rig_put(const struct db_change *change)
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
        rig_put(&changes[i]);
    if (done)
        done(context, 0, "");
    return 0;
}

size_t db_worker_waiting(const struct db_worker *db) { return (void)db, waiting; }
unsigned db_worker_silence(const struct db_worker *db) { return (void)db, 0; }

uint64_t asked_about[8]; /* programs that the node was asked about */
unsigned asked, asked_other;

uint64_t node_send_order(struct cluster *of, struct node *to, const struct message *what)
{
    asked_other += what->kind != NODE_ORDER_SERVED;
    asked_about[asked++ % 8] = what->program;
    return (void)of, (void)to, what->program;
}

/* All SM-microseconds of these rows. */
uint64_t rig_sum_of(enum db_usage_kind kind, const char *name)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].kind == kind && strcmp(rows[i].vm, name) == 0)
            sum += rows[i].sm_us;
    return sum;
}

/* ---- a cluster with one server ---- */

static struct cluster_config values = { .detail_days = 30, .keep_days = 400 };
struct cluster cluster;
struct node node;
static struct cluster_gpu gpu = { .id = "g" };
struct vm vm;
struct server server;
struct program program;

int rig_set_up(void **state)
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

int rig_tear_down(void **state)
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

void rig_run(unsigned ms)
{
    uint64_t until = loop_now(cluster.loop) + ms;
    while (loop_now(cluster.loop) < until) {
        loop_timer_start(cluster.loop, &turn, 50, nothing, NULL);
        loop_run_once(cluster.loop);
    }
    loop_timer_stop(&turn);
}

/* Until the DB has all that memory has of the VM. */
void rig_until_written(void)
{
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    uint64_t until = loop_now(cluster.loop) + PATIENCE_MS;
    assert_non_null(total);
    while (!row_count || total->unsaved || rig_sum_of(DB_USAGE_TOTAL, "v") != total->saved_sm_us) {
        assert_true(loop_now(cluster.loop) < until);
        rig_run(200);
    }
}

/* ---- who shares the server ---- */

struct program sharers[SHARERS];

/* Programs 100 and above have places on the server, which runs. */
void rig_attach_all(void)
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
void rig_pass(int64_t us)
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

void rig_says(uint64_t id, int64_t ended)
{
    const node_left left = { .server = server.row.id, .prog = id, .ended = ended };
    usage_left(&cluster, &server, &left);
    usage_divide(&cluster);
}

uint64_t rig_sm_us_of(uint64_t id)
{
    for (size_t i = 0; i < cluster.usage->count; i++)
        if (cluster.usage->rows[i]->row.program == id)
            return cluster.usage->rows[i]->row.sm_us;
    fail();
    return 0;
}

/* Within a tenth of a second of its SMs. */
void rig_has_seconds(uint64_t id, double seconds)
{
    double has = (double)rig_sm_us_of(id) / 4e6;
    if (has < seconds - 0.1 || has > seconds + 0.1)
        fail_msg("program %d has %.3f s, not %.3f s", (int)id, has, seconds);
}

/* Rows and VM have the same, but for what could not be divided. */
void rig_nothing_is_lost(void)
{
    const struct total *total = map_get(&cluster.usage->totals, "v v");
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster.usage->count; i++)
        sum += cluster.usage->rows[i]->row.sm_us;
    assert_int_equal(sum + server.counted.undivided, total->sm_us);
    assert_true(server.counted.undivided <= SHARERS);
}

struct used *rig_load_program(uint64_t id, int64_t ended)
{
    struct db_usage row = { .id = 5000 + id, .kind = DB_USAGE_PROGRAM, .program = id, .server = 1000, .vm = "v",
                            .node = "n", .gpu = "g", .begun = loop_time() - 100 * second, .ended = ended, .programs = 1,
                            .accrued = loop_time() - 20 * second };
    usage_load(&cluster, &row);
    cluster.usage->first_id = 500;
    return cluster.usage->rows[cluster.usage->count - 1];
}
