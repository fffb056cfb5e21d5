/*
 * greet.h: how two processes that know the same key of 32 bytes meet on a new connection.
 *
 *     caller   -> listener   magic (8), about (24), nonce (32)
 *     listener -> caller     nonce (32)
 *     caller   -> listener   proof of the key (32)
 *     listener -> caller     answer (32): a proof of the same key that differs from the caller's
 *
 * The key never travels. Both proofs cover all that was said before, so nothing of one greeting is good for another
 * one. `magic` names the kind of service, `about` what the connection is for. What follows is not encrypted by it: that
 * is TLS's business.
 */
#ifndef FLYT_COMM_GREET_H
#define FLYT_COMM_GREET_H

#include "cpu/rpc/rpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COMM_KEY_SIZE = 32,
    COMM_MAGIC_SIZE = 8,
    COMM_ABOUT_SIZE = 24,
    COMM_NONCE_SIZE = 32,
    COMM_PROOF_SIZE = 32,
    COMM_HELLO_SIZE = COMM_MAGIC_SIZE + COMM_ABOUT_SIZE + COMM_NONCE_SIZE
};

/* What both sides of a greeting have in common. */
struct comm_greeting {
    uint8_t hello[COMM_HELLO_SIZE];
    uint8_t nonce[COMM_NONCE_SIZE];                     /* the listener's */
};

/* Random bytes of the system. 0 or -errno. */
int comm_random(void *bytes, size_t size);

/* For a listener that has said its nonce. */
bool comm_greet_verify(const struct comm_greeting *, const uint8_t key[COMM_KEY_SIZE],
                       const uint8_t proof[COMM_PROOF_SIZE]);
void comm_greet_answer(const struct comm_greeting *, const uint8_t key[COMM_KEY_SIZE], uint8_t answer[COMM_PROOF_SIZE]);

/* Greets as the caller. Waits until `deadline` (clock_now). 0; -ETIMEDOUT; -EACCES: the listener has another key;
   -EPROTO: it speaks something else; or what the connection says. */
int comm_greet_call(rpc_channel *, const char magic[COMM_MAGIC_SIZE], const uint8_t about[COMM_ABOUT_SIZE],
                    const uint8_t key[COMM_KEY_SIZE], uint64_t deadline);
/* For a listener in two steps, between which it looks up the key that belongs to `about`. */
int comm_greet_hear(rpc_channel *, const char magic[COMM_MAGIC_SIZE], struct comm_greeting *,
                    uint8_t about[COMM_ABOUT_SIZE], uint64_t deadline);
int comm_greet_check(rpc_channel *, struct comm_greeting *, const uint8_t key[COMM_KEY_SIZE], uint64_t deadline);

/* Sends or receives all of it, or fails: 0, -ETIMEDOUT, -ECONNRESET or another -errno. */
int comm_send_all(rpc_channel *, const void *bytes, size_t size, uint64_t deadline);
int comm_receive_all(rpc_channel *, void *bytes, size_t size, uint64_t deadline);

#endif
