/*
 * A drained node.
 * shows: cluster manager: new programs leave a drained node at once, also those of VMs with a GPU server there; what
 *   runs goes on, what is idle ends; the reason is kept
 */
#include "tests/control/cluster_rig.h"

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 5000 };

static struct fake_node n1, n2;
static struct fake_client a, b;

static void node_action(const char *name, admin_node_action action, const char *reason)
{
    admin_node_args args = { .name = (char *)(uintptr_t)name, .action = action, .reason = (char *)(uintptr_t)reason };
    assert_int_equal(admin_code(ADMIN_NODE, &args), CTL_OK);
}

static void assert_drained(const char *name, bool drained, const char *reason)
{
    admin_named_page page = { .after = (char *)"", .only = (char *)(uintptr_t)name };
    admin_nodes_result result;
    admin_call(ADMIN_NODES, &page, &result);
    assert_int_equal(result.nodes.nodes_len, 1);
    assert_int_equal(result.nodes.nodes_val[0].drained, drained);
    assert_string_equal(result.nodes.nodes_val[0].drain_reason, reason);
    protocol_free((xdrproc_t)xdr_admin_nodes_result, &result);
}

/* Two VMs on n1, which is the first: one runs a program, the server of the other is idle and is kept for a minute. */
static struct fake_program *begin(void)
{
    rig_create("placement = { policy = \"first-fit\"; };\n");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    struct fake_program *runs = client_run(&a, CLIENT_WAIT_NO), *over = client_run(&b, CLIENT_WAIT_NO);
    rig_until(runs->running && over->running, SOON_MS);
    client_end(&b, over);
    rig_until(admin_status().programs == 1, SOON_MS);
    assert_int_equal(n1.server_count, 2);
    return runs;
}

RIG_TEST(test_elsewhere_at_once)
{
    struct fake_program *runs = begin();
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    node_action("n1", ADMIN_NODE_DRAIN, "new fan");
    assert_drained("n1", true, "new fan");
    rig_until(n1.server_count == 1, SOON_MS); /* the idle one has gone */
    struct fake_program *same = client_run(&a, CLIENT_WAIT_NO), *other = client_run(&b, CLIENT_WAIT_NO);
    rig_until(same->running && other->running, SOON_MS);
    assert_string_equal(same->node, "n2");
    assert_string_equal(other->node, "n2");
    assert_false(runs->lost || runs->end_asked);
    struct fake_program *more = client_runs(&a, CLIENT_WAIT_NO);
    assert_true(more->server == same->server);
    client_end(&a, runs);
    rig_until(n1.server_count == 0, SOON_MS); /* without the grace period */
    /* A new reason, and the end of it. */
    node_action("n1", ADMIN_NODE_DRAIN, "no fan yet");
    assert_drained("n1", true, "no fan yet");
    node_action("n1", ADMIN_NODE_DRAIN, ""); /* none is given: it stays */
    assert_drained("n1", true, "no fan yet");
    node_action("n1", ADMIN_NODE_UNDRAIN, "");
    assert_drained("n1", false, "");
    admin_check_books();
}

/* There is no other node: new programs wait, or fail, until this one is used again. */
RIG_TEST(test_nowhere_else)
{
    struct fake_program *runs = begin();
    node_action("n1", ADMIN_NODE_DRAIN, "");
    struct fake_program *hasty = client_run(&a, CLIENT_WAIT_NO), *patient = client_run(&a, CLIENT_WAIT_YES);
    rig_until(hasty->code == CTL_BUSY && patient->code == CTL_WAITING, SOON_MS);
    rig_run_ms(200);
    assert_false(patient->running);
    node_action("n1", ADMIN_NODE_UNDRAIN, "");
    rig_until(patient->running, SOON_MS);
    assert_true(patient->server == runs->server);
    admin_check_books();
}

/* It stays drained when the manager begins anew, and what is found idle there ends then. */
RIG_TEST(test_after_a_restart)
{
    struct fake_program *runs = begin();
    node_action("n1", ADMIN_NODE_DRAIN, "new fan");
    rig_until(n1.server_count == 1, SOON_MS);
    rig_signal(9);
    rig_start();
    rig_until(n1.registered && a.registered && b.registered, 10000);
    assert_drained("n1", true, "new fan");
    rig_run_ms(200);
    assert_int_equal(n1.server_count, 1);
    client_end(&a, runs);
    rig_until(n1.server_count == 0, SOON_MS);
}

int main(void) { return unit_run(NULL, NULL); }
