/*
 * push.c: what is sent to nodes and client managers without their having asked: it is put into their outbox, and the
 * call with which they wait for news is answered.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>

#include "cpu/common/log.h"

/* ---- nodes ---- */

uint64_t node_send_order(struct cluster *cluster, struct node *node, const struct message *what)
{
    struct message *message = outbox_add(cluster, &node->orders, what->kind);
    if (!message) {
        log_error("event=order-lost node=%s: no memory", node->row.name);
        return 0;
    }
    uint64_t number = message->number;
    struct message *next = message->next;
    *message = *what;
    message->number = number;
    message->next = next;
    if (node->session && node->registered)
        session_wake(node->session);
    return number;
}

void program_revoke(struct cluster *cluster, struct program *program)
{
    struct server *server = program->server;
    if (!server || !server->ordered || !server->node)
        return;
    struct message message = {
        .kind = NODE_ORDER_END_PROGRAM, .server = server->row.id, .program = program->id, .code = CTL_OK
    };
    node_send_order(cluster, server->node, &message);
    program->revoked = server->row.id;
}

/* ---- client managers ---- */

static struct event_about about(const struct program *program)
{
    return (struct event_about){ .vm = program->vm->row.name, .node = program->server ? program->server->row.node : "",
                                 .server = program->server ? program->server->row.id : 0, .program = program->id };
}

void program_send(struct cluster *cluster, const struct program *program, const struct message *what)
{
    struct vm *vm = program->vm;
    if (!vm->session)
        return;
    struct message *message = outbox_add(cluster, &vm->events, what->kind);
    if (!message) {
        conn_close(vm->session->conn, "no memory for what must be sent to it");   /* it comes back and asks */
        return;
    }
    struct message *next = message->next;
    uint64_t number = message->number;
    *message = *what;
    message->next = next;
    message->number = number;
    message->key = program->key;
    message->program = program->id;
    session_wake(vm->session);
}

void program_notify(struct cluster *cluster, struct program *program, client_event_kind kind, ctl_code code,
                    const char *text)
{
    struct message message = {
        .kind = (int)kind, .server = program->server ? program->server->row.id : 0, .code = code
    };
    snprintf(message.text, sizeof message.text, "%.500s", text);
    program_send(cluster, program, &message);
}

void program_refuse(struct cluster *cluster, struct program *program, ctl_code code, const char *text)
{
    struct event_about which = about(program);
    cluster_event(cluster, ADMIN_WARNING, "program-refused", &which, "%s: %.900s", program->executable, text);
    counts_note_code(cluster->counts.now.refused, code);
    if (program->state == ADMIN_PROGRAM_WAITING)
        counts_note_time(&cluster->counts.now.given_up, program->asked);
    program_notify(cluster, program, CLIENT_EVENT_ANSWER, code, text);
    program_detach(program, "refused", text);
    program_destroy(cluster, program);
}
