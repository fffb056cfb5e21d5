/*
 * direct.c: direct lanes at the server that a session leaves (cpu_rpc_prot.x says what is said on them).
 *
 * This server cannot connect to anything. Its node manager has made connections to the server to which the session
 * moves, and given them to this worker (lanes_dialled). Nothing has been said on them: the client brings the keys that
 * the new server has given it, and then each is one lane, with a writer (lanes_out.c) and no reader. The client can
 * choose neither where they lead nor whose certificate counts there: the managers say both.
 *
 * A direct lane that breaks is of no consequence here: the session stays, and the client learns of it from the new
 * server, or when a copy names that lane.
 *
 * Threads: opening and ending are calls in threads of their own, which `departing` lets through one at a time.
 */
#include "cpu/server/lanes/lane_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

#define DEPART_NS (5 * CLOCK_NS_PER_SECOND)

/* Connections on which nothing has been said. */
struct dialled {
    char *address;
    int fds[FLYT_MAX_LANES];
    unsigned count;
};

static void dialled_drop(struct dialled *dialled)
{
    if (!dialled)
        return;
    for (unsigned i = 0; i < dialled->count; i++)
        close(dialled->fds[i]);
    free(dialled->address);
    free(dialled);
}

static struct dialled *dialled_take(struct lanes *lanes)
{
    pthread_mutex_lock(&lanes->lock);
    struct dialled *dialled = lanes->dialled;
    lanes->dialled = NULL;
    pthread_mutex_unlock(&lanes->lock);
    return dialled;
}

void lanes_dialled(struct session *session, const char *address, const int *fds, unsigned count)
{
    struct lanes *lanes = session->lanes;
    struct dialled *dialled = lanes ? calloc(1, sizeof *dialled) : NULL, *before = NULL;
    if (dialled && !(dialled->address = strdup(address))) {
        free(dialled);
        dialled = NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!dialled || dialled->count == FLYT_MAX_LANES)
            close(fds[i]);
        else if ((dialled->fds[dialled->count] = fd_keep(fds[i])) >= 0)
            dialled->count++;
    }
    if (!dialled)
        return;
    pthread_mutex_lock(&lanes->lock);
    before = lanes->dialled;
    lanes->dialled = dialled;
    pthread_mutex_unlock(&lanes->lock);
    dialled_drop(before);
}

/* ---- opening ---- */

/* A lane of this number on which the session came here may not have ended yet: its last record is read by a thread of
   its own. */
static bool lane_is_free(struct lanes *lanes, const struct lane *lane, uint64_t deadline)
{
    struct timespec until = clock_timespec(deadline);
    int timeout = 0;
    pthread_mutex_lock(&lanes->lock);
    while (!lanes->stop && (lane->state == LANE_OPEN || lane->writing) && timeout == 0)
        timeout = pthread_cond_clockwait(&lanes->changed, &lanes->lock, CLOCK_MONOTONIC, &until);
    bool is_free = !lanes->stop && lane->state != LANE_OPEN && !lane->writing;
    pthread_mutex_unlock(&lanes->lock);
    return is_free;
}

static bool lane_depart(struct lanes *lanes, uint32_t number, int fd, const char *address, uint64_t target,
                        const uint8_t key[FLYT_LANE_KEY_SIZE], uint64_t deadline)
{
    struct lane *lane = &lanes->lanes[number - 1];
    uint8_t hello[RPC_LANE_HEAD];
    char welcome[RPC_LANE_MAGIC] = "", error[RPC_ERROR_SIZE] = "";
    struct iovec secret = { (void *)(uintptr_t)key, FLYT_LANE_KEY_SIZE };
    rpc_channel *channel = NULL;
    if (!lane_is_free(lanes, lane, deadline)) {
        log_info("event=no-direct-lane session=%llu lane=%u why=\"it is in use\"",
                 (unsigned long long)lanes->session->id, number);
        close(fd);
        return false;
    }
    rpc_lane_put_hello(hello, target, number);
    int status = lanes->ways->depart(fd, address, hello, sizeof hello, deadline, &channel, error);
    if (status == 0 && (status = rpc_lane_send(channel, &secret, 1, deadline)) == 0)
        status = rpc_lane_receive(channel, welcome, sizeof welcome, deadline);
    if (status == 0 && memcmp(welcome, rpc_lane_magic, sizeof welcome) != 0)
        status = -EPROTO;
    pthread_mutex_lock(&lanes->lock);
    bool open = status == 0 && !lanes->stop && lane->state != LANE_OPEN && !lane->writing;
    if (open) {
        lane->state = LANE_OPEN;
        lane->departs = true;
        lane->channel = channel;
    }
    pthread_mutex_unlock(&lanes->lock);
    if (open)
        return true;
    log_info("event=no-direct-lane session=%llu lane=%u why=\"%s\"", (unsigned long long)lanes->session->id, number,
             *error ? error : strerror(status ? -status : ECANCELED));
    if (channel)
        rpc_channel_destroy(channel);
    return false;
}

static unsigned lanes_depart(struct lanes *lanes, struct dialled *dialled, const depart_args *args)
{
    uint64_t deadline = clock_now() + DEPART_NS;
    unsigned open = 0, wanted = args->keys.keys_len < dialled->count ? args->keys.keys_len : dialled->count;
    for (bool good = true; good && open < wanted; open += good) {
        int fd = dialled->fds[open];
        dialled->fds[open] = -1;
        good = lane_depart(lanes, FLYT_MAX_LANES + 1 + open, fd, dialled->address, args->session,
                           (const uint8_t *)args->keys.keys_val[open], deadline);
    }
    return open;
}

/* ---- the end ---- */

static void lane_say_last(struct lanes *lanes, struct lane *lane, uint32_t number)
{
    FLYT_ASSERT_HELD(&lanes->lock);
    struct job *job = lane->state == LANE_OPEN && lane_writer_start(lanes, number) ? calloc(1, sizeof *job) : NULL;
    if (!job)
        return;
    *lane->last = job;
    lane->last = &job->next;
    atomic_fetch_add(&lanes->jobs, 1);
}

/* last: they end as they should. Else they are cut off where they are. */
static void direct_end(struct lanes *lanes, bool last)
{
    for (uint32_t number = FLYT_MAX_LANES + 1; number <= LANES_ALL; number++) {
        struct lane *lane = &lanes->lanes[number - 1];
        pthread_mutex_lock(&lanes->lock);
        bool departs = lane->departs;
        if (departs && last)
            lane_say_last(lanes, lane, number);
        lane->state = departs ? LANE_CLOSED : lane->state;
        lane->closing |= departs;
        bool writing = departs && lane->writing;
        if (departs && !last)
            rpc_channel_shutdown(lane->channel);
        pthread_cond_signal(&lane->wake);
        pthread_mutex_unlock(&lanes->lock);
        if (writing)
            pthread_join(lane->writer, NULL);
        pthread_mutex_lock(&lanes->lock);
        rpc_channel *channel = departs ? lane->channel : NULL;
        if (departs) {
            lane->writing = lane->departs = false;
            lane->channel = NULL;
        }
        pthread_mutex_unlock(&lanes->lock);
        if (channel)
            rpc_channel_destroy(channel);
    }
}

void direct_shutdown(struct lanes *lanes)
{
    FLYT_ASSERT_HELD(&lanes->lock);
    for (unsigned i = FLYT_MAX_LANES; i < LANES_ALL; i++)
        if (lanes->lanes[i].departs)
            rpc_channel_shutdown(lanes->lanes[i].channel);
}

void direct_stop(struct lanes *lanes)
{
    pthread_mutex_lock(&lanes->departing);
    direct_end(lanes, false);
    pthread_mutex_unlock(&lanes->departing);
    dialled_drop(dialled_take(lanes));
}

/* ---- DEPART ---- */

static void depart_answer(struct session *session, struct call *call, unsigned open, CUresult r)
{
    depart_result result = { .lanes = open };
    session_reply(session, call->xid, (xdrproc_t)xdr_depart_result, &result, r, false);
}

/* In a thread of its own, without session.lock: another server is waited for. */
static void depart_blocking(struct session *session, struct call *call)
{
    const depart_args *args = &call->args.depart;
    struct lanes *lanes = session->lanes;
    unsigned open = 0;
    CUresult r = CUDA_SUCCESS;
    session->heard();                     /* connections that came before this call are here now */
    pthread_mutex_lock(&lanes->departing);
    direct_end(lanes, !args->keys.keys_len && args->session);
    struct dialled *dialled = args->keys.keys_len ? dialled_take(lanes) : NULL;
    if (args->keys.keys_len)
        r = dialled && (open = lanes_depart(lanes, dialled, args)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (open)
        log_info("event=direct-lanes session=%llu to=%s lanes=%u", (unsigned long long)session->id, dialled->address,
                 open);
    pthread_mutex_unlock(&lanes->departing);
    dialled_drop(dialled);
    if (args->keys.keys_len)
        explicit_bzero(args->keys.keys_val, args->keys.keys_len * sizeof *args->keys.keys_val);
    depart_answer(session, call, open, r);
}

void serve_depart(struct session *session, struct call *call)
{
    if (!session->lanes || !call_serve_blocking(session, call, depart_blocking))
        depart_answer(session, call, 0, CUDA_ERROR_NOT_SUPPORTED);
}
