/*
 * progress.c: the numbers of streams' calls: what the server has said of them, up to which everything has ended, and
 * their order among each other. And the directory of streams by wire id, in which a reply's numbers find them.
 *
 * An id is used again only when a reply has come to a call that was sent after the STREAM_DESTROY (stream.c), so that
 * no completed number of the old stream can be taken for the new one's. That holds for the published numbers too: the
 * server sets an id's word to 0 when it serves the STREAM_DESTROY, and writes no number of that stream after it. The
 * legacy streams count on for ever.
 *
 * A server that the session has moved to counts each stream's calls from 0 again; `base` is what it had before.
 *
 * Shared memory has a word for each of the first ids, where the server publishes the stream's completed number. It
 * does so only while no error waits to be delivered: what is published has ended well, and nobody need ask.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "context.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/relayed.h"

enum { CHUNK = 256, CHUNKS = 4096 };

struct chunk {
    struct client_stream *_Atomic at[CHUNK];
};

static struct chunk *_Atomic directory[CHUNKS];             /* by wire id, above FLYT_FIRST_STREAM */
static atomic_bool stale;                                   /* what is shared is that of a server that was lost */
static _Atomic uint64_t unpublished;                        /* stays 0 */

void progress_open(void)
{
    for (struct client_session *session = &core_session; session; session = session->next)
        rpc_client_shared_memory(session->client, &session->shared);
    atomic_store(&stale, false);
}

void progress_forget(void) { atomic_store(&stale, true); }

_Atomic uint64_t *progress_published(const core_context *c, flyt_id wire)
{
    const struct rpc_shared_memory *shared = &c->session->shared;
    /* what a program learns there is not in the journal */
    bool published = shared->numbers && wire < shared->number_count && !journal_on() && !atomic_load(&stale);
    return published ? &shared->numbers[wire] : &unpublished;
}

static bool raise_to(atomic_uint_fast64_t *value, uint64_t to)
{
    uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
    while (now < to)
        if (atomic_compare_exchange_weak(value, &now, to))
            return true;
    return false;
}

void stream_ended(struct client_stream *s, uint64_t number)
{
    if (raise_to(&s->done, number))
        wire_heard();
}

void stream_finished(struct client_stream *s, uint64_t number)
{
    stream_ended(s, number);
    raise_to(&s->heard, number);
}

bool stream_is_published(const struct client_stream *s) { return s->published != &unpublished; }

/* The acquire pairs with the server's release: who learns here that a copy has ended may look at what it wrote into
   shared memory. The other side may write anything there: a number that was never given out is not believed. */
uint64_t stream_done(struct client_stream *s)
{
    uint64_t done = atomic_load(&s->done);
    uint64_t said = atomic_load_explicit(s->published, memory_order_acquire) + atomic_load(&s->base);
    if (said <= done || said > atomic_load(&s->numbered))
        return done;
    relayed_received();
    stream_ended(s, said);
    return said;
}

/* ---- the order of calls ---- */

static atomic_uint_fast64_t serials;

uint64_t progress_next_serial(void)
{
    if (session_several())                /* each connection has a lock of its own */
        return atomic_fetch_add(&serials, 1) + 1;
    uint64_t serial = atomic_load_explicit(&serials, memory_order_relaxed) + 1;
    atomic_store_explicit(&serials, serial, memory_order_release);
    return serial;
}

uint64_t stream_serial(void)
{
    return atomic_load(&serials);
}

struct point stream_point_next(const struct client_stream *s)
{
    struct point p = stream_point(s);
    if (!stream_is_blocking(s))
        return p;
    p.serial = stream_serial() + 1;
    if (!stream_is_legacy(s))
        p.legacy_before = atomic_load(&s->context->legacy.serial) + 1;
    return p;
}

/* ---- the directory ---- */

static struct client_stream *by_wire(flyt_id wire)
{
    if (wire < FLYT_FIRST_STREAM) {
        core_context *c = context_of_wire(wire);
        return c ? &c->legacy : NULL;
    }
    uint32_t index = wire - FLYT_FIRST_STREAM;
    struct chunk *chunk =
        index / CHUNK < CHUNKS ? atomic_load_explicit(&directory[index / CHUNK], memory_order_acquire) : NULL;
    return chunk ? atomic_load_explicit(&chunk->at[index % CHUNK], memory_order_acquire) : NULL;
}

void stream_progress(const struct client_session *session, flyt_id wire, uint64_t done)
{
    struct client_stream *s = by_wire(wire);
    if (s && (!s->context || s->context->session != session))
        s = NULL;                         /* a server says nothing of another one's streams */
    done += s ? atomic_load(&s->base) : 0;
    if (s && done <= atomic_load(&s->numbered))   /* more than was ever sent: not to be believed */
        stream_ended(s, done);
}

uint64_t stream_base(flyt_id wire)
{
    const struct client_stream *s = by_wire(wire);
    return s ? atomic_load(&s->base) : 0;
}

bool progress_direct(flyt_id wire, struct client_stream *s)
{
    uint32_t index = wire - FLYT_FIRST_STREAM;
    if (index / CHUNK >= CHUNKS)
        return false;
    struct chunk *chunk = atomic_load(&directory[index / CHUNK]), *new;
    if (!chunk) {
        if (!(new = calloc(1, sizeof *new)))
            return false;
        /* Another thread may create a stream now whose id is in the same chunk. If it wins, chunk becomes its one. */
        if (atomic_compare_exchange_strong(&directory[index / CHUNK], &chunk, new))
            chunk = new;
        else
            free(new);
    }
    atomic_store_explicit(&chunk->at[index % CHUNK], s, memory_order_release);
    return true;
}
