/*
 * dial.c: connections from a GPU server of this node to another one. A GPU server can connect to nothing, so the node
 * manager connects in its place, and gives it the connections. Their use is of two kinds. A program moves to a server
 * of another node, and the two workers let the bytes of its memory go over them (direct lanes, cpu_rpc_prot.x): as many
 * as can be had, MOVE_CONNECTIONS at most. Or two programs of a VM make a link between their servers: all that it
 * needs, or none.
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

enum { DIAL_MS = 1500, MOVE_CONNECTIONS = 4 };

struct dial {
    struct dial *next;
    struct node_manager *node; /* NULL: it has closed meanwhile */
    uv_work_t work;
    uint64_t order, program, source;
    char address[CTL_MAX_URI + 1];
    unsigned wanted;
    bool links; /* for a link: all that are wanted, or none */
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
    for (; fd >= 0; fd = dial->count < dial->wanted ? connect_by(to, until) : -1)
        dial->fds[dial->count++] = fd;
    if (!failure && dial->count < dial->wanted && !*dial->why)
        explain(dial->why, 0, "%s", strerror(errno));
    if (found)
        freeaddrinfo(found);
}

/* ---- in the loop ---- */

static void connected(uv_work_t *work, int status)
{
    struct dial *dial = work->data;
    struct node_manager *node = dial->node;
    struct node_server *source = node ? server_find(node, dial->source) : NULL;
    if (node) {
        struct dial **at = &node->dials;
        while (*at != dial)
            at = &(*at)->next;
        *at = dial->next;
    }
    if (status == 0 && source && source->controlled && dial->count >= (dial->links ? dial->wanted : 1)) {
        log_info("event=dialled program=%llu server=%llu to=%s connections=%u links=%d",
                 (unsigned long long)dial->program, (unsigned long long)dial->source, dial->address, dial->count,
                 dial->links);
        share_connections(source, &(struct share_gift){ .program = dial->program,
                                                        .order = dial->order,
                                                        .address = dial->address,
                                                        .fds = dial->fds,
                                                        .count = dial->count,
                                                        .links = dial->links });
    } else {
        fd_message_close(dial->fds, dial->count);
        if (node)
            node_report_order(node, dial->order, source ? CTL_LOST : CTL_NOT_FOUND,
                              source ? dial->why : "the GPU server has ended");
    }
    free(dial);
}

static void begin(struct node_manager *node, const struct dial *wanted)
{
    const uint64_t order = wanted->order;
    const struct node_server *source = server_find(node, wanted->source);
    struct dial *dial = source && source->controlled ? malloc(sizeof *dial) : NULL;
    if (!dial) {
        node_report_order(node, order, source ? CTL_NOT_SUPPORTED : CTL_NOT_FOUND,
                          source ? "a server of an earlier release" : "there is no such server");
        return;
    }
    *dial = *wanted;
    dial->node = node;
    dial->work.data = dial;
    if (uv_queue_work(loop_uv(node->loop), &dial->work, connect_all, connected) != 0) {
        free(dial);
        node_report_order(node, order, CTL_INTERNAL, "no thread can be had");
        return;
    }
    dial->next = node->dials;
    node->dials = dial;
}

void dial_begin(struct node_manager *node, uint64_t order, const node_dial *wish)
{
    struct dial dial = { .order = order, .program = wish->prog, .source = wish->source, .wanted = MOVE_CONNECTIONS };
    snprintf(dial.address, sizeof dial.address, "%s", wish->address);
    begin(node, &dial);
}

void dial_begin_link(struct node_manager *node, uint64_t order, const node_link *wish)
{
    struct dial dial = {
        .order = order, .program = wish->prog, .source = wish->source, .wanted = wish->connections, .links = true
    };
    snprintf(dial.address, sizeof dial.address, "%s", wish->address);
    if (!dial.wanted || dial.wanted > DIAL_MOST)
        node_report_order(node, order, CTL_INVALID, "a link has no such number of connections");
    else
        begin(node, &dial);
}

void dial_forget_all(struct node_manager *node)
{
    for (struct dial *dial = node->dials; dial; dial = dial->next)
        dial->node = NULL;
    node->dials = NULL;
}
