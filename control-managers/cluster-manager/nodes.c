/*
 * nodes.c: node managers: registration (which adopts what runs), orders, reports, and silence.
 *
 * A node is UP while its node manager is connected and speaks; SUSPECT when it has been silent for silence.suspect
 * seconds (nothing new is placed there, its tenants are informed); LOST after silence.lost: its servers are gone, their
 * programs are informed, and should it come back with them after all, they are ordered stopped.
 */
#include "control-managers/cluster-manager/moving.h"
#include "control-managers/cluster-manager/resize.h"
#include "control-managers/cluster-manager/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { TICK_MS = 500, SLICE_NS = 1000000, SLICE_MS = 5 };

static struct event_about about(const struct node *node)
{
    return (struct event_about){ .node = node->row.name };
}

/* ---- orders ---- */

/* Whether programs of the VM can open a unix socket of the node. Where addresses mislead, a socket is made that nobody
   finds. */
static bool on_same_machine(const struct node *node, const struct vm *vm)
{
    if (!vm_names_machine(&vm->row))
        return *vm->machine && strcmp(node->machine, vm->machine) == 0;
    bool same = strcmp(node->row.name, vm->row.host) == 0;
    for (size_t i = 0; i < node->address_count; i++)
        same = same || strcmp(node->addresses[i], vm->row.host) == 0;
    return same;
}

/* Of a server with several GPUs it is an order of its own, which nodes of an earlier release do not know. */
static void fill_start(struct cluster *cluster, const struct message *message, node_order *order)
{
    struct server *server = map_get_id(&cluster->servers, message->server);
    node_order_body *body = &order->body;
    bool gang = server->gpu_count > 1;
    ctl_server_spec *spec = gang ? &body->node_order_body_u.start_gang.spec : &body->node_order_body_u.start;
    if (gang) {
        body->kind = NODE_ORDER_START_GANG;
        body->node_order_body_u.start_gang.gpus.gpus_len = (u_int)server->gpu_count;
        body->node_order_body_u.start_gang.gpus.gpus_val = server->gpu_names;
    }
    spec->id = server->row.id;
    spec->vm = server->row.vm;
    spec->gpu = server->gpu_names[0];
    spec->sharing = server->row.sharing;
    spec->sms = server->row.sms;
    spec->memory = server->row.memory;
    spec->prog = server->row.program;
    spec->vm_address = server->vm ? server->vm->row.address : (char *)"";
    spec->same_host = server->vm && on_same_machine(server->node, server->vm);
}

static void fill_order(struct cluster *cluster, struct message *message, uint8_t keys[CTL_MAX_KEY], node_order *order)
{
    order->number = message->number;
    order->body.kind = (node_order_kind)message->kind;
    switch (message->kind) {
    case NODE_ORDER_START:
        fill_start(cluster, message, order);
        break;
    case NODE_ORDER_STOP: {
        node_stop *stop = &order->body.node_order_body_u.stop;
        *stop = (node_stop){ message->server, message->grace_ms, { message->code, message->text } };
        break;
    }
    case NODE_ORDER_LIMIT:
        order->body.node_order_body_u.limit = (node_limit){ message->server, message->sms, message->memory };
        break;
    case NODE_ORDER_RESIZE:
        order->body.node_order_body_u.resize =
            (node_resize){ message->server, message->sms, message->memory, message->grace_ms };
        break;
    case NODE_ORDER_BRIDGE:
        order->body.node_order_body_u.bridge = (node_bridge){ message->program, message->source, message->server };
        break;
    case NODE_ORDER_DIAL:
        order->body.node_order_body_u.dial =
            (node_dial){ message->program, message->source, message->server, message->text };
        break;
    case NODE_ORDER_LINK:
        order->body.node_order_body_u.link =
            (node_link){ message->program, message->source, message->server, message->text, message->sms };
        break;
    case NODE_ORDER_LOG: order->body.node_order_body_u.log = message->log; break;
    case NODE_ORDER_SERVED:
        order->body.node_order_body_u.served = (node_served){ message->server, message->program };
        break;
    case NODE_ORDER_END_PROGRAM: {
        node_end_program *end = &order->body.node_order_body_u.end_program;
        *end = (node_end_program){ message->server, message->program, { message->code, message->text } };
        break;
    }
    default:
        order->body.node_order_body_u.ticket_key.ticket_key_len = (u_int)keys_fill(cluster, keys);
        order->body.node_order_body_u.ticket_key.ticket_key_val = (char *)keys;
    }
}

static void answer_orders(struct cluster_session *session)
{
    struct cluster *cluster = session->cluster;
    node_order orders[CTL_MAX_ORDERS];
    uint8_t keys[CTL_MAX_KEY];
    node_orders_result result = { .orders = { 0, orders } };
    memset(orders, 0, sizeof orders);
    for (struct message *message = session->node ? session->node->orders.first : NULL;
         message && result.orders.orders_len < CTL_MAX_ORDERS; message = message->next)
        fill_order(cluster, message, keys, &orders[result.orders.orders_len++]);
    call_reply(session->waiting, &result);
}

static void tell_back(struct cluster *cluster, struct node *node)
{
    for (struct server *server = node->servers; server; server = server->node_next)
        for (struct program *program = server->programs; program; program = program->server_next)
            program_notify(cluster, program, CLIENT_EVENT_BACK, CTL_OK, "the GPU server's node is back");
}

/* Anything it says shows that it lives; one whose connection has outlived its silence is trusted again at once. */
static struct node *heard(struct conn *conn)
{
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    struct node *node = session->node;
    if (!node)
        return NULL;
    node->heard = loop_now(cluster->loop);
    if (node->registered && node->state == ADMIN_NODE_SUSPECT) {
        struct event_about which = about(node);
        node->state = ADMIN_NODE_UP;
        node_set_schedulable(cluster, node);
        cluster_event(cluster, ADMIN_INFO, "node-back", &which, "node %s speaks again, on the same connection",
                      node->row.name);
        tell_back(cluster, node);
        queue_retry(cluster);
    }
    return node;
}

void node_handle_orders(struct conn *conn, struct loop_call *call, void *object)
{
    const node_orders_args *args = object;
    struct cluster_session *session = session_of(conn);
    struct node *node = heard(conn);
    if (!node || !node->registered) {
        call_refuse(call);
        return;
    }
    outbox_acknowledge(&node->orders, args->acknowledged);
    keys_taken(node);
    session_wait(session, call, answer_orders, CTL_BEAT_SECONDS * 1000);
    if (node->orders.first)
        session_wake(session);
}

/* ---- registration ---- */

/* 0, or why not. */
static ctl_code check_gpus(struct cluster *cluster, struct node *node, const node_register_args *args, char *text)
{
    for (u_int i = 0; i < args->gpus.gpus_len; i++) {
        const ctl_gpu *gpu = &args->gpus.gpus_val[i];
        struct cluster_gpu *known = map_get(&cluster->gpus, gpu->id);
        if (!protocol_name_valid(gpu->id))
            return explain(text, CTL_INVALID, "'%s' is no valid id of a GPU", gpu->id);
        /* This holds while that node is away, too: it may come back, and no node is to take what is another's. */
        if (known && known->node != node)
            return explain(text, CTL_EXISTS,
                           "GPU %s is registered by node %s: ids must be unique. If the GPU is in another machine now, "
                           "`flytctl node remove %s` lets go of it",
                           gpu->id, known->node->row.name, known->node->row.name);
        if (gpu->sharing & ~(unsigned)CTL_SHARING_ALL)
            return explain(text, CTL_INVALID, "GPU %s offers unknown kinds of sharing (%#x)", gpu->id, gpu->sharing);
    }
    return CTL_OK;
}

static void take_gpu(struct cluster_gpu *gpu, const ctl_gpu *report)
{
    snprintf(gpu->product, sizeof gpu->product, "%s", report->product);
    snprintf(gpu->text, sizeof gpu->text, "%s", report->text);
    gpu->index = report->index;
    gpu->sms = report->sms;
    gpu->clock_mhz = report->clock_mhz;
    gpu->memory = report->memory;
    gpu->offered = report->sharing;
    gpu->sm_limits = report->sm_limits;
    gpu->state = report->state;
    gpu->known = true;
}

static void take_gpus(struct cluster *cluster, struct node *node, const node_register_args *args)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        node->gpus[i]->known = false;
    for (u_int i = 0; i < args->gpus.gpus_len; i++) {
        const ctl_gpu *report = &args->gpus.gpus_val[i];
        struct cluster_gpu *gpu = gpu_get(cluster, node, report->id);
        if (gpu && gpu->node == node)
            take_gpu(gpu, report);
        else
            log_error("event=gpu-ignored node=%s gpu=%s: %s", node->row.name, report->id,
                      gpu ? "another node has it" : "too many GPUs, or no memory");
    }
}

static void take_addresses(struct cluster *cluster, struct node *node, const node_register_args *args)
{
    for (size_t i = 0; i < node->address_count; i++)
        if (map_get(&cluster->node_addresses, node->addresses[i]) == node)
            map_remove(&cluster->node_addresses, node->addresses[i]);
    node->address_count = 0;
    for (u_int i = 0; i < args->addresses.addresses_len; i++) {
        snprintf(node->addresses[i], sizeof node->addresses[i], "%s", args->addresses.addresses_val[i]);
        node->address_count++;
        map_put(&cluster->node_addresses, node->addresses[i], node);
    }
    snprintf(node->row.host, sizeof node->row.host, "%s", args->host);
    snprintf(node->machine, sizeof node->machine, "%s", conn_peer_machine(node->session->conn));
}

static void order_stop(struct cluster *cluster, struct node *node, uint64_t server, ctl_code code, const char *why)
{
    struct message message = { .kind = NODE_ORDER_STOP, .server = server, .code = code, .grace_ms = 2000 };
    snprintf(message.text, sizeof message.text, "%s", why);
    node_send_order(cluster, node, &message);
}

static bool is_ordered(const struct node *node, uint64_t server)
{
    for (const struct message *message = node->orders.first; message; message = message->next)
        if (message->kind == NODE_ORDER_START && message->server == server)
            return true;
    return false;
}

/* Brings both sides' lists of servers together. */
static void reconcile(struct cluster *cluster, struct node *node, const node_register_args *args)
{
    struct map reported = { 0 };
    for (u_int i = 0; i < args->servers.servers_len; i++) {
        const ctl_server_report *report = &args->servers.servers_val[i];
        struct server *server = map_get_id(&cluster->servers, report->id);
        map_put_id(&reported, report->id, node);
        if (server && server->node == node) {
            bool stopping = server->stopping;
            server_update(cluster, server, report);
            if (stopping && report->state < CTL_SERVER_ENDED)
                order_stop(cluster, node, report->id, CTL_LOST, "it was to be stopped already");
        } else if (report->state < CTL_SERVER_ENDED) {
            log_warning("event=unknown-server node=%s server=%llu: it is ordered stopped", node->row.name,
                        (unsigned long long)report->id);
            order_stop(cluster, node, report->id, CTL_LOST, "the cluster manager does not know this server");
        }
    }
    for (struct server *server = node->servers, *next; server; server = next) {
        next = server->node_next;
        if (is_ordered(node, server->row.id) && server_is_beyond_node(server)) {
            server_gone(cluster, server, CTL_LOST, SERVER_BEYOND_NODE);
            continue;
        }
        /* Not durable, or its order is still in the outbox: it is to be started yet. */
        if (map_get_id(&reported, server->row.id) || !server->ordered || is_ordered(node, server->row.id))
            continue;
        server_gone(cluster, server, CTL_LOST, "the GPU server does not run any more");
    }
    map_free(&reported);
}

void node_handle_register(struct conn *conn, struct loop_call *call, void *object)
{
    const node_register_args *args = object;
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    struct node *node = heard(conn);
    char text[CTL_MAX_TEXT + 1] = "";
    node_register_result result = { .cluster = cluster->name, .status = { CTL_OK, text } };
    if (!node) {
        call_refuse(call);
        return;
    }
    result.status.code = check_gpus(cluster, node, args, text);
    if (result.status.code != CTL_OK) {
        call_reply(call, &result);
        return;
    }
    bool returns = node->state == ADMIN_NODE_SUSPECT, first = !node->registered;
    take_addresses(cluster, node, args);
    take_gpus(cluster, node, args);
    node_keep_gpus(node);
    node->tls = args->tls;
    if (first && session->hello.incarnation != node->incarnation)
        health_forgive(cluster, node, "its node manager began anew");
    node->incarnation = session->hello.incarnation;
    node->registered = true;
    node->state = ADMIN_NODE_UP;
    node->row.last_heard = loop_time();
    node->in_db = true;
    store_put_node(cluster, node);
    node_set_schedulable(cluster, node);
    uint8_t keys[CTL_MAX_KEY];
    node->has_key = false;                      /* until it goes on with asking for orders */
    result.ticket_key.ticket_key_len = (u_int)keys_fill(cluster, keys);
    result.ticket_key.ticket_key_val = (char *)keys;
    call_reply(call, &result);
    struct event_about which = about(node);
    if (first)
        cluster_event(cluster, ADMIN_INFO, returns ? "node-back" : "node-joined", &which,
                      "%s on %s (%s), %u GPUs, %u servers run", node->row.name, args->host, node->software,
                      args->gpus.gpus_len, args->servers.servers_len);
    reconcile(cluster, node, args);
    usage_node_back(cluster, node);
    resize_node_back(cluster, node);
    moving_look(cluster);
    if (returns)
        tell_back(cluster, node);
    queue_retry(cluster);
}

/* ---- reports ---- */

static void order_done(struct cluster *cluster, struct node *node, const node_order_done *done)
{
    if (resize_order_done(cluster, node, done) || moving_bridged(cluster, done) ||
        gpu_links_ordered(cluster, node, done) || done->status.code == CTL_OK)
        return;
    /* Which order? It may be acknowledged already: the server's own report names failed starts, too. */
    struct event_about which = about(node);
    cluster_event(cluster, ADMIN_WARNING, "order-failed", &which, "order %llu: %s: %.600s",
                  (unsigned long long)done->number, protocol_code_name(done->status.code), done->status.text);
}

static void gpu_report(struct cluster *cluster, struct node *node, const ctl_gpu *report)
{
    struct cluster_gpu *gpu = map_get(&cluster->gpus, report->id);
    struct event_about which = about(node);
    if (!gpu || gpu->node != node)
        return;
    ctl_gpu_state before = gpu->state;
    take_gpu(gpu, report);
    node_set_schedulable(cluster, node);
    if (before == CTL_GPU_READY && gpu->state != CTL_GPU_READY)
        incidents_add(cluster, INCIDENT_GPU_FAULT, gpu->id, 1);
    if (before != gpu->state)
        cluster_event(cluster, gpu->state == CTL_GPU_READY ? ADMIN_INFO : ADMIN_ERROR,
                      gpu->state == CTL_GPU_READY ? "gpu-ready" : "gpu-fault", &which, "GPU %s (%s): %.600s", gpu->id,
                      gpu->product, *gpu->text ? gpu->text : "ready");
    if (gpu->state == CTL_GPU_READY)
        queue_retry(cluster);
}

void node_handle_report(struct conn *conn, struct loop_call *call, void *object)
{
    const node_report_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    struct node *node = heard(conn);
    ctl_plain_result result = { { CTL_OK, (char *)"" } };
    if (!node || !node->registered) {
        call_refuse(call);
        return;
    }
    call_reply(call, &result);
    for (u_int i = 0; i < args->reports.reports_len; i++) {
        const node_report_body *body = &args->reports.reports_val[i];
        if (body->kind == NODE_REPORT_ORDER) {
            order_done(cluster, node, &body->node_report_body_u.done);
        } else if (body->kind == NODE_REPORT_GPU) {
            gpu_report(cluster, node, &body->node_report_body_u.gpu);
        } else if (body->kind == NODE_REPORT_SHARE) {
            struct server *server = map_get_id(&cluster->servers, body->node_report_body_u.share.server);
            if (server && server->node == node)
                resize_reported(cluster, server, &body->node_report_body_u.share);
        } else if (body->kind == NODE_REPORT_USAGE) {
            struct server *server = map_get_id(&cluster->servers, body->node_report_body_u.usage.server);
            if (server && server->node == node)
                usage_report(cluster, server, &body->node_report_body_u.usage);
        } else if (body->kind == NODE_REPORT_PROGRAM) {
            struct server *server = map_get_id(&cluster->servers, body->node_report_body_u.prog.server);
            if (server && server->node == node)
                usage_report_program(cluster, server, &body->node_report_body_u.prog);
        } else if (body->kind == NODE_REPORT_LEFT) {
            struct server *server = map_get_id(&cluster->servers, body->node_report_body_u.left.server);
            if (server && server->node == node)
                usage_left(cluster, server, &body->node_report_body_u.left);
            else if (!server)
                usage_left_lost(cluster, node, &body->node_report_body_u.left);
        } else if (body->kind == NODE_REPORT_LOG) {
            log_came(cluster, node, &body->node_report_body_u.log);
        } else {
            const ctl_server_report *report = &body->node_report_body_u.server;
            struct server *server = map_get_id(&cluster->servers, report->id);
            if (!server || server->node != node)
                continue;
            if (report->state == CTL_SERVER_ENDED || report->state == CTL_SERVER_FAILED)
                moving_target_gone(cluster, server, report->status.text);
            server_update(cluster, server, report);
        }
    }
    usage_divide(cluster);
    moving_look(cluster);
}

/* ---- silence ---- */

static void tell_tenants(struct cluster *cluster, struct node *node, const char *text)
{
    for (struct server *server = node->servers; server; server = server->node_next)
        for (struct program *program = server->programs; program; program = program->server_next)
            program_notify(cluster, program, CLIENT_EVENT_SUSPECT, CTL_LOST, text);
}

/* Programs whose server was ordered, and has not started when its node falls silent, need not wait until the node is
   lost, if there is another place. */
static void let_starting_go(struct cluster *cluster, struct node *node, const char *text)
{
    struct place_gang place;
    for (struct server *server = node->servers, *next; server; server = next) {
        next = server->node_next;
        if (server->stopping || !server->ordered || server->adopted || !server->programs ||
            server->state != CTL_SERVER_STARTING || server->row.state != CTL_SERVER_STARTING)
            continue;
        struct place_request request = server_request(cluster, server->programs);
        if (place_choose_gang(&cluster->pool, cluster->values->policy, &request, &place) != PLACE_FOUND)
            continue;
        server->unused = true;
        server_stop(cluster, server, CTL_LOST, text);
    }
}

static void suspect(struct cluster *cluster, struct node *node)
{
    struct event_about which = about(node);
    char text[256];
    node->state = ADMIN_NODE_SUSPECT;
    node_set_schedulable(cluster, node);
    snprintf(text, sizeof text, "node %s has been silent for %g s", node->row.name, cluster->values->suspect);
    cluster_event(cluster, ADMIN_WARNING, "node-suspect", &which,
                  "%s: nothing is placed there, its %zu servers are kept", text, node->server_count);
    let_starting_go(cluster, node, text);
    tell_tenants(cluster, node, text);
}

void node_lose(struct cluster *cluster, struct node *node, const char *why)
{
    struct event_about which = about(node);
    size_t count = node->server_count;
    node->state = ADMIN_NODE_LOST;
    node->registered = false;
    node_set_schedulable(cluster, node);
    while (node->servers)
        server_gone(cluster, node->servers, CTL_LOST, why);
    logs_lose(cluster, node);
    gpu_links_lose(cluster, node);
    outbox_clear(&node->orders);
    cluster_event(cluster, ADMIN_ERROR, "node-lost", &which, "%s: %zu servers are lost with it", why, count);
}

void node_session_gone(struct cluster *cluster, struct node *node)
{
    node->registered = false;
    node->row.last_heard = loop_time();
    if (cluster->stopping)
        return;
    logs_lose(cluster, node);
    usage_node_away(cluster, node);
    gpu_links_lose(cluster, node);
    if (node->in_db)
        store_put_node(cluster, node);
    node_set_schedulable(cluster, node);
}

static void tick_due(struct loop_timer *timer, void *context)
{
    (void)timer;
    node_tick(context);
}

static void look_at_node(struct cluster *cluster, struct node *node)
{
    double silent = (double)(loop_now(cluster->loop) - node->heard) / 1000;
    char why[256];
    health_tick(cluster, node);
    /* One that was only made known has not gone away. */
    bool never_came = node->state == ADMIN_NODE_AWAY && !node->row.last_heard && !node->server_count;
    if (node->state == ADMIN_NODE_LOST || never_came)
        return;
    if (silent > CTL_DEAD_SECONDS && node->session)
        conn_close(node->session->conn, "the node manager is silent");
    if (silent > cluster->values->lost) {
        snprintf(why, sizeof why, "node %s has been silent for %.0f s", node->row.name, silent);
        node_lose(cluster, node, why);
    } else if (silent > cluster->values->suspect && node->state == ADMIN_NODE_UP) {
        suspect(cluster, node);
    }
}

/* Nodes and VMs are looked at in slices, since 20,000 VMs take several milliseconds. One that comes or goes between two
   slices may move another past the place where the look goes on: that one is looked at in the next turn. */
void node_tick(struct cluster *cluster)
{
    const uint64_t until = uv_hrtime() + SLICE_NS;
    size_t *next = &cluster->next_look;
    const bool all = cluster->loaded;
    for (; all && *next < cluster->nodes.count + cluster->vms.count; ++*next) {
        const size_t nodes = cluster->nodes.count;
        if (uv_hrtime() >= until) {
            loop_timer_start(cluster->loop, &cluster->tick, SLICE_MS, tick_due, cluster);
            return;
        }
        if (*next < nodes)
            look_at_node(cluster, map_at(&cluster->nodes, *next));
        else
            client_look(cluster, map_at(&cluster->vms, *next - nodes));
    }
    *next = 0;
    loop_timer_start(cluster->loop, &cluster->tick, TICK_MS, tick_due, cluster);
}
