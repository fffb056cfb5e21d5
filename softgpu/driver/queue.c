/* queue.c: moves operations along; see queue.h for the picture. Everything here runs under the mutex. */
#include "softgpu/driver/driver.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    WORKERS = 2,                             /* CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT */
    POLL_LEAST_NS = 10 * 1000, POLL_MOST_NS = 500 * 1000,    /* how often a value in memory is looked at: */
    POLL_SHARE = 16,                         /* every 1/16 of the time that it has been waited for */
    CHAOS_DELAY_NS = 2 * 1000 * 1000,
    DOMAIN_LOOK_NS = 5 * 1000 * 1000         /* how often faults of other processes are looked for */
};

struct work_list { struct sgd_op *head, **tail; pthread_cond_t ready; };

static struct sgd_stream *active;            /* streams with something queued */
static struct work_list copies, callbacks;
static pthread_cond_t timer_ready;
static uint64_t timer_at;                    /* when the timer thread is to look again; 0: not */
static unsigned grids_running;
static bool threads_started, values_waited, cancel_wanted;
static _Thread_local bool in_callback;

static void advance_all(void);

/* ---- operations -------------------------------------------------------------------------------------------- */

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
        free((void *)(uintptr_t)op->launch.launch.params);
        if (op->launch.module)
            op->launch.module->running--;
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

bool sgd_queue_grids_running(void) { return grids_running != 0; }

static bool dependencies_met(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    while (op->dependency_count) {
        struct sgd_dependency *d = &op->dependencies[op->dependency_count - 1];
        if (!sgd_stream_done(d->stream, d->number))
            return false;
        sgd_stream_unref(d->stream);
        op->dependency_count--;
    }
    return true;
}

/* ---- the timer ----------------------------------------------------------------------------------------------- */

static void look_again_at(uint64_t when)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (timer_at && timer_at <= when)
        return;
    timer_at = when;
    pthread_cond_signal(&timer_ready);
}

void sgd_queue_poke(void)
{
    if (values_waited)
        look_again_at(1);
}

static void cancel_grids(void)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_machine *first = sgd_machines;    /* grows at the front; none goes while we are cancelling */
    sgd_unlock();
    for (struct sgd_machine *m = first; m; m = m->next)
        sg_engine_cancel(m->engine, (int)sgd_fault());
    sgd_lock();
    cancel_wanted = false;
    sgd_progress();
}

bool sgd_queue_cancelling(void) { return cancel_wanted; }

static void *timer_thread(void *unused)
{
    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1000);          /* ns; the standard is 50,000 */
    sgd_lock();
    for (;;) {
        uint64_t now = sgd_now();
        if (timer_at && timer_at <= now) {
            timer_at = 0;
            values_waited = false;
            if (cancel_wanted)
                cancel_grids();
            advance_all();
            continue;
        }
        if (sgd_domain_fault() && !sgd_fault()) {
            sgd_fault_raise(sgd_domain_fault());
            continue;
        }
        uint64_t look = now + DOMAIN_LOOK_NS;
        if (sgd_config.fault_gpu && (!timer_at || timer_at > look))
            sgd_wait_on(&timer_ready, &look);
        else
            sgd_wait_on(&timer_ready, timer_at ? &timer_at : NULL);
    }
    return NULL;
}

/* ---- from the head of a stream ------------------------------------------------------------------------------- */

static void give(struct work_list *list, struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    op->work_next = NULL;
    *list->tail = op;
    list->tail = &op->work_next;
    pthread_cond_signal(&list->ready);
}

/* The head of its stream has ended, well or not. */
static void end(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_stream *s = op->stream;
    s->head = op->next;
    if (!s->head)
        s->tail = &s->head;
    s->completed = op->number;
    if (op->kind == SGD_OP_RECORD && op->event->stream == s && op->event->number == op->number)
        op->event->time = sgd_now();
    sgd_op_free(op);
    if (!s->head) {
        *s->active_back = s->active_next;
        if (s->active_next)
            s->active_next->active_back = s->active_back;
        s->active_back = NULL;
        sgd_stream_unref(s);
    }
    sgd_progress();
}

static void grid_done(void *context, int error)
{
    struct sgd_op *op = context;
    sgd_lock();
    grids_running--;
    if (error)
        sgd_fault_raise((CUresult)error);
    end(op);
    if (values_waited)
        look_again_at(1);                    /* it may have written what a stream waits for */
    advance_all();
    sgd_unlock();
}

/* Starts the head; true: it has ended already. */
static bool start(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    bool faulted = sgd_fault() != CUDA_SUCCESS;
    if (faulted && !(op->kind == SGD_OP_HOST && op->host.callback)) {
        end(op);
        return true;
    }
    CUresult r = CUDA_SUCCESS;
    switch (op->kind) {
    case SGD_OP_COPY: case SGD_OP_SET:
        op->started = true;
        if (!op->inline_run)
            give(&copies, op);
        return false;
    case SGD_OP_HOST:
        op->started = true;
        give(&callbacks, op);
        return false;
    case SGD_OP_LAUNCH:
        op->started = true;
        op->launch.launch.done = grid_done;
        op->launch.launch.context = op;
        r = (CUresult)sg_engine_launch(op->stream->context->machine->engine, &op->launch.launch);
        grids_running += !r;
        if (!r)
            return false;
        break;
    case SGD_OP_WAIT_VALUE:
        if (!sgd_value_reached(op, &r) && !r) {
            uint64_t now = sgd_now();
            if (!op->value.since)
                op->value.since = now;
            uint64_t pause = (now - op->value.since) / POLL_SHARE;
            values_waited = true;
            look_again_at(now + (pause < POLL_LEAST_NS ? POLL_LEAST_NS : pause > POLL_MOST_NS ? POLL_MOST_NS : pause));
            return false;
        }
        break;
    case SGD_OP_WRITE_VALUE:
        r = sgd_value_write(op);
        sgd_queue_poke();
        break;
    case SGD_OP_FREE: {
        struct sgd_memory *m = sgd_memory_find(op->address);
        if (m)
            sgd_memory_free(m);
        break;
    }
    case SGD_OP_NOTHING: case SGD_OP_RECORD:
        break;
    }
    end(op);
    if (r)
        sgd_fault_raise(r);
    return true;
}

/* True: at least one operation ended. The stream may be gone then. */
static bool advance(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    bool any = false;
    s->refs++;
    while (s->head && !s->head->started && dependencies_met(s->head)) {
        struct sgd_op *op = s->head;
        if (op->not_before && !sgd_fault()) {
            uint64_t now = sgd_now();
            if (op->not_before > now) {
                look_again_at(op->not_before);
                break;
            }
        }
        if (!start(op))
            break;
        any = true;
    }
    sgd_stream_unref(s);
    return any;
}

static void advance_all(void)
{
again:
    for (struct sgd_stream *s = active; s; s = s->active_next)
        if (advance(s))
            goto again;                      /* the list has changed, and what comes before may go on now */
}

/* The timer thread cancels what runs: the engine calls grid_done for grids that had not started, which needs the mutex. */
void sgd_queue_fault(void)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    cancel_wanted = true;
    look_again_at(1);
    sgd_progress();
}

/* ---- the threads ----------------------------------------------------------------------------------------------- */

static struct sgd_op *take(struct work_list *list)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    while (!list->head)
        sgd_wait_on(&list->ready, NULL);
    struct sgd_op *op = list->head;
    list->head = op->work_next;
    if (!list->head)
        list->tail = &list->head;
    return op;
}

static void finish(struct sgd_op *op, CUresult r)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    end(op);
    if (r)
        sgd_fault_raise(r);
    sgd_queue_poke();
    advance_all();
}

static void *copy_thread(void *unused)
{
    (void)unused;
    sgd_lock();
    for (;;) {
        struct sgd_op *op = take(&copies);
        sgd_unlock();
        CUresult r = sgd_op_run(op);
        sgd_lock();
        finish(op, r);
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
        struct sgd_op *op = take(&callbacks);
        CUresult status = sgd_fault();
        sgd_unlock();
        if (op->host.callback)
            op->host.callback(op->host.stream, status, op->host.data);
        else if (!status)
            op->host.function(op->host.data);
        sgd_lock();
        finish(op, CUDA_SUCCESS);
    }
    return NULL;
}

CUresult sgd_queue_start(void)
{
    if (threads_started)
        return CUDA_SUCCESS;
    struct work_list *lists[] = { &copies, &callbacks };
    for (size_t i = 0; i < 2; i++) {
        lists[i]->tail = &lists[i]->head;
        sgd_cond_init(&lists[i]->ready);
    }
    sgd_cond_init(&timer_ready);
    void *(*const bodies[])(void *) = { timer_thread, callback_thread, copy_thread, copy_thread };
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

/* ---- for the callers ---------------------------------------------------------------------------------------------- */

static bool add_default_stream_rules(struct sgd_stream *s, struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (s->non_blocking || !s->context)
        return true;
    struct sgd_stream *legacy = s->context->legacy;
    if (!s->legacy)
        return !legacy || sgd_op_depend(op, legacy, legacy->pushed);
    for (struct sgd_stream *o = s->context->streams; o; o = o->next)
        if (o != s && !o->non_blocking && !sgd_op_depend(op, o, o->pushed))
            return false;
    return true;
}

static void activate(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_stream **at = &active;
    if (!sgd_config.chaos || sgd_random(2))  /* else to the front: streams overtake each other */
        while (*at)
            at = &(*at)->active_next;
    s->active_next = *at;
    s->active_back = at;
    if (*at)
        (*at)->active_back = &s->active_next;
    *at = s;
    s->refs++;
}

CUresult sgd_queue_push(struct sgd_stream *s, struct sgd_op *op, uint64_t *number)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    s->refs++;
    while (s->pushed - s->completed >= SGD_MAX_OUTSTANDING)
        sgd_wait(NULL);
    CUresult r = sgd_fault();
    if (!r && !s->context)
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
    if (was_empty) {
        activate(s);
        if (advance(s))
            advance_all();
    }
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
            finish(op, ran);
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
CUresult sgd_context_wait(struct sgd_context *c)
{
    size_t count = 0, i = 0;
    for (struct sgd_stream *s = c->streams; s; s = s->next)
        count++;
    struct sgd_dependency *marks = count ? malloc(count * sizeof *marks) : NULL;
    if (count && !marks)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct sgd_stream *s = c->streams; s; s = s->next) {
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
