/*
 * rehearsal.h: calls that are written down instead of being sent. The kinds of objects say to a server what the session
 * has, as if it moved there (stream/move.h), but there is no server: each call becomes an entry of a journal's draft
 * (journal.h), together with the answer that a server will have to give when it really gets the call.
 *
 * Only the calls of one thread, which all go through wire.h, while it rehearses. All that a call without an answer of
 * a known shape, or a draft without room, costs is the rehearsal: it has failed, and rehearsal_end says why.
 */
#ifndef FLYT_CLIENT_CORE_REHEARSAL_H
#define FLYT_CLIENT_CORE_REHEARSAL_H

#include <stdatomic.h>

#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "journal.h"

extern atomic_bool rehearsal_runs;
bool rehearsal_is_own(void);
/* Whether the calling thread's calls are written down. */
static inline bool rehearsal_here(void)
{
    return __builtin_expect(atomic_load_explicit(&rehearsal_runs, memory_order_relaxed), 0) && rehearsal_is_own();
}
/* The calling thread begins. There is a draft. */
void rehearsal_begin(void);
/* It ends. NULL: everything has been written down; else why not. */
const char *rehearsal_end(void);

/* For wire.c. The call has its answer when this returns. */
void rehearsal_call(struct rpc_call *);
/* A call without an answer. A result code. */
int  rehearsal_send(struct rpc_call *);

/* The bytes at the end of the next call, which has none of them, are this part of the checkpoint. */
void rehearsal_stored(const struct journal_stored *);
/* What the next MODULE_LOAD has to give for its symbols. */
void rehearsal_symbols(const flyt_symbol *);

#endif
