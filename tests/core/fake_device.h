/*
 * fake_device.h: what fake.c (calls) and fake_device.c (what they do) share. All of it under fake.lock.
 */
#ifndef TESTS_CORE_FAKE_DEVICE_H
#define TESTS_CORE_FAKE_DEVICE_H

#include "fake.h"

#include <pthread.h>

#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

enum { FAKE_STREAMS = 4096 };

struct fake_op {
    uint32_t procedure, xid;
    union {
        copy_in_args in; copy_out_args out; copy_args copy; copy_box_in_args box_in; copy_box_out_args box_out;
        copy_box_args box;
        set_args set;
        values_args values;
        condition_args condition;
        stream_args stream;
        event_record_args record;
        event_wait_args wait;
        host_function_args host; launch_args launch; event_args event; context_args context;
    } a;
    xdrproc_t       free_args;
    bool            announced;
    struct fake_op *next;
};

struct fake_queue { struct fake_op *first, **last; uint64_t done; bool changed; flyt_id context; };
struct fake_piece { uint64_t address, size; flyt_id context; uint8_t *bytes; struct fake_piece *next; };
struct fake_event { flyt_id stream; uint64_t number; };

extern struct fake {
    pthread_mutex_t    lock;
    rpc_listener      *listener;
    rpc_server        *server;
    struct fake_queue  queues[FAKE_STREAMS];
    int                context_device[FLYT_MAX_CONTEXTS];
    bool               context_refused[FLYT_MAX_CONTEXTS];
    uint32_t           ending;        /* the call that ends a context, and has not been answered */
    struct fake_op    *context_syncs;
    struct fake_op    *event_syncs;
    struct fake_event  events[FAKE_STREAMS];
    struct { int kind; } functions[FAKE_STREAMS];
    uint64_t           counted[FAKE_STREAMS];
    struct fake_piece *pieces;
    bool               release;
    int                sticky, latched;
    char               text[4096];
    uint32_t           events_xid[4];
    unsigned           events_waiting;
    flyt_event         due[FLYT_MAX_EVENTS];
    unsigned           due_count, serial;
    bool               beats;             /* see fake_options.last.mute_at */
    int                offers;
    unsigned           life; /* so many are left, this one included; 0: it has but one */
    uint64_t           window;
    bool image_lacks; /* the bytes of the last one have not come */
    bool no_module;   /* the last one was refused */
} fake;

/* Fills in what every reply begins with. */
void fake_fill_head(flyt_head *, int result, flyt_progress *, flyt_text *);
/* One reply, its type's members after the head as in an initializer. */
#define FAKE_REPLY(type, xid_, result_, ...) do { \
        flyt_progress progress_[FLYT_MAX_PROGRESS]; flyt_text text_; \
        type reply_ = { __VA_ARGS__ }; \
        fake_fill_head(&reply_.head, result_, progress_, &text_); \
        rpc_server_reply(fake.server, xid_, (xdrproc_t)xdr_##type, &reply_); \
        if (reply_.head.printed.printed_len) fake.text[0] = 0; \
    } while (0)

/* Between host memory and the pieces that were mapped; false: some of it is not. */
bool fake_memory_copy(uint64_t address, void *host, uint64_t size, bool to_device);

/* Whether the stream is past the event's last record. */
bool fake_event_done(flyt_id);
/* Runs what can run, and answers whom that was waited for by. */
void fake_advance(void);
/* The client has run this function. */
void fake_host_done(flyt_id);

#endif
