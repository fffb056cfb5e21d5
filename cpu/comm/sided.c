/* sided.c: puts and waits, for the thread that calls them. See sided.h. */
#include "cpu/comm/sides.h"

#include "cpu/comm/note.h"
#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 50 };

/* ---- puts ---- */

static int put_check(const struct comm_context *c, const struct comm_sided *put, char *error)
{
    struct comm_sides *s = c->sides;
    if (put->peer >= s->ranks)
        return rpc_explain(error, -EINVAL, "rank %u is no rank", put->peer);
    if (!put->size)
        return 0;
    pthread_mutex_lock(&s->lock);
    const struct sided_window *window = sided_window_find(s, put->window);
    const bool complete = window && window->here && !window->removed && window->known == s->ranks;
    const uint64_t size = complete ? window->parts[put->peer].size : 0;
    pthread_mutex_unlock(&s->lock);
    if (!complete)
        return rpc_explain(error, -EINVAL, "a put: window %u is not registered by all ranks", put->window);
    if (!put->memory || !sided_window_has(size, put->offset, put->size))
        return rpc_explain(error, -EINVAL, "a put of %llu bytes at %llu: window %u of rank %u has %llu",
                           (unsigned long long)put->size, (unsigned long long)put->offset, put->window, put->peer,
                           (unsigned long long)size);
    return 0;
}

/* Into a window of this rank. */
static int put_here(struct comm_context *c, const struct comm_sided *put)
{
    struct comm_sides *s = c->sides;
    struct comm_window to = { 0 };
    pthread_mutex_lock(&s->lock);
    struct sided_window *window = put->size ? sided_window_find(s, put->window) : NULL;
    if (window) {
        window->users++;
        to = window->mine;
    }
    pthread_mutex_unlock(&s->lock);
    if (put->size && !window)
        return -ENOENT;
    uint8_t *at = window ? (uint8_t *)to.memory + put->offset : NULL;
    const bool there = !window || !to.look || to.look(to.of, at, put->size, false);
    if (window && there)
        memmove(at, put->memory, put->size);
    if (window && there && to.look)
        to.look(to.of, at, put->size, true);
    pthread_mutex_lock(&s->lock);
    if (window)
        window->users--;
    s->peers[put->peer].signals += there;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return there ? 0 : -EFAULT;
}

static size_t room_of(const struct comm_sided *put)
{
    return COMM_SIDED_HEAD + (put->size <= COMM_SIDED_INLINE ? put->size : 0);
}

/* The message, which goes to `at`, and what is sent for it; how many. */
static unsigned prepare(struct comm_context *c, const struct comm_sided *put, uint8_t *at, struct comm_posting *out)
{
    struct comm_sides *s = c->sides;
    const struct comm_sided_head head = { .kind = COMM_SIDED_PUT,
                                          .window = put->size ? put->window : 0,
                                          .offset = put->size ? put->offset : 0,
                                          .size = put->size };
    const size_t room = room_of(put);
    comm_sided_head_put(at, &head);
    if (room > COMM_SIDED_HEAD)
        memcpy(at + COMM_SIDED_HEAD, put->memory, put->size);
    pthread_mutex_lock(&s->lock);
    const uint64_t number = ++s->peers[put->peer].sent;
    pthread_mutex_unlock(&s->lock);
    out[0] = (struct comm_posting){ { true, put->peer, at, room }, { COMM_SIDED_SPACE, number } };
    if (put->size <= COMM_SIDED_INLINE)
        return 1;
    out[1] = (struct comm_posting){ { true, put->peer, (void *)(uintptr_t)put->memory, put->size },
                                    { COMM_SIDED_BYTES_SPACE, number } };
    return 2;
}

static int puts_carry_out(struct comm_context *c, const struct comm_sided *list, unsigned count, uint64_t deadline)
{
    size_t room = 1;
    unsigned posted = 0;
    int status = 0;
    for (unsigned i = 0; i < count; i++)
        room += room_of(&list[i]);
    uint8_t *heads = malloc(room), *at = heads;
    struct comm_posting *postings = calloc(2 * (size_t)count + 1, sizeof *postings);
    if (!heads || !postings)
        status = -ENOMEM;
    for (unsigned i = 0; i < count && status == 0; i++) {
        if (list[i].peer == c->settings.rank) {
            status = put_here(c, &list[i]);
            continue;
        }
        posted += prepare(c, &list[i], at, &postings[posted]);
        at += room_of(&list[i]);
    }
    if (status == 0)
        status = comm_exchange_all(c, postings, posted, deadline);
    free(heads);
    free(postings);
    return status;
}

int comm_put(struct comm_context *c, const struct comm_sided *list, unsigned count, uint64_t deadline, char *error)
{
    uint8_t note[COMM_NOTE_SIZE];
    uint64_t bytes = 0;
    int status = c->sides ? comm_context_status(c, error)
                          : rpc_explain(error, -ENOTSUP, "this context has no one-sided operations");
    for (unsigned i = 0; i < count && status == 0; i++) {
        status = put_check(c, &list[i], error);
        bytes += list[i].size;
    }
    if (status < 0)
        return status;
    comm_note_sided(false, count, bytes, note);
    comm_trace_begin(c, note, COMM_AUTOMATIC);
    status = puts_carry_out(c, list, count, deadline);
    comm_trace_end(c, status);
    if (status < 0 && comm_context_status(c, error) == 0)
        rpc_explain(error, status, "puts: %s", strerror(-status));
    return status;
}

/* ---- waits ---- */

/* Under the lock: takes all signals, if they are there. *gone: a rank that sends none any more. */
static bool take(struct comm_sides *s, const uint64_t *wanted, unsigned *gone)
{
    bool all = true;
    *gone = s->ranks;
    for (unsigned r = 0; r < s->ranks; r++) {
        const bool missing = s->peers[r].signals < wanted[r];
        all &= !missing;
        if (missing && s->peers[r].gone)
            *gone = r;
    }
    for (unsigned r = 0; all && r < s->ranks; r++)
        s->peers[r].signals -= wanted[r];
    return all;
}

/* The context fails, and why. */
static void late(struct comm_context *c, const uint64_t *wanted)
{
    char why[COMM_WHY_SIZE];
    int length = snprintf(why, sizeof why, "rank %u: a wait for signals was not complete in time; expected from rank",
                          c->settings.rank);
    for (unsigned r = 0; r < c->settings.size; r++) {
        pthread_mutex_lock(&c->sides->lock);
        const uint64_t there = c->sides->peers[r].signals;
        pthread_mutex_unlock(&c->sides->lock);
        if (there < wanted[r] && length < (int)sizeof why - 40)
            length += snprintf(why + length, sizeof why - (size_t)length, " %u (%llu of %llu)", r,
                               (unsigned long long)there, (unsigned long long)wanted[r]);
    }
    comm_context_fail(c, -ETIMEDOUT, why);
}

static int await_carry_out(struct comm_context *c, const uint64_t *wanted, uint64_t deadline)
{
    struct comm_sides *s = c->sides;
    unsigned gone = s->ranks;
    int status = 0, why_gone = 0;
    bool all = false;
    while (!all && status == 0) {
        const uint64_t now = clock_now(), look = now + LOOK_MS * CLOCK_NS_PER_MS;
        struct timespec until = clock_timespec(look < deadline || deadline <= now ? look : deadline);
        int waited = 0;
        pthread_mutex_lock(&s->lock);
        while (!(all = take(s, wanted, &gone)) && gone == s->ranks && waited == 0)
            waited = pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until);
        why_gone = gone < s->ranks ? s->peers[gone].gone : 0;
        pthread_mutex_unlock(&s->lock);
        if (all)
            break;
        status = comm_context_status(c, NULL);
        if (status == 0 && why_gone)
            status = why_gone;
        else if (status == 0 && clock_now() >= deadline) {
            late(c, wanted);
            status = -ETIMEDOUT;
        }
    }
    if (status == -ESHUTDOWN) { /* else the way to it has failed, and whoever noticed that says why */
        char why[COMM_WHY_SIZE];
        snprintf(why, sizeof why, "rank %u: a wait for signals of rank %u: it has ended its context", c->settings.rank,
                 gone);
        comm_context_fail(c, status, why);
    }
    return status < 0 ? comm_context_reason(c, status) : 0;
}

static int wait_check(const struct comm_context *c, const struct comm_sided *wait, char *error)
{
    if (wait->peer >= c->settings.size)
        return rpc_explain(error, -EINVAL, "rank %u is no rank", wait->peer);
    return !wait->size || wait->size > UINT32_MAX ? rpc_explain(error, -EINVAL, "a wait for so many signals") : 0;
}

int comm_await(struct comm_context *c, const struct comm_sided *list, unsigned count, uint64_t deadline, char *error)
{
    uint8_t note[COMM_NOTE_SIZE];
    uint64_t signals = 0;
    int status = c->sides ? comm_context_status(c, error)
                          : rpc_explain(error, -ENOTSUP, "this context has no one-sided operations");
    for (unsigned i = 0; i < count && status == 0; i++)
        status = wait_check(c, &list[i], error);
    if (status < 0)
        return status;
    uint64_t *wanted = calloc(c->settings.size, sizeof *wanted);
    if (!wanted)
        return rpc_explain(error, -ENOMEM, "a wait for signals: no memory");
    for (unsigned i = 0; i < count; i++) {
        wanted[list[i].peer] += list[i].size;
        signals += list[i].size;
    }
    comm_note_sided(true, count, signals, note);
    comm_trace_begin(c, note, COMM_AUTOMATIC);
    status = await_carry_out(c, wanted, deadline);
    comm_trace_end(c, status);
    if (status < 0 && comm_context_status(c, error) == 0)
        rpc_explain(error, status, "a wait for signals: %s", strerror(-status));
    free(wanted);
    return status;
}
