/*
 * run.c: carries a plan out. A step whose waits are over is put on the stack `ready`; whichever thread has completed
 * the last of them takes it from there: the caller in the beginning, then the threads of the links. They copy and
 * reduce, and post transfers. The caller sleeps; every LOOK_MS it looks whether a message of another call has come,
 * since a rank that calls something else may send nothing that is waited for here.
 *
 * One lock protects a run. `active` counts steps that are posted or at work: a run that has failed ends when it is 0,
 * because until then memory of the caller is in use. `inside` counts threads that will look at the run again.
 */
#include "cpu/comm/context.h"
#include "cpu/comm/note.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 50 };

struct run_step { struct comm_transfer t; struct comm_run *run; unsigned left, first, count; bool waiting; };

struct comm_run {
    struct comm_context    *context;
    const struct comm_work *work;
    pthread_mutex_t         lock;
    pthread_cond_t          changed;
    struct run_step        *steps;
    unsigned               *dependents;         /* first and count of each step are places in here */
    unsigned               *ready, ready_count, complete, active, inside;
    int                     status;
};

static uint8_t *at(const struct comm_run *run, struct comm_place place)
{
    return run->work->buffers[place.buffer] + place.at;
}

/* Under the lock. */
static void complete(struct comm_run *run, unsigned i)
{
    const struct run_step *step = &run->steps[i];
    run->complete++;
    for (unsigned d = 0; d < step->count; d++) {
        unsigned next = run->dependents[step->first + d];
        if (--run->steps[next].left == 0)
            run->ready[run->ready_count++] = next;
    }
}

static void differ(struct comm_run *run, unsigned peer, const uint8_t theirs[COMM_NOTE_SIZE])
{
    char here[72], there[72], why[COMM_WHY_SIZE];
    comm_call_text(run->work->note, here, sizeof here);
    comm_call_text(theirs, there, sizeof there);
    snprintf(why, sizeof why, "ranks %u and %u do not call the same: %s, and %s", run->context->settings.rank, peer,
             here, there);
    comm_context_fail(run->context, -EPROTO, why);
}

/* A transfer's failure ends the context, unless that is why it failed. */
static void fail(struct comm_run *run, unsigned i, int status)
{
    const struct comm_step *step = &run->work->plan->steps[i];
    const struct comm_transfer *t = &run->steps[i].t;
    char why[COMM_WHY_SIZE], call[80];
    if (t->known && memcmp(t->peer_note, run->work->note, COMM_NOTE_SIZE) != 0) {
        differ(run, step->peer, t->peer_note);
        return;
    }
    /* Where the link has failed, its `lost` says why, at once or in a moment. */
    if (status != -ESHUTDOWN && comm_peer_status(run->context, step->peer) == status)
        return;
    comm_call_text(run->work->note, call, sizeof call);
    snprintf(why, sizeof why, "rank %u: %s: %s", step->peer, call,
             status == -ESHUTDOWN ? "it has ended its context" : strerror(-status));
    comm_context_fail(run->context, status, why);
}

/* Under the lock. */
static bool is_over(const struct comm_run *run)
{
    bool all = run->complete == run->work->plan->count;
    return run->inside == 0 && (all || (run->status && run->active == 0));
}

/* Under the lock. The caller is woken when the run is over only: a step more is nothing to it. */
static void wake(struct comm_run *run)
{
    if (is_over(run))
        pthread_cond_signal(&run->changed);
}

static void drive(struct comm_run *run);

static void transfer_done(struct comm_transfer *t)
{
    struct run_step *step = t->context;
    struct comm_run *run = step->run;
    unsigned i = (unsigned)(step - run->steps);
    int status = t->status;
    if (status == 0 && run->work->plan->steps[i].kind == STEP_RECEIVE &&
        memcmp(t->peer_note, run->work->note, COMM_NOTE_SIZE) != 0)
        status = -EPROTO;
    pthread_mutex_lock(&run->lock);
    run->inside++;
    pthread_mutex_unlock(&run->lock);
    if (status < 0)
        fail(run, i, status);
    pthread_mutex_lock(&run->lock);
    run->active--;
    step->waiting = false;
    if (status < 0)
        run->status = run->status ? run->status : status;
    else
        complete(run, i);
    pthread_mutex_unlock(&run->lock);
    drive(run);
    pthread_mutex_lock(&run->lock);
    run->inside--;
    wake(run);
    pthread_mutex_unlock(&run->lock);
}

/* 1: it is complete; 0: under way; or -errno. */
static int execute(struct comm_run *run, unsigned i)
{
    const struct comm_step *step = &run->work->plan->steps[i];
    struct run_step *mine = &run->steps[i];
    int posted;
    switch (step->kind) {
    case STEP_COPY: memmove(at(run, step->to), at(run, step->a), step->size); return 1;
    case STEP_REDUCE:
        comm_reduce(run->work->type, run->work->operation, at(run, step->to), at(run, step->a), at(run, step->b),
                    step->size / comm_type_size(run->work->type));
        return 1;
    default: break;
    }
    bool send = step->kind == STEP_SEND;
    mine->t = (struct comm_transfer){ .name = { COMM_CALL_SPACE | run->work->number, step->number },
                                      .memory = at(run, send ? step->a : step->to), .size = step->size,
                                      .done = transfer_done, .context = mine };
    memcpy(mine->t.note, run->work->note, COMM_NOTE_SIZE);
    posted = send ? comm_peer_send(run->context, step->peer, &mine->t)
                  : comm_peer_receive(run->context, step->peer, &mine->t);
    if (posted == 1 && mine->t.status < 0)
        return mine->t.status;
    if (posted == 1 && !send && memcmp(mine->t.peer_note, run->work->note, COMM_NOTE_SIZE) != 0)
        return -EPROTO;
    return posted;
}

static void drive(struct comm_run *run)
{
    pthread_mutex_lock(&run->lock);
    while (run->ready_count > 0 && run->status == 0) {
        unsigned i = run->ready[--run->ready_count];
        run->active++;
        run->steps[i].waiting = run->work->plan->steps[i].kind == STEP_RECEIVE;
        pthread_mutex_unlock(&run->lock);
        int result = execute(run, i);
        if (result < 0)
            fail(run, i, result);
        pthread_mutex_lock(&run->lock);
        if (result == 0)
            continue;                           /* transfer_done has counted it, or will */
        run->active--;
        run->steps[i].waiting = false;
        if (result < 0)
            run->status = run->status ? run->status : result;
        else
            complete(run, i);
    }
    wake(run);
    pthread_mutex_unlock(&run->lock);
}

/* ---- the caller ---- */

/* Who depends on each step, and which can begin. */
static void prepare(struct comm_run *run)
{
    const struct comm_plan *plan = run->work->plan;
    for (unsigned i = 0; i < plan->count; i++)
        for (unsigned w = 0; w < plan->steps[i].waits; w++)
            run->steps[plan->waits[plan->steps[i].first_wait + w]].count++;
    for (unsigned i = 0, next = 0; i < plan->count; i++) {
        run->steps[i].run = run;
        run->steps[i].first = next;
        next += run->steps[i].count;
        run->steps[i].count = 0;
        run->steps[i].left = plan->steps[i].waits;
    }
    for (unsigned i = 0; i < plan->count; i++)
        for (unsigned w = 0; w < plan->steps[i].waits; w++) {
            struct run_step *before = &run->steps[plan->waits[plan->steps[i].first_wait + w]];
            run->dependents[before->first + before->count++] = i;
        }
    for (unsigned i = plan->count; i-- > 0;)    /* the first step is on top of the stack */
        if (run->steps[i].left == 0)
            run->ready[run->ready_count++] = i;
}

static bool glance(struct comm_context *c, unsigned peer, uint64_t space, uint8_t note[COMM_NOTE_SIZE])
{
    if (c->peers[peer].near)
        return comm_near_glance(c->near, c->settings.rank, peer, space, note);
    return c->peers[peer].link && comm_link_glance(c->peers[peer].link, space, note);
}

static void look_for_others(struct comm_run *run)
{
    uint8_t note[COMM_NOTE_SIZE];
    for (unsigned r = 0; r < run->context->settings.size; r++) {
        if (glance(run->context, r, COMM_CALL_SPACE | run->work->number, note) &&
            memcmp(note, run->work->note, COMM_NOTE_SIZE) != 0) {
            differ(run, r, note);
            return;
        }
    }
}

/* The ranks that something is still expected from. */
static void late(struct comm_run *run)
{
    char why[COMM_WHY_SIZE], call[80];
    uint64_t number = run->work->number;
    comm_call_text(run->work->note, call, sizeof call);
    int length = snprintf(why, sizeof why, "rank %u: call %llu, %s, was not complete in time; expected from rank",
                          run->context->settings.rank, (unsigned long long)number, call);
    pthread_mutex_lock(&run->lock);
    for (unsigned r = 0; r < run->context->settings.size; r++) {
        bool expected = false;
        for (unsigned i = 0; i < run->work->plan->count && !expected; i++)
            expected = run->steps[i].waiting && run->work->plan->steps[i].peer == r;
        if (expected && length < (int)sizeof why - 8)
            length += snprintf(why + length, sizeof why - (size_t)length, " %u", r);
    }
    pthread_mutex_unlock(&run->lock);
    comm_context_fail(run->context, -ETIMEDOUT, why);
}

static void wait_for(struct comm_run *run, uint64_t deadline)
{
    pthread_mutex_lock(&run->lock);
    while (!is_over(run)) {
        uint64_t now = clock_now(), look = now + LOOK_MS * CLOCK_NS_PER_MS;
        struct timespec until = clock_timespec(look < deadline || deadline <= now ? look : deadline);
        if (pthread_cond_clockwait(&run->changed, &run->lock, CLOCK_MONOTONIC, &until) == 0)
            continue;
        pthread_mutex_unlock(&run->lock);
        int status = comm_context_status(run->context, NULL);
        if (status == 0 && clock_now() >= deadline)
            late(run);
        else if (status == 0)
            look_for_others(run);
        pthread_mutex_lock(&run->lock);
        run->status = run->status ? run->status : status;
    }
    pthread_mutex_unlock(&run->lock);
}

static void run_free(struct comm_run *run)
{
    free(run->steps);
    free(run->dependents);
    free(run->ready);
    free(run);
}

struct comm_run *comm_run_begin(struct comm_context *context, const struct comm_work *work)
{
    struct comm_run *run = calloc(1, sizeof *run);
    unsigned count = work->plan->count;
    if (!run)
        return NULL;
    *run = (struct comm_run){ .context = context, .work = work };
    run->steps = calloc(count + 1, sizeof *run->steps);
    run->dependents = calloc(work->plan->wait_count + 1, sizeof *run->dependents);
    run->ready = calloc(count + 1, sizeof *run->ready);
    if (!run->steps || !run->dependents || !run->ready) {
        run_free(run);
        return NULL;
    }
    pthread_mutex_init(&run->lock, NULL);
    pthread_cond_init(&run->changed, NULL);
    prepare(run);
    drive(run);
    return run;
}

int comm_run_end(struct comm_run *run, uint64_t deadline)
{
    wait_for(run, deadline);
    int status = run->complete == run->work->plan->count ? 0 : comm_context_reason(run->context, run->status);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
    run_free(run);
    return status;
}
