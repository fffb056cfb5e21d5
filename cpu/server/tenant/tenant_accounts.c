/* tenant_accounts.c: see tenant_accounts.h. */
#include "cpu/server/tenant/tenant_accounts.h"

#include <string.h>

/* The file may have been written by a process that died in the middle. */
static uint32_t count(const struct ledger *ledger)
{
    return ledger->account_high < LEDGER_ACCOUNTS ? ledger->account_high : LEDGER_ACCOUNTS;
}

static const struct ledger_account *find(const struct ledger *ledger, int64_t pid, uint32_t device)
{
    for (uint32_t i = 0; i < count(ledger); i++)
        if (ledger->accounts[i].pid == pid && ledger->accounts[i].device == device)
            return &ledger->accounts[i];
    return NULL;
}

/* A free row; NULL: there is none. */
static struct ledger_account *make(struct ledger *ledger, int64_t pid, uint32_t device)
{
    uint32_t at = 0;
    while (at < count(ledger) && ledger->accounts[at].pid)
        at++;
    if (at == LEDGER_ACCOUNTS)
        return NULL;
    if (at >= ledger->account_high)
        ledger->account_high = at + 1;
    ledger->accounts[at] = (struct ledger_account){ .pid = pid, .device = device };
    return &ledger->accounts[at];
}

static uint64_t less(uint64_t from, uint64_t what) { return from - (what < from ? what : from); }

struct account_held account_of(const struct ledger *ledger, const struct ledger_slot *slot, uint32_t device)
{
    struct account_held held = { slot->bytes, slot->credit };
    if (device == LEDGER_ALL)
        return held;
    if (device) {
        const struct ledger_account *row = find(ledger, slot->pid, device);
        return row ? (struct account_held){ row->bytes, row->credit } : (struct account_held){ 0, 0 };
    }
    for (uint32_t i = 0; i < count(ledger); i++)
        if (ledger->accounts[i].pid == slot->pid) {
            held.bytes = less(held.bytes, ledger->accounts[i].bytes);
            held.credit = less(held.credit, ledger->accounts[i].credit);
        }
    return held;
}

bool account_add(struct ledger *ledger, struct ledger_slot *slot, uint32_t device, uint64_t bytes, uint64_t credit)
{
    if (device) {
        struct ledger_account *row = (struct ledger_account *)(uintptr_t)find(ledger, slot->pid, device);
        if (!row)
            row = make(ledger, slot->pid, device);
        if (!row)
            return false;
        row->bytes += bytes;
        row->credit += credit;
    }
    slot->bytes += bytes;
    slot->credit += credit;
    return true;
}

void account_take(struct ledger *ledger, struct ledger_slot *slot, uint32_t device, uint64_t bytes, uint64_t credit)
{
    struct ledger_account *row =
        device ? (struct ledger_account *)(uintptr_t)find(ledger, slot->pid, device) : NULL;
    if (row) {
        row->bytes = less(row->bytes, bytes);
        row->credit = less(row->credit, credit);
    }
    slot->bytes = less(slot->bytes, bytes);
    slot->credit = less(slot->credit, credit);
}

void account_forget(struct ledger *ledger, int64_t pid)
{
    for (uint32_t i = 0; i < count(ledger); i++)
        if (ledger->accounts[i].pid == pid)
            memset(&ledger->accounts[i], 0, sizeof ledger->accounts[i]);
}

uint32_t account_devices(const struct ledger *ledger)
{
    uint32_t highest = 0;
    for (uint32_t i = 0; i < count(ledger); i++)
        if (ledger->accounts[i].pid && ledger->accounts[i].device > highest)
            highest = ledger->accounts[i].device;
    return highest;
}
