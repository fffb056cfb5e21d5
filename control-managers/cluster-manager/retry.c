/*
 * retry.c: tries to find GPU servers for the programs in the queue (queue.c), when something has become free or came.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>

enum { FAILED_SHAPES = 16, POSITIONS_TOLD = 32 };

/* A request that is at least as large as one that has just failed, and no less choosy, fails too. */
struct retry_shape {
    uint32_t sms, gpus;
    uint64_t memory;
    unsigned accepted;
};
static bool hopeless(const struct retry_shape *failed, size_t count, const struct place_request *request)
{
    for (size_t i = 0; i < count; i++)
        if (request->sms >= failed[i].sms && request->memory >= failed[i].memory && request->gpus >= failed[i].gpus &&
            !(request->accepted & ~failed[i].accepted))
            return true;
    return false;
}

static void tell_positions(struct cluster *cluster)
{
    uint32_t position = 0;
    for (struct program *program = cluster->queue; program; program = program->queue_next) {
        bool moved = program->position != ++position;
        program->position = position;
        if (moved && position <= POSITIONS_TOLD)
            program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
    }
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

void queue_try(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct retry_shape failed[FAILED_SHAPES];
    size_t failures = 0;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    queue_keep_for_overtaken(cluster);
    for (struct program *program = cluster->queue, *next; program; program = next) {
        next = program->queue_next;
        struct place_request request = server_request(cluster, program);
        if (!server_is_shared(program) && !program->kept_count && hopeless(failed, failures, &request))
            continue;
        ctl_code code = server_try(cluster, program, text);
        if (code == CTL_OK || code == CTL_WAITING) {
            program_leave_queue(cluster, program);
            program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
        } else if (stays(cluster, program, code, text) && !program->kept_count && !program->avoid_count &&
                   failures < FAILED_SHAPES && server_within_entitlement(program->vm, &request)) {
            failed[failures++] = (struct retry_shape){ request.sms, request.gpus, request.memory, request.accepted };
        }
    }
    tell_positions(cluster);
}
