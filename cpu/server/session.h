/*
 * session.h: one client process's session: its parts, who owns them, and who may hold which lock.
 *
 * The files of this folder stand on floors. A file uses its own floor and those above it in this list; tools/circles
 * checks that, and tools/circles.debt names the exceptions with their reasons.
 *
 *   gpu/       gpu.c  the table of driver functions: NVIDIA's, the software GPU's;  null*.c  the null device's
 *   tenant/    tenant.c, tenant_shared.c, tenant_accounts.c  the account of all workers of a tenant, by device;
 *              charge.c  what a session is charged;  resize.c  the share changes;  usage.c  what its programs use;
 *              figures.c  what they have done;  fault.c  the error that ended a program's use
 *   call/      calls.c  calls that are kept, freed, refused;  reply.c, text.c  what replies carry;  notify.c  what the
 *              server says by itself;  device.c;  session_end.c  the one place that ends a session
 *   stream/    context*.c, stream.c, event.c, sync.c  the objects;  deferred.c  calls whose turn has not come;
 *              completion.c, long_wait.c  who waits for the device;  inside.c  work of the server's own;
 *              gates.c, host_function.c;  staging.c;  references.c;  executor_queue.c, loader_queue.c;
 *              crowd.c  how much the driver holds;  late.c  what must not overtake deferred calls
 *   memory/    memory.c  the window of device addresses;  handle.c, host_memory.c, share.c, peer.c, prefetch.c;
 *              bridge.c  memory goes along to another server of the node;  watch.c  what of it was written;
 *              mirror*.c  pinned memory over a network;  clear.c  no tenant sees another's bytes;  limits.c;
 *              object.c  objects that only the driver knows
 *   lanes/     lanes*.c  connections that carry data only;  direct.c  those to another server
 *   copy/      copy_plan.c, copy.c  two sides and an extent;  set.c, values.c, array.c;  extent.c  what is allocated,
 *              for the memory checker;  fingerprints.c  hashes of memory, for checkpoints of what has changed
 *   code/      image.c, image_cache.c, code.c, loader.c, link.c, launch.c;  code_questions.c  what a module contains;
 *              settings.c  attributes of functions;  texref.c, tensor_map.c;
 *              forward.c  calls that are only handed on (generated: cpu/api/driver.api)
 *   graph/     graph.c, condition.c, device_graph.c
 *   links/     links.c, transfer.c, borrow.c  bytes of device memory go straight to another worker;  buffers.c  the
 *              memory of the host that they pass through
 *   comm/      comms.c, operation.c, together.c  collectives between the memories of GPUs;  window.c  windows for puts;
 *              book.c  the page of each communicator that flytctl comm reads
 *   session/   session.c  from HELLO to the end;  executor.c, pulse.c, notify_call.c  its threads;
 *              procedures.c, kinds.c  the tables;  move.c
 *   listener/  the programs: main.c, listener.c, door.c, knock.c, ticket.c  who may connect;
 *              workers.c, worker.c, spawn.c  processes;  orders.c  the node manager's orders;  bridges.c  ways to
 *              another server of the node;  relay*.c  between workers;  dial.c, dial_worker.c  connections that the
 *              listener makes for its workers;  identity.c  TLS;  local.c
 *
 * Threads
 *   reader      (session.c)     reads calls. NULL, EVENTS and ABANDON it serves itself; a call that cannot block, when
 *                               nothing is queued before it, too; the others go to the queue.
 *   executor    (executor.c)    serves queued calls in order and gives deferred stream operations to the driver
 *                               when their turn comes. It waits for nothing on the device.
 *   completion  (completion.c)  watches events on the device, answers the calls that wait for them, and the client's
 *                               EVENTS.
 *   lanes       (lanes.c)       one reader and one writer per lane: bytes into and out of staging memory.
 *   loader      (loader.c)      loads and unloads modules, looks functions up: what may take seconds.
 *   pulse       (pulse.c)       beats, and watches the others and the network; it waits for nobody. Not in one process.
 *   blocking    (calls.c)       a call that waits for memory that other programs do not use, or for another server;
 *                               usually there is none.
 *   links       (cpu/comm)      one once a link was made: it sends and receives. A link that goes has one for a moment.
 *   comms       (comms.c)       one for each communicator: it carries out its operations, and reduces.
 *
 * Locks, outermost first
 *   session.lock     every table and object below, and the right to give work to the driver. Held while a call is
 *                    served, by whichever thread serves it.
 *   completion.reporting  held from looking at the device until what was seen has been sent
 *   completion.lock  markers, waiters, a stream's done number and staging slots
 *   report.speak      while a reply that carries printed text is put together and sent
 *   measuring, charging  (charge.c) also taken without session.lock
 *   the lock of device_graph.c, of all sessions
 *   mirror.contents, mirror.lock     the latter before events.lock; also taken by threads of the software GPU, which
 *                    hold nothing
 *   shares.lock, staging.lock, insides.lock, gates_lock, lanes.lock, links.lock, comms.lock, report.lock,
 *   events.lock, executor.queue_lock, loader.lock, pulse.lock:
 *                    leaves, never two at once
 * The completion thread and the reader's EVENTS never take session.lock, so a call stuck in the driver under it
 * cannot keep a host function from being reported or released. The pulse takes none of the others, so nothing can keep
 * it from beating.
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
#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/rpc/rpc.h"
#include "cpu/server/call/call.h"
#include "cpu/server/stream/completion.h"
#include "cpu/server/stream/context.h"
#include "cpu/server/session/executor.h"
#include "cpu/server/graph/device_graph.h"
#include "cpu/server/gpu/gpu.h"
#include "cpu/server/session/kinds.h"
#include "cpu/server/memory/memory.h"
#include "cpu/server/call/reply.h"
#include "cpu/server/stream/stream.h"

struct bridge;
struct comms;
struct comms_ways;
struct conditions;
struct events;
struct host_functions;
struct image_cache;
struct insides;
struct lanes;
struct ledger_figures;
struct links;
struct links_ways;
struct share_answer;
struct share_question;
struct shares;
struct text;

enum {
    SESSION_MAX_OBJECTS = 1 << 20,        /* of a kind */
    SESSION_STREAM_CAP = 512,             /* operations of one stream inside the driver; a launch blocks near 1,000 */
    SESSION_MARK_EVERY = 128,             /* operations between two markers */
    SESSION_QUEUE_CALLS = 65536,          /* waiting between reader and executor */
    SESSION_DEFERRED_CALLS = 131072,      /* waiting in streams; clients keep below it: client/core/stream/backlog.c */
    /* waits for streams: a call that waits for a context waits for each of its streams. A program has one such call for
       each of its threads */
    SESSION_WAITS = 1 << 20,
    SESSION_CALL_COST = 512,              /* bytes that an operation takes in the driver beside its arguments */
    SESSION_ENDS = 4,                     /* functions to call when the session ends */
};
#define SESSION_QUEUE_BYTES    ((size_t)80 << 20)   /* bytes, likewise */
#define SESSION_DEFERRED_BYTES ((size_t)128 << 20)
#define SESSION_DRIVER_BYTES   ((size_t)256 << 20)  /* at most, of operations inside the driver: crowd.c */

/* ---- code: images, and the loader (code.h) ---- */

struct image;
struct images { struct image *first; size_t bytes; unsigned count; };
struct loader {
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    struct job     *first, **last;
    bool            stop, started, busy;
    pthread_t       thread;
};

/* ---- the pulse (pulse.c) ---- */

struct pulse {
    pthread_mutex_t  lock;
    pthread_cond_t   wake;
    pthread_t        thread;
    bool             started, stop;
    bool             suspended;           /* the client's machine is: only the pulse's thread */
    uint64_t         looked;              /* at what the program uses: only the pulse's thread */
    /* a thread of the session is, in our own code: nothing is said until it goes on */
    _Atomic bool     stuck;
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
    void (*welcome)(void);                                                        /* session_options.greeted */
    uint64_t           id;
    _Atomic bool       greeted;
    _Atomic bool       ended;
    bool               beats;                         /* the client takes them; before greeted */
    void             (*on_end[SESSION_ENDS])(struct session *);
    unsigned           on_end_count;
    char               client[FLYT_MAX_SHORT + 64];   /* "host/program[pid]" for the log */
    pthread_mutex_t    lock;
    pthread_mutex_t    charging, measuring;              /* charge.c; measuring before charging, both after lock */
    _Atomic unsigned   blocking_calls;                /* threads of calls.c */
    struct device     *devices;
    int                device_count;
    struct list        contexts;                      /* the oldest first */
    /* calls to legacy streams of earlier contexts of each id */
    uint64_t           legacy_received[FLYT_MAX_CONTEXTS];
    int                driver_version;
    struct id_map     *ids[KINDS];                    /* what the client names by ids; NULL: not this kind */
    struct objects { struct tree names; uint64_t count, last, placed; } objects[KINDS];       /* object.c */
    uint64_t           order;
    struct list        ready;                         /* streams whose first deferred call is worth a try: deferred.c */
    /* streams that wait for room on lanes, for room in the driver, and for something else */
    struct list        congested, crowded, starved;
    struct crowd       crowd;
    struct list        late;                          /* what waits for deferred calls: late.c; the oldest first */
    struct window      window;
    struct host_memory host;
    struct mirror      mirror;
    struct symbol_range *symbols;
    size_t             symbol_count, symbol_room;
    struct images      images;
    size_t             graph_bytes;                   /* of kept calls (graph.c) */
    struct image_cache *cache;                        /* the tenant's; NULL: none */
    uint8_t             nonce[FLYT_HASH_SIZE];        /* of the proofs of this session */
    /* share_ask_function; NULL: it cannot reach other workers */
    int (*share_ask)(const struct share_question *, struct share_answer *, int *fds);
    bool               shareable;                     /* its memory can be exported, that of others imported */
    struct bridge     *bridge;                        /* to the server from or to which it moves; NULL: none */
    void             (*heard)(void);                  /* as in the options */
    struct lanes      *lanes;                         /* NULL: none are offered */
    struct comms *comms;                              /* communicators; NULL: none are offered */
    struct links      *links;                         /* to workers of other sessions; NULL: none are offered */
    /* Never NULL. Only a few files see inside these, so a change of one compiles only those files. */
    struct shares     *shares;
    struct events     *events;
    struct host_functions *host_functions;
    struct conditions *conditions;
    struct insides    *insides;
    struct completion  completion;
    struct report      report;
    struct device_graphs device_graphs;
    struct ledger_figures *figures;                   /* figures.h; never NULL */
    struct executor    executor;
    struct loader      loader;
    struct pulse       pulse;
};

/* Makes a channel of a lane's connection, whose hello has been read, and takes fd over if it succeeds. fd -1: there
   is none any more; context is to be freed. */
typedef int lanes_open_function(int fd, void *context, rpc_channel **out, char *error);
/* Connects to another server as a client does. Its address is a URI, which says whether to use TLS, and which
   certificate to expect. Takes fd over, sends `hello` first, and waits until `deadline` at most. 0 or -errno. */
typedef int lanes_depart_function(int fd, const char *address, const uint8_t *hello, size_t size, uint64_t deadline,
                                  rpc_channel **out, char *error);
struct lanes_ways { lanes_open_function *open; lanes_depart_function *depart; };

struct session_options {
    const struct gpu *gpu;
    bool in_process;
    size_t host_memory;                   /* in_process: so much that both sides share; 0: none. Else: see mirror.c */
    bool disposable;                      /* the process ends with the session: nothing is given back piece by piece */
    struct text *text;                    /* what is captured of stdout and stderr, NULL: nothing */
    struct image_cache *cache;
    /* share_ask_function; NULL: no memory is shared with other programs */
    int (*share_ask)(const struct share_question *, struct share_answer *, int *fds);
    /* Returns when all that the listener had sent to this worker before the call has had its effect. Without
       session.lock. NULL: there is no listener */
    void (*heard)(void);
    const struct lanes_ways *lane_ways;   /* NULL: no lanes; else heard is there */
    const struct links_ways *link_ways;   /* NULL: no links */
    const struct comms_ways *comm_ways;   /* NULL: no communicators */
    bool link_tls;                        /* links are encrypted */
    /* Looks at the ticket of HELLO before anything else is done: 0, or -1 with why in *refusal (FLYT_MAX_SHORT).
       NULL: all are welcome. */
    int (*admit)(const void *ticket, size_t size, char *refusal);
    void (*greeted)(void); /* HELLO was accepted; NULL: nobody wants to know */
};

/* Takes the channel, also on failure. */
int  session_create(rpc_channel *, const struct session_options *, struct session **, char *error);
/* Serves until the connection ends in whichever way; then everything has been given back (unless disposable: then
   threads still run, and the process must end). */
void session_run(struct session *);
void session_destroy(struct session *);
/* The one place that decides what a peer's mistake costs: the session ends, nothing else. Any thread. */
void session_end(struct session *, const char *why);
/* Before any thread of the session starts: session_end calls it, in any thread, to wake those who wait for
   something. */
void session_on_end(struct session *, void (*)(struct session *));

/* What serves a procedure: serve_launch() and so on. */
#define SERVE(NAME, name, arguments, results) void serve_##name(struct session *, struct call *);
FLYT_SEQUENCED(SERVE)
#undef SERVE

#endif
