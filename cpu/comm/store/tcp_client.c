/*
 * tcp_client.c: a store whose values are in another process (tcp_server.c). Threads take turns: one request is under
 * way at a time. A request that found no answer in time ends the connection, since its answer could come later.
 */
#include "cpu/comm/store/store_wire.h"

#include "cpu/common/clock.h"
#include "cpu/common/little_endian.h"
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The server answers when the time is over; its answer may be under way for so long. */
enum { ANSWER_MS = 2000 };

struct tcp_store {
    struct comm_store base;
    rpc_channel *channel;
    pthread_mutex_t lock;
    int lost; /* -errno, 0: none; under the lock */
    char uri[256];
};

/* Receives `size` bytes, of which `room` have a place. */
static int take(rpc_channel *channel, uint8_t *value, size_t room, size_t size, uint64_t deadline)
{
    uint8_t rest[1024];
    size_t first = size < room ? size : room;
    int status = first ? comm_receive_all(channel, value, first, deadline) : 0;
    for (size_t left = size - first, part; left > 0 && status == 0; left -= part) {
        part = left < sizeof rest ? left : sizeof rest;
        status = comm_receive_all(channel, rest, part, deadline);
    }
    return status;
}

struct request {
    enum store_operation operation;
    const char *key;
    const void *value; /* of a set */
    size_t value_size;
    unsigned gets;
    void *into; /* of a get */
    size_t room, *size;
};

/* Under the lock. *refused: what the server said of the request. */
static int talk(struct tcp_store *t, const struct request *r, uint64_t deadline, int *refused)
{
    uint8_t head[STORE_REQUEST_SIZE], answer[STORE_REPLY_SIZE];
    uint64_t now = clock_now(), end = (deadline > now ? deadline : now) + ANSWER_MS * CLOCK_NS_PER_MS;
    uint8_t *at = little_put(head, r->operation, 1);
    at = little_put(at, 0, 1);
    at = little_put(at, strlen(r->key), 2);
    at = little_put(at, r->value_size, 4);
    at = little_put(at, (uint32_t)clock_poll_timeout(deadline), 4);
    little_put(at, r->gets, 4);
    int status = comm_send_all(t->channel, head, sizeof head, end);
    if (status == 0)
        status = comm_send_all(t->channel, r->key, strlen(r->key), end);
    if (status == 0 && r->value_size)
        status = comm_send_all(t->channel, r->value, r->value_size, end);
    if (status == 0)
        status = comm_receive_all(t->channel, answer, sizeof answer, end);
    if (status < 0)
        return status;
    const uint8_t *from = answer;
    uint64_t failure = little_get(&from, 4), size = little_get(&from, 4);
    if (failure > 4095 || size > COMM_STORE_VALUE_MOST || (size && r->operation != STORE_GET))
        return -EPROTO;
    *refused = -(int)failure;
    if (r->size)
        *r->size = (size_t)size;
    return size ? take(t->channel, r->into, r->room, (size_t)size, end) : 0;
}

static int ask(struct comm_store *store, const struct request *r, uint64_t deadline, char *error)
{
    struct tcp_store *t = (struct tcp_store *)store;
    int refused = 0;
    pthread_mutex_lock(&t->lock);
    int status = t->lost ? t->lost : talk(t, r, deadline, &refused);
    if (status < 0) /* -ETIMEDOUT would say that nobody has set the key */
        t->lost = status = status == -ETIMEDOUT ? -ECONNABORTED : status;
    pthread_mutex_unlock(&t->lock);
    if (status < 0)
        return rpc_explain(error, status, "store %s, key %s: %s", t->uri, r->key, strerror(-status));
    if (refused == -ETIMEDOUT)
        return rpc_explain(error, refused, "store %s: nobody has set %s in time", t->uri, r->key);
    return refused < 0 ? rpc_explain(error, refused, "store %s, key %s: %s", t->uri, r->key, strerror(-refused)) : 0;
}

static int tcp_set(struct comm_store *store, const char *key, const void *value, size_t size, unsigned gets,
                   uint64_t deadline, char *error)
{
    const struct request r = {
        .operation = STORE_SET, .key = key, .value = value, .value_size = size, .gets = gets
    };
    return ask(store, &r, deadline, error);
}

static int tcp_get(struct comm_store *store, const char *key, void *value, size_t room, size_t *size, uint64_t deadline,
                   char *error)
{
    const struct request r = {
        .operation = value ? STORE_GET : STORE_WAIT, .key = key, .into = value, .room = value ? room : 0, .size = size
    };
    int status = ask(store, &r, deadline, error);
    if (status == 0 && value && *size > room)
        return rpc_explain(error, -EMSGSIZE, "store: the value of %s has %zu bytes, not at most %zu", key, *size, room);
    return status;
}

static void tcp_destroy(struct comm_store *store)
{
    struct tcp_store *t = (struct tcp_store *)store;
    rpc_channel_destroy(t->channel);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static const struct comm_store_operations tcp_operations = { tcp_set, tcp_get, tcp_destroy };

int comm_store_tcp(const char *uri, const uint8_t key[COMM_KEY_SIZE], uint64_t deadline, struct comm_store **out,
                   char *error)
{
    static const uint8_t about[COMM_ABOUT_SIZE] = { 0 };
    struct tcp_store *t = calloc(1, sizeof *t);
    if (!t)
        return rpc_explain(error, -ENOMEM, "store: no memory");
    snprintf(t->uri, sizeof t->uri, "%s", uri);
    int status = rpc_channel_connect(uri, clock_poll_timeout(deadline), &t->channel, error);
    if (status < 0) {
        free(t);
        return status;
    }
    status = comm_greet_call(t->channel, STORE_MAGIC, about, key, deadline);
    if (status < 0) {
        rpc_channel_destroy(t->channel);
        free(t);
        return rpc_explain(error, status, "store %s: %s", uri,
                           status == -EACCES ? "it has another key than this process" : strerror(-status));
    }
    t->base.operations = &tcp_operations;
    pthread_mutex_init(&t->lock, NULL);
    *out = &t->base;
    return 0;
}
