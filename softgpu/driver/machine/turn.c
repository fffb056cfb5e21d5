/*
 * turn.c: whose turn it is. Everything here runs under the mutex.
 *
 * Only the head of a stream can start, and only when what it depends on has ended. A head that cannot start is kept
 * where its turn is noticed, so that nobody goes through all streams:
 *
 *   behind another stream  in that stream's `blocked`, by the number that it waits for; when an operation ends, those
 *                          that waited for it are looked at
 *   until a time (chaos)   in `timed`
 *   for a value in memory  in `values`, which the timer thread goes through. It spends a part of its time on that and
 *                          no more, however many wait
 *
 * Streams to be looked at form a list, `looks`; settle() empties it. After a fault all active streams are looked at
 * once.
 */
#include "softgpu/driver/machine/machine.h"
#include "cpu/common/lock.h"

#include <sys/prctl.h>

enum {
    POLL_LEAST_NS = 10 * 1000, POLL_MOST_NS = 500 * 1000,    /* how often a value in memory is looked at: */
    POLL_SHARE = 16,                         /* every 1/16 of the time that it has been waited for */
    REST_SHARE = 4,                          /* after looking at all values the thread rests so many times as long */
    DOMAIN_LOOK_NS = 5 * 1000 * 1000         /* how often faults of other processes are looked for */
};

static struct sgd_stream *active, **active_end = &active;    /* streams with something queued */
static struct sgd_stream *looks, **looks_end = &looks;
static struct tree timed;
static struct sgd_op *values;
static uint64_t values_at, values_rest;      /* when the timer is to look at them; not before */
static pthread_cond_t timer_ready;
static bool cancel_wanted;

bool sgd_queue_cancelling(void) { return cancel_wanted; }

/* ---- lists ----------------------------------------------------------------------------------------------------- */

static void activate(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    s->active_next = NULL;
    s->active_back = active_end;
    *active_end = s;
    active_end = &s->active_next;
    s->refs++;
    if (!s->non_blocking)
        s->context->busy++;
}

/* The stream may be gone then. */
static void deactivate(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    *s->active_back = s->active_next;
    if (s->active_next)
        s->active_next->active_back = s->active_back;
    else
        active_end = s->active_back;
    s->active_back = NULL;
    if (!s->non_blocking && s->context)
        s->context->busy--;
    if (s->destroyed && s->context)
        sgd_stream_retire(s);
    sgd_stream_unref(s);
}

struct sgd_stream *sgd_turn_active(void) { return active; }

static void look(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (s->looking)
        return;
    s->looking = true;
    s->refs++;
    s->look_next = NULL;
    if (sgd_config.chaos && looks && sgd_random(2)) {        /* streams overtake each other */
        s->look_next = looks;
        looks = s;
        return;
    }
    *looks_end = s;
    looks_end = &s->look_next;
}

/* ---- heads that wait ------------------------------------------------------------------------------------------- */

static void wake_timer(void) { pthread_cond_signal(&timer_ready); }

/* When values are looked at: at `when`, but not before the rest is over. */
static void values_soon(uint64_t when)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    when = when < values_rest ? values_rest : when;
    if (!values || (values_at && values_at <= when))
        return;
    values_at = when;
    wake_timer();
}

/* Memory may have changed: streams that wait for a value look again. */
static void sgd_queue_poke(void) { values_soon(1); }

/* How long a value may go without a look. */
static uint64_t pause_of(const struct sgd_op *op, uint64_t now)
{
    uint64_t pause = op->value.announced ? POLL_MOST_NS : (now - op->value.since) / POLL_SHARE;
    return pause < POLL_LEAST_NS ? POLL_LEAST_NS : pause > POLL_MOST_NS ? POLL_MOST_NS : pause;
}

static void wait_for_value(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    uint64_t now = sgd_now();
    if (op->waits != SGD_WAITS_FOR_VALUE) {
        op->waits = SGD_WAITS_FOR_VALUE;
        op->value.since = now;
        const struct sgd_memory *m = sgd_memory_find(op->value.address);
        op->value.announced = m && m->announced;
        op->value_next = values;
        op->value_back = &values;
        if (values)
            values->value_back = &op->value_next;
        values = op;
    }
    values_soon(now + pause_of(op, now));
}

static void wait_until(struct sgd_op *op)
{
    op->waits = SGD_WAITS_FOR_TIME;
    op->wait.key = op->not_before;
    op->wait.tie = op->stream->id;
    tree_insert(&timed, &op->wait);
    wake_timer();
}

static void wait_behind(struct sgd_op *op, const struct sgd_dependency *d)
{
    op->waits = SGD_WAITS_FOR_STREAM;
    op->wait.key = d->number;
    op->wait.tie = op->stream->id;           /* each stream has one head */
    tree_insert(&d->stream->blocked, &op->wait);
}

static void waits_no_more(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (op->waits == SGD_WAITS_FOR_TIME)
        tree_remove(&timed, &op->wait);
    if (op->waits == SGD_WAITS_FOR_VALUE) {
        *op->value_back = op->value_next;
        if (op->value_next)
            op->value_next->value_back = op->value_back;
    }
    op->waits = SGD_WAITS_FOR_NOTHING;
}

static bool dependencies_met(struct sgd_op *op)
{
    while (op->dependency_count) {
        struct sgd_dependency *d = &op->dependencies[op->dependency_count - 1];
        if (!sgd_stream_done(d->stream, d->number)) {
            wait_behind(op, d);
            return false;
        }
        sgd_stream_unref(d->stream);
        op->dependency_count--;
    }
    return true;
}

/* Has the head's turn come? Else it waits where that is noticed. */
static bool turn_has_come(struct sgd_op *op)
{
    if (op->waits == SGD_WAITS_FOR_STREAM)   /* end() takes it from there */
        return false;
    bool late = op->not_before && !sgd_fault() && op->not_before > sgd_now();
    if (op->waits == SGD_WAITS_FOR_TIME && late)
        return false;
    if (op->waits == SGD_WAITS_FOR_TIME)
        waits_no_more(op);
    if (!dependencies_met(op))
        return false;
    if (late)
        wait_until(op);
    return !late;
}

/* ---- from the head of a stream --------------------------------------------------------------------------------- */

/* The head of its stream has ended, well or not. */
static void end(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_stream *s = op->stream;
    waits_no_more(op);
    s->head = op->next;
    if (!s->head)
        s->tail = &s->head;
    s->completed = op->number;
    if (op->kind == SGD_OP_RECORD && op->event->stream == s && op->event->number == op->number)
        op->event->time = sgd_now();
    sgd_op_free(op);
    for (struct tree_node *first; (first = tree_first(&s->blocked)) && first->key <= s->completed;) {
        struct sgd_op *other = TREE_OBJECT(first, struct sgd_op, wait);
        tree_remove(&s->blocked, first);
        other->waits = SGD_WAITS_FOR_NOTHING;
        look(other->stream);
    }
    if (s->head)
        look(s);
    else
        deactivate(s);
    sgd_progress();
}

static void settle(void);

static void grid_done(void *context, int error)
{
    sgd_lock();
    sgd_space_grid(false);
    sgd_turn_end(context, (CUresult)error);
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
            sgd_work_put(op);
        return false;
    case SGD_OP_HOST:
        op->started = true;
        sgd_work_put(op);
        return false;
    case SGD_OP_LAUNCH:
        op->started = true;
        op->launch.launch.done = grid_done;
        op->launch.launch.context = op;
        r = (CUresult)sg_engine_launch(op->stream->context->machine->engine, &op->launch.launch);
        if (!r) {
            sgd_space_grid(true);
            return false;
        }
        break;
    case SGD_OP_WAIT_VALUE:
        if (!sgd_value_reached(op, &r) && !r) {
            wait_for_value(op);
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

static void settle(void)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_stream *s;
    while ((s = looks)) {
        looks = s->look_next;
        if (!looks)
            looks_end = &looks;
        s->looking = false;
        while (s->head && !s->head->started && turn_has_come(s->head) && start(s->head))
            ;
        sgd_stream_unref(s);
    }
}

void sgd_turn_begin(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    activate(s);
    look(s);
    settle();
}

void sgd_turn_end(struct sgd_op *op, CUresult r)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (r)
        sgd_fault_raise(r);
    end(op);
    sgd_queue_poke();                        /* it may have written what a stream waits for */
    settle();
}

/* ---- the timer --------------------------------------------------------------------------------------------------- */

/* The timer thread cancels what runs: the engine calls grid_done for grids that had not started, which needs the
   mutex. */
void sgd_fault_raise(CUresult code)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!sgd_fault_note(code))
        return;
    if (code != CUDA_ERROR_ASSERT)           /* that one is the process's own */
        sgd_domain_tell(code);
    cancel_wanted = true;
    wake_timer();
    sgd_progress();
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

static void look_at_timed(uint64_t now)
{
    for (struct tree_node *first; (first = tree_first(&timed)) && first->key <= now;) {
        struct sgd_op *op = TREE_OBJECT(first, struct sgd_op, wait);
        waits_no_more(op);
        look(op->stream);
    }
}

static void look_at_values(uint64_t now)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    CUresult error;
    uint64_t pause = POLL_MOST_NS;
    for (struct sgd_op *op = values; op; op = op->value_next) {
        uint64_t own = pause_of(op, now);
        pause = own < pause ? own : pause;
        if (sgd_value_reached(op, &error) || error)
            look(op->stream);
    }
    uint64_t took = sgd_now() - now;
    values_rest = now + took * (1 + REST_SHARE);
    values_at = 0;
    values_soon(now + pause);
}

/* A server that has changed a value in memory which it has announced does not leave that to the timer. */
__attribute__((visibility("default"))) void softgpu_announce(uint64_t address);
void softgpu_announce(uint64_t address)
{
    sgd_lock();
    struct sgd_memory *m = sgd_memory_find(address);
    if (m)
        m->announced = true;
    sgd_unlock();
}

__attribute__((visibility("default"))) void softgpu_look(void);
void softgpu_look(void)
{
    sgd_lock();
    if (values) {
        look_at_values(sgd_now());
        settle();
    }
    sgd_unlock();
}

static uint64_t timer_next(void)
{
    const struct tree_node *first = tree_first(&timed);
    uint64_t at = first ? first->key : 0;
    return values_at && (!at || values_at < at) ? values_at : at;
}

void *sgd_turn_timer(void *unused)
{
    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1000);          /* ns; the standard is 50,000 */
    sgd_lock();
    for (;;) {
        uint64_t now = sgd_now(), next = timer_next();
        if (cancel_wanted) {
            cancel_grids();
            for (struct sgd_stream *s = active; s; s = s->active_next)
                look(s);
            settle();
            continue;
        }
        if (next && next <= now) {
            look_at_timed(now);
            if (values_at && values_at <= now)
                look_at_values(now);
            settle();
            continue;
        }
        if (sgd_domain_fault() && !sgd_fault()) {
            sgd_fault_raise(sgd_domain_fault());
            continue;
        }
        uint64_t domain = now + DOMAIN_LOOK_NS;
        if (sgd_config.fault_gpu && (!next || next > domain))
            next = domain;
        sgd_wait_on(&timer_ready, next ? &next : NULL);
    }
    return NULL;
}

void sgd_turn_prepare(void) { sgd_cond_init(&timer_ready); }
