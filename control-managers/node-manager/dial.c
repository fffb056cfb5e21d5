/*
 * dial.c: a program moves from a GPU server of this node to one of another node. A GPU server can connect to nothing,
 * so the node manager connects in its place, and gives it the connections: its worker and the other server's let the
 * bytes of the program's memory go over them (direct lanes, cpu_rpc_prot.x).
 *
 * The order comes from the cluster manager, and the address from the other node's manager, which made the socket that
 * it names. Nothing that a program or a GPU server says has a part in it. What is said on the connections does not come
 * through here. Names are looked up and connections made in a thread of libuv's, within DIAL_MS.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/clock.h"
#include "cpu/common/explain.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/log.h"

enum { DIAL_MS = 1500 };

struct dial {
    struct dial *next;
    struct node *node; /* NULL: it has closed meanwhile */
    uv_work_t work;
    uint64_t order, program, source;
    char address[CTL_MAX_URI + 1];
    /* Of the thread, until it has ended. */
    int fds[DIAL_MOST];
    unsigned count;
    char why[EXPLAIN_SIZE];
};

/* ---- in the thread ---- */

/* tcp://HOST:PORT or tls://HOST:PORT?…; an IPv6 address stands in brackets. */
static bool split(const char *address, char host[CTL_MAX_URI], char service[8])
{
    const char *from = strstr(address, "://"), *end = from ? from + strcspn(from, "?") : NULL, *colon = end;
    while (colon && colon > from && *colon != ':')
        colon--;
    if (!from || colon <= from + 3 || (strncmp(address, "tcp:", 4) != 0 && strncmp(address, "tls:", 4) != 0))
        return false;
    from += 3;
    const char *last = colon;
    if (*from == '[' && last[-1] == ']') {
        from++;
        last--;
    }
    return snprintf(host, CTL_MAX_URI, "%.*s", (int)(last - from), from) < CTL_MAX_URI &&
           snprintf(service, 8, "%.*s", (int)(end - colon - 1), colon + 1) < 8 && *host && *service;
}

/* A connected socket; -1 and errno. */
static int connect_by(const struct addrinfo *to, uint64_t until)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;
    if (fd < 0)
        return -1;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        error = errno;
    struct pollfd polled = { .fd = fd, .events = POLLOUT };
    if (error == EINPROGRESS && poll(&polled, 1, clock_poll_timeout(until)) <= 0)
        error = ETIMEDOUT;
    else if (error == EINPROGRESS && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static void connect_all(uv_work_t *work)
{
    struct dial *dial = work->data;
    static const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    const uint64_t until = clock_now() + DIAL_MS * CLOCK_NS_PER_MS;
    struct addrinfo *found = NULL, *to;
    char host[CTL_MAX_URI], service[8];
    int failure = split(dial->address, host, service) ? getaddrinfo(host, service, &hints, &found) : EAI_NONAME;
    int fd = -1;
    for (to = found; to && (fd = connect_by(to, until)) < 0; to = to->ai_next)
        explain(dial->why, 0, "%s", strerror(errno));
    if (failure)
        explain(dial->why, 0, "%s", gai_strerror(failure));
    for (; fd >= 0; fd = dial->count < DIAL_MOST ? connect_by(to, until) : -1)
        dial->fds[dial->count++] = fd;
    if (found)
        freeaddrinfo(found);
}

/* ---- in the loop ---- */

static void connected(uv_work_t *work, int status)
{
    struct dial *dial = work->data;
    struct node *node = dial->node;
    struct server *source = node ? server_find(node, dial->source) : NULL;
    if (node) {
        struct dial **at = &node->dials;
        while (*at != dial)
            at = &(*at)->next;
        *at = dial->next;
    }
    if (status == 0 && source && source->controlled && dial->count) {
        log_info("event=dialled program=%llu server=%llu to=%s connections=%u", (unsigned long long)dial->program,
                 (unsigned long long)dial->source, dial->address, dial->count);
        share_lanes(source, dial->program, dial->address, dial->fds, dial->count, dial->order);
    } else {
        fd_message_close(dial->fds, dial->count);
        if (node)
            node_report_order(node, dial->order, source ? CTL_LOST : CTL_NOT_FOUND,
                              source ? dial->why : "the GPU server has ended");
    }
    free(dial);
}

void dial_begin(struct node *node, uint64_t order, const node_dial *wish)
{
    const struct server *source = server_find(node, wish->source);
    struct dial *dial = source && source->controlled ? calloc(1, sizeof *dial) : NULL;
    if (!dial) {
        node_report_order(node, order, source ? CTL_NOT_SUPPORTED : CTL_NOT_FOUND,
                          source ? "a server of an earlier release" : "there is no such server");
        return;
    }
    dial->node = node;
    dial->order = order;
    dial->program = wish->prog;
    dial->source = wish->source;
    snprintf(dial->address, sizeof dial->address, "%s", wish->address);
    dial->work.data = dial;
    if (uv_queue_work(loop_uv(node->loop), &dial->work, connect_all, connected) != 0) {
        free(dial);
        node_report_order(node, order, CTL_INTERNAL, "no thread can be had");
        return;
    }
    dial->next = node->dials;
    node->dials = dial;
}

void dial_forget_all(struct node *node)
{
    for (struct dial *dial = node->dials; dial; dial = dial->next)
        dial->node = NULL;
    node->dials = NULL;
}
