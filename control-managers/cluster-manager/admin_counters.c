/* admin_counters.c: what has been counted (ADMIN_COUNTERS), and who used what (ADMIN_USAGE). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/usage.h"
#include "control-managers/cluster-manager/usage_state.h"

/* ---- samples ---- */

enum { LABELS_SIZE = 512, NAME_SIZE = CTL_MAX_NAME + 1, MOST_OF_ONE = 40 };
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

static void figures(struct sample_page *page, const char *of, const char *labels, const ctl_figures *all,
                    uint64_t sm_us)
{
    const struct {
        const char *name, *more;
        double value;
    } rows[] = {
        { "calls_total", "", (double)all->calls },
        { "launches_total", "", (double)all->launches },
        { "copy_bytes_total", ",direction=\"in\"", (double)all->bytes_in },
        { "copy_bytes_total", ",direction=\"out\"", (double)all->bytes_out },
        { "copy_bytes_total", ",direction=\"between\"", (double)all->bytes_between },
        { "errors_total", "", (double)all->errors },
        { "busy_seconds_total", "", (double)all->busy_us / 1e6 },
        { "sm_seconds_total", "", (double)sm_us / 1e6 },
    };
    char name[NAME_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "flyt_%s_%s", of, rows[i].name);
        sample(page, COUNTER, name, labels, rows[i].more, rows[i].value);
    }
}

/* A histogram as Prometheus has it: each bucket also counts what is in those before it. */
static void call_times(struct sample_page *page, const char *labels, const ctl_figures *all)
{
    static const char name[] = "flyt_server_call_duration_seconds";
    char more[64], bucket[NAME_SIZE];
    uint64_t count = 0;
    snprintf(bucket, sizeof bucket, "%s_bucket", name);
    for (int i = 0; i < CTL_TIMES; i++) {
        count += all->times[i];
        if (i + 1 < CTL_TIMES)
            snprintf(more, sizeof more, ",le=\"%g\"", 4e-6 * (double)(1u << i));
        else
            snprintf(more, sizeof more, ",le=\"+Inf\"");
        sample(page, COUNTER, bucket, labels, more, (double)count);
    }
    snprintf(bucket, sizeof bucket, "%s_sum", name);
    sample(page, COUNTER, bucket, labels, "", (double)all->timed_us / 1e6);
    snprintf(bucket, sizeof bucket, "%s_count", name);
    sample(page, COUNTER, bucket, labels, "", (double)count);
}

/* Soon after a start the node of a server may not have reported yet, and the total would lack what the DB does not
   have. A counter that falls is worse than one that is not there for a moment. */
static bool all_heard(const struct server *servers, bool of_vm)
{
    for (const struct server *server = servers; server; server = of_vm ? server->vm_next : server->node_next)
        if (server->counted.unheard && !server->stopping)
            return false;
    return true;
}

static void of_cluster(struct sample_page *page, struct cluster *cluster)
{
    const struct program *first = cluster->queue;
    sample(page, COUNTER, "flyt_events_total", "", "", (double)(cluster->events.next - 1));
    sample(page, GAUGE, "flyt_queue_length", "", "", (double)cluster->queue_length);
    sample(page, GAUGE, "flyt_queue_oldest_seconds", "", "", first ? (double)(loop_time() - first->since) / 1e6 : 0);
    sample(page, GAUGE, "flyt_db_waiting", "", "", (double)db_worker_waiting(cluster->db));
}

static void of_vm(struct sample_page *page, struct cluster *cluster, const struct vm *vm)
{
    const struct total *total = total_find(cluster, TOTAL_VM, vm->row.name);
    char labels[LABELS_SIZE];
    snprintf(labels, sizeof labels, "vm=\"%s\"", vm->row.name);
    if (total && all_heard(vm->servers, true))
        figures(page, "vm", labels, &total->all, total->sm_us);
}

static void of_node(struct sample_page *page, struct cluster *cluster, const struct node *node)
{
    const struct total *total = total_find(cluster, TOTAL_NODE, node->row.name);
    char labels[LABELS_SIZE];
    snprintf(labels, sizeof labels, "node=\"%s\"", node->row.name);
    if (total && all_heard(node->servers, false))
        figures(page, "node", labels, &total->all, total->sm_us);
}

static void of_gpu(struct sample_page *page, struct cluster *cluster, const struct gpu *gpu)
{
    const struct total *total = total_find(cluster, TOTAL_GPU, gpu->id);
    char labels[LABELS_SIZE];
    snprintf(labels, sizeof labels, "node=\"%s\",gpu=\"%s\"", gpu->node->row.name, gpu->id);
    if (total && all_heard(gpu->node->servers, false))
        figures(page, "gpu", labels, &total->all, total->sm_us);
}

static void of_server(struct sample_page *page, const struct server *server)
{
    char labels[LABELS_SIZE];
    if (server->counted.unheard)
        return;
    snprintf(labels, sizeof labels, "node=\"%s\",gpu=\"%s\",vm=\"%s\",server=\"%" PRIu64 "\"", server->row.node,
             server->gpu_count ? server->gpus[0]->id : "", server->row.vm, server->row.id);
    figures(page, "server", labels, &server->counted.all, server->counted.sm_us);
    call_times(page, labels, &server->counted.all);
}

/* Positions of the map from `after` on, until the page is full. *next: the position of the first that is left. */
static void fill(struct cluster *cluster, const char *of, struct sample_page *page, uint64_t after, uint64_t *next,
                 struct map *map)
{
    void *each;
    for (*next = after; page->count + MOST_OF_ONE <= ADMIN_MAX_SAMPLES && (each = map_at(map, (size_t)*next));
         ++*next) {
        if (strcmp(of, "vm") == 0)
            of_vm(page, cluster, each);
        else if (strcmp(of, "node") == 0)
            of_node(page, cluster, each);
        else if (strcmp(of, "gpu") == 0)
            of_gpu(page, cluster, each);
        else
            of_server(page, each);
    }
}

void admin_handle_counters(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_counters_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    const struct {
        const char *of;
        struct map *map;
    } kinds[] = {
        { "vm", &cluster->vms }, { "node", &cluster->nodes }, { "gpu", &cluster->gpus }, { "server", &cluster->servers }
    };
    admin_counters_result result = { .status = { CTL_OK, (char *)"" } };
    struct sample_page *page = calloc(1, sizeof *page);
    struct map *map = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(args->of, kinds[i].of) == 0)
            map = kinds[i].map;
    if (!page) {
        result.status = (ctl_status){ CTL_INTERNAL, (char *)"no memory" };
    } else if (map) {
        fill(cluster, args->of, page, args->after, &result.next, map);
        result.more = map_at(map, (size_t)result.next) != NULL;
    } else if (strcmp(args->of, "cluster") == 0) {
        of_cluster(page, cluster);
    } else {
        result.status = (ctl_status){ CTL_INVALID, (char *)"there are samples of cluster, node, gpu, vm and server" };
    }
    if (page) {
        result.samples.samples_len = page->count;
        result.samples.samples_val = page->samples;
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
                              .why = row->why };
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
    for (size_t i = 0; args->after == 0 && i < cluster->servers.count; i++)
        usage_accrue(cluster, map_at(&cluster->servers, i));
    size_t at = (size_t)args->after;
    for (; at < usage->count && result.rows.rows_len < CTL_MAX_PAGE; at++)
        if (is_wanted(&usage->rows[at]->row, args))
            usage_row(usage->rows[at], &rows[result.rows.rows_len++]);
    result.next = at;
    result.more = at < usage->count;
    call_reply(call, &result);
}
