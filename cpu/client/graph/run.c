/*
 * run.c: the work of one node, given to a stream.
 *
 * A node reads and writes the program's memory when its turn has come, not when the graph is launched. Pinned memory
 * is copied like that anyway. Pageable memory is copied by a function of the stream (core_copy_box_deferred): that
 * makes a launch return at once, and an earlier node's result is seen. A small source that nothing unfinished can
 * write is read at once.
 */
#include <stdlib.h>
#include <string.h>

#include "api/launch_attributes.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/graph/capture.h"
#include "cpu/client/graph/executable.h"
#include "cpu/client/graph/memory.h"

enum { EARLY_MOST = 64 << 10 };

/* ---- copies ---- */

/* Where only one row, or one slice, is copied, the program need not give a pitch, or a height. */
static struct core_box side_box(const struct graph_side *side, const struct core_extent *size)
{
    size_t pitch = side->pitch ? side->pitch : side->at[0] + size->width;
    size_t height = side->height ? side->height : side->at[1] + size->height;
    uint64_t offset = (side->at[2] * height + side->at[1]) * pitch + side->at[0];
    return (struct core_box){ side->base + offset, pitch, height };
}

static int copy_now(core_context *context, core_stream stream, const struct graph_copy *copy, bool blocking)
{
    const struct core_extent *size = &copy->extent;
    const struct core_box to = side_box(&copy->to, size), from = side_box(&copy->from, size);
    core_copy_between_servers(copy->servers);
    int code = core_copy_box(context, stream, &to, &from, size, copy->direction, blocking);
    core_copy_between_servers((struct core_copy_servers){ NULL, NULL });
    return code;
}

static enum core_memory_kind kind_of(uint64_t address)
{
    struct core_range range;
    return core_address_lookup(address, &range) ? range.kind : CORE_UNKNOWN_MEMORY;
}

static int copy_run(core_context *context, core_stream stream, const struct graph_copy *copy)
{
    enum core_memory_kind to = kind_of(copy->to.base), from = kind_of(copy->from.base);
    const struct core_extent *size = &copy->extent;
    bool small = size->depth == 1 && size->width <= EARLY_MOST && size->width * size->height <= EARLY_MOST;
    bool on_device = to == CORE_DEVICE_MEMORY && from == CORE_DEVICE_MEMORY;
    bool pinned = to == CORE_DEVICE_MEMORY ? from != CORE_UNKNOWN_MEMORY
                                           : from == CORE_DEVICE_MEMORY && to != CORE_UNKNOWN_MEMORY;
    bool early = to == CORE_DEVICE_MEMORY && small && !pending_writers();
    if (on_device || pinned || early)
        return copy_now(context, stream, copy, false);
    const struct core_box there = side_box(&copy->to, size), here = side_box(&copy->from, size);
    return core_copy_box_deferred(context, stream, &there, &here, size, copy->direction);
}

/* ---- the other kinds ---- */

static void host_run(void *data, int status)
{
    struct graph_host host = *(struct graph_host *)data;
    free(data);
    if (!status)
        host.function(host.user);
}

static int host_put(core_context *context, core_stream stream, const struct graph_host *host)
{
    struct graph_host *own = malloc(sizeof *own);
    if (!own)
        return CORE_OUT_OF_MEMORY;
    *own = *host;
    int code = core_host_function(context, stream, host_run, own, true);
    if (code)
        free(own);
    return code;
}

/* With another priority. 0 is what streams have. */
static uint32_t attributes_with(const struct graph_kernel *k, int priority, struct core_launch_attribute *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < k->attribute_count; i++)
        if (k->attributes[i].id != LAUNCH_ATTRIBUTE_PRIORITY)
            out[count++] = k->attributes[i];
    if (priority && count < GRAPH_ATTRIBUTES_MOST) {
        out[count] = (struct core_launch_attribute){ .id = LAUNCH_ATTRIBUTE_PRIORITY };
        memcpy(out[count++].value, &priority, sizeof priority);
    }
    return count;
}

static int kernel_run(const struct model_node *n, core_stream stream, int priority)
{
    core_context *context = n->parameters.context;
    const struct graph_kernel *k = &n->parameters.kernel;
    struct core_launch_attribute others[GRAPH_ATTRIBUTES_MOST];
    struct core_launch launch = {
        .function = k->function,
        .stream = stream,
        .shared = k->shared,
        .cooperative = k->cooperative,
        .of_node = true,
        .packed = k->packed,
        .packed_size = k->packed_size,
        .attributes = k->attributes,
        .attribute_count = k->attribute_count,
    };
    bool others_needed = priority != PRIORITY_OF_NODES && (k->attribute_count || priority);
    if (others_needed && k->attribute_count <= GRAPH_ATTRIBUTES_MOST) {
        launch.attribute_count = attributes_with(k, priority, others);
        launch.attributes = others;
    }
    memcpy(launch.grid, k->grid, sizeof launch.grid);
    memcpy(launch.block, k->block, sizeof launch.block);
    const struct executable *e = k->uses & CORE_USES_GRAPHS ? executable_of(n) : NULL;
    if (!e || core_device_graphs_offered())
        return core_launch(context, &launch);
    return core_launch_in_graph(context, &launch, e->token, e->flags & GRAPH_DEVICE_LAUNCH);
}

static int set_run(core_context *context, core_stream stream, const struct graph_set *set)
{
    const struct core_box to = { set->to, set->height > 1 ? set->pitch : set->width * set->element, set->height };
    return core_set(context, stream, &to, &(struct core_extent){ set->width, set->height, 1 }, set->value, set->element,
                    false);
}

/* What is allocated from here on, for a server that watches kernels. (The program's own view changes when the launch is
   made: memory.c.) */
static int memory_note(const struct model_node *n, core_stream stream, enum core_extent_state state)
{
    return core_extent_note_in(n->parameters.context, stream, memory_address(n->memory), n->memory->size, state);
}

static int collective_run(core_context *context, core_stream stream, const struct graph_collective *c)
{
    return c->messages ? core_comm_messages(context, stream, c->comm, c->messages, c->count)
           : c->sided  ? core_comm_sided(context, stream, c->comm, c->waits, c->sided, c->count)
                       : core_comm_call(context, stream, c->comm, &c->call);
}

int node_run(const struct model_node *n, core_stream stream, int priority)
{
    const struct graph_parameters *p = &n->parameters;
    switch (p->kind) {
    case GRAPH_KERNEL: return kernel_run(n, stream, priority);
    case GRAPH_COPY: return copy_run(p->context, stream, &p->copy);
    case GRAPH_SET: return set_run(p->context, stream, &p->set);
    case GRAPH_VALUES: return core_values(p->context, stream, p->values.list, p->values.count);
    case GRAPH_CONDITION: return condition_run(n, stream, priority);
    case GRAPH_COLLECTIVE: return collective_run(p->context, stream, &p->collective);
    case GRAPH_HOST: return host_put(p->context, stream, &p->host);
    case GRAPH_WAIT_EVENT: return core_stream_wait(p->context, stream, p->event, 0);
    case GRAPH_RECORD_EVENT:
        if (capture_any())
            capture_forget_event(p->event); /* it stands for captured work no longer */
        return core_event_record(p->context, p->event, stream, 0);
    case GRAPH_ALLOCATE: return memory_note(n, stream, CORE_EXTENT_ALLOCATED);
    case GRAPH_FREE: return memory_note(n, stream, CORE_EXTENT_FREED);
    default: return CORE_OK;
    }
}
