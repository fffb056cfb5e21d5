/* bridges.c: see bridges.h. */
#include "cpu/server/listener/bridges.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/fd_message.h"
#include "cpu/common/log.h"

static bool hand_down(const struct worker *worker, uint64_t program, bool departs, int fd)
{
    const struct worker_bridge message = { .word = WORKER_BRIDGE, .departs = departs };
    int r = fd_message_send(worker->socket, &message, sizeof message, &fd, 1);
    if (r != 0)
        log_warning("event=bridge-lost worker=%d program=%llu why=\"%s\": its memory is copied", (int)worker->pid,
                    (unsigned long long)program, strerror(-r));
    return r == 0;
}

/* The newest one: a program that came back has left an older worker, which may not have ended yet. */
static const struct worker *worker_of(const struct workers *w, uint64_t program)
{
    const struct worker *found = NULL;
    const bool wanted = ticket_wanted();
    int count = 0;
    for (int i = 0; i < w->count; i++)
        if (w->all[i].state == WORKER_BUSY && !w->all[i].usher && !w->all[i].replaced &&
            (!wanted || w->all[i].program == program)) {
            if (!found || w->all[i].greeted > found->greeted)
                found = &w->all[i];
            count++;
        }
    return wanted || count == 1 ? found : NULL;
}

bool bridges_connections(const struct workers *w, const struct share_order *order, const int *fds, unsigned count)
{
    const struct worker *worker = worker_of(w, order->program);
    struct worker_lanes message = { .word = order->kind == SHARE_LANES ? WORKER_LANES : WORKER_LINKED };
    snprintf(message.address, sizeof message.address, "%s", order->address);
    return worker && fd_message_send(worker->socket, &message, sizeof message, fds, count) == 0;
}

static void forget(struct bridges *b, unsigned at)
{
    close(b->waiting[at].fd);
    memmove(&b->waiting[at], &b->waiting[at + 1], (--b->count - at) * sizeof b->waiting[0]);
}

void bridges_greeted(struct bridges *b, uint64_t program)
{
    for (unsigned i = b->count; i-- > 0;)
        if (b->waiting[i].program == program || !ticket_wanted())
            forget(b, i);
}

bool bridges_add(struct bridges *b, const struct workers *w, uint64_t program, bool departs, int fd)
{
    if (departs) {
        const struct worker *worker = worker_of(w, program);
        bool given = worker && hand_down(worker, program, true, fd);
        close(fd);
        return given;
    }
    bridges_greeted(b, program);
    if (b->count == BRIDGES_WAITING)
        forget(b, 0);
    b->waiting[b->count++] = (struct bridges_end){ fd, program };
    return true;
}

void bridges_lend(const struct bridges *b, const struct worker *worker, uint64_t program)
{
    for (unsigned i = 0; i < b->count; i++)
        if (b->waiting[i].program == program || !ticket_wanted())
            hand_down(worker, program, false, b->waiting[i].fd);
}

void bridges_close(struct bridges *b)
{
    while (b->count)
        forget(b, b->count - 1);
}
