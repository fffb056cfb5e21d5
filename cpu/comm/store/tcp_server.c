/*
 * tcp_server.c: the server of the tcp store: one thread, poll over all its clients. peer.c decides what a client is
 * answered.
 *
 * A connection that has proved nothing has GREET_MS to do so, and there are at most STRANGERS of them: one more takes
 * the place of the oldest. So a peer that connects and says nothing keeps nobody out.
 */
#include "cpu/comm/store/peer.h"

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 1024, STRANGERS = 64, GREET_MS = 5000, READ_SIZE = 16 * 1024 };

struct client {
    int fd;
    uint64_t came; /* clock_now */
    uint8_t *kept; /* what came while it could not be taken yet, or NULL */
    size_t kept_size;
    struct store_peer peer;
};

struct comm_store_server {
    rpc_listener *listener;
    uint8_t key[COMM_KEY_SIZE];
    int stop; /* eventfd */
    pthread_t thread;
    struct comm_values values;
    struct client *clients[CLIENTS];
    unsigned count;
};

static void drop(struct comm_store_server *server, unsigned i)
{
    struct client *client = server->clients[i];
    close(client->fd);
    store_peer_end(&client->peer);
    free(client->kept);
    free(client);
    /* in order of their coming, so that the oldest stranger is the first one */
    server->count--;
    memmove(server->clients + i, server->clients + i + 1, (server->count - i) * sizeof *server->clients);
}

static void make_room(struct comm_store_server *server)
{
    unsigned strangers = 0, oldest = 0;
    for (unsigned i = server->count; i-- > 0;)
        if (!store_peer_known(&server->clients[i]->peer)) {
            strangers++;
            oldest = i;
        }
    if (strangers >= STRANGERS)
        drop(server, oldest);
}

static void take_client(struct comm_store_server *server)
{
    int fd = rpc_listener_accept(server->listener);
    if (fd < 0)
        return;
    make_room(server);
    struct client *client = server->count < CLIENTS ? calloc(1, sizeof *client) : NULL;
    if (!client) {
        close(fd);
        return;
    }
    client->fd = fd;
    client->came = clock_now();
    store_peer_begin(&client->peer);
    server->clients[server->count++] = client;
}

/* 0, or -errno: the connection has ended. */
static int send_out(struct client *client)
{
    struct store_peer *peer = &client->peer;
    while (peer->out) {
        ssize_t sent =
            send(client->fd, peer->out + peer->out_sent, peer->out_size - peer->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
        peer->out_sent += (size_t)sent;
        if (peer->out_sent < peer->out_size)
            continue;
        free(peer->out);
        peer->out = NULL;
    }
    return 0;
}

/* Gives the peer what has come; what it cannot take yet is kept. */
static int feed(struct comm_store_server *server, struct client *client, const uint8_t *bytes, size_t size,
                bool *changed)
{
    while (size > 0) {
        ssize_t taken = store_peer_feed(&client->peer, &server->values, server->key, clock_now(), bytes, size, changed);
        int status = taken < 0 ? (int)taken : send_out(client);
        if (status < 0)
            return status;
        bytes += taken;
        size -= (size_t)taken;
        if (taken == 0)
            break;
    }
    if (size == 0)
        return 0;
    client->kept = malloc(size);
    if (!client->kept)
        return -ENOMEM;
    memcpy(client->kept, bytes, size);
    client->kept_size = size;
    return 0;
}

static int feed_kept(struct comm_store_server *server, struct client *client, bool *changed)
{
    uint8_t *kept = client->kept;
    if (!kept || client->peer.out || client->peer.state == STORE_PEER_WAITING)
        return 0;
    client->kept = NULL;
    int status = feed(server, client, kept, client->kept_size, changed);
    free(kept);
    return status;
}

static int serve_client(struct comm_store_server *server, struct client *client, int events, bool *changed)
{
    uint8_t bytes[READ_SIZE];
    int status = send_out(client);
    if (status == 0)
        status = feed_kept(server, client, changed);
    if (status < 0 || !(events & (POLLIN | POLLHUP | POLLERR)) || client->kept)
        return status < 0 ? status : events & (POLLHUP | POLLERR) ? -ECONNRESET : 0;
    ssize_t got = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    return got == 0 ? -ECONNRESET : feed(server, client, bytes, (size_t)got, changed);
}

/* What a client waits for. The end of its connection is noticed in any case. */
static short events_of(const struct client *client)
{
    return (short)((client->peer.out ? POLLOUT : 0) | (client->kept ? 0 : POLLIN));
}

/* Milliseconds until somebody's time is over, at most a second. */
static int next_look(const struct comm_store_server *server)
{
    uint64_t next = clock_now() + CLOCK_NS_PER_SECOND;
    for (unsigned i = 0; i < server->count; i++)
        if (server->clients[i]->peer.state == STORE_PEER_WAITING && server->clients[i]->peer.until < next)
            next = server->clients[i]->peer.until;
    return clock_poll_timeout(next);
}

static void look_all(struct comm_store_server *server)
{
    uint64_t now = clock_now();
    for (unsigned i = 0; i < server->count;) {
        struct client *client = server->clients[i];
        int status = store_peer_look(&client->peer, &server->values, now);
        if (status == 0)
            status = send_out(client);
        if (!store_peer_known(&client->peer) && now - client->came > GREET_MS * CLOCK_NS_PER_MS)
            status = -ETIMEDOUT;
        if (status < 0)
            drop(server, i);
        else
            i++;
    }
}

static void *serve(void *context)
{
    struct comm_store_server *server = context;
    struct pollfd *fds = calloc(CLIENTS + 2, sizeof *fds);
    while (fds) {
        unsigned count = server->count;
        bool changed = false;
        fds[0] = (struct pollfd){ .fd = server->stop, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = rpc_listener_fd(server->listener), .events = POLLIN };
        for (unsigned i = 0; i < count; i++)
            fds[i + 2] = (struct pollfd){ .fd = server->clients[i]->fd, .events = events_of(server->clients[i]) };
        if (poll(fds, count + 2, next_look(server)) < 0 && errno != EINTR)
            break;
        if (fds[0].revents)
            break;
        for (unsigned i = count; i-- > 0;) /* from the last: who goes does not move those that follow */
            if (fds[i + 2].revents && serve_client(server, server->clients[i], fds[i + 2].revents, &changed) < 0)
                drop(server, i);
        look_all(server);
        if (fds[1].revents)
            take_client(server);
    }
    free(fds);
    return NULL;
}

int comm_store_serve(const char *uri, const uint8_t key[COMM_KEY_SIZE], struct comm_store_server **out, char *error)
{
    struct comm_store_server *server = calloc(1, sizeof *server);
    if (!server)
        return rpc_explain(error, -ENOMEM, "store: no memory");
    memcpy(server->key, key, COMM_KEY_SIZE);
    int status = rpc_listener_open(uri, &server->listener, error);
    if (status < 0) {
        free(server);
        return status;
    }
    server->stop = fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    status = server->stop < 0 ? -errno : -pthread_create(&server->thread, NULL, serve, server);
    if (status < 0) {
        if (server->stop >= 0)
            close(server->stop);
        rpc_listener_close(server->listener);
        free(server);
        return rpc_explain(error, status, "store: serving on %s: %s", uri, strerror(-status));
    }
    *out = server;
    return 0;
}

const char *comm_store_server_uri(const struct comm_store_server *server) { return rpc_listener_uri(server->listener); }

void comm_store_server_stop(struct comm_store_server *server)
{
    if (!server)
        return;
    ssize_t ignored = write(server->stop, &(uint64_t){ 1 }, sizeof(uint64_t));
    (void)ignored;
    pthread_join(server->thread, NULL);
    while (server->count > 0)
        drop(server, server->count - 1);
    comm_values_clear(&server->values);
    rpc_listener_close(server->listener);
    close(server->stop);
    free(server);
}
