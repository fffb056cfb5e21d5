/* metrics.c: see metrics.h. The table of names says what a metric means; docs/monitoring.md shows it. */
#include "control-managers/monitor/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_NAMES = 160, NAME_SIZE = 80, LABEL_SIZE = 300, LABELS_SIZE = 1400, RECENT = 256 };

/* A name that is not here is published without help, as a gauge, or as a counter if it ends in _total. */
static const struct {
    const char *name, *type, *help;
} known[] = {
    { "flyt_up", "gauge", "1: the component answers." },
    { "flyt_build_info", "gauge", "Always 1; the labels name the version." },
    { "flyt_start_time_seconds", "gauge", "When the cluster manager started." },
    { "flyt_db_up", "gauge", "1: the resource DB answers." },
    { "flyt_db_waiting", "gauge", "Changes that wait for the resource DB." },
    { "flyt_connections_unencrypted", "gauge", "Nodes and VMs that are connected without TLS." },
    { "flyt_events_total", "counter", "Events so far." },
    { "flyt_loop_held_seconds", "histogram",
      "How long something held the cluster manager's loop, which does one thing at a time." },
    { "flyt_loop_worked_seconds", "histogram",
      "Processor time that each of these took, which others on its machine do not lengthen." },
    { "flyt_loop_worked_most_seconds", "gauge", "The longest of them since the cluster manager began." },
    { "flyt_rpc_duration_seconds", "histogram",
      "How long the cluster manager is about a call, without what the call waits for." },
    { "flyt_db_apply_duration_seconds", "histogram", "How long the resource DB is about a batch of changes." },
    { "flyt_connections", "gauge", "Connections to the cluster manager; local: over a unix socket." },
    { "flyt_gpu_faults_total", "counter", "Faults that took a whole GPU." },
    { "flyt_server_restarts_total", "counter", "Crashed GPU servers of the node that were started anew." },
    { "flyt_queue_length", "gauge", "Programs that wait for a GPU." },
    { "flyt_queue_oldest_seconds", "gauge", "How long the first of them has waited." },
    { "flyt_queue_wait_seconds", "histogram", "How long programs waited until they started, or were refused." },
    { "flyt_server_start_duration_seconds", "histogram", "From a GPU server's placement until it runs." },
    { "flyt_placements_total", "counter", "GPU servers that were placed." },
    { "flyt_refusals_total", "counter", "Programs that were refused." },
    { "flyt_servers_ended_total", "counter", "GPU servers that ended; stopped: on purpose." },
    { "flyt_peers_refused_total", "counter", "Peers that were not let in." },
    { "flyt_certificate_expiry_timestamp_seconds", "gauge", "When the newest certificate of the peer ends." },
    { "flyt_node_info", "gauge", "Always 1; the labels describe the node." },
    { "flyt_node_up", "gauge", "1: the node's manager is connected and speaks." },
    { "flyt_node_drained", "gauge", "1: new programs go elsewhere." },
    { "flyt_node_last_heard_timestamp_seconds", "gauge", "When the node was heard last." },
    { "flyt_gpu_info", "gauge", "Always 1; the labels describe the GPU." },
    { "flyt_gpu_ready", "gauge", "1: the GPU is ready." },
    { "flyt_gpu_sms", "gauge", "SMs of the GPU." },
    { "flyt_gpu_sms_allocated", "gauge", "SMs that GPU servers were given." },
    { "flyt_gpu_memory_bytes", "gauge", "Memory that tenants may have." },
    { "flyt_gpu_memory_allocated_bytes", "gauge", "Memory that GPU servers were given." },
    { "flyt_gpu_servers", "gauge", "GPU servers on the GPU." },
    { "flyt_vm_connected", "gauge", "1: the VM's client manager is connected." },
    { "flyt_vm_sms_limit", "gauge", "SMs that the VM is entitled to." },
    { "flyt_vm_memory_limit_bytes", "gauge", "Memory that the VM is entitled to." },
    { "flyt_vm_sms_allocated", "gauge", "SMs that the VM's GPU servers were given." },
    { "flyt_vm_memory_used_bytes", "gauge", "Memory that the VM's programs hold." },
    { "flyt_gpu_memory_used_bytes", "gauge", "Memory that programs hold; of several GPUs of a server: the first." },
    { "flyt_program_info", "gauge", "Always 1; the labels describe the program." },
    { "flyt_program_position", "gauge", "Its place in the queue; 0: it does not wait." },
    { "flyt_program_since_timestamp_seconds", "gauge", "Since when it is in its state." },
    { "flyt_program_memory_bytes", "gauge", "Device memory that the workers hold which serve the program." },
    { "flyt_vm_servers", "gauge", "GPU servers of the VM." },
    { "flyt_vm_programs", "gauge", "Programs of the VM by state." },
    { "flyt_servers", "gauge", "GPU servers by state." },
    { "flyt_server_memory_used_bytes", "gauge", "Memory that the server's programs hold." },
    { "flyt_server_memory_limit_bytes", "gauge", "Memory that the server was given." },
    { "flyt_server_sms", "gauge", "SMs of each GPU that the server was given." },
    { "flyt_server_workers", "gauge", "Processes that serve a program." },
    { "flyt_server_restarts", "gauge", "How often the server's process was started anew." },
    { "flyt_server_call_duration_seconds", "histogram",
      "How long the server is about a call that is answered; one in 16." },
};

static const struct {
    const char *end, *help;
} counters[] = {
    { "_calls_total", "Calls that were served." },
    { "_launches_total", "Kernels that were launched." },
    { "_copy_bytes_total", "Bytes copied to the device (in), from it (out), and within its reach (between)." },
    { "_errors_total", "Calls that ended with an error of CUDA." },
    { "_busy_seconds_total", "Time in which work was under way, summed over the programs." },
    { "_sm_seconds_total", "SMs that were given times the seconds for which they were." },
};

struct metric_family {
    char name[NAME_SIZE];
    FILE *file;
    char *text;
    size_t size;
};
struct metrics {
    struct metric_family families[MOST_NAMES];
    size_t count;
    /* The last names that were added, by their hash: most samples come in a few names, again and again. */
    struct {
        char name[NAME_SIZE];
        struct metric_family *family;
    } recent[RECENT];
};

struct metrics *metrics_create(void) { return calloc(1, sizeof(struct metrics)); }

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static void head(struct metric_family *family)
{
    const char *type = ends_with(family->name, "_total") ? "counter" : "gauge", *help = "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, family->name) == 0)
            type = known[i].type, help = known[i].help;
    for (size_t i = 0; !*help && i < sizeof counters / sizeof *counters; i++)
        if (ends_with(family->name, counters[i].end))
            help = counters[i].help;
    if (strncmp(family->name, "flyt_moves_", 11) == 0)
        help = "Programs that move, are suspended, resumed or saved, by what became of it; bytes and outage of them.";
    if (*help)
        fprintf(family->file, "# HELP %s %s\n", family->name, help);
    fprintf(family->file, "# TYPE %s %s\n", family->name, type);
}

/* The parts of a histogram belong to its name. */
static struct metric_family *family_find(struct metrics *metrics, const char *name)
{
    static const char *const parts[] = { "_bucket", "_sum", "_count" };
    char base[NAME_SIZE];
    snprintf(base, sizeof base, "%s", name);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (ends_with(base, parts[i]))
            base[strlen(base) - strlen(parts[i])] = '\0';
    for (size_t i = 0; i < metrics->count; i++)
        if (strcmp(metrics->families[i].name, base) == 0)
            return &metrics->families[i];
    if (metrics->count == MOST_NAMES)
        return NULL;
    struct metric_family *family = &metrics->families[metrics->count];
    snprintf(family->name, sizeof family->name, "%s", base);
    family->file = open_memstream(&family->text, &family->size);
    if (!family->file)
        return NULL;
    metrics->count++;
    head(family);
    return family;
}

static struct metric_family *family_of(struct metrics *metrics, const char *name)
{
    uint32_t hash = 2166136261;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619;
    size_t place = hash % RECENT;
    if (strcmp(metrics->recent[place].name, name) != 0) {
        metrics->recent[place].family = family_find(metrics, name);
        snprintf(metrics->recent[place].name, NAME_SIZE, "%s", name);
    }
    return metrics->recent[place].family;
}

void metrics_add(struct metrics *metrics, const char *name, const char *labels, double value)
{
    struct metric_family *family = family_of(metrics, name);
    if (!family)
        return;
    const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    /* Most values are whole, and those are written much faster. */
    if (value > -1e15 && value < 1e15 && (double)(int64_t)value == value)
        fprintf(family->file, "%s%s%s%s %" PRId64 "\n", name, open, labels, close, (int64_t)value);
    else
        fprintf(family->file, "%s%s%s%s %.17g\n", name, open, labels, close, value);
}

/* A value of a label, with what has to be escaped; gives buffer. */
static const char *metrics_label(const char *value, char *buffer, size_t size)
{
    size_t at = 0;
    for (; value && *value && at + 3 < size; value++) {
        if (*value == '"' || *value == '\\')
            buffer[at++] = '\\';
        buffer[at++] = *value == '\n' ? ' ' : *value;
    }
    buffer[at] = '\0';
    return buffer;
}

char *metrics_end(struct metrics *metrics, size_t *size)
{
    char *all = NULL;
    FILE *file = open_memstream(&all, size);
    for (size_t i = 0; i < metrics->count; i++) {
        fclose(metrics->families[i].file);
        if (file && metrics->families[i].text)
            fwrite(metrics->families[i].text, 1, metrics->families[i].size, file);
        free(metrics->families[i].text);
    }
    free(metrics);
    if (file)
        fclose(file);
    return all;
}

void metrics_drop(struct metrics *metrics)
{
    size_t size;
    if (metrics)
        free(metrics_end(metrics, &size));
}

/* ---- rows ---- */

static double number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
}

static const char *label(const json_t *row, const char *key, char buffer[LABEL_SIZE])
{
    const json_t *value = json_object_get(row, key);
    if (json_is_integer(value)) {
        snprintf(buffer, LABEL_SIZE, "%lld", (long long)json_integer_value(value));
        return buffer;
    }
    return metrics_label(json_string_value(value), buffer, LABEL_SIZE);
}

static bool is(const json_t *row, const char *key, const char *value)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text && strcmp(text, value) == 0;
}

static double seconds(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    struct tm parts = { 0 };
    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) ? (double)timegm(&parts) : 0;
}

void metrics_of_components(struct metrics *metrics, bool manager_answers)
{
    metrics_add(metrics, "flyt_up", "component=\"monitor\"", 1);
    metrics_add(metrics, "flyt_up", "component=\"cluster-manager\"", manager_answers);
}

void metrics_of_status(struct metrics *metrics, const json_t *status)
{
    char text[LABEL_SIZE], labels[LABELS_SIZE];
    snprintf(labels, sizeof labels, "component=\"cluster-manager\",version=\"%s\"", label(status, "software", text));
    metrics_add(metrics, "flyt_build_info", labels, 1);
    metrics_add(metrics, "flyt_start_time_seconds", "", seconds(status, "started"));
    snprintf(labels, sizeof labels, "kind=\"%s\"", label(status, "db", text));
    metrics_add(metrics, "flyt_db_up", labels, number(status, "db_up"));
    metrics_add(metrics, "flyt_connections_unencrypted", "", number(status, "unencrypted"));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)status, key, value)
    {
        snprintf(labels, sizeof labels, "flyt_%s", key);
        if (strncmp(key, "moves_", 6) == 0)
            metrics_add(metrics, labels, "", number(status, key));
    }
}

static void of_gpu(struct metrics *metrics, const json_t *node, const json_t *gpu)
{
    static const struct {
        const char *name, *key;
    } values[] = { { "flyt_gpu_sms", "sms" },
                   { "flyt_gpu_sms_allocated", "sms_used" },
                   { "flyt_gpu_memory_bytes", "memory" },
                   { "flyt_gpu_memory_allocated_bytes", "memory_used" },
                   { "flyt_gpu_servers", "servers" } };
    char name[LABEL_SIZE], id[LABEL_SIZE], product[LABEL_SIZE], labels[LABELS_SIZE];
    snprintf(labels, sizeof labels, "node=\"%s\",gpu=\"%s\",index=\"%.0f\",product=\"%s\"", label(node, "name", name),
             label(gpu, "id", id), number(gpu, "index"), label(gpu, "product", product));
    metrics_add(metrics, "flyt_gpu_info", labels, 1);
    snprintf(labels, sizeof labels, "node=\"%s\",gpu=\"%s\"", name, id);
    metrics_add(metrics, "flyt_gpu_ready", labels, is(gpu, "state", "ready") && is(node, "state", "up"));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        metrics_add(metrics, values[i].name, labels, number(gpu, values[i].key));
}

static void of_node(struct metrics *metrics, const json_t *node)
{
    char name[LABEL_SIZE], host[LABEL_SIZE], version[LABEL_SIZE], labels[LABELS_SIZE];
    size_t i;
    json_t *gpu;
    snprintf(labels, sizeof labels, "node=\"%s\",host=\"%s\",version=\"%s\"", label(node, "name", name),
             label(node, "host", host), label(node, "software", version));
    metrics_add(metrics, "flyt_node_info", labels, 1);
    snprintf(labels, sizeof labels, "node=\"%s\"", name);
    metrics_add(metrics, "flyt_node_up", labels, is(node, "state", "up"));
    metrics_add(metrics, "flyt_node_drained", labels, number(node, "drained"));
    metrics_add(metrics, "flyt_node_last_heard_timestamp_seconds", labels, seconds(node, "last_heard"));
    json_array_foreach(json_object_get(node, "gpus"), i, gpu) of_gpu(metrics, node, gpu);
}

static void of_vm(struct metrics *metrics, const json_t *vm)
{
    char name[LABEL_SIZE], labels[LABELS_SIZE];
    snprintf(labels, sizeof labels, "vm=\"%s\"", label(vm, "name", name));
    metrics_add(metrics, "flyt_vm_connected", labels, number(vm, "connected"));
    metrics_add(metrics, "flyt_vm_sms_limit", labels, number(vm, "sms"));
    metrics_add(metrics, "flyt_vm_memory_limit_bytes", labels, number(vm, "memory"));
    metrics_add(metrics, "flyt_vm_servers", labels, number(vm, "servers"));
}

/* ---- what has been counted ---- */

static void add_work(struct metrics *metrics, const char *of, const char *labels, const struct monitor_mirror *mirror,
                     const admin_work *work)
{
    const ctl_figures *all = &work->figures;
    const struct {
        const char *name, *direction;
        double value;
    } rows[] = {
        { "calls_total", "", (double)all->calls },
        { "launches_total", "", (double)all->launches },
        { "copy_bytes_total", "in", (double)all->bytes_in },
        { "copy_bytes_total", "out", (double)all->bytes_out },
        { "copy_bytes_total", "between", (double)all->bytes_between },
        { "errors_total", "", (double)all->errors },
        { "busy_seconds_total", "", (double)all->busy_us / 1e6 },
        { "sm_seconds_total", "", mirror_sm_seconds(mirror, work) },
    };
    char name[NAME_SIZE], more[LABELS_SIZE + 32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "flyt_%s_%s", of, rows[i].name);
        snprintf(more, sizeof more, "%s,direction=\"%s\"", labels, rows[i].direction);
        metrics_add(metrics, name, *rows[i].direction ? more : labels, rows[i].value);
    }
}

/* A histogram as Prometheus has it: each bucket also counts what is in those before it. */
static void add_call_times(struct metrics *metrics, const char *labels, const ctl_figures *all)
{
    char more[LABELS_SIZE + 32];
    uint64_t count = 0;
    for (int i = 0; i < CTL_TIMES; i++) {
        count += all->times[i];
        if (i + 1 < CTL_TIMES)
            snprintf(more, sizeof more, "%s,le=\"%g\"", labels, 4e-6 * (double)(1u << i));
        else
            snprintf(more, sizeof more, "%s,le=\"+Inf\"", labels);
        metrics_add(metrics, "flyt_server_call_duration_seconds_bucket", more, (double)count);
    }
    metrics_add(metrics, "flyt_server_call_duration_seconds_sum", labels, (double)all->timed_us / 1e6);
    metrics_add(metrics, "flyt_server_call_duration_seconds_count", labels, (double)count);
}

static void of_total(struct metrics *metrics, const struct monitor_mirror *mirror, const struct mirrored *total)
{
    static const char *const of[] = { [ADMIN_TOTAL_VM] = "vm", [ADMIN_TOTAL_NODE] = "node", [ADMIN_TOTAL_GPU] = "gpu" };
    char labels[LABELS_SIZE];
    if (!total->work.known || total->of > ADMIN_TOTAL_GPU)
        return;
    if (total->of == ADMIN_TOTAL_GPU)
        snprintf(labels, sizeof labels, "node=\"%s\",gpu=\"%s\"", total->node, total->name);
    else
        snprintf(labels, sizeof labels, "%s=\"%s\"", of[total->of], total->name);
    add_work(metrics, of[total->of], labels, mirror, &total->work);
}

/* So many rows have each value of the keys. */
static void count_rows(struct metrics *metrics, const char *name, struct monitor_mirror *mirror, admin_news_kind kind,
                       const char *of, const char *key)
{
    json_t *counts = json_object(), *count;
    const char *labels;
    char text[LABEL_SIZE], first[LABEL_SIZE], both[LABELS_SIZE];
    const struct mirrored *one;
    for (size_t i = 0; (one = map_at(&mirror->tables[kind], i)); i++) {
        label(one->row, key, text);
        if (of)
            snprintf(both, sizeof both, "%s=\"%s\",%s=\"%s\"", of, label(one->row, of, first), key, text);
        else
            snprintf(both, sizeof both, "%s=\"%s\"", key, text);
        json_object_set_new(counts, both, json_integer(json_integer_value(json_object_get(counts, both)) + 1));
    }
    json_object_foreach(counts, labels, count) metrics_add(metrics, name, labels, (double)json_integer_value(count));
    json_decref(counts);
}

/* The sum of a key of all servers, or of its product with another key, for each value of the label's key. */
static void sum_servers(struct metrics *metrics, const char *name, struct monitor_mirror *mirror, const char *of[2],
                        const char *key, const char *times)
{
    json_t *sums = json_object(), *sum;
    const char *labels;
    char first[LABEL_SIZE], second[LABEL_SIZE], both[LABELS_SIZE];
    const struct mirrored *one;
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_SERVER], i)); i++) {
        double value = number(one->row, key) * (times ? number(one->row, times) : 1);
        if (of[1])
            snprintf(both, sizeof both, "%s=\"%s\",%s=\"%s\"", of[0], label(one->row, of[0], first), of[1],
                     label(one->row, of[1], second));
        else
            snprintf(both, sizeof both, "%s=\"%s\"", of[0], label(one->row, of[0], first));
        json_object_set_new(sums, both, json_real(value + json_number_value(json_object_get(sums, both))));
    }
    json_object_foreach(sums, labels, sum) metrics_add(metrics, name, labels, json_number_value(sum));
    json_decref(sums);
}

void metrics_of_mirror(struct metrics *metrics, struct monitor_mirror *mirror)
{
    const struct mirrored *one;
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_NODE], i)); i++)
        of_node(metrics, one->row);
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_VM], i)); i++)
        of_vm(metrics, one->row);
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_TOTAL], i)); i++)
        of_total(metrics, mirror, one);
    count_rows(metrics, "flyt_vm_programs", mirror, ADMIN_NEWS_PROGRAM, "vm", "state");
    count_rows(metrics, "flyt_servers", mirror, ADMIN_NEWS_SERVER, NULL, "state");
    const char *vm[2] = { "vm" }, *gpu[2] = { "node", "gpu" };
    sum_servers(metrics, "flyt_vm_sms_allocated", mirror, vm, "sms", "gpu_count");
    sum_servers(metrics, "flyt_vm_memory_used_bytes", mirror, vm, "memory_used", NULL);
    sum_servers(metrics, "flyt_gpu_memory_used_bytes", mirror, gpu, "memory_used", NULL);
}

void metrics_of_servers(struct metrics *metrics, struct monitor_mirror *mirror)
{
    static const struct {
        const char *name, *key;
    } values[] = { { "flyt_server_memory_used_bytes", "memory_used" },
                   { "flyt_server_memory_limit_bytes", "memory" },
                   { "flyt_server_sms", "sms" },
                   { "flyt_server_workers", "workers" },
                   { "flyt_server_restarts", "restarts" } };
    char node[LABEL_SIZE], gpu[LABEL_SIZE], vm[LABEL_SIZE], id[LABEL_SIZE], labels[LABELS_SIZE];
    const struct mirrored *one;
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_SERVER], i)); i++) {
        snprintf(labels, sizeof labels, "node=\"%s\",gpu=\"%s\",vm=\"%s\",server=\"%s\"", label(one->row, "node", node),
                 label(one->row, "gpu", gpu), label(one->row, "vm", vm), label(one->row, "id", id));
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            metrics_add(metrics, values[k].name, labels, number(one->row, values[k].key));
        if (!one->work.known)
            continue;
        add_work(metrics, "server", labels, mirror, &one->work);
        add_call_times(metrics, labels, &one->work.figures);
    }
}

void metrics_of_programs(struct metrics *metrics, struct monitor_mirror *mirror)
{
    char vm[LABEL_SIZE], server[LABEL_SIZE], id[LABEL_SIZE], state[LABEL_SIZE], labels[LABELS_SIZE];
    const struct mirrored *one;
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_PROGRAM], i)); i++) {
        snprintf(labels, sizeof labels, "vm=\"%s\",server=\"%s\",program=\"%s\"", label(one->row, "vm", vm),
                 label(one->row, "server", server), label(one->row, "id", id));
        metrics_add(metrics, "flyt_program_position", labels, number(one->row, "position"));
        metrics_add(metrics, "flyt_program_since_timestamp_seconds", labels, seconds(one->row, "since"));
        size_t at = strlen(labels);
        snprintf(labels + at, sizeof labels - at, ",state=\"%s\"", label(one->row, "state", state));
        metrics_add(metrics, "flyt_program_info", labels, 1);
    }
}
