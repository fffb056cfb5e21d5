/*
 * host_function.h: functions of the program that streams run in their turn (host_function.c), and how much is sent
 * while they are outstanding (throttle.c).
 */
#ifndef FLYT_CLIENT_CORE_HOST_FUNCTION_H
#define FLYT_CLIENT_CORE_HOST_FUNCTION_H

#include <sys/types.h>

#include "stream.h"

/* writes: it may write memory of the program (pending_writers). On failure nothing was taken; after success user is
   the function's, which never runs if the connection is lost first. */
int host_function_put(struct client_stream *, void (*function)(void *, int), void *user, bool on_error, bool writes);
/* For work between GPU servers: as host_function_put, but it waits for no function of the program. It runs after an
   error, too. */
/* *id: its name, which is there before the function runs. */
int host_function_put_across(struct client_stream *, void (*function)(void *, int), void *user, bool writes,
                             flyt_id *id);
/* The function of that name, which runs now in the thread for work between servers, has not done all: the stream waits
   on when it returns, until host_function_again lets it run once more (any thread, once, also before it has returned).
   False: it has done all, after all. */
void host_function_stay(flyt_id, bool);
void host_function_again(flyt_id);
/* The stream waits at this place until host_function_release, which is called once, by any thread. */
int  host_function_hold(struct client_stream *, flyt_id *);
void host_function_release(flyt_id);
void host_function_due(struct client_session *, flyt_id id, int status);
flyt_id host_function_ids(void);                            /* all that were given out are below it */
pid_t host_function_thread(void);                           /* which runs them; 0: there is none yet */
/* The stream that waits for the one that runs now; NULL: none runs. */
const struct client_stream *host_function_stream(void);

/* ---- throttle.c ---- */

void throttle_begins(void);                                 /* a host function is outstanding, and has ended */
void throttle_ends(void);
uint64_t throttle_outstanding(void);
/* the caller's thread runs host functions: it is not held up */
void throttle_thread(void);
/* Called with each call's bulk bytes (0: none), before it: keeps the work that stands behind host functions bounded. */
void throttle_enter(struct client_stream *, size_t bytes);

#endif
