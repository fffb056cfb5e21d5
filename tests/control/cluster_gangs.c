/*
 * cluster_gangs.c: programs with several GPUs of one node, by a real cluster manager.
 *
 * shows: several GPUs: a program gets all of them or waits; tenants with one GPU share them; the first in line keeps as
 *   many as it wants; a restart of the cluster manager changes nothing; nodes and client managers of the release
 *   before; all GPUs move together or not at all; live limits hold on each GPU
 * shows: many-gpus: servers on several nodes for one program are granted when all of them run, and else none; a part
 *   takes its server once; none of them moves; what a client manager of the release before cannot use is refused
 * shows: many-gpus: a cluster manager that was started again knows which servers are one set, and which of them a part
 *   uses: further programs of the VM share them, and nothing moves
 */
#include "tests/control/cluster_rig.h"

#include <signal.h>

#define GIB (UINT64_C(1) << 30)
enum { SOON_MS = 5000 };

static struct fake_node n1, n2;
static struct fake_client many, others[8];

static void begin(const char *settings, unsigned gpus)
{
    rig_create(settings);
    n1 = n2 = (struct fake_node){ 0 };
    node_open(&n1, "n1", gpus, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
}

/* A VM whose programs have so many GPUs. */
static void entitle(struct fake_client *client, const char *vm, unsigned gpus, unsigned sms)
{
    const admin_vm want = { .name = (char *)(uintptr_t)vm, .gpus = gpus };
    client_create(client, vm, sms, GIB, 0, true, "");
    assert_int_equal(vm_set(want, ADMIN_VM_SET_GPUS), CTL_OK);
}

static struct fake_program *run_one(int i, unsigned sms)
{
    char name[16];
    snprintf(name, sizeof name, "other-%d", i);
    client_create(&others[i], name, sms, GIB, 0, true, "");
    return client_run(&others[i], CLIENT_WAIT_YES);
}

static struct fake_server *server_of(struct fake_node *node, const struct fake_program *program)
{
    struct fake_server *server = node_server(node, program->server);
    assert_non_null(server);
    return server;
}

/* GPUs of the program's server, as the listings say; checks that both say the same. */
static unsigned listed(const struct fake_program *program)
{
    admin_numbered_page page = { 0, (char *)"", (char *)"" };
    admin_servers_result servers;
    admin_programs_result programs;
    unsigned count = 0, said = 0;
    admin_call(ADMIN_SERVERS, &page, &servers);
    for (u_int i = 0; i < servers.servers.servers_len; i++)
        if (servers.servers.servers_val[i].id == program->server)
            count = servers.servers.servers_val[i].gpus.gpus_len;
    admin_call(ADMIN_PROGRAMS, &page, &programs);
    for (u_int i = 0; i < programs.programs.programs_len; i++)
        if (programs.programs.programs_val[i].id == program->id)
            said = programs.programs.programs_val[i].gpus;
    assert_int_equal(count, said);
    protocol_free((xdrproc_t)xdr_admin_servers_result, &servers);
    protocol_free((xdrproc_t)xdr_admin_programs_result, &programs);
    return count;
}

static uint32_t used_sms(void) { return admin_status().sms_used; }

RIG_TEST(test_placed_whole)
{
    begin("", 4);
    entitle(&many, "many", 4, 8);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_NO), *second, *third;
    rig_until(program->running, SOON_MS);
    assert_int_equal(server_of(&n1, program)->gpus, 0xf);
    assert_int_equal(server_of(&n1, program)->sms, 8);
    assert_int_equal(program->sms, 8);                  /* of each */
    assert_int_equal(used_sms(), 32);
    assert_int_equal(listed(program), 4);
    assert_int_equal(n1.starts, 1);
    /* Grouping: another program of the VM uses the same server. */
    second = client_runs(&many, CLIENT_WAIT_NO);
    assert_int_equal(second->server, program->server);
    /* A tenant with one GPU beside it; another gang does not fit, although three GPUs have room for it. */
    struct fake_program *one = run_one(0, 4);
    rig_until(one->running, SOON_MS);
    entitle(&others[1], "also-many", 4, 8);
    third = client_run(&others[1], CLIENT_WAIT_YES);
    rig_until(third->answers, SOON_MS);
    assert_int_equal(third->code, CTL_WAITING);
    assert_int_equal(used_sms(), 36);                   /* nothing of it is booked */
    client_end(&others[0], one);
    rig_until(third->running, SOON_MS);
    assert_int_equal(used_sms(), 64);
    admin_check_books();
    assert_int_equal(n1.overcommits, 0);
    assert_int_equal(n1.bad_orders, 0);
}

RIG_TEST(test_one_node_first)
{
    begin("", 2);
    node_open(&n2, "n2", 3, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    entitle(&many, "many", 6, 8);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_YES);
    rig_until(program->answers, SOON_MS);
    assert_int_equal(program->code, CTL_NO_ROOM);
    assert_non_null(strstr(program->text, "6 GPUs with"));
    assert_non_null(strstr(program->text, "at most 3 such GPUs, and all nodes have 5"));
    const admin_vm three = { .name = (char *)"many", .gpus = 3 }, lots = { .name = (char *)"many", .gpus = 17 };
    assert_int_equal(vm_set(three, ADMIN_VM_SET_GPUS), CTL_OK);
    program = client_runs(&many, CLIENT_WAIT_YES);
    assert_string_equal(program->node, "n2");
    assert_int_equal(n1.starts, 0);
    assert_int_equal(vm_set(lots, ADMIN_VM_SET_GPUS), CTL_INVALID);
}

/* ---- of several nodes ---- */

static struct { int count; ctl_code code; uint64_t program, server; char text[256]; } part_answer;

static void part_answered(void *context, int error, const char *why, void *object)
{
    const client_answer *result = object;
    (void)context, (void)why;
    assert_int_equal(error, 0);
    part_answer.count++;
    part_answer.code = result->status.code;
    part_answer.program = result->prog;
    part_answer.server = result->grant.server;
    snprintf(part_answer.text, sizeof part_answer.text, "%.250s", result->status.text);
}

static ctl_code take_part(const struct fake_program *lead, uint64_t key, unsigned part)
{
    const client_part_args args = { .prog = { .key = key, .pid = 100, .executable = (char *)"/bin/program" },
                                    .lead = lead->key, .part = part };
    part_answer.count = 0;
    assert_int_equal(link_call(many.link, CLIENT_PART, &args, SOON_MS, part_answered, NULL, NULL), 0);
    rig_until(part_answer.count, SOON_MS);
    return part_answer.code;
}

static void begin_two(uint32_t minor)
{
    begin("virt-server-auto-deallocate = { grace-period = 0.1; };\n", 2);
    node_open(&n2, "n2", 2, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    entitle(&many, "many", 4, 8);
    if (!minor)
        return;
    client_close(&many);
    many.minor = minor;
    client_open(&many);
    rig_until(many.registered, SOON_MS);
}

static void stays(uint64_t program)
{
    const admin_move_args move = { .prog = program };
    assert_int_equal(admin_code(ADMIN_MOVE, &move), CTL_NOT_SUPPORTED);
    assert_non_null(strstr(admin_text, "GPU servers on several nodes"));
}

RIG_TEST(test_several_nodes)
{
    begin_two(0);
    n2.hold_starts = true;
    struct fake_program *program = client_run(&many, CLIENT_WAIT_YES);
    rig_until(n1.starts == 1 && n2.starts == 1, SOON_MS);
    assert_int_equal(used_sms(), 32);
    rig_run_ms(100);
    assert_false(program->running);                     /* granted nothing before all servers run */
    assert_int_equal(program->code, CTL_WAITING);
    assert_int_equal(take_part(program, 1000, 1), CTL_NOT_FOUND);
    n2.hold_starts = false;
    n2.servers[0].state = CTL_SERVER_RUNNING;
    node_report(&n2, &n2.servers[0]);
    rig_until(program->running, SOON_MS);
    /* Its part takes the other server, once. */
    assert_int_equal(take_part(program, 1000, 2), CTL_INVALID);
    assert_int_equal(take_part(program, 1000, 1), CTL_OK);
    assert_int_not_equal(part_answer.server, program->server);
    assert_int_equal(take_part(program, 1000, 1), CTL_OK);      /* the same key: the same answer */
    assert_int_equal(take_part(program, 1001, 1), CTL_LOST);
    /* Both are programs, and neither moves. */
    stays(program->id);
    stays(part_answer.program ? part_answer.program : program->id);
    admin_check_books();
    /* The part ends with the program's process; so do the servers. */
    uint64_t keys[] = { program->key, 1000 };
    client_ended_args ended = { .keys = { 2, keys } };
    assert_int_equal(link_call(many.link, CLIENT_ENDED, &ended, SOON_MS, NULL, NULL, NULL), 0);
    rig_until(used_sms() == 0, SOON_MS);
    admin_check_books();
}

static void restart(unsigned programs)
{
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && n2.registered && many.registered, 10000);
    rig_until(admin_status().programs == programs, SOON_MS);
    assert_int_equal(used_sms(), 32);
    admin_check_books();
}

RIG_TEST(test_several_nodes_restart)
{
    begin_two(0);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_YES), *next;
    rig_until(program->running, SOON_MS);
    restart(1);
    stays(program->id);
    assert_int_equal(take_part(program, 1000, 1), CTL_OK);  /* its further server was kept for it */
    const uint64_t further = part_answer.server;
    assert_int_not_equal(further, program->server);
    many.programs[many.program_count++] = (struct fake_program){ .key = 1000, .id = part_answer.program,
                                                                 .server = further, .running = true };
    restart(2);
    stays(program->id);
    stays(part_answer.program);
    assert_int_equal(take_part(program, 1001, 1), CTL_LOST); /* its part has it */
    /* Another program of the VM has the same servers. */
    next = client_runs(&many, CLIENT_WAIT_NO);
    assert_int_equal(next->server, program->server);
    assert_int_equal(take_part(next, 1002, 1), CTL_OK);
    assert_int_equal(part_answer.server, further);
    assert_true(n1.starts == 1 && n2.starts == 1 && used_sms() == 32);
}

/* The server of one node cannot be started: that of the other one ends, too. */
RIG_TEST(test_several_nodes_all_or_none)
{
    begin_two(0);
    n2.fail_starts = true;
    struct fake_program *program = client_run(&many, CLIENT_WAIT_NO);
    rig_until(program->answers && program->code != CTL_WAITING, SOON_MS);
    assert_false(program->running);
    rig_until(used_sms() == 0, SOON_MS);
    admin_check_books();
    /* One that runs, and whose second server is lost before its part has come. */
    n2.fail_starts = false;
    program = client_run(&many, CLIENT_WAIT_YES);
    rig_until(program->running, 4 * SOON_MS);
    struct fake_server *other = node_server(&n1, program->server) ? &n2.servers[n2.server_count - 1]
                                                                  : &n1.servers[n1.server_count - 1];
    other->state = CTL_SERVER_FAILED;
    node_report(other == &n2.servers[n2.server_count - 1] ? &n2 : &n1, other);
    rig_until(used_sms() == 16, SOON_MS);
    assert_int_equal(take_part(program, 1000, 1), CTL_LOST);
}

/* A client manager of the release before knows of one server for each program. */
RIG_TEST(test_several_nodes_of_before)
{
    begin_two(CTL_MINOR_PARTS - 1);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_YES);
    rig_until(program->answers, SOON_MS);
    assert_int_equal(program->code, CTL_VERSION);
    assert_non_null(strstr(program->text, "of several nodes"));
    assert_int_equal(used_sms(), 0);
}

/* Small programs come whenever there is room. The gang is overtaken so many times, and then keeps all GPUs. */
RIG_TEST(test_first_in_line)
{
    begin("virt-server-auto-deallocate = { grace-period = 0.1; };\nplacement = { overtaking = 2; };\n", 2);
    struct fake_program *small[8] = { run_one(0, 16) }, *waiting;
    rig_until(small[0]->running, SOON_MS);
    entitle(&many, "many", 2, 16);
    waiting = client_run(&many, CLIENT_WAIT_YES);
    rig_until(waiting->answers, SOON_MS);
    assert_int_equal(waiting->code, CTL_WAITING);
    for (int i = 1; i < 3; i++) {                       /* the second GPU is taken, and given back */
        small[i] = run_one(i, 16);
        rig_until(small[i]->running, SOON_MS);
        client_end(&others[i], small[i]);
        rig_until(used_sms() == 16, SOON_MS);
    }
    small[3] = run_one(3, 16);
    rig_until(small[3]->answers, SOON_MS);
    assert_int_equal(small[3]->code, CTL_WAITING);      /* kept, both of them */
    assert_false(waiting->running);
    client_end(&others[0], small[0]);
    rig_until(waiting->running, SOON_MS);
    assert_int_equal(server_of(&n1, waiting)->gpus, 3);
    assert_false(small[3]->running);
    client_end(&many, waiting);
    rig_until(small[3]->running, SOON_MS);
    admin_check_books();
    assert_int_equal(n1.overcommits, 0);
}

RIG_TEST(test_idle_ones_give_way)
{
    begin("virt-server-auto-deallocate = { grace-period = 60; };\n", 2);
    entitle(&many, "many", 2, 16);
    struct fake_program *gang = client_run(&many, CLIENT_WAIT_YES), *one;
    rig_until(gang->running, SOON_MS);
    client_end(&many, gang);                            /* its server stays for the grace period */
    one = run_one(0, 16);
    rig_until(one->running, SOON_MS);
    client_end(&others[0], one);
    gang = client_runs(&many, CLIENT_WAIT_NO);
    admin_check_books();
}

RIG_TEST(test_restart)
{
    begin("silence = { suspect = 1.0; lost = 2.0; };\n", 4);
    entitle(&many, "many", 3, 8);
    struct fake_program *program = client_runs(&many, CLIENT_WAIT_NO);
    const uint64_t server = program->server;
    const unsigned gpus = server_of(&n1, program)->gpus;
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && many.registered, 10000);
    rig_until(admin_status().programs == 1, SOON_MS);
    assert_int_equal(used_sms(), 24);
    assert_int_equal(listed(program), 3);
    admin_check_books();
    assert_int_equal(n1.starts, 1);
    assert_int_equal(server_of(&n1, program)->gpus, gpus);
    assert_true(program->server == server && !program->lost);
    node_close(&n1);                                    /* and with its node all of it goes */
    rig_until(program->lost, 60000);
    assert_int_equal(used_sms(), 0);
}

/* A node manager of minor 8 has no order for it; a client manager of minor 8 needs to know nothing. */
RIG_TEST(test_earlier_release)
{
    begin("", 4);
    node_close(&n1);
    n1.minor = 8;
    node_reopen(&n1);
    rig_until(n1.registered, SOON_MS);
    entitle(&many, "many", 2, 8);
    client_close(&many);
    many.minor = 8;
    client_open(&many);
    rig_until(many.registered, SOON_MS);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_YES), *one = run_one(0, 8);
    rig_until(program->answers && one->running, SOON_MS);
    assert_int_equal(program->code, CTL_NO_ROOM);
    assert_non_null(strstr(program->text, "earlier release"));
    node_open(&n2, "n2", 2, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    program = client_runs(&many, CLIENT_WAIT_YES);
    assert_string_equal(program->node, "n2");
    assert_int_equal(server_of(&n2, program)->gpus, 3);
    assert_int_equal(n1.bad_orders, 0);
}

/* A node that is away for a moment could give them later: the program waits. */
RIG_TEST(test_node_away)
{
    begin("", 2);
    entitle(&many, "many", 2, 8);
    node_close(&n1);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_YES);
    rig_until(program->answers, SOON_MS);
    assert_int_equal(program->code, CTL_WAITING);
    assert_true(program->position == 1);
    node_reopen(&n1);
    rig_until(program->running, SOON_MS);
    assert_int_equal(server_of(&n1, program)->gpus, 3);
}

/* Its node comes back with a node manager of the release before, and the order has not been given. */
RIG_TEST(test_node_of_an_earlier_release_returns)
{
    begin("", 2);
    n1.mute = true;                                     /* connected, but says nothing: the order waits */
    entitle(&many, "many", 2, 8);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_YES);
    rig_until(used_sms() == 16, SOON_MS);
    node_close(&n1);
    n1.mute = false;
    n1.minor = 8;
    node_reopen(&n1);
    rig_until(used_sms() == 0, SOON_MS);
    rig_until(program->answers && program->code == CTL_NO_ROOM, SOON_MS);
    assert_int_equal(n1.starts, 0);
}

static ctl_code act(const struct fake_program *program, admin_move_action action, const char *to, uint64_t *id)
{
    admin_move_args args = { .prog = program->id, .vm = (char *)"", .to = (char *)(uintptr_t)to, .action = action,
                             .file = (char *)(action == ADMIN_ACTION_CHECKPOINT ? "/a/file" : "") };
    return admin_move(ADMIN_MOVE, &args, id);
}

RIG_TEST(test_moved_together)
{
    static const struct { admin_move_action action; const char *to; } refused[] = {
        { ADMIN_ACTION_SUSPEND, "" }, { ADMIN_ACTION_CHECKPOINT, "" }, { ADMIN_ACTION_MOVE, "n2:0" },
    };
    uint64_t id;
    begin("", 4);
    node_open(&n2, "n2", 4, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    entitle(&many, "many", 3, 8);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_NO), *one;
    rig_until(program->running, SOON_MS);
    const bool on_first = strcmp(program->node, "n1") == 0;
    struct fake_node *from = on_first ? &n1 : &n2, *to = on_first ? &n2 : &n1;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(act(program, refused[i].action, refused[i].to, &id), CTL_NOT_SUPPORTED);
        assert_non_null(strstr(admin_text, "has 3 GPUs"));
    }
    rig_run_ms(100);
    assert_true(!program->move_orders && !program->rests && n1.starts + n2.starts == 1);
    assert_int_equal(used_sms(), 24);                   /* no target was booked */
    /* Its own node has one more GPU, which is not enough: all three go to the other one. */
    assert_int_equal(act(program, ADMIN_ACTION_MOVE, from->name, &id), CTL_NO_ROOM);
    assert_int_equal(act(program, ADMIN_ACTION_MOVE, "", &id), CTL_OK);
    rig_until(program->move_orders == 1, SOON_MS);
    assert_int_equal(used_sms(), 48);                   /* both places, while it moves */
    assert_int_equal(__builtin_popcount(node_server(to, program->target)->gpus), 3);
    client_moved(&many, program, id, CTL_MOVE_TAKEN, CTL_OK);
    program->server = program->target;
    client_moved(&many, program, id, CTL_MOVE_MOVED, CTL_OK);
    rig_until(used_sms() == 24 && from->server_count == 0, SOON_MS);
    assert_int_equal(listed(program), 3);
    /* Tenants that leave two GPUs at most: no move. */
    for (int i = 0; i < 3; i++) {
        one = run_one(i, 16);
        rig_until(one->running, SOON_MS);
    }
    assert_int_equal(act(program, ADMIN_ACTION_MOVE, from->name, &id), CTL_NO_ROOM);
    assert_non_null(strstr(admin_text, "3 GPUs of one node"));
    admin_check_books();
}

RIG_TEST(test_live_limits)
{
    begin("", 2);
    entitle(&many, "many", 2, 8);
    struct fake_program *program = client_run(&many, CLIENT_WAIT_NO), *one = run_one(0, 4);
    rig_until(program->running && one->running, SOON_MS);
    admin_resize_args args = { .vm = (char *)"many", .sms = 12 };
    assert_int_equal(admin_code(ADMIN_RESIZE, &args), CTL_OK);
    assert_int_equal(server_of(&n1, program)->sms, 12);
    assert_int_equal(used_sms(), 2 * 12 + 4);
    args.sms = 13;                                      /* would fit on one of its GPUs, and not on the other */
    assert_int_equal(admin_code(ADMIN_RESIZE, &args), CTL_NO_ROOM);
    assert_int_equal(used_sms(), 2 * 12 + 4);
    admin_check_books();
}

int main(void) { return unit_run(NULL, NULL); }
