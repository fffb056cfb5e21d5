/*
 * heard.c: messages that come. UCX calls these functions while the card's thread makes progress, or, if both ends of a
 * link are on one card, while a thread sends: the card's lock is held. Whoever reaches the worker may send them, so
 * what does not fit a channel is dropped.
 */
#include "cpu/comm/ucx/ucx_state.h"

#include "cpu/common/little_endian.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct ucx_channel *find(struct comm_ucx *u, const uint8_t *token)
{
    uint64_t key = little_get(&token, 8), tie = little_get(&token, 8);
    struct tree_node *node = tree_at_or_above(&u->channels, key, tie);
    return node && node->key == key && node->tie == tie ? TREE_OBJECT(node, struct ucx_channel, node) : NULL;
}

/* Not taken. What the sender would only send when it is fetched ends there, too. */
static ucs_status_t refuse(const ucp_am_recv_param_t *param)
{
    return param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV ? UCS_ERR_REJECTED : UCS_OK;
}

/* Whether its bytes have a place in the ring, in one piece, where nothing lies that was not taken. */
static bool fits(const struct ucx_channel *c, uint64_t number, uint64_t begin, size_t length)
{
    return number >= c->in_count && number - c->in_count < UCX_MESSAGES &&
           c->in[number % UCX_MESSAGES].state == UCX_NONE && length >= 1 && length <= UCX_MESSAGE &&
           begin >= c->taken && begin - c->taken <= UCX_RING - length && begin % UCX_RING <= UCX_RING - length;
}

static bool has_ring(struct ucx_channel *c)
{
    if (!c->in_ring)
        c->in_ring = aligned_alloc(4096, UCX_RING);
    return c->in_ring != NULL;
}

ucs_status_t ucx_heard_data(void *card, const void *head, size_t head_size, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    struct comm_ucx *u = card;
    struct ucx_channel *c = head_size == UCX_DATA_HEAD ? find(u, head) : NULL;
    FLYT_ASSERT_HELD(&u->lock);
    if (!c || c->failed)
        return refuse(param);
    const uint8_t *at = (const uint8_t *)head + UCX_TOKEN;
    uint64_t number = little_get(&at, 8), begin = little_get(&at, 8);
    if (!fits(c, number, begin, length)) {
        ucx_fail(c, -EPROTO);
        return refuse(param);
    }
    struct ucx_in *m = &c->in[number % UCX_MESSAGES];
    *m = (struct ucx_in){ .channel = c, .state = UCX_THERE, .begin = begin, .length = length, .data = data };
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        m->state = UCX_OFFERED;
        m->held = data;
        if (!list_linked(&c->offered))
            list_append(&u->offered, &c->offered);
        return UCS_INPROGRESS;
    }
    ucx_due(c, true, false);
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) {
        m->held = data;
        return UCS_INPROGRESS;
    }
    if (!has_ring(c)) {
        m->state = UCX_NONE;
        ucx_fail(c, -ENOMEM);
        return UCS_OK;
    }
    m->data = memcpy(c->in_ring + begin % UCX_RING, data, length);
    return UCS_OK;
}

ucs_status_t ucx_heard_ack(void *card, const void *head, size_t head_size, void *data, size_t length,
                           const ucp_am_recv_param_t *param)
{
    struct comm_ucx *u = card;
    struct ucx_channel *c = head_size == UCX_ACK_HEAD && length == 0 ? find(u, head) : NULL;
    (void)data;
    FLYT_ASSERT_HELD(&u->lock);
    if (!c || c->failed)
        return refuse(param);
    const uint8_t *at = (const uint8_t *)head + UCX_TOKEN;
    uint64_t taken = little_get(&at, 8);
    if (taken > c->out_count) {
        ucx_fail(c, -EPROTO);
    } else if (taken > c->out_taken) {          /* an older one may come behind a newer one */
        c->out_taken = taken;
        ucx_release_sent(c);
    }
    return refuse(param);
}

ucs_status_t ucx_heard_hello(void *card, const void *head, size_t head_size, void *data, size_t length,
                             const ucp_am_recv_param_t *param)
{
    struct comm_ucx *u = card;
    struct ucx_channel *c = head_size == UCX_TOKEN && length == 0 ? find(u, head) : NULL;
    (void)data;
    FLYT_ASSERT_HELD(&u->lock);
    if (c) {
        c->heard = true;
        pthread_cond_broadcast(&u->changed);
    }
    return refuse(param);
}

/* ---- fetching ---- */

static void arrived(struct ucx_in *m, ucs_status_t status)
{
    struct ucx_channel *c = m->channel;
    if (status == UCS_OK) {
        m->state = UCX_THERE;
        m->data = c->in_ring + m->begin % UCX_RING;
        ucx_due(c, true, false);
    } else {
        m->state = UCX_NONE;
        ucx_fail(c, -ECONNRESET);
    }
}

static void fetched(void *request, ucs_status_t status, size_t length, void *message)
{
    struct ucx_in *m = message;
    struct ucx_channel *c = m->channel;
    FLYT_ASSERT_HELD(&c->card->lock);
    c->card->ucx->ucp_request_free(request);
    arrived(m, status == UCS_OK && length != m->length ? UCS_ERR_MESSAGE_TRUNCATED : status);
    ucx_completed(c);
}

static void fetch_one(struct ucx_channel *c, struct ucx_in *m)
{
    struct comm_ucx *u = c->card;
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                        .cb.recv_am = fetched,
                                        .user_data = m };
    void *held = m->held;
    if (c->failed || !has_ring(c)) {
        m->state = UCX_NONE;
        u->ucx->ucp_am_data_release(u->worker, held);
        ucx_fail(c, -ENOMEM);
        return;
    }
    m->held = NULL;                             /* UCX's, whatever it answers */
    m->state = UCX_COMING;
    c->pending++;
    ucs_status_ptr_t result =
        u->ucx->ucp_am_recv_data_nbx(u->worker, held, c->in_ring + m->begin % UCX_RING, m->length, &param);
    if (result && !ucx_is_error(result))
        return;
    c->pending--;
    arrived(m, ucx_status_of(result));
}

bool ucx_fetch(struct comm_ucx *u)
{
    bool some = false;
    FLYT_ASSERT_HELD(&u->lock);
    for (struct list *one; (one = list_first(&u->offered)); some = true) {
        struct ucx_channel *c = LIST_OBJECT(one, struct ucx_channel, offered);
        list_remove(one);
        for (unsigned i = 0; i < UCX_MESSAGES; i++)
            if (c->in[i].state == UCX_OFFERED)
                fetch_one(c, &c->in[i]);
    }
    return some;
}
