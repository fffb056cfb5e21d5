/* world.h: ranks that are threads of this process, and the model of what collectives give them. */
#ifndef FLYT_TESTS_COMM_WORLD_H
#define FLYT_TESTS_COMM_WORLD_H

#include "tests/lib/unit.h"

#include "cpu/comm/comm.h"
#include "cpu/common/clock.h"

enum { RANKS = 16, LIMIT_S = 60 };

static inline uint64_t in_s(unsigned s) { return clock_now() + s * CLOCK_NS_PER_SECOND; }

struct world;
struct rank {
    struct world        *world;
    unsigned             number;
    struct comm_context *context;
    char                 error[RPC_ERROR_SIZE];
    int                  status;
};
struct world {
    unsigned             size;
    struct comm_engine  *engine;
    struct comm_store   *store;
    enum comm_algorithm  algorithm;
    bool                 lazy;
    unsigned             near;                  /* so many ranks, one behind the other, meet without links; 0: none */
    struct comm_near    *places[RANKS];
    void               (*body)(struct rank *);
    void                *of;
    struct rank          ranks[RANKS];
};

extern const struct comm_settings tcp, shm;

/* Runs the body on each rank, and gives how many failed. */
unsigned run_world(struct world *, const struct comm_settings *links);
void must_succeed(struct world *, const struct comm_settings *links);

/* Element i of what a rank gives: small integers, so that sums are exact. */
int value(unsigned rank, uint64_t i);
/* What element i of `out` must be on this rank; false: nothing is said of it. */
bool expected(const struct comm_call *, unsigned rank, unsigned ranks, uint64_t i, int *want);
/* A collective of floats, compared with the model. False: r->status and r->error say why. */
bool one_call(struct rank *r, enum comm_kind kind, uint64_t count, unsigned root, unsigned misaligned);
bool one_call_within(struct rank *r, enum comm_kind kind, uint64_t count, unsigned root, unsigned misaligned,
                     unsigned ms);

#endif
