/* greet.c: see greet.h. The proofs are those of cpu/common/secret.h, which the control plane uses. */
#include "cpu/comm/greet/greet.h"

#include "cpu/common/clock.h"
#include "cpu/common/secret.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

_Static_assert((int)COMM_PROOF_SIZE == (int)SECRET_PROOF_SIZE, "one size of proofs");

int comm_random(void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

static void of_key(const uint8_t key[COMM_KEY_SIZE], struct secret *secret)
{
    secret->size = COMM_KEY_SIZE;
    memcpy(secret->bytes, key, COMM_KEY_SIZE);
}

static int begin(struct comm_greeting *greeting, const char magic[COMM_MAGIC_SIZE],
                     const uint8_t about[COMM_ABOUT_SIZE])
{
    memcpy(greeting->hello, magic, COMM_MAGIC_SIZE);
    memcpy(greeting->hello + COMM_MAGIC_SIZE, about, COMM_ABOUT_SIZE);
    return comm_random(greeting->hello + COMM_MAGIC_SIZE + COMM_ABOUT_SIZE, COMM_NONCE_SIZE);
}

static void make_proof(const struct comm_greeting *greeting, const uint8_t key[COMM_KEY_SIZE],
                      uint8_t proof[COMM_PROOF_SIZE])
{
    struct secret secret;
    of_key(key, &secret);
    secret_proof(&secret, (const uint8_t *)greeting, sizeof *greeting, proof);
    secret_wipe(&secret);
}

bool comm_greet_verify(const struct comm_greeting *greeting, const uint8_t key[COMM_KEY_SIZE],
                       const uint8_t proof[COMM_PROOF_SIZE])
{
    struct secret secret;
    uint8_t stored[SECRET_STORED_SIZE];
    of_key(key, &secret);
    secret_stored(&secret, stored);
    secret_wipe(&secret);
    return secret_verify(stored, (const uint8_t *)greeting, sizeof *greeting, proof);
}

void comm_greet_answer(const struct comm_greeting *greeting, const uint8_t key[COMM_KEY_SIZE],
                       uint8_t answer[COMM_PROOF_SIZE])
{
    struct secret secret;
    uint8_t stored[SECRET_STORED_SIZE];
    of_key(key, &secret);
    secret_stored(&secret, stored);
    secret_wipe(&secret);
    secret_answer(stored, (const uint8_t *)greeting, sizeof *greeting, answer);
}

static bool verify_answer(const struct comm_greeting *greeting, const uint8_t key[COMM_KEY_SIZE],
                              const uint8_t answer[COMM_PROOF_SIZE])
{
    struct secret secret;
    of_key(key, &secret);
    bool right = secret_answer_verify(&secret, (const uint8_t *)greeting, sizeof *greeting, answer);
    secret_wipe(&secret);
    return right;
}

/* ---- on a connection ---- */

static int wait_for(rpc_channel *channel, int events, uint64_t deadline)
{
    int ready = rpc_channel_poll(channel, events, clock_poll_timeout(deadline), false);
    return ready < 0 ? ready : ready == 0 ? -ETIMEDOUT : 0;
}

int comm_send_all(rpc_channel *channel, const void *bytes, size_t size, uint64_t deadline)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        struct iovec vector = { (void *)(uintptr_t)at, size };
        ssize_t sent = rpc_channel_send(channel, &vector, 1);
        if (sent == -EAGAIN) {
            int status = wait_for(channel, POLLOUT, deadline);
            if (status < 0)
                return status;
            continue;
        }
        if (sent <= 0)
            return sent < 0 ? (int)sent : -ECONNRESET;
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

int comm_receive_all(rpc_channel *channel, void *bytes, size_t size, uint64_t deadline)
{
    uint8_t *at = bytes;
    while (size > 0) {
        struct iovec vector = { at, size };
        ssize_t got = rpc_channel_receive_into(channel, &vector, 1);
        if (got == -EAGAIN) {
            int status = wait_for(channel, POLLIN, deadline);
            if (status < 0)
                return status;
            continue;
        }
        if (got <= 0)
            return got < 0 ? (int)got : -ECONNRESET;
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

int comm_greet_call(rpc_channel *channel, const char magic[COMM_MAGIC_SIZE], const uint8_t about[COMM_ABOUT_SIZE],
                    const uint8_t key[COMM_KEY_SIZE], uint64_t deadline)
{
    struct comm_greeting greeting;
    uint8_t proof[COMM_PROOF_SIZE];
    int status = begin(&greeting, magic, about);
    if (status == 0)
        status = comm_send_all(channel, greeting.hello, sizeof greeting.hello, deadline);
    if (status == 0)
        status = comm_receive_all(channel, greeting.nonce, sizeof greeting.nonce, deadline);
    if (status < 0)
        return status;
    make_proof(&greeting, key, proof);
    status = comm_send_all(channel, proof, sizeof proof, deadline);
    if (status == 0)
        status = comm_receive_all(channel, proof, sizeof proof, deadline);
    if (status == -ECONNRESET)
        return -EACCES;                                 /* the listener ends a connection whose proof is wrong */
    if (status < 0)
        return status;
    return verify_answer(&greeting, key, proof) ? 0 : -EACCES;
}

int comm_greet_hear(rpc_channel *channel, const char magic[COMM_MAGIC_SIZE], struct comm_greeting *greeting,
                    uint8_t about[COMM_ABOUT_SIZE], uint64_t deadline)
{
    int status = comm_receive_all(channel, greeting->hello, sizeof greeting->hello, deadline);
    if (status < 0)
        return status;
    if (memcmp(greeting->hello, magic, COMM_MAGIC_SIZE) != 0)
        return -EPROTO;
    memcpy(about, greeting->hello + COMM_MAGIC_SIZE, COMM_ABOUT_SIZE);
    return comm_random(greeting->nonce, sizeof greeting->nonce);
}

int comm_greet_check(rpc_channel *channel, struct comm_greeting *greeting, const uint8_t key[COMM_KEY_SIZE],
                     uint64_t deadline)
{
    uint8_t proof[COMM_PROOF_SIZE];
    int status = comm_send_all(channel, greeting->nonce, sizeof greeting->nonce, deadline);
    if (status == 0)
        status = comm_receive_all(channel, proof, sizeof proof, deadline);
    if (status < 0)
        return status;
    if (!comm_greet_verify(greeting, key, proof))
        return -EACCES;
    comm_greet_answer(greeting, key, proof);
    return comm_send_all(channel, proof, sizeof proof, deadline);
}
