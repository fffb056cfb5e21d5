/*
 * capture_calls.c: what a captured stream is given becomes a node.
 */
#include <stdlib.h>
#include <string.h>

#include "api/launch_attributes.h"
#include "cpu/client/graph/capture_state.h"
#include "cpu/client/graph/executable.h"
#include "cpu/common/cancel.h"

enum { RECORD_EXTERNAL = 1, WAIT_EXTERNAL = 1, STREAM_NON_BLOCKING = 1 };

/* Whether the stream is captured: *id is its number, else 0. A call to the legacy stream may be refused. Says nothing
   of streams that do not exist: the call itself does. */
static int look(core_context *context, core_stream stream, uint64_t *id)
{
    struct core_stream_info info;
    *id = 0;
    if (core_stream_info(context, stream, &info) || graphs_enter())
        return CORE_OK;
    int code = CORE_OK;
    const struct captured *s = captured_find(info.id);
    if (s)
        *id = info.id;
    if (s && s->capture->invalid)
        code = GRAPH_CAPTURE_INVALIDATED;
    else if (!s && stream <= CORE_STREAM_LEGACY)
        code = capture_refuse_legacy(info.context, true);
    graphs_leave();
    return code;
}

/* Takes the attribute away from a kernel's parameters; whether it was set. */
static bool serialization_take(struct graph_parameters *p)
{
    struct core_launch_attribute *list = (struct core_launch_attribute *)(uintptr_t)p->kernel.attributes;
    bool set = false;
    uint32_t kept = 0;
    for (uint32_t i = 0; p->kind == GRAPH_KERNEL && i < p->kernel.attribute_count; i++)
        if (list[i].id == LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            set = list[i].value[0];
        else
            list[kept++] = list[i];
    if (p->kind == GRAPH_KERNEL)
        p->kernel.attribute_count = kept;
    return set;
}

/* Under the lock. The parameters are taken over on success. */
static int keep_node(struct captured *s, struct graph_parameters *own, struct model_node **out)
{
    struct frontier *f = &s->frontier;
    frontier_fit(f, own->kind, serialization_take(own) ? s->last : 0);
    struct model_node **nodes = frontier_nodes(f);
    if (!nodes)
        return CORE_OUT_OF_MEMORY;
    int code = node_add(s->capture->graph, nodes, f->edges, f->count, own, out);
    free(nodes);
    if (code)
        return code;
    s->last = (*out)->token;
    f->count = 0;
    frontier_add(f, (*out)->token, NULL); /* there is room, or the stream had no frontier and gets one */
    if (!f->count)
        capture_invalidate(s->capture);
    return CORE_OK;
}

/* A call whose stream is captured, with parameters that are still the program's. */
static int keep(uint64_t id, const struct graph_parameters *parameters)
{
    struct graph_parameters own;
    struct model_node *n;
    int code = parameters_prepare(parameters, &own);
    if (code)
        return code;
    if (!(code = graphs_enter())) {
        struct captured *s = captured_find(id);
        code = !s                    ? GRAPH_ILLEGAL_STATE /* another thread has ended the capture */
               : s->capture->invalid ? GRAPH_CAPTURE_INVALIDATED
                                     : keep_node(s, &own, &n);
        graphs_leave();
    }
    if (code)
        parameters_drop(&own);
    return code;
}

/* What every kept call does. blocking: the caller waits for the stream, so it cannot be kept. */
static int offer(core_context *context, core_stream stream, const struct graph_parameters *p, bool blocking, bool *kept)
{
    uint64_t id;
    int code = look(context, stream, &id);
    if (!code && !id && blocking)
        code = capture_check_unsafe();
    if (!code && !id)
        return CORE_OK;
    *kept = true;
    if (!code && blocking)
        code = capture_check_stream(context, stream);
    return code ? code : keep(id, p);
}

/* A captured kernel has the priority of its stream, unless the launch says another. */
static void priority_add(struct graph_kernel *k, int priority, struct core_launch_attribute *room)
{
    for (uint32_t i = 0; i < k->attribute_count; i++)
        if (k->attributes[i].id == LAUNCH_ATTRIBUTE_PRIORITY)
            return;
    if (!priority || k->attribute_count >= GRAPH_ATTRIBUTES_MOST)
        return;
    if (k->attribute_count)
        memcpy(room, k->attributes, k->attribute_count * sizeof *room);
    room[k->attribute_count] = (struct core_launch_attribute){ .id = LAUNCH_ATTRIBUTE_PRIORITY };
    memcpy(room[k->attribute_count++].value, &priority, sizeof priority);
    k->attributes = room;
}

int capture_launch(core_context *context, const struct core_launch *l, const void *key, bool *kept)
{
    CANCEL_DEFERRED;
    struct graph_parameters p = {
        .kind = GRAPH_KERNEL,
        .context = context,
        .kernel = { .function = l->function,
                    .key = key,
                    .shared = l->shared,
                    .cooperative = l->cooperative,
                    .arguments = l->arguments,
                    .packed = l->packed,
                    .packed_size = l->packed_size,
                    .attributes = l->attributes,
                    .attribute_count = l->attribute_count },
    };
    memcpy(p.kernel.grid, l->grid, sizeof p.kernel.grid);
    memcpy(p.kernel.block, l->block, sizeof p.kernel.block);
    struct core_launch_attribute attributes[GRAPH_ATTRIBUTES_MOST];
    struct core_stream_info info;
    if (core_stream_info(context, l->stream, &info) == CORE_OK)
        priority_add(&p.kernel, info.priority, attributes);
    return offer(context, l->stream, &p, false, kept);
}

int capture_copy(core_context *context, core_stream stream, const struct graph_copy *copy, bool blocking, bool *kept)
{
    CANCEL_DEFERRED;
    const struct graph_parameters p = { .kind = GRAPH_COPY, .context = context, .copy = *copy };
    return offer(context, stream, &p, blocking, kept);
}

int capture_set(core_context *context, core_stream stream, const struct graph_set *set, bool blocking, bool *kept)
{
    CANCEL_DEFERRED;
    const struct graph_parameters p = { .kind = GRAPH_SET, .context = context, .set = *set };
    return offer(context, stream, &p, blocking, kept);
}

int capture_host(core_context *context, core_stream stream, void (*function)(void *), void *user, bool *kept)
{
    CANCEL_DEFERRED;
    const struct graph_parameters p = { .kind = GRAPH_HOST, .context = context, .host = { function, user } };
    if (function)
        return offer(context, stream, &p, false, kept);
    uint64_t id;
    int code = look(context, stream, &id);
    if (!code && id)
        code = capture_check_stream(context, stream);
    *kept = code != CORE_OK;
    return code;
}

int capture_values(core_context *context, core_stream stream, const struct graph_values *values, bool *kept)
{
    CANCEL_DEFERRED;
    const struct graph_parameters p = { .kind = GRAPH_VALUES, .context = context, .values = *values };
    return offer(context, stream, &p, false, kept);
}

int capture_collective(core_context *context, core_stream stream, const struct graph_collective *c, bool *kept)
{
    CANCEL_DEFERRED;
    const struct graph_parameters p = { .kind = GRAPH_COLLECTIVE, .context = context, .collective = *c };
    return offer(context, stream, &p, false, kept);
}

/* ---- events ---- */

/* The stream has just been given a kernel: *kept, whether as a node. The event stands for a port of it. */
static int capture_port(core_context *context, core_stream stream, core_event event, const struct graph_edge *port,
                        bool *kept)
{
    uint64_t id;
    int code = look(context, stream, &id);
    *kept = code || id;
    if (code || !id || (code = graphs_enter()))
        return code;
    const struct captured *s = captured_find(id);
    struct frontier f = { 0 };
    if (!s)
        code = GRAPH_ILLEGAL_STATE;
    else if (!frontier_add(&f, s->last, port) || !mark_set(event, s->capture->id, &f))
        code = CORE_OUT_OF_MEMORY;
    frontier_drop(&f);
    graphs_leave();
    return code;
}

struct launch_event {
    core_event event;
    int flags, at_start;
}; /* as CUlaunchAttributeValue has it */

/* An event of a launch. Outside captures it is recorded behind the whole kernel, which CUDA allows. */
static int port_record(core_context *context, core_stream stream, const struct core_launch_attribute *a)
{
    struct launch_event value;
    memcpy(&value, a->value, sizeof value);
    bool begun = a->id == LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, kept = false;
    const struct graph_edge port = {
        .type = begun ? 0 : GRAPH_PROGRAMMATIC,
        .from_port = begun || value.at_start ? GRAPH_PORT_BEGUN : GRAPH_PORT_PROGRAMMATIC,
    };
    int code = capture_any() ? capture_port(context, stream, value.event, &port, &kept) : CORE_OK;
    return kept ? code : issue_record(context, value.event, stream, 0);
}

/* A launch records no external event. The codes are those of NVIDIA's driver 580. */
static int port_check(const struct core_launch_attribute *a)
{
    struct launch_event value;
    memcpy(&value, a->value, sizeof value);
    int code = core_event_check(value.event);
    if (code)
        return code;
    if (value.flags) /* cudaEventRecordExternal, which is for captures only, and others, which do not exist */
        return value.flags == RECORD_EXTERNAL && !capture_any() ? GRAPH_ILLEGAL_STATE : CORE_INVALID_VALUE;
    return core_event_check_of_launch(value.event);
}

/* One of the program's streams has attributes, perhaps the launch's; or the launch has. */
int issue_launch_with_attributes(core_context *c, const struct core_launch *l, const void *key)
{
    const struct core_launch_attribute *events[2] = { NULL };
    struct core_launch_attribute others[GRAPH_ATTRIBUTES_MOST], room[CORE_LAUNCH_ATTRIBUTES];
    struct core_launch with = *l;
    bool kept = false;
    int code = l->attribute_count > GRAPH_ATTRIBUTES_MOST ? CORE_INVALID_VALUE : CORE_OK;
    with.attribute_count = 0;
    with.attributes = others;
    for (uint32_t i = 0; i < l->attribute_count && !code; i++) {
        const struct core_launch_attribute *a = &l->attributes[i];
        if (a->id == LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT || a->id == LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
            code = port_check(a);
            events[a->id == LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT] = a;
        } else {
            others[with.attribute_count++] = *a;
        }
    }
    if (!code && atomic_load_explicit(&core_stream_attributes_set, memory_order_relaxed))
        code = core_stream_attributes_add(c, &with, room);
    if (!code && capture_any())
        code = capture_launch(c, &with, key, &kept);
    if (!code && !kept)
        code = core_launch(c, &with);
    for (int i = 0; i < 2 && !code; i++)
        code = events[i] ? port_record(c, l->stream, events[i]) : CORE_OK;
    return code;
}

int capture_record(core_context *context, core_event event, core_stream stream, unsigned flags, bool *kept)
{
    CANCEL_DEFERRED;
    uint64_t id;
    if (flags & RECORD_EXTERNAL) {
        const struct graph_parameters p = { .kind = GRAPH_RECORD_EVENT, .context = context, .event = event };
        return offer(context, stream, &p, false, kept);
    }
    int code = look(context, stream, &id);
    *kept = code || id;
    if (!code && id)
        code = core_event_check(event);
    if (code || graphs_enter())
        return code;
    const struct captured *s = id ? captured_find(id) : NULL;
    if (!id)
        mark_remove(event); /* it is recorded as usual */
    else
        code = !s ? GRAPH_ILLEGAL_STATE : mark_set(event, s->capture->id, &s->frontier) ? CORE_OK : CORE_OUT_OF_MEMORY;
    graphs_leave();
    return code;
}

static int invalidated(struct capture *c, int code)
{
    if (c)
        capture_invalidate(c);
    return code;
}

/* Under the lock. A stream that is not captured waits for a captured event: it joins the capture. */
static int join(const struct core_stream_info *info, core_stream stream, struct capture *c, const struct mark *m)
{
    if (!c)
        return GRAPH_CAPTURED_EVENT;
    if (c->invalid)
        return GRAPH_CAPTURE_INVALIDATED;
    if (stream <= CORE_STREAM_LEGACY)
        return invalidated(c, GRAPH_CAPTURE_IMPLICIT);
    struct captured *s = captured_join(c, info->id, info->context, !(info->flags & STREAM_NON_BLOCKING));
    return s && frontier_merge(&s->frontier, &m->frontier) ? CORE_OK : CORE_OUT_OF_MEMORY;
}

static int wait(const struct core_stream_info *info, core_stream stream, core_event event, bool *kept)
{
    struct captured *s = captured_find(info->id);
    const struct mark *m = mark_find(event);
    struct capture *c = m ? capture_find(m->capture) : NULL;
    *kept = s || m;
    if (!s && !m) {
        int code = stream <= CORE_STREAM_LEGACY ? capture_refuse_legacy(info->context, true) : CORE_OK;
        *kept = code != CORE_OK;
        return code;
    }
    if (!s)
        return join(info, stream, c, m);
    if (s->capture->invalid)
        return GRAPH_CAPTURE_INVALIDATED;
    if (!c)
        return invalidated(s->capture, GRAPH_CAPTURE_ISOLATION);
    if (c != s->capture) {
        capture_invalidate(c);
        return invalidated(s->capture, GRAPH_CAPTURE_MERGE);
    }
    return frontier_merge(&s->frontier, &m->frontier) ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int capture_wait(core_context *context, core_stream stream, core_event event, unsigned flags, bool *kept)
{
    CANCEL_DEFERRED;
    struct core_stream_info info;
    if (flags & WAIT_EXTERNAL) {
        const struct graph_parameters p = { .kind = GRAPH_WAIT_EVENT, .context = context, .event = event };
        return offer(context, stream, &p, false, kept);
    }
    if (core_event_check(event) || core_stream_info(context, stream, &info) || graphs_enter())
        return CORE_OK; /* the call itself says what is wrong */
    int code = wait(&info, stream, event, kept);
    graphs_leave();
    return code;
}

/* ---- memory ---- */

/* Under the lock. MEMORY_LACKS_ROOM: again, with room. */
static int keep_allocation(struct captured *s, struct graph_parameters *p, struct memory_block **room)
{
    struct memory *memory;
    struct model_node *n, **nodes = frontier_nodes(&s->frontier);
    if (!nodes)
        return CORE_OUT_OF_MEMORY;
    int code = memory_new(s->capture->graph, nodes, s->frontier.count, p, room, &memory);
    free(nodes);
    if (code)
        return code;
    if ((code = keep_node(s, p, &n)))
        memory_drop(memory);
    else
        n->memory = memory;
    return code;
}

/* The pool's device, and the access that the program has given to others, in `room`. */
static int pool_read(core_context *context, core_pool pool, struct graph_allocation *out,
                     struct graph_access room[GRAPH_DEVICES_MOST])
{
    /* as in CUmemPoolProps and CUmemAccessDesc */
    enum { PINNED = 1, NO_HANDLE = 0, ON_DEVICE = 1, READ = 1, READ_WRITE = 3 };
    struct core_context_info info;
    struct core_pool_info of;
    int code = core_context_info(context, &info);
    if (!code && !pool)
        code = core_pool_current(info.device, &pool);
    if (code || (code = core_pool_info(pool, &of)))
        return code;
    if (of.imported)
        return CORE_INVALID_VALUE;
    out->device = of.device;
    out->access = room;
    for (int device = 0; device < GRAPH_DEVICES_MOST; device++)
        if ((of.readers | of.writers) >> device & 1)
            room[out->access_count++] =
                (struct graph_access){ ON_DEVICE, device, of.writers >> device & 1 ? READ_WRITE : READ };
    const int properties[] = { PINNED, NO_HANDLE, ON_DEVICE, of.device };
    memcpy(out->properties, properties, sizeof properties);
    return CORE_OK;
}

int capture_allocate(core_context *context, core_stream stream, core_pool pool, size_t size, uint64_t *address,
                     bool *kept)
{
    CANCEL_DEFERRED;
    uint64_t id;
    struct memory_block *room = NULL;
    struct graph_access access[GRAPH_DEVICES_MOST];
    int code = look(context, stream, &id);
    *kept = code || id;
    if (code || !id)
        return code;
    struct graph_parameters p = { .kind = GRAPH_ALLOCATE, .context = context, .allocation.size = size }, own;
    if ((code = pool_read(context, pool, &p.allocation, access)) || (code = parameters_prepare(&p, &own)))
        return code;
    do {
        if ((code = graphs_enter()))
            break;
        struct captured *s = captured_find(id);
        code = s ? keep_allocation(s, &own, &room) : GRAPH_ILLEGAL_STATE;
        graphs_leave();
    } while (code == MEMORY_LACKS_ROOM && !(code = room_make(&own, &room)));
    room_drop(room);
    *address = code ? 0 : own.allocation.address;
    if (code)
        parameters_drop(&own);
    return code;
}

int capture_free(core_context *context, core_stream stream, uint64_t address, bool *kept)
{
    CANCEL_DEFERRED;
    uint64_t id;
    const struct graph_parameters p = { .kind = GRAPH_FREE, .context = context, .freed = address };
    int code = look(context, stream, &id);
    *kept = code || id;
    return code || !id ? code : keep(id, &p);
}

/* ---- launches of graphs ---- */

int capture_check_captured(core_context *context, core_stream stream)
{
    CANCEL_DEFERRED;
    uint64_t id;
    int code = look(context, stream, &id);
    if (code || !id || (code = graphs_enter()))
        return code;
    struct captured *s = captured_find(id);
    if (s)
        capture_invalidate(s->capture);
    graphs_leave();
    return GRAPH_CAPTURE_UNSUPPORTED;
}

int graph_launch(core_context *context, graph_executable token, core_stream stream)
{
    CANCEL_DEFERRED;
    struct executable *e;
    int code = issue_check_captured(context, stream); /* NVIDIA's driver captures no launch of a graph */
    if (code || (code = executable_enter(token, &e)))
        return code;
    code = executable_launch(e, context, stream);
    executable_leave(e);
    return code;
}

/* ---- kept or sent ---- */

int issue_collective(core_context *context, core_stream stream, const struct graph_collective *c)
{
    bool kept = false;
    int code = capture_any() ? capture_collective(context, stream, c, &kept) : CORE_OK;
    return kept    ? code
           : c->messages ? core_comm_messages(context, stream, c->comm, c->messages, c->count)
           : c->sided    ? core_comm_sided(context, stream, c->comm, c->waits, c->sided, c->count)
                         : core_comm_call(context, stream, c->comm, &c->call);
}

static struct graph_side side_of(const struct core_box *box, size_t width)
{
    return (struct graph_side){ .base = box->address, .pitch = box->pitch, .width = width, .height = box->height };
}

int issue_copy(core_context *context, core_stream stream, void *to, const void *from, size_t size,
               enum core_direction direction, bool blocking)
{
    bool kept = false;
    int code = CORE_OK;
    if (capture_any() && size) {
        const struct graph_copy copy = {
            .to = { .base = (uint64_t)(uintptr_t)to, .pitch = size, .width = size, .height = 1 },
            .from = { .base = (uint64_t)(uintptr_t)from, .pitch = size, .width = size, .height = 1 },
            .extent = { size, 1, 1 },
            .direction = direction,
            .kind = direction,
            .servers = core_copy_servers(),
        };
        code = capture_copy(context, stream, &copy, blocking, &kept);
    }
    return kept ? code : core_copy(context, stream, to, from, size, direction, blocking);
}

int issue_copy_box(core_context *context, core_stream stream, const struct core_box *to, const struct core_box *from,
                   const struct core_extent *size, enum core_direction direction, bool blocking)
{
    bool kept = false;
    int code = CORE_OK;
    if (capture_any()) {
        const struct graph_copy copy = { side_of(to, size->width), side_of(from, size->width), *size, direction,
                                         (int)direction, core_copy_servers() };
        code = capture_copy(context, stream, &copy, blocking, &kept);
    }
    return kept ? code : core_copy_box(context, stream, to, from, size, direction, blocking);
}

/* Only boxes of one slice become nodes: a node has no more. */
int issue_set(core_context *context, core_stream stream, const struct core_box *to, const struct core_extent *size,
              uint32_t value, unsigned element, bool blocking)
{
    bool kept = false;
    int code = CORE_OK;
    for (size_t z = 0; capture_any() && z < size->depth && !code; z++) {
        const struct graph_set set = {
            to->address + z * to->height * to->pitch, to->pitch, value, element, size->width, size->height
        };
        code = capture_set(context, stream, &set, blocking, &kept);
        if (!kept)
            break;
    }
    return kept ? code : core_set(context, stream, to, size, value, element, blocking);
}
