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
 *
 * glibc (2.36) has a gap: pthread_cancel marks a thread whose cancellation is asynchronous, and sends its signal later.
 * If that thread has switched cancellation off meanwhile and does input or output, the signal ends it all the same
 * (about 1 of 1,000 cancellations under load). At the end of any cancellation point glibc waits for a signal that is
 * under way. So CANCEL_DEFERRED passes through a cheap one, poll, while nothing is locked; only threads with
 * asynchronous cancellation pay for it.
 */
#ifndef FLYT_COMMON_CANCEL_H
#define FLYT_COMMON_CANCEL_H

#include <poll.h>
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
    if (__builtin_expect(before != PTHREAD_CANCEL_DEFERRED, 0))
        poll(NULL, 0, 0);
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
