/* late.c: what must not overtake deferred calls. See late.h. */
#include "cpu/server/stream/late.h"

#include "cpu/common/lock.h"

/* Is a call deferred in the context that was received up to this place in the session's order? */
static bool deferred_up_to(const struct context *context, uint64_t order)
{
    for (struct list *link = list_first(&context->streams); link; link = list_next(&context->streams, link)) {
        const struct stream *stream = LIST_OBJECT(link, struct stream, of_context);
        if (stream->first && stream->first->order <= order)
            return true;
    }
    return false;
}

bool late_needed(struct session *session, const struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    return session->executor.deferred_calls && deferred_up_to(context, session->order);
}

void late_add(struct session *session, struct late *late, struct context *context,
              void (*act)(struct session *, struct late *, bool))
{
    FLYT_ASSERT_HELD(&session->lock);
    late->context = context;
    late->order = session->order;
    late->act = act;
    list_remove(&late->link);
    list_append(&session->late, &late->link);
}

void late_serve(struct session *session)
{
    FLYT_ASSERT_HELD(&session->lock);
    for (struct list *next, *link = list_first(&session->late); link; link = next) {
        struct late *late = LIST_OBJECT(link, struct late, link);
        next = list_next(&session->late, link);
        if (deferred_up_to(late->context, late->order))
            continue;
        list_remove(link);
        late->act(session, late, false);
    }
}

void late_drop_all(struct session *session, struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    for (struct list *next, *link = list_first(&session->late); link; link = next) {
        struct late *late = LIST_OBJECT(link, struct late, link);
        next = list_next(&session->late, link);
        if (late->context != context)
            continue;
        list_remove(link);
        late->act(session, late, true);
    }
}
