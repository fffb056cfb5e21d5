/*
 * A node on which GPU servers do not start, beside one that is well.
 * shows: cluster manager: programs whose GPU server does not start get one on another node; a GPU on which some did not
 *   start is degraded, with the reason, until one starts, its node manager begins anew, or its node is undrained
 */
#include "tests/control/cluster_rig.h"

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 5000, PROGRAMS = 5 };

static struct fake_node n1, n2;
static struct fake_client clients[PROGRAMS], other;

/* The GPU's state as administrators see it, with its reason. */
static ctl_gpu_state gpu_state(const char *node, char text[CTL_MAX_TEXT + 1])
{
    admin_named_page page = { .after = (char *)"", .only = (char *)(uintptr_t)node };
    admin_nodes_result result;
    admin_call(ADMIN_NODES, &page, &result);
    assert_int_equal(result.nodes.nodes_len, 1);
    const ctl_gpu *gpu = &result.nodes.nodes_val[0].gpus.gpus_val[0].gpu;
    ctl_gpu_state state = gpu->state;
    snprintf(text, CTL_MAX_TEXT + 1, "%s", gpu->text);
    protocol_free((xdrproc_t)xdr_admin_nodes_result, &result);
    return state;
}

static void node_action(const char *name, admin_node_action action)
{
    admin_node_args args = { .name = (char *)(uintptr_t)name, .action = action, .reason = (char *)"" };
    assert_int_equal(admin_code(ADMIN_NODE, &args), CTL_OK);
}

/* Each VM has a GPU for itself; first-fit begins with n1. */
static void begin(unsigned gpus)
{
    rig_create("placement = { policy = \"first-fit\"; };\n");
    node_open(&n1, "n1", gpus, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    n1.fail_starts = true;
}

static void add_clients(void)
{
    char name[16];
    for (int i = 0; i < PROGRAMS; i++) {
        snprintf(name, sizeof name, "vm-%d", i);
        client_create(&clients[i], name, 2, GIB, 0, true, "");
    }
}

RIG_TEST(test_elsewhere)
{
    char text[CTL_MAX_TEXT + 1];
    begin(1);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    add_clients();
    /* Whether they would wait or not. */
    for (int i = 0; i < PROGRAMS; i++) {
        struct fake_program *one = client_runs(&clients[i], i % 2 ? CLIENT_WAIT_YES : CLIENT_WAIT_NO);
        assert_string_equal(one->node, "n2");
    }
    assert_int_equal(n1.starts, 3); /* no more than it takes to know */
    assert_int_equal(gpu_state("n1", text), CTL_GPU_DEGRADED);
    assert_non_null(strstr(text, "3 GPU servers in a row did not start there: it was told to fail"));
    assert_int_equal(gpu_state("n2", text), CTL_GPU_READY);
    assert_int_equal(admin_count_events("gpu-degraded"), 1);
    /* It is mended, and the administrator says so. */
    n1.fail_starts = false;
    node_action("n1", ADMIN_NODE_UNDRAIN);
    assert_int_equal(gpu_state("n1", text), CTL_GPU_READY);
    assert_int_equal(admin_count_events("gpu-ready"), 1);
    client_create(&other, "other", 2, GIB, 0, true, "");
    struct fake_program *one = client_runs(&other, CLIENT_WAIT_NO);
    assert_string_equal(one->node, "n1");
    admin_check_books();
}

/* The other node is taken: who was to wait waits for it, and who was not hears why. */
RIG_TEST(test_other_is_taken)
{
    begin(1);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&other, "other", 2, GIB, CTL_SHARING_EXCLUSIVE, true, "");
    add_clients();
    struct fake_program *holder = client_runs(&other, CLIENT_WAIT_NO);
    struct fake_program *hasty = client_run(&clients[0], CLIENT_WAIT_NO),
                        *patient = client_run(&clients[1], CLIENT_WAIT_YES);
    rig_until(hasty->code == CTL_BUSY, SOON_MS);
    assert_non_null(strstr(hasty->text, "it was told to fail"));
    assert_non_null(strstr(hasty->text, "no other GPU is free"));
    rig_until(admin_status().waiting == 1, SOON_MS);
    client_end(&other, holder);
    rig_until(patient->running, SOON_MS);
    assert_string_equal(patient->node, "n2");
    admin_check_books();
}

/* There is no other node: another GPU of this one, and then the reason. */
RIG_TEST(test_no_other)
{
    char text[CTL_MAX_TEXT + 1];
    begin(2);
    add_clients();
    struct fake_program *one = client_run(&clients[0], CLIENT_WAIT_YES);
    rig_until(one->code == CTL_INTERNAL, SOON_MS);
    assert_non_null(strstr(one->text, "it was told to fail"));
    assert_int_equal(n1.starts, 2);
    for (int i = 1; i < 3; i++) {
        struct fake_program *more = client_run(&clients[i], CLIENT_WAIT_YES);
        rig_until(more->code == CTL_INTERNAL, SOON_MS);
    }
    assert_int_equal(gpu_state("n1", text), CTL_GPU_DEGRADED);
    /* Nobody can be served now; the reason is told, and a node manager that began anew is believed. */
    struct fake_program *waits = client_run(&clients[3], CLIENT_WAIT_YES);
    rig_until(waits->code == CTL_WAITING && strstr(waits->text, "degraded: 3 GPU servers"), SOON_MS);
    node_close(&n1);
    n1.fail_starts = false;
    node_reopen(&n1);
    rig_until(waits->running, SOON_MS);
    assert_int_equal(gpu_state("n1", text), CTL_GPU_READY);
}

int main(void) { return unit_run(NULL, NULL); }
