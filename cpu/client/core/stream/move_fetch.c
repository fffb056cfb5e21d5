/*
 * move_fetch.c: see move_fetch.h. The parts that have been asked for and not yet given up lie in a ring, and are
 * counted on and on: from `given` to `asked`. The lock is held only to look at these numbers, and to ask which part is
 * next.
 */
#include "move_fetch.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/rpc/cpu_rpc_prot.h"

enum { THREADS_MOST = 8, WAITING = 2 /* parts for each thread */, ROOM_MOST = THREADS_MOST * WAITING + 1 };

struct fetched {
    struct move_part part;
    int code;
    bool there;
    uint8_t bytes[FLYT_MAX_INLINE];
};

struct fetcher {
    struct move_fetch *fetch;
    struct move_store_view *view;
    pthread_t thread;
};

struct move_fetch {
    struct move_store *store;
    bool (*next)(void *, struct move_part *);
    void *context;
    struct fetcher fetchers[THREADS_MOST];
    unsigned threads;
    struct fetched *ring[ROOM_MOST];
    unsigned room;

    pthread_mutex_t lock;             /* of all below */
    pthread_cond_t may_ask, may_take;
    uint64_t asked, given;
    bool took;                        /* the part at `given` is with the caller */
    bool over, ends;                  /* no part is next; nobody wants any */
};

static struct fetched *at(const struct move_fetch *f, uint64_t number) { return f->ring[number % f->room]; }

/* ---- the threads ---- */

static void *run(void *argument)
{
    struct fetcher *fetcher = argument;
    struct move_fetch *f = fetcher->fetch;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (!f->ends && !f->over && f->asked - f->given == f->room)
            pthread_cond_wait(&f->may_ask, &f->lock);
        if (f->ends || f->over)
            break;
        struct fetched *part = at(f, f->asked);
        f->over = !f->next(f->context, &part->part);
        if (f->over)
            break;
        part->there = false;
        f->asked++;
        pthread_mutex_unlock(&f->lock);
        int code = move_store_view_read(fetcher->view, &part->part, part->bytes);
        pthread_mutex_lock(&f->lock);
        part->code = code;
        part->there = true;
        pthread_cond_signal(&f->may_take);
    }
    pthread_cond_broadcast(&f->may_ask);
    pthread_cond_signal(&f->may_take);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static unsigned processors(void)
{
    cpu_set_t may;
    int count = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : 1;
    return count < 1 ? 1 : count < THREADS_MOST ? (unsigned)count : THREADS_MOST;
}

/* False: there is none at all. */
static bool threads_start(struct move_fetch *f, unsigned wanted)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (f->threads < wanted) {
        struct fetcher *fetcher = &f->fetchers[f->threads];
        *fetcher = (struct fetcher){ .fetch = f, .view = move_store_view(f->store) };
        if (!fetcher->view)
            break;
        if (pthread_create(&fetcher->thread, NULL, run, fetcher) != 0) {
            move_store_view_free(fetcher->view);
            break;
        }
        f->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return f->threads;
}

/* ---- beginning and end ---- */

struct move_fetch *move_fetch_begin(struct move_store *store, bool (*next)(void *, struct move_part *), void *context)
{
    const unsigned threads = processors();
    struct move_fetch *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->store = store;
    f->next = next;
    f->context = context;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->may_ask, NULL);
    pthread_cond_init(&f->may_take, NULL);
    while (f->room < threads * WAITING + 1 && (f->ring[f->room] = malloc(sizeof *f->ring[0])))
        f->room++;
    if (f->room && threads_start(f, threads))
        return f;
    move_fetch_end(f);
    return NULL;
}

void move_fetch_end(struct move_fetch *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    pthread_cond_broadcast(&f->may_ask);
    pthread_mutex_unlock(&f->lock);
    for (unsigned i = 0; i < f->threads; i++) {
        pthread_join(f->fetchers[i].thread, NULL);
        move_store_view_free(f->fetchers[i].view);
    }
    for (unsigned i = 0; i < f->room; i++)
        free(f->ring[i]);
    pthread_cond_destroy(&f->may_ask);
    pthread_cond_destroy(&f->may_take);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---- a part ---- */

/* Why it cannot be read is in the view of the thread that has tried. */
static const char *reason(const struct move_fetch *f)
{
    for (unsigned i = 0; i < f->threads; i++)
        if (*move_store_view_why(f->fetchers[i].view))
            return move_store_view_why(f->fetchers[i].view);
    return "the checkpoint is not whole";
}

int move_fetch_take(struct move_fetch *f, struct move_part *part, const uint8_t **bytes, const char **why)
{
    pthread_mutex_lock(&f->lock);
    if (f->took) {
        f->given++;
        pthread_cond_signal(&f->may_ask);
    }
    while (f->given == f->asked ? !f->over : !at(f, f->given)->there)
        pthread_cond_wait(&f->may_take, &f->lock);
    f->took = f->given != f->asked;
    const struct fetched *got = f->took ? at(f, f->given) : NULL;
    const int code = got ? got->code : CORE_UNKNOWN;
    if (got) {
        *part = got->part;
        *bytes = got->bytes;
    }
    if (code)
        *why = reason(f);
    pthread_mutex_unlock(&f->lock);
    return code;
}
