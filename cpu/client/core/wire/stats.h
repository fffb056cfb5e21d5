/*
 * stats.h: counting for $FLYT_STATS (stats.c), and printing it (stats_report.c).
 */
#ifndef FLYT_CLIENT_CORE_STATS_H
#define FLYT_CLIENT_CORE_STATS_H

#include <stdatomic.h>

#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

extern atomic_bool stats_on;          /* set at attach, before the first call; off, none of these is called */
void stats_open(const char *wanted);
void stats_report(void);
/* Counts a call that travels; what it gives goes to stats_call_ends. decode NULL: never answered. */
uint64_t stats_call_begins(uint32_t procedure, xdrproc_t encode, void *args);
void stats_call_ends(uint32_t procedure, uint64_t begun, xdrproc_t decode, void *result);
void stats_call_waited(uint32_t procedure);
/* Copies as the program asked for them, however many calls they took. Without FLYT_STATS these two do nothing. */
enum stats_copy {
    STATS_FROM_PAGEABLE,
    STATS_FROM_PINNED,
    STATS_TO_PAGEABLE,
    STATS_TO_PINNED,
    STATS_ON_DEVICE,
    STATS_ON_HOST,
    STATS_COPIES
};
uint64_t stats_copy_begins(void);
void stats_copy_ends(uint64_t begun, enum stats_copy, uint64_t bytes);

#endif
