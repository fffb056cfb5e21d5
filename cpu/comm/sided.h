/*
 * sided.h: one-sided operations of a context: puts into the windows of other ranks, and signals that are waited for.
 *
 * A window is memory of each rank. All ranks register theirs, in the same order, so a number names one window on all of
 * them. Each rank announces how large its own is; a window is complete when all have.
 *
 * A put is a message with a head (below) and, where it is large, one more with its bytes. For each other rank a context
 * always has one receive posted: for the next head, or for the bytes of the put under way, which go straight into the
 * window. Whichever thread completes it goes on: so a put needs nothing from the program of the rank that it is for,
 * and from none of its threads that wait for something else.
 *
 *   Order    what one rank puts, its signals included, is taken in the order in which it was called.
 *   Signal   each put adds one to the signals from its rank, when its bytes are in the window. A put without bytes is a
 *            signal only. A wait takes signals away; there may be more than it waits for.
 *   Trust    what a head says is checked against the window of this rank. A wrong one ends the context.
 *   Memory   is not touched any more when comm_window_remove has given 0, or the context is gone.
 *
 * A put that is complete may still be on its way, as a send may: its memory is free, and it arrives unless the context
 * fails.
 */
#ifndef FLYT_COMM_SIDED_H
#define FLYT_COMM_SIDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm_context;

enum { COMM_WINDOWS_MOST = 1024 }; /* a rank has at a time, and may be ahead of another one */

/* Takes puts and signals from all ranks, which are connected, from now on. Before the first call. 0 or -errno. */
int comm_sided_begin(struct comm_context *);
/* Behind it nothing is taken any more, and no memory of windows is touched. Waits two seconds for bytes that come, then
   aborts the context; of one that has failed it waits for nothing but threads that are at work. comm_context_destroy
   calls it. Any thread; again it does nothing. */
void comm_sided_end(struct comm_context *);

struct comm_window {
    void    *memory;
    uint64_t size;
    /* Called for the bytes of each put, by any thread; may be NULL. Before they come: false: the memory has gone, and
       the context fails. And behind them, before the signal, with `written`. */
    bool   (*look)(const void *of, void *memory, uint64_t size, bool written);
    const void *of;
};
/* Registers this rank's part of the next window, whose number it gives, from 1; and announces it. Does not wait.
   -ENOMEM: there is no memory, or it has COMM_WINDOWS_MOST. Any thread, but one at a time. */
int comm_window_add(struct comm_context *, const struct comm_window *, uint32_t *number, char *error);
/* 1: it is complete, and sizes (of each rank) are filled in; 0: not yet, and `error` names the ranks that are missing;
   or why it never will be. Any thread. */
int comm_window_sizes(struct comm_context *, uint32_t number, uint64_t *sizes, char *error);
/* 0; -EBUSY: bytes are coming into it, or it is being announced: to be tried again; -ENOENT. From then on nothing is
   put into it: what is ends the context. Any thread. */
int comm_window_remove(struct comm_context *, uint32_t number);

/* A put, or a wait for so many signals of the peer (count; the rest does not matter). A rank may be its own peer. */
struct comm_sided {
    unsigned    peer;
    uint32_t    window; /* of a put: its number; 0: a signal only */
    uint64_t    offset; /* in bytes, from the peer's beginning */
    const void *memory;
    uint64_t    size;   /* bytes; of a wait: signals */
};
/* Puts are under way at a time, those to one rank in their order; it waits until their memory is free. 0; -EINVAL: the
   arguments are wrong, and nothing has happened; else the context has failed. */
int comm_put(struct comm_context *, const struct comm_sided *, unsigned count, uint64_t deadline, char *error);
/* Waits until all signals are there, and takes them. */
int comm_await(struct comm_context *, const struct comm_sided *, unsigned count, uint64_t deadline, char *error);

/* ---- the head of a message ---- */

enum { COMM_SIDED_HEAD = 24, COMM_SIDED_INLINE = 4096 }; /* up to so many bytes stand behind the head */
enum comm_sided_kind { COMM_SIDED_PUT = 1, COMM_SIDED_WINDOW };
struct comm_sided_head {
    enum comm_sided_kind kind;
    uint32_t window;
    uint64_t offset, size;
};
void comm_sided_head_put(uint8_t bytes[COMM_SIDED_HEAD], const struct comm_sided_head *);
/* length: of the whole message. False: it is none. */
bool comm_sided_head_get(const uint8_t *bytes, uint64_t length, struct comm_sided_head *);

/* ---- for the context ---- */

struct comm_sides;
/* Behind comm_sided_end, when the ways to the other ranks have ended, or will by themselves. NULL is allowed. */
void comm_sides_drop(struct comm_sides *);

#endif
