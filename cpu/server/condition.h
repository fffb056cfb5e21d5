/*
 * condition.h: streams that wait while a part of a graph runs, or runs again, as a word of device memory says
 * (condition.c).
 */
#ifndef FLYT_SERVER_CONDITION_H
#define FLYT_SERVER_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/list.h"

struct condition;
struct context;
struct session;

struct conditions {
    pthread_mutex_t lock;                 /* a leaf; of `due` */
    struct condition *due, **last;        /* whose word has been read, or whose body has ended */
    struct list all;                      /* under session.lock, like what follows */
    uint64_t count;
    size_t bytes;                         /* of their calls */
};
int conditions_start(struct session *);
/* Can this session's GPU do it? */
bool conditions_offered(const struct session *);
/* Takes the due ones further. The executor, under session.lock. */
void conditions_serve(struct session *);
/* Their streams wait no longer, and no body begins any more. NULL: of every context */
void conditions_release_all(struct session *, struct context *);
void conditions_stop(struct session *);
uint64_t conditions_count(const struct session *);

#endif
