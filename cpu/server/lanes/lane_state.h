/* lane_state.h: what lanes.c (lanes come and go), lanes_in.c (to the device), lanes_out.c (from the device) and
 * direct.c (lanes to another server) share. */
#ifndef FLYT_SERVER_LANE_STATE_H
#define FLYT_SERVER_LANE_STATE_H

#include "cpu/rpc/call/lane.h"
#include "cpu/server/lanes/lanes.h"

enum {
    LANE_CHUNK = 512 * 1024,
    LANE_WINDOW = 32,
    LANE_WRITING = 16,
    LANE_DISCARDED = 256,
    LANE_GREETING_MS = 5000,
    LANE_LEAVING = 64,                    /* visitors that were sent away, and whose threads have not yet ended */
    LANE_FAREWELL_MS = 500,
    LANES_ALL = 2 * FLYT_MAX_LANES            /* the client's, and behind them the direct ones */
};

enum lane_state { LANE_CLOSED, LANE_ASKED, LANE_OPEN };

/* slot NULL, transfer 0: the last record of a direct lane. */
struct job { struct job *next; uint32_t transfer; struct slot *slot; uint64_t size; };

struct lane {
    enum lane_state state;
    uint8_t key[FLYT_LANE_KEY_SIZE];
    rpc_channel *channel;                 /* the visitor's; of one that departs: its own */
    bool departs;                         /* a direct lane from here to another server */
    pthread_t writer;
    bool writing;                         /* the thread runs */
    bool closing;
    pthread_cond_t wake;
    struct job *first, **last;
};

/* A connection that is or wants to be a lane; its thread. */
struct visitor {
    struct visitor *next;
    struct session *session;
    pthread_t thread;
    int fd;                               /* -1: the channel has it */
    void *context;                        /* for ways->open */
    rpc_channel *channel;
    bool greets;                          /* it has not shown a key yet */
    bool sent_away;                       /* its connection is shut down: it made room for another one */
    bool ended;                           /* may be joined */
};

struct arrival {
    struct slot slot;
    uint32_t transfer;                    /* 0: free, or claimed */
    uint64_t received;
    unsigned receiving;                   /* readers that write into it, and where */
    struct rpc_lane_record records[LANES_ALL];
};

struct lanes {
    struct session *session;
    const struct lanes_ways *ways;
    pthread_mutex_t lock;
    pthread_cond_t changed;               /* a slot has come back, a job is done, or the end */
    bool stop;
    struct lane lanes[LANES_ALL];
    pthread_mutex_t departing;            /* direct lanes are being opened or ended; outside of lock */
    struct dialled *dialled;              /* direct.c; NULL: this server is not connected to another one */
    struct visitor *visitors;
    unsigned greeting, sent_away;         /* visitors that greet; those of them that were sent away are not counted */
    uint8_t *memory;
    struct context *registered;            /* under session.lock */
    struct arrival arrivals[LANE_WINDOW];
    struct slot *unused;
    unsigned unused_count;
    struct { uint32_t transfer; uint64_t left; } discarded[LANE_DISCARDED];
    unsigned discarded_count;
    _Atomic unsigned jobs;                /* written by lock holders only */
};

/* A lane ended as it should not: the client receives the reason, and has a moment to end the session itself. */
void lane_broke(struct lanes *, uint32_t number, const char *why);

/* ---- lanes_in.c ---- */

void arrivals_init(struct lanes *);
/* One record of lane `number`. 0, or -errno; -ENODATA: the lane was closed between two. *why: what the client did
 * wrong. */
int  lanes_read(struct lanes *, uint32_t number, rpc_channel *, const char **why);

/* ---- lanes_out.c ---- */

static inline bool lane_is_direct(uint32_t number) { return number > FLYT_MAX_LANES; }
/* Starts the writer of lane `number` (from 1), if it does not run. Under lanes.lock. */
bool lane_writer_start(struct lanes *, uint32_t number);
/* Waits until no slot of the device is being written. */
void lanes_wait_written(struct lanes *, const struct context *);

/* ---- direct.c ---- */

/* Under lanes.lock: threads blocked in direct lanes return. */
void direct_shutdown(struct lanes *);
/* Behind it no thread of direct lanes runs. Repeatedly. */
void direct_stop(struct lanes *);

#endif
