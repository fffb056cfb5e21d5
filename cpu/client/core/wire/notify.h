/*
 * notify.h: EVENTS calls that are outstanding (notify.c), and the thread that attends them (helper.c).
 */
#ifndef FLYT_CLIENT_CORE_NOTIFY_H
#define FLYT_CLIENT_CORE_NOTIFY_H

#include "wire.h"

struct events_call {
    struct wire_call    wire;
    events_args         args;
    events_result       result;
    struct events_call *next;
};
void events_open(rpc_client *);                             /* from here on to this server; none is outstanding */
bool events_send(const flyt_id *host_functions_done, unsigned count);      /* false: no memory */
/* Informs the server that host functions have ended. */
void events_tell_done(const flyt_id *ids, unsigned count);
struct events_call *events_oldest(void);                    /* NULL: none */
bool events_ended(struct events_call *, bool answered);     /* the oldest; the caller frees it. Was it the last one? */
int  helper_start(void);
/* While the session moves: what the helper does now for the server has been done when it returns, and it begins nothing
   more; it goes on listening. */
void helper_rest(void);
/* Ends the connection that the helper listens to, and waits until the helper has ended. */
void helper_end(rpc_client *);

#endif
