/*
 * event_move.c: events on a move to another server (move.h). They are made again. Times are the old server's: each
 * context gets a new reference event, which is recorded at the old server and, a little later by this process's clock,
 * at the new one. So each time that the old server knows becomes one before the reference event.
 */
#include <stdlib.h>

#include "cpu/common/clock.h"
#include "api/forward/core.h"
#include "cpu/client/core/api_stream.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/event_state.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/state.h"

struct references {
    core_event of[CONTEXTS_MOST];
    uint64_t at[CONTEXTS_MOST];
};

static bool timed(const struct client_event *e) { return e->stream && !(e->flags & FLAG_DISABLE_TIMING); }

/* Records the context's new reference event, and waits for it. *at: when, to half of a round trip. */
static int reference_record(struct move *move, core_context *c, core_event reference, uint64_t *at)
{
    struct client_event *e = id_table_find(event_table, reference);
    event_record_args args = { .event = e->wire };
    int code = move_stream(move, c, &args.stream);
    uint64_t before = clock_now();
    if (!code)
        code = wire_send(&core_session, FLYT_EVENT_RECORD, (xdrproc_t)xdr_event_record_args, &args);
    stream_args sync = { .stream = args.stream };
    if (!code)
        code = wire_plain(&core_session, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &sync);
    *at = before + (clock_now() - before) / 2;
    return code;
}

struct saving {
    struct move *move;
    core_context *context;
    core_event reference;
    double since;
    bool any;
    int code;
};

static void event_is_timed(void *object, id_token token, void *context)
{
    struct client_event *e = object;
    struct saving *saving = context;
    (void)token;
    saving->any = saving->any || (e->context == saving->context && timed(e));
}

static void event_time_save(void *object, id_token token, void *context)
{
    struct client_event *e = object;
    struct saving *saving = context;
    float elapsed = 0;
    e->to_be.is = false;
    if (saving->code || e->context != saving->context || !timed(e))
        return;
    if (!e->there.is)
        saving->code = core_event_elapsed_time(e->context, &elapsed, token, saving->reference);
    if (saving->code)
        move_refuse(saving->move, saving->code, "the time of an event cannot be read (error %d)", saving->code);
    e->to_be = (struct recorded_there){ !saving->code, e->there.is ? e->there.ms - saving->since : -elapsed };
}

int event_save(struct move *move)
{
    struct references *references = move->of[KIND_EVENT] = calloc(1, sizeof *references);
    if (!references)
        return CORE_OUT_OF_MEMORY;
    for (core_context *c = context_next(NULL); c; c = context_next(c)) {
        struct saving saving = { .move = move, .context = c };
        float since = 0;
        id_table_each(event_table, event_is_timed, &saving);
        if (!saving.any)
            continue;
        int code = core_event_create(c, 0, &references->of[c->wire]);
        saving.reference = references->of[c->wire];
        if (!code)
            code = reference_record(move, c, saving.reference, &references->at[c->wire]);
        if (!code && c->reference)
            code = core_event_elapsed_time(c, &since, c->reference, saving.reference);
        if (code)
            return move_refuse(move, code, "an event for the times of others cannot be recorded (error %d)", code);
        saving.since = since;
        id_table_each(event_table, event_time_save, &saving);
        if (saving.code)
            return saving.code;
    }
    return CORE_OK;
}

static void event_again(void *object, id_token token, void *context)
{
    struct client_event *e = object;
    int *code = context;
    (void)token;
    event_create_args args = { .event = e->wire,
                               .context = e->context->wire,
                               .flags = e->flags & ~(unsigned)FLAG_INTERPROCESS };
    if (!*code)
        *code = wire_send(&core_session, FLYT_EVENT_CREATE, (xdrproc_t)xdr_event_create_args, &args);
}

struct event_gap {
    const core_context *context;
    double ms;
};

static void event_time_shift(void *object, id_token token, void *context)
{
    struct client_event *e = object;
    const struct event_gap *gap = context;
    (void)token;
    if (e->context == gap->context)
        e->to_be.ms -= gap->ms;
}

int event_restore(struct move *move)
{
    struct references *references = move->of[KIND_EVENT];
    int code = CORE_OK;
    id_table_each(event_table, event_again, &code);
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c)) {
        uint64_t there;
        if (!references->of[c->wire])
            continue;
        code = reference_record(move, c, references->of[c->wire], &there);
        if (rehearsal_here())
            continue;                         /* the time stays that of the server where the session is */
        struct event_gap gap = { c, (double)(there - references->at[c->wire]) / 1e6 };
        id_table_each(event_table, event_time_shift, &gap);
        references->at[c->wire] = there;      /* should this server be lost, the next one counts from there */
    }
    return code ? move_refuse(move, code, "the new server refuses an event (error %d)", code) : CORE_OK;
}

static void event_adopt(void *object, id_token token, void *context)
{
    struct client_event *e = object;
    (void)token;
    if (*(bool *)context && e->to_be.is)
        e->there = e->to_be;
    e->to_be.is = false;
}

void event_moved(struct move *move, bool moved)
{
    struct references *references = move->of[KIND_EVENT];
    id_table_each(event_table, event_adopt, &moved);
    for (core_context *c = context_next(NULL); references && c; c = context_next(c)) {
        core_event new = references->of[c->wire], other = moved ? c->reference : new;
        /* Without events with times there is no new one, and the old one was never recorded at the new server. */
        if (other)
            core_event_destroy(other);
        if (moved)
            c->reference = new;
    }
    free(references);
}
