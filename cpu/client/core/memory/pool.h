/*
 * pool.h: stream-ordered memory: pools and what programs allocate from them (pool.c), the memory of one pool
 * (pool_blocks.c), and what is known of the order of frees and streams (pool_order.c).
 */
#ifndef FLYT_CLIENT_CORE_POOL_H
#define FLYT_CLIENT_CORE_POOL_H

#include "cpu/common/list.h"
#include "cpu/common/tree.h"
#include "cpu/client/core/stream/context.h"
#include "memory.h"
#include "cpu/client/core/stream/stream.h"

/* ---- pool_order.c: when a free takes effect ---- */

/* Behind `own`, and behind `legacy` (whose stream is NULL: that is implied): all work that precedes a free in the
   order of its stream. */
struct moment {
    struct point own, legacy;
};

/* The stream of a lane. It may have ended, and so may its context. */
struct pool_order {
    struct client_stream *stream;
    core_context *context;
    uint64_t token, generation;
    core_event last; /* recorded in the stream when it ended; 0: none */
};

struct pool_order order_of(const struct client_stream *);
bool order_same(const struct pool_order *, const struct client_stream *);
/* The stream takes no more frees. */
bool order_ended(const struct pool_order *);
/* A free in this stream takes effect here. It may give the stream a call. */
struct moment moment_now(struct client_stream *);
/* What precedes both. Both are of one stream. */
struct moment moment_later(const struct moment *, const struct moment *);
bool moment_done(const struct pool_order *, const struct moment *);
/* The program has made the stream wait for that moment. */
bool moment_precedes(const struct pool_order *, const struct moment *, const struct client_stream *);
/* Makes the stream wait for that moment. False: that cannot be done without waiting for later work, too. */
bool moment_join(struct pool_order *, const struct moment *, struct client_stream *);
/* The stream is about to end: what was freed in it is awaited by an event. */
void order_end(struct pool_order *);
void order_free(struct pool_order *);

/* ---- pool_blocks.c: the memory of a pool ---- */

/* Free memory is in lanes: one for each stream in which memory was freed, and `ready` for memory that no work uses. */
struct pool_lane {
    struct list of_store;
    struct pool_order order; /* of `ready`: nothing */
    struct tree sizes;  /* its free blocks */
};

struct store {
    int device;
    struct rights others; /* of devices that the program has given access */
    uint64_t most; /* 0: as much as there is */
    uint64_t reserved, reserved_high, used, used_high;
    struct tree pieces, blocks; /* by address */
    struct pool_lane ready;
    struct list lanes;
};

/* Which free memory an allocation may have. */
struct reuse {
    bool precedes, done, join;
};

/* Free memory for the stream; 0: none that suits. */
uint64_t store_take(struct store *, uint64_t size, struct client_stream *, struct reuse);
/* One more piece of memory, that has room for so much. A result code. Waits. */
int store_grow(struct store *, uint64_t size);
/* The allocation is free behind the moment in the stream (NULL: now). */
void store_give(struct store *, uint64_t address, struct client_stream *, const struct moment *);
/* Gives pieces back that no work uses, down to `keep` bytes. True: there is more to give when work has ended. */
bool store_trim(struct store *, uint64_t keep);
void store_stream_ends(struct store *, const struct client_stream *);
bool store_holds(const struct store *, uint64_t address);
struct handle_chunk *store_chunk(const struct store *, uint64_t address);         /* which holds it; NULL: none */
/* What another device may do with the memory, that of later too: CUmemAccess_flags. A result code. Waits. */
int store_access(struct store *, int device, unsigned access);
/* All of the memory goes. */
void store_drop(struct store *);
/* Allocations that the program has not freed, from the one at or above `address` on; 0: none. */
uint64_t store_next_used(const struct store *, uint64_t address);

enum { POOL_ALIGNMENT = 512 };

/* ---- pool.c ---- */

int pool_open(void); /* at attach */
void pool_forget_context(core_context *);
uint64_t pool_count(void);

#endif
