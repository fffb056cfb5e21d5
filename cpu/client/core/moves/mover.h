/*
 * mover.h: the session goes on at another GPU server because the cluster says so. move.c carries it out; mover.c asks
 * the client manager which server it is, and says what came of it.
 */
#ifndef FLYT_CLIENT_CORE_MOVER_H
#define FLYT_CLIENT_CORE_MOVER_H

#include <stdbool.h>

struct move_order;

/* move.c. As core_move. */
int session_move(struct move_order *);
/* suspend.c. As core_suspend and core_resume. Suspending needs no uri. file: "": one without a name; else it is made,
   and goes when the session is resumed. */
int  session_suspend(struct move_order *, const char *file);
int  session_resume(struct move_order *);
/* suspend.c. A suspended session is not resumed any more: it ends as one whose server is lost (46). why: says who
   decided so. Of the thread that has suspended it; nothing, where the session is not suspended. */
void session_abandon(const char *why);
struct checkpoint_seal;
struct checkpoint_order {
    const char *file;
    const char *base;                      /* only what has changed since that checkpoint; "": everything */
    const struct checkpoint_seal *seal;    /* NULL: it is not encrypted */
};
/* What the session has on the GPU goes into the file (cpu/checkpoint), and the program goes on. A checkpoint of that
   name is replaced; no other file is. */
int  session_checkpoint(struct move_order *, const struct checkpoint_order *);
/* Writes all that the session has on the GPU into a file without a name, with which the journal begins anew (keeper.h).
   The program goes on. */
int  session_keep(struct move_order *);
bool session_suspended(void);            /* the thread that does both asks this */
bool session_apart(void);                /* and its file has a name: the process may be frozen (apart.h) */

/* The helper asks this now and then: if the client manager has something to say, a thread listens to it. */
void mover_look(void);

/* move_hold.c: where FLYT_MOVE_HOLD names a folder with a file of that name, waits until the file is gone; NAME.here is
   made meanwhile. For tests that kill somebody in the middle of a move (docs/debugging.md). */
void move_hold(const char *name);

#endif
