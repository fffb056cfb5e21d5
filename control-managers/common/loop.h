/*
 * loop.h: the event loop of the daemons: timers, signals, listeners, connections, and RPC calls on them, over libuv.
 *
 * One thread runs a loop and everything that belongs to it; only loop_post may be called by others. Nothing here
 * blocks but loop_run. Callbacks are never called from within the function that asked for them, with one exception:
 * conn_close calls `closed`, and the functions of calls that were not answered.
 *
 * A connection speaks record-marked ONC RPC in both directions (control_prot.x): it may carry calls of ours
 * (conn_call) and serve calls of the peer (struct conn_service). What a peer can cost is bounded:
 *   - a call or reply may be CTL_MAX_RECORD long, CTL_MAX_FIRST_RECORD before conn_set_role
 *   - a record that has begun must be complete, and bytes that we send must be taken, within CTL_DEAD_SECONDS
 *   - CONN_MAX_CALLS calls may be unanswered; more are not read until some are answered
 *   - CONN_MAX_OUTPUT bytes may wait to be sent, else the connection ends
 *   - who is not authenticated (conn_set_role) within CONN_HELLO_MS is closed
 * A peer that breaks the protocol loses its connection, and one log line says why; nobody else notices.
 *
 * Functions that can fail return 0 or a negative errno value and describe what failed in *error (a buffer of
 * CONTROL_ERROR_SIZE bytes, may be NULL).
 */
#ifndef FLYT_CONTROL_LOOP_H
#define FLYT_CONTROL_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "control-managers/common/protocol.h"

enum {
    CONTROL_ERROR_SIZE = 1024,
    CONN_MAX_CALLS = 64,
    CONN_MAX_OUTPUT = 8 << 20,
    CONN_HELLO_MS = 10000,
    CONN_PEER_SIZE = 400
};

struct loop;
struct tls_context; /* tls.h */

/* NULL: no memory or descriptors. SIGPIPE is ignored from then on. */
struct loop *loop_create(void);
/* Everything that belongs to the loop must have been closed; closes what is left, runs what that needs. */
void loop_destroy(struct loop *);
void loop_run(struct loop *);      /* until loop_stop */
void loop_run_once(struct loop *); /* waits for one round of events */
void loop_stop(struct loop *);
uint64_t loop_now(struct loop *); /* ms, only moves forward; stands still while this process is stopped */
int64_t loop_time(void);          /* microseconds since 1970 */
/* How long handlers of calls, timers and posts have held the loop: counts[i]: of at most loop_held_seconds[i], the last
   one of more. The loop's thread. loop_held: by the clock, so with the time in which others had the processor.
   loop_worked: the processor time of this thread, up to 0.2 ms too much for each. */
enum { LOOP_HELD = 10 };
struct loop_held {
    uint64_t counts[LOOP_HELD], ns, most_ns;
};
extern const double loop_held_seconds[LOOP_HELD - 1];
const struct loop_held *loop_held(const struct loop *);
const struct loop_held *loop_worked(const struct loop *);
/* How long handlers were about calls of one procedure, by the clock; what a call waits for does not count. counts[i]:
   of at most loop_rpc_seconds[i], the last: longer. */
enum { LOOP_RPC_TIMES = 5 };
struct loop_rpc_times {
    uint64_t counts[LOOP_RPC_TIMES], ns;
};
extern const double loop_rpc_seconds[LOOP_RPC_TIMES - 1];
const struct loop_rpc_times *loop_rpc_times(const struct loop *, uint32_t procedure);
/* For processes, files and pipes: handles of your own on the same loop (uv_spawn …). */
uv_loop_t *loop_uv(struct loop *);
/* Any thread: fn(context) runs in the loop's thread, in order. 0 or -ENOMEM. */
int loop_post(struct loop *, void (*fn)(void *), void *context);

/* ---- timers: part of the owner's struct; zero is a timer that does not run ---- */

struct loop_timer {
    uint64_t due;
    struct loop *loop;                      /* NULL: not running */
    struct loop_timer *child, *next, *back; /* a pairing heap; back: the elder sibling, or the parent */
    void (*fn)(struct loop_timer *, void *context);
    void *context;
};
/* (Re)starts it; it fires once. Find your object by context. */
void loop_timer_start(struct loop *, struct loop_timer *, uint64_t ms, void (*fn)(struct loop_timer *, void *),
                      void *context);
void loop_timer_stop(struct loop_timer *); /* also one that never ran */
static inline bool loop_timer_running(const struct loop_timer *timer) { return timer->loop != NULL; }

/* ---- signals ---- */
int loop_signal(struct loop *, int number, void (*fn)(int number, void *context), void *context);

/* ---- connections ---- */

struct conn;
struct loop_call; /* one call of the peer, to be answered */

/* args: decoded, valid until the handler returns. Answer now or later by call_reply, once. */
typedef void conn_handler(struct conn *, struct loop_call *, void *args);

struct conn_method {
    unsigned roles;        /* bit 1u << ctl_role for each that may call it */
    conn_handler *handler; /* NULL: PROC_UNAVAIL */
};

struct conn_service {
    /* Indexed by procedure. NULL: the peer may not call. */
    const struct conn_method *methods;
    size_t count;
    /* A listener's connection is there (TLS done). May be NULL. */
    void (*opened)(struct conn *);
    /* It has ended: why as a sentence; error 0 when the peer, or conn_close, ended it properly. Its calls are
       answered no more and their pointers dead; conn_call's functions have been told. The conn is freed afterwards. */
    void (*closed)(struct conn *, int error, const char *why);
    /* A listener's connection failed before it was there: TLS on one side only, a certificate that is not good. May be
       NULL. */
    void (*refused)(struct conn *, const char *why);
    /* A peer that has identified itself makes a call, before its handler; call_set_context keeps what is noted. May be
       NULL. */
    void (*begins)(struct conn *, struct loop_call *, const void *args);
    /* It called what its role may not call; the connection ends then. args: NULL: they make no sense. May be NULL. */
    void (*denied)(struct conn *, uint32_t procedure, const void *args, const char *why);
};

struct conn_options {
    const char *uri;                    /* tcp://host:port, [v6], names; unix:///path */
    struct tls_context *tls;            /* NULL: plain. Not used on unix sockets */
    const char *tls_name;               /* as tls_session_create has it */
    unsigned timeout_ms;                /* to connect, TLS included; 0: CTL_CALL_SECONDS */
    const struct conn_service *service; /* may be NULL */
    void *context;
    /* Once: 0, or why it could not connect (then the conn is gone after the return). */
    void (*connected)(struct conn *, int error, const char *why);
};

/* Begins to connect. The result comes by `connected`. */
int conn_connect(struct loop *, const struct conn_options *, struct conn **, char *error);
/* Ends it at once; `closed` is called now, the memory goes later. Answers given before still go out where the
   socket takes them. */
void conn_close(struct conn *, const char *why);
void *conn_context(const struct conn *);
void conn_set_context(struct conn *, void *);
/* Another service from now on; NULL: none, `closed` is not called any more. */
void conn_set_service(struct conn *, const struct conn_service *);
/* Who calls: CTL_ROLE_NONE until set. Lifts the limits for strangers. */
void conn_set_role(struct conn *, ctl_role);
const char *conn_peer(const struct conn *);      /* for people: address, or pid and uid */
const char *conn_peer_host(const struct conn *); /* numeric address without port; "" on unix sockets */
/* The machine at the other end, as far as its address says: one text for all peers on one machine. "local" is our own,
   whichever of its addresses the peer uses. */
const char *conn_peer_machine(const struct conn *);
bool conn_peer_credentials(const struct conn *, pid_t *, uid_t *, gid_t *); /* unix sockets */
const char *conn_peer_certificate(const struct conn *);                     /* common name; NULL: none */
struct x509_st *conn_peer_x509(const struct conn *);                        /* X509; NULL: none */
/* Its certificate counts no more, as this context has it. */
bool conn_revoked(const struct conn *, const struct tls_context *);
/* Bytes that belong to this TLS connection only; zeros without TLS. */
void conn_binding(const struct conn *, uint8_t binding[32]);
bool conn_encrypted(const struct conn *);

/* ---- calls of ours ---- */

/* error 0: result is the decoded result, valid until return. Else negative errno and why:
   -ETIMEDOUT (a late answer is dropped), -ECONNRESET, -EPROTO, -ENOSYS (the peer has no such procedure). */
typedef void conn_done(void *context, int error, const char *why, void *result);

/* args NULL for void. Once, unless an error is returned here: done is called. The args are encoded now. */
int conn_call(struct conn *, uint32_t procedure, const void *args, unsigned deadline_ms, conn_done *, void *context,
              char *error);

/* ---- answers to the peer's calls ---- */

void call_reply(struct loop_call *, const void *result); /* encodes now; the call is gone */
void call_refuse(struct loop_call *);                    /* SYSTEM_ERR: where no result can be made */
/* An answer to no call: only who looks whether anything has come learns of it. Programs take it for a hint. */
void conn_nudge(struct conn *);
struct conn *call_conn(const struct loop_call *);
/* What belongs to the call, malloced: freed with it. NULL: nothing. */
void call_set_context(struct loop_call *, void *);
const void *call_context(const struct loop_call *);
uint32_t call_procedure(const struct loop_call *);

/* ---- listeners ---- */

struct loop_listener;
struct loop_listen_options {
    const char *uri;          /* tcp://host:port (0: any), unix:///path (a stale socket is replaced) */
    struct tls_context *tls;  /* NULL: plain */
    bool plain_too;           /* with tls: peers without TLS are accepted as well */
    unsigned mode;            /* of the unix socket; 0: 0600 */
    gid_t group;              /* of the unix socket; (gid_t)-1 or 0: as is */
    unsigned max_connections; /* 0: 65536; further ones wait in the kernel's queue */
    const struct conn_service *service;
    void *context; /* of its connections at first */
};
int loop_listen(struct loop *, const struct loop_listen_options *, struct loop_listener **, char *error);
const char *loop_listener_uri(const struct loop_listener *);              /* with the real port */
void loop_listener_set_tls(struct loop_listener *, struct tls_context *); /* for connections from now on */
void loop_listener_close(struct loop_listener *);                         /* its connections stay */

#endif
