/*
 * kinds.h: what a session has. Each kind of object, and each part of a context, is a row of one table (kinds.c): how
 * it comes and goes with its context, what is left to free with the session, how many there are, and what happens to
 * it when the session moves to another GPU. A new kind is a new row; the loops that make contexts and end them stay as
 * they are.
 */
#ifndef FLYT_SERVER_KINDS_H
#define FLYT_SERVER_KINDS_H

#include <stdint.h>

struct context;
struct session;

/* In the order in which a context gives them back: each needs only what stands below it. */
enum kind {
    KIND_LOADER_JOB,
    KIND_GRAPH,
    KIND_HOST_FUNCTION,
    KIND_CONDITION,
    KIND_DEVICE_GRAPH,
    KIND_COMM,
    KIND_LINK,
    KIND_STREAM,
    KIND_EVENT,
    KIND_TEXTURE,
    KIND_SURFACE,
    KIND_ARRAY,
    KIND_MIPMAP,
    KIND_MODULE,
    KIND_FUNCTION,
    KIND_IMAGE,
    KIND_MARKER,
    KIND_GATE,
    KIND_LANE_MEMORY,
    KIND_STAGING,
    KIND_PEER,
    KIND_HANDLE,
    KIND_SHARE,
    KIND_MAPPING,
    KIND_HOST_MEMORY,
    KIND_CONTEXT,
    KINDS
};

/* What a move of the session to another server does with an object. The client makes again what can be made again
   (cpu/client/core/session/kinds.h); this server only says whether the session may leave (move.c). A row that does
   not say is one that cannot move. */
enum movement {
    MOVE_REFUSED,                         /* while there is any, the session does not move */
    MOVE_CHECKPOINT,                      /* only by the driver's own checkpoint of a process: not implemented */
    MOVE_NOTHING,                         /* the new server makes its own */
    MOVE_REBUILT,                         /* made again: its name or address is the client's */
    MOVE_PROVED,                          /* made again; values of the driver that the program has must be equal */
};

struct kind_row {
    const char *name;
    uint32_t ids;                         /* the client names them by ids below this, in session->ids; 0: it does not */
    enum movement moves;
    unsigned able;                        /* FLYT_ABLE_…: a client that says this (MOVABLE) makes it again */
    /* All of these may be NULL, and are called under session.lock. A context has been made, with nothing in it.
       What fails is tried again at the first use. */
    void (*begin)(struct session *, struct context *);
    /* A context is to end: whatever waits for the client waits no longer, so that the context comes to rest. */
    void (*release)(struct session *, struct context *);
    /* A context ends, and is idle or has failed: all of it that is there goes. */
    void (*drop)(struct session *, struct context *);
    /* The session ends, its contexts have ended, its threads too: what is left is freed. Without session.lock. */
    void (*stop)(struct session *);
    /* How many there are. NULL: as many as have ids. */
    uint64_t (*count)(const struct session *);
};

extern const struct kind_row server_kinds[KINDS];

#endif
