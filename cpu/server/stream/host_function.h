/*
 * host_function.h: functions of the client's in the order of a stream (host_function.c), and the gates at which
 * streams wait for their end (gates.c).
 */
#ifndef FLYT_SERVER_HOST_FUNCTION_H
#define FLYT_SERVER_HOST_FUNCTION_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "cpu/common/list.h"

struct context;
struct session;
struct stream;

struct host_functions {
    pthread_mutex_t lock;
    struct list pending;                  /* that the client has not ended, the newest first */
    _Atomic unsigned count;
};
int  host_functions_start(struct session *);
void host_functions_done(struct session *, uint32_t id);
void host_functions_release_all(struct session *, struct context *);   /* NULL: of every context */
void host_functions_stop(struct session *);
/* gates.c; what fails here is tried again at the first use */
void gates_prepare(struct session *, struct context *);
void gates_free(struct session *, struct context *);
/* the stream's gate, given at its first host function */
CUresult gate_take(struct session *, struct stream *);
CUresult gate_seen_take(struct session *, struct stream *);         /* its word `seen`, likewise */
/* The stream, which has its gate, waits there until it is opened for *ticket. The ticket is used up also after an
   error. */
CUresult gate_wait(struct session *, struct stream *, uint32_t *ticket);
/* Opens it for those who wait for a ticket up to this one. Tickets rise: a gate that has been opened further stays
   so. */
void gate_pass(const struct session *, struct stream *, uint32_t ticket);
/* A gate was opened: the stream need not wait until the driver looks. */
void gate_look(const struct session *);
void gate_give(struct stream *);                                  /* the stream is gone: another may have its gate */

#endif
