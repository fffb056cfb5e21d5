/* lanes.h: the session's connections for bulk bytes; see lanes.c. */
#ifndef FLYT_SERVER_LANES_H
#define FLYT_SERVER_LANES_H

#include "cpu/server/session.h"

/* Before HELLO; NULL: no memory, there are none then. */
struct lanes *lanes_create(struct session *, const struct lanes_ways *);
/* A connection that says it is one of this session's lanes, unread. Takes it over; context is for the
   way in. Any thread, one at a time. */
void lanes_accept(struct session *, int fd, void *context);
/* The node manager has made these connections to `address`, of the server to which the session may move: direct lanes
   can be made of them (DEPART). Takes them over, in place of earlier ones. Any thread. */
void lanes_dialled(struct session *, const char *address, const int *fds, unsigned count);
/* Every lane ends; threads blocked in them return. Any thread, repeatedly. */
void lanes_shutdown(struct session *);
/* Every lane ends; behind it the threads have ended and nothing is left in staging memory. */
void lanes_stop(struct session *);
void lanes_destroy(struct session *);

/* The context has been made; is about to go, and idle. */
void lanes_context_here(struct session *, struct context *);
void lanes_context_gone(struct session *, struct context *);

/* ---- to the device ---- */

uint64_t lanes_chunk(void);                                       /* bytes of one transfer, at most */
/* The bytes of a transfer in a slot, once all `size` of them have come; the slot is the caller's, to be given to
   staging_give, soon if they are scarce. NULL: not yet; the executor is kicked when they have. */
struct slot *lanes_claim(struct session *, uint32_t transfer, uint64_t size, bool *scarce);
void lanes_give(struct session *, struct slot *);                 /* for staging_give: such a slot is free again */
/* Nobody will claim it: what has come or will come is dropped. */
void lanes_discard(struct session *, uint32_t transfer, uint64_t size);

/* ---- from the device ---- */

bool lanes_known(struct session *, uint32_t lane);                /* open */
/* So much waits to be written already that no more should be fetched. The executor is kicked when less does. */
bool lanes_congested(struct session *);
/* Writes slot's bytes, then gives it back. False: the lane is gone, the slot is still the caller's. */
bool lanes_write(struct session *, uint32_t lane, uint32_t transfer, struct slot *, uint64_t size);

#endif
