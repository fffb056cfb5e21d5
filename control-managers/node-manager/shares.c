/*
 * shares.c: the share of a GPU that a running server has: SMs and memory. It is read back from the server, and changed,
 * over the control socket (cpu/common/share_order.h), on which the server listens from its start.
 *
 *   server->sms, memory             what it is known to have
 *   server->ordered_sms, _memory    what it was ordered to have, while it is not known whether it took it; else 0
 *
 * Both stand on disk before the order is sent. A node manager that was killed in between finds them, and asks the
 * server which of the two it has. Until the server has answered, the cluster manager gets the larger number of each
 * (share_bound): nobody else gets what the server may have.
 *
 * The server may have been taken over: its answers have one size, are read without waiting, one per turn of the loop,
 * and choose between the two shares, no others. What does not answer in time loses the connection, and the order fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/log.h"
#include "cpu/common/share_order.h"

enum { ANSWER_MS = 4000, AGAIN_MS = 250, BACKLOG = 4 };

struct share {
    struct node_server *server; /* NULL: it is closed, and freed by the loop */
    uv_poll_t poll;
    int fd;
    uint64_t number, looks;  /* messages sent; of the LOOK that is not answered, or 0 */
    uint64_t asked;          /* number of the SET that is not answered, or 0 */
    /* bridges: it takes ends of them; lanes: connections to other servers, for a move; links: for links */
    bool looked, bridges, lanes, links;
    struct loop_timer patience; /* until an answer has to be there */
};

/* ---- the socket ---- */

static bool address_of(const struct node_server *server, int *folder, struct sockaddr_un *at)
{
    char path[NODE_PATH_SIZE];
    *at = (struct sockaddr_un){ .sun_family = AF_UNIX };
    *folder = state_folder(server, "", path) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    snprintf(at->sun_path, sizeof at->sun_path, "/proc/self/fd/%d/%s", *folder, SHARE_NAME);
    return *folder >= 0;
}

int share_listen(const struct node_server *server)
{
    struct sockaddr_un at;
    int folder = -1, fd = -1;
    if (address_of(server, &folder, &at)) {
        unlinkat(folder, SHARE_NAME, 0);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    bool made = fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                listen(fd, BACKLOG) == 0;
    if (!made)
        log_warning("event=control-socket-not-made server=%llu why=\"%s\": its share cannot be changed while it runs",
                    (unsigned long long)server->id, strerror(errno));
    if (!made && fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    return made ? fd : -1;
}

/* ---- what is known ---- */

uint32_t share_bound_sms(const struct node_server *server)
{
    return server->ordered_sms > server->sms ? server->ordered_sms : server->sms;
}

uint64_t share_bound_memory(const struct node_server *server)
{
    return server->ordered_memory > server->memory ? server->ordered_memory : server->memory;
}

static void save(const struct node_server *server)
{
    char error[EXPLAIN_SIZE];
    if (state_save(server, error) != 0)
        log_error("event=state-unsaved server=%llu why=\"%s\"", (unsigned long long)server->id, error);
}

static void limit_host_memory(const struct node_server *server) { cgroup_limit(server, server_is_software(server)); }

/* It is known whether the server took what was ordered. */
static void settle(struct node_server *server, bool took)
{
    if (!server->ordered_memory)
        return;
    if (took) {
        log_info("event=share-changed server=%llu vm=%s sms=%u memory=%llu sms-before=%u memory-before=%llu",
                 (unsigned long long)server->id, server->vm, server->ordered_sms,
                 (unsigned long long)server->ordered_memory, server->sms, (unsigned long long)server->memory);
        server->sms = server->ordered_sms;
        server->memory = server->ordered_memory;
    }
    server->ordered_sms = 0;
    server->ordered_memory = 0;
    save(server);
    limit_host_memory(server);
    node_report_share(server->node, server);
    node_report_server(server->node, server);
}

static void order_over(struct node_server *server, ctl_code code, const char *text)
{
    uint64_t number = server->share_order;
    server->share_order = 0;
    if (number)
        node_report_order(server->node, number, code, text);
}

/* ---- bridges ---- */

/* The end need not be given any more. */
static void bridge_over(struct node_server *server, unsigned at, ctl_code code, const char *text)
{
    const struct bridge_end end = server->bridges[at];
    memmove(&server->bridges[at], &server->bridges[at + 1], (--server->bridge_count - at) * sizeof end);
    fd_message_close(end.fds, end.count);
    free(end.address);
    if (code != CTL_OK)
        log_info("event=no-bridge server=%llu program=%llu why=\"%s\"", (unsigned long long)server->id,
                 (unsigned long long)end.program, text);
    if (end.order)
        node_report_order(server->node, end.order, code, text);
}

static void bridges_over(struct node_server *server, ctl_code code, const char *text)
{
    while (server->bridge_count)
        bridge_over(server, server->bridge_count - 1, code, text);
}

static int send_bridge(struct share *share, struct bridge_end *end)
{
    struct share_order order = { .kind = end->links     ? SHARE_LINKS
                                         : end->address ? SHARE_LANES
                                                        : SHARE_BRIDGE,
                                 .number = ++share->number,
                                 .program = end->program,
                                 .departs = end->departs };
    uint8_t bytes[SHARE_ORDER_MOST_SIZE];
    if (end->address)
        snprintf(order.address, sizeof order.address, "%s", end->address);
    end->number = order.number;
    int failure = fd_message_send(share->fd, bytes, share_order_put(&order, bytes), end->fds, end->count);
    fd_message_close(end->fds, end->count);
    end->count = 0;
    return failure;
}

/* Once it is known whether the server takes them. */
static void send_bridges(struct node_server *server)
{
    struct share *share = server->share;
    if (!share || !share->looked)
        return;
    for (unsigned i = server->bridge_count; i-- > 0;) {
        struct bridge_end *end = &server->bridges[i];
        if (!end->count)
            continue;
        int failure;
        if (!(end->links ? share->links : end->address ? share->lanes : share->bridges))
            bridge_over(server, i, CTL_NOT_SUPPORTED, "the server is of an earlier release");
        else if ((failure = send_bridge(share, end)) != 0)
            bridge_over(server, i, CTL_LOST, strerror(-failure));
    }
}

/* Whether it is the answer to one. */
static bool bridge_answered(struct node_server *server, struct share_order_answer *answer)
{
    for (unsigned i = 0; i < server->bridge_count; i++)
        if (!server->bridges[i].count && server->bridges[i].number == answer->number) {
            protocol_text_clean(answer->text);
            bridge_over(server, i, answer->code == SHARE_DONE ? CTL_OK : CTL_NOT_FOUND, answer->text);
            return true;
        }
    return false;
}

/* Takes what `end` has over. */
static void give_end(struct node_server *server, const struct bridge_end *end)
{
    if (server->bridge_count < BRIDGE_ENDS) {
        server->bridges[server->bridge_count++] = *end;
        send_bridges(server);
        return;
    }
    fd_message_close(end->fds, end->count);
    free(end->address);
    if (end->order)
        node_report_order(server->node, end->order, CTL_BUSY, "too many programs move, or make links, at once");
}

void share_bridge(struct node_server *server, uint64_t program, bool departs, int fd, uint64_t order)
{
    give_end(server, &(struct bridge_end){ .fds = { fd }, .count = 1, .departs = departs, .program = program,
                                           .order = order });
}

void share_connections(struct node_server *server, const struct share_gift *gift)
{
    struct bridge_end end = { .count = gift->count,
                              .departs = true,
                              .links = gift->links,
                              .program = gift->program,
                              .order = gift->order,
                              .address = strdup(gift->address) };
    memcpy(end.fds, gift->fds, gift->count * sizeof *gift->fds);
    if (end.address) {
        give_end(server, &end);
        return;
    }
    fd_message_close(gift->fds, gift->count);
    node_report_order(server->node, gift->order, CTL_INTERNAL, "no memory");
}

/* ---- the connection ---- */

static void begin_again(struct loop_timer *, void *);
static void answer_late(struct loop_timer *, void *);

static void freed(uv_handle_t *handle)
{
    struct share *share = handle->data;
    close(share->fd);
    free(share);
}

static void drop(struct node_server *server)
{
    struct share *share = server->share;
    loop_timer_stop(&server->share_timer);
    for (unsigned i = server->bridge_count; i-- > 0;)
        if (!server->bridges[i].count) /* it was sent, and is not answered any more */
            bridge_over(server, i, CTL_LOST, "the server does not answer");
    if (!share)
        return;
    server->share = NULL;
    share->server = NULL;
    loop_timer_stop(&share->patience);
    uv_close((uv_handle_t *)&share->poll, freed);
}

/* It does not answer, or nonsense. What it makes of an order that it has got is asked when it answers again. */
static void broken(struct node_server *server, const char *why)
{
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text,
             "GPU server %llu %s: whether it took the change is not known; `flytctl server list` shows it when it"
             " answers again",
             (unsigned long long)server->id, why);
    log_warning("event=control-lost server=%llu vm=%s why=\"it %s\"", (unsigned long long)server->id, server->vm, why);
    drop(server);
    order_over(server, CTL_TIMEOUT, text);
    loop_timer_start(server->node->loop, &server->share_timer, AGAIN_MS, begin_again, server);
}

static uint64_t say(struct share *share, struct share_order *order)
{
    uint8_t bytes[SHARE_ORDER_MOST_SIZE];
    order->number = ++share->number;
    const size_t size = share_order_put(order, bytes);
    const ssize_t n = send(share->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    const bool ends = n < 0 && (errno == EPIPE || errno == ECONNRESET);          /* readable() finds that out */
    const bool sent = n == (ssize_t)size;                                        /* else the answer will be missing */
    loop_timer_start(share->server->node->loop, &share->patience, sent || ends ? ANSWER_MS + order->within_ms : 0,
                     answer_late, share);
    return order->number;
}

/* Once it is known what the server has. */
static void send_share(struct node_server *server)
{
    struct share *share = server->share;
    uint64_t now = loop_now(server->node->loop);
    if (!server->share_order || !share || !share->looked || share->asked)
        return;
    if (server->wanted_sms == server->sms && server->wanted_memory == server->memory) {
        order_over(server, CTL_OK, "");
        return;
    }
    server->ordered_sms = server->wanted_sms;
    server->ordered_memory = server->wanted_memory;
    save(server);
    node_report_share(server->node, server);
    limit_host_memory(server);
    struct share_order order = { .kind = SHARE_SET,
                                  .sms = server->ordered_sms == server->sms ? 0 : server->ordered_sms,
                                  .memory = server->ordered_memory == server->memory ? 0 : server->ordered_memory,
                                  .within_ms = server->share_until > now ? (uint32_t)(server->share_until - now) : 0 };
    share->asked = say(share, &order);
}

/* Which of the two it has. */
static void take_look(struct node_server *server, const struct share_order_answer *answer)
{
    /* The driver's own number may be lower than what was ordered (rounding of NVIDIA MPS). */
    bool sms = !server->ordered_sms || server->ordered_sms == server->sms || answer->sms == server->ordered_sms;
    bool took = server->ordered_memory && sms && answer->memory == server->ordered_memory;
    settle(server, took);
    if (answer->sms && answer->sms <= share_bound_sms(server))
        server->shown_sms = answer->sms;
    if (answer->memory && answer->memory != server->memory)
        log_warning("event=share-differs server=%llu vm=%s memory=%llu says=%llu", (unsigned long long)server->id,
                    server->vm, (unsigned long long)server->memory, (unsigned long long)answer->memory);
}

static void take_share(struct node_server *server, struct share_order_answer *answer)
{
    static const ctl_code codes[] = { CTL_OK, CTL_INVALID, CTL_NO_ROOM, CTL_NOT_SUPPORTED, CTL_BUSY };
    char text[CTL_MAX_TEXT + 1];
    protocol_text_clean(answer->text);
    snprintf(text, sizeof text, "GPU server %llu of %s: %s", (unsigned long long)server->id, server->vm, answer->text);
    bool took = answer->code == SHARE_DONE;
    if (took && server->ordered_sms != server->sms)
        server->shown_sms = server->ordered_sms;
    settle(server, took);
    if (!took)
        log_info("event=share-refused server=%llu vm=%s why=\"%s\"", (unsigned long long)server->id, server->vm,
                 answer->text);
    order_over(server, codes[answer->code], took ? "" : text);
}

static void readable(uv_poll_t *poll, int status, int events)
{
    struct share *share = poll->data;
    struct node_server *server = share->server;
    uint8_t bytes[SHARE_ANSWER_SIZE + 1];
    struct share_order_answer answer;
    (void)events;
    if (!server)
        return;
    ssize_t n = status < 0 ? 0 : recv(share->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {                       /* it ends, which is heard of soon, or it takes the order once more */
        drop(server);
        loop_timer_start(server->node->loop, &server->share_timer, AGAIN_MS, begin_again, server);
        return;
    }
    bool sound = share_answer_get(bytes, (size_t)n, &answer) && answer.number;
    if (sound && bridge_answered(server, &answer))
        return;
    if (!sound || (answer.number != share->looks && answer.number != share->asked)) {
        broken(server, "answers nonsense");
        return;
    }
    loop_timer_stop(&share->patience);
    if (answer.number == share->looks) {
        share->looks = 0;
        share->looked = true;
        share->bridges = strstr(answer.text, SHARE_BRIDGES) != NULL;
        share->lanes = strstr(answer.text, SHARE_DIRECT) != NULL;
        share->links = strstr(answer.text, SHARE_LINKED) != NULL;
        take_look(server, &answer);
        send_bridges(server);
    } else {
        share->asked = 0;
        take_share(server, &answer);
    }
    send_share(server);
}

static void answer_late(struct loop_timer *timer, void *context)
{
    struct share *share = context;
    (void)timer;
    if (share->server)
        broken(share->server, "does not answer");
}

/* A server that an earlier version has started has no such socket. */
static int dial(const struct node_server *server)
{
    struct sockaddr_un at;
    int folder = -1, fd = -1, failure = 0;
    if (!address_of(server, &folder, &at) ||
        (fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0 ||
        connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
        failure = -errno;
    if (folder >= 0)
        close(folder);
    if (failure && fd >= 0)
        close(fd);
    return failure ? failure : fd;
}

void share_begin(struct node_server *server)
{
    struct share *share;
    drop(server);
    int fd = dial(server);
    server->controlled = fd != -ENOENT;
    if (fd == -ENOENT)
        return;
    if (fd < 0 || !(share = calloc(1, sizeof *share))) {
        log_debug("event=control-not-connected server=%llu why=\"%s\"", (unsigned long long)server->id, strerror(-fd));
        if (fd >= 0)
            close(fd);
        loop_timer_start(server->node->loop, &server->share_timer, AGAIN_MS, begin_again, server);
        return;
    }
    *share = (struct share){ .server = server, .fd = fd };
    if (uv_poll_init(loop_uv(server->node->loop), &share->poll, fd) != 0) {
        close(fd);
        free(share);
        loop_timer_start(server->node->loop, &server->share_timer, AGAIN_MS, begin_again, server);
        return;
    }
    share->poll.data = share;
    server->share = share;
    uv_poll_start(&share->poll, UV_READABLE | UV_DISCONNECT, readable);
    struct share_order look = { .kind = SHARE_LOOK };
    share->looks = say(share, &look);
}

static void begin_again(struct loop_timer *timer, void *context)
{
    struct node_server *server = context;
    (void)timer;
    if (server->share_order && loop_now(server->node->loop) >= server->share_until + ANSWER_MS) {
        broken(server, "does not answer");
        return;
    }
    if (server->state == CTL_SERVER_RUNNING)
        share_begin(server);
}

void share_end(struct node_server *server, const char *why)
{
    char text[CTL_MAX_TEXT + 1];
    drop(server);
    bridges_over(server, CTL_LOST, "the server has ended");
    server->controlled = false;
    settle(server, false);
    snprintf(text, sizeof text, "GPU server %llu of %s has ended meanwhile: %.600s", (unsigned long long)server->id,
             server->vm, why);
    order_over(server, CTL_LOST, text);
}

void share_forget(struct node_server *server)
{
    drop(server);
    while (server->bridge_count) {
        const struct bridge_end *end = &server->bridges[--server->bridge_count];
        fd_message_close(end->fds, end->count);
        free(end->address);
    }
}

/* ---- orders of the cluster manager ---- */

void share_change(struct node_server *server, uint64_t number, const node_resize *resize)
{
    struct node_manager *node = server->node;
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_code code = CTL_OK;
    bool same = server->share_order && server->wanted_sms == resize->sms && server->wanted_memory == resize->memory;
    if (server->state != CTL_SERVER_RUNNING)
        code = explain(text, CTL_BUSY, "GPU server %llu does not run at present", (unsigned long long)server->id);
    else if (!server->controlled)
        code = explain(text, CTL_NOT_SUPPORTED,
                       "GPU server %llu was started by an earlier release, and cannot be changed while it runs: end its"
                       " programs (flytctl server stop %llu)",
                       (unsigned long long)server->id, (unsigned long long)server->id);
    else if (server->share_order && !same)
        code = explain(text, CTL_BUSY, "an earlier change of GPU server %llu is under way",
                       (unsigned long long)server->id);
    else if (!resize->sms || resize->sms > SHARE_ORDER_MOST_SMS || !resize->memory ||
             resize->memory > SHARE_ORDER_MOST_MEMORY || resize->within_ms > SHARE_ORDER_MOST_WITHIN_MS)
        code = explain(text, CTL_INVALID, "%u SMs, %llu bytes and %u ms make no sense", resize->sms,
                       (unsigned long long)resize->memory, resize->within_ms);
    if (code != CTL_OK) {
        node_report_order(node, number, code, text);
        return;
    }
    server->share_order = number;
    server->wanted_sms = resize->sms;
    server->wanted_memory = resize->memory;
    server->share_until = loop_now(node->loop) + resize->within_ms;
    send_share(server);
}
