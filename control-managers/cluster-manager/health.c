/*
 * health.c: GPUs on which GPU servers do not start: a full disk, a driver that hangs, a limit that cannot be held.
 * After placement.failed-starts failures in a row a GPU is degraded: nothing is placed there for a minute. Then the
 * next program that fits tries it again, and when that fails too, the pause is twice as long. One start that goes well
 * ends it, and so does a node manager that began anew, or `flytctl node undrain`.
 *
 * A server that was ready once says nothing here: what crashes it may be its tenant's doing.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>

enum { PAUSE_SECONDS = 60, PAUSE_MOST = 960 };

static void set_ready(struct cluster *cluster, struct cluster_gpu *gpu, const char *why)
{
    struct event_about which = { .node = gpu->node->row.name };
    bool was = gpu->degraded;
    gpu->failed_starts = gpu->pause = 0;
    gpu->degraded = false;
    if (!was)
        return;
    node_set_schedulable(cluster, gpu->node);
    cluster_event(cluster, ADMIN_INFO, "gpu-ready", &which, "GPU %s: %s", gpu->id, why);
    queue_retry(cluster);
}

void health_start_worked(struct cluster *cluster, struct cluster_gpu *gpu)
{
    set_ready(cluster, gpu, "a GPU server has started there again");
}

void health_start_failed(struct cluster *cluster, struct cluster_gpu *gpu, const char *why)
{
    struct event_about which = { .node = gpu->node->row.name };
    unsigned most = (unsigned)cluster->values->failed_starts;
    gpu->failed_starts++;
    if (!most || gpu->failed_starts < most || (gpu->degraded && !gpu_may_be_tried(cluster, gpu)))
        return;
    gpu->pause = !gpu->pause ? PAUSE_SECONDS : gpu->pause < PAUSE_MOST ? 2 * gpu->pause : PAUSE_MOST;
    gpu->try_again = loop_now(cluster->loop) + gpu->pause * 1000ull;
    snprintf(gpu->degraded_why, sizeof gpu->degraded_why, "%u GPU servers in a row did not start there: %.400s",
             gpu->failed_starts, why);
    bool first = !gpu->degraded;
    gpu->degraded = true;
    node_set_schedulable(cluster, gpu->node);
    if (first)
        cluster_event(cluster, ADMIN_ERROR, "gpu-degraded", &which,
                      "GPU %s is degraded: %.600s; it is tried again now and then, and at once after `flytctl node "
                      "undrain %s`",
                      gpu->id, gpu->degraded_why, gpu->node->row.name);
}

void health_forgive(struct cluster *cluster, struct node *node, const char *why)
{
    for (size_t i = 0; i < node->gpu_count; i++)
        set_ready(cluster, node->gpus[i], why);
}

void health_tick(struct cluster *cluster, struct node *node)
{
    for (size_t i = 0; i < node->gpu_count; i++) {
        struct cluster_gpu *gpu = node->gpus[i];
        if (!gpu->degraded || cluster->pool.gpus[gpu->slot].schedulable || !gpu_may_be_tried(cluster, gpu))
            continue;
        node_set_schedulable(cluster, node);
        if (cluster->pool.gpus[gpu->slot].schedulable)
            queue_retry(cluster);
    }
}
