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
struct idle_scope { struct node *node; const struct cluster_gpu *gpu; };

static bool is_within(const struct idle_scope *scope, const struct server *server)
{
    return !scope->gpu || server_has_gpu(server, scope->gpu);
}

/* A copy of the books of a scope's GPUs alone, to try things out: a cluster has thousands of scopes, and each is looked
   at for a program that finds no place. */
struct scope_books {
    struct place_pool pool;
    struct place_gpu gpus[CTL_MAX_GPUS];
    size_t slots[CTL_MAX_GPUS]; /* in the cluster's books */
};

static void copy_books(struct cluster *cluster, const struct idle_scope *scope, struct scope_books *out)
{
    out->pool = cluster->pool;
    out->pool.gpus = out->gpus;
    out->pool.count = 0;
    out->pool.capacity = CTL_MAX_GPUS;
    for (size_t i = 0; i < scope->node->gpu_count; i++) {
        const struct cluster_gpu *gpu = scope->node->gpus[i];
        if (scope->gpu && gpu != scope->gpu)
            continue;
        out->gpus[out->pool.count] = cluster->pool.gpus[gpu->slot];
        out->slots[out->pool.count++] = gpu->slot;
    }
}

static void leave(struct scope_books *books, const struct server *server)
{
    for (size_t i = 0; i < server->gpu_count; i++)
        for (size_t k = 0; k < books->pool.count; k++)
            if (books->slots[k] == server->gpus[i]->slot)
                place_give_back(&books->pool, k, server->row.sms, server->row.memory);
}

static bool fits(struct cluster *cluster, const struct scope_books *books, const struct place_request *wanted)
{
    struct place_gang place;
    return place_choose_gang(&books->pool, cluster->values->policy, wanted, &place) == PLACE_FOUND;
}

/* How many idle servers there have to go so that the request fits. 0: those that are ending anyhow suffice;
   -1: all idle ones are not enough. With `now` they are ordered to go. */
static int servers_to_go(struct cluster *cluster, const struct idle_scope *scope, const struct place_request *request,
                         bool now)
{
    struct scope_books books;
    bool leaving = false;
    int number = 0;
    copy_books(cluster, scope, &books);
    for (const struct server *server = scope->node->servers; server; server = server->node_next)
        if (is_within(scope, server) && server->stopping) {
            leave(&books, server);
            leaving = true;
        }
    if (leaving && fits(cluster, &books, request))
        return 0;
    for (struct server *server = scope->node->servers, *next; server; server = next) {
        next = server->node_next;
        if (!is_within(scope, server) || !server_is_idle(server))
            continue;
        leave(&books, server);
        number++;
        bool enough = fits(cluster, &books, request);
        if (now)
            give_way(server, "another program waits for its place");
        if (enough)
            return number;
    }
    return -1;
}

/* It has a server that ends, or may have to. */
static bool may_get_room(const struct node *node)
{
    for (const struct server *server = node->servers; server; server = server->node_next)
        if (server->stopping || server_is_idle(server))
            return true;
    return false;
}

/* The scope where the fewest have to go; on the VM's own machine, if there is one. */
struct idle_best { struct idle_scope is; bool preferred; int number; };

static void consider(struct cluster *cluster, const struct idle_scope *scope, const struct place_request *request,
                     struct idle_best *best)
{
    int number = servers_to_go(cluster, scope, request, false);
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

/* The books without the servers that end, and without the first `count` idle ones, in the order of their age. With
   `now` these are ordered to go. Returns how many of them there were. */
static size_t leave_all(struct cluster *cluster, struct place_pool *pool, size_t count, bool now)
{
    size_t left = 0;
    for (size_t i = 0; i < cluster->servers.count; i++) {
        struct server *server = map_at(&cluster->servers, i);
        bool idle = !server->stopping && left < count && server_is_idle(server);
        if (!idle && !server->stopping)
            continue;
        for (size_t k = 0; k < server->gpu_count; k++)
            place_give_back(pool, server->gpus[k]->slot, server->row.sms, server->row.memory);
        left += idle;
        if (idle && now)
            give_way(server, "another program waits for its place");
    }
    return left;
}

/* Whether the request fits on several nodes when so many idle servers have gone. *count: at most as many as there
   are. */
static bool set_gets_room(struct cluster *cluster, const struct place_request *request, size_t *count, bool now)
{
    struct place_pool copy;
    bool does = false;
    if (place_copy(&cluster->pool, &copy)) {
        *count = leave_all(cluster, &copy, *count, now);
        does = set_fits(cluster, &copy, request);
    }
    place_free(&copy);
    return does;
}

/* Each try looks at all GPUs: the number of idle servers that have to go is found by halves. */
static bool give_way_to_set(struct cluster *cluster, const struct place_request *request)
{
    size_t few = 0, enough = SIZE_MAX;
    if (!set_gets_room(cluster, request, &enough, false))
        return false;
    if (set_gets_room(cluster, request, &few, false))
        return true;
    while (enough - few > 1) { /* `few` are too few */
        size_t middle = few + (enough - few) / 2;
        if (set_gets_room(cluster, request, &middle, false))
            enough = middle;
        else
            few = middle;
    }
    return set_gets_room(cluster, request, &enough, true);
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
    for (size_t n = 0; n < cluster->nodes.count; n++) {
        struct node *node = map_at(&cluster->nodes, n);
        if (!may_get_room(node))
            continue;
        for (size_t i = 0; request->gpus <= 1 && i < node->gpu_count; i++)
            if (place_could_hold(&cluster->pool, node->gpus[i]->slot, request))
                consider(cluster, &(struct idle_scope){ node, node->gpus[i] }, request, &best);
        if (request->gpus > 1)
            consider(cluster, &(struct idle_scope){ node, NULL }, request, &best);
    }
    if (best.is.node && best.number)
        servers_to_go(cluster, &best.is, request, true);
    return best.is.node != NULL;
}
