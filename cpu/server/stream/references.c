/*
 * references.c: how long contexts, streams and recordings of events live: as long as somebody refers to them, in any
 * thread. The last reference frees the structure only; the object itself was ended before, under session.lock.
 */
#include "cpu/server/session.h"
#include "cpu/server/stream/host_function.h"

#include <stdlib.h>

void context_hold(struct context *context) { atomic_fetch_add(&context->references, 1); }

void context_drop(struct context *context)
{
    if (atomic_fetch_sub(&context->references, 1) != 1)
        return;
    pthread_mutex_destroy(&context->staging.lock);
    pthread_mutex_destroy(&context->gates_lock);
    free(context->limits);                /* one that was to be lowered later, where there was no memory for that */
    free(context);
}

void stream_hold(struct stream *stream) { atomic_fetch_add(&stream->references, 1); }

void stream_drop(struct session *session, struct stream *stream)
{
    (void)session;
    if (!stream || atomic_fetch_sub(&stream->references, 1) != 1)
        return;
    gate_give(stream);
    context_drop(stream->context);
    free(stream);
}

void record_hold(struct record *record) { atomic_fetch_add(&record->references, 1); }

void record_drop(struct record *record)
{
    if (!record || atomic_fetch_sub(&record->references, 1) != 1)
        return;
    if (!atomic_load(&record->context->ended))        /* else it went with the context */
        record->session->gpu->EventDestroy(record->event);
    stream_drop(record->session, record->stream);
    context_drop(record->context);
    free(record);
}
