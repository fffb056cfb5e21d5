/* workers.h: the listener's worker processes, those that wait for a client and those that have one; see workers.c. */
#ifndef FLYT_SERVER_WORKERS_H
#define FLYT_SERVER_WORKERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cpu/common/log_limit.h"
#include "cpu/rpc/tls/channel_tls.h"
#include "cpu/server/listener/door.h"
#include "cpu/server/code/image_cache.h"
#include "cpu/server/listener/listener.h"

enum { WORKERS_MOST = 4096 };

/* GREETING: it has a client, which has not proved itself. */
enum worker_state { WORKER_STARTING, WORKER_IDLE, WORKER_GREETING, WORKER_BUSY };
struct worker {
    pid_t pid;
    int socket;
    bool usher;
    bool replaced;                        /* it was ended because another one begins with a new share */
    bool deaf;                            /* it has closed its end, though it still runs */
    uint64_t program;                     /* of its client's ticket; 0: none. GREETING: of its pass, no proof */
    bool asked;                           /* others have sent it messages, and may wait for its answer */
    enum worker_state state;
    uint64_t greeted; /* its place among those whose client has proved itself, from 1; 0: none has */
    struct door_source source;
    /* The connection that it was given, kept until it says that it has taken it: if the worker ends before, another
       one gets it. */
    bool holds;
    struct door_waiting held;
    char numbers[RPC_TLS_NUMBERS_SIZE]; /* of its client's certificate; "": it showed none */
};

/* Begins as zeros, with options and door. */
struct workers {
    const struct listener_options *options;
    const struct image_cache *cache; /* NULL: none */
    struct door *door;               /* learns which source has failed to prove itself */
    struct worker all[WORKERS_MOST];
    int count;
    uint64_t greeted; /* clients that have proved themselves */
    uint64_t start_after, pause; /* back-off after a worker that failed at its start */
    bool stopping;               /* none is started, and none ends by mistake */
    bool ready;                  /* there has been one that was */
    int multiprocessors;         /* as the driver shows them, once ready */
    int failure;                 /* the very first has failed: the listener's exit code; else 0 */
    struct log_limit said_ended, said_relay;
};

struct worker *workers_start(struct workers *, bool usher); /* NULL: it has been said why */
struct worker *workers_idle(struct workers *); /* or NULL */
/* The worker has been sent connection i, which waits no more. */
void workers_give(struct workers *, struct worker *, int i);
/* The one that has this session, which need not be one. */
struct worker *workers_of_session(struct workers *, uint64_t session);
/* As many starting or idle as there should be. */
void workers_keep_spares(struct workers *);
/* Ends those that have no client: what begins in their place sees the environment as it is now. */
void workers_renew_spares(struct workers *);
/* When workers_keep_spares has something to do again; UINT64_MAX: not by itself. */
uint64_t workers_due(const struct workers *);
/* Whether it may have something to say. */
bool workers_listens(const struct worker *);
/* Takes a message of this worker. True: the message says that its client has proved itself. */
bool workers_hear(struct workers *, struct worker *);
/* Forgets those that have ended. */
void workers_reap(struct workers *);
/* Passes a message on that this worker has for another one (relay.h). */
void workers_relay(struct workers *, struct worker *);
/* Whoever may wait for an answer of this one gets none. */
void workers_tell_gone(const struct workers *, pid_t gone);
/* Ends every worker and waits for it. signals: a signalfd with SIGCHLD. */
void workers_end(struct workers *, int signals);

#endif
