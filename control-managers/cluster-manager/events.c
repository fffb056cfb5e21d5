/*
 * events.c: what happened, for people: a line in the log, a row in the DB, and the ring that `flytctl events` reads.
 * Strings are cleaned before they come here (protocol.c) or are our own.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"

enum { TRIM_EVERY = 256 };

/* An item of a log line, "" where it does not apply. */
static void item(char *line, size_t size, const char *name, const char *value)
{
    size_t at = strlen(line);
    if (value && *value)
        snprintf(line + at, size - at, " %s=%s", name, value);
}

static void item_id(char *line, size_t size, const char *name, uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    item(line, size, name, id ? text : "");
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
    write_log(&event);
    keep(&cluster->events, &event);
    uint64_t kept = (uint64_t)cluster->values->events_kept;
    store_event(cluster, &event, event.number % TRIM_EVERY == 0 && event.number > kept ? event.number - kept : 0);
    while (cluster->watchers)                   /* each leaves the list when it is answered */
        session_wake(cluster->watchers);
}
