/*
 * context.h: contexts (context.c, context_work.c, context_life.c).
 */
#ifndef FLYT_CLIENT_CORE_CONTEXT_H
#define FLYT_CLIENT_CORE_CONTEXT_H

#include "stream.h"

enum { CONTEXTS_MOST = FLYT_MAX_CONTEXTS };

/* PROMISED: the program has it, and calls that need it ask first whether the server has made it (context_life.c). */
enum context_life { CONTEXT_NONE, CONTEXT_MADE, CONTEXT_PROMISED };

struct core_context {
    atomic_int  live;                 /* enum context_life; CONTEXT_NONE: it does not exist */
    bool        primary;
    flyt_id     wire;                 /* its id, and its place in tables that have one for each context */
    struct client_session *session;   /* of the device */
    int         device;
    const struct core_device *facts;
    atomic_uint_fast64_t generation;  /* counts its ends */
    _Alignas(64) atomic_uint_fast64_t sent;     /* calls that gave it work. On a line of its own: each call writes it */
    atomic_uint_fast64_t idle_at;     /* value of sent up to which everything is known to have ended */
    atomic_uint_fast64_t heard_at;    /* the same, as a synchronisation's answer said, with what kernels printed */
    /* value of sent when a stream was destroyed with work in it: unknown until a synchronisation */
    atomic_uint_fast64_t orphaned;
    atomic_uint_fast64_t early_returns, marked;     /* early_return.c */
    atomic_bool cross_context;               /* its streams have been given copies or sets of other contexts' memory */
    atomic_uint chosen;                      /* bit l: the program has set the limit l; its value outlives a reset */
    atomic_uint_fast64_t reached_by;         /* peer.c: bit d: device d may touch its memory */
    struct client_stream legacy;
    /* Under lock. */
    pthread_mutex_t lock;             /* makes and ends it */
    unsigned        flags, owners;
    struct promise *promise;          /* the answer is under way; NULL: it has come, or nothing was asked */
    struct list     working[2], unheard[2];     /* idle.c. [blocking]: do they wait for the legacy stream? */
    struct list     streams;          /* stream.c; also destroyed ones until their id may be used again */
    uint64_t        transfer, sends;  /* stream.c: tokens of the core's own streams */
    struct list     early_returning;   /* early_return.c */
    _Atomic(core_event) gate;         /* context_event.c: new streams wait for it; 0: there is none */
    core_event      reference;        /* event.c: recorded when the session moved to this server; 0: it did not */
    struct heap    *_Atomic heap;     /* memory.c */
};
int  context_open(void);                                    /* at attach, after device_snapshot */
/* At attach, after context_open: the server has made device 0's primary context, and mapped so many bytes of memory for
   it. The first who retains the context finds it there. */
void context_granted(uint64_t memory);
int context_grant_drop(void); /* gives the context back if the program has not retained it. Waits */
/* 0 when the context can be used, else the code to return. Waits for the answer where the context is promised. No lock
   of a context or an image is held. */
int  context_enter(const core_context *);
/* For context_enter, of a promised context: takes the answer, or asks again. 0, or the code to return. */
int  context_kept(core_context *);
void context_settle_promises(void);                         /* no answer is under way from here on. Waits */
/* True: it is promised, and its answer has not been taken; the caller has its lock, and unlocks it. */
bool context_lock_promised(core_context *);
/* Those that the server has made; NULL: the first, and behind the last. */
core_context *context_next(const core_context *);
core_context *context_next_promised(const core_context *);  /* those that are promised */
int  context_round_trip(struct client_session *);           /* a query that waits for its answer */
core_context *context_of_wire(flyt_id);                     /* NULL: none ever had this id */
uint64_t context_count(void);                               /* that exist */
bool context_only_one(void);                                /* at most one exists */
/* The structure for one more context that is no primary one; NULL: there are too many. context_spare takes it back. */
core_context *context_take(int device);
void context_spare(core_context *);
void context_begins(core_context *, enum context_life);     /* it exists from here on */
void context_made(core_context *);                          /* the promised one */
void context_ends(core_context *);
bool context_known_idle(core_context *);
int  context_finish(core_context *);                        /* waits, and asks even where nothing is under way */
int  context_settle(core_context *);                        /* waits unless everything is known to have ended */

/* ---- peer.c ---- */

void peer_forget_context(core_context *);
uint64_t peer_count(void);                                  /* pairs of contexts with access */

#endif
