/*
 * moves.c: programs that are to go on at another GPU server, as the cluster manager orders.
 *
 *   OFFERED --the library asks--> TAKEN --it asks for permission--> COMMITTED
 *      \\_________________________________\\____it says how it ended_____\\__> ENDED, until the cluster manager knows
 *
 * The library decides whether the program moves. Its permission is the last moment at which a move can be called off.
 * A library looks every two seconds whether anything has come from us, so it is nudged until it asks.
 */
#include <stdio.h>
#include <string.h>

#include "control-managers/client-manager/manager.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { NUDGE_MS = 500, RESUME_MS = 15000 };

/* ---- the VM was removed ---- */

/* Nobody resumes it any more. One without a connection asks when it has one. */
static void nudge_removed(struct loop_timer *timer, void *context)
{
    struct client_program *program = context;
    if (!program->removed || program->server != CLIENT_SUSPENDED || !program->conn)
        return;
    conn_nudge(program->conn);
    loop_timer_start(program->manager->loop, timer, NUDGE_MS, nudge_removed, program);
}

static void tell_removed(struct client_program *program) { nudge_removed(&program->move.nudge, program); }

void move_vm_removed(struct client_program *program)
{
    log_warning("event=vm-removed program=%llu pid=%u server=%llu", (unsigned long long)program->key, program->pid,
                (unsigned long long)program->server);
    program->removed = true;
    state_save(program->manager);
    tell_removed(program);
}

/* It asks what it is to do. A resumption that it is carrying out it reports before. */
static bool answer_removed(struct client_program *program, struct loop_call *call)
{
    static char gone[] = "its VM was removed";
    const ctl_status denied = { CTL_DENIED, gone };
    const program_move_result result = { .status = denied };
    const program_answer answer = { .status = denied };
    const enum client_move_state state = program->move.state;
    if (!program->removed || program->server != CLIENT_SUSPENDED || state == MOVE_TAKEN || state == MOVE_COMMITTED)
        return false;
    loop_timer_stop(&program->move.nudge);
    call_reply(call, &result);
    program_set_answer(program, &answer);       /* it asks why when its session has ended */
    return true;
}

/* ---- its end ---- */

static void ends(struct client_program *program, ctl_move_stage stage, ctl_code code, const char *text)
{
    struct program_move *move = &program->move;
    loop_timer_stop(&move->nudge);
    if (stage == CTL_MOVE_REFUSED)
        group_left(program, text);
    move->state = MOVE_ENDED;
    snprintf(move->text, sizeof move->text, "%s", text);
    move->outcome.move = move->id;
    move->outcome.stage = stage;
    move->outcome.status = (ctl_status){ code, move->text };
    log_info("event=program-%s program=%llu pid=%u move=%llu server=%llu why=\"%s\"",
             stage == CTL_MOVE_MOVED ? "moved" : "stays", (unsigned long long)program->key, program->pid,
             (unsigned long long)move->id, (unsigned long long)program->server, text);
    cluster_moved(program, &move->outcome);
    tell_removed(program);
}

void move_forget(struct client_program *program)
{
    loop_timer_stop(&program->move.nudge);
    protocol_free((xdrproc_t)xdr_program_move_result, &program->move.order);
    protocol_free((xdrproc_t)xdr_program_save_result, &program->move.save);
    program->move = (struct program_move){ .state = MOVE_NONE };
}

void move_told(struct client_program *program, uint64_t id)
{
    group_decision_forget(program->manager, id);
    if (program->move.state == MOVE_ENDED && program->move.id == id)
        program->move.state = MOVE_NONE; /* the id stays: the same order may come once more, and is known by it */
}

void move_tell_again(struct client_program *program)
{
    static const ctl_status fine = { CTL_OK, NULL };
    const ctl_moved taken = { .move = program->move.id, .stage = CTL_MOVE_TAKEN, .status = fine };
    if (program->move.state == MOVE_ENDED)
        cluster_moved(program, &program->move.outcome);
    else if (program->move.state > MOVE_OFFERED)
        cluster_moved(program, &taken);
}

/* ---- orders ---- */

/* Nobody but the library of a program of before we began knows whether it has moved, so it is waited for. */
static void gave_up(struct loop_timer *timer, void *context)
{
    struct client_program *program = context;
    (void)timer;
    ends(program, CTL_MOVE_REFUSED, CTL_NOT_SUPPORTED,
         "the client manager was started again after the program, and its library has not spoken to it since");
}

static void nudge(struct loop_timer *timer, void *context)
{
    struct client_program *program = context;
    if (!program->conn) {
        loop_timer_start(program->manager->loop, timer, RESUME_MS, gave_up, program);
        return;
    }
    conn_nudge(program->conn);
    loop_timer_start(program->manager->loop, timer, NUDGE_MS, nudge, program);
}

/* A program that has links keeps its GPU server. CTL_OK: it has none, as far as is known here. */
static ctl_code check_links(const struct client_program *program, char *text)
{
    return program->linked
               ? (ctl_code)explain(text, CTL_NOT_SUPPORTED,
                                   "the program has links between GPU servers, and such a program stays where it is")
               : CTL_OK;
}

/* Why this program cannot move. CTL_OK: it can. */
static ctl_code check(const struct client_program *program, char *text)
{
    const bool limited = program->limits.move == program->move.id && program->limits.strict;
    if (check_links(program, text) != CTL_OK)
        return CTL_NOT_SUPPORTED;
    if (program->conn && program->minor < CLIENT_MINOR_MOVES)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the program was started with Flyt's library of an earlier release, which does not move");
    if (program->conn && program->minor < CLIENT_MINOR_PROGRESS && limited)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the program was started with Flyt's library of an earlier release, which keeps to no bandwidth"
                       " and no downtime");
    if (program->state != PROGRAM_RUNNING)
        return explain(text, CTL_BUSY, "the program uses no GPU server at present");
    return CTL_OK;
}

/* Whether PROGRAM_REST cannot say all of it. */
static bool needs_save(const struct client_program *program, const program_rest_result *rest, const char *base)
{
    const bool suspends = rest->action == CTL_REST_SUSPEND;
    return *base || (suspends ? *rest->file != '\0' : program->manager->seals);
}

static ctl_code old_library(char *text)
{
    return explain(text, CTL_NOT_SUPPORTED,
                   "the program was started with Flyt's library of an earlier release, which knows no encrypted "
                   "checkpoints, none of changes, and no file for a suspended program");
}

static ctl_code check_rest(const struct client_program *program, const program_save_result *save, char *text)
{
    if (check_links(program, text) != CTL_OK)
        return CTL_NOT_SUPPORTED;
    if (program->conn && program->minor < CLIENT_MINOR_RESTS)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the program was started with Flyt's library of an earlier release, which cannot be suspended");
    if (program->conn && program->minor < CLIENT_MINOR_SAVES && needs_save(program, &save->rest, save->base))
        return old_library(text);
    if (program->server == CLIENT_SUSPENDED)
        return explain(text, CTL_BUSY, "the program is suspended");
    return check(program, text);
}

/* The order has come before, or the library carries it out. What a library says of a move that there is not counts
   for nothing. */
static bool is_known(const struct program_move *move, uint64_t id)
{
    return move->id == id && (move->state != MOVE_NONE || move->ordered || move->resumed);
}

static void refuse_unknown(struct manager *manager, uint64_t key, uint64_t move, const char *why)
{
    struct client_program nobody = { .manager = manager, .key = key };
    const ctl_moved moved = { .move = move, .stage = CTL_MOVE_REFUSED,
                              .status = { CTL_NOT_FOUND, (char *)(uintptr_t)why } };
    cluster_moved(&nobody, &moved);
}

static void call_off(struct client_program *program, const client_move *order)
{
    struct program_move *move = &program->move;
    bool known = move->id == order->move && move->state != MOVE_NONE;
    if (!known && !program->conn) {
        move_forget(program);
        move->id = order->move;
        move->cancelled = true;
        move->state = MOVE_OFFERED;
        nudge(&move->nudge, program);
        return;
    }
    if (!known) {
        refuse_unknown(program->manager, order->key, order->move, "the client manager does not know of this move");
        return;
    }
    if (move->state == MOVE_ENDED) {
        cluster_moved(program, &move->outcome);
        return;
    }
    if (move->state == MOVE_COMMITTED)
        return;                         /* too late: what comes of it is reported */
    move->cancelled = true;
    if (program->conn)
        ends(program, CTL_MOVE_REFUSED, CTL_DENIED, "it was called off");
}

void move_resumed(struct client_program *program, uint64_t id)
{
    struct program_move *move = &program->move;
    bool waits = move->state == MOVE_OFFERED;
    if (id && (move->id == id || move->state == MOVE_NONE)) {
        loop_timer_stop(&move->nudge);
        move->id = id;
        move->resumed = true;
        if (waits || move->state == MOVE_NONE)
            move->state = MOVE_TAKEN;
        move_tell_again(program);
    } else if (waits && move->cancelled && move->order.grant.server != program->server) {
        /* A move that it has carried out it reports itself, soon: else this is how it ended. */
        loop_timer_start(program->manager->loop, &move->nudge, NUDGE_MS, gave_up, program);
    } else if (waits) {
        nudge(&move->nudge, program);
    }
    tell_removed(program);
}

/* The manager has ordered a move once more, with another ticket, for the library's next try. */
static void take_ticket(struct program_move *move, const program_move_result *order)
{
    program_move_result copy;
    const bool wanted = (move->state == MOVE_OFFERED || move->state == MOVE_TAKEN) && !move->save.rest.action;
    if (!wanted || !protocol_copy((xdrproc_t)xdr_program_move_result, &copy, sizeof copy, order))
        return;
    protocol_free((xdrproc_t)xdr_program_move_result, &move->order);
    move->order = copy;
}

void move_take(struct manager *manager, const client_move *given)
{
    struct client_program *program = program_find(manager, given->key);
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_uri uris[CTL_MAX_ADDRESSES];
    program_move_result order = {
        .move = given->move, .patience_ms = given->patience_ms, .within_ms = given->within_ms
    };
    if (!program || program->ended) {
        refuse_unknown(manager, given->key, given->move, "the program has ended");
        return;
    }
    struct program_move *move = &program->move;
    if (given->cancel) {
        call_off(program, given);
        return;
    }
    bool safe = program_safe_addresses(manager, &given->grant, &order.grant, uris);
    if (is_known(move, given->move)) {
        move->ordered = true;
        if (safe)
            take_ticket(move, &order);
        if (move->state != MOVE_NONE)
            move_tell_again(program);
        return;
    }
    move_forget(program);
    move->id = given->move;
    move->ordered = true;
    ctl_code code = check(program, text);
    if (code == CTL_OK && !safe)
        code = explain(text, CTL_DENIED, "the GPU server on node %s takes no TLS, and this VM has certificates",
                       given->grant.node);
    if (code == CTL_OK && !protocol_copy((xdrproc_t)xdr_program_move_result, &move->order, sizeof move->order, &order))
        code = explain(text, CTL_INTERNAL, "no memory");
    if (code != CTL_OK) {
        ends(program, CTL_MOVE_REFUSED, code, text);
        return;
    }
    log_info("event=program-moves program=%llu pid=%u move=%llu server=%llu node=%s", (unsigned long long)program->key,
             program->pid, (unsigned long long)move->id, (unsigned long long)given->grant.server, given->grant.node);
    move->state = MOVE_OFFERED;
    nudge(&move->nudge, program);
}

void move_take_limits(struct manager *manager, const client_limits *given)
{
    struct client_program *program = program_find(manager, given->key);
    if (program && !program->ended)
        program->limits = *given;
}

/* The order of a move that the library was carrying out when we began comes once more: the library had it from the
   client manager before, and may have said already that it is suspended (move_may_have_suspended). */
static void learn(struct client_program *program, const program_save_result *save)
{
    struct program_move *move = &program->move;
    const bool ended = move->state == MOVE_ENDED || move->state == MOVE_NONE;
    const bool over = ended && move->outcome.move == move->id && move->outcome.stage == CTL_MOVE_MOVED;
    if (move->save.rest.action || !move->resumed ||
        !protocol_copy((xdrproc_t)xdr_program_save_result, &move->save, sizeof move->save, save))
        return;
    if (!over || save->rest.action != CTL_REST_SUSPEND || program->server == CLIENT_SUSPENDED)
        return;
    program->server = CLIENT_SUSPENDED;
    state_save(program->manager);
}

bool move_may_have_suspended(const struct client_program *program)
{
    const struct program_move *move = &program->move;
    return move->resumed && !move->ordered && !move->save.rest.action && move->outcome.move == move->id &&
           move->outcome.stage == CTL_MOVE_MOVED;
}

void move_take_save(struct manager *manager, const client_save *order)
{
    const client_rest *given = &order->rest;
    struct client_program *program = program_find(manager, given->key);
    char text[CTL_MAX_TEXT + 1] = "";
    program_save_result save = { .rest = { .move = given->move, .patience_ms = given->patience_ms,
                                           .within_ms = given->within_ms, .action = given->action,
                                           .file = given->file },
                                 .base = order->base };
    if (!program || program->ended) {
        refuse_unknown(manager, given->key, given->move, "the program has ended");
        return;
    }
    struct program_move *move = &program->move;
    if (is_known(move, given->move)) {
        learn(program, &save);
        if (move->state != MOVE_NONE)
            move_tell_again(program);
        return;
    }
    move_forget(program);
    move->id = given->move;
    move->ordered = true;
    ctl_code code = check_rest(program, &save, text);
    if (code == CTL_OK && !protocol_copy((xdrproc_t)xdr_program_save_result, &move->save, sizeof move->save, &save))
        code = explain(text, CTL_INTERNAL, "no memory");
    if (code != CTL_OK) {
        ends(program, CTL_MOVE_REFUSED, code, text);
        return;
    }
    log_info("event=program-rests program=%llu pid=%u move=%llu action=%s", (unsigned long long)program->key,
             program->pid, (unsigned long long)move->id,
             given->action == CTL_REST_SUSPEND ? "suspend" : "checkpoint");
    move->state = MOVE_OFFERED;
    nudge(&move->nudge, program);
}

/* ---- the library ---- */

static void taken(struct client_program *program, struct loop_call *call, const void *result)
{
    bool first = program->move.state == MOVE_OFFERED;
    loop_timer_stop(&program->move.nudge);
    if (first)
        program->move.state = MOVE_TAKEN;
    call_reply(call, result);
    if (first)
        move_tell_again(program);
}

void move_handle_asked(struct conn *conn, struct loop_call *call, void *object)
{
    const program_move_args *args = object;
    struct client_program *program = program_of(conn);
    static char none[] = "there is no move", off[] = "it was called off";
    program_move_result result = { .status = { CTL_NOT_FOUND, none } };
    struct program_move *move = program ? &program->move : NULL;
    if (!args->move && program && answer_removed(program, call))
        return;
    if (args->move && move && move->id == args->move && move->cancelled) {
        result.status = (ctl_status){ CTL_DENIED, off };
    } else if (move && move->state >= MOVE_OFFERED && move->state <= MOVE_COMMITTED && args->move == move->id &&
               !group_open(program)) {
        result = move->order;
        result.status.code = CTL_OK;
        result.move = move->id;
        taken(program, call, &result);
        move->state = MOVE_COMMITTED;
        return;
    } else if (move && move->state >= MOVE_OFFERED && move->state <= MOVE_COMMITTED && !args->move &&
               !move->save.rest.action) {
        taken(program, call, &move->order);
        return;
    }
    call_reply(call, &result);
}

static bool is_to_rest(const struct client_program *program)
{
    return program && program->move.save.rest.action && program->move.state >= MOVE_OFFERED &&
           program->move.state <= MOVE_COMMITTED;
}

static char no_file[1], nothing_to_do[] = "there is nothing to do";
static const program_rest_result no_rest = { .status = { CTL_NOT_FOUND, nothing_to_do }, .action = CTL_REST_SUSPEND,
                                             .file = no_file };

void move_handle_rest(struct conn *conn, struct loop_call *call, void *object)
{
    struct client_program *program = program_of(conn);
    char text[CTL_MAX_TEXT + 1];
    (void)object;
    if (is_to_rest(program) && needs_save(program, &program->move.save.rest, program->move.save.base)) {
        call_reply(call, &no_rest); /* the order is of before we began, and the library older than it */
        ends(program, CTL_MOVE_REFUSED, old_library(text), text);
    } else if (is_to_rest(program)) {
        taken(program, call, &program->move.save.rest);
    } else {
        call_reply(call, &no_rest);
    }
}

/* The key of the file is for the program, and lies nowhere here. */
void move_handle_save(struct conn *conn, struct loop_call *call, void *object)
{
    struct client_program *program = program_of(conn);
    const struct manager *manager = program ? program->manager : NULL;
    struct checkpoint_seal seal;
    program_save_result result = { .rest = no_rest, .base = no_file };
    (void)object;
    if (!is_to_rest(program)) {
        call_reply(call, &result);
        return;
    }
    result = program->move.save;
    if (result.rest.action == CTL_REST_CHECKPOINT && manager->seals) {
        if (!checkpoint_seal_make(manager->checkpoint_key, &seal)) {
            result.rest = no_rest;
            call_reply(call, &result);
            ends(program, CTL_MOVE_REFUSED, CTL_INTERNAL, "no key could be made for the file");
            return;
        }
        result.key.key_len = sizeof seal.key;
        result.key.key_val = (char *)seal.key;
        result.wrapped.wrapped_len = sizeof seal.wrapped;
        result.wrapped.wrapped_val = (char *)seal.wrapped;
    }
    taken(program, call, &result);
    checkpoint_key_wipe(&seal, sizeof seal);
}

void move_handle_progress(struct conn *conn, struct loop_call *call, void *object)
{
    const ctl_progress *progress = object;
    struct client_program *program = program_of(conn);
    static char none[] = "there is no such move", off[] = "it was called off", fine[] = "";
    program_progress_result result = { .status = { CTL_NOT_FOUND, none } };
    const struct program_move *move = program ? &program->move : NULL;
    bool same = move && move->id == progress->move && move->state != MOVE_NONE;
    if (same && move->cancelled) {
        result.status = (ctl_status){ CTL_DENIED, off };
    } else if (same && move->state != MOVE_ENDED) {
        const client_limits *limits = &program->limits;
        result.status = (ctl_status){ CTL_OK, fine };
        if (limits->move == move->id) {
            result.bandwidth = limits->bandwidth;
            result.downtime_ms = limits->downtime_ms;
            result.rate = limits->rate;
            result.bridged = limits->bridged;
        }
    }
    call_reply(call, &result);
    if (result.status.code == CTL_OK) {
        program->progress = *progress;
        cluster_progress(program);
    }
}

void move_handle_moved(struct conn *conn, struct loop_call *call, void *object)
{
    const ctl_moved *moved = object;
    struct client_program *program = program_of(conn);
    struct program_move *move = program ? &program->move : NULL;
    ctl_plain_result result = { .status = { CTL_OK, (char *)(uintptr_t)"" } };
    call_reply(call, &result);
    if (!move || move->state == MOVE_ENDED || (move->state != MOVE_NONE && move->id != moved->move))
        return;
    if (move->id != moved->move)
        move->ordered = move->resumed = false;
    move->id = moved->move;
    if (moved->stage == CTL_MOVE_MOVED) {
        if (move->save.rest.action == CTL_REST_SUSPEND)
            program->server = CLIENT_SUSPENDED;
        else if (move->order.grant.server) /* else it has said so when it came back */
            program->server = move->order.grant.server;
        program->state = PROGRAM_RUNNING;
        move->outcome.outage_us = moved->outage_us;
        move->outcome.bytes = moved->bytes;
        state_save(program->manager);
        ends(program, CTL_MOVE_MOVED, CTL_OK, "");
    } else if (moved->stage == CTL_MOVE_REFUSED) {
        ends(program, CTL_MOVE_REFUSED, moved->status.code > CTL_WAITING ? moved->status.code : CTL_NOT_SUPPORTED,
             moved->status.text);
    }
}
