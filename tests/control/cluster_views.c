/*
 * What administrators read of nodes, and VMs of the cluster: logs of servers, with nodes that answer, are silent, go
 * away or are of an earlier release; what a VM is told of itself.
 * shows: metrics: faults of GPUs and restarts of servers count once each, whoever restarts; what the workers of a
 *   program have done and hold
 * shows: server logs: pieces come from the server's node; nodes that are silent, gone, busy or of an earlier release
 *   are named, and nobody is answered twice
 * shows: figures: a report that comes twice, is lost, or says less counts once or nothing; no total falls over kill -9
 * shows: usage: a node is asked once about a program that it does not name, without revoking its tickets; a node of
 *   minor 8 is not asked, and its programs have equal parts
 * shows: usage: a row ends when no worker serves the program; at once with a node of minor 8; a node that was away
 *   says when, also one that was lost; who asks page by page sees each row once
 * shows: status: how many VMs are connected, and peers without TLS, while connections come, go and are replaced
 * shows: metrics: placements, waits, refusals and starts count once, and do not fall over kill -9 and a restart
 * shows: a VM's own view: its entitlement, servers and programs, with place and reason, and nothing of another VM
 */
#include "tests/control/cluster_rig.h"

#include <signal.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 5000, ASKS_MOST = 32 };

static struct fake_node n1;
static struct fake_client a, b;

static struct fake_program *begin(void)
{
    rig_create("placement = { ungrouped-programs = 1; };\n");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 8, 4 * GIB, 0, false, "");
    struct fake_program *program = client_runs(&a, CLIENT_WAIT_NO);
    return program;
}

static ctl_code read_log(uint64_t server, const char *node, admin_log_result *result)
{
    admin_log_args args = { .wish = { .server = server, .from = 5, .file = 7, .lines = 3 },
                            .node = (char *)(uintptr_t)node };
    admin_call(ADMIN_LOG, &args, result);
    return result->status.code;
}

/* The code; the text has `words`. */
static ctl_code code_of(uint64_t server, const char *node, const char *words)
{
    admin_log_result result;
    ctl_code code = read_log(server, node, &result);
    if (!strstr(result.status.text, words))
        fail_msg("'%s' is not in: %s", words, result.status.text);
    protocol_free((xdrproc_t)xdr_admin_log_result, &result);
    return code;
}

RIG_TEST(test_a_piece_of_a_log)
{
    admin_log_result result;
    uint64_t server = begin()->server;
    assert_int_equal(read_log(server, "", &result), CTL_OK);
    assert_int_equal(n1.log_wish.server, server);
    assert_true(n1.log_wish.from == 5 && n1.log_wish.file == 7 && n1.log_wish.lines == 3 && !n1.log_wish.previous);
    assert_string_equal(result.node, "n1");
    assert_int_equal(result.piece.from + result.piece.text.text_len, result.piece.size);
    assert_memory_equal(result.piece.text.text_val, "said by n1\n", 11);
    protocol_free((xdrproc_t)xdr_admin_log_result, &result);
    n1.log = CTL_NOT_FOUND;
    assert_int_equal(code_of(server, "", "as the test says"), CTL_NOT_FOUND);
    /* One that has ended: its events say where it was. */
    n1.log = CTL_OK;
    client_end(&a, &a.programs[0]);
    rig_until(!admin_status().servers, SOON_MS);
    assert_int_equal(code_of(server, "", ""), CTL_OK);
    assert_int_equal(code_of(server + 100, "", "no event says on which node"), CTL_NOT_FOUND);
    assert_int_equal(code_of(server + 100, "n1", ""), CTL_OK);
    assert_int_equal(code_of(server, "n2", "no node 'n2'"), CTL_NOT_FOUND);
}

/* An answer that nobody waits for any more, or of another number, answers nobody. */
RIG_TEST(test_answers_that_nobody_wants)
{
    uint64_t server = begin()->server;
    n1.log = CTL_WAITING;
    admin_log_args args = { .wish = { .server = server } };
    admin_status();
    link_call(rig.admin, ADMIN_LOG, &args, CTL_CALL_SECONDS * 1000, NULL, NULL, NULL);
    rig_until(n1.logs == 1, SOON_MS);
    node_say_log(&n1, n1.held_order + 1, CTL_OK);
    link_close(rig.admin); /* the asker goes */
    rig.admin = NULL;
    rig_run_ms(100);
    node_say_log(&n1, n1.held_order, CTL_OK);
    node_say_log(&n1, n1.held_order, CTL_OK);
    n1.log = CTL_OK;
    assert_int_equal(code_of(server, "", ""), CTL_OK);
}

RIG_TEST(test_nodes_that_give_no_log)
{
    uint64_t server = begin()->server;
    n1.log = CTL_WAITING;
    assert_int_equal(code_of(server, "", "n1 has not answered within 8 s"), CTL_TIMEOUT);
    admin_log_args args = { .wish = { .server = server } };
    int before = n1.logs;
    for (int i = 0; i < ASKS_MOST; i++)
        link_call(rig.admin, ADMIN_LOG, &args, CTL_CALL_SECONDS * 1000, NULL, NULL, NULL);
    rig_until(n1.logs == before + ASKS_MOST, SOON_MS);
    assert_int_equal(code_of(server, "", "32 logs are being read"), CTL_BUSY);
    node_close(&n1); /* all are answered at once */
    rig_until(!admin_status().nodes_up || code_of(server, "", "n1") == CTL_LOST, SOON_MS);
    assert_int_equal(code_of(server, "", "is not connected"), CTL_LOST);
    n1.minor = 8;
    node_reopen(&n1);
    rig_until(n1.registered, SOON_MS);
    before = n1.logs;
    assert_int_equal(code_of(server, "", "earlier release"), CTL_NOT_SUPPORTED);
    assert_int_equal(n1.logs, before);
}

RIG_TEST(test_counts_of_connections)
{
    begin();
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    admin_status_result now = admin_status();
    assert_true(now.vms_connected == 2 && now.nodes_up == 1 && now.unencrypted == 3);
    client_close(&a);
    rig_until(admin_status().vms_connected == 1, SOON_MS);
    assert_int_equal(admin_status().unencrypted, 2);
    node_close(&n1);
    rig_until(admin_status().unencrypted == 1, SOON_MS);
    client_open(&a);
    node_reopen(&n1);
    rig_until(admin_status().unencrypted == 3, SOON_MS);
    static struct fake_client again; /* takes the place of the first connection */
    client_close(&b);
    again = b;
    client_open(&b);
    rig_until(b.registered, SOON_MS);
    client_open(&again);
    rig_until(again.registered, SOON_MS);
    now = admin_status();
    assert_true(now.vms_connected == 2 && now.unencrypted == 3);
    client_close(&again);
    client_close(&b);
    rig_until(admin_status().vms_connected == 1, SOON_MS);
    assert_int_equal(admin_status().unencrypted, 2);
}

/* Of all pages. 0: there is no such sample. */
static double sample_among(const char *among, const char *name, const char *labels)
{
    char of[16];
    admin_counters_args args = { .of = of };
    double value = 0;
    snprintf(of, sizeof of, "%s", among);
    for (u_int more = 1; more;) {
        admin_counters_result result;
        admin_call(ADMIN_COUNTERS, &args, &result);
        assert_int_equal(result.status.code, CTL_OK);
        for (u_int i = 0; i < result.samples.samples_len; i++)
            if (!strcmp(result.samples.samples_val[i].name, name) &&
                !strcmp(result.samples.samples_val[i].labels, labels))
                value = result.samples.samples_val[i].value;
        more = result.more;
        args.after = result.next;
        protocol_free((xdrproc_t)xdr_admin_counters_result, &result);
    }
    return value;
}

static double sample_of(const char *name, const char *labels) { return sample_among("cluster", name, labels); }

/* A placement, a wait and a refusal count once each, and no count falls when the manager is killed. */
RIG_TEST(test_counts_of_things)
{
    static const char placed[] = "flyt_placements_total", slices[] = "sharing=\"time-slice\"";
    static const char waited[] = "flyt_queue_wait_seconds_count", started[] = "outcome=\"started\"";
    begin();
    rig_until(sample_of(placed, slices) == 1 && sample_of(waited, started) == 1, SOON_MS);
    struct fake_program *second = client_run(&a, CLIENT_WAIT_NO);
    rig_until(second->code == CTL_BUSY, SOON_MS);
    rig_until(sample_of("flyt_refusals_total", "reason=\"busy\"") == 1, SOON_MS);
    assert_int_equal(sample_of("flyt_server_start_duration_seconds_count", ""), 1);
    rig_signal(SIGKILL);
    rig_start();
    rig_until(sample_of(placed, slices) >= 1, SOON_MS);
    assert_int_equal(sample_of(placed, slices), 1);
    assert_int_equal(sample_of(waited, started), 1);
    assert_int_equal(sample_of("flyt_refusals_total", "reason=\"busy\""), 1);
    rig_until(n1.registered && a.registered, 15000);
    rig_run_ms(2500); /* an adopted server and its program count no second time */
    assert_int_equal(sample_of(placed, slices), 1);
    assert_int_equal(sample_of(waited, started), 1);
    rig_signal(SIGTERM);
    rig_start();
    rig_until(sample_of(placed, slices) >= 1, SOON_MS);
    assert_int_equal(sample_of("flyt_server_start_duration_seconds_count", ""), 1);
}

static void report(node_report_body *body)
{
    const node_report_args args = { { 1, body } };
    ctl_plain_result result;
    char error[CONTROL_ERROR_SIZE];
    assert_int_equal(link_call_wait(n1.link, NODE_REPORT, &args, 5000, &result, error), 0);
    protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
}

static void report_restarts(uint64_t server, unsigned restarts)
{
    char nothing[] = "";
    node_report_body body = { .kind = NODE_REPORT_SERVER };
    body.node_report_body_u.server = (ctl_server_report){
        .id = server, .state = CTL_SERVER_RUNNING, .restarts = restarts, .status = { CTL_OK, nothing }
    };
    report(&body);
}

static void report_gpu(ctl_gpu_state state)
{
    char id[] = "n1-0", text[] = "as told";
    node_report_body body = { .kind = NODE_REPORT_GPU };
    body.node_report_body_u.gpu = (ctl_gpu){ .id = id,
                                             .product = text,
                                             .sms = 16,
                                             .memory = 8 * GIB,
                                             .sharing = CTL_SHARING_TIME_SLICE,
                                             .sm_limits = 1,
                                             .state = state,
                                             .text = text };
    report(&body);
}

/* Faults of GPUs and restarts of servers count once each, also after the manager was killed; connections and calls. */
RIG_TEST(test_counts_of_incidents)
{
    static const char faults[] = "flyt_gpu_faults_total", of_gpu[] = "node=\"n1\",gpu=\"n1-0\"";
    static const char restarts[] = "flyt_server_restarts_total", of_node[] = "node=\"n1\"";
    uint64_t server = begin()->server;
    report_restarts(server, 2);
    report_restarts(server, 3);
    report_gpu(CTL_GPU_FAULTY);
    report_gpu(CTL_GPU_RECOVERING);
    report_gpu(CTL_GPU_READY);
    report_gpu(CTL_GPU_FAULTY);
    report_gpu(CTL_GPU_READY);
    rig_until(sample_of(restarts, of_node) == 3 && sample_of(faults, of_gpu) == 2, SOON_MS);
    assert_int_equal(sample_of("flyt_connections", "role=\"client\",encrypted=\"no\""), 1);
    assert_int_equal(sample_of("flyt_connections", "role=\"admin\",encrypted=\"local\""), 1);
    assert_true(sample_of("flyt_rpc_duration_seconds_count", "procedure=\"NODE_REPORT\"") >= 7);
    assert_true(sample_of("flyt_db_apply_duration_seconds_count", "") > 0);
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && a.registered, 15000);
    assert_int_equal(sample_of(faults, of_gpu), 2);
    assert_int_equal(sample_of(restarts, of_node), 3);
    report_restarts(server, 1); /* this node has registered the server with none */
    rig_until(sample_of(restarts, of_node) == 4, SOON_MS);
    node_close(&n1);
    rig_until(sample_of("flyt_connections", "role=\"node\",encrypted=\"no\"") == 0, SOON_MS);
}

static program_status_result view_of(struct fake_client *client)
{
    program_status_result result;
    char error[CONTROL_ERROR_SIZE];
    assert_int_equal(link_call_wait(client->link, CLIENT_STATUS, NULL, 5000, &result, error), 0);
    assert_int_equal(result.status.code, CTL_OK);
    return result;
}

RIG_TEST(test_a_vm_sees_its_own)
{
    struct fake_program *program = begin();
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    program_status_result mine = view_of(&a), theirs = view_of(&b);
    assert_string_equal(mine.vm, "vm-a");
    assert_true(mine.sms == 8 && mine.memory == 4 * GIB && mine.gpus == 1 && !mine.grouping && !mine.hidden);
    assert_int_equal(mine.servers.servers_len, 1);
    assert_int_equal(mine.programs.programs_len, 1);
    const ctl_own_server *server = &mine.servers.servers_val[0];
    assert_true(server->id == program->server && server->sms == 8 && server->programs == 1 &&
                server->gpus.gpus_len == 1);
    assert_string_equal(server->node, "n1");
    assert_int_equal(mine.programs.programs_val[0].state, ADMIN_PROGRAM_RUNNING);
    assert_true(mine.programs.programs_val[0].server == program->server &&
                mine.programs.programs_val[0].since <= mine.now);
    assert_string_equal(theirs.vm, "vm-b");
    assert_true(theirs.grouping && !theirs.servers.servers_len && !theirs.programs.programs_len);
    protocol_free((xdrproc_t)xdr_program_status_result, &mine);
    protocol_free((xdrproc_t)xdr_program_status_result, &theirs);
    /* One that waits has a place and a reason. */
    struct fake_program *second = client_run(&a, CLIENT_WAIT_YES);
    rig_until(second->position == 1, SOON_MS);
    mine = view_of(&a);
    assert_int_equal(mine.programs.programs_len, 2);
    for (u_int i = 0; i < 2; i++)
        if (mine.programs.programs_val[i].state == ADMIN_PROGRAM_WAITING) {
            assert_int_equal(mine.programs.programs_val[i].position, 1);
            assert_non_null(strstr(mine.programs.programs_val[i].why, "entitled"));
        }
    protocol_free((xdrproc_t)xdr_program_status_result, &mine);
}

/* Calls that are counted of a VM. */
static uint64_t calls_of(const char *vm)
{
    admin_follow_args args = { .look = 1 };
    uint64_t calls = UINT64_MAX;
    for (u_int more = 1; more;) {
        admin_follow_result result;
        admin_call(ADMIN_FOLLOW, &args, &result);
        for (u_int i = 0; i < result.news.news_len; i++) {
            const admin_news *news = &result.news.news_val[i];
            const admin_total *total = &news->admin_news_u.total;
            if (news->kind == ADMIN_NEWS_TOTAL && total->of == ADMIN_TOTAL_VM && strcmp(total->name, vm) == 0)
                calls = total->work.figures.calls;
        }
        more = result.more;
        args.run = result.run;
        args.after = result.last;
        protocol_free((xdrproc_t)xdr_admin_follow_result, &result);
    }
    return calls;
}

static void report_calls(uint64_t server, uint64_t epoch, uint64_t calls)
{
    node_report_body body = { .kind = NODE_REPORT_USAGE };
    body.node_report_body_u.usage = (node_usage){ .server = server, .epoch = epoch, .figures = { .calls = calls } };
    report(&body);
}

/* What the workers of one program have done; a lie, and one that ended, make nothing fall. */
RIG_TEST(test_work_of_a_program)
{
    static const char calls[] = "flyt_program_calls_total", bytes[] = "flyt_program_memory_bytes";
    char labels[128];
    struct fake_program *one = begin();
    node_report_body body = { .kind = NODE_REPORT_PROGRAM };
    node_program *says = &body.node_report_body_u.prog;
    snprintf(labels, sizeof labels, "vm=\"vm-a\",server=\"%llu\",program=\"%llu\"", (unsigned long long)one->server,
             (unsigned long long)one->id);
    *says = (node_program){ .server = one->server, .prog = one->id, .memory = 500, .figures = { .calls = 100 } };
    report(&body);
    assert_int_equal(sample_among("programs", calls, labels), 100);
    assert_int_equal(sample_among("programs", bytes, labels), 500);
    says->figures.calls = 30; /* one of two workers ended */
    says->memory = 200;
    report(&body);
    assert_int_equal(sample_among("programs", calls, labels), 100);
    assert_int_equal(sample_among("programs", bytes, labels), 200);
    says->figures.calls = 50;
    report(&body);
    assert_int_equal(sample_among("programs", calls, labels), 120);
    says->figures.calls = UINT64_MAX;
    report(&body);
    double most = sample_among("programs", calls, labels);
    assert_true(most > 120 && most < 1e10);
    says->prog += 1000; /* no program of it */
    report(&body);
}

RIG_TEST(test_reports_count_once)
{
    enum { SAVED_MS = 5000 }; /* totals are written every two seconds */
    uint64_t server = begin()->server;
    report_calls(server, 7, 10);
    report_calls(server, 7, 10);
    assert_int_equal(calls_of("vm-a"), 10);
    report_calls(server, 7, 25); /* one in between was lost: this one has it */
    report_calls(server, 7, 4);  /* a lie */
    assert_int_equal(calls_of("vm-a"), 25);
    report_calls(server, 7, 25);
    assert_true(calls_of("vm-a") >= 25);
    report_calls(server, 8, 3); /* its process began anew */
    uint64_t before = calls_of("vm-a");
    rig_run_ms(SAVED_MS);
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.registered && a.registered, 10000);
    report_calls(server, 8, 3); /* the same again, to the new cluster manager */
    assert_int_equal(calls_of("vm-a"), before);
    report_calls(server, 8, 5);
    assert_int_equal(calls_of("vm-a"), before + 2);
    report_calls(server + 1000, 8, 500); /* no server of it */
    assert_int_equal(calls_of("vm-a"), before + 2);
}

/* Rows of usage, page by page; the last row of the program. */
static unsigned usage_of(uint64_t program, admin_usage_row *out)
{
    static char empty[1], why[512];
    admin_usage_args args = { .vm = empty };
    unsigned found = 0;
    for (u_int more = 1; more;) {
        admin_usage_result result;
        admin_call(ADMIN_USAGE, &args, &result);
        assert_int_equal(result.status.code, CTL_OK);
        for (u_int i = 0; i < result.rows.rows_len; i++)
            if (result.rows.rows_val[i].prog == program) {
                *out = result.rows.rows_val[i];
                snprintf(why, sizeof why, "%s", out->why);
                found++;
            }
        more = result.more;
        args.after = result.next;
        out->vm = out->node = out->gpu = out->executable = empty;
        out->why = why;
        protocol_free((xdrproc_t)xdr_admin_usage_result, &result);
    }
    return found;
}

static bool has_ended(uint64_t program)
{
    admin_usage_row row = { .prog = 0 };
    return usage_of(program, &row) == 1 && row.ended;
}

RIG_TEST(test_usage_until_nobody_serves_it)
{
    admin_usage_row row = { .prog = 0 };
    struct fake_program *program = begin(), *second;
    n1.keeps = true;
    uint64_t id = program->id, server = program->server;
    report_calls(server, 7, 1);
    client_end(&a, program);
    rig_run_ms(300);
    /* It was alone on its server, which ends: so it has ended. */
    rig_until(has_ended(id), SOON_MS);
    /* Two share one: the first leaves, and is served. */
    client_create(&b, "vm-b", 8, GIB, 0, true, "");
    program = client_run(&b, CLIENT_WAIT_YES);
    second = client_run(&b, CLIENT_WAIT_YES);
    rig_until(program->running && second->running && program->server == second->server, SOON_MS);
    id = program->id;
    server = program->server;
    uint64_t other = second->id;
    client_end(&b, program);
    rig_run_ms(300);
    assert_int_equal(usage_of(id, &row), 1);
    assert_true(!row.ended && row.sm_us);
    node_say_left(&n1, server, other, 0); /* it goes on, and never had a worker: the first one pays for all SMs */
    node_say_left(&n1, server + 1000, id, 0);
    rig_run_ms(100);
    assert_false(has_ended(id) || has_ended(other));
    /* While the node is away nothing is charged; then until when it says. */
    node_close(&n1);
    rig_run_ms(300);
    usage_of(id, &row);
    uint64_t before = row.sm_us;
    int64_t left = loop_time();
    rig_run_ms(1000);
    usage_of(id, &row);
    assert_true(row.sm_us == before);
    node_reopen(&n1);
    rig_until(n1.registered, SOON_MS);
    node_say_left(&n1, server, id, left);
    report_calls(server, 7, 1);
    rig_until(has_ended(id), SOON_MS);
    usage_of(id, &row);
    assert_true(row.ended == left);
    assert_true(row.sm_us > before && row.sm_us < before + 8 * 350000); /* 8 SMs, for 0.3 s */
    admin_usage_row rest = { .prog = 0 };
    usage_of(other, &rest);
    assert_true(rest.sm_us > 8 * 900000 && !rest.ended); /* it had the second alone */
    n1.keeps = false;
}

/* It does not say who has left: a row ends with its program, also one that went on when the node's release changed. */
RIG_TEST(test_usage_with_a_node_of_minor_8)
{
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 8, 4 * GIB, 0, true, "");
    struct fake_program *first = client_run(&a, CLIENT_WAIT_NO), *second = client_run(&a, CLIENT_WAIT_NO);
    struct fake_program *third = client_run(&a, CLIENT_WAIT_NO);
    rig_until(first->running && second->running && third->running, SOON_MS);
    uint64_t ids[] = { first->id, second->id, third->id };
    n1.keeps = true;
    client_end(&a, first);
    rig_run_ms(300);
    assert_false(has_ended(ids[0]));
    node_close(&n1);
    n1.minor = 8;
    node_reopen(&n1);
    rig_until(n1.registered && has_ended(ids[0]), SOON_MS);
    client_end(&a, second);
    rig_until(has_ended(ids[1]), SOON_MS);
    admin_usage_row row = { .prog = 0 }, later = { .prog = 0 };
    usage_of(ids[2], &row);
    rig_run_ms(200);
    usage_of(ids[2], &later);
    assert_true(!later.ended && later.sm_us > row.sm_us); /* it is charged by what this manager sees */
}

/* Of two programs that share a server the node names one. It is asked about the other, once, which revokes no ticket. A
   node of minor 8 is not asked: it would not know the order. */
RIG_TEST(test_asks_who_is_served)
{
    static struct fake_node n2;
    rig_create("");
    node_open(&n1, "n1", 1, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    node_open(&n2, "n2", 1, 4, 8 * GIB, CTL_SHARING_TIME_SLICE);
    node_close(&n2);
    n2.minor = 8;
    node_reopen(&n2);
    rig_until(n2.registered, SOON_MS);
    client_create(&a, "vm-a", 8, 4 * GIB, 0, true, "");
    client_create(&b, "vm-b", 4, 4 * GIB, 0, true, "");
    struct fake_program *served = client_run(&a, CLIENT_WAIT_NO), *place = client_run(&a, CLIENT_WAIT_NO);
    struct fake_program *old = client_run(&b, CLIENT_WAIT_NO), *beside = client_run(&b, CLIENT_WAIT_NO);
    rig_until(served->running && place->running && old->running && beside->running, SOON_MS);
    assert_true(node_server(&n1, served->server) && place->server == served->server);
    assert_true(node_server(&n2, old->server) && beside->server == old->server);
    node_say_left(&n1, served->server, served->id, -1);
    n1.keeps = true; /* its answer comes from the test */
    rig_until(n1.asked_served, 20000);
    assert_int_equal(n1.asked_served_last, place->id);
    admin_usage_row before = { .prog = 0 }, after = { .prog = 0 }, of_old = { .prog = 0 };
    usage_of(place->id, &before);
    assert_true(before.sm_us > 4 * 10000000); /* half of it, until it is known better */
    node_say_left(&n1, place->server, place->id, 0);
    rig_run_ms(2500); /* a turn of asking */
    usage_of(place->id, &after);
    assert_true(!after.sm_us && !after.ended);
    usage_of(served->id, &before);
    assert_true(before.sm_us > 8 * 10000000);
    usage_of(old->id, &of_old); /* as long as the others, and half of its server */
    assert_true(!of_old.ended && of_old.sm_us > 2 * 10000000);
    assert_true(n1.asked_served == 1 && !n1.revoked && !n1.ended);
    assert_true(!n2.asked_served && !n2.revoked && !n2.ended);
}

/* It is lost with two programs that share a server. When it is back it says that one left long before, and that the
   other went on. */
RIG_TEST(test_usage_of_a_lost_node)
{
    rig_create("silence = { suspect = 1.0; lost = 3.0; };\n");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 8, 4 * GIB, 0, true, "");
    struct fake_program *first = client_run(&a, CLIENT_WAIT_NO), *second = client_run(&a, CLIENT_WAIT_NO);
    rig_until(first->running && second->running, SOON_MS);
    uint64_t ids[] = { first->id, second->id }, server = first->server;
    rig_run_ms(300);
    node_close(&n1);
    rig_run_ms(300);
    int64_t left = loop_time();
    rig_until(has_ended(ids[0]) && has_ended(ids[1]), 10000);
    admin_usage_row one = { .prog = 0 }, other = { .prog = 0 }, now = { .prog = 0 };
    usage_of(ids[0], &one);
    usage_of(ids[1], &other);
    assert_memory_equal(one.why, "lost: ", 6);
    assert_true(one.sm_us > 4 * 1200000 && one.sm_us < other.sm_us + 500000 && other.sm_us < one.sm_us + 500000);
    rig_run_ms(500);
    node_reopen(&n1);
    rig_until(n1.registered, SOON_MS);
    node_say_left(&n1, server, ids[0], left);
    node_say_left(&n1, server, ids[1], loop_time());
    node_say_left(&n1, server, ids[1], loop_time()); /* counts once */
    rig_run_ms(300);
    usage_of(ids[0], &now);
    assert_true(now.ended == left && now.sm_us < one.sm_us - 4 * 800000);
    usage_of(ids[1], &now);
    assert_true(now.ended > other.ended && now.sm_us > other.sm_us + 4 * 400000);
    assert_true(now.sm_us < other.sm_us + 4 * (uint64_t)(now.ended - other.ended + 100000));
}

int main(void) { return unit_run(NULL, NULL); }
