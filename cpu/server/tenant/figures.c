/* figures.c: what workers have done, in the tenant's books. */
#include "cpu/server/tenant/figures.h"

#include <string.h>

#include "cpu/common/clock.h"

void figures_time(struct ledger_figures *figures, uint64_t ns)
{
    uint64_t us = ns / (CLOCK_NS_PER_MS / 1000);
    unsigned at = 0;
    while (at + 1 < LEDGER_TIMES && us >= (uint64_t)LEDGER_TIME_US << at)
        at++;
    figure_add(&figures->timed_us, us);
    figure_add(&figures->times[at], 1);
}

/* A reader without the lock must not count them twice, nor miss them: `folds` is odd meanwhile. */
void figures_fold(struct ledger *ledger, uint32_t slot)
{
    _Atomic uint64_t *from = (_Atomic uint64_t *)&ledger->figures[slot], *to = (_Atomic uint64_t *)&ledger->ended;
    atomic_fetch_add(&ledger->folds, 1);
    for (int i = 0; i < LEDGER_FIGURES; i++)
        figure_add(&to[i], atomic_exchange(&from[i], 0));
    atomic_fetch_add(&ledger->folds, 1);
}
