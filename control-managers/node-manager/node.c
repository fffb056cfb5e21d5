/*
 * node.c: the connection to the cluster manager.
 *
 * After each (re)connection the node registers with everything that it has and runs, then keeps one NODE_ORDERS call
 * outstanding. Orders are taken on in the order of their numbers, once; a cluster manager that has started anew may use
 * any numbers, and orders say what shall be, so that one carried out twice does no harm.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/daemon.h"
#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

enum { ORDERS_MS = CTL_DEAD_SECONDS * 1000, CALL_MS = CTL_CALL_SECONDS * 1000 };

static void ask_orders(struct node_manager *);

/* ---- figures ---- */

/* While the cluster manager is away, who leaves a server is to be known to AWAY_MS; PART_OF_TIME: so many times as long
   as a look is the pause. */
enum { AWAY_MS = 1000, PART_OF_TIME = 20 };

static uint64_t next_look(const struct node_manager *node, uint64_t took_ms)
{
    uint64_t period = (uint64_t)(node->config->report_period * 1000);
    uint64_t away = took_ms * PART_OF_TIME > AWAY_MS ? took_ms * PART_OF_TIME : AWAY_MS;
    return node->registered || period < away ? period : away;
}

/* Figures change without events. */
static void report_figures(struct loop_timer *timer, void *context)
{
    struct node_manager *node = context;
    uint64_t begun = uv_hrtime();
    for (struct node_server *server = node->servers; server; server = server->next)
        if (server->state == CTL_SERVER_RUNNING) {
            workers_look(server);
            if (!node->registered)
                continue; /* registering says the rest */
            figures_look(server);
            node_report_usage(node, server);
            node_report_works(node, server);
            node_report_server(node, server);
        }
    loop_timer_start(node->loop, timer, next_look(node, (uv_hrtime() - begun) / 1000000), report_figures, node);
}

/* ---- orders ---- */

/* Whether the server can have all of these GPUs. */
static ctl_code check_gpus(struct node_manager *node, const ctl_server_spec *spec, char *const *gpus, size_t count,
                           char *text)
{
    if (!count || count > CTL_MAX_SERVER_GPUS)
        return explain(text, CTL_INVALID, "a server has 1 to %d GPUs, not %zu", CTL_MAX_SERVER_GPUS, count);
    for (size_t i = 0; i < count; i++) {
        ctl_code code = gpu_check(node, gpus[i], spec, text);
        for (size_t k = 0; k < i && code == CTL_OK; k++)
            if (strcmp(gpus[k], gpus[i]) == 0)
                code = explain(text, CTL_INVALID, "GPU %s is named twice", gpus[i]);
        if (code != CTL_OK)
            return code;
    }
    return CTL_OK;
}

static void take_start(struct node_manager *node, uint64_t number, const ctl_server_spec *spec, char *const *gpus,
                       size_t gpu_count)
{
    char text[CTL_MAX_TEXT + 1] = "";
    struct node_server *server = server_find(node, spec->id);
    if (server) {
        if (server->state == CTL_SERVER_STARTING)
            server->start_order = number;
        else
            node_report_order(node, number, CTL_OK, "");
        node_report_server(node, server);
        return;
    }
    ctl_code code = check_gpus(node, spec, gpus, gpu_count, text);
    if (code == CTL_OK && (!spec->memory || !spec->id || !protocol_name_valid(spec->vm)))
        code = explain(text, CTL_INVALID, "server %llu of VM '%s' with %llu bytes makes no sense",
                       (unsigned long long)spec->id, spec->vm, (unsigned long long)spec->memory);
    if (code == CTL_OK)
        code = bounds_check(node, spec->vm, text);
    if (code == CTL_OK && server_create(node, spec, gpus, gpu_count, number, text) != 0)
        code = CTL_INTERNAL;
    if (code == CTL_OK)
        return;
    log_warning("event=server-refused server=%llu vm=%s why=\"%s\"", (unsigned long long)spec->id, spec->vm, text);
    node_report_order(node, number, code, text);
    node_report_body body = { .kind = NODE_REPORT_SERVER };
    body.node_report_body_u.server = (ctl_server_report){ .id = spec->id, .state = CTL_SERVER_FAILED,
                                                          .status = { code, text } };
    reports_add(node, &body);
}

static void take_stop(struct node_manager *node, uint64_t number, const node_stop *stop)
{
    struct node_server *server = server_find(node, stop->server);
    if (!server) {
        node_report_order(node, number, CTL_OK, "");
        return;
    }
    server->stop_order = number;
    server_stop(server, stop->grace_ms, stop->why.code, stop->why.text);
}

static void take_keys(struct node_manager *node, uint64_t number, const void *keys, size_t size)
{
    if (!size || size > sizeof node->keys || size % 32) {
        node_report_order(node, number, CTL_INVALID, "ticket keys are 32 bytes each");
        return;
    }
    memcpy(node->keys, keys, size);
    node->keys_size = size;
    for (struct node_server *server = node->servers; server; server = server->next)
        server_write_keys(server);
    if (number)
        node_report_order(node, number, CTL_OK, "");
}

static void take_limit(struct node_manager *node, uint64_t number, const node_limit *limit)
{
    struct node_server *server = server_find(node, limit->server);
    if (!server)
        node_report_order(node, number, CTL_NOT_FOUND, "there is no such server");
    else if (server->sms == limit->sms && server->memory == limit->memory)
        node_report_order(node, number, CTL_OK, "");
    else
        node_report_order(node, number, CTL_NOT_SUPPORTED,
                          "this version cannot change the limits of a server that runs");
}

static void take_resize(struct node_manager *node, uint64_t number, const node_resize *resize)
{
    struct node_server *server = server_find(node, resize->server);
    if (server)
        share_change(server, number, resize);
    else
        node_report_order(node, number, CTL_NOT_FOUND, "there is no such server");
}

static void take_end_program(struct node_manager *node, uint64_t number, const node_end_program *end)
{
    struct node_server *server = server_find(node, end->server);
    char name[32];
    snprintf(name, sizeof name, "%llu", (unsigned long long)end->prog);
    int failure = server && end->prog ? own_mark(server, "revoked", name) : 0;
    if (failure)
        log_error("event=ticket-not-revoked server=%llu program=%llu why=\"%s\"", (unsigned long long)end->server,
                  (unsigned long long)end->prog, strerror(-failure));
    /* CTL_OK: it has ended by itself, or its VM has a new secret: it may open no more connections. */
    bool kill = end->why.code != CTL_OK;
    unsigned ended = server && end->prog && kill ? workers_end(server, end->prog) : 0;
    log_info("event=program-end server=%llu program=%llu workers=%u why=\"%s\"", (unsigned long long)end->server,
             (unsigned long long)end->prog, ended, end->why.text);
    if (server && end->prog)
        served_ask(server, end->prog);
    node_report_order(node, number, CTL_OK, "");
}

static void take_served(struct node_manager *node, uint64_t number, const node_served *asked)
{
    struct node_server *server = server_find(node, asked->server);
    if (server && asked->prog)
        served_ask(server, asked->prog);
    node_report_order(node, number, CTL_OK, "");
}

static void take_order(struct node_manager *node, const node_order *order)
{
    const struct node_order_body *body = &order->body;
    if (order->number <= node->last_order)
        return;
    node->last_order = order->number;
    switch (body->kind) {
    case NODE_ORDER_START:
        take_start(node, order->number, &body->node_order_body_u.start, &body->node_order_body_u.start.gpu, 1);
        break;
    case NODE_ORDER_START_GANG: {
        const node_start_gang *gang = &body->node_order_body_u.start_gang;
        take_start(node, order->number, &gang->spec, gang->gpus.gpus_val, gang->gpus.gpus_len);
        break;
    }
    case NODE_ORDER_STOP:
        take_stop(node, order->number, &body->node_order_body_u.stop);
        break;
    case NODE_ORDER_LIMIT:
        take_limit(node, order->number, &body->node_order_body_u.limit);
        break;
    case NODE_ORDER_RESIZE:
        take_resize(node, order->number, &body->node_order_body_u.resize);
        break;
    case NODE_ORDER_BRIDGE:
        bridge_begin(node, order->number, &body->node_order_body_u.bridge);
        break;
    case NODE_ORDER_DIAL:
        dial_begin(node, order->number, &body->node_order_body_u.dial);
        break;
    case NODE_ORDER_LINK: dial_begin_link(node, order->number, &body->node_order_body_u.link); break;
    case NODE_ORDER_LOG: log_begin(node, order->number, &body->node_order_body_u.log); break;
    case NODE_ORDER_SERVED: take_served(node, order->number, &body->node_order_body_u.served); break;
    case NODE_ORDER_END_PROGRAM:
        take_end_program(node, order->number, &body->node_order_body_u.end_program);
        break;
    case NODE_ORDER_KEYS:
        take_keys(node, order->number, body->node_order_body_u.ticket_key.ticket_key_val,
                  body->node_order_body_u.ticket_key.ticket_key_len);
        break;
    }
}

static void orders_came(void *context, int error, const char *why, void *object)
{
    struct node_manager *node = context;
    const node_orders_result *result = object;
    if (error == -ETIMEDOUT && link_conn(node->link))
        conn_close(link_conn(node->link), "the cluster manager is silent");
    if (error)
        return;
    if (result->status.code != CTL_OK)
        log_warning("event=orders-refused why=\"%s\"", result->status.text);
    for (u_int i = 0; i < result->orders.orders_len; i++)
        take_order(node, &result->orders.orders_val[i]);
    if (result->status.code != CTL_OK) {
        if (link_conn(node->link))
            conn_close(link_conn(node->link), "the cluster manager gives no orders");
        return;
    }
    (void)why;
    ask_orders(node);
}

static void ask_orders(struct node_manager *node)
{
    char error[EXPLAIN_SIZE];
    node_orders_args args = { .acknowledged = node->last_order };
    if (link_call(node->link, NODE_ORDERS, &args, ORDERS_MS, orders_came, node, error) != 0)
        log_debug("event=orders-not-asked why=\"%s\"", error);
}

/* ---- registering ---- */

static void registered(void *context, int error, const char *why, void *object)
{
    struct node_manager *node = context;
    const node_register_result *result = object;
    if (!error && result->status.code == CTL_OK) {
        log_info("event=registered cluster=%s", result->cluster);
        node->registered = true;
        take_keys(node, 0, result->ticket_key.ticket_key_val, result->ticket_key.ticket_key_len);
        for (struct node_server *server = node->servers; server; server = server->next) {
            node_report_share(node, server);
            figures_look(server);
            node_report_usage(node, server);
        }
        ask_orders(node);
        reports_send(node);
        return;
    }
    log_error("event=not-registered why=\"%s\"", error ? why : result->status.text);
    if (link_conn(node->link))
        conn_close(link_conn(node->link), "not registered");
}

static void up(struct link *link, struct conn *conn, const ctl_hello_result *peer)
{
    struct node_manager *node = link_context(link);
    ctl_gpu gpus[CTL_MAX_GPUS];
    ctl_host addresses[CTL_MAX_ADDRESSES];
    char error[EXPLAIN_SIZE];
    u_int count = 0;
    if (peer->incarnation != node->manager_incarnation)
        node->last_order = 0;
    node->manager_incarnation = peer->incarnation;
    node->manager_minor = peer->minor;
    reports_fit(node);
    log_info("event=connected peer=%s software=\"%s\" tls=%d", conn_peer(conn), peer->software, conn_encrypted(conn));
    for (unsigned i = 0; i < node->gpu_count; i++)
        node_gpu_fill(&node->gpus[i], &gpus[i]);
    for (unsigned i = 0; i < node->address_count; i++)
        addresses[i] = node->addresses[i];
    ctl_server_report *servers = calloc(CTL_MAX_NODE_SERVERS, sizeof *servers);
    for (struct node_server *server = node->servers; servers && server && count < CTL_MAX_NODE_SERVERS;
         server = server->next) {
        workers_look(server);
        server_fill(server, &servers[count++]);
    }
    node_register_args args = { .host = node->host, .tls = node_servers_tls(node),
                                .addresses = { node->address_count, addresses }, .gpus = { node->gpu_count, gpus },
                                .servers = { count, servers } };
    if (!servers || link_call(link, NODE_REGISTER, &args, CALL_MS, registered, node, error) != 0)
        log_error("event=not-registered why=\"%s\"", servers ? error : "no memory");
    for (u_int i = 0; i < count; i++)
        free(servers[i].addresses.addresses_val);
    free(servers);
}

static void down(struct link *link, bool was_up, int error, const char *why)
{
    struct node_manager *node = link_context(link);
    node->registered = false;
    node->reporting = false;
    loop_timer_start(node->loop, &node->figures, next_look(node, 0), report_figures, node);
    (void)error;
    log_warning("event=%s why=\"%s\": running servers go on", was_up ? "disconnected" : "not-connected", why);
}

int node_open(struct node_manager *node, char *error)
{
    char uri[CTL_MAX_URI + 1];
    const char *uris[] = { uri, NULL };
    const struct node_config *config = node->config;
    snprintf(uri, sizeof uri,
             strchr(config->manager_address, ':') && config->manager_address[0] != '[' ? "tcp://[%.256s]:%d"
                                                                                       : "tcp://%.256s:%d",
             config->manager_address, (int)config->manager_port);
    node->reports_end = &node->reports;
    int failure = bounds_open(node, error);
    if (failure)
        return failure;
    state_load(node);
    for (struct node_server *server = node->servers, *next; server; server = next) {
        next = server->next;
        server_adopt(server);
    }
    const struct link_options options = { .uris = uris,
                                          .tls = node->tls,
                                          .role = CTL_ROLE_NODE,
                                          .name = node->name,
                                          .software = daemon_software(),
                                          .incarnation = node->incarnation,
                                          .secret = *config->secret ? &node->secret : NULL,
                                          .context = node,
                                          .up = up,
                                          .down = down };
    failure = link_open(node->loop, &options, &node->link, error);
    if (failure)
        return failure;
    loop_timer_start(node->loop, &node->figures, (uint64_t)(config->report_period * 1000), report_figures, node);
    bounds_begin(node);
    card_watch(node);
    return 0;
}

void node_close(struct node_manager *node)
{
    node->registered = false;
    if (node->link)
        link_close(node->link);
    node->link = NULL;
    loop_timer_stop(&node->figures);
    loop_timer_stop(&node->cards);
    loop_timer_stop(&node->folders);
    if (!node->servers)
        cgroup_close();
    for (unsigned i = 0; !node->servers && i < node->gpu_count; i++)
        card_remove(node, &node->gpus[i]);
    dial_forget_all(node);
    logs_forget_all(node);
    server_forget_all(node);
    reports_drop_all(node);
    sweep_close(node);
}
