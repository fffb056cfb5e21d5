/*
 * order.c: the order in which the blocks of a function are laid out.
 *
 * A warp runs the group of lanes at the lowest address first (warp.c). So the layout says where lanes that part meet
 * again. On a GPU they meet at the immediate post-dominator of the branch: the first block that all ways from the
 * branch to the end of the function go through. Programs that exchange data between the lanes of a warp without
 * __syncwarp depend on it. Here lanes meet there if each block lies before the blocks that post-dominate it: then
 * all lanes that are on their way to such a block run before those that have come to it.
 *
 * Compilers move blocks (the body of a loop behind the function's end, the arm of a branch in front of it), so the
 * order of the text does not do. The order is made like this:
 *
 * - Blocks that reach each other (a strongly connected component: a loop with all loops in it) stay together, before
 *   whatever follows them. So lanes that leave a loop early wait for the rest.
 * - Within a loop one block, its *bottom*, is laid out last. Without it there are fewer loops, and the rest is
 *   ordered in the same way. The bottom is the last block of the loop that post-dominates the loop's head, or the
 *   head itself if there is none. So no other block of the loop post-dominates the bottom. There is one exception.
 *   If the head is the bottom and the loop's only entry, and lanes come back to it by one edge only, from a block
 *   that leads nowhere else in the loop, then that block is the bottom: the lanes meet there just as well, and the
 *   text mostly has it there.
 * - What is left to choose is as in the text.
 *
 * This works for any flow of control; a "loop" may have several entries, the head is then one of them. A function
 * whose loops are laid out in the usual way keeps the order of its text.
 */
#include "softgpu/exec/flow.h"

#include <stdlib.h>
#include <string.h>

/* Bounds for code that no compiler makes; with more, the order is one in which lanes may meet later. */
enum { NEST_MOST = 256, PASSES_MOST = 64 };
static const uint32_t NONE = UINT32_MAX;

struct order_part {
    uint32_t begin, end, id, depth;
}; /* of the order: blocks that are still to be ordered */
struct visit {
    uint32_t block, edge;
};

struct sorter {
    const struct exec_flow *g;
    uint32_t *before, *before_at; /* as next and next_at, backward */
    uint32_t *beyond;             /* per block its immediate post-dominator; NONE: there is none */
    uint32_t *order, *sorted;
    uint32_t *part_of;      /* per block the id of its part; NONE: its place is final */
    uint32_t *number, *low; /* of the depth-first search */
    uint32_t *stack, stack_count;
    struct visit *visits;
    struct order_part *parts;
    uint32_t part_count, part_ids;
    uint32_t numbers;
};

/* --- post-dominators --- */

/* Blocks in an order in which, loops apart, each comes before those that can reach it. Returns how many: the ends of
   the function and what reaches them. number[]: their places in it. */
static uint32_t backward(struct sorter *s, uint32_t *list)
{
    const struct exec_flow *g = s->g;
    uint32_t count = 0;
    for (uint32_t b = 0; b < g->blocks; b++)
        s->number[b] = NONE;
    for (uint32_t end = 0; end < g->blocks; end++) {
        if (!exec_flow_leaves(g, end) || s->number[end] != NONE)
            continue;
        uint32_t depth = 0;
        s->visits[depth++] = (struct visit){ end, s->before_at[end] };
        s->number[end] = 0;
        while (depth) {
            struct visit *v = &s->visits[depth - 1];
            if (v->edge < s->before_at[v->block + 1]) {
                uint32_t to = s->before[v->edge++];
                if (s->number[to] == NONE) {
                    s->number[to] = 0;
                    s->visits[depth++] = (struct visit){ to, s->before_at[to] };
                }
            } else {
                list[count++] = v->block;
                depth--;
            }
        }
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t b = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = b;
    }
    for (uint32_t i = 0; i < count; i++)
        s->number[list[i]] = i;
    return count;
}

/* The first block that post-dominates both; NONE: only the end of the function does. */
static uint32_t common(const struct sorter *s, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (a == NONE || b == NONE)
            return NONE;
        if (s->number[a] > s->number[b])
            a = s->beyond[a];
        else
            b = s->beyond[b];
    }
    return a;
}

/* Follows: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm". Blocks that do not reach an end have none,
   and the ways that lead into them do not count. */
static void find_post_dominators(struct sorter *s, uint32_t *list)
{
    const struct exec_flow *g = s->g;
    uint32_t count = backward(s, list);
    uint8_t *known = (uint8_t *)s->low; /* not in use yet */
    memset(known, 0, g->blocks);
    for (uint32_t b = 0; b < g->blocks; b++)
        s->beyond[b] = NONE;
    bool changed = true;
    for (uint32_t pass = 0; changed && pass < PASSES_MOST; pass++) {
        changed = false;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t b = list[i], meet = NONE;
            bool any = exec_flow_leaves(g, b);
            for (uint32_t e = g->next_at[b]; e < g->next_at[b + 1]; e++) {
                uint32_t to = g->next[e];
                if (s->number[to] == NONE || !known[to])
                    continue;
                meet = any ? common(s, meet, to) : to;
                any = true;
            }
            if (!any)
                continue;
            changed |= !known[b] || s->beyond[b] != meet;
            known[b] = 1;
            s->beyond[b] = meet;
        }
    }
}

/* --- loops --- */

static int by_text(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Do lanes come into block b from outside the loop? */
static bool is_entry(const struct sorter *s, uint32_t b, uint32_t id)
{
    for (uint32_t e = s->before_at[b]; e < s->before_at[b + 1]; e++)
        if (s->part_of[s->before[e]] != id)
            return true;
    return !b;
}

/* The first entry of a loop in the text. *alone: it is the only one. */
static uint32_t head_of(const struct sorter *s, const uint32_t *blocks, uint32_t count, uint32_t id, bool *alone)
{
    uint32_t head = NONE;
    *alone = true;
    for (uint32_t i = 0; i < count && *alone; i++)
        if (is_entry(s, blocks[i], id)) {
            *alone = head == NONE;
            head = head == NONE ? blocks[i] : head;
        }
    return head == NONE ? blocks[0] : head; /* none is one: nothing leads into it */
}

/* The block of the loop from which lanes come back to its head, if there is one edge back only, and if it leads to no
   other block of the loop; else NONE. */
static uint32_t way_back(const struct sorter *s, uint32_t head, uint32_t id)
{
    const struct exec_flow *g = s->g;
    uint32_t from = NONE;
    for (uint32_t e = s->before_at[head]; e < s->before_at[head + 1]; e++) {
        uint32_t b = s->before[e];
        if (s->part_of[b] != id)
            continue;
        if (from != NONE)
            return NONE;
        from = b;
    }
    for (uint32_t e = from == NONE ? 0 : g->next_at[from]; from != NONE && e < g->next_at[from + 1]; e++)
        if (g->next[e] != head && s->part_of[g->next[e]] == id)
            return NONE;
    return from;
}

static uint32_t bottom_of(const struct sorter *s, const uint32_t *blocks, uint32_t count, uint32_t id)
{
    bool alone;
    uint32_t head = head_of(s, blocks, count, id, &alone), bottom = head;
    while (s->beyond[bottom] != NONE && s->part_of[s->beyond[bottom]] == id)
        bottom = s->beyond[bottom];
    uint32_t back = alone && bottom == head ? way_back(s, head, id) : NONE;
    return back != NONE ? back : bottom;
}

/* A component has been found: its blocks, in order of the text. */
static void found(struct sorter *s, uint32_t begin, uint32_t end, uint32_t depth)
{
    uint32_t *blocks = s->sorted + begin, count = end - begin;
    if (count > 1)
        qsort(blocks, count, sizeof *blocks, by_text);
    if (count == 1 || depth == NEST_MOST) {
        for (uint32_t i = 0; i < count; i++)
            s->part_of[blocks[i]] = NONE;
        return;
    }
    uint32_t id = ++s->part_ids, at = 0;
    for (uint32_t i = 0; i < count; i++)
        s->part_of[blocks[i]] = id;
    uint32_t bottom = bottom_of(s, blocks, count, id);
    while (blocks[at] != bottom)
        at++;
    memmove(blocks + at, blocks + at + 1, (count - 1 - at) * sizeof *blocks);
    blocks[count - 1] = bottom;
    s->part_of[bottom] = NONE;
    s->parts[s->part_count++] = (struct order_part){ begin, end - 1, id, depth + 1 };
}

static void enter(struct sorter *s, uint32_t block, uint32_t *depth)
{
    s->number[block] = s->low[block] = ++s->numbers;
    s->stack[s->stack_count++] = block;
    s->visits[(*depth)++] = (struct visit){ block, s->g->next_at[block + 1] };
}

/* The components of a part that `root` reaches and that have not been found. `*to`: the place behind theirs. Follows:
   Tarjan, "Depth-First Search and Linear Graph Algorithms". It finds those that others lead to first. The edge that
   falls into the next block is gone last, so that that one mostly stays behind its block. */
static void search(struct sorter *s, const struct order_part *p, uint32_t root, uint32_t *to)
{
    const struct exec_flow *g = s->g;
    uint32_t depth = 0;
    enter(s, root, &depth);
    while (depth) {
        struct visit *v = &s->visits[depth - 1];
        uint32_t b = v->block;
        if (v->edge > g->next_at[b]) {
            uint32_t next = g->next[--v->edge];
            if (s->part_of[next] != p->id)
                continue;
            if (!s->number[next])
                enter(s, next, &depth);
            else if (s->number[next] < s->low[b])
                s->low[b] = s->number[next];
            continue;
        }
        depth--;
        if (depth && s->low[b] < s->low[s->visits[depth - 1].block])
            s->low[s->visits[depth - 1].block] = s->low[b];
        if (s->low[b] != s->number[b])
            continue;
        uint32_t end = *to, member;
        do {
            member = s->stack[--s->stack_count];
            s->sorted[--*to] = member;
        } while (member != b);
        found(s, *to, end, p->depth);
    }
}

static void sort_part(struct sorter *s, const struct order_part *p)
{
    uint32_t to = p->end;
    for (uint32_t i = p->begin; i < p->end; i++)
        s->number[s->order[i]] = 0;
    for (uint32_t i = p->end; i-- > p->begin;)
        if (!s->number[s->order[i]])
            search(s, p, s->order[i], &to);
    memcpy(s->order + p->begin, s->sorted + p->begin, (p->end - p->begin) * sizeof *s->order);
}

/* --- all of it --- */

static void turn_edges(struct sorter *s)
{
    const struct exec_flow *g = s->g;
    uint32_t edges = g->next_at[g->blocks];
    for (uint32_t e = 0; e < edges; e++)
        s->before_at[g->next[e] + 1]++;
    for (uint32_t b = 0; b < g->blocks; b++)
        s->before_at[b + 1] += s->before_at[b];
    for (uint32_t b = g->blocks; b-- > 0;)
        for (uint32_t e = g->next_at[b]; e < g->next_at[b + 1]; e++)
            s->before[s->before_at[g->next[e]]++] = b;
    memmove(s->before_at + 1, s->before_at, g->blocks * sizeof *s->before_at);
    s->before_at[0] = 0;
}

static bool goes_backward(const struct exec_flow *g)
{
    for (uint32_t b = 0; b < g->blocks; b++)
        for (uint32_t e = g->next_at[b]; e < g->next_at[b + 1]; e++)
            if (g->next[e] < b)
                return true;
    return false;
}

uint32_t *exec_order(const struct exec_flow *g)
{
    size_t n = g->blocks, edges = g->next_at[n];
    uint32_t *order = malloc(n * sizeof *order);
    if (!order)
        return NULL;
    for (uint32_t b = 0; b < n; b++)
        order[b] = b;
    if (!goes_backward(g))
        return order;
    uint32_t *room = calloc(7 * n + 1 + edges, sizeof *room);
    struct sorter s = {
        .g = g, .order = order, .visits = malloc(n * sizeof *s.visits), .parts = malloc((n + 1) * sizeof *s.parts)
    };
    if (room && s.visits && s.parts) {
        uint32_t *at = room;
        s.before_at = at, at += n + 1;
        s.before = at, at += edges;
        s.beyond = at, at += n;
        s.sorted = at, at += n;
        s.part_of = at, at += n;
        s.number = at, at += n;
        s.low = at, at += n;
        s.stack = at;
        turn_edges(&s);
        find_post_dominators(&s, s.sorted);
        s.parts[s.part_count++] = (struct order_part){ 0, g->blocks, 0, 0 };
        while (s.part_count) {
            struct order_part p = s.parts[--s.part_count];
            sort_part(&s, &p);
        }
    } else {
        free(order);
        s.order = NULL;
    }
    free(room);
    free(s.visits);
    free(s.parts);
    return s.order;
}
