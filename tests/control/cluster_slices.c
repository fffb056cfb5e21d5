/*
 * cluster_slices.c: what the cluster manager's loop does in slices. Everything around it is played, and so is the
 * clock: each try to find a GPU server, and each program that is looked at, takes some time of it. So the slices are as
 * long as the code makes them, on whatever machine.
 *
 * shows: cluster manager: a look at a long queue goes on in slices of a millisecond; each is tried once, in order, also
 *   where some leave meanwhile
 * shows: cluster manager: searches for moves that make room, or that even the load, go on in slices of a millisecond,
 *   and find what is best of all of them
 */
#include "control-managers/cluster-manager/cluster.h"
#include "control-managers/cluster-manager/moving.h"
#include "control-managers/cluster-manager/policy.h"
#include "tests/lib/unit.h"

enum { MANY = 50, WORK_US = 300, SLICE_US = 1000, PER_SLICE = 4, MIB = 1 << 20, GPU_SMS = 8, HALF = 4 };

static uint64_t clock_us;
static struct cluster cluster;
static struct cluster_config values;
static struct vm vm;
static struct node node;
static struct program programs[MANY], first;
static struct server servers[MANY];
static struct cluster_gpu gpus[MANY];
static unsigned tried[MANY], tries, slices, leaves_every;
static uint64_t moved;
static size_t moved_to;

/* ---- clock and timers ---- */

uint64_t uv_hrtime(void) { return 1000 * clock_us; }

int64_t loop_time(void) { return (int64_t)clock_us; }

void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t ms,
                      void (*fn)(struct loop_timer *, void *), void *context)
{
    *timer = (struct loop_timer){ .loop = loop, .due = ms, .fn = fn, .context = context };
}

void loop_timer_stop(struct loop_timer *timer) { timer->loop = NULL; }

/* What the timer does holds the loop for a slice at most, and for one thing more that began within it. */
static void fire(struct loop_timer *timer)
{
    const uint64_t begun = clock_us;
    assert_true(loop_timer_running(timer));
    timer->loop = NULL;
    timer->fn(timer, timer->context);
    assert_true(clock_us - begun < SLICE_US + WORK_US);
    slices++;
}

/* ---- the rest of the manager ---- */

struct place_request server_request(struct cluster *of, const struct program *program)
{
    /* Those of the queue ask for less and less, so that no failure says anything of the next one. */
    const uint32_t sms = program == &first ? GPU_SMS : program->server ? HALF : (uint32_t)(2 * MANY - program->id);
    return (void)of, (struct place_request){ .sms = sms, .memory = MIB, .accepted = CTL_SHARING_TIME_SLICE,
                                             .asker = program, .gpus = 1 };
}

ctl_code server_try(struct cluster *of, struct program *program, char *text)
{
    clock_us += WORK_US;
    assert_int_equal(program->id, tries % MANY + 1);
    tried[tries++ % MANY]++;
    snprintf(text, CTL_MAX_TEXT + 1, "no room");
    return (void)of, leaves_every && program->id % leaves_every == 0 ? CTL_OK : CTL_BUSY;
}

bool moving_possible(struct cluster *of, const struct program *program, char *text)
{
    clock_us += WORK_US;
    return (void)of, (void)program, (void)text, true;
}

ctl_code moving_begin(struct cluster *of, struct program *program, const struct move_wish *wish,
                      struct moved_program **out, char *text)
{
    moved = program->id;
    moved_to = ((const struct cluster_gpu *)wish->to)->slot;
    return (void)of, (void)out, (void)text, CTL_OK;
}

unsigned moves_under_way(const struct cluster *of) { return (void)of, 0; }

bool server_has_gpu(const struct server *server, const struct cluster_gpu *gpu) { return server->gpus[0] == gpu; }

void cluster_event(struct cluster *of, admin_severity severity, const char *kind, const struct event_about *about,
                   const char *format, ...)
{
    (void)of, (void)severity, (void)kind, (void)about, (void)format;
}

void program_notify(struct cluster *of, struct program *program, client_event_kind kind, ctl_code code,
                    const char *text)
{
    (void)of, (void)program, (void)kind, (void)code, (void)text;
}

void program_refuse(struct cluster *of, struct program *program, ctl_code code, const char *text)
{
    (void)of, (void)program, (void)code, (void)text;
}

bool program_may_wait(const struct cluster *of, const struct program *program) { return (void)of, (void)program, true; }
bool cluster_settling(struct cluster *of) { return (void)of, false; }
bool server_is_shared(const struct program *program) { return (void)program, false; }
bool server_within_entitlement(const struct vm *of, const struct place_request *request)
{
    return (void)of, (void)request, true;
}

const char *protocol_sharing_text(unsigned sharing, char *buffer) { return (void)sharing, strcpy(buffer, "any"); }

/* ---- a cluster ---- */

/* As many GPUs as there are programs, with nothing on them. */
static int set_up(void **state)
{
    (void)state;
    clock_us = UINT64_C(1) << 40;
    tries = slices = leaves_every = 0;
    moved = 0;
    memset(tried, 0, sizeof tried);
    values = (struct cluster_config){ .overtaking = 1000, .elastic_policy = CLUSTER_ELASTIC_ACT, .elastic_moves = 4,
                                      .elastic_margin = 20 };
    vm = (struct vm){ .row = { .name = "v" } };
    node = (struct node){ .row = { .name = "n" } };
    cluster = (struct cluster){ .loop = (struct loop *)&cluster, .values = &values, .loaded = true,
                                .pool = { .overcommit_sms = 1, .overcommit_memory = 1 } };
    cluster.queue_end = &cluster.queue;
    for (size_t i = 0; i < MANY; i++) {
        gpus[i] = (struct cluster_gpu){ .node = &node, .slot = place_add(&cluster.pool, &gpus[i], &node, "") };
        struct place_gpu *place = &cluster.pool.gpus[gpus[i].slot];
        assert_int_equal(gpus[i].slot, i);
        place->sms = GPU_SMS;
        place->memory = 1000ull * MIB;
        place->offered = CTL_SHARING_TIME_SLICE;
        place->schedulable = place->sm_limits = true;
        programs[i] = (struct program){ .id = i + 1, .vm = &vm, .cluster = &cluster, .executable = (char *)"x" };
    }
    return 0;
}

static int tear_down(void **state)
{
    place_free(&cluster.pool);
    map_free(&cluster.programs);
    return (void)state, 0;
}

/* The program has a server with half of that GPU. */
static void place_on(struct program *program, size_t gpu, uint64_t memory)
{
    struct server *server = &servers[program->id - 1];
    *server = (struct server){ .row = { .sms = HALF, .memory = memory }, .node = &node, .gpus = { &gpus[gpu] },
                               .gpu_count = 1, .state = CTL_SERVER_RUNNING, .programs = program, .program_count = 1,
                               .node_next = node.servers };
    node.servers = server;
    node.server_count++;
    program->server = server;
    place_take(&cluster.pool, gpu, CTL_SHARING_TIME_SLICE, HALF, memory);
    assert_true(map_put_id(&cluster.programs, program->id, program));
}

static void all_wait(void)
{
    for (size_t i = 0; i < MANY; i++)
        program_enter_queue(&cluster, &programs[i]);
    queue_retry(&cluster);
}

/* ---- the queue ---- */

TEST_WITH(test_a_look_at_the_queue, set_up, tear_down)
{
    all_wait();
    while (loop_timer_running(&cluster.retry_queue))
        fire(&cluster.retry_queue);
    assert_int_equal(slices, (MANY + PER_SLICE - 1) / PER_SLICE);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(tried[i], 1);
        assert_int_equal(programs[i].position, i + 1);
    }
}

/* Every third one begins; in the middle of the look two more go, one of them the next that would be tried. */
TEST_WITH(test_some_leave_the_queue, set_up, tear_down)
{
    leaves_every = 3;
    all_wait();
    fire(&cluster.retry_queue);
    assert_int_equal(tries, PER_SLICE);
    program_leave_queue(&cluster, &programs[1]);
    assert_ptr_equal(cluster.look.next, &programs[PER_SLICE]);
    program_leave_queue(&cluster, &programs[PER_SLICE]);
    assert_ptr_equal(cluster.look.next, &programs[PER_SLICE + 1]);
    queue_retry(&cluster); /* something has become free: another look follows, from the front */
    tries++;               /* the one that has left is not tried */
    while (cluster.look.runs)
        fire(&cluster.retry_queue);
    assert_int_equal(tries, MANY);
    assert_int_equal(cluster.queue_length, MANY - MANY / 3 - 2);
    assert_true(loop_timer_running(&cluster.retry_queue));
}

/* ---- moves ---- */

/* Until a program moves. */
static void search(void)
{
    policy_start(&cluster);
    while (!moved && slices < 10 * MANY)
        fire(&cluster.policy);
}

/* Each GPU is half taken, so the first in the queue has room nowhere. On one of the last there is the least to move. */
TEST_WITH(test_room_is_looked_for, set_up, tear_down)
{
    enum { BEST = MANY - 7 };
    for (size_t i = 0; i < MANY; i++)
        place_on(&programs[i], i, (i == BEST ? 5 : 10 + i) * MIB);
    first = (struct program){ .id = 1000, .vm = &vm, .cluster = &cluster, .executable = (char *)"x" };
    program_enter_queue(&cluster, &first);
    first.lacks_room = true;
    search();
    assert_int_equal(moved, BEST + 1);
    assert_int_not_equal(moved_to, BEST);
    assert_true(slices >= MANY / PER_SLICE);
    assert_ptr_equal(cluster.pool.gpus[BEST].keeper, &first);
}

/* Two programs share one GPU, and another has none. */
TEST_WITH(test_the_load_is_evened, set_up, tear_down)
{
    enum { FULL = MANY - 7, EMPTY = MANY - 1 };
    values.policy = CLUSTER_SPREAD;
    for (size_t i = 0; i < MANY; i++)
        place_on(&programs[i], i == EMPTY ? FULL : i, (i == EMPTY ? 5 : 10) * MIB);
    search();
    assert_int_equal(moved, EMPTY + 1);
    assert_int_equal(moved_to, EMPTY);
    assert_true(slices >= MANY / PER_SLICE);
}

int main(void) { return unit_run(NULL, NULL); }
