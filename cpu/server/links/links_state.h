/* links_state.h: what links.c (links come and go) and transfer.c (their transfers) share. */
#ifndef FLYT_SERVER_LINKS_STATE_H
#define FLYT_SERVER_LINKS_STATE_H

#include "cpu/server/links/links.h"

enum { LINK_WHY_SIZE = 256 };

/* One that a client has made. Under session.lock where nothing else is said. */
struct server_link {
    struct session *session;
    uint32_t id;
    struct comm_link *link;
    unsigned busy;           /* transfers that are not over, and JOIN while it waits */
    bool closing;            /* the client has closed it: it goes when nothing is busy any more */
    bool tried;              /* it was joined, or somebody tries or has tried */
    uint64_t sent;           /* transfers that were numbered */
    bool ended;              /* with `why`; the engine knows it a moment earlier. Under links.lock, both */
    char why[LINK_WHY_SIZE];
    /* A communicator that uses it (borrow.c). Under links.lock. */
    struct links_borrower borrower; /* .lost NULL: nobody */
    unsigned telling;               /* threads that call it now */
};

/* A JOIN that waits, in a thread of its own; that thread connects, if this end does. */
struct link_joining {
    struct list of_all;
    struct server_link *link;
    uint32_t xid;                         /* of the call */
    bool runs;
    pthread_t thread;                     /* if it runs */
    const char *server;
    unsigned wanted;
    int fds[COMM_HANDLES_MOST];
    unsigned count, used;
};

/* Page-locked memory, registered with the engine (buffers.c). Under session.lock. */
struct link_buffer {
    struct list of_all;
    struct context *context;              /* NULL: it has ended */
    void *memory;
    uint64_t size;
    bool used;
};

struct links {
    struct session *session;
    const struct links_ways *ways;
    bool tls;
    bool staged;                          /* bytes pass through page-locked memory: device memory is elsewhere */
    _Atomic(struct comm_engine *) engine; /* made with the first link; stays to the end of the process */
    struct list transfers;                /* that are not over; transfer.c */
    struct list buffers;                  /* link_buffer */
    uint64_t staged_bytes;                /* of all of them */
    struct procedure begun;               /* SEND_BEGIN once it is answered: a call that is never answered again */
    pthread_mutex_t lock;                 /* a leaf: of `joining`, of `why` of each link, of `over` of each transfer */
    pthread_cond_t changed;               /* a transfer is over, or a link has gone */
    unsigned leaving;                     /* links that are being closed; under the lock */
    struct list joining;
};

struct server_link *link_find(struct session *, uint32_t id);
/* No transfer of it comes to an end any more; the peer reads why. */
void link_abort(struct server_link *, int status, const char *why);
/* One thing less is busy; the last one lets a link go that the client has closed. */
void link_idle(struct server_link *);
/* Calls its borrower, if there is one. With no lock held. */
void link_tell(struct server_link *, int status, const char *why);
/* Memory of at least that size. alone: no other transfer of the session is under way. */
CUresult link_buffer_take(struct links *, struct context *, uint64_t size, bool alone, struct link_buffer **);
/* Nothing uses it any more. */
void link_buffer_give(struct links *, struct link_buffer *);
/* From cpu/comm's errors to CUDA's. */
CUresult links_result(int status);

#endif
