/*
 * stats_report.c: what FLYT_STATS prints at the end of the program, and core_statistics.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "capability.h"
#include "kinds.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/copy/lanes.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/stats_rows.h"

static const char *const copy_names[STATS_COPIES] = {
    "copies, pageable to device", "copies, pinned to device", "copies, device to pageable", "copies, device to pinned",
    "copies, device to device", "copies, host to host"
};

/* The middle of a bucket. */
static double bucket_ns(unsigned bucket)
{
    if (bucket < PARTS)
        return bucket;
    double width = (double)(UINT64_C(1) << (bucket / PARTS - 1));
    return (PARTS + bucket % PARTS + 0.5) * width;
}

void core_statistics(struct core_statistics *out)
{
    CANCEL_DEFERRED;
    struct rpc_client_statistics rpc = { 0 };
    for (struct client_session *session = session_ready() ? &core_session : NULL; session; session = session->next) {
        struct rpc_client_statistics one = { 0 };
        rpc_client_statistics(session->client, &one);
        rpc.bytes_sent += one.bytes_sent;
        rpc.bytes_received += one.bytes_received;
    }
    struct lanes_statistics lanes;
    lanes_statistics(&lanes);
    *out = (struct core_statistics){
        .travelled = atomic_load(&stats.travelled),
        .waited = atomic_load(&stats.waited),
        .local = atomic_load(&stats.local),
        .bytes_sent = rpc.bytes_sent + lanes.sent,
        .bytes_received = rpc.bytes_received + lanes.received,
        .lanes = lanes.open,
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
    return (struct digest){ atomic_load(&row->calls),    atomic_load(&row->waited),           atomic_load(&row->sent),
                            atomic_load(&row->received), (double)atomic_load(&row->ns) / 1e6, quantile(row, total, 0.5),
                            quantile(row, total, 0.99) };
}

static void print_row(const char *name, const struct row *row, bool waits)
{
    struct digest d = row_digest(row);
    char waited[24] = "";
    if (!d.calls)
        return;
    if (waits)
        snprintf(waited, sizeof waited, "%llu", d.waited);
    fprintf(stderr, "flyt: %10llu %10s %13llu %13llu %11.3f %10.1f %10.1f  %s\n", d.calls, waited, d.sent, d.received,
            d.ms, d.p50, d.p99, name);
}

static void json_row(const char *name, const struct row *row, const char **comma)
{
    struct digest d = row_digest(row);
    if (!d.calls)
        return;
    fprintf(stderr,
            "%s\"%s\": {\"calls\": %llu, \"waited\": %llu, \"bytes_sent\": %llu, \"bytes_received\": %llu, "
            "\"total_ms\": %.3f, "
            "\"p50_us\": %.3f, \"p99_us\": %.3f}",
            *comma, name, d.calls, d.waited, d.sent, d.received, d.ms, d.p50, d.p99);
    *comma = ", ";
}

static const char *procedure_name(unsigned procedure)
{
    const char *name = procedure < rpc_flyt_program.count ? rpc_flyt_program.procedures[procedure].name : NULL;
    return name ? name : "unknown";
}

/* What the program has not given back, and what the core keeps for itself. */
static void report_objects(void)
{
    const char *comma = "flyt: left at the end: ";
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t count = client_kinds[kind].count ? client_kinds[kind].count() : 0;
        if (!count)
            continue;
        fprintf(stderr, "%s%s %llu", comma, client_kinds[kind].name, (unsigned long long)count);
        comma = ", ";
    }
    if (*comma == ',')
        fputc('\n', stderr);
}

static void json_objects(void)
{
    const char *comma = "";
    for (int kind = 0; kind < KINDS; kind++) {
        if (!client_kinds[kind].count)
            continue;
        fprintf(stderr, "%s\"%s\": %llu", comma, client_kinds[kind].name,
                (unsigned long long)client_kinds[kind].count());
        comma = ", ";
    }
}

static void report_table(const struct core_statistics *s, const char *transport)
{
    fprintf(stderr,
            "flyt: %llu calls travelled, %llu of them waited for; %llu answered by the client alone; "
            "%llu bytes sent, %llu received over %s\n",
            (unsigned long long)s->travelled, (unsigned long long)s->waited, (unsigned long long)s->local,
            (unsigned long long)s->bytes_sent, (unsigned long long)s->bytes_received, transport);
    capability_report();
    struct lanes_statistics lanes;
    lanes_statistics(&lanes);
    if (lanes.open)
        fprintf(stderr, "flyt: of these %llu bytes sent, %llu received over %u further connection%s for large copies\n",
                (unsigned long long)lanes.sent, (unsigned long long)lanes.received, lanes.open,
                lanes.open == 1 ? "" : "s");
    fprintf(stderr, "flyt: %10s %10s %13s %13s %11s %10s %10s\n", "calls", "waited", "bytes sent", "received",
            "total ms", "p50 us", "p99 us");
    for (unsigned i = 0; i < PROCEDURES; i++)
        print_row(procedure_name(i), &stats.procedures[i], true);
    for (unsigned i = 0; i < STATS_COPIES; i++)
        print_row(copy_names[i], &stats.copies[i], false);
    report_objects();
}

/* One object on one line. */
static void report_json(const struct core_statistics *s, const char *transport)
{
    const char *comma = "";
    fprintf(
        stderr,
        "{\"flyt\": {\"transport\": \"%s\", \"calls\": %llu, \"waited\": %llu, \"local\": %llu, \"bytes_sent\": %llu, "
        "\"bytes_received\": %llu, \"lanes\": %u, \"procedures\": {",
        transport, (unsigned long long)s->travelled, (unsigned long long)s->waited, (unsigned long long)s->local,
        (unsigned long long)s->bytes_sent, (unsigned long long)s->bytes_received, s->lanes);
    for (unsigned i = 0; i < PROCEDURES; i++)
        json_row(procedure_name(i), &stats.procedures[i], &comma);
    comma = "";
    fprintf(stderr, "}, \"copies\": {");
    for (unsigned i = 0; i < STATS_COPIES; i++)
        json_row(copy_names[i], &stats.copies[i], &comma);
    fprintf(stderr, "}, \"objects\": {");
    json_objects();
    fputc('}', stderr);
    capability_report_json();
    fprintf(stderr, "}}\n");
}

void stats_report(void)
{
    struct core_statistics s;
    if (!stats_on)
        return;
    core_statistics(&s);
    flockfile(stderr);
    (stats.json ? report_json : report_table)(&s,
                                              session_ready() ? rpc_client_transport(core_session.client) : "nothing");
    funlockfile(stderr);
}
