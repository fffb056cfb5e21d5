/* replay_stored.c: see replay_stored.h. */
#include <stdlib.h>
#include <string.h>

#include "replay_stored.h"

enum { COUNT = sizeof(uint32_t) }; /* bytes of the number of bytes, which stands before them */

bool replay_stored_read(struct replay_stored *stored, struct move_store *store, const struct journal_entry *entry)
{
    struct journal_stored named;
    memset(stored, 0, sizeof *stored);
    if (entry->size < sizeof named + COUNT)
        return false;
    memcpy(&named, journal_bytes_of(entry), sizeof named);
    struct move_part part = { named.kind, named.object, named.offset, named.size };
    stored->args = journal_bytes_of(entry) + sizeof named;
    stored->args_size = entry->size - sizeof named - COUNT;
    stored->bytes = malloc(FLYT_MAX_INLINE);
    if (!stored->bytes || named.size > FLYT_MAX_INLINE || move_store_read(store, &part, stored->bytes) ||
        (part.size != named.size && entry->procedure != FLYT_HEAP_SET)) {
        replay_stored_free(stored);
        return false;
    }
    stored->size = (uint32_t)part.size;
    return true;
}

bool_t replay_stored_put(XDR *xdr, struct replay_stored *stored)
{
    char *bytes = (char *)stored->bytes;
    u_int size = stored->size;
    return XDR_PUTBYTES(xdr, (char *)(uintptr_t)stored->args, (u_int)stored->args_size) &&
           xdr_bytes(xdr, &bytes, &size, FLYT_MAX_INLINE);
}

void replay_stored_free(struct replay_stored *stored)
{
    free(stored->bytes);
    stored->bytes = NULL;
}
