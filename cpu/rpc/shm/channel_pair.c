/*
 * channel_pair.c: two channels joined inside one process. They are the two ends of shared memory (channel_shm.c) that
 * have nothing left to agree on; so who runs the server in his own process, to develop without a GPU, runs what others
 * run.
 */
#include "cpu/rpc/shm/shm.h"

#include "cpu/common/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One end, which owns fd in any case. */
static int make_end(int fd, enum ring_side side, struct shm_channel **out, char *error)
{
    rpc_channel *socket;
    int status = rpc_channel_from_fd(fd, &socket, error);
    if (status < 0) {
        close(fd);
        return status;
    }
    *out = shm_create(socket, side);
    if (*out)
        return 0;
    rpc_channel_destroy(socket);
    return -ENOMEM;
}

/* The server's end makes the memory; the client's is joined to it. */
static int join(struct shm_channel *client, struct shm_channel *server)
{
    size_t size;
    int status = shm_make_memory(server, &size);
    if (status < 0)
        return status;
    client->memory = server->memory;
    atomic_fetch_add(&client->memory->users, 1);
    status = ring_attach(client->memory->at, client->memory->size, size, RING_CLIENT, &client->view);
    if (status < 0)
        return status;
    shm_set_state(server, SHM_RINGS);
    shm_set_state(client, SHM_RINGS);
    atomic_store(&client->base.transport, "local");
    atomic_store(&server->base.transport, "local");
    return 0;
}

int rpc_channel_pair(rpc_channel *out[2], char *error)
{
    int fds[2];
    struct shm_channel *client = NULL, *server = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0 || fd_keep_pair(fds) != 0)
        return rpc_explain(error, -errno, "a connection inside the process: %s", strerror(errno));
    int status = make_end(fds[0], RING_CLIENT, &client, error);
    if (status < 0)
        close(fds[1]);
    else
        status = make_end(fds[1], RING_SERVER, &server, error);
    if (status == 0)
        status = join(client, server);
    if (status == 0) {
        out[0] = &client->base;
        out[1] = &server->base;
        return 0;
    }
    if (client)
        rpc_channel_destroy(&client->base);
    if (server)
        rpc_channel_destroy(&server->base);
    return rpc_explain(error, status, "a connection inside the process: %s", strerror(-status));
}
