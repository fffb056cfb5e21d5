/* balance.c: see balance.h. */
#include "control-managers/cluster-manager/balance.h"

#include <stdlib.h>
#include <string.h>

/* Where a piece would go now, off its GPU. */
static bool place_for(const struct place_pool *pool, int policy, const struct balance_piece *piece,
                      struct place_result *to)
{
    const void *avoid[] = { pool->gpus[piece->gpu].owner };
    struct place_request request = piece->request;
    request.avoid = avoid;
    request.avoid_count = 1;
    return place_choose(pool, policy, &request, to) == PLACE_FOUND;
}

static void leave(struct place_pool *pool, const struct balance_piece *piece)
{
    place_give_back(pool, piece->gpu, piece->request.sms, piece->request.memory);
}

static void arrive(struct place_pool *pool, const struct place_result *to)
{
    place_take(pool, to->gpu, to->sharing, to->sms, to->memory);
}

/* ---- room for one ---- */

struct room_plan {
    struct balance_step *steps;
    size_t count;
    uint64_t bytes;
};

static bool has_room(const struct place_pool *pool, int policy, const struct place_request *wanted, size_t gpu)
{
    struct place_request request = *wanted;
    struct place_result result;
    request.only = pool->gpus[gpu].owner;
    return place_choose(pool, policy, &request, &result) == PLACE_FOUND;
}

/* Steps that turned out not to be needed: of small pieces, where a larger one behind them is enough by itself. sharing:
   of the GPU before. */
static void drop_needless(struct place_pool *pool, int policy, const struct place_request *wanted, size_t gpu,
                          unsigned sharing, const struct balance_piece *pieces, struct room_plan *plan)
{
    for (size_t i = 0; i < plan->count;) {
        const struct balance_step *step = &plan->steps[i];
        const struct balance_piece *piece = &pieces[step->piece];
        struct place_gpu without = pool->gpus[gpu], target = pool->gpus[step->to.gpu];
        place_give_back(pool, step->to.gpu, step->to.sms, step->to.memory);
        place_take(pool, gpu, sharing, piece->request.sms, piece->request.memory);
        if (has_room(pool, policy, wanted, gpu)) {
            plan->bytes -= piece->request.memory;
            memmove(&plan->steps[i], &plan->steps[i + 1], (--plan->count - i) * sizeof *plan->steps);
        } else {
            pool->gpus[gpu] = without;
            pool->gpus[step->to.gpu] = target;
            i++;
        }
    }
}

/* pool: a copy, used up. order: of the pieces, those with the least memory first; from_largest: read backwards. */
static bool room_on(struct place_pool *pool, int policy, const struct place_request *wanted, size_t gpu,
                    const struct balance_piece *pieces, const size_t *order, size_t count, bool from_largest,
                    struct room_plan *plan)
{
    const unsigned sharing = pool->gpus[gpu].sharing;
    *plan = (struct room_plan){ .steps = plan->steps };
    for (size_t i = 0; i < count && !has_room(pool, policy, wanted, gpu); i++) {
        struct balance_step step = { .piece = order[from_largest ? count - 1 - i : i] };
        const struct balance_piece *piece = &pieces[step.piece];
        if (piece->gpu != gpu || !place_for(pool, policy, piece, &step.to))
            continue;
        leave(pool, piece);
        arrive(pool, &step.to);
        plan->steps[plan->count++] = step;
        plan->bytes += piece->request.memory;
    }
    if (!has_room(pool, policy, wanted, gpu))
        return false;
    drop_needless(pool, policy, wanted, gpu, sharing, pieces, plan);
    return plan->count > 0;
}

struct sorted { uint64_t memory; size_t piece; };

static int by_memory(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    return x->memory != y->memory ? (x->memory > y->memory) - (x->memory < y->memory)
                                  : (x->piece > y->piece) - (x->piece < y->piece);
}

static size_t *order_of(const struct balance_piece *pieces, size_t count)
{
    struct sorted *sorted = malloc((count + 1) * sizeof *sorted);
    size_t *order = malloc((count + 1) * sizeof *order);
    if (sorted && order) {
        for (size_t i = 0; i < count; i++)
            sorted[i] = (struct sorted){ pieces[i].request.memory, i };
        qsort(sorted, count, sizeof *sorted, by_memory);
        for (size_t i = 0; i < count; i++)
            order[i] = sorted[i].piece;
    } else {
        free(order);
        order = NULL;
    }
    free(sorted);
    return order;
}

size_t balance_make_room(const struct place_pool *pool, int policy, const struct place_request *wanted,
                         const struct balance_piece *pieces, size_t count, struct balance_step *steps, size_t *gpu)
{
    struct place_pool copy = *pool;
    struct place_result now;
    struct room_plan best = { .steps = steps }, plan = { .steps = malloc((count + 1) * sizeof *steps) };
    size_t *order = order_of(pieces, count);
    copy.gpus = malloc((pool->count + 1) * sizeof *copy.gpus);
    if (copy.gpus && order && plan.steps && place_choose(pool, policy, wanted, &now) != PLACE_FOUND)
        for (size_t i = 0; i < 2 * pool->count; i++) {
            const struct place_gpu *on = &pool->gpus[i / 2];
            if (!on->schedulable || !place_could_hold(pool, i / 2, wanted) ||
                (on->keeper && on->keeper != wanted->asker))
                continue;
            memcpy(copy.gpus, pool->gpus, pool->count * sizeof *copy.gpus);
            if (!room_on(&copy, policy, wanted, i / 2, pieces, order, count, i % 2, &plan) ||
                (best.count && plan.bytes >= best.bytes))
                continue;
            best = (struct room_plan){ steps, plan.count, plan.bytes };
            memcpy(steps, plan.steps, plan.count * sizeof *steps);
            *gpu = i / 2;
        }
    free(order);
    free(plan.steps);
    free(copy.gpus);
    return best.count;
}

/* ---- even loads ---- */

/* 0 to 1, above where the GPU is over-committed. */
static double load_of(const struct place_gpu *gpu)
{
    double sms = gpu->sms ? (double)gpu->used_sms / gpu->sms : 0;
    double memory = gpu->memory ? (double)gpu->used_memory / (double)gpu->memory : 0;
    return sms > memory ? sms : memory;
}

static double load_with(const struct place_gpu *gpu, const struct place_request *share, int sign)
{
    struct place_gpu changed = *gpu;
    changed.used_sms = sign > 0 ? gpu->used_sms + share->sms : gpu->used_sms - share->sms;
    changed.used_memory = sign > 0 ? gpu->used_memory + share->memory : gpu->used_memory - share->memory;
    return load_of(&changed);
}

bool balance_even(const struct place_pool *pool, int policy, double margin, const struct balance_piece *pieces,
                  size_t count, struct balance_step *best)
{
    double most = 0;
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const struct balance_piece *piece = &pieces[i];
        const struct place_gpu *here = &pool->gpus[piece->gpu];
        struct balance_step step = { .piece = i };
        if (!place_for(pool, policy, piece, &step.to))
            continue;
        double source = load_with(here, &piece->request, -1);
        double target = load_with(&pool->gpus[step.to.gpu], &piece->request, 1);
        double gain = load_of(here) - (source > target ? source : target);
        bool equal = found && gain == most;
        if (gain < margin || gain < most || (equal && piece->request.memory >= pieces[best->piece].request.memory))
            continue;
        *best = step;
        most = gain;
        found = true;
    }
    return found;
}
