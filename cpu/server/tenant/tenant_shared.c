/* tenant_shared.c: see tenant_shared.h. */
#include "cpu/server/tenant/tenant_shared.h"

#include <string.h>

/* The file may have been written by a process that died in the middle. */
static uint32_t count(const struct ledger *ledger)
{
    return ledger->shared_count < LEDGER_SHARED ? ledger->shared_count : LEDGER_SHARED;
}

/* The first row of that number or a greater one. */
static uint32_t position(const struct ledger *ledger, uint64_t number)
{
    uint32_t low = 0, high = count(ledger);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ledger->shared[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool shared_held(const struct ledger *ledger, uint64_t number)
{
    uint32_t at = position(ledger, number);
    return at < count(ledger) && ledger->shared[at].number == number;
}

static struct ledger_shared *row_of(struct ledger *ledger, uint64_t number, int64_t pid)
{
    for (uint32_t at = position(ledger, number); at < count(ledger) && ledger->shared[at].number == number; at++)
        if (ledger->shared[at].pid == pid)
            return &ledger->shared[at];
    return NULL;
}

bool shared_add(struct ledger *ledger, uint64_t number, uint32_t device, uint64_t bytes, int64_t pid)
{
    uint32_t rows = count(ledger), at = position(ledger, number);
    struct ledger_shared *row = row_of(ledger, number, pid);
    if (row) {
        row->uses++;
        return true;
    }
    if (rows == LEDGER_SHARED)
        return false;
    row = &ledger->shared[at];
    memmove(row + 1, row, (rows - at) * sizeof *row);
    *row = (struct ledger_shared){ number, bytes, pid, 1, device };
    ledger->shared_count = rows + 1;
    return true;
}

bool shared_drop(struct ledger *ledger, uint64_t number, int64_t pid)
{
    struct ledger_shared *row = row_of(ledger, number, pid);
    if (!row || --row->uses)
        return row != NULL;
    uint32_t rows = count(ledger);
    memmove(row, row + 1, (size_t)(&ledger->shared[rows - 1] - row) * sizeof *row);
    ledger->shared_count = rows - 1;
    return true;
}

void shared_forget(struct ledger *ledger, int64_t pid)
{
    uint32_t rows = count(ledger), kept = 0;
    for (uint32_t i = 0; i < rows; i++)
        if (ledger->shared[i].pid != pid)
            ledger->shared[kept++] = ledger->shared[i];
    ledger->shared_count = kept;
}

uint64_t shared_sum(const struct ledger *ledger, uint32_t device)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count(ledger); i++)
        if ((device == LEDGER_ALL || ledger->shared[i].device == device) &&
            (!i || ledger->shared[i].number != ledger->shared[i - 1].number))
            sum += ledger->shared[i].bytes;
    return sum;
}
