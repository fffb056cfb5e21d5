/*
 * channel.h: what a transport provides. A channel carries a stream of bytes each way. All operations but
 * destroy may be called by any thread at any time; send and receive never block. One thread at a time sends,
 * one receives, one polls with `wakeable`; several may poll otherwise.
 */
#ifndef FLYT_RPC_CHANNEL_H
#define FLYT_RPC_CHANNEL_H

#include "cpu/rpc/transport/block.h"
#include "cpu/rpc/rpc.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Beside POLLIN and POLLOUT in what poll gives: rpc_channel_wake was called. */
enum { RPC_CHANNEL_WOKEN = 0x10000 };

struct rpc_channel_operations {
    /* Bytes taken (more than 0), or -EAGAIN, or another -errno when the channel is dead. */
    ssize_t (*send)(rpc_channel *, const struct iovec *, int count);
    /* Bytes added to the inbox, 0 at the end of the stream, -EAGAIN, or another -errno. */
    ssize_t (*receive)(rpc_channel *, struct rpc_inbox *);
    /* Receives into the caller's memory; NULL: not over this kind (lanes are not made of it). */
    ssize_t (*receive_into)(rpc_channel *, const struct iovec *, int count);
    /* What becomes readable or writable with it, for a poll over several; -1: nothing. NULL: likewise. */
    int     (*descriptor)(const rpc_channel *);
    /* Waits for POLLIN or POLLOUT, -1: for ever. What came (errors and the end count as what was asked for),
       0 on timeout, or -errno. */
    int     (*poll)(rpc_channel *, int events, int timeout_ms, bool wakeable);
    /* Only where asking is no system call (`direct`). Asks so often whether receive would give anything, or the end. */
    bool    (*look)(rpc_channel *, unsigned looks);
    /* Only where asking is no system call. Shows the peer where we wait, and gives where the peer waited last:
     * processors of one kernel, 0: not known. */
    unsigned (*place)(rpc_channel *, unsigned here);
    /* Is the peer still there, as far as the system knows? Reads nothing, waits for nothing. 0; -ECONNRESET: it has
       ended, though what it sent before may be unread; -ETIMEDOUT: its machine has not answered for rpc_silence_seconds
       (liveness.h); -EHOSTDOWN: not yet for so long that it counts as gone, but it is suspended. */
    int     (*peer)(rpc_channel *);
    void    (*wake)(rpc_channel *);
    void    (*shutdown)(rpc_channel *);
    void    (*destroy)(rpc_channel *);
    void    (*abandon)(rpc_channel *);
    void    (*part)(rpc_channel *);      /* NULL: nothing is to be done */
};

/* Each kind of channel begins with this. */
struct rpc_channel {
    const struct rpc_channel_operations *operations;
    const char *_Atomic                  transport;     /* settled with the first bytes received, at the latest */
    /* sending and asking are no system calls: batches gain nothing */
    atomic_bool                          direct;
};

static inline ssize_t rpc_channel_send(rpc_channel *c, const struct iovec *v, int count)
{
    return c->operations->send(c, v, count);
}
static inline ssize_t rpc_channel_receive(rpc_channel *c, struct rpc_inbox *inbox)
{
    return c->operations->receive(c, inbox);
}
static inline ssize_t rpc_channel_receive_into(rpc_channel *c, const struct iovec *v, int count)
{
    return c->operations->receive_into(c, v, count);
}
static inline int rpc_channel_poll(rpc_channel *c, int events, int timeout_ms, bool wakeable)
{
    return c->operations->poll(c, events, timeout_ms, wakeable);
}
static inline int rpc_channel_peer(rpc_channel *c) { return c->operations->peer(c); }
static inline void rpc_channel_wake(rpc_channel *c) { c->operations->wake(c); }

/* The descriptor of a socket's channel. */
int rpc_channel_socket(const rpc_channel *);

/*
 * Through memory: channel_shm.c. Offer takes over a channel over a unix socket, also when it fails; `required`: without
 * shared memory the connection ends with -EPROTONOSUPPORT.
 */
int rpc_channel_offer(rpc_channel *socket, bool required, rpc_channel **out, char *error);
/* Over memory that both sides have already, as the BAR of a device, beside any stream socket, which is taken over.
   The server lays it out, so it must come first. Nobody may be able to cut it: an access behind its end is a fault.
   The two sides may be on two kernels, as a guest and its host: no futex is used, wake-ups go through the socket. */
int rpc_channel_shared(int socket, int memory, size_t size, bool server, rpc_channel **out, char *error);

/*
 * Receiving with a short spin. A thread that sleeps in poll is woken 10 to 50 us after its bytes came; one that asks
 * again and again has them at once. So the thread that waits asks for a while before it sleeps, as long as that
 * has paid lately: each time in vain, it tries less often. Never on a single processor.
 *
 * Two ends that spin need two processors at the same time.
 *
 * Through memory each says where it waits. Who finds the peer on its own processor sleeps at once, which lets the peer
 * run, and who is woken is put on an idle processor if there is one; where there is none, a server moves away after a
 * few times. Otherwise nobody gives way: who has little to do and sleeps as soon as the peer has been away for SPIN_NS
 * is preferred by the scheduler when it wakes, and both meet again with most of their slices before them. Giving way
 * (sched_yield) costs up to a slice of one's share (Linux 6.18), for each time.
 *
 * Through sockets nobody knows. Between its asks one gives way. If that takes long, somebody else has run here. Perhaps
 * the peer itself: then now and then the thread sleeps, or moves. Perhaps somebody with much to do: then sleeping is
 * better too.
 */
struct rpc_spin {
    bool     on;
    unsigned vain;              /* times in a row */
    unsigned skip;              /* so often it is not tried now */
    unsigned together;          /* memory: so many waits in a row the peer was on this processor */
    unsigned asks;              /* sockets: before giving way; likewise the rest */
    unsigned shared;            /* so often somebody else ran meanwhile, lately */
    unsigned crowded;           /* so often one sleeps instead of giving way */
    bool     moves;             /* the thread is ours to move to another processor: a server's */
};

void    rpc_spin_init(struct rpc_spin *);
ssize_t rpc_channel_receive_spinning(rpc_channel *, struct rpc_inbox *, struct rpc_spin *);

/* Writes "what: why" into error (may be NULL) and gives status back. */
int rpc_explain(char *error, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Sets what a connected socket of ours needs: no delay, buffers, and over TCP what liveness.h says. Failures are of no
   consequence but speed, and are ignored. */
void rpc_socket_tune(int fd);

#endif
