/*
 * condition.h: streams that wait while a part of a graph runs, or runs again, as a word of device memory says
 * (condition.c).
 */
#ifndef FLYT_SERVER_CONDITION_H
#define FLYT_SERVER_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/list.h"

struct context;
struct session;

struct conditions {                       /* under session.lock */
    struct list all;
    uint64_t count;
    size_t bytes;                         /* of their calls */
};
/* Can this session's GPU do it? */
bool conditions_offered(const struct session *);
/* Their streams wait no longer, and no body begins any more. NULL: of every context */
void conditions_release_all(struct session *, struct context *);
void conditions_stop(struct session *);
uint64_t conditions_count(const struct session *);

#endif
