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

/* Where room may become free: one GPU, or a node with all its GPUs where several are wanted. */
struct idle_scope {
    struct node *node;
    const struct cluster_gpu *gpu;
};

static bool is_within(const struct idle_scope *scope, const struct server *server)
{
    return !scope->gpu || server_has_gpu(server, scope->gpu);
}

static void leave(struct place_pool *pool, const struct server *server)
{
    for (size_t i = 0; i < server->gpu_count; i++)
        place_give_back(pool, server->gpus[i]->slot, server->row.sms, server->row.memory);
}

static bool fits(struct cluster *cluster, const struct place_pool *pool, const struct idle_scope *scope,
                 const struct place_request *wanted)
{
    struct place_request request = *wanted;
    struct place_gang place;
    request.only = scope->gpu ? (const void *)scope->gpu : scope->node;
    return place_choose_gang(pool, cluster->values->policy, &request, &place) == PLACE_FOUND;
}

/* How many idle servers there have to go so that the request fits. 0: those that are ending anyhow suffice;
   -1: all idle ones are not enough. With `now` they are ordered to go. pool: a copy, used up. */
static int servers_to_go(struct cluster *cluster, struct place_pool *pool, const struct idle_scope *scope,
                         const struct place_request *request, bool now)
{
    bool leaving = false;
    int number = 0;
    for (const struct server *server = scope->node->servers; server; server = server->node_next)
        if (is_within(scope, server) && server->stopping) {
            leave(pool, server);
            leaving = true;
        }
    if (leaving && fits(cluster, pool, scope, request))
        return 0;
    for (struct server *server = scope->node->servers, *next; server; server = next) {
        next = server->node_next;
        if (!is_within(scope, server) || !server_is_idle(server))
            continue;
        leave(pool, server);
        number++;
        bool enough = fits(cluster, pool, scope, request);
        if (now)
            give_way(server, "another program waits for its place");
        if (enough)
            return number;
    }
    return -1;
}

static int try_scope(struct cluster *cluster, const struct idle_scope *scope, const struct place_request *request,
                     bool now)
{
    struct place_pool copy;
    int number = place_copy(&cluster->pool, &copy) ? servers_to_go(cluster, &copy, scope, request, now) : -1;
    place_free(&copy);
    return number;
}

/* The scope where the fewest have to go; on the VM's own machine, if there is one. */
struct idle_best { struct idle_scope is; bool preferred; int number; };

static void consider(struct cluster *cluster, const struct idle_scope *scope, const struct place_request *request,
                     struct idle_best *best)
{
    int number = scope->node->servers ? try_scope(cluster, scope, request, false) : -1;
    bool preferred = request->preferred && scope->node == request->preferred;
    if (number >= 0 &&
        (!best->is.node || (preferred != best->preferred ? preferred : number < best->number)))
        *best = (struct idle_best){ *scope, preferred, number };
}

static bool set_fits(struct cluster *cluster, const struct place_pool *pool, const struct place_request *request)
{
    struct place_set place;
    return place_choose_set(pool, cluster->values->policy, request, &place) == PLACE_FOUND;
}

/* As servers_to_go, of all nodes: idle servers in the order of their age, until the request fits on several nodes. */
static bool set_gets_room(struct cluster *cluster, struct place_pool *pool, const struct place_request *request,
                          bool now)
{
    for (size_t i = 0; i < cluster->servers.count; i++) {
        const struct server *server = map_at(&cluster->servers, i);
        if (server->stopping)
            leave(pool, server);
    }
    if (set_fits(cluster, pool, request))
        return true;
    for (size_t i = 0; i < cluster->servers.count; i++) {
        struct server *server = map_at(&cluster->servers, i);
        if (server->stopping || !server_is_idle(server))
            continue;
        leave(pool, server);
        bool enough = set_fits(cluster, pool, request);
        if (now)
            give_way(server, "another program waits for its place");
        if (enough)
            return true;
    }
    return false;
}

static bool give_way_to_set(struct cluster *cluster, const struct place_request *request)
{
    bool does = false;
    for (int now = 0; now <= 1 && (!now || does); now++) {
        struct place_pool copy;
        does = place_copy(&cluster->pool, &copy) && set_gets_room(cluster, &copy, request, now);
        place_free(&copy);
    }
    return does;
}

/* Its GPUs are of several nodes, since no node has so many, or since they are to be. */
static bool is_set(struct cluster *cluster, const struct place_request *request)
{
    struct place_gang place;
    return request->gpus > 1 && (request->spread || place_choose_gang(&cluster->pool, cluster->values->policy, request,
                                                                      &place) == PLACE_NEVER);
}

bool idle_give_way(struct cluster *cluster, const struct place_request *request)
{
    struct idle_best best = { .is = { NULL, NULL } };
    if (!cluster->values->deallocate)
        return false;
    if (is_set(cluster, request))
        return give_way_to_set(cluster, request);
    for (size_t i = 0; request->gpus <= 1 && i < cluster->pool.count; i++) {
        const struct cluster_gpu *gpu = cluster->pool.gpus[i].owner;
        const struct idle_scope scope = { gpu ? gpu->node : NULL, gpu };
        if (gpu && place_could_hold(&cluster->pool, i, request))
            consider(cluster, &scope, request, &best);
    }
    for (size_t i = 0; request->gpus > 1 && i < cluster->nodes.count; i++) {
        const struct idle_scope scope = { map_at(&cluster->nodes, i), NULL };
        consider(cluster, &scope, request, &best);
    }
    if (best.is.node && best.number)
        try_scope(cluster, &best.is, request, true);
    return best.is.node != NULL;
}
