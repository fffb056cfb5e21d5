/* ranks.h: what the files of build/…/tests/nccl_ranks share: the ranks of this process, and what they hold. */
#ifndef TESTS_NCCL_RANKS_H
#define TESTS_NCCL_RANKS_H

#include <cuda.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NCCL_OF_PROGRAMS
#include "cpu/client/nccl/calls.h"
#include "tests/lib/now.h"

enum { MOST = 8, COUNT = 20000, INT32 = 2, FLOAT32 = 7, SUM = 0, MAX = 2, AVERAGE = 4 };
enum { HOST_IMMEDIATE = 1, DEVICE = 0 };
enum { SYMMETRIC = 1, PART = COUNT * 4, WHOLE = PART * MOST }; /* of windows: bytes of one rank's part, and of all */

/* As NCCL_CONFIG_INITIALIZER. */
#define CONFIG(blocks) \
    { sizeof(struct nccl_config), 0xcafebeef, 22809, blocks, INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN }

extern int ranks, first, count; /* of all processes; the first one here, and how many are here */
extern struct rank {
    struct nccl_comm *comm;
    CUcontext context;
    CUstream stream;
    CUdeviceptr in, out;
} own[MOST];

#define NEED(holds, ...)                                           \
    do {                                                           \
        if (!(holds)) {                                            \
            printf("%s:%d: rank %d: ", __FILE__, __LINE__, first); \
            printf(__VA_ARGS__);                                   \
            printf(" (%s)\n", ncclGetLastError(NULL));             \
            exit(1);                                               \
        }                                                          \
    } while (0)
#define CUDA(call)                                               \
    do {                                                         \
        int result_ = (int)(call);                               \
        NEED(result_ == CUDA_SUCCESS, "%s: %d", #call, result_); \
    } while (0)
#define GOOD(call)                                               \
    do {                                                         \
        int result_ = (int)(call);                               \
        NEED(result_ == NCCL_SUCCESS, "%s: %d", #call, result_); \
    } while (0)

static inline void *at(CUdeviceptr address) { return (void *)(uintptr_t)address; }
static inline core_stream stream_of(int i) { return (core_stream)(uintptr_t)own[i].stream; }

/* ---- values (ranks.c) ---- */

/* Number i of what a rank has as its input (fill), and of the sum of all ranks'. */
int value(int rank, int i);
int sum(int i);
/* The input of each rank here; all bytes of the output are 0xee. */
void fill(void);
/* So many numbers from there, of the GPU of rank i here, when its stream has ended. Until the next call. */
int *numbers_of(int i, CUdeviceptr from, int numbers);

enum kind { BROADCAST, REDUCE, ALL_REDUCE, GATHER, SCATTER, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, KINDS };
/* part: how many numbers one rank has, or gets. */
nccl_result call(enum kind, int i, size_t part, int root);
/* A collective of all ranks here, in one group, and its results. */
void collective(enum kind, int part, int root);
/* All kinds of collectives, and one, with their results. */
void collectives(void);
void collectives_once(void);

/* ---- modes ---- */

/* lost.c: the process of the first ranks, so many, is killed; 0: that of the last one. */
void lost(int gone);
/* lost.c: says "ready", waits for a line (a rank has been killed); all ranks here are told of it within a second. */
void await_loss(void);
/* lost.c: communicators are revoked while a collective waits. */
void revoked(void);
/* behind.c: the first process calls an all-reduce more than the others do, until they are given a line. */
void behind(void);
/* behind.c: a rank calls many collectives before the next one here calls its first. */
void ahead(void);
/* behind.c: many communicators, until a line is given. */
void many(void);
/* behind.c: the others do not call a collective, and the servers' deadline passes. */
void late(void);
/* ended.c: communicators are ended while they are made, or used. */
void ended(void);
/* children.c: what ncclCommGetAsyncError says, when it no longer says ncclInProgress, or behind so many seconds. */
nccl_result error_of(struct nccl_comm *, double seconds);
/* children.c: those that do not block; what waits for operations; a communicator that grows. */
void behind_the_program(void);
void finalized(void);
void grown(void);
/* later.c: what NCCL got after 2.27. */
void later(void);
/* random.c: so many random collectives, which all processes draw alike from the seed. */
void random_collectives(unsigned seed, int calls);
/* sided.c: windows, puts, signals and waits; random ones, which all processes draw alike; what is refused of them. */
void sided(void);
void random_puts(unsigned seed, int rounds);
void wrong_puts(void);
/* sided.c: the process of the last rank, or its server, is killed while all wait; the first process aborts. */
void sided_lost(void);
void sided_aborted(void);
/* sided.c: all ranks register `in` and `out` as windows; they wait for each other by signals. */
void windows(void);
void meet(void);
/* windows.c: rank 0 registers a window alone; it frees the memory of one into which rank 1 then puts. */
void window_alone(void);
enum freed { FREED, FREED_ASYNC, OF_GRAPH_FREED_ASYNC, OF_GRAPH_FREED_BY_GRAPH, CONTEXT_RESET };
int freed_by_name(const char *mode); /* -1: it is none of them */
void window_freed(enum freed);
/* windows.c: the first rank here is in a context of its own, beside the primary one. */
void other_context(void);
/* refused.c */
void wrong(const nccl_id *);
void none(void);

#endif
