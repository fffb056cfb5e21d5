/*
 * graph.h: CUDA graphs, as the Runtime API (cpu/client/runtime/) and the Driver API (cpu/client/driver/) use them.
 *
 * A graph is data of the program's process: nodes with copies of their parameters, and edges. Nothing travels before a
 * launch. Both front ends share the handles, so a graph made by one can be used by the other. Handles are tokens: a
 * freed, foreign or random one gives 1 (CUDA_ERROR_INVALID_VALUE), never a crash.
 *
 * Result codes are CUresult values. Calls do not wait unless it is said. All functions are thread-safe.
 */
#ifndef FLYT_CLIENT_GRAPH_H
#define FLYT_CLIENT_GRAPH_H

#include "cpu/client/core/core.h"

typedef uint64_t graph_handle;
typedef uint64_t graph_node;
typedef uint64_t graph_executable;
typedef uint64_t graph_object;

enum graph_result {
    GRAPH_CONTEXT_DESTROYED = 709,
    GRAPH_ILLEGAL_STATE = 401,
    GRAPH_LOSSY_QUERY = 402,
    GRAPH_CAPTURE_UNSUPPORTED = 900,
    GRAPH_CAPTURE_INVALIDATED = 901,
    GRAPH_CAPTURE_MERGE = 902,
    GRAPH_CAPTURE_UNMATCHED = 903,
    GRAPH_CAPTURE_UNJOINED = 904,
    GRAPH_CAPTURE_ISOLATION = 905,
    GRAPH_CAPTURE_IMPLICIT = 906,
    GRAPH_CAPTURED_EVENT = 907,
    GRAPH_CAPTURE_WRONG_THREAD = 908,
    GRAPH_UPDATE_FAILURE = 910
};

/* Numbers as in CUgraphNodeType. */
enum graph_kind {
    GRAPH_KERNEL = 0,
    GRAPH_COPY = 1,
    GRAPH_SET = 2,
    GRAPH_HOST = 3,
    GRAPH_CHILD = 4,
    GRAPH_EMPTY = 5,
    GRAPH_WAIT_EVENT = 6,
    GRAPH_RECORD_EVENT = 7,
    GRAPH_ALLOCATE = 10,
    GRAPH_FREE = 11,
    GRAPH_VALUES = 12, /* batched memory operations */
    GRAPH_CONDITION = 13,
    GRAPH_COLLECTIVE = 64 /* none of CUDA's: programs see an empty node */
};

/* ---- parameters of nodes ---- */

struct graph_kernel {
    core_function *function;
    const void *key; /* how the front end named the function; the model only keeps it */
    uint32_t grid[3], block[3];
    size_t shared;
    bool cooperative;
    void **arguments; /* one pointer per parameter; or NULL with packed and packed_size */
    const void *packed;
    size_t packed_size;
    const struct core_launch_attribute *attributes;
    uint32_t attribute_count;
    unsigned uses; /* CORE_USES_..., filled in when the node is made; in an executable, also of its functions before */
};

/* One side of a copy, as the program described it. at: bytes, rows and slices from `base` to the first byte. */
struct graph_side {
    uint64_t base;
    size_t pitch, width, height, at[3];
    int type;
};
/* type, kind: the front ends' own numbers, only kept. */
struct graph_copy {
    struct graph_side to, from;
    struct core_extent extent;
    enum core_direction direction;
    int kind;
    struct core_copy_servers servers; /* whose memory a peer copy has named (core_copy_between) */
};

struct graph_set {
    uint64_t to;
    size_t pitch;
    uint32_t value;
    unsigned element;
    size_t width, height;
};
struct graph_host {
    void (*function)(void *);
    void *user;
};
/* A CUmemAccessDesc: what a device may do with an allocation. */
struct graph_access {
    int type, device, access;
};
/* The access of all devices: bit d is device d. */
enum { GRAPH_DEVICES_MOST = 64 };
struct graph_peers {
    uint64_t read, write;
};
/* access: what the program says of other devices; peers follows from it. properties: a CUmemPoolProps, only kept. */
struct graph_allocation {
    int device;
    size_t size;
    uint64_t address;
    const struct graph_access *access;
    size_t access_count;
    struct graph_peers peers;
    uint8_t properties[88];
};

/* given: the list in the front end's own form, only kept. */
struct graph_values {
    const struct core_value *list;
    unsigned count;
    const void *given;
    size_t given_size;
};

/* handle: a graph_condition_create. bodies: of a node, the handles of the graphs that it runs; `count` of them. */
struct graph_condition {
    uint64_t handle;
    int type; /* enum core_condition_kind */
    unsigned count;
    const graph_handle *bodies;
    struct condition_word *word; /* the model's own */
};

/* Of a communicator: a collective, messages that are under way at a time, or puts, or waits for signals. */
struct graph_collective {
    core_comm comm;
    struct core_comm_call call;               /* where both lists are NULL */
    const struct core_comm_message *messages;
    const struct core_comm_sided *sided;
    bool waits;
    unsigned count;
};

enum { GRAPH_ATTRIBUTES_MOST = 32 }; /* of a kernel */

struct graph_parameters {
    enum graph_kind kind;
    core_context *context; /* where it runs */
    bool moves;            /* of a child: the program's graph itself becomes a part of this one; else a copy */
    union {
        struct graph_kernel kernel;
        struct graph_copy copy;
        struct graph_set set;
        struct graph_host host;
        graph_handle child;
        core_event event;
        struct graph_allocation allocation;
        uint64_t freed;
        struct graph_condition condition;
        struct graph_values values;
        struct graph_collective collective;
    };
};

/* What an edge says beyond "after": CUgraphEdgeData. All zero: the whole of the first node comes before the second.
   Types, and the ports of a kernel: it lets the next one begin, or all of its blocks have begun. */
enum { GRAPH_PROGRAMMATIC = 1, GRAPH_PORT_PROGRAMMATIC = 1, GRAPH_PORT_BEGUN = 2 };
struct graph_edge {
    uint8_t from_port, to_port, type, reserved[5];
};

/* Reads the second form of a launch's parameters, `extra`: packed and packed_size. */
CORE_API int graph_kernel_extra(void **extra, struct graph_kernel *);

/* ---- graphs (graph.c, query.c) ---- */

CORE_API int graph_create(graph_handle *);
CORE_API int graph_destroy(graph_handle);
/* Graphs that allocate or free memory, or have conditions, cannot be cloned: 801. */
CORE_API int graph_clone(graph_handle, graph_handle *);
CORE_API int graph_find_in_clone(graph_node original, graph_handle clone, graph_node *);
/* edges: NULL, or one per dependency. Copies everything that the parameters point to; of an allocation, fills in its
   address, and of a condition, its bodies. Waits when a kernel's module is used for the first time. */
CORE_API int graph_add(graph_handle, const graph_node *before, const struct graph_edge *edges, size_t count,
                       struct graph_parameters *, graph_node *);
CORE_API int graph_remove(graph_node);
CORE_API int graph_connect(graph_handle, const graph_node *from, const graph_node *to, const struct graph_edge *edges,
                           size_t count);
/* edges: NULL, or what the edges that are meant say. */
CORE_API int graph_disconnect(graph_handle, const graph_node *from, const graph_node *to,
                              const struct graph_edge *edges, size_t count);
/* Never GRAPH_COLLECTIVE. */
CORE_API int graph_kind_of(graph_node, enum graph_kind *);
/* The lists below: with nodes NULL, *count becomes the number there are. Else up to *count are written, the rest of
   the room is zeroed, and *count becomes how many were written. edges may be NULL: then an edge that says more than
   "after" gives 402. Without nodes there are no edges: 1. */
CORE_API int graph_nodes(graph_handle, graph_node *nodes, size_t *count);
CORE_API int graph_roots(graph_handle, graph_node *nodes, size_t *count);
CORE_API int graph_edges(graph_handle, graph_node *from, graph_node *to, struct graph_edge *edges, size_t *count);
CORE_API int graph_before(graph_node, graph_node *nodes, struct graph_edge *edges, size_t *count);
CORE_API int graph_after(graph_node, graph_node *nodes, struct graph_edge *edges, size_t *count);
/* What the pointers in *out lead to belongs to the node, until its parameters change. Not of that kind: 1. */
CORE_API int graph_get(graph_node, enum graph_kind, struct graph_parameters *out);
CORE_API int graph_set_parameters(graph_node, const struct graph_parameters *);
/* One attribute of a kernel's launch; numbers as CUlaunchAttributeID, values as CUlaunchAttributeValue. */
CORE_API int graph_get_attribute(graph_node, int id, uint8_t value[64]);
CORE_API int graph_set_attribute(graph_node, int id, const uint8_t value[64]);
CORE_API int graph_copy_attributes(graph_node to, graph_node from);
/* dot.c: describes the graph in the language of Graphviz. 1: the file cannot be written. */
CORE_API int graph_print(graph_handle, const char *path, unsigned flags);

/* user_object.c: reference counts that graphs hold */
CORE_API int graph_object_create(void *pointer, void (*destroy)(void *), unsigned count, graph_object *);
CORE_API int graph_object_retain(graph_object, unsigned count);
CORE_API int graph_object_release(graph_object, unsigned count);
CORE_API int graph_object_give(graph_handle, graph_object, unsigned count, bool moves);
CORE_API int graph_object_take(graph_handle, graph_object, unsigned count);

/* ---- executable graphs (executable.c, update.c, launch.c) ---- */

enum { GRAPH_FREE_ON_LAUNCH = 1, GRAPH_UPLOAD = 2, GRAPH_DEVICE_LAUNCH = 4, GRAPH_NODE_PRIORITY = 8 };
/* Numbers as CUgraphInstantiateResult. node may be 0. */
enum graph_instantiated {
    GRAPH_MADE = 0,
    GRAPH_NOT_MADE = 1,
    GRAPH_INVALID_STRUCTURE = 2,
    GRAPH_LACKS_OPERATION = 3,
    GRAPH_SEVERAL_CONTEXTS = 4,
    GRAPH_HANDLE_UNUSED = 5
};
struct graph_failure {
    graph_node node;
    enum graph_instantiated reason;
};
/* 1 also for a second executable of a graph that allocates or frees memory or has conditions. */
CORE_API int graph_instantiate(graph_handle, unsigned long long flags, graph_executable *, struct graph_failure *);
CORE_API int graph_executable_destroy(graph_executable);
CORE_API int graph_executable_flags(graph_executable, unsigned long long *flags);
/* node: of the graph that was instantiated. */
CORE_API int graph_executable_set(graph_executable, graph_node, const struct graph_parameters *);
CORE_API int graph_executable_enable(graph_executable, graph_node, bool enabled);
CORE_API int graph_executable_enabled(graph_executable, graph_node, bool *enabled);
/* Numbers as CUgraphExecUpdateResult. */
enum graph_updated {
    GRAPH_UPDATED = 0,
    GRAPH_UPDATE_ERROR = 1,
    GRAPH_TOPOLOGY_CHANGED = 2,
    GRAPH_KIND_CHANGED = 3,
    GRAPH_FUNCTION_CHANGED = 4,
    GRAPH_PARAMETERS_CHANGED = 5,
    GRAPH_UPDATE_NOT_SUPPORTED = 6,
    GRAPH_FUNCTION_CHANGE_UNSUPPORTED = 7,
    GRAPH_ATTRIBUTES_CHANGED = 8
};
struct graph_update {
    enum graph_updated result;
    graph_node node, from;
};
/* 910 unless result is GRAPH_UPDATED. */
CORE_API int graph_executable_update(graph_executable, graph_handle, struct graph_update *);
/* Puts the nodes into the stream, in the order of their edges. A launch comes after earlier launches of the same
   executable. While the stream is captured, the graph becomes a child of the captured graph. */
CORE_API int graph_launch(core_context *, graph_executable, core_stream);

/* ---- conditions (condition.c) ---- */

enum { GRAPH_ASSIGN_DEFAULT = 1 };
/* A handle for one condition in the graph, or in a body in it. value: what the condition is at the beginning of each
   execution of the graph, with GRAPH_ASSIGN_DEFAULT. 801: the server has no conditions. */
CORE_API int graph_condition_create(graph_handle, core_context *, uint32_t value, unsigned flags, uint64_t *handle);

/* ---- memory of allocation nodes (memory.c, backing.c) ---- */

/* Whether an address is the start of memory that an allocation node made; then it is freed, after all work of the
   context, or in the order of a stream. *code says how that went. */
CORE_API bool graph_memory_free(uint64_t address, int *code);
CORE_API bool graph_memory_free_async(core_context *, core_stream, uint64_t address, int *code);
/* Memory for a launch in that stream, as far as the executable has none yet. Waits for the server. 2: out of memory.
   Of an executable that kernels launch: what they launch from this place in the stream on. */
CORE_API int graph_upload(core_context *, graph_executable, core_stream);
/* Gives back what no graph uses. Graphs that may be launched again get other memory then. */
CORE_API int graph_memory_trim(int device);
/* Numbers as CUgraphMem_attribute: bytes that lie behind the addresses of a graph, or that are kept for graphs. */
CORE_API int graph_memory_attribute(int device, int attribute, uint64_t *value);
CORE_API int graph_memory_reset(int device, int attribute);

#endif
