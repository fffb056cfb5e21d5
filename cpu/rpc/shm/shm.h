/*
 * shm.h: what the files of the shared-memory channel have in common: shm_offer.c and shm_bar.c, which bring client and
 * server to the same memory, channel_pair.c, which does it inside one process, and channel_shm.c, which is the channel
 * from then on. Nobody else sees it.
 */
#ifndef FLYT_RPC_SHM_H
#define FLYT_RPC_SHM_H

#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/shm/ring.h"

#include <pthread.h>

enum { SHM_EARLY_MAX = 64 };
/* 16 random bytes, in memory of two kernels: behind the control words, which channel_shm.c lists. */
enum { SHM_SESSION_AT = RING_HEAD - 16 };
/* What is said about the memory, before anything else. */
enum { SHM_PROGRAM = 0x20F17008, SHM_PROGRAM_VERSION = RING_VERSION };

enum shm_state {
    SHM_ASKING,             /* client: the offer is out; server: the first bytes are awaited */
    SHM_PLAIN,              /* the socket */
    SHM_RINGS,
    SHM_BROKEN              /* the peer broke the rules, or its memory cannot be used */
};

/* What is mapped: all but the payload area. The two ends inside one process have one of these together, so that who
   watches memory accesses (ThreadSanitizer) sees one memory. */
struct shm_memory { void *at; size_t size; atomic_uint users; };

struct shm_channel {
    rpc_channel      base;
    rpc_channel     *socket;
    int              fd;                /* the socket's */
    enum ring_side   side;
    bool             required;          /* client: shm://, a plain socket will not do */
    bool             apart;             /* the two sides may be on two kernels */
    atomic_int       state;             /* written under the lock */
    atomic_int       failure;           /* -errno, with SHM_BROKEN */
    atomic_bool      ended;             /* the peer has gone, or we have shut it down */
    atomic_bool      shut;
    pthread_mutex_t  lock;              /* of the handshake, and of the bits of our sleep word */
    uint8_t          early[SHM_EARLY_MAX]; /* handshake bytes so far */
    size_t           early_size, early_given;
    int              memory_fd;         /* -1: none. Client: came with the answer's first byte */
    uint64_t         memory_at;         /* where in the file behind memory_fd the memory begins */
    size_t           payload;           /* server: so many bytes are offered */
    /* Memory of an earlier channel of the client, whose payload area this one goes on using; -1: none was offered. The
       server owns it only if `kept`; then kept_size is the size of its payload area. */
    int              kept_fd;
    bool             kept;
    uint64_t         kept_size;
    unsigned         place;             /* the reader's: what it last sent to the peer */
    unsigned         sleepers_in, sleepers_out;     /* threads in futex */
    struct shm_memory *memory;          /* NULL: none yet */
    struct ring_view view;
    uint64_t rang;    /* where the sides are apart, server: when it last sent the wake-up of shm_peer */
    uint64_t session; /* where the sides are apart: what stands at SHM_SESSION_AT while the memory is ours */
};

static inline int shm_state(struct shm_channel *s)
{
    /* acquire: who sees SHM_RINGS sees the view */
    return atomic_load_explicit(&s->state, memory_order_acquire);
}

static inline void shm_set_state(struct shm_channel *s, enum shm_state state)
{
    if (state == SHM_RINGS) {
        atomic_store_explicit(&s->base.transport, "shm", memory_order_relaxed);
        atomic_store_explicit(&s->base.direct, true, memory_order_release);       /* the view is complete: for look */
    }
    atomic_store_explicit(&s->state, state, memory_order_release);
}

/* Takes the socket over, unless there is no memory for a channel (NULL). */
struct shm_channel *shm_create(rpc_channel *socket, enum ring_side side);
/* Server: sealed memory with the rings laid out, of *size bytes; 0, or -errno: there is none. */
int shm_make_memory(struct shm_channel *, size_t *size);
/* Maps the memory behind s->memory_fd at s->memory_at, which is of `size` bytes; the server lays it out. 0, or
 * -errno. */
int shm_use_memory(struct shm_channel *, size_t size);
void shm_memory_release(struct shm_memory *);       /* NULL: nothing */
/* Notes that the memory is this session's; shm_is_own: whether it still is. */
void shm_own(struct shm_channel *);
static inline bool shm_is_own(const struct shm_channel *s)
{
    /* relaxed: nothing is read because of it, and a session whose memory was taken away is beyond help anyway */
    const _Atomic uint64_t *at = (const _Atomic uint64_t *)((const uint8_t *)s->memory->at + SHM_SESSION_AT);
    return atomic_load_explicit(at, memory_order_relaxed) == s->session;
}

/* Client: asks the server to go on through memory. 0, or -errno. */
int shm_offer(struct shm_channel *);
/* Takes what has come of the offer (server) or of its answer (client). The lock is held. 0: the state is decided;
   -EAGAIN; or -errno: it is SHM_BROKEN, or will be found so. */
int shm_hear(struct shm_channel *);

#endif
