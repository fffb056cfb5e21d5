/*
 * lanes_out.c: bytes of copies from the device that go out on lanes; see the head of lanes.c.
 *
 * A copy out that asked for it hands its slot to the lane's writer, a thread that is started with the
 * first of them. So neither the executor nor the completion thread ever waits for a client to take bytes. What has been
 * fetched and not written is bounded (lanes_congested).
 */
#include "cpu/rpc/transport/liveness.h"
#include "cpu/server/lanes/lane_state.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

bool lanes_known(struct session *session, uint32_t lane)
{
    struct lanes *lanes = session->lanes;
    if (!lanes || lane < 1 || lane > LANES_ALL)
        return false;
    pthread_mutex_lock(&lanes->lock);
    bool open = lanes->lanes[lane - 1].state == LANE_OPEN;
    pthread_mutex_unlock(&lanes->lock);
    return open;
}

bool lanes_congested(struct session *session)
{
    return session->lanes && atomic_load(&session->lanes->jobs) >= LANE_WRITING;
}

struct writer { struct lanes *lanes; uint32_t number; };

/* The program that was to leave by a direct lane stays. The new server sees the end of the connection. */
static void writer_failed(struct lanes *lanes, uint32_t number, rpc_channel *channel, int status)
{
    struct lane *lane = &lanes->lanes[number - 1];
    if (!lane->departs) {
        lane_broke(lanes, number, strerror(-status));
        return;
    }
    log_info("event=direct-lane-broke session=%llu lane=%u why=\"%s\"", (unsigned long long)lanes->session->id, number,
             strerror(-status));
    pthread_mutex_lock(&lanes->lock);
    lane->state = LANE_CLOSED;
    pthread_mutex_unlock(&lanes->lock);
    rpc_channel_shutdown(channel);
}

/* The job stays the list's first while it is written: lanes_context_gone looks there. */
static void *writer_main(void *context)
{
    struct writer *writer = context;
    struct lanes *lanes = writer->lanes;
    struct lane *lane = &lanes->lanes[writer->number - 1];
    uint32_t number = writer->number;
    bool broken = false;
    free(writer);
    pthread_mutex_lock(&lanes->lock);
    for (;;) {
        struct job *job;
        while (!(job = lane->first) && !lane->closing)
            pthread_cond_wait(&lane->wake, &lanes->lock);
        if (!job)
            break;
        rpc_channel *channel = lane->channel;
        const bool departs = lane->departs;
        pthread_mutex_unlock(&lanes->lock);
        uint8_t head[RPC_LANE_HEAD];
        rpc_lane_put(head, &(struct rpc_lane_record){ .transfer = job->transfer, .lane = number, .length = job->size });
        struct iovec vector[2] = { { head, sizeof head }, { job->slot ? job->slot->memory : NULL, job->size } };
        /* A client may take its time. A server takes what comes, if it runs. */
        uint64_t until = departs ? clock_now() + (uint64_t)rpc_silence_seconds() * CLOCK_NS_PER_SECOND : 0;
        int status = broken ? 0 : rpc_lane_send(channel, vector, 2, until);
        if (status < 0) {
            broken = true;
            writer_failed(lanes, number, channel, status);
        }
        if (job->slot)
            staging_give(lanes->session, job->slot);
        pthread_mutex_lock(&lanes->lock);
        lane->first = job->next;
        if (!lane->first)
            lane->last = &lane->first;
        atomic_fetch_sub(&lanes->jobs, 1);
        pthread_cond_broadcast(&lanes->changed);
        free(job);
        bool kick = atomic_load(&lanes->session->executor.deferred_calls);
        if (kick) {
            pthread_mutex_unlock(&lanes->lock);
            executor_kick(lanes->session);
            pthread_mutex_lock(&lanes->lock);
        }
    }
    pthread_mutex_unlock(&lanes->lock);
    return NULL;
}

bool lane_writer_start(struct lanes *lanes, uint32_t number)
{
    FLYT_ASSERT_HELD(&lanes->lock);
    struct lane *lane = &lanes->lanes[number - 1];
    if (lane->writing)
        return true;
    struct writer *writer = malloc(sizeof *writer);
    if (!writer)
        return false;
    *writer = (struct writer){ lanes, number };
    lane->closing = false;
    lane->writing = pthread_create(&lane->writer, NULL, writer_main, writer) == 0;
    if (!lane->writing)
        free(writer);
    return lane->writing;
}

bool lanes_write(struct session *session, uint32_t number, uint32_t transfer, struct slot *slot, uint64_t size)
{
    struct lanes *lanes = session->lanes;
    struct lane *lane = &lanes->lanes[number - 1];
    struct job *job = malloc(sizeof *job);
    if (!job)
        return false;
    *job = (struct job){ .transfer = transfer, .slot = slot, .size = size };
    pthread_mutex_lock(&lanes->lock);
    bool open = !lanes->stop && lane->state == LANE_OPEN && lane_writer_start(lanes, number);
    if (open) {
        *lane->last = job;
        lane->last = &job->next;
        atomic_fetch_add(&lanes->jobs, 1);
        pthread_cond_signal(&lane->wake);
    }
    pthread_mutex_unlock(&lanes->lock);
    if (!open)
        free(job);
    return open;
}

static bool lanes_job_on(struct lanes *lanes, const struct context *context)
{
    for (unsigned i = 0; i < LANES_ALL; i++)
        for (const struct job *job = lanes->lanes[i].first; job; job = job->next)
            if (job->slot && job->slot->context == context)
                return true;
    return false;
}

void lanes_wait_written(struct lanes *lanes, const struct context *context)
{
    pthread_mutex_lock(&lanes->lock);
    while (lanes_job_on(lanes, context))
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    pthread_mutex_unlock(&lanes->lock);
}
