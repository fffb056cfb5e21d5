/* comm.c: contexts: their life, their failure, and the ways to the other ranks. See comm.h. */
#include "cpu/comm/context.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_MS = 1000 };

/* ---- failure ---- */

void comm_context_fail(struct comm_context *context, int status, const char *why)
{
    pthread_mutex_lock(&context->lock);
    bool first = context->status == 0;
    if (first) {
        context->status = status;
        snprintf(context->why, sizeof context->why, "%s", why);
        comm_trace_fail(context);
        pthread_cond_broadcast(&context->changed);
    }
    pthread_mutex_unlock(&context->lock);
    if (first)
        comm_trace_write(context);
    if (first && context->near)
        comm_near_fail(context->near, status, why);
    for (unsigned r = 0; first && r < context->settings.size; r++) {
        pthread_mutex_lock(&context->lock);
        struct comm_link *link = context->peers[r].link;
        pthread_mutex_unlock(&context->lock);
        if (link)
            comm_link_abort(link, status, why);
    }
}

void comm_context_lost(struct comm_context *context, unsigned rank, int status, const char *why)
{
    char text[COMM_WHY_SIZE];
    if (status == -ESHUTDOWN)                   /* it has closed its context; who needs it notices */
        return;
    if (strncmp(why, "rank", 4) == 0)
        snprintf(text, sizeof text, "%s", why); /* what another rank has said */
    else
        snprintf(text, sizeof text, "rank %u: %s", rank, why);
    comm_context_fail(context, status, text);
}

void comm_context_abort(struct comm_context *context, int status, const char *why)
{
    char text[COMM_WHY_SIZE];
    snprintf(text, sizeof text, "rank %u: %s", context->settings.rank, why);
    comm_context_fail(context, status, text);
}

int comm_context_status(struct comm_context *context, char *error)
{
    pthread_mutex_lock(&context->lock);
    int status = context->status;
    if (status < 0)
        rpc_explain(error, status, "%s", context->why);
    pthread_mutex_unlock(&context->lock);
    return status;
}

int comm_context_reason(struct comm_context *context, int status)
{
    struct timespec until = clock_timespec(clock_now() + REASON_MS * CLOCK_NS_PER_MS);
    int waited = 0;
    pthread_mutex_lock(&context->lock);
    while (context->status == 0 && waited == 0)
        waited = pthread_cond_clockwait(&context->changed, &context->lock, CLOCK_MONOTONIC, &until);
    int known = context->status;
    pthread_mutex_unlock(&context->lock);
    return known < 0 ? known : status;
}

/* ---- contexts ---- */

void comm_context_rank(const struct comm_context *context, unsigned *rank, unsigned *size)
{
    *rank = context->settings.rank;
    *size = context->settings.size;
}

static void context_free(struct comm_context *context)
{
    pthread_cond_destroy(&context->changed);
    pthread_mutex_destroy(&context->lock);
    comm_trace_destroy(context->trace);
    free(context->scratch);
    free(context);
}

int comm_context_create(const struct comm_context_settings *settings, struct comm_store *store,
                        struct comm_context **out, char *error)
{
    if (settings->size < 1 || settings->size > COMM_RANKS_MOST || settings->rank >= settings->size)
        return rpc_explain(error, -EINVAL, "a context: rank %u of %u; there are 1 to %d ranks, from 0", settings->rank,
                           settings->size, COMM_RANKS_MOST);
    const char *name = env_get("FLYT_COMM_ALGORITHM");
    enum comm_algorithm forced = name && *name ? comm_algorithm_of(name) : COMM_AUTOMATIC;
    if (name && *name && forced == COMM_AUTOMATIC && strcmp(name, "auto") != 0)
        return rpc_explain(error, -EINVAL, "FLYT_COMM_ALGORITHM is auto, ring, tree, doubling, halving, bruck or "
                                           "pairwise, not %s", name);
    struct comm_context *context = calloc(1, sizeof *context + settings->size * sizeof *context->peers);
    if (!context)
        return rpc_explain(error, -ENOMEM, "a context: no memory");
    context->trace = comm_trace_create(settings);
    if (!context->trace) {
        free(context);
        return rpc_explain(error, -ENOMEM, "a context: no memory");
    }
    context->settings = *settings;
    context->store = store;
    context->near = settings->near;
    if (settings->algorithm == COMM_AUTOMATIC)
        context->settings.algorithm = forced;
    if (settings->table.latency_us <= 0 || settings->table.mb_per_s <= 0)
        context->settings.table = (struct comm_table)COMM_TABLE_USUAL;
    pthread_mutex_init(&context->lock, NULL);
    pthread_cond_init(&context->changed, NULL);
    for (unsigned r = 0; r < settings->size; r++) {
        context->peers[r].context = context;
        context->peers[r].rank = r;
    }
    /* From here on threads of other ranks may say that the place has failed. */
    int status = context->near ? comm_near_enter(context->near, settings->rank, context) : 0;
    if (status < 0) {
        context_free(context);
        return rpc_explain(error, status, "a context: rank %u is in this process already, or its ranks have failed",
                           settings->rank);
    }
    if (context->near)
        comm_near_hold(context->near);
    *out = context;
    return 0;
}

void comm_context_destroy(struct comm_context *context)
{
    if (!context)
        return;
    comm_trace_write(context);
    comm_sided_end(context);
    if (context->near)
        comm_near_leave(context->near, context->settings.rank);
    comm_near_drop(context->near);
    for (unsigned r = 0; r < context->settings.size; r++) {
        comm_pair_destroy(context->peers[r].pair);
        if (!context->peers[r].lent)
            comm_link_close(context->peers[r].link);
    }
    comm_sides_drop(context->sides);
    context_free(context);
}

/* ---- the ways to the other ranks ---- */

void comm_context_use_link(struct comm_context *context, unsigned rank, struct comm_link *link)
{
    pthread_mutex_lock(&context->lock); /* a link of another rank may fail meanwhile */
    context->peers[rank].link = link;
    context->peers[rank].lent = true;
    context->linked = true;
    pthread_mutex_unlock(&context->lock);
}

void comm_context_use_near(struct comm_context *context, unsigned rank) { context->peers[rank].near = true; }

int comm_peer_send(struct comm_context *c, unsigned peer, struct comm_transfer *t)
{
    return c->peers[peer].near ? comm_near_send(c->near, c->settings.rank, peer, t)
                               : comm_link_send(c->peers[peer].link, t);
}

int comm_peer_receive(struct comm_context *c, unsigned peer, struct comm_transfer *t)
{
    return c->peers[peer].near ? comm_near_receive(c->near, c->settings.rank, peer, t)
                               : comm_link_receive(c->peers[peer].link, t);
}

int comm_peer_status(struct comm_context *c, unsigned peer)
{
    return c->peers[peer].near ? comm_near_status(c->near) : comm_link_status(c->peers[peer].link);
}

/* ---- registered memory ---- */

int comm_context_register(struct comm_context *c, const void *memory, uint64_t size)
{
    return c->settings.registers && c->linked && memory && size ? comm_engine_register(c->settings.engine, memory, size)
                                                                : 0;
}

void comm_context_unregister(struct comm_context *c, const void *memory, uint64_t size)
{
    if (c->settings.registers && c->linked && memory && size)
        comm_engine_unregister(c->settings.engine, memory, size);
}
