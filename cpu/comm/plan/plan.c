/* plan.c: see plan.h. */
#include "cpu/comm/plan/build.h"

#include <stdlib.h>

/* One rank alone has its result at once. */
static void plan_alone(struct comm_plan *plan, const struct comm_shape *shape)
{
    uint64_t to = shape->kind == COMM_ALL_TO_ALL && shape->in_places ? shape->in_places[0] * shape->element : 0,
             from = 0;
    if (shape->kind == COMM_SCATTER || shape->kind == COMM_ALL_TO_ALL || shape->kind == COMM_REDUCE_SCATTER)
        from = plan_part_at(shape, 0);
    else if (shape->kind == COMM_GATHER || shape->kind == COMM_ALL_GATHER)
        to = plan_part_at(shape, 0);
    plan_copy(plan, plan_at(COMM_OUT, to), plan_at(COMM_IN, from), plan_part_size(shape, 0));
}

struct comm_plan *comm_plan_make(const struct comm_shape *shape)
{
    struct comm_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    if (shape->kind != COMM_BARRIER && shape->ranks == 1) {
        plan_alone(plan, shape);
    } else {
        switch (shape->algorithm) {
        case COMM_RING: plan_ring(plan, shape); break;
        case COMM_TREE: plan_tree(plan, shape); break;
        case COMM_DOUBLING: plan_doubling(plan, shape); break;
        case COMM_HALVING: plan_halving(plan, shape); break;
        case COMM_BRUCK: plan_bruck(plan, shape); break;
        case COMM_DISSEMINATION: plan_dissemination(plan, shape); break;
        default: plan_pairwise(plan, shape); break;
        }
    }
    if (!plan->failed)
        return plan;
    comm_plan_free(plan);
    return NULL;
}

void comm_plan_free(struct comm_plan *plan)
{
    if (!plan)
        return;
    free(plan->steps);
    free(plan->waits);
    free(plan);
}
