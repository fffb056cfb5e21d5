/*
 * window.c: windows, and how they are made. Each rank registers its part at its GPU server, which informs those of the
 * other ranks; a window is one when all have. Which windows belong together is their order: all ranks register theirs
 * in the same one, since it is a collective call.
 *
 * A communicator that does not block is in progress meanwhile, and a thread waits: a user of the communicator, as one
 * that makes a child of it.
 */
#include "cpu/client/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/common/clock.h"

/* Between two looks whether the other ranks have registered theirs, or whether bytes come still. */
enum { LOOK_FIRST_NS = 50 * 1000, LOOK_LAST_NS = 2000 * 1000 };

static void rest(long *pause)
{
    nanosleep(&(struct timespec){ .tv_nsec = *pause }, NULL);
    *pause = *pause < LOOK_LAST_NS / 2 ? 2 * *pause : LOOK_LAST_NS;
}

/* ---- making ---- */

/* The other ranks may register theirs later, so which window belongs to which is known no more: it is the
   communicator's failure. */
static nccl_result late(struct nccl_comm *comm, const char *why)
{
    int ready = NCCL_SUCCESS;
    atomic_compare_exchange_strong(&comm->state, &ready, (int)NCCL_SYSTEM_ERROR);
    return nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommWindowRegister: all ranks have to call it, and %s in the time of "
                                        "FLYT_NCCL_TIMEOUT", *why ? why : "some have not");
}

static nccl_result begin(struct nccl_job *job)
{
    struct nccl_comm *comm = job->comm;
    struct nccl_registration *r = &job->window;
    char why[CORE_WHY_SIZE] = "";
    if (nccl_comm_ended(comm))
        return nccl_fail(NCCL_INVALID_USAGE, "a window: the communicator was destroyed or aborted");
    r->made = calloc(1, sizeof *r->made + (unsigned)comm->ranks * sizeof *r->made->sizes);
    if (!r->made)
        return nccl_fail(NCCL_SYSTEM_ERROR, "a window: no memory");
    *r->made = (struct nccl_window){ .memory = r->memory, .size = r->size, .symmetric = r->symmetric };
    int code =
        core_comm_window_add(comm->id, (uint64_t)(uintptr_t)r->memory, r->size, &r->made->number, why);
    return nccl_of_core(code, "a window", why);
}

static nccl_result await(const struct nccl_job *job)
{
    struct nccl_comm *comm = job->comm;
    struct nccl_window *window = job->window.made;
    char why[CORE_WHY_SIZE] = "";
    bool ready = false;
    long pause = LOOK_FIRST_NS;
    const uint64_t deadline = nccl_deadline();
    int code = core_comm_window_sizes(comm->id, window->number, (unsigned)comm->ranks, &ready, window->sizes, why);
    while (!code && !ready && !nccl_comm_ended(comm)) {
        if (clock_now() >= deadline)
            return late(comm, why);
        rest(&pause);
        code = core_comm_window_sizes(comm->id, window->number, (unsigned)comm->ranks, &ready, window->sizes, why);
    }
    if (!ready && nccl_comm_ended(comm))
        return nccl_fail(NCCL_INTERNAL_ERROR, "a window: another thread has ended the communicator");
    return nccl_of_core(code, "a window", why);
}

/* Waits. The program gets the window, unless it has ended the communicator. */
static nccl_result finish(struct nccl_job *job)
{
    struct nccl_comm *comm = job->comm;
    struct nccl_window *window = job->window.made;
    nccl_result result = await(job);
    if (result != NCCL_SUCCESS) {
        free(window);
        return result;
    }
    pthread_mutex_lock(&comm->lock);
    window->next = comm->windows;
    comm->windows = window;
    if (!nccl_comm_ended(comm)) /* else what it would be written to may be gone */
        __atomic_store_n(job->window.out, window, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&comm->lock);
    return NCCL_SUCCESS;
}

static void *finish_thread(void *of)
{
    struct nccl_job *job = of;
    struct nccl_comm *comm = job->comm;
    const nccl_result result = finish(job);
    int ready = NCCL_SUCCESS;
    if (result != NCCL_SUCCESS)
        atomic_compare_exchange_strong(&comm->state, &ready, (int)result);
    atomic_fetch_sub(&comm->children, 1);
    nccl_comm_leave(comm);
    free(job);
    return NULL;
}

/* NCCL_IN_PROGRESS; the communicator says how it was. */
static nccl_result finish_behind(const struct nccl_job *job)
{
    struct nccl_job *own = malloc(sizeof *own);
    pthread_t thread;
    if (!own || !nccl_comm_enter(job->comm)) {
        free(own);
        free(job->window.made);
        return nccl_fail(NCCL_SYSTEM_ERROR, "a window: no memory, or the communicator has been ended");
    }
    *own = *job;
    atomic_fetch_add(&job->comm->children, 1);
    if (pthread_create(&thread, NULL, finish_thread, own) == 0)
        pthread_detach(thread);
    else
        finish_thread(own);
    return NCCL_IN_PROGRESS;
}

nccl_result nccl_windows_make(struct nccl_job *jobs, size_t count)
{
    nccl_result result = NCCL_SUCCESS;
    for (size_t i = 0; i < count && result == NCCL_SUCCESS; i++)
        if (jobs[i].kind == NCCL_JOB_WINDOW)
            result = begin(&jobs[i]);
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].kind != NCCL_JOB_WINDOW || !jobs[i].window.made)
            continue;
        if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
            free(jobs[i].window.made);
            continue;
        }
        const nccl_result one = jobs[i].comm->blocking ? finish(&jobs[i]) : finish_behind(&jobs[i]);
        result = one == NCCL_SUCCESS ? result : one;
    }
    return result;
}

/* ---- what they are asked ---- */

bool nccl_window_known(struct nccl_comm *comm, const struct nccl_window *window, int rank, struct nccl_window *copy,
                       uint64_t *size)
{
    pthread_mutex_lock(&comm->lock);
    const struct nccl_window *one = comm->windows;
    while (one && one != window)
        one = one->next;
    if (one) {
        *copy = *one;
        *size = one->sizes[rank];
    }
    pthread_mutex_unlock(&comm->lock);
    return one != NULL;
}

bool nccl_window_covers(struct nccl_comm *comm, const void *memory, uint64_t size)
{
    const uint64_t at = (uint64_t)(uintptr_t)memory;
    bool covered = false;
    pthread_mutex_lock(&comm->lock);
    for (const struct nccl_window *one = comm->windows; one && !covered; one = one->next) {
        const uint64_t offset = at - (uint64_t)(uintptr_t)one->memory;
        covered = one->symmetric && offset < one->size && size <= one->size - offset;
    }
    pthread_mutex_unlock(&comm->lock);
    return covered;
}

/* ---- the end ---- */

bool nccl_window_remove(struct nccl_comm *comm, const struct nccl_window *window)
{
    long pause = LOOK_FIRST_NS;
    pthread_mutex_lock(&comm->lock);
    struct nccl_window **at = &comm->windows, *one;
    while ((one = *at) && one != window)
        at = &one->next;
    if (one)
        *at = one->next;
    pthread_mutex_unlock(&comm->lock);
    while (one && !nccl_comm_ended(comm) && core_comm_window_remove(comm->id, one->number) == CORE_NOT_READY)
        rest(&pause);
    free(one);
    return one != NULL;
}

void nccl_windows_drop(struct nccl_comm *comm)
{
    for (struct nccl_window *one; (one = comm->windows);) {
        comm->windows = one->next;
        free(one);
    }
}
