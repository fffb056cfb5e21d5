/*
 * queue.c: programs that wait for a GPU, first come first served, as far as they fit.
 *
 * One that does not fit does not hold up those behind that do, but not for ever: the first in the queue that lacks room
 * is overtaken placement.overtaking times, counting only those who took room that could have been its own. Then a GPU
 * is kept for it: of those that could hold it the one where least has to become free. Nobody else gets a server there
 * until it has its own, or does not wait any more, or that GPU is out of service (another is kept then). So a large
 * request waits for those before it, for so many others, and for the end of what runs on one GPU. For one that wants
 * several GPUs as many are kept, all of one node.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>

static void queue_let_go(struct cluster *cluster, struct program *program);

enum { LOOKED_AT = 64 };

/* ---- the queue ---- */

void queue_retry(struct cluster *cluster)
{
    cluster->look.again = cluster->look.runs;
    if (cluster->queue && !cluster->look.runs && !loop_timer_running(&cluster->retry_queue) && !cluster->stopping)
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
    struct event_about which = { .vm = program->vm->row.name, .program = program->id };
    cluster_event(cluster, ADMIN_INFO, "program-waiting", &which, "%.200s (pid %u): %s", program->executable,
                  program->pid, program->why);
}

void program_leave_queue(struct cluster *cluster, struct program *program)
{
    if (!program->queued)
        return;
    program->queued = false;
    if (cluster->look.next == program)
        cluster->look.next = program->queue_next;
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

static struct place_gpu *kept_gpu(struct cluster *cluster, const struct program *program, size_t i)
{
    struct place_gpu *gpu = program->kept[i] < cluster->pool.count ? &cluster->pool.gpus[program->kept[i]] : NULL;
    return gpu && gpu->keeper == program ? gpu : NULL;
}

/* All of them are, and in service. */
static bool still_kept(struct cluster *cluster, const struct program *program)
{
    for (size_t i = 0; i < program->kept_count; i++) {
        const struct place_gpu *gpu = kept_gpu(cluster, program, i);
        if (!gpu || !gpu->schedulable)
            return false;
    }
    return program->kept_count != 0;
}

/* The program no longer keeps GPUs. */
static void queue_let_go(struct cluster *cluster, struct program *program)
{
    for (size_t i = 0; i < program->kept_count; i++) {
        struct place_gpu *gpu = kept_gpu(cluster, program, i);
        if (gpu) {
            gpu->keeper = NULL;
            queue_retry(cluster);                /* others may have what it did not need */
        }
    }
    program->kept_count = 0;
}

struct program *queue_first_lacking_room(struct cluster *cluster)
{
    struct program *program = cluster->queue;
    for (int i = 0; program && i < LOOKED_AT; i++, program = program->queue_next)
        if (program->lacks_room)
            return program;
    return NULL;
}

void queue_overtaken(struct cluster *cluster, const struct program *by, const struct place_gang *place)
{
    struct program *first = queue_first_lacking_room(cluster);
    if (!first || first == by || first->kept_count)
        return;
    struct place_request request = server_request(cluster, first);
    bool could = false;
    for (size_t i = 0; i < place->count && !could; i++)
        could = place_could_hold(&cluster->pool, place->of[i].gpu, &request);
    first->overtaken += could;
}

void queue_keep(struct cluster *cluster, struct program *program, size_t gpu)
{
    if (program->kept_count == 1 && program->kept[0] == gpu && still_kept(cluster, program))
        return;
    queue_let_go(cluster, program);
    cluster->pool.gpus[gpu].keeper = program;
    program->kept[0] = gpu;
    program->kept_count = 1;
}

static void tell_kept(struct cluster *cluster, const struct program *first, const struct place_request *request)
{
    const struct cluster_gpu *gpu = cluster->pool.gpus[first->kept[0]].owner;
    struct event_about which = { .vm = first->vm->row.name, .node = gpu->node->row.name, .program = first->id };
    char ids[CTL_MAX_TEXT / 2] = "";
    size_t at = 0;
    for (size_t i = 0; i < first->kept_count && at < sizeof ids; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%s%s", i ? ", " : "",
                               ((const struct cluster_gpu *)cluster->pool.gpus[first->kept[i]].owner)->id);
    cluster_event(cluster, ADMIN_INFO, "gpu-kept", &which,
                  "GPU%s %s %s kept for it: it waits for %u SMs and %llu MiB%s, and was overtaken %u times",
                  first->kept_count == 1 ? "" : "s", ids, first->kept_count == 1 ? "is" : "are", request->sms,
                  (unsigned long long)(request->memory >> 20), first->kept_count == 1 ? "" : " of each",
                  first->overtaken);
}

void queue_keep_for_overtaken(struct cluster *cluster)
{
    struct program *first = queue_first_lacking_room(cluster);
    if (!first)
        return;
    if (still_kept(cluster, first))
        return;
    queue_let_go(cluster, first);
    if (first->overtaken < (uint64_t)cluster->values->overtaking)
        return;
    struct place_request request = server_request(cluster, first);
    first->kept_count = place_keep(&cluster->pool, &request, first->kept);
    if (first->kept_count)
        tell_kept(cluster, first, &request);
}
