/*
 * resize.c: what the tenant may have changes while its programs run. The listener writes it into the books, where each
 * worker reads it when it charges memory, so an order holds for all programs at once, and no program is stopped for it.
 *
 * An order is about each device of the server. More memory: the next charge sees it. Less memory: only if everything
 * that the programs hold fits, credit that a client holds unused included. While an order waits for that, charges are
 * judged by the smaller number (`wanted`), so that no program takes what another one gives back.
 */
#include "cpu/server/tenant/resize.h"

#include "cpu/server/tenant/books.h"
#include "cpu/server/tenant/tenant.h"

bool resize_look(struct resize_held *out)
{
    if (!books_lock())
        return false;
    out->held = books_most(&out->idle);
    books_unlock();
    out->limit = tenant_limit();
    return true;
}

bool resize_try(uint64_t bytes, bool hold)
{
    if (!books_lock())
        return false;
    struct ledger *ledger = books();
    bool fits = books_most(NULL) <= bytes;
    if (fits) {
        atomic_store(&ledger->device, bytes);         /* first: what was charged by the new limit must be there */
        atomic_store(&ledger->limit, bytes);
    }
    atomic_store(&ledger->wanted, !fits && hold ? bytes : 0);
    books_unlock();
    books_changed();
    return fits;
}

void resize_give_up(void)
{
    if (!books_lock())
        return;
    atomic_store(&books()->wanted, 0);
    books_unlock();
    books_changed();
}

void resize_recall(uint64_t bytes)
{
    if (!books_lock())
        return;
    uint64_t held = books_most(NULL);
    if (held > bytes)
        books_ask(held - bytes, false);
    books_unlock();
}

void resize_sms(uint32_t sms)
{
    if (books())
        atomic_store(&books()->sms, sms);
}

bool resize_words(const _Atomic uint64_t **device, const _Atomic uint32_t **sms)
{
    const struct ledger *ledger = books();
    if (!ledger)
        return false;
    *device = &ledger->device;
    *sms = &ledger->sms;
    return true;
}
