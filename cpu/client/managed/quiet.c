/* quiet.c: whether work that may use a page of managed memory is under way, as far as is known here. */
#include <string.h>

#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/stream/managed.h"
#include "spans.h"

/* By scope: a copy or a set was given work on such pages, and not all work has ended since. Any stream may have it. */
static bool copied[SCOPES_MOST];

/* standing: a stream that waits for a function of the program, so that its work does not count; NULL: none does. */
static bool stream_quiet(core_stream token, const struct client_stream *standing)
{
    struct client_stream *s;
    return client_stream_find(NULL, token, &s) || s == standing || stream_known_idle(s);
}

static bool all_quiet(const struct client_stream *standing)
{
    FLYT_ASSERT_HELD(&spans_lock);
    for (core_context *c = context_next(NULL); c; c = context_next(c))
        if (!context_known_idle(c) && !(standing && standing->context == c && stream_others_idle(standing)))
            return false;
    return true;
}

bool work_ended(unsigned scope)
{
    core_stream stream = scope_stream(scope);
    return scope == SCOPE_HOST || (stream ? stream_quiet(stream, NULL) : all_quiet(NULL));
}

void work_copies(unsigned scope)
{
    FLYT_ASSERT_HELD(&spans_lock);
    copied[scope] = true;
}

/* A thread that gives work to a stream counts itself, then asks whether pages are open (managed_work_begins). A thread
   that opens a page announces that first (spans_opening), then calls this function, which looks at the count. So either
   this function sees the first thread, or the first thread sees the page, waits for spans_lock and closes all open
   pages. Once a thread no longer counts itself, its stream has the work. */
bool work_quiet(unsigned scope, bool in_function)
{
    const struct client_stream *standing = in_function ? host_function_stream() : NULL;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&managed_work_coming))
        return false;
    if (!copied[scope] && (scope == SCOPE_HOST || scope_stream(scope)))
        return scope == SCOPE_HOST || stream_quiet(scope_stream(scope), standing);
    if (!all_quiet(standing))
        return false;
    if (!standing)                            /* else copies may stand behind the function */
        memset(copied, 0, sizeof copied);
    return true;
}
