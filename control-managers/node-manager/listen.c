/*
 * listen.c: the sockets on which a GPU server accepts connections. The node manager makes them, in the machine's
 * network, and the server inherits them: the server itself is in a network namespace in which there is nothing to
 * connect to, and it may call neither bind nor listen, which would move a socket to somebody else's port.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { BACKLOG = 128, LISTEN_PATH_SIZE = 100 };

static unsigned port_of(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return 0;
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

int listen_make(const struct node_manager *node, unsigned *port, char *error)
{
    const char *given = node->config->listen;
    size_t size = strlen(given);
    bool brackets = given[0] == '[' && given[size - 1] == ']';
    char host[CTL_MAX_HOST + 1];
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found;
    snprintf(host, sizeof host, "%.*s", (int)(brackets ? size - 2 : size), given + brackets);
    int why = getaddrinfo(host, "0", &hints, &found);
    if (why)
        return explain(error, -1, "virt-server.listen-address %s: %s", given, gai_strerror(why));
    int fd = -1;
    for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
        fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && (bind(fd, one->ai_addr, one->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)) {
            int reason = errno;
            close(fd);
            errno = reason;
            fd = -1;
        }
    }
    int reason = errno;
    freeaddrinfo(found);
    if (fd < 0)
        return explain(error, -1, "listening on %s (virt-server.listen-address): %s", given, strerror(reason));
    *port = port_of(fd);
    return fd;
}

int listen_make_unix(const struct node_server *server)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    char path[NODE_PATH_SIZE];
    if (own_folder(server, LISTEN_NAME, path) != 0 || strlen(path) >= LISTEN_PATH_SIZE)
        return -1;
    int folder = own_open_folder(server), fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* By the descriptor: no part of the path can be exchanged meanwhile. */
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/%s", folder, LISTEN_NAME);
    /* All users may try: whoever reaches the socket needs a ticket as well. */
    mode_t before = umask(0);
    bool made = folder >= 0 && fd >= 0 && fchmod(fd, 0666) == 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
                listen(fd, BACKLOG) == 0;
    umask(before);
    if (!made)
        log_warning("event=socket-not-made path=%s why=\"%s\": programs of this machine use the network", path,
                    strerror(errno));
    if (!made && fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
    return made ? fd : -1;
}
