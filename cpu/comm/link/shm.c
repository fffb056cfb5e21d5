/*
 * shm.c: see shm.h.
 *
 * A thread that finds nothing to read, or no room, sets a bit in its side's sleep word, and then looks at the ring
 * once more. A thread that has moved a position then looks at the other side's word, takes all its bits and sends a
 * byte. All four are seq_cst, so in their one order either the sleeper's second look sees the move, or the mover sees
 * the bit: no wake-up is lost. A side that is woken reads and writes, whatever it was woken for.
 */
#include "cpu/comm/link/shm.h"

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/common/fd_message.h"
#include "cpu/rpc/shm/ring.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLEEPS_IN = RING_SOCKET_IN, SLEEPS_OUT = 8 };
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct ring_channel {
    rpc_channel      base;
    rpc_channel     *socket;
    int              fd;                /* the socket's */
    void            *memory;
    size_t           size;
    struct ring_view view;
    atomic_bool      ended;             /* the peer's end of the socket is closed */
};

static struct ring_channel *of(rpc_channel *channel)
{
    return (struct ring_channel *)channel;
}

static void moved(void *context)
{
    struct ring_channel *r = context;
    /* seq_cst: after the store of the position (see the head of this file) */
    if (atomic_load_explicit(&r->view.theirs->word, memory_order_seq_cst) == 0)
        return;
    if (atomic_exchange_explicit(&r->view.theirs->word, 0, memory_order_seq_cst) == 0)
        return;
    /* If the socket is full, the peer has unread wake-ups. */
    ssize_t ignored = send(r->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}

static void sleep_for(struct ring_channel *r, uint32_t bit)
{
    atomic_fetch_or_explicit(&r->view.mine->word, bit, memory_order_seq_cst);
}

static ssize_t ring_send(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct ring_channel *r = of(channel);
    if (atomic_load_explicit(&r->ended, memory_order_relaxed))
        return -EPIPE;
    ssize_t sent = ring_write(&r->view, vector, count, moved, r);
    if (sent != 0)
        return sent;
    sleep_for(r, SLEEPS_OUT);
    if (!ring_writable(&r->view))
        return -EAGAIN;
    sent = ring_write(&r->view, vector, count, moved, r);
    return sent != 0 ? sent : -EAGAIN;
}

static ssize_t read_all(struct ring_channel *r, const struct iovec *vector, int count)
{
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t got = ring_read(&r->view, vector[i].iov_base, vector[i].iov_len, moved, r);
        if (got < 0)
            return got;
        total += got;
        if ((size_t)got < vector[i].iov_len)
            break;
    }
    return total;
}

/* Takes the wake-ups that have come, and notices the peer's end. */
static void drain(struct ring_channel *r)
{
    char bytes[64];
    ssize_t got;
    do
        got = recv(r->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    while (got == (ssize_t)sizeof bytes || (got < 0 && errno == EINTR));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
        atomic_store_explicit(&r->ended, true, memory_order_relaxed);
}

static ssize_t ring_receive_into(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct ring_channel *r = of(channel);
    ssize_t got = read_all(r, vector, count);
    if (got != 0)
        return got;
    drain(r);                           /* before the last look: what was written before the end is read */
    sleep_for(r, SLEEPS_IN);
    if (ring_readable(&r->view) && (got = read_all(r, vector, count)) != 0)
        return got;
    return atomic_load_explicit(&r->ended, memory_order_relaxed) ? 0 : -EAGAIN;
}

static int ring_descriptor(const rpc_channel *channel)
{
    return ((const struct ring_channel *)channel)->fd;
}

static int ring_peer(rpc_channel *channel)
{
    return rpc_channel_peer(of(channel)->socket);
}

static void ring_shutdown(rpc_channel *channel)
{
    rpc_channel_shutdown(of(channel)->socket);
}

static void unmap(struct ring_channel *r)
{
    if (r->memory != MAP_FAILED)
        munmap(r->memory, r->size);
    free(r);
}

static void ring_destroy(rpc_channel *channel)
{
    rpc_channel_destroy(of(channel)->socket);
    unmap(of(channel));
}

static void ring_abandon(rpc_channel *channel)
{
    rpc_channel_abandon(of(channel)->socket);
}

/* Links use epoll on the descriptor and never poll, wake or receive into an inbox: those operations are not there. */
static const struct rpc_channel_operations ring_operations = {
    .send = ring_send,
    .receive_into = ring_receive_into,
    .descriptor = ring_descriptor,
    .peer = ring_peer,
    .shutdown = ring_shutdown,
    .destroy = ring_destroy,
    .abandon = ring_abandon,
};

/* memory stays the caller's. */
static struct ring_channel *create(rpc_channel *socket, int memory, enum ring_side side, int *status)
{
    struct ring_channel *r = calloc(1, sizeof *r);
    *status = -ENOMEM;
    if (!r)
        return NULL;
    r->base.operations = &ring_operations;
    atomic_init(&r->base.transport, "shm");
    atomic_init(&r->base.direct, true);
    r->socket = socket;
    r->fd = rpc_channel_socket(socket);
    r->size = ring_memory_size(0);
    r->memory = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    *status = r->memory == MAP_FAILED ? -errno : 0;
    if (*status == 0 && side == RING_SERVER)
        ring_format(r->memory, 0);
    if (*status == 0)
        *status = ring_attach(r->memory, r->size, r->size, side, &r->view);
    if (*status == 0)
        return r;
    unmap(r);
    return NULL;
}

int comm_shm_make(rpc_channel *socket, rpc_channel **out)
{
    int status, memory = fd_keep(memfd_create("flyt-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (memory < 0)
        return -errno;
    if (ftruncate(memory, (off_t)ring_memory_size(0)) != 0 || fcntl(memory, F_ADD_SEALS, SEALS) != 0) {
        status = -errno;
        close(memory);
        return status;
    }
    struct ring_channel *r = create(socket, memory, RING_SERVER, &status);
    if (r)
        status = fd_message_send(r->fd, "", 1, &memory, 1);
    close(memory);
    if (r && status < 0)
        unmap(r);
    if (status == 0)
        *out = &r->base;
    return status;
}

/* The memory may be of no other size, or an access behind its end would be a fault. */
static bool is_sealed(int memory)
{
    struct stat there;
    int seals = fcntl(memory, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(memory, &there) == 0 &&
           there.st_size == (off_t)ring_memory_size(0);
}

int comm_shm_join(rpc_channel *socket, uint64_t deadline, rpc_channel **out)
{
    char byte;
    int fds[FD_MESSAGE_MOST], status = 0;
    unsigned count = 0;
    ssize_t got;
    while ((got = fd_message_receive(rpc_channel_socket(socket), &byte, 1, MSG_DONTWAIT, fds, &count)) == -EAGAIN) {
        int ready = rpc_channel_poll(socket, POLLIN, clock_poll_timeout(deadline), false);
        if (ready <= 0)
            return ready < 0 ? ready : -ETIMEDOUT;
    }
    if (got <= 0)
        return got < 0 ? (int)got : -ECONNRESET;
    struct ring_channel *r = NULL;
    if (count == 1 && is_sealed(fds[0]))
        r = create(socket, fds[0], RING_CLIENT, &status);
    else
        status = -EPROTO;
    fd_message_close(fds, count);
    if (status == 0)
        *out = &r->base;
    return status;
}
