/*
 * deferred.c: which streams with deferred calls are worth a try. See stream.c on why a call is deferred.
 *
 * A stream whose first deferred call may have become possible is in `ready`. Else it is where whoever gives it what it
 * lacks will find it (call->wants): at the recording of an event, at a function that is being loaded, where staging
 * memory, room on lanes or room in the driver is given out (in turn, as long as there is some), or in `starved`, which
 * is tried with every kick. Whatever it waits for, it is ready when something of its own has completed
 * (completion.progressed). The order between the legacy stream and the blocking ones needs no list: context->heads
 * says who is next.
 */
#include "cpu/server/session.h"

#include "cpu/common/lock.h"
#include "cpu/server/stream/late.h"

static void make_ready(struct session *session, struct stream *stream)
{
    list_remove(&stream->parked);
    list_append(&session->ready, &stream->parked);
}

static void heads_insert(struct stream *stream)
{
    if (!stream->first || !stream_ordered(stream))
        return;
    stream->head = (struct tree_node){ .key = stream->first->order };
    tree_insert(&stream->context->heads, &stream->head);
}

void deferred_begin(struct session *session, struct stream *stream)
{
    FLYT_ASSERT_HELD(&session->lock);
    atomic_store(&stream->deferred, true);
    heads_insert(stream);
    make_ready(session, stream);
}

/* The legacy stream's first call is no longer the one at `order`: what only that was before has come to its turn. */
static void legacy_moved(struct session *session, struct stream *legacy, uint64_t order)
{
    const struct tree *heads = &legacy->context->heads;
    struct tree_node *node = tree_at_or_above(heads, order, 0);
    for (; node && (!legacy->first || node->key < legacy->first->order); node = tree_next(heads, node))
        make_ready(session, TREE_OBJECT(node, struct stream, head));
}

void deferred_moved(struct session *session, struct stream *stream, uint64_t order)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct context *context = stream->context;
    struct stream *legacy = context->legacy;
    if (stream == legacy) {
        legacy_moved(session, legacy, order);
    } else if (stream_ordered(stream)) {
        bool before = legacy->first && deferred_before(legacy, legacy->first->order);
        tree_remove(&context->heads, &stream->head);
        heads_insert(stream);
        if (before && !deferred_before(legacy, legacy->first->order))
            make_ready(session, legacy);
    }
    if (stream->first)
        return;
    atomic_store(&stream->deferred, false);
    list_remove(&stream->parked);
}

void deferred_wake(struct session *session, struct list *parked)
{
    FLYT_ASSERT_HELD(&session->lock);
    for (struct list *link; (link = list_first(parked));)
        make_ready(session, LIST_OBJECT(link, struct stream, parked));
}

void record_issued(struct session *session, struct record *record)
{
    record->issued = true;
    deferred_wake(session, &record->parked);
}

/* Gives the driver what it can of the stream's calls. The list where it waits for the rest; NULL: none. */
static const struct list *try(struct session *session, struct stream *stream)
{
    struct list *wants = NULL;
    bool moved = false;
    stream_hold(stream);                              /* its own STREAM_DESTROY may be among them */
    list_remove(&stream->parked);
    while (stream->first && stream_issue_first(session, stream))
        moved = true;
    if (stream->first && (wants = stream->first->wants)) {
        list_remove(&stream->parked);
        if (moved)
            list_append(wants, &stream->parked);
        else
            list_prepend(wants, &stream->parked);     /* where it was: the next one to be served */
    }
    stream_drop(session, stream);
    return wants;
}

/* Something of what those in the list want may be there. */
static void feed(struct session *session, struct list *wanted)
{
    for (struct list *link; (link = list_first(wanted));)
        if (try(session, LIST_OBJECT(link, struct stream, parked)) == wanted)
            return;
}

void deferred_issue(struct session *session)
{
    FLYT_ASSERT_HELD(&session->lock);
    for (struct stream *stream; (stream = completion_progressed(session)); stream_drop(session, stream))
        if (stream->first)
            make_ready(session, stream);
    deferred_wake(session, &session->starved);
    do {
        for (struct list *link; (link = list_first(&session->ready));)
            try(session, LIST_OBJECT(link, struct stream, parked));
        for (struct list *link = list_first(&session->contexts); link; link = list_next(&session->contexts, link)) {
            struct context *context = LIST_OBJECT(link, struct context, of_session);
            feed(session, &context->staging.small.wanted);
            feed(session, &context->staging.large.wanted);
        }
        feed(session, &session->congested);
        feed(session, &session->crowded);
    } while (list_first(&session->ready));
    late_serve(session);
}
