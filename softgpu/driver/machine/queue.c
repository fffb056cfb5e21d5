/* queue.c: what callers do with streams, and the threads that work for them; see queue.h. Under the mutex, but for the
   work itself. */
#include "softgpu/driver/machine/machine.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKERS = 2,                             /* CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT */
    CHAOS_DELAY_NS = 2 * 1000 * 1000
};

static bool threads_started;
static _Thread_local bool in_callback;

/* ---- the threads ----------------------------------------------------------------------------------------------- */

static void *copy_thread(void *unused)
{
    (void)unused;
    sgd_lock();
    for (;;) {
        struct sgd_op *op = sgd_work_take(false);
        sgd_unlock();
        CUresult r = sgd_op_run(op);
        sgd_lock();
        sgd_turn_end(op, r);
    }
    return NULL;
}

bool sgd_in_callback(void) { return in_callback; }

static void *callback_thread(void *unused)
{
    (void)unused;
    in_callback = true;
    sgd_lock();
    for (;;) {
        struct sgd_op *op = sgd_work_take(true);
        CUresult status = sgd_fault();
        sgd_unlock();
        if (op->host.callback)
            op->host.callback(op->host.stream, status, op->host.data);
        else if (!status)
            op->host.function(op->host.data);
        sgd_lock();
        sgd_turn_end(op, CUDA_SUCCESS);
    }
    return NULL;
}

CUresult sgd_queue_start(void)
{
    if (threads_started)
        return CUDA_SUCCESS;
    sgd_work_start();
    sgd_turn_prepare();
    void *(*const bodies[])(void *) = { sgd_turn_timer, callback_thread, copy_thread, copy_thread };
    _Static_assert(WORKERS == 2, "as many copy threads as the list of bodies has");
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);    /* signals are the program's */
    int failed = 0;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies && !failed; i++) {
        pthread_t thread;
        failed = pthread_create(&thread, NULL, bodies[i], NULL);
        if (!failed)
            pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        log_error("software GPU: cannot start its threads: %s", strerror(failed));
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    threads_started = true;
    return CUDA_SUCCESS;
}

/* ---- for the callers --------------------------------------------------------------------------------------------- */

/* A blocking stream and the legacy stream wait for each other. The legacy stream waits for its own last operation in
   any case, so of the others only those matter that were given work since. */
static bool add_default_stream_rules(struct sgd_stream *s, struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (s->non_blocking)
        return true;
    struct sgd_stream *legacy = s->context->legacy;
    if (!s->legacy)
        return !legacy || sgd_op_depend(op, legacy, legacy->pushed);
    for (struct sgd_stream *o = s->context->fresh; o; o = o->fresh_next)
        if (!sgd_op_depend(op, o, o->pushed))
            return false;
    return true;
}

/* The operation is in the queue: what the next one of the legacy stream has to wait for. */
static void note_for_legacy(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_context *c = s->context;
    while (s->legacy && c->fresh)
        sgd_stream_stale(c->fresh);
    if (s->legacy || s->non_blocking || s->fresh_back)
        return;
    s->fresh_next = c->fresh;
    s->fresh_back = &c->fresh;
    if (c->fresh)
        c->fresh->fresh_back = &s->fresh_next;
    c->fresh = s;
}

CUresult sgd_queue_push(struct sgd_stream *s, struct sgd_op *op, uint64_t *number)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    s->refs++;
    while (s->pushed - s->completed >= SGD_MAX_OUTSTANDING)
        sgd_wait(NULL);
    CUresult r = sgd_fault();
    if (!r && !(s->context && s->context->active))
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!r && !add_default_stream_rules(s, op))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        sgd_op_free(op);
        sgd_stream_unref(s);
        return r;
    }
    op->stream = s;
    op->number = ++s->pushed;
    if (number)
        *number = op->number;
    if (op->kind == SGD_OP_RECORD) {         /* from now on the event means this record */
        struct sgd_event *e = op->event;
        if (e->stream)
            sgd_stream_unref(e->stream);
        e->stream = s;
        e->number = op->number;
        s->refs++;
    }
    if (sgd_config.chaos && sgd_random(4) == 0)
        op->not_before = sgd_now() + sgd_random(CHAOS_DELAY_NS);
    bool was_empty = !s->head;
    *s->tail = op;
    s->tail = &op->next;
    note_for_legacy(s);
    if (was_empty)
        sgd_turn_begin(s);
    sgd_stream_unref(s);
    return CUDA_SUCCESS;
}

CUresult sgd_stream_wait(struct sgd_stream *s, uint64_t number)
{
    s->refs++;
    while (s->completed < number)
        sgd_wait(NULL);
    sgd_stream_unref(s);
    return sgd_fault();
}

CUresult sgd_queue_push_here(struct sgd_stream *s, struct sgd_op *op, uint64_t *number)
{
    uint64_t mine = 0;
    s->refs++;
    op->inline_run = true;
    CUresult r = sgd_queue_push(s, op, &mine);
    if (!r && !sgd_stream_done(s, mine)) {
        if (op->started && (op->kind == SGD_OP_COPY || op->kind == SGD_OP_SET)) {
            sgd_unlock();
            CUresult ran = sgd_op_run(op);
            sgd_lock();
            sgd_turn_end(op, ran);
        } else {
            op->inline_run = false;
        }
    }
    if (number)
        *number = mine;
    sgd_stream_unref(s);
    return r;
}

CUresult sgd_queue_push_wait(struct sgd_stream *s, struct sgd_op *op)
{
    uint64_t number = 0;
    s->refs++;
    CUresult r = sgd_queue_push_here(s, op, &number);
    if (!r)
        r = sgd_stream_wait(s, number);
    sgd_stream_unref(s);
    return r;
}

/* New work that another thread queues meanwhile is not waited for. */
static CUresult wait_for_streams(struct sgd_context *c, bool blocking_only)
{
    size_t count = 0, i = 0;
    for (struct sgd_stream *s = sgd_turn_active(); s; s = s->active_next)
        count += s->context == c && !(blocking_only && s->non_blocking);
    struct sgd_dependency *marks = count ? malloc(count * sizeof *marks) : NULL;
    if (count && !marks)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct sgd_stream *s = sgd_turn_active(); s; s = s->active_next)
        if (s->context == c && !(blocking_only && s->non_blocking)) {
            s->refs++;
            marks[i++] = (struct sgd_dependency){ s, s->pushed };
        }
    for (i = 0; i < count; i++) {
        sgd_stream_wait(marks[i].stream, marks[i].number);
        sgd_stream_unref(marks[i].stream);
    }
    free(marks);
    return sgd_fault();
}

CUresult sgd_context_wait(struct sgd_context *c) { return wait_for_streams(c, false); }

CUresult sgd_legacy_wait(struct sgd_context *c) { return wait_for_streams(c, true); }
