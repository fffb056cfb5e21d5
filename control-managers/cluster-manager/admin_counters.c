/* admin_counters.c: what has been counted (ADMIN_COUNTERS), and who used what (ADMIN_USAGE). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/usage.h"
#include "control-managers/cluster-manager/usage_state.h"
#include "control-managers/common/tls.h"
#include "cpu/common/explain.h"

/* ---- samples ---- */

enum { LABELS_SIZE = 512, NAME_SIZE = CTL_MAX_NAME + 1 };
enum { GAUGE, COUNTER };

/* A page that is being filled. */
struct sample_page {
    admin_sample samples[ADMIN_MAX_SAMPLES];
    struct {
        char name[NAME_SIZE], labels[LABELS_SIZE];
    } texts[ADMIN_MAX_SAMPLES];
    u_int count;
};

/* more: further labels, with a comma before them. */
static void sample(struct sample_page *page, int kind, const char *name, const char *labels, const char *more,
                   double value)
{
    if (page->count == ADMIN_MAX_SAMPLES)
        return;
    u_int at = page->count++;
    snprintf(page->texts[at].name, NAME_SIZE, "%s", name);
    snprintf(page->texts[at].labels, LABELS_SIZE, "%s%s", labels, *labels || *more != ',' ? more : more + 1);
    page->samples[at] = (admin_sample){
        .name = page->texts[at].name, .labels = page->texts[at].labels, .kind = (u_int)kind, .value = value
    };
}

/* A histogram as Prometheus has it: each bucket also counts what is in those before it. */
static void of_loop(struct sample_page *page, const struct loop_held *held)
{
    char bound[32];
    uint64_t count = 0;
    for (int i = 0; i < LOOP_HELD; i++) {
        count += held->counts[i];
        if (i + 1 < LOOP_HELD)
            snprintf(bound, sizeof bound, "le=\"%g\"", loop_held_seconds[i]);
        else
            snprintf(bound, sizeof bound, "le=\"+Inf\"");
        sample(page, COUNTER, "flyt_loop_held_seconds_bucket", bound, "", (double)count);
    }
    sample(page, COUNTER, "flyt_loop_held_seconds_sum", "", "", (double)held->ns / 1e9);
    sample(page, COUNTER, "flyt_loop_held_seconds_count", "", "", (double)count);
}

/* A histogram of how long something took, each time that it happened. */
static void of_times(struct sample_page *page, const char *name, const char *labels, const struct count_times *times)
{
    char full[NAME_SIZE], bound[32];
    uint64_t count = 0;
    snprintf(full, sizeof full, "%.48s_bucket", name);
    for (int i = 0; i < COUNT_TIMES; i++) {
        count += times->counts[i];
        if (i + 1 < COUNT_TIMES)
            snprintf(bound, sizeof bound, ",le=\"%g\"", count_seconds[i]);
        else
            snprintf(bound, sizeof bound, ",le=\"+Inf\"");
        sample(page, COUNTER, full, labels, bound, (double)count);
    }
    snprintf(full, sizeof full, "%.48s_sum", name);
    sample(page, COUNTER, full, labels, "", (double)times->us / 1e6);
    snprintf(full, sizeof full, "%.48s_count", name);
    sample(page, COUNTER, full, labels, "", (double)count);
}

static void of_codes(struct sample_page *page, const char *name, const uint64_t counts[COUNT_CODES], const char *ok)
{
    char labels[64];
    for (unsigned i = 0; i < COUNT_CODES; i++) {
        snprintf(labels, sizeof labels, "reason=\"%s\"", i == CTL_OK ? ok : protocol_code_name((ctl_code)i));
        if (counts[i])
            sample(page, COUNTER, name, labels, "", (double)counts[i]);
    }
}

static void of_counts(struct sample_page *page, const struct counted_things *things)
{
    char labels[96], sharing[PROTOCOL_SHARING_SIZE];
    for (unsigned i = 0; i < COUNT_SHARINGS; i++) {
        snprintf(labels, sizeof labels, "sharing=\"%s\"", protocol_sharing_text(1u << i, sharing));
        sample(page, COUNTER, "flyt_placements_total", labels, "", (double)things->placed[i]);
    }
    for (unsigned i = 0; i < COUNT_ROLES; i++) {
        const char *role = i == CTL_ROLE_NONE ? "unknown" : protocol_role_name((ctl_role)i);
        snprintf(labels, sizeof labels, "role=\"%s\"", role);
        if (things->peers_refused[i])
            sample(page, COUNTER, "flyt_peers_refused_total", labels, "", (double)things->peers_refused[i]);
    }
    of_codes(page, "flyt_refusals_total", things->refused, "none");
    of_codes(page, "flyt_servers_ended_total", things->ended, "stopped");
    of_times(page, "flyt_queue_wait_seconds", "outcome=\"started\"", &things->started);
    of_times(page, "flyt_queue_wait_seconds", "outcome=\"refused\"", &things->given_up);
    of_times(page, "flyt_server_start_duration_seconds", "", &things->servers);
}

static void of_cluster(struct sample_page *page, struct cluster *cluster)
{
    const struct program *first = cluster->queue;
    sample(page, COUNTER, "flyt_events_total", "", "", (double)(cluster->events.next - 1));
    sample(page, GAUGE, "flyt_queue_length", "", "", (double)cluster->queue_length);
    sample(page, GAUGE, "flyt_queue_oldest_seconds", "", "", first ? (double)(loop_time() - first->asked) / 1e6 : 0);
    sample(page, GAUGE, "flyt_db_waiting", "", "", (double)db_worker_waiting(cluster->db));
    of_loop(page, loop_held(cluster->loop));
    of_counts(page, &cluster->counts.durable);
    if (cluster->tls)
        sample(page, GAUGE, "flyt_certificate_expiry_timestamp_seconds", "role=\"cluster\"", "",
               (double)tls_context_ends(cluster->tls));
}

void admin_handle_counters(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_counters_args *args = object;
    admin_counters_result result = { .status = { CTL_OK, (char *)"" } };
    struct sample_page *page = calloc(1, sizeof *page);
    if (!page) {
        result.status = (ctl_status){ CTL_INTERNAL, (char *)"no memory" };
    } else if (strcmp(args->of, "cluster") == 0) {
        of_cluster(page, session_of(conn)->cluster);
        result.samples.samples_len = page->count;
        result.samples.samples_val = page->samples;
    } else {
        result.status = (ctl_status){ CTL_INVALID, (char *)"there are samples of cluster" };
    }
    call_reply(call, &result);
    free(page);
}

/* ---- usage ---- */

static void usage_row(struct used *used, admin_usage_row *out)
{
    struct db_usage *row = &used->row;
    *out = (admin_usage_row){ .prog = row->program,
                              .vm = row->vm,
                              .node = row->node,
                              .gpu = row->gpu,
                              .uid = row->uid,
                              .executable = row->executable,
                              .sms = row->sms,
                              .memory = row->memory,
                              .begun = row->begun,
                              .ended = row->ended,
                              .sm_us = row->sm_us,
                              .programs = row->programs,
                              .why = row->ended ? row->why : (char *)"" };
}

/* A row that an earlier run began and whose program is not back is shown as far as it is known. */
static bool is_wanted(const struct db_usage *row, const admin_usage_args *args)
{
    return (!*args->vm || strcmp(args->vm, row->vm) == 0) && (!args->until || row->begun < args->until) &&
           (!args->since || !row->ended || row->ended >= args->since);
}

void admin_handle_usage(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_usage_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    const struct usage *usage = cluster->usage;
    admin_usage_row rows[CTL_MAX_PAGE];
    admin_usage_result result = { .status = { CTL_OK, (char *)"" }, .rows = { 0, rows } };
    size_t at;
    if (*args->vm && !map_get(&usage->vms, args->vm) && !map_get(&cluster->vms, args->vm)) {
        char text[EXPLAIN_SIZE];
        result.status.code = explain(text, CTL_NOT_FOUND, "there is no VM '%s', and no row of one", args->vm);
        result.status.text = text;
        call_reply(call, &result);
        return;
    }
    if (!usage_read(cluster, args->after, &at)) {
        result.status = (ctl_status){ CTL_BUSY, (char *)"rows were summed while they were read: ask again" };
        call_reply(call, &result);
        return;
    }
    for (; at < usage->count && result.rows.rows_len < CTL_MAX_PAGE; at++) {
        struct used *used = usage->rows[at];
        if (!used || !is_wanted(&used->row, args))
            continue;
        struct server *server = used->back ? map_get_id(&cluster->servers, used->row.server) : NULL;
        if (server) /* that of each row, and not all servers at once, which would hold the loop */
            usage_accrue(cluster, server);
        usage_row(used, &rows[result.rows.rows_len++]);
    }
    result.next = usage_read_on(cluster, at);
    result.more = at < usage->count;
    if (!result.more)
        usage_read_end(cluster);
    call_reply(call, &result);
}
