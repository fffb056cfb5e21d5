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

/* A GPU of the pool before a trial put a piece there: the trial takes it back. */
struct undo {
    size_t slot;
    struct place_gpu before;
};

struct room_plan {
    struct balance_step *steps;
    size_t count;
    uint64_t bytes;
    struct undo *undo;
    size_t undo_count;
};

/* On this GPU alone. */
static bool has_room(const struct place_pool *pool, int policy, const struct place_request *wanted, size_t gpu)
{
    struct place_pool alone = *pool;
    struct place_result result;
    alone.gpus = &pool->gpus[gpu];
    alone.count = 1;
    return place_choose(&alone, policy, wanted, &result) == PLACE_FOUND;
}

static void note_before(const struct place_pool *pool, size_t slot, struct room_plan *plan)
{
    plan->undo[plan->undo_count++] = (struct undo){ slot, pool->gpus[slot] };
}

static void take_back(struct place_pool *pool, struct room_plan *plan)
{
    while (plan->undo_count) {
        const struct undo *undo = &plan->undo[--plan->undo_count];
        pool->gpus[undo->slot] = undo->before;
    }
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

/* order: of the pieces, those with the least memory first; from_largest: read backwards. */
static void plan_room(struct place_pool *pool, int policy, const struct place_request *wanted, size_t gpu,
                      const struct balance_piece *pieces, const size_t *order, size_t count, bool from_largest,
                      struct room_plan *plan)
{
    const unsigned sharing = pool->gpus[gpu].sharing;
    plan->count = plan->bytes = plan->undo_count = 0;
    note_before(pool, gpu, plan);
    for (size_t i = 0; i < count && !has_room(pool, policy, wanted, gpu); i++) {
        struct balance_step step = { .piece = order[from_largest ? count - 1 - i : i] };
        const struct balance_piece *piece = &pieces[step.piece];
        if (!place_for(pool, policy, piece, &step.to))
            continue;
        note_before(pool, step.to.gpu, plan);
        leave(pool, piece);
        arrive(pool, &step.to);
        plan->steps[plan->count++] = step;
        plan->bytes += piece->request.memory;
    }
    if (has_room(pool, policy, wanted, gpu))
        drop_needless(pool, policy, wanted, gpu, sharing, pieces, plan);
    else
        plan->count = 0;
    take_back(pool, plan);
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

size_t balance_room_on(struct place_pool *pool, int policy, const struct place_request *wanted, size_t gpu,
                       const struct balance_piece *pieces, size_t count, struct balance_step *steps, uint64_t *bytes)
{
    struct room_plan plan = { .steps = malloc((count + 1) * sizeof *steps),
                              .undo = malloc((count + 1) * sizeof *plan.undo) };
    size_t *order = order_of(pieces, count), found = 0;
    *bytes = 0;
    for (int from_largest = 0; from_largest <= 1 && order && plan.steps && plan.undo; from_largest++) {
        plan_room(pool, policy, wanted, gpu, pieces, order, count, from_largest, &plan);
        if (!plan.count || (found && plan.bytes >= *bytes))
            continue;
        found = plan.count;
        *bytes = plan.bytes;
        memcpy(steps, plan.steps, plan.count * sizeof *steps);
    }
    free(order);
    free(plan.steps);
    free(plan.undo);
    return found;
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

bool balance_gain(const struct place_pool *pool, int policy, const struct balance_piece *piece, struct place_result *to,
                  double *gain)
{
    const struct place_gpu *here = &pool->gpus[piece->gpu];
    if (!place_for(pool, policy, piece, to))
        return false;
    double source = load_with(here, &piece->request, -1);
    double target = load_with(&pool->gpus[to->gpu], &piece->request, 1);
    *gain = load_of(here) - (source > target ? source : target);
    return true;
}
