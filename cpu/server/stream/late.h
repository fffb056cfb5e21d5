/*
 * late.h: what a call of the client's ends or takes away only when the calls that were deferred before it have been
 * given to the driver (late.c): they may need it, and native CUDA looked at it when they were called.
 */
#ifndef FLYT_SERVER_LATE_H
#define FLYT_SERVER_LATE_H

#include "cpu/server/session.h"

struct late {
    struct list link;                     /* of session.late */
    struct context *context;
    uint64_t order;                       /* of the session's, at the call */
    /* ending: the context ends with all deferred calls. */
    void (*act)(struct session *, struct late *, bool ending);
};

/* Everything under session.lock. */
bool late_needed(struct session *, const struct context *);      /* Are any calls deferred in the context? */
void late_add(struct session *, struct late *, struct context *, void (*act)(struct session *, struct late *, bool));
/* After deferred calls have been issued: what may be done now is done. */
void late_serve(struct session *);
void late_drop_all(struct session *, struct context *);          /* the context has no deferred calls any more */

#endif
