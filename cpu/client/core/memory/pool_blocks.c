/*
 * pool_blocks.c: the memory of one pool, cut into blocks.
 *
 * Memory comes from the server in pieces, each a handle that is mapped at a place of its own. Every byte of a piece
 * belongs to exactly one block. A block is an allocation, or it is free and in a lane: `ready`, when no work uses it,
 * else the lane of the stream in which it was freed, with the moment from which on it is free. Free neighbours of one
 * lane are one block. A piece goes back as soon as it is one free block that no work uses.
 *
 * All of it is under the lock of the pools.
 */
#include <stdlib.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/device.h"
#include "extent.h"
#include "memory.h"
#include "pool.h"
#include "cpu/client/core/wire/state.h"

enum { PIECES_OF_DEVICE = 64, LOOKS = 32 };
#define PIECE_USUAL (UINT64_C(32) << 20)

struct pool_piece {
    struct tree_node node; /* key: address */
    uint64_t size;
    struct handle_chunk chunk;
};

struct pool_block {
    struct tree_node by_address; /* key: address */
    struct tree_node by_size;    /* key: size, tie: address; in the lane's tree while free */
    struct pool_piece *piece;
    struct pool_lane *lane; /* NULL: an allocation */
    struct moment moment;
};

static struct pool_block *by_address(struct tree_node *n) { return TREE_OBJECT(n, struct pool_block, by_address); }
static struct pool_block *by_size(struct tree_node *n) { return TREE_OBJECT(n, struct pool_block, by_size); }
static uint64_t address_of(const struct pool_block *b) { return b->by_address.key; }
static uint64_t size_of(const struct pool_block *b) { return b->by_size.key; }
static uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

static void count(uint64_t *now, uint64_t *high, uint64_t value)
{
    *now = value;
    if (value > *high)
        *high = value;
}

/* ---- blocks and lanes ---- */

static struct pool_block *block_new(struct store *store, struct pool_piece *piece, uint64_t address, uint64_t size)
{
    struct pool_block *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->by_address.key = b->by_size.tie = address;
    b->by_size.key = size;
    b->piece = piece;
    tree_insert(&store->blocks, &b->by_address);
    return b;
}

static void lane_leave(struct pool_block *b)
{
    if (b->lane)
        tree_remove(&b->lane->sizes, &b->by_size);
    b->lane = NULL;
}

static void block_end(struct store *store, struct pool_block *b)
{
    lane_leave(b);
    tree_remove(&store->blocks, &b->by_address);
    free(b);
}

static bool neighbours(const struct pool_block *a, const struct pool_block *b)
{
    return a && b && a->lane && a->lane == b->lane && a->piece == b->piece &&
           address_of(a) + size_of(a) == address_of(b);
}

/* b becomes part of a. */
static void join(struct store *store, struct pool_block *a, struct pool_block *b)
{
    struct pool_lane *lane = a->lane;
    uint64_t size = size_of(a) + size_of(b);
    if (lane != &store->ready)
        a->moment = moment_later(&a->moment, &b->moment);
    block_end(store, b);
    tree_remove(&lane->sizes, &a->by_size);
    a->by_size.key = size;
    tree_insert(&lane->sizes, &a->by_size);
}

static void lane_enter(struct store *store, struct pool_lane *lane, struct pool_block *b)
{
    b->lane = lane;
    tree_insert(&lane->sizes, &b->by_size);
    struct pool_block *next = by_address(tree_next(&store->blocks, &b->by_address));
    if (neighbours(b, next))
        join(store, b, next);
    struct pool_block *before = by_address(tree_at_or_below(&store->blocks, address_of(b) - 1, 0));
    if (neighbours(before, b))
        join(store, before, b);
}

/* The stream's lane. NULL: there is none, and with `make`: no memory. */
static struct pool_lane *lane_of(struct store *store, struct client_stream *s, bool make)
{
    for (struct list *link = list_first(&store->lanes); link; link = list_next(&store->lanes, link)) {
        struct pool_lane *lane = LIST_OBJECT(link, struct pool_lane, of_store);
        if (order_same(&lane->order, s))
            return lane;
    }
    struct pool_lane *lane = make ? calloc(1, sizeof *lane) : NULL;
    if (lane) {
        lane->order = order_of(s);
        list_append(&store->lanes, &lane->of_store);
    }
    return lane;
}

/* All of the lane's blocks that no work uses become ready. An empty lane whose stream has ended goes. */
static void lane_settle(struct store *store, struct pool_lane *lane)
{
    struct tree_node *next;
    bool done = true;
    for (struct tree_node *n = tree_first(&lane->sizes); n; n = next) {
        struct pool_block *b = by_size(n);
        next = tree_next(&lane->sizes, n);
        if (!moment_done(&lane->order, &b->moment)) {
            done = false;
            continue;
        }
        lane_leave(b);
        lane_enter(store, &store->ready, b);
    }
    if (done && order_ended(&lane->order)) {
        list_remove(&lane->of_store);
        order_free(&lane->order);
        free(lane);
    }
}

static void settle(struct store *store)
{
    struct list *next;
    for (struct list *link = list_first(&store->lanes); link; link = next) {
        next = list_next(&store->lanes, link);
        lane_settle(store, LIST_OBJECT(link, struct pool_lane, of_store));
    }
}

void store_stream_ends(struct store *store, const struct client_stream *s)
{
    struct pool_lane *lane = lane_of(store, (struct client_stream *)(uintptr_t)s, false);
    if (lane)
        lane_settle(store, lane);
    if (lane && tree_first(&lane->sizes))
        order_end(&lane->order);
}

/* ---- taking ---- */

/* The block, cut to size, becomes an allocation. */
static uint64_t use(struct store *store, struct pool_block *b, uint64_t size)
{
    struct pool_lane *lane = b->lane;
    uint64_t rest = size_of(b) - size;
    struct pool_block *more = rest ? block_new(store, b->piece, address_of(b) + size, rest) : NULL;
    if (rest && !more)
        return 0;
    lane_leave(b);
    b->by_size.key = size;
    if (more) {
        more->moment = b->moment;
        more->lane = lane;
        tree_insert(&lane->sizes, &more->by_size);
    }
    count(&store->used, &store->used_high, store->used + size);
    return address_of(b);
}

static struct pool_block *fit(const struct pool_lane *lane, uint64_t size)
{
    return by_size(tree_at_or_above(&lane->sizes, size, 0));
}

/* A block of another stream's that the stream comes behind. */
static struct pool_block *fit_preceding(const struct pool_lane *lane, uint64_t size, const struct client_stream *s)
{
    struct tree_node *n = tree_at_or_above(&lane->sizes, size, 0);
    for (int looks = 0; n && looks < LOOKS; looks++, n = tree_next(&lane->sizes, n))
        if (moment_precedes(&lane->order, &by_size(n)->moment, s))
            return by_size(n);
    return NULL;
}

static struct pool_block *fit_joined(struct pool_lane *lane, uint64_t size, struct client_stream *s)
{
    struct tree_node *n = tree_at_or_above(&lane->sizes, size, 0);
    for (int looks = 0; n && looks < LOOKS; looks++, n = tree_next(&lane->sizes, n))
        if (moment_join(&lane->order, &by_size(n)->moment, s))
            return by_size(n);
    return NULL;
}

uint64_t store_take(struct store *store, uint64_t size, struct client_stream *s, struct reuse reuse)
{
    struct pool_lane *own = lane_of(store, s, false);
    struct pool_block *b = own ? fit(own, size) : NULL, *ready = fit(&store->ready, size);
    for (struct list *link = list_first(&store->lanes); link && !b && reuse.precedes;
         link = list_next(&store->lanes, link))
        b = fit_preceding(LIST_OBJECT(link, struct pool_lane, of_store), size, s);
    if (ready && (!b || size_of(ready) < size_of(b)))
        b = ready;
    if (!b && reuse.done && list_first(&store->lanes)) {
        settle(store);
        b = fit(&store->ready, size);
    }
    for (struct list *link = list_first(&store->lanes); link && !b && reuse.join; link = list_next(&store->lanes, link))
        b = fit_joined(LIST_OBJECT(link, struct pool_lane, of_store), size, s);
    return b ? use(store, b, size) : 0;
}

void store_give(struct store *store, uint64_t address, struct client_stream *s, const struct moment *moment)
{
    struct pool_block *b = by_address(tree_at_or_below(&store->blocks, address, 0));
    if (!b || address_of(b) != address || b->lane)
        return;
    struct pool_lane *lane = moment ? lane_of(store, s, true) : &store->ready;
    store->used -= size_of(b);
    if (moment)
        b->moment = *moment;
    if (lane)
        lane_enter(store, lane, b);
    /* else there was no memory for a lane: the block is lost until the pool ends */
}

struct handle_chunk *store_chunk(const struct store *store, uint64_t address)
{
    struct pool_piece *piece = TREE_OBJECT(tree_at_or_below(&store->pieces, address, 0), struct pool_piece, node);
    return piece && address - piece->node.key < piece->size ? &piece->chunk : NULL;
}

bool store_holds(const struct store *store, uint64_t address)
{
    const struct pool_piece *piece = TREE_OBJECT(tree_at_or_below(&store->pieces, address, 0), struct pool_piece, node);
    return piece && address - piece->node.key < piece->size;
}

uint64_t store_next_used(const struct store *store, uint64_t address)
{
    struct tree_node *n = tree_at_or_above(&store->blocks, address, 0);
    while (n && by_address(n)->lane)
        n = tree_next(&store->blocks, n);
    return n ? n->key : 0;
}

/* ---- pieces ---- */

static uint64_t piece_usual(const struct store *store)
{
    uint64_t total = client_device_find(store->device)->public.total_memory, piece = core_session.granularity;
    while (piece < PIECE_USUAL && piece * 2 <= total / PIECES_OF_DEVICE)
        piece *= 2;
    return piece;
}

static int piece_new(struct store *store, uint64_t size)
{
    struct pool_piece *piece = calloc(1, sizeof *piece);
    if (!piece)
        return CORE_OUT_OF_MEMORY;
    int code = handle_chunk_make(store->device, size, &store->others, &piece->chunk);
    struct pool_block *b = code ? NULL : block_new(store, piece, piece->chunk.address, size);
    if (!code && !b) {
        handle_chunk_end(&piece->chunk);
        code = CORE_OUT_OF_MEMORY;
    }
    if (code) {
        free(piece);
        return code;
    }
    piece->node.key = piece->chunk.address;
    piece->size = size;
    tree_insert(&store->pieces, &piece->node);
    lane_enter(store, &store->ready, b);
    count(&store->reserved, &store->reserved_high, store->reserved + size);
    return extent_say(piece->chunk.address, size, FLYT_EXTENT_NOBODYS);
}

int store_grow(struct store *store, uint64_t size)
{
    uint64_t least = round_up(size, core_session.granularity), usual = round_up(size, piece_usual(store));
    uint64_t room = !store->most ? UINT64_MAX : store->most > store->reserved ? store->most - store->reserved : 0;
    if (least < size || least > room)
        return CORE_OUT_OF_MEMORY;
    int code = usual <= room ? piece_new(store, usual) : CORE_OUT_OF_MEMORY;
    return code == CORE_OUT_OF_MEMORY && least < usual ? piece_new(store, least) : code;
}

static void piece_end(struct store *store, struct pool_piece *piece)
{
    handle_chunk_end(&piece->chunk);
    tree_remove(&store->pieces, &piece->node);
    store->reserved -= piece->size;
    free(piece);
}

/* The program has freed all of it; work may still use it. */
static bool piece_is_free(const struct store *store, const struct pool_piece *piece)
{
    struct tree_node *n = tree_at_or_above(&store->blocks, piece->node.key, 0);
    for (; n && n->key < piece->node.key + piece->size; n = tree_next(&store->blocks, n))
        if (!by_address(n)->lane)
            return false;
    return true;
}

/* The piece is free as a whole, and no work uses it. (Blocks stay in their lanes until somebody looks.) */
static bool piece_is_done(const struct store *store, const struct pool_piece *piece)
{
    struct tree_node *n = tree_at_or_above(&store->blocks, piece->node.key, 0);
    for (; n && n->key < piece->node.key + piece->size; n = tree_next(&store->blocks, n)) {
        const struct pool_block *b = by_address(n);
        if (!b->lane || (b->lane != &store->ready && !moment_done(&b->lane->order, &b->moment)))
            return false;
    }
    return true;
}

static void piece_empty(struct store *store, struct pool_piece *piece)
{
    struct tree_node *n;
    while ((n = tree_at_or_above(&store->blocks, piece->node.key, 0)) && n->key < piece->node.key + piece->size)
        block_end(store, by_address(n));
}

bool store_trim(struct store *store, uint64_t keep)
{
    bool more = false;
    struct tree_node *next;
    for (struct tree_node *n = tree_first(&store->pieces); n && store->reserved > keep; n = next) {
        struct pool_piece *piece = TREE_OBJECT(n, struct pool_piece, node);
        next = tree_next(&store->pieces, n);
        if (store->reserved - piece->size < keep || !piece_is_free(store, piece))
            continue;
        if (piece_is_done(store, piece)) {
            piece_empty(store, piece);
            piece_end(store, piece);
        } else {
            more = true;
        }
    }
    struct list *after;
    for (struct list *link = list_first(&store->lanes); link; link = after) {
        struct pool_lane *lane = LIST_OBJECT(link, struct pool_lane, of_store);
        after = list_next(&store->lanes, link);
        if (order_ended(&lane->order))
            lane_settle(store, lane);
    }
    return more;
}

int store_access(struct store *store, int device, unsigned access)
{
    int code = CORE_OK;
    for (struct tree_node *n = tree_first(&store->pieces); n && !code; n = tree_next(&store->pieces, n))
        code = handle_chunk_access(&TREE_OBJECT(n, struct pool_piece, node)->chunk, device, access);
    if (!code)
        rights_note(&store->others, device, access);
    return code;
}

void store_drop(struct store *store)
{
    struct tree_node *n;
    while ((n = tree_first(&store->pieces))) {
        struct pool_piece *piece = TREE_OBJECT(n, struct pool_piece, node);
        piece_empty(store, piece);
        piece_end(store, piece);
    }
    for (struct list *link; (link = list_first(&store->lanes));) {
        struct pool_lane *lane = LIST_OBJECT(link, struct pool_lane, of_store);
        list_remove(link);
        order_free(&lane->order);
        free(lane);
    }
    store->used = 0;
}
