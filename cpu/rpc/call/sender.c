#include "cpu/rpc/call/sender.h"

#include "cpu/common/cancel.h"
#include "cpu/common/lock.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_START = 64 * 1024,        /* first capacity */
    BATCH_KEEP  = 1024 * 1024,      /* a larger buffer is given back after use */
    BATCH_MAX   = 256 * 1024,       /* more waiting bytes than this, and submitters wait */
    GATHER_MIN  = 32 * 1024,        /* copying less than this is cheaper than an early system call */
    /* copying less than this into memory takes less than others may have to wait for the lock */
    DIRECT_MAX  = 4 * 1024
};

int rpc_sender_init(struct rpc_sender *sender, pthread_mutex_t *lock, rpc_channel *channel, size_t max_record,
                    int (*blocked)(void *context), void *context)
{
    *sender = (struct rpc_sender){ .lock = lock, .channel = channel, .max_record = max_record, .number = 1,
                                   .blocked = blocked, .context = context };
    return -pthread_cond_init(&sender->turn, NULL);
}

static void batch_free(struct rpc_batch *batch)
{
    free(batch->bytes);
    free(batch->segments);
    *batch = (struct rpc_batch){ 0 };
}

void rpc_sender_destroy(struct rpc_sender *sender)
{
    batch_free(&sender->filling);
    batch_free(&sender->going);
    pthread_cond_destroy(&sender->turn);
}

static void batch_clear(struct rpc_batch *batch)
{
    if (batch->capacity > BATCH_KEEP)
        batch_free(batch);
    batch->used = batch->total = batch->segment_count = 0;
}

/* Room for `more` bytes behind those used; NULL: no memory. */
static uint8_t *batch_room(struct rpc_batch *batch, size_t more)
{
    if (batch->capacity - batch->used < more) {
        size_t capacity = batch->capacity ? batch->capacity : BATCH_START;
        while (capacity - batch->used < more)
            capacity *= 2;
        uint8_t *larger = realloc(batch->bytes, capacity);
        if (!larger)
            return NULL;
        batch->bytes = larger;
        batch->capacity = capacity;
    }
    return batch->bytes + batch->used;
}

static void batch_use(struct rpc_batch *batch, size_t bytes)
{
    batch->used += bytes;
    batch->total += bytes;
}

static bool batch_gather(struct rpc_batch *batch, const void *data, size_t size)
{
    if (batch->segment_count == batch->segment_capacity) {
        size_t capacity = batch->segment_capacity ? batch->segment_capacity * 2 : 16;
        struct rpc_segment *larger = realloc(batch->segments, capacity * sizeof *larger);
        if (!larger)
            return false;
        batch->segments = larger;
        batch->segment_capacity = capacity;
    }
    batch->segments[batch->segment_count++] = (struct rpc_segment){ batch->used, data, size };
    batch->total += size;
    return true;
}

/* ---- the XDR stream ---- */

static struct rpc_encoding *encoding_of(XDR *xdr)
{
    return xdr->x_private;
}

static struct rpc_batch *batch_of(XDR *xdr)
{
    return &encoding_of(xdr)->sender->filling;
}

/* A record may not outgrow max_record; checked before memory is taken. */
static bool may_grow(XDR *xdr, size_t more)
{
    const struct rpc_encoding *encoding = encoding_of(xdr);
    size_t now = batch_of(xdr)->total - encoding->total - RPC_MARK_SIZE;
    return more <= encoding->sender->max_record && now <= encoding->sender->max_record - more;
}

/* The most frequent of all: a launch has thirty. */
static bool_t encode_long(XDR *xdr, const long *value)
{
    const struct rpc_encoding *encoding = encoding_of(xdr);
    struct rpc_batch *batch = &encoding->sender->filling;
    uint32_t big = htonl((uint32_t)*value);
    if (batch->total - encoding->total >= encoding->sender->max_record)         /* its mark makes up for the 4 bytes */
        return FALSE;
    if (batch->capacity - batch->used < sizeof big && !batch_room(batch, sizeof big))
        return FALSE;
    memcpy(batch->bytes + batch->used, &big, sizeof big);
    batch_use(batch, sizeof big);
    return TRUE;
}

static bool_t encode_bytes(XDR *xdr, const char *data, u_int size)
{
    if (size == 0)
        return TRUE;
    if (!may_grow(xdr, size))
        return FALSE;
    if (encoding_of(xdr)->may_gather && size >= GATHER_MIN) {
        if (!batch_gather(batch_of(xdr), data, size))
            return FALSE;
        encoding_of(xdr)->gathered = true;
        return TRUE;
    }
    uint8_t *at = batch_room(batch_of(xdr), size);
    if (!at)
        return FALSE;
    memcpy(at, data, size);
    batch_use(batch_of(xdr), size);
    return TRUE;
}

static int32_t *encode_inline(XDR *xdr, u_int size)
{
    uint8_t *at = may_grow(xdr, size) ? batch_room(batch_of(xdr), size) : NULL;
    /* rpcgen's code stores whole words there */
    if (!at || (uintptr_t)at % _Alignof(int32_t) != 0)
        return NULL;
    batch_use(batch_of(xdr), size);
    return (int32_t *)(void *)at;
}

static u_int encode_position(XDR *xdr)
{
    return (u_int)(batch_of(xdr)->total - encoding_of(xdr)->total - RPC_MARK_SIZE);
}

static bool_t refuse_long(XDR *xdr, long *value) { (void)xdr; (void)value; return FALSE; }
static bool_t refuse_bytes(XDR *xdr, char *to, u_int size) { (void)xdr; (void)to; (void)size; return FALSE; }
static bool_t refuse_position(XDR *xdr, u_int position) { (void)xdr; (void)position; return FALSE; }
static bool_t refuse_control(XDR *xdr, int request, void *info) { (void)xdr; (void)request; (void)info; return FALSE; }

static const struct xdr_ops encode_operations = {
    .x_getlong = refuse_long, .x_putlong = encode_long, .x_getbytes = refuse_bytes, .x_putbytes = encode_bytes,
    .x_getpostn = encode_position, .x_setpostn = refuse_position, .x_inline = encode_inline,
    .x_control = refuse_control,
};

int rpc_sender_begin(struct rpc_sender *sender, struct rpc_encoding *encoding, bool may_gather)
{
    FLYT_ASSERT_HELD(sender->lock);
    struct rpc_batch *batch = &sender->filling;
    *encoding = (struct rpc_encoding){ .sender = sender, .used = batch->used, .segments = batch->segment_count,
                                       .total = batch->total, .may_gather = may_gather };
    if (!batch_room(batch, RPC_MARK_SIZE))
        return -ENOMEM;
    batch_use(batch, RPC_MARK_SIZE);
    encoding->xdr = (XDR){ .x_op = XDR_ENCODE, .x_ops = &encode_operations, .x_private = encoding };
    return 0;
}

void rpc_sender_cancel(struct rpc_sender *sender, struct rpc_encoding *encoding)
{
    FLYT_ASSERT_HELD(sender->lock);
    sender->filling.used = encoding->used;
    sender->filling.segment_count = encoding->segments;
    sender->filling.total = encoding->total;
}

int rpc_sender_end(struct rpc_sender *sender, struct rpc_encoding *encoding)
{
    FLYT_ASSERT_HELD(sender->lock);
    size_t length = sender->filling.total - encoding->total - RPC_MARK_SIZE;
    if (length > sender->max_record) {
        rpc_sender_cancel(sender, encoding);
        return -EMSGSIZE;
    }
    uint32_t mark = htonl((uint32_t)length | RPC_MARK_LAST);
    memcpy(sender->filling.bytes + encoding->used, &mark, sizeof mark);
    return 0;
}

size_t rpc_sender_size(const struct rpc_sender *sender, const struct rpc_encoding *encoding, size_t skip)
{
    return sender->filling.total - encoding->total - skip;
}

/* `skip` ends before the first segment. */
void rpc_sender_read(const struct rpc_sender *sender, const struct rpc_encoding *encoding, size_t skip, uint8_t *to)
{
    const struct rpc_batch *batch = &sender->filling;
    size_t at = encoding->used + skip;
    for (size_t i = encoding->segments; i <= batch->segment_count; i++) {
        const struct rpc_segment *segment = i < batch->segment_count ? &batch->segments[i] : NULL;
        size_t own = (segment ? segment->at : batch->used) - at;
        memcpy(to, batch->bytes + at, own);
        to += own;
        at += own;
        if (segment) {
            memcpy(to, segment->data, segment->size);
            to += segment->size;
        }
    }
}

void rpc_sender_renew(struct rpc_sender *sender, rpc_channel *channel)
{
    FLYT_ASSERT_HELD(sender->lock);
    batch_clear(&sender->filling);
    sender->channel = channel;
    sender->error = 0;
    sender->written = sender->number++;
}

/* ---- writing ---- */

/* Fills vector with what comes after the first `done` bytes of the batch. Returns the number of pieces. */
static int batch_vector(const struct rpc_batch *batch, size_t done, struct iovec vector[RPC_SENDER_PIECES])
{
    int count = 0;
    size_t at = 0;
    for (size_t i = 0; i <= batch->segment_count && count < RPC_SENDER_PIECES - 1; i++) {
        const struct rpc_segment *segment = i < batch->segment_count ? &batch->segments[i] : NULL;
        size_t own = (segment ? segment->at : batch->used) - at;
        if (done < own)
            vector[count++] = (struct iovec){ batch->bytes + at + done, own - done };
        done -= done < own ? done : own;
        at += own;
        if (segment && done < segment->size)
            vector[count++] = (struct iovec){ (char *)segment->data + done, segment->size - done };
        if (segment)
            done -= done < segment->size ? done : segment->size;
    }
    return count;
}

/* Without the lock. */
static int batch_write(struct rpc_sender *sender, uint64_t *writes)
{
    const struct rpc_batch *batch = &sender->going;
    size_t done = 0;
    while (done < batch->total) {
        int count = batch_vector(batch, done, sender->pieces);
        ssize_t sent = rpc_channel_send(sender->channel, sender->pieces, count);
        if (sent > 0) {
            done += (size_t)sent;
            ++*writes;
            continue;
        }
        if (sent != -EAGAIN)
            return sent < 0 ? (int)sent : -EPIPE;
        int status = sender->blocked(sender->context);
        if (status < 0)
            return status;
    }
    return 0;
}

void rpc_sender_try(struct rpc_sender *sender)
{
    FLYT_ASSERT_HELD(sender->lock);
    struct rpc_batch *batch = &sender->filling;
    if (batch->total == 0 || batch->segment_count > 0 || sender->writing || sender->error != 0)
        return;
    struct iovec vector = { batch->bytes, batch->used };
    ssize_t sent = rpc_channel_send(sender->channel, &vector, 1);
    if (sent <= 0)
        return;                     /* whatever it is, it comes again */
    sender->writes++;
    sender->bytes += (size_t)sent;
    batch->used = batch->total -= (size_t)sent;
    if (batch->used > 0)
        memmove(batch->bytes, batch->bytes + sent, batch->used);
    else
        sender->written = sender->number++;
}

/* Where sending is only a copy of a few bytes, it is done with the lock held. */
static void write_directly(struct rpc_sender *sender)
{
    if (sender->filling.total <= DIRECT_MAX && atomic_load_explicit(&sender->channel->direct, memory_order_relaxed))
        rpc_sender_try(sender);
}

int rpc_sender_put(struct rpc_sender *sender, const uint8_t *record, size_t size, bool now)
{
    FLYT_ASSERT_HELD(sender->lock);
    struct rpc_batch *batch = &sender->filling;
    if (size - RPC_MARK_SIZE > sender->max_record)
        return -EMSGSIZE;
    uint8_t *at = batch_room(batch, size);          /* first: what is sent in part must find room for the rest */
    if (!at)
        return -ENOMEM;
    if (now && batch->total == 0 && !sender->writing && size <= DIRECT_MAX && sender->error == 0 &&
        atomic_load_explicit(&sender->channel->direct, memory_order_relaxed)) {
        struct iovec vector = { (uint8_t *)record, size };
        ssize_t sent = rpc_channel_send(sender->channel, &vector, 1);
        if (sent > 0) {                             /* else, whatever it is, it comes again */
            sender->writes++;
            sender->bytes += (size_t)sent;
            record += sent;
            size -= (size_t)sent;
            if (size == 0) {
                sender->written = sender->number++;
                return 0;
            }
        }
    }
    memcpy(at, record, size);
    batch_use(batch, size);
    return 0;
}

int rpc_sender_write_some(struct rpc_sender *sender, unsigned batches)
{
    FLYT_ASSERT_HELD(sender->lock);
    if (sender->writing)
        return sender->error;
    write_directly(sender);
    if (sender->filling.total == 0)
        return sender->error;
    sender->writing = true;
    for (; batches > 0 && sender->filling.total > 0 && sender->error == 0; batches--) {
        struct rpc_batch batch = sender->going;         /* empty, but its buffers are warm */
        sender->going = sender->filling;
        sender->filling = batch;
        uint64_t number = sender->number++, writes = 0;

        pthread_mutex_unlock(sender->lock);
        int status = batch_write(sender, &writes);
        pthread_mutex_lock(sender->lock);

        sender->writes += writes;
        sender->bytes += sender->going.total;
        sender->written = number;
        batch_clear(&sender->going);
        if (status < 0 && sender->error == 0)
            sender->error = status;
        if (sender->waiting > 0)
            pthread_cond_broadcast(&sender->turn);
    }
    if (sender->error != 0)
        batch_clear(&sender->filling);                  /* it may refer to bytes that are about to go away */
    sender->writing = false;
    if (sender->waiting > 0)
        pthread_cond_broadcast(&sender->turn);
    return sender->error;
}

int rpc_sender_write(struct rpc_sender *sender)
{
    FLYT_ASSERT_HELD(sender->lock);
    return rpc_sender_write_some(sender, UINT_MAX);
}

static void wait_turn(struct rpc_sender *sender)
{
    CANCEL_OFF;
    sender->waiting++;
    pthread_cond_wait(&sender->turn, sender->lock);
    sender->waiting--;
}

int rpc_sender_write_through(struct rpc_sender *sender)
{
    FLYT_ASSERT_HELD(sender->lock);
    uint64_t number = sender->number;
    while (sender->error == 0 && sender->written < number && (sender->writing || sender->filling.total > 0)) {
        if (sender->writing)
            wait_turn(sender);
        else
            rpc_sender_write(sender);
    }
    /* After an error too: the writer may be inside a system call that reads the caller's bytes. */
    while (sender->writing && sender->written < number && sender->number > number)
        wait_turn(sender);
    return sender->error;
}

int rpc_sender_wait_room(struct rpc_sender *sender)
{
    FLYT_ASSERT_HELD(sender->lock);
    while (sender->error == 0 && sender->filling.total >= BATCH_MAX) {
        if (sender->writing)
            wait_turn(sender);
        else
            rpc_sender_write(sender);
    }
    return sender->error;
}

void rpc_sender_fail(struct rpc_sender *sender, int error)
{
    FLYT_ASSERT_HELD(sender->lock);
    if (sender->error == 0)
        sender->error = error;
    if (sender->waiting > 0)
        pthread_cond_broadcast(&sender->turn);
}
