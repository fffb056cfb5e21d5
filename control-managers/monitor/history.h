/* history.h: a point per minute of the last 24 hours, for plots, and the present one as the last. One thread. */
#ifndef FLYT_MONITOR_HISTORY_H
#define FLYT_MONITOR_HISTORY_H

#include <jansson.h>

#include "control-managers/monitor/mirror.h"

struct history {
    json_t *points; /* that are kept */
    time_t next;    /* when the present point is kept */
    /* As the last one was kept: the sum of what programs did, and the moment in seconds of CLOCK_MONOTONIC; 0: none. */
    uint64_t busy_us;
    double busy_at;
};

bool history_begin(struct history *); /* false: no memory */
void history_end(struct history *);
/* A reading of the cluster. All points, as an array that the caller releases; NULL: no memory. */
json_t *history_add(struct history *, const json_t *status, struct monitor_mirror *);

#endif
