/*
 * ticket.h: the right of one program to open connections to one GPU server, signed by the cluster manager.
 *
 * Wire form: the bytes of the ticket (fixed layout, big endian, see ticket.c), an Ed25519 signature (RFC 8032) of them,
 * and a secret whose hash is among them. Without the secret it is a pass: a program shows it in the clear, before TLS
 * begins, so that the GPU server looks at it before it spends anything on the connection. Whoever sees a pass on the
 * network cannot make a ticket of it. Needs nothing but libc and libcrypto, so that the GPU server can check tickets
 * too.
 *
 * Whoever accepts tickets keeps a ticket_guard: each ticket opens one connection; shown again it is refused (replay)
 * until it has expired, and then because it has.
 */
#ifndef FLYT_COMMON_TICKET_H
#define FLYT_COMMON_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TICKET_KEY_SIZE = 32,
    TICKET_NAME_SIZE = 65,
    TICKET_MAX_SIZE = 1024,
    TICKET_NONCE_SIZE = 16,
    TICKET_SECRET_SIZE = 16,                    /* at the end of a ticket; a pass is all before it */
    TICKET_MAX_KEYS = 8
};

struct ticket {
    char     tenant[TICKET_NAME_SIZE];          /* VM */
    char     node[TICKET_NAME_SIZE];
    char     gpu[TICKET_NAME_SIZE];
    uint64_t server;
    uint64_t program;
    uint32_t sms;
    uint64_t memory;
    int64_t  issued, expires;                   /* microseconds since 1970 */
    uint8_t  nonce[TICKET_NONCE_SIZE];          /* filled by ticket_sign: the first bytes of SHA-256 of the secret */
};

struct ticket_signer;                           /* the private key */

/* Reads the key (PEM, file with a secret's permissions); makes one if there is none. */
int  ticket_signer_open(const char *path, struct ticket_signer **, char *error);
void ticket_signer_close(struct ticket_signer *);
void ticket_signer_key(const struct ticket_signer *, uint8_t key[TICKET_KEY_SIZE]);     /* public */
/* Fills nonce. size: of out (TICKET_MAX_SIZE) on return. 0 or -EINVAL (names too long), -EIO. */
int  ticket_sign(const struct ticket_signer *, struct ticket *, uint8_t *out, size_t *size, char *error);

enum { TICKET_CLOCK_SKEW_SECONDS = 30 };

/* keys: count public keys, any of which may have signed. Checks form, signature, times (now, microseconds), and that
   it is for `server` (0: any). 0; -EBADMSG (no ticket, or tampered with), -EKEYREJECTED (nobody we know signed it),
   -EKEYEXPIRED, -EACCES (for another server). */
int  ticket_verify(const uint8_t (*keys)[TICKET_KEY_SIZE], size_t count, const uint8_t *bytes, size_t size, int64_t now,
                   uint64_t server, struct ticket *, char *error);

/* Verifies a pass: the peer that shows it need not be the one to whom the ticket was given. */
int  ticket_verify_pass(const uint8_t (*keys)[TICKET_KEY_SIZE], size_t count, const uint8_t *bytes, size_t size,
                        int64_t now, uint64_t server, struct ticket *, char *error);

/* Nonces seen, bounded. */
struct ticket_guard;
struct ticket_guard *ticket_guard_create(size_t capacity);
void ticket_guard_destroy(struct ticket_guard *);
/* After ticket_verify: 0 the first `most` times, -EALREADY when it was used that often, -ENOSPC when `capacity`
   unexpired ones are kept (refuse then). */
int  ticket_guard_use(struct ticket_guard *, const struct ticket *, unsigned most, int64_t now, char *error);

#endif
