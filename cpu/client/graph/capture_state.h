/*
 * capture_state.h: captures as this folder sees them. All of it under the lock of the graphs, but where it is said.
 */
#ifndef FLYT_CLIENT_CAPTURES_H
#define FLYT_CLIENT_CAPTURES_H

#include "cpu/client/graph/capture.h"
#include "cpu/client/graph/model.h"

/* The nodes that the next node depends on: the next one of a stream, or of a stream that waits for an event. */
struct frontier {
    graph_node *nodes;
    struct graph_edge *edges;
    size_t count, room;
};

bool frontier_add(struct frontier *, graph_node, const struct graph_edge *); /* false: no memory */
bool frontier_merge(struct frontier *, const struct frontier *);
void frontier_drop(struct frontier *);
/* The nodes themselves, NULL for one that is gone. The caller frees the list. NULL: no memory. */
struct model_node **frontier_nodes(const struct frontier *);
/* As its next node, of that kind, follows them: only a kernel can begin before the end of a kernel. own: a kernel in it
   that lets that node begin before its end; 0: none. */
void frontier_fit(struct frontier *, enum graph_kind, graph_node own);

struct capture {
    uint64_t id;
    enum capture_mode mode;
    const void *thread;
    struct graph *graph;
    bool own; /* the graph was made by the capture */
    bool invalid;
    struct list of_all;
    struct list streams; /* the origin is the first */
};

#define CAPTURED_GONE UINT64_MAX

struct captured {
    struct capture *capture;
    uint64_t stream; /* the core's number of it; CAPTURED_GONE: it was destroyed */
    core_context *context;
    bool blocking; /* the legacy stream would wait for it */
    graph_node last; /* what it was given last */
    struct frontier frontier;
    struct list of_capture;
};

struct captured *captured_find(uint64_t stream); /* NULL: it is not captured */
struct captured *captured_join(struct capture *, uint64_t stream, core_context *, bool blocking); /* NULL: no memory */
struct capture *capture_find(uint64_t id); /* NULL: it has ended */
void capture_invalidate(struct capture *);
/* A call that makes the context's legacy stream wait for its blocking streams. 0 or 906. */
int capture_refuse_legacy(const core_context *, bool invalidate);

/* Captured events (marks.c). */
struct mark {
    core_event event;
    uint64_t capture;
    struct frontier frontier;
    struct mark *next;
};
struct mark *mark_find(core_event);
bool mark_set(core_event, uint64_t capture, const struct frontier *);
void mark_remove(core_event);

#endif
