#include "control-managers/common/db.h"
#include "cpu/common/explain.h"

#include <errno.h>
#include <string.h>

static const struct { const char *prefix; const struct db_operations *operations; } schemes[] = {
    { "sqlite:", &db_sqlite },
    { "mongodb://", &db_mongo },
    { "mongodb+srv://", &db_mongo },
};

static const struct db_operations *operations_for(const char *uri, char *error)
{
    char clean[512];
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(uri, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return schemes[i].operations;
    explain(error, -EINVAL, "resource DB '%s': its address begins with sqlite:// or mongodb:// (or mongodb+srv://)",
            db_uri_clean(uri, clean, sizeof clean));
    return NULL;
}

int db_check(const char *uri, char *error)
{
    const struct db_operations *operations = operations_for(uri, error);
    return operations ? operations->check(uri, error) : -EINVAL;
}

int db_open(const char *uri, struct db **out, char *error)
{
    const struct db_operations *operations = operations_for(uri, error);
    *out = NULL;
    return operations ? operations->open(uri, out, error) : -EINVAL;
}

void db_close(struct db *db)
{
    if (db)
        db->operations->close(db);
}

const char *db_uri_clean(const char *uri, char *buffer, size_t size)
{
    const char *authority = strstr(uri, "://");
    authority = authority ? authority + 3 : uri;
    /* The password may hold characters that should have been escaped: up to the last @ before the options is hidden. */
    const char *options = strchr(authority, '?');
    const char *at = NULL;
    for (const char *c = authority; *c && c != options; c++)
        if (*c == '@')
            at = c;
    snprintf(buffer, size, "%.*s%s", (int)(authority - uri), uri, at ? at + 1 : authority);
    /* Options name files and mechanisms, and in old URIs passwords. */
    char *cut = strchr(buffer, '?');
    if (cut)
        *cut = '\0';
    return buffer;
}

/* Percent-encodes what is not unreserved (RFC 3986). false: no room. */
static bool append_encoded(char *buffer, size_t size, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t at = strlen(buffer);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (at + 4 > size)
            return false;
        if (strchr(plain, *c)) {
            buffer[at++] = (char)*c;
        } else {
            buffer[at++] = '%';
            buffer[at++] = digits[*c >> 4];
            buffer[at++] = digits[*c & 15];
        }
    }
    buffer[at] = '\0';
    return true;
}

int db_uri_mongo(const char *host, unsigned port, const char *user, const char *password, const char *dbname,
                 char *buffer, size_t size, char *error)
{
    snprintf(buffer, size, "mongodb://");
    bool fits = true;
    if (user && *user) {
        fits = append_encoded(buffer, size, user);
        if (fits && password && *password) {
            size_t at = strlen(buffer);
            snprintf(buffer + at, size - at, ":");
            fits = append_encoded(buffer, size, password);
        }
        size_t at = strlen(buffer);
        snprintf(buffer + at, size - at, "@");
    }
    size_t at = strlen(buffer);
    bool brackets = strchr(host, ':') && *host != '[';
    int written = snprintf(buffer + at, size - at, "%s%s%s:%u/", brackets ? "[" : "", host, brackets ? "]" : "", port);
    fits = fits && written > 0 && (size_t)written < size - at &&
           append_encoded(buffer, size, dbname && *dbname ? dbname : "flyt");
    return fits ? 0
                : explain(error, -ENAMETOOLONG,
                          "the address of MongoDB on %s, with user, password and database name, is longer than %zu "
                          "characters",
                          host, size);
}
