/*
 * model.h: graphs as this folder sees them. One lock protects all graphs, nodes and captures; it is not held while a
 * call of the core is made. An executable has a lock of its own (executable.h).
 */
#ifndef FLYT_CLIENT_GRAPH_MODEL_H
#define FLYT_CLIENT_GRAPH_MODEL_H

#include <pthread.h>

#include "cpu/client/graph/graph.h"
#include "cpu/common/list.h"

struct model_node;
struct memory_block;
struct memory;
struct edge {
    struct model_node *node;
    struct graph_edge data;
};
struct edges {
    struct edge *items;
    size_t count, room;
};

struct model_node {
    graph_node token;    /* 0: it is an executable's */
    graph_node original; /* the node that it is a copy of; 0: of none */
    struct graph *graph;
    struct list of_graph;
    struct edges before, after;
    struct graph_parameters parameters; /* what they point to is the node's own */
    struct graph *child;                /* of a child node */
    struct graph **bodies;              /* of a condition, parameters.condition.count of them; else NULL */
    graph_handle *body_handles;         /* the same, as the program names them */
    struct memory *memory;              /* of an allocation or a free */
    bool disabled;                      /* in an executable */
    size_t place;                       /* scratch: its place in an order; how many nodes it waits for */
};

struct executable;
struct graph {
    graph_handle token; /* 0: it is an executable's */
    const struct executable *executable; /* whose it is; of graphs inside another one NULL */
    graph_handle original;
    struct model_node *parent; /* the node whose child or body it is */
    struct list nodes;   /* in the order in which they were added */
    size_t count;
    unsigned captures; /* how many captures add nodes to it */
    bool instantiated; /* it has an executable, and may have no second one */
    struct user *users;
    struct user *updated; /* scratch: what an update makes of `users` */
    struct ground *ground; /* of what it allocates; NULL: nothing */
    bool moved;            /* into its parent; the program's handle is the parent's */
    struct condition_word *conditions; /* that were created for it */
};

/* Entering: 3 in the child of a fork, 2 without memory. Leaving does what must not be done under the lock: memory goes
   back to the core, and user objects learn of their end. */
int graphs_enter(void);
void graphs_leave(void);
/* Under the lock: function(data) is called by graphs_leave. link is in an object that lives until then. */
struct deferred {
    void (*function)(void *data);
    void *data;
    struct deferred *next;
};
void graphs_defer(struct deferred *);

/* Under the lock; NULL: no such thing. */
struct graph *graph_of(graph_handle);
struct model_node *node_of(graph_node);

/* for (EACH_NODE(n, g)) */
#define NODE_AT(link) LIST_OBJECT(link, struct model_node, of_graph)
#define EACH_NODE(name, g)                                      \
    struct model_node *name = NODE_AT(list_first(&(g)->nodes)); \
    name;                                                       \
    name = NODE_AT(list_next(&(g)->nodes, &name->of_graph))

/* The graphs in a node, by number: its child, or its bodies. NULL: there are no more. */
static inline struct graph *node_inner(const struct model_node *n, size_t i)
{
    if (n->child)
        return i ? NULL : n->child;
    return n->bodies && i < n->parameters.condition.count ? n->bodies[i] : NULL;
}

/* ---- graph.c; under the lock ---- */

struct graph *graph_new(bool has_handle); /* NULL: no memory */
/* A deep copy. with_handles: the program can name its nodes. NULL: no memory. */
struct graph *graph_copy_of(struct graph *, bool with_handles);
void graph_free(struct graph *);
/* It or a child allocates or frees, or has conditions: no copy, no second executable. */
bool graph_is_single(struct graph *);
/* parameters is taken over. NULL: no memory; nothing is taken. */
struct model_node *node_new(struct graph *, struct graph_parameters *, bool has_handle);
bool node_connect(struct model_node *from, struct model_node *to, const struct graph_edge *);
/* Adds a node whose parameters are prepared, behind nodes of the same graph. 1: a dependency is of another graph, or
   is there twice. The parameters are taken over only on success. */
int node_add(struct graph *, struct model_node *const *before, const struct graph_edge *, size_t count,
             struct graph_parameters *, struct model_node **);
/* ---- order.c; under the lock ---- */

/* Nodes in an order in which each follows those before it; the caller frees it. NULL with *cycle: there is none, and
   that node is one of a cycle. NULL without: no memory. */
struct model_node **graph_order(struct graph *, struct model_node **cycle);
/* Sets `place` of those nodes, and of all that come before them, to 1, and of all others of the graph to 0. NULL, or a
   node of another graph, is passed over. False: no memory. */
bool graph_mark_before(struct graph *, struct model_node *const *, size_t count);

/* ---- parameters.c ---- */

/* Checks the program's parameters and makes *out a copy that owns what it points to. Not under the lock: a kernel's
   layout may come from the server. */
int parameters_prepare(const struct graph_parameters *, struct graph_parameters *out);
/* Copies what is prepared already. false: no memory. */
bool parameters_copy(const struct graph_parameters *, struct graph_parameters *out);
void parameters_drop(struct graph_parameters *);
/* What native checks at a launch, of a kernel with its attributes; not under the lock. */
int kernel_check(core_context *, const struct graph_kernel *);
/* A kernel that gets new parameters keeps the attributes that it had. 0 or 2. */
int attributes_keep(struct graph_parameters *to, const struct graph_parameters *from);

/* ---- condition.c; under the lock ---- */

/* Makes the bodies of a node that has none; copies them if `like` is not NULL. false: no memory. */
bool bodies_make(struct model_node *, const struct model_node *like, bool with_handles);
void bodies_drop(struct model_node *);
/* Whether such a node may be in the graph: 0, 1 or 801. Of a condition, finds its word. */
int condition_admit(struct graph *, struct graph_parameters *);
void condition_hold(struct condition_word *);
void condition_drop(struct condition_word *);
void conditions_drop(struct graph *); /* the handles that were created for it */
/* Whether a graph that is to become an executable keeps the rules of conditions: 0, 1 or 801. */
int conditions_check(struct graph *, struct model_node **cycle, bool *unused);
bool graph_has_conditions(struct graph *);

/* ---- the same; not under the lock ---- */

/* Gives the stream what sets the conditions of the graph that begins: depth 0, or the body of so many conditions. */
int conditions_begin(struct graph *, unsigned depth, core_context *, core_stream);
/* Gives the stream the condition with its bodies. */
int condition_run(const struct model_node *, core_stream, int priority);
/* Gives the stream all nodes of the graph, one behind the other. */
int nodes_run(struct graph *, core_stream, int priority);

/* ---- memory.c; under the lock, but room_make and room_drop ---- */

enum { MEMORY_LACKS_ROOM = -1 };
/* Room for one more allocation. To be given to memory_new, or to room_drop. NULL is no room. */
int room_make(const struct graph_parameters *, struct memory_block **);
void room_drop(struct memory_block *);
/* The allocation of a node that is to be added to the graph, behind those nodes; fills in its address. *room is taken
   if it is needed. MEMORY_LACKS_ROOM: it is needed, and NULL. */
int memory_new(struct graph *, struct model_node *const *before, size_t count, struct graph_parameters *,
               struct memory_block **room, struct memory **);
void memory_hold(struct memory *);
void memory_drop(struct memory *);
/* What a node that is added to the graph can free at that address; NULL: nothing. */
struct memory *memory_to_free(struct graph *, uint64_t address);
/* The node, which has been added, frees it. */
void memory_freed_by(struct memory *, const struct model_node *);
/* The graph ends. */
void ground_leave(struct graph *);

/* ---- user_object.c; under the lock ---- */

struct leftovers;
bool users_copy(struct graph *to, const struct graph *from);
void users_drop(struct graph *);
/* The graph, and the graphs in it, hold what those of another graph of the same form hold, and no longer what they
   held: that is the caller's, to be given to users_release. NULL: no memory; nothing changed. */
struct leftovers *users_replace(struct graph *, const struct graph *from);

/* ---- the same; not under the lock ---- */

/* Drops the references, and frees the object. NULL is allowed. May call the program's functions. */
void users_release(struct leftovers *);
/* True: the event has not come yet, and the references will be released when it has. False: the caller releases. */
bool users_wait(struct leftovers *, core_context *, core_event);
/* The graph's references, and those of the graphs in it, go when the event has come. */
void users_release_behind(struct graph *, core_context *, core_event);

#endif
