/* context.h: what the files of this folder share: comm.c, the context; connect.c, how it connects, and messages between
   two ranks; call.c, its calls; run.c, a plan that is under way; exchange.c, messages that belong together; near.c,
   ranks of one process; trace.c, what was called; note.c, what stands for a call; agree.c, the table of the network;
   sided.c, sides.c, window.c, one-sided operations (sides.h). */
#ifndef FLYT_COMM_CONTEXT_H
#define FLYT_COMM_CONTEXT_H

#include "cpu/comm/comm.h"
#include "cpu/comm/pair/pair.h"

#include <pthread.h>

enum { COMM_WHY_SIZE = 220 };
#define COMM_CALL_SPACE (UINT64_C(1) << 63)     /* of a call's number in the names of transfers */
#define COMM_MESSAGE_SPACE (UINT64_C(1) << 61)  /* of the messages of comm_exchange */

struct comm_peer {
    struct comm_context *context;
    unsigned             rank;
    struct comm_link    *link;                  /* NULL: not connected; set once, under the lock */
    bool                 lent;                  /* the link is somebody else's */
    bool                 near;                  /* it is reached through the context's place, not by a link */
    struct comm_pair    *pair;
    uint64_t             sent, received;        /* messages of comm_exchange; the calling thread's */
};

struct comm_context {
    struct comm_context_settings settings;
    struct comm_store           *store;
    pthread_mutex_t              lock;
    pthread_cond_t               changed;
    int                          status;        /* 0, or why it has failed */
    char                         why[COMM_WHY_SIZE];
    uint64_t                     sequence;      /* of calls; the calling thread's */
    uint8_t                     *scratch;       /* of the last call, kept for the next one; the calling thread's */
    uint64_t                     scratch_size;
    bool                         linked;        /* to a rank or more; the calling thread's */
    struct comm_trace           *trace;
    struct comm_near            *near;          /* NULL: none; held */
    struct comm_sides           *sides;         /* NULL: it takes no one-sided operations */
    struct comm_peer             peers[];
};

/* The first failure counts. Aborts all links. No lock is held. */
void comm_context_fail(struct comm_context *, int status, const char *why);
/* Waits a moment until the reason is known for which a transfer has failed. The context's status, which is `status` if
   nothing else is known. */
int comm_context_reason(struct comm_context *, int status);
/* As comm_link_send and comm_link_receive, to or from a rank that is connected, by a link or in this process. */
int  comm_peer_send(struct comm_context *, unsigned peer, struct comm_transfer *);
int  comm_peer_receive(struct comm_context *, unsigned peer, struct comm_transfer *);
int  comm_peer_status(struct comm_context *, unsigned peer);   /* of the way there: 0, or why it has failed */

/* Memory of a call or a message, where the engine wants to know it. 0 or -errno. */
int comm_context_register(struct comm_context *, const void *memory, uint64_t size);
void comm_context_unregister(struct comm_context *, const void *memory, uint64_t size);
/* Connects with the ranks that are wanted and not connected yet; else -errno, and the context has failed. */
int  comm_context_connect(struct comm_context *, const bool *wanted, uint64_t deadline, char *error);

/* ---- exchange.c ---- */

struct comm_posting {
    struct comm_message message;                /* to or from another rank, which is connected */
    struct comm_name    name;
};
/* All are under way at a time. Waits until all are complete. 0, or why the context has failed; -ENOMEM: nothing was
   posted. */
int comm_exchange_all(struct comm_context *, const struct comm_posting *, unsigned count, uint64_t deadline);

/* ---- trace.c ---- */

struct comm_trace *comm_trace_create(const struct comm_context_settings *);     /* NULL: no memory */
void comm_trace_destroy(struct comm_trace *);
void comm_trace_begin(struct comm_context *, const uint8_t note[COMM_NOTE_SIZE], enum comm_algorithm);
void comm_trace_end(struct comm_context *, int status);
/* Under the lock: the context has failed. */
void comm_trace_fail(struct comm_context *);
/* Once, if FLYT_COMM_TRACE wants it. No lock is held. */
void comm_trace_write(struct comm_context *);

/* ---- run.c ---- */

struct comm_work {
    const struct comm_plan *plan;
    uint64_t                number;             /* of the call */
    uint8_t                 note[COMM_NOTE_SIZE];
    uint8_t                *buffers[COMM_BUFFERS];
    enum comm_type          type;
    enum comm_operation     operation;
};

/* Begins to carry the plan out, and goes on until something has to be waited for. The work must live until
   comm_run_end. NULL: no memory. */
struct comm_run *comm_run_begin(struct comm_context *, const struct comm_work *);
/* Waits until the plan is carried out, or the context has failed. 0, or the context's status. The run is gone. */
int comm_run_end(struct comm_run *, uint64_t deadline);

#endif
