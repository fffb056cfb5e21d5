/*
 * used.c: how much of a device the programs of this tenant use.
 */
#include "cpu/client/nvml/nvml.h"

uint64_t used_total(const struct view *view, unsigned device)
{
    uint64_t all = view->devices[device].total_memory;
    return view->head.limit && view->head.limit < all ? view->head.limit : all;
}

uint64_t used_on(const struct view *view, unsigned device)
{
    uint64_t sum = 0, total = used_total(view, device);
    for (uint32_t i = 0; i < view->head.programs; i++)
        sum += view->programs[i].bytes[device];
    return sum < total ? sum : total;
}

bool used_by(const struct report_program *program, unsigned device) { return program->bytes[device] > 0; }
