/*
 * kinds.h: what a session has, seen from the program's side; the twin of cpu/server/session/kinds.h. Each kind of
 * object is a row of one table (kinds.c): how it begins with the session, how it goes with its context, how many there
 * are, and what happens to it when the session moves to another GPU. A new kind is a new row; the loops stay as they
 * are.
 */
#ifndef FLYT_CLIENT_CORE_KINDS_H
#define FLYT_CLIENT_CORE_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/client/core/api_session.h"

/* A session begins them in this order, and moves them in it; a context that has ended gives them back in it. */
enum client_kind {
    KIND_CONTEXT,
    KIND_PEER,
    KIND_EVENT,
    KIND_STREAM,
    KIND_KERNEL_HEAP,
    KIND_MODULE,
    KIND_FUNCTION,
    KIND_TEXREF,
    KIND_ARRAY,
    KIND_MIPMAP,
    KIND_ALLOCATION,
    KIND_MANAGED,
    KIND_MAPPING,
    KIND_HANDLE,
    KIND_SHARE,
    KIND_POOL,
    KIND_CHUNK,
    KIND_TEXTURE,
    KIND_SURFACE,
    KIND_HOST_MEMORY,
    KIND_REGISTERED,
    KIND_HOST_FUNCTION,
    KIND_SEQUENCE,
    KIND_DEVICE_GRAPH,
    KINDS
};

/* What a move of the session to another server (move.c) does with an object. A row that does not say is one that cannot
   move. */
enum client_movement {
    MOVE_REFUSED,    /* while there is any, the session does not move */
    MOVE_CHECKPOINT, /* only by the driver's own checkpoint of a process: not implemented */
    MOVE_NOTHING,    /* the client keeps it as it is, or gets a new one when it needs one */
    MOVE_REBUILT,    /* made again from what the session knows: names and addresses are the client's */
    /* made again; the program has seen values of the driver, which must turn out equal */
    MOVE_PROVED,
};
struct move;

struct client_kind_row {
    const char *name;
    enum client_movement moves;
    /* All of these may be NULL. At attach, before the first object is made. A result code. */
    int      (*begin)(void);
    /* The context has ended, on the server too: all of it that is there goes. */
    void     (*drop)(core_context *);
    /* How many there are. NULL: nobody counts them. */
    uint64_t (*count)(void);
    /* A move (move.h): each returns a result code, for all objects of the kind. */
    int      (*save)(struct move *);        /* at the old server: writes down what only that one knows; may refuse */
    int      (*restore)(struct move *);     /* at the new server: makes them again, with the ids that they have */
    int      (*contents)(struct move *);    /* all kinds have been made again: copies what is in them */
    /* Bytes that `contents` will copy. NULL: hardly any. The program may go on meanwhile. */
    uint64_t (*size)(const struct move *, bool adopts);
    /* The session is at the new server for good, or (false) still at the old one: changes what this process knows,
       and forgets what the move has written down. Does not fail. Of a move that notes, true: the
       session is at the old one, but what is found out from here on holds at a new one as well. */
    void     (*moved)(struct move *, bool moved);
};

extern const struct client_kind_row client_kinds[KINDS];

#endif
