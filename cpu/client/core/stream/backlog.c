/*
 * backlog.c: how much a stream may have under way that the server has not done.
 *
 * The server keeps what its streams cannot begin yet, but only so much for all of them together
 * (SESSION_DEFERRED_CALLS, SESSION_DEFERRED_BYTES). Then it stops reading, and no call of any thread gets through,
 * also not the copy on another stream that would let the first one go on. So a program never sends that much. A
 * stream that has a lot under way keeps the threads that give it more here, as a driver does whose queue is full;
 * everybody else goes on.
 *
 * Work is counted in units: a call is one, and each KiB that travels inside it another. A stream may have FREE units
 * under way in any case. Beyond that it takes blocks from a pool that all streams share, as long as it has fewer than
 * are left there: half of it, if it is alone. So there is always something left for another stream. The pool and the
 * FREE units of 96 streams that stand still are what the server keeps: 40 * 2048 + 96 * 512 = 131072 calls, or as
 * many KiB.
 *
 * Blocks come back when the stream's completed number shows that their units are done: places (a number, and the
 * units up to there) are noted now and then. Replies mostly carry that number anyhow. Otherwise this file
 * asks for it with a STREAM_SYNC: when a stream has many blocks, so that no thread has to wait yet, and when a thread
 * has been refused a block.
 *
 * Lock: pool.lock, a leaf. No call is sent under it.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cpu/common/lock.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/state.h"
#include "context.h"

enum { FREE = 512, BLOCK = 2048, POOL_BLOCKS = 40, ASK_AT = 8, ASK_AT_ONCE = 16 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  changed;          /* blocks have come back, or a stream has lost all that it had under way */
    unsigned        left;             /* blocks */
    struct client_stream *holders;    /* streams that have some */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .left = POOL_BLOCKS };

/* ---- what is done ---- */

static uint64_t under_way(const struct client_stream *s)
{
    return atomic_load(&s->backlog.spent) - s->backlog.confirmed.spent;
}

static void set_blocks(struct client_stream *s, unsigned blocks)
{
    struct backlog *b = &s->backlog;
    FLYT_ASSERT_HELD(&pool.lock);
    if (!b->blocks && blocks) {
        b->next = pool.holders;
        b->from = &pool.holders;
        if (b->next)
            b->next->backlog.from = &b->next;
        pool.holders = s;
    } else if (b->blocks && !blocks) {
        *b->from = b->next;
        if (b->next)
            b->next->backlog.from = b->from;
    }
    pool.left = pool.left + b->blocks - blocks;
    if (blocks < b->blocks)
        pthread_cond_broadcast(&pool.changed);
    b->blocks = blocks;
}

static void note_place(struct client_stream *s)
{
    struct backlog *b = &s->backlog;
    FLYT_ASSERT_HELD(&pool.lock);
    /* In this order: what is counted and not yet sent may be confirmed a little too early, which does no harm. */
    uint64_t spent = atomic_load(&b->spent);
    struct backlog_place place = { .number = atomic_load(&s->sent), .spent = spent };
    struct backlog_place *last = b->count ? &b->places[(b->first + b->count - 1) % BACKLOG_PLACES] : NULL;
    if (last && (b->count == BACKLOG_PLACES || last->number == place.number))
        *last = place;
    else
        b->places[(b->first + b->count++) % BACKLOG_PLACES] = place;
}

/* Takes note of what is done, and gives back what is not needed for the rest. */
static void confirm(struct client_stream *s)
{
    struct backlog *b = &s->backlog;
    uint64_t done = stream_done(s), most = atomic_load(&b->spent);
    FLYT_ASSERT_HELD(&pool.lock);
    while (b->count && b->places[b->first].number <= done) {
        b->confirmed = b->places[b->first];
        b->first = (b->first + 1) % BACKLOG_PLACES;
        b->count--;
    }
    /* Between two places each call is one unit at least. */
    if (b->count && b->places[b->first].spent < most)
        most = b->places[b->first].spent;
    if (done > b->confirmed.number) {
        uint64_t spent = b->confirmed.spent + (done - b->confirmed.number);
        b->confirmed = (struct backlog_place){ .number = done, .spent = spent < most ? spent : most };
    }
    uint64_t more = under_way(s);
    unsigned needed = more <= FREE ? 0 : (unsigned)((more - FREE + BLOCK - 1) / BLOCK);
    if (needed < b->blocks)
        set_blocks(s, needed);
    atomic_store(&b->granted, b->confirmed.spent + FREE + (uint64_t)b->blocks * BLOCK);
}

/* ---- asking ---- */

static bool usable(const struct client_stream *s)
{
    return session_ready() && !rpc_client_lost(s->context->session->client);
}

/* In any thread: all that the stream had been given when it was asked is done. */
static void answered(struct wire_call *call)
{
    struct client_stream *s =
        (struct client_stream *)(void *)((char *)call - offsetof(struct client_stream, backlog.call));
    struct backlog *b = &s->backlog;
    bool good = call->result == CORE_OK;
    xdr_free((xdrproc_t)xdr_plain_result, &b->result);
    if (good)
        stream_ended(s, b->asked_at);
    pthread_mutex_lock(&pool.lock);
    if (!good) {                              /* the stream or the connection has failed: no thread waits for it */
        b->count = 0;
        b->confirmed.spent = atomic_load(&b->spent);
    }
    confirm(s);
    b->asking = false;
    pthread_cond_broadcast(&pool.changed);
    pthread_mutex_unlock(&pool.lock);
}

static void ask(struct client_stream *s)
{
    struct backlog *b = &s->backlog;
    b->args = (stream_args){ .stream = s->wire };
    b->result = (plain_result){ 0 };
    b->asked_at = atomic_load(&s->sent);
    wire_prepare(&b->call, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &b->args, (xdrproc_t)xdr_plain_result,
                 &b->result);
    wire_submit_detached(s->context->session, &b->call, answered);
}

/* False: it is asked already. */
static bool ask_begin(struct client_stream *s)
{
    FLYT_ASSERT_HELD(&pool.lock);
    if (s->backlog.asking)
        return false;
    note_place(s);
    return s->backlog.asking = true;
}

/* The stream is refused a block: takes back what other streams do not need any more, and asks those that have some.
   Releases pool.lock meanwhile. False: nothing came back, and all of them are asked already. */
static bool reclaim(struct client_stream *s)
{
    FLYT_ASSERT_HELD(&pool.lock);
    struct client_stream *asked[ASK_AT_ONCE];
    unsigned count = 0, before = pool.left;
    if (ask_begin(s))
        asked[count++] = s;
    for (struct client_stream *other = pool.holders, *next; other; other = next) {
        next = other->backlog.next;
        confirm(other);
        if (other->backlog.blocks && count < ASK_AT_ONCE && ask_begin(other))
            asked[count++] = other;
    }
    bool changed = pool.left != before || count;
    pthread_mutex_unlock(&pool.lock);
    for (unsigned i = 0; i < count; i++)
        ask(asked[i]);
    pthread_mutex_lock(&pool.lock);
    return changed;
}

/* ---- for send.c and stream.c ---- */

void backlog_wait(struct client_stream *s)
{
    struct backlog *b = &s->backlog;
    pthread_mutex_lock(&pool.lock);
    note_place(s);
    for (;;) {
        confirm(s);
        bool room = atomic_load(&b->spent) < atomic_load(&b->granted);
        if (!room && b->blocks < pool.left) {
            set_blocks(s, b->blocks + 1);
            atomic_fetch_add(&b->granted, BLOCK);
            room = true;
        }
        if (room || !usable(s))
            break;
        if (!reclaim(s))
            pthread_cond_wait(&pool.changed, &pool.lock);
    }
    bool many = b->blocks >= ASK_AT && ask_begin(s);
    pthread_mutex_unlock(&pool.lock);
    if (many)
        ask(s);
}

bool backlog_leave(struct client_stream *s)
{
    struct backlog *b = &s->backlog;
    pthread_mutex_lock(&pool.lock);
    bool leaves = !b->asking;
    if (leaves) {
        set_blocks(s, 0);
        b->first = b->count = 0;
        b->confirmed = (struct backlog_place){ 0 };
        atomic_store(&b->spent, 0);
        atomic_store(&b->granted, FREE);
    }
    pthread_mutex_unlock(&pool.lock);
    return leaves;
}
