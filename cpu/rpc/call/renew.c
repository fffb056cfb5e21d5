/*
 * renew.c: a client whose connection is lost, and that goes on over another one.
 *
 * If the client's recorder asks for it (rpc_client_lose), a loss completes no call. The connection is `held`: a
 * thread that wants to submit a call waits, and so does one whose call is in flight. The recorder's owner has a copy of
 * all that was sent. It connects a second client, sends the calls again there, those in flight under their own numbers,
 * and gives that client's connection to this one. The answers then find the threads that wait for them.
 *
 * The old channel lives as long as the client: a thread may just be looking at it, and memory that it shares may be
 * mapped.
 */
#include "cpu/rpc/call/client.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cpu/common/cancel.h"
#include "cpu/common/lock.h"

void rpc_client_record(rpc_client *client, struct rpc_recorder *recorder)
{
    pthread_mutex_lock(&client->lock);
    client->recorder = recorder;
    pthread_mutex_unlock(&client->lock);
}

void rpc_client_locked(rpc_client *client, void (*run)(void *context), void *context)
{
    pthread_mutex_lock(&client->lock);
    run(context);
    pthread_mutex_unlock(&client->lock);
}

void rpc_client_break(rpc_client *client, const char *reason) { rpc_client_lose(client, true, "%s", reason); }

static bool in_use(const rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    return client->reading || client->sender.writing || client->done_running > 0 ||
           (client->attender && client->attender->state == RPC_ATTENDER_WATCHING);
}

void rpc_client_rest(rpc_client *client)
{
    enum { PAUSE_NS = 100 * 1000 };
    pthread_mutex_lock(&client->lock);
    while (client->held && in_use(client)) {
        pthread_mutex_unlock(&client->lock);
        nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
        pthread_mutex_lock(&client->lock);
    }
    pthread_mutex_unlock(&client->lock);
}

void rpc_client_follow(rpc_client *next, rpc_client *client)
{
    pthread_mutex_lock(&client->lock);
    uint32_t last = client->last_xid;
    pthread_mutex_unlock(&client->lock);
    pthread_mutex_lock(&next->lock);
    next->last_xid = last;
    pthread_mutex_unlock(&next->lock);
}

/* Frees a client without its channel, of which no other thread knows. */
static void dissolve(rpc_client *client)
{
    rpc_inbox_clear(&client->inbox);
    rpc_sender_destroy(&client->sender);
    pthread_condattr_destroy(&client->monotonic);
    pthread_cond_destroy(&client->renewed);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* The channel that the client had is kept. False: no memory. */
static bool retire(rpc_client *client)
{
    struct rpc_retired *retired = malloc(sizeof *retired);
    if (!retired)
        return false;
    *retired = (struct rpc_retired){ client->retired, client->channel };
    client->retired = retired;
    return true;
}

static void take_over(rpc_client *client, rpc_client *next)
{
    FLYT_ASSERT_HELD(&client->lock);
    client->channel = next->channel;
    rpc_inbox_clear(&client->inbox);
    client->inbox = next->inbox; /* what has come of an answer, and is not all there yet */
    rpc_inbox_init(&next->inbox, next->program->max_record);
    rpc_sender_renew(&client->sender, client->channel);
    client->last_xid = next->last_xid;
    client->kicked = false;
    client->heard = false;
    rpc_client_quiet_begins(client);
    client->held = false;
}

static void wake_all(rpc_client *client)
{
    FLYT_ASSERT_HELD(&client->lock);
    pthread_cond_broadcast(&client->renewed);
    for (struct rpc_waiter *waiter = client->waiters; waiter; waiter = waiter->next)
        pthread_cond_signal(&waiter->wake);
    rpc_client_wake_attender(client);
}

int rpc_client_renew(rpc_client *client, rpc_client *next, const struct rpc_early *early, unsigned count)
{
    CANCEL_OFF;
    pthread_mutex_lock(&client->lock);
    if (!client->held || rpc_client_lost(next) || !retire(client)) {
        pthread_mutex_unlock(&client->lock);
        return -ECONNRESET;
    }
    take_over(client, next);
    for (unsigned i = 0; i < count; i++)
        rpc_client_deliver(client, early[i].xid, RPC_SUCCESS, early[i].body, early[i].size);
    int failure = rpc_sender_pending(&client->sender) > 0 ? rpc_client_send(client) : 0;
    wake_all(client);
    pthread_mutex_unlock(&client->lock);
    if (failure < 0)
        rpc_client_lose(client, true, "sending failed");
    dissolve(next);
    return 0;
}

void rpc_client_renounce(rpc_client *client, const char *reason)
{
    rpc_client_record(client, NULL); /* so that the loss counts */
    rpc_client_lose(client, true, "%s", reason);
}

void rpc_client_retired_free(struct rpc_retired *retired)
{
    while (retired) {
        struct rpc_retired *older = retired->older;
        rpc_channel_destroy(retired->channel);
        free(retired);
        retired = older;
    }
}
