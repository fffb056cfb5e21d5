/*
 * lock.h: says which lock a function needs, to the reader and, in builds that check it, to the machine.
 *
 *     static void ring_take(struct ring *ring)
 *     {
 *         FLYT_ASSERT_HELD(&ring->lock);
 *
 * With FLYT_DEBUG_LOCKS (sanitizer builds, `make FLYT_DEBUG_LOCKS=1`, the lock tests of `make check`) a thread that
 * comes here without the mutex ends the process with a message. Otherwise nothing is left of it but that its argument
 * is a mutex.
 *
 * The owner is what glibc notes in every mutex while it is held, also across pthread_cond_wait. A thread reads the
 * owner of a mutex that it holds itself, so there is no race unless the answer is "not held" anyway.
 */
#ifndef FLYT_COMMON_LOCK_H
#define FLYT_COMMON_LOCK_H

#include <pthread.h>

#if defined FLYT_DEBUG_LOCKS && defined __GLIBC__

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void lock_assert_held(const pthread_mutex_t *mutex, const char *name, const char *file, int line)
{
    int owner = mutex->__data.__owner, self = gettid();
    if (owner == self)
        return;
    if (owner)
        dprintf(2, "%s:%d: thread %d needs %s, but thread %d holds it\n", file, line, self, name, owner);
    else
        dprintf(2, "%s:%d: thread %d needs %s, but no thread holds it\n", file, line, self, name);
    abort();
}
#define FLYT_ASSERT_HELD(mutex) lock_assert_held(mutex, #mutex, __FILE__, __LINE__)

#else

#define FLYT_ASSERT_HELD(mutex) ((void)sizeof((const pthread_mutex_t *){ (mutex) }))

#endif
#endif
