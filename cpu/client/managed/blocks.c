/*
 * blocks.c: where managed memory comes from. Every device may use it, without any permission between the devices. So
 * where the program has several devices, each block is memory of a handle, which all of them are given access to; the
 * heap of a context (core/heap.c) is for that context's device. Where the devices cannot reach each other's memory,
 * and where there is only one, a block is part of the heap.
 */
#include "blocks.h"

#include <stdlib.h>

#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/wire/state.h"
#include "spans.h"

struct managed_block {
    struct tree_node node;            /* key: address */
    core_context *context;
    struct handle_chunk chunk;
};

static struct tree blocks;            /* those that are no part of a heap */

uint64_t block_unit(void) { return device_count() > 1 ? core_session.granularity : 1; }

static int chunk_take(core_context *c, uint64_t size, uint64_t *address)
{
    struct rights all = { 0 };
    struct managed_block *b = malloc(sizeof *b);
    int code = b ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (int device = 0; device < device_count(); device++)
        rights_note(&all, device, ACCESS_READ_WRITE);
    if (!code)    /* c->lock must not be taken here: who ends a context holds it, and asks for spans_lock */
        code = handle_chunk_make(c->device, (size + block_unit() - 1) / block_unit() * block_unit(), &all, &b->chunk);
    if (code) {
        free(b);
        return code;
    }
    b->context = c;
    b->node.key = *address = b->chunk.address;
    b->node.tie = 0;
    tree_insert(&blocks, &b->node);
    return CORE_OK;
}

int block_take(core_context *c, uint64_t size, uint64_t *address)
{
    FLYT_ASSERT_HELD(&spans_lock);
    int code = device_count() > 1 ? chunk_take(c, size, address) : CORE_INVALID_DEVICE;
    return code && code != CORE_OUT_OF_MEMORY ? memory_take(c, size, address) : code;
}

static void block_end(struct managed_block *b)
{
    tree_remove(&blocks, &b->node);
    handle_chunk_end(&b->chunk);
    free(b);
}

void block_put(core_context *c, uint64_t address)
{
    FLYT_ASSERT_HELD(&spans_lock);
    struct managed_block *b = (struct managed_block *)tree_at_or_below(&blocks, address, 0);
    if (b && b->node.key == address)
        block_end(b);
    else
        memory_put(c, address);
}

bool block_is_handle(uint64_t address)
{
    FLYT_ASSERT_HELD(&spans_lock);
    const struct tree_node *node = tree_at_or_below(&blocks, address, 0);
    return node && node->key == address;
}

void blocks_forget_context(core_context *c)
{
    FLYT_ASSERT_HELD(&spans_lock);
    struct managed_block *next;
    for (struct managed_block *b = (struct managed_block *)tree_first(&blocks); b; b = next) {
        next = (struct managed_block *)tree_next(&blocks, &b->node);
        if (b->context == c)
            block_end(b);
    }
}
