/* kinds.c: the table of kinds.h. It names functions of nearly all files; nobody calls this one. */
#include "code.h"
#include "context.h"
#include "host.h"
#include "host_function.h"
#include "kinds.h"
#include "memory.h"
#include "op.h"

static uint64_t allocations_count(void) { return address_count(CORE_DEVICE_MEMORY); }
static uint64_t host_memory_count(void) { return address_count(CORE_PINNED_MEMORY); }
static uint64_t registered_count(void) { return address_count(CORE_REGISTERED_MEMORY); }

const struct client_kind_row client_kinds[KINDS] = {
    [KIND_CONTEXT] = { "contexts", MOVE_REBUILT, .begin = context_open, .count = context_count },
    /* Times of recordings that have been made are values: a move has to carry them over. */
    [KIND_EVENT] = { "events", MOVE_REBUILT, .begin = event_open, .drop = event_forget_context, .count = event_count },
    [KIND_STREAM] = { "streams", MOVE_REBUILT, .begin = stream_open, .drop = stream_forget_context,
                      .count = stream_count },
    /* The driver chooses the addresses of variables. */
    [KIND_MODULE] = { "modules", MOVE_PROVED, .drop = code_forget_context, .count = code_modules },
    [KIND_FUNCTION] = { "functions", MOVE_REBUILT, .count = code_functions }, /* goes with its module */
    [KIND_ALLOCATION] = { "allocations", MOVE_REBUILT, .drop = address_forget_context, .count = allocations_count },
    [KIND_MAPPING] = { "mappings", MOVE_REBUILT, .drop = memory_forget_context, .count = memory_pieces },
    [KIND_HANDLE] = { "memory handles", MOVE_REBUILT, .begin = handle_open, .count = handle_count },
    [KIND_CHUNK] = { "chunks", MOVE_NOTHING, .drop = chunks_forget_context },
    [KIND_HOST_MEMORY] = { "pinned allocations", MOVE_REBUILT, .count = host_memory_count },
    /* Only this process knows that it is. */
    [KIND_REGISTERED] = { "registered ranges", MOVE_NOTHING, .count = registered_count },
    [KIND_HOST_FUNCTION] = { "host functions under way", MOVE_REBUILT, .count = throttle_outstanding },
    [KIND_SEQUENCE] = { "graphs kept by the server", MOVE_REBUILT, .begin = sequence_open, .count = sequence_count },
};
