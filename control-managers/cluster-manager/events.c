/*
 * events.c: what happened, for people: a line in the log, a row in the DB, and the ring that `flytctl events` reads.
 * Strings are cleaned before they come here (protocol.c) or are our own.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/log.h"

enum { TRIM_EVERY = 256 };
/* Events about one VM: at once, and per second from then on. So a VM that asks without end fills neither log nor
   history. */
enum { VM_EVENTS = 500, VM_EVENTS_PER_SECOND = 5, REFUSALS = 100, REFUSALS_PER_SECOND = 1 };

bool rate_passes(struct rate *rate, uint32_t burst, uint32_t per_second)
{
    int64_t now = loop_time(), step = 1000000 / per_second, steps = (now - rate->since) / step;
    if (steps < 0 || steps >= rate->used) {
        rate->used = 0;
        rate->since = now;
    } else {
        rate->used -= (uint32_t)steps;
        rate->since += steps * step;
    }
    if (rate->used >= burst)
        return false;
    rate->used++;
    return true;
}

/* An item of a log line, "" where it does not apply. */
static void item(char *line, size_t size, const char *name, const char *value)
{
    char text[256];
    size_t at = strlen(line);
    if (value && *value)
        snprintf(line + at, size - at, " %s=%s", name, log_value(text, sizeof text, value));
}

static void item_id(char *line, size_t size, const char *name, uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    item(line, size, name, id ? text : "");
}

/* ---- the audit trail ---- */

/* What administrators did, and who was refused. */
static bool is_audited(const char *kind)
{
    static const char *const kinds[] = { "change-failed",   "change-unknown", "command-refused", "key-changed",
                                         "key-retired",     "manager-started", "move-begun",     "move-cancelled",
                                         "move-done",       "move-failed",    "node-added",      "node-drained",
                                         "node-removed",    "node-undrained", "peer-cut-off",    "peer-refused",
                                         "program-killed",  "program-resumed", "program-saved",
                                         "program-suspended", "reload-refused", "reloaded",      "secrets-exported",
                                         "server-resized", "server-stopped",
                                         "vm-added",        "vm-changed",     "vm-removed" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

/* A line of JSON: each byte of a text or name takes six at most. */
enum { AUDIT_LINE = 6 * (3 * DB_TEXT_SIZE + DB_HOST_SIZE + WHO_SIZE) + 2048 };

static void member(char line[AUDIT_LINE], const char *name, const char *value)
{
    size_t at = strlen(line);
    if (!*value)
        return;
    at += (size_t)snprintf(line + at, AUDIT_LINE - at, "%s\"%s\":\"", at > 1 ? "," : "", name);
    for (const unsigned char *c = (const unsigned char *)value; *c; c++)
        at += (size_t)snprintf(line + at, AUDIT_LINE - at,
                               *c < ' ' ? "\\u%04x" : *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    snprintf(line + at, AUDIT_LINE - at, "\"");
}

static void member_id(char line[AUDIT_LINE], const char *name, uint64_t id)
{
    size_t at = strlen(line);
    if (id)
        snprintf(line + at, AUDIT_LINE - at, ",\"%s\":%llu", name, (unsigned long long)id);
}

static const char *result_of(const char *kind)
{
    size_t length = strlen(kind);
    return length > 8 && strcmp(kind + length - 8, "-refused") == 0   ? "refused"
           : length > 7 && strcmp(kind + length - 7, "-failed") == 0  ? "failed"
           : length > 8 && strcmp(kind + length - 8, "-unknown") == 0 ? "unknown"
                                                                      : "done";
}

/* Opened each time, so that it can be moved away. docs/json/audit.schema.json describes a line. */
static void audit(const struct cluster *cluster, const struct db_event *event, const struct event_about *about)
{
    static struct rate refusals;
    static bool failed;
    char when[32], line[AUDIT_LINE] = "{";
    time_t seconds = (time_t)(event->time / 1000000);
    struct tm parts;
    if (!*cluster->values->audit || !is_audited(event->kind) ||
        (strcmp(event->kind, "peer-refused") == 0 && !rate_passes(&refusals, REFUSALS, REFUSALS_PER_SECOND)))
        return;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
    member(line, "time", when);
    member(line, "event", event->kind);
    member(line, "result", result_of(event->kind));
    member(line, "who", about && about->by ? about->by : "");
    member(line, "command", about && about->command ? about->command : "");
    member(line, "action", about && about->action ? about->action : "");
    member(line, "vm", event->vm);
    member(line, "node", event->node);
    member_id(line, "server", event->server);
    member_id(line, "program", event->program);
    member_id(line, "move", about ? about->move : 0);
    member(line, "before", about && about->before ? about->before : "");
    member(line, "after", about && about->after ? about->after : "");
    member(line, "text", event->text);
    snprintf(line + strlen(line), sizeof line - strlen(line), "}\n");
    int fd = open(cluster->values->audit, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    bool written = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line);
    if (!written && !failed)
        log_error("event=audit-failed path=%s why=\"%s\": what administrators do is not recorded there",
                  cluster->values->audit, strerror(errno));
    failed = !written;
    if (fd >= 0)
        close(fd);
}

/* Whether an event about a VM is told. */
static bool is_told(struct cluster *cluster, const char *kind, const struct event_about *about, uint32_t *untold)
{
    struct vm *vm = about && about->vm && !is_audited(kind) ? map_get(&cluster->vms, about->vm) : NULL;
    if (!vm)
        return true;
    if (!rate_passes(&vm->told, VM_EVENTS, VM_EVENTS_PER_SECOND)) {
        vm->untold++;
        return false;
    }
    *untold = vm->untold;
    vm->untold = 0;
    return true;
}

static void write_log(const struct db_event *event)
{
    char line[512] = "";
    item(line, sizeof line, "vm", event->vm);
    item(line, sizeof line, "node", event->node);
    item_id(line, sizeof line, "server", event->server);
    item_id(line, sizeof line, "program", event->program);
    log_message(event->severity == ADMIN_ERROR ? LOG_LEVEL_ERROR : event->severity == ADMIN_WARNING ? LOG_LEVEL_WARNING
                                                                                                   : LOG_LEVEL_INFO,
                "event=%s%s text=\"%s\"", event->kind, line, event->text);
}

static void keep(struct event_ring *ring, const struct db_event *event)
{
    if (!ring->capacity)
        return;
    size_t at = (ring->start + ring->count) % ring->capacity;
    ring->events[at] = *event;
    if (ring->count < ring->capacity)
        ring->count++;
    else
        ring->start = (ring->start + 1) % ring->capacity;
}

void cluster_event(struct cluster *cluster, admin_severity severity, const char *kind, const struct event_about *about,
                   const char *format, ...)
{
    uint32_t untold = 0;
    if (!is_told(cluster, kind, about, &untold))
        return;
    struct db_event event = { .number = cluster->events.next++, .time = loop_time(), .severity = (uint8_t)severity };
    va_list list;
    snprintf(event.kind, sizeof event.kind, "%s", kind);
    if (about) {
        snprintf(event.vm, sizeof event.vm, "%s", about->vm ? about->vm : "");
        snprintf(event.node, sizeof event.node, "%s", about->node ? about->node : "");
        event.server = about->server;
        event.program = about->program;
    }
    va_start(list, format);
    vsnprintf(event.text, sizeof event.text, format, list);
    va_end(list);
    size_t at = strlen(event.text);
    if (untold)
        snprintf(event.text + at, sizeof event.text - at, " (%u events of this VM before are left out)", untold);
    audit(cluster, &event, about);
    write_log(&event);
    keep(&cluster->events, &event);
    uint64_t kept = (uint64_t)cluster->values->events_kept;
    store_event(cluster, &event, event.number % TRIM_EVERY == 0 && event.number > kept ? event.number - kept : 0);
    while (cluster->watchers)                   /* each leaves the list when it is answered */
        session_wake(cluster->watchers);
}
