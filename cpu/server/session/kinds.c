/* kinds.c: the table of kinds.h. It names functions of nearly all files; nobody calls this one. */
#include "cpu/server/session/kinds.h"

#include "api/forward/server.h"
#include "cpu/server/code/code.h"
#include "cpu/server/comm/comms.h"
#include "cpu/server/graph/graph.h"
#include "cpu/server/lanes/lanes.h"
#include "cpu/server/links/links.h"
#include "cpu/server/session.h"
#include "cpu/server/graph/condition.h"
#include "cpu/server/memory/share.h"
#include "cpu/server/stream/host_function.h"

static uint64_t images_count(const struct session *session) { return session->images.count; }
static uint64_t mappings_count(const struct session *session) { return session->window.pieces; }

static uint64_t shares_count(const struct session *session)
{
    return session->shares->count + session->shares->imports;
}

static uint64_t host_ranges_count(const struct session *session)
{
    uint64_t count = 0;
    for (const struct host_range *range = session->host.ranges; range; range = range->next)
        count++;
    return count;
}

const struct kind_row server_kinds[KINDS] = {
    [KIND_LOADER_JOB] = { "loader-job", .moves = MOVE_NOTHING, .drop = loader_drain },
    /* Calls of the client's that are kept for it: they name objects only when they are served. */
    [KIND_GRAPH] = { "graph", SESSION_MAX_OBJECTS, MOVE_REBUILT, .stop = graphs_stop },
    [KIND_HOST_FUNCTION] = { "host-function", SESSION_MAX_OBJECTS, MOVE_REBUILT, .release = host_functions_release_all,
                             .stop = host_functions_stop },
    [KIND_CONDITION] = { "condition", .moves = MOVE_NOTHING, .release = conditions_release_all, .stop = conditions_stop,
                         .count = conditions_count },
    /* A client of an earlier release does not keep what it gave the server. What kernels have launched has ended when
       the client's work has. */
    [KIND_DEVICE_GRAPH] = { "device-graph", .moves = MOVE_REFUSED, .able = FLYT_ABLE_DEVICE_GRAPHS,
                            .release = device_graphs_release_all, .drop = device_graphs_drop,
                            .stop = device_graphs_stop, .count = device_graphs_count },
    /* The other ranks have links to this worker. */
    [KIND_COMM] = { "communicator", FLYT_MAX_COMMS, .moves = MOVE_REFUSED, .release = comms_release_all,
                    .stop = comms_stop, .count = comms_count },
    /* The other end has its keys and its numbers, and could not know that this one has moved. */
    [KIND_LINK] = { "link", FLYT_MAX_LINKS, .moves = MOVE_REFUSED, .release = links_release_all, .stop = links_stop,
                    .drop = links_drop_buffers,
                    .count = links_count },
    [KIND_STREAM] = { "stream", SESSION_MAX_OBJECTS, MOVE_REBUILT, .drop = streams_drop_all, .stop = streams_free },
    [KIND_EVENT] = { "event", SESSION_MAX_OBJECTS, MOVE_REBUILT, .drop = events_drop_all },
    /* The driver chooses the values, and kernels are given them. A client of an earlier release does not keep what they
       were made from. */
    [KIND_TEXTURE] = { "texture", .moves = MOVE_REFUSED, .able = FLYT_ABLE_TEXTURES, .drop = texture_drop_all,
                       .count = texture_count },
    [KIND_SURFACE] = { "surface", .moves = MOVE_REFUSED, .able = FLYT_ABLE_TEXTURES, .drop = surface_drop_all,
                       .count = surface_count },
    [KIND_ARRAY] = { "array", .moves = MOVE_REFUSED, .able = FLYT_ABLE_ARRAYS, .drop = array_drop_all,
                     .count = array_count },
    [KIND_MIPMAP] = { "mipmapped-array", .moves = MOVE_REFUSED, .able = FLYT_ABLE_ARRAYS, .drop = mipmap_drop_all,
                      .count = mipmap_count },
    /* The driver chooses the addresses of variables. */
    [KIND_MODULE] = { "module", SESSION_MAX_OBJECTS, MOVE_PROVED, .drop = modules_drop_all },
    [KIND_FUNCTION] = { "function", SESSION_MAX_OBJECTS, .moves = MOVE_REBUILT }, /* goes with its module */
    [KIND_IMAGE] = { "image", .moves = MOVE_REBUILT, .stop = images_free, .count = images_count },
    [KIND_MARKER] = { "marker", .moves = MOVE_NOTHING, .drop = completion_events_free },
    [KIND_GATE] = { "gate", .moves = MOVE_NOTHING, .begin = gates_prepare, .drop = gates_free },
    [KIND_LANE_MEMORY] = { "lane-memory", .moves = MOVE_NOTHING, .begin = lanes_context_here,
                           .drop = lanes_context_gone },
    [KIND_STAGING] = { "staging-memory", .moves = MOVE_NOTHING, .begin = staging_prepare, .drop = staging_stop },
    [KIND_PEER] = { "peer-access", .moves = MOVE_REBUILT, .drop = peers_drop },
    [KIND_HANDLE] = { "memory-handle", SESSION_MAX_OBJECTS, MOVE_REBUILT, .stop = handles_stop },
    /* Other programs have a key that names this session, or this one has memory of theirs. */
    [KIND_SHARE] = { "memory-of-several-programs", .moves = MOVE_REFUSED, .able = FLYT_ABLE_SHARES,
                     .stop = shares_stop, .count = shares_count },
    [KIND_MAPPING] = { "mapping", .moves = MOVE_REBUILT, .drop = memory_drop_all, .stop = memory_stop,
                       .count = mappings_count },
    [KIND_HOST_MEMORY] = { "host-memory", .moves = MOVE_REBUILT, .begin = host_memory_context_here,
                           .drop = host_memory_context_gone, .count = host_ranges_count },
    [KIND_CONTEXT] = { "context", FLYT_MAX_CONTEXTS, .moves = MOVE_REBUILT },
};
