/*
 * Limits of moves, and how far they are, as a client manager that is played by the test says it.
 * shows: moving: what a move is to keep to comes before its order; what nodes may have is divided among their moves,
 *   again when one ends; a client manager of the release before is served without limits, and refused by name with them
 * shows: moving: how far a move is, and the counters of moves, are what the client manager said; what it says of moves
 *   that it does not have, or in words that there are not, means nothing
 * shows: moving: no more programs move at a time than elastic.at-once, the next one waits
 * shows: moving: whenever the library waits for another try its order comes once more, with another ticket
 */
#include "tests/control/cluster_rig.h"

#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

enum { SOON_MS = 5000 };

static struct fake_node n1, n2;
static struct fake_client a, b;
static struct fake_program *one, *other;

/* Both programs on the first node. */
static void begin(const char *elastic, uint32_t minor)
{
    char settings[256];
    snprintf(settings, sizeof settings, "placement = { policy = \"first-fit\"; }; elastic = { %s };\n", elastic);
    rig_create(settings);
    n2 = (struct fake_node){ 0 };
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    if (minor) {
        client_close(&a);
        a.minor = minor;
        client_open(&a);
        rig_until(a.registered, SOON_MS);
    }
    one = client_run(&a, CLIENT_WAIT_NO);
    other = client_run(&b, CLIENT_WAIT_NO);
    rig_until(one->running && other->running, SOON_MS);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
}

static ctl_code move(const struct fake_program *program, uint64_t bandwidth, unsigned downtime, uint64_t *id)
{
    admin_move_args args = { .prog = program->id, .vm = (char *)"", .to = (char *)"n2", .file = (char *)"",
                             .bandwidth = bandwidth, .downtime_ms = downtime };
    return admin_move(ADMIN_MOVE, &args, id);
}

RIG_TEST(test_limits)
{
    uint64_t first, second;
    begin("node-bandwidth = 100;", 0);
    assert_int_equal(move(one, 30 * MIB, 250, &first), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    assert_int_equal(one->limits_told, 1);                  /* before the order */
    assert_true(one->limits.move == first && one->limits.strict && one->limits.downtime_ms == 250);
    assert_true(one->limits.bandwidth == 30 * MIB && one->limits.rate == 0 && !one->limits.bridged);
    assert_true(move_row(first).bandwidth == 30 * MIB && move_row(first).downtime_ms == 250);
    /* Two moves share what the nodes may have, and each has no more than it was given. */
    assert_int_equal(move(other, 0, 0, &second), CTL_OK);
    rig_until(other->move_orders == 1, SOON_MS);
    assert_true(other->limits.bandwidth == 50 * MIB && !other->limits.strict);
    assert_int_equal(one->limits_told, 1);                  /* nothing has changed for it */
    client_moved(&a, one, first, CTL_MOVE_MOVED, CTL_OK);
    rig_until(move_row(first).state == ADMIN_MOVE_DONE && other->limits_told == 2, SOON_MS);
    one->server = one->target;
    assert_true(other->limits.bandwidth == 100 * MIB && other->limits.move == second);
    /* Said again to a client manager that comes back. */
    client_close(&b);
    client_open(&b);
    rig_until(other->move_orders == 2 && other->limits_told == 3, SOON_MS);
    client_moved(&b, other, second, CTL_MOVE_REFUSED, CTL_BUSY);
    rig_until(move_row(second).state == ADMIN_MOVE_FAILED, SOON_MS);
}

RIG_TEST(test_release_before)
{
    uint64_t id;
    begin("node-bandwidth = 100;", 8);
    assert_int_equal(move(one, 30 * MIB, 0, &id), CTL_NOT_SUPPORTED);
    assert_true(strstr(admin_text, "vm-a") && strstr(admin_text, "earlier release"));
    assert_int_equal(move(one, 0, 30, &id), CTL_NOT_SUPPORTED);
    assert_int_equal(n2.starts, 0);
    assert_int_equal(move(one, 0, 0, &id), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    assert_int_equal(one->limits_told, 0);
    client_moved(&a, one, id, CTL_MOVE_TAKEN, CTL_OK);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(move_row(id).state == ADMIN_MOVE_DONE, SOON_MS);
    one->server = one->target;
}

RIG_TEST(test_progress)
{
    uint64_t id, before = 0;
    begin("", 0);
    assert_int_equal(move(one, 0, 0, &id), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    assert_true(one->limits.bandwidth == 0);
    ctl_progress progress = { .move = id, .phase = CTL_PHASE_COPYING, .done = 5 * MIB, .total = 8 * MIB, .rate = MIB };
    client_progress(&a, one, &progress);
    rig_until(move_row(id).progress.done == 5 * MIB, SOON_MS);
    assert_true(move_row(id).progress.total == 8 * MIB && move_row(id).progress.rate == MIB);
    assert_int_equal(move_row(id).progress.phase, CTL_PHASE_COPYING);
    assert_int_equal(admin_status().moves.under_way, 1);
    /* Another's, of a move that there is not, of no phase. */
    progress.done = 7 * MIB;
    client_progress(&b, other, &progress);
    progress.move = id + 1;
    client_progress(&a, one, &progress);
    progress = (ctl_progress){ .move = id, .phase = (ctl_move_phase)77, .done = 7 * MIB };
    client_progress(&a, one, &progress);
    rig_run_ms(100);
    assert_true(move_row(id).progress.done == 5 * MIB);
    progress = (ctl_progress){ .move = id, .phase = CTL_PHASE_COPYING, .done = 9 * MIB, .total = 8 * MIB };
    client_progress(&a, one, &progress);
    rig_until(move_row(id).progress.done == 9 * MIB, SOON_MS);
    assert_true(move_row(id).progress.total == 9 * MIB);
    client_moved(&a, one, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(move_row(id).state == ADMIN_MOVE_DONE, SOON_MS);
    one->server = one->target;
    assert_true(move_row(id).progress.done == 4096 && move_row(id).progress.total == 4096); /* as client_moved says */
    assert_int_equal(move_row(id).progress.phase, CTL_PHASE_NONE);
    client_progress(&a, one, &progress);                    /* too late */
    assert_int_equal(move(other, 0, 0, &before), CTL_OK);
    rig_until(other->move_orders == 1, SOON_MS);
    client_moved(&b, other, before, CTL_MOVE_REFUSED, CTL_BUSY);
    rig_until(move_row(before).state == ADMIN_MOVE_FAILED, SOON_MS);
    assert_true(move_row(id).progress.done == 4096);
    const admin_move_counts counts = admin_status().moves;
    assert_true(counts.begun == 2 && counts.moved == 1 && counts.failed == 1 && counts.cancelled == 0);
    assert_true(counts.bytes == 4096 && counts.outage_us == 1500 && counts.under_way == 0);
}

/* The library waits for another try, for which it needs another ticket. */
RIG_TEST(test_ticket_for_each_try)
{
    uint64_t id;
    begin("", 0);
    assert_int_equal(move(one, 0, 0, &id), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_TAKEN, CTL_OK);
    ctl_progress progress = { .move = id, .phase = CTL_PHASE_RESTING };
    client_progress(&a, one, &progress);
    rig_run_ms(100);
    assert_int_equal(one->move_orders, 1);
    progress.phase = CTL_PHASE_WAITING;
    client_progress(&a, one, &progress);
    rig_until(one->move_orders == 2, SOON_MS);
    client_progress(&a, one, &progress);
    rig_until(one->move_orders == 3 && one->move == id && one->move_offs == 0, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_BUSY);
    rig_until(move_row(id).state == ADMIN_MOVE_FAILED, SOON_MS);
    client_progress(&a, one, &progress);                    /* too late */
    rig_run_ms(100);
    assert_int_equal(one->move_orders, 3);
}

RIG_TEST(test_at_once)
{
    uint64_t id, second;
    begin("at-once = 1;", 0);
    assert_int_equal(move(one, 0, 0, &id), CTL_OK);
    assert_int_equal(move(other, 0, 0, &second), CTL_WAITING);
    assert_non_null(strstr(admin_text, "elastic.at-once"));
    admin_check_books();
    rig_until(one->move_orders == 1, SOON_MS);
    client_moved(&a, one, id, CTL_MOVE_REFUSED, CTL_BUSY);
    rig_until(move_row(id).state == ADMIN_MOVE_FAILED, SOON_MS);
    assert_int_equal(move(other, 0, 0, &second), CTL_OK);
    rig_until(other->move_orders == 1, SOON_MS);
    client_moved(&b, other, second, CTL_MOVE_REFUSED, CTL_BUSY);
    rig_until(move_row(second).state == ADMIN_MOVE_FAILED, SOON_MS);
}

int main(void) { return unit_run(NULL, NULL); }
