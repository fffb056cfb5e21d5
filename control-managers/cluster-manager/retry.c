/*
 * retry.c: tries to find GPU servers for the programs in the queue (queue.c), when something has become free or came.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>

enum { POSITIONS_TOLD = 32, SLICE_NS = 1000000 };

/* A request that is at least as large as one that has just failed, and no less choosy, fails too. */
static bool hopeless(const struct queue_look *look, const struct place_request *request)
{
    for (size_t i = 0; i < look->failures; i++) {
        const struct queue_shape *failed = &look->failed[i];
        if (request->sms >= failed->sms && request->memory >= failed->memory && request->gpus >= failed->gpus &&
            !(request->accepted & ~failed->accepted))
            return true;
    }
    return false;
}

/* It waits on. Those at the front hear of their place when it is another one. */
static void take_position(struct cluster *cluster, struct program *program)
{
    uint32_t position = ++cluster->look.position;
    bool moved = program->position != position;
    program->position = position;
    if (moved && position <= POSITIONS_TOLD)
        program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
}

/* The try went wrong, with text (CTL_MAX_TEXT + 1). False: the program was refused; it exists no more. */
static bool stays(struct cluster *cluster, struct program *program, ctl_code code, char *text)
{
    /* It was not to wait, and had a place where its server did not start. */
    bool hasty = code == CTL_BUSY && program->avoid_count && !program->expects_place &&
                 !program_may_wait(cluster, program);
    if (hasty)
        snprintf(text, CTL_MAX_TEXT + 1, "%.250s, and no other GPU is free", program->why);
    if (hasty || (code == CTL_NO_ROOM && !cluster_settling(cluster))) {
        program_refuse(cluster, program, code, text);
        return false;
    }
    snprintf(program->why, sizeof program->why, "%.250s", text);
    return true;
}

/* False: it has left the queue. */
static bool try_one(struct cluster *cluster, struct program *program)
{
    struct queue_look *look = &cluster->look;
    char text[CTL_MAX_TEXT + 1];
    struct place_request request = server_request(cluster, program);
    if (!server_is_shared(program) && !program->kept_count && hopeless(look, &request))
        return true;
    ctl_code code = server_try(cluster, program, text);
    if (code == CTL_OK || code == CTL_WAITING) {
        program_leave_queue(cluster, program);
        program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
        return false;
    }
    if (!stays(cluster, program, code, text))
        return false;
    if (!program->kept_count && !program->avoid_count && look->failures < QUEUE_SHAPES &&
        server_within_entitlement(program->vm, &request))
        look->failed[look->failures++] =
            (struct queue_shape){ request.sms, request.gpus, request.memory, request.accepted };
    return true;
}

/* A look at the whole queue, in slices of a millisecond: where hundreds wait, each try looks at all GPUs. What failed
   since it began counts until its end, although something may have become free meanwhile: so nobody behind gets what
   one in front did not, and the next look, which begins at the front again, gives it out. */
void queue_try(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct queue_look *look = &cluster->look;
    const uint64_t until = uv_hrtime() + SLICE_NS;
    if (!look->runs) {
        queue_keep_for_overtaken(cluster);
        *look = (struct queue_look){ .runs = true, .next = cluster->queue };
    }
    while (look->next && uv_hrtime() < until) {
        struct program *program = look->next;
        look->next = program->queue_next; /* program_leave_queue moves it on, whoever leaves */
        if (try_one(cluster, program))
            take_position(cluster, program);
    }
    if (look->next) {
        loop_timer_start(cluster->loop, timer, 1, queue_try, cluster);
        return;
    }
    look->runs = false;
    if (look->again)
        queue_retry(cluster);
}
