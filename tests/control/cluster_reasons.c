/*
 * Why the use of a GPU ended, and what an administrator's change was before.
 * shows: usage: why a program's use ended: limit, lost, moved, unreached, with the node's sentence
 * shows: Operators: the audit trail says what a share and the place of a program were before, and are now
 */
#include "tests/control/cluster_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)

enum { SOON_MS = 5000 };

static struct fake_node n1, n2;
static struct fake_client a;

static const char *audit_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/flyt-reasons-%d", (int)getpid());
    return path;
}

/* A program on n1, and then another node. */
static struct fake_program *begin(void)
{
    char settings[200];
    snprintf(settings, sizeof settings, "placement = { policy = \"first-fit\"; };\nlog = { audit = \"%s\"; };\n",
             audit_path());
    rig_create(settings);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_NO);
    assert_string_equal(one->node, "n1");
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    return one;
}

static void finish(void)
{
    admin_check_books();
    rig_destroy();
    unlink(audit_path());
}

/* A line of the audit trail about this kind of event has all of `words`. */
static bool audited(const char *kind, const char *words)
{
    char line[4096], event[64];
    bool found = false;
    FILE *file = fopen(audit_path(), "re");
    assert_non_null(file);
    snprintf(event, sizeof event, "\"event\":\"%s\"", kind);
    while (fgets(line, sizeof line, file))
        found |= strstr(line, event) && strstr(line, words);
    fclose(file);
    return found;
}

/* The program's use of a GPU server has ended for this reason. */
static bool ended(uint64_t program, const char *why)
{
    admin_usage_args args = { .vm = (char *)"" };
    admin_usage_result result;
    bool found = false;
    admin_call(ADMIN_USAGE, &args, &result);
    assert_int_equal(result.status.code, CTL_OK);
    assert_false(result.more);
    for (u_int i = 0; i < result.rows.rows_len; i++) {
        const admin_usage_row *row = &result.rows.rows_val[i];
        found |= row->prog == program && row->ended && strcmp(row->why, why) == 0;
    }
    protocol_free((xdrproc_t)xdr_admin_usage_result, &result);
    return found;
}

/* What n1 says of a server. */
static void report(uint64_t server, ctl_server_state state, ctl_code code, const char *why)
{
    node_report_body body = { .kind = NODE_REPORT_SERVER };
    const node_report_args args = { { 1, &body } };
    body.node_report_body_u.server = (ctl_server_report){ .id = server, .state = state,
                                                          .status = { code, (char *)(uintptr_t)why } };
    ctl_plain_result result;
    char error[CONTROL_ERROR_SIZE];
    assert_int_equal(link_call_wait(n1.link, NODE_REPORT, &args, 5000, &result, error), 0);
    protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
}

TEST(test_limit)
{
    struct fake_program *one = begin();
    uint64_t id = one->id;
    report(one->server, CTL_SERVER_FAILED, CTL_NO_ROOM, "it had too many files");
    n1.server_count = 0;
    rig_until(one->lost, SOON_MS);
    assert_true(ended(id, "limit: it had too many files"));
    finish();
}

/* Its server crashes and is started again; or is gone. */
TEST(test_lost)
{
    struct fake_program *one = begin(), *two;
    uint64_t id = one->id;
    report(one->server, CTL_SERVER_STARTING, CTL_OK, "it was killed by signal 11");
    rig_until(one->lost, SOON_MS);
    assert_true(ended(id, "lost: it was killed by signal 11"));
    node_report(&n1, &n1.servers[0]); /* it runs again */
    two = client_runs(&a, CLIENT_WAIT_NO);
    id = two->id;
    report(two->server, CTL_SERVER_FAILED, CTL_LOST, "it crashed too often");
    n1.server_count = 0;
    rig_until(two->lost, SOON_MS);
    assert_true(ended(id, "lost: it crashed too often"));
    finish();
}

TEST(test_moved)
{
    struct fake_program *one = begin();
    admin_move_args args = { .prog = one->id, .vm = (char *)"", .to = (char *)"n2", .file = (char *)"" };
    uint64_t move;
    char why[128];
    assert_int_equal(admin_move(ADMIN_MOVE, &args, &move), CTL_OK);
    rig_until(one->move_orders == 1, SOON_MS);
    snprintf(why, sizeof why, "moved: to GPU server %llu of node n2", (unsigned long long)one->target);
    client_moved(&a, one, move, CTL_MOVE_TAKEN, CTL_OK);
    client_moved(&a, one, move, CTL_MOVE_MOVED, CTL_OK);
    one->server = one->target;
    rig_until(ended(one->id, why), SOON_MS);
    assert_true(audited("move-done", "\"before\":\"node n1, GPU n1-0\",\"after\":\"node n2, GPU n2-0\""));
    finish();
}

TEST(test_unreached)
{
    struct fake_program *one = begin();
    uint64_t id = one->id;
    client_unreached(&a, one, false);
    rig_until(one->running, SOON_MS);
    assert_string_equal(one->node, "n2");
    rig_until(ended(id, "unreached: nobody answers there"), SOON_MS);
    finish();
}

TEST(test_a_share_in_the_audit_trail)
{
    struct fake_program *one = begin();
    admin_resize_args args = { .vm = (char *)"vm-a", .kind = ADMIN_CHANGE_SET, .sms = 6, .memory = GIB / 2 };
    assert_true(one->running);
    assert_int_equal(admin_code(ADMIN_RESIZE, &args), CTL_OK);
    assert_true(audited("server-resized", "\"before\":\"4 SMs, 1024 MiB\",\"after\":\"6 SMs, 512 MiB\""));
    finish();
}

int main(void) { return unit_run(NULL, NULL); }
