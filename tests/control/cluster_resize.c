/*
 * Shares of running servers, with nodes that agree, refuse, are silent, come back, or are of an earlier release.
 * shows: elastic: several servers of a VM change all or none; the books stay right when a node refuses, is silent,
 *   begins anew or knows no such order
 */
#include "tests/control/cluster_rig.h"

#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 5000 };

static struct fake_node n1, n2;
static struct fake_client a, b;

/* A VM with a server on each of two nodes; of another VM one on the first. */
static void begin(uint32_t minor)
{
    rig_create("placement = { policy = \"spread\"; ungrouped-programs = 2; };\n");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    if (minor) {
        node_close(&n2);
        n2.minor = minor;
        node_reopen(&n2);
        rig_until(n2.registered, SOON_MS);
    }
    client_create(&a, "vm-a", 8, 4 * GIB, 0, false, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "n1");
    client_runs(&a, CLIENT_WAIT_NO);
    client_runs(&a, CLIENT_WAIT_NO);
    assert_true(n1.server_count == 1 && n2.server_count == 1);
}

static ctl_code resize(admin_change_kind kind, unsigned sms, uint64_t memory)
{
    admin_resize_args args = { .vm = (char *)"vm-a", .kind = kind, .sms = sms, .memory = memory };
    return admin_code(ADMIN_RESIZE, &args);
}

/* What is booked of all GPUs together. */
static void assert_booked(unsigned sms, uint64_t memory)
{
    admin_check_books();
    assert_int_equal(admin_status().sms_used, sms);
    assert_int_equal(admin_status().memory_used, memory);
}

RIG_TEST(test_all_or_none)
{
    begin(0);
    assert_booked(8, 4 * GIB);
    assert_int_equal(resize(ADMIN_CHANGE_SET, 6, 3 * GIB), CTL_OK);
    assert_non_null(strstr(admin_text, "has 6 SMs and 3072 MiB"));
    assert_booked(12, 6 * GIB);
    assert_int_equal(resize(ADMIN_CHANGE_DECREASE, 1, GIB), CTL_OK);
    assert_booked(10, 4 * GIB);
    assert_int_equal(n1.servers[0].sms, 5);
    /* One refuses: the other one gets its old share back. */
    n2.resize = CTL_NO_ROOM;
    int before = n1.resizes;
    assert_int_equal(resize(ADMIN_CHANGE_SET, 8, GIB), CTL_NO_ROOM);
    assert_non_null(strstr(admin_text, "as the test says"));
    assert_int_equal(n1.resizes, before + 2);
    assert_int_equal(n1.servers[0].sms, 5);
    assert_booked(10, 4 * GIB);
    /* What does not fit is refused before anything is ordered. */
    before = n1.resizes + n2.resizes;
    assert_int_equal(resize(ADMIN_CHANGE_INCREASE, 12, 0), CTL_NO_ROOM);
    assert_int_equal(resize(ADMIN_CHANGE_DECREASE, 5, 0), CTL_INVALID);
    assert_int_equal(n1.resizes + n2.resizes, before);
    assert_booked(10, 4 * GIB);
}

/* The larger share stays booked until the node says what holds. */
RIG_TEST(test_silent_node)
{
    begin(0);
    n2.resize = CTL_WAITING;
    assert_int_equal(resize(ADMIN_CHANGE_SET, 2, 3 * GIB), CTL_UNKNOWN);
    assert_int_equal(n1.servers[0].sms, 4); /* put back */
    assert_booked(8, 5 * GIB);
    n2.servers[0].sms = 2;
    n2.servers[0].memory = 3 * GIB;
    node_report_share(&n2, &n2.servers[0]);
    rig_until(admin_status().sms_used == 6, SOON_MS);
    assert_booked(6, 5 * GIB);
    /* A nonsensical report changes nothing. */
    struct fake_server liar = n2.servers[0];
    liar.sms = 17;
    node_report_share(&n2, &liar);
    liar.sms = 0;
    node_report_share(&n2, &liar);
    rig_run_ms(100);
    assert_booked(6, 5 * GIB);
}

/* The manager is killed while it waits: its row says the larger share, and follows what the node says. */
RIG_TEST(test_killed_manager)
{
    begin(0);
    n2.resize = n1.resize = CTL_WAITING;
    admin_resize_args args = { .vm = (char *)"vm-a", .kind = ADMIN_CHANGE_SET, .sms = 6, .memory = GIB };
    link_call(rig.admin, ADMIN_RESIZE, &args, CTL_CALL_SECONDS * 1000, NULL, NULL, NULL);
    rig_until(n1.held_order && n2.held_order, SOON_MS);
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && n2.registered && a.registered, 10000);
    assert_booked(12, 4 * GIB);
    n1.servers[0].sms = 6;
    n1.servers[0].memory = GIB;
    node_report_share(&n1, &n1.servers[0]); /* this one took it */
    node_report_share(&n2, &n2.servers[0]); /* this one did not */
    rig_until(admin_status().sms_used == 10, SOON_MS);
    assert_booked(10, 3 * GIB);
}

/* A node manager that began anew gets the order again, and the command succeeds. */
RIG_TEST(test_node_begins_anew)
{
    begin(0);
    n2.resize = CTL_WAITING;
    admin_resize_args args = { .vm = (char *)"vm-a", .kind = ADMIN_CHANGE_SET, .sms = 3 };
    link_call(rig.admin, ADMIN_RESIZE, &args, CTL_CALL_SECONDS * 1000, NULL, NULL, NULL);
    rig_until(n2.held_order, SOON_MS);
    node_close(&n2);
    n2.resize = CTL_OK;
    node_reopen(&n2);
    rig_until(n2.registered && admin_status().sms_used == 6, SOON_MS);
    assert_booked(6, 4 * GIB);
}

RIG_TEST(test_earlier_release)
{
    begin(5);
    assert_int_equal(resize(ADMIN_CHANGE_SET, 3, 0), CTL_NOT_SUPPORTED);
    assert_non_null(strstr(admin_text, "n2"));
    assert_non_null(strstr(admin_text, "earlier release"));
    assert_int_equal(n1.resizes + n2.resizes, 0);
    assert_booked(8, 4 * GIB);
}

int main(void) { return unit_run(NULL, NULL); }
