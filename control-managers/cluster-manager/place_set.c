/*
 * place_set.c: on which GPUs of several nodes the servers of one program go: a gang on each node.
 *
 * A node whose GPUs could all be in use by servers of different kinds of sharing gives the kind of which most are free;
 * the gangs of a set may differ in kind. With `spread` the nodes give one GPU each in turn, the best node first, until
 * there are enough; else the node with the most free ones gives all that it has, then the next one.
 */
#include "control-managers/cluster-manager/place_fits.h"

#include <stdlib.h>

struct set_node {
    struct gang_node group;
    unsigned kind;        /* of which most are free */
    size_t free, taken;
};

/* Nodes of one pool: at most as many as it has GPUs. */
struct set_nodes {
    struct set_node *of;
    size_t count, free;
    size_t could; /* GPUs that could be given if all were empty */
};

static size_t count_kind(const struct gang_node *group, unsigned kind, bool now)
{
    size_t count = 0;
    for (size_t i = 0; i < group->count; i++)
        count += ((now ? group->first[i].now : group->first[i].kinds) & kind) != 0;
    return count;
}

static void look_at(struct set_nodes *nodes, const struct gang_node *group)
{
    struct set_node node = { .group = *group };
    size_t could = 0;
    for (int k = 0; k < PLACE_KINDS; k++) {
        size_t now = count_kind(group, place_kinds[k], true), empty = count_kind(group, place_kinds[k], false);
        could = empty > could ? empty : could;
        if (now > node.free) {
            node.free = now;
            node.kind = place_kinds[k];
        }
    }
    nodes->could += could;
    nodes->free += node.free;
    if (node.free)
        nodes->of[nodes->count++] = node;
}

static int by_rank(const struct set_node *a, const struct set_node *b)
{
    const struct gang_seat *x = a->group.first, *y = b->group.first;
    if (place_better(x->rank, x->score, y->rank, y->score))
        return -1;
    if (place_better(y->rank, y->score, x->rank, x->score))
        return 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

static int best_first(const void *a, const void *b) { return by_rank(a, b); }

static int fullest_first(const void *a, const void *b)
{
    const struct set_node *x = a, *y = b;
    return x->free != y->free ? (x->free < y->free ? 1 : -1) : by_rank(x, y);
}

static void share_out(struct set_nodes *nodes, size_t gpus, bool spread)
{
    qsort(nodes->of, nodes->count, sizeof *nodes->of, spread ? best_first : fullest_first);
    while (gpus)
        for (size_t i = 0; i < nodes->count && gpus; i++) {
            struct set_node *node = &nodes->of[i];
            size_t more = node->free - node->taken;
            more = spread && more ? 1 : more < gpus ? more : gpus;
            node->taken += more;
            gpus -= more;
        }
}

static int by_first_slot(const void *a, const void *b)
{
    const struct place_gang *x = a, *y = b;
    return (x->of[0].gpu > y->of[0].gpu) - (x->of[0].gpu < y->of[0].gpu);
}

static int by_slot(const void *a, const void *b)
{
    const struct place_result *x = a, *y = b;
    return (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

static void take(const struct set_nodes *nodes, struct place_set *out)
{
    double score;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct set_node *node = &nodes->of[i];
        struct place_gang *gang = &out->of[out->count];
        if (!node->taken || !gang_take_best(&node->group, node->kind, node->taken, gang, &score))
            continue;
        qsort(gang->of, gang->count, sizeof gang->of[0], by_slot);
        out->count++;
    }
    qsort(out->of, out->count, sizeof out->of[0], by_first_slot);
}

static enum place_verdict choose_several(const struct place_pool *pool, int policy,
                                         const struct place_request *request, struct place_set *out)
{
    size_t count;
    struct set_nodes nodes = { .of = malloc((pool->count + 1) * sizeof *nodes.of) };
    struct gang_seat *all = nodes.of ? gang_gather(pool, policy, request, &count) : NULL;
    enum place_verdict verdict = PLACE_BUSY;
    for (size_t at = 0; all && at < count;) {
        const struct gang_node group = gang_group_at(all, count, at);
        look_at(&nodes, &group);
        at += group.count;
    }
    if (all && nodes.free >= request->gpus) {
        share_out(&nodes, request->gpus, request->spread);
        take(&nodes, out);
        verdict = PLACE_FOUND;
    } else if (all && nodes.could < request->gpus) {
        verdict = gang_without(pool);
    }
    free(all);
    free(nodes.of);
    return verdict;
}

enum place_verdict place_choose_set(const struct place_pool *pool, int policy, const struct place_request *request,
                                    struct place_set *out)
{
    enum place_verdict verdict = PLACE_NEVER;
    out->count = 0;
    if (request->gpus > PLACE_MOST_GPUS)
        return PLACE_NEVER;
    if (!request->spread || request->gpus <= 1) {
        verdict = place_choose_gang(pool, policy, request, &out->of[0]);
        out->count = verdict == PLACE_FOUND;
    }
    return verdict != PLACE_NEVER || request->gpus <= 1 ? verdict : choose_several(pool, policy, request, out);
}
