/*
 * early_return.h: copies to the device that have returned before the device has done them (early_return.c).
 */
#ifndef FLYT_CLIENT_CORE_EARLY_RETURN_H
#define FLYT_CLIENT_CORE_EARLY_RETURN_H

#include "context.h"

void early_return_count(const struct client_stream *, int change); /* a stream was made (1), or has ended (-1) */
/* A synchronous copy was sent, and nothing that may run long precedes it: may it return before it is done? */
bool early_return_may(struct client_stream *);
void early_return_mark(core_context *);
void early_return_forget(struct client_stream *); /* the structure becomes another stream's */
/* before the program has it: waits for the copies that it would not wait for */
void early_return_settle(const struct client_stream *new);
/* before the program has it: no stream of it would wait for those of others */
void early_return_settle_others(const core_context *new);

/* Memory is to be shared with another process: waits for the copies that have returned early; from now on none does. */
void early_return_stop(void);

/* Before a call of a blocking stream that may run long. acquire: what has been marked has been sent. */
static inline void early_return_before(core_context *c)
{
    if (atomic_load_explicit(&c->early_returns, memory_order_relaxed) !=
        atomic_load_explicit(&c->marked, memory_order_acquire))
        early_return_mark(c);
}

#endif
