/* admin.c: what flytctl asks about the whole, about nodes, servers and programs. Entitlements: admin_vm.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/admin_rows.h"
#include "control-managers/cluster-manager/changes.h"
#include "control-managers/cluster-manager/moving.h"
#include "control-managers/cluster-manager/usage.h"
#include "control-managers/common/daemon.h"
#include "cpu/common/explain.h"

/* So long a listing of programs waits for the client managers that come back after a start. */
enum { GATHER_MS = 5000 };

/* A program that is killed hears it from its client manager before it sees its connection end. */
enum { KILL_MS = 1000 };

enum { REFUSALS = 100, REFUSALS_PER_SECOND = 1 };

void admin_note_refusal(const struct cluster_session *session, const char *command, const struct call_target *target,
                        const char *why)
{
    static const struct call_target nothing;
    const struct call_target *of = target ? target : &nothing;
    const struct event_about which = { .by = session->who, .command = command, .vm = of->vm, .node = of->node,
                                       .server = of->server, .program = of->program, .action = of->action,
                                       .move = of->move };
    static struct rate rate; /* of all: nobody is to fill history and audit trail */
    if (!session->cluster->stopping && rate_passes(&rate, REFUSALS, REFUSALS_PER_SECOND))
        cluster_event(session->cluster, ADMIN_WARNING, "command-refused", &which, "%s%s%s: %.700s", session->who,
                      *command ? ", " : "", command, why);
}

void admin_note_export(const struct cluster_session *session, const char *of)
{
    const struct event_about which = { .by = session->who };
    cluster_event(session->cluster, ADMIN_INFO, "secrets-exported", &which, "verifiers of the secrets of all %s, by %s",
                  of, session->who);
}

void admin_note_answer(const struct loop_call *call, ctl_code code, const char *text)
{
    if (code != CTL_OK && code != CTL_UNKNOWN)
        admin_note_refusal(session_of(call_conn(call)), protocol_procedures[call_procedure(call)].name,
                           call_context(call), text);
}

static void reply_plain(struct loop_call *call, ctl_code code, char *text)
{
    ctl_plain_result result = { { code, text } };
    admin_note_answer(call, code, text);
    call_reply(call, &result);
}

static const char *who(struct conn *conn)
{
    return session_of(conn)->who;
}

/* ---- the whole ---- */

static void admin_fill_status(struct cluster *cluster, admin_status_result *out)
{
    static char away[CTL_MAX_TEXT + 1];         /* valid until the next status is filled: one thread */
    *away = '\0';
    bool db_up = !store_db_away(cluster, away, sizeof away);
    *out = (admin_status_result){
        .software = (char *)daemon_software(),
        .cluster = cluster->name,
        .started = cluster->started,
        .db_kind = cluster->db_kind,
        .db_up = db_up,
        .db_text = away,
        .policy = (char *)place_policies[cluster->values->policy].name,
        .tls = cluster->tls != NULL,
        .nodes = (u_int)cluster->nodes.count,
        .vms = (u_int)cluster->vms.count,
        .servers = (u_int)cluster->servers.count,
        .programs = (u_int)cluster->programs.count,
        .waiting = (u_int)cluster->queue_length,
        .last_event = cluster->events.next - 1,
        .moves = cluster->move_counts,
        .vms_connected = (u_int)cluster->vms_connected,
        .unencrypted = (u_int)cluster->unencrypted,
    };
    out->moves.under_way = moves_under_way(cluster);
    for (size_t i = 0; i < cluster->nodes.count; i++)
        out->nodes_up += ((const struct node *)map_at(&cluster->nodes, i))->state == ADMIN_NODE_UP;
    for (size_t i = 0; i < cluster->pool.count; i++) {
        const struct place_gpu *gpu = &cluster->pool.gpus[i];
        out->gpus += gpu->owner != NULL;
        out->gpus_ready += gpu->schedulable;
        out->sms += gpu->sms;
        out->sms_used += gpu->used_sms;
        out->memory += gpu->memory;
        out->memory_used += gpu->used_memory;
    }
}

void admin_handle_status(struct conn *conn, struct loop_call *call, void *object)
{
    admin_status_result result;
    (void)object;
    admin_fill_status(session_of(conn)->cluster, &result);
    call_reply(call, &result);
}

void admin_handle_whoami(struct conn *conn, struct loop_call *call, void *object)
{
    struct cluster_session *session = session_of(conn);
    admin_whoami_result result = {
        .status = { CTL_OK, (char *)"" },
        .name = session->who,
        .role = session->hello.role,
        .known = session->endpoint == ENDPOINT_LOCAL ? ADMIN_KNOWN_BY_SOCKET
                 : conn_peer_certificate(conn)       ? ADMIN_KNOWN_BY_CERTIFICATE
                                                     : ADMIN_KNOWN_BY_SECRET,
        .encrypted = conn_encrypted(conn),
        .cluster = session->cluster->name,
    };
    (void)object;
    call_reply(call, &result);
}

void admin_handle_reload(struct conn *conn, struct loop_call *call, void *object)
{
    char text[CTL_MAX_TEXT + 1] = "";
    (void)object;
    ctl_code code = cluster_reload(session_of(conn)->cluster, who(conn), text, sizeof text);
    reply_plain(call, code, text);
}

void admin_handle_key_rotate(struct conn *conn, struct loop_call *call, void *object)
{
    char text[CTL_MAX_TEXT + 1] = "";
    (void)object;
    ctl_code code = keys_rotate(session_of(conn)->cluster, who(conn), text);
    reply_plain(call, code, text);
}

/* ---- nodes ---- */

void admin_handle_nodes(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_named_page *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    admin_node nodes[ADMIN_MAX_NODE_PAGE];
    admin_nodes_result result = { .status = { CTL_OK, (char *)"" }, .nodes = { 0, nodes } };
    struct node_buffers *buffers = calloc(ADMIN_MAX_NODE_PAGE, sizeof *buffers);
    struct node *only = *args->only ? map_get(&cluster->nodes, args->only) : NULL, *node;
    char text[128];
    if (!buffers) {
        call_refuse(call);
        return;
    }
    size_t at = *args->only ? cluster->nodes.count : map_after(&cluster->nodes, args->after);
    if (*args->only && !only) {
        snprintf(text, sizeof text, "there is no node '%s'", args->only);
        result.status = (ctl_status){ CTL_NOT_FOUND, text };
    } else if (only) {
        row_of_node(cluster, only, &nodes[0], &buffers[0]);
        result.nodes.nodes_len = 1;
    }
    for (; result.nodes.nodes_len < ADMIN_MAX_NODE_PAGE && (node = map_at(&cluster->nodes, at)); at++) {
        u_int i = result.nodes.nodes_len++;
        row_of_node(cluster, node, &nodes[i], &buffers[i]);
    }
    result.more = at < cluster->nodes.count;
    call_reply(call, &result);
    free(buffers);
}

static ctl_code prepare_remove(struct cluster *cluster, struct change *change, char *text)
{
    const struct node *node = map_get(&cluster->nodes, change->name);
    if (!node)
        return explain(text, CTL_NOT_FOUND, "there is no node '%s'", change->name);
    if (node->session && !change->force)
        return explain(text, CTL_BUSY, "node %s is connected: stop its node manager first, or use --force",
                       node->row.name);
    if (node->server_count && !change->force)
        return explain(text, CTL_BUSY, "node %s has %zu servers: drain it and wait, or use --force, and they are lost",
                       node->row.name, node->server_count);
    change->row = (struct db_change){ .action = DB_DELETE, .kind = DB_NODE };
    change->row.row.node = node->row;
    return CTL_OK;
}

static void carry_out_remove(struct cluster *cluster, struct change *change)
{
    struct node *node = map_get(&cluster->nodes, change->name);
    char why[128], before[DB_TEXT_SIZE];
    struct event_about which = { .node = change->name, .by = change->by,
                                 .before = admin_node_describe(node ? &node->row : NULL, before) };
    if (node) {
        snprintf(why, sizeof why, "node %s was removed", node->row.name);
        node_lose(cluster, node, why);
        incidents_forget(cluster, node);
        node_destroy(cluster, node);
    }
    cluster_event(cluster, ADMIN_INFO, "node-removed", &which, "by %s", change->by);
}

static ctl_code prepare_drain(struct cluster *cluster, struct change *change, char *text)
{
    const struct node *node = map_get(&cluster->nodes, change->name);
    if (!node)
        return explain(text, CTL_NOT_FOUND, "there is no node '%s'", change->name);
    change->row = (struct db_change){ .action = DB_PUT, .kind = DB_NODE };
    change->row.row.node = node->row;
    change->row.row.node.drained = change->drain;
    snprintf(change->row.row.node.drain_reason, sizeof change->row.row.node.drain_reason, "%s", change->reason);
    change->puts = node->puts;
    size_t busy = 0;
    for (const struct server *server = node->servers; server; server = server->node_next)
        busy += server->program_count > 0;
    if (change->drain && busy)
        snprintf(change->remark, sizeof change->remark,
                 "new programs go elsewhere; %zu server%s on until the programs have ended", busy,
                 busy == 1 ? " goes" : "s go");
    return CTL_OK;
}

static void carry_out_drain(struct cluster *cluster, struct change *change)
{
    struct node *node = map_get(&cluster->nodes, change->name);
    char before[DB_TEXT_SIZE], after[DB_TEXT_SIZE];
    struct event_about which = { .node = change->name, .by = change->by, .before = before, .after = after };
    if (!node)
        return;
    admin_node_describe(&node->row, before);
    node->row.drained = change->drain;
    snprintf(node->row.drain_reason, sizeof node->row.drain_reason, "%s", change->reason);
    admin_node_describe(&node->row, after);
    if (!change->drain)
        health_forgive(cluster, node, "its node was undrained");
    node->in_db = true;
    if (node->puts != change->puts)
        store_put_node(cluster, node);          /* its row was written meanwhile, as it was before */
    node_set_schedulable(cluster, node);
    cluster_event(cluster, ADMIN_INFO, change->drain ? "node-drained" : "node-undrained", &which,
                  "by %s%s%s; it has %zu servers", change->by, *change->reason ? ": " : "", change->reason,
                  node->server_count);
    for (struct server *server = node->servers, *next; server && change->drain; server = next) {
        next = server->node_next;
        server_check_idle(cluster, server);
    }
    queue_retry(cluster);
}

static void reply_change(struct change *change, ctl_code code, char *text)
{
    reply_plain(change->call, code, text);
}

#define LOOK "flytctl node show"
static const struct change_kind remove_kind = { "node", LOOK, prepare_remove, carry_out_remove, reply_change };
static const struct change_kind drain_kind = { "node", LOOK, prepare_drain, carry_out_drain, reply_change };

void admin_handle_node(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_node_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    struct node *node = map_get(&cluster->nodes, args->name);
    struct change change = { .kind = args->action == ADMIN_NODE_REMOVE ? &remove_kind : &drain_kind,
                             .force = args->force,
                             .drain = args->action == ADMIN_NODE_DRAIN };
    char text[CTL_MAX_TEXT + 1] = "";
    snprintf(change.name, sizeof change.name, "%s", args->name);
    snprintf(change.reason, sizeof change.reason, "%s", change.drain ? args->reason : "");
    if (args->action == ADMIN_NODE_REMOVE && session_of(conn)->hello.role != CTL_ROLE_ADMIN) {
        reply_plain(call, CTL_DENIED, (char *)"an operator drains and undrains nodes; to remove them takes an admin");
    } else if (!node) {
        snprintf(text, sizeof text, "there is no node '%s'", args->name);
        reply_plain(call, CTL_NOT_FOUND, text);
    } else if (args->action < ADMIN_NODE_DRAIN || args->action > ADMIN_NODE_REMOVE) {
        reply_plain(call, CTL_INVALID, (char *)"this is not known to do with a node");
    } else if (args->action != ADMIN_NODE_REMOVE && node->row.drained == change.drain &&
               (!*change.reason || strcmp(node->row.drain_reason, change.reason) == 0) &&
               !change_pending(cluster, "node", args->name)) {
        if (!change.drain)
            health_forgive(cluster, node, "its node was undrained");
        reply_plain(call, CTL_OK, text);        /* it is so already */
    } else {
        change_submit(conn, call, &change);
    }
}

/* ---- a secret of its own ---- */

static ctl_code prepare_add(struct cluster *cluster, struct change *change, char *text)
{
    const struct node *node = map_get(&cluster->nodes, change->name);
    struct db_node *row = &change->row.row.node;
    if (node && node->row.has_stored && !change->force)
        return explain(text, CTL_EXISTS, "node %s has a secret already: --new-secret replaces it", change->name);
    change->row = (struct db_change){ .action = DB_PUT, .kind = DB_NODE };
    if (node)
        *row = node->row;
    else
        snprintf(row->name, sizeof row->name, "%s", change->name);
    row->has_stored = true;
    change->puts = node ? node->puts : 0;
    return change_new_secret(change, row->stored, text);
}

static void carry_out_add(struct cluster *cluster, struct change *change)
{
    struct node *node = map_get(&cluster->nodes, change->name);
    char before[DB_TEXT_SIZE], after[DB_TEXT_SIZE];
    struct event_about which = { .node = change->name, .by = change->by, .after = after,
                                 .before = admin_node_describe(node ? &node->row : NULL, before) };
    if (!node)
        node = node_create(cluster, change->name);
    if (!node)
        return; /* no memory: it is there after the next start */
    memcpy(node->row.stored, change->row.row.node.stored, sizeof node->row.stored);
    node->row.has_stored = true;
    admin_node_describe(&node->row, after);
    node->in_db = true;
    if (node->puts != change->puts)
        store_put_node(cluster, node); /* its row was written meanwhile, as it was before */
    if (node->session)
        conn_close(node->session->conn, "the node has a new secret");
    cluster_event(cluster, ADMIN_INFO, "node-added", &which, "it has a new secret of its own, by %s", change->by);
}

static void reply_add(struct change *change, ctl_code code, char *text)
{
    static char none[1];
    admin_vm_add_result result = { .status = { code, text },
                                   .secret = code == CTL_OK || code == CTL_UNKNOWN ? change->secret : none };
    admin_note_answer(change->call, code, text);
    call_reply(change->call, &result);
}

static const struct change_kind add_kind = { "node", LOOK, prepare_add, carry_out_add, reply_add };

void admin_handle_node_add(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_node_add_args *args = object;
    struct change change = { .kind = &add_kind, .force = args->replace };
    char text[CTL_MAX_TEXT + 1];
    snprintf(change.name, sizeof change.name, "%s", args->name);
    if (protocol_name_valid(args->name)) {
        change_submit(conn, call, &change);
        return;
    }
    snprintf(text, sizeof text, "'%s' is no valid name: 1 to %d letters, digits, and . _ : -", args->name,
             CTL_MAX_NAME);
    admin_vm_add_result result = { .status = { CTL_INVALID, text }, .secret = (char *)"" };
    admin_note_answer(call, CTL_INVALID, text);
    call_reply(call, &result);
}

/* ---- servers ---- */

/* Nothing was found for a filter: is that because it names nobody? CTL_OK, or CTL_NOT_FOUND with text. */
static ctl_code check_filter(struct cluster *cluster, const char *vm, const char *node, char *text)
{
    if (*vm && !vm_find(cluster, vm))
        return explain(text, CTL_NOT_FOUND, "there is no VM '%s'", vm);
    if (*node && !map_get(&cluster->nodes, node))
        return explain(text, CTL_NOT_FOUND, "there is no node '%s'", node);
    return CTL_OK;
}

static size_t fill_servers(struct cluster *cluster, uint64_t after, const char *vm, const char *node, admin_server *out,
                           struct server_addresses *addresses, u_int *more)
{
    size_t count = 0;
    struct server *server;
    struct vm *wanted = *vm ? vm_find(cluster, vm) : NULL;      /* by name or by address */
    const char *name = wanted ? wanted->row.name : vm;
    *more = 0;
    for (size_t at = map_after_id(&cluster->servers, after); (server = map_at(&cluster->servers, at)); at++) {
        if ((*name && strcmp(name, server->row.vm)) || (*node && strcmp(node, server->row.node)))
            continue;
        if (count == CTL_MAX_PAGE) {
            *more = 1;
            break;
        }
        row_of_server(server, &out[count], &addresses[count]);
        count++;
    }
    return count;
}

void admin_handle_servers(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_numbered_page *args = object;
    struct server_addresses addresses[CTL_MAX_PAGE];
    admin_server servers[CTL_MAX_PAGE];
    char text[CTL_MAX_TEXT + 1] = "";
    admin_servers_result result = { .status = { CTL_OK, text }, .servers = { 0, servers } };
    result.servers.servers_len = (u_int)fill_servers(session_of(conn)->cluster, args->after, args->vm, args->node,
                                                     servers, addresses, &result.more);
    if (!result.servers.servers_len)
        result.status.code = check_filter(session_of(conn)->cluster, args->vm, args->node, text);
    call_reply(call, &result);
}

void admin_handle_server_stop(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_server_stop_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    struct server *server = map_get_id(&cluster->servers, args->id);
    size_t users = 0;
    char text[CTL_MAX_TEXT + 1] = "";
    if (!server) {
        snprintf(text, sizeof text, "there is no server %llu", (unsigned long long)args->id);
        reply_plain(call, CTL_NOT_FOUND, text);
    } else if ((users = server->program_count + usage_served_alone(server)) && !args->force) {
        snprintf(text, sizeof text, "%zu programs use server %llu: end them, or use --force", users,
                 (unsigned long long)args->id);
        reply_plain(call, CTL_BUSY, text);
    } else if (!args->force && (server->reserved || server->leaving)) {
        snprintf(text, sizeof text, "a program moves to or from server %llu: wait for it (`flytctl move list`), or use"
                 " --force", (unsigned long long)args->id);
        reply_plain(call, CTL_BUSY, text);
    } else {
        struct event_about which = { .vm = server->row.vm, .node = server->row.node, .server = server->row.id,
                                     .by = who(conn) };
        cluster_event(cluster, ADMIN_INFO, "server-stopped", &which, "by %s; %zu programs use it", who(conn),
                      users);
        snprintf(text, sizeof text, "stopped by %s", who(conn));
        server_stop(cluster, server, CTL_OK, text);
        reply_plain(call, CTL_OK, (char *)"");
    }
}

/* ---- programs ---- */

static void answer_programs(struct cluster_session *session)
{
    struct cluster *cluster = session->cluster;
    static char texts[CTL_MAX_PAGE][CTL_MAX_TEXT + 1];
    admin_program programs[CTL_MAX_PAGE];
    char text[CTL_MAX_TEXT + 1] = "", *vm = session->listing.vm, *node = session->listing.node;
    admin_programs_result result = { .status = { CTL_OK, text }, .programs = { 0, programs } };
    struct vm *wanted = *vm ? vm_find(cluster, vm) : NULL;
    struct program *program;
    size_t count, next = 0, at = map_after_id(&cluster->programs, session->after);
    struct served_alone *served = usage_list_served(cluster, NULL, session->after, &count);
    session->listing.waits = false;
    while ((program = map_at(&cluster->programs, at)) || next < count) {
        const struct served_alone *alone =
            next < count && (!program || served[next].row->program < program->id) ? &served[next] : NULL;
        const struct server *server = alone ? alone->server : program->server;
        if (alone)
            next++;
        else
            at++;
        if ((*vm && (alone ? alone->server->vm : program->vm) != wanted) ||
            (*node && (!server || strcmp(node, server->row.node))))
            continue;
        if (result.programs.programs_len == CTL_MAX_PAGE) {
            result.more = 1;
            break;
        }
        u_int i = result.programs.programs_len++;
        if (alone)
            row_of_served(alone, &programs[i]);
        else
            row_of_program(program, &programs[i], texts[i]);
    }
    if (!result.programs.programs_len)
        result.status.code = check_filter(cluster, vm, node, text);
    if (result.status.code == CTL_OK && !programs_gathered(cluster))
        snprintf(text, sizeof text,
                 "some VMs with GPU servers are not connected since the cluster manager began anew, and have not said "
                 "which programs run there");
    call_reply(session->waiting, &result);
    free(served);
}

void admin_handle_programs(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_numbered_page *args = object;
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    bool waits = loop_now(cluster->loop) < cluster->settled && !programs_gathered(cluster);
    session_wait(session, call, answer_programs, GATHER_MS);
    session->after = args->after;
    session->listing.waits = waits;
    snprintf(session->listing.vm, sizeof session->listing.vm, "%s", args->vm);
    snprintf(session->listing.node, sizeof session->listing.node, "%s", args->node);
    if (!waits)
        session_wake(session);
}

/* The program had its second to end by itself: who does not, or has no client manager that ends it, loses the GPU. */
static void end_on_node(struct loop_timer *timer, void *context)
{
    struct program *program = context;
    (void)timer;
    if (!program->server || !program->server->ordered)
        return;
    struct message message = { .kind = NODE_ORDER_END_PROGRAM, .server = program->server->row.id,
                               .program = program->id, .code = CTL_DENIED };
    snprintf(message.text, sizeof message.text, "%s", program->why);
    node_send_order(program->cluster, program->server->node, &message);
}

/* One that has left its client manager loses the GPU. */
static void kill_served(struct conn *conn, struct loop_call *call, uint64_t id)
{
    struct cluster *cluster = session_of(conn)->cluster;
    size_t count;
    char text[CTL_MAX_TEXT + 1] = "";
    struct served_alone *served = usage_list_served(cluster, NULL, id - 1, &count);
    if (!id || !count || served[0].row->program != id) {
        snprintf(text, sizeof text, "there is no program %llu", (unsigned long long)id);
        reply_plain(call, CTL_NOT_FOUND, text);
    } else {
        struct db_usage *row = served[0].row;
        struct server *server = served[0].server;
        struct event_about which = { .vm = row->vm, .server = server->row.id, .program = id, .by = who(conn) };
        struct message message = { .kind = NODE_ORDER_END_PROGRAM, .server = server->row.id, .program = id,
                                   .code = CTL_DENIED };
        cluster_event(cluster, ADMIN_INFO, "program-killed", &which, "%.200s by %s", row->executable, who(conn));
        snprintf(message.text, sizeof message.text, "ended by %s", who(conn));
        snprintf(row->why, sizeof row->why, "killed: ended by %.200s", who(conn));
        node_send_order(cluster, server->node, &message);
        reply_plain(call, CTL_OK, (char *)"only its use of the GPU is ended, its process is not");
    }
    free(served);
}

void admin_handle_program_kill(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_program_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    struct program *program = map_get_id(&cluster->programs, args->id);
    char text[CTL_MAX_TEXT + 1] = "";
    if (!program) {
        kill_served(conn, call, args->id);
        return;
    }
    struct event_about which = { .vm = program->vm->row.name, .program = program->id, .by = who(conn) };
    bool away = !program->vm->session;
    cluster_event(cluster, ADMIN_INFO, "program-killed", &which, "%.200s (pid %u) by %s", program->executable,
                  program->pid, who(conn));
    snprintf(text, sizeof text, "ended by %s", who(conn));
    if (!program->server) {
        program_notify(cluster, program, CLIENT_EVENT_END, CTL_DENIED, text);
        program_refuse(cluster, program, CTL_DENIED, text);
    } else {
        snprintf(program->why, sizeof program->why, "%.250s", text);
        program->killed = true;
        program_notify(cluster, program, CLIENT_EVENT_END, CTL_DENIED, text);
        loop_timer_start(cluster->loop, &program->end, away ? 0 : KILL_MS, end_on_node, program);
    }
    *text = '\0';
    if (away)
        snprintf(text, sizeof text,
                 "its client manager is not connected: only its use of the GPU is ended, its process is not");
    reply_plain(call, CTL_OK, text);
}

/* ---- calls that wait ---- */

static void answer_events(struct cluster_session *session)
{
    const struct event_ring *ring = &session->cluster->events;
    admin_event events[CTL_MAX_PAGE];
    admin_events_result result = { .status = { CTL_OK, (char *)"" }, .events = { 0, events }, .last = session->after };
    size_t from = 0, to = ring->count;          /* their numbers rise */
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (ring->events[(ring->start + middle) % ring->capacity].number <= session->after)
            from = middle + 1;
        else
            to = middle;
    }
    result.first = ring->count ? ring->events[ring->start].number : ring->next;
    for (size_t i = from; i < ring->count && result.events.events_len < CTL_MAX_PAGE; i++) {
        struct db_event *event = &ring->events[(ring->start + i) % ring->capacity];
        events[result.events.events_len++] = (admin_event){
            .number = event->number,
            .time = event->time,
            .severity = (admin_severity)event->severity,
            .kind = event->kind,
            .vm = event->vm,
            .node = event->node,
            .server = event->server,
            .prog = event->program,
            .text = event->text,
        };
        result.last = event->number;
    }
    call_reply(session->waiting, &result);
}

void admin_handle_events(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_events_args *args = object;
    struct cluster_session *session = session_of(conn);
    uint64_t last = session->cluster->events.next - 1;
    unsigned longest = CTL_BEAT_SECONDS * 1000;
    session_wait(session, call, answer_events, args->wait_ms < longest ? args->wait_ms : longest);
    session_watch(session);
    session->after = args->after < last ? args->after : last;
    if (session->after < last)
        session_wake(session);
}

static void answer_top(struct cluster_session *session)
{
    struct server_addresses addresses[CTL_MAX_PAGE];
    admin_server servers[CTL_MAX_PAGE];
    admin_top_result result = { .servers = { 0, servers } };
    u_int more;
    admin_fill_status(session->cluster, &result.summary);
    result.servers.servers_len = (u_int)fill_servers(session->cluster, 0, "", "", servers, addresses, &more);
    call_reply(session->waiting, &result);
}

void admin_handle_top(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_top_args *args = object;
    unsigned longest = CTL_BEAT_SECONDS * 1000;
    session_wait(session_of(conn), call, answer_top, args->wait_ms < longest ? args->wait_ms : longest);
}
