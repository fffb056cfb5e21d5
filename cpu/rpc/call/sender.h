/*
 * sender.h: the sending half of a connection, for client and server alike. Records are encoded, under the
 * owner's lock, into a batch; whoever finds that nobody is writing becomes the writer, takes the whole batch,
 * and writes it with the lock released while others fill the next one. So records leave in the order in which
 * they were encoded, and threads that come while a system call runs share the next.
 *
 * Large opaque data are not copied into the batch but referred to (gathered); their owner must not return
 * before they are written: rpc_sender_write_through.
 *
 * Invariant: when the lock is free and nobody is writing, the batch is empty, unless the owner has chosen to
 * hold it back (rpc_sender_end without rpc_sender_write) and has somebody who will send it.
 */
#ifndef FLYT_RPC_SENDER_H
#define FLYT_RPC_SENDER_H

#include "cpu/rpc/transport/channel.h"

#include <pthread.h>
#include <sys/uio.h>

enum { RPC_SENDER_PIECES = 64 }; /* per system call */

struct rpc_segment {            /* bytes of somebody else's, which go before batch->bytes[at] */
    size_t      at;
    const void *data;
    size_t      size;
};

struct rpc_batch {
    uint8_t            *bytes;
    size_t              used, capacity;
    struct rpc_segment *segments;
    size_t              segment_count, segment_capacity;
    size_t              total;  /* used, and the segments' bytes */
};

struct rpc_sender {
    pthread_mutex_t *lock;      /* the owner's; held in all functions below */
    pthread_cond_t   turn;      /* the writer has written, or stopped */
    rpc_channel     *channel;
    size_t           max_record;
    struct rpc_batch filling, going;
    uint64_t         number;    /* of the batch that is being filled */
    uint64_t         written;   /* all batches up to this one are written */
    bool             writing;
    unsigned         waiting;   /* threads in `turn` */
    int              error;     /* sticky, -errno */
    uint64_t         bytes, writes;
    struct iovec     pieces[RPC_SENDER_PIECES]; /* of `going`: the writer's, whose stack may be small */
    /* The channel takes no more just now: waits until it may. Without the lock. 0: try again; -errno. */
    int            (*blocked)(void *context);
    void            *context;
};

int  rpc_sender_init(struct rpc_sender *, pthread_mutex_t *lock, rpc_channel *, size_t max_record,
                     int (*blocked)(void *context), void *context);
void rpc_sender_destroy(struct rpc_sender *);

/* One record being encoded. */
struct rpc_encoding {
    XDR                xdr;
    struct rpc_sender *sender;
    size_t             used, segments, total;   /* of the batch, at the record's mark */
    bool               may_gather;
    bool               gathered;                /* it refers to bytes of the caller's */
};

/* Begins a record in the batch. 0, or -ENOMEM. Each begin is followed by one end or cancel, with the lock held
   all the time. */
int  rpc_sender_begin(struct rpc_sender *, struct rpc_encoding *, bool may_gather);
int  rpc_sender_end(struct rpc_sender *, struct rpc_encoding *);        /* 0, or -EMSGSIZE (then cancelled) */
void rpc_sender_cancel(struct rpc_sender *, struct rpc_encoding *);

/* Size and bytes of the record without its first `skip` bytes, which count from the mark on. Before anything else is
   added or sent. */
size_t rpc_sender_size(const struct rpc_sender *, const struct rpc_encoding *, size_t skip);
void   rpc_sender_read(const struct rpc_sender *, const struct rpc_encoding *, size_t skip, uint8_t *to);
/* Goes on with another channel. Nobody is writing; what was in the batch is dropped. */
void   rpc_sender_renew(struct rpc_sender *, rpc_channel *);

/* Adds a whole record, mark and all; where the batch is empty and sending is only a copy of a few bytes, it is sent
   instead of added, if `now` allows. 0, or -ENOMEM or -EMSGSIZE: nothing of it was sent. */
int  rpc_sender_put(struct rpc_sender *, const uint8_t *record, size_t size, bool now);

/* Sends the batch, and what is added meanwhile, unless another thread is writing: that one will send it. 0 or the
   sticky error. */
int  rpc_sender_write(struct rpc_sender *);
/* Sends at most `batches` batches: for threads with something better to do. They see to it that somebody
   sends what rpc_sender_pending then returns, unless another thread is writing by then. */
int  rpc_sender_write_some(struct rpc_sender *, unsigned batches);
/* Writes as much of the batch as the channel takes at once, unless another thread is writing. Never waits. The rest
   stays in the batch for the next writer; the caller makes sure that there will be one. */
void rpc_sender_try(struct rpc_sender *);
/* Returns when all that was encoded before this call is written. */
int  rpc_sender_write_through(struct rpc_sender *);
/* Waits while the batch is so full that no more should be added. */
int  rpc_sender_wait_room(struct rpc_sender *);
/* Nothing will be sent any more; waiting threads return. Without effect on an error already there. */
void rpc_sender_fail(struct rpc_sender *, int error);

static inline size_t rpc_sender_pending(const struct rpc_sender *sender) { return sender->filling.total; }

#endif
