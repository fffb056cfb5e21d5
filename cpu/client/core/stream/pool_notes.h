/*
 * pool_notes.h: what the files below the pools report to them: that a stream ends, that the program has synchronised,
 * that memory is short (memory/pool.c); and which stream waits for which (pool_notes.c).
 */
#ifndef FLYT_CLIENT_CORE_POOL_NOTES_H
#define FLYT_CLIENT_CORE_POOL_NOTES_H

#include "stream.h"

/* Set by the pools. While no memory has ever been freed in a stream's order, nothing is noted. */
extern atomic_bool pool_active;
/* A pool has more than its release threshold. */
extern atomic_bool pool_over;

/* Behind a synchronisation: the pools give back what they have beyond their thresholds. */
void pool_release_slow(void);
static inline void pool_release(void)
{
    if (__builtin_expect(atomic_load_explicit(&pool_over, memory_order_relaxed), 0))
        pool_release_slow();
}
/* The stream, which still has its token, is about to end. */
void pool_note_stream_end(struct client_stream *);
/* Gives back all memory of pools that no work uses. False: there was nothing. */
bool pool_give_back(void);
/* Frees an allocation of a pool at once; the caller has waited for its users. False: it is none. */
bool pool_free_now(uint64_t address);

/* The program has made `waiter` wait: its calls behind number `at` come after `number` of `on`. */
void pool_note_wait(const struct client_stream *waiter, uint64_t at, const struct client_stream *on, uint64_t on_token,
                    uint64_t number);
/* Whether the notes say that the next call of `waiter` comes after a later call than `number` of `on`. */
bool pool_waits_for(const struct client_stream *waiter, const struct client_stream *on, uint64_t on_token,
                    uint64_t number);

#endif
