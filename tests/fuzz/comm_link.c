/*
 * comm_link: a fuzz target for what a peer says on the channels of a link (cpu/comm/link/in.c, out.c), in whichever
 * order with the transfers that are posted here. The input is a script. Each step begins with a byte that says what is
 * done:
 *   0  u8 channel, u8 n: the next n bytes come on it as they are
 *   1  u8 channel, u8 kind, u8 flags, u8 space, u8 number, u32 length, u32 offset, u32 total, u16 extra: a record, and
 *      the bytes that follow it
 *   2  u8 number, u32 size: a receive is posted; 3: a send
 *   4  u8 channel, u8 n: the next n sends on it find no room
 * After each step the link's counts agree with what it keeps.
 */
#include "cpu/comm/link/link_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 4, POSTS = 64, POST_MOST = 200 * 1024 };

struct fake { rpc_channel base; const uint8_t *bytes; size_t size; unsigned full; };

static struct fake fakes[CHANNELS];
static struct comm_engine *engine;
static struct comm_link *the_link;
static struct post { struct comm_transfer t; bool used; } posts[POSTS];

static ssize_t fake_send(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct fake *f = (struct fake *)channel;
    size_t size = 0;
    volatile uint8_t sum = 0;
    if (f->full) {
        f->full--;
        return -EAGAIN;
    }
    for (int i = 0; i < count; i++) {
        size += vector[i].iov_len;
        for (size_t at = 0; at < vector[i].iov_len; at++)
            sum ^= ((const uint8_t *)vector[i].iov_base)[at];
    }
    return (ssize_t)size;
}

static ssize_t fake_receive(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct fake *f = (struct fake *)channel;
    size_t total = 0;
    for (int i = 0; i < count && f->size; i++) {
        size_t part = f->size < vector[i].iov_len ? f->size : vector[i].iov_len;
        memcpy(vector[i].iov_base, f->bytes, part);
        f->bytes += part;
        f->size -= part;
        total += part;
    }
    return total ? (ssize_t)total : -EAGAIN;
}

static void fake_nothing(rpc_channel *channel) { (void)channel; }
static int fake_descriptor(const rpc_channel *channel) { (void)channel; return -1; }

static const struct rpc_channel_operations fake_operations = {
    .send = fake_send, .receive_into = fake_receive, .descriptor = fake_descriptor, .shutdown = fake_nothing,
    .destroy = fake_nothing,
};

static void posted_done(struct comm_transfer *t)
{
    struct post *post = t->context;
    if (!post->used)
        abort();
    post->used = false;
    free(t->memory);
}

static void begin(void)
{
    engine = calloc(1, sizeof *engine);
    engine->thread_count = engine->nic_count = 1;
    engine->threads[0].engine = engine;
    engine->threads[0].stop = true;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->threads[0].lock, NULL);
    pthread_cond_init(&engine->threads[0].changed, NULL);
    comm_memory_begin(&engine->memory);
    if (comm_link_create(engine, NULL, &the_link, NULL) != 0)
        abort();
    for (unsigned i = 0; i < CHANNELS; i++) {
        fakes[i] = (struct fake){ .base = { .operations = &fake_operations } };
        the_link->channels[i].wire = &fakes[i].base;
    }
    the_link->count = CHANNELS;
    the_link->stage = LINK_JOINED;
}

static void end(void)
{
    pthread_mutex_lock(&the_link->lock);
    comm_link_fail(the_link, -ECANCELED, "over");
    pthread_mutex_unlock(&the_link->lock);
    comm_link_close(the_link);
    for (unsigned i = 0; i < POSTS; i++)
        if (posts[i].used)
            abort();
    comm_memory_end(&engine->memory);
    free(engine);
}

static void check(void)
{
    uint64_t ready = 0, early = 0;
    unsigned asks = 0;
    pthread_mutex_lock(&the_link->lock);
    for (struct list *one = list_first(&the_link->ready); one; one = list_next(&the_link->ready, one)) {
        const struct comm_transfer *t = LIST_OBJECT(one, struct comm_transfer, queued);
        ready += (t->clear || t->size < COMM_EAGER ? t->size : COMM_EAGER) - t->next;
    }
    for (struct tree_node *n = tree_first(&the_link->arrivals); n; n = tree_next(&the_link->arrivals, n)) {
        const struct comm_arrival *a = TREE_OBJECT(n, struct comm_arrival, node);
        early += a->cost;
        asks += !a->has_data;
    }
    if (the_link->status == 0 && (ready != the_link->ready_bytes || the_link->early_out > COMM_EARLY))
        abort();
    if (early != the_link->early_in || early > COMM_EARLY || asks != the_link->ask_count ||
        the_link->clear_count > CLEARS_MOST)
        abort();
    pthread_mutex_unlock(&the_link->lock);
}

static void come(unsigned channel, const uint8_t *bytes, size_t size)
{
    fakes[channel].bytes = bytes;
    fakes[channel].size = size;
    comm_in_take(&the_link->channels[channel]);
    for (unsigned i = 0; i < CHANNELS; i++)
        comm_out_push(&the_link->channels[i], 1 << 20);
    comm_link_deliver(the_link);
}

static uint32_t number(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void come_record(const uint8_t *at)
{
    static uint8_t whole[RECORD_SIZE + COMM_CHUNK];
    unsigned channel = at[0] % CHANNELS;
    struct comm_record r = { .kind = (uint8_t)(at[1] % (RECORD_HEARD + 2)), .flags = at[2], .channel = at[0] % 6,
                             .name = { at[3] % 2, at[4] % 16 }, .length = number(at + 5) % (COMM_CHUNK + 2),
                             .offset = number(at + 9) % POST_MOST, .total = number(at + 13) % POST_MOST,
                             .extra = (uint64_t)at[17] << 8 | at[18] };
    if (r.kind == RECORD_DATA && r.length > POST_MOST)
        r.length %= POST_MOST;
    if (r.kind != RECORD_DATA && r.kind != RECORD_ABORT)
        r.length %= COMM_WINDOW + 2;
    size_t body = r.kind == RECORD_DATA || r.kind == RECORD_ABORT ? r.length : 0;
    body = body < COMM_CHUNK ? body : COMM_CHUNK;
    comm_record_put(whole, &r);
    come(channel, whole, RECORD_SIZE + body);
}

static void post(bool send, const uint8_t *at)
{
    struct post *p = NULL;
    for (unsigned i = 0; i < POSTS && !p; i++)
        p = posts[i].used ? NULL : &posts[i];
    if (!p)
        return;
    uint64_t size = number(at + 1) % POST_MOST;
    p->t = (struct comm_transfer){ .name = { 0, at[0] % 16 }, .memory = malloc(size ? size : 1), .size = size,
                                   .any_size = at[0] & 128, .done = posted_done, .context = p };
    memset(p->t.memory, 1, size);
    p->used = true;
    if ((send ? comm_link_send : comm_link_receive)(the_link, &p->t) != 0)
        posted_done(&p->t);
    comm_link_deliver(the_link);
}

/* How many bytes the step takes; 0: there are too few. */
static size_t step(const uint8_t *bytes, size_t size)
{
    switch (bytes[0] % 5) {
    case 0:
        if (size < 3 || size < 3u + bytes[2])
            return 0;
        come(bytes[1] % CHANNELS, bytes + 3, bytes[2]);
        return 3u + bytes[2];
    case 1:
        if (size < 20)
            return 0;
        come_record(bytes + 1);
        return 20;
    case 4:
        if (size < 3)
            return 0;
        fakes[bytes[1] % CHANNELS].full = bytes[2];
        return 3;
    default:
        if (size < 6)
            return 0;
        post(bytes[0] % 5 == 3, bytes + 1);
        return 6;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    begin();
    for (size_t taken; size && the_link->status == 0 && (taken = step(bytes, size)) != 0; bytes += taken, size -= taken)
        check();
    end();
    return 0;
}
