/*
 * comm.h: collectives between ranks, on host memory. A context is one rank of `size`; each pair of ranks has a link,
 * made when they meet in a store. All ranks call the same collectives in the same order, from one thread at a time
 * each.
 *
 * A call makes its plan (plan.h), which run.c carries out: the threads of the links drive it, the caller waits. So it
 * needs no thread of its own.
 *
 * Failure. The first failure of a context ends it on all ranks: whoever notices it aborts all its links with the
 * reason, and each rank that hears of it does the same. So a rank that ends, a deadline that passes, and calls that do
 * not fit together are an error on every rank, within a second of a kill. What each rank calls travels with its
 * messages: a mismatch names both calls.
 */
#ifndef FLYT_COMM_COMM_H
#define FLYT_COMM_COMM_H

#include "cpu/comm/link/link.h"
#include "cpu/comm/near.h"
#include "cpu/comm/plan/plan.h"
#include "cpu/comm/reduce/reduce.h"
#include "cpu/comm/sided.h"
#include "cpu/comm/store/store.h"
#include "cpu/common/comm_book.h"

struct comm_context;

struct comm_context_settings {
    unsigned            rank, size;             /* at most COMM_RANKS_MOST */
    struct comm_engine *engine;                 /* the links are its; it must live longer. NULL: there are none */
    bool registers;                             /* the engine wants registered memory: that of a call is, as long as it
                                                   lasts */
    enum comm_algorithm algorithm;              /* AUTOMATIC: FLYT_COMM_ALGORITHM, else chosen for each call */
    struct comm_table   table;                  /* of zeros: usual values. The same on all ranks */
    struct comm_near   *near;                   /* where ranks of this process meet; NULL: there are none */
    struct comm_book_page page;                 /* what it calls is recorded there; zeros: in memory of its own */
};

/* The store stays the caller's; it must live until the context is connected, or as long as the context if that connects
   pairs when they are first needed. One store, or prefix, for each context. NULL: its owner connects it, with the two
   functions below. */
int  comm_context_create(const struct comm_context_settings *, struct comm_store *, struct comm_context **out,
                         char *error);
/* Connects this rank with all others. Without it a pair is connected when a call first needs it; then the first message
   between two ranks waits until both are in comm_send or comm_receive with each other. */
int  comm_context_connect_full_mesh(struct comm_context *, uint64_t deadline, char *error);
/* Takes the table that FLYT_COMM_TABLE wants (agree.c), which may mean measuring: all ranks call it at a time, when all
   are connected. Without the variable it does nothing. 0 or -errno; then the context has failed, or the table could not
   be written. comm_context_connect_full_mesh calls it. */
int comm_context_agree(struct comm_context *, uint64_t deadline, char *error);
struct comm_table comm_context_table(const struct comm_context *);
void comm_context_rank(const struct comm_context *, unsigned *rank, unsigned *size);
/* The rank is reached by this joined link, which stays the caller's and lives longer. When it is lost the caller says
   so with comm_context_lost. Before the first call. */
void comm_context_use_link(struct comm_context *, unsigned rank, struct comm_link *);
void comm_context_lost(struct comm_context *, unsigned rank, int status, const char *why);
/* The rank is in this process (settings.near). Before the first call. */
void comm_context_use_near(struct comm_context *, unsigned rank);
void comm_context_destroy(struct comm_context *);       /* NULL is allowed; no call may be under way */
/* Ends it on all ranks; returns at once. Any thread. status: negative. */
void comm_context_abort(struct comm_context *, int status, const char *why);
int  comm_context_status(struct comm_context *, char *error);
/* The last calls, the newest first, as many as fit: "12: all-reduce of 5 int32, sum (doubling): under way for 2.0 s;
   11: barrier: 0.1 ms". Any thread. */
void comm_context_recorded(struct comm_context *, char *text, size_t size);

/* Counts are in elements of the type. `counts` and `places` (of each rank; NULL: all have `count`, one behind the
   other) are of the parts that are gathered, scattered, or sent in all-to-all; `in_counts` and `in_places` of what
   comes in all-to-all. `count` is the whole in broadcast, reduce and all-reduce. In place: in == out; in gathers in ==
   this rank's part of out, in scatters out == that part of in. All-to-all is not done in place. */
struct comm_call {
    enum comm_kind      kind;
    const void         *in;
    void               *out;
    uint64_t            count;
    enum comm_type      type;
    enum comm_operation operation;
    const void         *factor;                 /* of MULTIPLIED_SUM: this rank's, of the type */
    unsigned            root;
    const uint64_t     *counts, *places, *in_counts, *in_places;
};

/* 0; -EINVAL: the arguments are wrong, and nothing has happened; else the context has failed, with *error saying why.
   */
int comm_call(struct comm_context *, const struct comm_call *, uint64_t deadline, char *error);

/* One call on all ranks of a communicator whose ranks are all near, by one thread: contexts[i] calls calls[i].
   Nothing is waited for but threads that fail the contexts at the same time. status[i]: as of comm_call. */
enum { COMM_TOGETHER_MOST = 16 };
void comm_call_together(struct comm_context *const *contexts, const struct comm_call *calls, unsigned count,
                        uint64_t deadline, int *status, char *error);

/* Between two ranks; the n-th send with a tag meets the n-th receive with it. *got (may be NULL): what the peer sent,
   at most size. */
int comm_send(struct comm_context *, unsigned peer, uint32_t tag, const void *memory, uint64_t size, uint64_t deadline,
              char *error);
int comm_receive(struct comm_context *, unsigned peer, uint32_t tag, void *memory, uint64_t size, uint64_t *got,
                 uint64_t deadline, char *error);

/* Messages that belong together, as between ncclGroupStart and ncclGroupEnd: all are under way at a time, so that two
   ranks may send to each other first. The n-th message that a rank sends to another one by this function is the n-th
   that the other one receives from it; sizes must be equal. A rank may send to itself. Not counted among the calls. */
struct comm_message { bool sends; unsigned peer; void *memory; uint64_t size; };
int comm_exchange(struct comm_context *, const struct comm_message *, unsigned count, uint64_t deadline, char *error);

#endif
