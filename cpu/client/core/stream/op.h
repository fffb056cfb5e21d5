/*
 * op.h: an operation of a stream, as data (op.c). What a program gives a stream is checked, becomes one of these, and
 * goes through op_submit. So a stream's operations can be recorded instead of sent (struct stream_recorder).
 *
 * A new operation is a kind here, its arguments, and a row of the table in op.c.
 */
#ifndef FLYT_CLIENT_CORE_OP_H
#define FLYT_CLIENT_CORE_OP_H

#include "cpu/client/core/copy/copy_engine.h"
#include "stream.h"

enum op_kind {
    OP_COPY,
    OP_SET,
    OP_PREFETCH,
    OP_VALUES,
    OP_LAUNCH,
    OP_EVENT_RECORD,
    OP_EVENT_WAIT,
    OP_EVENT_ACROSS,                  /* a wait for an event of another server */
    OP_HOST_FUNCTION,
    OP_CONDITION,
    OP_GRAPH_END,
    OP_EXTENT,
    OP_COLLECTIVE,
    OP_KINDS
};

struct client_event;
struct comm_messages_args;
struct comm_op_args;
struct comm_sided_args;
struct loaded_function;

struct op {
    enum op_kind kind;
    union {
        struct copy_plan copy;
        /* reach: where the device finds `to`; 0: nowhere, it is pinned memory */
        struct op_set {
            struct core_box to;
            struct core_extent extent;
            uint64_t reach;
            uint32_t value;
            unsigned element;
            bool pinned, blocking;
            uint64_t managed;         /* bytes of managed memory, from the first to the last one */
        } set;
        struct op_prefetch { uint64_t address; size_t size; int device; } prefetch;
        /* The list is the caller's. */
        struct op_values {
            const struct core_value *list;
            unsigned count;
        } values;
        /* What the launch points to is the caller's. */
        struct op_launch {
            const struct core_launch *launch;
            const struct loaded_function *loaded;
            uint64_t executable;      /* the graph that the launch is a part of; 0: none */
            bool current;
        } launch;
        struct op_graph_end { uint64_t executable; } graph_end;
        struct op_event {
            struct client_event *event;
            unsigned flags;
        } event; /* recorded, or waited for */
        /* The arguments are the caller's; the stream in them does not count. bytes: of the calls in the bodies */
        struct op_condition { const struct condition_args *args; size_t bytes; } condition;
        /* A collective, messages, or puts or waits; the others are NULL. The arguments are the caller's; the stream
           in them does not count. */
        struct op_collective {
            struct comm_op_args *one;
            struct comm_messages_args *messages;
            struct comm_sided_args *sided;
        } collective;
        struct op_extent { uint64_t address, size; flyt_extent_state state; } extent;
        struct op_host { void (*function)(void *user, int status); void *user; bool on_error; } host;
    };
};

/* How an operation of each kind is sent. */
typedef int op_sender(struct client_stream *, const struct op *);
extern op_sender *const op_senders[OP_KINDS];

static inline int op_send(struct client_stream *s, const struct op *op) { return op_senders[op->kind](s, op); }

/* Sends it, or gives it to the stream's recorder. */
static inline int op_submit(struct client_stream *s, const struct op *op)
{
    struct stream_recorder *recorder = stream_recorder(s);
    return __builtin_expect(recorder != NULL, 0) ? recorder->take(recorder, s, op) : op_send(s, op);
}

/* ---- the rows ---- */

op_sender copy_op, set_op, prefetch_op, values_op, launch_op, event_record_op, event_wait_op, event_across_op,
    host_function_op, condition_op, graph_end_op, extent_op, collective_op;

/* ---- sequence.c ---- */

int sequence_open(void); /* at attach */
uint64_t sequence_count(void);
struct move;
int  sequence_save(struct move *);
void sequence_moved(struct move *, bool moved);

/* ---- events (event.c), for one who sends the calls himself ---- */

flyt_id event_name(const struct client_event *);
/* The event was recorded there; a stream was made to wait for it there. */
void event_recorded_at(struct client_event *, struct client_stream *, const struct point *);
void event_waited_at(struct client_event *, const struct point *);

#endif
