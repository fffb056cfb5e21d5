/*
 * place_gang.c: on which GPUs of one node a server with several goes, and which GPUs are kept for a program that waits
 * (one GPU is a gang of one there).
 *
 * The GPUs that could take a part are gathered once and sorted by node, so that a node's are neighbours. On each node,
 * for each kind of sharing, the GPUs with the best scores are looked at; the node with the best rank, and then the best
 * sum of scores, is chosen. All of a gang have one kind of sharing, because its server has.
 */
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/place_fits.h"

/* The best so far. Of equal ones the lowest slot counts, so that the choice does not depend on addresses. */
struct gang_best { bool found; int rank; double score; size_t slot; };

static bool is_better(const struct gang_best *best, int rank, double score, size_t slot)
{
    bool equal = best->found && rank == best->rank && !(score < best->score) && !(score > best->score);
    return !best->found || place_better(rank, score, best->rank, best->score) || (equal && slot < best->slot);
}

static uint32_t wanted(const struct place_request *request)
{
    return request->gpus ? request->gpus : 1;
}

/* Fills in the seat that this GPU could be for the gang. False: it cannot be one. */
static bool look_at(const struct place_pool *pool, size_t slot, const struct place_request *request,
                    struct gang_seat *out)
{
    const struct place_gpu *gpu = &pool->gpus[slot];
    *out = (struct gang_seat){ .slot = slot, .node = gpu->node, .result.gpu = slot };
    if (wanted(request) > 1 && !gpu->gangs)
        return false;
    out->kinds = place_kinds_if_empty(gpu, request, &out->result);
    out->rank = out->kinds ? place_rank(gpu, request) : 0;
    bool kept = gpu->keeper && gpu->keeper != request->asker;
    for (int i = 0; i < PLACE_KINDS; i++)
        if (out->kinds & place_kinds[i] && !kept && place_fits_now(pool, gpu, place_kinds[i], &out->result))
            out->now |= place_kinds[i];
    return out->kinds != 0;
}

static int by_node_and_score(const void *a, const void *b)
{
    const struct gang_seat *x = a, *y = b;
    if (x->node != y->node)
        return (uintptr_t)x->node < (uintptr_t)y->node ? -1 : 1;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

static int by_slot(const void *a, const void *b)
{
    const struct place_result *x = a, *y = b;
    return (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

struct gang_seat *gang_gather(const struct place_pool *pool, int policy, const struct place_request *request,
                              size_t *count)
{
    struct gang_seat *all = malloc((pool->count + 1) * sizeof *all);
    *count = 0;
    for (size_t i = 0; all && i < pool->count; i++)
        if (look_at(pool, i, request, &all[*count])) {
            all[*count].score = place_policies[policy].score(&pool->gpus[i], &all[*count].result);
            ++*count;
        }
    if (all)
        qsort(all, *count, sizeof *all, by_node_and_score);
    return all;
}

struct gang_node gang_group_at(const struct gang_seat *all, size_t count, size_t at)
{
    size_t end = at + 1;
    while (end < count && all[end].node == all[at].node)
        end++;
    return (struct gang_node){ &all[at], end - at };
}

/* ---- choosing ---- */

bool gang_take_best(const struct gang_node *group, unsigned kind, size_t gpus, struct place_gang *out, double *score)
{
    out->count = 0;
    *score = 0;
    for (size_t i = 0; i < group->count && out->count < gpus; i++)
        if (group->first[i].now & kind) {
            out->of[out->count] = group->first[i].result;
            out->of[out->count++].sharing = kind;
            *score += group->first[i].score;
        }
    return out->count == gpus;
}

static enum place_verdict choose_one(const struct place_pool *pool, int policy, const struct place_request *request,
                                     struct place_gang *out)
{
    enum place_verdict verdict = place_choose(pool, policy, request, &out->of[0]);
    out->count = verdict == PLACE_FOUND;
    return verdict;
}

enum place_verdict gang_without(const struct place_pool *pool)
{
    bool any = false, unknown = false;
    for (size_t i = 0; i < pool->count; i++) {
        any |= pool->gpus[i].owner != NULL;
        unknown |= pool->gpus[i].owner && !pool->gpus[i].sms;
    }
    return unknown ? PLACE_BUSY : any ? PLACE_NEVER : PLACE_NO_GPUS;
}

enum place_verdict place_choose_gang(const struct place_pool *pool, int policy, const struct place_request *request,
                                     struct place_gang *out)
{
    const size_t gpus = wanted(request);
    struct gang_best best = { .found = false };
    bool possible = false;
    size_t count;
    if (gpus == 1)
        return choose_one(pool, policy, request, out);
    out->count = 0;
    if (gpus > PLACE_MOST_GPUS)
        return PLACE_NEVER;
    struct gang_seat *all = gang_gather(pool, policy, request, &count);
    if (!all)
        return PLACE_BUSY;
    for (size_t at = 0; at < count;) {
        const struct gang_node group = gang_group_at(all, count, at);
        at += group.count;
        for (int k = 0; k < PLACE_KINDS; k++) {
            struct place_gang gang;
            size_t could = 0;
            double score;
            for (size_t i = 0; i < group.count; i++)
                could += (group.first[i].kinds & place_kinds[k]) != 0;
            possible |= could >= gpus;
            if (!gang_take_best(&group, place_kinds[k], gpus, &gang, &score))
                continue;
            if (is_better(&best, group.first->rank, score, gang.of[0].gpu)) {
                best = (struct gang_best){ true, group.first->rank, score, gang.of[0].gpu };
                *out = gang;
            }
            break;                      /* the kinds behind it are worse */
        }
    }
    free(all);
    qsort(out->of, out->count, sizeof out->of[0], by_slot);
    return best.found ? PLACE_FOUND : possible ? PLACE_BUSY : gang_without(pool);
}

/* ---- could it ever, and why not ---- */

bool place_could_hold(const struct place_pool *pool, size_t at, const struct place_request *request)
{
    struct gang_seat one, other;
    if (!look_at(pool, at, request, &one))
        return false;
    if (wanted(request) == 1)
        return true;
    for (int k = 0; k < PLACE_KINDS; k++) {
        size_t could = 0;
        for (size_t i = 0; one.kinds & place_kinds[k] && i < pool->count; i++)
            could += pool->gpus[i].node == one.node && look_at(pool, i, request, &other) &&
                     (other.kinds & place_kinds[k]) != 0;
        if (could >= wanted(request) && !request->spread)
            return true;
    }
    const struct place_chances chances = place_gang_chances(pool, request);
    return (request->spread || chances.most < wanted(request)) && chances.all >= wanted(request);
}

struct place_chances place_gang_chances(const struct place_pool *pool, const struct place_request *request)
{
    struct place_chances chances = { .most = 0 };
    size_t count;
    struct gang_seat *all = gang_gather(pool, 0, request, &count);
    for (size_t at = 0; all && at < count;) {
        const struct gang_node group = gang_group_at(all, count, at);
        size_t now = 0;
        at += group.count;
        for (size_t i = 0; i < group.count; i++)
            now += group.first[i].now != 0;
        chances.all += group.count;
        chances.all_now += now;
        chances.most_now = group.count > chances.most || (group.count == chances.most && now > chances.most_now)
                               ? now
                               : chances.most_now;
        chances.most = group.count > chances.most ? group.count : chances.most;
    }
    for (size_t i = 0; i < pool->count; i++) {
        const struct place_gpu *gpu = &pool->gpus[i];
        struct place_result result;
        chances.kept += gpu->keeper && gpu->keeper != request->asker;
        chances.old_nodes |= !gpu->gangs && place_kinds_if_empty(gpu, request, &result) != 0;
    }
    free(all);
    return chances;
}

/* ---- keeping ---- */

/* How much has to become free, as a part of the GPU. Servers that share in another manner have to go altogether. */
static double missing(const struct place_gpu *gpu, unsigned kinds, const struct place_result *result)
{
    if (gpu->users && ((gpu->sharing & PLACE_ONE_SERVER) || !(gpu->sharing & kinds)))
        return 1 + (double)gpu->used_sms / gpu->sms;
    double sms = ((double)gpu->used_sms + result->sms - gpu->sms) / gpu->sms;
    double memory =
        gpu->memory ? ((double)gpu->used_memory + (double)result->memory - (double)gpu->memory) / (double)gpu->memory
                    : 0;
    return sms > memory ? sms : memory;
}

/* Those of the node where least has to become free for that kind of sharing: the first of a sorted copy. */
static bool least_missing(const struct place_pool *pool, const struct gang_node *group, unsigned kinds, size_t gpus,
                          struct gang_seat *copy, double *sum)
{
    size_t count = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct gang_seat *from = &group->first[i];
        const struct place_gpu *gpu = &pool->gpus[from->slot];
        if (!(from->kinds & kinds) || !gpu->schedulable || gpu->keeper)
            continue;
        copy[count] = *from;
        copy[count++].score = missing(gpu, from->kinds & kinds, &from->result);
    }
    qsort(copy, count, sizeof *copy, by_node_and_score);
    *sum = 0;
    for (size_t i = 0; i < gpus && i < count; i++)
        *sum += copy[i].score;
    return count >= gpus;
}

/* GPUs that may be of several nodes become neighbours, as those of one node are. */
static void join_nodes(struct gang_seat *all, size_t count, const struct place_request *request)
{
    bool one_does = false;
    for (size_t at = 0; at < count && !one_does; at += gang_group_at(all, count, at).count)
        one_does = gang_group_at(all, count, at).count >= wanted(request);
    for (size_t i = 0; i < count && wanted(request) > 1 && (request->spread || !one_does); i++)
        all[i].node = NULL;
}

size_t place_keep(struct place_pool *pool, const struct place_request *request, size_t kept[PLACE_MOST_GPUS])
{
    const size_t gpus = wanted(request);
    struct gang_best best = { .found = false };
    size_t count;
    double sum;
    if (gpus > PLACE_MOST_GPUS)
        return 0;
    struct gang_seat *all = gang_gather(pool, 0, request, &count), *copy = malloc((pool->count + 1) * sizeof *copy);
    if (all)
        join_nodes(all, count, request);
    for (size_t at = 0; all && copy && at < count;) {
        const struct gang_node group = gang_group_at(all, count, at);
        at += group.count;
        for (int k = 0; k < PLACE_KINDS; k++) {
            /* One GPU takes any kind, as those of several nodes do; several of one node have one kind together. */
            const unsigned kinds = gpus == 1 || !group.first->node ? ~0u : place_kinds[k];
            if (!least_missing(pool, &group, kinds, gpus, copy, &sum) ||
                !is_better(&best, group.first->rank, sum, copy[0].slot))
                continue;
            best = (struct gang_best){ true, group.first->rank, sum, copy[0].slot };
            for (size_t i = 0; i < gpus; i++)
                kept[i] = copy[i].slot;
        }
    }
    free(all);
    free(copy);
    for (size_t i = 0; best.found && i < gpus; i++)
        pool->gpus[kept[i]].keeper = request->asker;
    return best.found ? gpus : 0;
}
