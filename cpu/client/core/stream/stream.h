/*
 * stream.h: streams: what is known of one, its calls, and their order; contexts, to which they belong.
 *
 * Locks, in the order in which they may be taken (each file says what its own protects):
 *   session.attach > image.load > context.lock > memory.lock > stream.lock > stream lists > rpc layer
 *   > progress, text, pending copies
 * Done callbacks run in whichever thread reads the connection; they take only the last group.
 * In the child of a fork no lock is taken at all: every entry asks core_enter() first.
 */
#ifndef FLYT_CLIENT_CORE_STREAM_H
#define FLYT_CLIENT_CORE_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "cpu/client/core/api_code.h"
#include "cpu/common/list.h"
#include "cpu/client/core/wire/wire.h"

/* A place in the order of a stream's work: behind its call `number`. serial is that call's place among all calls of
   the session, legacy_before the serial of the last call that the context's legacy stream had been given by then:
   enough to know whether a call of another stream comes before it by the rules of the legacy stream. life: which of
   the streams that have had the structure: a point may outlive its stream, in an event. */
struct client_stream;
struct op;
struct stream_recorder;
struct point {
    const struct client_stream *stream;
    uint64_t life, number, serial, legacy_before;
};
/* The place of a call that is being submitted, for other threads: UINT64_MAX until it has its place. */
struct submitted { atomic_uint_fast64_t number, serial, legacy_before; };

/* backlog.c: what the stream has under way. */
enum { BACKLOG_PLACES = 16 };
struct backlog {
    atomic_uint_fast64_t spent;       /* units that it was ever given; changed under the stream's lock */
    atomic_uint_fast64_t granted;     /* it may be given more while spent is less */
    /* under pool.lock */
    unsigned         blocks, first, count;
    /* confirmed: what is done, at least */
    struct backlog_place { uint64_t number, spent; } confirmed, places[BACKLOG_PLACES];
    struct client_stream *next, **from; /* of those that have blocks */
    bool             asking;          /* the call is under way, and what follows is its own */
    struct wire_call call;
    stream_args      args;
    plain_result     result;
    uint64_t         asked_at;
};

/* Numbers: sent counts the calls put into the stream (as the server counts them), numbered also the one that is being
   submitted, done those known to have ended (ask stream_done), weighty is the number of the last one that may run
   long or fail (launches, host functions, waits). All of them only grow while the stream lives. Structures are reused
   but never freed, so a look-up that races with a destroy is harmless. */
struct client_stream {
    pthread_mutex_t lock;             /* makes "number and submit" one step */
    atomic_uint_fast64_t numbered, sent, done, weighty;
    atomic_uint_fast64_t base;        /* its number when the session moved to this server, which counts from there */
    _Atomic uint64_t *published;      /* where the server writes it, in shared memory; else a word that stays 0 */
    /* up to where a synchronisation has been answered, and what kernels printed came with it */
    atomic_uint_fast64_t heard;
    struct asked asked;
    atomic_uint_fast64_t serial, legacy_before;     /* of the last call: see struct point */
    atomic_uint_fast64_t early_returns;     /* the caller of a copy up to here did not wait; 0: none, or see behind */
    /* early_return.c: an event behind such copies, and up to which; 0: none */
    struct { core_event event; atomic_uint_fast64_t number; } behind;
    atomic_uint_fast64_t token;       /* 0: legacy, or destroyed */
    atomic_uint_fast64_t life;        /* grows with each stream that gets the structure */
    flyt_id  wire;
    core_context *context;
    unsigned flags;
    int      priority;
    struct stream_recorder *_Atomic recorder; /* records what the stream is given; NULL: it goes to the server */
    struct stream_attributes *attributes; /* NULL: the usual ones; under lock */
    uint64_t counted;                 /* the context's `sent` with the last call; under lock */
    /* The lists of its context that it is in (idle.c, early_return.c). listed is changed under both locks: the stream's
       and the lists'. */
    bool        listed;
    atomic_bool returning;
    struct list of_context;           /* the context's streams; free: the unused ones */
    struct list working, unheard, early_returning;
    struct backlog backlog;
};
enum { STREAM_NON_BLOCKING = 1 };     /* CU_STREAM_NON_BLOCKING */

/* ---- backlog.c ---- */

void backlog_wait(struct client_stream *);
/* It has nothing under way any more. False: it must not be used again yet. */
bool backlog_leave(struct client_stream *);
/* Before a call that the stream counts: waits while the stream has as much under way as it may have. */
static inline void backlog_enter(struct client_stream *s)
{
    if (atomic_load_explicit(&s->backlog.spent, memory_order_relaxed) >=
        atomic_load_explicit(&s->backlog.granted, memory_order_relaxed))
        backlog_wait(s);
}

/* ---- attribute_check.c ---- */

/* Whether a launch on the device, or a stream of it, may have it: 0 or what native says. */
int launch_check_attribute(int device, const struct core_launch_attribute *);
/* A priority beyond the device's range becomes the nearest one. */
void launch_attribute_limit(int device, struct core_launch_attribute *);
int stream_check_attribute(int device, int id, const void *value);

/* ---- stream.c: making, finding and ending them ---- */

int  stream_open(void);                                     /* at attach */
void stream_open_context(core_context *);                   /* before it exists */
/* What the token means in the context. */
int client_stream_find(core_context *, core_stream, struct client_stream **out);
int client_stream_enter(core_context *, core_stream, struct client_stream **out); /* context_enter, then the same */
/* All streams of all contexts, also destroyed ones whose id is not used again yet. visit takes no lock. */
void stream_each(void (*visit)(struct client_stream *, void *), void *context);
/* The session goes on at another server, where each stream counts its calls from 0 again. bases: what stream_base is to
   be from here on, of the ids below count; 0 of all others. No server says anything meanwhile. */
void streams_rebase(const uint64_t *bases, size_t count);
/* A token for a structure that is no stream of the server's, up to stream_return. 0: no memory. */
core_stream stream_lend(struct client_stream *, core_context *);
void stream_return(core_stream);
/* The context's streams, the legacy one first. The caller frees the array, which is NULL after a
   failure. */
int stream_list(core_context *, core_stream **, unsigned *count);
/* The core's own non-blocking streams: for the thread for work between servers, and for what it sends over links. */
int stream_transfer(core_context *, struct client_stream **out);
int stream_sends(core_context *, struct client_stream **out);
void stream_forget_context(core_context *);
uint64_t stream_count(void);
/* An id that no stream has, and that no stream gets until it is given back. 0: there is none. */
flyt_id stream_id_take(uint64_t *token);
void stream_id_give(uint64_t token);
static inline bool stream_is_legacy(const struct client_stream *s) { return s->wire < FLYT_FIRST_STREAM; }
/* Waits for the legacy stream, and it for this one. */
static inline bool stream_is_blocking(const struct client_stream *s) { return !(s->flags & STREAM_NON_BLOCKING); }

/* ---- send.c: giving calls to them ---- */

/* An ASYNC call that the stream counts. weighty: it may run long or fail. bytes: of the program's that travel inside.
 */
struct stream_call { uint32_t procedure; xdrproc_t encode; void *args; bool weighty; size_t bytes; };
/* *point (may be NULL) is its place. */
int stream_send(struct client_stream *, const struct stream_call *, struct point *point);
/* as wire_send_ready; weighty */
int stream_send_ready(struct client_stream *, uint32_t procedure, uint8_t *record, size_t size);
/* Records what a stream is given, in place of the server (sequence.c, condition.c).
   take: gets each operation (op.h), and returns what the program's call returns. It refuses the operation, or records
   it: with op_send, whose calls then come to `keep` instead of the connection.
   keep: gets an encoded call. body: its arguments; NULL: `call` has them, and they are the caller's. */
struct stream_recorder {
    int (*take)(struct stream_recorder *, struct client_stream *, const struct op *);
    int (*keep)(struct stream_recorder *, struct client_stream *, const struct stream_call *, const uint8_t *body,
                size_t size);
};
/* For `keep`: writes the arguments, which have this size. */
bool stream_call_put(const struct stream_call *, const uint8_t *body, uint8_t *to, size_t size);
static inline struct stream_recorder *stream_recorder(const struct client_stream *s)
{
    return atomic_load_explicit(&s->recorder, memory_order_acquire);
}
/* An ASYNC call by which each of these streams is given several, at one place of the session's sequence. The streams
   differ. calls: how many; weighty: the last one of them that may run long or fail, from 1, 0: none; bytes: of all
   their arguments. place: of the last one, `number` included. */
struct stream_share { struct client_stream *stream; uint32_t calls, weighty; size_t bytes; struct point place; };
enum { STREAM_SHARES_MOST = 33 };
int stream_send_shares(struct stream_share *, unsigned count, uint32_t procedure, xdrproc_t encode, void *args);
/* SYNC; detached if arrived is not NULL. Where the call stands (may be NULL) is set before the call can complete. */
void client_stream_submit(struct client_stream *, struct wire_call *, void (*arrived)(struct wire_call *),
                          struct submitted *);

/* ---- progress.c: numbers ---- */

void progress_open(void);                                   /* at attach */
/* The server is lost: no stream that comes takes what its shared memory says; those that are there take nothing of it,
   as the program is protected. */
void progress_forget(void);
/* struct client_stream.published, of a stream of the context */
_Atomic uint64_t *progress_published(const core_context *, flyt_id wire);
/* Numbers of that id are this stream's; NULL: nobody's. false: no memory. */
bool progress_direct(flyt_id wire, struct client_stream *);
void stream_progress(const struct client_session *, flyt_id wire, uint64_t done);      /* so says a reply */
/* The number that the stream of this id had when the session came to its server; 0: there is no such stream. */
uint64_t stream_base(flyt_id wire);
void stream_ended(struct client_stream *, uint64_t number); /* everything up to number has ended */
void stream_finished(struct client_stream *, uint64_t number); /* so says the answer to a call that waited for it */
bool stream_is_published(const struct client_stream *);
/* everything up to it has ended: heard in heads, or published */
uint64_t stream_done(struct client_stream *);
uint64_t stream_serial(void);                               /* of the last call of any stream */
uint64_t progress_next_serial(void);                        /* under the lock of the connection: see send.c */
/* Behind everything that it has been given. */
static inline struct point stream_point(const struct client_stream *s)
{
    struct point p = { .stream = s, .life = atomic_load(&s->life), .number = atomic_load(&s->sent) };
    p.serial = atomic_load(&s->serial);
    p.legacy_before = atomic_load(&s->legacy_before);
    return p;
}
/* And behind what the next call will come after, by the rules of the legacy stream. */
struct point stream_point_next(const struct client_stream *);

/* ---- idle.c: what is known to have ended ---- */

/* The stream is given a call, under its lock, and is not in both lists (listed). */
void rest_disturb(struct client_stream *);
void rest_forget(struct client_stream *);       /* it has ended */
bool stream_alone_idle(struct client_stream *); /* it has nothing under way, whatever others have */
/* Nothing unfinished precedes a new call in it (the legacy stream: nor in the context's blocking streams). */
bool stream_known_idle(struct client_stream *);
bool stream_known_light(struct client_stream *); /* the same, looking at weighty calls only */
bool stream_context_idle(core_context *);
bool stream_others_idle(const struct client_stream *);      /* the other streams of its context */
void stream_context_ended(core_context *, uint64_t sent);   /* a synchronisation says so of its first `sent` calls */
int stream_wait_for(struct client_stream *);                /* SYNC, unless known to be idle */

/* ---- event.c ---- */

int  event_open(void);
void event_forget_context(core_context *);
uint64_t event_count(void);

#endif
