/*
 * stats_rows.h: what stats.c, which counts, and stats_report.c, which prints it, share.
 */
#ifndef FLYT_CLIENT_CORE_STATS_ROWS_H
#define FLYT_CLIENT_CORE_STATS_ROWS_H

#include "stats.h"

enum {
    PROCEDURES = 256,
    PARTS = 8,                        /* buckets in an octave */
    OCTAVES = 40,                     /* up to 1,100 seconds; longer counts as that */
    BUCKETS = OCTAVES * PARTS,
};

struct row {
    atomic_uint_fast64_t calls, waited, sent, received, ns, buckets[BUCKETS];
};

extern struct stats {
    bool json;
    struct row procedures[PROCEDURES], copies[STATS_COPIES];
    atomic_uint_fast64_t travelled, waited, local;
} stats;

#endif
