/*
 * context.h: a device is hardware; a context is what a program has made on it: streams, modules, memory, staging
 * memory.
 *
 * The client names contexts by ids of its own (cpu_rpc_prot.x, "Contexts"): the primary context of a device, which the
 * session retains once, and created ones. Several contexts of one device know nothing of each other.
 *
 * A context is in the session's table from its first moment to its end. Its structure lives on while streams or
 * recordings of events refer to it; then `ended` is set, and the driver has destroyed what was in it.
 */
#ifndef FLYT_SERVER_CONTEXT_H
#define FLYT_SERVER_CONTEXT_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/list.h"
#include "cpu/common/tree.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/server/gpu/gpu.h"
#include "cpu/server/stream/staging.h"

struct session;

struct device {
    int index;
    CUdevice handle;
    struct context *primary;              /* NULL: the session has not retained it */
    /* What the session takes of the device's memory: the sums of its contexts. charge.c, under session.charging */
    uint64_t mapped, charged;
};

struct context {
    _Atomic unsigned references;          /* the session's table; streams; recordings of events */
    uint32_t id;                          /* on the wire; its legacy stream has the same */
    struct device *device;
    bool primary;
    CUcontext handle;
    uint64_t serial;                      /* no other context of this process has it */
    _Atomic bool ended;
    struct list of_session;
    uint64_t reached_by;                  /* peer.c: bit c: context c may touch this one's memory */
    struct stream *legacy;
    struct list streams;                  /* all that are not destroyed; the legacy one among them */
    struct list busy[2];                  /* those that may have work: non-blocking, blocking; see stream_busy() */
    struct list holding;                  /* those with staging memory that no marker stands behind */
    struct list unmarked;                 /* blocking ones that were given work since the legacy one last was */
    /* blocking streams with deferred calls, by order of the first; not the legacy one */
    struct tree heads;
    CUevent *spare_events;                /* completion.lock */
    unsigned spare_count, spare_room;
    struct staging staging;
    /* host-mapped words, one per stream that has host functions; NULL: none yet */
    uint32_t *gates;
    CUdeviceptr gates_address;
    uint32_t gates_used;
    pthread_mutex_t gates_lock;           /* a leaf */
    struct gate { uint32_t index, ticket; } *gates_spare;      /* of streams that are gone; room for all */
    uint32_t gates_spare_count;
    struct context_limits *limits;        /* limits.c; NULL: none is to be lowered later */
    struct stream *inner_spare;           /* streams that the client does not know, without work; each is held */
    /* charge.c, under session.charging */
    uint64_t mapped;                      /* bytes of pieces */
    uint64_t charged;                     /* what the context, modules, stacks … were found to take */
};

/* ---- device.c ---- */

struct device *server_device_find(struct session *, int index);          /* NULL: no such device */
int  devices_create(struct session *, char *error);
/* What HELLO reports of the devices. The result lives as long as the process. */
int  devices_snapshot(const struct gpu *, const flyt_device **, int *count, char *error);
/* The software GPU shows this compute capability (times ten; 0: as it is) from here on, if it may (gpu.h), and so does
   the snapshot. Before the session's first context; other drivers stay as they are. */
void devices_become(const struct gpu *, unsigned capability, bool insists);
/* Of that snapshot: would the driver and the tenant's limit now allow a context on each device, with some memory in it?
   No promise: other programs take memory, too. */
bool devices_have_room(const struct session *, const flyt_device *, int count);

/* ---- context.c ---- */

/* Makes the context current in the calling thread. CUDA_ERROR_INVALID_CONTEXT: it has ended. */
CUresult context_use(struct session *, struct context *);
void context_use_none(struct session *);                          /* none is current in the calling thread */
/* Under session.lock. */
struct context *context_find(struct session *, uint32_t id);      /* NULL: the client has none of that name */
/* any other one; NULL: there is none */
struct context *context_other(struct session *, const struct context *but);

void context_hold(struct context *);                              /* references.c */
void context_drop(struct context *);

/* ---- context_make.c: under session.lock ---- */

/* Makes the context: primary (flags do not count), or a created one. It is in the table then, with nothing in it. */
CUresult context_make(struct session *, uint32_t id, struct device *, bool primary, unsigned flags, struct context **);
/* The driver's context goes, with whatever the driver still has in it. The structure is not the caller's any more. */
CUresult context_unmake(struct session *, struct context *);

/* ---- context_calls.c ---- */

/* A new session's first context, which HELLO asked for: device 0's primary one, named 0. NULL: it could not be made. */
struct context *context_begin_first(struct session *);
bool contexts_close(struct session *);                            /* false: a kernel without end runs */

/* ---- peer.c ---- */

/* Which devices may touch the context's memory, for cuMemSetAccess: its own and its peers'. Writes at most
   session.device_count entries, returns how many. */
unsigned peer_access(struct session *, const struct context *owner, CUmemAccessDesc *out);
void peers_drop(struct session *, struct context *);

#endif
