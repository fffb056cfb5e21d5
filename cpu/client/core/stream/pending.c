/*
 * pending.c: the copies into pinned memory that have not arrived (copy_pending.c): what they come before, and waiting
 * for them.
 *
 * Each call stands in a list until its bytes have arrived, so that a synchronisation (or a host function) can wait
 * for exactly those that come before it: replies of different streams come in no order that could be relied on. A
 * copy comes before a point of another stream if an event carried it there (its marks: one per stream that has been
 * made to wait for it), or by the rules of the legacy stream.
 *
 * `writers` counts what may still write memory of the program behind its back: these copies and host functions. While
 * it is 0, a copy to the device may take its source at once.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/client/core/api_session.h"
#include "cpu/common/cancel.h"
#include "cpu/common/lock.h"
#include "context.h"
#include "pending_copy.h"
#include "pending.h"

struct pending_copies pending_copies = { .lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER };

unsigned pending_writers(void)
{
    return atomic_load(&pending_copies.writers);
}

void pending_writer_begins(void)
{
    atomic_fetch_add(&pending_copies.writers, 1);
}

void pending_writer_ends(void)
{
    atomic_fetch_sub(&pending_copies.writers, 1);
}

static const uint8_t *rows_end(const struct host_rows *r)
{
    return r->address + (r->slices - 1) * r->slice_pitch + (r->rows - 1) * r->pitch + r->width;
}

bool pending_overlap(const struct host_rows *a, const struct host_rows *b)
{
    return a->address < rows_end(b) && b->address < rows_end(a);
}

/* ---- what comes before what; under pending_copies.lock ---- */

/* A structure becomes another stream's only when no mark refers to it any more (pending_refer_to): so all marks are of
   the present one, and come behind the points of those before. */
static bool mark_before(const struct copy_mark *m, const struct point *p)
{
    if (m->stream == p->stream)
        return atomic_load(&p->stream->life) == p->life && m->number <= p->number;
    if (m->stream->context != p->stream->context || !stream_is_blocking(m->stream) || !stream_is_blocking(p->stream))
        return false;
    if (stream_is_legacy(m->stream) || stream_is_legacy(p->stream))
        return m->serial < p->serial;
    return m->serial < p->legacy_before;
}

bool pending_before(const struct pending_copy *out, const struct point *p)
{
    FLYT_ASSERT_HELD(&pending_copies.lock);
    struct copy_mark own = { out->stream, atomic_load(&out->at.number), atomic_load(&out->at.serial) };
    bool before = mark_before(&own, p);
    for (unsigned i = 0; i < out->mark_count && !before; i++)
        before = mark_before(&out->marks[i], p);
    return before;
}

static bool out_marked(const struct pending_copy *out, const struct client_stream *stream)
{
    bool marked = out->stream == stream;
    for (unsigned i = 0; i < out->mark_count && !marked; i++)
        marked = out->marks[i].stream == stream;
    return marked;
}

static void out_mark(struct pending_copy *out, const struct copy_mark *mark)
{
    if (out_marked(out, mark->stream))
        return;                               /* an earlier mark in the same stream says more */
    struct copy_mark *more = realloc(out->marks, (out->mark_count + 1) * sizeof *more);
    if (!more)
        return;
    out->marks = more;
    out->marks[out->mark_count++] = *mark;
}

void pending_join(const struct point *before, const struct point *after)
{
    if (!atomic_load(&pending_copies.count))
        return;
    const struct copy_mark mark = { after->stream, after->number, after->serial };
    pthread_mutex_lock(&pending_copies.lock);
    for (struct pending_copy *o = pending_copies.first; o; o = o->next)
        if (pending_before(o, before))
            out_mark(o, &mark);
    pthread_mutex_unlock(&pending_copies.lock);
}

/* Not those that another thread is still submitting: they may come behind the next call, and have to wait for it. */
void pending_join_next(const struct client_stream *stream)
{
    if (!atomic_load(&pending_copies.count) || !stream_is_blocking(stream))
        return;
    const struct point next = stream_point_next(stream);
    const struct copy_mark mark = { stream, next.number + 1, next.serial };
    pthread_mutex_lock(&pending_copies.lock);
    for (struct pending_copy *o = pending_copies.first; o; o = o->next)
        if (atomic_load(&o->at.number) <= atomic_load(&o->stream->sent) && pending_before(o, &next))
            out_mark(o, &mark);
    pthread_mutex_unlock(&pending_copies.lock);
}

bool pending_refer_to(const struct client_stream *stream)
{
    if (!atomic_load(&pending_copies.count))
        return false;
    bool refers = false;
    pthread_mutex_lock(&pending_copies.lock);
    for (const struct pending_copy *o = pending_copies.first; o && !refers; o = o->next)
        refers = out_marked(o, stream);
    pthread_mutex_unlock(&pending_copies.lock);
    return refers;
}

static bool any_before(const struct point *p)
{
    for (const struct pending_copy *o = pending_copies.first; o; o = o->next)
        if (pending_before(o, p))
            return true;
    return false;
}

static bool any_on(const core_context *c, uint64_t serial)
{
    for (const struct pending_copy *o = pending_copies.first; o; o = o->next)
        if ((!c || o->stream->context == c) && atomic_load(&o->at.serial) <= serial)
            return true;
    return false;
}

bool pending_any_where(const struct point *p, bool (*where)(const struct host_rows *))
{
    if (!atomic_load(&pending_copies.count))
        return false;
    bool found = false;
    pthread_mutex_lock(&pending_copies.lock);
    for (const struct pending_copy *o = pending_copies.first; o && !found; o = o->next)
        found = where(&o->place) && pending_before(o, p);
    pthread_mutex_unlock(&pending_copies.lock);
    return found;
}

/* ---- waiting ---- */

bool pending_any(const struct point *p)
{
    if (!atomic_load(&pending_copies.count))
        return false;
    pthread_mutex_lock(&pending_copies.lock);
    bool pending = any_before(p);
    pthread_mutex_unlock(&pending_copies.lock);
    return pending;
}

void pending_wait(const struct point *p)
{
    if (!atomic_load(&pending_copies.count))
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&pending_copies.lock);
    while (any_before(p))
        pthread_cond_wait(&pending_copies.arrived, &pending_copies.lock);
    pthread_mutex_unlock(&pending_copies.lock);
    wire_print_texts();
}

void pending_wait_memory(const struct point *p, const struct host_rows *place)
{
    if (!atomic_load(&pending_copies.count))
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&pending_copies.lock);
    for (struct pending_copy *o = pending_copies.first; o;) {
        bool first = pending_overlap(&o->place, place) && pending_before(o, p);
        if (first)
            pthread_cond_wait(&pending_copies.arrived, &pending_copies.lock);
        o = first ? pending_copies.first : o->next;
    }
    pthread_mutex_unlock(&pending_copies.lock);
}

void pending_wait_done(const struct host_rows *place)
{
    if (!atomic_load(&pending_copies.count))
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&pending_copies.lock);
    for (struct pending_copy *o = pending_copies.first; o;) {
        bool first = pending_overlap(&o->place, place) && atomic_load(&o->at.number) <= stream_done(o->stream);
        if (first)
            pthread_cond_wait(&pending_copies.arrived, &pending_copies.lock);
        o = first ? pending_copies.first : o->next;
    }
    pthread_mutex_unlock(&pending_copies.lock);
}

void pending_wait_context(const core_context *c, uint64_t serial)
{
    if (!atomic_load(&pending_copies.count))
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&pending_copies.lock);
    while (any_on(c, serial))
        pthread_cond_wait(&pending_copies.arrived, &pending_copies.lock);
    pthread_mutex_unlock(&pending_copies.lock);
    wire_print_texts();
}
