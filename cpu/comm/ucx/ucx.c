/*
 * ucx.c: a channel by UCX: a stream of bytes each way, cut into messages. See ucx.h.
 *
 * The end of the stream. When an end shuts its channel down it says on the socket how many bytes it has sent in all,
 * and ends that. The two come on different ways: whoever reads the end waits, for GIVE_UP at most, for the bytes that
 * are missing. A process that is killed says no number, and what has not come then does not come.
 */
#include "cpu/comm/ucx/ucx_state.h"

#include "cpu/comm/greet/greet.h"
#include "cpu/common/clock.h"
#include "cpu/common/little_endian.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* LEAST: a sender waits rather than sending a smaller piece of what it has. ACK_…: after so many messages or bytes the
   sender hears that they were taken; both are less than what it may have under way, so it never waits in vain.
   LEAVE_MS: so long what was sent last may take to leave. */
enum { LEAST = 16 * 1024, ACK_MESSAGES = UCX_MESSAGES / 4, ACK_BYTES = UCX_RING / 4, LEAVE_MS = 200 };
#define GIVE_UP (500 * CLOCK_NS_PER_MS)

static struct ucx_channel *of(rpc_channel *channel)
{
    return (struct ucx_channel *)channel;
}

/* ---- sending ---- */

/* How much of `wanted` bytes the next message may have, or -errno. */
static ssize_t room_for(struct ucx_channel *c, size_t wanted)
{
    FLYT_ASSERT_HELD(&c->card->lock);
    if (c->failed || c->shut || c->ended)
        return c->failed ? c->failed : -EPIPE;
    if (!c->out_ring && !(c->out_ring = aligned_alloc(4096, UCX_RING)))
        return -ENOMEM;
    size_t room = UCX_RING - (size_t)(c->sent - c->freed), ahead = UCX_RING - (size_t)(c->sent % UCX_RING);
    room = room < ahead ? room : ahead;
    room = room < UCX_MESSAGE ? room : UCX_MESSAGE;
    room = room < wanted ? room : wanted;
    if (c->out_count - c->out_freed == UCX_MESSAGES || (room < wanted && room < LEAST && room < ahead)) {
        c->out_waits = true;
        return -EAGAIN;
    }
    return (ssize_t)room;
}

void ucx_release_sent(struct ucx_channel *c)
{
    FLYT_ASSERT_HELD(&c->card->lock);
    while (c->out_freed < c->out_taken && c->out[c->out_freed % UCX_MESSAGES].done)
        c->freed = c->out[c->out_freed++ % UCX_MESSAGES].end;
    if (c->out_waits && (c->sent == c->freed || (c->sent - c->freed <= UCX_RING - LEAST &&
                                                 c->out_count - c->out_freed < UCX_MESSAGES))) {
        c->out_waits = false;
        ucx_due(c, false, true);
    }
}

static void free_channel(struct ucx_channel *c)
{
    list_remove(&c->due);
    list_remove(&c->buried);
    free(c->out_ring);
    free(c->in_ring);
    free(c);
}

void ucx_completed(struct ucx_channel *c)
{
    FLYT_ASSERT_HELD(&c->card->lock);
    if (--c->pending == 0 && list_linked(&c->buried))
        free_channel(c);
}

static void sent(void *request, ucs_status_t status, void *message)
{
    struct ucx_out *m = message;
    struct ucx_channel *c = m->channel;
    FLYT_ASSERT_HELD(&c->card->lock);
    c->card->ucx->ucp_request_free(request);
    m->done = true;
    c->sending--;
    if (status != UCS_OK)
        ucx_fail(c, -ECONNRESET);
    ucx_release_sent(c);
    ucx_completed(c);
}

/* The bytes lie in the ring. */
static int post(struct ucx_channel *c, size_t size)
{
    struct comm_ucx *u = c->card;
    struct ucx_out *m = &c->out[c->out_count % UCX_MESSAGES];
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                        .cb.send = sent,
                                        .user_data = m };
    FLYT_ASSERT_HELD(&u->lock);
    if (c->failed)
        return c->failed;
    *m = (struct ucx_out){ .channel = c, .end = c->sent + size };
    memcpy(m->head, c->theirs, UCX_TOKEN);
    little_put(little_put(m->head + UCX_TOKEN, c->out_count, 8), c->sent, 8);
    const uint8_t *bytes = c->out_ring + c->sent % UCX_RING;
    c->out_count++;
    c->sent += size;
    c->pending++;
    c->sending++;
    ucs_status_ptr_t result = u->ucx->ucp_am_send_nbx(c->ep, UCX_DATA, m->head, sizeof m->head, bytes, size, &param);
    if (result && !ucx_is_error(result)) {
        ucx_nudge(u);
        return 0;
    }
    c->pending--;
    c->sending--;
    m->done = true;
    if (list_first(&u->due))
        ucx_nudge(u);                           /* both ends are on this card, and the message is there already */
    if (!result)
        return 0;
    ucx_fail(c, -ECONNRESET);
    return c->failed;
}

static ssize_t channel_send(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct ucx_channel *c = of(channel);
    struct comm_ucx *u = c->card;
    size_t wanted = 0;
    for (int i = 0; i < count; i++)
        wanted += vector[i].iov_len;
    pthread_mutex_lock(&u->lock);
    ssize_t room = room_for(c, wanted);
    pthread_mutex_unlock(&u->lock);
    if (room <= 0)
        return room;
    /* One thread at a time sends, so this place of the ring is its own. */
    uint8_t *to = c->out_ring + c->sent % UCX_RING;
    size_t left = (size_t)room;
    for (int i = 0; left > 0; i++) {
        size_t part = vector[i].iov_len < left ? vector[i].iov_len : left;
        memcpy(to, vector[i].iov_base, part);
        to += part;
        left -= part;
    }
    pthread_mutex_lock(&u->lock);
    int status = post(c, (size_t)room);
    pthread_mutex_unlock(&u->lock);
    return status < 0 ? status : room;
}

/* ---- receiving ---- */

struct ucx_ack {
    struct ucx_channel *channel;
    uint8_t head[UCX_ACK_HEAD];
};

static void acknowledged(void *request, ucs_status_t status, void *context)
{
    struct ucx_ack *what = context;
    struct ucx_channel *c = what->channel;
    FLYT_ASSERT_HELD(&c->card->lock);
    c->card->ucx->ucp_request_free(request);
    free(what);
    if (status != UCS_OK)
        ucx_fail(c, -ECONNRESET);
    ucx_completed(c);
}

/* Lets the sender know how much was taken. */
static void acknowledge(struct ucx_channel *c)
{
    struct comm_ucx *u = c->card;
    struct ucx_ack *what = malloc(sizeof *what);
    if (!what) {
        ucx_fail(c, -ENOMEM);
        return;
    }
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                        .cb.send = acknowledged,
                                        .user_data = what };
    what->channel = c;
    memcpy(what->head, c->theirs, UCX_TOKEN);
    little_put(what->head + UCX_TOKEN, c->in_count, 8);
    c->in_said = c->in_count;
    c->pending++;
    ucs_status_ptr_t result = u->ucx->ucp_am_send_nbx(c->ep, UCX_ACK, what->head, sizeof what->head, NULL, 0, &param);
    if (result && !ucx_is_error(result))
        return;
    c->pending--;
    free(what);
    if (result)
        ucx_fail(c, -ECONNRESET);
}

/* All of the next message was taken. */
static void pass(struct ucx_channel *c)
{
    struct comm_ucx *u = c->card;
    struct ucx_in *m = &c->in[c->in_count % UCX_MESSAGES];
    uint64_t before = c->taken / ACK_BYTES;
    if (m->held)
        u->ucx->ucp_am_data_release(u->worker, m->held);
    c->taken += m->length;
    c->part = 0;
    *m = (struct ucx_in){ .state = UCX_NONE };
    c->in_count++;
    if (!c->failed && (c->in_count - c->in_said >= ACK_MESSAGES || c->taken / ACK_BYTES != before))
        acknowledge(c);
}

/* Bytes that were taken; 0: there are none now. */
static size_t take(struct ucx_channel *c, uint8_t *to, size_t room)
{
    struct comm_ucx *u = c->card;
    size_t done = 0;
    pthread_mutex_lock(&u->lock);
    while (done < room) {
        const struct ucx_in *m = &c->in[c->in_count % UCX_MESSAGES];
        if (m->state != UCX_THERE)
            break;
        if (m->begin != c->taken) {
            ucx_fail(c, -EPROTO);
            break;
        }
        size_t part = m->length - c->part < room - done ? m->length - c->part : room - done;
        const uint8_t *from = m->data + c->part;
        /* Only this thread takes messages away. */
        pthread_mutex_unlock(&u->lock);
        memcpy(to + done, from, part);
        pthread_mutex_lock(&u->lock);
        done += part;
        c->part += part;
        if (c->part == m->length)
            pass(c);
    }
    pthread_mutex_unlock(&u->lock);
    return done;
}

/* Takes what the socket says, which is only how it ends. */
static void look_at_socket(struct ucx_channel *c)
{
    uint8_t bytes[16];
    struct iovec into = { bytes, sizeof bytes };
    ssize_t got;
    while ((got = rpc_channel_receive_into(c->socket, &into, 1)) > 0) {
        size_t part = sizeof c->last - c->last_size;
        part = part < (size_t)got ? part : (size_t)got;
        memcpy(c->last + c->last_size, bytes, part);
        c->last_size += part;
    }
    if (got == -EAGAIN)
        return;
    pthread_mutex_lock(&c->card->lock);
    if (!c->ended)
        c->ended_at = clock_now();
    c->ended = true;
    pthread_mutex_unlock(&c->card->lock);
}

/* Whether the peer has said that it sent more than was taken. */
static bool more_comes(const struct ucx_channel *c)
{
    const uint8_t *last = c->last;
    return c->last_size == sizeof c->last && little_get(&last, 8) > c->taken + c->part;
}

static ssize_t channel_receive_into(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct ucx_channel *c = of(channel);
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        size_t got = take(c, vector[i].iov_base, vector[i].iov_len);
        total += got;
        if (got < vector[i].iov_len)
            break;
    }
    if (total > 0)
        return (ssize_t)total;
    look_at_socket(c);
    pthread_mutex_lock(&c->card->lock);
    ssize_t status = c->failed                                               ? c->failed
                     : c->ended && (c->given_up || !more_comes(c)) ? 0
                                                                   : -EAGAIN;
    pthread_mutex_unlock(&c->card->lock);
    return status;
}

/* ---- the rest ---- */

static int channel_descriptor(const rpc_channel *channel)
{
    const rpc_channel *socket = ((const struct ucx_channel *)channel)->socket;
    return socket->operations->descriptor(socket);
}

static int channel_peer(rpc_channel *channel)
{
    struct ucx_channel *c = of(channel);
    pthread_mutex_lock(&c->card->lock);
    if (c->ended && !c->given_up && clock_now() > c->ended_at + GIVE_UP) {
        c->given_up = true;
        ucx_due(c, true, false);
        ucx_nudge(c->card);
    }
    pthread_mutex_unlock(&c->card->lock);
    return rpc_channel_peer(c->socket);
}

static void channel_shutdown(rpc_channel *channel)
{
    struct ucx_channel *c = of(channel);
    uint8_t last[8];
    struct iovec vector = { last, sizeof last };
    pthread_mutex_lock(&c->card->lock);
    bool before = c->shut;
    if (!before)
        c->shut_at = clock_now();
    c->shut = true;
    little_put(last, c->sent, 8);
    pthread_mutex_unlock(&c->card->lock);
    if (!before) {
        ssize_t ignored = rpc_channel_send(c->socket, &vector, 1);
        (void)ignored;
    }
    rpc_channel_shutdown(c->socket);
}

static void closed(void *request, ucs_status_t status, void *context)
{
    struct ucx_channel *c = context;
    (void)status;
    FLYT_ASSERT_HELD(&c->card->lock);
    c->card->ucx->ucp_request_free(request);
    ucx_completed(c);
}

/* UCX completes what it has of it; at once, where it can be made to. */
static void close_ep(struct ucx_channel *c)
{
    bool force = c->notices && (c->failed || c->ended || c->sending > 0);
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                        UCP_OP_ATTR_FIELD_FLAGS,
                                        .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0,
                                        .cb.send = closed,
                                        .user_data = c };
    if (!c->ep)
        return;
    c->pending++;
    ucs_status_ptr_t result = c->card->ucx->ucp_ep_close_nbx(c->ep, &param);
    c->ep = NULL;
    if (!result || ucx_is_error(result))
        c->pending--;
}

/* What was sent last leaves, if it can. */
static void wait_until_sent(struct ucx_channel *c)
{
    struct comm_ucx *u = c->card;
    struct timespec until = clock_timespec((c->shut ? c->shut_at : clock_now()) + LEAVE_MS * CLOCK_NS_PER_MS);
    u->waiters++;
    ucx_nudge(u);
    for (int status = 0; c->sending > 0 && !c->failed && !c->ended && status == 0;)
        status = pthread_cond_clockwait(&u->changed, &u->lock, CLOCK_MONOTONIC, &until);
    u->waiters--;
}

void ucx_channel_end(struct ucx_channel *c)
{
    struct comm_ucx *u = c->card;
    pthread_mutex_lock(&u->lock);
    wait_until_sent(c);
    tree_remove(&u->channels, &c->node);
    list_remove(&c->offered);
    c->owner = NULL;
    for (unsigned i = 0; i < UCX_MESSAGES; i++)
        if (c->in[i].held)
            u->ucx->ucp_am_data_release(u->worker, c->in[i].held);
    close_ep(c);
    if (c->pending)
        list_append(&u->buried, &c->buried);
    else
        free_channel(c);
    ucx_nudge(u);
    pthread_mutex_unlock(&u->lock);
}

static void channel_destroy(rpc_channel *channel)
{
    rpc_channel *socket = of(channel)->socket;
    ucx_channel_end(of(channel));
    rpc_channel_destroy(socket);
}

static void channel_abandon(rpc_channel *channel)
{
    rpc_channel_abandon(of(channel)->socket);
}

/* Links use epoll on the descriptor and never poll, wake or receive into an inbox: those operations are not there. */
static const struct rpc_channel_operations channel_operations = {
    .send = channel_send,
    .receive_into = channel_receive_into,
    .descriptor = channel_descriptor,
    .peer = channel_peer,
    .shutdown = channel_shutdown,
    .destroy = channel_destroy,
    .abandon = channel_abandon,
};

struct ucx_channel *ucx_channel_create(struct comm_ucx *u, rpc_channel *socket)
{
    struct ucx_channel *c = calloc(1, sizeof *c);
    uint8_t token[UCX_TOKEN];
    const uint8_t *at = token;
    if (!c || comm_random(token, sizeof token) < 0) {
        free(c);
        return NULL;
    }
    c->base.operations = &channel_operations;
    atomic_init(&c->base.transport, "ucx");
    atomic_init(&c->base.direct, false);
    c->card = u;
    c->socket = socket;
    c->node.key = little_get(&at, 8);
    c->node.tie = little_get(&at, 8);
    pthread_mutex_lock(&u->lock);
    tree_insert(&u->channels, &c->node);
    pthread_mutex_unlock(&u->lock);
    return c;
}

void comm_ucx_own(rpc_channel *channel, void *owner)
{
    struct ucx_channel *c = of(channel);
    pthread_mutex_lock(&c->card->lock);
    c->owner = owner;
    pthread_mutex_unlock(&c->card->lock);
}
