/* kinds.c: the table of kinds.h. It names functions of nearly all files; nobody calls this one. */
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/copy/array.h"
#include "cpu/client/core/stream/device_graph.h"
#include "cpu/client/core/code/code.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/memory/host.h"
#include "cpu/client/core/stream/host_function.h"
#include "kinds.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/stream/op.h"
#include "cpu/client/core/memory/pool.h"
#include "cpu/client/core/memory/share.h"
#include "cpu/client/core/code/texref.h"
#include "cpu/client/core/code/texture.h"

static uint64_t allocations_count(void) { return address_count(CORE_DEVICE_MEMORY); }
static uint64_t host_memory_count(void) { return address_count(CORE_PINNED_MEMORY); }
static uint64_t registered_count(void) { return address_count(CORE_REGISTERED_MEMORY); }

const struct client_kind_row client_kinds[KINDS] = {
    [KIND_CONTEXT] = { "contexts", MOVE_REBUILT, .begin = context_open, .count = context_count, .save = context_save,
                       .restore = context_restore, .moved = context_moved },
    [KIND_PEER] = { "pairs of contexts with peer access", MOVE_REBUILT, .drop = peer_forget_context,
                    .count = peer_count, .restore = peer_restore },
    [KIND_EVENT] = { "events", MOVE_REBUILT, .begin = event_open, .drop = event_forget_context, .count = event_count,
                     .save = event_save, .restore = event_restore, .moved = event_moved },
    [KIND_STREAM] = { "streams", MOVE_REBUILT, .begin = stream_open, .drop = stream_forget_context,
                      .count = stream_count, .restore = stream_restore, .moved = stream_moved },
    /* Of malloc() in kernels. Before modules, which make one where there is none. */
    [KIND_KERNEL_HEAP] = { "heaps of kernels", MOVE_PROVED, .save = kernel_heap_save, .restore = kernel_heap_restore,
                           .contents = kernel_heap_contents, .moved = kernel_heap_moved },
    /* The driver chooses the addresses of variables. */
    [KIND_MODULE] = { "modules", MOVE_PROVED, .drop = code_forget_context, .count = code_modules, .save = code_save,
                      .restore = code_restore, .contents = code_contents, .size = code_size,
                      .moved = code_moved },
    /* They go with their module. */
    [KIND_FUNCTION] = { "functions", MOVE_REBUILT, .count = code_functions, .restore = functions_restore },
    /* They go with their module; a new server hears their state before the next launch. */
    [KIND_TEXREF] = { "texture and surface references", MOVE_REBUILT, .drop = texrefs_forget_context,
                      .count = texrefs_count, .moved = texrefs_moved },
    [KIND_ARRAY] = { "arrays", MOVE_REBUILT, .drop = array_forget_context, .count = arrays_count,
                     .restore = array_restore, .contents = array_contents, .size = array_size },
    /* Forgotten with the arrays, and their levels are copied with them. */
    [KIND_MIPMAP] = { "mipmapped arrays", MOVE_REBUILT, .count = mipmaps_count, .save = mipmap_save,
                      .restore = mipmap_restore },
    /* Cut from mappings. */
    [KIND_ALLOCATION] = { "allocations", MOVE_REBUILT, .drop = address_forget_context, .count = allocations_count,
                          .contents = allocations_contents, .size = allocations_size },
    /* The device's pages are in mappings or handles; the states of pages are this side's affair. */
    [KIND_MANAGED] = { "pieces of managed memory", MOVE_REBUILT, .drop = managed_forget_context,
                       .count = managed_count, .contents = managed_contents,
                       .size = managed_size },
    [KIND_MAPPING] = { "mappings", MOVE_REBUILT, .drop = memory_forget_context, .count = memory_pieces,
                       .restore = memory_restore },
    [KIND_HANDLE] = { "memory handles", MOVE_REBUILT, .begin = handle_open, .count = handle_count,
                      .restore = handle_restore, .contents = handle_contents, .size = handle_size },
    /* Other programs name the memory by the old server's bytes. They move together. */
    [KIND_SHARE] = { "pieces of memory that several programs use", MOVE_REBUILT, .drop = share_forget_context,
                     .count = share_count, .restore = share_restore, .moved = share_moved },
    /* Its memory is handles and mappings; which part is free is this side's affair. */
    [KIND_POOL] = { "memory pools", MOVE_REBUILT, .begin = pool_open, .drop = pool_forget_context,
                    .count = pool_count },
    /* Pages of host memory like any other. */
    [KIND_CHUNK] = { "chunks", MOVE_NOTHING, .drop = chunks_forget_context },
    /* Behind what they are made of. */
    [KIND_TEXTURE] = { "textures", MOVE_REBUILT, .drop = textures_forget_context, .count = textures_count,
                       .restore = texture_restore, .moved = textures_moved },
    [KIND_SURFACE] = { "surfaces", MOVE_REBUILT, .count = surfaces_count, .restore = surface_restore },
    [KIND_HOST_MEMORY] = { "pinned allocations", MOVE_REBUILT, .count = host_memory_count, .save = host_space_save,
                           .restore = host_space_restore, .contents = host_space_contents, .moved = host_space_moved },
    /* Only this process knows that it is. */
    [KIND_REGISTERED] = { "registered ranges", MOVE_NOTHING, .count = registered_count, .save = registered_save },
    /* A move waits until none is under way. */
    [KIND_HOST_FUNCTION] = { "host functions under way", MOVE_REFUSED, .count = throttle_outstanding },
    /* Each is sent again when it is launched next. */
    [KIND_SEQUENCE] = { "graphs kept by the server", MOVE_NOTHING, .begin = sequence_open, .count = sequence_count,
                        .save = sequence_save, .moved = sequence_moved },
    /* Behind the functions, textures and memory that their calls name. */
    [KIND_DEVICE_GRAPH] = { "graphs that kernels launch", MOVE_REBUILT, .drop = device_graphs_forget_context,
                            .count = device_graphs_count, .restore = device_graphs_restore },
};
