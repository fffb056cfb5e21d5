/*
 * dial_worker.c: how a worker gets connections for its links (dial.h). One thread waits for each request; the worker's
 * thread that listens to the listener brings the answers.
 *
 * Where the node manager connects, what it gives may come before somebody waits for it, or never be asked for. It is
 * kept for the one who names the same address, at most GIVEN_MOST times; then the oldest is closed. The newest is given
 * first: what an earlier request has left behind may have been closed by the other server meanwhile.
 */
#include "cpu/server/listener/dial.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/list.h"
#include "cpu/common/lock.h"
#include "cpu/rpc/transport/channel.h"

/* A thread that waits for an answer. */
struct dial_waiting {
    struct list of_all;
    uint32_t serial;
    bool answered;
    int status;
    char why[WORKER_WHY_SIZE];
    int *fds;
    unsigned most, count;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list all;
    uint32_t last;
} dialling = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

int dial_ask(const char *address, unsigned count, uint64_t deadline, int *fds, char *error)
{
    uint64_t now = clock_now();
    struct worker_dial wish = { .word = WORKER_DIAL,
                                .count = count,
                                .milliseconds = deadline > now ? (uint32_t)((deadline - now) / CLOCK_NS_PER_MS) : 0 };
    struct dial_waiting waiting = { .fds = fds, .most = count };
    struct timespec until = clock_timespec(deadline);
    if (snprintf(wish.address, sizeof wish.address, "%s", address) >= (int)sizeof wish.address)
        return rpc_explain(error, -EINVAL, "the address of the other server is too long");
    pthread_mutex_lock(&dialling.lock);
    waiting.serial = wish.serial = ++dialling.last;
    list_append(&dialling.all, &waiting.of_all);
    int status = send(WORKER_SOCKET, &wish, sizeof wish, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
    while (status == 0 && !waiting.answered)
        if (pthread_cond_clockwait(&dialling.wake, &dialling.lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT &&
            !waiting.answered)
            status = -ETIMEDOUT;
    list_remove(&waiting.of_all);
    pthread_mutex_unlock(&dialling.lock);
    if (status == 0)
        status = waiting.status;
    if (status < 0)
        return rpc_explain(error, status, "%s", waiting.answered ? waiting.why : strerror(-status));
    return (int)waiting.count;
}

/* ---- what the node manager has connected ---- */

enum { GIVEN_MOST = 16, GIVEN_FDS = 32 };
struct dial_gift {
    char address[WORKER_ADDRESS_SIZE];
    int fds[GIVEN_FDS];
    unsigned count;
};
static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct dial_gift gifts[GIVEN_MOST]; /* the oldest first */
    unsigned count;
} given = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static void gift_forget(unsigned at)
{
    FLYT_ASSERT_HELD(&given.lock);
    memmove(&given.gifts[at], &given.gifts[at + 1], (--given.count - at) * sizeof given.gifts[0]);
}

void dial_given(const char *address, const int *fds, unsigned count)
{
    if (!count || count > GIVEN_FDS) {
        fd_message_close(fds, count);
        return;
    }
    pthread_mutex_lock(&given.lock);
    if (given.count == GIVEN_MOST) {
        fd_message_close(given.gifts[0].fds, given.gifts[0].count);
        gift_forget(0);
    }
    struct dial_gift *gift = &given.gifts[given.count++];
    snprintf(gift->address, sizeof gift->address, "%s", address);
    memcpy(gift->fds, fds, count * sizeof *fds);
    gift->count = count;
    pthread_cond_broadcast(&given.wake);
    pthread_mutex_unlock(&given.lock);
}

/* Whether all are open. The other server says nothing before it is spoken to. */
static bool gift_good(const struct dial_gift *gift)
{
    struct pollfd ends[GIVEN_FDS];
    for (unsigned i = 0; i < gift->count; i++)
        ends[i] = (struct pollfd){ .fd = gift->fds[i], .events = POLLIN };
    return poll(ends, gift->count, 0) == 0;
}

/* The newest one that is for `address`; those that the other server has closed go. How many connections, 0: there is
   none. */
static unsigned gift_take(const char *address, unsigned count, int *fds)
{
    FLYT_ASSERT_HELD(&given.lock);
    for (unsigned at = given.count; at-- > 0;) {
        const struct dial_gift *gift = &given.gifts[at];
        if (gift->count != count || strcmp(gift->address, address) != 0)
            continue;
        const bool good = gift_good(gift);
        if (good)
            memcpy(fds, gift->fds, count * sizeof *fds);
        else
            fd_message_close(gift->fds, count);
        gift_forget(at);
        if (good)
            return count;
    }
    return 0;
}

int dial_await(const char *address, unsigned count, uint64_t deadline, int *fds, char *error)
{
    const struct timespec until = clock_timespec(deadline);
    bool late = false;
    unsigned got;
    pthread_mutex_lock(&given.lock);
    while (!(got = gift_take(address, count, fds)) && !late)
        late = pthread_cond_clockwait(&given.wake, &given.lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    pthread_mutex_unlock(&given.lock);
    if (got)
        return (int)got;
    return rpc_explain(error, -EPERM,
                       "no node manager has connected this GPU server to %.*s: the program takes an offer of a link"
                       " first",
                       (int)strcspn(address, "?"), address);
}

void dial_hear(struct worker_dialled *answer, const int *fds, unsigned count)
{
    struct dial_waiting *waiting = NULL;
    answer->why[sizeof answer->why - 1] = '\0';
    pthread_mutex_lock(&dialling.lock);
    for (struct list *one = list_first(&dialling.all); one && !waiting; one = list_next(&dialling.all, one)) {
        waiting = LIST_OBJECT(one, struct dial_waiting, of_all);
        if (waiting->serial != answer->serial || waiting->answered || count > waiting->most)
            waiting = NULL;
    }
    if (waiting) {
        waiting->answered = true;
        waiting->status = answer->status;
        waiting->count = count;
        memcpy(waiting->fds, fds, count * sizeof *fds);
        memcpy(waiting->why, answer->why, sizeof waiting->why);
        pthread_cond_broadcast(&dialling.wake);
    }
    pthread_mutex_unlock(&dialling.lock);
    if (!waiting)
        fd_message_close(fds, count);
}
