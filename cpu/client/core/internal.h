/*
 * internal.h: what the files of the client core share, and nobody else sees.
 *
 * Locks, in the order in which they may be taken (each file says what its own protects):
 *   session.attach > image.load > context.lock > memory.lock > stream.lock > stream lists > rpc layer
 *   > progress, text, outs
 * Done callbacks run in whichever thread reads the connection; they take only the last group.
 * In the child of a fork no lock is taken at all: every entry asks core_enter() first.
 */
#ifndef FLYT_CLIENT_CORE_INTERNAL_H
#define FLYT_CLIENT_CORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core.h"
#include "cpu/common/cancel.h"
#include "cpu/common/list.h"
#include "cpu/common/tree.h"
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

/* ---- perf.c: switches of $FLYT_PERF ---- */

struct perf {
    bool no_async;      /* a round trip after every ASYNC call */
    bool no_batch;      /* every call is sent at once */
    bool no_cache;      /* free memory is given back at once, queries always travel */
    bool no_pipeline;   /* one chunk of a copy from the device at a time */
    bool no_shm;        /* a unix socket stays one */
    bool no_lanes;      /* large copies share the connection with the calls */
    bool no_early;      /* a pinned source is read when the copy's turn has come, whatever the stream waits for */
    bool no_payload;    /* no host memory is shared: bytes of copies travel inside the calls */
    bool no_spin;       /* who waits for an answer sleeps at once */
};
void perf_parse(struct perf *, const char *text);
extern struct perf core_perf;

/* ---- state.c, session.c ---- */

struct session {
    rpc_client *client;
    char       *uri;                  /* as the messages call the server */
    bool        in_process;
    bool        managed;              /* the client manager named the server: the memory that it has is the VM's */
    uint64_t    window, window_size, granularity;
    int         driver_version;
    hello_result hello;               /* kept: the devices' strings live here */
    atomic_int  sticky, latched;
};
extern struct session core_session;

/* Every public function begins with this: 0 when the session can be used, else the code to return. */
int  core_enter(void);
bool session_ready(void);             /* attached, not forked (sticky or not) */
void session_set_sticky(int code);
void session_latch(int code);
void session_lost(void *unused, const char *reason);
/* Gives the code back when another thread has said why the server is lost (the client manager is asked, for seconds at
   most): a program ends with the first error that it sees, and would take the reason with it. */
int  session_loss_wait(int code);
const char *session_loss_reason(void);                      /* empty: it is not lost */
void session_loss_forget(void);                             /* the connection is made anew; no other thread knows the old one */
bool session_becomes_child(void);                           /* in the child of a fork; false: there was no session */
void session_closes(int code);                              /* every call gives the code from here on */
/* What the lower files ask of higher ones. */
struct session_top {
    int  (*attach)(void);             /* connects; a result code */
    void (*lost)(void);               /* the connection is: nobody waits on a lane any more */
    void (*tell_why)(void);           /* after that; may wait for seconds */
    void (*progress)(flyt_id stream, uint64_t done);        /* so says a reply's head */
    int  (*round_trip)(void);         /* of FLYT_PERF=no_async */
};
extern const struct session_top session_top;
extern int session_dead_seconds;      /* of silence, by which the server counts as dead; 0: rpc_silence_seconds. Tests shorten it */
extern int session_connect_ms;

/* manager.c: the client manager of this VM, asked where FLYT_SERVER names no server. */
enum { MANAGER_PLACES = 8 };
struct manager_place {                /* of a GPU server; freed by manager_place_free, also after an error */
    char    *uris[MANAGER_PLACES];    /* best first */
    unsigned count;
    void    *ticket;
    size_t   ticket_size;
};
bool manager_wanted(void);
int  manager_ask(struct manager_place *);       /* a result code; what failed has been said. May wait in line */
void manager_place_free(struct manager_place *);
void manager_tell_why(void);          /* after a loss: logs what the cluster knows about it. Waits a few seconds at most */
void manager_abandon(void);           /* in the child of a fork */

/* local.c */
int  local_open(const char *gpu, rpc_channel **out, char *error);
void local_close(void);

/* ---- stats.c: $FLYT_STATS ---- */

extern atomic_bool stats_on;          /* set at attach, before the first call; off, none of these is called */
void stats_open(const char *wanted);
void stats_report(void);
/* Counts a call that travels; what it gives goes to stats_call_ends. decode NULL: never answered. */
uint64_t stats_call_begins(uint32_t procedure, xdrproc_t encode, void *args);
void stats_call_ends(uint32_t procedure, uint64_t begun, xdrproc_t decode, void *result);
void stats_call_waited(uint32_t procedure);
/* Copies as the program asked for them, however many calls they took. The kind is that of pageable memory, if `host`
   (NULL: none) turns out to be pinned the one after it. Without FLYT_STATS these two do nothing. */
enum stats_copy { STATS_FROM_PAGEABLE, STATS_FROM_PINNED, STATS_TO_PAGEABLE, STATS_TO_PINNED, STATS_ON_DEVICE, STATS_ON_HOST, STATS_COPIES };
uint64_t stats_copy_begins(void);
void stats_copy_ends(uint64_t begun, enum stats_copy, const void *host, uint64_t bytes);

/* ---- wire.c: calls ---- */

/* A call in flight, with the core's part. result must begin with a flyt_head. */
struct wire_call {
    struct rpc_call rpc;
    uint64_t serial;                  /* among the waited calls, as submitted */
    uint64_t begun;                   /* of the statistics; 0: none */
    int      result;                  /* CUresult, once arrived */
    void   (*arrived)(struct wire_call *);
};

void wire_prepare(struct wire_call *, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode, void *result);
void wire_submit(struct wire_call *);                       /* SYNC, to be waited for */
int  wire_wait(struct wire_call *);                         /* the call's result; printed text has been written */
bool wire_attend(struct wire_call *);                       /* the helper's wait; false: no answer came */
/* SYNC, not waited for: `arrived` runs once, in any thread, owns the call, and must not wait. */
void wire_submit_detached(struct wire_call *, void (*arrived)(struct wire_call *));
int  wire_send(uint32_t procedure, xdrproc_t encode, void *args);                                /* ASYNC */
int  wire_send_placed(uint32_t procedure, xdrproc_t encode, void *args, struct rpc_place *);     /* the same; learns its place in the sequence */
int  wire_send_ready(uint32_t procedure, uint8_t *record, size_t size, struct rpc_place *);      /* see rpc_client_submit_ready; not while stats_on */
int  wire_call(uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode, void *result); /* both */
int  wire_plain(uint32_t procedure, xdrproc_t encode, void *args);                /* answered by a plain_result */
uint64_t wire_next_serial(void);                            /* which the next SYNC call has, or a later one */
uint64_t wire_confirmed(void);                              /* a serial that was answered, in time the greatest */
/* When somebody was last told "not ready" by the server, since when nothing else, and what had been heard before
   that. */
struct asked { atomic_uint_fast64_t at, since, news; };
/* Queries. What is not known to have ended is asked about at most once in 10 µs per stream or event, and where its
   end is published more and more rarely, down to once in 200 µs, since who waits for a reply does not see it
   meanwhile. In between "not ready" is said here, but only while nothing whatever has been heard from the server
   since: a program may know from any other answer that the work has ended, and must not be told otherwise. */
uint64_t wire_news(void);             /* taken before asking */
void wire_heard(void);
void wire_not_ready(struct asked *, uint64_t news);         /* the server said so */
bool wire_not_ready_yet(struct asked *, bool published);    /* and it need not be asked again */
void wire_take_head(const flyt_head *);
void wire_print_texts(void);
void wire_queue_text(const flyt_text *);

/* ---- events.c: EVENTS calls that are outstanding; helper.c: the thread that attends them ---- */

struct events_call {
    struct wire_call    wire;
    events_args         args;
    events_result       result;
    struct events_call *next;
};
bool events_send(const flyt_id *host_functions_done, unsigned count);      /* false: no memory */
/* Tells the server that host functions have ended. */
void events_tell_done(const flyt_id *ids, unsigned count);
struct events_call *events_oldest(void);                    /* NULL: none */
bool events_ended(struct events_call *, bool answered);     /* the oldest; the caller frees it. Was it the last one? */
int  helper_start(void);

/* ---- device.c: facts about devices ---- */

struct device {
    int  wire;                        /* its number on the server */
    struct core_device public;
};
int  device_snapshot(void);                                 /* at attach */
const struct device *device_find(int device);               /* NULL: no such */
int  device_count(void);
/* Parses $CUDA_VISIBLE_DEVICES: writes at most `count` server numbers, in order, returns how many. */
int  device_visible(const char *text, const flyt_device *devices, int count, int *out);
void device_order(const char *text, const flyt_device *devices, int count, int *order);

/* ---- address.c ---- */

/* 0, 1 when it overlaps another range, 2 without memory. */
int  address_add(enum core_memory_kind, core_context *owner, uint64_t base, size_t size, unsigned flags);    /* NULL: host memory */
/* Takes out the range that starts at base and is of that kind; false: none. */
bool address_remove(enum core_memory_kind, uint64_t base, struct core_range *out);
uint64_t address_count(enum core_memory_kind);              /* ranges of that kind; symbols are not counted */
void address_forget_context(core_context *);                /* its device memory and symbols */
/* [address, address + size) lies in one range of device memory. */
struct stream;
/* Whether a copy or set in the stream may use it; notes whose memory the stream's device works on. */
bool address_on_device(const struct stream *, uint64_t address, uint64_t size);
bool address_pinned(const void *, size_t);                  /* pinned or registered, all of it */

/* ---- window.c: which parts of the window are taken, in granules ---- */

int  window_open(uint64_t base, uint64_t size, uint64_t granularity);
/* Takes size bytes (a multiple of the granularity): exactly at `at` if free (0: do not try), else the lowest fit at or
   above `from`, else anywhere, at a multiple of `unit` from the window's base. 0: none. */
uint64_t window_take(uint64_t at, uint64_t from, uint64_t size, uint64_t unit);
uint64_t window_take_top(uint64_t size);
void window_give(uint64_t address, uint64_t size);

/* ---- memory.c ---- */

void memory_forget_context(core_context *);                 /* after its end */
void memory_recall(unsigned number, uint64_t bytes);        /* the server wants credit back, and an answer */
void memory_tend(void);                                     /* by the helper, now and then: what lay idle for long goes back */
uint64_t memory_pieces(void);                               /* mapped, of all contexts that nobody maps for now */
uint64_t memory_credit(core_context *);                       /* mapped and unused */
extern uint64_t memory_grow_at_least;

/* ---- stream.c ---- */

/* A place in the order of a stream's work: behind its call `number`. serial is that call's place among all calls of
   the session, legacy_before the serial of the last call that the context's legacy stream had been given by then:
   enough to tell whether a call of another stream comes before it by the rules of the legacy stream. */
struct stream;
struct point { const struct stream *stream; uint64_t number, serial, legacy_before; };
/* The same of a call that is being submitted, for other threads: UINT64_MAX until it has its place. */
struct submitted { atomic_uint_fast64_t number, serial, legacy_before; };

/* backlog.c: what the stream has under way. */
enum { BACKLOG_PLACES = 16 };
struct backlog {
    atomic_uint_fast64_t spent;       /* units that it was ever given; changed under the stream's lock */
    atomic_uint_fast64_t granted;     /* it may be given more while spent is less */
    /* under pool.lock */
    unsigned         blocks, first, count;
    struct backlog_place { uint64_t number, spent; } confirmed, places[BACKLOG_PLACES];     /* confirmed: what is done, at least */
    struct stream   *next, **from;    /* of those that have blocks */
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
struct stream {
    pthread_mutex_t lock;             /* makes "number and submit" one step */
    atomic_uint_fast64_t numbered, sent, done, weighty;
    _Atomic uint64_t *published;      /* where the server writes it, in shared memory; else a word that stays 0 */
    atomic_uint_fast64_t heard;       /* up to where a synchronisation has been answered, and what kernels printed came with it */
    struct asked asked;
    atomic_uint_fast64_t serial, legacy_before;     /* of the last call: see struct point */
    atomic_uint_fast64_t returned;    /* a synchronous copy up to here was not waited for; 0: none, or see behind */
    struct { core_event event; atomic_uint_fast64_t number; } behind;   /* returned.c: an event behind such copies, and up to which; 0: none */
    atomic_uint_fast64_t token;       /* 0: legacy, or destroyed */
    flyt_id  wire;
    core_context *context;
    unsigned flags;
    int      priority;
    atomic_uint_fast64_t counted;     /* the context's `sent` behind the last call */
    /* The lists of its context that it is in (rest.c, returned.c). listed is changed under both locks: the stream's
       and the lists'. */
    bool        listed;
    atomic_bool returning;
    struct list of_context;           /* the context's streams; free: the spare ones */
    struct list working, unheard, returned_early;
    struct backlog backlog;
};
enum { STREAM_NON_BLOCKING = 1 };     /* CU_STREAM_NON_BLOCKING */
struct backlog_streams {
    uint64_t (*done)(struct stream *);        /* as stream_done */
    void     (*ask)(struct stream *);         /* backlog_answered is called once, in any thread, when all that it has been given is done */
    bool     (*usable)(void);                 /* the connection is */
};
void backlog_open(const struct backlog_streams *);          /* at attach */
void backlog_answered(struct stream *, bool good);          /* good: stream_done has grown accordingly */
void backlog_wait(struct stream *);
bool backlog_leave(struct stream *);                        /* it has nothing under way any more. False: it must not be used again yet */
/* Before a call that the stream counts: waits while the stream has as much under way as it may have. */
static inline void backlog_enter(struct stream *s)
{
    if (atomic_load_explicit(&s->backlog.spent, memory_order_relaxed) >= atomic_load_explicit(&s->backlog.granted, memory_order_relaxed))
        backlog_wait(s);
}
int  stream_open(void);                                     /* at attach */
void stream_open_context(core_context *);                   /* before it exists */
int  stream_find(core_context *, core_stream, struct stream **out);     /* what the token means in the context */
int  stream_enter(core_context *, core_stream, struct stream **out);    /* context_enter, then the same */
enum stream_weight { STREAM_LIGHT, STREAM_WEIGHTY };
/* An ASYNC call that the stream counts; *point (may be NULL) is its place. */
int  stream_send(struct stream *, uint32_t procedure, xdrproc_t encode, void *args, enum stream_weight, struct point *point);
int  stream_send_ready(struct stream *, uint32_t procedure, uint8_t *record, size_t size);      /* as wire_send_ready; weighty */
/* SYNC; detached if arrived is not NULL. Where the call stands (may be NULL) is set before the call can complete. */
void stream_submit(struct stream *, struct wire_call *, void (*arrived)(struct wire_call *), struct submitted *);
/* Behind everything that it has been given. */
static inline struct point stream_point(const struct stream *s)
{
    struct point p = { .stream = s, .number = atomic_load(&s->sent) };
    p.serial = atomic_load(&s->serial);
    p.legacy_before = atomic_load(&s->legacy_before);
    return p;
}
struct point stream_point_next(const struct stream *);      /* and behind what the next call will come after, by the rules of the legacy stream */
static inline bool stream_is_legacy(const struct stream *s) { return s->wire < FLYT_FIRST_STREAM; }
/* Waits for the legacy stream, and it for this one. */
static inline bool stream_is_blocking(const struct stream *s) { return !(s->flags & STREAM_NON_BLOCKING); }
uint64_t stream_serial(void);                               /* of the last call of any stream */
uint64_t progress_next_serial(void);
void stream_ended(struct stream *, uint64_t number);        /* everything up to number has ended */
void stream_finished(struct stream *, uint64_t number);     /* so says the answer to a call that waited for it */
void stream_progress(flyt_id wire, uint64_t done);
void progress_open(void);                                   /* at attach */
_Atomic uint64_t *progress_published(flyt_id wire);         /* struct stream.published */
bool progress_direct(flyt_id wire, struct stream *);        /* numbers of that id are this stream's; NULL: nobody's. false: no memory */
void send_open(void);                                       /* at attach */
/* rest.c. The stream is given a call, under its lock, and is not in both lists (listed). */
void rest_disturb(struct stream *);
void rest_forget(struct stream *);                          /* it has ended */
bool stream_alone_idle(struct stream *);                    /* it has nothing under way, whatever others have */
bool stream_is_published(const struct stream *);
uint64_t stream_done(struct stream *);                      /* everything up to it has ended: heard in heads, or published */
/* Nothing unfinished precedes a new call in it (the legacy stream: nor in the context's blocking streams). */
bool stream_known_idle(struct stream *);
bool stream_known_light(struct stream *);                   /* the same, looking at weighty calls only */
/* And what kernels printed has come, or none has run since it last came: a synchronisation need not ask. */
bool stream_known_heard(struct stream *);
bool stream_context_idle(core_context *);
void stream_context_ended(core_context *, uint64_t sent);   /* a synchronisation says so of the context's first `sent` calls */
void stream_forget_context(core_context *);
uint64_t stream_count(void);
int  stream_wait_for(struct stream *);                      /* SYNC, unless known to be idle */
int  stream_transfer(core_context *, struct stream **out);  /* the core's own non-blocking stream */

/* ---- context.c: contexts, and what is known of their work ---- */

enum { CONTEXTS_MOST = FLYT_MAX_CONTEXTS };

struct core_context {
    atomic_bool live;                 /* it exists */
    bool        primary;
    flyt_id     wire;                 /* its id, and its place in tables that have one for each context */
    int         device;
    const struct core_device *facts;
    atomic_uint_fast64_t generation;  /* counts its ends */
    _Alignas(64) atomic_uint_fast64_t sent;     /* calls that gave it work. On a line of its own: each call writes it */
    atomic_uint_fast64_t idle_at;     /* value of sent up to which everything is known to have ended */
    atomic_uint_fast64_t heard_at;    /* the same, as a synchronisation's answer said, with what kernels printed */
    atomic_uint_fast64_t orphaned;    /* value of sent when a stream was destroyed with work in it: unknown until a synchronisation */
    atomic_uint_fast64_t returned, marked;     /* returned.c */
    atomic_bool abroad;               /* its streams have been given copies or sets of other contexts' memory */
    struct stream legacy;
    /* Under lock. */
    pthread_mutex_t lock;             /* makes and ends it */
    unsigned        flags, owners;
    /* Under the lock of the stream lists (stream.c). [blocking]: do they wait for the legacy stream? */
    struct list     streams, working[2], unheard[2];
    uint64_t        transfer;         /* token of the core's own stream */
    struct list     returned_early;   /* returned.c */
    struct heap    *_Atomic heap;     /* memory.c */
};
int  context_open(void);                                    /* at attach, after device_snapshot */
/* 0 when the context can be used, else the code to return. */
int  context_enter(const core_context *);
core_context *context_next(const core_context *);           /* those that exist; NULL: the first, and behind the last */
int  context_round_trip(void);                              /* a query that waits for its answer */
core_context *context_of_wire(flyt_id);                     /* NULL: none ever had this id */
uint64_t context_count(void);                               /* that exist */
bool context_only_one(void);                                /* at most one exists */
/* The structure for one more context that is no primary one; NULL: there are too many. context_spare takes it back. */
core_context *context_take(int device);
void context_spare(core_context *);
void context_begins(core_context *);                        /* it exists from here on */
void context_ends(core_context *);
bool context_known_idle(core_context *);
int  context_settle(core_context *);                        /* waits unless everything is known to have ended */

/* ---- returned.c: copies to the device that have returned before the device has done them ---- */

void returned_count(const struct stream *, int change);     /* a stream was made (1), or has ended (-1) */
/* A synchronous copy was sent, and nothing that may run long precedes it: may it return before it is done? */
bool returned_may(struct stream *);
void returned_mark(core_context *);
void returned_forget(struct stream *);                      /* the structure becomes another stream's */
void returned_settle(const struct stream *new);             /* before the program has it: waits for the copies that it would not wait for */
void returned_settle_others(const core_context *new);       /* before the program has it: no stream of it would wait for those of others */

/* Before a call of a blocking stream that may run long. acquire: what has been marked has been sent. */
static inline void returned_before(core_context *c)
{
    if (atomic_load_explicit(&c->returned, memory_order_relaxed) != atomic_load_explicit(&c->marked, memory_order_acquire))
        returned_mark(c);
}

/* ---- event.c ---- */

int  event_open(void);
void event_forget_context(core_context *);
uint64_t event_count(void);

/* ---- xdr_copy.c: copies encoded from and decoded into the program's own memory ---- */

/* Host side of a chunk: rows of a pitched box, or one piece (rows and slices 1). */
struct host_rows { uint8_t *address; size_t width, rows, slices, pitch, slice_pitch; };
struct chunk_in { flyt_id stream; flyt_box to; flyt_extent extent; struct host_rows from; };
struct chunk_out_result {
    flyt_head head;                   /* first: see wire_call */
    struct host_rows to;
    flyt_via via;                     /* as the call said */
    bool on_lane;                     /* the bytes come there (lanes.h) */
};
bool_t xdr_chunk_in(XDR *, struct chunk_in *);              /* as copy_box_in_args */
bool_t xdr_chunk_out_result(XDR *, struct chunk_out_result *);      /* as copy_out_result, into `to` */

void rows_pack(void *to, const struct host_rows *from);     /* the rows without gaps, and back */
void rows_unpack(const struct host_rows *to, const void *from);

/* Cuts a box into chunks of at most `most` bytes, packed. Start with a zeroed cursor. */
struct box_cursor { size_t slice, row, column; };
bool box_next(const struct core_extent *, struct box_cursor *, size_t most, size_t origin[3], struct core_extent *chunk);
/* 0, or 1: pitch or height smaller than the extent, or the end overflows. *bytes: from the first to the last byte. */
int  box_check(const struct core_box *, const struct core_extent *, uint64_t *bytes);
uint64_t box_offset(const struct core_box *, const size_t origin[3]);

/* ---- outs.c: copies into pinned memory that have not arrived ---- */

void outs_wait(const struct point *);                       /* all that come before it */
void outs_wait_context(const core_context *, uint64_t serial);      /* all up to serial, of all streams of the context (NULL: of all) */
void outs_wait_place(const struct point *, const void *address, size_t size);     /* those that write there */
bool outs_pending(const struct point *);
bool outs_refer_to(const struct stream *);
void outs_join(const struct point *before, const struct point *after);      /* a stream has been made to wait for another */
void outs_join_next(const struct stream *);                 /* those that have been sent come before its next call by the rules of the legacy stream */
unsigned outs_writers(void);                                /* host functions and copies that may yet write host memory */
void outs_writer_begins(void);
void outs_writer_ends(void);
int  outs_start(struct stream *, void *to, uint64_t from, size_t size);
int  outs_start_box(struct stream *, const struct core_box *to, const struct core_box *from, const struct core_extent *);

/* ---- host_function.c ---- */

/* writes: it may write memory of the program (outs_writers). On failure nothing was taken; after success user is
   the function's, which never runs if the connection is lost first. */
int  host_function_put(struct stream *, void (*function)(void *, int), void *user, bool on_error, bool writes);
void host_function_due(flyt_id id, int status);

/* ---- throttle.c ---- */

void throttle_begins(void);                                 /* a host function is outstanding, and has ended */
void throttle_ends(void);
uint64_t throttle_outstanding(void);
void throttle_thread(void);                                 /* the caller's thread runs host functions: it is not held up */
/* Called with each call's bulk bytes (0: none), before it: keeps the work that stands behind host functions bounded. */
void throttle_enter(struct stream *, size_t bytes);

/* ---- code.c, image.c ---- */

struct image_part { const void *data; size_t size; };
struct image_bundle {
    flyt_image_kind kind;
    struct image_part *parts; unsigned count;               /* containers are padded to 8 on the wire */
    uint64_t size;                                          /* with the padding */
    uint8_t hash[FLYT_HASH_SIZE];
};
/* Finds out what `wrapper` is, and its hash. 0, 200 or 2; *why on failure. */
int  bundle_make(const void *wrapper, struct image_bundle *, const char **why);
void bundle_free(struct image_bundle *);
int  bundle_announce(const struct image_bundle *);          /* IMAGE, and the data if lacking */

struct loaded_function {                                    /* one function in one context; lives as long as the process */
    int      result;                                        /* of FUNCTION_GET */
    flyt_id  wire;
    atomic_uint_fast64_t generation;                        /* of the context; UINT64_MAX: its image was removed */
    struct core_function_info info;
    atomic_uint_fast64_t fits[64];                          /* answers about occupancy; see launch.c */
    struct loaded_function *next;                           /* of the same module */
    struct loaded_function *older;                          /* the same function before a reset: infos may still be read */
};
/* The function in the context, which has been entered; loaded if need be. Waits, the first time. */
int  code_function(core_context *, core_function *, struct loaded_function **out);
void code_forget_context(core_context *);
uint64_t code_modules(void);                                /* loaded */
uint64_t code_functions(void);
void code_lock_for_fork(void);
void code_unlock_after_fork(void);

#endif
