/*
 * memory.h: memory that transfers may use, as ranges of whole pages of 4 KiB. Ranges that overlap stay apart, each with
 * a count: who registers the same pages again finds them at once.
 */
#ifndef FLYT_COMM_LINK_MEMORY_H
#define FLYT_COMM_LINK_MEMORY_H

#include "cpu/common/tree.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { COMM_PAGE = 4096, COMM_RANGES_MOST = 1 << 20 };

struct comm_memory {
    pthread_mutex_t lock;
    struct tree     ranges;             /* by begin, then by end */
    unsigned        count;
    uint64_t        longest;            /* bytes of the longest range so far: how far a search must look back */
};

void comm_memory_begin(struct comm_memory *);
void comm_memory_end(struct comm_memory *);
/* 0, -EINVAL, -ENOMEM or -ENOSPC. */
int  comm_memory_add(struct comm_memory *, const void *memory, uint64_t size);
int  comm_memory_remove(struct comm_memory *, const void *memory, uint64_t size);       /* 0, -ENOENT */
/* Whether one range has all of it. */
bool comm_memory_has(struct comm_memory *, const void *memory, uint64_t size);

#endif
