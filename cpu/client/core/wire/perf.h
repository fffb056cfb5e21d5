/*
 * perf.h: the switches of $FLYT_PERF (perf.c).
 */
#ifndef FLYT_CLIENT_CORE_PERF_H
#define FLYT_CLIENT_CORE_PERF_H

#include <stdbool.h>

struct perf {
    bool no_async;      /* a round trip after every ASYNC call */
    bool no_batch;      /* every call is sent at once */
    bool no_cache;      /* free memory is given back at once, queries always travel */
    bool no_pipeline;   /* one chunk of a copy from the device at a time */
    bool no_shm;        /* a unix socket stays one */
    bool no_lanes;      /* large copies share the connection with the calls */
    bool no_direct;     /* the bytes of a session that moves pass through this process */
    bool no_rounds;     /* all of a session that moves is copied while the program stands still */
    bool no_code_rounds; /* its modules are loaded while the program stands still */
    bool no_fingerprints; /* all bytes come for a checkpoint of changes, and are compared here */
    bool no_watch;      /* the server is not asked what was written since the last checkpoint */
    bool no_ahead;      /* a program waits until its context is made, and its code is loaded when it is used */
    bool no_early;      /* a pinned source is read when the copy's turn has come, whatever the stream waits for */
    bool no_payload;    /* no host memory is shared: bytes of copies travel inside the calls */
    bool no_graph;      /* each node of a launched graph is a call of its own */
    bool no_userfault;  /* managed memory is watched with SIGSEGV */
    bool no_pull;       /* kernels do not wait for pinned memory over a network: it goes to the server before them */
    bool no_membarrier; /* a thread that enters a call orders its memory itself (gate.c) */
    bool no_spin;       /* who waits for an answer sleeps at once */
};
void perf_parse(struct perf *, const char *text);
extern struct perf core_perf;

#endif
