/* comms_state.h: what comms.c (communicators come and go), operation.c (what they carry out), window.c (windows) and
   together.c (what the executor carries out) share. */
#ifndef FLYT_SERVER_COMMS_STATE_H
#define FLYT_SERVER_COMMS_STATE_H

#include "cpu/server/comm/comms.h"
#include "cpu/server/links/links.h"
#include "cpu/server/stream/inside.h"

/* Where ranks of this session meet that are of one communicator. Goes with the last of them. */
struct server_comm_place {
    struct list of_all;
    uint8_t name[FLYT_COMM_PLACE_SIZE];
    struct comm_near *near;
    unsigned ranks, users;
    struct server_comm *members[]; /* by rank; NULL: not here */
};

/* A rank. Under session.lock where nothing else is said. */
struct server_comm {
    struct session *session;
    struct list of_all;
    struct context *context; /* compared only: it may have ended */
    struct comm_context *comm;
    unsigned rank, ranks;
    struct server_comm_place *place; /* NULL: no other rank is near */
    struct comm_borrowed *borrowed;  /* one for each rank; .link NULL: it has none */
    struct comm_book_page page;      /* of the server's book; zeros: none was free */
    bool aborted;                    /* by this client, or with its context */
    /* Under comms.lock. */
    pthread_cond_t wake; /* of its thread */
    struct list queue;   /* operations, in their order */
    unsigned operations; /* that have not been freed */
    bool closing;        /* the client has closed it */
    bool fails;          /* what failed of it is reported from now on without delay (comms.c) */
    bool settled;        /* its thread has done what comes before all operations */
    bool busy;           /* an operation is being carried out */
    struct list kept;    /* the executor has kept its first operation back (together.c) */
};

struct comm_borrowed {
    struct server_comm *comm;
    unsigned rank;
    struct server_link *link;
};

struct comms {
    struct session *session;
    const struct comms_ways *ways;
    struct list all, places, operations;
    unsigned count;
    uint64_t patience;      /* ns in which an operation that was begun must be complete */
    bool used;              /* a thread was started: nothing here is freed any more */
    pthread_mutex_t lock;   /* nothing is taken under it but the leaves of inside_due */
    pthread_cond_t changed; /* an operation is over, or a communicator has gone */
    unsigned leaving;       /* communicators that the client has closed; under the lock */
    struct list kept;       /* of which the executor has kept the first operation back; under the lock */
    atomic_bool keeps;      /* there may be some */
    struct comm_book *book; /* NULL: there is none */
    int book_fd;
};

/* In the order of the calls: `queued` under comms.lock, all else under session.lock. */
struct server_comm_operation {
    struct inside inside; /* of the marker before it, then of its end */
    struct list of_all, queued;
    struct server_comm *comm;
    struct stream *stream; /* held */
    uint32_t ticket;
    bool follows; /* it needs no marker */
    bool gated; /* the stream waits at its gate, for this ticket */
    bool cancelled;
    bool small;              /* the executor may carry it out */
    bool ready, over;        /* under comms.lock: its turn has come in its stream; it was carried out, or failed */
    bool begun;              /* the executor has made it ready, or given it up */
    int status;              /* once over */
    const void *factor_view; /* where the factor is on the device; NULL: in `factor` */
    uint8_t factor[FLYT_COMM_FACTOR_SIZE];
    struct comm_call call;
    /* Or messages: what came here is written; or puts or waits. The list is the operation's. */
    enum { OPERATION_CALL, OPERATION_MESSAGES, OPERATION_PUTS, OPERATION_WAITS } kind;
    struct comm_message *messages;
    struct comm_sided *sided;
    unsigned count;
    uint64_t out_size; /* of a call: bytes at call.out */
};

/* ---- book.c ---- */

/* The server's book, $FLYT_COMM_BOOK, if it has one. It stays open to the end of the process. */
void book_open(struct comms *);
/* A page for a rank of the communicator that meets at this place; zeros: none is free, or there is no book. */
struct comm_book_page book_take(struct comms *, const char place[FLYT_COMM_PLACE_SIZE], const char *client);

/* From cpu/comm's errors to CUDA's. */
CUresult comms_result(int status);
struct server_comm *comm_find(struct session *, uint32_t id);
/* No operation of it comes to a good end any more; the other ranks read why. */
void comm_abort(struct server_comm *, const char *why);
/* In the thread: carries it out. */
void operation_carry_out(struct server_comm_operation *);
/* It was carried out, or has failed, and why. The caller then answers those who wait for the stream. */
void operation_carried_out(struct server_comm_operation *, int status, const char *why);
/* Where the client's memory is; false: it may not name it. */
bool comm_memory_view(struct session *, uint64_t address, uint64_t size, void **view);
/* In the executor: the stream goes on, and the operation is freed. What has failed is latched. */
void operation_end(struct server_comm_operation *, CUresult);
/* Under comms.lock. A thread that would find nothing to do is left asleep. */
void comm_wake_if_due(struct server_comm *);

/* ---- together.c ---- */

/* Whether the executor may carry this operation out. */
bool together_may(const struct server_comm_operation *);
/* Under comms.lock, when the operation has become ready: no thread is to be woken. *all: those of all ranks are ready,
   and are taken off their queues; together_carry_out is to be called. */
bool together_keep(struct server_comm_operation *, struct server_comm_operation *all[COMM_TOGETHER_MOST]);
/* In the executor. Behind it they are freed. */
void together_carry_out(struct server_comm_operation *const all[COMM_TOGETHER_MOST]);

#endif
