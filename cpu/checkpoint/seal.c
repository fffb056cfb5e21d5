/* seal.c: see seal.h. */
#include "cpu/checkpoint/seal.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cpu/checkpoint/cipher.h"

enum { NONCE = CIPHER_NONCE, CHECKED = CHECKPOINT_HEAD - 8 };
enum { AT_ID = 4, AT_NONCE = AT_ID + CHECKPOINT_KEY_ID, AT_KEY = AT_NONCE + NONCE, AT_TAG = AT_KEY + CHECKPOINT_KEY };
_Static_assert(AT_TAG + CHECKPOINT_TAG == CHECKPOINT_WRAPPED, "SEAL has this size");
static const char id_label[] = "flyt checkpoint key id 1", wrap_label[] = "flyt checkpoint file key 1";

struct seal {
    void *begun_cipher;
    uint8_t key[CHECKPOINT_KEY], begun[HASH_SIZE];
};

void checkpoint_key_wipe(void *key, size_t size)
{
    if (size)
        explicit_bzero(key, size);
}

static const struct checkpoint_cipher *given;

void checkpoint_cipher_use(const struct checkpoint_cipher *cipher) { given = cipher; }

static const struct checkpoint_cipher *cipher(void) { return &checkpoint_cipher ? &checkpoint_cipher : given; }

/* From the kernel: a process that was restored twice from one image (CRIU) has two libraries in the same state. */
static bool random_bytes(void *to, size_t size) { return getrandom(to, size, 0) == (ssize_t)size; }

/* ---- keys ---- */

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char lower = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    const char *at = lower ? strchr(digits, lower) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool checkpoint_key_parse(const void *text, size_t size, uint8_t machine[CHECKPOINT_KEY])
{
    const char *at = text;
    if (size != 2 * CHECKPOINT_KEY)
        return false;
    for (size_t i = 0; i < CHECKPOINT_KEY; i++) {
        int high = digit(at[2 * i]), low = digit(at[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        machine[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

void checkpoint_key_id(const uint8_t machine[CHECKPOINT_KEY], uint8_t id[CHECKPOINT_KEY_ID])
{
    uint8_t whole[HASH_SIZE], text[sizeof id_label + CHECKPOINT_KEY];
    memcpy(text, id_label, sizeof id_label);
    memcpy(text + sizeof id_label, machine, CHECKPOINT_KEY);
    hash_bytes(text, sizeof text, whole);
    memcpy(id, whole, CHECKPOINT_KEY_ID);
    checkpoint_key_wipe(text, sizeof text);
}

static enum seal_kept how_kept(const uint8_t *wrapped)
{
    uint32_t how;
    memcpy(&how, wrapped, sizeof how);
    return (enum seal_kept)le32toh(how);
}

bool checkpoint_seal_key_id(const void *wrapped, uint8_t id[CHECKPOINT_KEY_ID])
{
    memcpy(id, (const uint8_t *)wrapped + AT_ID, CHECKPOINT_KEY_ID);
    return how_kept(wrapped) == KEPT_WRAPPED;
}

/* The label and the head of SEAL. */
static bool wrap(bool closes, const uint8_t machine[CHECKPOINT_KEY], uint8_t *wrapped, const uint8_t *in, uint8_t *out)
{
    const struct cipher_piece also[] = { { wrap_label, sizeof wrap_label }, { wrapped, AT_NONCE } };
    const struct cipher_work work = { .closes = closes, .key = machine, .nonce = wrapped + AT_NONCE, .also = also,
                                      .count = 2, .in = { in, CHECKPOINT_KEY }, .out = out, .tag = wrapped + AT_TAG };
    void *begun = cipher() ? cipher()->begin() : NULL;
    bool good = begun && cipher()->work(begun, &work);
    if (begun)
        cipher()->end(begun);
    return good;
}

bool checkpoint_seal_make(const uint8_t machine[CHECKPOINT_KEY], struct checkpoint_seal *seal)
{
    const uint32_t how = htole32(machine ? KEPT_WRAPPED : KEPT_NOWHERE);
    memset(seal, 0, sizeof *seal);
    memcpy(seal->wrapped, &how, sizeof how);
    if (!random_bytes(seal->key, sizeof seal->key))
        return false;
    if (!machine)
        return true;
    checkpoint_key_id(machine, seal->wrapped + AT_ID);
    return random_bytes(seal->wrapped + AT_NONCE, NONCE) &&
           wrap(true, machine, seal->wrapped, seal->key, seal->wrapped + AT_KEY);
}

const char *seal_unwrap(const uint8_t wrapped[CHECKPOINT_WRAPPED], const uint8_t machine[CHECKPOINT_KEY],
                        uint8_t key[CHECKPOINT_KEY])
{
    uint8_t id[CHECKPOINT_KEY_ID], copy[CHECKPOINT_WRAPPED];
    memcpy(copy, wrapped, sizeof copy);
    if (how_kept(wrapped) == KEPT_NOWHERE)
        return "only the process that wrote it can read it";
    if (how_kept(wrapped) != KEPT_WRAPPED)
        return "its key is kept in an unknown way";
    checkpoint_key_id(machine, id);
    if (memcmp(id, wrapped + AT_ID, sizeof id) != 0)
        return "it is encrypted with another key";
    return wrap(false, machine, copy, copy + AT_KEY, key) ? NULL : "its key was changed";
}

bool checkpoint_id_make(char id[CHECKPOINT_ID_TEXT])
{
    uint8_t bytes[(CHECKPOINT_ID_TEXT - 1) / 2];
    if (!random_bytes(bytes, sizeof bytes))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* ---- frames ---- */

struct seal *seal_new(const uint8_t key[CHECKPOINT_KEY], const uint8_t begun[HASH_SIZE])
{
    struct seal *s = calloc(1, sizeof *s);
    if (!s || !cipher() || !(s->begun_cipher = cipher()->begin())) {
        free(s);
        return NULL;
    }
    memcpy(s->key, key, sizeof s->key);
    memcpy(s->begun, begun, sizeof s->begun);
    return s;
}

struct seal *seal_twin(const struct seal *s) { return seal_new(s->key, s->begun); }

void seal_free(struct seal *s)
{
    if (!s)
        return;
    cipher()->end(s->begun_cipher);
    checkpoint_key_wipe(s, sizeof *s);
    free(s);
}

static bool of_frame(struct seal *s, bool closes, const struct seal_frame *frame, const void *in, size_t size,
                     void *out, uint8_t *tag)
{
    const uint64_t number = htole64(frame->number);
    const struct cipher_piece also[] = { { s->begun, sizeof s->begun }, { &number, sizeof number },
                                         { frame->head, CHECKED }, { frame->clear, frame->clear_size } };
    uint8_t nonce[NONCE] = { 0 };
    const struct cipher_work work = { .closes = closes, .key = s->key, .nonce = nonce, .also = also, .count = 4,
                                      .in = { in, size }, .out = out, .tag = tag };
    memcpy(nonce + NONCE - sizeof number, &number, sizeof number);
    return cipher()->work(s->begun_cipher, &work);
}

bool seal_close(struct seal *s, const struct seal_frame *frame, const void *in, size_t size, void *out,
                uint8_t tag[CHECKPOINT_TAG])
{
    return of_frame(s, true, frame, in, size, out, tag);
}

bool seal_open(struct seal *s, const struct seal_frame *frame, const void *in, size_t size, void *out,
               const uint8_t tag[CHECKPOINT_TAG])
{
    uint8_t copy[CHECKPOINT_TAG];
    memcpy(copy, tag, sizeof copy);
    return of_frame(s, false, frame, in, size, out, copy);
}
