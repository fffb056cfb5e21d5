/*
 * idle.c: GPU servers that no program uses. They stay for the grace period, because starting one takes time, but not
 * when somebody waits who could use their place.
 */
#include "control-managers/cluster-manager/cluster.h"

static void give_way(struct server *server, const char *why)
{
    server->unused = true;
    server_stop(server->cluster, server, CTL_OK, why);
}

/* ---- the VM's own ---- */

void idle_own_give_way(const struct vm *vm, const char *why)
{
    for (struct server *server = vm->servers, *next; server; server = next) {
        next = server->vm_next;
        if (server_is_idle(server))
            give_way(server, why);
    }
}

/* ---- those of others ---- */

/* What would become free on a GPU. */
struct leaving { uint32_t servers, sms; uint64_t memory; };

static void count(struct leaving *leaving, const struct server *server)
{
    leaving->servers++;
    leaving->sms += server->row.sms;
    leaving->memory += server->row.memory;
}

static bool fits_without(struct cluster *cluster, const struct gpu *gpu, const struct place_request *request,
                         const struct leaving *leaving)
{
    return place_fits_without(&cluster->pool, gpu->slot, request, leaving->servers, leaving->sms, leaving->memory);
}

/* How many idle servers of this GPU have to go so that the request fits. 0: those that are ending anyhow suffice;
   -1: all idle ones are not enough. With `now` they are ordered to go. */
static int servers_to_go(struct cluster *cluster, const struct gpu *gpu, const struct place_request *request, bool now)
{
    struct leaving leaving = { 0 };
    int number = 0;
    for (const struct server *server = gpu->node->servers; server; server = server->node_next)
        if (server->gpu == gpu && server->stopping)
            count(&leaving, server);
    if (leaving.servers && fits_without(cluster, gpu, request, &leaving))
        return 0;
    for (struct server *server = gpu->node->servers, *next; server; server = next) {
        next = server->node_next;
        if (server->gpu != gpu || !server_is_idle(server))
            continue;
        count(&leaving, server);
        number++;
        bool enough = fits_without(cluster, gpu, request, &leaving);
        if (now)
            give_way(server, "another program waits for its place");
        if (enough)
            return number;
    }
    return -1;
}

bool idle_give_way(struct cluster *cluster, const struct place_request *request)
{
    const struct gpu *best = NULL;
    bool best_preferred = false;
    int fewest = 0;
    if (!cluster->values->deallocate)
        return false;
    for (size_t i = 0; i < cluster->pool.count; i++) {
        const struct gpu *gpu = cluster->pool.gpus[i].owner;
        int number =
            gpu && place_could_hold(&cluster->pool, i, request) ? servers_to_go(cluster, gpu, request, false) : -1;
        if (number < 0)
            continue;
        bool preferred = request->preferred && gpu->node == request->preferred;
        if (!best || (preferred != best_preferred ? preferred : number < fewest)) {
            best = gpu;
            best_preferred = preferred;
            fewest = number;
        }
    }
    if (best && fewest)
        servers_to_go(cluster, best, request, true);
    return best != NULL;
}
