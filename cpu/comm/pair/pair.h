/*
 * pair.h: messages with tags between two ranks, over their link. The n-th send with a tag meets the n-th receive with
 * it, whichever was posted first; messages of different tags do not wait for each other. Any thread.
 */
#ifndef FLYT_COMM_PAIR_PAIR_H
#define FLYT_COMM_PAIR_PAIR_H

#include "cpu/comm/link/link.h"

enum { COMM_TAGS_MOST = 64 * 1024 };        /* tags of a pair that have been used */
#define COMM_PAIR_SPACE (UINT64_C(1) << 62) /* of a tag in the names of transfers */

struct comm_pair;

/* NULL: no memory. The link stays the caller's. */
struct comm_pair *comm_pair_create(struct comm_link *);
void comm_pair_destroy(struct comm_pair *); /* NULL is allowed */
/* As comm_link_send and comm_link_receive, which see; the name is filled in. tag: 32 bits. -ENOSPC: too many tags. */
int comm_pair_send(struct comm_pair *, uint32_t tag, struct comm_transfer *);
int comm_pair_receive(struct comm_pair *, uint32_t tag, struct comm_transfer *);

#endif
