/*
 * channel_shm.c: a channel through memory that two processes share, beside a unix socket that brought them together
 * (shm_offer.c and shm_bar.c say how).
 *
 * Layout (ring.h has the structures; all places are offsets, so each side maps it wherever it likes)
 *
 *   0       header: magic, version, total size, the places of all that follows
 *   512     commands (client to server): tail, head      each on a line of its own (128 bytes),
 *   768     replies  (server to client): tail, head      written by one side only; beside the tail see "Near" below
 *   1024    client sleeps; 1152 server sleeps            set by the sleeper, taken by the side that wakes it;
 *                                                        beside it, where it waited
 *   4096    bytes of the command ring, then of the reply ring
 *   …       completed numbers of streams (8 bytes each, by stream id), written by the server, read by the client
 *   …       payload area: host memory that both sides may read and write, where the server gives any
 *
 * A ring is a stream of bytes with record marking (block.h), as on a socket: all above stays as it is. tail and head
 * count bytes since the beginning; the byte at position p stands at p modulo the ring's size. This file maps all but
 * the payload area, and keeps the descriptor, so that the users of the channel can map that where they need it
 * (rpc_channel_shared_memory).
 *
 * Near. A short message that crosses to a reader who waits for it costs the way of the cache lines it stands on. So
 * where the reader has read all before it, up to RING_NEAR bytes stand in the tail's own line instead of the ring (the
 * positions count them all the same): who waits for the tail has them with it. The reader says how far it has come
 * (`beside`) in the line of its own tail, with each write of its own: so a conversation of calls and answers is near,
 * and of a burst the first. What stands there is written over only when all of it has been read; so it is always the
 * first of what is unread, if it is unread.
 *
 * Waiting. Who finds nothing to do asks again and again for a moment (rpc_channel_receive_spinning), then sets a bit in
 * its side's sleep word, looks at the ring once more, and sleeps; who moves a position then looks at the other's
 * sleep word (who moves a head, once in each sixteenth of the ring: a writer sleeps until a quarter is free, and before
 * all is read such a place comes at which it is). All four are seq_cst, so in their one order either the sleeper's
 * second look sees the move, or the mover sees the bit: no wake-up is lost. The mover takes all bits (exchange) and
 * wakes whom they name:
 *   FUTEX   threads that wait for something in flight. They wake up by themselves every FUTEX_MS, to see whether the
 *           peer has gone. Where the two sides may be on two kernels (rpc_channel_shared), which no futex joins, they
 *           look again after sleeping 2 us to 1 ms instead.
 *   SOCKET  the one thread of a side that may sleep for hours (the client's attender, the server's reader): it polls
 *           the socket, on which the mover sends a byte. It sees the peer's end in the same poll.
 * While the peer is awake its word is 0, and sending is a copy without any system call.
 *
 * The peer's death ends the socket. What it had written before is still read, then the stream ends.
 */
#include "cpu/rpc/shm/shm.h"

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/rpc/transport/liveness.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FUTEX_MS = 20, SLEEP_LEAST_NS = 2000, SLEEP_MOST_NS = 1000000 };

static struct shm_channel *of(rpc_channel *channel)
{
    return (struct shm_channel *)channel;
}

static int settle_slowly(struct shm_channel *s)
{
    int state = shm_state(s);
    if (state == SHM_ASKING) {
        pthread_mutex_lock(&s->lock);
        state = shm_state(s);
        int status = state != SHM_ASKING ? 0 : shm_hear(s);
        pthread_mutex_unlock(&s->lock);
        if (status < 0)
            return status;
        state = shm_state(s);
    }
    return state == SHM_BROKEN ? atomic_load(&s->failure) : state;
}

/* The state, once decided; -EAGAIN; or another -errno. */
static inline int settle(struct shm_channel *s)
{
    int state = shm_state(s);
    return state == SHM_RINGS || state == SHM_PLAIN ? state : settle_slowly(s);
}

/* ---- waking ---- */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static void send_wake_up(struct shm_channel *s)
{
    CANCEL_OFF;
    /* If the socket is full, the other side has unread wake-ups. If it is dead, the thread that polls will notice. */
    ssize_t ignored = send(s->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}

/* After a position was moved: wakes the other side's sleepers, if it has any for whom this counts. */
static void wake_peer(struct shm_channel *s, uint32_t whom)
{
    /* seq_cst: after the store of the position (see the head of this file) */
    if (!(atomic_load_explicit(&s->view.theirs->word, memory_order_seq_cst) & whom))
        return;
    /* Taken, so that each sleep costs one wake-up at most, whatever the other side writes there. Orders as above. */
    uint32_t bits = atomic_exchange_explicit(&s->view.theirs->word, 0, memory_order_seq_cst);
    if (bits & (RING_FUTEX_IN | RING_FUTEX_OUT))
        futex(&s->view.theirs->word, FUTEX_WAKE, INT_MAX, NULL);
    if (bits & RING_SOCKET_IN)
        send_wake_up(s);
}

static void written(void *context)
{
    wake_peer(context, RING_FUTEX_IN | RING_SOCKET_IN);
}

static void room_came(void *context)
{
    wake_peer(context, RING_FUTEX_OUT);
}

/* ---- send, receive ---- */

static ssize_t shm_send(rpc_channel *channel, const struct iovec *vector, int count)
{
    struct shm_channel *s = of(channel);
    int state = settle(s);
    if (state < 0)
        return state;
    if (state == SHM_PLAIN)
        return rpc_channel_send(s->socket, vector, count);
    if (atomic_load_explicit(&s->ended, memory_order_relaxed))
        return -EPIPE;
    if (s->apart && !shm_is_own(s))
        return -ESTALE;
    ssize_t sent = ring_write(&s->view, vector, count, written, s);
    return sent == 0 ? -EAGAIN : sent;
}

/* The first bytes that turned out to be no offer. */
static ssize_t give_early(struct shm_channel *s, struct rpc_inbox *inbox)
{
    size_t room, left = s->early_size - s->early_given;
    uint8_t *into = rpc_inbox_room(inbox, &room);
    if (!into)
        return -ENOMEM;
    left = left < room ? left : room;
    memcpy(into, s->early + s->early_given, left);
    s->early_given += left;
    rpc_inbox_received(inbox, left);
    return (ssize_t)left;
}

static ssize_t shm_receive(rpc_channel *channel, struct rpc_inbox *inbox)
{
    struct shm_channel *s = of(channel);
    int state = settle(s);
    if (state < 0)
        return state;
    if (state == SHM_PLAIN) {
        if (s->side == RING_SERVER && s->early_given < s->early_size)
            return give_early(s, inbox);
        return rpc_channel_receive(s->socket, inbox);
    }
    if (atomic_load_explicit(&s->shut, memory_order_relaxed))
        return 0;
    if (s->apart && !shm_is_own(s))
        return -ESTALE;
    /* acquire, and before the ring is read: what the peer wrote before its end is not overlooked */
    bool ended = atomic_load_explicit(&s->ended, memory_order_acquire);
    if (s->view.in.tail_seen == atomic_load_explicit(&s->view.in.head, memory_order_relaxed) &&
        !ring_readable(&s->view))
        return ended ? 0 : -EAGAIN;
    size_t room;
    uint8_t *into = rpc_inbox_room(inbox, &room);
    if (!into)
        return -ENOMEM;
    ssize_t got = ring_read(&s->view, into, room, room_came, s);
    if (got > 0)
        rpc_inbox_received(inbox, (size_t)got);
    return got == 0 ? -EAGAIN : got;
}

/* ---- waiting ---- */

static int ready(struct shm_channel *s, int events)
{
    int result = 0;
    if (atomic_load_explicit(&s->ended, memory_order_acquire) || (s->apart && !shm_is_own(s)))
        return events;
    if ((events & POLLIN) && ring_readable(&s->view))
        result |= POLLIN;
    if ((events & POLLOUT) && ring_writable(&s->view))
        result |= POLLOUT;
    return result;
}

/* Is the peer still there? Unread wake-ups do not hide its end from this. */
static void check_peer(struct shm_channel *s)
{
    CANCEL_OFF;
    struct pollfd poller = { .fd = s->fd, .events = POLLRDHUP };
    if (poll(&poller, 1, 0) > 0 && poller.revents)
        atomic_store_explicit(&s->ended, true, memory_order_release);
}

static void take_bells(struct shm_channel *s)
{
    CANCEL_OFF;
    char unread[64];
    ssize_t got = recv(s->fd, unread, sizeof unread, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        atomic_store_explicit(&s->ended, true, memory_order_release);
}

/* Sets the bits of a thread that is about to sleep. */
static void arm(struct shm_channel *s, uint32_t bits)
{
    pthread_mutex_lock(&s->lock);
    s->sleepers_in += (bits & RING_FUTEX_IN) != 0;
    s->sleepers_out += (bits & RING_FUTEX_OUT) != 0;
    /* seq_cst: before the second look at the ring (see the head of this file) */
    atomic_fetch_or_explicit(&s->view.mine->word, bits, memory_order_seq_cst);
    pthread_mutex_unlock(&s->lock);
}

/* Takes away bits that no thread of ours needs any more, so that the peer need not wake anybody. Relaxed: a wake-up
   too many does no harm, and under the lock no other sleeper's bit can be lost. */
static void disarm(struct shm_channel *s, uint32_t bits)
{
    pthread_mutex_lock(&s->lock);
    if ((bits & RING_FUTEX_IN) && --s->sleepers_in > 0)
        bits &= ~(uint32_t)RING_FUTEX_IN;
    if ((bits & RING_FUTEX_OUT) && --s->sleepers_out > 0)
        bits &= ~(uint32_t)RING_FUTEX_OUT;
    if (atomic_load_explicit(&s->view.mine->word, memory_order_relaxed) & bits)
        atomic_fetch_and_explicit(&s->view.mine->word, ~bits, memory_order_relaxed);
    pthread_mutex_unlock(&s->lock);
}

/* Until when, as a number of milliseconds: at most `most`, -1: for ever. */
static int shorter(int timeout_ms, int most)
{
    return timeout_ms < 0 || timeout_ms > most ? most : timeout_ms;
}

/* Waits where no futex reaches: looks again and again, more and more rarely. */
static void sleep_in_naps(struct shm_channel *s, int events, int timeout_ms)
{
    CANCEL_OFF;
    uint64_t until = clock_now() + (uint64_t)shorter(timeout_ms, FUTEX_MS) * CLOCK_NS_PER_MS, nap = SLEEP_LEAST_NS;
    while (!ready(s, events) && !atomic_load_explicit(&s->shut, memory_order_relaxed)) {
        if (clock_now() >= until) {
            check_peer(s);
            return;
        }
        struct timespec pause = { 0, (long)nap };
        nanosleep(&pause, NULL);
        nap = nap < SLEEP_MOST_NS / 2 ? 2 * nap : SLEEP_MOST_NS;
    }
}

/* One sleep in the futex, at most FUTEX_MS long. */
static void sleep_in_futex(struct shm_channel *s, int events, int timeout_ms)
{
    if (s->apart) {
        sleep_in_naps(s, events, timeout_ms);
        return;
    }
    uint32_t bits = (events & POLLIN ? RING_FUTEX_IN : 0u) | (events & POLLOUT ? RING_FUTEX_OUT : 0u);
    arm(s, bits);
    check_peer(s);                          /* who ends it from here on sees the bits */
    /* The value to sleep on; whoever takes the bits changes it. */
    uint32_t word = atomic_load_explicit(&s->view.mine->word, memory_order_seq_cst);
    if ((word & bits) == bits && !ready(s, events)) {
        int ms = shorter(timeout_ms, FUTEX_MS);
        struct timespec limit = { ms / 1000, (ms % 1000) * 1000000L };
        futex(&s->view.mine->word, FUTEX_WAIT, word, &limit);
    }
    disarm(s, bits);
}

/* One sleep in poll, as long as it takes. Only the one thread that may. What came beside bytes: RPC_CHANNEL_WOKEN or 0;
   -errno. */
static int sleep_in_poll(struct shm_channel *s, int events, int timeout_ms, bool wakeable)
{
    int result = 0;
    arm(s, RING_SOCKET_IN);
    if (!ready(s, events)) {
        result = rpc_channel_poll(s->socket, POLLIN, timeout_ms, wakeable);
        if (result > 0 && (result & POLLIN))
            take_bells(s);
    }
    disarm(s, RING_SOCKET_IN);
    return result > 0 ? result & RPC_CHANNEL_WOKEN : result;
}

static int poll_rings(struct shm_channel *s, int events, int timeout_ms, bool wakeable)
{
    uint64_t deadline = timeout_ms > 0 ? clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS : 0;
    bool watcher = wakeable, may_watch = s->side == RING_SERVER && events == POLLIN;
    if (timeout_ms == 0) {
        int woken = wakeable ? rpc_channel_poll(s->socket, 0, 0, true) : 0;
        check_peer(s);
        return ready(s, events) | (woken > 0 ? woken & RPC_CHANNEL_WOKEN : 0);
    }
    for (;;) {
        int result = ready(s, events);
        if (result)
            return result;
        if (timeout_ms > 0 && (timeout_ms = clock_poll_timeout(deadline)) == 0)
            return 0;
        if (watcher) {
            result = sleep_in_poll(s, events, timeout_ms, wakeable);
            if (result)
                return result < 0 ? result : result | ready(s, events);
        } else {
            sleep_in_futex(s, events, timeout_ms);
            watcher = may_watch;            /* nothing for a while: the kind of sleep that costs nothing */
        }
    }
}

static int shm_poll(rpc_channel *channel, int events, int timeout_ms, bool wakeable)
{
    struct shm_channel *s = of(channel);
    int state = settle(s);
    if (state == SHM_PLAIN && s->side == RING_SERVER && s->early_given < s->early_size && (events & POLLIN))
        return POLLIN;
    if (state == SHM_PLAIN)
        return rpc_channel_poll(s->socket, events, timeout_ms, wakeable);
    if (state == SHM_RINGS)
        return poll_rings(s, events, timeout_ms, wakeable);
    if (state != -EAGAIN)
        return events;                      /* send or receive will say what it is */
    /* Asking: whatever is waited for, it begins with what the peer says. The caller tries, and comes again. */
    int result = rpc_channel_poll(s->socket, POLLIN, timeout_ms, wakeable);
    return result > 0 && (result & POLLIN) ? (result & ~POLLIN) | events : result;
}

/* ---- the rest ---- */

/* The client's machine says nothing about itself in the memory. A byte in the socket now and then makes its kernel
   answer: with an acknowledgement, or, if it was booted anew, by resetting the connection. */
static int guest_peer(struct shm_channel *s)
{
    uint64_t now = clock_now();
    int status = rpc_channel_peer(s->socket);
    if (now - s->rang >= rpc_beat_interval()) {
        s->rang = now;
        send_wake_up(s);
    }
    if (status != -ETIMEDOUT)
        return status;
    if (rpc_network_silent_for(s->fd, rpc_reclaim_seconds()))
        return -ETIMEDOUT;
    return rpc_network_silent_for(s->fd, rpc_suspend_seconds()) ? -EHOSTDOWN : 0;
}

static int shm_peer(rpc_channel *channel)
{
    struct shm_channel *s = of(channel);
    if (s->apart && s->side == RING_SERVER && shm_state(s) == SHM_RINGS)
        return guest_peer(s);
    return rpc_channel_peer(s->socket);
}

static void shm_wake(rpc_channel *channel)
{
    rpc_channel_wake(of(channel)->socket);
}

static void shm_shutdown(rpc_channel *channel)
{
    struct shm_channel *s = of(channel);
    atomic_store(&s->shut, true);
    atomic_store(&s->ended, true);
    rpc_channel_shutdown(s->socket);        /* the peer sees it, and who polls here */
    if (shm_state(s) == SHM_RINGS) {
        /* the peer's threads in the futex need not sleep on until they look for us */
        wake_peer(s, RING_FUTEX_IN | RING_FUTEX_OUT);
        /* Threads of ours in the futex. The word must change, or one that is about to sleep would. */
        atomic_exchange(&s->view.mine->word, 0);
        futex(&s->view.mine->word, FUTEX_WAKE, INT_MAX, NULL);
    }
}

static void shm_abandon(rpc_channel *channel)
{
    struct shm_channel *s = of(channel);
    rpc_channel_abandon(s->socket);
    shm_memory_release(s->memory);          /* the parent's session is none of the child's */
    if (s->memory_fd >= 0)
        close(s->memory_fd);
    if (s->kept_fd >= 0)
        close(s->kept_fd);
}

static void shm_part(rpc_channel *channel) { rpc_channel_part(of(channel)->socket); }

static void shm_destroy(rpc_channel *channel)
{
    struct shm_channel *s = of(channel);
    shm_memory_release(s->memory);
    if (s->memory_fd >= 0)
        close(s->memory_fd);
    if (s->kept_fd >= 0)
        close(s->kept_fd);
    rpc_channel_destroy(s->socket);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Only where `direct` is set: the rings are there. The peer's end is not seen here, but before one sleeps. */
static bool shm_look(rpc_channel *channel, unsigned looks)
{
    return ring_look(&of(channel)->view, looks);
}

static unsigned shm_place(rpc_channel *channel, unsigned here)
{
    struct shm_channel *s = of(channel);
    if (s->apart)
        return 0;                           /* the other kernel counts its own processors */
    /* relaxed, both: nothing is concluded but whether looking is worth while */
    if (s->place != here)
        atomic_store_explicit(&s->view.mine->place, s->place = here, memory_order_relaxed);
    return atomic_load_explicit(&s->view.theirs->place, memory_order_relaxed);
}

void shm_own(struct shm_channel *s)
{
    memcpy(&s->session, (const uint8_t *)s->memory->at + SHM_SESSION_AT, sizeof s->session);
}

static const struct rpc_channel_operations shm_operations = {
    .send = shm_send,
    .receive = shm_receive,
    .poll = shm_poll,
    .look = shm_look,
    .place = shm_place,
    .peer = shm_peer,
    .wake = shm_wake,
    .shutdown = shm_shutdown,
    .destroy = shm_destroy,
    .abandon = shm_abandon,
    .part = shm_part,
};

struct shm_channel *shm_create(rpc_channel *socket, enum ring_side side)
{
    struct shm_channel *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->base.operations = &shm_operations;
    atomic_init(&s->base.transport, rpc_channel_transport(socket));
    atomic_init(&s->base.direct, false);
    atomic_init(&s->state, SHM_ASKING);
    s->socket = socket;
    s->fd = rpc_channel_socket(socket);
    s->side = side;
    s->memory_fd = s->kept_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

/* kept: memory of an earlier channel, or NULL. */
static int offer(rpc_channel *socket, bool required, const struct rpc_shared_memory *kept, rpc_channel **out,
                 char *error)
{
    struct shm_channel *s = shm_create(socket, RING_CLIENT);
    struct stat is;
    if (!s) {
        rpc_channel_destroy(socket);
        return rpc_explain(error, -ENOMEM, "no memory for a connection");
    }
    s->required = required;
    if (kept && kept->fd >= 0 && kept->payload == ring_memory_size(0) && fstat(kept->fd, &is) == 0) {
        s->kept_fd = fcntl(kept->fd, F_DUPFD_CLOEXEC, FD_FIRST);
        s->kept_size = (uint64_t)is.st_size - kept->payload;
    }
    int status = shm_offer(s);
    if (status < 0) {
        shm_destroy(&s->base);
        return rpc_explain(error, status, "offering shared memory to the server: %s", strerror(-status));
    }
    *out = &s->base;
    return 0;
}

int rpc_channel_offer(rpc_channel *socket, bool required, rpc_channel **out, char *error)
{
    return offer(socket, required, NULL, out, error);
}

int rpc_channel_share(rpc_channel **channel, const struct rpc_shared_memory *kept, char *error)
{
    if (strcmp(rpc_channel_transport(*channel), "unix") != 0 || (*channel)->operations == &shm_operations)
        return 0;
    return offer(*channel, false, kept, channel, error);
}

int rpc_channel_accept(int fd, size_t payload, rpc_channel **out, char *error)
{
    rpc_channel *socket;
    int status = rpc_channel_from_fd(fd, &socket, error);
    if (status < 0)
        return status;
    bool local = strcmp(rpc_channel_transport(socket), "unix") == 0;
    struct shm_channel *s = local ? shm_create(socket, RING_SERVER) : NULL;
    if (s)
        s->payload = payload & ~((size_t)RING_HEAD - 1);
    *out = s ? &s->base : socket;
    return 0;
}

int rpc_channel_shared(int fd, int memory_fd, size_t size, bool server, rpc_channel **out, char *error)
{
    rpc_channel *socket;
    int status = rpc_channel_from_fd(fd, &socket, error);
    if (status < 0)
        return status;
    struct shm_channel *s = shm_create(socket, server ? RING_SERVER : RING_CLIENT);
    if (!s) {
        rpc_channel_destroy(socket);
        return rpc_explain(error, -ENOMEM, "no memory for a connection");
    }
    s->apart = true;
    s->memory_fd = fcntl(memory_fd, F_DUPFD_CLOEXEC, FD_FIRST);
    status = s->memory_fd < 0 ? -errno : shm_use_memory(s, size);
    if (status < 0) {
        shm_destroy(&s->base);
        return rpc_explain(error, status, "%zu bytes of shared memory cannot be used: %s", size, strerror(-status));
    }
    shm_own(s);
    shm_set_state(s, SHM_RINGS);
    *out = &s->base;
    return 0;
}

bool rpc_channel_shared_memory(rpc_channel *channel, struct rpc_shared_memory *out)
{
    struct shm_channel *s = of(channel);
    *out = (struct rpc_shared_memory){ .fd = -1 };
    if (channel->operations != &shm_operations || shm_state(s) != SHM_RINGS)
        return false;
    *out = (struct rpc_shared_memory){ .numbers = s->view.numbers,
                                       .number_count = s->view.number_count,
                                       .fd = s->memory_fd,
                                       .payload = s->memory_at + s->view.payload,
                                       .payload_size = s->view.payload_size };
    if (s->kept) {
        out->fd = s->kept_fd;
        out->payload = ring_memory_size(0);
        out->payload_size = s->kept_size;
        out->kept = true;
    }
    return true;
}
