/*
 * family.c: in which order grids run that kernels launch (dynamic parallelism).
 *
 * A launch is a task; so is an event's place in a stream. A task waits for others to end: in a stream for the task
 * before it, or for a recorded event. A task without a grid ends as soon as nothing is left to wait for. What may start
 * is collected in a list, which engine.c starts. All of it happens under the engine's lock. A task is counted by
 * whoever points to it.
 *
 * Follows: CUDA C++ Programming Guide, "CUDA Dynamic Parallelism": streams of device code are known to the grid that
 * created them; the NULL stream is one of each block; tail launches start when the grid and all its other children have
 * ended, one after the other.
 */
#include "softgpu/exec/family.h"

#include <stdlib.h>

struct family_link {
    struct family_link *next;
    struct exec_task *task;
};
struct exec_task {
    struct exec_task *next_over;      /* exec_family_over */
    sg_grid *grid;                    /* NULL: only a place in a stream */
    uint32_t waits, refs;
    bool over;
    struct family_link *successors;
};
/* A stream (last: its last task) or an event (the task that it has recorded). */
struct exec_device_object { struct exec_device_object *next; uint64_t handle; bool is_event; struct exec_task *task; };

static struct exec_task *task_new(sg_grid *g)
{
    struct exec_task *t = calloc(1, sizeof *t);
    if (t) {
        t->grid = g;
        t->refs = 1;
    }
    return t;
}

static void task_unref(struct exec_task *t)
{
    if (t && !--t->refs)
        free(t);
}

static bool task_after(struct exec_task *t, struct exec_task *before)
{
    if (!before || before->over)
        return true;
    struct family_link *l = calloc(1, sizeof *l);
    if (!l)
        return false;
    *l = (struct family_link){ before->successors, t };
    before->successors = l;
    t->waits++;
    t->refs++;
    return true;
}

static void replace(struct exec_task **place, struct exec_task *t)
{
    t->refs++;
    task_unref(*place);
    *place = t;
}

static void put_ready(sg_grid *g, sg_grid **ready)
{
    g->next = NULL;
    while (*ready)
        ready = &(*ready)->next;
    *ready = g;
}

/* The task has ended. Its successors that wait for nothing any more and have no grid are put into *list, as are its
   references to them. */
static void task_end(struct exec_task *t, sg_grid **ready, struct exec_task **list)
{
    struct family_link *next, *l = t->successors;
    t->over = true;
    t->successors = NULL;
    for (; l; l = next) {
        struct exec_task *s = l->task;
        next = l->next;
        free(l);
        if (!--s->waits && !s->grid) {
            s->next_over = *list;
            *list = s;
            continue;
        }
        if (!s->waits)
            put_ready(s->grid, ready);
        task_unref(s);
    }
}

/* With a loop, not by recursion: kernels make chains of any length. */
void exec_family_over(struct exec_task *t, sg_grid **ready)
{
    struct exec_task *list = NULL;
    task_end(t, ready, &list);
    while ((t = list)) {
        list = t->next_over;
        task_end(t, ready, &list);
        task_unref(t);
    }
}

static struct exec_device_object *find(sg_grid *g, uint64_t handle, bool event)
{
    struct exec_device_object *o = g->objects;
    while (o && (o->handle != handle || o->is_event != event))
        o = o->next;
    return o;
}

/* Where the last task of a stream is kept; NULL: there is no such stream. The per-thread stream is the block's, too:
   what is launched into it waits for more than it must. */
static struct exec_task **stream_of(struct exec_block *b, uint64_t stream)
{
    if (stream <= EXEC_STREAM_PER_THREAD)
        return &b->stream;
    struct exec_device_object *o = find(b->grid, stream, false);
    return o ? &o->task : NULL;
}

enum exec_family exec_family_launch(struct exec_block *b, sg_grid *child, uint64_t stream, sg_grid **ready)
{
    sg_grid *parent = b->grid;
    struct exec_task **last = NULL, *t;
    if (stream != EXEC_STREAM_TAIL && stream != EXEC_STREAM_FORGET && !(last = stream_of(b, stream)))
        return EXEC_FAMILY_NO_STREAM;
    if (!(t = task_new(child)))
        return EXEC_FAMILY_NO_MEMORY;
    if (last && !task_after(t, *last)) {
        task_unref(t);
        return EXEC_FAMILY_NO_MEMORY;
    }
    child->task = t;
    child->parent = parent;
    if (stream == EXEC_STREAM_TAIL) {
        put_ready(child, &parent->tail);
        return EXEC_FAMILY_FINE;
    }
    if (last)
        replace(last, t);
    parent->children++;
    if (!t->waits)
        put_ready(child, ready);
    return EXEC_FAMILY_FINE;
}

uint64_t exec_family_create(sg_grid *g, bool event)
{
    struct exec_device_object *o = calloc(1, sizeof *o);
    if (!o)
        return 0;
    *o = (struct exec_device_object){ g->objects, EXEC_STREAM_CREATED + 8 * ++g->object_count, event, NULL };
    g->objects = o;
    return o->handle;
}

/* Work that was given to it goes on. */
bool exec_family_destroy(sg_grid *g, uint64_t handle, bool event)
{
    for (struct exec_device_object **p = &g->objects, *o; (o = *p) != NULL; p = &o->next)
        if (o->handle == handle && o->is_event == event) {
            *p = o->next;
            task_unref(o->task);
            free(o);
            return true;
        }
    return false;
}

enum exec_family exec_family_record(struct exec_block *b, uint64_t event, uint64_t stream)
{
    struct exec_device_object *o = find(b->grid, event, true);
    struct exec_task **last = stream_of(b, stream);
    if (!o || !last)
        return EXEC_FAMILY_NO_STREAM;
    if (*last)
        replace(&o->task, *last);
    return EXEC_FAMILY_FINE;
}

enum exec_family exec_family_wait(struct exec_block *b, uint64_t stream, uint64_t event)
{
    struct exec_device_object *o = find(b->grid, event, true);
    struct exec_task **last = stream_of(b, stream), *t;
    if (!o || !last)
        return EXEC_FAMILY_NO_STREAM;
    if (!(t = task_new(NULL)))
        return EXEC_FAMILY_NO_MEMORY;
    bool fine = task_after(t, *last) && task_after(t, o->task);
    if (!t->waits)
        t->over = true;
    if (fine)
        replace(last, t);
    task_unref(t);
    return fine ? EXEC_FAMILY_FINE : EXEC_FAMILY_NO_MEMORY;
}

void exec_family_leave_block(struct exec_block *b)
{
    task_unref(b->stream);
    b->stream = NULL;
}

void exec_family_leave(sg_grid *g)
{
    while (g->objects)
        exec_family_destroy(g, g->objects->handle, g->objects->is_event);
    task_unref(g->task);
    g->task = NULL;
}
