/*
 * executable.h: an executable graph: a copy of a graph, and the plan by which it is launched.
 *
 * The plan is a list of steps in the order in which they are given to streams. Each step runs in a track, which is one
 * stream of each launch; steps of one track run one after another. A step waits for steps of other tracks through their
 * events.
 */
#ifndef FLYT_CLIENT_GRAPH_EXECUTABLE_H
#define FLYT_CLIENT_GRAPH_EXECUTABLE_H

#include <limits.h>

#include "cpu/client/graph/model.h"

enum { TRACKS_MOST = 16 };

struct step {
    struct model_node *node; /* NULL: only a place that others wait for */
    unsigned track;
    uint32_t number; /* in its track, from 1 */
    bool first;      /* waits for the start of the launch */
    bool awaited;    /* a step of another track waits for it */
    size_t wait_count;
    uint32_t *waits;  /* steps */
    core_event event; /* 0: not made yet */
};

struct track {
    core_context *context;
    core_stream stream;
}; /* track 0 has a stream of its own only when need be */

struct plan {
    struct step *steps;
    size_t count, room;
    struct track tracks[TRACKS_MOST];
    unsigned track_count;
    uint32_t ends[TRACKS_MOST]; /* the steps that the end of a launch waits for */
    unsigned end_count;
};

/* plan.c. Nodes of g are named by the plan. 1 with *cycle: g has a cycle, and that node is in it. 2: no memory. */
int plan_make(struct plan *, struct graph *g, struct model_node **cycle);
void plan_drop(struct plan *);

struct executable {
    graph_executable token;
    unsigned long long flags;
    unsigned references;  /* under the lock of the graphs */
    graph_handle only_of; /* a graph that may have no second executable; 0: none */
    pthread_mutex_t lock; /* what follows; taken before the lock of the graphs */
    struct graph *graph;
    struct named {
        graph_node original;
        struct model_node *node;
    } * named; /* sorted */
    size_t named_count;
    bool uses_memory, has_conditions;
    /* Kernels that launch graphs: there are any; the context of those that were there at first, or NULL. */
    bool launches;
    const core_context *launches_from;
    bool uploaded; /* the server has its nodes as they are now, for kernels to launch */
    /* What the launches allocate (memory.c). */
    struct memory_block **blocks;
    struct ground **grounds;
    size_t block_count, ground_count;
    bool escapes; /* the program uses some of it outside the graph */
    struct plan plan;
    core_event started, ended, joined; /* 0: not made yet. joined: the end of a track 0 of another context */
    core_context *ended_context;
    core_stream last; /* the stream of the last launch; 0: none, or one that has no name of its own */
    bool launched;
    /* What a launch consists of while the server keeps it (server_copy.c): segments of the sequence, and steps between
       them that this process makes itself. */
    core_sequence *sequence;  /* NULL: not tried yet, or the server keeps none */
    bool tried;               /* to make one */
    bool changed;             /* a node has, since it was recorded */
    bool recorded;
    uint64_t recorded_at;     /* core_changes() */
    int recorded_priority;
    struct part {
        struct step *step;    /* NULL: the next segment */
    } * parts;
    size_t part_count;
};

/* A launch: the program's stream, or what stands in for it while a sequence is recorded. */
enum { PRIORITY_OF_NODES = INT_MIN };
struct launch {
    struct executable *e;
    core_context *context;
    core_stream stream;
    int priority; /* of all kernels: the stream's, or PRIORITY_OF_NODES */
};

/* launch.c. What comes before the first step, one step, what comes behind the last. */
int launch_prepare(const struct launch *);
int launch_begin(const struct launch *);
int launch_step(const struct launch *, struct step *);
int launch_end(const struct launch *);

/* device.c. Whether kernels may launch such a graph: 0, 1 or 801. Under the lock of the graphs. */
int device_check(struct graph *, struct graph_failure *);
/* Looks for kernels that launch graphs. 801: they are of several contexts, and *failure says which one is wrong. */
int device_look(struct executable *, struct graph_failure *);
/* Whether a kernel node of the executable may get a function that does what `uses` says. */
bool device_may_use(const struct model_node *, unsigned uses);
/* Gives the stream what kernels launch from here on. */
int device_set(const struct launch *);
/* The executable that the node is a part of; NULL: none. */
static inline const struct executable *executable_of(const struct model_node *n)
{
    const struct graph *g = n->graph;
    while (g->parent)
        g = g->parent->graph;
    return g->executable;
}

/* server_copy.c. Launches by what the server keeps. *done false: it cannot be done that way, and nothing was sent. */
int kept_launch(const struct launch *, bool *done);
void kept_drop(struct executable *);

/* memory.c. Not under the lock of the graphs. Collects what the launches allocate. False: no memory. */
bool memory_executable(struct executable *);
/* Before anything of a launch is sent: whether it may be made. Then there is memory behind its addresses. 0, 1, 2 or
   709. Behind the launch: memory_launched, with the launch's result. */
int memory_launch(const struct launch *);
void memory_launched(const struct launch *, int code);
int memory_upload(const struct launch *); /* the memory only */
/* The executable ends. True: its event `ended` is not its own any more. */
bool memory_executable_ends(struct executable *);

/* Locked, and kept alive up to executable_leave. 1: no such executable. */
int executable_enter(graph_executable, struct executable **);
void executable_leave(struct executable *);
/* Under its lock. */
int executable_launch(struct executable *, core_context *, core_stream);
/* Not under any lock. A node's work, in that stream of its context. priority: of kernels, instead of their own;
   PRIORITY_OF_NODES: their own. */
int node_run(const struct model_node *, core_stream, int priority);

#endif
