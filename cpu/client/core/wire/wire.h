/*
 * wire.h: the calls of the core (wire.c), and what their replies say.
 */
#ifndef FLYT_CLIENT_CORE_WIRE_H
#define FLYT_CLIENT_CORE_WIRE_H

#include <stdatomic.h>

#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

/* A call in flight, with the core's part. result must begin with a flyt_head. */
struct client_session;
struct wire_call {
    struct rpc_call rpc;
    struct client_session *session;
    rpc_client *client;               /* where it was sent */
    uint64_t serial;                  /* among the waited calls, as submitted */
    uint64_t begun;                   /* of the statistics; 0: none */
    int      result;                  /* CUresult, once arrived */
    void   (*arrived)(struct wire_call *);
};

void wire_prepare(struct wire_call *, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode, void *result);
void wire_submit(struct client_session *, struct wire_call *);      /* SYNC, to be waited for */
/* Submits a SYNC call over a connection that may be another one than the session's: of the helper, and of a move. */
void wire_submit_to(struct client_session *, rpc_client *, struct wire_call *);
unsigned wire_detached(void);                               /* calls under way that nobody waits for */
int  wire_wait(struct wire_call *);                         /* the call's result; printed text has been written */
/* Waits for a call that was sent together with one that has been waited for, and whose answer comes right behind
   that one's: the program waits for no further round trip, and the statistics count none. */
int wire_wait_along(struct wire_call *);
bool wire_attend(struct wire_call *);                       /* the helper's wait; false: no answer came */
/* SYNC, not waited for: `arrived` runs once, in any thread, owns the call, and must not wait. */
void wire_submit_detached(struct client_session *, struct wire_call *, void (*arrived)(struct wire_call *));
int  wire_send(struct client_session *, uint32_t procedure, xdrproc_t encode, void *args);         /* ASYNC */
/* Sends an ASYNC call, and learns its place in the sequence. */
int  wire_send_placed(struct client_session *, uint32_t procedure, xdrproc_t encode, void *args, struct rpc_place *);
/* See rpc_client_submit_ready; not while stats_on. */
int  wire_send_ready(struct client_session *, uint32_t procedure, uint8_t *record, size_t size, struct rpc_place *);
/* Submits a SYNC call, and waits. */
int  wire_call(struct client_session *, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
               void *result);
int  wire_call_to(struct client_session *, rpc_client *, uint32_t procedure, xdrproc_t encode, void *args,
                  xdrproc_t decode, void *result);
/* Submits a SYNC call that is answered by a plain_result, and waits. */
int  wire_plain(struct client_session *, uint32_t procedure, xdrproc_t encode, void *args);
/* Which the next SYNC call of the session has, or a later one. */
uint64_t wire_next_serial(const struct client_session *);
uint64_t wire_confirmed(const struct client_session *);     /* a serial that was answered, in time the greatest */
/* When the server last answered "not ready", since when nothing else, and what had been heard before that. */
struct asked { atomic_uint_fast64_t at, since, news; };
/* Queries. What is not known to have ended is asked about at most once in 10 µs per stream or event, and where its
   end is published more and more rarely, down to once in 200 µs, since who waits for a reply does not see it
   meanwhile. In between "not ready" is said here, but only while nothing whatever has been heard from the server
   since: a program may know from any other answer that the work has ended, and must not get another answer. */
uint64_t wire_news(void);             /* taken before asking */
void wire_heard(void);
void wire_not_ready(struct asked *, uint64_t news);         /* the server said so */
bool wire_not_ready_yet(struct asked *, bool published);    /* and it need not be asked again */
void wire_print_texts(void);
void wire_keep_quiet(void);                                 /* the calling thread never prints any */
void wire_queue_text(const flyt_text *);

#endif
