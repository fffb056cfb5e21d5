/*
 * inside.h: work that the server itself gives streams, and what it does when that is complete (inside.c): bodies of
 * conditions (condition.c), graphs that kernels launch (device_graph.c).
 */
#ifndef FLYT_SERVER_INSIDE_H
#define FLYT_SERVER_INSIDE_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/server/stream/stream.h"

struct session;

/* First member of what go_on knows about. */
struct inside {
    struct waiter waiter;                 /* result: how it went */
    struct inside *next_due;
    struct session *session;
    /* In the executor, under session.lock: what it waited for is complete, or has failed. */
    void (*go_on)(struct inside *);
    CUdeviceptr word;                     /* what `seen` gets, host-mapped, when the stream has come to a look */
    uint32_t *seen;
    bool looks;                           /* inside_run looks behind the calls */
};

struct insides {
    pthread_mutex_t lock;                 /* a leaf; of `due` */
    struct inside *due, **last;
};
int  insides_start(struct session *);
void insides_stop(struct session *);
/* Lets the due ones go on. The executor, under session.lock. */
void insides_serve(struct session *);
/* go_on will be called. Any thread, with or without locks but leaves. */
void inside_due(struct inside *);
/* Prepares to wait for what the stream has been given; with `look`, the word is read then. On success the caller calls
   completion_wait with the waiter, at once or after it has given the stream more. */
CUresult inside_wait(struct inside *, struct stream *, bool look);
/* Serves the calls in that stream of the server's own; go_on is called when they are complete. False: one of them is
   none that a graph may keep, or there is no memory, and go_on will not be called. */
bool inside_run(struct inside *, struct stream *, const struct procedure *, const flyt_graph_call *, unsigned count);

#endif
