/*
 * cancel.h: the program may cancel a thread (pthread_cancel) that is inside the library. If the thread ended there, it
 * would leave locks taken, and every later call of every thread would hang. So a call is no cancellation point: the
 * thread ends when the call has returned.
 *
 * This takes two steps, because each call would pay 60 ns for the obvious one (pthread_setcancelstate, twice). A public
 * function makes cancellation deferred (CANCEL_DEFERRED, 4 ns where it is so already): then the thread can end only
 * inside functions of the C library that wait or do input and output. Around those, our code switches cancellation off
 * (CANCEL_OFF).
 *
 * Threads of our own switch it off when they begin.
 */
#ifndef FLYT_COMMON_CANCEL_H
#define FLYT_COMMON_CANCEL_H

#include <pthread.h>

static inline int cancel_state_off(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void cancel_state_back(const int *before)
{
    if (*before != PTHREAD_CANCEL_DISABLE)
        pthread_setcancelstate(*before, NULL);
}

static inline int cancel_type_deferred(void)
{
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before);
    return before;
}

static inline void cancel_type_back(const int *before)
{
    if (__builtin_expect(*before != PTHREAD_CANCEL_DEFERRED, 0))
        pthread_setcanceltype(*before, NULL);
}

/* Declarations. Each holds to the end of the block in which it stands, however that is left. */
#define CANCEL_OFF \
    const int cancel_state_before __attribute__((cleanup(cancel_state_back), unused)) = cancel_state_off()
#define CANCEL_DEFERRED \
    const int cancel_type_before __attribute__((cleanup(cancel_type_back), unused)) = cancel_type_deferred()

#endif
