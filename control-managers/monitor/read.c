/* read.c: asks the cluster manager, and makes the texts that the web side gives out. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/common/link.h"
#include "control-managers/common/tls.h"
#include "control-managers/monitor/history.h"
#include "control-managers/monitor/metrics.h"
#include "control-managers/monitor/mirror.h"
#include "control-managers/monitor/monitor.h"
#include "control-managers/monitor/streams.h"
#include "control-managers/rows/rows.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"

/* AWAY: so many intervals without an answer, within the limits, and the cluster manager is away. */
enum {
    CALL_MS = 10000,
    EVENTS_MS = 1000,
    OLD_EVENTS = 100,
    RETRY_MS = 5000,
    AWAY_INTERVALS = 3,
    LEAST_AWAY_MS = 5000,
    MOST_AWAY_MS = 15000
};

struct cluster_reader {
    struct monitor *monitor;
    struct loop *loop;
    struct link *link;
    char error[EXPLAIN_SIZE];
    bool said; /* that the cluster manager is away */
    struct history history;
    struct monitor_mirror mirror;
};

static volatile sig_atomic_t ended, reload;

static void on_signal(int number)
{
    if (number == SIGHUP)
        reload = 1;
    else
        ended = 1;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool monitor_away(const struct monitor *monitor, uint64_t *age_seconds)
{
    uint64_t now = now_ms(), most = (uint64_t)AWAY_INTERVALS * monitor->interval_ms;
    most = most < LEAST_AWAY_MS ? LEAST_AWAY_MS : most > MOST_AWAY_MS ? MOST_AWAY_MS : most;
    *age_seconds = (now - monitor->read_ms) / 1000;
    return monitor->lost || now - monitor->heard_ms > most;
}

/* ---- the connection ---- */

static int load_tls(const struct monitor *monitor, struct tls_context **tls, char *error)
{
    char ca[1100], certificate[1100], key[1100];
    *tls = NULL;
    if (!monitor->tls_folder)
        return 0;
    snprintf(ca, sizeof ca, "%s/ca.crt", monitor->tls_folder);
    snprintf(certificate, sizeof certificate, "%s/%s.crt", monitor->tls_folder, monitor->name);
    snprintf(key, sizeof key, "%s/%s.key", monitor->tls_folder, monitor->name);
    const struct tls_files files = { .ca = ca, .certificate = certificate, .key = key };
    return tls_context_create(&files, tls, error);
}

static void disconnect(struct cluster_reader *reader)
{
    if (reader->link)
        link_close(reader->link);
    reader->link = NULL;
}

static bool connect_again(struct cluster_reader *reader)
{
    struct monitor *monitor = reader->monitor;
    const char *const uris[] = { monitor->manager, NULL };
    char software[VERSION_ROOM + 16];
    struct tls_context *tls;
    if (reader->link)
        return true;
    if (load_tls(monitor, &tls, reader->error) != 0)
        return false;
    snprintf(software, sizeof software, "flyt-monitor %s", flyt_version);
    const struct link_options options = {
        .uris = uris, .tls = tls, .role = CTL_ROLE_ADMIN, .name = monitor->name, .software = software, .once = true
    };
    int failure = link_open(reader->loop, &options, &reader->link, reader->error);
    if (!failure && link_wait_up(reader->link, CALL_MS, reader->error) != 0) {
        disconnect(reader);
        failure = -1;
    }
    tls_context_release(tls);
    return failure == 0;
}

/* For rows_list. Only calls that read are made here: this is all that the monitor can do in the cluster. */
static int ask(void *context, uint32_t procedure, const void *args, void *result)
{
    struct cluster_reader *reader = context;
    int code = link_call_wait(reader->link, procedure, args, CALL_MS, result, reader->error);
    if (code)
        return code;
    pthread_mutex_lock(&reader->monitor->lock);
    reader->monitor->heard_ms = now_ms();
    pthread_mutex_unlock(&reader->monitor->lock);
    const ctl_status *status = result;
    if (status->code == CTL_OK)
        return 0;
    snprintf(reader->error, sizeof reader->error, "%s", status->text);
    protocol_free(protocol_procedures[procedure].result, result);
    return -EIO;
}

/* ---- texts ---- */

/* Takes it over. NULL, for want of memory: the old one stays. */
static void put(struct monitor *monitor, enum text_kind kind, struct monitor_text *text)
{
    if (!text)
        return;
    pthread_mutex_lock(&monitor->lock);
    struct monitor_text *old = monitor->texts[kind];
    monitor->texts[kind] = text;
    pthread_mutex_unlock(&monitor->lock);
    text_release(old);
}

/* The JSON stays the caller's. */
static void put_json(struct monitor *monitor, enum text_kind kind, const json_t *json)
{
    char *bytes = json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER);
    put(monitor, kind, text_make(bytes, bytes ? strlen(bytes) : 0));
}

/* The cluster manager's own samples, page by page. */
static int add_counters(struct cluster_reader *reader, struct metrics *metrics, const char *of)
{
    admin_counters_args args = { .of = (char *)(uintptr_t)of };
    for (bool more = true; more;) {
        admin_counters_result result;
        int code = ask(reader, ADMIN_COUNTERS, &args, &result);
        if (code)
            return code;
        for (unsigned i = 0; i < result.samples.samples_len; i++)
            metrics_add(metrics, result.samples.samples_val[i].name, result.samples.samples_val[i].labels,
                        result.samples.samples_val[i].value);
        more = result.more && result.next > args.after;
        args.after = result.next;
        protocol_free((xdrproc_t)xdr_admin_counters_result, &result);
    }
    return 0;
}

enum { METRICS = TEXT_PROGRAM_METRICS + 1 };

static void put_history(struct cluster_reader *reader, const json_t *status)
{
    json_t *points = history_add(&reader->history, status, &reader->mirror);
    put_json(reader->monitor, TEXT_HISTORY, points);
    json_decref(points);
}

static void put_metrics(struct monitor *monitor, enum text_kind kind, struct metrics *metrics)
{
    size_t size = 0;
    char *bytes = metrics_end(metrics, &size);
    put(monitor, kind, text_make(bytes, size));
}

/* ---- what has changed ---- */

/* Until nothing is left that this side does not know. */
static int read_news(struct cluster_reader *reader)
{
    struct monitor_mirror *mirror = &reader->mirror;
    bool look = true, more = true;
    while (more) {
        const admin_follow_args args = { mirror->run, mirror->after, mirror->known, look };
        admin_follow_result result;
        int code = ask(reader, ADMIN_FOLLOW, &args, &result);
        if (code)
            return code;
        look = !mirror_take(mirror, &result);
        more = look || result.more;
        protocol_free((xdrproc_t)xdr_admin_follow_result, &result);
    }
    return 0;
}

static void put_table(struct cluster_reader *reader, admin_news_kind kind, enum text_kind text)
{
    struct map *table = &reader->mirror.tables[kind];
    struct text_rows *rows = text_rows_begin();
    const struct mirrored *one;
    for (size_t i = 0; rows && (one = map_at(table, i)); i++)
        text_rows_add(rows, one->text, one->vm);
    if (rows)
        put(reader->monitor, text, text_rows_end(rows));
}

static void put_gpus(struct cluster_reader *reader)
{
    json_t *nodes = json_array();
    const struct mirrored *one;
    for (size_t i = 0; (one = map_at(&reader->mirror.tables[ADMIN_NEWS_NODE], i)); i++)
        json_array_append(nodes, one->row);
    json_t *gpus = rows_gpus(nodes);
    put_json(reader->monitor, TEXT_GPUS, gpus);
    json_decref(gpus);
    json_decref(nodes);
}

static void put_tables(struct cluster_reader *reader)
{
    static const struct {
        admin_news_kind kind;
        enum text_kind text;
    } tables[] = { { ADMIN_NEWS_NODE, TEXT_NODES },
                   { ADMIN_NEWS_VM, TEXT_VMS },
                   { ADMIN_NEWS_SERVER, TEXT_SERVERS },
                   { ADMIN_NEWS_PROGRAM, TEXT_PROGRAMS } };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (reader->mirror.changed[tables[i].kind] || !reader->monitor->texts[tables[i].text])
            put_table(reader, tables[i].kind, tables[i].text);
    if (reader->mirror.changed[ADMIN_NEWS_NODE] || !reader->monitor->texts[TEXT_GPUS])
        put_gpus(reader);
    mirror_settle(&reader->mirror);
}

/* Moves are few: they are read whole. */
static int read_moves(struct cluster_reader *reader)
{
    const struct rows_asker asker = { .ask = ask, .context = reader };
    json_t *moves, *row;
    size_t i;
    int code = rows_list(&asker, ROWS_MOVES, &(struct rows_query){ .only = NULL }, &moves);
    struct text_rows *rows = code ? NULL : text_rows_begin();
    if (!rows)
        return code;
    json_array_foreach(moves, i, row)
    {
        char *text = json_dumps(row, JSON_COMPACT | JSON_PRESERVE_ORDER);
        const char *vm = json_string_value(json_object_get(row, "vm"));
        if (text)
            text_rows_add(rows, text, vm ? vm : "");
        free(text);
    }
    json_decref(moves);
    put(reader->monitor, TEXT_MOVES, text_rows_end(rows));
    return 0;
}

/* ---- events ---- */

static void keep_event(struct monitor *monitor, const admin_event *event)
{
    json_t *row = row_event(event);
    char *text = json_dumps(row, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(row);
    pthread_mutex_lock(&monitor->lock);
    struct event_text *at = &monitor->events[event->number % EVENTS_KEPT];
    free(at->text);
    *at = (struct event_text){ .number = event->number, .text = text };
    snprintf(at->vm, sizeof at->vm, "%s", event->vm);
    monitor->newest = event->number;
    streams_news(event->vm);
    pthread_mutex_unlock(&monitor->lock);
}

/* Asks for those behind the newest one, and waits for them for so long. */
static int take_events(struct cluster_reader *reader, unsigned wait_ms)
{
    admin_events_args args = { .after = reader->monitor->newest, .wait_ms = wait_ms };
    admin_events_result result;
    int code = ask(reader, ADMIN_EVENTS, &args, &result);
    if (code)
        return code;
    for (unsigned i = 0; i < result.events.events_len; i++)
        keep_event(reader->monitor, &result.events.events_val[i]);
    protocol_free((xdrproc_t)xdr_admin_events_result, &result);
    return 0;
}

/* newest: of the cluster manager. When this monitor begins, the last ones before are taken, so that the page is not
   empty. The number of the newest is less than before where the cluster manager has lost some, or has another DB. */
static int begin_events(struct cluster_reader *reader, uint64_t newest)
{
    struct monitor *monitor = reader->monitor;
    const bool begins = !monitor->newest;
    int code = 0;
    if (!begins && newest >= monitor->newest)
        return 0;
    streams_renumber(monitor, !begins ? newest : newest > OLD_EVENTS ? newest - OLD_EVENTS : 0);
    for (uint64_t before = UINT64_MAX; !code && monitor->newest < newest && monitor->newest != before;) {
        before = monitor->newest;
        code = take_events(reader, 0);
    }
    return code;
}

/* ---- all of it ---- */

/* out: of TEXT_METRICS, TEXT_SERVER_METRICS and TEXT_PROGRAM_METRICS. */
static int read_all(struct cluster_reader *reader, struct metrics *out[METRICS])
{
    admin_status_result status;
    int code = ask(reader, ADMIN_STATUS, NULL, &status);
    if (code)
        return code;
    json_t *row = row_status(&status);
    const uint64_t last_event = status.last_event;
    protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    put_json(reader->monitor, TEXT_STATUS, row);
    metrics_of_status(out[TEXT_METRICS], row);
    code = begin_events(reader, last_event);
    code = code ? code : add_counters(reader, out[TEXT_METRICS], "cluster");
    code = code ? code : add_counters(reader, out[TEXT_METRICS], "certificates");
    code = code ? code : read_news(reader);
    code = code ? code : read_moves(reader);
    if (!code)
        put_history(reader, row);
    json_decref(row);
    if (code)
        return code;
    put_tables(reader);
    metrics_of_mirror(out[TEXT_METRICS], &reader->mirror);
    metrics_of_servers(out[TEXT_SERVER_METRICS], &reader->mirror);
    if (!reader->monitor->programs)
        return 0;
    metrics_of_programs(out[TEXT_PROGRAM_METRICS], &reader->mirror);
    return add_counters(reader, out[TEXT_PROGRAM_METRICS], "programs");
}

static void note_reading(struct monitor *monitor, bool good)
{
    pthread_mutex_lock(&monitor->lock);
    monitor->lost = !good;
    if (good)
        monitor->read_ms = now_ms();
    pthread_mutex_unlock(&monitor->lock);
}

static bool make_metrics(struct metrics *out[METRICS])
{
    bool good = true;
    for (int i = 0; i < METRICS; i++)
        good = (out[i] = metrics_create()) && good;
    return good;
}

static void put_all_metrics(struct monitor *monitor, struct metrics *out[METRICS])
{
    for (int i = 0; i < METRICS; i++)
        if (out[i])
            put_metrics(monitor, (enum text_kind)i, out[i]);
}

/* Whatever comes of it, the metrics say whether the cluster manager answered. */
static void read_once(struct cluster_reader *reader)
{
    struct metrics *out[METRICS];
    bool made = make_metrics(out), good = made && connect_again(reader) && read_all(reader, out) == 0;
    if (made && !good) { /* half of it would look as if the rest had gone */
        for (int i = 0; i < METRICS; i++)
            metrics_drop(out[i]);
        make_metrics(out);
        disconnect(reader);
        if (!reader->said)
            log_warning("event=manager-away why=\"%s\": it is asked again", reader->error);
    }
    reader->said = !good;
    note_reading(reader->monitor, good);
    if (out[TEXT_METRICS])
        metrics_of_components(out[TEXT_METRICS], good);
    put_all_metrics(reader->monitor, out);
}

/* ---- events as they come ---- */

/* Waits for events, a second at most. */
static void read_events(struct cluster_reader *reader)
{
    if (reader->link && take_events(reader, EVENTS_MS) == 0)
        return;
    disconnect(reader);
    nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
}

int monitor_read(struct monitor *monitor)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct cluster_reader reader = { .monitor = monitor, .loop = loop_create() };
    const bool ready = history_begin(&reader.history) && reader.loop;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    for (uint64_t due = 0; ready && !ended;) {
        if (reload)
            web_reload(monitor);
        reload = 0;
        if (now_ms() >= due) {
            read_once(&reader);
            due = now_ms() + monitor->interval_ms;
        }
        read_events(&reader);
        if (!reader.link && due > now_ms() + RETRY_MS)
            due = now_ms() + RETRY_MS;
    }
    disconnect(&reader);
    if (reader.loop)
        loop_destroy(reader.loop);
    history_end(&reader.history);
    mirror_forget(&reader.mirror);
    return ready ? 0 : 1;
}
