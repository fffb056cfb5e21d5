/*
 * comms.h: communicators: collectives between the memories of GPUs, as operations of streams (FLYT_CAP_COLLECTIVES in
 * cpu_rpc_prot.x).
 *
 *   comms.c      they come and go; the thread of each, which carries out its operations one after the other
 *   operation.c  COMM_OP, COMM_MESSAGES and COMM_SIDED
 *   window.c     windows: memory into which other ranks put
 *   together.c   small operations of ranks that are all of this session: the executor carries them out
 *   book.c       what they do is recorded in a file of the server's
 *   comms_state.h  what these share
 *
 * What a collective does is cpu/comm's affair. Only the server program has it; it hands its functions in as a table. A
 * server in the program's process has no communicators.
 */
#ifndef FLYT_SERVER_COMMS_H
#define FLYT_SERVER_COMMS_H

#include "cpu/comm/comm.h"
#include "cpu/server/session.h"

/* cpu/comm/comm.h, near.h, sided.h and reduce.h have these functions. */
struct comms_ways {
    struct comm_near *(*near_create)(unsigned ranks);
    void (*near_drop)(struct comm_near *);
    int (*create)(const struct comm_context_settings *, struct comm_store *, struct comm_context **, char *error);
    void (*use_link)(struct comm_context *, unsigned rank, struct comm_link *);
    void (*use_near)(struct comm_context *, unsigned rank);
    void (*lost)(struct comm_context *, unsigned rank, int status, const char *why);
    void (*abort)(struct comm_context *, int status, const char *why);
    int (*status)(struct comm_context *, char *error);
    void (*destroy)(struct comm_context *);
    int (*agree)(struct comm_context *, uint64_t deadline, char *error);
    int (*call)(struct comm_context *, const struct comm_call *, uint64_t deadline, char *error);
    void (*call_together)(struct comm_context *const *, const struct comm_call *, unsigned count, uint64_t deadline,
                          int *status, char *error);
    int (*exchange)(struct comm_context *, const struct comm_message *, unsigned count, uint64_t deadline, char *error);
    int (*sided_begin)(struct comm_context *);
    void (*sided_end)(struct comm_context *);
    int (*put)(struct comm_context *, const struct comm_sided *, unsigned count, uint64_t deadline, char *error);
    int (*await)(struct comm_context *, const struct comm_sided *, unsigned count, uint64_t deadline, char *error);
    int (*window_add)(struct comm_context *, const struct comm_window *, uint32_t *number, char *error);
    int (*window_sizes)(struct comm_context *, uint32_t number, uint64_t *sizes, char *error);
    int (*window_remove)(struct comm_context *, uint32_t number);
    size_t (*type_size)(enum comm_type);
    void (*recorded)(struct comm_context *, char *text, size_t size);
};

/* Before HELLO, and after the links. NULL: no memory, there are none then. */
struct comms *comms_create(struct session *, const struct comms_ways *);
void comms_destroy(struct session *);
/* Whether this driver can have them. */
bool comms_offered(const struct session *);

/* As links_leave, and before it. */
void comms_leave(struct session *);

/* Whether the executor has kept operations back (together.c). Any thread. */
bool comms_keep_some(const struct session *);
/* It has nothing else to serve: threads carry them out. Any thread. */
void comms_let_go(struct session *);

/* ---- rows of the table of kinds ---- */

uint64_t comms_count(const struct session *);
/* Communicators of the context are aborted; behind it nothing of them touches memory. NULL: all. */
void comms_release_all(struct session *, struct context *);
void comms_stop(struct session *);

/* book.c, for the listener: this worker has ended, so what its communicators did goes on no longer. Does nothing where
   there is no book. */
void book_end(pid_t worker);

#endif
