/*
 * staging.h: pinned memory of the worker through which the bytes of copies pass; see staging.c.
 */
#ifndef FLYT_SERVER_STAGING_H
#define FLYT_SERVER_STAGING_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/list.h"

struct context;
struct session;

struct slot {
    struct slot *next;
    struct context *context;              /* whose it is; NULL: it is one of the lanes' */
    uint8_t *memory;
    size_t size;
    uint64_t number;
    bool large;
    struct slot *next_extra;              /* made by staging_extra */
};

struct staging_class {
    uint8_t *memory;
    struct slot *slots, *unused;
    unsigned count, free_count;
    size_t size;
    struct list wanted;                   /* streams that wait for a slot, under session.lock: deferred.c */
};
struct staging { pthread_mutex_t lock; struct staging_class small, large; struct slot *extras; };

int  staging_start(struct context *);
void staging_prepare(struct session *, struct context *);         /* what fails here is tried again at the first use */
void staging_stop(struct session *, struct context *);            /* nothing of it is in use any more */
/* *slot NULL and CUDA_SUCCESS: none is free now, and staging_wanted() is where to wait. */
CUresult staging_take(struct session *, struct context *, size_t size, struct slot **, bool *scarce);
struct list *staging_wanted(struct context *, size_t size);
/* A slot beyond the set, for a stream that waits for nothing of its own; given back like the others. */
CUresult staging_extra(struct session *, struct context *, size_t size, struct slot **);
void staging_give(struct session *, struct slot *);

#endif
