/*
 * move_prepare.c: what a move does while the program goes on, so that it stands still for no longer than what it has
 * written lately takes to copy (docs/moving.md, "Rounds"). The new server makes the contexts, and loads the modules
 * (code_prepare.c). Then it maps the memory of the contexts' heaps, and is given what is in it. Meanwhile the old
 * server notes which memory is written (WATCH). What has been written goes again, and so on, until it is little, or
 * does not become less. At rest the old server is asked once more. Where memory goes without being copied, or nobody
 * notes what is written, only the modules are loaded.
 *
 * Nothing that the program has depends on any of this. Modules that it loads or unloads later, and memory that is
 * mapped at the old server later, or given back, are compared at rest. If anything fails here, the new server's
 * connection ends, as at any other step.
 *
 * Of the memory only the heaps (cudaMalloc): memory of pools and of handles, arrays and variables are copied at rest.
 * The mover's thread does all of it.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/code/code.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/stream/move_written.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/log.h"

enum { ROUNDS_MOST = 8, SHRINKS_PERCENT = 90, SHORT_MS = 10 };
#define LITTLE_BYTES (UINT64_C(4) << 20)      /* of which no round makes less */

/* Streams of moves that were destroyed at the old server before their contexts were idle: nobody else may have their
   ids. There are never more than contexts. */
static struct { flyt_id stream; uint64_t token; } kept[CONTEXTS_MOST];
static unsigned kept_count;

static bool take_stream(flyt_id *stream, uint64_t *token)
{
    if (!kept_count)
        return (*stream = stream_id_take(token));
    *stream = kept[--kept_count].stream;
    *token = kept[kept_count].token;
    return true;
}

static void keep_stream(flyt_id stream, uint64_t token)
{
    if (!token)
        return;
    kept[kept_count].stream = stream;
    kept[kept_count++].token = token;
}

bool move_take_stream(struct move *move) { return take_stream(&move->stream, &move->stream_token); }

/* The journal of a program that is protected holds its calls, and not ours. The programs of a group come to rest
   together: none of them waits at rest until another one has been prepared. */
static bool may_prepare(const struct move *move)
{
    return move->steps == MOVE_ACROSS && !core_perf.no_rounds && !journal_wished() && !move->group;
}

/* The old server notes only what this program writes, so shared memory is copied at rest. */
static bool memory_may_go(const struct move *move)
{
    uint64_t mapped = 0;
    for (core_context *c = context_next(NULL); c; c = context_next(c))
        mapped += memory_mapped_of(c);
    return mapped && !move->pace.limits.bridged && !client_kinds[KIND_SHARE].count() && move_written_known();
}

static bool code_may_go(void) { return !core_perf.no_code_rounds && code_modules(); }

bool move_may_prepare(const struct move *move)
{
    return may_prepare(move) && context_next(NULL) && (memory_may_go(move) || code_may_go());
}

/* ---- the contexts, each of which the program may end at any moment ---- */

/* Turns the error of a step into CORE_NOT_READY (the move may be tried again) if a context has ended meanwhile. The
   thread that ends a context holds its lock, so this waits for one that is ending now. At rest none is, and no lock is
   taken: threads that end contexts take locks behind that one which the move holds then. */
static int unless_one_ended(struct move *move, bool at_rest, int code)
{
    bool all_stay = true;
    for (size_t i = 0; i < move->ahead->count; i++) {
        const struct ahead_context *ahead = &move->ahead->contexts[i];
        if (!at_rest)
            pthread_mutex_lock(&ahead->context->lock);
        all_stay = all_stay && move_ahead_stays(ahead);
        if (!at_rest)
            pthread_mutex_unlock(&ahead->context->lock);
    }
    if (all_stay)
        return code;
    *move->why = 0;
    return move_refuse(move, CORE_NOT_READY, "a context has ended while the move was prepared");
}

static bool list_contexts(struct move_ahead *ahead)
{
    if (!(ahead->contexts = calloc(CONTEXTS_MOST, sizeof *ahead->contexts)))
        return false;
    for (core_context *c = context_next(NULL); c && ahead->count < CONTEXTS_MOST; c = context_next(c))
        ahead->contexts[ahead->count++] =
            (struct ahead_context){ .context = c, .generation = atomic_load(&c->generation) };
    return true;
}

/* ---- a stream of the move's in each of them ---- */

/* The move has no stream, and its context has its own again. */
static void stream_rest(struct move *move)
{
    struct ahead_context *ahead = move_ahead_of(move->ahead, move->streaming);
    if (!ahead)
        return;
    ahead->stream = move->stream;
    ahead->stream_token = move->stream_token;
    memcpy(ahead->stream_made, move->stream_made, sizeof ahead->stream_made);
    move->stream = 0;
    move->stream_token = 0;
    memset(move->stream_made, 0, sizeof move->stream_made);
    move->streaming = NULL;
}

/* The stream of that context becomes the move's. */
static void stream_turn(struct move *move, struct ahead_context *ahead)
{
    stream_rest(move);
    move->stream = ahead->stream;
    move->stream_token = ahead->stream_token;
    memcpy(move->stream_made, ahead->stream_made, sizeof ahead->stream_made);
    move->streaming = ahead->context;
    ahead->stream = 0;
    ahead->stream_token = 0;
    memset(ahead->stream_made, 0, sizeof ahead->stream_made);
}

/* Under the lock without which no context ends: a call that names a stream of one that has ended would be an error of
   the program's. */
static int begin_stream(struct move *move, struct ahead_context *ahead)
{
    core_context *c = ahead->context;
    flyt_id stream;
    if (!take_stream(&ahead->stream, &ahead->stream_token))
        return CORE_OUT_OF_MEMORY;
    stream_turn(move, ahead);
    pthread_mutex_lock(&c->lock);
    move_go(move, MOVE_SOURCE);
    int code = move_ahead_stays(ahead) ? move_stream(move, c, &stream) : CORE_NOT_READY;
    pthread_mutex_unlock(&c->lock);
    return code;
}

/* At the old server. If its context has ended, it has ended with it: naming it would be an error of the program's. */
static void end_stream(const struct ahead_context *ahead)
{
    stream_args args = { .stream = ahead->stream };
    if (!ahead->stream_made[MOVE_SOURCE])
        return;
    pthread_mutex_lock(&ahead->context->lock);
    if (move_ahead_stays(ahead)) {
        wire_plain(&core_session, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &args);
        wire_send(&core_session, FLYT_STREAM_DESTROY, (xdrproc_t)xdr_stream_args, &args);
    }
    pthread_mutex_unlock(&ahead->context->lock);
}

/* At rest: the other contexts' streams end, as the last one's will (move_stream_end), and their ids are free. */
static int end_other_streams(struct move *move)
{
    struct ahead_context *last = move_ahead_of(move->ahead, move->streaming);
    int code = CORE_OK;
    for (size_t i = 0; i < move->ahead->count && !code; i++) {
        struct ahead_context *ahead = &move->ahead->contexts[i];
        if (ahead == last || !ahead->stream_token)
            continue;
        stream_turn(move, ahead);
        code = move_stream_end(move);
        stream_id_give(move->stream_token);         /* its context is idle, or its server is lost */
        move->stream = 0;
        move->stream_token = 0;
    }
    if (last)
        stream_turn(move, last);
    return code ? move_refuse(move, code, "what was copied is not at the new server (error %d)", code) : CORE_OK;
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
    int code = move->ahead->watches ? ask_watch(move, false) : CORE_OK;
    if (client_kinds[KIND_SHARE].count())
        move_ahead_note_all(move->ahead);         /* another program may have written there */
    code = unless_one_ended(move, true, code);    /* the streams of those that have ended are no more */
    return code ? code : end_other_streams(move);
}

/* ---- rounds ---- */

static bool is_little(const struct move *move, uint64_t bytes)
{
    return bytes <= LITTLE_BYTES || bytes / SHORT_MS <= move_pace_rate(move) / 1000;
}

static int map_all(struct move *move)
{
    int code = ask_watch(move, true);
    for (size_t i = 0; i < move->ahead->count && !code; i++)
        code = memory_ahead_map(move, &move->ahead->contexts[i]);
    return code;
}

static uint64_t left_of_all(struct move *move)
{
    uint64_t left = 0;
    for (size_t i = 0; i < move->ahead->count; i++)
        left += memory_ahead_left(move, &move->ahead->contexts[i]);
    return left;
}

/* One context after the other: the bytes of one have arrived before those of the next are sent (move_bytes_there). */
static int copy_all(struct move *move)
{
    int code = CORE_OK;
    for (size_t i = 0; i < move->ahead->count && !code; i++) {
        stream_turn(move, &move->ahead->contexts[i]);
        code = memory_ahead_copy(move, &move->ahead->contexts[i]);
    }
    return code;
}

/* *left: what the last question has found to be copied, which is copied when this returns. */
static int rounds(struct move *move, uint64_t *left)
{
    uint64_t before = UINT64_MAX;
    int code = CORE_OK;
    for (size_t i = 0; i < move->ahead->count && !code; i++)
        code = begin_stream(move, &move->ahead->contexts[i]);
    for (unsigned round = 0; round < ROUNDS_MOST && !code; round++) {
        if ((code = map_all(move)))
            break;
        *left = left_of_all(move);
        bool last = round && (is_little(move, *left) || *left > before / 100 * SHRINKS_PERCENT);
        before = *left;
        move_pace_begin(move, MOVE_PREPARES, *left);
        code = copy_all(move);
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
    if (code)
        return code;
    memcpy(move->ahead->there->hello.nonce, move->at[MOVE_TARGET].hello.nonce, sizeof core_session.hello.nonce);
    move_ask_bridge(move);
    if (!move->adopts)
        move_direct_begin(move);
    move->asked = true;
    for (size_t i = 0; i < move->ahead->count && !code; i++)
        code = context_restore_one(move, move->ahead->contexts[i].context);
    return code;
}

/* *left: bytes that are to be copied at rest, as far as it is known. */
static int all_prepares(struct move *move, uint64_t *left)
{
    int code = new_server_begins(move);
    if (!code && code_may_go() && !(code = code_prepare(move)))
        move_hold("code");
    *left = move_size(move, move->adopts);
    if (code || move->adopts || !memory_may_go(move))
        return code;
    uint64_t heaps = 0, last = 0;
    code = rounds(move, &last);
    for (size_t i = 0; i < move->ahead->count; i++)
        heaps += memory_mapped_of(move->ahead->contexts[i].context);
    const uint64_t all = move_size(move, false);
    *left = last + (all > heaps ? all - heaps : 0);
    if (!code)
        log_info("%.1f MiB have been copied while the program went on", (double)move->copied / (1 << 20));
    return code;
}

int move_prepare(struct move *move)
{
    struct move_ahead *ahead = calloc(1, sizeof *ahead);
    uint64_t left = 0;
    if (!ahead || !list_contexts(ahead) || !(ahead->there = calloc(1, sizeof *ahead->there))) {
        move_ahead_free(ahead);
        return CORE_OUT_OF_MEMORY;
    }
    ahead->there->apart = true;
    ahead->there->client = move->at[MOVE_TARGET].client;
    move->ahead = ahead;
    move_source_note(move);
    move->prepares = true;
    int code = all_prepares(move, &left);
    const int sticky = atomic_load(&ahead->there->sticky), latched = atomic_load(&ahead->there->latched);
    if (!code && (sticky || latched))
        code = move_refuse(move, sticky ? sticky : latched, "the new server reports error %d",
                           sticky ? sticky : latched);
    move_go(move, MOVE_SOURCE);
    move->prepares = false;
    code = unless_one_ended(move, false, code);
    return code ? code : move_pace_allows(move, left);
}

void move_prepare_end(struct move *move)
{
    if (move->direct_lanes)
        move_direct_end(move, false);
    stream_rest(move);
    for (size_t i = 0; move->ahead && i < move->ahead->count; i++) {
        end_stream(&move->ahead->contexts[i]);
        keep_stream(move->ahead->contexts[i].stream, move->ahead->contexts[i].stream_token);
    }
    if (move->ahead && move->ahead->watches) {
        watch_result result;
        move_written_ask(false, &result);
        xdr_free((xdrproc_t)xdr_watch_result, &result);
    }
    code_prepared_free(move->ahead);
    move_ahead_free(move->ahead);
    move->ahead = NULL;
}
