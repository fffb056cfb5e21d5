/*
 * attach_wait.h: the time that a program spends on its way to a GPU server, and what its user hears meanwhile.
 *
 * The way has stages: the client manager, the cluster manager, a free GPU, the connection to the server, its first
 * answer. Each has a limit of its own. FLYT_WAIT=SECONDS limits all of them together. After two seconds the user is
 * informed what the program waits for, and again when that changes. A thread of this file does both, since the
 * program's own thread is inside a call that waits.
 *
 * All of it is for the one thread that attaches.
 */
#ifndef FLYT_CORE_ATTACH_WAIT_H
#define FLYT_CORE_ATTACH_WAIT_H

#include <stdbool.h>

#include "cpu/rpc/rpc.h"

/* Reads FLYT_WAIT and starts the clock. */
void attach_wait_begin(void);
/* Ends the thread. A code other than 0 says that the program got no session: if its connection was ended for want of
   time, and nothing has said so yet, this does. */
void attach_wait_end(int code);

enum attach_wait_wish { ATTACH_WAIT_DEFAULT, ATTACH_WAIT_NO, ATTACH_WAIT_YES };
/* What FLYT_WAIT says about waiting in the queue for a GPU. */
enum attach_wait_wish attach_wait_wish(void);
/* Milliseconds that FLYT_WAIT leaves, at least 1; 0: it sets no limit. */
unsigned attach_wait_left(void);
bool attach_wait_over(void);
/* Milliseconds that a stage may take which may take `most` on its own. */
int  attach_wait_ms(int most);

/* What the program waits for from here on: "waiting for %s" must be a sentence. */
void attach_wait_stage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* With FLYT_WAIT=fail: the stages from here on may take so many milliseconds together; 0: as long as they take. A
   number of seconds in FLYT_WAIT has precedence. */
void attach_wait_limit(unsigned ms);

/* When the time is over, this client is shut down, so that whoever waits for its answer goes on. NULL: none. */
void attach_wait_watch(rpc_client *);
/* Says that the time is over, and what was waited for, if it is; whether it is. */
bool attach_wait_blame(void);

#endif
