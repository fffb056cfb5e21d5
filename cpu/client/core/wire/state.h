/*
 * state.h: the state of the session (state.c): what the connection is, whether it can be used, and which errors stay.
 */
#ifndef FLYT_CLIENT_CORE_STATE_H
#define FLYT_CLIENT_CORE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct events_call;

/* The connection to a GPU server. A program may have several (start/several.c). Those behind the first have the
   members from `next` to `latched` only, and of hello what concerns the devices: the window is one for all, and
   capabilities, driver_version and the other members of the first say what all servers have in common. */
struct client_session {
    struct client_session *next;
    unsigned    number;               /* its place among them */
    rpc_client *client;
    char       *uri;                  /* as the messages call the server */
    hello_result hello;               /* kept: the devices' strings live here */
    atomic_int  sticky, latched;
    atomic_uint_fast64_t serial, confirmed;     /* wire.c: of the waited calls, sent and answered */
    rpc_client *manager;              /* of a further server of a program in a cluster: manager_parts.c; else NULL */
    bool        box_links, link_views; /* the server can be linked to others for copies: copy/link_copy.c */
    struct { bool told, untold, telling; char reason[RPC_ERROR_SIZE]; } loss;  /* state.c */
    struct rpc_shared_memory shared;  /* progress.c: numbers NULL: no numbers are published */
    struct {                          /* notify.c */
        pthread_mutex_t     lock;
        struct events_call *first, **last;
        unsigned            acknowledged;
        rpc_client         *client;
    } events;
    bool        apart;                /* of a move that is being prepared: its loss is the move's affair alone */
    bool        listened;             /* its helper has a connection (notify.c) */

    bool        in_process;
    bool        managed;              /* the client manager named the server: the memory that it has is the VM's */
    uint64_t    window, window_size, granularity;
    int         driver_version;
    uint64_t    hello_at;             /* clock_now() when it had come */
};
/* The first. Whoever has a context, or what belongs to one, goes by the context's session. */
extern struct client_session core_session;
enum { SESSIONS_MOST = 16 };
/* Several GPU servers: moves, recovery and all that passes through memory of one server are not for such a program. */
static inline bool session_several(void) { return core_session.next != NULL; }

/* What to name in LINK_JOIN at the end that connects (`size` bytes), or a result code and why (`size` bytes). */
typedef int session_link_way(const struct client_session *calls, const struct client_session *waits,
                             unsigned connections, char *address, char *why, size_t size);
/* Several servers: how they are linked. */
extern session_link_way *session_link;

/* Every public function begins with this: 0 when the session can be used, else the code to return. Of several sessions:
   when some can. */
int  core_enter(void);
int  session_sticky_of_all(void);     /* what a call gets that concerns no session in particular */
bool session_ready(void);             /* attached, not forked (sticky or not) */
/* The first session's number at its server, and the secret of its proofs. A recovery changes both while other threads
   of the program are inside calls: nobody else reads or writes these members of hello once the session is ready. */
uint64_t session_number(void);
void session_nonce(const struct client_session *, char nonce[FLYT_HASH_SIZE]);
void session_name(uint64_t number, const char nonce[FLYT_HASH_SIZE]);
void changes_note(void);              /* see core_changes */
/* Between these the session moves to another server: calls that begin wait, except those of the thread that moves it.
   No other thread of the program is inside a call: the gate is shut. Begin: 0, or the code to return. */
int  session_move_begin(void);
void session_move_end(void);
bool session_moving(void);
/* Between these what the session has is only read (session_keep): it stays at its server, also if that is lost. */
void session_keep_begin(void);
void session_keep_end(void);
bool session_keeps(void);
void session_set_sticky(struct client_session *, int code);
void session_latch(struct client_session *, int code);
/* Queued work of the session has failed at another server: all later calls of the session fail, because the work behind
   it has run, or will run, on wrong bytes. Logs that once. */
void session_fail(struct client_session *, const char *what, int code);
void session_lost(void *session, const char *reason);
/* Between these a loss changes nothing yet: everything is at another server already, and this one may not be needed any
   more. End: gone: it is not; else what came meanwhile counts. */
void session_loss_hold(void);
void session_loss_hold_end(bool gone);
/* Gives the code back when another thread has said why the server is lost (the client manager is asked, for seconds at
   most): a program ends with the first error that it sees, and would take the reason with it. */
int  session_loss_wait(struct client_session *, int code);
const char *session_loss_reason(const struct client_session *);        /* empty: it is not lost */
/* the connection is made anew; no other thread knows the old one */
void session_loss_forget(void);
bool session_becomes_child(void);                           /* in the child of a fork; false: there was no session */
void session_closes(int code);                              /* every call gives the code from here on */
/* session.c: connects; a result code. to_use: the calling function will retain device 0's primary context at once. */
int session_attach(bool to_use);
/* session.c: logs what the cluster knows about the loss of a server. Waits a few seconds at most, and less than one
   after a silence. */
void session_explain_loss(const struct client_session *);
/* of silence, by which the server counts as dead; 0: rpc_silence_seconds. Tests shorten it */
extern int session_dead_seconds;

#endif
