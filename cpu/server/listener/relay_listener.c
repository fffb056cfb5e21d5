/* relay_listener.c: the listener passes messages between workers on (relay.h). It keeps nothing of them. */
#include "cpu/server/listener/relay.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cpu/common/log.h"
#include "cpu/server/listener/dial.h"
#include "cpu/server/listener/workers.h"
#include "cpu/server/memory/share.h"

/* The worker of a session, by its process id; below 0: the one with the least process id that is -number or more, but
   for `from`. NULL: there is none. */
static struct worker *serving(struct workers *w, const struct worker *from, int32_t number)
{
    struct worker *found = NULL;
    for (int i = 0; i < w->count; i++) {
        struct worker *one = &w->all[i];
        if (one->state != WORKER_BUSY || one->usher)
            continue;
        if (number > 0 && one->pid == number)
            return one;
        if (number < 0 && one != from && !one->deaf && one->pid >= -number && (!found || one->pid < found->pid))
            found = one;
    }
    return found;
}

/* An empty message says that there is no worker of that number. */
void workers_tell_gone(const struct workers *w, pid_t gone)
{
    const struct relay_message message = { .relay = { .word = WORKER_RELAY, .peer = (int32_t)gone } };
    for (int i = 0; i < w->count; i++)
        if (w->all[i].pid != gone && w->all[i].state == WORKER_BUSY && !w->all[i].usher)
            relay_send(w->all[i].socket, &message);
}

/* To the worker that the message names; one for a worker that does not exist goes back empty. */
static void pass_on(struct workers *w, struct worker *from, struct relay_message *message)
{
    struct worker *to = serving(w, from, message->relay.peer);
    if (to) {
        to->asked = true;
        message->relay.peer = (int32_t)from->pid;
    } else {
        to = from;
        message->relay.size = 0;
        relay_drop(message);
    }
    int r = relay_send(to->socket, message);
    char more[48];
    if (r != 0 && log_limit_says(&w->said_relay, more))
        log_warning("event=message-lost worker=%d why=\"%s\"%s", (int)to->pid, strerror(-r), more);
    relay_drop(message);
}

void workers_relay(struct workers *w, struct worker *worker)
{
    struct relay_message message = { .count = 0 };
    union { struct cmsghdr header; char bytes[RELAY_CONTROL]; } control;
    struct iovec data = { &message.relay, sizeof message.relay };
    struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                           .msg_controllen = sizeof control };
    ssize_t n = recvmsg(worker->socket, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n == 0)
        worker->deaf = true;
    if (n <= 0)
        return;
    message.count = relay_descriptors(&head, message.fds, SHARE_AT_ONCE);
    if (n == sizeof(struct worker_dial) && message.relay.word == WORKER_DIAL) {
        struct worker_dial dial;
        memcpy(&dial, &message.relay, sizeof dial);
        relay_drop(&message);
        dial_begin(w->options->links, worker->pid, worker->socket, &dial);
    } else if (n >= (ssize_t)offsetof(struct worker_relay, bytes) && message.relay.word == WORKER_RELAY &&
        message.relay.size == (size_t)n - offsetof(struct worker_relay, bytes))
        pass_on(w, worker, &message);
    else
        relay_drop(&message);
}
