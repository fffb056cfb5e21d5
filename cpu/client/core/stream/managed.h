/*
 * managed.h: what the core asks of the room of managed memory (cpu/client/managed), which lies above it. The room
 * fills in the table when the library is loaded; where it is not linked, as in some tests, there is no managed memory.
 */
#ifndef FLYT_CLIENT_CORE_MANAGED_H
#define FLYT_CLIENT_CORE_MANAGED_H

#include "stream.h"

struct managed_room {
    /* Before work that may touch any managed memory: what the program wrote there is on the device when it returns, and
       the work is counted in managed_work_coming. A code: it could not be brought there. */
    int      (*before_work)(struct client_stream *);
    /* Before the device reads or writes this range, for a copy. whole: it writes every byte of it. */
    int      (*before_access)(uint64_t address, uint64_t size, bool writes, bool whole);
    /* A function of the program, which a stream waited for, has returned; the stream still stands. */
    void     (*host_function_ended)(void);
    int      (*free)(uint64_t address);
    /* A variable of a module that the program and the device share begins and ends. A code. */
    int      (*variable_begins)(core_context *, uint64_t address, size_t size);
    void     (*variable_ends)(uint64_t address, size_t size);
    /* Memory of the host (a handle's) is mapped there: the program may touch it from here on. A code. */
    int      (*mapping_begins)(int device, uint64_t address, uint64_t size);
    /* Before it is unmapped. drop: nobody wants what the program has written there. A code. */
    int      (*mapping_ends)(uint64_t address, uint64_t size, bool drop);
    void     (*forget_context)(core_context *);
    uint64_t (*count)(void);
    void     (*synchronised)(void);           /* called while managed_wants_to_know */
    void     (*becomes_child)(void);          /* in the child of a fork */
    /* The session moves, and has moved or stays: between, no page is opened, and who touches one waits. */
    void     (*session_rests)(bool rests);
    /* Meanwhile: the pages of allocations that are not part of a handle, whose newest contents the device has. */
    int      (*each_on_device)(int (*)(core_context *, uint64_t address, uint64_t size, void *), void *);
};
extern const struct managed_room *managed_room;             /* NULL: there is none */

/* Reasons why a launch must do more than be sent, as bits. */
enum { HEED_STATS = 1, HEED_MANAGED = 2, HEED_TEXREFS = 4, HEED_MIRROR = 8, HEED_SPANS = 16 };
extern atomic_uint launch_heed;

/* Threads that have closed the program's pages, or found none open, and have not yet sent the work before which they
   did so. Another thread that fetches a page leaves its neighbours meanwhile. */
extern atomic_uint managed_work_coming;

/* Before work that may use any managed memory. *comes: managed_work_sent has to be called when it has been sent, or
   after a failure; true only where there is managed memory (HEED_SPANS).
   HEED_MANAGED: the program has pages open that a kernel may want, or what it wrote to them has not arrived yet. It
   orders its writes to them before its launch, so the load sees the flag that was set before the first of those
   writes. */
static inline int managed_work_begins(struct client_stream *s, bool *comes)
{
    *comes = atomic_load_explicit(&launch_heed, memory_order_relaxed) & HEED_SPANS;
    if (__builtin_expect(!*comes, 1))
        return CORE_OK;
    atomic_fetch_add(&managed_work_coming, 1);
    if (!(atomic_load(&launch_heed) & HEED_MANAGED))
        return CORE_OK;
    atomic_fetch_sub(&managed_work_coming, 1);
    return managed_room->before_work(s);
}
/* Before managed_before_access where the device writes; managed_work_sent follows. */
static inline void managed_write_comes(bool managed)
{
    if (managed)
        atomic_fetch_add(&managed_work_coming, 1);
}
static inline void managed_work_sent(bool comes)
{
    if (__builtin_expect(comes, 0))
        atomic_fetch_sub_explicit(&managed_work_coming, 1, memory_order_release);
}

/* The program has waited for work of a stream, and may use managed memory next. */
extern atomic_bool managed_wants_to_know;
static inline void managed_synchronised(void)
{
    if (__builtin_expect(atomic_load_explicit(&managed_wants_to_know, memory_order_relaxed), 0))
        managed_room->synchronised();
}

int  managed_before_access(uint64_t address, uint64_t size, bool writes, bool whole);
void managed_host_function_ended(void);
int  managed_free(uint64_t address);
/* Without the room: 801. */
int  managed_variable_begins(core_context *, uint64_t address, size_t size);
void managed_variable_ends(uint64_t address, size_t size);
/* Whether the program can touch memory that kernels use, in this session. */
bool managed_possible(void);
void managed_forget_context(core_context *);
uint64_t managed_count(void);
void managed_becomes_child(void);
void managed_session_rests(bool rests);

#endif
