/*
 * Programs that move, with nodes and client managers that lie, vanish, begin anew, or are of an earlier release.
 * shows: moving: both places are booked until the client manager has said how the move ended; the books are right and
 *   the program is in one place when it refuses, when target, client manager or cluster manager vanish, or when
 *   somebody says what is not true
 * shows: moving: no client manager brings a program of its VM to a GPU server of another VM by naming that VM's move
 * shows: moving: a client manager of the release before is refused by name, a node of it is served
 * shows: suspending: the share of a suspended program is free, a new cluster manager knows that it is suspended, and it
 *   is resumed elsewhere; a client manager of the release before is refused by name
 * shows: suspending: a new cluster manager learns of a suspension into a file, of which only the one before knew, when
 *   it is reported after the program was named
 * shows: moving: between two nodes the old server's node is told where the new server listens, and the program moves
 *   whatever comes of it; a node of the release before is not told
 * shows: moving: on one node the node manager is asked to connect the two servers first, and the program moves whatever
 *   comes of it; a server and the fresh one that takes its place count once on a software GPU, twice elsewhere
 * shows: moving: before each further try of a move the node manager connects the two servers anew
 */
#include "tests/control/cluster_rig.h"

#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 5000 };

static struct fake_node n1, n2;
static struct fake_client a, b;
static struct fake_program *one, *other;
static bool together;

/* A program of VM a on the first node, one of VM b elsewhere. */
static void begin(uint32_t node_minor)
{
    rig_create("placement = { policy = \"first-fit\"; };\n");
    n2 = (struct fake_node){ 0 };
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    one = client_run(&a, CLIENT_WAIT_NO);
    other = client_run(&b, CLIENT_WAIT_NO);
    rig_until(one->running && other->running, SOON_MS);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    if (node_minor) {
        node_close(&n2);
        n2.minor = node_minor;
        node_reopen(&n2);
        rig_until(n2.registered, SOON_MS);
    }
}

static ctl_code act(admin_move_action action, const char *to, uint64_t *id)
{
    admin_move_args args = { .prog = one->id, .vm = (char *)"", .to = (char *)(uintptr_t)to, .action = action,
                             .together = action == ADMIN_ACTION_RESUME && together,
                             .file = (char *)(action == ADMIN_ACTION_CHECKPOINT ? "/a/file" : "") };
    return admin_move(ADMIN_MOVE, &args, id);
}

static ctl_code move(const char *to, uint64_t *id) { return act(ADMIN_ACTION_MOVE, to, id); }

static admin_move_state state_of(uint64_t id) { return move_row(id).state; }

static void cancel(uint64_t id)
{
    admin_program_args args = { id };
    assert_int_equal(admin_code(ADMIN_MOVE_CANCEL, &args), CTL_OK);
}

static void assert_booked(unsigned sms)
{
    admin_check_books();
    assert_int_equal(admin_status().sms_used, sms);
}

/* Until it is ordered. */
static uint64_t ordered(void)
{
    uint64_t id;
    assert_int_equal(move("n2", &id), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    assert_true(one->move == id && one->target != one->server);
    assert_booked(12);
    return id;
}

RIG_TEST(test_moved)
{
    begin(6); /* of nodes nothing is wanted */
    uint64_t id = ordered(), from = one->server;
    /* What another VM's client manager says of it, or this one of a move that there is not, means nothing. */
    client_moved(&b, other, id, CTL_MOVE_MOVED, CTL_OK);
    client_moved(&a, one, id + 1, CTL_MOVE_MOVED, CTL_OK);
    client_moved(&a, one, id, (ctl_move_stage)77, CTL_OK);
    rig_run_ms(100);
    assert_int_equal(state_of(id), ADMIN_MOVE_ORDERED);
    client_moved(&a, one, id, CTL_MOVE_TAKEN, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_TAKEN, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE, SOON_MS);
    one->server = one->target;
    rig_until(n1.revoked_last == one->id && n1.server_count == 1, SOON_MS);
    assert_booked(8);
    /* Afterwards it is as any other. */
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_OK);
    client_renew(&a, one);
    one->running = false;
    rig_until(one->running, SOON_MS);
    assert_true(one->server == one->target && one->server != from);
    client_end(&a, one);
    rig_until(admin_status().programs == 1, SOON_MS);
}

RIG_TEST(test_refused_and_cancelled)
{
    begin(0);
    uint64_t id = ordered();
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && n2.server_count == 0, SOON_MS);
    assert_booked(8);
    one->move_orders = 0;
    id = ordered();
    cancel(id);
    rig_until(one->move_offs == 1, SOON_MS);
    assert_booked(12);                  /* only the client manager knows whether it was in time */
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_DENIED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && n2.server_count == 0, SOON_MS);
    assert_booked(8);
    /* Too late: it has moved. */
    one->move_orders = one->move_offs = 0;
    id = ordered();
    cancel(id);
    rig_until(one->move_offs == 1, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE && n1.server_count == 1, SOON_MS);
    assert_booked(8);
}

RIG_TEST(test_target_vanishes)
{
    uint64_t id;
    begin(0);
    n2.fail_starts = true;
    assert_int_equal(move("n2", &id), CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED, SOON_MS);
    assert_int_equal(one->move_orders, 0);
    assert_booked(8);
    n2.fail_starts = false;
    id = ordered();
    n2.servers[0].state = CTL_SERVER_ENDED;
    node_report(&n2, &n2.servers[0]);
    rig_until(one->move_offs == 1, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_LOST);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED, SOON_MS);
    assert_booked(8);
    assert_true(one->running && !one->lost);
}

/* A new manager knows the move from the DB; the client manager says where the program is. */
RIG_TEST(test_killed_manager)
{
    begin(0);
    uint64_t id = ordered();
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && n2.registered && a.registered && b.registered, 10000);
    rig_until(one->move_orders == 2, SOON_MS);
    assert_true(one->move == id);
    assert_booked(12);
    rig_signal(SIGKILL);
    one->server = one->target;
    rig_start();
    rig_until(n1.registered && n2.registered && a.registered && b.registered, 10000);
    rig_until(state_of(id) == ADMIN_MOVE_DONE, SOON_MS);
    client_renew(&a, one);
    one->running = false;
    rig_until(one->running, SOON_MS);
    assert_true(one->server == one->target);
}

RIG_TEST(test_client_manager_vanishes)
{
    begin(0);
    uint64_t id = ordered();
    client_close(&a);
    rig_run_ms(100);
    assert_int_equal(state_of(id), ADMIN_MOVE_ORDERED);
    client_open(&a);
    rig_until(one->move_orders == 2, SOON_MS);
    client_close(&a);
    one->server = one->target;
    client_open(&a);
    rig_until(state_of(id) == ADMIN_MOVE_DONE && n1.server_count == 1, SOON_MS);
    assert_booked(8);
}

RIG_TEST(test_earlier_release)
{
    uint64_t id;
    begin(0);
    client_close(&a);
    a.minor = 6;
    client_open(&a);
    rig_until(a.registered, SOON_MS);
    assert_int_equal(move("n2", &id), CTL_NOT_SUPPORTED);
    assert_non_null(strstr(admin_text, "vm-a"));
    assert_non_null(strstr(admin_text, "earlier release"));
    assert_booked(8);
    assert_int_equal(n2.starts, 0);
}

/* After the start of a manager its client managers may be back before its nodes. */
RIG_TEST(test_moved_before_its_node_is_back)
{
    begin(0);
    uint64_t id = ordered();
    node_close(&n2);
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && a.registered && b.registered, 10000);
    one->server = one->target;
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE, SOON_MS);
    node_reopen(&n2);
    rig_until(n2.registered && n1.server_count == 1, SOON_MS);
    rig_run_ms(200);
    assert_false(one->lost);
    assert_booked(8);
}

static uint64_t suspended(void)
{
    uint64_t id;
    assert_int_equal(act(ADMIN_ACTION_SUSPEND, "", &id), CTL_OK);
    rig_until(one->rests == 1, SOON_MS);
    assert_true(one->rest == CTL_REST_SUSPEND && one->move == id);
    assert_booked(8);                   /* it is where it was, until it says that it has left */
    one->server = CLIENT_SUSPENDED;
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE && n1.revoked_last == one->id, SOON_MS);
    rig_until(n1.server_count + n2.server_count == 1, SOON_MS);
    assert_booked(4);
    return id;
}

RIG_TEST(test_suspended)
{
    uint64_t id;
    begin(0);
    suspended();
    assert_int_equal(act(ADMIN_ACTION_SUSPEND, "", &id), CTL_BUSY);
    assert_int_equal(move("n2", &id), CTL_BUSY);
    assert_int_equal(act(ADMIN_ACTION_CHECKPOINT, "", &id), CTL_BUSY);
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && n2.registered && a.registered && b.registered, 10000);
    rig_run_ms(200);
    assert_booked(4);
    assert_int_equal(admin_status().programs, 2);
    assert_int_equal(act(ADMIN_ACTION_RESUME, "n2", &id), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    assert_true(one->move == id && one->target);
    assert_booked(8);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_LOST);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && n2.server_count == 0, SOON_MS);
    assert_booked(4);
    assert_int_equal(act(ADMIN_ACTION_RESUME, "", &id), CTL_OK);
    rig_until(one->move_orders == 2, SOON_MS);
    one->server = one->target;
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE, SOON_MS);
    assert_booked(8);
    assert_int_equal(act(ADMIN_ACTION_RESUME, "", &id), CTL_BUSY);
    assert_int_equal(act(ADMIN_ACTION_CHECKPOINT, "", &id), CTL_OK);
    rig_until(one->rests == 2, SOON_MS);
    assert_true(one->rest == CTL_REST_CHECKPOINT && strcmp(one->file, "/a/file") == 0);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE, SOON_MS);
    assert_true(one->running && !one->lost);
    assert_booked(8);
}

/* VM b's client manager names its own program as one that shares memory with a program of VM a, which is about to go
   on: it would be at that one's GPU server. */
RIG_TEST(test_group_of_another_vm)
{
    uint64_t id;
    begin(0);
    suspended();
    struct fake_program *const first = one;
    one = other;
    assert_int_equal(act(ADMIN_ACTION_SUSPEND, "", &id), CTL_OK);
    rig_until(other->rests == 1, SOON_MS);
    other->server = CLIENT_SUSPENDED;
    client_moved(&b, other, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE && n1.server_count + n2.server_count == 0, SOON_MS);
    one = first;
    together = true;
    assert_int_equal(act(ADMIN_ACTION_RESUME, "n2", &id), CTL_OK);
    together = false;
    assert_int_equal(client_meets(&b, other, id, other->key), CTL_NOT_FOUND);
    assert_int_equal(client_meets(&b, other, id, 0), CTL_NOT_FOUND);
    rig_until(one->move_orders == 1, SOON_MS);
    rig_run_ms(200);
    assert_int_equal(other->move_orders, 0);
    assert_int_equal(client_meets(&a, one, id, 0), CTL_OK);
    assert_booked(4);
}

/* The manager was killed when the library had left its server, and nobody had said so. */
RIG_TEST(test_suspended_meanwhile)
{
    uint64_t id;
    begin(0);
    assert_int_equal(act(ADMIN_ACTION_SUSPEND, "", &id), CTL_OK);
    rig_until(one->rests == 1, SOON_MS);
    rig_signal(SIGKILL);
    one->server = CLIENT_SUSPENDED;
    rig_start();
    rig_until(n1.registered && n2.registered && a.registered && b.registered, 10000);
    rig_until(state_of(id) == ADMIN_MOVE_DONE && n1.server_count + n2.server_count == 1, SOON_MS);
    assert_booked(4);
    assert_false(one->lost);
    client_end(&a, one);
    rig_until(admin_status().programs == 1, SOON_MS);
}

RIG_TEST(test_release_before_suspends_nothing)
{
    uint64_t id;
    begin(0);
    client_close(&a);
    a.minor = 7;
    client_open(&a);
    rig_until(a.registered, SOON_MS);
    assert_int_equal(act(ADMIN_ACTION_SUSPEND, "", &id), CTL_NOT_SUPPORTED);
    assert_true(strstr(admin_text, "vm-a") && strstr(admin_text, "earlier release"));
    assert_int_equal(one->rests, 0);
    ordered();                          /* it moves programs */
}

/* ---- files ---- */

static ctl_code save(admin_move_action action, const char *file, const char *base)
{
    admin_save_args args = { { .prog = one->id, .vm = (char *)"", .to = (char *)"", .action = action,
                               .file = (char *)(uintptr_t)file }, (char *)(uintptr_t)base };
    return admin_code(ADMIN_SAVE, &args);
}

RIG_TEST(test_files_are_ordered)
{
    begin(0);
    assert_int_equal(save(ADMIN_ACTION_CHECKPOINT, "relative", ""), CTL_INVALID);
    assert_int_equal(save(ADMIN_ACTION_CHECKPOINT, "/new", "relative"), CTL_INVALID);
    assert_int_equal(save(ADMIN_ACTION_SUSPEND, "/new", "/base"), CTL_INVALID);
    assert_int_equal(save(ADMIN_ACTION_CHECKPOINT, "/new", "/base"), CTL_OK);
    rig_until(one->rests == 1, SOON_MS);
    assert_true(one->rest == CTL_REST_CHECKPOINT && strcmp(one->file, "/new") == 0 && strcmp(one->base, "/base") == 0);
    assert_int_equal(save(ADMIN_ACTION_CHECKPOINT, "/new", ""), CTL_BUSY);
}

/* The manager was killed while the library was suspended into a file, of which the next one knows nothing: it learns
   of it when the program has been named already. What is said of moves otherwise changes nothing. */
RIG_TEST(test_suspended_unknown)
{
    begin(0);
    assert_int_equal(save(ADMIN_ACTION_SUSPEND, "/new", ""), CTL_OK);
    rig_until(one->rests == 1, SOON_MS);
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && n2.registered && a.registered && b.registered, 10000);
    client_moved(&a, one, one->move, CTL_MOVE_MOVED, CTL_OK);
    rig_run_ms(200);
    assert_booked(8);
    one->server = CLIENT_SUSPENDED;
    client_moved(&a, one, one->move, CTL_MOVE_MOVED, CTL_OK);
    rig_until(n1.server_count + n2.server_count == 1 && n1.revoked_last == one->id, SOON_MS);
    assert_booked(4);
    assert_false(one->lost);
    client_moved(&a, one, one->move, CTL_MOVE_MOVED, CTL_OK); /* twice */
    assert_int_equal(save(ADMIN_ACTION_RESUME, "", ""), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
}

RIG_TEST(test_client_managers_of_a_release_before)
{
    begin(0);
    client_close(&a);
    a.minor = 8;
    client_open(&a);
    rig_until(a.registered, SOON_MS);
    assert_int_equal(save(ADMIN_ACTION_CHECKPOINT, "/new", "/base"), CTL_NOT_SUPPORTED);
    assert_true(strstr(admin_text, "vm-a") && strstr(admin_text, "checkpoints of changes"));
    assert_int_equal(save(ADMIN_ACTION_SUSPEND, "/new", ""), CTL_NOT_SUPPORTED);
    assert_true(strstr(admin_text, "vm-a") && strstr(admin_text, "file for a suspended program"));
    assert_int_equal(one->rests, 0);
    assert_int_equal(save(ADMIN_ACTION_CHECKPOINT, "/new", ""), CTL_OK);    /* as before */
    rig_until(one->rests == 1, SOON_MS);
    assert_true(one->rest == CTL_REST_CHECKPOINT && strcmp(one->file, "/new") == 0 && !*one->base);
}

/* ---- frozen, and restored ---- */

static struct { ctl_code code; uint64_t id; bool answered; } thawed;

static void take_thawed(void *context, int error, const char *why, void *object)
{
    const client_answer *answer = object;
    (void)context, (void)why;
    thawed.answered = true;
    thawed.code = error ? CTL_INTERNAL : answer->status.code;
    thawed.id = error ? 0 : answer->prog;
}

static void thaw(uint64_t key, uint64_t id, uint64_t server)
{
    char error[512] = "";
    client_running running = { .prog = { .key = key, .pid = 77, .executable = (char *)"/bin/thawed" }, .id = id,
                               .server = server };
    thawed.answered = false;
    assert_int_equal(link_call(a.link, CLIENT_THAWED, &running, SOON_MS, take_thawed, NULL, error), 0);
    rig_until(thawed.answered, SOON_MS);
}

RIG_TEST(test_thawed)
{
    begin(0);
    const unsigned before = admin_status().programs;
    thaw(4711, 0, 1);                                   /* it has a server */
    assert_int_equal(thawed.code, CTL_INVALID);
    thaw(4711, one->id, CLIENT_SUSPENDED);              /* and that is another one's name */
    assert_int_equal(thawed.code, CTL_INVALID);
    assert_int_equal(admin_status().programs, before);
    thaw(4711, 0, CLIENT_SUSPENDED);
    assert_true(thawed.code == CTL_OK && thawed.id && thawed.id != one->id);
    assert_int_equal(admin_status().programs, before + 1);
    const uint64_t id = thawed.id;
    thaw(4711, 0, CLIENT_SUSPENDED);                    /* twice */
    assert_int_equal(thawed.code, CTL_INVALID);
    assert_int_equal(admin_status().programs, before + 1);
    admin_move_args args = { .prog = id, .vm = (char *)"", .to = (char *)"", .action = ADMIN_ACTION_SUSPEND,
                             .file = (char *)"" };
    assert_int_equal(admin_code(ADMIN_MOVE, &args), CTL_BUSY);
    assert_non_null(strstr(admin_text, "is suspended"));
}

/* ---- on one node ---- */

/* A node whose first GPU has a program of VM a; the second is as large. software: both are software GPUs. */
static void begin_alone(bool software, uint32_t sms)
{
    rig_create("placement = { policy = \"first-fit\"; };\n");
    rig_software = software;
    node_open(&n1, "n1", software ? 1 : 2, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", sms, 5 * GIB, 0, true, "");
    one = client_runs(&a, CLIENT_WAIT_NO);
}

static ctl_code move_fresh(uint64_t id, const char *to, uint64_t *number)
{
    admin_move_args args = { .prog = id, .vm = (char *)"", .to = (char *)(uintptr_t)to, .action = ADMIN_ACTION_MOVE,
                             .fresh = 1 };
    return admin_move(ADMIN_MOVE, &args, number);
}

/* Its node connects the two servers before the program hears of the move; whatever the node says, or does not say, the
   program moves. */
RIG_TEST(test_bridge)
{
    uint64_t id, from;
    begin_alone(false, 4);
    from = one->server;
    n1.bridge = CTL_WAITING;
    assert_int_equal(move("n1:1", &id), CTL_OK);
    rig_until(n1.bridges == 1, SOON_MS);
    assert_true(n1.bridged.prog == one->id && n1.bridged.source == from && n1.bridged.target != from);
    rig_run_ms(200);
    assert_int_equal(one->move_orders, 0);
    node_answer(&n1, n1.held_order + 1, CTL_OK);            /* of another order */
    rig_run_ms(100);
    assert_int_equal(one->move_orders, 0);
    node_answer(&n1, n1.held_order, CTL_NOT_SUPPORTED);
    rig_until(one->move_orders == 1, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && admin_status().sms_used == 4, SOON_MS);
    /* It says nothing. */
    assert_int_equal(move("n1:1", &id), CTL_OK);
    rig_until(one->move_orders == 2, SOON_MS);
    assert_int_equal(n1.bridges, 2);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && admin_status().sms_used == 4, SOON_MS);
    /* Called off meanwhile. */
    assert_int_equal(move("n1:1", &id), CTL_OK);
    rig_until(n1.bridges == 3, SOON_MS);
    cancel(id);
    node_answer(&n1, n1.held_order, CTL_OK);
    rig_until(one->move_offs == 1, SOON_MS);
    assert_int_equal(one->move_orders, 2);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_DENIED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && admin_status().sms_used == 4, SOON_MS);
    /* A node of the release before is not asked. */
    node_close(&n1);
    n1.minor = 7;
    n1.registered = false;
    node_reopen(&n1);
    rig_until(n1.registered, SOON_MS);
    assert_int_equal(move("n1:1", &id), CTL_OK);
    rig_until(one->move_orders == 3, SOON_MS);
    assert_int_equal(n1.bridges, 3);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE && n1.server_count == 1, SOON_MS);
    assert_booked(4);
    one->server = one->target;
}

static void says(uint64_t id, ctl_move_phase phase)
{
    const ctl_progress progress = { .move = id, .phase = phase };
    client_progress(&a, one, &progress);
}

/* A connection of two servers ends with the try for which it was made. */
RIG_TEST(test_bridge_for_each_try)
{
    uint64_t id;
    begin_alone(false, 4);
    assert_int_equal(move("n1:1", &id), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    assert_int_equal(n1.bridges, 1);
    client_moved(&a, one, id, CTL_MOVE_TAKEN, CTL_OK);
    n1.bridge = CTL_WAITING;
    says(id, CTL_PHASE_PREPARING);
    says(id, CTL_PHASE_WAITING);
    says(id, CTL_PHASE_WAITING);                            /* still for the same try */
    rig_until(n1.bridges == 2, SOON_MS);
    rig_run_ms(100);
    assert_int_equal(one->move_orders, 1);
    node_answer(&n1, n1.held_order, CTL_OK);
    rig_until(one->move_orders == 2, SOON_MS);
    says(id, CTL_PHASE_WAITING);
    rig_until(one->move_orders == 3, SOON_MS);
    assert_int_equal(n1.bridges, 2);
    /* The node says nothing. */
    says(id, CTL_PHASE_RESTING);
    says(id, CTL_PHASE_WAITING);
    rig_until(one->move_orders == 4, SOON_MS);
    assert_int_equal(n1.bridges, 3);
    /* Called off meanwhile. */
    says(id, CTL_PHASE_RESTING);
    says(id, CTL_PHASE_WAITING);
    rig_until(n1.bridges == 4, SOON_MS);
    cancel(id);
    rig_until(one->move_offs == 1, SOON_MS);
    node_answer(&n1, n1.held_order, CTL_OK);
    rig_run_ms(100);
    assert_int_equal(one->move_orders, 4);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_DENIED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && admin_status().sms_used == 4, SOON_MS);
}

/* Between two nodes that of the old server connects it to the new one, where that can be reached over a network. */
RIG_TEST(test_dial)
{
    uint64_t id;
    begin(0);
    const uint64_t from = one->server;
    n1.bridge = CTL_WAITING;
    assert_int_equal(move("n2", &id), CTL_OK);
    rig_until(n1.dials == 1, SOON_MS);
    assert_true(n1.bridged.prog == one->id && n1.bridged.source == from && n1.bridged.target != from);
    assert_true(strncmp(n1.dialled, "tcp://", 6) == 0 && n1.bridges + n2.bridges + n2.dials == 0);
    rig_run_ms(200);
    assert_int_equal(one->move_orders, 0);
    node_answer(&n1, n1.held_order, CTL_LOST);
    rig_until(one->move_orders == 1, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED, SOON_MS);
    /* It says nothing. */
    assert_int_equal(move("n2", &id), CTL_OK);
    rig_until(one->move_orders == 2, SOON_MS);
    assert_int_equal(n1.dials, 2);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED, SOON_MS);
    /* A node of the release before is not asked. */
    node_close(&n1);
    n1.minor = 8;
    n1.registered = false;
    node_reopen(&n1);
    rig_until(n1.registered, SOON_MS);
    assert_int_equal(move("n2", &id), CTL_OK);
    rig_until(one->move_orders == 3, SOON_MS);
    assert_int_equal(n1.dials, 2);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE, SOON_MS);
}

/* On the software GPU a server and the fresh one in its place count once; elsewhere there must be room for both. */
RIG_TEST(test_fresh)
{
    uint64_t id;
    begin_alone(true, 12);
    assert_int_equal(move_fresh(one->id, "n7", &id), CTL_NOT_FOUND);
    assert_int_equal(move_fresh(one->id, "n1:0", &id), CTL_OK);
    rig_until(one->move_orders == 1 && n1.server_count == 2, SOON_MS);
    assert_int_equal(admin_status().sms_used, 12);
    assert_true(admin_status().memory_used == 5 * GIB);
    client_create(&b, "vm-b", 4, 3 * GIB, 0, true, ""); /* what is left is another's */
    other = client_runs(&b, CLIENT_WAIT_NO);
    assert_int_equal(admin_status().sms_used, 16);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED);
    rig_until(state_of(id) == ADMIN_MOVE_FAILED && n1.server_count == 2 && admin_status().servers == 2, SOON_MS);
    assert_booked(16);
    one->move_orders = 0;
    assert_int_equal(move_fresh(one->id, "", &id), CTL_OK);
    rig_until(one->move_orders == 1 && n1.server_count == 3, SOON_MS);
    assert_int_equal(admin_status().sms_used, 16);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(state_of(id) == ADMIN_MOVE_DONE && n1.server_count == 2 && admin_status().servers == 2, SOON_MS);
    one->server = one->target;
    assert_booked(16);
    n1.overcommits = 0; /* of the node's view: it saw both */
    client_end(&a, one);
    client_end(&b, other);
    rig_until(admin_status().programs == 0, SOON_MS);
    rig_destroy();
    begin_alone(false, 12);
    assert_int_equal(move_fresh(one->id, "n1:1", &id), CTL_INVALID);
    assert_int_equal(move_fresh(one->id, "", &id), CTL_NO_ROOM);
    assert_non_null(strstr(admin_text, "does not take 12 SMs"));
    assert_booked(12);
}

int main(void) { return unit_run(NULL, NULL); }
