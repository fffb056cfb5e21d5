/*
 * peer.h: one client of a store's server: what it has said, and what it is answered. No connection: the server gives it
 * the bytes that have come, and sends the bytes that are to go. The client is not trusted: before its proof it can make
 * the server keep nothing, after that one request and one reply.
 */
#ifndef FLYT_COMM_STORE_PEER_H
#define FLYT_COMM_STORE_PEER_H

#include "cpu/comm/store/store_wire.h"
#include "cpu/comm/store/values.h"

#include <stdbool.h>

enum store_peer_state { STORE_PEER_HELLO, STORE_PEER_PROOF, STORE_PEER_HEAD, STORE_PEER_BODY, STORE_PEER_WAITING };

struct store_peer {
    enum store_peer_state state;
    struct comm_greeting greeting;
    uint8_t head[COMM_HELLO_SIZE]; /* of the greeting, or of a request */
    uint8_t *body;                 /* key and value of a request, or NULL */
    size_t got, wanted;            /* bytes of head or body */
    enum store_operation operation;
    char key[COMM_STORE_KEY_MOST + 1];
    size_t value_size;
    uint32_t wait_ms, gets;
    uint64_t until; /* of a waiting request, clock_now */
    uint8_t *out;   /* what is to be sent to it, or NULL */
    size_t out_size, out_sent;
};

void store_peer_begin(struct store_peer *);
void store_peer_end(struct store_peer *);
/* Takes at most `size` bytes, and none while something is to be sent or a request waits. How many; or -errno: the
   connection is to be closed. *changed: a value was set. */
ssize_t store_peer_feed(struct store_peer *, struct comm_values *, const uint8_t key[COMM_KEY_SIZE], uint64_t now,
                        const uint8_t *bytes, size_t size, bool *changed);
/* Answers a waiting request if its key is there or its time is over. 0 or -errno. */
int store_peer_look(struct store_peer *, struct comm_values *, uint64_t now);
static inline bool store_peer_known(const struct store_peer *peer) { return peer->state >= STORE_PEER_HEAD; }

#endif
