/* connect.c: how contexts connect with other ranks, and messages between two ranks. See comm.h. */
#include "cpu/comm/context.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- connecting ---- */

static void peer_lost(struct comm_link *link, void *of, int status, const char *why)
{
    const struct comm_peer *peer = of;
    (void)link;
    comm_context_lost(peer->context, peer->rank, status, why);
}

struct rank_meeting {
    struct comm_link *link;
    uint8_t           handles[COMM_HANDLES_MOST * COMM_HANDLE_SIZE];        /* first ours, then the peer's */
    unsigned          count;
    bool              calls;
};

/* Makes the link, and leaves its handles where the peer finds them. */
static int offer(struct comm_context *context, unsigned peer, struct rank_meeting *m, uint64_t deadline, char *error)
{
    const struct comm_link_settings settings = { .lost = peer_lost, .context = &context->peers[peer] };
    char key[40];
    snprintf(key, sizeof key, "link_%u_%u", context->settings.rank, peer);
    int status = comm_link_create(context->settings.engine, &settings, &m->link, error);
    if (status == 0)
        status = comm_link_listen(m->link, m->handles, &m->count, error);
    if (status == 0)
        status = comm_store_set(context->store, key, m->handles, (size_t)m->count * COMM_HANDLE_SIZE, deadline, error);
    return status;
}

static int fetch(struct comm_context *context, unsigned peer, struct rank_meeting *m, uint64_t deadline, char *error)
{
    char key[40];
    size_t size = 0;
    snprintf(key, sizeof key, "link_%u_%u", peer, context->settings.rank);
    int status = comm_store_get(context->store, key, m->handles, sizeof m->handles, &size, deadline, error);
    m->count = (unsigned)(size / COMM_HANDLE_SIZE);
    m->calls = status == 0 && m->count && comm_link_calls(m->link, m->handles);
    return status;
}

/* The links with all ranks that are wanted and not connected, in phases. First this rank calls those that it has to, so
   that two ranks which both wait to be called by a third never wait for each other. */
static int connect_to(struct comm_context *context, const bool *wanted, uint64_t deadline, char *error)
{
    unsigned size = context->settings.size;
    struct rank_meeting *all = calloc(size, sizeof *all);
    int status = all ? 0 : rpc_explain(error, -ENOMEM, "connecting ranks: no memory");
    for (unsigned r = 0; r < size && status == 0; r++)
        if (wanted[r] && !context->peers[r].link && !context->peers[r].near)
            status = offer(context, r, &all[r], deadline, error);
    for (unsigned r = 0; r < size && status == 0; r++)
        if (all[r].link)
            status = fetch(context, r, &all[r], deadline, error);
    for (int calls = 1; calls >= 0; calls--)
        for (unsigned r = 0; r < size && status == 0; r++)
            if (all[r].link && all[r].calls == (calls == 1))
                status = comm_link_join(all[r].link, all[r].handles, all[r].count, deadline, error);
    for (unsigned r = 0; all && r < size; r++) {
        if (!all[r].link)
            continue;
        pthread_mutex_lock(&context->lock);
        context->peers[r].link = all[r].link;
        pthread_mutex_unlock(&context->lock);
        context->linked = true;
    }
    free(all);
    if (status < 0) {
        char why[COMM_WHY_SIZE];
        snprintf(why, sizeof why, "rank %u: connecting: %.150s", context->settings.rank, error ? error : "");
        comm_context_fail(context, status, why);
    }
    return status < 0 ? status : comm_context_status(context, error);
}

int comm_context_connect_full_mesh(struct comm_context *context, uint64_t deadline, char *error)
{
    char own[RPC_ERROR_SIZE] = "";
    bool wanted[COMM_RANKS_MOST] = { false };
    for (unsigned r = 0; r < context->settings.size; r++)
        wanted[r] = r != context->settings.rank;
    int status = connect_to(context, wanted, deadline, own);
    if (status == 0)
        status = comm_context_agree(context, deadline, own);
    return status < 0 ? rpc_explain(error, status, "%s", own) : 0;
}

int comm_context_connect(struct comm_context *context, const bool *wanted, uint64_t deadline, char *error)
{
    char own[RPC_ERROR_SIZE] = "";
    bool missing = false;
    for (unsigned r = 0; r < context->settings.size; r++)
        missing |= wanted[r] && !context->peers[r].link && !context->peers[r].near;
    int status = !missing         ? 0
                 : context->store ? connect_to(context, wanted, deadline, own)
                                  : rpc_explain(own, -ENOTCONN, "a rank is not connected");
    return status < 0 ? rpc_explain(error, status, "%s", own) : 0;
}

/* ---- messages between two ranks ---- */

struct rank_message { struct comm_transfer t; struct comm_context *context; bool done; };

static void message_done(struct comm_transfer *t)
{
    struct rank_message *m = t->context;
    pthread_mutex_lock(&m->context->lock);
    m->done = true;
    pthread_cond_broadcast(&m->context->changed);
    pthread_mutex_unlock(&m->context->lock);
}

static struct comm_pair *pair_of(struct comm_context *c, unsigned peer, uint64_t deadline, int *status, char *error)
{
    char own[RPC_ERROR_SIZE] = "";
    bool wanted[COMM_RANKS_MOST] = { false };
    *status = peer < c->settings.size && peer != c->settings.rank
                  ? comm_context_status(c, error)
                  : rpc_explain(error, -EINVAL, "rank %u is not another rank", peer);
    if (*status < 0)
        return NULL;
    wanted[peer] = true;
    if (!c->peers[peer].link && (*status = connect_to(c, wanted, deadline, own)) < 0) {
        rpc_explain(error, *status, "%s", own);
        return NULL;
    }
    pthread_mutex_lock(&c->lock);
    if (!c->peers[peer].pair)
        c->peers[peer].pair = comm_pair_create(c->peers[peer].link);
    pthread_mutex_unlock(&c->lock);
    *status = c->peers[peer].pair ? 0 : rpc_explain(error, -ENOMEM, "no memory for a pair");
    return c->peers[peer].pair;
}

static int carry(struct comm_context *c, unsigned peer, uint32_t tag, struct rank_message *m, uint64_t deadline,
                 char *error, int (*post)(struct comm_pair *, uint32_t, struct comm_transfer *))
{
    struct timespec until = clock_timespec(deadline);
    int status;
    struct comm_pair *pair = pair_of(c, peer, deadline, &status, error);
    if (!pair)
        return status;
    m->t.done = message_done;
    m->t.context = m;
    m->context = c;
    int posted = post(pair, tag, &m->t);
    pthread_mutex_lock(&c->lock);
    while (posted == 0 && !m->done && status == 0)
        status = pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &until);
    bool late = posted == 0 && !m->done;
    pthread_mutex_unlock(&c->lock);
    if (late) {                                 /* its memory is in use until the link has ended */
        char why[COMM_WHY_SIZE];
        snprintf(why, sizeof why, "rank %u: a message with tag %u and rank %u was not complete in time",
                 c->settings.rank, tag, peer);
        comm_context_fail(c, -ETIMEDOUT, why);
        pthread_mutex_lock(&c->lock);
        while (!m->done)
            pthread_cond_wait(&c->changed, &c->lock);
        pthread_mutex_unlock(&c->lock);
    }
    status = posted < 0 ? posted : m->t.status;
    if (status < 0 && status != -EMSGSIZE && status != -ENOSPC)
        status = comm_context_reason(c, status);
    if (status < 0 && comm_context_status(c, error) == 0)
        rpc_explain(error, status, "a message with tag %u and rank %u: %s", tag, peer, strerror(-status));
    return status;
}

int comm_send(struct comm_context *c, unsigned peer, uint32_t tag, const void *memory, uint64_t size,
              uint64_t deadline, char *error)
{
    struct rank_message m = { .t = { .memory = (void *)(uintptr_t)memory, .size = size } };
    return carry(c, peer, tag, &m, deadline, error, comm_pair_send);
}

int comm_receive(struct comm_context *c, unsigned peer, uint32_t tag, void *memory, uint64_t size, uint64_t *got,
                 uint64_t deadline, char *error)
{
    struct rank_message m = { .t = { .memory = memory, .size = size, .any_size = true } };
    int status = carry(c, peer, tag, &m, deadline, error, comm_pair_receive);
    if (got)
        *got = status == 0 ? m.t.peer_size : 0;
    return status;
}
