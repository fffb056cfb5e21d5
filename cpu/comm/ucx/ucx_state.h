/* ucx_state.h: what the files of this folder share. The head of ucx.h says how it works. */
#ifndef FLYT_COMM_UCX_UCX_STATE_H
#define FLYT_COMM_UCX_UCX_STATE_H

#include "cpu/comm/ucx/library.h"
#include "cpu/comm/ucx/ucx.h"

#include "cpu/common/list.h"
#include "cpu/common/lock.h"
#include "cpu/common/tree.h"
#include "cpu/rpc/transport/channel.h"

#include <pthread.h>

enum {
    UCX_RING = 512 * 1024,
    UCX_MESSAGE = 128 * 1024,                   /* the longest */
    UCX_MESSAGES = 64,                          /* of a channel, that the receiver has not taken */
    UCX_TOKEN = 16,
    /* what a message begins with: the receiver's token (16); DATA: number (8), place in the stream (8); ACK: how many
       messages were taken (8). Little-endian */
    UCX_DATA_HEAD = 32,
    UCX_ACK_HEAD = 24
};
/* Numbers of UCX's active messages. */
enum { UCX_DATA = 1, UCX_ACK, UCX_HELLO };

/* One that was sent. Its bytes stay in the ring until UCX has done with them and the receiver has taken them. */
struct ucx_out {
    struct ucx_channel *channel;
    uint64_t            end;                    /* of its bytes, in the stream */
    bool                done;                   /* UCX has */
    uint8_t             head[UCX_DATA_HEAD];
};

/* OFFERED: the sender has it until it is fetched. COMING: it is being fetched into the ring. */
enum ucx_in_state { UCX_NONE, UCX_OFFERED, UCX_COMING, UCX_THERE };

struct ucx_in {
    struct ucx_channel *channel;
    enum ucx_in_state   state;
    uint64_t            begin;                  /* of its bytes, in the stream */
    size_t              length;
    const uint8_t      *data;
    void               *held;                   /* UCX's, which is to be given back, or fetched with */
};

struct ucx_channel {
    rpc_channel      base;
    struct comm_ucx *card;
    rpc_channel     *socket;
    /* under the card's lock, from here on */
    struct tree_node node;                      /* by its token */
    uint8_t          theirs[UCX_TOKEN], hello[UCX_TOKEN];
    ucp_ep_h         ep;                        /* NULL: none */
    bool             notices;                   /* UCX notices when the peer has gone, and can be made to give up */
    bool             heard;                     /* HELLO */
    void            *owner;
    struct list      due, offered, buried;
    bool             in_due, out_due, out_waits;
    int              failed;                    /* UCX's connection is broken, or the peer has broken a rule */
    bool             shut, ended, given_up;     /* here; the socket at the peer; what it sent last does not come */
    uint64_t         shut_at, ended_at;
    uint8_t          last[8];                   /* on the socket, before its end: how many bytes the peer has sent */
    size_t           last_size;
    unsigned         pending, sending;          /* what UCX has not completed; messages of those */
    uint8_t         *out_ring, *in_ring;        /* NULL until they are needed */
    uint64_t         sent, freed;               /* bytes */
    uint64_t         out_count, out_taken, out_freed;   /* messages: sent, taken by the receiver, no longer kept */
    uint64_t         taken, in_count, in_said;  /* bytes and messages that were taken; messages that ACK named */
    size_t           part;                      /* bytes that were taken of the next one */
    struct ucx_out   out[UCX_MESSAGES];
    struct ucx_in    in[UCX_MESSAGES];
};

struct comm_ucx {
    const struct ucx_library *ucx;
    ucp_context_h    context;
    ucp_worker_h     worker;
    ucp_address_t   *address;
    size_t           address_size;
    unsigned         version[2];
    int              fd;
    char             name[16];                  /* of the card, for messages */
    pthread_mutex_t  lock;
    pthread_cond_t   changed;                   /* progress was made */
    pthread_t        thread;
    bool             has_thread;
    unsigned         waiters;
    struct comm_ucx *next;                      /* card.c */
    struct tree      channels;
    struct list      due, offered, buried;
};

/* Macros of UCX do the same, with conversions that our warnings forbid. */
static inline bool ucx_is_error(ucs_status_ptr_t result)
{
    return (intptr_t)result < 0 && (intptr_t)result >= UCS_ERR_LAST;
}
static inline ucs_status_t ucx_status_of(ucs_status_ptr_t result) { return (ucs_status_t)(intptr_t)result; }

/* These under the card's lock. */

static inline void ucx_due(struct ucx_channel *c, bool in, bool out)
{
    c->in_due |= in;
    c->out_due |= out;
    if (!list_linked(&c->due))
        list_append(&c->card->due, &c->due);
}

/* The channel can carry nothing more. The first reason stays. */
static inline void ucx_fail(struct ucx_channel *c, int status)
{
    if (!c->failed)
        c->failed = status;
    ucx_due(c, true, true);
    pthread_cond_broadcast(&c->card->changed);
}

/* ---- card.c ---- */

/* Something was given to UCX, or has become due: the card's thread is to look, if this is another one. */
void ucx_nudge(struct comm_ucx *);

/* ---- heard.c ---- */

ucs_status_t ucx_heard_data(void *card, const void *head, size_t head_size, void *data, size_t length,
                            const ucp_am_recv_param_t *);
ucs_status_t ucx_heard_ack(void *card, const void *head, size_t head_size, void *data, size_t length,
                           const ucp_am_recv_param_t *);
ucs_status_t ucx_heard_hello(void *card, const void *head, size_t head_size, void *data, size_t length,
                             const ucp_am_recv_param_t *);
/* Fetches what senders offer. True: there was something. */
bool ucx_fetch(struct comm_ucx *);

/* ---- ucx.c ---- */

/* With a token of its own. Messages to it are taken from here on. NULL: no memory, or no random bytes. */
struct ucx_channel *ucx_channel_create(struct comm_ucx *, rpc_channel *socket);
/* All but the socket. It frees itself when UCX has completed what it has of it. No lock is held. */
void ucx_channel_end(struct ucx_channel *);
/* Messages that the receiver has taken, and that UCX has done with, are no longer kept. */
void ucx_release_sent(struct ucx_channel *);
/* UCX has completed something of it: it goes if that was the last, and it has ended. */
void ucx_completed(struct ucx_channel *);

#endif
