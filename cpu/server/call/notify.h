/*
 * notify.h: what the server says by itself: answers to EVENTS (notify.c, notify_call.c).
 */
#ifndef FLYT_SERVER_NOTIFY_H
#define FLYT_SERVER_NOTIFY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/rpc/rpc.h"

struct due;
struct session;

struct events {
    pthread_mutex_t lock;
    uint32_t xid, serial;
    bool outstanding;
    uint64_t beat_at;
    struct due *first, **last;
    unsigned count;
    uint32_t recall;                      /* number of a recall that is to be sent; 0: none */
    uint64_t recall_bytes;
    char lost[FLYT_MAX_SHORT];            /* why the session is about to end; "": it is not */
};

int  events_start(struct session *);
void events_stop(struct session *);
int  events_serve(struct session *, rpc_request *);               /* notify_call.c; by the reader */
/* the call is outstanding now; an older one is answered */
void events_asked(struct session *, uint32_t xid);
void events_due(struct session *, uint32_t id, int status);       /* a host function's turn */
void events_wanted(struct session *, const flyt_host_wanted *);   /* a kernel waits there (mirror.c) */
void events_recall(void *session, uint32_t number, uint64_t bytes);      /* tenant.h asks for unused credit */
void events_lost(struct session *, const char *why);               /* it is about to end: the client should know why */
void events_beat(struct session *, uint64_t now);                 /* by the completion thread */

#endif
