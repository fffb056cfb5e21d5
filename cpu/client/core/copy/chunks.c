/*
 * chunks.c: the pieces of shared host memory through which the bytes of ordinary memory pass.
 *
 * To the device, a chunk is filled, named by a COPY, and free again when the device has stored 1 in its mark: no
 * message, no thread of the server's in between. From the device, it belongs to whoever waits for its COPY_WAITED.
 *
 * They are used in turn. To write a line that the other side's processor has just read costs a round trip between the
 * two, so the chunk that fell free last is the slowest one (64 KiB: 10 us, against 3 us in turn); what has gone from
 * the others' own caches into the common one costs none. So there are so many turns that ROUND_BYTES lie between two
 * uses of a line, and no more than that, or they would go from the common one too. Turns are added one by one: each
 * costs new pages when it is first used, which a program with few copies need not pay.
 *
 * A stream that is held can keep chunks for any time, so nobody waits for one for ever: after WAIT_NS in vain the
 * bytes go inside the call, and until a chunk has come back nobody waits again.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/memory/host.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/state.h"

enum { CHUNKS = 31, MARK_STRIDE = 128, SERVE_LEAST = 16 * 1024, USES_PER_TURN = 4,
       ROUND_BYTES = 2 << 20 };           /* two processors' own caches of 1 MiB */
#define WAIT_NS UINT64_C(1000000)

static struct {
    pthread_mutex_t lock;
    struct chunk    chunks[CHUNKS];
    unsigned        turn;                 /* whose turn it is */
    uint64_t        uses;
    bool            made;
    atomic_bool     refused, stalled;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool chunks_serve(size_t size)
{
    return size >= SERVE_LEAST && host_space_any() && !journal_on();     /* which has what goes inside the calls */
}

/* The marks come first, then the chunks. */
static bool make(void)
{
    FLYT_ASSERT_HELD(&pool.lock);
    if (pool.made || pool.refused)
        return pool.made;
    uint64_t at = host_space_take((CHUNKS + 1) * (size_t)CHUNK_SIZE);
    pool.refused = !at;
    for (int i = 0; i < CHUNKS && at; i++) {
        pool.chunks[i].address = at + (uint64_t)(i + 1) * CHUNK_SIZE;
        pool.chunks[i].mark = (_Atomic uint32_t *)(uintptr_t)(at + (uint64_t)i * MARK_STRIDE);
    }
    pool.made = at != 0;
    return pool.made;
}

static bool available(struct chunk *chunk)
{
    FLYT_ASSERT_HELD(&pool.lock);
    /* acquire: the device has read the chunk before we write to it again */
    if (chunk->state != CHUNK_SENT || !atomic_load_explicit(chunk->mark, memory_order_acquire))
        return chunk->state == CHUNK_SPARE;
    chunk->state = CHUNK_SPARE;
    atomic_store_explicit(&pool.stalled, false, memory_order_relaxed);
    return true;
}

/* How many take turns, for so many bytes in each. */
static unsigned turns(size_t size)
{
    FLYT_ASSERT_HELD(&pool.lock);
    size_t most = ROUND_BYTES / (size < SERVE_LEAST ? SERVE_LEAST : size < CHUNK_SIZE ? size : CHUNK_SIZE);
    uint64_t grown = 1 + pool.uses / USES_PER_TURN;
    most = most < CHUNKS ? most : CHUNKS;
    return most < grown ? (unsigned)most : (unsigned)grown;
}

/* The next whose turn it is, or any other. */
static struct chunk *try_take(size_t size)
{
    pthread_mutex_lock(&pool.lock);
    struct chunk *chunk = NULL;
    unsigned count = make() ? turns(size) : 0, next = pool.turn + 1 < count ? pool.turn + 1 : 0;
    for (unsigned i = 0; count && i < CHUNKS && !chunk; i++) {
        unsigned at = i < count ? (next + i) % count : i;
        if (available(&pool.chunks[at])) {
            chunk = &pool.chunks[at];
            chunk->state = CHUNK_HELD;
            pool.turn = at;
            pool.uses++;
        }
    }
    pthread_mutex_unlock(&pool.lock);
    return chunk;
}

struct chunk *chunk_take(size_t size, bool may_wait)
{
    struct chunk *chunk = try_take(size);
    if (chunk || !may_wait || pool.refused || atomic_load_explicit(&pool.stalled, memory_order_relaxed))
        return chunk;
    rpc_client_flush(core_session.client);    /* nothing that we wait for may lie in a batch */
    for (uint64_t until = clock_now() + WAIT_NS; !chunk && clock_now() < until; chunk = try_take(size))
        sched_yield();
    if (!chunk)
        atomic_store_explicit(&pool.stalled, true, memory_order_relaxed);
    return chunk;
}

void chunk_send(struct chunk *chunk, core_context *context)
{
    atomic_store_explicit(chunk->mark, 0, memory_order_relaxed);      /* the call carries it over */
    pthread_mutex_lock(&pool.lock);
    chunk->context = context;
    chunk->state = CHUNK_SENT;
    pthread_mutex_unlock(&pool.lock);
}

void chunk_give(struct chunk *chunk)
{
    pthread_mutex_lock(&pool.lock);
    chunk->state = CHUNK_SPARE;
    pthread_mutex_unlock(&pool.lock);
}

void chunks_forget_context(core_context *context)
{
    pthread_mutex_lock(&pool.lock);
    for (unsigned i = 0; i < CHUNKS; i++)
        if (pool.chunks[i].state == CHUNK_SENT && pool.chunks[i].context == context)
            pool.chunks[i].state = CHUNK_SPARE;
    atomic_store_explicit(&pool.stalled, false, memory_order_relaxed);
    pthread_mutex_unlock(&pool.lock);
}
