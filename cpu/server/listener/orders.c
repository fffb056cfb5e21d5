/*
 * orders.c: see orders.h.
 *
 * One order is carried out at a time, in the listener's loop. An order for less memory than the programs hold waits:
 * the listener looks every ORDERS_LOOK_NS whether it fits, and asks clients every ORDERS_ASK_NS for what they hold
 * unused, because memory that a program frees becomes credit of its client first.
 *
 * Multiprocessors can be changed on the software GPU only. Programs that run go on seeing the number that they saw at
 * their start. Workers that have no program yet are replaced by others, which begin with the new share.
 */
#include "cpu/server/listener/orders.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/log.h"
#include "cpu/server/tenant/resize.h"

#define ORDERS_LOOK_NS (2 * CLOCK_NS_PER_MS)
#define ORDERS_ASK_NS (50 * CLOCK_NS_PER_MS)
enum { ORDERS_AT_ONCE = 16 };                            /* messages taken in one turn */

_Static_assert((int)WORKER_ADDRESS_SIZE == (int)SHARE_ADDRESS_SIZE, "an address goes to the worker as it came");

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

void orders_open(struct orders *o, int listens, const char *gpu, struct workers *workers, struct bridges *bridges)
{
    *o = (struct orders){ .listens = listens, .connection = -1, .gpu = gpu, .workers = workers,
                          .bridges = bridges };
}

/* ---- answers ---- */

static void orders_drop_connection(struct orders *o)
{
    if (o->waits)
        resize_give_up();
    o->waits = false;
    if (o->connection >= 0)
        close(o->connection);
    o->connection = -1;
}

static void orders_answer(struct orders *o, const struct share_order *order, enum share_answer_code code,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
static void orders_answer(struct orders *o, const struct share_order *order, enum share_answer_code code,
                          const char *format, ...)
{
    struct share_order_answer answer = { .code = (uint32_t)code, .number = order->number };
    uint8_t bytes[SHARE_ANSWER_SIZE];
    struct resize_held held;
    int shown = o->workers->multiprocessors;
    va_list list;
    va_start(list, format);
    vsnprintf(answer.text, sizeof answer.text, format, list);
    va_end(list);
    if (resize_look(&held)) {
        answer.used = held.held;
        answer.memory = held.limit <= SHARE_ORDER_MOST_MEMORY ? held.limit : 0;
    }
    answer.sms = o->sms ? o->sms : shown > 0 && shown <= SHARE_ORDER_MOST_SMS ? (uint32_t)shown : 0;
    share_answer_put(&answer, bytes);
    if (send(o->connection, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof bytes)
        return;
    log_warning("event=order-unanswered why=\"%s\": the node manager connects again and asks", strerror(errno));
    shutdown(o->connection, SHUT_RDWR);                  /* the next turn sees the end */
}

/* ---- orders ---- */

/* What a process of this server that begins from now on is told. */
static void orders_tell_children(struct orders *o, uint64_t memory, uint32_t sms)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)memory);
    if (memory) {
        setenv("FLYT_TENANT_MEMORY", text, 1);
        setenv("FLYT_SOFTGPU_MEMORY", text, 1);
    }
    snprintf(text, sizeof text, "%u", (unsigned)sms);
    if (sms)
        setenv("FLYT_SOFTGPU_SMS", text, 1);
    workers_renew_spares(o->workers);
}

/* The memory has been settled: the rest cannot fail. */
static void orders_granted(struct orders *o, const struct share_order *order)
{
    if (order->sms) {
        resize_sms(order->sms);
        o->sms = order->sms;
    }
    orders_tell_children(o, order->memory, order->sms);
    log_info("event=share-changed sms=%u memory=%llu", (unsigned)order->sms, (unsigned long long)order->memory);
    orders_answer(o, order, SHARE_DONE, "%s", "");
}

static bool orders_software(const struct orders *o) { return strcmp(o->gpu, "software") == 0; }

/* NULL, or why this server cannot have that share, whatever its programs hold. */
static const char *orders_cannot(const struct orders *o, const struct share_order *order,
                                 const struct resize_held *held)
{
    const char *pinned = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    int shown = o->workers->multiprocessors;
    bool same_sms = !order->sms || order->sms == o->sms || (!o->sms && order->sms == (uint32_t)(shown > 0 ? shown : 0));
    if (!same_sms && !orders_software(o))
        return "the multiprocessors of programs that run cannot be changed on this GPU, only on the software GPU: a new"
               " GPU server gets the new number";
    /* MPS reads its limit when a program's process begins, and keeps it until the end of that process ◊. */
    if (order->memory > held->limit && pinned && *pinned)
        return "NVIDIA MPS keeps programs that run from taking more memory than they began with: a new GPU server gets"
               " the new limit";
    return NULL;
}

static void orders_share(struct orders *o, const struct share_order *order)
{
    struct resize_held held;
    const char *cannot = NULL;
    if (o->waits) {
        orders_answer(o, order, SHARE_BUSY, "an earlier change of this GPU server waits for its programs");
        return;
    }
    if (!resize_look(&held)) {
        orders_answer(o, order, SHARE_CANNOT, "this GPU server has no account of its memory");
        return;
    }
    if ((cannot = orders_cannot(o, order, &held))) {
        orders_answer(o, order, SHARE_CANNOT, "%s", cannot);
        return;
    }
    if (!order->memory || resize_try(order->memory, order->within_ms != 0)) {
        orders_granted(o, order);
        return;
    }
    if (!order->within_ms) {
        orders_answer(o, order, SHARE_IN_USE,
                      "its programs hold %llu MiB, of which %llu MiB are known to be unused: more than %llu MiB."
                      " --within SECONDS takes back what is unused, and waits",
                      MIB(held.held + 0xfffff), MIB(held.idle), MIB(order->memory));
        return;
    }
    o->waits = true;
    o->waiting = *order;
    o->deadline = clock_now() + order->within_ms * CLOCK_NS_PER_MS;
    o->ask_again = 0;
}

static void orders_wait(struct orders *o)
{
    const struct share_order order = o->waiting;
    struct resize_held held;
    uint64_t now = clock_now();
    if (resize_try(order.memory, true)) {
        o->waits = false;
        orders_granted(o, &order);
        return;
    }
    if (now >= o->deadline) {
        o->waits = false;
        resize_give_up();
        orders_answer(o, &order, SHARE_IN_USE,
                      "its programs still hold %llu MiB after %u s, more than %llu MiB: nothing was changed",
                      resize_look(&held) ? MIB(held.held + 0xfffff) : 0, (unsigned)((order.within_ms + 500) / 1000),
                      MIB(order.memory));
        return;
    }
    if (now < o->ask_again)
        return;
    resize_recall(order.memory);
    o->ask_again = now + ORDERS_ASK_NS;
}

static void orders_bridge(struct orders *o, const struct share_order *order, int fd)
{
    if (bridges_add(o->bridges, o->workers, order->program, order->departs, fd))
        orders_answer(o, order, SHARE_DONE, "%s", "");
    else
        orders_answer(o, order, SHARE_INVALID, "no worker of program %llu takes it",
                      (unsigned long long)order->program);
}

static void orders_connections(struct orders *o, const struct share_order *order, const int *fds, unsigned count)
{
    bool given = bridges_connections(o->workers, order, fds, count);
    fd_message_close(fds, count);
    orders_answer(o, order, given ? SHARE_DONE : SHARE_INVALID, given ? "" : "no worker of program %llu takes them",
                  (unsigned long long)order->program);
}

/* Whether so many descriptors belong to it. */
static bool orders_fits(const struct share_order *order, unsigned count)
{
    if (order->kind == SHARE_LANES || order->kind == SHARE_LINKS)
        return count >= 1 && count <= (order->kind == SHARE_LANES ? SHARE_LANES_MOST : SHARE_LINKS_MOST);
    return count == (order->kind == SHARE_BRIDGE);
}

/* ---- the connection ---- */

static void orders_accept(struct orders *o)
{
    int fd = accept4(o->listens, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    orders_drop_connection(o);
    o->connection = fd;
}

static void orders_hear(struct orders *o)
{
    uint8_t bytes[SHARE_ORDER_MOST_SIZE];
    struct share_order order;
    int fds[FD_MESSAGE_MOST];
    unsigned count;
    for (int i = 0; i < ORDERS_AT_ONCE; i++) {
        ssize_t n = fd_message_receive(o->connection, bytes, sizeof bytes, MSG_DONTWAIT, fds, &count);
        if (n == -EAGAIN)
            return;
        if (n <= 0 || !share_order_get(bytes, (size_t)n, &order) || !orders_fits(&order, count)) {
            fd_message_close(fds, count);
            if (n > 0)
                log_warning("event=order-refused why=\"%zd bytes that are no order\": the connection is closed", n);
            orders_drop_connection(o);
            return;
        }
        switch ((enum share_order_kind)order.kind) {
        case SHARE_SET: orders_share(o, &order); break;
        case SHARE_BRIDGE: orders_bridge(o, &order, fds[0]); break;
        case SHARE_LANES:
        case SHARE_LINKS: orders_connections(o, &order, fds, count); break;
        case SHARE_LOOK:
            orders_answer(o, &order, SHARE_DONE, "%s%s", SHARE_BRIDGES " " SHARE_DIRECT,
                          o->workers->options->links_ordered ? " " SHARE_LINKED : "");
            break;
        }
    }
}

void orders_poll(const struct orders *o, struct pollfd polled[ORDERS_POLLED])
{
    polled[0] = (struct pollfd){ .fd = o->listens, .events = POLLIN };
    polled[1] = (struct pollfd){ .fd = o->connection, .events = POLLIN };
}

void orders_turn(struct orders *o, const struct pollfd polled[ORDERS_POLLED])
{
    if (polled[1].revents && o->connection == polled[1].fd)
        orders_hear(o);
    /* Behind what the old connection has said: a new one asks first what holds. */
    if (polled[0].revents & POLLIN)
        orders_accept(o);
    if (o->waits)
        orders_wait(o);
}

uint64_t orders_due(const struct orders *o) { return o->waits ? clock_now() + ORDERS_LOOK_NS : UINT64_MAX; }

void orders_close(struct orders *o)
{
    orders_drop_connection(o);
    if (o->listens >= 0)
        close(o->listens);
    o->listens = -1;
}
