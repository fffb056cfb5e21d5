/*
 * lanes.c: further connections of the session for the bytes of large copies over TCP (cpu_rpc_prot.x says what
 * travels on them). The calls stay on the session's own connection, so nobody's launch waits behind another's
 * gigabyte.
 *
 * To the device. The copying thread writes records from the program's own memory, as many at once as there are lanes.
 * A COPY_IN whose bytes have not come holds its stream, and if that is the legacy one all others too. So the call is
 * sent when the lane's bytes have been acknowledged by the other machine, or when there is nothing left to write
 * meanwhile. The thread waits only for sockets, and for credit: the server keeps the bytes of `window` transfers
 * until their copies have ended, so not more are under way. A stream may have as many as are left for all others:
 * half of them, if it is alone, so that a stream that stands still (behind a kernel without end, say) never takes the
 * last. Credit comes back with the answer to a STREAM_SYNC behind every few copies; nobody waits for the last of
 * these.
 *
 * From the device. Where the bytes belong is noted before the call is sent. Whoever waits for a copy reads its lane
 * when the reply has come, and puts what it finds where it belongs, also others' bytes; one thread at a time per
 * lane. For copies into pinned memory, that nobody waits for, there is a thread (`deferred`).
 *
 * Lanes are opened by the first large copy that is to use them (lanes_choice.c).
 *
 * Locks: opening > lanes.lock; a lane's `sending` is held for one record, and nothing but the network is waited for
 * under it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "lane_state.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

struct lanes_state lanes = { .opening = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER,
                             .deferred_wake = PTHREAD_COND_INITIALIZER, .deferred_last = &lanes.deferred };

/* ---- settings ---- */

void lanes_offered(void)
{
    lanes.offered = (core_session.hello.capabilities & FLYT_CAP_LANES) != 0 && !core_perf.no_lanes && lanes.most > 0 &&
                    !journal_wished() && !session_several();
    lanes.failed = false;
}

/* FLYT_LANES=COUNT or COUNT:BYTES. */
void lanes_setup(void)
{
    const char *text = env_get("FLYT_LANES");
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++) {
        lanes.lanes[i].number = i + 1;
        pthread_mutex_init(&lanes.lanes[i].sending, NULL);
    }
    lanes.most = LANES_MOST;
    lanes.least = LANES_MIN;
    lanes_offered();
    lanes.many = sysconf(_SC_NPROCESSORS_ONLN) >= LANES_PROCESSORS;
    lanes_choose(lanes.many);
    if (!text || !*text)
        return;
    char *end;
    unsigned long count = strtoul(text, &end, 10), bytes = LANES_MIN;
    if (end != text && *end == ':')
        bytes = strtoul(end + 1, &end, 10);
    if (*end || count > FLYT_MAX_LANES || !bytes) {
        log_warning(
            "FLYT_LANES=%s is not a number of connections from 0 to %d, perhaps with :BYTES behind it; it is ignored",
            text, FLYT_MAX_LANES);
        return;
    }
    lanes.most = (unsigned)count;
    lanes.least = bytes;
    lanes.fixed = true;
    lanes_offered();
    lanes_choose(true);
}

/* ---- loss ---- */

void lanes_broken(const struct client_lane *lane, int status, const char *doing)
{
    char reason[200];
    snprintf(reason, sizeof reason, "lane %u, one of its connections for large copies, broke while %s: %s",
             lane->number, doing,
             status == 0 || status == -ENODATA ? "the server closed it"
             : status == -EPROTO               ? "the server sent what was not asked for"
                                               : strerror(-status));
    if (rpc_client_lost(core_session.client))
        return;
    session_lost(&core_session, reason);
    rpc_client_shutdown(core_session.client);
}

void lanes_lost(void)
{
    pthread_mutex_lock(&lanes.lock);
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        if (lanes.lanes[i].open)
            rpc_channel_shutdown(lanes.lanes[i].channel);
    pthread_cond_broadcast(&lanes.changed);
    pthread_mutex_unlock(&lanes.lock);
}

/* 0, or -errno: the connection has failed. */
static int lane_status(const struct client_lane *lane)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    struct pollfd fd = { .fd = lane->open ? lane->channel->operations->descriptor(lane->channel) : -1 };
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&fd, 1, 0) <= 0 || !(fd.revents & (POLLERR | POLLHUP)))
        return 0;
    getsockopt(fd.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error ? -error : -ECONNRESET;
}

/* Whoever has written all its bytes, and waits for the reply, does not touch the lane again. */
void lanes_look(void)
{
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++) {
        pthread_mutex_lock(&lanes.lock);
        int status = lane_status(&lanes.lanes[i]);
        pthread_mutex_unlock(&lanes.lock);
        if (status < 0)
            lanes_broken(&lanes.lanes[i], status, "nothing was written or read");
    }
}

bool lanes_gone(void)
{
    return rpc_client_lost(core_session.client) || atomic_load(&core_session.sticky) == CORE_DEVICE_UNAVAILABLE;
}

void lanes_abandon(void)
{
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        if (lanes.lanes[i].open)
            rpc_channel_abandon(lanes.lanes[i].channel);
}

/* ---- opening ---- */

/* A failure is reported once; then large copies go over the connections that there are. */
bool lane_open(unsigned number)
{
    FLYT_ASSERT_HELD(&lanes.opening);
    CANCEL_OFF;
    struct client_lane *lane = &lanes.lanes[number - 1];
    lane_args args = { .lane = number };
    lane_result result = { 0 };
    char error[RPC_ERROR_SIZE] = "";
    uint64_t deadline = clock_now() + (uint64_t)LANES_OPEN_MS * CLOCK_NS_PER_MS;
    int code;
    while ((code = wire_call(&core_session, FLYT_LANE, (xdrproc_t)xdr_lane_args, &args, (xdrproc_t)xdr_lane_result,
                             &result)) ==
               CORE_INVALID_VALUE &&
           clock_now() < deadline) {
        xdr_free((xdrproc_t)xdr_lane_result, &result);
        memset(&result, 0, sizeof result);
        /* it was closed just now, and the server has not yet seen that */
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    if (!code && (!result.chunk || !result.window)) {
        code = CORE_SYSTEM_NOT_READY;
        snprintf(error, sizeof error, "it gives no credit");
    }
    if (!code) {
        uint8_t hello[RPC_LANE_HEAD];
        char welcome[RPC_LANE_MAGIC];
        struct iovec key = { result.key, sizeof result.key };
        rpc_channel *channel = NULL;
        rpc_lane_put_hello(hello, session_number(), number);
        int status = rpc_lane_connect(core_session.uri, LANES_OPEN_MS, hello, &channel, error);
        if (status == 0 && !channel->operations->receive_into)
            status = -ENOTSUP;
        if (status == 0 && (status = rpc_lane_send(channel, &key, 1, deadline)) == 0)
            status = rpc_lane_receive(channel, welcome, sizeof welcome, deadline);
        if (status == 0 && memcmp(welcome, rpc_lane_magic, sizeof welcome) != 0)
            status = -EPROTO;
        if (status < 0 && channel) {
            rpc_channel_destroy(channel);
            snprintf(error, sizeof error, "%s",
                     status == -ENODATA || status == -ECONNRESET ? "it closed the connection" : strerror(-status));
        }
        pthread_mutex_lock(&lanes.lock);
        if (status == 0) {
            if (!lanes.window) {
                lanes.chunk = result.chunk < LANES_CHUNK ? result.chunk : LANES_CHUNK;
                lanes.window = lanes.free = result.window;
            }
            lane->channel = channel;
            lane->open = true;
            atomic_store(&lanes.used, number);
        }
        pthread_mutex_unlock(&lanes.lock);
        code = status;
    }
    explicit_bzero(result.key, sizeof result.key);
    xdr_free((xdrproc_t)xdr_lane_result, &result);
    if (code && !lanes_gone())
        log_warning("no further connection for large copies could be opened to %s: %s; they share %s", core_session.uri,
                    error[0] ? error : "it refused",
                    number > 1 ? "those that there are" : "the one that there is with all calls");
    return !code;
}

/* The first ones, if there are none. */
static bool lanes_opened(void)
{
    if (atomic_load(&lanes.used))
        return true;
    pthread_mutex_lock(&lanes.opening);
    unsigned first = lanes.fixed ? lanes.most : 1;
    while (!lanes.failed && atomic_load(&lanes.used) < first)
        lanes.failed = !lane_open(atomic_load(&lanes.used) + 1);
    pthread_mutex_unlock(&lanes.opening);
    return atomic_load(&lanes.used) > 0;
}

bool lanes_wanted(size_t size, bool stands)
{
    return lanes.offered && size >= lanes.least && (stands || lanes_beside()) && lanes_opened();
}

bool lane_close(struct client_lane *lane)
{
    FLYT_ASSERT_HELD(&lanes.opening);
    pthread_mutex_lock(&lanes.lock);
    bool idle = !lane->incoming && !lane->reading && pthread_mutex_trylock(&lane->sending) == 0;
    if (idle) {
        atomic_store(&lanes.used, lane->number - 1);
        lane->open = false;
        rpc_channel_destroy(lane->channel);
        lane->channel = NULL;
        pthread_mutex_unlock(&lane->sending);
    }
    pthread_mutex_unlock(&lanes.lock);
    return idle;
}

bool lanes_leave(void)
{
    pthread_mutex_lock(&lanes.opening);
    bool left = true;
    for (unsigned used; left && (used = atomic_load(&lanes.used));)
        left = lane_close(&lanes.lanes[used - 1]);
    if (left) {
        pthread_mutex_lock(&lanes.lock);
        lanes.window = lanes.free = 0;            /* the next lane says how much credit there is */
        memset(lanes.held, 0, sizeof lanes.held);
        pthread_mutex_unlock(&lanes.lock);
    }
    pthread_mutex_unlock(&lanes.opening);
    return left;
}

/* ---- what was done ---- */

void lanes_statistics(struct lanes_statistics *out)
{
    *out = (struct lanes_statistics){ .open = atomic_load(&lanes.used), .sent = atomic_load(&lanes.sent),
                                      .received = atomic_load(&lanes.received) };
}
