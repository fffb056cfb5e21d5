/*
 * charge.h: device memory that is not the client's credit and whose size shows only when it has been taken: contexts
 * with their stacks and heaps, modules. It is measured as what the driver lacks afterwards, and charged to the tenant;
 * see charge.c.
 */
#ifndef FLYT_SERVER_CHARGE_H
#define FLYT_SERVER_CHARGE_H

#include "cpu/server/session.h"

/* Other programs of the tenant hold credit, and we could have it. */
bool charge_shared(const struct session *);

/* What changes device->mapped or asks the driver how much is free holds this lock: they belong together. */
void charge_lock(struct session *);
void charge_unlock(struct session *);

/* Around what may take or give back such memory; the context is current. One at a time. */
/* The driver counts what this process takes, not the whole device. */
bool charge_private(const struct session *);
struct charge { struct context *context; uint64_t before; };
struct charge charge_begin(struct session *, struct context *);
/* What was taken is charged, what was given back is released. CUDA_ERROR_OUT_OF_MEMORY: the tenant has not that much
   left: the caller undoes it, and calls charge_end again. Without session.lock: it may wait for credit that this or
   other programs do not use. */
CUresult charge_end(struct session *, struct charge *);
void charge_finish(struct session *);
/* The context has just been made: what it takes. */
CUresult charge_context(struct session *, struct context *);
void charge_context_gone(struct session *, struct context *);

#endif
