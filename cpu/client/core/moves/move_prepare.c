/*
 * move_prepare.c: what a move does while the program goes on, so that it stands still for no longer than what it has
 * written lately takes to copy (docs/moving.md, "Rounds"). The new server makes a context, maps the memory of its heap,
 * and is given what is in it. Meanwhile the old server notes which memory is written (WATCH). What has been written
 * goes again, and so on, until it is little, or does not become less. At rest the old server is asked once more.
 *
 * Nothing that the program has depends on any of this. Memory that is mapped at the old server later, or given back, is
 * compared at rest (memory_move.c). If anything fails here, the new server's connection ends, as at any other step.
 *
 * Only one context, the one with the most memory, and only its heap (cudaMalloc): memory of pools and of handles,
 * arrays and variables are copied at rest. The mover's thread does all of it.
 */
#include <stdlib.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/stream/move_written.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/log.h"

enum { ROUNDS_MOST = 8, SHRINKS_PERCENT = 90, SHORT_MS = 10 };
#define LITTLE_BYTES (UINT64_C(4) << 20)      /* of which no round makes less */

/* The move's stream at the old server was destroyed before the context was idle: nobody else may have its id. */
static struct { flyt_id stream; uint64_t token; } kept;

bool move_take_stream(struct move *move)
{
    move->stream = kept.stream;
    move->stream_token = kept.token;
    kept.stream = 0;
    kept.token = 0;
    return move->stream || (move->stream = stream_id_take(&move->stream_token));
}

static core_context *largest_context(void)
{
    core_context *largest = NULL;
    uint64_t most = 0;
    for (core_context *c = context_next(NULL); c; c = context_next(c)) {
        const uint64_t mapped = memory_mapped_of(c);
        largest = mapped > most ? c : largest;
        most = mapped > most ? mapped : most;
    }
    return largest;
}

/* The journal of a program that is protected holds its calls, and not ours. What other programs write nobody notes. */
bool move_may_prepare(const struct move *move)
{
    return move->steps == MOVE_ACROSS && !core_perf.no_rounds && !move->pace.limits.bridged && !journal_wished() &&
           !move->group && !client_kinds[KIND_SHARE].count() && move_written_known() && largest_context();
}

/* ---- the context, which the program may end at any moment ---- */

static bool context_stays(const struct move_ahead *ahead)
{
    const core_context *c = ahead->context;
    return atomic_load(&c->live) == CONTEXT_MADE && atomic_load(&c->generation) == ahead->generation;
}

/* Turns the error of a step into CORE_NOT_READY (the move may be tried again) if the context has ended meanwhile. The
   thread that ends a context holds its lock, so this waits for one that is ending now. */
static int unless_it_ended(struct move *move, int code)
{
    core_context *c = move->ahead->context;
    pthread_mutex_lock(&c->lock);
    bool stays = context_stays(move->ahead);
    pthread_mutex_unlock(&c->lock);
    if (stays)
        return code;
    *move->why = 0;
    move->stream_made[MOVE_SOURCE] = false;         /* it has ended with the context */
    return move_refuse(move, CORE_NOT_READY, "a context has ended while the move was prepared");
}

/* Under the lock without which no context ends: a call that names a stream of one that has ended would be an error of
   the program's. */
static int begin_stream(struct move *move)
{
    core_context *c = move->ahead->context;
    flyt_id stream;
    pthread_mutex_lock(&c->lock);
    move_go(move, MOVE_SOURCE);
    int code = context_stays(move->ahead) ? move_stream(move, c, &stream) : CORE_NOT_READY;
    pthread_mutex_unlock(&c->lock);
    return code;
}

static void end_stream(struct move *move)
{
    stream_args args = { .stream = move->stream };
    core_context *c = move->streaming;
    if (!move->stream_made[MOVE_SOURCE])
        return;
    wire_plain(&core_session, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &args);
    pthread_mutex_lock(&c->lock);
    if (!move->ahead || context_stays(move->ahead))
        wire_send(&core_session, FLYT_STREAM_DESTROY, (xdrproc_t)xdr_stream_args, &args);
    pthread_mutex_unlock(&c->lock);
    move->stream_made[MOVE_SOURCE] = false;
}

/* ---- which memory is written ---- */

static int ask_watch(struct move *move, bool again)
{
    watch_result result;
    move_go(move, MOVE_SOURCE);
    int code = move_written_ask(again, &result);
    move->ahead->watches = again && !code;
    if (!code && !move_ahead_note(move->ahead, result.granule, (const uint8_t *)result.changed.changed_val,
                                  result.changed.changed_len))
        code = CORE_OUT_OF_MEMORY;
    xdr_free((xdrproc_t)xdr_watch_result, &result);
    return code ? move_refuse(move, code, "the old server cannot say what is written (error %d)", code) : CORE_OK;
}

int move_prepared_settle(struct move *move)
{
    if (!move->ahead)
        return CORE_OK;
    int code = ask_watch(move, false);
    if (client_kinds[KIND_SHARE].count())
        move_ahead_note_all(move->ahead);         /* another program may have written there */
    return unless_it_ended(move, code);
}

/* ---- rounds ---- */

static bool is_little(const struct move *move, uint64_t bytes)
{
    return bytes <= LITTLE_BYTES || bytes / SHORT_MS <= move_pace_rate(move) / 1000;
}

/* *left: what the last question has found to be copied, which is copied when this returns. */
static int rounds(struct move *move, uint64_t *left)
{
    uint64_t before = UINT64_MAX;
    int code = CORE_OK;
    for (unsigned round = 0; round < ROUNDS_MOST && !code; round++) {
        if ((code = ask_watch(move, true)) || (code = memory_ahead_map(move)))
            break;
        *left = memory_ahead_left(move);
        bool last = round && (is_little(move, *left) || *left > before / 100 * SHRINKS_PERCENT);
        before = *left;
        move_pace_begin(move, MOVE_PREPARES, *left);
        code = memory_ahead_copy(move);
        move_hold("round");
        if (last)
            break;
    }
    return code;
}

/* ---- all of it ---- */

static int new_server_begins(struct move *move)
{
    int code = session_meet(move);
    move->met = !code;
    if (!code)
        code = move_ask_devices(move);
    if (!code && !move_take_stream(move))
        code = CORE_OUT_OF_MEMORY;
    if (code)
        return code;
    move_ask_bridge(move);
    if (!move->adopts)
        move_direct_begin(move);
    move->asked = true;
    return CORE_OK;
}

int move_prepare(struct move *move)
{
    core_context *c = largest_context();
    struct move_ahead *ahead = c ? calloc(1, sizeof *ahead) : NULL;
    uint64_t left = 0;
    if (!c || !ahead || !(ahead->there = calloc(1, sizeof *ahead->there))) {
        free(ahead);
        return c ? CORE_OUT_OF_MEMORY : CORE_OK;
    }
    ahead->context = c;
    ahead->generation = atomic_load(&c->generation);
    ahead->there->apart = true;
    ahead->there->client = move->at[MOVE_TARGET].client;
    move->ahead = ahead;
    move_source_note(move);
    move->prepares = true;
    int code = new_server_begins(move);
    if (!code && !move->adopts && !(code = context_restore_one(move, c)))
        code = begin_stream(move);
    if (!code && !move->adopts)
        code = rounds(move, &left);
    const int sticky = atomic_load(&ahead->there->sticky), latched = atomic_load(&ahead->there->latched);
    if (!code && (sticky || latched))
        code = move_refuse(move, sticky ? sticky : latched, "the new server reports error %d",
                           sticky ? sticky : latched);
    move_go(move, MOVE_SOURCE);
    move->prepares = false;
    code = unless_it_ended(move, code);
    if (!code && move->adopts) {
        move_ahead_free(ahead);
        move->ahead = NULL;
        return CORE_OK;
    }
    if (!code)
        log_info("%.1f MiB have been copied while the program went on", (double)move->copied / (1 << 20));
    const uint64_t all = move_size(move, false), of_heap = memory_mapped_of(c);
    return code ? code : move_pace_allows(move, left + (all > of_heap ? all - of_heap : 0));
}

void move_prepare_end(struct move *move)
{
    if (move->direct_lanes)
        move_direct_end(move, false);
    end_stream(move);
    if (move->stream_token) {
        kept.stream = move->stream;
        kept.token = move->stream_token;
        move->stream_token = 0;
    }
    if (move->ahead && move->ahead->watches) {
        watch_result result;
        move_written_ask(false, &result);
        xdr_free((xdrproc_t)xdr_watch_result, &result);
    }
    move_ahead_free(move->ahead);
    move->ahead = NULL;
}
