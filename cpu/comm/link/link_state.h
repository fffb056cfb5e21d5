/*
 * link_state.h: what the files of this folder share. The head of link.h says how it works.
 *
 *   link.c       the life of a link; posting
 *   out.c        which channel sends what; sending
 *   in.c         records that come
 *   engine.c     the threads of the cards
 *   meet.c       listening, accepting, connecting, greeting
 *   handle.c     handles
 *   nic.c        the cards of this machine
 *   memory.c     registered memory
 *   shm.c        a channel through memory
 *
 * cpu/comm/ucx has a channel by UCX.
 */
#ifndef FLYT_COMM_LINK_STATE_H
#define FLYT_COMM_LINK_STATE_H

#include "cpu/comm/link/handle.h"
#include "cpu/comm/link/link.h"
#include "cpu/comm/link/memory.h"
#include "cpu/comm/link/nic.h"
#include "cpu/comm/link/record.h"
#include "cpu/comm/ucx/ucx.h"

#include "cpu/common/lock.h"
#include "cpu/rpc/tls/channel_tls.h"
#include "cpu/rpc/transport/channel.h"

#include <pthread.h>

enum { AHEAD = 4096, CONTROL_MOST = 1024 * 1024, CLEARS_MOST = 64 * 1024, WHY_SIZE = 220 };

/* A record that is being sent. */
struct comm_out {
    bool                  there;
    uint8_t               head[RECORD_SIZE];
    const uint8_t        *payload;
    size_t                head_size, length, sent;      /* sent: of head and payload together */
    struct comm_transfer *of;                   /* NULL: none */
};

/* A record that is being received. */
struct comm_in {
    bool                  there;
    struct comm_record    record;
    uint8_t              *to;                   /* NULL: it is thrown away */
    size_t                left;
    struct comm_transfer *into;                 /* or */
    struct comm_arrival  *early;
};

struct comm_channel {
    struct comm_link   *link;
    struct comm_thread *thread;
    rpc_channel        *wire;                   /* NULL: not connected */
    int                 fd;
    unsigned            index;
    bool                is_socket;              /* tcp: poll says whether it has room */
    bool                is_shared;              /* shm: the socket says that there is something to read, or room */
    bool                is_ucx;                 /* ucx: the card's UCX says it */
    /* under the link's lock, from here on */
    bool                busy_out, busy_in, again;
    struct comm_out     out;
    struct comm_in      in;
    unsigned            flight;                 /* chunks without credit */
    uint64_t            flight_bytes;
    uint64_t            rate_bytes, rate_ns;    /* credits and the time they took; halved now and then */
    uint64_t            since;                  /* of the time that counts for the next credit */
    unsigned            owed, uncredited;       /* chunks that were taken; those and the ones that are coming */
    uint64_t            owed_bytes;
    bool                bye, bye_sent, bye_heard;
    struct comm_bytes { uint8_t *bytes; size_t size, room; } control, sending;   /* channel 0: records to be sent */
    /* the thread's own */
    uint8_t             ahead[AHEAD];
    size_t              ahead_start, ahead_end;
    bool                in_ready;
    struct list         ready;
    /* under the thread's lock */
    struct list         kicked;
    bool                attached;
};

/* A transfer of which something has come before the receive was posted. */
struct comm_arrival {
    struct tree_node      node;
    struct comm_name      name;
    uint64_t              total, cost;
    size_t                length;
    uint8_t               note[COMM_NOTE_SIZE];
    bool                  has_data, whole;      /* else it was only asked for; all of `length` has come */
    struct comm_transfer *wanted;               /* posted while it was coming */
    uint8_t               bytes[];
};

/* The receiver has cleared a transfer that is not posted here yet. */
struct comm_cleared { struct tree_node node; };

enum comm_link_stage { LINK_NEW, LINK_LISTENS, LINK_JOINED };

struct comm_link {
    struct comm_engine       *engine;
    struct comm_link_settings settings;
    struct list               of_engine;        /* under the engine's lock */
    pthread_mutex_t           lock;
    pthread_cond_t            changed;
    enum comm_link_stage      stage;
    uint8_t                   id[COMM_ID_SIZE];
    uint8_t                   keys[COMM_HANDLES_MOST][COMM_KEY_SIZE];
    uint8_t                   handles[COMM_HANDLES_MOST][COMM_HANDLE_SIZE];
    unsigned                  listened, count;  /* channels with channel 0: offered; joined */
    struct comm_channel       channels[COMM_HANDLES_MOST];
    int                       status;
    char                      why[WHY_SIZE];
    int                       ended;            /* a channel has; channel 0 may still say why */
    uint64_t                  ended_at;
    /* heard: the peer has read all that was sent. at_end: all that the peer has sent was read */
    bool                      closing, heard, heard_due, at_end, lost_due;
    bool                      credit_due, abort_due;
    int                       aborting;         /* the status with which this end aborts; its reason is in `why` */
    unsigned                  delivering;
    char                      peer_why[WHY_SIZE];
    struct tree               sends, receives, arrivals, clears;
    unsigned                  clear_count, ask_count, refused;
    struct list               ready, complete;
    uint64_t                  ready_bytes;
    uint64_t                  early_out, early_in, early_owed;
    unsigned                  turn;
    uint64_t                  number;
    uint64_t                  last_said, last_heard;    /* on channel 0; clock_now */
};

struct comm_thread {
    struct comm_engine *engine;
    pthread_t           thread;
    int                 epoll, wake;
    pthread_mutex_t     lock;
    pthread_cond_t      changed;
    struct list         kicked;
    bool                woken, stop;
    unsigned            turns;                  /* of its loop: after two more it is past all that was before */
    struct list         ready;                  /* its own */
    struct comm_ucx    *ucx;                    /* NULL: the engine does not use UCX */
};

struct comm_engine {
    struct comm_settings    settings;
    bool                    ucx;                /* between machines */
    unsigned                channels;
    struct comm_nic         nics[COMM_NICS_MOST];
    unsigned                nic_count;
    struct comm_thread      threads[COMM_NICS_MOST];
    unsigned                thread_count;
    uint8_t                 id[COMM_ID_SIZE];
    struct comm_meeting    *meeting;            /* meet.c */
    struct rpc_tls_identity identity;
    struct comm_memory      memory;
    pthread_mutex_t         lock;
    struct list             links;
    uint64_t                ticked;
};

/* ---- link.c ---- */

/* Under the link's lock. The first failure counts. */
void comm_link_fail(struct comm_link *, int status, const char *why);
/* Under the lock: a channel has ended. The peer may have said why on channel 0, which is read first; see engine.c. */
void comm_link_note_end(struct comm_link *, int status);
/* Under the lock: the transfer is complete, and `done` is due. */
void comm_transfer_end(struct comm_link *, struct comm_transfer *, int status);
struct comm_transfer *comm_transfer_find(struct tree *, const struct comm_name *);
/* Calls what is due. No lock is held. */
void comm_link_deliver(struct comm_link *);

/* ---- out.c ---- */

/* Sends about so many bytes at most; then, if there is more, the channel's thread is to go on. No lock is held. */
void comm_out_push(struct comm_channel *, size_t budget);
/* These under the lock. */
/* The caller pushes channel 0 afterwards. text: of an ABORT. */
void comm_out_control(struct comm_link *, const struct comm_record *, const char *text);
/* True: it is ready to be sent; else the receiver is asked. */
bool comm_out_post(struct comm_link *, struct comm_transfer *);
void comm_out_heard(struct comm_link *, const struct comm_record *);     /* CLEAR, CREDIT, DONE, REFUSE */
void comm_out_release(struct comm_channel *);
void comm_out_kick_idle(struct comm_link *);
/* The next idle channel with room in turn. NULL: there is none. */
struct comm_channel *comm_out_idle(struct comm_link *);

/* ---- in.c ---- */

/* Takes what has come. True: there may be more. */
bool comm_in_take(struct comm_channel *);
/* Under the lock: a receive, which is in the tree if it is not complete afterwards. */
void comm_in_post(struct comm_link *, struct comm_transfer *);
bool comm_in_has_all(struct comm_link *, const struct comm_name *);
void comm_in_release(struct comm_channel *);
void comm_in_forget(struct comm_link *);

/* ---- engine.c ---- */

/* The thread of the channel looks at it. Any lock but a thread's may be held. */
void comm_engine_kick(struct comm_channel *);
int  comm_engine_attach(struct comm_channel *);
void comm_engine_detach(struct comm_channel *);

/* ---- meet.c ---- */

int  comm_meet_open(struct comm_engine *, char *error);
void comm_meet_close(struct comm_engine *);
/* The port of this card's listener. */
uint16_t comm_meet_port(const struct comm_engine *, unsigned nic);
int  comm_meet_call(struct comm_link *, unsigned channel, unsigned count, const struct comm_handle *,
                    uint64_t deadline, rpc_channel **out, char *error);

#endif
