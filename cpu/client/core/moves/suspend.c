/*
 * suspend.c: a session leaves its GPU server, and goes on later at this one or another.
 *
 * Suspending is the first half of a move (move.c): the program comes to rest, and what it has on the GPU goes into a
 * file (move_store.h). Then the connection ends, and with it everything at the server. The gate stays shut, so that
 * calls of the program wait; the kinds keep what they have written down at the old server. Resuming is the other half,
 * and takes the contents from the file. A failure before the connection ends leaves the session where it was; one
 * while it is resumed leaves it suspended, and it can be tried again.
 *
 * One thread does both, because it holds the session's lock from the one to the other (session_move_begin).
 *
 * Programs that share memory are suspended together, and resumed together: they wait for each other as on a move
 * (core_move_together). All have written what they have before one of them leaves. A checkpoint of them is of one
 * moment: none goes on before all have written.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_gate.h"
#include "cpu/client/core/moves/apart.h"
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/moves/checkpoint.h"
#include "cpu/client/core/moves/keeper.h"
#include "cpu/client/core/session/kinds.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/moves/recover.h"
#include "cpu/client/core/memory/event_shared.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/notify.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

struct suspended {
    struct move move;
    bool stays;                               /* at its server: a checkpoint */
    const char *file;                         /* of one that leaves: "": without a name */
    bool apart;                               /* it has one */
    struct move_partners partners;            /* with whom it shared memory when it left */
    int latched;                              /* an error that the program has not yet seen */
};
static struct suspended *suspended;           /* the thread's that has suspended the session */

bool session_suspended(void) { return suspended; }
bool session_apart(void) { return suspended && suspended->apart; }

static void order_take(struct move *move, struct move_order *order)
{
    static char nowhere[2];
    move->order = order;
    move->group = order->group;
    move->why = order->why_size ? order->why : nowhere;
    move->why_size = order->why_size ? order->why_size : sizeof nowhere;
    move->copied = 0;
    move->pace = (struct move_pace){ 0 };
    *move->why = 0;
}

/* ---- leaving ---- */

/* Everything is in the file. From the assignment on the session has no server. */
static int leave(struct suspended *s)
{
    struct move *move = &s->move;
    session_loss_hold();
    int code = CORE_OK;
    if (move->group)
        move_hold("sealed");
    if (rpc_client_lost(move->at[MOVE_SOURCE].client))
        code = move_refuse(move, CORE_DEVICE_UNAVAILABLE, "its server was lost");
    if (!code && !move_permitted(move))
        code = move_refuse(move, CORE_NOT_READY, "it was called off");
    if (!code) {
        suspended = s;
        recover_leaves("it is suspended");
    }
    if (!code)
        helper_end(move->at[MOVE_SOURCE].client);
    if (!code && s->apart) {
        rpc_client_part(move->at[MOVE_SOURCE].client);     /* its descriptors: the rest goes when the session is back */
        apart_give();
    }
    session_loss_hold_end(!code);
    return code;
}

static int name_kinds(struct move *move)
{
    int code = CORE_OK;
    for (unsigned kind = 0; kind < KINDS && !code; kind++) {
        const struct client_kind_row *row = &client_kinds[kind];
        code = move_store_kind(move->store, kind, row->name, row->count ? row->count() : 0);
    }
    return code ? move_refuse(move, code, "%s", move_store_why(move->store)) : CORE_OK;
}

/* Everything is in the file. The programs of a group see each other's memory: none of them writes there before all of
   it is in their files. */
static int stay_together(struct suspended *s)
{
    if (!s->stays || !s->move.group)
        return CORE_OK;
    return move_meet(&s->move, CORE_MEETS_MADE);
}

static int copy_out(struct suspended *s)
{
    struct move *move = &s->move;
    int code = move_settle(move);
    if (!code && move->notes)
        keeper_begins();
    if (!code)
        code = share_ask(move, true);
    if (!code && move->group)
        s->partners = move->group->partners;
    if (!code)
        code = move_ask_source(move);
    if (!code && !(move->stream = stream_id_take(&move->stream_token)))
        code = CORE_OUT_OF_MEMORY;
    if (!code)
        code = move_ask_kinds(move, true);
    if (!code) {
        s->latched = atomic_exchange(&core_session.latched, 0);
        move_hold("shut");
        code = name_kinds(move);
        move_store_begin(move->store);
        if (!code)
            code = move_contents(move);
        if (!code && (code = move_store_finish(move->store)))
            move_refuse(move, code, "%s", move_store_why(move->store));
        if (!code)
            code = s->stays ? stay_together(s) : leave(s);
        if (!code && move->notes)
            code = keeper_note(move);
        atomic_store(&core_session.latched, s->latched);
    }
    if (code || s->stays) {
        move_stream_end(move);
        move_go(move, MOVE_SOURCE);
        move_kinds_moved(move, !code && move->notes);
        if (code && move->notes)
            journal_set_aside(false);
    }
    return code;
}

/* The gate is shut, and stays so after CORE_OK, but for a checkpoint. */
static int rest(struct suspended *s, uint64_t until, uint64_t limit)
{
    int code = move_streams_end(&s->move, until, limit);
    cells_rest(true);
    managed_session_rests(true);          /* not before: host functions may want pages to end */
    if (!code && (code = session_move_begin())) {
        move_refuse(&s->move, code, "the session cannot be used (error %d)", code);
    } else if (!code) {
        helper_rest();
        move_source_note(&s->move);
        code = copy_out(s);
        if (code || s->stays)
            session_move_end();
    }
    if (code || s->stays) {
        managed_session_rests(false);
        cells_rest(false);
    }
    return code;
}

/* move->store is there, or is to be made. */
static int begin(struct suspended *s)
{
    struct move *move = &s->move;
    if (suspended)
        return move_refuse(move, CORE_SYSTEM_NOT_READY, "it is suspended already");
    if (core_in_host_function())
        return move_refuse(move, CORE_INVALID_VALUE, "a host function cannot suspend the session");
    /* A session that this began would be the program's: it could not fork any more. */
    if (!session_ready())
        return move_refuse(move, CORE_NOT_READY, "the program has no session: it has not used CUDA yet, or could not");
    int code = core_enter();
    if (code)
        return move_refuse(move, code, "the session cannot be used (error %d)", code);
    if (s->apart && !apart_possible(move->why, move->why_size))
        return CORE_NOT_SUPPORTED;
    if (!move->store)
        move->store = move->notes ? keeper_store(move->why, move->why_size)
                                  : move_store_suspended(s->file, move->why, move->why_size);
    if (!move->store)
        return CORE_OUT_OF_MEMORY;
    code = share_ask(move, false);
    if (!code)
        code = move_ask_source(move);
    return code ? code : move_ask_kinds(move, false);
}

/* Everything goes into the file. */
static int go_out(struct suspended *s, struct move_order *order)
{
    s->move.steps = MOVE_OUT;
    order_take(&s->move, order);
    order->reached = true;
    int code = begin(s);
    if (!code)
        code = move_ask_limits(&s->move);
    if (!code)
        code = move_pace_allows(&s->move, s->move.pace.total);
    gate_prepare();
    uint64_t limit = move_rest_limit(&s->move, order->limit_ms), begun = clock_now();
    if (!code)
        code = move_shut_gate(&s->move, limit);
    if (!code) {
        code = rest(s, begun + limit, limit);
        if (code || s->stays)
            core_gate_open();
        order->outage_ns = clock_now() - begun;
        order->bytes = s->move.copied;
    }
    order->hopeless = s->move.pace.too_long;
    return code;
}

int session_suspend(struct move_order *order, const char *file)
{
    CANCEL_OFF;
    struct suspended *s = calloc(1, sizeof *s);
    if (!s)
        return CORE_OUT_OF_MEMORY;
    s->file = file;
    s->apart = *file != 0;
    int code = go_out(s, order);
    s->file = NULL;
    if (!code) {
        log_info("the session is suspended");
        return CORE_OK;
    }
    log_info("the session was not suspended: %s", s->move.why);
    move_store_free(s->move.store);
    free(s);
    return code;
}

/* ---- a checkpoint: the program goes on at its server ---- */

int session_checkpoint(struct move_order *order, const struct checkpoint_order *wish)
{
    CANCEL_OFF;
    struct checkpoint_course course;
    struct suspended *s = calloc(1, sizeof *s);
    if (!s)
        return CORE_OUT_OF_MEMORY;
    s->stays = true;
    order_take(&s->move, order);
    int code = checkpoint_begin(&course, &s->move, wish);
    if (!code)
        code = go_out(s, order);
    if (!code && s->move.group)
        move_hold("sealed");
    if (!code && !move_permitted(&s->move))
        code = move_refuse(&s->move, CORE_NOT_READY, "it was called off");
    code = checkpoint_end(&course, &s->move, code);
    if (code)
        log_info("no checkpoint was made: %s", s->move.why);
    move_store_free(s->move.store);
    free(s);
    return code;
}

int session_keep(struct move_order *order)
{
    CANCEL_OFF;
    struct suspended *s = calloc(1, sizeof *s);
    if (!s)
        return CORE_OUT_OF_MEMORY;
    s->stays = true;
    s->file = "";
    s->move.notes = true;
    session_keep_begin();
    int code = go_out(s, order);
    session_keep_end();
    move_store_drop(s->move.store);           /* what it needs is the keeper's */
    free(s);
    return code;
}

/* ---- coming back ---- */

/* The program's calls begin again. */
static void go_on(struct suspended *s)
{
    suspended = NULL;
    session_move_end();
    managed_session_rests(false);
    cells_rest(false);
    core_gate_open();
    move_store_free(s->move.store);
    free(s);
}

static void come_back(struct suspended *s, const char *uri, struct move_link *link)
{
    move_settle_down(&s->move, uri, link);
    go_on(s);
}

void session_abandon(const char *why)
{
    CANCEL_OFF;
    struct suspended *s = suspended;
    char reason[RPC_ERROR_SIZE];
    if (!s)
        return;
    snprintf(reason, sizeof reason, "it was suspended, and cannot be resumed: %s", why);
    if (s->apart && !apart_take(reason, 0))
        log_debug("other memory of the program lies where GPU memory was");
    session_lost(&core_session, reason);
    move_go(&s->move, MOVE_SOURCE);
    move_kinds_moved(&s->move, false);
    go_on(s);
}

/* Nothing of the new server stays, and what the kinds have written down does. */
static void stay(struct suspended *s, struct move_link *link)
{
    struct move *move = &s->move;
    move_stream_end(move);
    move_go(move, MOVE_SOURCE);
    move_link_end(move, link);
    move->at[MOVE_TARGET] = (struct move_place){ 0 };
    atomic_store(&core_session.sticky, CORE_OK);
    atomic_store(&core_session.latched, s->latched);
}

static int copy_in(struct suspended *s, struct move_link *link)
{
    struct move *move = &s->move;
    int code = session_meet(move);
    if (!code)
        code = move_ask_devices(move);
    if (!code)
        code = move_store_again(move->store);
    atomic_store(&core_session.latched, CORE_OK);
    if (!code) {
        move_hold("shut");
        code = move_make_again(move);
    }
    session_loss_hold();
    if (!code)
        code = move_ask_cluster(move);
    (void)link;
    return code;
}

int session_resume(struct move_order *order)
{
    CANCEL_OFF;
    struct suspended *s = suspended;
    struct move_link *link = s ? calloc(1, sizeof *link) : NULL;
    uint64_t begun = clock_now();
    if (!link)
        return s ? CORE_OUT_OF_MEMORY : CORE_INVALID_VALUE;
    s->move.steps = MOVE_IN;
    order_take(&s->move, order);
    const bool reserved = !s->apart || apart_take(s->move.why, s->move.why_size);
    int code = reserved ? session_reach(&s->move, move_link_lost, link) : CORE_OUT_OF_MEMORY;
    order->reached = !code || !reserved;
    if (!code)
        code = share_meet_again(&s->move, &s->partners);
    if (!code)
        code = move_ask_limits(&s->move);
    if (!code)
        code = copy_in(s, link);
    order->bytes = s->move.copied;
    if (code) {
        log_info("the session stays suspended: %s", s->move.why);
        stay(s, link);
        if (s->apart && reserved)
            apart_give();
        session_loss_hold_end(true);
        return code;
    }
    atomic_store(&core_session.latched, s->latched);
    come_back(s, order->uri, link);
    order->outage_ns = clock_now() - begun;
    log_info("the session goes on at %s", order->uri);
    return CORE_OK;
}

int core_checkpoint(const char *file, const char *base, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_order order = { .why = why, .why_size = size };
    return session_checkpoint(&order, &(struct checkpoint_order){ file, base, NULL });
}

int core_checkpoint_together(const char *file, core_meet *meet, void *context, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_group group = move_group_by(meet, context);
    struct move_order order = { .group = &group, .why = why, .why_size = size };
    return session_checkpoint(&order, &(struct checkpoint_order){ file, "", NULL });
}

int core_suspend(unsigned limit_ms, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_order order = { .limit_ms = limit_ms, .why = why, .why_size = size };
    return session_suspend(&order, "");
}

int core_suspend_together(unsigned limit_ms, core_meet *meet, void *context, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_group group = move_group_by(meet, context);
    struct move_order order = { .limit_ms = limit_ms, .group = &group, .why = why, .why_size = size };
    return session_suspend(&order, "");
}

int core_resume(const char *uri, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_order order = { .uri = uri, .why = why, .why_size = size };
    return session_resume(&order);
}

int core_resume_together(const char *uri, core_meet *meet, void *context, char *why, size_t size)
{
    CANCEL_DEFERRED;
    struct move_group group = move_group_by(meet, context);
    struct move_order order = { .uri = uri, .group = &group, .why = why, .why_size = size };
    return session_resume(&order);
}
