/*
 * cluster_idle.c: GPU servers that no program uses do not stand in anybody's way. The grace period is as configured
 * without a word: 60 s, so whatever happens within seconds does not wait for it.
 *
 * shows: placement: an idle GPU server gives way at once to a program that could use its place, and to no other
 * shows: placement: a VM's own idle server does not use up what the VM is entitled to, while another node is free
 */
#include "tests/control/cluster_rig.h"

#define GIB (UINT64_C(1) << 30)

static struct fake_node n1, n2;
static struct fake_client a, b, c;

static void run_and_end(struct fake_client *client)
{
    struct fake_program *program = client_runs(client, CLIENT_WAIT_NO);
    client_end(client, program);
    rig_run_ms(50);
}

static void set_grouping(const char *vm, bool on)
{
    admin_grouping_args args = { (char *)(uintptr_t)vm, on };
    assert_int_equal(admin_code(ADMIN_GROUPING, &args), CTL_OK);
}

/* One that comes gets the place, whether it would wait or not; and one that waits already gets it when it becomes
 * idle. */
RIG_TEST(test_gives_way)
{
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    client_create(&c, "vm-c", 4, GIB, 0, true, "");
    run_and_end(&a);
    assert_int_equal(n1.server_count, 1);       /* kept for the grace period */
    struct fake_program *hasty = client_runs(&b, CLIENT_WAIT_NO);
    struct fake_program *patient = client_run(&c, CLIENT_WAIT_YES);
    rig_until(patient->answers, 3000);
    assert_int_equal(patient->code, CTL_WAITING);
    client_end(&b, hasty);
    rig_until(patient->running, 3000);
    assert_int_equal(n1.overcommits, 0);
    admin_check_books();
    /* Its own VM comes back: the one that runs is not touched. */
    struct fake_program *late = client_run(&a, CLIENT_WAIT_NO);
    rig_until(late->answers, 3000);
    assert_int_equal(late->code, CTL_BUSY);
}

/* Only as many give way as are needed, only where that helps, and none where another GPU is free. */
RIG_TEST(test_no_more_than_needed)
{
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 8, GIB, 0, true, "");
    client_create(&b, "vm-b", 8, GIB, 0, true, "");
    client_create(&c, "vm-c", 6, GIB, 0, true, "");
    run_and_end(&a);
    run_and_end(&b);
    assert_int_equal(n1.server_count, 2);
    client_runs(&c, CLIENT_WAIT_YES);
    assert_int_equal(n1.server_count, 2);       /* one of the two idle ones is there still */
    assert_int_equal(n1.stops, 1);
    client_close(&a);
    client_close(&b);
    client_create(&a, "large", 16, GIB, 0, true, "");
    client_create(&b, "small", 1, GIB, 0, true, "");
    struct fake_program *large = client_run(&a, CLIENT_WAIT_YES);       /* would need the one that runs too */
    rig_until(large->answers, 3000);
    rig_run_ms(300);
    assert_int_equal(n1.stops, 1);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    rig_until(large->running, 3000);
    assert_string_equal(large->node, "n2");
    assert_int_equal(n1.stops, 1);
}

/* As configured: servers stay for their VMs. */
RIG_TEST(test_unless_they_are_to_stay)
{
    rig_create("virt-server-auto-deallocate = { enabled = false; };\n");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    run_and_end(&a);
    struct fake_program *one = client_run(&b, CLIENT_WAIT_YES);
    rig_until(one->answers, 3000);
    rig_run_ms(500);
    assert_false(one->running);
    assert_int_equal(n1.stops, 0);
}

/* The VM's programs get servers of their own from now on, and the one that all of them had is idle. The node of the
   idle one is slow to end it; nine programs come, and the other node is free. */
RIG_TEST(test_nine_and_a_free_node)
{
    enum { NINE = 9, AT_ONCE = 4 };             /* placement.ungrouped-programs */
    struct fake_program *programs[NINE];
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 16, 4 * GIB, 0, true, "");
    run_and_end(&a);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    set_grouping("vm-a", false);
    n1.hold_stops = true;
    for (int i = 0; i < NINE; i++)
        programs[i] = client_run(&a, CLIENT_WAIT_YES);
    for (int i = 0; i < AT_ONCE; i++) {
        rig_until(programs[i]->running, 3000);
        assert_string_equal(programs[i]->node, "n2");
    }
    for (int next = AT_ONCE; next < NINE; next++) {
        assert_false(programs[next]->running);
        client_end(&a, programs[next - AT_ONCE]);
        rig_until(programs[next]->running, 3000);
    }
    assert_int_equal(n1.stops, 1);
    assert_int_equal(n1.overcommits + n2.overcommits, 0);
    admin_check_books();
}

/* What the VM is entitled to has changed: nobody is given the old idle server. */
RIG_TEST(test_old_limits)
{
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    run_and_end(&a);
    admin_vm_set_args args = { .vm = { .name = (char *)"vm-a", .address = (char *)"", .host = (char *)"", .sms = 6 },
                               .set = ADMIN_VM_SET_SMS };
    assert_int_equal(admin_code(ADMIN_VM_SET, &args), CTL_OK);
    assert_string_equal(admin_text, "");        /* nothing that is in use keeps its old limits */
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_NO);
    assert_int_equal(one->sms, 6);
    struct fake_program *two = client_runs(&a, CLIENT_WAIT_NO);
    assert_int_equal(two->server, one->server);
}

/* After a restart of the manager a server is not idle because nobody has named its programs yet. */
RIG_TEST(test_adopted)
{
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_NO);
    client_close(&a);
    rig_signal(9);
    rig_start();
    rig_until(n1.registered && b.registered, 10000);
    struct fake_program *other = client_run(&b, CLIENT_WAIT_YES);
    rig_until(other->answers, 3000);
    rig_run_ms(500);
    assert_int_equal(n1.stops, 0);
    client_open(&a);
    rig_until(a.registered, 10000);
    rig_run_ms(200);
    assert_int_equal(n1.stops, 0);
    client_end(&a, one);
    rig_until(other->running, 3000);
}

static int listed; /* programs in the answer; -1: it has not come */
static void took_programs(void *context, int error, const char *why, void *object)
{
    const admin_programs_result *result = object;
    (void)context, (void)why;
    assert_int_equal(error, 0);
    assert_int_equal(result->status.code, CTL_OK);
    listed = (int)result->programs.programs_len;
}

/* A listing right after a restart of the manager has the programs that it cannot know yet. */
RIG_TEST(test_listing_after_a_restart)
{
    admin_numbered_page page = { .vm = (char *)"", .node = (char *)"" };
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_runs(&a, CLIENT_WAIT_NO);
    client_close(&a);
    rig_signal(9);
    rig_start();
    rig_until(n1.registered, 10000);
    listed = -1;
    admin_status(); /* connects */
    assert_int_equal(link_call(rig.admin, ADMIN_PROGRAMS, &page, 10000, took_programs, NULL, NULL), 0);
    rig_run_ms(300);
    assert_int_equal(listed, -1);
    client_open(&a);
    rig_until(listed >= 0, 3000);
    assert_int_equal(listed, 1);
    listed = -1;
    assert_int_equal(link_call(rig.admin, ADMIN_PROGRAMS, &page, 10000, took_programs, NULL, NULL), 0);
    rig_until(listed == 1, 1000);
}

int main(void) { return unit_run(NULL, NULL); }
