/*
 * room.h: what the files of this room share beside the pages themselves: how it is set up, and accesses that wait.
 */
#ifndef FLYT_CLIENT_MANAGED_ROOM_H
#define FLYT_CLIENT_MANAGED_ROOM_H

#include <stdatomic.h>
#include <sys/types.h>

#include "pages.h"

extern const struct pages_way *pages; /* chosen; NULL: nothing is watched yet */

/* ---- fault.c ---- */

/* A thread that waits for a page. The way that found it makes it, and signals the end with `done`. */
struct fault {
    struct fault *next;
    uint64_t      address;
    pid_t         thread;
    bool          writes;
    bool          settled;            /* the work that may use the page has ended */
    uint32_t opened;                  /* the page's, when the fault began to wait for that */
    void        (*done)(struct fault *, bool ours);         /* the fault is the way's again */
};
/* Starts the threads that serve accesses. poll_more: a descriptor, or -1, and what to do when it can be read. */
bool faults_open(int descriptor, void (*readable)(void));
/* In any thread, also in a signal handler. */
void fault_put(struct fault *);
/* No longer the process in which they run. */
void faults_become_child(void);
bool faults_forked(void);
/* A quick test for handlers: may it be managed memory? */
bool fault_possible(uint64_t address);
void fault_range(uint64_t base, size_t size);               /* such addresses are possible from here on */

#endif
