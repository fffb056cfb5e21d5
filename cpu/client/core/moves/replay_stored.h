/* replay_stored.h: a call of the journal whose bytes are in the checkpoint (JOURNAL_STORED). */
#ifndef FLYT_CLIENT_CORE_REPLAY_STORED_H
#define FLYT_CLIENT_CORE_REPLAY_STORED_H

#include "cpu/client/core/stream/move_fetch.h"
#include "cpu/client/core/wire/journal.h"

struct replay_stored {
    const uint8_t *args; /* the journal's, up to the number of bytes */
    size_t args_size;
    const uint8_t *bytes;
    uint32_t size;
};

/* For move_fetch_begin. at: a const struct journal_entry *, which is NULL at first: the last one for which a part is
   wanted. */
bool replay_stored_next(void *at, struct move_part *);
/* The next part that is fetched, which is that of the entry. Its bytes stay until the next one. NULL; or why it cannot
   be had. */
const char *replay_stored_read(struct replay_stored *, struct move_fetch *, const struct journal_entry *);
/* For rpc_call.encode: the arguments, with the bytes as their last one. */
bool_t replay_stored_put(XDR *, struct replay_stored *);

#endif
