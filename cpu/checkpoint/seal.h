/*
 * seal.h: the encryption of a checkpoint's frames (checkpoint.h). Each file has a key of its own. SEAL keeps it:
 *   u32 how, u8 id[8], nonce[12], key[32], tag[16]
 *     KEPT_WRAPPED  the key is encrypted (AES-256-GCM) with the machine's key, which `id` names
 *     KEPT_NOWHERE  the process that wrote the file has it, and nobody else; the rest is 0
 * A nonce of a frame is its number: no two frames of a file have the same one, and no two files the same key.
 */
#ifndef FLYT_CHECKPOINT_SEAL_H
#define FLYT_CHECKPOINT_SEAL_H

#include "cpu/checkpoint/frame.h"
#include "cpu/code/hash.h"

enum seal_kept { KEPT_WRAPPED = 1, KEPT_NOWHERE = 2 };

struct seal;
/* begun: the hash of everything up to SEAL. NULL: no memory, or no cipher (cipher.h). */
struct seal *seal_new(const uint8_t key[CHECKPOINT_KEY], const uint8_t begun[HASH_SIZE]);
/* With the same key, for another thread. NULL: no memory. */
struct seal *seal_twin(const struct seal *);
void seal_free(struct seal *);

/* What a frame's tag stands for beside the data: head: its first bytes, without the checksum. */
struct seal_frame {
    uint64_t number;
    const uint8_t *head;
    const void *clear;                     /* data that are not secret */
    size_t clear_size;
};
/* Both NULL: only the tag is made. in and out may be the same. False: the cipher failed. */
bool seal_close(struct seal *, const struct seal_frame *, const void *in, size_t size, void *out,
                uint8_t tag[CHECKPOINT_TAG]);
/* False: it is not what was written there. */
bool seal_open(struct seal *, const struct seal_frame *, const void *in, size_t size, void *out,
               const uint8_t tag[CHECKPOINT_TAG]);

/* The file's key. NULL; or why it cannot be had. */
const char *seal_unwrap(const uint8_t wrapped[CHECKPOINT_WRAPPED], const uint8_t machine[CHECKPOINT_KEY],
                        uint8_t key[CHECKPOINT_KEY]);

#endif
