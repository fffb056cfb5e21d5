/*
 * stats.c: counting, for what FLYT_STATS prints at the end of the program (stats_report.c).
 *
 * A row per procedure and one per kind of copy. A row's numbers are relaxed atomics that nobody waits for; times go
 * into a histogram whose buckets are an eighth of a power of two wide, so a p50 or p99 is right within 6 %. Without
 * FLYT_STATS nothing is counted: who measures asks stats_on first.
 *
 * The time of a call that is waited for, or whose answer somebody takes up later, is that from submitting it to its
 * answer; of one that is never answered, how long the caller was busy with it. Bytes are those of arguments and
 * results; what goes beside the calls (payload area, lanes) is in the rows of the copies, and in the connection's
 * totals.
 */
#include <stdatomic.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "stats_rows.h"

struct stats stats;
atomic_bool stats_on;

void stats_open(const char *wanted)
{
    if (!wanted || !*wanted || strcmp(wanted, "0") == 0)
        return;
    stats.json = strcmp(wanted, "json") == 0;
    if (!stats.json && strcmp(wanted, "1") != 0)
        log_warning("FLYT_STATS: %s is neither 1 (a table) nor json; taken as 1", wanted);
    stats_on = true;
    atomic_fetch_or(&launch_heed, HEED_STATS);
}

/* ---- counting ---- */

static void add(atomic_uint_fast64_t *to, uint64_t amount)
{
    atomic_fetch_add_explicit(to, amount, memory_order_relaxed);
}

static unsigned bucket_of(uint64_t ns)
{
    if (ns < PARTS)
        return (unsigned)ns;
    unsigned octave = 63 - (unsigned)__builtin_clzll(ns);               /* at least 3 */
    unsigned bucket = (octave - 2) * PARTS + ((unsigned)(ns >> (octave - 3)) & (PARTS - 1));
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void row_time(struct row *row, uint64_t begun)
{
    uint64_t ns = clock_now() - begun;
    add(&row->ns, ns);
    add(&row->buckets[bucket_of(ns)], 1);
}

static struct row *row_of(uint32_t procedure)
{
    return &stats.procedures[procedure < PROCEDURES ? procedure : 0];
}

uint64_t stats_call_begins(uint32_t procedure, xdrproc_t encode, void *args)
{
    add(&stats.travelled, 1);
    add(&row_of(procedure)->calls, 1);
    add(&row_of(procedure)->sent, xdr_sizeof(encode, args));
    return clock_now();
}

void stats_call_ends(uint32_t procedure, uint64_t begun, xdrproc_t decode, void *result)
{
    if (decode)
        add(&row_of(procedure)->received, xdr_sizeof(decode, result));
    row_time(row_of(procedure), begun);
}

void stats_call_waited(uint32_t procedure)
{
    add(&stats.waited, 1);
    add(&row_of(procedure)->waited, 1);
}

uint64_t stats_copy_begins(void)
{
    return stats_on ? clock_now() : 0;
}

void stats_copy_ends(uint64_t begun, enum stats_copy kind, uint64_t bytes)
{
    if (!stats_on || !begun)
        return;
    bool out = kind == STATS_TO_PAGEABLE || kind == STATS_TO_PINNED;
    struct row *row = &stats.copies[kind];
    add(&row->calls, 1);
    add(out ? &row->received : &row->sent, bytes);
    row_time(row, begun);
}

void core_count_local(void)
{
    if (stats_on)
        add(&stats.local, 1);
}
