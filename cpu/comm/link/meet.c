/*
 * meet.c: how the two ends of a channel come together: listening sockets of each card, and one without a file for
 * processes of this machine; accepting, connecting, TLS, greeting.
 *
 * One thread accepts. Each connection then has a thread of its own for its greeting, which has GREET_MS; GREETINGS of
 * them at once. A peer that says nothing ends with its time, and holds up nobody else before all places are taken. A
 * relayed engine has no such thread: others accept for it, and when all places are taken the oldest greeting gives way.
 *
 * What a caller says it comes for (`about`, greet.h): link of the listener (8), channel (1), channels (1), flags (1),
 * 0 (5), link of the caller (8). Channels by UCX are greeted on a socket, too; when both ends have proved the key, they
 * exchange UCX's addresses on it.
 */
#include "cpu/comm/link/link_state.h"
#include "cpu/comm/link/shm.h"

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { GREET_MS = 5000, UCX_MS = 10000, GREETINGS = 64, BACKLOG = 128, UNSENT = 128 * 1024 };
#define LINK_MAGIC "FlytLink"
enum { ABOUT_SHARED = 1, ABOUT_UCX = 2 };

struct meet_greeting {
    struct comm_engine *engine;
    int                 fd;
    bool                is_unix;
    int                 kept;           /* another descriptor of it, to end it with; -1: the place is free */
    uint64_t            turn;           /* the lower, the older; UINT64_MAX: it gives way already */
};

struct comm_meeting {
    int             listeners[COMM_NICS_MOST + 1];      /* the last one: unix */
    uint16_t        ports[COMM_NICS_MOST];
    unsigned        count;
    int             stop;
    pthread_t       thread;
    bool            runs;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    unsigned        greeting;
    uint64_t        turns;              /* greetings so far */
    bool            over;
    struct meet_greeting greetings[GREETINGS];
};

/* ---- addresses ---- */

static socklen_t to_socket_address(const struct comm_address *address, struct sockaddr_storage *out)
{
    if (address->family != 1)
        return comm_nic_socket_address(address, out);
    memset(out, 0, sizeof *out);
    struct sockaddr_un *un = (struct sockaddr_un *)out;
    un->sun_family = AF_UNIX;
    char *at = un->sun_path + 1 + sprintf(un->sun_path + 1, "flyt-comm-");
    for (int i = 0; i < COMM_ID_SIZE; i++)
        at += sprintf(at, "%02x", address->bytes[i]);
    return (socklen_t)(at - (char *)un);
}

/* ---- greeting, of a connection that was accepted ---- */

static struct comm_link *find_link(struct comm_engine *engine, const uint8_t id[COMM_ID_SIZE])
{
    for (struct list *one = list_first(&engine->links); one; one = list_next(&engine->links, one)) {
        struct comm_link *link = LIST_OBJECT(one, struct comm_link, of_engine);
        if (memcmp(link->id, id, COMM_ID_SIZE) == 0)
            return link;
    }
    return NULL;
}

/* Where no such channel waits the key is random, and nobody passes with it. 0 or -errno. */
static int key_of(struct comm_engine *engine, const uint8_t *about, uint8_t key[COMM_KEY_SIZE])
{
    int status = comm_random(key, COMM_KEY_SIZE);
    pthread_mutex_lock(&engine->lock);
    struct comm_link *link = find_link(engine, about);
    if (link) {
        pthread_mutex_lock(&link->lock);
        unsigned channel = about[COMM_ID_SIZE];
        if (link->stage == LINK_LISTENS && link->status == 0 && channel < link->listened &&
            !link->channels[channel].wire)
            memcpy(key, link->keys[channel], COMM_KEY_SIZE);
        pthread_mutex_unlock(&link->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return status;
}

/* The channel belongs to the link from here on, if that still waits for it. */
static void hand_over(struct comm_engine *engine, const uint8_t *about, rpc_channel *wire)
{
    pthread_mutex_lock(&engine->lock);
    struct comm_link *link = find_link(engine, about);
    if (link) {
        pthread_mutex_lock(&link->lock);
        struct comm_channel *c = &link->channels[about[COMM_ID_SIZE]];
        if (link->stage == LINK_LISTENS && link->status == 0 && !c->wire) {
            c->wire = wire;
            wire = NULL;
            pthread_cond_broadcast(&link->changed);
        }
        pthread_mutex_unlock(&link->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    rpc_channel_destroy(wire);
}

/* The caller knows the channel's key, but its UCX and ours do not meet: the link cannot be made. */
static void fail_link(struct comm_engine *engine, const uint8_t *about, int status, const char *why)
{
    pthread_mutex_lock(&engine->lock);
    struct comm_link *link = find_link(engine, about);
    if (link) {
        pthread_mutex_lock(&link->lock);
        if (link->stage == LINK_LISTENS)
            comm_link_fail(link, status, why);
        pthread_mutex_unlock(&link->lock);
    }
    pthread_mutex_unlock(&engine->lock);
}

static int make_channel(const struct meet_greeting *g, rpc_channel **out)
{
    const struct comm_engine *engine = g->engine;
    if (!g->is_unix && engine->settings.tls)
        return rpc_channel_tls_accept(g->fd, &engine->identity, GREET_MS, out, NULL);
    int status = rpc_channel_from_fd(g->fd, out, NULL);
    if (status < 0)
        close(g->fd);
    return status;
}

/* A link's chunks are cut when a socket has room for them: few bytes wait unsent. */
static void tune(int fd)
{
    int unsent = UNSENT;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static void greet(struct meet_greeting *g)
{
    struct comm_greeting greeting;
    uint8_t about[COMM_ABOUT_SIZE], key[COMM_KEY_SIZE];
    uint64_t deadline = clock_now() + GREET_MS * CLOCK_NS_PER_MS;
    rpc_channel *wire, *other = NULL;
    char error[RPC_ERROR_SIZE] = "";
    if (make_channel(g, &wire) < 0)
        return;
    tune(rpc_channel_transport(wire)[0] == 't' ? wire->operations->descriptor(wire) : -1);
    int status = comm_greet_hear(wire, LINK_MAGIC, &greeting, about, deadline);
    if (status == 0)
        status = key_of(g->engine, about, key);
    const uint8_t way = g->is_unix ? ABOUT_SHARED : g->engine->ucx ? ABOUT_UCX : 0;
    if (status == 0 && about[COMM_ID_SIZE + 2] != way)
        status = -EPROTO;
    if (status == 0)
        status = comm_greet_check(wire, &greeting, key, deadline);
    if (status == 0 && way == ABOUT_SHARED)
        status = comm_shm_make(wire, &other);
    if (status == 0 && way == ABOUT_UCX) {
        const struct comm_thread *thread = &g->engine->threads[about[COMM_ID_SIZE] % g->engine->thread_count];
        status = comm_ucx_join(thread->ucx, wire, clock_now() + UCX_MS * CLOCK_NS_PER_MS, &other, error);
        if (status < 0)
            fail_link(g->engine, about, status, error);
    }
    if (status == 0)
        hand_over(g->engine, about, other ? other : wire);
    else
        rpc_channel_destroy(wire);
}

static void *greet_thread(void *context)
{
    struct meet_greeting *g = context;
    struct comm_meeting *meeting = g->engine->meeting;
    greet(g);
    pthread_mutex_lock(&meeting->lock);
    close(g->kept);
    g->kept = -1;
    meeting->greeting--;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
    return NULL;
}

/* Cuts off the oldest greeting that was not cut off yet. Its thread then frees the place. */
static void make_way(struct comm_meeting *meeting)
{
    FLYT_ASSERT_HELD(&meeting->lock);
    struct meet_greeting *oldest = NULL;
    for (unsigned i = 0; i < GREETINGS; i++) {
        struct meet_greeting *g = &meeting->greetings[i];
        if (g->kept >= 0 && (!oldest || g->turn < oldest->turn))
            oldest = g;
    }
    if (!oldest)
        return;
    shutdown(oldest->kept, SHUT_RDWR);
    oldest->turn = UINT64_MAX;
}

/* Takes fd over. Waits while all places are taken; `pressing`: cuts off the oldest greeting first. */
static int start_greeting(struct comm_engine *engine, int fd, bool is_unix, bool pressing)
{
    struct comm_meeting *meeting = engine->meeting;
    struct meet_greeting *g = NULL;
    pthread_attr_t detached;
    pthread_t thread;
    pthread_mutex_lock(&meeting->lock);
    if (pressing && meeting->greeting == GREETINGS)
        make_way(meeting);
    while (meeting->greeting == GREETINGS && !meeting->over)
        pthread_cond_wait(&meeting->changed, &meeting->lock);
    for (unsigned i = 0; i < GREETINGS && !g; i++)
        g = meeting->greetings[i].kept < 0 ? &meeting->greetings[i] : NULL;
    int kept = g && !meeting->over ? fd_keep(fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST)) : -1;
    if (kept < 0) {
        pthread_mutex_unlock(&meeting->lock);
        close(fd);
        return -ECONNABORTED;
    }
    *g = (struct meet_greeting){ engine, fd, is_unix, kept, meeting->turns++ };
    meeting->greeting++;
    pthread_mutex_unlock(&meeting->lock);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int status = -pthread_create(&thread, &detached, greet_thread, g);
    pthread_attr_destroy(&detached);
    if (status < 0) {
        close(fd);
        pthread_mutex_lock(&meeting->lock);
        close(kept);
        g->kept = -1;
        meeting->greeting--;
        pthread_mutex_unlock(&meeting->lock);
    }
    return status;
}

static void *accept_all(void *context)
{
    struct comm_engine *engine = context;
    struct comm_meeting *meeting = engine->meeting;
    struct pollfd fds[COMM_NICS_MOST + 2];
    unsigned count = engine->nic_count + 1;
    for (unsigned i = 0; i < count; i++)
        fds[i] = (struct pollfd){ .fd = meeting->listeners[i], .events = POLLIN };
    fds[count] = (struct pollfd){ .fd = meeting->stop, .events = POLLIN };
    for (;;) {
        if (poll(fds, count + 1, -1) < 0 && errno != EINTR)
            break;
        if (fds[count].revents)
            break;
        for (unsigned i = 0; i < count; i++) {
            int fd = fds[i].revents ? fd_keep(accept4(fds[i].fd, NULL, NULL, SOCK_CLOEXEC)) : -1;
            if (fd >= 0)
                start_greeting(engine, fd, i == engine->nic_count, false);
        }
    }
    return NULL;
}

static bool listens(struct comm_engine *engine)
{
    bool found = false;
    pthread_mutex_lock(&engine->lock);
    for (struct list *one = list_first(&engine->links); one && !found; one = list_next(&engine->links, one)) {
        struct comm_link *link = LIST_OBJECT(one, struct comm_link, of_engine);
        pthread_mutex_lock(&link->lock);
        found = link->stage == LINK_LISTENS && link->status == 0;
        pthread_mutex_unlock(&link->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return found;
}

int comm_engine_adopt(struct comm_engine *engine, int fd)
{
    if (!listens(engine)) {
        close(fd);
        return -ENOTCONN;
    }
    fd = fd_keep(fd);
    return fd < 0 ? -errno : start_greeting(engine, fd, false, true);
}

/* ---- listening ---- */

static int listen_on(const struct comm_address *address)
{
    struct sockaddr_storage at;
    socklen_t size = to_socket_address(address, &at);
    int fd = fd_keep(socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int status = -errno;
    close(fd);
    return status;
}

static int listen_all(struct comm_engine *engine, struct comm_meeting *meeting, char *error)
{
    struct comm_address own = { .family = 1 };
    memcpy(own.bytes, engine->id, COMM_ID_SIZE);
    for (unsigned i = 0; i <= engine->nic_count; i++) {
        struct sockaddr_storage at;
        socklen_t size = sizeof at;
        bool card = i < engine->nic_count;
        int fd = listen_on(card ? &engine->nics[i].address : &own);
        if (fd < 0)
            return rpc_explain(error, fd, "links: listening on %s: %s", card ? engine->nics[i].name : "a unix socket",
                               strerror(-fd));
        meeting->listeners[i] = fd;
        meeting->count++;
        if (card && getsockname(fd, (struct sockaddr *)&at, &size) == 0)
            meeting->ports[i] = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                                               : ((struct sockaddr_in *)&at)->sin_port);
    }
    return 0;
}

int comm_meet_open(struct comm_engine *engine, char *error)
{
    struct comm_meeting *meeting = calloc(1, sizeof *meeting);
    if (!meeting)
        return rpc_explain(error, -ENOMEM, "links: no memory");
    engine->meeting = meeting;
    for (unsigned i = 0; i < GREETINGS; i++)
        meeting->greetings[i].kept = -1;
    pthread_mutex_init(&meeting->lock, NULL);
    pthread_cond_init(&meeting->changed, NULL);
    meeting->stop = fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int status = meeting->stop < 0          ? rpc_explain(error, -errno, "links: %s", strerror(errno))
             : engine->settings.relayed ? 0
                                        : listen_all(engine, meeting, error);
    if (status < 0 || engine->settings.relayed)
        return status;
    status = -pthread_create(&meeting->thread, NULL, accept_all, engine);
    meeting->runs = status == 0;
    return status < 0 ? rpc_explain(error, status, "links: starting a thread: %s", strerror(-status)) : 0;
}

void comm_meet_close(struct comm_engine *engine)
{
    struct comm_meeting *meeting = engine->meeting;
    if (!meeting)
        return;
    pthread_mutex_lock(&meeting->lock);
    meeting->over = true;
    for (unsigned i = 0; i < GREETINGS; i++)
        if (meeting->greetings[i].kept >= 0)
            shutdown(meeting->greetings[i].kept, SHUT_RDWR);
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
    if (meeting->runs) {
        ssize_t ignored = write(meeting->stop, &(uint64_t){ 1 }, sizeof(uint64_t));
        (void)ignored;
        pthread_join(meeting->thread, NULL);
    }
    pthread_mutex_lock(&meeting->lock);
    while (meeting->greeting)
        pthread_cond_wait(&meeting->changed, &meeting->lock);
    pthread_mutex_unlock(&meeting->lock);
    for (unsigned i = 0; i < meeting->count; i++)
        close(meeting->listeners[i]);
    if (meeting->stop >= 0)
        close(meeting->stop);
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->lock);
    free(meeting);
    engine->meeting = NULL;
}

uint16_t comm_meet_port(const struct comm_engine *engine, unsigned nic)
{
    return engine->meeting->ports[nic];
}

/* ---- connecting ---- */

static int connect_in_time(int fd, const struct sockaddr *at, socklen_t size, uint64_t deadline)
{
    struct pollfd poller = { .fd = fd, .events = POLLOUT };
    int failure = 0;
    socklen_t failure_size = sizeof failure;
    if (connect(fd, at, size) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    int ready;
    do
        ready = poll(&poller, 1, clock_poll_timeout(deadline));
    while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return ready < 0 ? -errno : -ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &failure_size) != 0 ? -errno : -failure;
}

/* From the card `from`, unless it is NULL. */
static int connect_to(const struct comm_address *to, const struct comm_nic *from, uint64_t deadline)
{
    struct sockaddr_storage at, own;
    socklen_t size = to_socket_address(to, &at);
    int fd = fd_keep(socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -errno;
    int status = 0;
    if (from) {
        socklen_t own_size = to_socket_address(&from->address, &own);
        if (bind(fd, (struct sockaddr *)&own, own_size) != 0)
            status = -errno;
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, from->name, (socklen_t)strlen(from->name));
    }
    if (status == 0)
        status = connect_in_time(fd, (struct sockaddr *)&at, size, deadline);
    if (status == 0)
        return fd;
    close(fd);
    return status;
}

static int connect_own(const struct comm_engine *engine, const struct comm_address *to, unsigned channel,
                       uint64_t deadline)
{
    const struct comm_nic *from = &engine->nics[channel % engine->nic_count];
    bool bound = to->family == from->address.family && engine->nic_count > 1 && !comm_nic_is_own(to);
    int fd = bound ? connect_to(to, from, deadline) : -1;
    /* From that card there may be no way: the system chooses one. */
    return fd >= 0 ? fd : connect_to(to, NULL, deadline);
}

static int connect_channel(struct comm_engine *engine, const struct comm_address *to, unsigned channel,
                           uint64_t deadline, char *error)
{
    const struct comm_connector *connector = &engine->settings.connector;
    const struct comm_address *from = &engine->nics[channel % engine->nic_count].address;
    if (!connector->connect && (to->family == 2 || engine->settings.relayed))
        return rpc_explain(error, -EAFNOSUPPORT, "channel %u of a link: nobody here can connect to the other end",
                           channel);
    if (connector->connect)
        return connector->connect(connector->context, to, from, deadline, error);
    int fd = connect_own(engine, to, channel, deadline);
    return fd < 0 ? rpc_explain(error, fd, "connecting channel %u of a link: %s", channel, strerror(-fd)) : fd;
}

static int call_over(struct comm_link *link, int fd, const struct comm_handle *h, uint8_t about[COMM_ABOUT_SIZE],
                     uint64_t deadline, rpc_channel **out, char *error)
{
    const uint8_t way = about[COMM_ID_SIZE + 2];
    bool share = way == ABOUT_SHARED;
    rpc_channel *wire, *other = NULL;
    char why[RPC_ERROR_SIZE] = "";
    int status;
    if (h->flags & HANDLE_TLS && !share) {
        struct rpc_address address = { .kind = RPC_ADDRESS_TLS };
        const struct rpc_tls_files files = { NULL, NULL, NULL };
        for (unsigned i = 0; i < COMM_FINGERPRINT_SIZE; i++)
            sprintf(address.pin + 2 * i, "%02x", h->fingerprint[i]);
        status = rpc_channel_tls_connect(fd, &address, &files, deadline, &wire, error);
    } else {
        status = rpc_channel_from_fd(fd, &wire, error);
        if (status < 0)
            close(fd);
    }
    if (status < 0)
        return status;
    if (!share)
        tune(wire->operations->descriptor(wire));
    memcpy(about + 16, link->id, COMM_ID_SIZE);
    status = comm_greet_call(wire, LINK_MAGIC, about, h->key, deadline);
    if (status == 0 && share)
        status = comm_shm_join(wire, deadline, &other);
    if (status == 0 && way == ABOUT_UCX) {
        const struct comm_thread *thread = link->channels[h->channel].thread;
        uint64_t limit = clock_now() + UCX_MS * CLOCK_NS_PER_MS;
        status = comm_ucx_join(thread->ucx, wire, deadline < limit ? deadline : limit, &other, why);
    }
    if (status == 0)
        *out = other ? other : wire;
    else
        rpc_channel_destroy(wire);
    if (status == 0)
        return 0;
    return rpc_explain(error, status, "channel %u of a link: %s", h->channel,
                       *why                ? why
                       : status == -EACCES ? "the other end has another key, or no such channel"
                                           : strerror(-status));
}

/* Both ends must see the same sockets without a file. */
static bool may_share(const struct comm_engine *engine, const struct comm_handle *h)
{
    static const uint8_t unknown[COMM_PLACE_SIZE] = { 0 };
    uint8_t place[COMM_PLACE_SIZE];
    comm_handle_place(place);
    return !engine->settings.no_shared_memory && !engine->settings.connector.connect && h->flags & HANDLE_SHARED &&
           memcmp(place, unknown, sizeof place) != 0 && memcmp(place, h->place, sizeof place) == 0;
}

int comm_meet_call(struct comm_link *link, unsigned channel, unsigned count, const struct comm_handle *h,
                   uint64_t deadline, rpc_channel **out, char *error)
{
    struct comm_engine *engine = link->engine;
    uint8_t about[COMM_ABOUT_SIZE] = { 0 };
    memcpy(about, h->link, COMM_ID_SIZE);
    about[COMM_ID_SIZE] = (uint8_t)channel;
    about[COMM_ID_SIZE + 1] = (uint8_t)count;
    int fd = -1;
    if (may_share(engine, h)) {
        struct comm_address near = { .family = 1 };
        memcpy(near.bytes, h->engine, COMM_ID_SIZE);
        fd = connect_to(&near, NULL, deadline);
    }
    about[COMM_ID_SIZE + 2] = fd >= 0 ? ABOUT_SHARED : engine->ucx ? ABOUT_UCX : 0;
    if (fd < 0)
        fd = connect_channel(engine, &h->address, channel, deadline, error);
    return fd < 0 ? fd : call_over(link, fd, h, about, deadline, out, error);
}
