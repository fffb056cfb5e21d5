/*
 * replay_streams.h: how far the streams are at the server at which the journal is repeated. That server counts the
 * calls of each stream from 0 on; the program and the journal go on counting where a checkpoint was made.
 */
#ifndef FLYT_CLIENT_CORE_REPLAY_STREAMS_H
#define FLYT_CLIENT_CORE_REPLAY_STREAMS_H

#include "cpu/client/core/wire/journal.h"

/* By id: of the legacy streams and those that the program has created. */
struct replay_streams {
    uint64_t *done, *base; /* as the server says it; what is to be added to that */
    size_t count;          /* ids below it */
};

/* False: no memory. */
bool replay_streams_open(struct replay_streams *);
/* Of a stream that begins or ends: the next one of this id begins at 0. An answer that comes late may have been about
   the one before it, so it is said twice. False: no memory. */
bool replay_streams_begin(struct replay_streams *, const struct journal_entry *);
/* BEGUN. False: no memory. */
bool replay_streams_rebase(struct replay_streams *, const struct journal_entry *);
void replay_streams_take(struct replay_streams *, const struct journal_reply *);
/* As the journal counts. */
uint64_t replay_streams_done(const struct replay_streams *, const struct rpc_shared_memory *, uint32_t stream);
void replay_streams_close(struct replay_streams *);

#endif
