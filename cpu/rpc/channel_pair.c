/*
 * channel_pair.c: two channels joined inside one process. What one side sends is copied once, into a block,
 * and the other side's inbox adopts that block: there is no second copy, no descriptor and no system call
 * beyond the waking of a thread that sleeps.
 *
 * Each side has a queue of blocks that are on their way to it. One mutex serves both; it is held for a few
 * instructions only, never while bytes are copied.
 */
#include "cpu/rpc/channel.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Bytes on their way to one side before the other must wait; a single sending may exceed it. */
enum { QUEUE_MAX = 4 * 1024 * 1024 };

struct parcel {
    struct parcel    *next;
    struct rpc_block *block;
    size_t            size;
};

struct pair;

struct pair_channel {
    rpc_channel    base;
    struct pair   *pair;
    unsigned       side;
    pthread_cond_t change;              /* something arrived, room came, shut down, or woken */
    unsigned       sleepers;
    bool           woken;
    struct parcel *first, **last;       /* on their way to this side */
    size_t         queued;
};

struct pair {
    pthread_mutex_t     lock;
    unsigned            alive;          /* sides not destroyed */
    bool                shut;
    struct pair_channel sides[2];
};

static struct pair_channel *of(rpc_channel *channel)
{
    return (struct pair_channel *)channel;
}

static struct pair_channel *other(struct pair_channel *side)
{
    return &side->pair->sides[1 - side->side];
}

/* The lock is held. */
static void notify(struct pair_channel *side)
{
    if (side->sleepers > 0)
        pthread_cond_broadcast(&side->change);
}

static ssize_t pair_send(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct pair_channel *from = of(channel), *to = other(from);
    struct pair *pair = from->pair;

    pthread_mutex_lock(&pair->lock);
    int status = pair->shut ? -EPIPE : to->queued >= QUEUE_MAX ? -EAGAIN : 0;
    pthread_mutex_unlock(&pair->lock);
    if (status < 0)
        return status;

    size_t size = 0, at = 0;
    for (int i = 0; i < count; i++)
        size += vector[i].iov_len;
    struct parcel *parcel = malloc(sizeof *parcel);
    struct rpc_block *block = rpc_block_create(size);
    if (!parcel || !block) {
        free(parcel);
        rpc_block_release(block);
        return -ENOMEM;
    }
    for (int i = 0; i < count; i++) {
        memcpy(block->bytes + at, vector[i].iov_base, vector[i].iov_len);
        at += vector[i].iov_len;
    }
    *parcel = (struct parcel){ .block = block, .size = size };

    pthread_mutex_lock(&pair->lock);
    if (!pair->shut) {
        *to->last = parcel;
        to->last = &parcel->next;
        to->queued += size;
        notify(to);
        parcel = NULL;
    }
    pthread_mutex_unlock(&pair->lock);
    if (!parcel)
        return (ssize_t)size;
    rpc_block_release(block);
    free(parcel);
    return -EPIPE;
}

static ssize_t pair_receive(rpc_channel *channel, struct rpc_inbox *inbox)
{
    struct pair_channel *side = of(channel);
    pthread_mutex_lock(&side->pair->lock);
    struct parcel *parcel = side->first;
    ssize_t status = -EAGAIN;
    if (parcel) {
        side->first = parcel->next;
        if (!side->first)
            side->last = &side->first;
        side->queued -= parcel->size;
        notify(other(side));
    } else if (side->pair->shut) {
        status = 0;
    }
    pthread_mutex_unlock(&side->pair->lock);
    if (!parcel)
        return status;

    status = (ssize_t)parcel->size;
    if (inbox->start == inbox->end) {
        rpc_inbox_adopt(inbox, parcel->block, parcel->size);
    } else {                                /* a sender that cut a record in two: put the parts side by side */
        size_t done = 0;
        while (done < parcel->size) {
            size_t room;
            uint8_t *into = rpc_inbox_room(inbox, &room);
            if (!into || room < parcel->size - done) {
                status = into ? -EPROTO : -ENOMEM;
                break;
            }
            memcpy(into, parcel->block->bytes + done, parcel->size - done);
            rpc_inbox_received(inbox, parcel->size - done);
            done = parcel->size;
        }
        rpc_block_release(parcel->block);
    }
    free(parcel);
    return status;
}

/* What poll would give now. The lock is held. */
static int ready(struct pair_channel *side, int events, bool wakeable)
{
    int result = 0;
    if (side->first || side->pair->shut)
        result |= events & POLLIN;
    if (other(side)->queued < QUEUE_MAX || side->pair->shut)
        result |= events & POLLOUT;
    if (wakeable && side->woken) {
        side->woken = false;
        result |= RPC_CHANNEL_WOKEN;
    }
    return result;
}

static int pair_poll(rpc_channel *channel, int events, int timeout_ms, bool wakeable)
{
    struct pair_channel *side = of(channel);
    struct timespec deadline = { 0 };
    if (timeout_ms > 0)
        deadline = clock_timespec(clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS);
    pthread_mutex_lock(&side->pair->lock);
    int result, status = 0;
    side->sleepers++;
    while ((result = ready(side, events, wakeable)) == 0 && status == 0 && timeout_ms != 0) {
        if (timeout_ms < 0)
            pthread_cond_wait(&side->change, &side->pair->lock);
        else
            status = pthread_cond_timedwait(&side->change, &side->pair->lock, &deadline);
    }
    side->sleepers--;
    pthread_mutex_unlock(&side->pair->lock);
    return result;
}

static void pair_wake(rpc_channel *channel)
{
    struct pair_channel *side = of(channel);
    pthread_mutex_lock(&side->pair->lock);
    side->woken = true;
    notify(side);
    pthread_mutex_unlock(&side->pair->lock);
}

static void pair_shutdown(rpc_channel *channel)
{
    struct pair *pair = of(channel)->pair;
    pthread_mutex_lock(&pair->lock);
    pair->shut = true;
    notify(&pair->sides[0]);
    notify(&pair->sides[1]);
    pthread_mutex_unlock(&pair->lock);
}

static void free_queue(struct pair_channel *side)
{
    while (side->first) {
        struct parcel *parcel = side->first;
        side->first = parcel->next;
        rpc_block_release(parcel->block);
        free(parcel);
    }
    side->last = &side->first;
}

static void pair_destroy(rpc_channel *channel)
{
    struct pair *pair = of(channel)->pair;
    pair_shutdown(channel);
    pthread_mutex_lock(&pair->lock);
    bool last = --pair->alive == 0;
    pthread_mutex_unlock(&pair->lock);
    if (!last)
        return;
    for (unsigned i = 0; i < 2; i++) {
        free_queue(&pair->sides[i]);
        pthread_cond_destroy(&pair->sides[i].change);
    }
    pthread_mutex_destroy(&pair->lock);
    free(pair);
}

static void pair_abandon(rpc_channel *channel)
{
    (void)channel;                          /* its lock may be held by a thread that the child does not have */
}

static const struct rpc_channel_operations pair_operations = {
    .send = pair_send, .receive = pair_receive, .poll = pair_poll, .wake = pair_wake,
    .shutdown = pair_shutdown, .destroy = pair_destroy, .abandon = pair_abandon,
};

int rpc_channel_pair(rpc_channel *out[2], char *error)
{
    struct pair *pair = calloc(1, sizeof *pair);
    pthread_condattr_t monotonic;
    if (!pair || pthread_condattr_init(&monotonic) != 0) {
        free(pair);
        return rpc_explain(error, -ENOMEM, "no memory for a connection inside the process");
    }
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pair->lock, NULL);
    pair->alive = 2;
    for (unsigned i = 0; i < 2; i++) {
        struct pair_channel *side = &pair->sides[i];
        side->base.operations = &pair_operations;
        atomic_init(&side->base.transport, "local");
        atomic_init(&side->base.direct, false);
        side->pair = pair;
        side->side = i;
        side->last = &side->first;
        pthread_cond_init(&side->change, &monotonic);
        out[i] = &side->base;
    }
    pthread_condattr_destroy(&monotonic);
    return 0;
}
