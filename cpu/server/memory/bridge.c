/*
 * bridge.c: see bridge.h.
 *
 * At the old server a thread answers what the new one asks, once the client has said that it leaves, until the other
 * end closes; the memory stays the session's. At the new server the thread of an ADOPT asks, one question at a time,
 * without session.lock.
 *
 * Neither end believes the other: its server may have been taken over. Each message has one length. The new server
 * maps only files whose size is what was said and can never change (softgpu_adopt_memory), where its own client wanted
 * them, and charges the tenant for them before.
 */
#include "cpu/server/memory/bridge.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/bridge_message.h"
#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/server/session.h"
#include "cpu/server/tenant/charge.h"
#include "cpu/server/tenant/tenant.h"

_Static_assert((int)LENT_MOST == (int)BRIDGE_PARTS && (int)LENT_MOST == (int)FD_MESSAGE_MOST, "a message's parts");

#define BRIDGE_PATIENCE_NS (5 * CLOCK_NS_PER_SECOND)

struct bridge {
    int fd;
    bool departs, leaving;        /* leaving: the client has said so */
    unsigned uses;                /* the session, its thread, who asks; under session.lock */
    pthread_mutex_t asking;       /* held for a question and its answer; the outermost */
    uint64_t number;              /* of the last question; under asking */
};

static void bridge_drop(struct bridge *bridge)
{
    if (--bridge->uses)
        return;
    close(bridge->fd);
    pthread_mutex_destroy(&bridge->asking);
    free(bridge);
}

/* ---- the old server ---- */

static void lent_close(struct lent *lent)
{
    fd_message_close(lent->fds, lent->count);
    lent->count = 0;
}

static uint64_t lent_size(const struct lent *lent)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < lent->count; i++)
        sum += lent->sizes[i];
    return sum;
}

static CUresult lend(struct session *session, const struct bridge *bridge, const struct bridge_question *question,
                     struct lent *lent)
{
    FLYT_ASSERT_HELD(&session->lock);
    if (!bridge->leaving || session->bridge != bridge)
        return CUDA_ERROR_NOT_PERMITTED;
    if (question->kind == BRIDGE_HANDLE)
        return handle_lend(session, question->name, lent);
    struct context *context = question->name < FLYT_MAX_CONTEXTS ? context_find(session, (uint32_t)question->name)
                                                                 : NULL;
    return context ? memory_lend(session, context, question->address, question->size, lent)
                   : CUDA_ERROR_INVALID_CONTEXT;
}

/* False: the connection has ended. */
static bool answer_one(struct session *session, struct bridge *bridge)
{
    uint8_t bytes[BRIDGE_ANSWER_SIZE];
    struct bridge_question question;
    struct bridge_answer answer = { .count = 0 };
    struct lent lent = { .count = 0 };
    int fds[FD_MESSAGE_MOST];
    unsigned count;
    ssize_t n = fd_message_receive(bridge->fd, bytes, BRIDGE_QUESTION_SIZE, 0, fds, &count);
    fd_message_close(fds, count);
    if (n <= 0 || !bridge_question_get(bytes, (size_t)n, &question))
        return false;
    pthread_mutex_lock(&session->lock);
    CUresult r = lend(session, bridge, &question, &lent);
    pthread_mutex_unlock(&session->lock);
    answer.number = question.number;
    answer.status = r == CUDA_SUCCESS && !lent.count ? CUDA_ERROR_INVALID_VALUE : (uint32_t)r;
    answer.count = r == CUDA_SUCCESS ? lent.count : 0;
    memcpy(answer.size, lent.sizes, sizeof answer.size);
    bridge_answer_put(&answer, bytes);
    int sent = fd_message_send(bridge->fd, bytes, BRIDGE_ANSWER_SIZE, lent.fds, answer.count);
    lent_close(&lent);
    return sent == 0;
}

struct answering { struct session *session; struct bridge *bridge; };

static void *answer_all(void *context)
{
    struct answering by = *(struct answering *)context;
    free(context);
    while (answer_one(by.session, by.bridge))
        ;
    pthread_mutex_lock(&by.session->lock);
    if (by.session->bridge == by.bridge) {
        by.session->bridge = NULL;
        by.bridge->uses--;
    }
    bridge_drop(by.bridge);
    pthread_mutex_unlock(&by.session->lock);
    return NULL;
}

/* ---- both ---- */

static bool answering_begin(struct session *session, struct bridge *bridge)
{
    struct answering *by = malloc(sizeof *by);
    pthread_t thread;
    if (!by)
        return false;
    *by = (struct answering){ session, bridge };
    if (pthread_create(&thread, NULL, answer_all, by) != 0) {
        free(by);
        return false;
    }
    pthread_detach(thread);
    bridge->uses++;
    return true;
}

bool bridge_possible(const struct session *session) { return session->gpu->adopt_memory && session->shareable; }

void bridge_open(struct session *session, int fd, bool departs)
{
    struct bridge *bridge = bridge_possible(session) ? malloc(sizeof *bridge) : NULL;
    fd = fd_keep(fd);
    if (!bridge || fd < 0) {
        free(bridge);
        if (fd >= 0)
            close(fd);
        return;
    }
    *bridge = (struct bridge){ .fd = fd, .departs = departs, .uses = 1 };
    pthread_mutex_init(&bridge->asking, NULL);
    pthread_mutex_lock(&session->lock);
    struct bridge *before = session->bridge;
    session->bridge = bridge;
    if (before) {
        shutdown(before->fd, SHUT_RDWR);  /* its thread sees the end */
        bridge_drop(before);
    }
    if (departs && !answering_begin(session, bridge)) {
        session->bridge = NULL;
        bridge_drop(bridge);
    }
    pthread_mutex_unlock(&session->lock);
}

static void plain_answer(struct session *session, struct call *call, CUresult r)
{
    plain_result result = { .head = { .result = 0 } };
    session_reply(session, call->xid, (xdrproc_t)xdr_plain_result, &result, r, false);
}

/* In a thread of its own, without session.lock: the end that the node manager sent before this call may still be on its
   way from the listener. */
static void bridge_blocking(struct session *session, struct call *call)
{
    if (session->heard)
        session->heard();
    pthread_mutex_lock(&session->lock);
    struct bridge *bridge = session->bridge;
    bool departs = call->args.bridge.departs != 0, here = bridge && bridge->departs == departs;
    if (here && departs)
        bridge->leaving = true;
    plain_answer(session, call, here ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
    pthread_mutex_unlock(&session->lock);
}

void serve_bridge(struct session *session, struct call *call)
{
    if (!call_serve_blocking(session, call, bridge_blocking))
        plain_answer(session, call, CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- the new server ---- */

/* The answer to that question. An answer to an earlier one, which had been given up, is dropped. */
static CUresult hear(struct bridge *bridge, uint64_t until, struct bridge_answer *answer, struct lent *lent)
{
    uint8_t bytes[BRIDGE_ANSWER_SIZE];
    struct pollfd polled = { .fd = bridge->fd, .events = POLLIN };
    for (;;) {
        if (poll(&polled, 1, clock_poll_timeout(until)) <= 0 && clock_now() >= until)
            return CUDA_ERROR_OPERATING_SYSTEM;
        ssize_t n = fd_message_receive(bridge->fd, bytes, sizeof bytes, MSG_DONTWAIT, lent->fds, &lent->count);
        if (n == -EAGAIN)
            continue;
        if (n <= 0 || !bridge_answer_get(bytes, (size_t)n, answer))
            return CUDA_ERROR_OPERATING_SYSTEM;
        if (answer->number == bridge->number)
            return answer->count == lent->count ? (CUresult)answer->status : CUDA_ERROR_OPERATING_SYSTEM;
        lent_close(lent);
    }
}

/* The caller closes what is lent, whatever comes. */
static CUresult ask(struct bridge *bridge, struct bridge_question *question, struct lent *lent)
{
    uint8_t bytes[BRIDGE_QUESTION_SIZE];
    struct bridge_answer answer = { .count = 0 };
    lent->count = 0;
    pthread_mutex_lock(&bridge->asking);
    question->number = ++bridge->number;
    bridge_question_put(question, bytes);
    CUresult r = fd_message_send(bridge->fd, bytes, sizeof bytes, NULL, 0) == 0
                     ? hear(bridge, clock_now() + BRIDGE_PATIENCE_NS, &answer, lent)
                     : CUDA_ERROR_OPERATING_SYSTEM;
    pthread_mutex_unlock(&bridge->asking);
    memcpy(lent->sizes, answer.size, sizeof lent->sizes);
    return r;
}

/* That by which this session comes; NULL: none. bridge_drop, with session.lock. */
static struct bridge *bridge_take(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    struct bridge *bridge = session->bridge && !session->bridge->departs ? session->bridge : NULL;
    if (bridge)
        bridge->uses++;
    pthread_mutex_unlock(&session->lock);
    return bridge;
}

/* Some of the range. */
static CUresult adopt_some(struct session *session, struct bridge *bridge, const adopt_args *args, uint64_t done,
                           uint64_t *more)
{
    struct bridge_question question = { .kind = BRIDGE_PIECES, .name = args->context, .address = args->address + done,
                                        .size = args->size - done };
    struct lent lent;
    CUresult r = ask(bridge, &question, &lent);
    struct tenant_try try = tenant_try_begin(0, r == CUDA_SUCCESS ? lent_size(&lent) : 0, TENANT_PATIENCE_NS, false);
    bool again = r == CUDA_SUCCESS;
    while (again) {
        pthread_mutex_lock(&session->lock);
        struct context *context = context_find(session, args->context);
        try.device = context ? (uint32_t)context->device->index : 0;
        r = context ? memory_adopt(session, context, question.address, question.size, &lent, more)
                    : CUDA_ERROR_INVALID_CONTEXT;
        again = r == CUDA_ERROR_OUT_OF_MEMORY && charge_shared(session);
        pthread_mutex_unlock(&session->lock);
        again = again && tenant_try_again(&try);
    }
    lent_close(&lent);
    return r;
}

/* In a thread of its own, without session.lock: another worker is asked. */
static void adopt_blocking(struct session *session, struct call *call)
{
    const adopt_args *args = &call->args.adopt;
    struct bridge *bridge = bridge_take(session);
    uint64_t done = 0, more = 0;
    CUresult r = !bridge ? CUDA_ERROR_NOT_SUPPORTED : args->size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    while (r == CUDA_SUCCESS && done < args->size) {
        r = adopt_some(session, bridge, args, done, &more);
        done += r == CUDA_SUCCESS ? more : 0;
    }
    pthread_mutex_lock(&session->lock);
    struct context *context = r != CUDA_SUCCESS && done ? context_find(session, args->context) : NULL;
    if (context)
        memory_adopted_end(session, context, args->address, done);
    plain_answer(session, call, r);
    if (bridge)
        bridge_drop(bridge);
    pthread_mutex_unlock(&session->lock);
}

void serve_adopt(struct session *session, struct call *call)
{
    if (!call_serve_blocking(session, call, adopt_blocking))
        plain_answer(session, call, CUDA_ERROR_NOT_SUPPORTED);
}

static void handle_adopt_blocking(struct session *session, struct call *call)
{
    const handle_create_args *args = &call->args.handle_create;
    struct bridge *bridge = bridge_take(session);
    struct bridge_question question = { .kind = BRIDGE_HANDLE, .name = args->handle };
    struct lent lent = { .count = 0 };
    CUresult r = bridge ? ask(bridge, &question, &lent) : CUDA_ERROR_NOT_SUPPORTED;
    struct tenant_try try = tenant_try_begin((unsigned)args->device, args->size, TENANT_PATIENCE_NS, false);
    bool again = r == CUDA_SUCCESS && lent.sizes[0] == args->size;
    if (r == CUDA_SUCCESS && !again)
        r = CUDA_ERROR_INVALID_VALUE;
    while (again) {
        pthread_mutex_lock(&session->lock);
        r = handle_adopt(session, args->handle, args->device, &lent);
        again = r == CUDA_ERROR_OUT_OF_MEMORY && charge_shared(session);
        pthread_mutex_unlock(&session->lock);
        again = again && tenant_try_again(&try);
    }
    pthread_mutex_lock(&session->lock);
    plain_answer(session, call, r);
    if (bridge)
        bridge_drop(bridge);
    pthread_mutex_unlock(&session->lock);
    lent_close(&lent);
}

void serve_handle_adopt(struct session *session, struct call *call)
{
    if (!call_serve_blocking(session, call, handle_adopt_blocking))
        plain_answer(session, call, CUDA_ERROR_NOT_SUPPORTED);
}
