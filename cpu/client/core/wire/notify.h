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
/* From here on to the session's present server; none is outstanding. */
void events_open(struct client_session *);
bool events_send(struct client_session *, const flyt_id *host_functions_done, unsigned count); /* false: no memory */
/* Informs the server that host functions have ended. */
void events_tell_done(struct client_session *, const flyt_id *ids, unsigned count);
struct events_call *events_oldest(struct client_session *);                    /* NULL: none */
/* The oldest; the caller frees it. Was it the last one? */
bool events_ended(struct client_session *, struct events_call *, bool answered);
int  helper_start(struct client_session *);
/* While the session moves: what the helper does now for the server has been done when it returns, and it begins nothing
   more; it goes on listening. */
void helper_rest(void);
/* Ends the connection that the first session's helper listens to, and waits until the helper has ended. */
void helper_end(rpc_client *);

#endif
