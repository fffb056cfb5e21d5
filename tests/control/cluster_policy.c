/*
 * Moves that nobody asked for, in a whole cluster whose nodes and VMs are played.
 * shows: policies: with elastic.policy = act the first in the queue begins after what stands in its way has moved; with
 *   advise an event says what to do, with off nothing
 * shows: policies: act moves one program from a loaded GPU to an empty one, and leaves it alone for elastic.pause
 */
#include "tests/control/cluster_rig.h"

#include <string.h>

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 12000 };

static struct fake_node n1, n2;
static struct fake_client a, b, c;
static struct fake_program *one, *two, *large;

/* 4 SMs are used on each of two GPUs that have 8; a third program wants all of one. */
static void two_in_the_way(const char *policy)
{
    char settings[200];
    snprintf(settings, sizeof settings, "placement = { policy = \"spread\"; }; elastic = { margin = 100.0; %s};\n",
             policy);
    rig_create(settings);
    n1 = n2 = (struct fake_node){ 0 };
    node_open(&n1, "n1", 1, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    node_open(&n2, "n2", 1, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, 2 * GIB, 0, true, "");
    client_create(&c, "vm-c", 8, GIB, 0, true, "");
    one = client_run(&a, CLIENT_WAIT_NO);
    two = client_run(&b, CLIENT_WAIT_NO);
    rig_until(one->running && two->running, SOON_MS);
    large = client_run(&c, CLIENT_WAIT_YES);
}

static void moves(struct fake_client *client, struct fake_program *program)
{
    client_moved(client, program, program->move, CTL_MOVE_TAKEN, CTL_OK);
    client_moved(client, program, program->move, CTL_MOVE_MOVED, CTL_OK);
    program->server = program->target;
}

RIG_TEST(test_room_for_the_first)
{
    two_in_the_way("policy = \"act\"; ");
    rig_until(one->move_orders == 1, SOON_MS);      /* it has less memory than the other one */
    assert_int_equal(two->move_orders, 0);
    assert_false(large->running);
    moves(&a, one);
    rig_until(large->running, SOON_MS);
    assert_int_equal(one->move_orders + two->move_orders, 1);
    admin_check_books();
    assert_int_equal(admin_status().sms_used, 16);
}

RIG_TEST(test_advice)
{
    two_in_the_way("");
    rig_until(admin_count_events("move-advised") > 0, SOON_MS);
    rig_run_ms(5000);
    assert_int_equal(admin_count_events("move-advised"), 1);
    assert_int_equal(admin_count_events("move-begun"), 0);
    assert_false(large->running);
    rig_destroy();
    two_in_the_way("policy = \"off\"; ");
    rig_run_ms(6000);
    assert_int_equal(admin_count_events("move-advised") + admin_count_events("move-begun"), 0);
}

RIG_TEST(test_even_load)
{
    rig_create("placement = { policy = \"spread\"; }; elastic = { policy = \"act\"; pause = 5.0; };\n");
    n1 = n2 = (struct fake_node){ 0 };
    node_open(&n1, "n1", 1, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, 2 * GIB, 0, true, "");
    one = client_run(&a, CLIENT_WAIT_NO);
    two = client_run(&b, CLIENT_WAIT_NO);
    rig_until(one->running && two->running, SOON_MS);
    node_open(&n2, "n2", 1, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    rig_until(one->move_orders == 1, SOON_MS);
    client_moved(&a, one, one->move, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED);
    /* It does not move: the other one does, and the load is even then. */
    rig_until(two->move_orders == 1, SOON_MS);
    assert_int_equal(one->move_orders, 1);
    moves(&b, two);
    rig_run_ms(8000);
    assert_int_equal(one->move_orders + two->move_orders, 2);
    admin_check_books();
}

int main(void) { return unit_run(NULL, NULL); }
