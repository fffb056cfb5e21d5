/*
 * client.h: the inside of a client, for client.c (calls), client_read.c (replies) and renew.c (another connection).
 *
 * Roles. At most one thread writes (sender.h) and at most one reads (`reading`); both are roles that a thread
 * takes under the lock and plays without it. A thread that waits for its reply takes the reading role if it
 * is free, else sleeps until its call is complete or the role is handed to it. The writer, when the peer takes
 * no more, reads too, so that two peers with full buffers never wait for each other.
 *
 * Whoever reads must not sleep while it could read, so a done function that submits only adds to the batch; the
 * reader sends it afterwards.
 *
 * The attender (the process's helper thread) watches the connection while nobody waits. It plays no role while
 * it watches, so a thread that comes to wait need not ask it: it just reads, and the attender, woken by the same
 * bytes, finds the role taken and rests a moment before it watches again.
 *
 * A batch may be held back (the batch is not empty though nobody writes) only while an attender is there and
 * has been kicked; it sends what it finds before it watches again or leaves.
 */
#ifndef FLYT_RPC_CLIENT_H
#define FLYT_RPC_CLIENT_H

#include "cpu/common/clock.h"
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/call/sender.h"

enum { RPC_PENDING_BUCKETS = 1024 };

/* A thread that sleeps until its call is complete or the reading role is free for it. On its stack. */
struct rpc_waiter {
    struct rpc_waiter *next, *previous;
    struct rpc_call   *call;
    pthread_cond_t     wake;
};

enum rpc_attender_state {
    RPC_ATTENDER_BUSY,
    RPC_ATTENDER_WATCHING,      /* polls the connection */
    RPC_ATTENDER_RESTING,       /* keeps away for a moment */
    RPC_ATTENDER_SLEEPING       /* one thread has been reading for long: until it stops */
};

struct rpc_attender {
    struct rpc_call        *call;
    enum rpc_attender_state state;
    pthread_cond_t          wake;
};

struct rpc_client {
    rpc_channel              *channel;
    const struct rpc_program *program;
    int                       dead_seconds;
    void                    (*lost)(void *context, const char *reason);
    void                     *lost_context;

    pthread_mutex_t           lock;         /* of all that follows, except the inbox */
    pthread_condattr_t        monotonic;
    struct rpc_sender         sender;
    uint32_t                  last_xid;
    struct rpc_call          *pending[RPC_PENDING_BUCKETS];
    uint32_t                  pending_count;
    struct rpc_waiter        *waiters;
    struct rpc_attender      *attender;
    bool                      kicked;
    bool                      batching;
    bool                      reading;
    unsigned                  done_running; /* threads that are inside a done function */
    pthread_t                 reader;       /* valid while reading */
    uint64_t                  role_serial;  /* counts how often the role was taken */
    struct rpc_inbox          inbox;        /* the reader's */
    struct rpc_spin           spin;         /* the reader's */
    /* so long nothing was heard though something was due, and we could have heard it */
    struct clock_run          quiet;
    bool                      heard;        /* something was heard since, at a time that nobody has looked up yet */
    uint64_t                  last_sent;    /* ns */
    atomic_bool               is_lost, is_silent;
    struct rpc_client_statistics statistics;

    /* renew.c */
    struct rpc_recorder      *recorder;
    bool                      held;         /* the connection is lost, and will be made anew */
    pthread_cond_t            renewed;      /* held has ended */
    struct rpc_retired       *retired;
};

/* A channel that the client has used before. */
struct rpc_retired { struct rpc_retired *older; rpc_channel *channel; };

/* client_read.c */

/* Waits for the call, reading. Under the lock. */
void rpc_client_await(rpc_client *, struct rpc_call *);
/* The connection is of no use any more. Completes what is in flight. Without the lock. */
void rpc_client_lose(rpc_client *, bool tell, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* rpc_sender's `blocked`. */
int  rpc_client_blocked(void *client);
/* Wakes the attender wherever it sleeps. Under the lock. */
void rpc_client_wake_attender(rpc_client *);
/* Is this thread inside a done function of this client? Under the lock. */
bool rpc_client_inside_done(const rpc_client *);
/* Completes the call of that number with an answer that has come. Under the lock, which it may release meanwhile.
   False: there is no such call. */
bool rpc_client_deliver(rpc_client *, uint32_t xid, enum clnt_stat status, const uint8_t *body, size_t size);
/* Waits while the connection is held. Under the lock. */
void rpc_client_await_renewal(rpc_client *);
void rpc_client_retired_free(struct rpc_retired *);
/* Sends what is in the batch and notes the time. Under the lock, which it releases meanwhile. */
int  rpc_client_send(rpc_client *);

/* The server's silence is counted from now on. Under the lock. */
static inline void rpc_client_quiet_begins(rpc_client *client)
{
    client->quiet = (struct clock_run){ .looked = clock_now() };
}

#endif
