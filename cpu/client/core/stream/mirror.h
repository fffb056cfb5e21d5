/*
 * mirror.h: pinned memory that kernels use where the program and its GPU server share no memory, over a network
 * (docs/pinned-memory.md). What does it lies above the core (cpu/client/managed/mirror.c), which reaches it through a
 * table, as it does managed memory; where it is not linked, as in some tests, kernels use no pinned memory.
 *
 * An area is pinned memory of the program, or registered memory, under the addresses that kernels use: of pinned memory
 * its own, of registered memory others in the window. What changed here goes to the server before work begins, what
 * changed there comes back when the program has waited for work.
 *
 * Memory is known as a kernel's from the first sign of it: a parameter of a launch points into it, or a kernel waited
 * for it; where kernels cannot wait, also when the program asked for its device pointer. Copies to and from such memory
 * keep to the order of the streams by way of host functions.
 *
 * Each GPU server of a program with several has copies of its own. What has changed at one comes to the program, and
 * goes from there to another one before work begins there.
 */
#ifndef FLYT_CLIENT_CORE_MIRROR_H
#define FLYT_CLIENT_CORE_MIRROR_H

#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/wire/span.h"

struct move;

struct mirror_room {
    /* At attach: addresses in [base, base + size) are mirrored. */
    void     (*open)(uint64_t base, uint64_t size);
    /* [address, address + size), whole pages of the window, are mirrored from here on, or no more: then what kernels
       wrote there has come, and nothing of the device's uses it. A code. */
    int      (*add)(uint64_t address, uint64_t size);
    void     (*remove)(uint64_t address);
    bool     (*holds)(uint64_t address);
    uint64_t (*reach)(struct client_session *, uint64_t address);
    /* The address that kernels use for an address of registered memory, made when it is new. 0: there is none.
       Waits. */
    uint64_t (*alias)(uint64_t address, uint64_t base, uint64_t size);
    void     (*alias_end)(uint64_t base);     /* it is registered no more */
    uint64_t (*host)(uint64_t address);       /* back again; the address itself if it is no alias */
    void     (*asked)(uint64_t address);      /* the program asked for its device pointer */
    void     (*fault)(void);                  /* error 700: says why, if it may be for such memory */
    /* The parameters of a kernel; before a launch travels. A code. */
    void     (*note)(const void *parameters, size_t size);
    int      (*before_work)(struct client_stream *);
    int      (*fetch)(void);                  /* the program has waited for work: what kernels wrote comes. A code */
    /* A function of the program that a stream runs has returned: what it wrote goes before the stream goes on. */
    void     (*host_function_ended)(void);
    bool     (*in_use)(const struct host_rows *);           /* work that is under way may read or write the rows */
    /* The stream's next call comes behind a moment at which both sides have the same. A code. */
    int      (*fence)(struct client_stream *);
    /* A kernel at that server waits for memory. Does not wait. */
    void     (*wanted)(struct client_session *, const flyt_host_wanted *);
    bool     (*forget)(uint64_t address, uint64_t size);    /* all servers give the part back. False: not now */
    int      (*save)(struct move *);
    int      (*fits)(struct move *);      /* whether the new server can have what kernels use of it */
};
extern const struct mirror_room *mirror_room;               /* NULL: there is none */

/* The calls of the room (cpu_rpc_prot.x, "Mirrored host memory"). Codes. */
int  mirror_call_add(struct client_session *, uint64_t address, uint64_t size);
int  mirror_call_remove(struct client_session *, uint64_t address, uint64_t size);
int  mirror_call_patch(struct client_session *, const void *bytes, size_t size, bool more);
/* apply: false: it is no patch. *next: from where to ask again; 0: that was all. */
int  mirror_call_changes(struct client_session *, uint64_t from, uint64_t *next,
                         bool (*apply)(void *user, const uint8_t *bytes, size_t size), void *user);
void mirror_call_served(struct client_session *, flyt_id, int code);
void mirror_call_flush(struct client_session *);            /* what was sent travels now */

void mirror_open(uint64_t base, uint64_t size);             /* at attach; nothing, without the room */
extern bool mirror_any;                                     /* a window is mirrored: the room is there */
extern atomic_bool mirror_missing; /* there is pinned memory, and no window, mirrored or shared */
/* A kernel has touched an address that is not mapped. Says once if that may be the reason. */
void mirror_missed(void);
/* All of the pinned memory around the address goes to that server, where copies may name the address that this returns.
   0: it is not mirrored, or cannot be had there. Waits. */
static inline uint64_t mirror_reach(struct client_session *session, uint64_t address)
{
    return mirror_any ? mirror_room->reach(session, address) : 0;
}
static inline bool mirror_holds(uint64_t address) { return mirror_any && mirror_room->holds(address); }
static inline uint64_t mirror_host(uint64_t address) { return mirror_any ? mirror_room->host(address) : address; }

/* Launches count before and behind their call; these are numbers of that count. While they differ, a launch may have
   changed an area, and the server has not been asked. */
extern atomic_uint_fast64_t mirror_launched, mirror_settled;
static inline bool mirror_stale(void)
{
    return atomic_load_explicit(&mirror_launched, memory_order_relaxed) !=
           atomic_load_explicit(&mirror_settled, memory_order_relaxed);
}
/* The launch has been sent. Once more: a synchronisation may have come between the first count and the call. */
static inline void mirror_work_sent(void) { atomic_fetch_add(&mirror_launched, 1); }

/* Where the program has waited for work. A code. */
static inline int mirror_synchronised(void)
{
    return __builtin_expect(mirror_stale(), 0) ? mirror_room->fetch() : CORE_OK;
}
static inline bool mirror_in_use(const struct host_rows *rows) { return mirror_stale() && mirror_room->in_use(rows); }
static inline bool mirror_heeded(void)
{
    return atomic_load_explicit(&launch_heed, memory_order_relaxed) & HEED_MIRROR;
}

#endif
