#include "softgpu/ptx/budget.h"

#include <stdatomic.h>
#include <stdint.h>

size_t ptx_budget_most = SIZE_MAX;
static atomic_size_t taken;
static _Thread_local bool refused;

bool ptx_budget_take(size_t bytes)
{
    size_t before = atomic_load_explicit(&taken, memory_order_relaxed);
    do {
        if (before > ptx_budget_most || bytes > ptx_budget_most - before) {
            refused = true;
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&taken, &before, before + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void ptx_budget_give(size_t bytes) { atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed); }

bool ptx_budget_refused(void)
{
    bool was = refused;
    refused = false;
    return was;
}
