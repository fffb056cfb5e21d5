/*
 * queue.h: streams and what they carry.
 *
 * A stream is a first-in-first-out queue of operations numbered 1, 2, 3 …; `completed` is the number of the
 * last that has ended. Everything that waits waits for a (stream, number): an event that was recorded is such a pair, a
 * wait for an event copies it, the legacy default stream's operations depend on the last operation of
 * every blocking stream of the context and theirs on its. So there is one kind of dependency.
 *
 * Life of an operation: made by the calling thread, numbered and queued by sgd_queue_push under the mutex;
 * when it is at the head and its dependencies have ended it is started (turn.c); it ends at once (records, writes),
 * in a worker (copies, memsets), in the callback thread (host functions), in the engine (grids) or when
 * a value in memory is seen (waits, looked at by the timer thread). Ending it starts what it held up.
 *
 * After a fault nothing is started any more: what is queued ends without effect, in order; only callbacks of
 * cuStreamAddCallback still run, with the error.
 */
#ifndef SOFTGPU_QUEUE_H
#define SOFTGPU_QUEUE_H

#include "softgpu/driver/machine/device.h"

struct sgd_stream {
    CUstream handle;                     /* NULL, the legacy stream, has a token of its own for cuStreamGetId only */
    struct sgd_context *context;         /* NULL once that is gone */
    struct sgd_stream *next, **back;     /* of its context */
    struct sgd_stream *next_per_thread;  /* likewise */
    struct sgd_stream *active_next, **active_back;   /* streams with something queued */
    struct sgd_stream *look_next;        /* turn.c: those to be looked at */
    struct sgd_stream *fresh_next,
        **fresh_back; /* blocking ones that were given work since the legacy stream's last; NULL: not one */
    struct tree blocked;                 /* heads of other streams that wait for this one: sgd_op.wait, by number */
    bool looking;
    bool legacy, non_blocking, per_thread, destroyed;
    int priority;
    unsigned flags, refs;
    uint64_t id;
    pthread_t thread;                    /* whose per-thread stream */
    uint64_t pushed, completed;
    struct sgd_op *head, **tail;
};

struct sgd_event {
    CUevent handle;
    struct sgd_context *context;
    struct sgd_event *next, **back;      /* of its context */
    unsigned flags, refs;
    bool destroyed;
    struct sgd_stream *stream;           /* where it was recorded last; NULL: never */
    uint64_t number;
    uint64_t time;                       /* ns, of that record */
};

struct sgd_dependency { struct sgd_stream *stream; uint64_t number; };

/* One side of a copy. */
struct sgd_side { uint64_t address; size_t pitch, height; bool device; };

enum sgd_op_kind { SGD_OP_NOTHING, SGD_OP_COPY, SGD_OP_SET, SGD_OP_LAUNCH, SGD_OP_HOST, SGD_OP_RECORD,
                   SGD_OP_WAIT_VALUE, SGD_OP_WRITE_VALUE, SGD_OP_FREE };

enum sgd_waits { SGD_WAITS_FOR_NOTHING, SGD_WAITS_FOR_STREAM, SGD_WAITS_FOR_TIME, SGD_WAITS_FOR_VALUE };

struct sgd_op {
    struct sgd_op *next, *work_next;
    enum sgd_waits waits;                /* a head that cannot start; turn.c */
    struct tree_node wait;               /* where it waits for a stream or a time */
    struct sgd_op *value_next, **value_back;     /* others that wait for values */
    struct sgd_stream *stream;
    uint64_t number;
    enum sgd_op_kind kind;
    bool started;
    bool inline_run;                     /* the calling thread does the work itself when its turn is at once */
    uint64_t not_before;                 /* chaos */
    uint32_t dependency_count, dependency_room;
    struct sgd_dependency *dependencies;
    union {
        struct {
            struct sgd_side to, from;
            size_t width, rows, slices;
            void *staged;                /* freed with the operation */
        } copy;
        struct {
            uint64_t address; size_t pitch, width, rows;     /* width in elements */
            unsigned element; uint32_t value;
        } set;
        struct {
            struct sg_launch launch;     /* bindings owned; params: small, or owned */
            struct sgd_module *module;   /* NULL: the launch was not queued, and holds nothing */
            unsigned textures;           /* of sgd_textures_hold */
            _Alignas(16) unsigned char small[128];
        } launch;
        struct {
            CUstreamCallback callback; CUhostFn function; void *data; CUstream stream;
        } host;
        struct sgd_event *event;         /* RECORD */
        struct {
            uint64_t address, value, since;
            bool wide;
            unsigned flags;
            bool announced;
        } value;                         /* since: when it came to the head; announced: see struct sgd_memory */
        uint64_t address;                /* FREE */
    };
};

/* op.c */
/* What a launch gets of its module's texture references, freed with it; of the budget for code. NULL: no memory. */
struct sg_binding *sgd_bindings_new(size_t count);
struct sgd_op *sgd_op_new(enum sgd_op_kind);             /* cleared; NULL: no memory */
void sgd_op_free(struct sgd_op *);
bool sgd_op_depend(struct sgd_op *, struct sgd_stream *, uint64_t number);

/* queue.c, turn.c */
CUresult sgd_queue_start(void);          /* makes the threads */
/* Numbers and queues the operation, and waits while the stream holds SGD_MAX_OUTSTANDING. The queue owns it. */
CUresult sgd_queue_push(struct sgd_stream *, struct sgd_op *, uint64_t *number);
/* Queues; a copy or memset whose turn it is at once has been done by the caller when it returns. */
CUresult sgd_queue_push_here(struct sgd_stream *, struct sgd_op *, uint64_t *number);
/* Queues, waits until the operation has ended, and says whether a fault has come. The caller runs it if it can. */
CUresult sgd_queue_push_wait(struct sgd_stream *, struct sgd_op *);
bool sgd_stream_done(const struct sgd_stream *, uint64_t number);
CUresult sgd_stream_wait(struct sgd_stream *, uint64_t number);
CUresult sgd_context_wait(struct sgd_context *);         /* all its streams; ends with CUDA_SUCCESS or the fault */
/* The legacy stream and those that it waits for. Nothing is queued: later work of those does not wait for it. */
CUresult sgd_legacy_wait(struct sgd_context *);
bool sgd_in_callback(void);              /* the calling thread runs host functions: it may not call CUDA */
bool sgd_queue_cancelling(void);         /* the fault has not reached all machines yet */
void sgd_fault_raise(CUresult);          /* the first fault is kept; what runs and waits ends */

/* work.c: a COPY, SET or HOST that has started is put where the threads that do it take it. */
void sgd_work_start(void);
void sgd_work_put(struct sgd_op *);
struct sgd_op *sgd_work_take(bool host_functions);       /* waits for one */

/* turn.c */
void sgd_turn_prepare(void);
void *sgd_turn_timer(void *);            /* a thread's body */
void sgd_turn_begin(struct sgd_stream *);                /* it was empty and has got an operation */
void sgd_turn_end(struct sgd_op *, CUresult); /* a started operation has ended so; what waited for it goes on */
struct sgd_stream *sgd_turn_active(void);                /* streams with something queued, by active_next */

/* run.c */
CUresult sgd_op_run(struct sgd_op *);    /* COPY and SET, without the mutex */
bool sgd_value_reached(const struct sgd_op *, CUresult *error);
CUresult sgd_value_write(const struct sgd_op *);

/* stream.c, event.c */
CUresult sgd_stream_new(struct sgd_context *, unsigned flags, int priority, struct sgd_stream **);
void sgd_stream_unref(struct sgd_stream *);
/* The stream is no more among those that the legacy stream's next operation waits for. */
void sgd_stream_stale(struct sgd_stream *);
void sgd_stream_retire(struct sgd_stream *);             /* its handle and context go; it ends when it is empty */
void sgd_event_unref(struct sgd_event *);
void sgd_event_retire(struct sgd_event *);

#endif
