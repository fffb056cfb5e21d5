/* peer.c: see peer.h. */
#include "cpu/comm/store/peer.h"

#include "cpu/common/clock.h"
#include "cpu/common/little_endian.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void expect(struct store_peer *peer, enum store_peer_state state, size_t wanted)
{
    peer->state = state;
    peer->got = 0;
    peer->wanted = wanted;
}

void store_peer_begin(struct store_peer *peer)
{
    memset(peer, 0, sizeof *peer);
    expect(peer, STORE_PEER_HELLO, COMM_HELLO_SIZE);
}

void store_peer_end(struct store_peer *peer)
{
    free(peer->body);
    free(peer->out);
    peer->body = peer->out = NULL;
}

/* Something to be sent: `a`, and behind it `b`. */
static int say(struct store_peer *peer, const void *a, size_t a_size, const void *b, size_t b_size)
{
    peer->out = malloc(a_size + b_size);
    if (!peer->out)
        return -ENOMEM;
    memcpy(peer->out, a, a_size);
    if (b_size)
        memcpy(peer->out + a_size, b, b_size);
    peer->out_size = a_size + b_size;
    peer->out_sent = 0;
    return 0;
}

static int reply(struct store_peer *peer, int status, const void *value, size_t size)
{
    uint8_t head[STORE_REPLY_SIZE];
    little_put(little_put(head, (uint64_t)-status, 4), size, 4);
    expect(peer, STORE_PEER_HEAD, STORE_REQUEST_SIZE);
    return say(peer, head, sizeof head, value, size);
}

static int serve_greeting(struct store_peer *peer, const uint8_t key[COMM_KEY_SIZE])
{
    uint8_t answer[COMM_PROOF_SIZE];
    if (peer->state == STORE_PEER_HELLO) {
        memcpy(peer->greeting.hello, peer->head, COMM_HELLO_SIZE);
        if (memcmp(peer->head, STORE_MAGIC, COMM_MAGIC_SIZE) != 0)
            return -EPROTO;
        int status = comm_random(peer->greeting.nonce, COMM_NONCE_SIZE);
        expect(peer, STORE_PEER_PROOF, COMM_PROOF_SIZE);
        return status < 0 ? status : say(peer, peer->greeting.nonce, COMM_NONCE_SIZE, NULL, 0);
    }
    if (!comm_greet_verify(&peer->greeting, key, peer->head))
        return -EACCES;
    comm_greet_answer(&peer->greeting, key, answer);
    expect(peer, STORE_PEER_HEAD, STORE_REQUEST_SIZE);
    return say(peer, answer, sizeof answer, NULL, 0);
}

static int serve_head(struct store_peer *peer)
{
    const uint8_t *at = peer->head;
    peer->operation = (enum store_operation)little_get(&at, 1);
    uint64_t zero = little_get(&at, 1);
    size_t key_size = (size_t)little_get(&at, 2);
    peer->value_size = (size_t)little_get(&at, 4);
    peer->wait_ms = (uint32_t)little_get(&at, 4);
    peer->gets = (uint32_t)little_get(&at, 4);
    bool is_set = peer->operation == STORE_SET;
    if ((!is_set && peer->operation != STORE_GET && peer->operation != STORE_WAIT) || zero || key_size < 1 ||
        (!is_set && peer->gets) ||
        key_size > COMM_STORE_KEY_MOST || peer->value_size > (is_set ? COMM_STORE_VALUE_MOST : 0))
        return -EPROTO;
    expect(peer, STORE_PEER_BODY, key_size + peer->value_size);
    peer->body = malloc(peer->wanted);
    return peer->body ? 0 : -ENOMEM;
}

int store_peer_look(struct store_peer *peer, struct comm_values *values, uint64_t now)
{
    if (peer->state != STORE_PEER_WAITING)
        return 0;
    const struct comm_value *found = comm_values_find(values, peer->key);
    if (found && peer->operation == STORE_GET) {
        int status = reply(peer, 0, found->bytes, found->size);
        comm_values_got(values, peer->key);
        return status;
    }
    if (found)
        return reply(peer, 0, NULL, 0);
    return now >= peer->until ? reply(peer, -ETIMEDOUT, NULL, 0) : 0;
}

static int serve_body(struct store_peer *peer, struct comm_values *values, uint64_t now, bool *changed)
{
    size_t key_size = peer->wanted - peer->value_size;
    memcpy(peer->key, peer->body, key_size);
    peer->key[key_size] = 0;
    bool whole = strlen(peer->key) == key_size;
    int status = 0;
    if (whole && peer->operation == STORE_SET)
        status = comm_values_set(values, peer->key, peer->body + key_size, peer->value_size, peer->gets);
    free(peer->body);
    peer->body = NULL;
    if (!whole)
        return -EPROTO;
    if (peer->operation == STORE_SET) {
        *changed |= status == 0;
        return reply(peer, status, NULL, 0);
    }
    peer->until = now + peer->wait_ms * CLOCK_NS_PER_MS;
    peer->state = STORE_PEER_WAITING;
    return store_peer_look(peer, values, now);
}

static int serve(struct store_peer *peer, struct comm_values *values, const uint8_t key[COMM_KEY_SIZE], uint64_t now,
                 bool *changed)
{
    switch (peer->state) {
    case STORE_PEER_HELLO:
    case STORE_PEER_PROOF: return serve_greeting(peer, key);
    case STORE_PEER_HEAD: return serve_head(peer);
    case STORE_PEER_BODY: return serve_body(peer, values, now, changed);
    default: return -EPROTO;
    }
}

ssize_t store_peer_feed(struct store_peer *peer, struct comm_values *values, const uint8_t key[COMM_KEY_SIZE],
                        uint64_t now, const uint8_t *bytes, size_t size, bool *changed)
{
    size_t taken = 0;
    while (taken < size && !peer->out && peer->state != STORE_PEER_WAITING) {
        size_t part = peer->wanted - peer->got;
        part = part < size - taken ? part : size - taken;
        memcpy((peer->state == STORE_PEER_BODY ? peer->body : peer->head) + peer->got, bytes + taken, part);
        peer->got += part;
        taken += part;
        int status = peer->got == peer->wanted ? serve(peer, values, key, now, changed) : 0;
        if (status < 0)
            return status;
    }
    return (ssize_t)taken;
}
