/*
 * pool_notes.c: the files below the pools call the pools through here; and the waits of streams for each other.
 *
 * The last waits are remembered. A wait that is forgotten costs memory that could have been used again, nothing else.
 */
#include "pool_notes.h"

#include "cpu/common/lock.h"

enum { WAITS = 64, VISITS = 16 };

atomic_bool pool_active, pool_over;
static const struct pool_actions *pools; /* NULL: nothing has been allocated, there is no session yet */

void pool_notes_open(const struct pool_actions *actions) { pools = actions; }

void pool_release_slow(void) { pools->release(); }
void pool_note_stream_end(struct client_stream *s)
{
    if (atomic_load_explicit(&pool_active, memory_order_relaxed))
        pools->stream_ends(s);
}
bool pool_give_back(void) { return pools && pools->give_back(); }
bool pool_free_now(uint64_t address) { return pools && pools->free_now(address); }

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
struct visit {
    const struct client_stream *stream;
    uint64_t token, number;
};

static bool reaches(const struct client_stream *waiter, const struct client_stream *on, uint64_t on_token,
                    uint64_t number)
{
    FLYT_ASSERT_HELD(&waits.lock);
    struct visit found[VISITS] = { { waiter, atomic_load(&waiter->token), UINT64_MAX } };
    unsigned count = 1;
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < WAITS; j++) {
            const struct wait *w = &waits.of[j];
            if (w->waiter != found[i].stream || w->waiter_token != found[i].token || w->at >= found[i].number)
                continue;
            if (w->on == on && w->on_token == on_token && w->number > number)
                return true;
            if (count < VISITS)
                found[count++] = (struct visit){ w->on, w->on_token, w->number };
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
