/*
 * user_object.c: user objects: reference counts of the program that graphs, and what is made of them, hold. When the
 * last reference goes, the program's function is called, once, by the thread that dropped it.
 */
#include <limits.h>
#include <stdlib.h>

#include "cpu/client/graph/handles.h"
#include "cpu/client/graph/model.h"
#include "cpu/common/cancel.h"

enum { STREAM_NON_BLOCKING = 1 };

struct user_object {
    graph_object token;
    void (*destroy)(void *);
    void *pointer;
    uint64_t count;
    struct deferred end;
};

struct user {
    struct user_object *object;
    uint64_t count;
    struct user *next;
};

static void object_end(void *data)
{
    struct user_object *o = data;
    o->destroy(o->pointer);
    free(o);
}

static void object_drop(struct user_object *o, uint64_t count)
{
    if ((o->count -= count))
        return;
    handle_remove(HANDLE_OBJECT, o->token);
    o->end = (struct deferred){ .function = object_end, .data = o };
    graphs_defer(&o->end);
}

static struct user *user_of(struct graph *g, const struct user_object *o)
{
    struct user *u = g->users;
    while (u && u->object != o)
        u = u->next;
    return u;
}

static bool user_add(struct graph *g, struct user_object *o, uint64_t count)
{
    struct user *u = user_of(g, o);
    if (!u) {
        if (!(u = calloc(1, sizeof *u)))
            return false;
        u->object = o;
        u->next = g->users;
        g->users = u;
    }
    u->count += count;
    return true;
}

bool users_copy(struct graph *to, const struct graph *from)
{
    for (const struct user *u = from->users; u; u = u->next) {
        if (!user_add(to, u->object, u->count))
            return false;
        u->object->count += u->count;
    }
    return true;
}

static void list_drop(struct user **list)
{
    for (struct user *u; (u = *list);) {
        *list = u->next;
        object_drop(u->object, u->count);
        free(u);
    }
}

void users_drop(struct graph *g) { list_drop(&g->users); }

/* ---- an executable ends, or is updated, while it may run ---- */

/* What has been the references of a graph, and of the graphs in it. */
struct leftovers {
    struct user *users;
};

static void list_move(struct leftovers *all, struct user **list)
{
    struct user **last = &all->users;
    while (*last)
        last = &(*last)->next;
    *last = *list;
    *list = NULL;
}

static void users_move(struct leftovers *all, struct graph *g)
{
    list_move(all, &g->users);
    struct graph *inner;
    for (EACH_NODE(n, g))
        for (size_t i = 0; (inner = node_inner(n, i)); i++)
            users_move(all, inner);
}

/* Into `updated` of the graph, and of the graphs in it, what the other graph's hold. */
static bool updated_make(struct graph *g, const struct graph *from)
{
    struct user *now = g->users;
    g->users = NULL;
    bool good = users_copy(g, from);
    g->updated = g->users;
    g->users = now;
    struct model_node *other = NODE_AT(list_first(&from->nodes));
    struct graph *inner;
    for (EACH_NODE(n, g)) {
        for (size_t i = 0; good && (inner = node_inner(n, i)); i++)
            good = updated_make(inner, node_inner(other, i));
        other = NODE_AT(list_next(&from->nodes, &other->of_graph));
    }
    return good;
}

/* Takes what was made into use, or drops it; *all gets what goes. */
static void updated_end(struct graph *g, bool used, struct leftovers *all)
{
    list_move(all, used ? &g->users : &g->updated);
    if (used)
        g->users = g->updated;
    g->updated = NULL;
    struct graph *inner;
    for (EACH_NODE(n, g))
        for (size_t i = 0; (inner = node_inner(n, i)); i++)
            updated_end(inner, used, all);
}

struct leftovers *users_replace(struct graph *g, const struct graph *from)
{
    struct leftovers *old = calloc(1, sizeof *old);
    if (!old)
        return NULL;
    bool good = updated_make(g, from);
    updated_end(g, good, old);
    if (good)
        return old;
    list_drop(&old->users);
    free(old);
    return NULL;
}

void users_release(struct leftovers *all)
{
    if (!all || graphs_enter())
        return;
    list_drop(&all->users);
    graphs_leave();
    free(all);
}

static void release(void *data, int status)
{
    (void)status;
    users_release(data);
}

/* The program's functions may be called when the event has come. */
static int release_behind(struct leftovers *all, core_context *context, core_event event)
{
    core_stream stream;
    int code = core_stream_create(context, STREAM_NON_BLOCKING, 0, &stream);
    if (code)
        return code;
    if (!(code = core_stream_wait(context, stream, event, 0)))
        code = core_host_function(context, stream, release, all, true);
    core_stream_destroy(stream);
    return code;
}

bool users_wait(struct leftovers *all, core_context *context, core_event event)
{
    if (!all || !all->users || !event || core_event_query(event) != CORE_NOT_READY)
        return false;
    if (!release_behind(all, context, event))
        return true;
    core_event_synchronize(event);
    return false;
}

void users_release_behind(struct graph *g, core_context *context, core_event event)
{
    if (!event || core_event_query(event) != CORE_NOT_READY)
        return;
    struct leftovers *all = calloc(1, sizeof *all);
    if (!all || graphs_enter()) {
        free(all);
        return;
    }
    users_move(all, g);
    graphs_leave();
    if (!users_wait(all, context, event))
        users_release(all);
}

/* ---- what programs ask for ---- */

int graph_object_create(void *pointer, void (*destroy)(void *), unsigned count, graph_object *out)
{
    CANCEL_DEFERRED;
    if (!destroy || !count || count > INT_MAX)
        return CORE_INVALID_VALUE;
    struct user_object *o = calloc(1, sizeof *o);
    if (!o)
        return CORE_OUT_OF_MEMORY;
    *o = (struct user_object){ .destroy = destroy, .pointer = pointer, .count = count };
    int code = graphs_enter();
    if (!code) {
        if (!(*out = o->token = handle_add(HANDLE_OBJECT, o)))
            code = CORE_OUT_OF_MEMORY;
        graphs_leave();
    }
    if (code)
        free(o);
    return code;
}

/* Changes the program's own references. */
static int change(graph_object token, unsigned count, bool more)
{
    int code = graphs_enter();
    if (code)
        return code;
    struct user_object *o = handle_find(HANDLE_OBJECT, token);
    if (!o || !count || count > INT_MAX || (!more && count > o->count))
        code = CORE_INVALID_VALUE;
    else if (more)
        o->count += count;
    else
        object_drop(o, count);
    graphs_leave();
    return code;
}

int graph_object_retain(graph_object token, unsigned count)
{
    CANCEL_DEFERRED;
    return change(token, count, true);
}

int graph_object_release(graph_object token, unsigned count)
{
    CANCEL_DEFERRED;
    return change(token, count, false);
}

int graph_object_give(graph_handle handle, graph_object token, unsigned count, bool moves)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle);
    struct user_object *o = handle_find(HANDLE_OBJECT, token);
    if (!g || !o || !count || count > INT_MAX)
        code = CORE_INVALID_VALUE;
    else if (!user_add(g, o, count))
        code = CORE_OUT_OF_MEMORY;
    else if (!moves)
        o->count += count;
    graphs_leave();
    return code;
}

int graph_object_take(graph_handle handle, graph_object token, unsigned count)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle);
    struct user_object *o = handle_find(HANDLE_OBJECT, token);
    struct user *u = g && o ? user_of(g, o) : NULL;
    if (!u || !count || count > u->count) {
        code = CORE_INVALID_VALUE;
    } else {
        u->count -= count;
        object_drop(o, count);
        for (struct user **at = &g->users; !u->count && *at; at = &(*at)->next)
            if (*at == u) {
                *at = u->next;
                free(u);
                break;
            }
    }
    graphs_leave();
    return code;
}
