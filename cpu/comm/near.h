/*
 * near.h: ranks of one process. What one rank sends, the other takes with one copy: no connection, no message. The
 * transfers are those of links (link/link.h), and keep their rules: a send and a receive of the same name meet,
 * whichever was posted first; whoever posts the second one copies.
 *
 * A place is shared by the near ranks of one communicator. A rank may post before its peer has entered, and waits then;
 * posts to a rank that has left fail with -ESHUTDOWN. Any thread. No lock is held while bytes are copied, while
 * transfers complete, and while contexts hear of a failure.
 */
#ifndef FLYT_COMM_NEAR_H
#define FLYT_COMM_NEAR_H

#include "cpu/comm/link/link.h"

struct comm_near;
struct comm_context;

/* Of so many ranks of the communicator, far ones included. The caller has one reference. NULL: no memory. */
struct comm_near *comm_near_create(unsigned ranks);
void comm_near_hold(struct comm_near *);
void comm_near_drop(struct comm_near *); /* the last one frees it; NULL is allowed */
/* 0; -EEXIST: the rank is there, or was; the status with which the place has failed. */
int comm_near_enter(struct comm_near *, unsigned rank, struct comm_context *);
/* Behind it nobody calls the context, and no transfer of the rank is left. */
void comm_near_leave(struct comm_near *, unsigned rank);
/* As comm_link_send and comm_link_receive, from this rank to the peer or from it. */
int comm_near_send(struct comm_near *, unsigned rank, unsigned peer, struct comm_transfer *);
int comm_near_receive(struct comm_near *, unsigned rank, unsigned peer, struct comm_transfer *);
/* As comm_link_glance: something that the peer has posted to this rank. */
bool comm_near_glance(struct comm_near *, unsigned rank, unsigned peer, uint64_t space, uint8_t note[COMM_NOTE_SIZE]);
/* Fails all transfers, and the contexts of all ranks that are there. The first one counts. */
void comm_near_fail(struct comm_near *, int status, const char *why);
int comm_near_status(struct comm_near *);

#endif
