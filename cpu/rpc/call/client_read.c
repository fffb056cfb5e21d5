/*
 * client_read.c: who reads replies, what they complete, and how the loss of the connection is noticed. See
 * client.h for the roles.
 */
#include "cpu/rpc/call/client.h"
#include "cpu/rpc/transport/liveness.h"
#include "cpu/common/wire.h"

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/thread_block.h"
#include "cpu/common/lock.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    REST_NS  = 1000 * 1000,     /* how long the attender leaves the field to threads that wait */
    /* decoding a reply of so many bytes takes less than giving the lock up and taking it again */
    DECODE_LOCKED = 512,
    RETRY_MS = 2                /* a writer looks so often whether it should read, while another thread reads */
};

/* The client whose done function this thread is running, the innermost if there are several. */
static THREAD_BLOCK const rpc_client *done_of;

bool rpc_client_inside_done(const rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    return client->done_running > 0 && done_of == client;
}

/* Releases the lock meanwhile. */
static void run_done(rpc_client *client, struct rpc_call *call)
{
    FLYT_ASSERT_HELD(&client->lock);
    const rpc_client *outer = done_of;
    call->complete = true;
    client->done_running++;
    pthread_mutex_unlock(&client->lock);
    done_of = client;
    call->done(call, call->context);
    done_of = outer;
    pthread_mutex_lock(&client->lock);
    client->done_running--;
}

void rpc_client_wake_attender(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    if (!client->attender)
        return;
    if (client->attender->state == RPC_ATTENDER_WATCHING)
        rpc_channel_wake(client->channel);
    else if (client->attender->state != RPC_ATTENDER_BUSY)
        pthread_cond_signal(&client->attender->wake);
}

/* The call has no done function: its owner may free it as soon as the lock is released. */
static void complete(rpc_client *client, struct rpc_call *call)
{
    FLYT_ASSERT_HELD(&client->lock);
    struct rpc_waiter *waiter = call->waiter;
    call->complete = true;
    if (waiter)
        pthread_cond_signal(&waiter->wake);
    else if (client->attender && client->attender->call == call)
        rpc_client_wake_attender(client);
}

/* ---- loss ---- */

/* Takes all calls in flight out of the table. */
static struct rpc_call *take_pending(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    struct rpc_call *all = NULL;
    for (unsigned i = 0; i < RPC_PENDING_BUCKETS; i++) {
        while (client->pending[i]) {
            struct rpc_call *call = client->pending[i];
            client->pending[i] = call->next;
            call->next = all;
            all = call;
        }
    }
    client->pending_count = 0;
    return all;
}

/* The connection will be made anew. Releases the lock. */
static void hold(rpc_client *client, const char *reason)
{
    struct rpc_recorder *recorder = client->recorder;
    client->held = true;
    rpc_sender_fail(&client->sender, -ECONNRESET);
    rpc_channel_shutdown(client->channel);          /* whoever polls returns */
    rpc_client_wake_attender(client);
    pthread_mutex_unlock(&client->lock);
    recorder->lost(recorder, reason);
}

void rpc_client_await_renewal(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    if (!client->held)
        return;                                     /* every call passes here: CANCEL_OFF would cost it 60 ns */
    CANCEL_OFF;
    while (client->held)
        pthread_cond_wait(&client->renewed, &client->lock);
}

void rpc_client_lose(rpc_client *client, bool tell, const char *format, ...)
{
    char reason[RPC_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);

    pthread_mutex_lock(&client->lock);
    if (atomic_load_explicit(&client->is_lost, memory_order_relaxed) || (client->held && tell && client->recorder)) {
        pthread_mutex_unlock(&client->lock);
        return;
    }
    if (tell && client->recorder && client->recorder->holds(client->recorder)) {
        hold(client, reason);                       /* releases the lock */
        return;
    }
    atomic_store_explicit(&client->is_lost, true, memory_order_release);
    client->held = false;
    pthread_cond_broadcast(&client->renewed);
    rpc_sender_fail(&client->sender, -ECONNRESET);
    rpc_channel_shutdown(client->channel);          /* whoever polls returns */
    struct rpc_call *with_done = NULL, *call = take_pending(client);
    while (call) {
        struct rpc_call *next = call->next;
        call->status = RPC_CANTRECV;
        if (call->done) {
            call->next = with_done;
            with_done = call;
        } else {
            complete(client, call);
        }
        call = next;
    }
    rpc_client_wake_attender(client);
    while (with_done) {
        struct rpc_call *next = with_done->next;
        run_done(client, with_done);
        with_done = next;
    }
    pthread_mutex_unlock(&client->lock);
    if (tell && client->lost)
        client->lost(client->lost_context, reason);
}

/*
 * The server is due to say something while a call is in flight or bytes are being sent; it beats while it has nothing
 * else to say (rpc_server_beat, EVENTS). Its silence counts only while this process could have heard it: see clock_run.
 * So a write that the server's backlog holds up may take as long as it likes, and a program that was stopped for an
 * hour goes on.
 */

/* The time is looked up by the thread that is about to sleep, not with each reply. */
static void note_heard(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    if (client->heard && client->dead_seconds > 0)
        rpc_client_quiet_begins(client);
    client->heard = false;
}

static bool is_due(const rpc_client *client)
{
    return client->dead_seconds > 0 && (client->pending_count > 0 || client->sender.writing);
}

/* Time until check_silence wants to look, for poll. */
static int silence_look_ms(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    note_heard(client);
    return is_due(client) ? (int)(rpc_silence_look(client->dead_seconds) / CLOCK_NS_PER_MS) : -1;
}

/* Nothing came before that time had passed: is it over? Without the lock. */
static void check_silence(rpc_client *client)
{
    const uint64_t most = (uint64_t)client->dead_seconds * CLOCK_NS_PER_SECOND;
    pthread_mutex_lock(&client->lock);
    note_heard(client);
    bool dead =
        is_due(client) && clock_run_look(&client->quiet, clock_now(), rpc_silence_look(client->dead_seconds)) >= most;
    /* What has come and was not read is no silence: who has the reading role may be held up, or stopped. */
    if (dead && rpc_channel_poll(client->channel, POLLIN, 0, false) != 0) {
        rpc_client_quiet_begins(client);
        dead = false;
    }
    if (dead)
        atomic_store(&client->is_silent, true);
    pthread_mutex_unlock(&client->lock);
    if (dead)
        rpc_client_lose(client, true, "the server has sent nothing for %d seconds", client->dead_seconds);
}

/* ---- replies: all this by the thread that has the reading role ---- */

static struct rpc_call *take_call(rpc_client *client, uint32_t xid)
{
    FLYT_ASSERT_HELD(&client->lock);
    struct rpc_call **link = &client->pending[xid % RPC_PENDING_BUCKETS];
    while (*link && (*link)->xid != xid)
        link = &(*link)->next;
    struct rpc_call *call = *link;
    if (call) {
        *link = call->next;
        client->pending_count--;
    }
    return call;
}

/* Releases the lock meanwhile. */
static int give_up(rpc_client *client, const char *reason)
{
    FLYT_ASSERT_HELD(&client->lock);
    pthread_mutex_unlock(&client->lock);
    rpc_client_lose(client, true, "%s", reason);
    pthread_mutex_lock(&client->lock);
    return -ECONNRESET;
}

bool rpc_client_deliver(rpc_client *client, uint32_t xid, enum clnt_stat status, const uint8_t *body, size_t size)
{
    FLYT_ASSERT_HELD(&client->lock);
    struct rpc_call *call = take_call(client, xid);
    if (!call)
        return false;
    call->status = status;
    if (client->recorder)
        client->recorder->answered(client->recorder, call, body, size);
    bool small = size <= DECODE_LOCKED;
    if (!small)
        pthread_mutex_unlock(&client->lock);
    if (status == RPC_SUCCESS && call->decode && !rpc_wire_decode(body, size, call->decode, call->result))
        call->status = RPC_CANTDECODERES;
    if (!small)
        pthread_mutex_lock(&client->lock);

    if (call->done)
        run_done(client, call);
    else
        complete(client, call);
    return true;
}

/* Releases the lock while it does something that may take long. -ECONNRESET: the connection was given up. */
static int take_reply(rpc_client *client, const struct rpc_record *record)
{
    FLYT_ASSERT_HELD(&client->lock);
    struct rpc_wire_reply reply;
    char reason[96];
    if (rpc_wire_get_reply(record->bytes, record->size, &reply) < 0) {
        snprintf(reason, sizeof reason, "the server sent %zu bytes that are no reply", record->size);
        return give_up(client, reason);
    }
    if (reply.xid == RPC_BEAT_XID)
        return 0;
    if (!rpc_client_deliver(client, reply.xid, reply.status, reply.body, reply.body_size)) {
        /* Calls are never given up singly, so this is no late answer. */
        snprintf(reason, sizeof reason, "the server answered call %u, which is not in flight", reply.xid);
        return give_up(client, reason);
    }
    return 0;
}

/* Reads what is there, or comes soon if `spin`. Called without the lock, returns with it. 0: done; -EAGAIN: there was
   nothing; another -errno: the connection is lost. */
static int read_replies(rpc_client *client, bool spin)
{
    ssize_t got = spin ? rpc_channel_receive_spinning(client->channel, &client->inbox, &client->spin)
                       : rpc_channel_receive(client->channel, &client->inbox);
    pthread_mutex_lock(&client->lock);
    if (got == -EAGAIN)
        return -EAGAIN;
    if (got <= 0)
        return give_up(client, got == 0 ? "the server closed the connection"
                               : got == -ESTALE
                                   ? "the memory shared with the host belongs to another session now: this machine "
                                     "was restored from a snapshot, or its server has gone"
                                   : strerror((int)-got));
    client->statistics.bytes_received += (uint64_t)got;
    client->heard = true;
    struct rpc_record record;
    int status;
    while ((status = rpc_inbox_next(&client->inbox, &record)) == 1) {
        int failure = take_reply(client, &record);
        rpc_block_release(record.block);
        if (failure < 0)
            return failure;
    }
    if (status < 0)
        return give_up(client,
                       status == -EMSGSIZE ? "the server announced a reply that is too long" : "no memory for a reply");
    /* A completion sends what was held back, and what done functions added. */
    int failure = rpc_sender_pending(&client->sender) > 0 ? rpc_client_send(client) : 0;
    if (failure < 0) {
        char reason[96];
        snprintf(reason, sizeof reason, "sending failed: %s", strerror(-failure));
        return give_up(client, reason);
    }
    return 0;
}

/* ---- the reading role, under the lock ---- */

static void take_role(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    client->reading = true;
    client->reader = pthread_self();
    client->role_serial++;
}

/* Gives the role up, to a thread that waits for its reply if there is one. */
static void leave_role(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    client->reading = false;
    for (struct rpc_waiter *waiter = client->waiters; waiter; waiter = waiter->next) {
        if (!waiter->call->complete) {
            pthread_cond_signal(&waiter->wake);
            return;
        }
    }
    /* An attender that only rests is not woken: the next short call may come at once. */
    if (client->attender && client->attender->state == RPC_ATTENDER_SLEEPING)
        pthread_cond_signal(&client->attender->wake);
}

/* The lesser of a number of milliseconds (-1: any) and the time that is left. 0: it is over. */
static int left_ms(int most_ms, uint64_t until)
{
    const uint64_t now = clock_now(), left = until > now ? (until - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS : 0;
    return most_ms < 0 || left < (uint64_t)most_ms ? (int)(left < INT_MAX ? left : INT_MAX) : most_ms;
}

/* Reads until the call is complete, or that time; 0: however long it takes. */
static void read_until_complete(rpc_client *client, struct rpc_call *call, uint64_t until)
{
    FLYT_ASSERT_HELD(&client->lock);
    take_role(client);
    while (!call->complete && !client->held) {
        pthread_mutex_unlock(&client->lock);
        if (read_replies(client, true) != -EAGAIN)
            continue;
        int timeout_ms = silence_look_ms(client);
        if (until && (timeout_ms = left_ms(timeout_ms, until)) == 0)
            break;
        pthread_mutex_unlock(&client->lock);
        int ready = rpc_channel_poll(client->channel, POLLIN, timeout_ms, false);
        if (ready == 0)
            check_silence(client);
        else if (ready < 0)
            rpc_client_lose(client, true, "waiting for replies: %s", strerror(-ready));
        pthread_mutex_lock(&client->lock);
    }
    leave_role(client);
}

/* Sleeps until the call is complete or the role is free. */
static void sleep_as_waiter(rpc_client *client, struct rpc_call *call)
{
    FLYT_ASSERT_HELD(&client->lock);
    CANCEL_OFF;
    struct rpc_waiter waiter = { .call = call, .next = client->waiters };
    pthread_cond_init(&waiter.wake, NULL);
    if (client->waiters)
        client->waiters->previous = &waiter;
    client->waiters = &waiter;
    call->waiter = &waiter;
    while (!call->complete && client->reading)
        pthread_cond_wait(&waiter.wake, &client->lock);
    if (waiter.previous)
        waiter.previous->next = waiter.next;
    else
        client->waiters = waiter.next;
    if (waiter.next)
        waiter.next->previous = waiter.previous;
    call->waiter = NULL;
    pthread_cond_destroy(&waiter.wake);
}

void rpc_client_await(rpc_client *client, struct rpc_call *call)
{
    FLYT_ASSERT_HELD(&client->lock);
    while (!call->complete) {
        if (client->reading)
            sleep_as_waiter(client, call);
        else if (client->held)
            rpc_client_await_renewal(client);
        else
            read_until_complete(client, call, 0);
    }
}

bool rpc_client_wait_until(rpc_client *client, struct rpc_call *call, uint64_t until)
{
    pthread_mutex_lock(&client->lock);
    client->statistics.waited++;
    if (!call->complete && !client->reading)
        read_until_complete(client, call, until);
    bool complete = call->complete;
    pthread_mutex_unlock(&client->lock);
    return complete;
}

int rpc_client_blocked(void *context)
{
    rpc_client *client = context;
    pthread_mutex_lock(&client->lock);
    if (client->sender.error != 0) {
        pthread_mutex_unlock(&client->lock);
        return client->sender.error;
    }
    bool mine = client->reading && pthread_equal(client->reader, pthread_self());
    bool others = client->reading && !mine;
    int timeout_ms = silence_look_ms(client);
    if (!others && !mine)
        take_role(client);
    pthread_mutex_unlock(&client->lock);

    /* Another thread reads, but may stop at any time: look again soon. */
    if (others && (timeout_ms < 0 || timeout_ms > RETRY_MS))
        timeout_ms = RETRY_MS;
    int ready = rpc_channel_poll(client->channel, others ? POLLOUT : POLLOUT | POLLIN, timeout_ms, false);
    if (!others && ready > 0 && (ready & POLLIN)) {
        read_replies(client, false);
        pthread_mutex_unlock(&client->lock);
    }
    if (ready == 0)
        check_silence(client);

    if (!others && !mine) {
        pthread_mutex_lock(&client->lock);
        leave_role(client);
        pthread_mutex_unlock(&client->lock);
    }
    return ready < 0 ? ready : 0;
}

/* ---- the attender ---- */

/* Another thread reads for itself: keep away for a moment. */
static void rest(rpc_client *client, struct rpc_attender *attender)
{
    FLYT_ASSERT_HELD(&client->lock);
    struct timespec until = clock_timespec(clock_now() + REST_NS);
    uint64_t serial = client->role_serial;
    attender->state = RPC_ATTENDER_RESTING;
    int timeout = pthread_cond_timedwait(&attender->wake, &client->lock, &until);
    /* Between the timeout and now the reader may have completed the call, or left a batch to this thread. It wakes this
     * thread only once, so look here. */
    if (timeout == ETIMEDOUT && client->reading && client->role_serial == serial && !attender->call->complete &&
        !client->kicked) {
        attender->state = RPC_ATTENDER_SLEEPING;
        pthread_cond_wait(&attender->wake, &client->lock);
    }
    attender->state = RPC_ATTENDER_BUSY;
}

/* Sleeps until bytes come or another thread wakes it; reads them if no other thread does. */
static void watch(rpc_client *client, struct rpc_attender *attender)
{
    FLYT_ASSERT_HELD(&client->lock);
    int timeout_ms = client->kicked ? 0 : silence_look_ms(client);     /* kicked: there is more to send */
    attender->state = RPC_ATTENDER_WATCHING;
    pthread_mutex_unlock(&client->lock);
    int ready = rpc_channel_poll(client->channel, POLLIN, timeout_ms, true);
    if (ready == 0)
        check_silence(client);
    else if (ready < 0)
        rpc_client_lose(client, true, "waiting for replies: %s", strerror(-ready));
    pthread_mutex_lock(&client->lock);
    attender->state = RPC_ATTENDER_BUSY;
    if (ready <= 0 || !(ready & POLLIN) || client->reading)
        return;
    take_role(client);
    pthread_mutex_unlock(&client->lock);
    read_replies(client, false);
    leave_role(client);
}

enum clnt_stat rpc_client_attend(rpc_client *client, struct rpc_call *call)
{
    struct rpc_attender attender = { .call = call, .state = RPC_ATTENDER_BUSY };
    int failure = 0;
    pthread_mutex_lock(&client->lock);
    if (client->attender) {
        pthread_mutex_unlock(&client->lock);
        return rpc_client_wait(client, call);
    }
    pthread_cond_init(&attender.wake, &client->monotonic);
    client->attender = &attender;
    uint64_t seen = client->role_serial;
    while (!call->complete) {
        rpc_client_await_renewal(client);
        if (client->kicked) {
            client->kicked = false;
            failure = rpc_client_send(client);
            if (failure < 0)
                break;
        }
        /* Looked at while others keep it busy sending, too, so that no thread waits for replies in vain. */
        if (call->complete)
            break;
        /* Who has read for himself since we looked will do so again: to watch now would only make the peer wake us. */
        bool busy = client->reading || client->waiters || client->role_serial != seen;
        if (!busy)
            watch(client, &attender);
        seen = client->role_serial;
        if (busy && !client->kicked)
            rest(client, &attender);
    }
    client->attender = NULL;                    /* from here on everybody sends all there is */
    client->kicked = false;
    if (failure == 0 && rpc_sender_pending(&client->sender) > 0)
        failure = rpc_client_send(client);
    pthread_mutex_unlock(&client->lock);
    pthread_cond_destroy(&attender.wake);

    if (failure < 0)
        rpc_client_lose(client, true, "sending failed: %s", strerror(-failure));
    pthread_mutex_lock(&client->lock);
    if (!call->complete)
        rpc_client_await(client, call);         /* completed by the loss; at most another thread is decoding it */
    pthread_mutex_unlock(&client->lock);
    return call->status;
}
