/*
 * GPU servers that programs do not reach, or that do not start because their node is silent.
 * shows: cluster manager: a program that does not reach its GPU server gets one on another node that is free, within
 *   what its VM is entitled to; one that waits for a node which falls silent does not wait until the node is lost
 * shows: attacks: the recovery of a program whose GPU server was not lost is no event, nor one with figures that cannot
 *   be true, and a VM causes only so many
 */
#include "tests/control/cluster_rig.h"

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 5000 };

static struct fake_node n1, n2;
static struct fake_client a, b;

/* n1 is the first. */
static struct fake_program *begin(const char *settings)
{
    rig_create(settings);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_NO);
    assert_string_equal(one->node, "n1");
    return one;
}

static void open_other(unsigned sharing)
{
    node_open(&n2, "n2", 1, 16, 8 * GIB, sharing);
}

RIG_TEST(test_another_node)
{
    struct fake_program *one = begin("placement = { policy = \"first-fit\"; };\n");
    open_other(CTL_SHARING_TIME_SLICE);
    uint64_t first = one->server;
    client_unreached(&a, one, false);
    rig_until(one->running, SOON_MS);
    assert_string_equal(one->node, "n2");
    assert_true(n1.revoked && n1.revoked_last == one->id); /* its old ticket opens nothing */
    rig_until(n1.server_count == 0, SOON_MS);              /* it was the only user, and the VM has no right to two */
    /* An answer for a server that it does not have any more says what it has. */
    uint64_t second = one->server;
    one->server = first;
    client_unreached(&a, one, false);
    rig_until(one->running, SOON_MS);
    assert_true(one->server == second);
    admin_check_books();
}

/* Another program uses the server, and what the VM is entitled to is used up; or no other node is free. */
RIG_TEST(test_nothing_else)
{
    struct fake_program *one = begin("placement = { policy = \"first-fit\"; };\n");
    uint64_t server = one->server;
    client_unreached(&a, one, false);
    rig_until(one->running, SOON_MS);
    assert_true(one->server == server);
    struct fake_program *two = client_runs(&a, CLIENT_WAIT_NO);
    open_other(CTL_SHARING_TIME_SLICE);
    client_unreached(&a, two, false);
    rig_until(two->running, SOON_MS);
    assert_true(two->server == server && two->ticket_size);
    assert_int_equal(n2.starts, 0);
    /* With the first one gone there is room. */
    client_end(&a, one);
    client_unreached(&a, two, false);
    rig_until(two->running, SOON_MS);
    assert_string_equal(two->node, "n2");
    admin_check_books();
}

/* It could use no server of that node, ever: one that may wait waits for another node, and the other hears both
   reasons. */
RIG_TEST(test_never)
{
    struct fake_program *one = begin("placement = { policy = \"first-fit\"; };\n"), *holder;
    open_other(CTL_SHARING_EXCLUSIVE);
    client_create(&b, "vm-b", 4, GIB, CTL_SHARING_EXCLUSIVE, true, "");
    holder = client_runs(&b, CLIENT_WAIT_NO);
    assert_string_equal(holder->node, "n2");
    struct fake_program *patient = client_runs(&a, CLIENT_WAIT_YES);
    client_unreached(&a, one, true);
    rig_until(one->code == CTL_BUSY, SOON_MS);
    assert_non_null(strstr(one->text, "nobody answers there; elsewhere: "));
    client_unreached(&a, patient, true);
    rig_until(patient->code == CTL_WAITING, SOON_MS);
    client_end(&b, holder);
    rig_until(patient->running, SOON_MS);
    assert_string_equal(patient->node, "n2");
    admin_check_books();
}

static void say_recovered(const struct fake_program *program, ctl_recovery_state state, uint64_t outage_us)
{
    client_recovered_args args = { program->key, { state, (char *)"as it says", outage_us, 4096 } };
    assert_int_equal(link_call(a.link, CLIENT_RECOVERED, &args, 10000, NULL, NULL, NULL), 0);
}

RIG_TEST(test_false_recovery)
{
    enum { MANY = 200, MOST = 40 };
    struct fake_program *one = begin("");
    say_recovered(one, CTL_RECOVERY_RECOVERED, 1);
    say_recovered(one, CTL_RECOVERY_FAILED, 1);
    rig_run_ms(200);
    assert_int_equal(admin_count_events("program-recovered") + admin_count_events("recovery-failed"), 0);
    client_unreached(&a, one, false);
    rig_until(one->running, SOON_MS);
    say_recovered(one, CTL_RECOVERY_RECOVERED, UINT64_MAX);
    rig_run_ms(200);
    assert_int_equal(admin_count_events("program-recovered"), 0);
    say_recovered(one, CTL_RECOVERY_RECOVERED, 1);
    rig_run_ms(200);
    assert_int_equal(admin_count_events("program-recovered"), 1);
    for (int i = 0; i < MANY; i++)
        say_recovered(one, CTL_RECOVERY_FAILED, 1);
    rig_run_ms(500);
    assert_in_range(admin_count_events("recovery-failed"), 1, MOST);
}

/* The node falls silent before its server has started. */
RIG_TEST(test_silent_while_it_starts)
{
    rig_create("placement = { policy = \"first-fit\"; };\nsilence = { suspect = 1.0; lost = 60.0; };\n");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 16, GIB, 0, true, "");
    n1.hold_starts = true;
    struct fake_program *one = client_run(&a, CLIENT_WAIT_NO);
    rig_until(n1.starts == 1, SOON_MS);
    open_other(CTL_SHARING_TIME_SLICE);
    n1.mute = true;
    rig_until(one->running, SOON_MS);
    assert_string_equal(one->node, "n2");
}

/* A node that an administrator has made known, and whose node manager has never come, is not lost. */
RIG_TEST(test_never_came)
{
    unsigned lost = 0, silent = 0;
    rig_create("silence = { suspect = 1.0; lost = 2.0; };\n");
    admin_node_add_args add = { .name = (char *)"n9" };
    admin_vm_add_result added;
    admin_call(ADMIN_NODE_ADD, &add, &added);
    protocol_free((xdrproc_t)xdr_admin_vm_add_result, &added);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    n1.mute = true;
    for (uint64_t end = loop_now(rig.loop) + SOON_MS; !lost;) {
        admin_events_args args = { 0 };
        admin_events_result result;
        assert_true(loop_now(rig.loop) < end);
        rig_run_ms(50);
        admin_call(ADMIN_EVENTS, &args, &result);
        for (u_int i = silent = 0; i < result.events.events_len; i++) {
            bool is = strcmp(result.events.events_val[i].kind, "node-lost") == 0;
            lost += is && strcmp(result.events.events_val[i].node, "n1") == 0;
            silent += is && strcmp(result.events.events_val[i].node, "n9") == 0;
        }
        protocol_free((xdrproc_t)xdr_admin_events_result, &result);
    }
    assert_int_equal(silent, 0); /* it was made known before n1 spoke for the last time */
}

int main(void) { return unit_run(NULL, NULL); }
