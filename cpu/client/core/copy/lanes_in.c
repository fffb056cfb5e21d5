/* lanes_in.c: large copies to the device; see the head of lanes.c. */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "copy_calls.h"
#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "lane_state.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/stream/context.h"

/* ---- credit ---- */

/* NULL: too many streams have some. */
static struct held *held_by(const struct client_stream *stream)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    struct held *none = NULL;
    for (unsigned i = 0; i < sizeof lanes.held / sizeof lanes.held[0]; i++) {
        if (lanes.held[i].count && lanes.held[i].stream == stream)
            return &lanes.held[i];
        if (!lanes.held[i].count)
            none = &lanes.held[i];
    }
    if (none)
        none->stream = stream;
    return none;
}

static bool credit_take(const struct client_stream *stream, enum lanes_wait wait)
{
    struct timespec until = clock_timespec(clock_now() + LANES_CREDIT_MS * CLOCK_NS_PER_MS);
    bool timed_out = false, taken = false;
    pthread_mutex_lock(&lanes.lock);
    for (;;) {
        struct held *held = held_by(stream);
        if (held && lanes.free && (held->count < lanes.free || !held->count)) {
            held->count++;
            lanes.free--;
            taken = true;
            break;
        }
        if (wait == LANES_WAIT_NEVER || timed_out || lanes_gone())
            break;
        if (wait == LANES_WAIT && held && held->count)
            pthread_cond_wait(&lanes.changed, &lanes.lock);
        else
            timed_out = pthread_cond_clockwait(&lanes.changed, &lanes.lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    }
    pthread_mutex_unlock(&lanes.lock);
    return taken;
}

static void credit_give(const struct client_stream *stream, unsigned count)
{
    pthread_mutex_lock(&lanes.lock);
    for (unsigned i = 0; i < sizeof lanes.held / sizeof lanes.held[0]; i++)
        if (lanes.held[i].count && lanes.held[i].stream == stream) {
            lanes.held[i].count -= count < lanes.held[i].count ? count : lanes.held[i].count;
            break;
        }
    lanes.free += count;
    if (lanes.free > lanes.window)
        lanes.free = lanes.window;
    pthread_cond_broadcast(&lanes.changed);
    pthread_mutex_unlock(&lanes.lock);
}

/* A STREAM_SYNC whose answer gives `count` back. */
struct lane_batch {
    struct wire_call     wire;
    stream_args          args;
    plain_result         result;
    const struct client_stream *stream;
    unsigned             count;
};

static void batch_arrived(struct wire_call *call)
{
    struct lane_batch *batch = (struct lane_batch *)call; /* wire is the first member */
    credit_give(batch->stream, batch->count);
    xdr_free((xdrproc_t)xdr_plain_result, &batch->result);
    free(batch);
}

static void batch_prepare(struct lane_batch *batch, const struct client_stream *stream, unsigned count)
{
    *batch = (struct lane_batch){ .args = { .stream = stream->wire }, .stream = stream, .count = count };
    wire_prepare(&batch->wire, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &batch->args, (xdrproc_t)xdr_plain_result,
                 &batch->result);
}

/* ---- to the device ---- */

enum { RING = 32, PUSHED = 64 };

struct client_record {
    struct client_lane *lane;
    struct copy_span part;
    struct host_rows from;
    flyt_on_lane     data;
    uint8_t         head[RPC_LANE_HEAD];
    size_t          done;             /* bytes of head and rows that are in the socket */
};

/* A transfer whose bytes are in the socket, and whose call has not been sent. */
struct pushed {
    struct client_lane *lane;
    uint64_t end;
    struct copy_span part;
    flyt_on_lane data;
};

/* A copy to the device under way. */
struct sending {
    struct client_stream *stream;
    struct client_record records[FLYT_MAX_LANES];
    unsigned       count;
    struct pushed  pushed[PUSHED];
    unsigned       pushed_begun, pushed_ended;
    struct lane_batch ring[RING]; /* those whose answer this thread waits for */
    unsigned       begun, ended;
    unsigned       unasked;           /* transfers sent whose credit has not been asked back */
    struct copy_cut *left;            /* what is not begun */
    enum lanes_wait wait;
    bool           dead;              /* the connection is lost */
    int            code;
};

/* A lane that nobody sends on, and that is ours now. */
static struct client_lane *lane_grab(bool wait)
{
    for (;;) {
        unsigned used = atomic_load(&lanes.used), turn = atomic_fetch_add(&lanes.turn, 1);
        if (!used)
            return NULL;
        for (unsigned i = 0; i < used; i++) {
            struct client_lane *lane = &lanes.lanes[(turn + i) % used];
            if (pthread_mutex_trylock(&lane->sending) == 0) {
                if (lane->number <= atomic_load(&lanes.used))
                    return lane;
                pthread_mutex_unlock(&lane->sending);
            }
        }
        if (!wait)
            return NULL;
        struct client_lane *lane = &lanes.lanes[turn % used];
        pthread_mutex_lock(&lane->sending);
        if (lane->number <= atomic_load(&lanes.used))
            return lane;
        pthread_mutex_unlock(&lane->sending);
    }
}

/* The oldest answer about credit that this thread has asked for. */
static void sending_wait(struct sending *s)
{
    struct lane_batch *batch = &s->ring[s->ended++ % RING];
    int code = wire_wait(&batch->wire);
    credit_give(s->stream, batch->count);
    xdr_free((xdrproc_t)xdr_plain_result, &batch->result);
    if (!s->code)
        s->code = code;
}

/* Sends for the credit of what was sent. Near the end nobody waits for the answer. */
static void sending_ask(struct sending *s)
{
    bool waited = s->wait == LANES_WAIT && s->left->bytes > lanes.window / 2 * lanes.chunk &&
                  s->begun - s->ended < RING;
    struct lane_batch *batch = waited ? &s->ring[s->begun % RING] : malloc(sizeof *batch);
    unsigned count = s->unasked;
    s->unasked = 0;
    if (!batch) {                             /* then wait for it here and now */
        int code = stream_wait_for(s->stream);
        credit_give(s->stream, count);
        if (!s->code)
            s->code = code;
        return;
    }
    batch_prepare(batch, s->stream, count);
    if (waited) {
        s->begun++;
        wire_submit(s->stream->context->session, &batch->wire);
    } else {
        wire_submit_detached(s->stream->context->session, &batch->wire, batch_arrived);
    }
}

/* Of what may still be in this machine's socket. */
static bool acknowledged(const struct pushed *pushed)
{
    const rpc_channel *channel = pushed->lane->channel;
    int unacknowledged = 0, fd = channel->operations->descriptor ? channel->operations->descriptor(channel) : -1;
    uint64_t written = atomic_load(&pushed->lane->written);       /* first: others go on writing */
    return fd < 0 || ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || written - (uint64_t)unacknowledged >= pushed->end ||
           (uint64_t)unacknowledged > written;
}

/* Sends the calls of those whose bytes are known to be there, of `at_least` in any case. */
static void sending_call(struct sending *s, unsigned at_least)
{
    while (s->pushed_ended < s->pushed_begun) {
        struct pushed *pushed = &s->pushed[s->pushed_ended % PUSHED];
        if (!at_least && !acknowledged(pushed))
            return;
        at_least -= at_least > 0;
        s->pushed_ended++;
        /* also after an error: the server has the bytes, or will */
        int code = copy_call_in(s->stream, &pushed->part, &pushed->data);
        if (!s->code)
            s->code = code;
        if (++s->unasked == LANES_BATCH)
            sending_ask(s);
    }
}

/* True: a record has been begun. */
static bool sending_begin(struct sending *s)
{
    if (!credit_take(s->stream, LANES_WAIT_NEVER)) {
        if (s->count || s->code)
            return false;
        sending_call(s, 1);
        if (s->unasked)
            sending_ask(s);
        if (s->ended < s->begun)
            sending_wait(s);
        if (s->code || !credit_take(s->stream, s->wait))
            return false;
    }
    struct client_lane *lane = lane_grab(s->count == 0);
    if (!lane) {
        credit_give(s->stream, 1);
        return false;
    }
    struct client_record *record = &s->records[s->count++];
    record->lane = lane;
    record->done = 0;
    copy_cut_next(s->left, lanes.chunk, &record->part);
    record->from = rows_of(&record->part.from, &record->part.extent);
    size_t size = rows_size(&record->from);
    uint32_t transfer;
    while (!(transfer = atomic_fetch_add(&lanes.transfer, 1) + 1))
        ;
    record->data = (flyt_on_lane){ .transfer = transfer, .size = size };
    rpc_lane_put(record->head, &(struct rpc_lane_record){ .transfer = transfer, .lane = lane->number, .length = size });
    return true;
}

/* Puts of a record into its socket what fits: 1 all of it, 0 not yet, or -errno. */
static int record_push(struct client_record *record)
{
    size_t total = sizeof record->head + rows_size(&record->from);
    while (record->done < total) {
        struct iovec vector[LANES_VECTOR + 1];
        int count = 0;
        size_t at = 0;
        if (record->done < sizeof record->head)
            vector[count++] = (struct iovec){ record->head + record->done, sizeof record->head - record->done };
        else
            at = record->done - sizeof record->head;
        count += rows_vector(&record->from, at, rows_size(&record->from) - at, vector + count, LANES_VECTOR);
        ssize_t sent = rpc_channel_send(record->lane->channel, vector, count);
        if (sent == -EAGAIN)
            return 0;
        if (sent <= 0)
            return sent < 0 ? (int)sent : -EPIPE;
        record->done += (size_t)sent;
        atomic_fetch_add(&record->lane->written, (uint64_t)sent);
    }
    return 1;
}

/* Pushes all records. True: some are in their sockets now. */
static bool sending_push(struct sending *s)
{
    bool moved = false;
    for (unsigned i = 0; i < s->count;) {
        struct client_record *record = &s->records[i];
        int status = record_push(record);
        if (status == 0) {
            i++;
            continue;
        }
        if (status < 0) {
            lanes_broken(record->lane, status, "sending");
            s->dead = true;
            return true;
        }
        atomic_fetch_add_explicit(&lanes.sent, record->done, memory_order_relaxed);
        if (s->pushed_begun - s->pushed_ended == PUSHED)
            sending_call(s, 1);
        s->pushed[s->pushed_begun++ % PUSHED] = (struct pushed){ record->lane, atomic_load(&record->lane->written),
                                                                 record->part, record->data };
        pthread_mutex_unlock(&record->lane->sending);
        *record = s->records[--s->count];
        moved = true;
    }
    sending_call(s, 0);
    return moved;
}

static void sending_poll(struct sending *s)
{
    struct pollfd fds[FLYT_MAX_LANES];
    int ready;
    if (s->count == 1) {
        ready = rpc_channel_poll(s->records[0].lane->channel, POLLOUT, LANES_LOOK_MS, false);
    } else {
        for (unsigned i = 0; i < s->count; i++) {
            const rpc_channel *channel = s->records[i].lane->channel;
            fds[i] =
                (struct pollfd){ .fd = channel->operations->descriptor ? channel->operations->descriptor(channel) : -1,
                                 .events = POLLOUT };
        }
        ready = poll(fds, s->count, LANES_LOOK_MS);
    }
    /* The session lives as long as its own connection does. A lane may have another way, which is cut. */
    for (unsigned i = 0; i < s->count && ready == 0; i++)
        if (rpc_channel_peer(s->records[i].lane->channel) == -ETIMEDOUT)
            lanes_broken(s->records[i].lane, -ETIMEDOUT, "sending");
    s->dead |= lanes_gone();
}

int lanes_send(struct client_stream *stream, struct copy_cut *left, enum lanes_wait wait)
{
    CANCEL_OFF;
    struct sending *s = malloc(sizeof *s);
    uint64_t start = clock_now(), whole = left->bytes;
    if (!s)
        return CORE_OUT_OF_MEMORY;
    s->stream = stream;
    s->count = s->begun = s->ended = s->unasked = s->pushed_begun = s->pushed_ended = 0;
    s->left = left;
    s->wait = wait;
    s->dead = false;
    s->code = CORE_OK;
    bool more = true;
    while (!s->dead && ((more && left->bytes && !s->code) || s->count)) {
        while (more && left->bytes && !s->code && s->count < FLYT_MAX_LANES && sending_begin(s))
            ;
        more = s->count > 0;                  /* nothing could be begun: no credit for this one now */
        if (s->count && !sending_push(s) && s->count)
            sending_poll(s);
    }
    /* records that will never be complete, of a dead connection */
    for (unsigned i = 0; i < s->count; i++)
        pthread_mutex_unlock(&s->records[i].lane->sending);
    sending_call(s, PUSHED);
    if (s->unasked)
        sending_ask(s);
    while (s->ended < s->begun)
        sending_wait(s);
    int code = s->dead ? session_loss_wait(&core_session, CORE_DEVICE_UNAVAILABLE) : s->code;
    free(s);
    if (!code)
        lanes_tune(0, whole, clock_now() - start);
    return code;
}
