/*
 * link.h: many connections between two processes, used as one.
 *
 * A link joins two processes (or two threads of one). It has N data channels, 8 unless FLYT_CHANNELS says otherwise,
 * and channel 0 for control. Channel i uses network card i mod K of this machine's K cards. All links of a process
 * share an engine, with one thread for each card; two for a single one.
 *
 * Making one, in phases, each for all links before the next begins:
 *   comm_link_create, comm_link_listen   gives handles, 128 bytes for each channel; listening again gives the same
 *   the handles are exchanged            through a store (store.h), or over one connection for all (bootstrap.h)
 *   comm_link_join                       one end connects, the other has its connections accepted; both wait
 *   comm_engine_register                 memory that transfers may use
 *
 * Transfers. A send and a receive with the same name (space, number) are one transfer. In space 0 the sender numbers
 * them from 1 (comm_link_number): a receiver that counts alike knows the number without being told. A transfer is cut
 * into chunks of at most 512 KiB. Each channel takes the next chunk when it has room: so a fast channel takes more, and
 * a full one is never waited for.
 *   Window   at most COMM_WINDOW chunks of a channel are under way; the receiver gives credit back on channel 0.
 *   Tail     towards the end a channel takes no more than it can deliver by the time at which all others have finished,
 *            as far as the rate of its credits says (out.c). Else the last chunk of a slow one would delay everything.
 *   Early    before the receiver has said that it wants a transfer (CLEAR), its first 64 KiB may come, and 1 MiB of all
 *            transfers together. Where that is used up the sender asks and waits. So data that nobody wants fills no
 *            memory, and never stands in the way of another transfer.
 *   Done     a transfer of at most 64 KiB is complete for its sender when the system has taken it, a larger one when
 *            the receiver has all of it. Memory of a transfer that is complete is not touched any more.
 *
 * Threads and locks. Any thread may post. A post sends a small transfer at once if a channel is idle, and leaves all
 * else to the threads of the cards: progress never depends on posting. One mutex for each link protects all its state.
 * It is not held while bytes are sent or received: then `busy_out` or `busy_in` says that a thread is at work on that
 * side of the channel, and `users` of a transfer that its memory is in use. Order of locks: engine, link, thread;
 * a card's UCX comes last.
 * Completions and `lost` are called by the threads of the cards with no lock held. They may post and abort, but must
 * not wait, and not close a link.
 *
 * Invariants, which in.c and out.c keep:
 *   - a transfer is in the tree of its direction from its post until its completion; while it is not complete and the
 *     link lives, something will move it: a chunk that is ready, a CLEAR or DONE that will come, or bytes under way;
 *   - users of a transfer is the number of channels that send or receive its bytes now; only at 0 it can complete;
 *   - early_in is what early data keeps in memory here, early_out what it may keep at the peer, each <= COMM_EARLY;
 *   - whatever the peer says is checked; what breaks a rule fails the link, and nothing else.
 *
 * Failure. comm_link_abort is local and returns at once. A peer that ends is noticed at once, a silent one after
 * FLYT_SILENCE seconds (it beats on channel 0). All transfers then complete with the link's status.
 */
#ifndef FLYT_COMM_LINK_H
#define FLYT_COMM_LINK_H

#include "cpu/comm/greet/greet.h"

#include "cpu/common/list.h"
#include "cpu/common/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COMM_CHANNELS_MOST  = 16,                   /* data channels */
    COMM_CHANNELS_USUAL = 8,
    COMM_HANDLES_MOST   = COMM_CHANNELS_MOST + 1,
    COMM_HANDLE_SIZE    = 128,
    COMM_CHUNK          = 512 * 1024,
    COMM_WINDOW         = 16,                   /* chunks of a channel */
    COMM_EAGER          = 64 * 1024,            /* bytes of a transfer that may come early */
    COMM_EARLY          = 1024 * 1024,          /* of all of a link's */
    COMM_NOTE_SIZE      = 16,
    COMM_NICS_MOST      = 8
};

/* ---- engines ---- */

struct comm_engine;
struct comm_link;

/* Where a connection is to go. */
struct comm_address {
    uint8_t  family;                            /* 4: IPv4, 6: IPv6, 1: the unix socket of an engine on this machine,
                                                   2: an engine that is relayed (comm_settings) */
    uint16_t port;
    uint8_t  bytes[16];                         /* of the IP address, of the engine's name, or what the relay knows */
};

/* Connects in place of the engine, for a process that may not. It gives a connected stream socket, which is the
   engine's from then on, or -errno. `from`: the card to use; family 0: any. */
struct comm_connector {
    int (*connect)(void *context, const struct comm_address *to, const struct comm_address *from, uint64_t deadline,
                   char *error);
    void *context;
};

struct comm_settings {
    const char *interfaces;                     /* names with commas; NULL: FLYT_COMM_INTERFACES, else nic.h chooses */
    const char *transport;                      /* between machines; NULL: FLYT_LINK_TRANSPORT. "sockets": TCP or TLS;
                                                   "ucx": UCX (cpu/comm/ucx), refused with tls; "ucx-in-clear": UCX also
                                                   with tls, which then protects only the keys */
    unsigned    channels;                       /* 0: FLYT_CHANNELS, else 8 */
    bool        tls;                            /* encrypted; the handle has the fingerprint of the certificate */
    bool        no_shared_memory;               /* sockets also between processes of one machine */
    bool        registered_only;                /* transfers may use registered memory only */
    bool        relayed;                        /* the engine opens no sockets (but UCX's): all come by connector and by
                                                   comm_engine_adopt. It has one thread, and no cards */
    uint8_t     relay[16];                      /* of a relayed one: what its handles say instead of an address */
    struct comm_connector connector;            /* .connect NULL: the engine connects by itself */
};

/* 0 or -errno with *error, as in rpc.h. NULL: settings of the environment. */
int  comm_engine_create(const struct comm_settings *, struct comm_engine **out, char *error);
void comm_engine_destroy(struct comm_engine *); /* NULL is allowed; its links must be closed */
/* Takes over a connection that somebody else has accepted for this engine, from an engine that calls. Never waits for
   strangers: where as many greet as there may be, the one that has done so for the longest time is cut off. -ENOTCONN:
   none of its links listens. */
int  comm_engine_adopt(struct comm_engine *, int fd);
unsigned comm_engine_nics(const struct comm_engine *);

/* Memory that transfers may use, in whole pages of 4 KiB around [memory, size). Kept in a tree: registering pages again
   counts them. 0, -EINVAL, -ENOMEM. */
int  comm_engine_register(struct comm_engine *, const void *memory, uint64_t size);
int  comm_engine_unregister(struct comm_engine *, const void *memory, uint64_t size);   /* -ENOENT */

/* ---- links ---- */

struct comm_link_settings {
    void (*lost)(struct comm_link *, void *context, int status, const char *why);    /* once, unless aborted here */
    void *context;
};

int  comm_link_create(struct comm_engine *, const struct comm_link_settings *, struct comm_link **out, char *error);
/* *count handles, of COMM_HANDLE_SIZE bytes each; the caller's memory has room for COMM_HANDLES_MOST. */
int  comm_link_listen(struct comm_link *, uint8_t *handles, unsigned *count, char *error);
/* With what the peer's comm_link_listen gave. 0; -EINVAL: these are no handles; -ETIMEDOUT; -EACCES … */
int  comm_link_join(struct comm_link *, const uint8_t *handles, unsigned count, uint64_t deadline, char *error);
/* Whether this end connects to the one of these handles, which then need do nothing but be there. */
bool comm_link_calls(const struct comm_link *, const uint8_t *handles);
/* Fails all transfers with status (negative), and sends status and why to the peer. Does not wait. */
void comm_link_abort(struct comm_link *, int status, const char *why);
/* Ends the link in peace if it has not failed: waits up to two seconds until the peer has read all that was sent. Not
   from a callback. NULL is allowed. */
void comm_link_close(struct comm_link *);
int  comm_link_status(struct comm_link *);      /* 0, or why it failed */
const char *comm_link_transport(const struct comm_link *);  /* of a joined one: tcp, tls, shm, ucx */
unsigned    comm_link_channels(const struct comm_link *);   /* data channels of a joined one */

/* ---- transfers ---- */

struct comm_name { uint64_t space, number; };

/* The caller's, untouched by it from the post until its completion. */
struct comm_transfer {
    struct comm_name name;
    void            *memory;
    uint64_t         size;
    uint8_t          note[COMM_NOTE_SIZE];      /* a send's: the receiver gets it with the transfer */
    bool             any_size;                  /* of a receive: a smaller transfer is welcome, too */
    void           (*done)(struct comm_transfer *);     /* see "Threads and locks" */
    void            *context;
    /* valid once complete */
    int              status;
    uint64_t         peer_size;                 /* of a receive: bytes that the peer has sent */
    uint8_t          peer_note[COMM_NOTE_SIZE];
    /* the link's */
    struct tree_node node;
    struct list      queued;                    /* ready to be sent; then complete */
    uint64_t         next, arrived;             /* bytes given to channels; bytes received */
    unsigned         users;
    bool             charged, clear, begun, confirmed, known;
    int              failed;
    bool            *posting;                   /* the poster's, while it posts: set when the transfer is complete */
};

/* The next number of space 0 for a send, from 1. */
uint64_t comm_link_number(struct comm_link *);
/* 0: it is under way, and done will be called. 1: it is complete, with a status, and done is not called. -errno: it was
   not posted:
   -EEXIST (a transfer of this name and direction is under way), -EFAULT (memory that is not registered), -ENOTCONN, or
   the link's status. */
int comm_link_send(struct comm_link *, struct comm_transfer *);
int comm_link_receive(struct comm_link *, struct comm_transfer *);
/* Whether something of this space has come, or was asked for, that nobody here has posted yet; its note. */
bool comm_link_glance(struct comm_link *, uint64_t space, uint8_t note[COMM_NOTE_SIZE]);

#endif
