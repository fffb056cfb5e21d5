/*
 * session.h: one client process's session: its parts, who owns them, and who may hold which lock.
 *
 * Threads
 *   reader      (session.c)     reads calls. EVENTS and ABANDON it serves itself; a call that cannot block, when
 *                               nothing is queued before it, too; the others go to the queue.
 *   executor    (executor.c)    serves queued calls in order and gives deferred stream operations to the driver
 *                               when their turn comes. It waits for nothing on the device.
 *   completion  (completion.c)  watches events on the device, answers the calls that wait for them, and the client's EVENTS.
 *   lanes       (lanes.c)       one reader and one writer per lane: bytes into and out of staging memory.
 *   loader      (loader.c)      loads and unloads modules, looks functions up: what may take seconds.
 *   pulse       (pulse.c)       beats, and watches the others and the network; it waits for nobody. Not in one process.
 *   blocking    (calls.c)       a call that waits for memory that other programs do not use; usually there is none.
 *
 * Locks, outermost first
 *   session.lock     every table and object below, and the right to give work to the driver. Held while a call is
 *                    served, by whichever thread serves it.
 *   completion.telling  from looking at the device until what was seen has been told
 *   completion.lock  markers, waiters, a stream's done number and staging slots
 *   ledger.speak      while a reply that carries printed text is put together and sent
 *   measuring, books  (charge.c) also taken without session.lock
 *   staging.lock, lanes.lock, ledger.lock, events.lock, executor.queue_lock, loader.lock, pulse.lock: leaves, never two at once
 * The completion thread and the reader's EVENTS never take session.lock, so a call stuck in the driver under it
 * cannot keep a host function from being told or released. The pulse takes none of the others, so nothing can keep it from beating.
 *
 * Life of an object: in its id_map while the client may name it; beyond that as long as a deferred call or a
 * marker refers to it (reference counts). Everything hangs from the session and goes with it.
 */
#ifndef FLYT_SERVER_SESSION_H
#define FLYT_SERVER_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/ids.h"
#include "cpu/common/list.h"
#include "cpu/common/tree.h"
#include "cpu/rpc/rpc.h"
#include "cpu/server/context.h"
#include "cpu/server/gpu/gpu.h"
#include "cpu/server/kinds.h"
#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct session;
struct stream;
struct text;
struct image_cache;
struct lanes;

enum {
    SESSION_MAX_OBJECTS = 1 << 20,        /* of a kind */
    SESSION_STREAM_CAP = 512,             /* operations of one stream inside the driver; a launch blocks near 1,000 */
    SESSION_MARK_EVERY = 128,             /* operations between two markers */
    SESSION_QUEUE_CALLS = 65536,          /* waiting between reader and executor */
    SESSION_DEFERRED_CALLS = 131072,      /* waiting in streams; clients keep below it: client/core/backlog.c */
    SESSION_ENDS = 4,                     /* whoever is told when the session ends */
};
#define SESSION_QUEUE_BYTES    ((size_t)80 << 20)   /* bytes, likewise */
#define SESSION_DEFERRED_BYTES ((size_t)128 << 20)

/* ---- calls ---- */

enum { CALL_ROOM = 256 };
union call_args {                         /* of every procedure that keeps to the sequence: launch_args launch; … */
#define MEMBER(name) name##_args name;
    FLYT_ARGUMENTS(MEMBER)
#undef MEMBER
};

/* One procedure of the protocol; the table is in procedures.c. */
struct call;
struct procedure {
    const char *name;
    xdrproc_t   arguments, results;
    size_t      size;                     /* of the arguments */
    void      (*serve)(struct session *, struct call *);
    bool        greets;                   /* HELLO, which comes before all others */
    bool        answers;                  /* class SYNC */
    bool        launches;                 /* LAUNCH, which has a faster way than XDR (quick.h) */
    bool        quick;                    /* cannot block in the driver: the reader may serve it */
};

/* What a stream operation does when its turn comes. Returns a CUresult, or OPERATION_LATER: something that a
   completion will give back is lacking (call->wants), try again then. */
enum { OPERATION_LATER = -1 };
struct operation {
    int (*issue)(struct session *, struct call *);
    bool numbered;                        /* false: STREAM_SYNC and the like, which only mark a place */
    bool own_number;                      /* issue sees to call->number itself being marked */
    /* Its stream ends before its turn has come, with this code: answers whoever waits. NULL: a call that is answered fails. */
    void (*dropped)(struct session *, struct call *, CUresult);
};

/* A decoded call. It lives on the serving thread's stack unless it is deferred or handed to another thread:
   then it is moved to the heap (call_keep) and `moved` keeps the arguments from being freed twice. */
struct call {
    const struct procedure *procedure;
    uint32_t xid;
    bool moved;
    size_t bytes;                         /* of the request, for bounds */
    /* of a stream operation */
    const struct operation *operation;
    struct stream *stream;
    uint64_t number;                      /* within the stream */
    uint64_t order;                       /* within the session */
    struct function *function;            /* holds a reference to its module */
    struct record *record;                /* holds a reference */
    struct group *group;
    struct list *wants;                   /* who waits for what is lacking; NULL: something that nobody else waits for */
    uint32_t transfer;                    /* whose bytes come on a lane and have not been claimed; 0: none */
    uint64_t transfer_size;
    struct call *next;
    union call_args args;
    _Alignas(16) uint8_t room[CALL_ROOM]; /* parameters of a launch, if they fit; args points here then */
};

const struct procedure *procedure_find(uint32_t number);          /* procedures.c; NULL: there is none */
/* Decodes and serves under session.lock. 0, or -EPROTO. */
int  call_serve(struct session *, const struct procedure *, rpc_request *);
/* Serves the call in a thread of its own, which answers it. False: no thread can be had, the call is unchanged. */
bool call_serve_blocking(struct session *, struct call *, void (*serve)(struct session *, struct call *));
struct call *call_keep(struct call *);                            /* NULL: no memory, the call is unchanged */
void call_free(struct call *);                                    /* a kept one: arguments, references, itself */
void call_clear(struct call *);                                   /* arguments and references only */
/* Ends a call that failed: answers it, or latches the error if it is never answered. */
void call_fail(struct session *, struct call *, CUresult);

/* ---- streams, events (stream.c, event.c) ---- */

/* One recording of an event: what STREAM_WAIT and EVENT_SYNC refer to. A new one is made when the last is still
   referred to, so that recording an event again does not change what an earlier wait meant. */
struct record {
    _Atomic unsigned references;
    struct session *session;
    struct context *context;
    CUevent event;
    bool recorded, issued;                /* asked for; given to the driver */
    struct stream *stream;                /* where; holds a reference */
    uint64_t number;
    bool wanted;                          /* somebody waits: mark it when it is issued */
    bool watched;                         /* a query has seen to it that a marker stands there */
    struct list parked;                   /* streams that wait for it to be issued */
};

struct event {
    struct context *context;
    unsigned flags;
    struct record *record;
};

/* A place in a stream: when the event is complete, so are all operations up to number. */
struct marker {
    struct tree_node node;                /* of the stream: number, serial */
    struct marker *next;                  /* when it has been passed */
    CUevent event;                        /* a spare one, or record's */
    struct record *record;
    struct waiter *waiter;                /* that is behind it; NULL: none */
};

/* Somebody who waits for a number of a stream. First member of what finish knows about. */
struct waiter {
    struct tree_node node;                /* of the stream: number, serial */
    struct waiter *next;                  /* when it is due */
    uint64_t number;
    uint64_t behind;                      /* 0, or the serial of a marker that must be complete too */
    CUresult result;
    bool speaks;                          /* its reply carries what kernels printed */
    void (*finish)(struct session *, struct waiter *);
};

struct stream {
    _Atomic unsigned references;
    uint32_t id;
    struct context *context;
    CUstream handle;
    unsigned flags;
    _Atomic bool dead;                    /* destroyed by the client, or by a reset */
    /* order; under session.lock */
    struct list of_context, busy, holding;      /* members of the context's lists */
    uint64_t received, issued, marked;
    struct call *first, **last;           /* deferred */
    struct list parked;                   /* where it waits for its first deferred call's turn: deferred.c */
    struct tree_node head;                /* of context->heads */
    _Atomic bool deferred;                /* there are any: whoever lets it progress says so */
    /* gate of host functions */
    uint32_t *gate;                       /* host's view, NULL: none yet */
    CUdeviceptr gate_address;
    uint32_t gate_ticket;                 /* the last one waited for */
    /* under completion.lock */
    struct tree markers, waiters;         /* by number; a waiter that is behind a marker is not among them yet */
    unsigned waiting;                     /* waiters, all of them */
    struct slot *slots, **slots_last;     /* staging in use, by number */
    _Atomic uint64_t done;
    struct list watched;                  /* member of completion.awaited or .watched */
    struct list progressed;               /* of completion.progressed */
    /* under ledger.lock */
    struct list dirty;                    /* of ledger.dirty */
};

void stream_hold(struct stream *);
void stream_drop(struct session *, struct stream *);
struct stream *stream_find(struct session *, uint32_t id);
/* What to say where there is none of that id: the client's stream has gone, or the context whose default stream it was. */
CUresult stream_missing(uint32_t id);
/* First thing of every numbered call: finds the stream and takes the number. NULL: no such stream, the call has failed. */
struct stream *stream_enter(struct session *, struct call *, uint32_t id);
/* Gives the entered call to the driver now or, when its turn has not come, later. */
void stream_submit(struct session *, struct call *, const struct operation *);
/* The entered call is wrong: its number passes without work. */
void stream_refuse(struct session *, struct call *, CUresult);
/* Sees to it that a marker stands at what has been issued. */
CUresult stream_mark(struct session *, struct stream *);
/* A new one, also where nothing is new in the stream itself; its serial. */
CUresult stream_mark_again(struct session *, struct stream *, uint64_t *serial);
/* The first stream of the context, of the blocking or the other ones, that has work which is not known to be complete, or
   deferred calls; also one that the client has destroyed. Then the next one. NULL: none. */
struct stream *stream_busy(struct session *, struct context *, bool blocking, const struct stream *behind);
/* Its first deferred call, given to the driver if its turn has come. False: it has not, and the call says what it wants. */
bool stream_issue_first(struct session *, struct stream *);
CUresult stream_create_legacy(struct session *, struct context *);
/* All of a context's streams go; deferred calls fail with CUDA_ERROR_CONTEXT_IS_DESTROYED. */
void streams_drop_all(struct session *, struct context *);
void streams_free(struct session *);

/* ---- deferred calls (deferred.c): which streams' first ones are worth a try. Under session.lock. ---- */

void deferred_begin(struct session *, struct stream *);           /* its list is no longer empty */
void deferred_moved(struct session *, struct stream *, uint64_t order);      /* it has another first call, or none; the last one's place */
/* Does CUDA order it with the legacy stream? (Which is none of these itself.) */
static inline bool stream_ordered(const struct stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING) && stream != stream->context->legacy;
}
/* Is there any that CUDA orders before this place in the stream? */
static inline bool deferred_before(const struct stream *stream, uint64_t order)
{
    const struct context *context = stream->context;
    if (stream == context->legacy)
        return context->heads.root && tree_first(&context->heads)->key < order;
    return stream_ordered(stream) && context->legacy->first && context->legacy->first->order < order;
}
void deferred_wake(struct session *, struct list *parked);        /* what these streams wait for has come */
void deferred_issue(struct session *);                            /* gives the driver what it can */

void record_drop(struct record *);
void record_hold(struct record *);
void record_issued(struct session *, struct record *);            /* given to the driver, or never will be */
void events_drop_all(struct session *, struct context *);          /* of the context */

/* ---- completion.c ---- */

enum { COMPLETION_LONG_WAITS = 4 };

/* A thread that waits in the driver for one marker (long_wait.c); under completion.lock. */
struct long_wait {
    struct session *session;
    pthread_t       thread;
    pthread_cond_t  wake;
    bool            started, left;
    struct context *context;
    CUevent         event;                /* NULL: it waits for nothing */
    struct record  *record;               /* held */
    struct stream  *stream;               /* held */
};

struct completion {
    pthread_mutex_t telling;              /* outermost but for session.lock */
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    struct list     awaited, watched;     /* streams with markers, and with waiters or without; each holds a reference */
    _Atomic unsigned watching;            /* how many */
    struct list     progressed;           /* streams with deferred calls whose done number has risen; the same */
    uint64_t        serial;               /* of markers and waiters */
    uint64_t        since;                /* when the youngest wait began, or something was last complete, ns */
    _Atomic uint64_t turns;               /* of the thread */
    _Atomic bool    in_driver;            /* somebody asks about markers; changed under the lock */
    bool            asleep, stop, started;
    bool            fresh;                /* a wait has begun that the thread does not know of */
    pthread_t       thread;
    struct long_wait long_waits[COMPLETION_LONG_WAITS];
    pthread_cond_t  returned;             /* one of them is back from the driver */
};

int  completion_start(struct session *);
void completion_stop(struct session *);
/* A place to watch. record NULL: the event is a spare one and returns to its context. Takes a reference to record. serial
   may be NULL. */
CUresult completion_mark(struct session *, struct stream *, CUevent, struct record *, uint64_t number, uint64_t *serial);
/* finish runs when the stream's operations up to waiter->number are complete (perhaps at once, in this call), and the marker
   waiter->behind of that number is, which nobody else is behind. */
void completion_wait(struct session *, struct stream *, struct waiter *);
void completion_slot(struct session *, struct stream *, struct slot *);
/* Looks at some of the streams that are watched, `first` (NULL: any) and those that somebody waits for before others; each
   has its turn. True while something is still being watched. Any thread with no lock but session.lock. */
bool completion_poll(struct session *, struct stream *first);
/* Whatever another thread has seen complete has been told when this returns. */
void completion_settle(struct session *);
/* The stream is known to be idle: everything up to number is complete. */
void completion_advance(struct session *, struct stream *, uint64_t number);
struct stream *completion_progressed(struct session *);           /* the next of them, held for the caller; NULL: none */
void completion_wake(struct session *);
void completion_rouse(struct session *);                          /* the thread looks again, and quickly for a while */
/* The event is not needed any more. Under completion.lock. */
void completion_spare(struct session *, struct context *, CUevent);
/* Every wait on streams of the context ends with `code`. */
void completion_abort(struct session *, struct context *, CUresult code);
CUresult completion_event(struct session *, struct context *, CUevent *);      /* a spare one, or a new one */
void completion_event_back(struct session *, struct context *, CUevent);
void completion_events_free(struct session *, struct context *);

/* ---- long_wait.c: under completion.lock, but for long_waits_stop ---- */

bool long_wait_begin(struct session *, struct stream *);          /* false: nobody free to wait for its first marker */
bool long_wait_leave(struct session *, CUevent);                  /* somebody is in the driver with the event, and will spare it */
void long_waits_end(struct session *, const struct context *);     /* nobody is in the driver any more for this context, which is idle */
void long_waits_stop(struct session *);                           /* after completion.stop */

/* ---- the head of replies (head.c) ---- */

struct ledger {
    pthread_mutex_t lock;
    _Atomic bool news;                    /* any of the next three is set; else a reply needs no lock */
    CUresult latched, sticky;
    struct list dirty;                    /* streams with a done number that has not been told; each holds a reference */
    _Atomic uint64_t *numbers;            /* published, by stream id, in shared memory; NULL: nowhere */
    uint32_t number_count;
    struct text *text;                    /* NULL: nothing is captured (local:) */
    pthread_mutex_t speak;                /* from taking text until it is sent: what was printed first arrives first */
};

void ledger_note(struct session *, CUresult);                     /* remembers it if it is a sticky one */
void ledger_latch(struct session *, CUresult);
void ledger_share(struct session *);                              /* the transport is settled: publish there */
void ledger_progress(struct session *, struct stream *);          /* done has changed */
void ledger_forget(struct session *, struct stream *);            /* its id may soon name another */
void ledger_stop(struct session *);                               /* nothing is told any more */
CUresult ledger_sticky(struct session *);
void ledger_clear_sticky(struct session *, CUresult which);
bool code_is_sticky(CUresult);
/* result begins with a flyt_head, which is filled here and emptied again. speaks: with what kernels printed. */
void session_reply(struct session *, uint32_t xid, xdrproc_t, void *result, CUresult, bool speaks);
void session_reply_plain(struct session *, uint32_t xid, CUresult, bool speaks);
/* Answers an EVENTS call. Neither printed text nor a latched error goes with it: they belong to the replies that threads of
   the program wait for, one of which may be on its way. */
void session_say(struct session *, uint32_t xid, events_result *);

/* ---- events to the client (events.c) ---- */

struct events {
    pthread_mutex_t lock;
    uint32_t xid, serial;
    bool outstanding;
    uint64_t beat_at;
    struct due *first, **last;
    unsigned count;
    uint32_t recall;                      /* number of a recall that is to be told; 0: none */
    uint64_t recall_bytes;
    char lost[FLYT_MAX_SHORT];            /* why the session is about to end; "": it is not */
};

int  events_start(struct session *);
void events_stop(struct session *);
int  events_serve(struct session *, rpc_request *);               /* events_call.c; by the reader */
void events_asked(struct session *, uint32_t xid);                /* the call is outstanding now; an older one is answered */
void events_due(struct session *, uint32_t id, int status);       /* a host function's turn */
void events_recall(void *session, uint32_t number, uint64_t bytes);      /* tenant.h asks for unused credit */
void events_lost(struct session *, const char *why);               /* it is about to end: the client should know why */
void events_beat(struct session *, uint64_t now);                 /* by the completion thread */

/* ---- host functions (host_function.c) ---- */

struct host_functions {
    pthread_mutex_t lock;
    struct list pending;                  /* that the client has not ended, the newest first */
    _Atomic unsigned count;
};
int  host_functions_start(struct session *);
void host_functions_done(struct session *, uint32_t id);
void host_functions_release_all(struct session *, struct context *);   /* NULL: of every context */
void host_functions_stop(struct session *);
void gates_prepare(struct session *, struct context *);           /* gates.c; what fails here is tried again at the first use */
void gates_free(struct session *, struct context *);
CUresult gate_take(struct session *, struct stream *);            /* the stream's gate, given at its first host function */
void gate_give(struct stream *);                                  /* the stream is gone: another may have its gate */

/* ---- memory (memory.c) ---- */

struct mapping { uint64_t address, size; struct context *context; CUmemGenericAllocationHandle handle; };
struct window {
    uint64_t base, size, granularity;
    struct mapping **at;                  /* by granule; size/granularity entries */
    uint64_t pieces;
    unsigned attempt;
};
struct symbol_range { uint64_t address, size; struct module *module; };

int  memory_window_reserve(struct session *, char *error);
void memory_stop(struct session *);
void memory_drop_all(struct session *, struct context *);         /* of the context */
/* May the client name [address, address + size)? Mapped window, added host memory, or a variable of one of its modules. */
bool memory_known(struct session *, uint64_t address, uint64_t size);
/* Whose memory lies there; NULL: nobody's, or not the window's. */
const struct context *memory_context(struct session *, uint64_t address);
int  memory_symbol_add(struct session *, uint64_t address, uint64_t size, struct module *);
void memory_symbols_drop(struct session *, struct module *);

/* ---- host memory that client and device share (host_memory.c) ---- */

/* What one HOST_ADD gave. */
struct host_range {
    uint64_t address, size;
    struct context *context;              /* through which it is registered; NULL: not now */
    struct host_range *next;
};

struct host_memory {
    uint64_t base, size;                  /* the host window; size 0: none */
    struct host_range **at;               /* by granule */
    struct host_range *ranges;
    size_t wanted;                        /* in one process: so much */
    bool ever_used;
};

size_t host_memory_default(void);         /* half of the machine's memory */
void host_memory_open(struct session *, uint64_t at);             /* none: host.size stays 0 */
void host_memory_close(struct session *);
void host_memory_stop(struct session *);
bool host_memory_here(const struct session *, uint64_t address);  /* in the host window */
bool host_memory_known(const struct session *, uint64_t address, uint64_t size);
void host_memory_context_here(struct session *, struct context *); /* it has been made */
void host_memory_context_gone(struct session *, struct context *); /* it is about to go, and it is idle */

/* ---- code (code.c, function.c, loader.c) ---- */

struct image;
struct images { struct image *first; size_t bytes; unsigned count; };
struct loader {
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    struct job     *first, **last;
    bool            stop, started, busy;
    pthread_t       thread;
};

/* ---- the executor ---- */

struct executor {
    pthread_mutex_t queue_lock;
    pthread_cond_t  wake, room;
    struct queued  *first, **last;
    size_t          bytes;
    unsigned        calls;
    _Atomic unsigned unserved;            /* queued or being served by the executor */
    _Atomic bool    kick;
    bool            stop, started, asleep;
    pthread_t       thread;
    size_t          deferred_bytes;       /* under session.lock */
    _Atomic unsigned deferred_calls;
    /* Changed under session.lock only, read by anybody. */
    _Atomic uint64_t served;              /* odd: a call is being served; grows with whatever is done */
    _Atomic unsigned in_driver;
    _Atomic bool    full;                 /* the reader waits for room */
};

struct queued { struct queued *next; const struct procedure *procedure; rpc_request *request; };

int  executor_start(struct session *);                            /* executor.c */
void executor_stop(struct session *);                             /* joins; others may still kick it */

void executor_open(struct session *);                             /* executor_queue.c; before anything else of it */
void executor_free(struct session *);
/* The next queued call; NULL: none now, but the deferred ones want a look, or the end. */
struct queued *executor_next(struct session *, bool stalled);
int  executor_push(struct session *, const struct procedure *, rpc_request *);   /* takes the request */
bool executor_idle(struct session *);                             /* nothing queued, nothing being served */
void executor_kick(struct session *);                             /* look at the deferred operations again */
void executor_ended(struct session *);                            /* the session has: who waits for room goes on */
/* A call is being served from the first to the second, and something of it has been done. Under session.lock. */
void executor_serving(struct session *);
void executor_served(struct session *);
void executor_moved(struct session *);
/* The driver may block from the first to the second. Under session.lock. */
void executor_driver_enter(struct session *);
void executor_driver_leave(struct session *);

/* ---- the pulse (pulse.c) ---- */

struct pulse {
    pthread_mutex_t  lock;
    pthread_cond_t   wake;
    pthread_t        thread;
    bool             started, stop;
    _Atomic bool     stuck;               /* a thread of the session is, in our own code: nothing is said until it goes on */
    _Atomic uint64_t reader;              /* odd: the reader is dealing with a call, else it waits for one */
};
int  pulse_start(struct session *);
void pulse_stop(struct session *);

/* ---- session ---- */

struct session {
    rpc_server        *server;
    const struct gpu  *gpu;
    bool               in_process, disposable;
    bool               abandoned;                     /* could not be given back: stays to the end of the process */
    struct session    *next_abandoned;
    int              (*admit)(const void *ticket, size_t size, char *refusal);    /* session_options */
    uint64_t           id;
    _Atomic bool       greeted;
    _Atomic bool       ended;
    bool               beats;                         /* the client takes them; before greeted */
    void             (*on_end[SESSION_ENDS])(struct session *);
    unsigned           on_end_count;
    char               client[FLYT_MAX_SHORT + 64];   /* "host/program[pid]" for the log */
    pthread_mutex_t    lock;
    pthread_mutex_t    books, measuring;              /* charge.c; measuring before books, both after lock */
    _Atomic unsigned   blocking_calls;                /* threads of calls.c */
    struct device     *devices;
    int                device_count;
    struct list        contexts;                      /* the oldest first */
    uint64_t           legacy_received[FLYT_MAX_CONTEXTS];      /* calls to legacy streams of earlier contexts of each id */
    int                driver_version;
    struct id_map     *ids[KINDS];                    /* what the client names by ids; NULL: not this kind */
    uint64_t           order;
    struct list        ready;                         /* streams whose first deferred call is worth a try: deferred.c */
    struct list        congested, starved;            /* those that wait for room on lanes, and for things of their own */
    struct window      window;
    struct host_memory host;
    struct symbol_range *symbols;
    size_t             symbol_count, symbol_room;
    struct images      images;
    struct image_cache *cache;                        /* the tenant's; NULL: none */
    struct lanes      *lanes;                         /* NULL: none are offered */
    struct completion  completion;
    struct ledger      ledger;
    struct events      speaker;
    struct host_functions host_functions;
    struct executor    executor;
    struct loader      loader;
    struct pulse       pulse;
};

/* Makes a channel of a lane's connection, whose hello has been read, and takes fd over if it succeeds. fd -1: there is none
   any more; context is to be freed. */
typedef int lanes_open_function(int fd, void *context, rpc_channel **out, char *error);

struct session_options {
    const struct gpu *gpu;
    bool in_process;
    size_t host_memory;                   /* in_process: so much that both sides share; 0: none */
    bool disposable;                      /* the process ends with the session: nothing is given back piece by piece */
    struct text *text;                    /* what is captured of stdout and stderr, NULL: nothing */
    struct image_cache *cache;
    lanes_open_function *lane_open;       /* NULL: no lanes */
    /* Looks at the ticket of HELLO before anything else is done: 0, or -1 with why in *refusal (FLYT_MAX_SHORT). NULL: all are
       welcome. */
    int (*admit)(const void *ticket, size_t size, char *refusal);
};

/* Takes the channel, also on failure. */
int  session_create(rpc_channel *, const struct session_options *, struct session **, char *error);
/* Serves until the connection ends in whichever way; then everything has been given back (unless disposable: then
   threads still run, and the process must end). */
void session_run(struct session *);
void session_destroy(struct session *);
/* The one place that decides what a peer's mistake costs: the session ends, nothing else. Any thread. */
void session_end(struct session *, const char *why);
/* Before any thread of the session starts: session_end calls it, in any thread, to wake those who wait for something. */
void session_on_end(struct session *, void (*)(struct session *));

/* What serves a procedure: serve_launch() and so on. */
#define SERVE(NAME, name, arguments, results) void serve_##name(struct session *, struct call *);
FLYT_SEQUENCED(SERVE)
#undef SERVE

#endif
