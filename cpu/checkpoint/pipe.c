/*
 * pipe.c: see pipe.h. Frames lie in a ring, and are counted on and on: those from `written` to `given` are on their
 * way, and nobody packs yet those from `taken` on. The lock is held only to look at these numbers.
 */
#include "cpu/checkpoint/pipe.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

enum { PACKERS_MOST = 8, WAITING = 2 /* frames for each packer */, ROOM_MOST = PACKERS_MOST * WAITING + 2 };

struct pipe_packer {
    struct frame_pipe *pipe;
    struct frame_packer *packer;
    pthread_t thread;
};

struct frame_pipe {
    struct frame_out *out;
    struct frame_packer *own; /* the caller's, while no threads run */
    struct frame_job *jobs[ROOM_MOST];
    unsigned room; /* 1: without threads */
    struct pipe_packer packing[PACKERS_MOST];
    unsigned packers; /* threads; 0: none runs, the one that writes neither */
    pthread_t writer;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t may_pack, may_write, may_take;
    uint64_t given, taken, written;
    bool ends;
    int failed;
};

static struct frame_job *job_at(const struct frame_pipe *pipe, uint64_t number)
{
    return pipe->jobs[number % pipe->room];
}

static int job_write(struct frame_pipe *pipe, struct frame_job *job)
{
    return job->error ? job->error : frame_out_write(pipe->out, job->pieces, job->count);
}

/* ---- the threads ---- */

static void *pack_all(void *argument)
{
    struct pipe_packer *packing = argument;
    struct frame_pipe *pipe = packing->pipe;
    pthread_mutex_lock(&pipe->lock);
    for (;;) {
        while (pipe->taken == pipe->given && !pipe->ends)
            pthread_cond_wait(&pipe->may_pack, &pipe->lock);
        if (pipe->taken == pipe->given)
            break;
        struct frame_job *job = job_at(pipe, pipe->taken++);
        pthread_mutex_unlock(&pipe->lock);
        frame_pack(packing->packer, job);
        pthread_mutex_lock(&pipe->lock);
        job->packed = true;
        pthread_cond_signal(&pipe->may_write);
    }
    pthread_mutex_unlock(&pipe->lock);
    return NULL;
}

/* After an error frames are taken out of the ring, and not written. */
static void *write_in_order(void *argument)
{
    struct frame_pipe *pipe = argument;
    pthread_mutex_lock(&pipe->lock);
    for (;;) {
        struct frame_job *job = job_at(pipe, pipe->written);
        while (pipe->written == pipe->given ? !pipe->ends : !job->packed)
            pthread_cond_wait(&pipe->may_write, &pipe->lock);
        if (pipe->written == pipe->given)
            break;
        if (!pipe->failed) {
            pthread_mutex_unlock(&pipe->lock);
            int error = job_write(pipe, job);
            pthread_mutex_lock(&pipe->lock);
            pipe->failed = error;
        }
        pipe->written++;
        pthread_cond_signal(&pipe->may_take);
    }
    pthread_mutex_unlock(&pipe->lock);
    return NULL;
}

/* ---- beginning and end ---- */

struct frame_pipe *frame_pipe_new(struct frame_out *out)
{
    struct frame_pipe *pipe = calloc(1, sizeof *pipe);
    if (!pipe)
        return NULL;
    pipe->out = out;
    pipe->room = 1;
    pipe->own = frame_packer_new(NULL, NULL);
    pipe->jobs[0] = frame_job_new();
    if (!pipe->own || !pipe->jobs[0]) {
        frame_packer_free(pipe->own);
        frame_job_free(pipe->jobs[0]);
        free(pipe);
        return NULL;
    }
    pthread_mutex_init(&pipe->lock, NULL);
    pthread_cond_init(&pipe->may_pack, NULL);
    pthread_cond_init(&pipe->may_write, NULL);
    pthread_cond_init(&pipe->may_take, NULL);
    return pipe;
}

bool frame_pipe_seal(struct frame_pipe *pipe, const uint8_t *key, const uint8_t *begun)
{
    struct frame_packer *packer = frame_packer_new(key, begun);
    if (!packer)
        return false;
    frame_packer_free(pipe->own);
    pipe->own = packer;
    return true;
}

static unsigned processors(void)
{
    cpu_set_t may;
    int count = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : 1;
    return count < 1 ? 1 : count < PACKERS_MOST ? (unsigned)count : PACKERS_MOST;
}

/* With fewer frames than wanted there is less to do at once. */
static void room_make(struct frame_pipe *pipe, unsigned wanted)
{
    while (pipe->room < wanted && (pipe->jobs[pipe->room] = frame_job_new()))
        pipe->room++;
}

static void packers_start(struct frame_pipe *pipe, unsigned wanted, const uint8_t *key, const uint8_t *begun)
{
    while (pipe->packers < wanted) {
        struct pipe_packer *packing = &pipe->packing[pipe->packers];
        *packing = (struct pipe_packer){ .pipe = pipe, .packer = frame_packer_new(key, begun) };
        if (!packing->packer)
            return;
        if (pthread_create(&packing->thread, NULL, pack_all, packing) != 0) {
            frame_packer_free(packing->packer);
            return;
        }
        pipe->packers++;
    }
}

/* Frames that were given are written. */
static void threads_end(struct frame_pipe *pipe, bool writes)
{
    pthread_mutex_lock(&pipe->lock);
    pipe->ends = true;
    pthread_cond_broadcast(&pipe->may_pack);
    pthread_cond_broadcast(&pipe->may_write);
    pthread_mutex_unlock(&pipe->lock);
    for (unsigned i = 0; i < pipe->packers; i++) {
        pthread_join(pipe->packing[i].thread, NULL);
        frame_packer_free(pipe->packing[i].packer);
    }
    if (writes)
        pthread_join(pipe->writer, NULL);
    pipe->packers = 0;
    pipe->ends = false;
}

void frame_pipe_run(struct frame_pipe *pipe, const uint8_t *key, const uint8_t *begun)
{
    const unsigned wanted = processors();
    sigset_t all, before;
    room_make(pipe, wanted * WAITING + 2);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    packers_start(pipe, wanted, key, begun);
    if (pipe->packers && pthread_create(&pipe->writer, NULL, write_in_order, pipe) != 0)
        threads_end(pipe, false);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int frame_pipe_end(struct frame_pipe *pipe)
{
    if (pipe->packers)
        threads_end(pipe, true);
    return pipe->failed;
}

void frame_pipe_free(struct frame_pipe *pipe)
{
    if (!pipe)
        return;
    frame_pipe_end(pipe);
    for (unsigned i = 0; i < pipe->room; i++)
        frame_job_free(pipe->jobs[i]);
    frame_packer_free(pipe->own);
    pthread_cond_destroy(&pipe->may_pack);
    pthread_cond_destroy(&pipe->may_write);
    pthread_cond_destroy(&pipe->may_take);
    pthread_mutex_destroy(&pipe->lock);
    free(pipe);
}

/* ---- a frame ---- */

struct frame_job *frame_pipe_take(struct frame_pipe *pipe)
{
    if (pipe->packers) {
        pthread_mutex_lock(&pipe->lock);
        while (pipe->given - pipe->written == pipe->room)
            pthread_cond_wait(&pipe->may_take, &pipe->lock);
        pthread_mutex_unlock(&pipe->lock);
    }
    struct frame_job *job = job_at(pipe, pipe->given); /* `given` is the caller's to change */
    job->packed = false;
    return job;
}

int frame_pipe_give(struct frame_pipe *pipe)
{
    if (!pipe->packers) {
        struct frame_job *job = job_at(pipe, pipe->given);
        frame_pack(pipe->own, job);
        return job_write(pipe, job);
    }
    pthread_mutex_lock(&pipe->lock);
    pipe->given++;
    pthread_cond_signal(&pipe->may_pack);
    int failed = pipe->failed;
    pthread_mutex_unlock(&pipe->lock);
    return failed;
}
