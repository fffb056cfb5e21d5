/* address.c: URIs. See address.h. */
#include "cpu/rpc/transport/address.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>


static int parse_mode(const char *text, mode_t *mode)
{
    char *end;
    unsigned long value = strtoul(text, &end, 8);
    if (end == text || *end || value > 0777)
        return -EINVAL;
    *mode = (mode_t)value;
    return 0;
}

static int parse_unix(const char *uri, const char *path, struct rpc_address *address, char *error)
{
    const char *query = strchr(path, '?');
    size_t length = query ? (size_t)(query - path) : strlen(path);
    if (path[0] != '/' || length < 2)
        return rpc_explain(error, -EINVAL,
                           "%s: such an address has an absolute path, as in unix:///run/flyt/server.sock", uri);
    if (length >= sizeof address->path)
        return rpc_explain(error, -EINVAL, "%s: the path is longer than the %zu bytes that a socket may have", uri,
                           sizeof address->path - 1);
    if (query && (strncmp(query, "?mode=", 6) != 0 || parse_mode(query + 6, &address->mode) != 0))
        return rpc_explain(error, -EINVAL, "%s: only ?mode= with an octal number may follow the path", uri);
    memcpy(address->path, path, length);
    address->path[length] = 0;
    return 0;
}

/* Behind the "?" of a TLS address: sha256=HEX or name=NAME, or both with "&" between. */
static int parse_identity(const char *uri, const char *query, struct rpc_address *address, char *error)
{
    static const char name_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    for (;;) {
        size_t length = strcspn(query, "&");
        const char *value = strchr(query, '=');
        size_t size = value && value < query + length ? (size_t)(query + length - ++value) : 0;
        if (strncmp(query, "sha256=", 7) == 0 && size == sizeof address->pin - 1 &&
            strspn(value, "0123456789abcdefABCDEF") >= size) {
            for (size_t i = 0; i < size; i++)
                address->pin[i] = (char)(value[i] >= 'A' && value[i] <= 'F' ? value[i] - 'A' + 'a' : value[i]);
        } else if (strncmp(query, "name=", 5) == 0 && size > 0 && size < sizeof address->name &&
                   strspn(value, name_characters) >= size) {
            memcpy(address->name, value, size);
            address->name[size] = 0;
        } else {
            return rpc_explain(
                error, -EINVAL,
                "%s: behind the port may stand ?sha256= with the 64 digits that the server prints, or ?name= "
                "with the name in its certificate",
                uri);
        }
        if (!query[length])
            return 0;
        query += length + 1;
    }
}

static int parse_tcp(const char *uri, const char *rest, struct rpc_address *address, char *error)
{
    const char *host = rest, *colon;
    size_t length;
    if (rest[0] == '[') {
        const char *close = strchr(rest, ']');
        host = rest + 1;
        length = close ? (size_t)(close - host) : 0;
        colon = close ? close + 1 : NULL;
    } else {
        colon = memrchr(rest, ':', strcspn(rest, "?"));
        length = colon ? (size_t)(colon - host) : 0;
        if (colon && memchr(host, ':', length))
            return rpc_explain(error, -EINVAL, "%s: an IPv6 address must be in brackets, as in //[::1]:4711", uri);
    }
    if (!colon || *colon != ':' || length == 0 || length >= sizeof address->host)
        return rpc_explain(error, -EINVAL, "%s: a TCP address has a host and a port, as in //gpu1:4711", uri);
    const char *port = colon + 1;
    size_t digits = strspn(port, "0123456789");
    if (digits == 0 || digits > 5 || (port[digits] && (port[digits] != '?' || address->kind != RPC_ADDRESS_TLS)) ||
        strtoul(port, NULL, 10) > 65535)
        return rpc_explain(error, -EINVAL, "%s: the port is a number from 0 to 65535", uri);
    memcpy(address->host, host, length);
    address->host[length] = 0;
    memcpy(address->service, port, digits);
    address->service[digits] = 0;
    return port[digits] ? parse_identity(uri, port + digits + 1, address, error) : 0;
}

int rpc_address_parse(const char *uri, struct rpc_address *address, char *error)
{
    *address = (struct rpc_address){ .mode = 0600 };
    if (strncmp(uri, "unix://", 7) == 0) {
        address->kind = RPC_ADDRESS_UNIX;
        return parse_unix(uri, uri + 7, address, error);
    }
    if (strncmp(uri, "shm://", 6) == 0) {
        address->kind = RPC_ADDRESS_SHM;
        return parse_unix(uri, uri + 6, address, error);
    }
    if (strncmp(uri, "tcp://", 6) == 0) {
        address->kind = RPC_ADDRESS_TCP;
        return parse_tcp(uri, uri + 6, address, error);
    }
    if (strncmp(uri, "tls://", 6) == 0) {
        address->kind = RPC_ADDRESS_TLS;
        return parse_tcp(uri, uri + 6, address, error);
    }
    return rpc_explain(error, -EINVAL,
                       "%s: not an address; tls://host:port, tcp://host:port, unix:///path and shm:///path are", uri);
}
