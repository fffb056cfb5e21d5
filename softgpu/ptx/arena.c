#include "softgpu/ptx/arena.h"

#include "softgpu/ptx/budget.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t ptx_arena_most = (size_t)4 << 30;           /* NCCL's library, joined, takes more than one GiB */
enum { FIRST_BLOCK = 16 * 1024, LARGEST_BLOCK = 1024 * 1024, ALIGNMENT = 16 };

struct arena_block {
    struct arena_block *next;
    size_t        size;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

struct ptx_arena {
    struct arena_block *blocks; /* the first one is the one being filled */
    size_t        filled;
    size_t        next_size;
    size_t        used;
};

struct ptx_arena *ptx_arena_create(void)
{
    struct ptx_arena *arena = calloc(1, sizeof *arena);
    if (arena)
        arena->next_size = FIRST_BLOCK;
    return arena;
}

static void block_free(struct arena_block *block)
{
    ptx_budget_give(sizeof *block + block->size);
    free(block);
}

void ptx_arena_destroy(struct ptx_arena *arena)
{
    if (!arena)
        return;
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        block_free(arena->blocks);
        arena->blocks = next;
    }
    free(arena);
}

static struct arena_block *block_create(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct arena_block) || !ptx_budget_take(sizeof(struct arena_block) + size))
        return NULL;
    struct arena_block *block = calloc(1, sizeof *block + size);
    if (block)
        block->size = size;
    else
        ptx_budget_give(sizeof *block + size);
    return block;
}

void *ptx_arena_alloc(struct ptx_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (size == 0)
        size = ALIGNMENT;
    if (arena->used > ptx_arena_most || size > ptx_arena_most - arena->used)
        return NULL;

    struct arena_block *current = arena->blocks;
    if (current && size <= current->size - arena->filled) {
        void *result = current->bytes + arena->filled;
        arena->filled += size;
        arena->used += size;
        return result;
    }
    if (current && size > arena->next_size / 4) {      /* behind the current block, which goes on being filled */
        struct arena_block *own = block_create(size);
        if (!own)
            return NULL;
        own->next = current->next;
        current->next = own;
        arena->used += size;
        return own->bytes;
    }
    struct arena_block *fresh = block_create(size > arena->next_size ? size : arena->next_size);
    if (!fresh)
        return NULL;
    if (arena->next_size < LARGEST_BLOCK)
        arena->next_size *= 2;
    fresh->next = current;
    arena->blocks = fresh;
    arena->filled = size;
    arena->used += size;
    return fresh->bytes;
}

void *ptx_arena_array(struct ptx_arena *arena, size_t count, size_t item)
{
    if (item && count > SIZE_MAX / 2 / item)
        return NULL;
    return ptx_arena_alloc(arena, count * item);
}

char *ptx_arena_string(struct ptx_arena *arena, const char *text, size_t size)
{
    char *copy = ptx_arena_alloc(arena, size + 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void ptx_arena_reset(struct ptx_arena *arena)
{
    struct arena_block *kept = arena->blocks;
    if (!kept)
        return;
    while (kept->next) {
        struct arena_block *next = kept->next->next;
        block_free(kept->next);
        kept->next = next;
    }
    memset(kept->bytes, 0, arena->filled);
    arena->filled = 0;
    arena->used = 0;
}

size_t ptx_arena_used(const struct ptx_arena *arena)
{
    return arena->used;
}
