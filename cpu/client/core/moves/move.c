/*
 * move.c: the session moves to another server, and the program goes on with the handles and pointers that it has.
 *
 * It is possible because the client chose the ids and addresses: to make everything again at the new server is to say
 * once more what was said to the old one. The steps, each for all kinds of the table (kinds.h):
 *   1. the new server is reached, and what is known not to move is named: the program goes on meanwhile. So it does
 *      while most of its memory is copied, if its server knows what is written after that (move_prepare.c)
 *   2. it comes to rest: the gate shuts (api_gate.h), so that no thread is inside a call; all work ends, and everything
 *      that this process has on its way to the old server has arrived. What does not end within the limit is named,
 *      and the gate opens again. The old server and each kind say whether they can go (save); nothing has been changed
 *      up to here
 *   3. the kinds are made again at the new server (restore), and their contents copied
 *   4. the session is the new server's (moved), and the old one's connection ends
 * When something fails before the fourth step, the new server's connection ends instead: the old server has everything
 * as it was.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_gate.h"
#include "cpu/client/core/api_stream.h"
#include "cpu/client/core/code/code.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/notify.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/copy/lanes.h"
#include "cpu/client/core/memory/event_shared.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/moves/recover.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/wire.h"

static struct move_link *current;            /* of the server where the session is; NULL: it has never moved */

void move_link_lost(void *context, const char *reason)
{
    struct move_link *link = context;
    if (atomic_load(&link->adopted))
        session_lost(&core_session, reason);
}

/* ---- 3. made again ---- */

static int kinds_restore(struct move *move)
{
    int code = CORE_OK;
    if (move->steps == MOVE_ACROSS && !move->asked) {
        move_ask_bridge(move);
        if (!move->adopts)
            move_direct_begin(move);
    }
    move_go(move, MOVE_TARGET);
    for (int kind = 0; kind < KINDS && !code; kind++) {
        code = client_kinds[kind].restore ? client_kinds[kind].restore(move) : CORE_OK;
        if (code)
            move_refuse(move, code, "%s could not be made again (error %d)", client_kinds[kind].name, code);
    }
    return code;
}

/* Both steps, or one of them: move->steps. */
int move_contents(struct move *move)
{
    const enum move_end end = move->steps & MOVE_IN ? MOVE_TARGET : MOVE_SOURCE;
    int code = CORE_OK;
    move_pace_begin(move, MOVE_COPIES, move_size(move, move->adopts));
    for (int kind = 0; kind < KINDS && !code; kind++) {
        move_go(move, end);
        move->kind = (unsigned)kind;
        code = client_kinds[kind].contents ? client_kinds[kind].contents(move) : CORE_OK;
        if (code)
            move_refuse(move, code, "the contents of %s could not be copied (error %d)", client_kinds[kind].name, code);
        if (kind == KIND_ALLOCATION)
            move_hold("copying");
    }
    move_go(move, end);
    int ended = move_stream_end(move);
    return code ? code : ended;
}

/* At rest, in a rehearsal: no server is there, and the calls become a journal. */
int move_note(struct move *move)
{
    const enum move_steps steps = move->steps;
    move_source_note(move);               /* the session may have been made again since it came to rest */
    move->at[MOVE_TARGET] = move->at[MOVE_SOURCE];
    move->steps = MOVE_IN;
    int code = kinds_restore(move);
    if (!code)
        code = move_contents(move);
    int ended = move_stream_end(move);
    move_go(move, MOVE_SOURCE);
    move->steps = steps;
    move->at[MOVE_TARGET] = (struct move_place){ 0 };
    return code ? code : ended;
}

int move_make_again(struct move *move)
{
    int code = kinds_restore(move);
    if (!code)
        code = move_contents(move);
    int ended = move_direct_end(move, !code);
    code = code ? code : ended;
    move_go(move, MOVE_TARGET);
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c))
        code = context_finish(c);             /* errors of calls that nobody waited for come with the answer */
    code = code ? code : atomic_load(&core_session.latched);
    code = code ? code : atomic_load(&core_session.sticky);
    return code ? move_refuse(move, code, "the new server reports error %d", code) : CORE_OK;
}

/* ---- 4. the end ---- */

void move_kinds_moved(struct move *move, bool moved)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (client_kinds[kind].moved)
            client_kinds[kind].moved(move, moved);
    if (move->stream_token)
        stream_id_give(move->stream_token);
    move->stream_token = 0;
}

/* The program has pointers to the names of its devices: those that it saw first are kept. */
static void facts_adopt(struct move *move, const char *uri)
{
    char *copy = strdup(uri);
    if (copy) {
        free(core_session.uri);
        core_session.uri = copy;
    }
    core_session.hello.host_size = move->target_host;
    xdr_free((xdrproc_t)xdr_hello_result, &move->at[MOVE_TARGET].hello);
}

void move_settle_down(struct move *move, const char *uri, struct move_link *link)
{
    atomic_store(&link->adopted, true);
    recover_leaves("it has moved to another GPU server");        /* which counts streams' calls anew */
    recover_arrives();
    move_kinds_moved(move, true);
    lanes_offered();
    helper_end(move->at[MOVE_SOURCE].client);
    session_loss_hold_end(true);
    facts_adopt(move, uri);                   /* no thread of ours uses the old ones any more */
    rpc_client_destroy(move->at[MOVE_SOURCE].client);
    free(current);
    current = link;
    if (!helper_listen(&core_session) || rpc_client_lost(core_session.client))
        session_lost(&core_session, "it was lost when the session had just moved to it");
}

void move_link_end(struct move *move, struct move_link *link)
{
    struct move_place *target = &move->at[MOVE_TARGET];
    if (target->client) {
        rpc_client_shutdown(target->client);
        rpc_client_destroy(target->client);
    }
    xdr_free((xdrproc_t)xdr_hello_result, &target->hello);
    free(link);
}

/* This is the last moment at which the move may be called off. */
bool move_permitted(struct move *move)
{
    if (!move->group)
        move_hold("sealed");
    move_pace_phase(move, MOVE_SWITCHES, false);
    bool permitted = move->group ? !move_meet(move, CORE_MEETS_SEALED)
                                 : !move->order->number || manager_permits_move(move->order->number);
    move_hold("permitted");
    return permitted;
}

/* Everything is at the new server: the old one may be lost, if the move may be carried out and the new one is there. A
   group that has decided to move does, whatever becomes of the new server: other programs of it are there. */
int move_ask_cluster(struct move *move)
{
    movable_args args = { .able = FLYT_ABLE_SHARES };
    movable_result result;
    memset(&result, 0, sizeof result);
    if (move->group)
        move_hold("sealed");
    if (!move->group && !move_permitted(move))
        return move_refuse(move, CORE_NOT_READY, "it was called off");
    int code = wire_call(&core_session, FLYT_MOVABLE, (xdrproc_t)xdr_movable_args, &args,
                         (xdrproc_t)xdr_movable_result, &result);
    xdr_free((xdrproc_t)xdr_movable_result, &result);
    if (code)
        return move_refuse(move, CORE_SYSTEM_NOT_READY, "the new server was lost (error %d)", code);
    return move->group && !move_permitted(move) ? CORE_NOT_READY : CORE_OK;
}

/* The session is at rest. The link is used up. */
static int move_session(struct move *move, const char *uri, struct move_link *link)
{
    int code = move_settle(move), latched = 0, sticky = 0;
    bool there = false;
    if (!code)
        code = share_ask(move, true);
    if (!code)
        code = move_ask_source(move);
    if (!code && !move->met)
        code = session_meet(move);
    if (!code && !move->met)
        code = move_ask_devices(move);
    if (!code && !move->stream_token && !move_take_stream(move))
        code = CORE_OUT_OF_MEMORY;
    if (!code)
        code = move_ask_kinds(move, true);
    if (!code)
        code = move_prepared_settle(move);
    /* An error that the old server has reported stays the program's; one of the new server is the move's. */
    if (!code) {
        latched = atomic_exchange(&core_session.latched, 0);
        move_hold("shut");
        code = move_make_again(move);
        there = true;
        session_loss_hold();
        if (!code && rpc_client_lost(move->at[MOVE_SOURCE].client))
            code = move_refuse(move, CORE_DEVICE_UNAVAILABLE, "the old server was lost");
        if (!code)
            code = move_ask_cluster(move);
        if (code)
            session_loss_hold_end(false);
    }
    if (there) {
        sticky = rpc_client_lost(move->at[MOVE_SOURCE].client) ? atomic_load(&core_session.sticky) : 0;
        atomic_store(&core_session.latched, latched);
    }
    if (code && there)
        atomic_store(&core_session.sticky, sticky);
    if (!code) {
        move_settle_down(move, uri, link);
        move_hold("settled");
        return CORE_OK;
    }
    move_stream_end(move);
    move_go(move, MOVE_SOURCE);
    move_kinds_moved(move, false);
    move_link_end(move, link);
    return code;
}

/* The gate is shut. */
static int move_at_rest(struct move *move, const char *uri, uint64_t until, uint64_t limit, struct move_link *link)
{
    int code = move_streams_end(move, until, limit);
    cells_rest(true);
    managed_session_rests(true);          /* not before: host functions may want pages to end */
    if (!code && (code = session_move_begin()))
        move_refuse(move, code, "the session cannot be used (error %d)", code);
    if (code) {
        managed_session_rests(false);
        cells_rest(false);
        move_link_end(move, link);
        return code;
    }
    helper_rest();
    move_source_note(move);
    code = move_session(move, uri, link);
    session_move_end();
    managed_session_rests(false);
    cells_rest(false);
    return code;
}

int session_move(struct move_order *order)
{
    CANCEL_DEFERRED;
    char nowhere[2];
    const char *uri = order->uri;
    struct move move = { .order = order, .group = order->group, .steps = MOVE_ACROSS,
                         .why = order->why_size ? order->why : nowhere,
                         .why_size = order->why_size ? order->why_size : sizeof nowhere };
    *move.why = 0;
    order->reached = true;
    if (core_in_host_function())
        return move_refuse(&move, CORE_INVALID_VALUE, "a host function cannot move the session");
    /* A session that the move began would be the program's: it could not fork any more. */
    if (!session_ready())
        return move_refuse(&move, CORE_NOT_READY, "the program has no session: it has not used CUDA yet, or could not");
    if (session_several())
        return move_ask_source(&move);
    int code = core_enter();
    if (code)
        return move_refuse(&move, code, "the session has an error that stays (%d), or is lost", code);
    CANCEL_OFF;
    struct move_link *link = calloc(1, sizeof *link);
    code = !link ? CORE_OUT_OF_MEMORY : session_reach(&move, move_link_lost, link);
    order->reached = !code;
    if (!code)
        code = share_ask(&move, false);
    if (!code)
        code = move_ask_source(&move);
    if (!code)
        code = move_ask_kinds(&move, false);
    if (!code)
        code = move_ask_limits(&move);
    if (!code)
        code = move_may_prepare(&move) ? move_prepare(&move) : move_pace_allows(&move, move.pace.total);
    gate_prepare();
    if (!code)
        move_hold("prepared");
    uint64_t limit = move_rest_limit(&move, order->limit_ms), begun = clock_now();
    if (!code)
        code = move_shut_gate(&move, limit);
    if (code) {
        move_link_end(&move, link);
    } else {
        code = move_at_rest(&move, uri, begun + limit, limit, link);
        core_gate_open();
        order->outage_ns = clock_now() - begun;
        order->bytes = move.copied;
    }
    move_prepare_end(&move);
    order->hopeless = move.pace.too_long;
    if (code)
        log_info("the session did not move to %s: %s", uri, move.why);
    else
        log_info("the session moved to %s", uri);
    return code;
}

static int meet_by(struct move_group *group, enum core_meeting where, char *why, size_t size)
{
    const struct move_partners *partners = &group->partners;
    (void)why, (void)size;
    return group->by(group->context, where, partners->session, partners->of, partners->count);
}

struct move_group move_group_by(core_meet *meet, void *context)
{
    return (struct move_group){ .meet = meet_by, .by = meet, .context = context };
}

int core_move_together(const char *uri, unsigned limit_ms, core_meet *meet, void *context, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_group group = move_group_by(meet, context);
    struct move_order order = { .uri = uri, .limit_ms = limit_ms, .group = &group, .why = why, .why_size = size };
    return session_move(&order);
}

int core_move(const char *uri, unsigned limit_ms, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_order order = { .uri = uri, .limit_ms = limit_ms, .why = why, .why_size = size };
    return session_move(&order);
}
