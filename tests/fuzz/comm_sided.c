/*
 * comm_sided: a fuzz target for what ranks say of one-sided operations (cpu/comm/sides.c, window.c, sided_head.c), in
 * whichever order with what this rank does. The input is a script. Each step begins with a byte that says what is done:
 *   0  u8 rank, u8 kind, u8 window, u16 offset, u16 size, u8 more: a message comes, with a head that says this, and as
 *      many bytes as belong behind it, or `more` others
 *   1  u8 rank, u8 n: a message of the next n bytes comes as they are
 *   2  u8 rank, u8 how: the bytes of the put under way come, or the way there fails
 *   3  u16 size: this rank registers a window; 4: u8 window: it removes one
 *   5  u8 which, u8 how: a message that announces a window is complete, or fails
 *   6  u8 window: its memory goes, or is there again
 *   7  u8 rank, u8 count: signals of the rank are waited for, that are there
 * Bytes come only into a window that is registered, and has not been removed or lost its memory. In the end nothing is
 * left.
 */
#include "cpu/comm/sides.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, OTHERS = RANKS - 1, AREA = 8192, WINDOWS = 64, POSTS = WINDOWS * OTHERS };

static struct {
    struct comm_context context;
    struct comm_peer peers[RANKS];
} the;
static uint8_t guarded[3 * AREA];                          /* all windows are in the middle */
static struct comm_transfer *receives[RANKS];
static struct comm_transfer *announcements[POSTS];
static unsigned announced;
static int registrations;
static bool gone[WINDOWS + 1], registered[WINDOWS + 1];

static void need(bool holds)
{
    if (!holds)
        abort();
}

/* ---- what they need of the rest of cpu/comm ---- */

int comm_peer_receive(struct comm_context *c, unsigned peer, struct comm_transfer *t)
{
    need(!receives[peer]);
    if (c->status < 0)
        return c->status;
    receives[peer] = t;
    return 0;
}

int comm_peer_send(struct comm_context *c, unsigned peer, struct comm_transfer *t)
{
    (void)peer;
    if (c->status < 0)
        return c->status;
    need(announced < POSTS);
    announcements[announced++] = t;
    return 0;
}

int comm_peer_status(struct comm_context *c, unsigned peer)
{
    (void)peer;
    return c->status;
}

void comm_context_fail(struct comm_context *c, int status, const char *why)
{
    need(status < 0 && *why);
    c->status = c->status ? c->status : status;
}

void comm_context_abort(struct comm_context *c, int status, const char *why) { comm_context_fail(c, status, why); }

int comm_context_status(struct comm_context *c, char *error)
{
    (void)error;
    return c->status;
}

int comm_context_register(struct comm_context *c, const void *memory, uint64_t size)
{
    (void)c;
    need(memory && size);
    registrations++;
    return 0;
}

void comm_context_unregister(struct comm_context *c, const void *memory, uint64_t size)
{
    (void)c;
    need(memory && size && registrations-- > 0);
}

int comm_engine_unregister(struct comm_engine *engine, const void *memory, uint64_t size)
{
    (void)engine, (void)memory, (void)size;
    abort(); /* the context has no engine */
}

int rpc_explain(char *error, int status, const char *format, ...)
{
    (void)error, (void)format;
    return status;
}

/* ---- steps ---- */

static const uint8_t *next;
static size_t left;

static unsigned take(unsigned bytes)
{
    unsigned value = 0;
    for (; bytes > 0; bytes--, left -= left > 0)
        value = value << 8 | (left ? *next++ : 0);
    return value;
}

static bool look(const void *of, void *memory, uint64_t size, bool written)
{
    const unsigned number = (unsigned)((const bool *)of - gone);
    need(registered[number]);
    need((uint8_t *)memory >= guarded + AREA && size <= AREA &&
         (uint64_t)((uint8_t *)memory - guarded - AREA) <= AREA - size);
    (void)written;
    return !gone[number];
}

/* The receive is complete. */
static void deliver(unsigned rank, const uint8_t *bytes, uint64_t size, int status)
{
    struct comm_transfer *t = receives[rank];
    receives[rank] = NULL;
    const bool fits = size == t->size || (t->any_size && size < t->size);
    t->known = true;
    t->peer_size = size;
    t->status = status < 0 ? status : fits ? 0 : -EMSGSIZE;
    if (t->status == 0 && size)
        memcpy(t->memory, bytes, size);
    t->done(t);
}

static void message(unsigned rank, unsigned step)
{
    static uint8_t bytes[COMM_SIDED_HEAD + COMM_SIDED_INLINE + 300];
    uint64_t size;
    if (!receives[rank] || !receives[rank]->any_size)
        return;
    memset(bytes, 0x66, sizeof bytes);
    if (step == 0) {
        const struct comm_sided_head head = { .kind = (enum comm_sided_kind)take(1), .window = take(1),
                                              .offset = take(2), .size = take(2) };
        const unsigned more = take(1);
        comm_sided_head_put(bytes, &head);
        size = COMM_SIDED_HEAD;
        if (head.kind == COMM_SIDED_PUT && head.size <= COMM_SIDED_INLINE)
            size += head.size;
        size += more > 250 ? more : 0;
    } else {
        for (size = take(1); size > 0 && left < size; size--)
            ;
        memcpy(bytes, next, size);
        next += size;
        left -= size;
    }
    deliver(rank, bytes, size, 0);
}

static void bytes_come(unsigned rank, unsigned how)
{
    static uint8_t bytes[65536];
    if (!receives[rank] || (receives[rank]->any_size && how < 240))
        return;
    deliver(rank, bytes, receives[rank]->any_size ? 0 : receives[rank]->size, how < 240 ? 0 : -ECONNRESET);
}

static void window_add(struct comm_context *c)
{
    const unsigned number = c->sides->registered + 1, size = take(2) % AREA + 1;
    uint32_t given;
    char error[1024];
    if (number > WINDOWS)
        return;
    registered[number] = true;
    const struct comm_window mine = { guarded + AREA, size, look, &gone[number] };
    if (comm_window_add(c, &mine, &given, error) < 0)
        registered[number] = false;
    else
        need(given == number);
}

static void announcement_over(unsigned which, int status)
{
    struct comm_transfer *t = announcements[which];
    announcements[which] = announcements[--announced];
    t->status = status;
    t->done(t);
}

static void step(struct comm_context *c)
{
    const unsigned what = take(1) % 8, one = what == 3 ? 0 : take(1), rank = 1 + one % OTHERS;
    uint64_t sizes[RANKS];
    switch (what) {
    case 0:
    case 1: message(rank, what); break;
    case 2: bytes_come(rank, take(1)); break;
    case 3: window_add(c); break;
    case 4:
        if (comm_window_remove(c, one) == 0)
            registered[one % (WINDOWS + 1)] = false;
        break;
    case 5:
        if (announced)
            announcement_over(one % announced, take(1) < 250 ? 0 : -ESHUTDOWN);
        break;
    case 6: gone[one % (WINDOWS + 1)] ^= true; break;
    default: comm_window_sizes(c, one, sizes, NULL); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct comm_context *c = &the.context;
    memset(&the, 0, sizeof the);
    memset(guarded, 0xee, sizeof guarded);
    memset(gone, 0, sizeof gone);
    memset(registered, 0, sizeof registered);
    c->settings.size = RANKS;
    for (unsigned r = 1; r < RANKS; r++)
        c->peers[r].near = true;
    pthread_mutex_init(&c->lock, NULL);
    next = data;
    left = size;
    need(comm_sided_begin(c) == 0);
    while (left > 0)
        step(c);
    for (unsigned i = 0; i < AREA; i++)
        need(guarded[i] == 0xee && guarded[2 * AREA + i] == 0xee);
    comm_context_fail(c, -ECANCELED, "the end");
    while (announced)
        announcement_over(0, -ECANCELED);
    for (unsigned r = 1; r < RANKS; r++)
        if (receives[r])
            deliver(r, NULL, 0, -ECANCELED);
    comm_sided_end(c);
    comm_sides_drop(c->sides);
    pthread_mutex_destroy(&c->lock);
    need(registrations == 1); /* that of the messages, which is the engine's, and the context has none */
    registrations = 0;
    return 0;
}
