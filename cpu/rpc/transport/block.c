#include "cpu/rpc/transport/block.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Large enough for hundreds of calls per system call, small enough for the cache. */
enum { BLOCK_SIZE = 256 * 1024 };
/* A block is made as large as the records that come at present, or a large one would have to move after its first
   part has come. The memory of that fades with every record. */
enum { USUAL_FADE = 64 };
/* Less room than this at the end of a block is not worth a system call. */
enum { ROOM_MIN = 4096 };

/* With one reference. NULL: no memory. */
static struct rpc_block *rpc_block_create(size_t capacity)
{
    struct rpc_block *block = malloc(sizeof *block + capacity);
    if (!block)
        return NULL;
    atomic_init(&block->references, 1);
    block->capacity = capacity;
    return block;
}

static struct rpc_block *rpc_block_reference(struct rpc_block *block)
{
    /* relaxed: whoever gives the reference on has one already */
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    return block;
}

void rpc_block_release(struct rpc_block *block)
{
    /* acq_rel: all uses of the bytes come before they are freed or written again */
    if (block && atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1)
        free(block);
}

static bool block_is_shared(const struct rpc_block *block)
{
    /* acquire: see rpc_block_release */
    return atomic_load_explicit(&block->references, memory_order_acquire) != 1;
}

void rpc_inbox_init(struct rpc_inbox *inbox, size_t max_record)
{
    *inbox = (struct rpc_inbox){ .max_record = max_record };
}

void rpc_inbox_clear(struct rpc_inbox *inbox)
{
    rpc_block_release(inbox->block);
    rpc_block_release(inbox->assembly);
    rpc_inbox_init(inbox, inbox->max_record);
}

static uint32_t mark_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Appends a fragment to the record that is being put together. */
static int assemble(struct rpc_inbox *inbox, const uint8_t *bytes, size_t size)
{
    size_t needed = inbox->assembled + size;
    if (!inbox->assembly || inbox->assembly->capacity < needed) {
        size_t capacity = inbox->assembly ? inbox->assembly->capacity : ROOM_MIN;
        while (capacity < needed)
            capacity *= 2;
        struct rpc_block *larger = rpc_block_create(capacity);
        if (!larger)
            return -ENOMEM;
        if (inbox->assembled > 0)
            memcpy(larger->bytes, inbox->assembly->bytes, inbox->assembled);
        rpc_block_release(inbox->assembly);
        inbox->assembly = larger;
    }
    memcpy(inbox->assembly->bytes + inbox->assembled, bytes, size);
    inbox->assembled = needed;
    return 0;
}

int rpc_inbox_next(struct rpc_inbox *inbox, struct rpc_record *record)
{
    while (inbox->end - inbox->start >= RPC_MARK_SIZE) {
        const uint8_t *at = inbox->block->bytes + inbox->start;
        uint32_t mark = mark_at(at);
        size_t length = mark & ~RPC_MARK_LAST;
        bool last = mark & RPC_MARK_LAST;
        if (length > inbox->max_record - inbox->assembled)
            return -EMSGSIZE;
        if (inbox->end - inbox->start - RPC_MARK_SIZE < length)
            return 0;
        inbox->start += RPC_MARK_SIZE + length;
        inbox->usual = length > inbox->usual ? length + RPC_MARK_SIZE : inbox->usual - inbox->usual / USUAL_FADE;
        if (last && !inbox->assembly) {
            *record = (struct rpc_record){ NULL, at + RPC_MARK_SIZE, length };
            return 1;
        }
        int status = assemble(inbox, at + RPC_MARK_SIZE, length);
        if (status < 0)
            return status;
        if (last) {
            *record = (struct rpc_record){ inbox->assembly, inbox->assembly->bytes, inbox->assembled };
            inbox->assembly = NULL;
            inbox->assembled = 0;
            return 1;
        }
    }
    return 0;
}

void rpc_record_keep(struct rpc_inbox *inbox, struct rpc_record *record)
{
    if (!record->block)
        record->block = rpc_block_reference(inbox->block);
}

/* Bytes that the fragment at `start` has in all, mark included, as far as that is known. */
static size_t fragment_size(const struct rpc_inbox *inbox)
{
    if (inbox->end - inbox->start < RPC_MARK_SIZE)
        return RPC_MARK_SIZE;
    /* rpc_inbox_next has refused what is too long */
    return RPC_MARK_SIZE + (size_t)(mark_at(inbox->block->bytes + inbox->start) & ~RPC_MARK_LAST);
}

uint8_t *rpc_inbox_room(struct rpc_inbox *inbox, size_t *room)
{
    struct rpc_block *block = inbox->block;
    size_t wanted = fragment_size(inbox), have = inbox->end - inbox->start;
    if (block && have == 0 && !block_is_shared(block))
        inbox->start = inbox->end = 0;
    bool fits = block && block->capacity - inbox->start >= wanted && block->capacity > inbox->end;
    bool worth = fits && (block->capacity - inbox->end >= ROOM_MIN || have > 0);
    if (!worth) {
        size_t capacity = wanted > inbox->usual ? wanted : inbox->usual;
        capacity = capacity > BLOCK_SIZE ? capacity : BLOCK_SIZE;
        if (block && !block_is_shared(block) && block->capacity >= capacity) {
            memmove(block->bytes, block->bytes + inbox->start, have);
        } else {
            struct rpc_block *fresh = rpc_block_create(capacity);
            if (!fresh)
                return NULL;
            if (have > 0)
                memcpy(fresh->bytes, block->bytes + inbox->start, have);
            rpc_block_release(block);
            inbox->block = block = fresh;
        }
        inbox->start = 0;
        inbox->end = have;
    }
    *room = block->capacity - inbox->end;
    return block->bytes + inbox->end;
}

void rpc_inbox_received(struct rpc_inbox *inbox, size_t bytes)
{
    inbox->end += bytes;
}
