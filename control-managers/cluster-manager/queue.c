/*
 * queue.c: programs that wait for a GPU, first come first served, as far as they fit.
 *
 * One that does not fit does not hold up those behind that do, but not for ever: the first in the queue that lacks room
 * is overtaken placement.overtaking times, counting only those who took room that could have been its own. Then a GPU
 * is kept for it: of those that could hold it the one where least has to become free. Nobody else gets a server there
 * until it has its own, or does not wait any more, or that GPU is out of service (another is kept then). So a large
 * request waits for those before it, for so many others, and for the end of what runs on one GPU.
 */
#include "control-managers/cluster-manager/cluster.h"

static void queue_let_go(struct cluster *cluster, struct program *program);

enum { LOOKED_AT = 64 };

/* ---- the queue ---- */

void queue_retry(struct cluster *cluster)
{
    if (cluster->queue && !loop_timer_running(&cluster->retry_queue) && !cluster->stopping)
        loop_timer_start(cluster->loop, &cluster->retry_queue, 1, queue_try, cluster);
}

void program_enter_queue(struct cluster *cluster, struct program *program)
{
    if (program->queued)
        return;
    if (!cluster->queue)
        cluster->queue_end = &cluster->queue;
    program->queued = true;
    program->state = ADMIN_PROGRAM_WAITING;
    program->queue_next = NULL;
    program->queue_back = cluster->queue_end;
    *cluster->queue_end = program;
    cluster->queue_end = &program->queue_next;
    cluster->queue_length++;
    program->vm->waiting++;
}

void program_leave_queue(struct cluster *cluster, struct program *program)
{
    if (!program->queued)
        return;
    program->queued = false;
    program->lacks_room = false;
    program->overtaken = 0;
    queue_let_go(cluster, program);
    *program->queue_back = program->queue_next;
    if (program->queue_next)
        program->queue_next->queue_back = program->queue_back;
    else
        cluster->queue_end = program->queue_back;
    cluster->queue_length--;
    program->vm->waiting--;
}

/* ---- fairness ---- */

static bool still_kept(struct cluster *cluster, const struct program *program)
{
    return program->keeps && program->kept < cluster->pool.count && cluster->pool.gpus[program->kept].keeper == program;
}

/* The program no longer keeps a GPU. */
static void queue_let_go(struct cluster *cluster, struct program *program)
{
    if (still_kept(cluster, program)) {
        cluster->pool.gpus[program->kept].keeper = NULL;
        queue_retry(cluster);                    /* others may have what it did not need */
    }
    program->keeps = false;
}

struct program *queue_first_lacking_room(struct cluster *cluster)
{
    struct program *program = cluster->queue;
    for (int i = 0; program && i < LOOKED_AT; i++, program = program->queue_next)
        if (program->lacks_room)
            return program;
    return NULL;
}

void queue_overtaken(struct cluster *cluster, const struct program *by, size_t gpu)
{
    struct program *first = queue_first_lacking_room(cluster);
    if (!first || first == by || first->keeps)
        return;
    struct place_request request = server_request(cluster, first);
    if (place_could_hold(&cluster->pool, gpu, &request))
        first->overtaken++;
}

void queue_keep(struct cluster *cluster, struct program *program, size_t gpu)
{
    if (program->keeps && program->kept == gpu && still_kept(cluster, program))
        return;
    queue_let_go(cluster, program);
    cluster->pool.gpus[gpu].keeper = program;
    program->kept = gpu;
    program->keeps = true;
}

void queue_keep_for_overtaken(struct cluster *cluster)
{
    struct program *first = queue_first_lacking_room(cluster);
    if (!first)
        return;
    if (first->keeps && still_kept(cluster, first) && cluster->pool.gpus[first->kept].schedulable)
        return;
    queue_let_go(cluster, first);
    if (first->overtaken < (uint64_t)cluster->values->overtaking)
        return;
    struct place_request request = server_request(cluster, first);
    first->kept = place_keep(&cluster->pool, &request);
    first->keeps = first->kept != (size_t)-1;
    if (!first->keeps)
        return;
    const struct gpu *gpu = cluster->pool.gpus[first->kept].owner;
    struct event_about which = { .vm = first->vm->row.name, .node = gpu->node->row.name, .program = first->id };
    cluster_event(cluster, ADMIN_INFO, "gpu-kept", &which,
                  "GPU %s is kept for it: it waits for %u SMs and %llu MiB, and was overtaken %u times", gpu->id,
                  request.sms, (unsigned long long)(request.memory >> 20), first->overtaken);
}
