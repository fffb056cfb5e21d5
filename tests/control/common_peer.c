#include "tests/control/common_peer.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct host host;

struct cluster_session { struct hello hello; };

static struct hello *of(struct conn *conn)
{
    return &((struct cluster_session *)conn_context(conn))->hello;
}

static enum hello_verdict identify(struct conn *conn, const ctl_hello_args *args, uint8_t stored[SECRET_STORED_SIZE],
                                   char *text)
{
    (void)conn;
    if (strcmp(args->name, "unwanted") == 0) {
        snprintf(text, CTL_MAX_TEXT, "unwanted is not wanted");
        return HELLO_REFUSED;
    }
    if (strcmp(args->name, "trusted") == 0)
        return HELLO_TRUSTED;
    secret_stored(&host.secret, stored);
    return HELLO_PROVE;
}

static ctl_code accepted(struct conn *conn, const struct hello *hello, char *text)
{
    (void)conn, (void)hello, (void)text;
    host.accepted++;
    return CTL_OK;
}

static const struct hello_policy policy = { .software = "test-host 1", .incarnation = 77, .of = of,
                                             .identify = identify, .accepted = accepted };

static void on_hello(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_hello(&policy, conn, call, args);
}

static void on_auth(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_auth(&policy, conn, call, args);
}

static void on_prove(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_prove(&policy, conn, call, args);
}

static void on_status(struct conn *conn, struct loop_call *call, void *args)
{
    admin_status_result result = { .nodes = 42, .software = (char *)"test" };
    (void)conn, (void)args;
    call_reply(call, &result);
}

static void on_events(struct conn *conn, struct loop_call *call, void *args)
{
    (void)conn, (void)args;
    assert_true(host.kept_count < (int)(sizeof host.kept / sizeof host.kept[0]));
    host.kept[host.kept_count++] = call;
}

static void on_opened(struct conn *conn)
{
    host.opened++;
    host.last = conn;
    conn_set_context(conn, calloc(1, sizeof(struct cluster_session)));
}

static void on_closed(struct conn *conn, int error, const char *why)
{
    host.closed++;
    host.last_error = error;
    host.kept_count = 0;
    snprintf(host.why, sizeof host.why, "%s", why);
    free(conn_context(conn));
}

enum { EVERYBODY = ~0u, AUTHENTICATED = ~1u };
static const struct conn_method methods[CTL_LAST_PROCEDURE + 1] = {
    [CTL_HELLO] = { 1u << CTL_ROLE_NONE, on_hello },      [CTL_AUTH] = { 1u << CTL_ROLE_NONE, on_auth },
    [CTL_PROVE] = { 1u << CTL_ROLE_NONE, on_prove },      [ADMIN_STATUS] = { 1u << CTL_ROLE_ADMIN, on_status },
    [ADMIN_EVENTS] = { 1u << CTL_ROLE_ADMIN, on_events }, [NODE_REPORT] = { 1u << CTL_ROLE_NODE, on_status },
};
static const struct conn_service service = { .methods = methods, .count = CTL_LAST_PROCEDURE + 1, .opened = on_opened,
                                             .closed = on_closed };

static void start(const char *uri, struct tls_context *tls, bool plain_too)
{
    char error[CONTROL_ERROR_SIZE] = "";
    memset(&host, 0, sizeof host);
    memcpy(host.secret.bytes, "swordfish", host.secret.size = 9);
    host.loop = loop_create();
    assert_non_null(host.loop);
    const struct loop_listen_options options = { .uri = uri, .tls = tls, .plain_too = plain_too, .service = &service };
    if (loop_listen(host.loop, &options, &host.listener, error) != 0)
        fail_msg("%s", error);
}

void host_start(const char *uri, struct tls_context *tls)
{
    start(uri, tls, false);
}

void host_start_both(const char *uri, struct tls_context *tls)
{
    start(uri, tls, true);
}

void host_stop(void)
{
    loop_listener_close(host.listener);
    loop_destroy(host.loop);
}

static void set(struct loop_timer *timer, void *context)
{
    (void)timer;
    *(bool *)context = true;
}

void host_run_until(const int *flag, int value, unsigned ms)
{
    struct loop_timer timer = { 0 };
    bool over = false;
    loop_timer_start(host.loop, &timer, patience(ms), set, &over);
    while (*flag < value && !over)
        loop_run_once(host.loop);
    loop_timer_stop(&timer);
    if (*flag < value)
        fail_msg("waited %u ms for something to become %d; it is %d (%s)", ms, value, *flag, host.why);
}

void host_run_ms(unsigned ms)
{
    struct loop_timer timer = { 0 };
    bool over = false;
    loop_timer_start(host.loop, &timer, ms, set, &over);
    while (!over)
        loop_run_once(host.loop);
}

int host_raw(void)
{
    const char *uri = loop_listener_uri(host.listener);
    if (strncmp(uri, "unix://", 7) == 0) {
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        snprintf(name.sun_path, sizeof name.sun_path, "%s", uri + 7);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
        return fd;
    }
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)atoi(strrchr(uri, ':') + 1)) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}
