/*
 * returned.h: copies to the device that have returned before the device has done them (returned.c).
 */
#ifndef FLYT_CLIENT_CORE_RETURNED_H
#define FLYT_CLIENT_CORE_RETURNED_H

#include "context.h"

void returned_count(const struct stream *, int change);     /* a stream was made (1), or has ended (-1) */
/* A synchronous copy was sent, and nothing that may run long precedes it: may it return before it is done? */
bool returned_may(struct stream *);
void returned_mark(core_context *);
void returned_forget(struct stream *);                      /* the structure becomes another stream's */
/* before the program has it: waits for the copies that it would not wait for */
void returned_settle(const struct stream *new);
/* before the program has it: no stream of it would wait for those of others */
void returned_settle_others(const core_context *new);

/* Before a call of a blocking stream that may run long. acquire: what has been marked has been sent. */
static inline void returned_before(core_context *c)
{
    if (atomic_load_explicit(&c->returned, memory_order_relaxed) !=
        atomic_load_explicit(&c->marked, memory_order_acquire))
        returned_mark(c);
}

#endif
