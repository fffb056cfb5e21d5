/* flyt-cluster-manager, driven by scripted nodes, client managers and administrators over TCP and its unix socket. */
#include "tests/control/cluster_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)
static const char quick[] = "virt-server-auto-deallocate = { grace-period = 0.3; };\n"
                            "silence = { suspect = 1.0; lost = 3.0; client-lost = 2.0; start = 5.0; };\n";

static struct fake_node n1, n2;
static struct fake_client a, b, c;

/* What most tests begin with: a node with one GPU of 16 SMs, shared in time, and so many VMs entitled to 8 of them. */
static void begin(unsigned vms)
{
    struct fake_client *const clients[] = { &a, &b, &c };
    static const char *const names[] = { "vm-a", "vm-b", "vm-c" };
    rig_create(quick);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    for (unsigned i = 0; i < vms; i++)
        client_create(clients[i], names[i], 8, GIB, 0, true, "");
}

/* A program starts, another joins its server, both end, the grace period passes, everything is back. */
RIG_TEST(test_life)
{
    rig_create(quick);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_MPS | CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, CTL_SHARING_MPS, true, "");
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_DEFAULT);
    assert_int_equal(one->sms, 4);
    assert_string_equal(one->node, "n1");
    assert_non_null(strstr(one->address, "tcp://n1:"));
    struct fake_program *two = client_runs(&a, CLIENT_WAIT_DEFAULT);
    assert_int_equal(two->server, one->server);
    assert_int_equal(n1.starts, 1);
    assert_int_equal(admin_check_books(), 1);
    client_end(&a, one);
    rig_run_ms(600);
    assert_int_equal(n1.server_count, 1);       /* the second one keeps it */
    client_end(&a, two);
    rig_until(n1.server_count == 0, 5000);
    rig_until(admin_check_books() == 0, 5000);
    admin_status_result status = admin_status();
    assert_int_equal(status.programs, 0);
    assert_int_equal(status.sms_used, 0);
    assert_int_equal(status.memory_used, 0);
}

RIG_TEST(test_tickets)
{
    struct ticket ticket;
    char error[CONTROL_ERROR_SIZE];
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, CTL_SHARING_TIME_SLICE, true, "");
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_DEFAULT);
    assert_int_equal(
        ticket_verify(&n1.ticket_key, 1, one->ticket, one->ticket_size, loop_time(), one->server, &ticket, error), 0);
    assert_string_equal(ticket.tenant, "vm-a");
    assert_string_equal(ticket.gpu, "n1-0");
    assert_int_equal(ticket.program, one->id);
    assert_int_equal(ticket.sms, 4);
    assert_int_equal(ticket.memory, GIB);
    /* Another server does not take it. */
    assert_int_equal(
        ticket_verify(&n1.ticket_key, 1, one->ticket, one->ticket_size, loop_time(), one->server + 1, &ticket, error),
        -EACCES);
}

/* Tickets of a program that has ended, or from before its VM's new secret, are invalid: the node is informed. */
RIG_TEST(test_tickets_end)
{
    rig_create(quick);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, CTL_SHARING_TIME_SLICE, true, "");
    struct fake_program *one = client_run(&a, CLIENT_WAIT_DEFAULT), *two = client_run(&a, CLIENT_WAIT_DEFAULT);
    rig_until(one->running && two->running, 5000);
    client_end(&a, one);
    rig_until(n1.revoked == 1, 5000);
    assert_int_equal(n1.revoked_last, one->id);
    admin_vm_set_args args = { .vm = { .name = (char *)"vm-a", .address = (char *)"", .host = (char *)"" },
                               .set = ADMIN_VM_SET_SECRET };
    assert_int_equal(admin_code(ADMIN_VM_SET, &args), CTL_OK);
    rig_until(n1.revoked == 2, 5000);
    assert_int_equal(n1.revoked_last, two->id);
}

RIG_TEST(test_host_preferred_and_best_fit)
{
    rig_create("");
    node_open(&n1, "n1", 1, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    node_open(&n2, "n2", 1, 32, 32 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "host-of-n2");   /* although n1 fits better */
    client_create(&b, "vm-b", 4, GIB, 0, true, "elsewhere");
    client_create(&c, "vm-c", 16, GIB, 0, true, "host-of-n1");  /* preferred, but too small */
    struct fake_program *one = client_run(&a, CLIENT_WAIT_NO), *two = client_run(&b, CLIENT_WAIT_NO);
    rig_until(one->running && two->running, 5000);
    struct fake_program *three = client_runs(&c, CLIENT_WAIT_NO);
    assert_string_equal(one->node, "n2");
    assert_string_equal(two->node, "n1");
    assert_string_equal(three->node, "n2");
}

/* A unix socket is offered where VM and node are one machine: by what the entitlement names, else by where both are
   connected from, and a loopback address names no machine. All parties of this rig are connected from one machine. */
RIG_TEST(test_same_machine)
{
    static const struct { const char *host; bool same; } cases[] = {
        { "", true },         { "127.0.0.1", true }, { "::1", true },        { "localhost", true },
        { "10.9.9.9", false }, { "n1", true },       { "host-of-n1", true }, { "n2", false },
    };
    rig_create("");
    node_open(&n1, "n1", 8, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        snprintf(name, sizeof name, "vm-%u", i);
        client_create(&a, name, 4, GIB, 0, true, cases[i].host);
        struct fake_program *one = client_runs(&a, CLIENT_WAIT_NO);
        const struct fake_server *server = node_server(&n1, one->server);
        assert_non_null(server);
        if (server->same_host != cases[i].same)
            fail_msg("host \"%s\": %d", cases[i].host, server->same_host);
        client_close(&a);
    }
}

/* Waiting in line, failing at once, and what can never be. */
RIG_TEST(test_line)
{
    rig_create(quick);
    client_create(&c, "vm-c", 64, GIB, 0, true, "");
    struct fake_program *early = client_run(&c, CLIENT_WAIT_NO);
    rig_until(early->answers, 5000);
    assert_int_equal(early->code, CTL_BUSY);
    assert_non_null(strstr(early->text, "no node"));
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_DEFAULT);
    struct fake_program *impatient = client_run(&b, CLIENT_WAIT_NO);
    rig_until(impatient->answers, 5000);
    assert_int_equal(impatient->code, CTL_BUSY);
    struct fake_program *two = client_run(&b, CLIENT_WAIT_YES);
    rig_until(two->answers, 5000);
    assert_int_equal(two->code, CTL_WAITING);
    assert_int_equal(two->position, 1);
    struct fake_program *never = client_run(&c, CLIENT_WAIT_YES);
    rig_until(never->answers, 5000);
    assert_int_equal(never->code, CTL_NO_ROOM);
    assert_non_null(strstr(never->text, "64 SMs"));
    assert_int_equal(admin_status().waiting, 1);
    client_end(&a, one);
    rig_until(two->running, 5000);
    assert_int_equal(n1.overcommits, 0);
    assert_int_equal(admin_status().waiting, 0);
}

/* One server for each program, within what the VM is entitled to as a whole. */
RIG_TEST(test_ungrouped)
{
    struct fake_program *programs[5];
    rig_create(quick);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 8, GIB, 0, false, "");
    for (int i = 0; i < 5; i++)
        programs[i] = client_run(&a, CLIENT_WAIT_YES);
    for (int i = 0; i < 4; i++)
        rig_until(programs[i]->running, 5000);
    rig_until(programs[4]->answers, 5000);
    assert_int_equal(programs[4]->code, CTL_WAITING);
    assert_int_equal(n1.server_count, 4);
    assert_int_equal(programs[0]->sms, 2);
    assert_int_not_equal(programs[0]->server, programs[1]->server);
    client_end(&a, programs[2]);
    rig_until(programs[4]->running, 5000);
    assert_int_equal(n1.server_count, 4);
}

static void kill_program(const struct fake_program *program, const char *answer)
{
    admin_program_args args = { program->id };
    assert_int_equal(admin_code(ADMIN_PROGRAM_KILL, &args), CTL_OK);
    if (*answer)
        assert_non_null(strstr(admin_text, answer));
    else
        assert_string_equal(admin_text, "");
}

/* An administrator ends programs: one that runs, one that waits, and one whose client manager is away. */
RIG_TEST(test_kill)
{
    rig_create(quick);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    struct fake_program *runs = client_runs(&a, CLIENT_WAIT_YES);
    struct fake_program *waits = client_run(&b, CLIENT_WAIT_YES);
    rig_until(waits->answers && waits->id, 5000);
    kill_program(waits, "");
    rig_until(waits->end_asked && waits->code == CTL_DENIED, 5000);
    assert_int_equal(admin_status().waiting, 0);
    kill_program(runs, "");
    rig_until(runs->end_asked, 5000);
    assert_int_equal(n1.ended, 0); /* first it hears why */
    rig_until(n1.ended == 1, 5000);
    client_close(&a);
    rig_run_ms(200);
    kill_program(runs, "client manager is not connected");
    rig_until(n1.ended == 2, 500); /* nobody else ends it */
}

/* A start that fails is tried elsewhere, and then refused with the node's reason. */
RIG_TEST(test_failed_start)
{
    begin(1);
    n1.fail_starts = true;
    struct fake_program *one = client_run(&a, CLIENT_WAIT_YES);
    rig_until(one->code != CTL_OK && one->code != CTL_WAITING, 8000);
    assert_non_null(strstr(one->text, "told to fail"));
    rig_until(admin_check_books() == 0, 3000);
}

/* The node falls silent: suspect, lost, tenants told; it comes back and its old servers are stopped. */
RIG_TEST(test_silent_node)
{
    begin(1);
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_YES);
    n1.mute = true;
    rig_until(one->suspect, 6000);
    assert_false(one->lost);
    rig_until(one->lost, 6000);
    assert_non_null(strstr(one->text, "silent"));
    assert_int_equal(admin_check_books(), 0);
    node_close(&n1);
    node_reopen(&n1);                           /* still with the server that was given up */
    rig_until(n1.registered && n1.server_count == 0, 5000);
    client_end(&a, one);
    client_runs(&a, CLIENT_WAIT_YES);
}

/* Nobody takes a GPU from a node that is away. When an administrator has removed that node, it may be elsewhere. */
RIG_TEST(test_foreign_gpu)
{
    static struct fake_node thief = { .name = "thief", .host = "host-of-thief", .gpus_of = "n1", .gpu_count = 1,
                                      .gpu_sms = 10, .gpu_memory = GIB, .sharing = CTL_SHARING_EXCLUSIVE };
    begin(1);
    node_close(&n1);
    rig_until(admin_status().nodes_up == 0 || admin_status().gpus_ready == 0, 5000);
    node_reopen(&thief);
    rig_until(thief.refused, 5000);
    assert_int_equal(thief.refused, CTL_EXISTS);
    node_close(&thief);
    node_reopen(&n1);
    rig_until(n1.registered, 5000);
    client_runs(&a, CLIENT_WAIT_YES);
    node_close(&n1);
    admin_node_args args = { .name = n1.name, .action = ADMIN_NODE_REMOVE, .force = 1 };
    assert_int_equal(admin_code(ADMIN_NODE, &args), CTL_OK);
    node_reopen(&thief);
    rig_until(thief.registered, 5000);
}

/* Nor while the cluster manager does not run: which GPUs a node has stands in the resource DB. */
RIG_TEST(test_foreign_gpu_after_restart)
{
    static struct fake_node thief = { .name = "thief",
                                      .host = "host-of-thief",
                                      .gpus_of = "n1",
                                      .gpu_count = 1,
                                      .gpu_sms = 10,
                                      .gpu_memory = GIB,
                                      .sharing = CTL_SHARING_EXCLUSIVE };
    begin(1);
    rig_signal(SIGKILL);
    node_close(&n1);
    rig_start();
    node_reopen(&thief);
    rig_until(thief.refused, 5000);
    assert_int_equal(thief.refused, CTL_EXISTS);
    node_close(&thief);
    node_reopen(&n1);
    rig_until(n1.registered, 5000);
}

/* A node that was suspect speaks again on the same connection: it is used again, at once. */
RIG_TEST(test_node_speaks_again)
{
    begin(2);
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_YES);
    n1.mute = true;
    rig_until(one->suspect, 6000);
    struct fake_program *two = client_run(&b, CLIENT_WAIT_YES);
    n1.mute = false;
    node_report(&n1, &n1.servers[0]);
    rig_until(one->back, 5000);
    node_close(&n1);                            /* the rig asks for orders after registering only */
    node_reopen(&n1);
    rig_until(two->running, 5000);
    assert_false(one->lost);
    assert_int_equal(admin_check_books(), 2);
}

/* The manager itself is stopped for longer than it bears silence: that was nobody's silence but its own. */
RIG_TEST(test_manager_stopped)
{
    begin(1);
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_YES);
    kill(rig.pid, SIGSTOP);
    rig_run_ms(4500);
    kill(rig.pid, SIGCONT);
    rig_run_ms(1000);
    assert_false(one->lost);
    assert_int_equal(n1.stops, 0);
    assert_int_equal(admin_check_books(), 1);
}

/* A short cut of the node's line disturbs nobody. */
RIG_TEST(test_node_reconnects)
{
    begin(1);
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_YES);
    node_close(&n1);
    struct fake_program *two = client_run(&a, CLIENT_WAIT_YES);     /* joins the server, whose node is away */
    rig_until(two->running, 5000);
    node_reopen(&n1);
    rig_until(n1.registered, 5000);
    rig_run_ms(300);
    assert_false(one->lost);
    assert_int_equal(n1.stops, 0);
    assert_int_equal(admin_check_books(), 1);
}

/* kill -9: what ran goes on, and is the manager's again; what waited waits again. */
static void crash(int number)
{
    begin(3);
    struct fake_program *one = client_run(&a, CLIENT_WAIT_YES), *two = client_run(&b, CLIENT_WAIT_YES);
    rig_until(one->running && two->running, 5000);
    struct fake_program *three = client_run(&c, CLIENT_WAIT_YES);
    rig_until(three->answers, 5000);
    assert_int_equal(three->code, CTL_WAITING);
    uint64_t first = one->server, second = two->server;
    rig_signal(number);
    rig_run_ms(300);
    rig_start();
    rig_until(n1.registered && a.registered && b.registered && c.registered, 10000);
    rig_run_ms(500);
    assert_int_equal(n1.starts, 2);
    assert_int_equal(n1.stops, 0);
    assert_int_equal(one->server, first);
    assert_int_equal(two->server, second);
    assert_false(one->lost || two->lost || three->running);
    assert_int_equal(admin_check_books(), 2);
    assert_int_equal(admin_status().programs, 3);
    client_end(&b, two);
    rig_until(three->running, 8000);
    assert_int_equal(n1.overcommits, 0);
    /* Nothing is leaked: all end, all is back. */
    client_end(&a, one);
    client_end(&c, three);
    rig_until(n1.server_count == 0, 8000);
    rig_until(admin_check_books() == 0, 3000);
}

RIG_TEST(test_crash) { crash(SIGKILL); }

RIG_TEST(test_restart) { crash(SIGTERM); }

/* While the manager is down, a program ends and a server dies: both are noticed when it is back. */
RIG_TEST(test_changes_while_down)
{
    rig_create(quick);
    node_open(&n1, "n1", 2, 16, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 8, GIB, 0, true, "");
    client_create(&b, "vm-b", 8, GIB, 0, true, "");
    struct fake_program *one = client_run(&a, CLIENT_WAIT_YES), *two = client_run(&b, CLIENT_WAIT_YES);
    rig_until(one->running && two->running, 5000);
    rig_signal(SIGKILL);
    rig_run_ms(100);
    client_end(&a, one);
    struct fake_server *dies = node_server(&n1, two->server);
    assert_non_null(dies);
    *dies = n1.servers[n1.server_count - 1];
    n1.server_count--;
    rig_start();
    rig_until(two->lost, 10000);
    rig_until(n1.server_count == 0, 10000);
    rig_until(admin_check_books() == 0, 3000);
}

/* With a server for each program: those whose programs ended meanwhile are given back as soon as node and VM have said
 * what runs. */
RIG_TEST(test_ended_while_down)
{
    struct fake_program *programs[4];
    rig_create(quick);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 8, GIB, 0, false, "");
    for (int i = 0; i < 4; i++)
        programs[i] = client_run(&a, CLIENT_WAIT_YES);
    for (int i = 0; i < 4; i++)
        rig_until(programs[i]->running, 5000);
    rig_signal(SIGKILL);
    rig_run_ms(100);
    client_end(&a, programs[0]);
    client_end(&a, programs[1]);
    rig_start();
    rig_until(n1.registered && a.registered, 10000);
    rig_until(n1.server_count == 2, 2500);      /* not after the seconds for which one that is unknown would be kept */
    rig_until(admin_check_books() == 2, 3000);
    assert_false(programs[2]->lost || programs[3]->lost);
}

/* A client manager that is away for a moment changes nothing; one that stays away has lost its programs. */
RIG_TEST(test_silent_client)
{
    begin(1);
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_YES);
    client_close(&a);
    rig_run_ms(700);
    client_open(&a);
    rig_until(a.registered, 5000);
    rig_run_ms(500);
    assert_int_equal(n1.server_count, 1);
    assert_false(one->lost);
    assert_int_equal(admin_status().programs, 1);
    client_close(&a);
    rig_until(n1.server_count == 0, 8000);
    assert_int_equal(admin_status().programs, 0);
}

/* After a restart VM b comes first, and names the program of VM a as its own. */
RIG_TEST(test_another_vms_id)
{
    begin(2);
    struct fake_program *one = client_run(&a, CLIENT_WAIT_YES);
    rig_until(one->running && one->id, 5000);
    client_close(&a);
    rig_signal(SIGTERM);
    rig_run_ms(100);
    b.programs[b.program_count++] = (struct fake_program){ .key = 1, .id = one->id, .server = 999999 };
    rig_start();
    rig_until(n1.registered && b.registered, 10000);
    rig_until(b.programs[0].lost, 5000);        /* it has none of its own there */
    client_open(&a);
    rig_until(a.registered, 5000);
    rig_run_ms(300);
    assert_false(one->lost);
    assert_int_equal(n1.server_count, 1);
    kill_program(one, "");
    rig_until(one->end_asked, 5000);
    assert_false(b.programs[0].end_asked);
}

/* Who is who: secrets, roles, doors. */
RIG_TEST(test_credentials)
{
    static struct fake_client thief = { .name = "vm-a" };
    static struct fake_node pretender = { .name = "n9", .host = "x" };
    rig_create("");
    client_create(&a, "vm-a", 8, GIB, 0, true, "");
    memcpy(thief.secret.bytes, "guess", thief.secret.size = 5);
    client_open(&thief);
    rig_until(thief.downs, 5000);
    assert_int_equal(thief.error, -EACCES);
    assert_true(a.registered);                  /* and the real one stays */
    client_close(&thief);
    struct secret right = rig.node_secret;
    memcpy(rig.node_secret.bytes, "node sEcret", 11);
    node_reopen(&pretender);
    rig_run_ms(500);
    assert_false(pretender.registered);
    assert_int_equal(pretender.ups, 0);
    node_close(&pretender);
    rig.node_secret = right;
    /* A VM that knows its secret is no node, and the node port serves no VM. */
    char uri[128];
    memcpy(uri, rig.client_uri, sizeof uri);
    memcpy(rig.client_uri, rig.node_uri, sizeof uri);
    memcpy(thief.secret.bytes, a.secret.bytes, thief.secret.size = a.secret.size);
    thief.downs = 0;
    client_open(&thief);
    rig_until(thief.downs, 5000);
    assert_non_null(strstr(thief.why, "ports.client"));
    client_close(&thief);
    memcpy(rig.client_uri, uri, sizeof uri);
}

RIG_TEST(test_admin)
{
    admin_vms_result vms;
    begin(1);
    /* The same name again; nonsense. */
    admin_vm_add_args again = { .vm = { .name = (char *)"vm-a", .sms = 1, .memory = GIB } };
    assert_int_equal(admin_code(ADMIN_VM_ADD, &again), CTL_EXISTS);
    again.vm.name = (char *)"-x";
    assert_int_equal(admin_code(ADMIN_VM_ADD, &again), CTL_INVALID);
    /* Changes are there, and there after a restart. */
    admin_vm_set_args set = { .vm = { .name = (char *)"vm-a", .sms = 3 }, .set = ADMIN_VM_SET_SMS };
    assert_int_equal(admin_code(ADMIN_VM_SET, &set), CTL_OK);
    rig_signal(SIGKILL);
    rig_start();
    admin_named_page page = { (char *)"", (char *)"vm-a" };
    admin_call(ADMIN_VMS, &page, &vms);
    assert_int_equal(vms.vms.vms_len, 1);
    assert_int_equal(vms.vms.vms_val[0].vm.sms, 3);
    assert_int_equal(vms.vms.vms_val[0].vm.memory, GIB);
    assert_int_equal(vms.vms.vms_val[0].has_secret, 1);
    protocol_free((xdrproc_t)xdr_admin_vms_result, &vms);
    rig_until(a.registered && n1.registered, 10000);
    /* Drained: nothing new. */
    admin_node_args drain = { (char *)"n1", ADMIN_NODE_DRAIN, 0, (char *)"" };
    assert_int_equal(admin_code(ADMIN_NODE, &drain), CTL_OK);
    struct fake_program *one = client_run(&a, CLIENT_WAIT_YES);
    rig_until(one->answers, 5000);
    assert_int_equal(one->code, CTL_WAITING);
    drain.action = ADMIN_NODE_UNDRAIN;
    assert_int_equal(admin_code(ADMIN_NODE, &drain), CTL_OK);
    rig_until(one->running, 5000);
    /* A server in use is stopped only by force, and its program told. */
    admin_server_stop_args stop = { one->server, 0 };
    assert_int_equal(admin_code(ADMIN_SERVER_STOP, &stop), CTL_BUSY);
    stop.force = 1;
    assert_int_equal(admin_code(ADMIN_SERVER_STOP, &stop), CTL_OK);
    rig_until(one->lost, 5000);
    assert_non_null(strstr(one->text, "tester"));
    rig_until(admin_check_books() == 0, 5000);
    /* Honest about what it cannot do. */
    admin_migrate_args migrate = { .vm = (char *)"vm-a", .node = (char *)"", .gpu = (char *)"" };
    assert_int_equal(admin_code(ADMIN_MIGRATE, &migrate), CTL_NOT_SUPPORTED);
    /* Removed: its client manager has to go. */
    admin_vm_remove_args removal = { (char *)"vm-a", 1 };
    assert_int_equal(admin_code(ADMIN_VM_REMOVE, &removal), CTL_OK);
    rig_until(!a.registered && a.error == -EACCES, 5000);
}

/* A second one finds the ports in use, and says where they were chosen. */
RIG_TEST(test_port_in_use)
{
    char command[512];
    rig_create("");
    admin_status();
    snprintf(command, sizeof command,
             "%s -c %s >/dev/null 2>%s/second; test $? = 1 && grep -q 'cluster.conf:2: ports.node' %s/second",
             getenv("FLYT_TEST_CLUSTER_MANAGER") ? getenv("FLYT_TEST_CLUSTER_MANAGER") : "bin/flyt-cluster-manager",
             rig.config, rig.folder, rig.folder);
    assert_int_equal(system(command), 0);
    admin_status();                             /* the first one is not disturbed */
}

/* SIGHUP: what can change does, a file with mistakes changes nothing. */
RIG_TEST(test_reload)
{
    FILE *file;
    rig_create("");
    file = fopen(rig.config, "a");
    fputs("placement = { policy = \"spread\"; };\n", file);
    fclose(file);
    kill(rig.pid, SIGHUP);
    for (bool changed = false; !changed;) {
        admin_status_result status;
        admin_call(ADMIN_STATUS, NULL, &status);
        changed = strcmp(status.policy, "spread") == 0;
        protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    }
    file = fopen(rig.config, "a");
    fputs("zebra = 1;\n", file);
    fclose(file);
    assert_int_equal(admin_code(ADMIN_RELOAD, NULL), CTL_INVALID);
    assert_non_null(strstr(admin_text, "zebra"));
    admin_status();
}

int main(void)
{
    if (getenv("FLYT_TEST_ONLY"))
        cmocka_set_test_filter(getenv("FLYT_TEST_ONLY"));
    return unit_run(NULL, NULL);
}
