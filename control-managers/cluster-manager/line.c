/*
 * line.c: programs that wait for a GPU, first come first served, as far as they fit.
 *
 * One that does not fit does not hold up those behind that do, but not for ever: the first in line that lacks room is
 * overtaken placement.overtaking times, counting only those who took room that could have been its own. Then a GPU is
 * kept for it: of those that could hold it the one where least has to become free. Nobody else gets a server there until
 * it has its own, or does not wait any more, or that GPU is out of service (another is kept then). So a large request
 * waits for those before it, for so many others, and for the end of what runs on one GPU.
 */
#include "control-managers/cluster-manager/cluster.h"

enum { FAILED_SHAPES = 16, POSITIONS_TOLD = 32, LOOKED_AT = 64 };

/* ---- fairness ---- */

static bool still_kept(struct cluster *cluster, const struct program *program)
{
    return program->keeps && program->kept < cluster->pool.count && cluster->pool.gpus[program->kept].keeper == program;
}

void line_let_go(struct cluster *cluster, struct program *program)
{
    if (still_kept(cluster, program)) {
        cluster->pool.gpus[program->kept].keeper = NULL;
        line_retry(cluster);                    /* others may have what it did not need */
    }
    program->keeps = false;
}

/* NULL: nobody in the first part of the line lacks room. */
static struct program *first_lacking_room(struct cluster *cluster)
{
    struct program *program = cluster->line;
    for (int i = 0; program && i < LOOKED_AT; i++, program = program->line_next)
        if (program->lacks_room)
            return program;
    return NULL;
}

void line_overtaken(struct cluster *cluster, const struct program *by, size_t gpu)
{
    struct program *first = first_lacking_room(cluster);
    if (!first || first == by || first->keeps)
        return;
    struct place_request request = server_request(cluster, first);
    if (place_could_hold(&cluster->pool, gpu, &request))
        first->overtaken++;
}

static void keep_for_overtaken(struct cluster *cluster)
{
    struct program *first = first_lacking_room(cluster);
    if (!first)
        return;
    if (first->keeps && still_kept(cluster, first) && cluster->pool.gpus[first->kept].schedulable)
        return;
    line_let_go(cluster, first);
    if (first->overtaken < (uint64_t)cluster->values->overtaking)
        return;
    struct place_request request = server_request(cluster, first);
    first->kept = place_keep(&cluster->pool, &request);
    first->keeps = first->kept != (size_t)-1;
    if (!first->keeps)
        return;
    const struct gpu *gpu = cluster->pool.gpus[first->kept].owner;
    struct event_about which = { .vm = first->vm->row.name, .node = gpu->node->row.name, .program = first->id };
    cluster_event(cluster, ADMIN_INFO, "gpu-kept", &which, "GPU %s is kept for it: it waits for %u SMs and %llu MiB, and was overtaken %u times",
                  gpu->id, request.sms, (unsigned long long)(request.memory >> 20), first->overtaken);
}

/* ---- trying ---- */

/* A request that is at least as large as one that has just failed, and no less choosy, fails too. */
struct shape { uint32_t sms; uint64_t memory; unsigned accepted; };
static bool hopeless(const struct shape *failed, size_t count, const struct place_request *request)
{
    for (size_t i = 0; i < count; i++)
        if (request->sms >= failed[i].sms && request->memory >= failed[i].memory && !(request->accepted & ~failed[i].accepted))
            return true;
    return false;
}

static void tell_positions(struct cluster *cluster)
{
    uint32_t position = 0;
    for (struct program *program = cluster->line; program; program = program->line_next) {
        bool moved = program->position != ++position;
        program->position = position;
        if (moved && position <= POSITIONS_TOLD)
            program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
    }
}

static void retry_due(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct shape failed[FAILED_SHAPES];
    size_t failures = 0;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    keep_for_overtaken(cluster);
    for (struct program *program = cluster->line, *next; program; program = next) {
        next = program->line_next;
        struct place_request request = server_request(cluster, program);
        if (!server_is_shared(program) && !program->keeps && hopeless(failed, failures, &request))
            continue;
        ctl_code code = server_try(cluster, program, text);
        if (code == CTL_OK || code == CTL_WAITING) {
            program_leave_line(cluster, program);
            program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
        } else if (code == CTL_NO_ROOM && !cluster_settling(cluster)) {
            program_refuse(cluster, program, code, text);
        } else {
            snprintf(program->why, sizeof program->why, "%.250s", text);
            if (!program->keeps && failures < FAILED_SHAPES && server_within_entitlement(program->vm, &request))
                failed[failures++] = (struct shape){ request.sms, request.memory, request.accepted };
        }
    }
    tell_positions(cluster);
}

void line_retry(struct cluster *cluster)
{
    if (cluster->line && !loop_timer_running(&cluster->retry_line) && !cluster->stopping)
        loop_timer_start(cluster->loop, &cluster->retry_line, 1, retry_due, cluster);
}
