/*
 * cipher.h: AES-256-GCM for seal.c. OpenSSL's is in cipher.c. A program that links that file uses it. The client's
 * library, which is loaded into every CUDA program and is to do without OpenSSL, takes it from libflyt-tls.so when it
 * is needed (move_store.c).
 */
#ifndef FLYT_CHECKPOINT_CIPHER_H
#define FLYT_CHECKPOINT_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CIPHER_KEY = 32, CIPHER_NONCE = 12, CIPHER_TAG = 16 };

struct cipher_piece { const void *data; size_t size; };
struct cipher_work {
    bool closes;                           /* makes the tag; else checks it */
    const uint8_t *key, *nonce;
    const struct cipher_piece *also;       /* the tag stands for these, too; they are not encrypted */
    unsigned count;
    struct cipher_piece in;                /* at most 1 GiB; size 0: there is nothing secret */
    void *out;                             /* may be the same as in */
    uint8_t *tag;
};
struct checkpoint_cipher {
    void *(*begin)(void);                  /* NULL: no memory */
    bool (*work)(void *begun, const struct cipher_work *); /* false: it is not what was encrypted, or OpenSSL failed */
    void (*end)(void *begun);
};

/* cipher.c */
#define CHECKPOINT_CIPHER "checkpoint_cipher"
extern const struct checkpoint_cipher checkpoint_cipher __attribute__((weak, visibility("default")));

/* seal.c: where cipher.c is not linked. */
void checkpoint_cipher_use(const struct checkpoint_cipher *);

#endif
