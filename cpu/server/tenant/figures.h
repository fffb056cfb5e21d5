/*
 * figures.h: what a session has done, in the tenant's books (cpu/common/tenant_ledger.h), for those who account for it.
 * Counting costs a load and a store of a word that this worker alone writes.
 */
#ifndef FLYT_SERVER_FIGURES_H
#define FLYT_SERVER_FIGURES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/tenant_ledger.h"

/* Of this worker's slot; where no books are kept, of a place that nobody reads. After tenant_open. */
struct ledger_figures *tenant_figures(void);

/* Whether the call whose number this is has its time taken. */
static inline bool figures_timed(const struct ledger_figures *figures)
{
    return atomic_load_explicit(&figures->calls, memory_order_relaxed) % LEDGER_TIMED == 0;
}
void figures_time(struct ledger_figures *, uint64_t ns);

/* With the lock of the books: a worker has ended, and its figures become part of those of all that have. */
void figures_fold(struct ledger *, uint32_t slot);

#endif
