/* replay_stored.h: a call of the journal whose bytes are in the checkpoint (JOURNAL_STORED). */
#ifndef FLYT_CLIENT_CORE_REPLAY_STORED_H
#define FLYT_CLIENT_CORE_REPLAY_STORED_H

#include "cpu/client/core/stream/move_store.h"
#include "cpu/client/core/wire/journal.h"

struct replay_stored {
    const uint8_t *args; /* the journal's, up to the number of bytes */
    size_t args_size;
    uint8_t *bytes;
    uint32_t size;
};

/* The next part of the store, which is that of the entry. False: it cannot be read, or is another one. */
bool replay_stored_read(struct replay_stored *, struct move_store *, const struct journal_entry *);
/* For rpc_call.encode: the arguments, with the bytes as their last one. */
bool_t replay_stored_put(XDR *, struct replay_stored *);
void replay_stored_free(struct replay_stored *);

#endif
