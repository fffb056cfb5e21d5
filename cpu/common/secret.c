#include "cpu/common/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "cpu/common/explain.h"

static const char client_key_label[] = "flyt client key";
static const char answer_label[] = "flyt listener";

void secret_wipe(struct secret *secret)
{
    OPENSSL_cleanse(secret, sizeof *secret);
}

int secret_check_fd(int fd, const char *path, char *error)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return explain(error, -errno, "examining %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return explain(error, -EPERM, "%s holds a secret and must be a regular file", path);
    if (status.st_uid != geteuid() && geteuid() == 0)
        return explain(error, -EPERM,
                       "%s holds a secret and belongs to user %u, not to root, who reads it now: is this to "
                       "run as that user (setpriv --reuid=%u --regid=%u --init-groups …)?",
                       path, status.st_uid, status.st_uid, status.st_gid);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return explain(error, -EPERM, "%s holds a secret and belongs to user %u: it must belong to user %u or to root "
                       "(chown %u '%s')", path, status.st_uid, geteuid(), geteuid(), path);
    if (status.st_mode & (S_IWGRP | S_IRWXO))
        return explain(error, -EPERM, "%s holds a secret and has mode %04o: others could read or change it "
                       "(chmod %s '%s')", path, status.st_mode & 07777, status.st_uid == geteuid() ? "600" : "640",
                       path);
    return 0;
}

static int read_all(int fd, const char *path, struct secret *secret, char *error)
{
    uint8_t extra;
    secret->size = 0;
    for (;;) {
        bool full = secret->size == SECRET_MAX_SIZE;
        ssize_t got = read(fd, full ? &extra : secret->bytes + secret->size, full ? 1 : SECRET_MAX_SIZE - secret->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return explain(error, -errno, "reading %s: %s", path, strerror(errno));
        if (got == 0)
            return 0;
        if (full)
            return explain(error, -EINVAL, "%s is longer than the %d bytes that a secret may have", path,
                           SECRET_MAX_SIZE);
        secret->size += (size_t)got;
    }
}

int secret_read(const char *path, struct secret *secret, char *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return explain(error, -errno, "opening the secret %s: %s", path, strerror(errno));
    int failure = secret_check_fd(fd, path, error);
    if (failure == 0)
        failure = read_all(fd, path, secret, error);
    close(fd);
    if (failure == 0) {
        while (secret->size > 0 && (secret->bytes[secret->size - 1] == '\n' || secret->bytes[secret->size - 1] == '\r'))
            secret->size--;
        if (secret->size == 0)
            failure = explain(error, -EINVAL, "%s is empty: a secret is expected in it", path);
    }
    if (failure)
        secret_wipe(secret);
    return failure;
}

static int take(const char *text, const char *what, struct secret *secret, char *error)
{
    size_t size = strlen(text);
    if (size == 0 || size > SECRET_MAX_SIZE)
        return explain(error, -EINVAL, "%s is %s", what, size ? "too long for a secret" : "empty");
    secret->size = size;
    memcpy(secret->bytes, text, size);
    return 0;
}

int secret_resolve(const char *source, bool literal_allowed, struct secret *secret, char *error)
{
    if (strncmp(source, "file:", 5) == 0)
        return secret_read(source + 5, secret, error);
    if (strncmp(source, "env:", 4) == 0) {
        const char *value = getenv(source + 4);
        if (!value)
            return explain(error, -ENOENT, "the environment has no variable %s, which was to hold a secret",
                           source + 4);
        return take(value, source, secret, error);
    }
    if (!literal_allowed)
        return explain(error, -EPERM, "a secret must not stand here itself: write file:/path or env:NAME");
    return take(source, "the secret", secret, error);
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, bytes, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        bytes += put;
        size -= (size_t)put;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

/* The folder that path is in, "." where it names none. */
static void folder_of(const char *path, char folder[4096])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, 4096, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

/* A rename is durable once the folder is. */
static void sync_folder_of(const char *path)
{
    char folder[4096];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
}

/* Whether root made the folder of path for the files of a group: it is root's, and has the setgid bit. */
static bool folder_is_of_group(const char *path)
{
    char folder[4096];
    struct stat status;
    folder_of(path, folder);
    return geteuid() == 0 && stat(folder, &status) == 0 && status.st_uid == 0 && status.st_mode & S_ISGID;
}

static int write_file(const char *path, const void *bytes, size_t size, mode_t mode, char *error)
{
    char temporary[4096];
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
        return explain(error, -ENAMETOOLONG, "the path %.100s… is too long", path);
    int fd = mkostemp(temporary, O_CLOEXEC);            /* mode 0600 */
    if (fd < 0)
        return explain(error, -errno, "creating %s: %s", temporary, strerror(errno));
    int failure = write_all(fd, bytes, size);
    if (failure == 0 && fchmod(fd, mode) < 0)
        failure = -errno;
    close(fd);
    if (failure == 0 && rename(temporary, path) < 0)
        failure = -errno;
    if (failure) {
        unlink(temporary);
        return explain(error, failure, "writing %s: %s", path, strerror(-failure));
    }
    sync_folder_of(path);
    return 0;
}

int secret_write(const char *path, const void *bytes, size_t size, char *error)
{
    return write_file(path, bytes, size, 0600, error);
}

int secret_write_for_daemon(const char *path, const void *bytes, size_t size, char *error)
{
    return write_file(path, bytes, size, folder_is_of_group(path) ? 0640 : 0600, error);
}

int secret_make(char *text)
{
    uint8_t bytes[SECRET_TEXT_SIZE / 2];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return -EIO;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return 0;
}

/* ---- proofs ---- */

/* OpenSSL looks its algorithms up by their names, which takes longer than a hash: 20,000 peers that come back at once
   prove themselves within seconds. So they are looked up once. */
static EVP_MD *sha256_algorithm;
static EVP_MAC *hmac_algorithm;
static pthread_once_t algorithms = PTHREAD_ONCE_INIT;

static void fetch_algorithms(void)
{
    sha256_algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    hmac_algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
}

static void sha256(const void *a, size_t a_size, const void *b, size_t b_size, uint8_t out[32])
{
    uint8_t bytes[SECRET_MAX_SIZE + 64];
    memcpy(bytes, a, a_size);
    if (b_size)
        memcpy(bytes + a_size, b, b_size);
    pthread_once(&algorithms, fetch_algorithms);
    if (!sha256_algorithm || EVP_Digest(bytes, a_size + b_size, out, NULL, sha256_algorithm, NULL) != 1)
        RAND_bytes(out, 32); /* no memory: it proves nothing */
    OPENSSL_cleanse(bytes, sizeof bytes);
}

static void client_key(const struct secret *secret, uint8_t key[32])
{
    sha256(client_key_label, sizeof client_key_label - 1, secret->bytes, secret->size, key);
}

void secret_stored(const struct secret *secret, uint8_t stored[SECRET_STORED_SIZE])
{
    uint8_t key[32];
    client_key(secret, key);
    sha256(key, sizeof key, NULL, 0, stored);
    OPENSSL_cleanse(key, sizeof key);
}

static void hmac_sha256(const uint8_t key[32], const void *bytes, size_t size, uint8_t out[32])
{
    size_t length = 0;
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                  OSSL_PARAM_construct_end() };
    pthread_once(&algorithms, fetch_algorithms);
    EVP_MAC_CTX *context = hmac_algorithm ? EVP_MAC_CTX_new(hmac_algorithm) : NULL;
    bool good = context && EVP_MAC_init(context, key, 32, params) == 1 &&
                EVP_MAC_update(context, bytes, size) == 1 && EVP_MAC_final(context, out, &length, 32) == 1;
    EVP_MAC_CTX_free(context);
    if (!good)
        RAND_bytes(out, 32); /* no memory: it proves nothing */
}

static void xor_signature(const uint8_t stored[32], const uint8_t *transcript, size_t size, uint8_t bytes[32])
{
    uint8_t signature[32];
    hmac_sha256(stored, transcript, size, signature);
    for (int i = 0; i < 32; i++)
        bytes[i] ^= signature[i];
}

void secret_proof(const struct secret *secret, const uint8_t *transcript, size_t size, uint8_t proof[SECRET_PROOF_SIZE])
{
    uint8_t stored[SECRET_STORED_SIZE];
    secret_stored(secret, stored);
    client_key(secret, proof);
    xor_signature(stored, transcript, size, proof);
}

bool secret_verify(const uint8_t stored[SECRET_STORED_SIZE], const uint8_t *transcript, size_t size,
                   const uint8_t proof[SECRET_PROOF_SIZE])
{
    uint8_t key[32], found[32];
    memcpy(key, proof, sizeof key);
    xor_signature(stored, transcript, size, key);
    sha256(key, sizeof key, NULL, 0, found);
    OPENSSL_cleanse(key, sizeof key);
    return CRYPTO_memcmp(found, stored, sizeof found) == 0;
}

size_t secret_transcript(const uint8_t caller[32], const uint8_t listener[32], uint32_t role, const char *name,
                         uint8_t *out, size_t capacity)
{
    size_t length = strlen(name), size = 32 + 32 + 4 + length;
    if (size > capacity)
        return 0;
    memcpy(out, caller, 32);
    memcpy(out + 32, listener, 32);
    for (int i = 0; i < 4; i++)
        out[64 + i] = (uint8_t)(role >> (24 - 8 * i));
    memcpy(out + 68, name, length);
    return size;
}

size_t secret_bind(uint8_t *transcript, size_t size, size_t capacity, const uint8_t binding[SECRET_BINDING_SIZE])
{
    if (size + 1 + SECRET_BINDING_SIZE > capacity)
        return 0;
    transcript[size] = 0; /* ends the name */
    memcpy(transcript + size + 1, binding, SECRET_BINDING_SIZE);
    return size + 1 + SECRET_BINDING_SIZE;
}

/* HMAC-SHA-256(HMAC-SHA-256(stored, label), transcript): never what a caller's proof is made of. */
void secret_answer(const uint8_t stored[SECRET_STORED_SIZE], const uint8_t *transcript, size_t size,
                   uint8_t answer[SECRET_PROOF_SIZE])
{
    uint8_t key[32];
    hmac_sha256(stored, answer_label, sizeof answer_label - 1, key);
    hmac_sha256(key, transcript, size, answer);
    OPENSSL_cleanse(key, sizeof key);
}

bool secret_answer_verify(const struct secret *secret, const uint8_t *transcript, size_t size,
                          const uint8_t answer[SECRET_PROOF_SIZE])
{
    uint8_t stored[SECRET_STORED_SIZE], expected[SECRET_PROOF_SIZE];
    secret_stored(secret, stored);
    secret_answer(stored, transcript, size, expected);
    OPENSSL_cleanse(stored, sizeof stored);
    return CRYPTO_memcmp(expected, answer, sizeof expected) == 0;
}
