/*
 * join.c: how the two ends of a channel come together. All goes over the greeted socket, both ends alike:
 *
 *   1. "FlytUCX1" (8), release of UCX (1, 1), 0 (2), size of the address (4), token (16); the worker's address
 *   2. how this end has connected (1: UCX notices the peer's end; 2: it does not; 0: not at all), UCX's status (1)
 *   3. HELLO by UCX; then a byte: it has come
 *
 * The token is what the other end's messages begin with from then on.
 */
#include "cpu/comm/ucx/ucx_state.h"

#include "cpu/comm/greet/greet.h"
#include "cpu/common/clock.h"
#include "cpu/common/little_endian.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 32, MAGIC = 8, ADDRESS_MOST = 16 * 1024, LOOK_MS = 50 };
enum { NOT_CONNECTED, NOTICES, NOTICES_NOT };
static const char magic[MAGIC] = { 'F', 'l', 'y', 't', 'U', 'C', 'X', '1' };

/* ---- 1: addresses ---- */

static int send_address(struct ucx_channel *c, uint64_t deadline)
{
    struct comm_ucx *u = c->card;
    uint8_t head[HEAD], *at = head + MAGIC;
    memcpy(head, magic, MAGIC);
    at = little_put(at, u->version[0], 1);
    at = little_put(at, u->version[1], 1);
    at = little_put(at, 0, 2);
    at = little_put(at, u->address_size, 4);
    at = little_put(at, c->node.key, 8);
    little_put(at, c->node.tie, 8);
    int status = comm_send_all(c->socket, head, sizeof head, deadline);
    return status < 0 ? status : comm_send_all(c->socket, u->address, u->address_size, deadline);
}

/* *address is the caller's to free. */
static int receive_address(struct ucx_channel *c, void **address, uint64_t deadline, char *error)
{
    struct comm_ucx *u = c->card;
    uint8_t head[HEAD];
    const uint8_t *at = head + MAGIC;
    int status = comm_receive_all(c->socket, head, sizeof head, deadline);
    if (status < 0)
        return rpc_explain(error, status, "the other end's UCX does not answer: %s", strerror(-status));
    if (memcmp(head, magic, MAGIC) != 0)
        return rpc_explain(error, -EPROTO, "the other end is of another release");
    unsigned major = (unsigned)little_get(&at, 1), minor = (unsigned)little_get(&at, 1);
    at += 2;
    size_t size = (size_t)little_get(&at, 4);
    memcpy(c->theirs, at, UCX_TOKEN);
    if (major != u->version[0] || minor != u->version[1])
        return rpc_explain(error, -EPROTO, "the other end has UCX %u.%u, and this one %u.%u: install one release",
                           major, minor, u->version[0], u->version[1]);
    if (size < 1 || size > ADDRESS_MOST || !(*address = malloc(size)))
        return rpc_explain(error, -EPROTO, "the other end's UCX address has %zu bytes", size);
    status = comm_receive_all(c->socket, *address, size, deadline);
    return status < 0 ? rpc_explain(error, status, "the other end's UCX address: %s", strerror(-status)) : 0;
}

/* ---- 2: connecting ---- */

/* The channel may have ended. */
static void gone(void *card, ucp_ep_h ep, ucs_status_t status)
{
    struct comm_ucx *u = card;
    (void)status;
    FLYT_ASSERT_HELD(&u->lock);
    for (struct tree_node *node = tree_first(&u->channels); node; node = tree_next(&u->channels, node)) {
        struct ucx_channel *c = TREE_OBJECT(node, struct ucx_channel, node);
        if (c->ep == ep)
            ucx_fail(c, -ECONNRESET);
    }
}

static ucs_status_t connect_by(struct ucx_channel *c, const void *address, ucp_err_handling_mode_t mode)
{
    const ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                   UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                   UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                     .address = address,
                                     .err_mode = mode,
                                     .err_handler = { .cb = gone, .arg = c->card } };
    ucs_status_t status = c->card->ucx->ucp_ep_create(c->card->worker, &params, &c->ep);
    if (status != UCS_OK)
        c->ep = NULL;
    return status;
}

static int no_way(const struct ucx_channel *c, const char *whose, int status, char *error)
{
    const char *wanted = getenv("UCX_TLS");
    return rpc_explain(error, -EHOSTUNREACH, "%s UCX finds no way to the other end: %s (UCX_TLS is %s)", whose,
                       c->card->ucx->ucs_status_string((ucs_status_t)status), wanted ? wanted : "not set");
}

/* UCX does not notice the end of a peer that it reaches through memory; the socket does. Both ends must agree. */
static int connect_ep(struct ucx_channel *c, const void *address, uint64_t deadline, char *error)
{
    struct comm_ucx *u = c->card;
    pthread_mutex_lock(&u->lock);
    uint8_t mine[2] = { NOTICES, 0 }, theirs[2];
    ucs_status_t status = connect_by(c, address, UCP_ERR_HANDLING_MODE_PEER);
    if (status != UCS_OK) {
        mine[0] = NOTICES_NOT;
        status = connect_by(c, address, UCP_ERR_HANDLING_MODE_NONE);
    }
    if (status != UCS_OK) {
        mine[0] = NOT_CONNECTED;
        mine[1] = (uint8_t)-status;
    }
    c->notices = mine[0] == NOTICES;
    ucx_nudge(u);
    pthread_mutex_unlock(&u->lock);
    int said = comm_send_all(c->socket, mine, sizeof mine, deadline);
    if (said == 0)
        said = comm_receive_all(c->socket, theirs, sizeof theirs, deadline);
    if (mine[0] == NOT_CONNECTED)
        return no_way(c, "this end's", status, error);
    if (said < 0)
        return rpc_explain(error, said, "the other end's UCX does not answer: %s", strerror(-said));
    if (theirs[0] == NOT_CONNECTED)
        return no_way(c, "the other end's", -(int)theirs[1], error);
    if (theirs[0] != mine[0])
        return rpc_explain(error, -EPROTO, "the two ends use different transports of UCX: set UCX_TLS alike");
    return 0;
}

/* ---- 3: trying it ---- */

static void said_hello(void *request, ucs_status_t status, void *channel)
{
    struct ucx_channel *c = channel;
    c->card->ucx->ucp_request_free(request);
    if (status != UCS_OK)
        ucx_fail(c, -ECONNRESET);
    ucx_completed(c);
}

static void say_hello(struct ucx_channel *c)
{
    struct comm_ucx *u = c->card;
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                        .cb.send = said_hello,
                                        .user_data = c };
    memcpy(c->hello, c->theirs, UCX_TOKEN);
    c->pending++;
    ucs_status_ptr_t result = u->ucx->ucp_am_send_nbx(c->ep, UCX_HELLO, c->hello, sizeof c->hello, NULL, 0, &param);
    if (!result || ucx_is_error(result))
        c->pending--;
    if (ucx_is_error(result))
        ucx_fail(c, -ECONNRESET);
    ucx_nudge(u);
}

static int try(struct ucx_channel *c, uint64_t deadline, char *error)
{
    struct comm_ucx *u = c->card;
    char byte = 1;
    int gone_away = 0;
    pthread_mutex_lock(&u->lock);
    say_hello(c);
    while (!c->heard && !c->failed && gone_away == 0 && clock_now() < deadline) {
        struct timespec until = clock_timespec(clock_now() + LOOK_MS * CLOCK_NS_PER_MS);
        pthread_cond_clockwait(&u->changed, &u->lock, CLOCK_MONOTONIC, &until);
        gone_away = rpc_channel_peer(c->socket);
    }
    int status = c->heard ? 0 : c->failed ? c->failed : gone_away ? gone_away : -ETIMEDOUT;
    pthread_mutex_unlock(&u->lock);
    if (status == 0)
        status = comm_send_all(c->socket, &byte, 1, deadline);
    if (status == 0)
        status = comm_receive_all(c->socket, &byte, 1, deadline);
    return status < 0 ? rpc_explain(error, status, "UCX's connection to the other end: %s", strerror(-status)) : 0;
}

int comm_ucx_join(struct comm_ucx *u, rpc_channel *socket, uint64_t deadline, rpc_channel **out, char *error)
{
    void *address = NULL;
    struct ucx_channel *c = ucx_channel_create(u, socket);
    if (!c)
        return rpc_explain(error, -ENOMEM, "UCX: no memory for a channel");
    int status = send_address(c, deadline);
    if (status < 0)
        rpc_explain(error, status, "the other end does not take UCX's address: %s", strerror(-status));
    else
        status = receive_address(c, &address, deadline, error);
    if (status == 0)
        status = connect_ep(c, address, deadline, error);
    if (status == 0)
        status = try(c, deadline, error);
    free(address);
    if (status == 0)
        *out = &c->base;
    else
        ucx_channel_end(c);
    return status;
}
