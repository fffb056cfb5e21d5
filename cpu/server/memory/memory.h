/*
 * memory.h: the window of device addresses and what is mapped in it (memory.c), and host memory that client and device
 * share (host_memory.c). Everything under session.lock.
 */
#ifndef FLYT_SERVER_MEMORY_H
#define FLYT_SERVER_MEMORY_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/list.h"

struct context;
struct device;
struct module;
struct session;

struct cut;
struct handle;
struct share_part;
/* A piece of MAP, which belongs to a context, or where a handle is mapped (`shared`, handle.c). */
struct mapping {
    uint64_t address, size;
    struct context *context;
    CUmemGenericAllocationHandle handle;
    struct handle *shared;
    struct share_part *part;              /* of a piece that was exported, else NULL */
};
struct window {
    uint64_t base, size, granularity;
    struct mapping **at;                  /* by granule; size/granularity entries */
    uint64_t pieces, shared;              /* mappings of either sort */
    unsigned attempt;
};
struct symbol_range { uint64_t address, size; struct module *module; };

int  memory_window_reserve(struct session *, char *error);
/* Credit from the beginning of the window on, in which nothing is mapped yet: about `wanted` bytes. Returns how many,
   or 0: the client asks with MAP when it needs some. Under session.lock. */
uint64_t memory_first_credit(struct session *, struct context *, uint64_t device_memory, uint64_t wanted);
void memory_stop(struct session *);
/* How memory of the device is made. */
CUmemAllocationProp memory_properties(const struct session *, const struct device *);
/* [address, address + size) as granules of the window. False: not in it, or not aligned. */
bool memory_granules(const struct window *, uint64_t address, uint64_t size, uint64_t *first, uint64_t *count);
void handles_stop(struct session *);

/* Memory of a session that moves to another worker: parts of it, and descriptors of their files. */
enum { LENT_MOST = 64 };
struct lent { unsigned count; uint64_t sizes[LENT_MOST]; int fds[LENT_MOST]; };
/* What the context has in the range, from its beginning on, as many pieces as there is room for. The caller closes
   the descriptors, also after a failure. */
CUresult memory_lend(struct session *, struct context *, uint64_t address, uint64_t size, struct lent *);
/* Maps the pieces there, one behind the other, at most `most` bytes. *size: how many. All of it or nothing; the
   descriptors stay the caller's. */
CUresult memory_adopt(struct session *, struct context *, uint64_t address, uint64_t most, const struct lent *,
                      uint64_t *size);
void memory_adopted_end(struct session *, struct context *, uint64_t address, uint64_t size); /* of whole pieces */
CUresult handle_lend(struct session *, uint64_t id, struct lent *);
CUresult handle_adopt(struct session *, uint32_t id, int device, const struct lent *);
/* Exports a range by the key that others know it by: share_export_again. */
struct share_key;
CUresult memory_export_again(struct session *, uint64_t address, uint64_t size, const struct share_key *);
void memory_drop_all(struct session *, struct context *);         /* of the context */
/* What the device may do with all pieces of the context. */
CUresult memory_pieces_access(struct session *, const struct context *, const struct device *, CUmemAccess_flags);
/* May the client name [address, address + size)? Mapped window, added host memory, or a variable of one of its
   modules. */
bool memory_known(struct session *, uint64_t address, uint64_t size);
bool memory_watched(const struct session *);                /* FLYT_CAP_EXTENTS */
bool memory_writes_watchable(const struct session *);       /* FLYT_CAP_WATCH */
/* Whose memory lies there; NULL: nobody's, or not the window's. */
const struct context *memory_context(struct session *, uint64_t address);
int  memory_symbol_add(struct session *, uint64_t address, uint64_t size, struct module *);
void memory_symbols_drop(struct session *, struct module *);

/* ---- host memory that client and device share (host_memory.c) ---- */

/* What one HOST_ADD gave. */
struct host_range {
    uint64_t address, size;
    struct context *context;              /* through which it is registered; NULL: not now */
    uint8_t *base;                        /* mirrored: what client and server had in common last; else NULL */
    bool shut;                            /* mirrored: kernels wait before it */
    struct host_range *next;
};

struct host_memory {
    uint64_t base, size;                  /* the host window; size 0: none */
    struct host_range **at;               /* by granule. Mirrored: changed under mirror.lock, too */
    struct host_range *ranges;
    size_t wanted;                        /* in one process: so much; mirrored: at most so much is added */
    bool mirrors, pulls;                  /* the client has FLYT_CAP_MIRROR, FLYT_CAP_PULL */
    bool mirrored, shut;                  /* shut: some range is */
    bool refused;                         /* there is none because something else lies behind the window */
    uint64_t added;                       /* bytes, while mirrored */
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

/* ---- mirrored host memory (mirror.c, and what kernels wait for: mirror_wanted.c) ---- */

struct mirror {
    pthread_mutex_t contents;             /* of the ranges and their bases; before lock */
    struct cut *first_cut, **last_cut;    /* what kernels have released, in its order; under contents */
    size_t cut_bytes;
    pthread_mutex_t lock;                 /* a leaf, but for events.lock */
    struct list of_all;                   /* linked: kernels may wait for this session's client */
    struct wanted_pages *first;           /* parts that kernels wait for, the newest first */
    uint32_t last;                        /* id of one */
    unsigned waiting;                     /* threads of the GPU in here */
    bool started, ended;
    pthread_cond_t answered;
};

int  mirror_start(struct session *);
void mirror_open(struct session *);       /* there is a window */
void mirror_ended(struct session *);      /* the client is gone: nobody brings anything */
/* No kernel waits any more, nor will one. Its areas may be there still. */
void mirror_stop(struct session *);
void mirror_free(struct session *);       /* no area is left */
/* Zeros at the addresses, and what is beside them. False: no memory, or too much. */
bool mirror_range_begin(struct host_memory *, struct host_range *);
void mirror_range_end(struct host_memory *, struct host_range *);
bool mirror_pulls(const struct session *);                  /* FLYT_CAP_PULL */
/* The client gets what kernels have changed by now before what they change later. Called by threads of the GPU. */
void mirror_cut(struct session *);
void mirror_cuts_drop(struct mirror *);
/* By the completion thread: what is wanted now; and later, behind all news of what the device did before, informing the
   client of it. */
uint32_t mirror_newest(struct session *);
void mirror_tell(struct session *, uint32_t newest);

#endif
