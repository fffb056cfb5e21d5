/*
 * cluster_scale.c NODES VMS: a simulated cluster for scale: light-weight node and client managers over loopback against
 * the real cluster manager. Prints what it measured; fails where something does not come about, or takes far too long.
 */
#include "tests/control/cluster_rig.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#define GIB (UINT64_C(1) << 30)
enum { GPUS = 8, SMS = 16, IN_FLIGHT = 500 };

static int node_count, vm_count;
static struct fake_node *nodes;
struct client { struct link *link; uint64_t id, server, acknowledged; bool asked, running, registered; };
static struct client *clients;
static struct secret secret = { .size = 6, .bytes = "secret" };
static int added, registered, running, failed;

static double seconds(void) { return (double)loop_now(rig.loop) / 1000; }

/* ---- entitlements ---- */

static void vm_added(void *context, int error, const char *why, void *object)
{
    (void)context;
    if (error || ((admin_vm_add_result *)object)->status.code)
        fail_msg("adding a VM: %s", error ? why : ((admin_vm_add_result *)object)->status.text);
    added++;
}

static void add_vms(void)
{
    uint8_t stored[SECRET_STORED_SIZE];
    char name[32];
    admin_status();                             /* connects */
    secret_stored(&secret, stored);
    double start = seconds();
    for (int i = 0; i < vm_count; i++) {
        snprintf(name, sizeof name, "vm-%d", i);
        admin_vm_add_args args = { .vm = { .name = name, .sms = 4, .memory = GIB, .sharing = CTL_SHARING_TIME_SLICE, .grouping = 1 },
                                   .stored = { SECRET_STORED_SIZE, (char *)stored } };
        rig_until(i - added < 50, 30000);
        assert_int_equal(link_call(rig.admin, ADMIN_VM_ADD, &args, 60000, vm_added, NULL, NULL), 0);
    }
    rig_until(added == vm_count, 30000);
    printf("# %d VMs added in %.1f s\n", vm_count, seconds() - start);
}

/* ---- clients ---- */

static void take(struct client *client, const client_answer *answer)
{
    client->id = answer->prog;
    if (answer->status.code == CTL_OK && !client->running) {
        client->running = true;
        client->server = answer->grant.server;
        running++;
    } else if (answer->status.code != CTL_OK && answer->status.code != CTL_WAITING) {
        failed++;
    }
}

static void ask_events(struct client *);
static void got_events(void *context, int error, const char *why, void *object)
{
    struct client *client = context;
    const client_events_result *result = object;
    (void)why;
    if (error)
        return;
    for (u_int i = 0; i < result->events.events_len; i++) {
        const client_event *event = &result->events.events_val[i];
        if (event->number <= client->acknowledged)
            continue;
        client->acknowledged = event->number;
        if (event->body.kind == CLIENT_EVENT_ANSWER)
            take(client, &event->body.client_event_body_u.answer);
        else
            failed++;                           /* nothing is to be lost here */
    }
    ask_events(client);
}

static void ask_events(struct client *client)
{
    client_events_args args = { client->acknowledged };
    link_call(client->link, CLIENT_EVENTS, &args, 60000, got_events, client, NULL);
}

static void was_registered(void *context, int error, const char *why, void *object)
{
    struct client *client = context;
    (void)why, (void)object;
    if (error)
        return;
    registered += !client->registered;
    client->registered = true;
    ask_events(client);
}

static void up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    struct client *client = link_context(link);
    client_running program = { .prog = { .key = 1, .executable = (char *)"x" }, .id = client->id, .server = client->server };
    client_register_args args = { .host = (char *)"h", .programs = { client->running ? 1 : 0, &program } };
    (void)hello;
    conn_call(conn, CLIENT_REGISTER, &args, 60000, was_registered, client, NULL);
}

static void down(struct link *link, bool was_up, int error, const char *why)
{
    struct client *client = link_context(link);
    (void)was_up, (void)error, (void)why;
    registered -= client->registered;
    client->registered = false;
}

static void open_clients(void)
{
    const char *uris[] = { rig.client_uri, NULL };
    char name[32];
    for (int i = 0; i < vm_count; i++) {
        snprintf(name, sizeof name, "vm-%d", i);
        const struct link_options options = { .uris = uris, .role = CTL_ROLE_CLIENT, .name = name, .secret = &secret,
                                              .context = &clients[i], .up = up, .down = down, .retry_max_ms = 1000 };
        assert_int_equal(link_open(rig.loop, &options, &clients[i].link, NULL), 0);
        rig_until(i - registered < IN_FLIGHT, 60000);
    }
    rig_until(registered == vm_count, 60000);
}

static void answered(void *context, int error, const char *why, void *object)
{
    if (error)
        fail_msg("asking for a server: %s", why);
    take(context, object);
}

static void place_all(void)
{
    const client_request_args args = { .prog = { .key = 1, .executable = (char *)"x" }, .wait = CLIENT_WAIT_YES };
    double start = seconds();
    for (int i = 0; i < vm_count; i++) {
        assert_int_equal(link_call(clients[i].link, CLIENT_REQUEST, &args, 60000, answered, &clients[i], NULL), 0);
        rig_until(i - running < IN_FLIGHT, 60000);
    }
    rig_until(running == vm_count, 60000);
    double took = seconds() - start;
    printf("# %d servers placed, started and granted in %.2f s: %.0f a second (the peers' work included)\n", vm_count, took,
           vm_count / took);
    assert_int_equal(failed, 0);
}

/* ---- the manager ---- */

static void print_memory(void)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)rig.pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS", 5) == 0)
            printf("# the manager's memory: %s", line + 6);
    fclose(file);
}

static void list_all(void)
{
    admin_numbered_page page = { 0, (char *)"", (char *)"" };
    admin_servers_result result;
    unsigned count = 0;
    double start = seconds();
    do {
        admin_call(ADMIN_SERVERS, &page, &result);
        count += result.servers.servers_len;
        if (result.servers.servers_len)
            page.after = result.servers.servers_val[result.servers.servers_len - 1].id;
        start += result.servers.servers_len ? 0 : 1;
        bool more = result.more;
        protocol_free((xdrproc_t)xdr_admin_servers_result, &result);
        if (!more)
            break;
    } while (true);
    assert_int_equal(count, vm_count);
    printf("# all servers listed in %.0f ms\n", (seconds() - start) * 1000);
}

static bool all_back(void)
{
    for (int i = 0; i < node_count; i++)
        if (!nodes[i].registered)
            return false;
    return registered == vm_count;
}

static void test_scale(void **state)
{
    (void)state;
    rig_create("");
    add_vms();
    double start = seconds();
    for (int i = 0; i < node_count; i++) {
        snprintf(nodes[i].name, sizeof nodes[i].name, "n%d", i);
        snprintf(nodes[i].host, sizeof nodes[i].host, "host-%d", i);
        nodes[i].gpu_count = GPUS;
        nodes[i].gpu_sms = SMS;
        nodes[i].gpu_memory = 8 * GIB;
        nodes[i].sharing = CTL_SHARING_TIME_SLICE;
        node_reopen(&nodes[i]);
    }
    open_clients();
    rig_until(all_back(), 60000);
    printf("# %d nodes and %d client managers connected in %.1f s\n", node_count, vm_count, seconds() - start);
    place_all();
    list_all();
    print_memory();
    rig_signal(SIGKILL);
    rig_run_ms(50);
    start = seconds();
    rig_start();
    rig_until(all_back(), 60000);
    double took = seconds() - start;
    printf("# after kill -9 and a restart everybody is back in %.2f s\n", took);
    rig_run_ms(500);
    admin_status_result status = admin_status();
    assert_int_equal(status.servers, vm_count);
    assert_int_equal(status.programs, vm_count);
    assert_int_equal(status.sms_used, 4 * vm_count);
    assert_int_equal(failed, 0);
    for (int i = 0; i < node_count; i++) {
        assert_int_equal(nodes[i].overcommits, 0);
        assert_int_equal(nodes[i].stops, 0);
        node_close(&nodes[i]);
    }
    for (int i = 0; i < vm_count; i++)
        link_close(clients[i].link);
    rig_destroy();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_scale) };
    struct rlimit files;
    node_count = argc > 1 ? atoi(argv[1]) : 20;
    vm_count = argc > 2 ? atoi(argv[2]) : 300;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if ((rlim_t)(node_count + vm_count + 100) > files.rlim_cur) {
        printf("1..0 # SKIP only %ld files may be open\n", (long)files.rlim_cur);
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    nodes = calloc((size_t)node_count, sizeof *nodes);
    clients = calloc((size_t)vm_count, sizeof *clients);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    free(nodes);
    free(clients);
    return result;
}
