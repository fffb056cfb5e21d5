/*
 * block.h: received bytes, counted by reference, and the inbox that cuts them into records.
 *
 * A block is filled from its start to its end and never moves. A record that lies whole in a block is used
 * where it is, by the reading thread until it receives again; one that must live longer takes a reference
 * (rpc_record_keep), so the block lives as long as the slowest of its records. An inbox
 * belongs to one reading thread at a time; references may be dropped by any thread.
 *
 * Record marking is that of RFC 5531, section 11: before each fragment a number of 4 bytes, its top bit
 * set for the last fragment of a record, the others its length.
 */
#ifndef FLYT_RPC_BLOCK_H
#define FLYT_RPC_BLOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/wire.h"

struct rpc_block {
    atomic_uint references;
    size_t      capacity;
    uint8_t     bytes[];
};

void rpc_block_release(struct rpc_block *);     /* NULL is allowed */

struct rpc_record {
    /* the holder's reference; NULL: the bytes are the inbox's, until its next rpc_inbox_room */
    struct rpc_block *block;
    const uint8_t    *bytes;
    size_t            size;
};

struct rpc_inbox {
    struct rpc_block *block;
    size_t            start, end;   /* bytes received and not yet handed out */
    size_t            max_record;
    size_t            usual;        /* size of the large records that come at present; see rpc_inbox_room */
    /* a record of several fragments, being put together */
    struct rpc_block *assembly;
    size_t            assembled;
};

void rpc_inbox_init(struct rpc_inbox *, size_t max_record);
void rpc_inbox_clear(struct rpc_inbox *);

/* 1: *record is the next one; 0: more bytes are needed; -EMSGSIZE: the peer announces more than max_record
   (nothing was allocated for it); -ENOMEM. */
int rpc_inbox_next(struct rpc_inbox *, struct rpc_record *);

/* Makes a record that rpc_inbox_next gave last independent of the inbox; rpc_block_release(record->block) ends it. */
void rpc_record_keep(struct rpc_inbox *, struct rpc_record *);

/* Room to receive into: the rest of the record that has begun, and more where it costs nothing.
   NULL: no memory. */
uint8_t *rpc_inbox_room(struct rpc_inbox *, size_t *room);
void     rpc_inbox_received(struct rpc_inbox *, size_t bytes);

#endif
