/*
 * reply.h: answers to the client, and what every answer begins with (reply.c).
 */
#ifndef FLYT_SERVER_REPLY_H
#define FLYT_SERVER_REPLY_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/list.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct session;
struct stream;
struct text;

struct report {
    pthread_mutex_t lock;
    _Atomic bool news;                    /* any of the next three is set; else a reply needs no lock */
    CUresult latched, sticky;
    /* streams with a done number that has not been reported; each holds a reference */
    struct list dirty;
    _Atomic uint64_t *numbers;            /* published, by stream id, in shared memory; NULL: nowhere */
    uint32_t number_count;
    struct text *text;                    /* NULL: nothing is captured (local:) */
    pthread_mutex_t speak;                /* from taking text until it is sent: what was printed first arrives first */
};

void report_note(struct session *, CUresult);                     /* remembers it if it is a sticky one */
void report_latch(struct session *, CUresult);
void report_share(struct session *);                              /* the transport is settled: publish there */
void report_progress(struct session *, struct stream *);          /* done has changed */
void report_forget(struct session *, struct stream *);            /* its id may soon name another */
void report_stop(struct session *);                               /* nothing is reported any more */
CUresult report_sticky(struct session *);
void report_clear_sticky(struct session *, CUresult which); /* and what is latched because of it */
/* result begins with a flyt_head, which is filled here and emptied again. speaks: with what kernels printed, also where
   no error makes it speak. */
void session_reply(struct session *, uint32_t xid, xdrproc_t, void *result, CUresult, bool speaks);
void session_reply_plain(struct session *, uint32_t xid, CUresult, bool speaks);
/* Answers an EVENTS call. Neither printed text nor an error goes with it: they belong to the replies that threads of
   the program wait for, one of which may be on its way. */
void session_say(struct session *, uint32_t xid, events_result *);

#endif
