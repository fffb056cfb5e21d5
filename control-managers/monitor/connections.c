/* connections.c: see connections.h. */
#include "control-managers/monitor/connections.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum phase { AWAITED, ANSWERED, FOLLOWS };

struct web_connection {
    struct web_connection *next, **link;
    int fd; /* libmicrohttpd closes it after connections_notice has taken this from the list */
    enum phase phase;
    time_t since; /* as the phase began, in seconds of CLOCK_MONOTONIC */
    bool ended;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t over;
    struct web_connection *first; /* the newest one */
    unsigned most;
    bool ends;
    pthread_t thread;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER };

static time_t now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Its thread notices, and closes it. The lock is held. */
static void end_one(struct web_connection *one)
{
    one->ended = true;
    shutdown(one->fd, SHUT_RDWR);
}

/* Those whose request has not come go first. The lock is held. */
static void make_room(void)
{
    struct web_connection *oldest = NULL;
    unsigned count = 0;
    for (struct web_connection *one = all.first; one; one = one->next) {
        if (one->phase == FOLLOWS || one->ended)
            continue;
        count++;
        if (!oldest || one->phase < oldest->phase || (one->phase == oldest->phase && one->since <= oldest->since))
            oldest = one;
    }
    if (count > all.most)
        end_one(oldest);
}

static void end_late(void)
{
    static const time_t seconds[] = { [AWAITED] = REQUEST_SECONDS, [ANSWERED] = ANSWER_SECONDS };
    time_t now = now_seconds();
    for (struct web_connection *one = all.first; one; one = one->next)
        if (one->phase != FOLLOWS && !one->ended && now - one->since > seconds[one->phase])
            end_one(one);
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&all.lock);
    while (!all.ends) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (pthread_cond_timedwait(&all.over, &all.lock, &until) == ETIMEDOUT)
            end_late();
    }
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

bool connections_begin(unsigned most)
{
    all.most = most;
    all.ends = false;
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

static void add(struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct web_connection *one = info ? calloc(1, sizeof *one) : NULL;
    *context = one;
    if (!one) { /* what could not be watched must not stay */
        if (info)
            shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    one->fd = info->connect_fd;
    one->since = now_seconds();
    pthread_mutex_lock(&all.lock);
    one->next = all.first;
    one->link = &all.first;
    if (all.first)
        all.first->link = &one->next;
    all.first = one;
    make_room();
    pthread_mutex_unlock(&all.lock);
}

static void forget(struct web_connection *one)
{
    pthread_mutex_lock(&all.lock);
    *one->link = one->next;
    if (one->next)
        one->next->link = one->link;
    pthread_mutex_unlock(&all.lock);
    free(one);
}

void connections_notice(void *context, struct MHD_Connection *connection, void **one,
                        enum MHD_ConnectionNotificationCode what)
{
    (void)context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        add(connection, one);
    else if (*one)
        forget(*one);
}

static void set_phase(struct MHD_Connection *connection, enum phase phase)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct web_connection *one = info ? info->socket_context : NULL;
    if (!one)
        return;
    pthread_mutex_lock(&all.lock);
    one->phase = phase;
    one->since = now_seconds();
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
