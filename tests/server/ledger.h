/* ledger.h: a fixture: a server of one tenant with a limit of memory, two sessions, and the tenant's books. */
#ifndef FLYT_TESTS_SERVER_LEDGER_H
#define FLYT_TESTS_SERVER_LEDGER_H

#include "cpu/common/tenant_ledger.h"
#include "tests/server/peer.h"

enum { MIB = 1 << 20, LIMIT = 64 * MIB, PIECE = 2 * MIB };

struct fixture {
    struct server server;
    char path[128]; /* of the books */
    const struct ledger *ledger;
    struct peer a, b;
    uint64_t idle; /* what the tenant holds before the test begins */
};

/* These assert. */
void ledger_begin(struct fixture *, const char *gpu);
void ledger_begin_with(struct fixture *, const char *gpu, const char *const *more); /* arguments of the server */
/* At the end the tenant holds nothing. */
void ledger_end(struct fixture *);
/* Bytes that the tenant holds; what several of its programs share counts once. */
uint64_t held(const struct fixture *);
/* Waits until the tenant holds this much. */
void held_becomes(const struct fixture *, uint64_t bytes);

/* Maps memory of a session, so far behind the begin of its window: all of it, or at least so much. Bytes mapped; 0: out
   of memory. */
uint64_t map(struct peer *, uint64_t offset, uint64_t size);
uint64_t map_least(struct peer *, uint64_t offset, uint64_t size, uint64_t least, bool recall);
void unmap(struct peer *, uint64_t offset, uint64_t size);

#endif
