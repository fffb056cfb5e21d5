/*
 * sleepers.h: threads that wait for work under one lock, and are woken one at a time.
 *
 * Each sleeps on a condition of its own. Where several wait on one condition, pthread_cond_signal of glibc before 2.41
 * can lose a wake-up (sourceware's bug 25847), and what was to be done is never done. The thread that went to sleep
 * last is woken first: its caches still hold the most.
 *
 * Zero bytes are a list of nobody. All functions are called with the lock.
 */
#ifndef FLYT_COMMON_SLEEPERS_H
#define FLYT_COMMON_SLEEPERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "cpu/common/lock.h"

struct sleeper { pthread_cond_t wake; struct sleeper *next; bool woken; };
struct sleepers { struct sleeper *first; };

/* Returns when this thread is woken, at `until` on the monotonic clock (NULL: never), and now and then for no reason,
   as pthread_cond_wait does. */
static inline void sleepers_wait(struct sleepers *sleepers, pthread_mutex_t *lock, const struct timespec *until)
{
    FLYT_ASSERT_HELD(lock);
    struct sleeper self = { .wake = PTHREAD_COND_INITIALIZER, .next = sleepers->first };
    struct sleeper **at = &sleepers->first;
    *at = &self;
    if (until)
        pthread_cond_clockwait(&self.wake, lock, CLOCK_MONOTONIC, until);
    else
        pthread_cond_wait(&self.wake, lock);
    if (!self.woken) {
        while (*at != &self)
            at = &(*at)->next;
        *at = self.next;
    }
    pthread_cond_destroy(&self.wake);
}

/* Wakes the thread that went to sleep last. Returns false if no thread sleeps, or all have been woken already. */
static inline bool sleepers_wake(struct sleepers *sleepers)
{
    struct sleeper *first = sleepers->first;
    if (!first)
        return false;
    sleepers->first = first->next;
    first->woken = true;
    pthread_cond_signal(&first->wake);
    return true;
}

/* Wakes every thread that sleeps. */
static inline void sleepers_wake_all(struct sleepers *sleepers)
{
    while (sleepers_wake(sleepers))
        ;
}

#endif
