#include "tests/control/node_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fake fake;
const char *fake_bin = "bin";

struct visitor { struct hello hello; };
static struct loop_timer beat_timer, turn_timer;
static int children;
static struct { pid_t pid; int log, status; bool ended; } child[128];

/* ---- handshake ---- */

static struct hello *hello_of(struct conn *conn) { return &((struct visitor *)conn_context(conn))->hello; }

static enum hello_verdict identify(struct conn *conn, const ctl_hello_args *args, uint8_t *stored, char *text)
{
    struct secret secret = { .size = 6, .bytes = "secret" };
    (void)conn;
    (void)text;
    if (args->role != CTL_ROLE_NODE && args->role != CTL_ROLE_CLIENT)
        return HELLO_REFUSED;
    secret_stored(&secret, stored);
    return HELLO_PROVE;
}

static ctl_code accepted(struct conn *conn, const struct hello *hello, char *text)
{
    (void)text;
    if (hello->role == CTL_ROLE_NODE)
        fake.node = conn;
    else
        fake.client = conn;
    return CTL_OK;
}

static struct hello_policy policy = { .software = "fake", .of = hello_of, .identify = identify, .accepted = accepted };
static void handle_hello(struct conn *conn, struct loop_call *call, void *args)
{
    policy.minor = fake.minor;
    hello_handle_hello(&policy, conn, call, args);
}
static void handle_prove(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_prove(&policy, conn, call, args);
}

/* ---- node ---- */

static ctl_status good(void) { return (ctl_status){ CTL_OK, (char *)(uintptr_t)"" }; }

static void handle_register(struct conn *conn, struct loop_call *call, void *args)
{
    uint8_t key[TICKET_KEY_SIZE];
    (void)conn;
    protocol_free((xdrproc_t)xdr_node_register_args, &fake.node_args);
    memset(&fake.node_args, 0, sizeof fake.node_args);
    assert_true(protocol_copy((xdrproc_t)xdr_node_register_args, &fake.node_args, sizeof fake.node_args, args));
    fake.node_registrations++;
    ticket_signer_key(fake.signer, key);
    node_register_result result = { .status = good(), .cluster = (char *)(uintptr_t)"fake",
                                    .ticket_key = { sizeof key, (char *)key } };
    call_reply(call, &result);
}

static void give_orders(void)
{
    node_orders_result result = { .status = good(), .orders = { fake.order_count, fake.orders } };
    struct loop_call *call = fake.orders_call;
    fake.orders_call = NULL;
    fake.order_count = 0;
    if (call)
        call_reply(call, &result);
}

static void handle_orders(struct conn *conn, struct loop_call *call, void *args)
{
    (void)conn;
    (void)args;
    if (fake.orders_call)
        give_orders();
    fake.orders_call = call;
    if (fake.order_count)
        give_orders();
}

static void handle_report(struct conn *conn, struct loop_call *call, void *object)
{
    const node_report_args *args = object;
    (void)conn;
    for (u_int i = 0; i < args->reports.reports_len; i++) {
        assert_true(fake.report_count < FAKE_REPORTS);
        assert_true(protocol_copy((xdrproc_t)xdr_node_report_body, &fake.reports[fake.report_count++],
                                  sizeof fake.reports[0], &args->reports.reports_val[i]));
    }
    ctl_plain_result result = { .status = good() };
    call_reply(call, &result);
}

uint64_t fake_order(const node_order_body *body)
{
    assert_true(fake.order_count < FAKE_QUEUE);
    fake.orders[fake.order_count++] = (node_order){ .number = ++fake.next_number, .body = *body };
    if (fake.orders_call)
        give_orders();
    return fake.next_number;
}

const ctl_server_report *fake_server(uint64_t id)
{
    for (int i = fake.report_count; i-- > 0;)
        if (fake.reports[i].kind == NODE_REPORT_SERVER && fake.reports[i].node_report_body_u.server.id == id)
            return &fake.reports[i].node_report_body_u.server;
    return NULL;
}

const ctl_status *fake_done(uint64_t number)
{
    for (int i = fake.report_count; i-- > 0;)
        if (fake.reports[i].kind == NODE_REPORT_ORDER && fake.reports[i].node_report_body_u.done.number == number)
            return &fake.reports[i].node_report_body_u.done.status;
    return NULL;
}

void fake_spec(ctl_server_spec *spec, uint64_t id)
{
    *spec = (ctl_server_spec){ .id = id, .vm = (char *)(uintptr_t)"vm1", .gpu = (char *)(uintptr_t)"soft-n1-0",
                               .sharing = CTL_SHARING_TIME_SLICE,
                               .sms = 2, .memory = 64 << 20, .vm_address = (char *)(uintptr_t)"", .same_host = 1 };
}

/* ---- client ---- */

static void handle_client_register(struct conn *conn, struct loop_call *call, void *args)
{
    (void)conn;
    protocol_free((xdrproc_t)xdr_client_register_args, &fake.client_args);
    memset(&fake.client_args, 0, sizeof fake.client_args);
    assert_true(protocol_copy((xdrproc_t)xdr_client_register_args, &fake.client_args, sizeof fake.client_args, args));
    fake.client_registrations++;
    client_register_result result = { .status = good(), .vm = (char *)(uintptr_t)"vm1", .sms = 2, .memory = 64 << 20 };
    call_reply(call, &result);
}

void fake_grant(uint64_t program, ctl_grant *grant)
{
    static uint8_t bytes[TICKET_MAX_SIZE];
    static ctl_uri addresses[CTL_MAX_ADDRESSES];
    const ctl_server_report *server = fake_server(fake.server);
    char error[CONTROL_ERROR_SIZE];
    size_t size = sizeof bytes;
    struct ticket ticket = { .tenant = "vm1", .node = "n1", .gpu = "soft-n1-0", .server = fake.server,
                             .program = program, .sms = 2,
                             .memory = 64 << 20, .issued = loop_time(), .expires = loop_time() + 60 * 1000000 };
    assert_non_null(server);
    assert_int_equal(ticket_sign(fake.signer, &ticket, bytes, &size, error), 0);
    for (u_int i = 0; i < server->addresses.addresses_len; i++)
        addresses[i] = server->addresses.addresses_val[i];
    *grant = (ctl_grant){ .prog = program,
                          .server = fake.server,
                          .node = (char *)(uintptr_t) "n1",
                          .addresses = { server->addresses.addresses_len, addresses },
                          .ticket = { (u_int)size, (char *)bytes },
                          .expires = ticket.expires,
                          .sms = 2,
                          .memory = 64 << 20,
                          .sharing = CTL_SHARING_TIME_SLICE };
}

static void handle_request(struct conn *conn, struct loop_call *call, void *args)
{
    (void)conn;
    protocol_free((xdrproc_t)xdr_client_request_args, &fake.request);
    memset(&fake.request, 0, sizeof fake.request);
    assert_true(protocol_copy((xdrproc_t)xdr_client_request_args, &fake.request, sizeof fake.request, args));
    fake.request_count++;
    if (fake.silent)
        return;
    client_answer result = { .status = fake.answer, .key = fake.request.prog.key,
                             .prog = 1000 + fake.request.prog.key };
    if (result.status.code == CTL_WAITING)
        result.position = 1;
    if (result.status.code == CTL_OK)
        fake_grant(result.prog, &result.grant);
    call_reply(call, &result);
}

static void handle_part(struct conn *conn, struct loop_call *call, void *object)
{
    const client_part_args *args = object;
    client_answer result = { .status = good(), .key = args->prog.key, .prog = 1000 + args->prog.key };
    (void)conn;
    fake.part_count++;
    fake.part_key = args->prog.key;
    fake.part_lead = args->lead;
    fake_grant(result.prog, &result.grant);
    call_reply(call, &result);
}

static void handle_renew(struct conn *conn, struct loop_call *call, void *object)
{
    const client_renew_args *args = object;
    client_answer result = { .status = good(), .key = args->key, .prog = 1000 + args->key };
    (void)conn;
    fake.renew_count++;
    if (fake.silent)
        return;
    fake_grant(result.prog, &result.grant);
    call_reply(call, &result);
}

static void handle_ended(struct conn *conn, struct loop_call *call, void *object)
{
    const client_ended_args *args = object;
    (void)conn;
    for (u_int i = 0; i < args->keys.keys_len; i++)
        if (fake.ended_count < FAKE_ENDED)
            fake.ended[fake.ended_count++] = args->keys.keys_val[i];
    ctl_plain_result result = { .status = good() };
    call_reply(call, &result);
}

static void give_events(void)
{
    client_events_result result = { .status = good(), .events = { fake.event_count, fake.events } };
    struct loop_call *call = fake.events_call;
    fake.events_call = NULL;
    fake.event_count = 0;
    if (call)
        call_reply(call, &result);
}

static void handle_events(struct conn *conn, struct loop_call *call, void *args)
{
    (void)conn;
    (void)args;
    if (fake.events_call)
        give_events();
    fake.events_call = call;
    if (fake.event_count)
        give_events();
}

void fake_event(const client_event_body *body)
{
    assert_true(fake.event_count < FAKE_QUEUE);
    fake.events[fake.event_count++] = (client_event){ .number = ++fake.next_number, .body = *body };
    if (fake.events_call)
        give_events();
}

/* ---- connections ---- */

static void opened(struct conn *conn)
{
    struct visitor *visitor = calloc(1, sizeof *visitor);
    assert_non_null(visitor);
    conn_set_context(conn, visitor);
}

static void closed(struct conn *conn, int error, const char *why)
{
    (void)error;
    (void)why;
    if (conn == fake.node)
        fake.orders_call = NULL, fake.node = NULL;
    if (conn == fake.client)
        fake.events_call = NULL, fake.client = NULL;
    free(conn_context(conn));
}

static void handle_link(struct conn *conn, struct loop_call *call, void *object)
{
    (void)conn;
    fake.link_asks++;
    fake.link_call = call;
    fake.link_key = *(const unsigned long *)object; /* the first member of both arguments */
}

static void handle_recovered(struct conn *conn, struct loop_call *call, void *object)
{
    const ctl_plain_result result = { .status = good() };
    (void)conn, (void)object;
    fake.recovered_count++;
    call_reply(call, &result);
}

#define NODE_ROLE (1u << CTL_ROLE_NODE)
#define CLIENT_ROLE (1u << CTL_ROLE_CLIENT)
static const struct conn_method methods[] = {
    [CTL_HELLO] = { ~0u, handle_hello },
    [CTL_PROVE] = { ~0u, handle_prove },
    [NODE_REGISTER] = { NODE_ROLE, handle_register },
    [NODE_ORDERS] = { NODE_ROLE, handle_orders },
    [NODE_REPORT] = { NODE_ROLE, handle_report },
    [CLIENT_REGISTER] = { CLIENT_ROLE, handle_client_register },
    [CLIENT_REQUEST] = { CLIENT_ROLE, handle_request },
    [CLIENT_RENEW] = { CLIENT_ROLE, handle_renew },
    [CLIENT_PART] = { CLIENT_ROLE, handle_part },
    [CLIENT_ENDED] = { CLIENT_ROLE, handle_ended },
    [CLIENT_EVENTS] = { CLIENT_ROLE, handle_events },
    [CLIENT_RECOVERED] = { CLIENT_ROLE, handle_recovered },
    [CLIENT_LINK_OFFER] = { CLIENT_ROLE, handle_link },
    [CLIENT_LINK_TAKE] = { CLIENT_ROLE, handle_link },
};
static const struct conn_service service = { .methods = methods, .count = sizeof methods / sizeof *methods,
                                             .opened = opened, .closed = closed };

static void beat(struct loop_timer *timer, void *context)
{
    (void)context;
    if (fake.orders_call)
        give_orders();
    if (fake.events_call)
        give_events();
    loop_timer_start(fake.loop, timer, CTL_BEAT_SECONDS * 1000, beat, NULL);
}

static void listen_now(void)
{
    char uri[64], error[CONTROL_ERROR_SIZE] = "";
    snprintf(uri, sizeof uri, "tcp://127.0.0.1:%d", fake.port);
    const struct loop_listen_options options = { .uri = uri, .service = &service };
    if (loop_listen(fake.loop, &options, &fake.listener, error) != 0)
        fail_msg("%s", error);
    fake.port = atoi(strrchr(loop_listener_uri(fake.listener), ':') + 1);
}

void fake_start(void)
{
    char error[CONTROL_ERROR_SIZE] = "", path[128];
    memset(&fake, 0, sizeof fake);
    memset(child, 0, sizeof child);
    children = 0;
    snprintf(fake.folder, sizeof fake.folder, "/tmp/flyt-test-XXXXXX");
    assert_non_null(mkdtemp(fake.folder));
    assert_int_equal(chmod(fake.folder, 0755), 0);
    snprintf(path, sizeof path, "%s/ticket.key", fake.folder);
    if (ticket_signer_open(path, &fake.signer, error) != 0)
        fail_msg("%s", error);
    fake.answer = good();
    fake.incarnation = policy.incarnation = (uint64_t)loop_time();
    fake.loop = loop_create();
    assert_non_null(fake.loop);
    listen_now();
    loop_timer_start(fake.loop, &beat_timer, CTL_BEAT_SECONDS * 1000, beat, NULL);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

/* GPU servers outlive their node manager, also where a test has failed. */
static void end_servers(void)
{
    for (int i = 0; i < fake.report_count; i++) {
        char path[64], name[32] = "";
        pid_t pid =
            fake.reports[i].kind == NODE_REPORT_SERVER ? (pid_t)fake.reports[i].node_report_body_u.server.pid : 0;
        snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        if (read(fd, name, sizeof name - 1) > 0 && strncmp(name, "cricket-rpc", 11) == 0)
            kill(pid, SIGKILL);
        close(fd);
    }
}

void fake_stop(void)
{
    end_servers();
    for (int i = 0; i < children; i++) {
        if (!child[i].ended) {
            kill(child[i].pid, SIGKILL);
            waitpid(child[i].pid, NULL, 0);
        }
        close(child[i].log);
    }
    loop_timer_stop(&beat_timer);
    loop_timer_stop(&turn_timer);
    loop_listener_close(fake.listener);
    loop_destroy(fake.loop);
    for (int i = 0; i < fake.report_count; i++)
        protocol_free((xdrproc_t)xdr_node_report_body, &fake.reports[i]);
    protocol_free((xdrproc_t)xdr_node_register_args, &fake.node_args);
    protocol_free((xdrproc_t)xdr_client_register_args, &fake.client_args);
    protocol_free((xdrproc_t)xdr_client_request_args, &fake.request);
    ticket_signer_close(fake.signer);
    nftw(fake.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void fake_disconnect(void)
{
    if (fake.node)
        conn_close(fake.node, "the test wants it");
    if (fake.client)
        conn_close(fake.client, "the test wants it");
}

void fake_deaf(int deaf)
{
    if (deaf) {
        loop_listener_close(fake.listener);
        fake.listener = NULL;
        fake_disconnect();
        fake_turn();
    } else {
        listen_now();
    }
}

static void turn(struct loop_timer *timer, void *context) { (void)timer; (void)context; }

void fake_turn(void)
{
    loop_timer_start(fake.loop, &turn_timer, 20, turn, NULL);
    loop_run_once(fake.loop);
}

/* ---- children ---- */

void fake_file(const char *name, const char *format, ...)
{
    char path[256];
    va_list list;
    snprintf(path, sizeof path, "%s/%s", fake.folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    va_start(list, format);
    vdprintf(fd, format, list);
    va_end(list);
    close(fd);
}

pid_t fake_spawn(char *const *arguments, char *const *environment, int *input)
{
    char path[256];
    int ends[2] = { -1, -1 };
    snprintf(path, sizeof path, "%s/log.%d", fake.folder, children);
    int log = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    assert_true(log >= 0 && children < 128);
    if (input)
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int nothing = open("/dev/null", O_RDONLY);
        dup2(input ? ends[0] : nothing, 0);
        dup2(log, 1);
        dup2(log, 2);
        unsetenv("FLYT_SERVER");
        for (; environment && *environment; environment++)
            putenv(*environment);
        execv(arguments[0], arguments);
        dprintf(2, "%s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    if (input) {
        close(ends[0]);
        *input = ends[1];
    }
    child[children].pid = pid;
    child[children++].log = log;
    return pid;
}

static int find(pid_t pid)
{
    for (int i = 0; i < children; i++)
        if (child[i].pid == pid)
            return i;
    return -1;
}

int fake_wait(pid_t pid, unsigned ms)
{
    int i = find(pid);
    uint64_t end = loop_now(fake.loop) + ms;
    assert_true(i >= 0);
    while (!child[i].ended) {
        if (waitpid(pid, &child[i].status, WNOHANG) == pid)
            child[i].ended = true;
        else if (loop_now(fake.loop) > end)
            fail_msg("process %d has not ended within %u ms; it said: %s", (int)pid, ms, fake_log(pid));
        else
            fake_turn();
    }
    return child[i].status;
}

bool fake_running(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(text, ')');
    return at && at[2] != 'Z' && at[2] != 'X';
}

const char *fake_log(pid_t pid)
{
    static char text[65536];
    int i = find(pid);
    ssize_t n = i < 0 ? 0 : pread(child[i].log, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}
