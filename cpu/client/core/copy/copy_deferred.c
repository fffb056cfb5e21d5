/* copy_deferred.c: copies with ordinary memory that are made when their turn in the stream comes, as graphs need. */
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/stream/context.h"

struct deferred_box {
    core_context *context;
    struct core_box to, from;
    struct core_extent extent;
    enum core_direction direction;
};

static void copy_box_now(void *user, int status)
{
    struct deferred_box *d = user;
    struct client_stream *s;
    int code = status ? CORE_OK : stream_transfer(d->context, &s);
    if (!status && !code)
        code = core_copy_box(d->context, atomic_load(&s->token), &d->to, &d->from, &d->extent, d->direction, true);
    if (code)
        session_latch(d->context->session, code);
    free(d);
}

int core_copy_box_deferred(core_context *context, core_stream stream, const struct core_box *to,
                           const struct core_box *from, const struct core_extent *extent, enum core_direction direction)
{
    CANCEL_DEFERRED;
    struct deferred_box *d = malloc(sizeof *d);
    if (!d)
        return CORE_OUT_OF_MEMORY;
    *d = (struct deferred_box){ context, *to, *from, *extent, direction };
    int code = core_host_function(context, stream, copy_box_now, d, true);
    if (code)
        free(d);
    return code;
}
