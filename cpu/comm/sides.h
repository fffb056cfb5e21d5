/*
 * sides.h: what the files of one-sided operations share (sided.h says how they work).
 *
 *   sided.c       puts and waits, for the thread that calls them
 *   sides.c       what comes from the other ranks
 *   window.c      windows, and which ranks have registered theirs
 *   sided_head.c  the head of a message
 *
 * Locks: comm_sides.lock is a leaf. No lock is held while transfers are posted, bytes are copied, and the context hears
 * of a failure.
 *
 * Life. Receives are posted on links that outlive the context, so each counts as a reference, and the last one frees
 * all of it. `inside` counts threads that use the context: once `closed` is set no more come, and comm_sided_end waits
 * for those that are there.
 */
#ifndef FLYT_COMM_SIDES_H
#define FLYT_COMM_SIDES_H

#include "cpu/comm/context.h"
#include "cpu/comm/sided.h"

#define COMM_SIDED_SPACE (UINT64_C(3) << 60)       /* of messages, in the names of transfers */
#define COMM_SIDED_BYTES_SPACE (UINT64_C(5) << 60) /* of the bytes of large ones: the same number */

/* A window of this rank, or one that it has only heard of. */
struct sided_window {
    struct list of_all;
    uint32_t number;
    struct comm_window mine;
    bool here, removed; /* it was registered here; and removed */
    unsigned users;     /* puts that come, and messages that announce it */
    unsigned known;     /* how many ranks have announced theirs */
    bool announces;     /* its head is registered */
    uint8_t head[COMM_SIDED_HEAD];
    struct sided_part {
        struct sided_window *of;
        struct comm_sides *sides;
        unsigned rank;
        bool known;
        uint64_t size;
        struct comm_transfer t; /* the announcement to that rank */
    } parts[];
};

/* What comes from a rank: one message after the other. */
struct sided_peer {
    struct comm_sides *of;
    unsigned rank;
    struct comm_transfer t;    /* the next head, or the bytes of `head` */
    struct sided_window *into; /* where these go; NULL: the next head */
    struct comm_sided_head head;
    uint64_t number;  /* of the message, from 1 */
    uint64_t sent;    /* the number of the last message to that rank */
    uint64_t signals; /* that have arrived and that no wait has consumed */
    uint32_t windows; /* so many windows it has registered */
    int gone;         /* nothing more comes, and why */
    uint8_t *message; /* room for a head and what stands behind it */
};

struct comm_sides {
    struct comm_context *context;
    struct comm_engine *engine; /* with which `messages` are registered; NULL: they are not */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed;
    unsigned inside, references;
    struct list windows;
    uint32_t registered; /* windows of this rank, up to now */
    unsigned here;       /* and so many of them have not been removed */
    uint8_t *messages;
    unsigned ranks;
    struct sided_peer peers[];
};

/* ---- window.c ---- */

/* These under the lock. NULL: there is none. */
struct sided_window *sided_window_find(struct comm_sides *, uint32_t number);
/* A rank announces a window. False: it may not. */
bool sided_window_announced(struct comm_sides *, unsigned rank, uint32_t number, uint64_t size);
/* Whether so many bytes at the offset are within `of` bytes. */
bool sided_window_has(uint64_t of, uint64_t offset, uint64_t size);
/* Whether bytes come into one, or messages that announce one are under way. */
bool sided_windows_busy(const struct comm_sides *);
/* Of these windows, which nobody finds any more. No lock is held. */
void sided_windows_drop(struct comm_sides *, struct list *windows);

#endif
