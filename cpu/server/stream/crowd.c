/*
 * crowd.c: how much the driver holds for a session, of all its streams together.
 *
 * Each stream has at most SESSION_STREAM_CAP operations inside the driver. A session may have very many streams, and an
 * operation may have many bytes: with launches of graphs, which cost a client a few bytes each, its streams could fill
 * the host's memory. So the bytes are counted, too. While the driver holds `most` of them, a stream that has
 * something inside gets no more in: its operations wait in the server, where they are bounded as well (executor.c).
 *
 * A stream with nothing inside gets its next operation in, however much the others have. So what all of them wait for
 * can always come, whichever stream it comes in.
 *
 * Bytes leave with the markers of their stream (completion.c). `entered` is only changed under session.lock and `left`
 * only under completion.lock, so that no operation needs a locked instruction.
 */
#include "cpu/server/session.h"

#include <stdlib.h>

#include "cpu/common/env.h"
#include "cpu/common/lock.h"

enum { SHARE = 8 };                       /* of what the tenant's programs may have of the host's memory */

void crowd_open(struct session *session)
{
    const char *given = env_get("FLYT_TENANT_HOST_MEMORY");
    unsigned long long share = given ? strtoull(given, NULL, 10) / SHARE : 0;
    session->crowd.most = share && share < SESSION_DRIVER_BYTES ? share : SESSION_DRIVER_BYTES;
}

bool crowd_full(const struct session *session, const struct stream *stream)
{
    FLYT_ASSERT_HELD(&session->lock);
    const struct crowd *crowd = &session->crowd;
    uint64_t inside = crowd->entered - atomic_load_explicit(&crowd->left, memory_order_relaxed);
    return __builtin_expect(inside >= crowd->most, 0) && stream->issued > atomic_load(&stream->done);
}

void crowd_enter(struct session *session, struct stream *stream, const struct call *call)
{
    FLYT_ASSERT_HELD(&session->lock);
    size_t bytes = call->bytes + (size_t)call->parts * SESSION_CALL_COST;
    stream->entered += bytes;
    session->crowd.entered += bytes;
}

void crowd_leave(struct session *session, struct stream *stream, uint64_t entered)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    if (entered <= stream->left)
        return;
    _Atomic uint64_t *left = &session->crowd.left;
    atomic_store_explicit(left, atomic_load_explicit(left, memory_order_relaxed) + entered - stream->left,
                          memory_order_relaxed);
    stream->left = entered;
}
