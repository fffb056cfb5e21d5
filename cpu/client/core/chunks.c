/*
 * chunks.c: the pieces of shared host memory through which the bytes of ordinary memory pass.
 *
 * To the device, a chunk is filled, named by a COPY, and free again when the device has stored 1 in its mark: no message, no
 * thread of the server's in between. From the device, it belongs to whoever waits for its COPY_WAITED. The chunk that fell free
 * last is used first: it is still in a cache.
 *
 * A stream that is held can keep chunks for any time, so nobody waits for one for ever: after PATIENCE_NS in vain the bytes go
 * inside the call, and until a chunk has come back nobody waits again.
 */
#include <sched.h>

#include "cpu/common/clock.h"
#include "host.h"

enum { CHUNKS = 31, MARK_STRIDE = 128, SERVE_LEAST = 16 * 1024 };
#define PATIENCE_NS UINT64_C(1000000)

static struct {
    pthread_mutex_t lock;
    struct chunk    chunks[CHUNKS];
    struct chunk   *spare;            /* a stack */
    struct chunk   *sent, **last;     /* in the order sent */
    bool            made;
    atomic_bool     refused, stalled;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .last = &pool.sent };

bool chunks_serve(size_t size)
{
    return size >= SERVE_LEAST && host_space_any();
}

/* The marks come first, then the chunks. The lock is held. */
static bool make(void)
{
    if (pool.made || pool.refused)
        return pool.made;
    uint64_t at = host_space_take((CHUNKS + 1) * (size_t)CHUNK_SIZE);
    pool.refused = !at;
    for (int i = 0; i < CHUNKS && at; i++) {
        struct chunk *chunk = &pool.chunks[CHUNKS - 1 - i];
        chunk->address = at + (uint64_t)(i + 1) * CHUNK_SIZE;
        chunk->mark = (_Atomic uint32_t *)(uintptr_t)(at + (uint64_t)i * MARK_STRIDE);
        chunk->next = pool.spare;
        pool.spare = chunk;
    }
    pool.made = at != 0;
    return pool.made;
}

static bool back(const struct chunk *chunk)
{
    /* acquire: the device has read the chunk before we write to it again */
    return atomic_load_explicit(chunk->mark, memory_order_acquire) != 0;
}

/* Takes those that have come back off the list of the sent ones; all: also behind one that has not. The lock is held. */
static void collect(bool all)
{
    for (struct chunk **at = &pool.sent; *at;) {
        struct chunk *chunk = *at;
        if (!back(chunk)) {
            if (!all)
                return;
            at = &chunk->next;
            continue;
        }
        *at = chunk->next;
        if (!*at)
            pool.last = at;
        chunk->next = pool.spare;
        pool.spare = chunk;
        atomic_store_explicit(&pool.stalled, false, memory_order_relaxed);
    }
}

static struct chunk *try_take(void)
{
    pthread_mutex_lock(&pool.lock);
    struct chunk *chunk = NULL;
    if (make()) {
        collect(false);
        if (!pool.spare)
            collect(true);
        if ((chunk = pool.spare))
            pool.spare = chunk->next;
    }
    pthread_mutex_unlock(&pool.lock);
    return chunk;
}

struct chunk *chunk_take(bool patience)
{
    struct chunk *chunk = try_take();
    if (chunk || !patience || pool.refused || atomic_load_explicit(&pool.stalled, memory_order_relaxed))
        return chunk;
    rpc_client_flush(core_session.client);    /* nothing that we wait for may lie in a batch */
    for (uint64_t until = clock_now() + PATIENCE_NS; !chunk && clock_now() < until; chunk = try_take())
        sched_yield();
    if (!chunk)
        atomic_store_explicit(&pool.stalled, true, memory_order_relaxed);
    return chunk;
}

void chunk_send(struct chunk *chunk, int device)
{
    atomic_store_explicit(chunk->mark, 0, memory_order_relaxed);      /* the call carries it over */
    chunk->device = device;
    chunk->next = NULL;
    pthread_mutex_lock(&pool.lock);
    *pool.last = chunk;
    pool.last = &chunk->next;
    pthread_mutex_unlock(&pool.lock);
}

void chunk_give(struct chunk *chunk)
{
    pthread_mutex_lock(&pool.lock);
    chunk->next = pool.spare;
    pool.spare = chunk;
    pthread_mutex_unlock(&pool.lock);
}

void chunks_forget_device(int device)
{
    pthread_mutex_lock(&pool.lock);
    for (struct chunk *chunk = pool.sent; chunk; chunk = chunk->next)
        if (chunk->device == device)
            atomic_store_explicit(chunk->mark, 1, memory_order_relaxed);
    collect(true);
    pthread_mutex_unlock(&pool.lock);
}
