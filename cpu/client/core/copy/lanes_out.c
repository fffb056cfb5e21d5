/* lanes_out.c: large copies from the device; see the head of lanes.c. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "lane_state.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/state.h"

/* ---- from the device: reading ---- */

static struct lane_out **out_find(uint32_t transfer)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    struct lane_out **at = &lanes.incoming[transfer % LANES_INCOMING];
    while (*at && (*at)->via.transfer != transfer)
        at = &(*at)->next;
    return at;
}

/* A record's head has come. */
static bool record_begins(struct client_lane *lane)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    rpc_lane_get(lane->head, &lane->record);
    const struct rpc_lane_record *r = &lane->record;
    struct lane_out *out = *out_find(r->transfer);
    if (!out || out->via.lane != lane->number || r->lane != lane->number || !r->length)
        return false;
    uint64_t size = rows_size(&out->to);
    if (r->length > out->left || r->offset > size - r->length)
        return false;
    lane->current = out;
    lane->got = 0;
    return true;
}

static void record_ends(struct client_lane *lane)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    struct lane_out *out = lane->current;
    out->left -= lane->record.length;
    lane->current = NULL;
    lane->head_got = 0;
    if (!out->left)
        pthread_cond_broadcast(&lanes.changed);
}

/* Receives what is there, whoever it is for. Releases lanes.lock meanwhile; the caller is the lane's reader. More
   than 0: something; -EAGAIN: nothing now; 0 or another -errno: the lane broke. */
static ssize_t lane_receive(struct client_lane *lane)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    struct iovec vector[LANES_VECTOR] = { { lane->head + lane->head_got, sizeof lane->head - lane->head_got } };
    int count = 1;
    struct lane_out *out = lane->current;
    if (out)
        count = rows_vector(&out->to, lane->record.offset + lane->got, lane->record.length - lane->got, vector,
                            LANES_VECTOR);
    lane->receiving = true;
    pthread_mutex_unlock(&lanes.lock);
    ssize_t got = rpc_channel_receive_into(lane->channel, vector, count);
    pthread_mutex_lock(&lanes.lock);
    lane->receiving = false;
    if (got <= 0)
        return got;
    atomic_fetch_add_explicit(&lanes.received, (uint64_t)got, memory_order_relaxed);
    if (!out) {
        lane->head_got += (size_t)got;
        return lane->head_got < sizeof lane->head || record_begins(lane) ? got : -EPROTO;
    }
    if (lane->current != out)                 /* it was given up */
        return -EPROTO;
    lane->got += (uint64_t)got;
    if (lane->got == lane->record.length)
        record_ends(lane);
    return got;
}

/* Reads the lane until the bytes of `out` have come. Releases lanes.lock meanwhile. */
static void lane_read(struct client_lane *lane, const struct lane_out *out)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    lane->reading = true;
    while (out->left && !lanes_gone()) {
        ssize_t got = lane_receive(lane);
        if (got > 0)
            continue;
        pthread_mutex_unlock(&lanes.lock);
        if (got == -EAGAIN)
            rpc_channel_poll(lane->channel, POLLIN, LANES_LOOK_MS, false);
        else
            lanes_broken(lane, (int)got, "receiving");
        pthread_mutex_lock(&lanes.lock);
    }
    lane->reading = false;
    pthread_cond_broadcast(&lanes.changed);               /* another may want to read it */
}

static void out_leave(struct lane_out *out)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    struct lane_out **at = out_find(out->via.transfer);
    if (*at != out)
        return;
    *at = out->next;
    lanes.lanes[out->via.lane - 1].incoming--;
}

static bool deferred_start(void);

flyt_via lane_out_begin(struct lane_out *out, const struct host_rows *to, bool deferred)
{
    *out = (struct lane_out){ .to = *to, .left = rows_size(to) };
    pthread_mutex_lock(&lanes.lock);
    unsigned used = atomic_load(&lanes.used);
    if (used && (!deferred || deferred_start())) {
        while (!out->via.transfer)
            out->via.transfer = atomic_fetch_add(&lanes.transfer, 1) + 1;
        out->via.lane = 1 + atomic_fetch_add(&lanes.turn, 1) % used;
        lanes.lanes[out->via.lane - 1].incoming++;
        out->next = lanes.incoming[out->via.transfer % LANES_INCOMING];
        lanes.incoming[out->via.transfer % LANES_INCOMING] = out;
    }
    pthread_mutex_unlock(&lanes.lock);
    return out->via;
}

int lane_out_wait(struct lane_out *out)
{
    CANCEL_OFF;
    struct client_lane *lane = &lanes.lanes[out->via.lane - 1];
    pthread_mutex_lock(&lanes.lock);
    while (out->left && !lanes_gone()) {
        if (lane->reading)
            pthread_cond_wait(&lanes.changed, &lanes.lock);
        else
            lane_read(lane, out);
    }
    bool here = !out->left;
    pthread_mutex_unlock(&lanes.lock);
    lane_out_cancel(out);
    return here ? CORE_OK : session_loss_wait(&core_session, CORE_DEVICE_UNAVAILABLE);
}

void lane_out_cancel(struct lane_out *out)
{
    if (!out->via.lane)
        return;
    struct client_lane *lane = &lanes.lanes[out->via.lane - 1];
    pthread_mutex_lock(&lanes.lock);
    if (lane->current == out) {
        /* Bytes that should not have come; the reader learns it from what it finds when it looks again. */
        lane->current = NULL;
        rpc_channel_shutdown(lane->channel);
        while (lane->receiving) {             /* moves what is there, and does not wait */
            pthread_mutex_unlock(&lanes.lock);
            sched_yield();
            pthread_mutex_lock(&lanes.lock);
        }
    }
    out_leave(out);
    pthread_mutex_unlock(&lanes.lock);
    out->via.lane = 0;
}

/* ---- from the device: for those whom nobody waits for ---- */

static void *deferred_run(void *unused)
{
    (void)unused;
    cancel_state_off();
    pthread_mutex_lock(&lanes.lock);
    for (;;) {
        struct lane_out *out;
        while (!(out = lanes.deferred))
            pthread_cond_wait(&lanes.deferred_wake, &lanes.lock);
        lanes.deferred = out->next_deferred;
        if (!lanes.deferred)
            lanes.deferred_last = &lanes.deferred;
        pthread_mutex_unlock(&lanes.lock);
        int code = lane_out_wait(out);
        out->arrived(out, code);
        pthread_mutex_lock(&lanes.lock);
    }
    return NULL;
}

static bool deferred_start(void)
{
    FLYT_ASSERT_HELD(&lanes.lock);
    sigset_t every, before;
    pthread_t thread;
    if (lanes.deferred_runs)
        return true;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    lanes.deferred_runs = pthread_create(&thread, NULL, deferred_run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (lanes.deferred_runs)
        pthread_detach(thread);
    return lanes.deferred_runs;
}

void lane_out_deferred(struct lane_out *out, void (*arrived)(struct lane_out *, int code))
{
    out->arrived = arrived;
    out->next_deferred = NULL;
    pthread_mutex_lock(&lanes.lock);
    *lanes.deferred_last = out;
    lanes.deferred_last = &out->next_deferred;
    pthread_cond_signal(&lanes.deferred_wake);
    pthread_mutex_unlock(&lanes.lock);
}

void lanes_copied_out(uint64_t bytes, uint64_t ns)
{
    if (atomic_load(&lanes.used))
        lanes_tune(1, bytes, ns);
}
