/*
 * manager_moves.c: what the client manager wants of the session. It orders moves to another server, suspensions and
 * checkpoints (manager_prot.x); the thread of mover.c asks for an order, reports how far it is, and what came of it.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/rpc/manager_prot.h"
#include "attach.h"
#include "manager_state.h"

/* How far a move is, as it was reported last: the mover's thread. Outstanding at manager_progress_at. */
static struct {
    struct rpc_call call;
    manager_progress_result result;
} progress;

bool manager_has_news(void)
{
    return manager && manager_minor >= MANAGER_MINOR_MOVES && rpc_client_has_news(manager);
}

static bool ask_move(uint64_t number, manager_move_result *result)
{
    manager_move_args args = { .move = number };
    memset(result, 0, sizeof *result);
    return manager && manager_call(MANAGER_MOVE, (void *)(uintptr_t)xdr_manager_move_args, &args,
                                   (void *)(uintptr_t)xdr_manager_move_result, result);
}

/* One of an earlier release says less, and the rest is empty. */
static bool ask_save(manager_save_result *result)
{
    static char nothing[1];
    memset(result, 0, sizeof *result);
    const unsigned minor = manager ? manager_minor : 0;
    const bool saves = minor >= MANAGER_MINOR_SAVES;
    return minor >= MANAGER_MINOR_RESTS &&
           manager_call(saves ? MANAGER_SAVE : MANAGER_REST, (void *)(uintptr_t)xdr_void, nothing,
                        saves ? (void *)(uintptr_t)xdr_manager_save_result
                              : (void *)(uintptr_t)xdr_manager_rest_result,
                        saves ? (void *)result : (void *)&result->rest) &&
           result->rest.status.code == MANAGER_OK && result->rest.move;
}

static void save_free(manager_save_result *result)
{
    checkpoint_key_wipe(result->key.key_val, result->key.key_len);
    xdr_free((xdrproc_t)xdr_manager_save_result, result);
}

static bool take_save(struct manager_move *out)
{
    manager_save_result result;
    bool wanted = ask_save(&result);
    if (wanted) {
        const manager_rest_result *rest = &result.rest;
        out->number = rest->move;
        out->patience_ms = rest->patience_ms;
        out->within_ms = rest->within_ms;
        out->action = rest->action == MANAGER_REST_CHECKPOINT ? MANAGER_ACTION_CHECKPOINT : MANAGER_ACTION_SUSPEND;
        out->file = strdup(rest->file);
        out->base = strdup(result.base ? result.base : "");
        out->sealed = result.key.key_len == sizeof out->seal.key && result.wrapped.wrapped_len == CHECKPOINT_WRAPPED;
    }
    if (out->sealed) {
        memcpy(out->seal.key, result.key.key_val, sizeof out->seal.key);
        memcpy(out->seal.wrapped, result.wrapped.wrapped_val, sizeof out->seal.wrapped);
    }
    save_free(&result);
    return wanted;
}

void manager_move_free(struct manager_move *move)
{
    manager_place_free(&move->place);
    free(move->file);
    free(move->base);
    free(move->ended);
    checkpoint_key_wipe(&move->seal, sizeof move->seal);
}

bool manager_ask_move(struct manager_move *out)
{
    manager_move_result result;
    memset(out, 0, sizeof *out);
    const bool answered = ask_move(0, &result), denied = answered && result.status.code == MANAGER_DENIED;
    const bool wanted = answered && result.status.code == MANAGER_OK && result.move;
    if (denied)
        out->ended = strdup(result.status.text);
    if (wanted) {
        out->number = result.move;
        out->patience_ms = result.patience_ms;
        out->within_ms = result.within_ms;
        manager_take_grant(&result.grant, &out->place);     /* without an address the move is refused */
    }
    xdr_free((xdrproc_t)xdr_manager_move_result, &result);
    return wanted || (!denied && take_save(out));
}

static void take_ticket(struct manager_move *move, const manager_grant *grant)
{
    struct manager_place place = { 0 };
    const bool another = grant->ticket.ticket_len != move->place.ticket_size || !move->place.ticket ||
                         memcmp(grant->ticket.ticket_val, move->place.ticket, move->place.ticket_size) != 0;
    if (another && grant->ticket.ticket_len && manager_take_grant(grant, &place)) {
        manager_place_free(&move->place);
        move->place = place;
    } else {
        manager_place_free(&place);
    }
}

bool manager_move_is_wanted(struct manager_move *move)
{
    const uint64_t number = move->number;
    manager_move_result result;
    manager_save_result save;
    bool answered = ask_move(0, &result), same = result.status.code == MANAGER_OK && result.move == number;
    if (answered && same)
        take_ticket(move, &result.grant);
    xdr_free((xdrproc_t)xdr_manager_move_result, &result);
    if (!answered || same)
        return true;
    same = ask_save(&save) && save.rest.move == number;
    save_free(&save);
    return same;
}

/* ---- how far a move is ---- */

/* Has the answer, which may have to be waited for. */
static void progress_take(struct move_limits *limits)
{
    const manager_progress_result *result = &progress.result;
    bool answered = rpc_client_wait(manager_progress_at, &progress.call) == RPC_SUCCESS;
    manager_progress_at = NULL;
    if (answered && result->status.code == MANAGER_OK) {
        limits->bandwidth = result->bandwidth;
        limits->downtime_ms = result->downtime_ms;
        limits->rate = result->rate;
        limits->bridged = result->bridged;
    }
    limits->called_off |= answered && result->status.code == MANAGER_DENIED;
    xdr_free((xdrproc_t)xdr_manager_progress_result, &progress.result);
}

void manager_report_progress(const struct manager_progress_note *note, bool waits, struct move_limits *limits)
{
    manager_progress args = { .move = note->number, .phase = (int)note->phase, .done = note->done,
                              .total = note->total, .rate = note->rate };
    struct move_limits of_before = { 0 };
    if (manager_progress_at && waits)
        progress_take(&of_before);                    /* of another move, it may be */
    else if (manager_progress_at && rpc_client_has_news(manager_progress_at))
        progress_take(limits);
    if (!manager || manager_minor < MANAGER_MINOR_PROGRESS || manager_progress_at)
        return;
    memset(&progress.result, 0, sizeof progress.result);
    progress.call = (struct rpc_call){ .procedure = MANAGER_PROGRESS,
                                       .encode = (xdrproc_t)xdr_manager_progress,
                                       .args = &args,
                                       .decode = (xdrproc_t)xdr_manager_progress_result,
                                       .result = &progress.result };
    if (rpc_client_submit(manager, &progress.call) != RPC_SUCCESS)
        return;
    manager_progress_at = manager;
    if (waits)
        progress_take(limits);
}

bool manager_permits_move(uint64_t number)
{
    manager_move_result result;
    bool answered = ask_move(number, &result);
    if (!answered && manager_come_back(number))
        answered = ask_move(number, &result);
    bool permitted = result.status.code == MANAGER_OK;
    xdr_free((xdrproc_t)xdr_manager_move_result, &result);
    return !answered || permitted;
}

/* The status with which an administrator's command ends, for an error of the core. */
static int status_of(int code)
{
    return code == CORE_OK              ? MANAGER_OK
           : code == CORE_NOT_SUPPORTED ? MANAGER_NOT_SUPPORTED
           : code == CORE_NOT_READY     ? MANAGER_BUSY
           : code == CORE_OUT_OF_MEMORY ? MANAGER_NO_ROOM
                                        : MANAGER_LOST;
}

bool manager_tell_moved(uint64_t number, int code, const char *why, uint64_t outage_us, uint64_t bytes)
{
    manager_plain_result result;
    manager_moved args = { .move = number, .stage = code ? MANAGER_MOVE_REFUSED : MANAGER_MOVE_MOVED,
                           .status = { status_of(code), (char *)(uintptr_t)why },
                           .outage_us = outage_us,
                           .bytes = bytes };
    memset(&result, 0, sizeof result);
    bool heard = manager && manager_call(MANAGER_MOVED, (void *)(uintptr_t)xdr_manager_moved, &args,
                                         (void *)(uintptr_t)xdr_manager_plain_result, &result);
    xdr_free((xdrproc_t)xdr_manager_plain_result, &result);
    return heard;
}
