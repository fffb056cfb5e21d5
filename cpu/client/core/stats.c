/*
 * stats.c: what FLYT_STATS prints at the end of the program.
 *
 * A row per procedure and one per kind of copy. A row's numbers are relaxed atomics that nobody waits for; times go into
 * a histogram whose buckets are an eighth of a power of two wide, so a p50 or p99 is right within 6 %. Without FLYT_STATS
 * nothing is counted: who measures asks stats_on first.
 *
 * The time of a call that is waited for, or whose answer somebody takes up later, is that from submitting it to its
 * answer; of one that is never answered, how long the caller was busy with it. Bytes are those of arguments and results;
 * what goes beside the calls (payload area, lanes) is in the rows of the copies, and in the connection's totals.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "lanes.h"

enum {
    PROCEDURES = 128,
    PARTS = 8,                        /* buckets in an octave */
    OCTAVES = 40,                     /* up to 1,100 seconds; longer counts as that */
    BUCKETS = OCTAVES * PARTS,
};

struct row {
    atomic_uint_fast64_t calls, waited, sent, received, ns, buckets[BUCKETS];
};

static const char *const copy_names[STATS_COPIES] = {
    "copies, pageable to device", "copies, pinned to device", "copies, device to pageable", "copies, device to pinned",
    "copies, device to device", "copies, host to host"
};

static struct {
    bool json;
    struct row procedures[PROCEDURES], copies[STATS_COPIES];
    atomic_uint_fast64_t travelled, waited, local;
} stats;

atomic_bool stats_on;

void stats_open(const char *wanted)
{
    if (!wanted || !*wanted || strcmp(wanted, "0") == 0)
        return;
    stats.json = strcmp(wanted, "json") == 0;
    if (!stats.json && strcmp(wanted, "1") != 0)
        log_warning("FLYT_STATS: %s is neither 1 (a table) nor json; taken as 1", wanted);
    stats_on = true;
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

/* The middle of a bucket. */
static double bucket_ns(unsigned bucket)
{
    if (bucket < PARTS)
        return bucket;
    double width = (double)(UINT64_C(1) << (bucket / PARTS - 1));
    return (PARTS + bucket % PARTS + 0.5) * width;
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

void stats_copy_ends(uint64_t begun, enum stats_copy kind, const void *host, uint64_t bytes)
{
    if (!stats_on || !begun)
        return;
    bool out = kind == STATS_TO_PAGEABLE;
    struct row *row = &stats.copies[kind + (host && bytes && address_pinned(host, bytes))];
    add(&row->calls, 1);
    add(out ? &row->received : &row->sent, bytes);
    row_time(row, begun);
}

void core_count_local(void)
{
    if (stats_on)
        add(&stats.local, 1);
}

void core_statistics(struct core_statistics *out)
{
    CANCEL_DEFERRED;
    struct rpc_client_statistics rpc = { 0 };
    if (session_ready())
        rpc_client_statistics(core_session.client, &rpc);
    struct lanes_statistics lanes;
    lanes_statistics(&lanes);
    *out = (struct core_statistics){
        .travelled = atomic_load(&stats.travelled), .waited = atomic_load(&stats.waited), .local = atomic_load(&stats.local),
        .bytes_sent = rpc.bytes_sent + lanes.sent, .bytes_received = rpc.bytes_received + lanes.received, .lanes = lanes.open,
    };
}

/* ---- the report ---- */

struct digest { unsigned long long calls, waited, sent, received; double ms, p50, p99; };      /* p50 and p99 in µs */

static double quantile(const struct row *row, uint64_t total, double part)
{
    uint64_t seen = 0, wanted = (uint64_t)((double)total * part);
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += atomic_load(&row->buckets[i])) > wanted)
            return bucket_ns(i) / 1e3;
    return 0;
}

static struct digest row_digest(const struct row *row)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        total += atomic_load(&row->buckets[i]);
    return (struct digest){ atomic_load(&row->calls), atomic_load(&row->waited), atomic_load(&row->sent), atomic_load(&row->received),
                            (double)atomic_load(&row->ns) / 1e6, quantile(row, total, 0.5), quantile(row, total, 0.99) };
}

static void print_row(const char *name, const struct row *row, bool waits)
{
    struct digest d = row_digest(row);
    char waited[24] = "";
    if (!d.calls)
        return;
    if (waits)
        snprintf(waited, sizeof waited, "%llu", d.waited);
    fprintf(stderr, "flyt: %10llu %10s %13llu %13llu %11.3f %10.1f %10.1f  %s\n", d.calls, waited, d.sent, d.received, d.ms, d.p50, d.p99,
            name);
}

static void json_row(const char *name, const struct row *row, const char **comma)
{
    struct digest d = row_digest(row);
    if (!d.calls)
        return;
    fprintf(stderr, "%s\"%s\": {\"calls\": %llu, \"waited\": %llu, \"bytes_sent\": %llu, \"bytes_received\": %llu, \"total_ms\": %.3f, "
            "\"p50_us\": %.3f, \"p99_us\": %.3f}", *comma, name, d.calls, d.waited, d.sent, d.received, d.ms, d.p50, d.p99);
    *comma = ", ";
}

static const char *procedure_name(unsigned procedure)
{
    const char *name = procedure < rpc_flyt_program.count ? rpc_flyt_program.procedures[procedure].name : NULL;
    return name ? name : "unknown";
}

static void report_table(const struct core_statistics *s, const char *transport)
{
    fprintf(stderr, "flyt: %llu calls travelled, %llu of them waited for; %llu answered by the client alone; "
            "%llu bytes sent, %llu received over %s\n", (unsigned long long)s->travelled, (unsigned long long)s->waited,
            (unsigned long long)s->local, (unsigned long long)s->bytes_sent, (unsigned long long)s->bytes_received, transport);
    struct lanes_statistics lanes;
    lanes_statistics(&lanes);
    if (lanes.open)
        fprintf(stderr, "flyt: of these %llu bytes sent, %llu received over %u further connection%s for large copies\n",
                (unsigned long long)lanes.sent, (unsigned long long)lanes.received, lanes.open, lanes.open == 1 ? "" : "s");
    fprintf(stderr, "flyt: %10s %10s %13s %13s %11s %10s %10s\n", "calls", "waited", "bytes sent", "received", "total ms", "p50 us", "p99 us");
    for (unsigned i = 0; i < PROCEDURES; i++)
        print_row(procedure_name(i), &stats.procedures[i], true);
    for (unsigned i = 0; i < STATS_COPIES; i++)
        print_row(copy_names[i], &stats.copies[i], false);
}

/* One object on one line. */
static void report_json(const struct core_statistics *s, const char *transport)
{
    const char *comma = "";
    fprintf(stderr, "{\"flyt\": {\"transport\": \"%s\", \"calls\": %llu, \"waited\": %llu, \"local\": %llu, \"bytes_sent\": %llu, "
            "\"bytes_received\": %llu, \"lanes\": %u, \"procedures\": {", transport, (unsigned long long)s->travelled, (unsigned long long)s->waited,
            (unsigned long long)s->local, (unsigned long long)s->bytes_sent, (unsigned long long)s->bytes_received, s->lanes);
    for (unsigned i = 0; i < PROCEDURES; i++)
        json_row(procedure_name(i), &stats.procedures[i], &comma);
    comma = "";
    fprintf(stderr, "}, \"copies\": {");
    for (unsigned i = 0; i < STATS_COPIES; i++)
        json_row(copy_names[i], &stats.copies[i], &comma);
    fprintf(stderr, "}}}\n");
}

void stats_report(void)
{
    struct core_statistics s;
    if (!stats_on)
        return;
    core_statistics(&s);
    flockfile(stderr);
    (stats.json ? report_json : report_table)(&s, session_ready() ? rpc_client_transport(core_session.client) : "nothing");
    funlockfile(stderr);
}
