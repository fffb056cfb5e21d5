/*
 * notify.h: EVENTS calls that are outstanding, and what others may ask of the thread that attends them
 * (start/helper.c).
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
bool events_send(struct client_session *, const flyt_id *host_functions_done, unsigned count); /* false: no memory */
/* Informs the server that host functions have ended. */
void events_tell_done(struct client_session *, const flyt_id *ids, unsigned count);
struct events_call *events_oldest(struct client_session *);                    /* NULL: none */
/* The oldest; the caller frees it. Was it the last one? */
bool events_ended(struct client_session *, struct events_call *, bool answered);

/* ---- the helper, the thread of a session that attends them ---- */

/* Sends the first call to the session's present server, for a helper that is about to begin, or that has come to its
   end (helper_end). False: no memory. */
bool helper_listen(struct client_session *);
/* For the helper, which found that no call is outstanding: its connection has ended. Returns when there is another one;
   false: this session never gets one. */
bool helper_await(struct client_session *);
/* For the helper, before it does something for the server that a move must not meet; helper_acted ends it. False: the
   session moves, and nothing is done. */
bool helper_act(void);
void helper_acted(void);
/* While the session moves: what the helper does now for the server has been done when it returns, and it begins nothing
   more; it goes on listening. */
void helper_rest(void);
/* Ends the connection that the first session's helper listens to, and waits until the helper has noticed. */
void helper_end(rpc_client *);

#endif
