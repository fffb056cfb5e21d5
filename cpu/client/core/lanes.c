/*
 * lanes.c: further connections of the session for the bytes of large copies over TCP (cpu_rpc_prot.x says what travels on
 * them). The calls stay on the session's own connection, so nobody's launch waits behind another's gigabyte.
 *
 * To the device. The copying thread writes records from the program's own memory, as many at once as there are lanes.
 * A COPY_IN whose bytes have not come holds its stream, and if that is the legacy one all others too. So the call is sent
 * when the lane's bytes have been acknowledged by the other machine, or when there is nothing left to write meanwhile. The thread
 * waits only for sockets, and for credit: the server keeps
 * the bytes of `window` transfers until their copies have ended, so not more are under way. A stream may have as many
 * as are left for all others: half of them, if it is alone, so that a stream that stands still (behind a kernel without
 * end, say) never takes the last. Credit comes back with the answer to a STREAM_SYNC behind every few copies; nobody waits for
 * the last of these.
 *
 * From the device. Where the bytes belong is noted before the call is sent. Whoever waits for a copy reads its lane when the
 * reply has come, and puts what it finds where it belongs, also others' bytes; one thread at a time per lane.
 * For copies into pinned memory, that nobody waits for, there is a thread (`late`).
 *
 * Lanes are opened by the first large copy. One more is tried when enough has been copied to know how fast it goes, and
 * kept if that gains a tenth (`tune`).
 *
 * Locks: opening > lanes.lock; a lane's `sending` is held for one record, and nothing but the network is waited for under it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/lane.h"
#include "lanes.h"

enum {
    LANES_MOST = 4,                   /* unless FLYT_LANES says otherwise */
    LANES_MIN = 256 * 1024,           /* smaller copies go with their calls */
    LANES_CHUNK = FLYT_MAX_INLINE,
    LANES_VECTOR = 64,
    LANES_UNSENT = 512 * 1024,        /* bytes in a socket that have not been sent, when there are more to come */
    LANES_BATCH = 2,                  /* transfers behind which credit is asked back */
    LANES_OPEN_MS = 5000,
    LANES_CREDIT_MS = 20,             /* so long a stream that has none of the credit waits for some */
    LANES_LOOK_MS = 1000,
    LANES_OUTS = 256,                 /* buckets */
    TUNE_BYTES = 16 << 20,            /* copies of this size are measured */
    TUNE_SAMPLES = 3
};

struct lane {
    unsigned         number;
    rpc_channel     *channel;
    pthread_mutex_t  sending;
    atomic_uint_fast64_t written;     /* by who sends: bytes that are in the socket or beyond */
    /* under lanes.lock */
    bool             open, reading, receiving;
    unsigned         outs;            /* copies from the device that will come over it */
    /* of who is reading */
    uint8_t          head[RPC_LANE_HEAD];
    size_t           head_got;
    struct rpc_lane_record record;
    struct lane_out *current;         /* also under lanes.lock */
    uint64_t         got;             /* of the record */
};

static struct {
    pthread_mutex_t  opening, lock;
    pthread_cond_t   changed;
    bool             offered, failed, fixed;
    atomic_uint      used;            /* lanes 1 to used are open */
    unsigned         most;
    size_t           least;           /* bytes of a copy that uses lanes */
    struct lane      lanes[FLYT_MAX_LANES];
    atomic_uint      turn;
    /* credit */
    size_t           chunk;
    unsigned         window, free;
    struct held { const struct stream *stream; unsigned count; } held[64];
    /* from the device */
    atomic_uint      transfer;
    struct lane_out *outs[LANES_OUTS];
    struct lane_out *late, **late_last;
    pthread_cond_t   late_wake;
    bool             late_runs;
    /* which number of lanes is best */
    struct { double best[FLYT_MAX_LANES + 1]; unsigned samples[FLYT_MAX_LANES + 1]; } rate[2];
    bool             settled;
    atomic_uint_fast64_t sent, received;
} lanes = { .opening = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,
            .late_wake = PTHREAD_COND_INITIALIZER, .late_last = &lanes.late };

/* ---- settings ---- */

/* FLYT_LANES=COUNT or COUNT:BYTES. */
void lanes_setup(void)
{
    const char *text = getenv("FLYT_LANES");
    lanes.offered = (core_session.hello.capabilities & FLYT_CAP_LANES) != 0 && !core_perf.no_lanes;
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++) {
        lanes.lanes[i].number = i + 1;
        pthread_mutex_init(&lanes.lanes[i].sending, NULL);
    }
    lanes.most = LANES_MOST;
    lanes.least = LANES_MIN;
    if (!text || !*text)
        return;
    char *end;
    unsigned long count = strtoul(text, &end, 10), bytes = LANES_MIN;
    if (end != text && *end == ':')
        bytes = strtoul(end + 1, &end, 10);
    if (*end || count > FLYT_MAX_LANES || !bytes) {
        log_warning("FLYT_LANES=%s is not a number of connections from 0 to %d, perhaps with :BYTES behind it; it is ignored", text,
                    FLYT_MAX_LANES);
        return;
    }
    lanes.offered = lanes.offered && count > 0;
    lanes.most = (unsigned)count;
    lanes.least = bytes;
    lanes.fixed = true;
}

/* ---- loss ---- */

static void lanes_broken(const struct lane *lane, int status, const char *doing)
{
    char reason[200];
    snprintf(reason, sizeof reason, "lane %u, one of its connections for large copies, broke while %s: %s", lane->number, doing,
             status == 0 || status == -ENODATA ? "the server closed it" : status == -EPROTO ? "the server sent what was not asked for"
                                                                                              : strerror(-status));
    if (rpc_client_lost(core_session.client))
        return;
    session_lost(NULL, reason);
    rpc_client_shutdown(core_session.client);
}

void lanes_lost(void)
{
    pthread_mutex_lock(&lanes.lock);
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        if (lanes.lanes[i].open)
            rpc_channel_shutdown(lanes.lanes[i].channel);
    pthread_cond_broadcast(&lanes.changed);
    pthread_mutex_unlock(&lanes.lock);
}

static bool lost(void)
{
    return rpc_client_lost(core_session.client) || atomic_load(&core_session.sticky) == CORE_DEVICE_UNAVAILABLE;
}

void lanes_abandon(void)
{
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        if (lanes.lanes[i].open)
            rpc_channel_abandon(lanes.lanes[i].channel);
}

/* ---- opening ---- */

/* What fails is said once; then large copies go over the connection that there is. */
static bool lane_open(unsigned number)
{
    struct lane *lane = &lanes.lanes[number - 1];
    lane_args args = { .lane = number };
    lane_result result = { 0 };
    char error[RPC_ERROR_SIZE] = "";
    int code = wire_call(FLYT_LANE, (xdrproc_t)xdr_lane_args, &args, (xdrproc_t)xdr_lane_result, &result);
    if (!code && (!result.chunk || !result.window)) {
        code = CORE_SYSTEM_NOT_READY;
        snprintf(error, sizeof error, "it gives no credit");
    }
    if (!code) {
        uint8_t hello[RPC_LANE_HEAD];
        char welcome[RPC_LANE_MAGIC];
        uint64_t deadline = clock_now() + (uint64_t)LANES_OPEN_MS * CLOCK_NS_PER_MS;
        struct iovec key = { result.key, sizeof result.key };
        rpc_channel *channel = NULL;
        rpc_lane_put_hello(hello, core_session.hello.session, number);
        int status = rpc_lane_connect(core_session.uri, LANES_OPEN_MS, hello, &channel, error);
        if (status == 0 && !channel->operations->receive_into)
            status = -ENOTSUP;
        if (status == 0 && (status = rpc_lane_send(channel, &key, 1, deadline)) == 0)
            status = rpc_lane_receive(channel, welcome, sizeof welcome, deadline);
        if (status == 0 && memcmp(welcome, rpc_lane_magic, sizeof welcome) != 0)
            status = -EPROTO;
        if (status < 0 && channel) {
            rpc_channel_destroy(channel);
            snprintf(error, sizeof error, "%s", status == -ENODATA || status == -ECONNRESET ? "it closed the connection" : strerror(-status));
        }
        pthread_mutex_lock(&lanes.lock);
        if (status == 0) {
            int fd = channel->operations->descriptor ? channel->operations->descriptor(channel) : -1, unsent = LANES_UNSENT;
            if (fd >= 0)
                setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
            if (!lanes.window) {
                lanes.chunk = result.chunk < LANES_CHUNK ? result.chunk : LANES_CHUNK;
                lanes.window = lanes.free = result.window;
            }
            lane->channel = channel;
            lane->open = true;
            atomic_store(&lanes.used, number);
        }
        pthread_mutex_unlock(&lanes.lock);
        code = status;
    }
    explicit_bzero(result.key, sizeof result.key);
    xdr_free((xdrproc_t)xdr_lane_result, &result);
    if (code && !lost())
        log_warning("large copies share %s connection%s with %s: no further one could be opened to %s: %s", number > 1 ? "the" : "one",
                    number > 1 ? "s that there are" : "", number > 1 ? "each other" : "all else", core_session.uri, error[0] ? error : "it refused");
    return !code;
}

bool lanes_wanted(size_t size)
{
    if (!lanes.offered || size < lanes.least)
        return false;
    if (atomic_load(&lanes.used))
        return true;
    pthread_mutex_lock(&lanes.opening);
    unsigned first = lanes.fixed ? lanes.most : 1;
    while (!lanes.failed && atomic_load(&lanes.used) < first)
        lanes.failed = !lane_open(atomic_load(&lanes.used) + 1);
    pthread_mutex_unlock(&lanes.opening);
    return atomic_load(&lanes.used) > 0;
}

bool lanes_want_boxes(size_t size)
{
    return lanes_wanted(size) && lanes.chunk >= FLYT_MAX_INLINE;
}

/* ---- how many ---- */

/* Nobody sends or waits on it now, and nobody will. */
static bool lane_close(struct lane *lane)
{
    pthread_mutex_lock(&lanes.lock);
    bool idle = !lane->outs && !lane->reading && pthread_mutex_trylock(&lane->sending) == 0;
    if (idle) {
        atomic_store(&lanes.used, lane->number - 1);
        lane->open = false;
        rpc_channel_destroy(lane->channel);
        lane->channel = NULL;
        pthread_mutex_unlock(&lane->sending);
    }
    pthread_mutex_unlock(&lanes.lock);
    return idle;
}

/* One way, 0 or 1, so many bytes took so long. */
static void tune(unsigned way, uint64_t bytes, uint64_t ns)
{
    if (lanes.fixed || lanes.settled || bytes < TUNE_BYTES || !ns || pthread_mutex_trylock(&lanes.opening) != 0)
        return;
    unsigned now = atomic_load(&lanes.used);
    double rate = (double)bytes / (double)ns, *best = lanes.rate[way].best;
    if (rate > best[now])
        best[now] = rate;
    if (++lanes.rate[way].samples[now] >= TUNE_SAMPLES && !lanes.settled && now > 0) {
        if (now > 1 && best[now] < 1.1 * best[now - 1])
            lanes.settled = lane_close(&lanes.lanes[now - 1]);
        else if (now == lanes.most)
            lanes.settled = true;
        else
            lanes.settled = !lane_open(now + 1);
    }
    pthread_mutex_unlock(&lanes.opening);
}

/* ---- rows of the program's memory ---- */

static size_t rows_size(const struct host_rows *r)
{
    return r->width * r->rows * r->slices;
}

/* The pieces of at most `size` bytes, from byte `at` on. */
static int rows_vector(const struct host_rows *r, size_t at, size_t size, struct iovec vector[LANES_VECTOR])
{
    int count = 0;
    while (size > 0 && count < LANES_VECTOR) {
        size_t row = at / r->width, column = at % r->width, part = r->width - column;
        if (part > size)
            part = size;
        vector[count++] = (struct iovec){ r->address + row / r->rows * r->slice_pitch + row % r->rows * r->pitch + column, part };
        at += part;
        size -= part;
    }
    return count;
}

/* ---- credit ---- */

/* lanes.lock is held. NULL: too many streams have some. */
static struct held *held_by(const struct stream *stream)
{
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

static bool credit_take(const struct stream *stream, enum lanes_patience patience)
{
    struct timespec until = clock_timespec(clock_now() + LANES_CREDIT_MS * CLOCK_NS_PER_MS);
    bool late = false, taken = false;
    pthread_mutex_lock(&lanes.lock);
    for (;;) {
        struct held *held = held_by(stream);
        if (held && lanes.free && (held->count < lanes.free || !held->count)) {
            held->count++;
            lanes.free--;
            taken = true;
            break;
        }
        if (patience == LANES_WAIT_NEVER || late || lost())
            break;
        if (patience == LANES_WAIT && held && held->count)
            pthread_cond_wait(&lanes.changed, &lanes.lock);
        else
            late = pthread_cond_clockwait(&lanes.changed, &lanes.lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    }
    pthread_mutex_unlock(&lanes.lock);
    return taken;
}

static void credit_give(const struct stream *stream, unsigned count)
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
struct batch {
    struct wire_call     wire;
    stream_args          args;
    plain_result         result;
    const struct stream *stream;
    unsigned             count;
};

static void batch_arrived(struct wire_call *call)
{
    struct batch *batch = (struct batch *)call;           /* wire is the first member */
    credit_give(batch->stream, batch->count);
    xdr_free((xdrproc_t)xdr_plain_result, &batch->result);
    free(batch);
}

static void batch_prepare(struct batch *batch, const struct stream *stream, unsigned count)
{
    *batch = (struct batch){ .args = { .stream = stream->wire }, .stream = stream, .count = count };
    wire_prepare(&batch->wire, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &batch->args, (xdrproc_t)xdr_plain_result, &batch->result);
}

/* ---- to the device ---- */

enum { RING = 32, PUSHED = 64 };

struct record {
    struct lane    *lane;
    struct lane_in  in;
    uint8_t         head[RPC_LANE_HEAD];
    size_t          done;             /* bytes of head and rows that are in the socket */
};

/* A transfer whose bytes are in the socket, and whose call has not been sent. */
struct pushed { struct lane *lane; uint64_t end; struct lane_in in; };

/* A copy to the device under way. */
struct sending {
    struct stream *stream;
    struct record  records[FLYT_MAX_LANES];
    unsigned       count;
    struct pushed  pushed[PUSHED];
    unsigned       pushed_begun, pushed_ended;
    struct batch   ring[RING];        /* those whose answer this thread waits for */
    unsigned       begun, ended;
    unsigned       unasked;           /* transfers sent whose credit has not been asked back */
    size_t         left;              /* bytes that are not begun */
    enum lanes_patience patience;
    bool           dead;              /* the connection is lost */
    int            code;
};

/* A lane that nobody sends on, and that is ours now. */
static struct lane *lane_grab(bool wait)
{
    for (;;) {
        unsigned used = atomic_load(&lanes.used), turn = atomic_fetch_add(&lanes.turn, 1);
        if (!used)
            return NULL;
        for (unsigned i = 0; i < used; i++) {
            struct lane *lane = &lanes.lanes[(turn + i) % used];
            if (pthread_mutex_trylock(&lane->sending) == 0) {
                if (lane->number <= atomic_load(&lanes.used))
                    return lane;
                pthread_mutex_unlock(&lane->sending);
            }
        }
        if (!wait)
            return NULL;
        struct lane *lane = &lanes.lanes[turn % used];
        pthread_mutex_lock(&lane->sending);
        if (lane->number <= atomic_load(&lanes.used))
            return lane;
        pthread_mutex_unlock(&lane->sending);
    }
}

/* The oldest answer about credit that this thread has asked for. */
static void sending_wait(struct sending *s)
{
    struct batch *batch = &s->ring[s->ended++ % RING];
    int code = wire_wait(&batch->wire);
    credit_give(s->stream, batch->count);
    xdr_free((xdrproc_t)xdr_plain_result, &batch->result);
    if (!s->code)
        s->code = code;
}

/* Sends for the credit of what was sent. Near the end nobody waits for the answer. */
static void sending_ask(struct sending *s)
{
    bool waited = s->patience == LANES_WAIT && s->left > lanes.window / 2 * lanes.chunk && s->begun - s->ended < RING;
    struct batch *batch = waited ? &s->ring[s->begun % RING] : malloc(sizeof *batch);
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
        wire_submit(&batch->wire);
    } else {
        wire_submit_detached(&batch->wire, batch_arrived);
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
        int code = pushed->in.send(s->stream, &pushed->in);       /* also after an error: the server has the bytes, or will */
        if (!s->code)
            s->code = code;
        if (++s->unasked == LANES_BATCH)
            sending_ask(s);
    }
}

/* True: a record has been begun. */
static bool sending_begin(struct sending *s, lanes_next_function *next, void *context)
{
    if (!credit_take(s->stream, LANES_WAIT_NEVER)) {
        if (s->count || s->code)
            return false;
        sending_call(s, 1);
        if (s->unasked)
            sending_ask(s);
        if (s->ended < s->begun)
            sending_wait(s);
        if (s->code || !credit_take(s->stream, s->patience))
            return false;
    }
    struct lane *lane = lane_grab(s->count == 0);
    if (!lane) {
        credit_give(s->stream, 1);
        return false;
    }
    struct record *record = &s->records[s->count++];
    record->lane = lane;
    record->done = 0;
    next(context, lanes.chunk, &record->in);
    size_t size = rows_size(&record->in.from);
    uint32_t transfer;
    while (!(transfer = atomic_fetch_add(&lanes.transfer, 1) + 1))
        ;
    record->in.data = (flyt_bulk){ .kind = FLYT_BULK_LANE, .flyt_bulk_u = { .on_lane = { .transfer = transfer, .size = size } } };
    rpc_lane_put(record->head, &(struct rpc_lane_record){ .transfer = transfer, .lane = lane->number, .length = size });
    s->left -= size;
    return true;
}

/* Puts of a record into its socket what fits: 1 all of it, 0 not yet, or -errno. */
static int record_push(struct record *record)
{
    size_t total = sizeof record->head + rows_size(&record->in.from);
    while (record->done < total) {
        struct iovec vector[LANES_VECTOR + 1];
        int count = 0;
        size_t at = 0;
        if (record->done < sizeof record->head)
            vector[count++] = (struct iovec){ record->head + record->done, sizeof record->head - record->done };
        else
            at = record->done - sizeof record->head;
        count += rows_vector(&record->in.from, at, rows_size(&record->in.from) - at, vector + count);
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
        struct record *record = &s->records[i];
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
        s->pushed[s->pushed_begun++ % PUSHED] = (struct pushed){ record->lane, atomic_load(&record->lane->written), record->in };
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
    if (s->count == 1) {
        rpc_channel_poll(s->records[0].lane->channel, POLLOUT, LANES_LOOK_MS, false);
    } else {
        for (unsigned i = 0; i < s->count; i++) {
            const rpc_channel *channel = s->records[i].lane->channel;
            fds[i] = (struct pollfd){ .fd = channel->operations->descriptor ? channel->operations->descriptor(channel) : -1, .events = POLLOUT };
        }
        poll(fds, s->count, LANES_LOOK_MS);
    }
    s->dead |= lost();
}

int lanes_send(struct stream *stream, lanes_next_function *next, void *context, size_t *size, enum lanes_patience patience)
{
    struct sending *s = malloc(sizeof *s);
    uint64_t start = clock_now(), whole = *size;
    if (!s)
        return CORE_OUT_OF_MEMORY;
    s->stream = stream;
    s->count = s->begun = s->ended = s->unasked = s->pushed_begun = s->pushed_ended = 0;
    s->left = *size;
    s->patience = patience;
    s->dead = false;
    s->code = CORE_OK;
    bool more = true;
    while (!s->dead && ((more && s->left && !s->code) || s->count)) {
        while (more && s->left && !s->code && s->count < FLYT_MAX_LANES && sending_begin(s, next, context))
            ;
        more = s->count > 0;                  /* nothing could be begun: no credit for this one now */
        if (s->count && !sending_push(s) && s->count)
            sending_poll(s);
    }
    for (unsigned i = 0; i < s->count; i++)               /* records that will never be complete, of a dead connection */
        pthread_mutex_unlock(&s->records[i].lane->sending);
    sending_call(s, PUSHED);
    if (s->unasked)
        sending_ask(s);
    while (s->ended < s->begun)
        sending_wait(s);
    int code = s->dead ? CORE_DEVICE_UNAVAILABLE : s->code;
    *size = s->left;
    free(s);
    if (!code)
        tune(0, whole, clock_now() - start);
    return code;
}

/* ---- from the device: reading ---- */

/* lanes.lock is held. */
static struct lane_out **out_find(uint32_t transfer)
{
    struct lane_out **at = &lanes.outs[transfer % LANES_OUTS];
    while (*at && (*at)->via.transfer != transfer)
        at = &(*at)->next;
    return at;
}

/* A record's head has come. lanes.lock is held. */
static bool record_begins(struct lane *lane)
{
    rpc_lane_get(lane->head, &lane->record);
    const struct rpc_lane_record *r = &lane->record;
    struct lane_out *out = *out_find(r->transfer);
    if (!out || out->via.lane != lane->number || r->lane != lane->number || !r->length)
        return false;
    uint64_t size = rows_size(&out->to);
    if (r->length > out->left || r->offset > size - r->length)
        return false;
    lane->current = out;
    lane->got = 0;
    return true;
}

/* lanes.lock is held. */
static void record_ends(struct lane *lane)
{
    struct lane_out *out = lane->current;
    out->left -= lane->record.length;
    lane->current = NULL;
    lane->head_got = 0;
    if (!out->left)
        pthread_cond_broadcast(&lanes.changed);
}

/* Receives what is there, for whomever. lanes.lock is held, and released meanwhile; the caller is the lane's reader. More than
   0: something; -EAGAIN: nothing now; 0 or another -errno: it broke. */
static ssize_t lane_receive(struct lane *lane)
{
    struct iovec vector[LANES_VECTOR] = { { lane->head + lane->head_got, sizeof lane->head - lane->head_got } };
    int count = 1;
    struct lane_out *out = lane->current;
    if (out)
        count = rows_vector(&out->to, lane->record.offset + lane->got, lane->record.length - lane->got, vector);
    lane->receiving = true;
    pthread_mutex_unlock(&lanes.lock);
    ssize_t got = rpc_channel_receive_into(lane->channel, vector, count);
    pthread_mutex_lock(&lanes.lock);
    lane->receiving = false;
    if (got <= 0)
        return got;
    atomic_fetch_add_explicit(&lanes.received, (uint64_t)got, memory_order_relaxed);
    if (!out) {
        lane->head_got += (size_t)got;
        return lane->head_got < sizeof lane->head || record_begins(lane) ? got : -EPROTO;
    }
    if (lane->current != out)                 /* it was given up */
        return -EPROTO;
    lane->got += (uint64_t)got;
    if (lane->got == lane->record.length)
        record_ends(lane);
    return got;
}

/* Reads the lane until the bytes of `out` have come. lanes.lock is held, released meanwhile. */
static void lane_read(struct lane *lane, const struct lane_out *out)
{
    lane->reading = true;
    while (out->left && !lost()) {
        ssize_t got = lane_receive(lane);
        if (got > 0)
            continue;
        pthread_mutex_unlock(&lanes.lock);
        if (got == -EAGAIN)
            rpc_channel_poll(lane->channel, POLLIN, LANES_LOOK_MS, false);
        else
            lanes_broken(lane, (int)got, "receiving");
        pthread_mutex_lock(&lanes.lock);
    }
    lane->reading = false;
    pthread_cond_broadcast(&lanes.changed);               /* another may want to read it */
}

/* lanes.lock is held. */
static void out_leave(struct lane_out *out)
{
    struct lane_out **at = out_find(out->via.transfer);
    if (*at != out)
        return;
    *at = out->next;
    lanes.lanes[out->via.lane - 1].outs--;
}

static bool late_start(void);

flyt_via lane_out_begin(struct lane_out *out, const struct host_rows *to, bool late)
{
    *out = (struct lane_out){ .to = *to, .left = rows_size(to) };
    pthread_mutex_lock(&lanes.lock);
    unsigned used = atomic_load(&lanes.used);
    if (used && (!late || late_start())) {
        while (!out->via.transfer)
            out->via.transfer = atomic_fetch_add(&lanes.transfer, 1) + 1;
        out->via.lane = 1 + atomic_fetch_add(&lanes.turn, 1) % used;
        lanes.lanes[out->via.lane - 1].outs++;
        out->next = lanes.outs[out->via.transfer % LANES_OUTS];
        lanes.outs[out->via.transfer % LANES_OUTS] = out;
    }
    pthread_mutex_unlock(&lanes.lock);
    return out->via;
}

int lane_out_wait(struct lane_out *out)
{
    struct lane *lane = &lanes.lanes[out->via.lane - 1];
    pthread_mutex_lock(&lanes.lock);
    while (out->left && !lost()) {
        if (lane->reading)
            pthread_cond_wait(&lanes.changed, &lanes.lock);
        else
            lane_read(lane, out);
    }
    bool here = !out->left;
    pthread_mutex_unlock(&lanes.lock);
    lane_out_cancel(out);
    return here ? CORE_OK : CORE_DEVICE_UNAVAILABLE;
}

void lane_out_cancel(struct lane_out *out)
{
    if (!out->via.lane)
        return;
    struct lane *lane = &lanes.lanes[out->via.lane - 1];
    pthread_mutex_lock(&lanes.lock);
    if (lane->current == out) {
        /* Bytes that should not have come; the reader is told by what it finds when it looks again. */
        lane->current = NULL;
        rpc_channel_shutdown(lane->channel);
        while (lane->receiving) {             /* moves what is there, and does not wait */
            pthread_mutex_unlock(&lanes.lock);
            sched_yield();
            pthread_mutex_lock(&lanes.lock);
        }
    }
    out_leave(out);
    pthread_mutex_unlock(&lanes.lock);
    out->via.lane = 0;
}

/* ---- from the device: for those whom nobody waits for ---- */

static void *late_run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lanes.lock);
    for (;;) {
        struct lane_out *out;
        while (!(out = lanes.late))
            pthread_cond_wait(&lanes.late_wake, &lanes.lock);
        lanes.late = out->next_late;
        if (!lanes.late)
            lanes.late_last = &lanes.late;
        pthread_mutex_unlock(&lanes.lock);
        int code = lane_out_wait(out);
        out->arrived(out, code);
        pthread_mutex_lock(&lanes.lock);
    }
    return NULL;
}

/* lanes.lock is held. */
static bool late_start(void)
{
    sigset_t every, before;
    pthread_t thread;
    if (lanes.late_runs)
        return true;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    lanes.late_runs = pthread_create(&thread, NULL, late_run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (lanes.late_runs)
        pthread_detach(thread);
    return lanes.late_runs;
}

void lane_out_later(struct lane_out *out, void (*arrived)(struct lane_out *, int code))
{
    out->arrived = arrived;
    out->next_late = NULL;
    pthread_mutex_lock(&lanes.lock);
    *lanes.late_last = out;
    lanes.late_last = &out->next_late;
    pthread_cond_signal(&lanes.late_wake);
    pthread_mutex_unlock(&lanes.lock);
}

void lanes_copied_out(uint64_t bytes, uint64_t ns)
{
    if (atomic_load(&lanes.used))
        tune(1, bytes, ns);
}

/* ---- what was done ---- */

void lanes_statistics(struct lanes_statistics *out)
{
    *out = (struct lanes_statistics){ .open = atomic_load(&lanes.used), .sent = atomic_load(&lanes.sent), .received = atomic_load(&lanes.received) };
}
