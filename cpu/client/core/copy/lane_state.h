/* lane_state.h: what lanes.c (opening), lanes_choice.c (whether, and how many), lanes_in.c (to the device) and
   lanes_out.c (from the device) share. */
#ifndef FLYT_CLIENT_CORE_LANE_STATE_H
#define FLYT_CLIENT_CORE_LANE_STATE_H

#include "cpu/rpc/call/lane.h"
#include "cpu/client/core/memory/host.h"
#include "lanes.h"
#include "cpu/client/core/stream/stream.h"

enum {
    LANES_MOST = 4,                   /* unless FLYT_LANES says otherwise */
    LANES_PROCESSORS = 4,             /* a program that may use so many always has lanes */
    LANES_MIN = 256 * 1024,           /* smaller copies go with their calls */
    LANES_CHUNK = CHUNK_SIZE,
    LANES_VECTOR = 64,
    LANES_BATCH = 4,                  /* transfers behind which credit is asked back */
    LANES_OPEN_MS = 5000,
    LANES_CREDIT_MS = 20,             /* so long a stream that has none of the credit waits for some */
    LANES_LOOK_MS = 1000,
    LANES_INCOMING = 256,                 /* buckets */
    TUNE_BYTES = 16 << 20,            /* copies of this size are measured */
    TUNE_SAMPLES = 3
};

struct client_lane {
    unsigned         number;
    rpc_channel     *channel;
    pthread_mutex_t  sending;
    atomic_uint_fast64_t written;     /* by who sends: bytes that are in the socket or beyond */
    /* under lanes.lock */
    bool             open, reading, receiving;
    unsigned         incoming;            /* copies from the device that will come over it */
    /* of who is reading */
    uint8_t          head[RPC_LANE_HEAD];
    size_t           head_got;
    struct rpc_lane_record record;
    struct lane_out *current;         /* also under lanes.lock */
    uint64_t         got;             /* of the record */
};

struct lanes_state {
    pthread_mutex_t  opening, lock;
    pthread_cond_t   changed;
    bool             offered, failed, fixed, many;
    atomic_uint      used;            /* lanes 1 to used are open */
    unsigned         most;
    size_t           least;           /* bytes of a copy that uses lanes */
    struct client_lane lanes[FLYT_MAX_LANES];
    atomic_uint      turn;
    /* credit */
    size_t           chunk;
    unsigned         window, free;
    struct held {
        const struct client_stream *stream;
        unsigned count;
    } held[64];
    /* from the device */
    atomic_uint      transfer;
    struct lane_out *incoming[LANES_INCOMING];
    struct lane_out *deferred, **deferred_last;
    pthread_cond_t   deferred_wake;
    bool             deferred_runs;
    /* which number of lanes is best */
    struct { double best[FLYT_MAX_LANES + 1]; unsigned samples[FLYT_MAX_LANES + 1]; } rate[2];
    bool             settled;
    atomic_uint_fast64_t sent, received;
};
extern struct lanes_state lanes;

bool lanes_gone(void);                        /* the connection is lost */
/* A lane failed: status 0 or -errno while `doing` something. The session is lost. */
void lanes_broken(const struct client_lane *, int status, const char *doing);
bool lane_open(unsigned number);              /* under lanes.opening */
bool lane_close(struct client_lane *);        /* the last; likewise. False: it is in use */

void lanes_choose(bool beside);
bool lanes_beside(void);
/* One way, 0 to the device, 1 from it, so many bytes took so long. */
void lanes_tune(unsigned way, uint64_t bytes, uint64_t ns);

#endif
