/*
 * admin_log.c: logs of GPU servers (ADMIN_LOG). They lie on the servers' nodes: the node manager is asked for a piece
 * by an order, and says it in a report; until then the administrator's call waits. Nothing of a log is kept here.
 *
 * At most ASKS_MOST calls wait at a time, each for ASK_MS: callers wait CTL_CALL_SECONDS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/cluster.h"
#include "cpu/common/explain.h"

enum { ASKS_MOST = 32, ASK_MS = 8000 };

struct log_ask {
    struct log_ask *next;
    struct cluster *cluster;
    struct cluster_session *session;
    struct loop_call *call;
    const struct node *node;
    uint64_t order;
    struct loop_timer timer;
};

static void drop(struct log_ask *ask)
{
    struct log_ask **at = &ask->cluster->logs;
    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    loop_timer_stop(&ask->timer);
    free(ask);
}

static void refuse(struct loop_call *call, ctl_code code, char *text)
{
    admin_log_result result = { .status = { code, text } };
    call_reply(call, &result);
}

static void overdue(struct loop_timer *timer, void *context)
{
    struct log_ask *ask = context;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    snprintf(text, sizeof text, "node %s has not answered within %d s", ask->node->row.name, ASK_MS / 1000);
    refuse(ask->call, CTL_TIMEOUT, text);
    drop(ask);
}

/* The node of a server that has ended: the newest event about it says where it was. */
static struct node *node_of_ended(struct cluster *cluster, uint64_t server)
{
    const struct event_ring *ring = &cluster->events;
    for (size_t i = ring->count; i-- > 0;) {
        const struct db_event *event = &ring->events[(ring->start + i) % ring->capacity];
        if (event->server == server && *event->node)
            return map_get(&cluster->nodes, event->node);
    }
    return NULL;
}

static ctl_code find_node(struct cluster *cluster, const admin_log_args *args, struct node **node, char *text)
{
    const unsigned long long id = args->wish.server;
    const struct server *server = map_get_id(&cluster->servers, args->wish.server);
    *node = *args->node ? map_get(&cluster->nodes, args->node)
            : server    ? server->node
                        : node_of_ended(cluster, args->wish.server);
    if (!*node && *args->node)
        return explain(text, CTL_NOT_FOUND, "there is no node '%s'", args->node);
    if (!*node)
        return explain(text, CTL_NOT_FOUND,
                       "there is no GPU server %llu, and no event says on which node it was: if you know the node, name"
                       " it (--node)",
                       id);
    if (!(*node)->session || !(*node)->registered)
        return explain(text, CTL_LOST, "node %s, which has the log, is not connected", (*node)->row.name);
    if ((*node)->session->hello.minor < NODE_MINOR_LOGS)
        return explain(text, CTL_NOT_SUPPORTED, "node %s runs an earlier release (%s), which does not give logs away",
                       (*node)->row.name, (*node)->software);
    return CTL_OK;
}

static size_t asks_waiting(const struct cluster *cluster)
{
    size_t count = 0;
    for (const struct log_ask *ask = cluster->logs; ask; ask = ask->next)
        count++;
    return count;
}

void admin_handle_log(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_log_args *args = object;
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    struct node *node;
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_code code = find_node(cluster, args, &node, text);
    if (code == CTL_OK && asks_waiting(cluster) >= ASKS_MOST)
        code = explain(text, CTL_BUSY, "%d logs are being read: try again", ASKS_MOST);
    struct log_ask *ask = code == CTL_OK ? calloc(1, sizeof *ask) : NULL;
    if (code == CTL_OK && !ask)
        code = explain(text, CTL_INTERNAL, "no memory");
    if (code != CTL_OK) {
        refuse(call, code, text);
        return;
    }
    *ask =
        (struct log_ask){ .next = cluster->logs, .cluster = cluster, .session = session, .call = call, .node = node };
    cluster->logs = ask;
    loop_timer_start(cluster->loop, &ask->timer, ASK_MS, overdue, ask);
    ask->order = node_send_order(cluster, node, &(struct message){ .kind = NODE_ORDER_LOG, .log = args->wish });
}

void log_came(struct cluster *cluster, const struct node *node, const node_log *log)
{
    struct log_ask *ask = cluster->logs;
    while (ask && (ask->node != node || ask->order != log->number))
        ask = ask->next;
    if (!ask)
        return; /* too late, or nobody asked */
    admin_log_result result = { .status = log->status, .node = (char *)(uintptr_t)node->row.name, .piece = log->piece };
    call_reply(ask->call, &result);
    drop(ask);
}

void logs_forget(struct cluster_session *session)
{
    for (struct log_ask *ask = session->cluster->logs, *next; ask; ask = next) {
        next = ask->next;
        if (ask->session == session)
            drop(ask);
    }
}

void logs_lose(struct cluster *cluster, const struct node *node)
{
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "node %s, which has the log, has gone meanwhile", node->row.name);
    for (struct log_ask *ask = cluster->logs, *next; ask; ask = next) {
        next = ask->next;
        if (ask->node != node)
            continue;
        refuse(ask->call, CTL_LOST, text);
        drop(ask);
    }
}

void logs_end(struct cluster *cluster)
{
    while (cluster->logs)
        drop(cluster->logs);
}
