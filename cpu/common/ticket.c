/*
 * ticket.c: the form of a ticket, big endian:
 *   "FLYT" u8 version=2  u8 names' lengths[3] (tenant, node, gpu)
 *   u64 server  u64 program  u32 sms  u64 memory  i64 issued  i64 expires  nonce[16]  the names
 *   signature[64] of all before it  secret[16]
 * Strict: nothing may follow, so one ticket has one form. The signature is checked before anything is believed.
 *
 * The guard is a hash table of nonces (open addressing, linear probing), rebuilt without the expired ones when it is
 * full. Nonces come from the signer's random secrets, and the signature covers them: they are their own hash.
 */
#include "cpu/common/ticket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include "cpu/common/explain.h"
#include "cpu/common/secret.h"

enum { VERSION = 2, SIGNATURE_SIZE = 64, FIXED_SIZE = 4 + 1 + 3 + 8 + 8 + 4 + 8 + 8 + 8 + TICKET_NONCE_SIZE };
static const uint8_t magic[4] = { 'F', 'L', 'Y', 'T' };

struct ticket_signer { EVP_PKEY *key; };

/* ---- the signer's key ---- */

static int read_key(const char *path, EVP_PKEY **key, char *error)
{
    struct secret pem;
    int failure = secret_read(path, &pem, error);
    if (failure)
        return failure;
    BIO *bio = BIO_new_mem_buf(pem.bytes, (int)pem.size);
    *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    secret_wipe(&pem);
    if (*key && EVP_PKEY_id(*key) == EVP_PKEY_ED25519)
        return 0;
    EVP_PKEY_free(*key);
    *key = NULL;
    return explain(error, -EINVAL,
                   "%s holds no Ed25519 private key in PEM form: mend it, or move it away and a new one "
                   "is made (tickets signed with the old one are refused then)",
                   path);
}

static int make_key(const char *path, EVP_PKEY **key, char *error)
{
    *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes;
    int failure = -EIO;
    if (*key && bio && PEM_write_bio_PrivateKey(bio, *key, NULL, NULL, 0, NULL, NULL) == 1) {
        long size = BIO_get_mem_data(bio, &bytes);
        failure = secret_write(path, bytes, (size_t)size, error);
    } else {
        explain(error, failure, "making an Ed25519 key for %s failed in OpenSSL", path);
    }
    BIO_free(bio);
    if (failure) {
        EVP_PKEY_free(*key);
        *key = NULL;
    }
    return failure;
}

int ticket_signer_open(const char *path, struct ticket_signer **out, char *error)
{
    struct ticket_signer *signer = calloc(1, sizeof *signer);
    if (!signer)
        return explain(error, -ENOMEM, "no memory for the ticket key");
    int failure = access(path, F_OK) == 0 || errno != ENOENT ? read_key(path, &signer->key, error)
                                                             : make_key(path, &signer->key, error);
    if (failure) {
        free(signer);
        return failure;
    }
    *out = signer;
    return 0;
}

void ticket_signer_close(struct ticket_signer *signer)
{
    if (!signer)
        return;
    EVP_PKEY_free(signer->key);
    free(signer);
}

void ticket_signer_key(const struct ticket_signer *signer, uint8_t key[TICKET_KEY_SIZE])
{
    size_t size = TICKET_KEY_SIZE;
    if (EVP_PKEY_get_raw_public_key(signer->key, key, &size) != 1)
        memset(key, 0, TICKET_KEY_SIZE);
}

/* ---- form ---- */

static bool hash_secret(const uint8_t secret[TICKET_SECRET_SIZE], uint8_t nonce[TICKET_NONCE_SIZE])
{
    uint8_t hash[32];
    bool good = EVP_Digest(secret, TICKET_SECRET_SIZE, hash, NULL, EVP_sha256(), NULL) == 1;
    memcpy(nonce, hash, TICKET_NONCE_SIZE);
    return good;
}

static uint8_t *put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint64_t get(const uint8_t **at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | *(*at)++;
    return value;
}

static size_t encode(const struct ticket *ticket, uint8_t *out)
{
    const char *names[3] = { ticket->tenant, ticket->node, ticket->gpu };
    uint8_t *at = out;
    memcpy(at, magic, sizeof magic);
    at += sizeof magic;
    *at++ = VERSION;
    for (int i = 0; i < 3; i++)
        *at++ = (uint8_t)strlen(names[i]);
    at = put(at, ticket->server, 8);
    at = put(at, ticket->program, 8);
    at = put(at, ticket->sms, 4);
    at = put(at, ticket->memory, 8);
    at = put(at, (uint64_t)ticket->issued, 8);
    at = put(at, (uint64_t)ticket->expires, 8);
    memcpy(at, ticket->nonce, TICKET_NONCE_SIZE);
    at += TICKET_NONCE_SIZE;
    for (int i = 0; i < 3; i++) {
        memcpy(at, names[i], strlen(names[i]));
        at += strlen(names[i]);
    }
    return (size_t)(at - out);
}

/* Bytes with a good signature. */
static bool decode(const uint8_t *at, size_t size, struct ticket *ticket)
{
    char *names[3] = { ticket->tenant, ticket->node, ticket->gpu };
    if (size < FIXED_SIZE || memcmp(at, magic, sizeof magic) || at[4] != VERSION)
        return false;
    const uint8_t *lengths = at + 5;
    if (size != FIXED_SIZE + (size_t)lengths[0] + lengths[1] + lengths[2])
        return false;
    at += 8;
    ticket->server = get(&at, 8);
    ticket->program = get(&at, 8);
    ticket->sms = (uint32_t)get(&at, 4);
    ticket->memory = get(&at, 8);
    ticket->issued = (int64_t)get(&at, 8);
    ticket->expires = (int64_t)get(&at, 8);
    memcpy(ticket->nonce, at, TICKET_NONCE_SIZE);
    at += TICKET_NONCE_SIZE;
    for (int i = 0; i < 3; i++) {
        if (lengths[i] >= TICKET_NAME_SIZE || memchr(at, 0, lengths[i]))
            return false;
        memcpy(names[i], at, lengths[i]);
        names[i][lengths[i]] = '\0';
        at += lengths[i];
    }
    return true;
}

int ticket_sign(const struct ticket_signer *signer, struct ticket *ticket, uint8_t *out, size_t *size, char *error)
{
    uint8_t bytes[FIXED_SIZE + 3 * TICKET_NAME_SIZE + SIGNATURE_SIZE + TICKET_SECRET_SIZE], secret[TICKET_SECRET_SIZE];
    if (!memchr(ticket->tenant, 0, TICKET_NAME_SIZE) || !memchr(ticket->node, 0, TICKET_NAME_SIZE) ||
        !memchr(ticket->gpu, 0, TICKET_NAME_SIZE))
        return explain(error, -EINVAL, "a name in a ticket is longer than %d bytes", TICKET_NAME_SIZE - 1);
    if (RAND_bytes(secret, sizeof secret) != 1 || !hash_secret(secret, ticket->nonce))
        return explain(error, -EIO, "there are no random numbers for a ticket");
    size_t length = encode(ticket, bytes), signature = SIGNATURE_SIZE;
    const size_t whole = length + SIGNATURE_SIZE + TICKET_SECRET_SIZE;
    if (*size < whole)
        return explain(error, -EINVAL, "a ticket of %zu bytes does not fit in %zu", whole, *size);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool signed_ = context && EVP_DigestSignInit(context, NULL, NULL, NULL, signer->key) == 1 &&
                   EVP_DigestSign(context, bytes + length, &signature, bytes, length) == 1;
    EVP_MD_CTX_free(context);
    if (!signed_)
        return explain(error, -EIO, "signing a ticket failed in OpenSSL");
    memcpy(bytes + length + signature, secret, sizeof secret);
    *size = length + signature + sizeof secret;
    memcpy(out, bytes, *size);
    return 0;
}

/* ---- checking ---- */

static bool signed_by(const uint8_t key[TICKET_KEY_SIZE], const uint8_t *bytes, size_t size)
{
    size_t length = size - SIGNATURE_SIZE;
    EVP_PKEY *public_key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, TICKET_KEY_SIZE);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = public_key && context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, public_key) == 1 &&
                EVP_DigestVerify(context, bytes + length, SIGNATURE_SIZE, bytes, length) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(public_key);
    return good;
}

int ticket_verify(const uint8_t (*keys)[TICKET_KEY_SIZE], size_t count, const uint8_t *bytes, size_t size, int64_t now,
                  uint64_t server, struct ticket *ticket, char *error)
{
    uint8_t nonce[TICKET_NONCE_SIZE];
    size_t pass = size > TICKET_SECRET_SIZE ? size - TICKET_SECRET_SIZE : 0;
    int failure = ticket_verify_pass(keys, count, bytes, pass, now, server, ticket, error);
    if (failure == 0 && (!hash_secret(bytes + pass, nonce) || CRYPTO_memcmp(nonce, ticket->nonce, sizeof nonce) != 0))
        failure = explain(error, -EKEYREJECTED, "the ticket of %s was shown without its secret", ticket->tenant);
    return failure;
}

int ticket_verify_pass(const uint8_t (*keys)[TICKET_KEY_SIZE], size_t count, const uint8_t *bytes, size_t size,
                       int64_t now, uint64_t server, struct ticket *ticket, char *error)
{
    const int64_t skew = (int64_t)TICKET_CLOCK_SKEW_SECONDS * 1000000;
    bool good = false;
    memset(ticket, 0, sizeof *ticket);
    if (size < FIXED_SIZE + SIGNATURE_SIZE || size > TICKET_MAX_SIZE || memcmp(bytes, magic, sizeof magic))
        return explain(error, -EBADMSG, "%zu bytes were shown that are no ticket", size);
    for (size_t i = 0; i < count && !good; i++)
        good = signed_by(keys[i], bytes, size);
    if (!good)
        return explain(error, -EKEYREJECTED, "the ticket was changed on its way, or signed by another cluster manager");
    if (!decode(bytes, size - SIGNATURE_SIZE, ticket)) {
        memset(ticket, 0, sizeof *ticket);
        return explain(error, -EBADMSG, "the ticket has a form that this version does not know");
    }
    if (ticket->expires <= now)
        return explain(error, -EKEYEXPIRED, "the ticket of %s expired %.1f s ago", ticket->tenant,
                       (double)(now - ticket->expires) / 1e6);
    if (ticket->issued > now + skew)
        return explain(error, -EKEYEXPIRED, "the ticket of %s will be issued in %.1f s: the clocks of the cluster "
                       "manager and of this machine differ", ticket->tenant, (double)(ticket->issued - now) / 1e6);
    if (server && ticket->server != server)
        return explain(error, -EACCES, "the ticket of %s is for server %llu, this is %llu", ticket->tenant,
                       (unsigned long long)ticket->server, (unsigned long long)server);
    return 0;
}

/* ---- replays ---- */

struct seen { uint8_t nonce[TICKET_NONCE_SIZE]; unsigned times; int64_t expires; };     /* expires 0: free */

struct ticket_guard {
    size_t       capacity, slots, used;         /* slots: a power of two, at least twice the capacity */
    struct seen *table;
};

struct ticket_guard *ticket_guard_create(size_t capacity)
{
    struct ticket_guard *guard = calloc(1, sizeof *guard);
    if (!guard)
        return NULL;
    guard->capacity = capacity ? capacity : 1;
    for (guard->slots = 2; guard->slots < 2 * guard->capacity; guard->slots *= 2)
        ;
    guard->table = calloc(guard->slots, sizeof *guard->table);
    if (!guard->table) {
        free(guard);
        return NULL;
    }
    return guard;
}

void ticket_guard_destroy(struct ticket_guard *guard)
{
    if (!guard)
        return;
    free(guard->table);
    free(guard);
}

/* The nonce's place, or the free one where it would go. */
static struct seen *find(struct ticket_guard *guard, const uint8_t *nonce)
{
    uint64_t hash;
    memcpy(&hash, nonce, sizeof hash);
    for (size_t i = hash & (guard->slots - 1);; i = (i + 1) & (guard->slots - 1))
        if (!guard->table[i].expires || memcmp(guard->table[i].nonce, nonce, TICKET_NONCE_SIZE) == 0)
            return &guard->table[i];
}

/* -ENOMEM leaves everything as it was. */
static int forget_expired(struct ticket_guard *guard, int64_t now)
{
    struct seen *old = guard->table, *fresh = calloc(guard->slots, sizeof *fresh);
    if (!fresh)
        return -ENOMEM;
    guard->table = fresh;
    guard->used = 0;
    for (size_t i = 0; i < guard->slots; i++)
        if (old[i].expires > now) {
            *find(guard, old[i].nonce) = old[i];
            guard->used++;
        }
    free(old);
    return 0;
}

int ticket_guard_use(struct ticket_guard *guard, const struct ticket *ticket, unsigned most, int64_t now, char *error)
{
    struct seen *seen = find(guard, ticket->nonce);
    if (seen->expires && seen->times < most) {
        seen->times++;
        return 0;
    }
    if (seen->expires)
        return explain(error, -EALREADY, "the ticket of %s was used before: each opens one connection", ticket->tenant);
    if (guard->used >= guard->capacity)
        forget_expired(guard, now);
    if (guard->used >= guard->capacity)
        return explain(error, -ENOSPC, "%zu tickets were used within their lifetime, more are not accepted at present",
                       guard->used);
    struct seen *place = find(guard, ticket->nonce);
    memcpy(place->nonce, ticket->nonce, TICKET_NONCE_SIZE);
    place->times = 1;
    place->expires = ticket->expires > 0 ? ticket->expires : 1;
    guard->used++;
    return 0;
}
