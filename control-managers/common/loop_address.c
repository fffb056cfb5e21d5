#include "control-managers/common/loop_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int parse_tcp(const char *uri, const char *rest, struct loop_address *address, char *error)
{
    const char *host = rest, *end, *port;
    if (*rest == '[') {
        host = rest + 1;
        end = strchr(host, ']');
        port = end && end[1] == ':' ? end + 2 : NULL;
    } else {
        end = strrchr(rest, ':');
        port = end ? end + 1 : NULL;
        if (end && memchr(rest, ':', (size_t)(end - rest)))
            return explain(error, -EINVAL, "%s: an IPv6 address must be in brackets: tcp://[::1]:12401", uri);
    }
    if (!port || !*port || strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 || atoi(port) > 65535)
        return explain(error, -EINVAL, "%s: expected tcp://host:port with a port from 0 to 65535", uri);
    if ((size_t)(end - host) > CTL_MAX_HOST)
        return explain(error, -EINVAL, "%.60s…: the host's name is longer than %d", uri, CTL_MAX_HOST);
    snprintf(address->host, sizeof address->host, "%.*s", (int)(end - host), host);
    snprintf(address->service, sizeof address->service, "%s", port);
    return 0;
}

int loop_address_parse(const char *uri, struct loop_address *address, char *error)
{
    memset(address, 0, sizeof *address);
    if (strncmp(uri, "tcp://", 6) == 0)
        return parse_tcp(uri, uri + 6, address, error);
    if (strncmp(uri, "unix://", 7) == 0) {
        const char *path = uri + 7;
        address->is_unix = true;
        if (*path != '/')
            return explain(error, -EINVAL, "%s: a unix socket needs an absolute path: unix:///run/flyt/x.sock", uri);
        if (strlen(path) >= sizeof address->path)
            return explain(error, -ENAMETOOLONG, "%s: the path of a unix socket has at most %zu bytes", uri,
                           sizeof address->path - 1);
        snprintf(address->path, sizeof address->path, "%s", path);
        return 0;
    }
    return explain(error, -EINVAL, "%s: expected tcp://host:port or unix:///path", *uri ? uri : "an empty address");
}
