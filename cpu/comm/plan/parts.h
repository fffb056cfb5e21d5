/* parts.h: how much of its buffers a rank uses in a collective. For those that do not link with cpu/comm, too. */
#ifndef FLYT_COMM_PLAN_PARTS_H
#define FLYT_COMM_PLAN_PARTS_H

#include "cpu/comm/plan/plan.h"

/* Each part has as many elements as the call says; that is the whole in broadcast, reduce and all-reduce. */
struct comm_parts {
    unsigned in, out;
};

static inline struct comm_parts comm_parts_of(enum comm_kind kind, unsigned rank, unsigned ranks, unsigned root)
{
    const unsigned root_only = rank == root, all_of_root = root_only ? ranks : 0;
    switch (kind) {
    case COMM_BARRIER: return (struct comm_parts){ 0, 0 };
    case COMM_BROADCAST: return (struct comm_parts){ root_only, 1 };
    case COMM_REDUCE: return (struct comm_parts){ 1, root_only };
    case COMM_GATHER: return (struct comm_parts){ 1, all_of_root };
    case COMM_SCATTER: return (struct comm_parts){ all_of_root, 1 };
    case COMM_ALL_GATHER: return (struct comm_parts){ 1, ranks };
    case COMM_REDUCE_SCATTER: return (struct comm_parts){ ranks, 1 };
    case COMM_ALL_TO_ALL: return (struct comm_parts){ ranks, ranks };
    default: return (struct comm_parts){ 1, 1 };
    }
}

#endif
