/* op.c: operations of streams and what they depend on; see queue.h. Under the mutex. */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "softgpu/ptx/budget.h"

/* A program names many references in few bytes, and each launch of it that waits has a binding for each. */
struct sg_binding *sgd_bindings_new(size_t count)
{
    if (!ptx_budget_take(count * sizeof(struct sg_binding)))
        return NULL;
    struct sg_binding *bindings = calloc(count, sizeof *bindings);
    if (!bindings)
        ptx_budget_give(count * sizeof *bindings);
    return bindings;
}

static void bindings_free(const struct sg_binding *bindings, size_t count)
{
    if (!bindings)
        return;
    free((void *)(uintptr_t)bindings);
    ptx_budget_give(count * sizeof *bindings);
}

struct sgd_op *sgd_op_new(enum sgd_op_kind kind)
{
    struct sgd_op *op = calloc(1, sizeof *op);
    if (op)
        op->kind = kind;
    return op;
}

void sgd_op_free(struct sgd_op *op)
{
    for (uint32_t i = 0; i < op->dependency_count; i++)
        sgd_stream_unref(op->dependencies[i].stream);
    free(op->dependencies);
    if (op->kind == SGD_OP_COPY)
        free(op->copy.staged);
    if (op->kind == SGD_OP_LAUNCH) {
        if (op->launch.launch.params != op->launch.small)
            free((void *)(uintptr_t)op->launch.launch.params);
        bindings_free(op->launch.launch.bindings, op->launch.launch.binding_count);
        if (op->launch.module) {
            op->launch.module->running--;
            sgd_textures_release(op->launch.textures);
        }
    }
    if (op->kind == SGD_OP_RECORD && op->event)
        sgd_event_unref(op->event);
    free(op);
}

bool sgd_op_depend(struct sgd_op *op, struct sgd_stream *stream, uint64_t number)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (stream->completed >= number)
        return true;
    if (op->dependency_count == op->dependency_room) {
        uint32_t room = op->dependency_room ? op->dependency_room * 2 : 4;
        struct sgd_dependency *grown = realloc(op->dependencies, room * sizeof *grown);
        if (!grown)
            return false;
        op->dependencies = grown;
        op->dependency_room = room;
    }
    stream->refs++;
    op->dependencies[op->dependency_count++] = (struct sgd_dependency){ stream, number };
    return true;
}

bool sgd_stream_done(const struct sgd_stream *s, uint64_t number) { return s->completed >= number; }
