/* journal_calls.h: the session's calls and their answers come into the journal (wire/journal.h). */
#ifndef FLYT_CLIENT_CORE_JOURNAL_CALLS_H
#define FLYT_CLIENT_CORE_JOURNAL_CALLS_H

#include "cpu/rpc/rpc.h"

/* The rpc layer calls both under the lock of the client, which gives their order: see struct rpc_recorder. */
uint8_t *journal_call_sent(struct rpc_recorder *, uint32_t procedure, uint32_t xid, size_t size);
void journal_call_answered(struct rpc_recorder *, const struct rpc_call *, const uint8_t *body, size_t size);

#endif
