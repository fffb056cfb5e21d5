/*
 * moved_worker.h: a thread of a random program, which has objects of nearly all kinds, and what it does with them. Each
 * thread has its own, so that what it finds does not depend on the others.
 */
#ifndef TESTS_CORE_MOVED_WORKER_H
#define TESTS_CORE_MOVED_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/core/moved_program.h"

enum { WORKER_BLOCKS = 3, WORKER_WORDS = 8192, WORKER_BYTES = 4 * WORKER_WORDS };

/* Its own module has its list. */
struct worker {
    pthread_t thread;
    uint64_t seed, hash;
    atomic_uint called;                       /* by host functions */
    CUmodule module;
    CUfunction fill, add, paint, look, push, pop, walk;
    CUstream stream;
    CUevent event, timed[2];
    CUdeviceptr block[WORKER_BLOCKS], out, managed, mapped;
    CUmemGenericAllocationHandle handle;
    CUmemGenericAllocationHandle host_handle;
    uint32_t *host;
    CUmemoryPool pool;
    uint32_t *pinned;
    CUdeviceptr pinned_device;
    CUarray array;
    CUtexObject texture;
    CUsurfObject surface;
    CUgraphExec graph;
    uint32_t graph_block;
};

/* Before the first thread begins: the context of all, and whether they lose their server. Then they have no memory of
   the program that kernels reach, since nobody could repeat what these did to it. */
extern CUcontext worker_context;
extern bool worker_is_lost;

void worker_begin(struct worker *);
/* Does something drawn by chance. */
void worker_step(struct worker *);
/* Waits for everything, and counts into the hash what the memory holds. */
void worker_end(struct worker *);

#endif
