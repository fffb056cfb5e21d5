/* replay_stored.c: see replay_stored.h. */
#include <string.h>

#include "replay_stored.h"

enum { COUNT = sizeof(uint32_t) }; /* bytes of the number of bytes, which stands before them */

static bool part_of(const struct journal_entry *entry, struct move_part *part)
{
    struct journal_stored named;
    if (entry->size < sizeof named + COUNT)
        return false;
    memcpy(&named, journal_bytes_of(entry), sizeof named);
    *part = (struct move_part){ named.kind, named.object, named.offset, named.size };
    return named.size <= FLYT_MAX_INLINE;
}

bool replay_stored_next(void *at, struct move_part *part)
{
    const struct journal_entry **entry = at;
    do
        *entry = journal_next(*entry);
    while (*entry && (*entry)->kind != JOURNAL_STORED && (*entry)->kind != JOURNAL_BEGUN);
    return *entry && (*entry)->kind == JOURNAL_STORED && part_of(*entry, part);
}

const char *replay_stored_read(struct replay_stored *stored, struct move_fetch *fetch,
                               const struct journal_entry *entry)
{
    struct move_part named, part;
    const char *why = NULL;
    memset(stored, 0, sizeof *stored);
    if (!part_of(entry, &named))
        return "the journal of its calls is damaged";
    if (move_fetch_take(fetch, &part, &stored->bytes, &why))
        return why;
    if (part.kind != named.kind || part.object != named.object || part.offset != named.offset ||
        (part.size != named.size && entry->procedure != FLYT_HEAP_SET))
        return "the checkpoint is not whole";
    stored->args = journal_bytes_of(entry) + sizeof(struct journal_stored);
    stored->args_size = entry->size - sizeof(struct journal_stored) - COUNT;
    stored->size = (uint32_t)part.size;
    return NULL;
}

bool_t replay_stored_put(XDR *xdr, struct replay_stored *stored)
{
    char *bytes = (char *)(uintptr_t)stored->bytes;
    u_int size = stored->size;
    return XDR_PUTBYTES(xdr, (char *)(uintptr_t)stored->args, (u_int)stored->args_size) &&
           xdr_bytes(xdr, &bytes, &size, FLYT_MAX_INLINE);
}
