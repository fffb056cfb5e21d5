/* sided.h: one-sided operations of a rank of world.h. False: r->status and r->error say why. */
#ifndef FLYT_TESTS_COMM_SIDED_H
#define FLYT_TESTS_COMM_SIDED_H

#include "tests/comm/world.h"

#include "cpu/comm/sides.h"

#include <errno.h>

static inline bool good(struct rank *r, int status)
{
    if (status < 0)
        r->status = status;
    return status >= 0;
}

/* A window of so many bytes of each rank, when all have registered it. False: r->status says why. */
static inline bool window_make(struct rank *r, void *memory, uint64_t size, uint32_t *number)
{
    uint64_t sizes[RANKS];
    const struct comm_window window = { .memory = memory, .size = size };
    if (!good(r, comm_window_add(r->context, &window, number, r->error)))
        return false;
    int ready = 0;
    while (ready == 0 && good(r, ready = comm_window_sizes(r->context, *number, sizes, r->error)))
        sched_yield();
    return ready == 1;
}

static inline bool put(struct rank *r, unsigned peer, uint32_t window, uint64_t offset, const void *memory,
                       uint64_t size)
{
    const struct comm_sided one = { peer, window, offset, memory, size };
    return good(r, comm_put(r->context, &one, 1, in_s(LIMIT_S), r->error));
}

static inline bool await(struct rank *r, unsigned peer, uint64_t signals)
{
    const struct comm_sided one = { .peer = peer, .size = signals };
    return good(r, comm_await(r->context, &one, 1, in_s(LIMIT_S), r->error));
}

/* Each rank signals all, itself too, and waits for all. */
static inline bool meet(struct rank *r)
{
    struct comm_sided all[RANKS] = { 0 };
    for (unsigned p = 0; p < r->world->size; p++)
        all[p].peer = p;
    if (!good(r, comm_put(r->context, all, r->world->size, in_s(LIMIT_S), r->error)))
        return false;
    for (unsigned p = 0; p < r->world->size; p++)
        all[p].size = 1;
    return good(r, comm_await(r->context, all, r->world->size, in_s(LIMIT_S), r->error));
}

static inline bool wrong(struct rank *r, const char *what)
{
    snprintf(r->error, sizeof r->error, "%s", what);
    r->status = -EBADMSG;
    return false;
}

#endif
