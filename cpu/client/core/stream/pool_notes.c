/*
 * pool_notes.c: the waits of streams for each other, for the pools.
 *
 * The last waits are remembered. A wait that is forgotten costs memory that could have been used again, nothing else.
 */
#include "pool_notes.h"

#include "cpu/common/lock.h"

enum { WAITS = 64, VISITS = 16 };

atomic_bool pool_active, pool_over;

/* ---- waits ---- */

struct wait {
    const struct client_stream *waiter, *on;
    uint64_t waiter_token, on_token;
    uint64_t at, number; /* calls behind `at` of the waiter come after `number` of the other */
};
static struct {
    pthread_mutex_t lock; /* a leaf */
    struct wait of[WAITS];
    unsigned next;
} waits = { .lock = PTHREAD_MUTEX_INITIALIZER };

void pool_note_wait(const struct client_stream *waiter, uint64_t at, const struct client_stream *on, uint64_t on_token,
                    uint64_t number)
{
    if (__builtin_expect(!atomic_load_explicit(&pool_active, memory_order_relaxed), 1))
        return;
    pthread_mutex_lock(&waits.lock);
    waits.of[waits.next++ % WAITS] = (struct wait){ .waiter = waiter,
                                                    .waiter_token = atomic_load(&waiter->token),
                                                    .at = at,
                                                    .on = on,
                                                    .on_token = on_token,
                                                    .number = number };
    pthread_mutex_unlock(&waits.lock);
}

/* A stream that the waiter comes after: behind its calls up to `number`. */
struct pool_visit {
    const struct client_stream *stream;
    uint64_t token, number;
};

static bool reaches(const struct client_stream *waiter, const struct client_stream *on, uint64_t on_token,
                    uint64_t number)
{
    FLYT_ASSERT_HELD(&waits.lock);
    struct pool_visit found[VISITS] = { { waiter, atomic_load(&waiter->token), UINT64_MAX } };
    unsigned count = 1;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < WAITS; j++) {
            const struct wait *w = &waits.of[j];
            if (w->waiter != found[i].stream || w->waiter_token != found[i].token || w->at >= found[i].number)
                continue;
            if (w->on == on && w->on_token == on_token && w->number > number)
                return true;
            if (count < VISITS)
                found[count++] = (struct pool_visit){ w->on, w->on_token, w->number };
        }
    return false;
}

bool pool_waits_for(const struct client_stream *waiter, const struct client_stream *on, uint64_t on_token,
                    uint64_t number)
{
    pthread_mutex_lock(&waits.lock);
    bool yes = reaches(waiter, on, on_token, number);
    pthread_mutex_unlock(&waits.lock);
    return yes;
}
