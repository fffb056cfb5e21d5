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

enum { LABELS_SIZE = 512, NAME_SIZE = CTL_MAX_NAME + 1, SOON_DAYS = 30 };
enum { GAUGE, COUNTER };

/* A page that is being filled: of all samples those from `from` on, as many as fit. */
struct sample_page {
    admin_sample samples[ADMIN_MAX_SAMPLES];
    struct {
        char name[NAME_SIZE], labels[LABELS_SIZE];
    } texts[ADMIN_MAX_SAMPLES];
    uint64_t from, seen;
    u_int count;
};

/* more: further labels, with a comma before them. */
static void sample(struct sample_page *page, int kind, const char *name, const char *labels, const char *more,
                   double value)
{
    if (page->seen++ < page->from || page->count == ADMIN_MAX_SAMPLES)
        return;
    u_int at = page->count++;
    snprintf(page->texts[at].name, NAME_SIZE, "%s", name);
    snprintf(page->texts[at].labels, LABELS_SIZE, "%s%s", labels, *labels || *more != ',' ? more : more + 1);
    page->samples[at] = (admin_sample){
        .name = page->texts[at].name, .labels = page->texts[at].labels, .kind = (u_int)kind, .value = value
    };
}

/* A histogram as Prometheus has it: each bucket also counts what is in those before it. `sum`: seconds. */
static void histogram(struct sample_page *page, const char *name, const char *labels, const uint64_t *counts,
                      const double *bounds, int buckets, double sum)
{
    char full[NAME_SIZE], bound[32];
    uint64_t count = 0;
    snprintf(full, sizeof full, "%.48s_bucket", name);
    for (int i = 0; i < buckets; i++) {
        count += counts[i];
        if (i + 1 < buckets)
            snprintf(bound, sizeof bound, ",le=\"%g\"", bounds[i]);
        else
            snprintf(bound, sizeof bound, ",le=\"+Inf\"");
        sample(page, COUNTER, full, labels, bound, (double)count);
    }
    snprintf(full, sizeof full, "%.48s_sum", name);
    sample(page, COUNTER, full, labels, "", sum);
    snprintf(full, sizeof full, "%.48s_count", name);
    sample(page, COUNTER, full, labels, "", (double)count);
}

static void of_loop(struct sample_page *page, const struct loop *loop)
{
    const struct loop_held *held = loop_held(loop), *worked = loop_worked(loop);
    char labels[96];
    histogram(page, "flyt_loop_held_seconds", "", held->counts, loop_held_seconds, LOOP_HELD, (double)held->ns / 1e9);
    histogram(page, "flyt_loop_worked_seconds", "", worked->counts, loop_held_seconds, LOOP_HELD,
              (double)worked->ns / 1e9);
    sample(page, GAUGE, "flyt_loop_worked_most_seconds", "", "", (double)worked->most_ns / 1e9);
    for (uint32_t i = 0; i <= CTL_LAST_PROCEDURE; i++) {
        const struct loop_rpc_times *times = loop_rpc_times(loop, i);
        if (!times->ns)
            continue;
        snprintf(labels, sizeof labels, "procedure=\"%s\"", protocol_procedures[i].name);
        histogram(page, "flyt_rpc_duration_seconds", labels, times->counts, loop_rpc_seconds, LOOP_RPC_TIMES,
                  (double)times->ns / 1e9);
    }
}

static void of_times(struct sample_page *page, const char *name, const char *labels, const struct count_times *times)
{
    histogram(page, name, labels, times->counts, count_seconds, COUNT_TIMES, (double)times->us / 1e6);
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

static void of_connections(struct sample_page *page, const struct cluster *cluster)
{
    static const char *const ways[CONN_WAYS] = { "no", "yes", "local" };
    char labels[96];
    static const ctl_role roles[] = { CTL_ROLE_NODE, CTL_ROLE_CLIENT, CTL_ROLE_ADMIN, CTL_ROLE_OPERATOR,
                                      CTL_ROLE_VIEWER };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        for (int way = 0; way < CONN_WAYS; way++) {
            snprintf(labels, sizeof labels, "role=\"%s\",encrypted=\"%s\"", protocol_role_name(roles[i]),
                     ways[way]);
            sample(page, GAUGE, "flyt_connections", labels, "", (double)cluster->connections[roles[i]][way]);
        }
}

/* A GPU that is unknown at present, since its node has not come yet, is left out. */
static void of_incidents(struct sample_page *page, const struct cluster *cluster)
{
    char labels[LABELS_SIZE];
    for (size_t i = 0; i < cluster->incidents.count; i++) {
        const struct incident *incident = map_at((struct map *)(uintptr_t)&cluster->incidents, i);
        const struct cluster_gpu *gpu =
            incident->kind == INCIDENT_GPU_FAULT ? map_get(&cluster->gpus, incident->name) : NULL;
        if (incident->kind == INCIDENT_RESTART) {
            snprintf(labels, sizeof labels, "node=\"%s\"", incident->name);
            sample(page, COUNTER, "flyt_server_restarts_total", labels, "", (double)incident->durable);
        } else if (gpu) {
            snprintf(labels, sizeof labels, "node=\"%s\",gpu=\"%s\"", gpu->node->row.name, incident->name);
            sample(page, COUNTER, "flyt_gpu_faults_total", labels, "", (double)incident->durable);
        }
    }
}

static void of_cluster(struct sample_page *page, struct cluster *cluster)
{
    const struct program *first = cluster->queue;
    const struct db_times db = db_worker_times(cluster->db);
    sample(page, COUNTER, "flyt_events_total", "", "", (double)(cluster->events.next - 1));
    sample(page, GAUGE, "flyt_queue_length", "", "", (double)cluster->queue_length);
    sample(page, GAUGE, "flyt_queue_oldest_seconds", "", "", first ? (double)(loop_time() - first->asked) / 1e6 : 0);
    sample(page, GAUGE, "flyt_db_waiting", "", "", (double)db_worker_waiting(cluster->db));
    histogram(page, "flyt_db_apply_duration_seconds", "", db.counts, db_seconds, DB_TIMES, (double)db.us / 1e6);
    of_connections(page, cluster);
    of_counts(page, &cluster->counts.durable);
    if (cluster->tls)
        sample(page, GAUGE, "flyt_certificate_expiry_timestamp_seconds", "role=\"cluster\"", "",
               (double)tls_context_ends(cluster->tls));
    of_loop(page, cluster->loop);
    of_incidents(page, cluster);
}

/* Of VMs, of which there may be very many, only those whose certificate ends soon. */
static void of_certificates(struct sample_page *page, const struct cluster *cluster)
{
    char labels[LABELS_SIZE];
    const int64_t soon = loop_time() / 1000000 + SOON_DAYS * 86400;
    for (const struct cluster_session *session = cluster->sessions; session; session = session->next) {
        if (!session->certificate_ends || (!session->node && !session->vm) ||
            (session->vm && session->certificate_ends > soon))
            continue;
        if (session->node)
            snprintf(labels, sizeof labels, "role=\"node\",node=\"%s\"", session->node->row.name);
        else
            snprintf(labels, sizeof labels, "role=\"client\",vm=\"%s\"", session->vm->row.name);
        sample(page, GAUGE, "flyt_certificate_expiry_timestamp_seconds", labels, "",
               (double)session->certificate_ends);
    }
}

static void of_program(struct sample_page *page, const struct used *used)
{
    const ctl_figures *did = &used->did;
    char labels[LABELS_SIZE];
    snprintf(labels, sizeof labels, "vm=\"%s\",server=\"%" PRIu64 "\",program=\"%" PRIu64 "\"", used->row.vm,
             used->row.server, used->row.program);
    sample(page, GAUGE, "flyt_program_memory_bytes", labels, "", (double)used->memory);
    sample(page, COUNTER, "flyt_program_calls_total", labels, "", (double)did->calls);
    sample(page, COUNTER, "flyt_program_launches_total", labels, "", (double)did->launches);
    sample(page, COUNTER, "flyt_program_copy_bytes_total", labels, ",direction=\"in\"", (double)did->bytes_in);
    sample(page, COUNTER, "flyt_program_copy_bytes_total", labels, ",direction=\"out\"", (double)did->bytes_out);
    sample(page, COUNTER, "flyt_program_copy_bytes_total", labels, ",direction=\"between\"",
           (double)did->bytes_between);
    sample(page, COUNTER, "flyt_program_errors_total", labels, "", (double)did->errors);
    sample(page, COUNTER, "flyt_program_busy_seconds_total", labels, "", (double)did->busy_us / 1e6);
}

/* In the order of their numbers, behind `after`: 20,000 programs are some hundred pages. */
static void of_programs(struct sample_page *page, struct cluster *cluster, uint64_t after,
                        admin_counters_result *result)
{
    enum { SAMPLES_OF_PROGRAM = 8 };
    struct map *going_on = &cluster->usage->going_on;
    const struct used *used;
    size_t at = map_after_id(going_on, after);
    result->next = after;
    for (; (used = map_at(going_on, at)) && page->count + SAMPLES_OF_PROGRAM <= ADMIN_MAX_SAMPLES; at++) {
        if (used->heard)
            of_program(page, used);
        result->next = used->row.program;
    }
    result->more = used != NULL;
}

void admin_handle_counters(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_counters_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    admin_counters_result result = { .status = { CTL_OK, (char *)"" } };
    struct sample_page *page = calloc(1, sizeof *page);
    if (!page) {
        result.status = (ctl_status){ CTL_INTERNAL, (char *)"no memory" };
        call_reply(call, &result);
        return;
    }
    const bool programs = strcmp(args->of, "programs") == 0;
    page->from = programs ? 0 : args->after;
    if (programs)
        of_programs(page, cluster, args->after, &result);
    else if (strcmp(args->of, "cluster") == 0)
        of_cluster(page, cluster);
    else if (strcmp(args->of, "certificates") == 0)
        of_certificates(page, cluster);
    else
        result.status = (ctl_status){ CTL_INVALID, (char *)"there are samples of cluster, certificates and programs" };
    result.samples.samples_len = page->count;
    result.samples.samples_val = page->samples;
    if (!programs) {
        result.next = page->from + page->count;
        result.more = page->seen > result.next;
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
