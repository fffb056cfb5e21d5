/* connections.c: see connections.h. */
#include "control-managers/monitor/connections.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BUCKETS = 64, ADDRESS = 16 };
enum phase { AWAITED, ANSWERED, FOLLOWS };

/* Connections of one address that wait: an IPv4 address, or half an IPv6 address. */
struct source {
    struct source *next;
    uint8_t address[ADDRESS];
    unsigned known; /* connections that name it; with the last one it goes */
    unsigned count; /* those of them that wait */
};

struct web_connection {
    struct web_connection *next, **link; /* of those that wait; link NULL: it follows events, or is ended */
    struct source *source;
    int fd; /* libmicrohttpd closes it after connections_notice has forgotten this */
    enum phase phase;
    uint64_t since; /* as the phase began, in milliseconds of CLOCK_MONOTONIC */
    bool ended;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t over;
    struct web_connection *first; /* the newest one of those that wait */
    struct source *sources[BUCKETS];
    unsigned count, most;
    bool ends;
    pthread_t thread;
    void (*each_second)(void *);
    void *context;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER };

static const uint64_t limit_ms[] = { [AWAITED] = REQUEST_SECONDS * 1000, [ANSWERED] = ANSWER_SECONDS * 1000 };

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- where they come from; the lock is held ---- */

static struct source **find(const uint8_t address[ADDRESS])
{
    unsigned hash = 0;
    for (int i = 0; i < ADDRESS; i++)
        hash = 31 * hash + address[i];
    struct source **at = &all.sources[hash % BUCKETS];
    while (*at && memcmp((*at)->address, address, ADDRESS) != 0)
        at = &(*at)->next;
    return at;
}

/* NULL: no memory. */
static struct source *source_take(const struct sockaddr *from)
{
    uint8_t address[ADDRESS] = { 0 };
    if (from && from->sa_family == AF_INET)
        memcpy(address, &((const struct sockaddr_in *)(const void *)from)->sin_addr, sizeof(struct in_addr));
    else if (from && from->sa_family == AF_INET6)
        memcpy(address, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, ADDRESS / 2);
    struct source **at = find(address);
    if (!*at && (*at = calloc(1, sizeof **at)))
        memcpy((*at)->address, address, ADDRESS);
    if (*at)
        (*at)->known++;
    return *at;
}

static void source_leave(struct source *source)
{
    if (--source->known)
        return;
    struct source **at = find(source->address);
    *at = source->next;
    free(source);
}

/* ---- those that wait; the lock is held ---- */

static void wait_begin(struct web_connection *one)
{
    one->next = all.first;
    one->link = &all.first;
    if (all.first)
        all.first->link = &one->next;
    all.first = one;
    all.count++;
    one->source->count++;
}

static void wait_end(struct web_connection *one)
{
    if (!one->link)
        return;
    *one->link = one->next;
    if (one->next)
        one->next->link = one->link;
    one->link = NULL;
    all.count--;
    one->source->count--;
}

/* The web server notices, and closes it. */
static void end_one(struct web_connection *one)
{
    wait_end(one);
    one->ended = true;
    shutdown(one->fd, SHUT_RDWR);
}

/* Those of the address that has the most go first, of these the one that has used up most of its time: never a new one
   whose request is still to come, whatever the others do. */
static bool goes_before(const struct web_connection *one, const struct web_connection *other, uint64_t now)
{
    if (one->source->count != other->source->count)
        return one->source->count > other->source->count;
    return (now - one->since) * limit_ms[other->phase] >= (now - other->since) * limit_ms[one->phase];
}

/* newest: stays, unless it is the only one. */
static void make_room(const struct web_connection *newest)
{
    const uint64_t now = now_ms();
    struct web_connection *first = newest->next;
    if (all.count <= all.most || !first)
        return;
    for (struct web_connection *one = first->next; one; one = one->next)
        if (goes_before(one, first, now))
            first = one;
    end_one(first);
}

static void end_late(void)
{
    const uint64_t now = now_ms();
    for (struct web_connection *one = all.first, *next; one; one = next) {
        next = one->next;
        if (now - one->since > limit_ms[one->phase])
            end_one(one);
    }
}

void connections_hurry(void)
{
    pthread_mutex_lock(&all.lock);
    const uint64_t now = now_ms();
    for (struct web_connection *one = all.first, *next; one; one = next) {
        next = one->next;
        if (one->phase == ANSWERED && now - one->since > HURRY_SECONDS * 1000)
            end_one(one);
    }
    pthread_mutex_unlock(&all.lock);
}

/* ---- its thread ---- */

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&all.lock);
    while (!all.ends) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (pthread_cond_timedwait(&all.over, &all.lock, &until) != ETIMEDOUT)
            continue;
        end_late();
        pthread_mutex_unlock(&all.lock);
        all.each_second(all.context);
        pthread_mutex_lock(&all.lock);
    }
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

bool connections_begin(unsigned most, void (*each_second)(void *), void *context)
{
    all.most = most;
    all.ends = false;
    all.each_second = each_second;
    all.context = context;
    return pthread_create(&all.thread, NULL, watch, NULL) == 0;
}

void connections_end(void)
{
    pthread_mutex_lock(&all.lock);
    all.ends = true;
    pthread_cond_signal(&all.over);
    pthread_mutex_unlock(&all.lock);
    pthread_join(all.thread, NULL);
}

/* ---- called by libmicrohttpd ---- */

static void add(struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const int fd = info ? info->connect_fd : -1;
    struct web_connection *one = info ? calloc(1, sizeof *one) : NULL;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    pthread_mutex_lock(&all.lock);
    if (one)
        one->source = source_take(info ? info->client_addr : NULL);
    if (one && one->source) {
        one->fd = fd;
        one->since = now_ms();
        wait_begin(one);
        make_room(one);
        *context = one;
    }
    pthread_mutex_unlock(&all.lock);
    if (*context)
        return;
    free(one);
    shutdown(fd, SHUT_RDWR); /* what cannot be watched must not stay */
}

static void forget(struct web_connection *one)
{
    pthread_mutex_lock(&all.lock);
    wait_end(one);
    source_leave(one->source);
    pthread_mutex_unlock(&all.lock);
    free(one);
}

void connections_notice(void *context, struct MHD_Connection *connection, void **one,
                        enum MHD_ConnectionNotificationCode what)
{
    (void)context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*one)
            forget(*one);
        return;
    }
    *one = NULL;
    add(connection, one);
}

static void set_phase(struct MHD_Connection *connection, enum phase phase)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct web_connection *one = info ? info->socket_context : NULL;
    if (!one)
        return;
    pthread_mutex_lock(&all.lock);
    one->phase = phase;
    one->since = now_ms();
    if (phase == FOLLOWS)
        wait_end(one);
    else if (!one->link && !one->ended)
        wait_begin(one);
    pthread_mutex_unlock(&all.lock);
}

void connections_answered(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_RequestTerminationCode how)
{
    (void)context, (void)state, (void)how;
    set_phase(connection, AWAITED);
}

void connections_request(struct MHD_Connection *connection) { set_phase(connection, ANSWERED); }

void connections_follow(struct MHD_Connection *connection) { set_phase(connection, FOLLOWS); }
