/*
 * copy_engine.h: the routes of a copy, for all shapes. copy.c says which of them a copy takes, and why.
 */
#ifndef FLYT_CLIENT_CORE_COPY_ENGINE_H
#define FLYT_CLIENT_CORE_COPY_ENGINE_H

#include "lanes.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/wire/span.h"

/* copy.c. Where a box lies. kind: of its first byte; CORE_UNKNOWN_MEMORY: pageable. reach: where the device finds it;
   0: nowhere. Returns 1 when there is no such box, or when it leaves its allocation on the device. Notes that the
   stream's context works on the memory of another one. */
struct copy_side {
    enum core_memory_kind kind;
    bool     pinned;                  /* all of it */
    bool     managed;                 /* device memory that the program may touch; its bytes: */
    uint64_t reach, bytes;
    core_context *owner;              /* of device memory */
};
int copy_side(const struct client_stream *, const struct core_box *, const struct core_extent *, struct copy_side *);

/* A copy, with its route. The span has the addresses by which the device knows what it reaches. */
enum copy_route { COPY_HERE, COPY_REACH, COPY_IN, COPY_OUT, COPY_ACROSS };
struct copy_plan {
    struct copy_span span;
    enum copy_route  route;
    bool             to_device, from_device;
    bool             pinned;          /* the program's side is */
    bool             blocking;        /* the caller is a synchronous function */
    uint64_t         managed_to, managed_from;   /* bytes of managed memory from the first to the last one */
    core_context    *target, *source; /* of COPY_ACROSS: whose memory it is; NULL: the program's. Of COPY_REACH: of two
                                         devices, and the copy is blocking; else NULL */
};

/* copy_in.c. Sends what is left of a copy to the device; its source may be read now. With LANES_WAIT_NEVER only what
   lanes take at once: the rest stays in *left. */
int copy_send(struct client_stream *, struct copy_cut *left, enum lanes_wait);
/* Sends what is left of a copy when the stream's earlier work has finished. The source is pinned: the program leaves it
   alone until then. */
int copy_send_deferred(struct client_stream *, const struct copy_cut *left);

/* copy_out.c. Receives a copy from the device; the bytes have come when it returns. */
int copy_receive(struct client_stream *, const struct copy_span *);

/* copy_pending.c. Begins a copy from the device into pinned memory: the bytes come later (pending.h). */
int copy_begin_pending(struct client_stream *, const struct copy_span *);

/* copy_across.c. Memory that is not at the stream's server. The context that has the memory of the range; NULL: none
   has it any more. */
core_context *copy_owner(const struct core_range *);
int copy_across(struct client_stream *, const struct copy_plan *);
int set_across(struct client_stream *, core_context *owner, const struct core_box *, const struct core_extent *,
               uint32_t value, unsigned element);

#endif
