/*
 * counts.h: how often things happened in the cluster: placements, refusals, ends of servers, waits. For metrics.
 *
 * No count falls, whatever ends: metrics have what the resource DB has taken. It is written every two seconds, if it
 * is another one; what happened since is lost where the cluster manager is killed.
 */
#ifndef FLYT_CLUSTER_COUNTS_H
#define FLYT_CLUSTER_COUNTS_H

#include <stdbool.h>

#include "control-managers/common/loop.h"
#include "control-managers/common/protocol.h"

struct cluster;

enum { COUNT_CODES = 16, COUNT_ROLES = 8, COUNT_SHARINGS = 4, COUNT_TIMES = 9 };

/* counts[i]: of at most count_seconds[i], the last: longer. */
struct count_times {
    uint64_t counts[COUNT_TIMES], us;
};
extern const double count_seconds[COUNT_TIMES - 1];

/* Nothing but uint64_t: counts.c reads and writes it as words, in this order. New members come last. */
struct counted_things {
    uint64_t placed[COUNT_SHARINGS];      /* servers, by the bit of their sharing */
    uint64_t refused[COUNT_CODES];        /* programs, by ctl_code */
    uint64_t ended[COUNT_CODES];          /* servers, by ctl_code; CTL_OK: on purpose */
    uint64_t peers_refused[COUNT_ROLES];  /* by ctl_role; CTL_ROLE_NONE: nobody knows */
    struct count_times started, given_up; /* programs that waited, until they ran, or were refused */
    struct count_times servers;           /* from the placement to the first report that it runs */
};

struct counts {
    struct counted_things now, written, durable; /* written: to the DB; durable: the DB has it */
    unsigned writing; /* rows that are on their way to the DB */
    bool failed;      /* one of them */
    struct loop_timer save;
};

void counts_load(struct cluster *, const char *key, const char *value); /* of a row of meta */
void counts_begin(struct cluster *);                                    /* all is loaded */
void counts_end(struct cluster *);                                      /* the manager ends: writes the last ones */
void counts_note_time(struct count_times *, int64_t since);             /* loop_time */
void counts_note_code(uint64_t counts[COUNT_CODES], ctl_code);

#endif
