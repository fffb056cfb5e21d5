/* access.c: see access.h. */
#include "control-managers/monitor/access.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { HASH_SIZE = 32, MOST_TOKENS = 100000, LINE_SIZE = 512, TOKEN_BYTES = 32 };

struct access_token {
    unsigned char hash[HASH_SIZE];
    struct access_rights rights;
};
struct access_tokens {
    size_t count, room;
    struct access_token *tokens;
};

bool access_of_role(const char *role, bool of_token, struct access_rights *rights)
{
    static const char client[] = "client:";
    *rights = (struct access_rights){ 0 };
    bool all =
        strcmp(role, "viewer") == 0 || (!of_token && (strcmp(role, "operator") == 0 || strcmp(role, "admin") == 0));
    if (all) {
        rights->metrics = rights->rows = rights->cluster = true;
    } else if (of_token && strcmp(role, "metrics") == 0) {
        rights->metrics = true;
    } else if (strncmp(role, client, sizeof client - 1) == 0 && protocol_name_valid(role + sizeof client - 1)) {
        rights->metrics = rights->rows = true;
        snprintf(rights->vm, sizeof rights->vm, "%s", role + sizeof client - 1);
    } else {
        return false;
    }
    snprintf(rights->role, sizeof rights->role, "%s", role);
    return true;
}

/* ---- tokens ---- */

static bool hash_of(const char *token, size_t size, unsigned char hash[HASH_SIZE])
{
    return EVP_Digest(token, size, hash, NULL, EVP_sha256(), NULL) == 1;
}

static bool read_hash(const char *text, unsigned char hash[HASH_SIZE])
{
    for (size_t i = 0; i < HASH_SIZE; i++) {
        char pair[3] = { text[2 * i], text[2 * i] ? text[2 * i + 1] : '\0', '\0' };
        if (!isxdigit((unsigned char)pair[0]) || !isxdigit((unsigned char)pair[1]))
            return false;
        hash[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return text[2 * HASH_SIZE] == '\0';
}

/* "ROLE HASH"; what follows is a remark. */
static bool take_line(struct access_tokens *all, char *line)
{
    char *rest = NULL, *role = strtok_r(line, " \t\r\n", &rest), *hash = strtok_r(NULL, " \t\r\n", &rest);
    struct access_token token;
    if (!role || *role == '#')
        return true;
    if (!hash || !access_of_role(role, true, &token.rights) || !read_hash(hash, token.hash) ||
        all->count == MOST_TOKENS)
        return false;
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 16;
        struct access_token *more = realloc(all->tokens, room * sizeof *more);
        if (!more)
            return false;
        all->tokens = more;
        all->room = room;
    }
    all->tokens[all->count++] = token;
    return true;
}

int access_tokens_load(const char *path, struct access_tokens **out, char *error)
{
    FILE *file = fopen(path, "re");
    struct access_tokens *all = calloc(1, sizeof *all);
    struct stat what;
    char line[LINE_SIZE];
    int number = 0;
    bool good = file && all;
    if (!good)
        snprintf(error, 256, "the tokens %.150s cannot be read: %s", path, strerror(errno));
    if (good && (fstat(fileno(file), &what) != 0 || what.st_mode & 022)) {
        snprintf(error, 256, "the tokens %.150s can be written by others: chmod go-w", path);
        good = false;
    }
    while (good && fgets(line, sizeof line, file)) {
        number++;
        good = (strchr(line, '\n') || feof(file)) && take_line(all, line);
        if (!good)
            snprintf(error, 256,
                     "%.150s:%d: a line is a role (viewer, metrics, client:NAME) and a hash, as --new-token prints it",
                     path, number);
    }
    if (file)
        fclose(file);
    if (!good) {
        access_tokens_free(all);
        return -1;
    }
    *out = all;
    return 0;
}

void access_tokens_free(struct access_tokens *all)
{
    if (all)
        free(all->tokens);
    free(all);
}

bool access_by_token(const struct access_tokens *all, const char *authorization, struct access_rights *rights)
{
    static const char bearer[] = "Bearer ";
    unsigned char hash[HASH_SIZE];
    if (!all || !authorization || strncasecmp(authorization, bearer, sizeof bearer - 1) != 0)
        return false;
    const char *token = authorization + sizeof bearer - 1;
    token += strspn(token, " ");
    size_t size = strcspn(token, " ");
    if (!size || token[size] || !hash_of(token, size, hash))
        return false;
    for (size_t i = 0; i < all->count; i++)
        if (CRYPTO_memcmp(all->tokens[i].hash, hash, HASH_SIZE) == 0) {
            *rights = all->tokens[i].rights;
            return true;
        }
    return false;
}

bool access_new_token(const char *role, char token[ACCESS_TOKEN_SIZE], char *line)
{
    unsigned char bytes[TOKEN_BYTES], hash[HASH_SIZE];
    struct access_rights rights;
    char text[2 * HASH_SIZE + 1];
    if (!access_of_role(role, true, &rights) || RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    if (!hash_of(token, 2 * sizeof bytes, hash))
        return false;
    for (size_t i = 0; i < HASH_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    snprintf(line, 256, "%s %s", role, text);
    return true;
}

/* ---- hosts ---- */

static bool same_host(const char *one, const char *host, size_t length)
{
    return strlen(one) == length && strncasecmp(one, host, length) == 0;
}

bool access_host_fits(const char *host, const char *const *hosts, size_t count)
{
    static const char *const loopback[] = { "localhost", "127.0.0.1", "[::1]" };
    if (!host)
        return false;
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (length > strlen(host) || (host[length] && host[length] != ':'))
        return false;
    if (host[length] && host[length + 1 + strspn(host + length + 1, "0123456789")]) /* "127.0.0.1:80@elsewhere" */
        return false;
    for (size_t i = 0; i < sizeof loopback / sizeof *loopback; i++)
        if (same_host(loopback[i], host, length))
            return true;
    for (size_t i = 0; i < count; i++)
        if (same_host(hosts[i], host, length))
            return true;
    return false;
}
