/* build.c: the steps of a plan, and the parts of a call. See build.h. */
#include "cpu/comm/plan/build.h"

#include <stdlib.h>

/* A step with room for its waits, which are given right behind it. */
static unsigned add(struct comm_plan *plan, struct comm_step step)
{
    if (plan->count == plan->room) {
        unsigned room = plan->room * 2 + 32;
        struct comm_step *larger = realloc(plan->steps, room * sizeof *larger);
        if (!larger) {
            plan->failed = true;
            return NO_STEP;
        }
        plan->steps = larger;
        plan->room = room;
    }
    step.first_wait = plan->wait_count;
    step.waits = 0;
    plan->steps[plan->count] = step;
    return plan->count++;
}

void plan_wait(struct comm_plan *plan, unsigned step, unsigned other)
{
    if (step == NO_STEP || other == NO_STEP || plan->failed)
        return;
    if (plan->wait_count == plan->wait_room) {
        unsigned room = plan->wait_room * 2 + 32;
        unsigned *larger = realloc(plan->waits, room * sizeof *larger);
        if (!larger) {
            plan->failed = true;
            return;
        }
        plan->waits = larger;
        plan->wait_room = room;
    }
    plan->waits[plan->wait_count++] = other;
    plan->steps[step].waits++;
}

unsigned plan_send(struct comm_plan *plan, unsigned peer, uint64_t number, struct comm_place from, uint64_t size)
{
    return size ? add(plan,
                      (struct comm_step){ .kind = STEP_SEND, .peer = peer, .number = number, .a = from, .size = size })
                : NO_STEP;
}

unsigned plan_receive(struct comm_plan *plan, unsigned peer, uint64_t number, struct comm_place to, uint64_t size)
{
    return size
               ? add(plan,
                     (struct comm_step){ .kind = STEP_RECEIVE, .peer = peer, .number = number, .to = to, .size = size })
               : NO_STEP;
}

unsigned plan_reduce(struct comm_plan *plan, struct comm_place to, struct comm_place a, struct comm_place b,
                     uint64_t size)
{
    return size ? add(plan, (struct comm_step){ .kind = STEP_REDUCE, .to = to, .a = a, .b = b, .size = size })
                : NO_STEP;
}

unsigned plan_copy(struct comm_plan *plan, struct comm_place to, struct comm_place from, uint64_t size)
{
    return size ? add(plan, (struct comm_step){ .kind = STEP_COPY, .to = to, .a = from, .size = size }) : NO_STEP;
}

uint64_t plan_scratch(struct comm_plan *plan, uint64_t size)
{
    uint64_t at = plan->scratch;
    plan->scratch += (size + 63) / 64 * 64;
    return at;
}

uint64_t plan_part_at(const struct comm_shape *shape, unsigned rank)
{
    if (shape->places)
        return shape->places[rank] * shape->element;
    uint64_t at = 0;
    for (unsigned i = 0; shape->counts && i < rank; i++)
        at += shape->counts[i];
    return (shape->counts ? at : rank * shape->count) * shape->element;
}

uint64_t plan_part_size(const struct comm_shape *shape, unsigned rank)
{
    return (shape->counts ? shape->counts[rank] : shape->count) * shape->element;
}

uint64_t plan_block_at(const struct comm_shape *shape, unsigned block)
{
    uint64_t each = shape->count / shape->ranks, more = shape->count % shape->ranks;
    return (block * each + (block < more ? block : more)) * shape->element;
}

uint64_t plan_block_size(const struct comm_shape *shape, unsigned block)
{
    return plan_block_at(shape, block + 1) - plan_block_at(shape, block);
}

uint64_t plan_piece(const struct comm_shape *shape) { return PLAN_PIECE / shape->element * shape->element; }
