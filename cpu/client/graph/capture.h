/*
 * capture.h: streams that are captured: what they are given becomes nodes of a graph.
 *
 * A capture begins in one stream, its origin. Another stream joins it by waiting for an event that was recorded in
 * a captured stream; such an event stands for nodes, and nothing can be asked about it. All of this is state of the
 * process: the server sees nothing of a capture.
 *
 * What is forbidden gives native's codes (enum graph_result) and invalidates the captures concerned, up to their end.
 */
#ifndef FLYT_CLIENT_CAPTURE_H
#define FLYT_CLIENT_CAPTURE_H

#include <stdatomic.h>

#include "cpu/client/graph/graph.h"

/* Captured streams and events. While there are none, nothing below is asked. */
extern CORE_API atomic_uint capture_count;
static inline bool capture_any(void)
{
    return __builtin_expect(atomic_load_explicit(&capture_count, memory_order_relaxed) != 0, 0);
}

/* Numbers as CUstreamCaptureMode and CUstreamCaptureStatus. */
enum capture_mode { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
enum capture_status { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED };

/* ---- what programs ask for (capture.c) ---- */

CORE_API int capture_begin(core_context *, core_stream, enum capture_mode);
/* Into a graph that there is; the first nodes follow those in before. */
CORE_API int capture_begin_to(core_context *, core_stream, graph_handle, const graph_node *before,
                              const struct graph_edge *, size_t count, enum capture_mode);
/* *graph: 0 unless the result is 0. NULL only where the capture goes to a graph that there was: 1. */
CORE_API int capture_end(core_context *, core_stream, graph_handle *graph);
/* The lists are the stream's, up to the next call about it. */
struct capture_info {
    enum capture_status status;
    uint64_t id;
    graph_handle graph;
    const graph_node *before;
    const struct graph_edge *edges;
    size_t count;
};
CORE_API int capture_info(core_context *, core_stream, struct capture_info *);
/* Whether a program may have the nodes or the edges alone: 0, 1 or 402. */
CORE_API int capture_info_check(const struct capture_info *, bool nodes, bool edges);
/* What the stream's next node follows: more nodes, or, with `only`, these alone. */
CORE_API int capture_update(core_context *, core_stream, const graph_node *, const struct graph_edge *, size_t count,
                            bool only);
/* The calling thread's mode; *mode becomes what it was. */
CORE_API int capture_exchange_mode(int *mode);

/* ---- what else programs do, while there may be a capture (capture_calls.c) ----
 * Each *kept says whether the call has become part of a capture, or was refused; else the caller goes on as always. */

CORE_API int capture_launch(core_context *, const struct core_launch *, const void *key, bool *kept);
CORE_API int capture_copy(core_context *, core_stream, const struct graph_copy *, bool blocking, bool *kept);
CORE_API int capture_set(core_context *, core_stream, const struct graph_set *, bool blocking, bool *kept);
/* function NULL: a call that cannot be captured. */
CORE_API int capture_host(core_context *, core_stream, void (*function)(void *), void *user, bool *kept);
CORE_API int capture_values(core_context *, core_stream, const struct graph_values *, bool *kept);
CORE_API int capture_collective(core_context *, core_stream, const struct graph_collective *, bool *kept);
CORE_API int capture_record(core_context *, core_event, core_stream, unsigned flags, bool *kept);
CORE_API int capture_wait(core_context *, core_stream, core_event, unsigned flags, bool *kept);
/* The node has the properties of the pool; 0: of the current one of the stream's device. */
CORE_API int capture_allocate(core_context *, core_stream, core_pool, size_t size, uint64_t *address, bool *kept);
CORE_API int capture_free(core_context *, core_stream, uint64_t address, bool *kept);
/* 0: the call may be made. */
CORE_API int capture_check_stream(core_context *, core_stream); /* it waits for the stream, or asks about it */
CORE_API int capture_check_context(core_context *);             /* the same of a context */
CORE_API int capture_check_event(core_event);
CORE_API int capture_check_captured(core_context *, core_stream);
CORE_API int capture_check_unsafe(void); /* it may wait for other work: cudaMalloc, cudaMemcpy … */
CORE_API void capture_forget_event(core_event);
/* A stream that joined a capture may go before its end; with the origin, the capture is gone. */
CORE_API void capture_forget_stream(core_context *, core_stream);
/* Each capture that has a stream of the context is gone, before the context ends. */
CORE_API void capture_forget_context(const core_context *);

/* ---- the same, without cost where nothing is captured ---- */

static inline int issue_check_stream(core_context *c, core_stream s)
{
    return capture_any() ? capture_check_stream(c, s) : 0;
}
static inline int issue_check_context(core_context *c) { return capture_any() ? capture_check_context(c) : 0; }
static inline int issue_check_event(core_event e) { return capture_any() ? capture_check_event(e) : 0; }
/* A call that no capture keeps, into a stream that is captured: it fails, and the capture is invalidated. */
static inline int issue_check_captured(core_context *context, core_stream stream)
{
    return capture_any() ? capture_check_captured(context, stream) : 0;
}
static inline int issue_check_unsafe(void) { return capture_any() ? capture_check_unsafe() : 0; }

static inline bool issue_is_captured(core_context *c, core_stream s)
{
    struct capture_info info;
    return capture_any() && capture_info(c, s, &info) == CORE_OK && info.status != CAPTURE_NONE;
}

/* As the core's functions of these names, but kept while their stream is captured. */
CORE_API int issue_launch_with_attributes(core_context *, const struct core_launch *, const void *key);
static inline int issue_launch(core_context *c, const struct core_launch *l, const void *key)
{
    bool kept = false, attributes = atomic_load_explicit(&core_stream_attributes_set, memory_order_relaxed);
    if (__builtin_expect(attributes | (l->attribute_count != 0), 0))
        return issue_launch_with_attributes(c, l, key);
    int code = capture_any() ? capture_launch(c, l, key, &kept) : CORE_OK;
    return kept ? code : core_launch(c, l);
}

static inline int issue_record(core_context *c, core_event e, core_stream s, unsigned flags)
{
    bool kept = false;
    int code = capture_any() ? capture_record(c, e, s, flags, &kept) : CORE_OK;
    return kept ? code : core_event_record(c, e, s, flags);
}

static inline int issue_wait(core_context *c, core_stream s, core_event e, unsigned flags)
{
    bool kept = false;
    int code = capture_any() ? capture_wait(c, s, e, flags, &kept) : CORE_OK;
    return kept ? code : core_stream_wait(c, s, e, flags);
}

static inline int issue_stream_destroy(core_context *c, core_stream s)
{
    if (capture_any())
        capture_forget_stream(c, s);
    return core_stream_destroy(s);
}

/* The context is about to end, or to be reset. */
static inline void issue_context_ends(const core_context *c)
{
    if (capture_any())
        capture_forget_context(c);
}

static inline int issue_event_destroy(core_event e)
{
    if (capture_any())
        capture_forget_event(e);
    return core_event_destroy(e);
}

/* A collective, messages, puts or waits of a communicator. */
CORE_API int issue_collective(core_context *, core_stream, const struct graph_collective *);
/* A copy of one row, or of a box; a memset. */
CORE_API int issue_copy(core_context *, core_stream, void *to, const void *from, size_t size, enum core_direction,
                        bool blocking);
CORE_API int issue_copy_box(core_context *, core_stream, const struct core_box *to, const struct core_box *from,
                            const struct core_extent *, enum core_direction, bool blocking);
CORE_API int issue_set(core_context *, core_stream, const struct core_box *to, const struct core_extent *,
                       uint32_t value, unsigned element, bool blocking);

#endif
