/*
 * heap.h: what heap.c (the blocks of a context's heap), credit.c (the pieces that the server maps for it), memory.c
 * (the program's allocations) and memory_move.c (another server) share. What takes a heap needs its lock.
 */
#ifndef FLYT_CLIENT_CORE_HEAP_H
#define FLYT_CLIENT_CORE_HEAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "cpu/common/tree.h"
#include "memory.h"

struct block {
    struct tree_node by_address;      /* key: address */
    struct tree_node by_size;         /* key: size, tie: address; in the tree while free */
    bool             free;
};

struct heap {
    pthread_mutex_t lock;
    core_context   *context;
    struct tree     blocks, sizes;
    uint64_t        mapped, used;
    uint64_t        idle_least;       /* of mapped - used, since the last memory_tend */
    uint64_t        piece;            /* 0: not known yet */
    uint64_t        copied_from, copied_to;   /* a move copies that while the program goes on, so it stays mapped */
    pthread_cond_t  copied;           /* it has ended */
    bool            ending;           /* the server unmaps all of it, with the context: nothing is given back now */
    atomic_bool     bare;             /* whoever holds the lock has given back all that can be */
};

#define CONTAINER(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))

static inline uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static inline struct block *block_of(struct tree_node *by_address)
{
    return by_address ? CONTAINER(by_address, struct block, by_address) : NULL;
}

static inline uint64_t block_address(const struct block *b)
{
    return b->by_address.key;
}

static inline uint64_t block_size(const struct block *b)
{
    return b->by_size.key;
}

/* The context's heap, made at its first use; it lives as long as the structure. NULL: no memory. */
struct heap *heap_of(core_context *);
/* The heap of each context in turn that has one; NULL: the first, and behind the last. */
struct heap *heap_next(const struct heap *);

/* The best fit, cut to size. 0: none. */
uint64_t heap_take(struct heap *, uint64_t size);
/* Makes the used block at the address free. False: there is none. */
bool heap_give(struct heap *, uint64_t address);
/* Takes [from, to) out of a free block that holds it. False: no memory. */
bool block_cut(struct heap *, struct block *, uint64_t from, uint64_t to);
/* New memory, which becomes the block. */
void heap_add(struct heap *, struct block *, uint64_t address, uint64_t size);
/* Bytes that are free right below the end of the highest block, which a new piece there would extend. */
uint64_t heap_tail(const struct heap *, uint64_t *top);
/* All of it is mapped. */
bool heap_covers(const struct heap *, uint64_t from, uint64_t to);
/* Waits until no move copies any of it: lets the lock go. */
void heap_await_copied(struct heap *);
/* What is mapped, from the address on: blocks fill it without gaps. False: nothing more. */
bool heap_span(const struct heap *, uint64_t from, uint64_t *start, uint64_t *end);

/* ---- credit.c ---- */

/* Takes a block, and asks the server for memory if none is large enough. Waits. A result code. */
int heap_allocate(struct heap *, uint64_t size, uint64_t *address);
/* Gives back whole unused pieces, from the largest free blocks, until at least `bytes` have been. */
void heap_give_back(struct heap *, uint64_t bytes);

#endif
