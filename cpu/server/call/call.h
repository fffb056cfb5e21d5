/*
 * call.h: one call of the client's: how it is decoded, served, kept for later and answered when it fails (calls.c), and
 * what a stream operation is (stream.c).
 */
#ifndef FLYT_SERVER_CALL_H
#define FLYT_SERVER_CALL_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/list.h"
#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/rpc/rpc.h"

struct function;
struct group;
struct inside;
struct record;
struct session;
struct settings;
struct stream;
struct texref_bindings;

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
    uint32_t *(*stream_of)(union call_args *);    /* of a call that a graph may keep, else NULL */
};

/* What a stream operation does when its turn comes. Returns a CUresult, or OPERATION_LATER: something that a
   completion will give back is lacking (call->wants), try again then. */
enum { OPERATION_LATER = -1 };
struct operation {
    int (*issue)(struct session *, struct call *);
    bool numbered;                        /* false: STREAM_SYNC and the like, which only mark a place */
    bool own_number;                      /* issue sees to call->number itself being marked */
    bool twofold;                         /* the driver makes two operations of it: a marker, and a wait */
    /* Its stream ends before its turn has come, with this code: answers whoever waits. NULL: a call that is
       answered fails. */
    void (*dropped)(struct session *, struct call *, CUresult);
};

/* A decoded call. It lives on the serving thread's stack unless it is deferred or handed to another thread:
   then it is moved to the heap (call_keep) and `moved` keeps the arguments from being freed twice. */
struct call {
    const struct procedure *procedure;
    uint32_t xid;
    bool moved;
    size_t bytes;                         /* of the request, for bounds */
    unsigned parts;                       /* operations that the driver makes of it, for bounds */
    /* of a stream operation */
    const struct operation *operation;
    struct stream *stream;
    uint64_t number;                      /* within the stream */
    uint64_t order;                       /* within the session */
    struct function *function;            /* holds a reference to its module */
    struct settings *settings;            /* the function's, when the launch was received; NULL: none had been set */
    struct texref_bindings *bindings;     /* of its module's texture references, which it keeps; or NULL */
    struct record *record;                /* holds a reference */
    struct group *group;
    struct inside *inside;                /* that stands behind its calls here */
    /* who waits for what is lacking; NULL: something that nobody else waits for */
    struct list *wants;
    uint32_t transfer;                    /* whose bytes come on a lane and have not been claimed; 0: none */
    uint64_t transfer_size;
    struct call *next;
    union call_args args;
    _Alignas(16) uint8_t room[CALL_ROOM]; /* parameters of a launch, if they fit; args points here then */
};

const struct procedure *procedure_find(uint32_t number);          /* procedures.c; NULL: there is none */
/* Decodes and serves under session.lock. 0, or -EPROTO. */
int  call_serve(struct session *, const struct procedure *, rpc_request *);
/* A call of a graph: its arguments as they stand in its message. Could it be served? */
bool call_may_be_kept(const struct procedure *, uint8_t *body, size_t size);
/* Serves it as call_serve does, in `stream` if it names FLYT_GRAPH_STREAM. False: no memory; nothing was done. */
bool call_serve_kept(struct session *, const struct procedure *, uint8_t *body, size_t size, uint32_t stream);
/* Serves the call in a thread of its own, which answers it. False: no thread can be had, the call is unchanged. */
bool call_serve_blocking(struct session *, struct call *, void (*serve)(struct session *, struct call *));
/* Serves it in that stream, which the client does not know, whichever it names. False: it cannot be kept, or no
   memory. */
bool call_serve_inside(struct session *, const struct procedure *, uint8_t *body, size_t size, struct stream *);
struct call *call_keep(struct call *);                            /* NULL: no memory, the call is unchanged */
void call_free(struct call *);                                    /* a kept one: arguments, references, itself */
void call_clear(struct call *);                                   /* arguments and references only */
/* Ends a call that failed: answers it, or latches the error if it is never answered. */
void call_fail(struct session *, struct call *, CUresult);

#endif
