/*
 * client.c: creation and end of a client, and the submission of calls. See client.h.
 */
#include "cpu/rpc/call/client.h"
#include "cpu/common/wire.h"

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUIET_NS = 50 * 1000,       /* an ASYNC call after so long a pause is sent at once: no burst */
    SEND_AT  = 16 * 1024,       /* a batch of so many bytes is sent by whoever filled it */
    BATCHES_FOR_OTHERS = 4      /* a writer sends so many before it leaves the rest to the attender */
};

int rpc_client_create(rpc_channel *channel, const struct rpc_program *program, int dead_seconds,
                      void (*lost)(void *context, const char *reason), void *context,
                      rpc_client **out, char *error)
{
    struct rpc_client *client = calloc(1, sizeof *client);
    if (!client) {
        rpc_channel_destroy(channel);
        return rpc_explain(error, -ENOMEM, "no memory for an RPC client");
    }
    client->channel = channel;
    client->program = program;
    client->dead_seconds = dead_seconds;
    client->lost = lost;
    client->lost_context = context;
    client->batching = true;
    atomic_init(&client->is_lost, false);
    atomic_init(&client->is_silent, false);
    pthread_mutex_init(&client->lock, NULL);
    pthread_condattr_init(&client->monotonic);
    pthread_condattr_setclock(&client->monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&client->renewed, NULL);
    rpc_inbox_init(&client->inbox, program->max_record);
    rpc_spin_init(&client->spin);
    rpc_sender_init(&client->sender, &client->lock, channel, program->max_record, rpc_client_blocked, client);
    rpc_client_quiet_begins(client);
    *out = client;
    return 0;
}

void rpc_client_destroy(rpc_client *client)
{
    if (!client)
        return;
    rpc_client_shutdown(client);
    rpc_channel_destroy(client->channel);
    rpc_client_retired_free(client->retired);
    pthread_cond_destroy(&client->renewed);
    rpc_inbox_clear(&client->inbox);
    rpc_sender_destroy(&client->sender);
    pthread_condattr_destroy(&client->monotonic);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

void rpc_client_part(rpc_client *client)
{
    rpc_client_shutdown(client);
    rpc_channel_part(client->channel);
}

void rpc_client_abandon(rpc_client *client)
{
    /* The lock may be held for ever by a thread that the child does not have, and the memory may be half
       changed. Only the descriptors matter: the peer must see the end when the parent ends. */
    atomic_store(&client->is_lost, true);
    rpc_channel_abandon(client->channel);
}

void rpc_client_shutdown(rpc_client *client)
{
    rpc_client_lose(client, false, "it was shut down here");
}

static enum rpc_class class_of(const struct rpc_program *program, uint32_t procedure)
{
    return procedure < program->count ? program->procedures[procedure].class : RPC_CLASS_NONE;
}

/* An xid that no call in flight has, nor had lately. */
static uint32_t next_xid(rpc_client *client)
{
    for (;;) {
        uint32_t xid = ++client->last_xid;
        if (xid == RPC_BEAT_XID)
            continue;
        struct rpc_call *other = client->pending[xid % RPC_PENDING_BUCKETS];
        while (other && other->xid != xid)
            other = other->next;
        if (!other)
            return xid;
    }
}

_Static_assert((int)RPC_CALL_ROOM == (int)RPC_WIRE_CALL_ROOM,
               "the room that callers leave is that of a mark and a head");

/* The arguments, which stand in the batch. */
static void record(rpc_client *client, const struct rpc_call *call, const struct rpc_encoding *encoding)
{
    size_t size = rpc_sender_size(&client->sender, encoding, RPC_CALL_ROOM);
    uint8_t *to = client->recorder->sent(client->recorder, call->procedure, call->xid, size);
    if (to)
        rpc_sender_read(&client->sender, encoding, RPC_CALL_ROOM, to);
}

/* Adds the call to the batch. xid: its number; 0: a new one. */
static enum clnt_stat encode(rpc_client *client, struct rpc_call *call, uint32_t xid, bool *gathered)
{
    FLYT_ASSERT_HELD(&client->lock);
    struct rpc_encoding encoding;
    /* A done function may run inside the writer, which cannot write a second batch before it returns. */
    if (rpc_sender_begin(&client->sender, &encoding, !rpc_client_inside_done(client)) < 0)
        return RPC_CANTENCODEARGS;
    call->xid = xid ? xid : next_xid(client);
    if (!rpc_wire_put_call(&encoding.xdr, call->xid, client->program->program, client->program->version,
                           call->procedure) ||
        (call->encode && !call->encode(&encoding.xdr, call->args))) {
        rpc_sender_cancel(&client->sender, &encoding);
        return RPC_CANTENCODEARGS;
    }
    *gathered = encoding.gathered;
    if (rpc_sender_end(&client->sender, &encoding) < 0)
        return RPC_CANTENCODEARGS;
    if (client->recorder)
        record(client, call, &encoding);
    return RPC_SUCCESS;
}

static void remember(rpc_client *client, struct rpc_call *call)
{
    struct rpc_call **bucket = &client->pending[call->xid % RPC_PENDING_BUCKETS];
    call->complete = false;
    call->waiter = NULL;
    call->next = *bucket;
    *bucket = call;
    if (client->pending_count++ == 0 && client->dead_seconds > 0)
        rpc_client_quiet_begins(client);        /* from here on an answer is due */
}

/* The attender shall send what is in the batch. */
static void kick(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    if (client->kicked)
        return;
    client->kicked = true;
    rpc_client_wake_attender(client);
}

static bool is_direct(const rpc_client *client)
{
    return atomic_load_explicit(&client->channel->direct, memory_order_relaxed);
}

int rpc_client_send(rpc_client *client)
{
    if (client->pending_count == 0 && client->dead_seconds > 0 && !client->sender.writing)
        rpc_client_quiet_begins(client);        /* a write that gets stuck is overdue from here on */
    /* Other threads may add calls as fast as this one writes them: with an attender there, that is its affair. */
    int status = client->attender ? rpc_sender_write_some(&client->sender, BATCHES_FOR_OTHERS)
                                  : rpc_sender_write(&client->sender);
    if (client->attender && !client->sender.writing && rpc_sender_pending(&client->sender) > 0)
        kick(client);
    if (client->batching && !is_direct(client))
        client->last_sent = clock_now();
    return status;
}

/* An ASYNC call was added: send it now, or leave it to those who will. */
static int send_or_batch(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    if (client->sender.writing || rpc_client_inside_done(client))
        return 0;                               /* the writer sends it, or the reader after its done functions */
    if (!client->batching || !client->attender || is_direct(client) || rpc_sender_pending(&client->sender) >= SEND_AT ||
        clock_now() - client->last_sent > QUIET_NS)
        return rpc_client_send(client);
    kick(client);
    return 0;
}

static enum clnt_stat refuse(struct rpc_call *call, enum clnt_stat status)
{
    call->status = status;
    call->complete = true;
    return status;
}

/* A call may be added: waits for room, and while the connection is made anew. A done function does not wait: its call
   is written down, and goes over the new connection. 0 or -errno. */
static int enter(rpc_client *client, bool inside_done)
{
    FLYT_ASSERT_HELD(&client->lock);
    for (;;) {
        if (!inside_done)
            rpc_client_await_renewal(client);
        int failure = inside_done ? 0 : rpc_sender_wait_room(&client->sender);
        failure = failure ? failure : client->sender.error;
        if (!client->held)
            return failure;
        if (inside_done)
            return 0;
    }
}

/* Takes the lock, and returns with it when a call may be added. False: the connection is lost, and there is no lock. */
static bool enter_locked(rpc_client *client, bool *inside_done)
{
    for (;;) {
        if (rpc_client_lost(client))            /* in the child of a fork the lock may not be touched */
            return false;
        pthread_mutex_lock(&client->lock);
        *inside_done = rpc_client_inside_done(client);
        int failure = enter(client, *inside_done);
        if (failure == 0 && !atomic_load_explicit(&client->is_lost, memory_order_relaxed))
            return true;
        pthread_mutex_unlock(&client->lock);
        if (failure < 0)                        /* held from then on, perhaps */
            rpc_client_lose(client, true, "sending failed: %s", strerror(-failure));
    }
}

/* Sending has failed after a call was added. Whether the call is lost with the connection. */
static bool lose_unless_held(rpc_client *client, int failure)
{
    rpc_client_lose(client, true, "sending failed: %s", strerror(-failure));
    return rpc_client_lost(client);
}

/* The next thing that is added to the batch is the call: the lock stays taken until then. */
static void take_place(struct rpc_place *place)
{
    if (place)
        place->taken(place);
}

/* Under the lock since the record was put, so no answer to a later call is recorded before this call. */
static void record_ready(rpc_client *client, uint32_t procedure, uint32_t xid, const uint8_t *record, size_t size)
{
    uint8_t *to = client->recorder->sent(client->recorder, procedure, xid, size);
    if (to)
        memcpy(to, record + RPC_CALL_ROOM, size);
}

enum clnt_stat rpc_client_submit_ready(rpc_client *client, uint32_t procedure, uint8_t *record, size_t size,
                                       struct rpc_place *place)
{
    if (class_of(client->program, procedure) != RPC_CLASS_ASYNC)
        return RPC_PROCUNAVAIL;

    enum clnt_stat status = RPC_SUCCESS;
    bool inside_done;
    int failure = 0;
    if (!enter_locked(client, &inside_done))
        return RPC_CANTSEND;
    take_place(place);
    uint32_t xid = next_xid(client);
    rpc_wire_call_room(record, xid, client->program->program, client->program->version, procedure, size);
    if (rpc_sender_put(&client->sender, record, RPC_CALL_ROOM + size, !inside_done) < 0) {
        status = RPC_CANTENCODEARGS;
    } else {
        if (client->recorder)
            record_ready(client, procedure, xid, record, size);
        client->statistics.calls++;
        if (rpc_sender_pending(&client->sender) > 0)
            failure = send_or_batch(client);
    }
    pthread_mutex_unlock(&client->lock);
    return failure < 0 && lose_unless_held(client, failure) ? RPC_CANTSEND : status;
}

static enum clnt_stat submit(rpc_client *client, struct rpc_call *call, uint32_t xid)
{
    enum rpc_class class = class_of(client->program, call->procedure);
    if (class == RPC_CLASS_NONE)
        return refuse(call, RPC_PROCUNAVAIL);

    bool gathered = false, inside_done;
    int failure = 0;
    if (!enter_locked(client, &inside_done))
        return refuse(call, RPC_CANTSEND);
    take_place(call->place);
    enum clnt_stat status = encode(client, call, xid, &gathered);
    if (status == RPC_SUCCESS) {
        client->statistics.calls++;
        if (class == RPC_CLASS_SYNC)
            remember(client, call);
        if (gathered)
            failure = rpc_sender_write_through(&client->sender);
        else if (class == RPC_CLASS_SYNC && !rpc_client_inside_done(client))
            failure = rpc_client_send(client);
        else if (class == RPC_CLASS_ASYNC)
            failure = send_or_batch(client);
    }
    pthread_mutex_unlock(&client->lock);

    bool lost = failure < 0 && lose_unless_held(client, failure);
    if (status != RPC_SUCCESS)
        return refuse(call, status);
    if (class == RPC_CLASS_ASYNC)
        return refuse(call, lost ? RPC_CANTSEND : RPC_SUCCESS);
    return RPC_SUCCESS;                         /* the call is the reader's now, and may be complete already */
}

enum clnt_stat rpc_client_submit(rpc_client *client, struct rpc_call *call)
{
    return submit(client, call, 0);
}

enum clnt_stat rpc_client_submit_as(rpc_client *client, struct rpc_call *call, uint32_t xid)
{
    return submit(client, call, xid);
}

enum clnt_stat rpc_client_wait(rpc_client *client, struct rpc_call *call)
{
    pthread_mutex_lock(&client->lock);
    client->statistics.waited++;
    rpc_client_await(client, call);
    pthread_mutex_unlock(&client->lock);
    return call->status;
}

int rpc_client_flush(rpc_client *client)
{
    pthread_mutex_lock(&client->lock);
    int failure = rpc_client_send(client);
    pthread_mutex_unlock(&client->lock);
    if (failure < 0)
        rpc_client_lose(client, true, "sending failed: %s", strerror(-failure));
    return failure;
}

void rpc_client_set_batching(rpc_client *client, bool on)
{
    pthread_mutex_lock(&client->lock);
    client->batching = on;
    pthread_mutex_unlock(&client->lock);
}

void rpc_client_set_spinning(rpc_client *client, bool on)
{
    client->spin.on = on;
}

bool rpc_client_lost(const rpc_client *client)
{
    return atomic_load_explicit(&client->is_lost, memory_order_acquire);
}

bool rpc_client_has_news(rpc_client *client)
{
    return !rpc_client_lost(client) && rpc_channel_poll(client->channel, POLLIN, 0, false) != 0;
}

bool rpc_client_silent(const rpc_client *client)
{
    return atomic_load(&client->is_silent);
}

void rpc_client_statistics(const rpc_client *constant, struct rpc_client_statistics *out)
{
    rpc_client *client = (rpc_client *)constant;        /* only its lock changes */
    pthread_mutex_lock(&client->lock);
    *out = client->statistics;
    out->bytes_sent = client->sender.bytes;
    out->writes = client->sender.writes;
    pthread_mutex_unlock(&client->lock);
}

const char *rpc_client_transport(const rpc_client *client)
{
    return rpc_channel_transport(client->channel);
}

bool rpc_client_shared_memory(const rpc_client *client, struct rpc_shared_memory *out)
{
    return rpc_channel_shared_memory(client->channel, out);
}
