/*
 * lanes_in.c: bytes of copies to the device that come on lanes; see the head of lanes.c.
 *
 * The reader of a lane puts each transfer's bytes into a slot of staging memory of the session's own (LANE_WINDOW
 * slots), from where the device copies them, so a byte is moved once by the server. Bytes and calls
 * come in any order: `arrivals` knows what has come, lanes_claim hands it to the copy, and a copy that comes first
 * holds its stream (OPERATION_LATER) until the reader kicks the executor. A reader that finds no slot waits: a client
 * that keeps to the window never makes it wait, another one only holds up itself.
 */
#include "cpu/server/lanes/lane_state.h"

#include <errno.h>
#include <stdlib.h>

#include "cpu/common/lock.h"

uint64_t lanes_chunk(void) { return LANE_CHUNK; }

static struct arrival *arrival_of(struct slot *slot)
{
    return (struct arrival *)slot;                        /* its first member */
}

static struct arrival *arrival_find(struct lanes *lanes, uint32_t transfer)
{
    FLYT_ASSERT_HELD(&lanes->lock);
    for (unsigned i = 0; i < LANE_WINDOW; i++)
        if (lanes->arrivals[i].transfer == transfer)
            return &lanes->arrivals[i];
    return NULL;
}

static void arrival_free(struct lanes *lanes, struct arrival *arrival)
{
    FLYT_ASSERT_HELD(&lanes->lock);
    arrival->transfer = 0;
    arrival->received = 0;
    arrival->slot.next = lanes->unused;
    lanes->unused = &arrival->slot;
    lanes->unused_count++;
    pthread_cond_broadcast(&lanes->changed);
}

void lanes_give(struct session *session, struct slot *slot)
{
    struct lanes *lanes = session->lanes;
    pthread_mutex_lock(&lanes->lock);
    arrival_free(lanes, arrival_of(slot));
    pthread_mutex_unlock(&lanes->lock);
}

void arrivals_init(struct lanes *lanes)
{
    for (unsigned i = 0; i < LANE_WINDOW; i++) {
        lanes->arrivals[i].slot = (struct slot){ .memory = lanes->memory + (size_t)i * LANE_CHUNK, .size = LANE_CHUNK,
                                                 .next = lanes->unused };
        lanes->unused = &lanes->arrivals[i].slot;
        lanes->unused_count++;
    }
}

/* So many bytes of a transfer that nobody wants have come. */
static bool discarded_take(struct lanes *lanes, uint32_t transfer, uint64_t length)
{
    FLYT_ASSERT_HELD(&lanes->lock);
    for (unsigned i = 0; i < lanes->discarded_count; i++) {
        if (lanes->discarded[i].transfer != transfer)
            continue;
        uint64_t *left = &lanes->discarded[i].left;
        *left -= *left < length ? *left : length;
        if (!*left)
            lanes->discarded[i] = lanes->discarded[--lanes->discarded_count];
        return true;
    }
    return false;
}

struct slot *lanes_claim(struct session *session, uint32_t transfer, uint64_t size, bool *scarce)
{
    struct lanes *lanes = session->lanes;
    pthread_mutex_lock(&lanes->lock);
    struct arrival *arrival = arrival_find(lanes, transfer);
    if (arrival && (arrival->received < size || arrival->receiving))
        arrival = NULL;
    if (arrival)
        arrival->transfer = 0;
    *scarce = lanes->unused_count <= LANE_WINDOW / 2;
    pthread_mutex_unlock(&lanes->lock);
    return arrival ? &arrival->slot : NULL;
}

void lanes_discard(struct session *session, uint32_t transfer, uint64_t size)
{
    struct lanes *lanes = session->lanes;
    if (!lanes)
        return;
    pthread_mutex_lock(&lanes->lock);
    struct arrival *arrival = arrival_find(lanes, transfer);
    uint64_t come = arrival ? arrival->received : 0;
    bool full = come < size && lanes->discarded_count == LANE_DISCARDED;
    if (come < size && !full) {
        lanes->discarded[lanes->discarded_count].transfer = transfer;
        lanes->discarded[lanes->discarded_count++].left = size - come;
    }
    if (arrival && !arrival->receiving)
        arrival_free(lanes, arrival);
    pthread_mutex_unlock(&lanes->lock);
    if (full)
        session_end(session, "too many of its copies could not be made");
}

/* Another lane is bringing some of the same bytes at the moment. Under lanes.lock. */
static bool arrival_overlaps(const struct arrival *arrival, const struct rpc_lane_record *record)
{
    for (unsigned i = 0; i < arrival->receiving; i++)
        if (arrival->records[i].offset < record->offset + record->length &&
            record->offset < arrival->records[i].offset + arrival->records[i].length)
            return true;
    return false;
}

/* Where the record's bytes go. NULL: the end, or *why. */
static struct arrival *reader_place(struct lanes *lanes, const struct rpc_lane_record *record, const char **why)
{
    struct arrival *arrival = NULL;
    uint32_t transfer = record->transfer;
    pthread_mutex_lock(&lanes->lock);
    while (!lanes->stop && !(arrival = arrival_find(lanes, transfer)) && !lanes->unused)
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    if (!lanes->stop && !arrival) {
        arrival = arrival_of(lanes->unused);
        lanes->unused = arrival->slot.next;
        lanes->unused_count--;
        arrival->slot.next = NULL;
        arrival->transfer = transfer;
    }
    if (lanes->stop)
        arrival = NULL;
    if (arrival && arrival_overlaps(arrival, record)) {
        *why = "it sends the same bytes over two lanes";
        arrival = NULL;
    }
    if (arrival)
        arrival->records[arrival->receiving++] = *record;
    pthread_mutex_unlock(&lanes->lock);
    return arrival;
}

static void reader_placed(struct lanes *lanes, struct arrival *arrival, const struct rpc_lane_record *record)
{
    pthread_mutex_lock(&lanes->lock);
    unsigned mine = 0;
    while (arrival->records[mine].lane != record->lane)
        mine++;
    arrival->records[mine] = arrival->records[--arrival->receiving];
    arrival->received += record->length;
    if (discarded_take(lanes, record->transfer, record->length) && !arrival->receiving)
        arrival_free(lanes, arrival);
    pthread_mutex_unlock(&lanes->lock);
    if (atomic_load(&lanes->session->executor.deferred_calls))
        executor_kick(lanes->session);
}

int lanes_read(struct lanes *lanes, uint32_t number, rpc_channel *channel, const char **why)
{
    uint8_t head[RPC_LANE_HEAD];
    struct rpc_lane_record record;
    int status = rpc_lane_receive(channel, head, sizeof head, 0);
    if (status < 0)
        return status;
    rpc_lane_get(head, &record);
    if (lane_is_direct(number) && record.lane == number && !record.transfer && !record.offset && !record.length)
        return -ECANCELED;                                /* the last one */
    if (record.lane != number || !record.transfer || record.length > LANE_CHUNK ||
        record.offset > LANE_CHUNK - record.length) {
        *why = "what it sends on a lane is no record";
        return -EPROTO;
    }
    if (!record.length)
        return 0;
    struct arrival *arrival = reader_place(lanes, &record, why);
    if (!arrival)
        return *why ? -EPROTO : -ECANCELED;
    status = rpc_lane_receive(channel, arrival->slot.memory + record.offset, record.length, 0);
    if (status < 0)
        return status == -ENODATA ? -ECONNRESET : status;
    reader_placed(lanes, arrival, &record);
    return 0;
}
