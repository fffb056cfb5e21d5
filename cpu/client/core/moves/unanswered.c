/* unanswered.c: see unanswered.h. */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/wire.h"
#include "unanswered.h"

bool call_is_answered(uint32_t procedure)
{
    return procedure < rpc_flyt_program.count && rpc_flyt_program.procedures[procedure].class == RPC_CLASS_SYNC;
}

static bool add(struct unanswered *u, const struct journal_entry *sent)
{
    if (u->count == u->room) {
        size_t room = u->room ? 2 * u->room : 64;
        struct unanswered_call *larger = realloc(u->calls, room * sizeof *larger);
        if (!larger)
            return false;
        u->calls = larger;
        u->room = room;
    }
    u->calls[u->count++] = (struct unanswered_call){ sent->xid, sent->procedure, sent };
    return true;
}

static void take_out(struct unanswered *u, uint32_t xid)
{
    size_t at = u->count;
    while (at && u->calls[at - 1].xid != xid)
        at--;
    if (at)
        memmove(u->calls + at - 1, u->calls + at, (u->count-- - at) * sizeof *u->calls);
}

bool unanswered_find(struct unanswered *u)
{
    for (const struct journal_entry *entry = journal_next(NULL); entry; entry = journal_next(entry)) {
        if (entry->kind == JOURNAL_SENT && call_is_answered(entry->procedure) && !add(u, entry))
            return false;
        if (entry->kind != JOURNAL_ANSWERED)
            continue;
        take_out(u, entry->xid);
        u->answers += entry->procedure != FLYT_EVENTS;
    }
    return true;
}

bool unanswered_is(const struct unanswered *u, const struct journal_entry *sent)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->calls[i].sent == sent)
            return true;
    return false;
}

bool unanswered_has(const struct unanswered *u, uint32_t xid)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->calls[i].xid == xid)
            return true;
    return false;
}

void unanswered_free(struct unanswered *u)
{
    free(u->calls);
    *u = (struct unanswered){ 0 };
}
