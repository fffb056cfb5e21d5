/*
 * hostile.h: what calls with arguments by chance are made of, and the files of tests/server/hostile*.c that make them:
 *
 *   hostile.c            the rounds, and how often each subject has its turn
 *   hostile_contexts.c   contexts, their limits, devices
 *   hostile_memory.c     addresses, memory of the host, what moves, numbers for what is made next
 *   hostile_copies.c     copies, sets, prefetches
 *   hostile_streams.c    streams, events, values that streams wait for, host functions
 *   hostile_arrays.c     arrays, textures, surfaces
 *   hostile_code.c       images, modules, launches
 *   hostile_forward.c    the calls that the server only hands on, which cpu/api describes
 *
 * A new call is a case in the file of its subject, where `below` gets a larger bound. Arguments are sometimes right, so
 * that calls meet, and often wrong. All is drawn from one seed.
 */
#ifndef FLYT_TESTS_SERVER_HOSTILE_H
#define FLYT_TESTS_SERVER_HOSTILE_H

#include "tests/server/peer.h"

/* One call, or a few that belong together, of each subject. */
void hostile_contexts(struct peer *peer);
void hostile_memory(struct peer *peer);
void hostile_copies(struct peer *peer);
void hostile_streams(struct peer *peer);
void hostile_arrays(struct peer *peer);
void hostile_code(struct peer *peer);
void hostile_forward(struct peer *peer);

enum { ARRAYS = 6 };
extern struct hostile {
    uint64_t drawn;                           /* the state of the dice; never 0 */
    uint64_t arrays[ARRAYS], mipmaps[ARRAYS]; /* what the server answered: arrays and levels, mipmapped arrays */
    uint8_t payload[FLYT_MAX_INLINE];
} hostile;

static inline uint64_t any(void)
{
    hostile.drawn ^= hostile.drawn << 13;
    hostile.drawn ^= hostile.drawn >> 7;
    hostile.drawn ^= hostile.drawn << 17;
    return hostile.drawn;
}

static inline uint64_t below(uint64_t n) { return any() % n; }

/* Mostly one of a few ids, so that calls meet. */
static inline uint32_t id(uint32_t first) { return below(20) ? first + (uint32_t)below(4) : (uint32_t)any(); }

static inline uint32_t stream(void) { return below(3) ? id(64) : (uint32_t)below(3); }
static inline int device(void) { return below(20) ? 0 : (int)any(); }
/* Context 0 is the primary one, unless somebody else got that id. */
static inline uint32_t context(void) { return below(3) ? 0 : id(0); }

static inline uint64_t host_address(const struct peer *peer)
{
    uint64_t host = peer->base + peer->hello.window_size;
    switch (below(12)) {
    case 0: return any();
    case 1: return host - below(3);
    case 2: return host + peer->hello.host_size - below(3) * FLYT_HOST_GRANULE;
    default: return host + below(6) * FLYT_HOST_GRANULE + below(2) * below(100);
    }
}

static inline uint64_t host_size(void) { return below(9) ? below(4) * FLYT_HOST_GRANULE + !below(20) : any(); }

static inline uint64_t address(const struct peer *peer)
{
    if (!below(4))
        return host_address(peer);
    switch (below(12)) {
    case 0: return any();
    case 10:
    case 11: return FLYT_ARRAY_SPACE + (below(9) ? hostile.arrays[below(ARRAYS)] + below(300) : any() >> 2);
    case 1: return peer->base - below(3);
    case 2: return peer->base + peer->hello.window_size - below(3);
    default: return peer->base + below(5) * peer->granule + below(2) * below(100);
    }
}

static inline uint64_t size(const struct peer *peer)
{
    switch (below(8)) {
    case 0: return any();
    case 1: return below(3) * peer->granule;
    case 2: return 0;
    default: return below(5000);
    }
}

static inline flyt_box box(const struct peer *peer)
{
    return (flyt_box){ address(peer), below(9) ? below(3000) : any(), below(9) ? below(20) : any() };
}
static inline flyt_extent extent(void)
{
    return (flyt_extent){ below(9) ? below(1000) : any(), below(9) ? below(20) : any(), below(9) ? below(4) : any() };
}

static inline flyt_bulk bulk(uint64_t bytes)
{
    flyt_bulk data = { .kind = FLYT_BULK_INLINE };
    if (!below(20)) {
        data.kind = FLYT_BULK_LANE;
        data.flyt_bulk_u.on_lane = (flyt_on_lane){ (u_int)any(), any() };
        return data;
    }
    data.flyt_bulk_u.bytes.bytes_val = (char *)hostile.payload;
    data.flyt_bulk_u.bytes.bytes_len = (u_int)(bytes < sizeof hostile.payload ? bytes : below(100));
    return data;
}

static inline void nonsense(void *out, size_t bytes)
{
    for (uint8_t *byte = out; bytes--; byte++)
        *byte = below(3) ? 0 : (uint8_t)below(256);
}

/* Whatever the server thinks of a call, the session goes on. */
static inline void ok(enum clnt_stat status)
{
    if (status != RPC_SUCCESS)
        fail_msg("the session has ended: %s", clnt_sperrno(status));
}

#define WAIT(name, type, result_type, ...)                       \
    do {                                                         \
        type args = __VA_ARGS__;                                 \
        result_type result;                                      \
        memset(&result, 0, sizeof result);                       \
        ok(flyt_##name##_1(&args, &result, peer->stub));         \
        xdr_free((xdrproc_t)xdr_##result_type, (char *)&result); \
    } while (0)
#define SEND(name, type, ...)                         \
    do {                                              \
        type args = __VA_ARGS__;                      \
        ok(flyt_##name##_1(&args, NULL, peer->stub)); \
    } while (0)

#endif
