/*
 * programs.c: client managers and their programs.
 *
 * What is sent to a client manager is kept only while it is connected: when it comes back it names its programs, and is
 * informed anew where each of them stands.
 */
#include "control-managers/cluster-manager/moving.h"
#include "control-managers/cluster-manager/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/explain.h"
#include "cpu/common/log.h"

static struct event_about about(const struct program *program)
{
    return (struct event_about){ .vm = program->vm->row.name, .node = program->server ? program->server->row.node : "",
                                 .server = program->server ? program->server->row.id : 0, .program = program->id };
}

/* ---- answers ---- */

static ctl_code fill_grant(struct cluster *cluster, struct program *program, struct server *server, ctl_grant *grant,
                           struct answer_buffers *buffers)
{
    struct ticket ticket = { .server = server->row.id, .program = program->id, .sms = server->row.sms,
                             .memory = server->row.memory,
                             .issued = loop_time() };
    size_t size = sizeof buffers->ticket;
    ticket.expires = ticket.issued + (int64_t)(cluster->values->ticket_seconds * 1e6);
    snprintf(ticket.tenant, sizeof ticket.tenant, "%s", program->vm->row.name);
    snprintf(ticket.node, sizeof ticket.node, "%s", server->row.node);
    snprintf(ticket.gpu, sizeof ticket.gpu, "%s", server->gpu_names[0]);
    if (ticket_sign(keys_signer(cluster, server->node), &ticket, buffers->ticket, &size, buffers->text) < 0)
        return CTL_INTERNAL;
    bool tls = false;
    for (size_t i = 0; i < server->address_count; i++) {
        buffers->addresses[i] = server->addresses[i];
        tls |= strncmp(server->addresses[i], "tls://", 6) == 0;
    }
    *grant = (ctl_grant){
        .prog = program->id, .server = server->row.id, .node = server->row.node,
        .addresses = { (u_int)server->address_count, buffers->addresses }, .tls = tls,
        .ticket = { (u_int)size, (char *)buffers->ticket }, .expires = ticket.expires,
        .sms = server->granted_sms ? server->granted_sms : server->row.sms, .memory = server->row.memory,
        .sharing = server->row.sharing + (uint32_t)program->more_count * CTL_GRANT_PARTS,
    };
    return CTL_OK;
}

/* Why its server does not run yet, or is not known to run. */
static void describe_start(struct cluster *cluster, const struct server *server, char text[CTL_MAX_TEXT + 1])
{
    char why[CTL_MAX_TEXT + 1] = "";
    if (server->adopted && !server->node->registered) {
        snprintf(text, CTL_MAX_TEXT + 1, "node %s, which has its GPU server, is not connected to the cluster manager",
                 server->row.node);
        return;
    }
    if (server->durable || !server->late) {
        snprintf(text, CTL_MAX_TEXT + 1, "its GPU server starts on node %s", server->row.node);
        return;
    }
    bool away = store_db_away(cluster, why, sizeof why);
    snprintf(text, CTL_MAX_TEXT + 1,
             "its GPU server on node %s starts when the resource DB has taken note of it, which %s%.600s",
             server->row.node, away ? "is away: " : "does not answer", why);
}

char *program_waits_for(const struct program *program, char text[CTL_MAX_TEXT + 1])
{
    *text = '\0';
    if (program->state == ADMIN_PROGRAM_WAITING)
        snprintf(text, CTL_MAX_TEXT + 1, "%s", program->why);
    else if (program->state == ADMIN_PROGRAM_STARTING && program->server)
        describe_start(program->cluster, program->server, text);
    else if (program->state == ADMIN_PROGRAM_LOST)
        snprintf(text, CTL_MAX_TEXT + 1, "its GPU server is lost");
    else if (program->state == ADMIN_PROGRAM_SUSPENDED)
        snprintf(text, CTL_MAX_TEXT + 1, "it is suspended: flytctl program resume %llu lets it go on",
                 (unsigned long long)program->id);
    return text;
}

void program_fill_answer(struct cluster *cluster, struct program *program, client_answer *answer,
                         struct answer_buffers *buffers)
{
    buffers->text[0] = '\0';
    *answer = (client_answer){ .key = program->key, .prog = program->id };
    /* After a start of this manager it runs, but where its server listens is known when the node has said so. The node
       or its loss makes the next answer. */
    bool located = program_is_served(program);
    switch (program->state == ADMIN_PROGRAM_RUNNING && !located ? ADMIN_PROGRAM_STARTING : program->state) {
    case ADMIN_PROGRAM_RUNNING:
        answer->status.code = fill_grant(cluster, program, program->server, &answer->grant, buffers);
        break;
    case ADMIN_PROGRAM_STARTING:
        answer->status.code = CTL_WAITING;
        describe_start(cluster, program->server, buffers->text);
        break;
    case ADMIN_PROGRAM_WAITING:
        answer->status.code = CTL_WAITING;
        answer->position = program->position;
        snprintf(buffers->text, sizeof buffers->text, "%s", program->why);
        break;
    case ADMIN_PROGRAM_SUSPENDED:
        answer->status.code = CTL_BUSY;
        snprintf(buffers->text, sizeof buffers->text, "it is suspended");
        break;
    case ADMIN_PROGRAM_LOST:
        answer->status.code = CTL_LOST;
        snprintf(buffers->text, sizeof buffers->text, "its GPU server is lost");
        break;
    }
    answer->status.text = buffers->text;
}

void program_refusal(uint64_t key, uint64_t id, ctl_code code, char *text, client_answer *answer)
{
    *answer = (client_answer){ .status = { code, text }, .key = key, .prog = id };
}

/* ---- pushing ---- */

/* It is called off where the target has gone meanwhile. */
static void fill_move(struct cluster *cluster, struct vm *vm, const struct message *message, client_move *move,
                      struct answer_buffers *buffers)
{
    struct program *program = map_get_id(&vm->by_key, message->key);
    struct server *target = map_get_id(&cluster->servers, message->server);
    *move = (client_move){
        .key = message->key, .move = message->move, .patience_ms = message->patience_ms,
        .within_ms = message->within_ms
    };
    move->cancel = message->code != CTL_OK || !program || !target ||
                   fill_grant(cluster, program, target, &move->grant, buffers) != CTL_OK;
}

static void fill_rest(struct cluster *cluster, const struct message *message, client_rest *rest)
{
    struct moved_program *move = moving_find(cluster, message->move);
    *rest = (client_rest){ .key = message->key, .move = message->move, .patience_ms = message->patience_ms,
                           .within_ms = message->within_ms, .file = move ? move->file : (char *)"",
                           .action = move && move->action == ADMIN_ACTION_CHECKPOINT ? CTL_REST_CHECKPOINT
                                                                                     : CTL_REST_SUSPEND };
}

static void fill_event(struct cluster *cluster, struct vm *vm, struct message *message, client_event *event,
                       struct answer_buffers *buffers)
{
    event->number = message->number;
    event->body.kind = (client_event_kind)message->kind;
    if (message->kind == CLIENT_EVENT_MOVE) {
        fill_move(cluster, vm, message, &event->body.client_event_body_u.move, buffers);
        return;
    }
    if (message->kind == CLIENT_EVENT_REST) {
        fill_rest(cluster, message, &event->body.client_event_body_u.rest);
        return;
    }
    if (message->kind == CLIENT_EVENT_SAVE) {
        const struct moved_program *move = moving_find(cluster, message->move);
        fill_rest(cluster, message, &event->body.client_event_body_u.save.rest);
        event->body.client_event_body_u.save.base = (char *)(uintptr_t)(move ? move->base : "");
        return;
    }
    if (message->kind == CLIENT_EVENT_LIMITS) {
        moving_fill_limits(cluster, message->key, message->move, &event->body.client_event_body_u.limits);
        return;
    }
    if (message->kind == CLIENT_EVENT_GROUP) {
        moving_fill_group(cluster, message->key, message->move, &event->body.client_event_body_u.group);
        return;
    }
    if (message->kind == CLIENT_EVENT_ANSWER) {
        struct program *program = map_get_id(&vm->by_key, message->key);
        if (program && message->code == CTL_OK)
            program_fill_answer(cluster, program, &event->body.client_event_body_u.answer, buffers);
        else if (message->code != CTL_OK)
            program_refusal(message->key, message->program, message->code, message->text,
                    &event->body.client_event_body_u.answer);
        else
            program_refusal(message->key, message->program, CTL_NOT_FOUND, (char *)"the program has ended",
                    &event->body.client_event_body_u.answer);
        return;
    }
    event->body.client_event_body_u.lost = (client_notice){ message->key, message->server,
                                                            { message->code, message->text } };
}

static void answer_events(struct cluster_session *session)
{
    client_event events[CTL_MAX_ORDERS];
    client_events_result result = { .events = { 0, events } };
    struct answer_buffers *buffers =
        session->vm && session->vm->events.first ? calloc(CTL_MAX_ORDERS, sizeof *buffers) : NULL;
    memset(events, 0, sizeof events);
    if (buffers)
        for (struct message *message = session->vm->events.first; message && result.events.events_len < CTL_MAX_ORDERS;
             message = message->next) {
            u_int at = result.events.events_len++;
            fill_event(session->cluster, session->vm, message, &events[at], &buffers[at]);
        }
    call_reply(session->waiting, &result);
    free(buffers);
}

struct vm *client_vm_of(struct conn *conn)
{
    struct vm *vm = session_of(conn)->vm;
    if (vm) {
        vm->heard = loop_now(vm->cluster->loop);
        vm->last_heard = loop_time();
        vm->suspended = false;
    }
    return vm;
}

void client_handle_events(struct conn *conn, struct loop_call *call, void *object)
{
    const client_events_args *args = object;
    struct vm *vm = client_vm_of(conn);
    if (!vm) {
        call_refuse(call);
        return;
    }
    outbox_acknowledge(&vm->events, args->acknowledged);
    session_wait(session_of(conn), call, answer_events, CTL_BEAT_SECONDS * 1000);
    if (vm->events.first)
        session_wake(session_of(conn));
}

/* ---- ends ---- */

/* word: as program_detach has it, unless it was killed. */
static void program_end(struct cluster *cluster, struct program *program, const char *word, const char *why)
{
    struct server *server = program->server;
    struct event_about which = about(program);
    program_revoke(cluster, program);
    program_leaves_set(cluster, program);
    cluster_event(cluster, ADMIN_INFO, "program-ended", &which, "%.200s (pid %u): %s", program->executable,
                  program->pid, why);
    program_detach(program, program->killed ? "killed" : word, program->killed ? program->why : why);
    program_destroy(cluster, program);
    if (server)
        server_check_idle(cluster, server);
    queue_retry(cluster);
}

void client_handle_ended(struct conn *conn, struct loop_call *call, void *object)
{
    const client_ended_args *args = object;
    ctl_plain_result result = { { CTL_OK, (char *)"" } };
    struct vm *vm = client_vm_of(conn);
    if (!vm) {
        call_refuse(call);
        return;
    }
    call_reply(call, &result);
    for (u_int i = 0; i < args->keys.keys_len; i++) {
        struct program *program = map_get_id(&vm->by_key, args->keys.keys_val[i]);
        if (program)
            program_end(vm->cluster, program, "exit", "its client manager reported the end");
    }
    moving_look(vm->cluster);
}

/* ---- requests ---- */

void program_refused(struct cluster *cluster, struct program *program, ctl_code code, const char *why)
{
    struct event_about which = { .vm = program->vm->row.name };
    cluster_event(cluster, ADMIN_WARNING, "program-refused", &which, "%.200s: %.800s", program->executable, why);
    counts_note_code(cluster->counts.now.refused, code);
    program_destroy(cluster, program);
}

/* New programs of one VM: at once, and per second from then on. */
enum { VM_REQUESTS = 2000, VM_REQUESTS_PER_SECOND = 100 };

/* Whether the VM may have one more program, which is counted; if not, why in text. */
static ctl_code admit(struct vm *vm, char text[CTL_MAX_TEXT + 1])
{
    if (!rate_passes(&vm->requests, VM_REQUESTS, VM_REQUESTS_PER_SECOND))
        return (ctl_code)explain(text, CTL_BUSY, "VM %s starts more than %d programs per second: try again later",
                                 vm->row.name, VM_REQUESTS_PER_SECOND);
    if (vm->program_count >= CTL_MAX_PROGRAMS)
        return (ctl_code)explain(text, CTL_NO_ROOM, "VM %s runs %d programs, more are not served", vm->row.name,
                                 CTL_MAX_PROGRAMS);
    return CTL_OK;
}

void client_handle_request(struct conn *conn, struct loop_call *call, void *object)
{
    const client_request_args *args = object;
    struct vm *vm = client_vm_of(conn);
    struct answer_buffers buffers;
    client_answer answer;
    ctl_code code = CTL_OK;
    if (!vm) {
        call_refuse(call);
        return;
    }
    struct cluster *cluster = vm->cluster;
    struct program *program = map_get_id(&vm->by_key, args->prog.key);
    if (!program && (code = admit(vm, buffers.text)) == CTL_OK) {
        program = program_create(cluster, vm, &args->prog, 0);
        code = program ? server_seek(cluster, program, args->wait, args->wait_ms, buffers.text)
                       : (ctl_code)explain(buffers.text, CTL_INTERNAL, "no memory for another program");
    } else if (!program) {
        /* refused below */
    } else if (program->state == ADMIN_PROGRAM_LOST) {
        program->tries = 0; /* it makes its session again: recovery.c */
        program->shaken = true;
        program->avoid_count = 0;
        program->asked = loop_time();
        code = server_seek(cluster, program, args->wait, args->wait_ms, buffers.text);
    }
    if (code == CTL_OK || code == CTL_WAITING) {
        program_fill_answer(cluster, program, &answer, &buffers);
        call_reply(call, &answer);
        return;
    }
    program_refusal(args->prog.key, program ? program->id : 0, code, buffers.text, &answer);
    call_reply(call, &answer);
    struct event_about which = { .vm = vm->row.name };
    if (program) {
        program_refused(cluster, program, code, buffers.text);
    } else {
        counts_note_code(cluster->counts.now.refused, code);
        cluster_event(cluster, ADMIN_WARNING, "program-refused", &which, "%.200s: %.800s", args->prog.executable,
                      buffers.text);
    }
}

/* The further server of that number, which the program keeps for its part. Takes it. NULL: why not. */
static struct server *take_part(struct program *lead, u_int part, ctl_code *code, char *text)
{
    struct server *server = NULL;
    if (!lead || lead->state != ADMIN_PROGRAM_RUNNING)
        *code = explain(text, CTL_NOT_FOUND, "there is no such program, or it has no GPU server");
    else if (part < 1 || part > lead->more_count)
        *code = explain(text, CTL_INVALID, "program %llu has no part %u", (unsigned long long)lead->id, part);
    else if (!(server = lead->more[part - 1]))
        *code = explain(text, CTL_LOST, "part %u of program %llu has been taken, or its GPU server is lost", part,
                        (unsigned long long)lead->id);
    return server;
}

void client_handle_part(struct conn *conn, struct loop_call *call, void *object)
{
    const client_part_args *args = object;
    struct vm *vm = client_vm_of(conn);
    struct answer_buffers buffers;
    client_answer answer;
    if (!vm) {
        call_refuse(call);
        return;
    }
    struct program *program = map_get_id(&vm->by_key, args->prog.key), *lead = map_get_id(&vm->by_key, args->lead);
    ctl_code code = program ? CTL_OK : admit(vm, buffers.text);
    struct server *server = program || code != CTL_OK ? NULL : take_part(lead, args->part, &code, buffers.text);
    if (server && !(program = program_create(vm->cluster, vm, &args->prog, 0)))
        code = (ctl_code)explain(buffers.text, CTL_INTERNAL, "no memory for another program");
    if (server && program) {
        lead->more[args->part - 1] = NULL;
        server->awaited--;
        program_attach(program, server);
        program_runs(vm->cluster, program);
    }
    if (code == CTL_OK)
        program_fill_answer(vm->cluster, program, &answer, &buffers);
    else
        program_refusal(args->prog.key, 0, code, buffers.text, &answer);
    call_reply(call, &answer);
}

void client_handle_renew(struct conn *conn, struct loop_call *call, void *object)
{
    const client_renew_args *args = object;
    struct vm *vm = client_vm_of(conn);
    struct answer_buffers buffers;
    client_answer answer;
    struct program *program = vm ? map_get_id(&vm->by_key, args->key) : NULL;
    if (program) {
        program->shaken = true;
        program_fill_answer(vm->cluster, program, &answer, &buffers);
    } else {
        program_refusal(args->key, 0, CTL_NOT_FOUND, (char *)"there is no such program", &answer);
    }
    call_reply(call, &answer);
}

void client_handle_transport(struct conn *conn, struct loop_call *call, void *object)
{
    const client_transport_args *args = object;
    struct vm *vm = client_vm_of(conn);
    struct program *program = vm ? map_get_id(&vm->by_key, args->key) : NULL;
    ctl_plain_result result = { { CTL_OK, (char *)"" } };
    if (!program)
        result.status = (ctl_status){ CTL_NOT_FOUND, (char *)"there is no such program" };
    call_reply(call, &result);
    if (!program)
        return;
    free(program->mode);
    free(program->mode_why);
    program->mode = strdup(args->transport.mode);
    program->mode_why = strdup(args->transport.why);
}

/* Answers the report of a client manager. Its VM; NULL: it has none, and the call is refused. */
static struct vm *take_report(struct conn *conn, struct loop_call *call)
{
    struct vm *vm = client_vm_of(conn);
    ctl_plain_result result = { { CTL_OK, (char *)"" } };
    if (vm)
        call_reply(call, &result);
    else
        call_refuse(call);
    return vm;
}

/* A suspension into a file was ordered by the manager before this one, and is noted nowhere else. The client manager
   may have named the program while it still had its server. */
static void take_suspended(struct vm *vm, const client_moved_args *args)
{
    struct program *program = map_get_id(&vm->by_key, args->key);
    if (program && args->server == CLIENT_SUSPENDED && args->moved.stage == CTL_MOVE_MOVED &&
        !moving_find(vm->cluster, args->moved.move))
        moving_named_suspended(vm->cluster, program);
}

void client_handle_moved(struct conn *conn, struct loop_call *call, void *object)
{
    struct vm *vm = take_report(conn, call);
    if (!vm)
        return;
    take_suspended(vm, object);
    moving_said(vm->cluster, vm, object);
}

void client_handle_group(struct conn *conn, struct loop_call *call, void *object)
{
    struct vm *vm = client_vm_of(conn);
    char text[CTL_MAX_TEXT + 1] = "";
    if (!vm) {
        call_refuse(call);
        return;
    }
    const ctl_code code = moving_group(vm->cluster, vm, object, text);
    const ctl_plain_result result = { { code, text } };
    call_reply(call, &result);
}

void client_handle_progress(struct conn *conn, struct loop_call *call, void *object)
{
    struct vm *vm = take_report(conn, call);
    if (vm)
        moving_said_progress(vm->cluster, vm, object);
}

/* ---- registration ---- */

/* Whether the id is not for this VM to name: a program of another VM has it, even one that has left its client manager
   or whose client manager has not come back yet, or it was never given out and will be somebody else's. */
static bool is_anothers(const struct cluster *cluster, const struct vm *vm, uint64_t id)
{
    const struct program *program = map_get_id(&cluster->programs, id);
    const char *owner = usage_owner(cluster, id);
    return id >= cluster->next_id || (program && program->vm != vm) || (owner && strcmp(owner, vm->row.name) != 0);
}

/* One program that its client manager has. */
static void adopt(struct cluster *cluster, struct vm *vm, const client_running *running)
{
    char text[CTL_MAX_TEXT + 1] = "";
    const uint64_t id = is_anothers(cluster, vm, running->id) ? 0 : running->id; /* 0: it gets a new one */
    struct program *program = id ? map_get_id(&cluster->programs, id) : NULL;
    const bool known = program != NULL;
    struct server *server = running->server ? map_get_id(&cluster->servers, running->server) : NULL;
    if (server && server->vm != vm)
        server = NULL;
    if (known) {
        if (map_get_id(&vm->by_key, program->key) == program)
            map_remove_id(&vm->by_key, program->key);       /* named twice: the last key counts */
        map_put_id(&vm->by_key, running->prog.key, program);
        program->key = running->prog.key;
        if (running->server == CLIENT_SUSPENDED)
            moving_named_suspended(cluster, program);
        else if (server && server != program->server)
            moving_named(cluster, program, server);
    } else {
        program = program_create(cluster, vm, &running->prog, id);
        if (!program)
            return;
        program->shaken = true; /* it may have been, as another manager knew */
        if (running->server == CLIENT_SUSPENDED) {
            moving_named_suspended(cluster, program);
        } else if (server) {
            program_takes(program, server);
            loop_timer_stop(&server->timer);
            program->state = ADMIN_PROGRAM_RUNNING;
        } else if (running->server) {
            program->state = ADMIN_PROGRAM_LOST;
        } else {
            ctl_code code = server_seek(cluster, program, CLIENT_WAIT_DEFAULT, 0, text);
            if (code != CTL_OK && code != CTL_WAITING) {
                program_refuse(cluster, program, code, text);
                return;
            }
        }
    }
    if (program->state == ADMIN_PROGRAM_LOST)
        program_notify(cluster, program, CLIENT_EVENT_LOST, CTL_LOST, "its GPU server is lost");
    else if (!running->server)
        program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
}

/* Those that this manager does not know are new ones, and as many of them are taken as a VM may start. Informs it of
   the others. */
static void adopt_all(struct cluster *cluster, struct vm *vm, const client_register_args *args)
{
    char text[CTL_MAX_TEXT + 1] = "";
    unsigned refused = 0;
    for (u_int i = 0; i < args->programs.programs_len; i++) {
        const client_running *running = &args->programs.programs_val[i];
        const struct program *known = map_get_id(&cluster->programs, running->id);
        ctl_code code = known && known->vm == vm ? CTL_OK : admit(vm, text);
        if (code == CTL_OK) {
            adopt(cluster, vm, running);
            continue;
        }
        struct program unknown = { .vm = vm, .key = running->prog.key };
        program_notify(cluster, &unknown, running->server ? CLIENT_EVENT_LOST : CLIENT_EVENT_ANSWER, code, text);
        refused++;
    }
    struct event_about which = { .vm = vm->row.name };
    if (refused)
        cluster_event(cluster, ADMIN_WARNING, "program-refused", &which, "%u programs that it named: %.900s", refused,
                      text);
}

/* A program that was frozen while it was suspended, and has been restored on this VM. */
void client_handle_thawed(struct conn *conn, struct loop_call *call, void *object)
{
    const client_running *running = object;
    struct vm *vm = client_vm_of(conn);
    char text[CTL_MAX_TEXT + 1] = "";
    if (!vm) {
        call_refuse(call);
        return;
    }
    struct program *program = map_get_id(&vm->by_key, running->prog.key);
    client_answer answer = { .status = { CTL_OK, text }, .key = running->prog.key };
    if (running->server != CLIENT_SUSPENDED || running->id || program)
        answer.status.code = explain(text, CTL_INVALID, "this program is no new one that is suspended");
    else if ((answer.status.code = admit(vm, text)) == CTL_OK)
        adopt(vm->cluster, vm, running);
    program = answer.status.code == CTL_OK ? map_get_id(&vm->by_key, running->prog.key) : NULL;
    answer.prog = program ? program->id : 0;
    call_reply(call, &answer);
}

static void end_unnamed(struct cluster *cluster, struct vm *vm, const client_register_args *args)
{
    struct map named = { 0 };
    for (u_int i = 0; i < args->programs.programs_len; i++)
        if (args->programs.programs_val[i].id)
            map_put_id(&named, args->programs.programs_val[i].id, vm);
    for (struct program *program = vm->programs, *next; program; program = next) {
        next = program->vm_next;
        if (!map_get_id(&named, program->id))
            program_end(cluster, program, "exit", "its client manager does not know it any more");
    }
    map_free(&named);
}

void client_handle_register(struct conn *conn, struct loop_call *call, void *object)
{
    const client_register_args *args = object;
    struct vm *vm = client_vm_of(conn);
    if (!vm) {
        call_refuse(call);
        return;
    }
    struct cluster *cluster = vm->cluster;
    snprintf(vm->machine, sizeof vm->machine, "%s", conn_peer_machine(conn));
    client_register_result result = { .status = { CTL_OK, (char *)"" }, .vm = vm->row.name, .sms = vm->row.sms,
                                      .memory = vm->row.memory_mib << 20 };
    struct event_about which = { .vm = vm->row.name };
    call_reply(call, &result);
    loop_timer_stop(&vm->silence);
    outbox_clear(&vm->events);
    cluster_event(cluster, ADMIN_INFO, "client-joined", &which, "%s (%s, %s) runs %u programs", args->host,
                  conn_peer(conn), session_of(conn)->hello.software, args->programs.programs_len);
    end_unnamed(cluster, vm, args);
    map_free(&vm->by_key);                      /* a client manager that began anew counts anew */
    adopt_all(cluster, vm, args);
    programs_know_parts(vm);
    const bool last = vm_came(cluster, vm);
    vm->named = true;
    usage_named(cluster, vm);
    moving_client_back(cluster, vm);
    if (last)
        programs_gather(cluster);
    for (struct server *server = vm->servers, *next; server; server = next) {
        next = server->vm_next;
        server_check_idle(cluster, server);
    }
}

/* ---- silence ---- */

static void silence_over(struct loop_timer *timer, void *context)
{
    struct vm *vm = context;
    struct cluster *cluster = vm->cluster;
    bool still = false;
    (void)timer;
    for (struct program *program = vm->programs, *next; program; program = next) {
        next = program->vm_next;
        if (program->server && program->server->workers && program->server->node->state == ADMIN_NODE_UP)
            still = true;                       /* its server serves somebody: only the client manager is away */
        else
            program_end(cluster, program, "silent", "its client manager has been silent for too long");
    }
    for (struct server *server = vm->servers, *next; server; server = next) {
        next = server->vm_next;
        server_check_idle(cluster, server);
        still |= server->program_count > 0;
    }
    if (still)
        client_silence_begin(cluster, vm);
}

/* A VM that is paused keeps its connections, and whatever network lies between may acknowledge for it. What its
   programs hold stays for a while: it may go on. Afterwards it finds its sessions gone. */
static void reclaim(struct cluster *cluster, struct vm *vm, double silent)
{
    char why[128];
    snprintf(why, sizeof why, "VM %.40s has been silent for %.0f s", vm->row.name, silent);
    for (struct server *server = vm->servers, *next; server; server = next) {
        next = server->vm_next;
        server_stop(cluster, server, CTL_LOST, why);
    }
    conn_close(vm->session->conn, "the VM is silent");
}

void client_look(struct cluster *cluster, struct vm *vm)
{
    double silent = (double)(loop_now(cluster->loop) - vm->heard) / 1000;
    struct event_about which = { .vm = vm->row.name };
    if (!vm->session || silent < cluster->values->suspended)
        return;
    if (!vm->suspended)
        cluster_event(cluster, ADMIN_WARNING, "vm-suspended", &which, "it has been silent for %.0f s", silent);
    vm->suspended = true;
    if (silent >= cluster->values->reclaimed)
        reclaim(cluster, vm, silent);
}

void client_silence_begin(struct cluster *cluster, struct vm *vm)
{
    if (vm->programs || vm->servers)
        loop_timer_start(cluster->loop, &vm->silence, (uint64_t)(cluster->values->client_lost * 1000), silence_over,
                         vm);
}

void client_session_gone(struct cluster *cluster, struct vm *vm)
{
    struct event_about which = { .vm = vm->row.name };
    vm->named = false;
    outbox_clear(&vm->events);
    if (cluster->stopping)
        return;
    if (vm->programs || vm->servers)
        cluster_event(cluster, ADMIN_WARNING, "client-away", &which,
                      "its client manager is not connected; %zu programs go on", vm->program_count);
    client_silence_begin(cluster, vm);
}
