/*
 * events.c: what happened, and what happens. Past events are those that the cluster manager keeps; --follow asks for
 * the next ones, and gets them as they come.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

const struct option_row events_options[] = {
    { "follow", 'f', NULL, "print new events until interrupted", false },
    { "count", 'n', "N", "at most the last N (20)", false },
    { "since", 0, "TIME",
      "from 1h or 2d ago on, from 14:30 or 2026-11-23T14:30 on (a Z behind it: UTC); NUMBER: after "
      "that event",
      false },
    { "kind", 0, "KIND", "only of this kind", true },
    { "vm", 0, "NAME", "only of this VM", false },
    { "node", 0, "NAME", "only of this node", false },
    { "no-headers", 0, NULL, "no line of titles", false },
    { 0 },
};

static const struct column event_columns[] = {
    { "NUMBER", "number", COLUMN_NUMBER, NULL, 0 }, { "TIME", "time", COLUMN_TEXT, NULL, 0 },
    { "LEVEL", "severity", COLUMN_TEXT, NULL, 0 },  { "KIND", "kind", COLUMN_TEXT, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },           { "NODE", "node", COLUMN_TEXT, NULL, 0 },
    { "SERVER", "server", COLUMN_NUMBER, NULL, 0 }, { "PROGRAM", "program", COLUMN_NUMBER, NULL, 0 },
    { "TEXT", "text", COLUMN_TEXT, NULL, 0 },
};

static bool event_wanted(const struct event_filter *filter, const admin_event *event)
{
    bool kind = !filter->kinds || !*filter->kinds;
    for (const char *const *each = filter->kinds; !kind && *each; each++)
        kind = strcmp(*each, event->kind) == 0;
    return kind && (!filter->vm || strcmp(filter->vm, event->vm) == 0) &&
           (!filter->node || strcmp(filter->node, event->node) == 0) &&
           (!filter->server || filter->server == event->server) &&
           (!filter->program || filter->program == event->prog) && event->time >= filter->since;
}

bool option_since(struct flytctl *ctl, int64_t *when)
{
    const char *since = option(ctl, "since");
    if (!since || parse_since(since, since_now(), ctl->utc, when))
        return true;
    complain(ctl, EXIT_USAGE,
             "--since wants an age (30s, 10m, 1h, 2d) or a time (14:30, 2026-11-23, "
             "2026-11-23T14:30:05; with a Z behind it UTC), not '%s'",
             since);
    return false;
}

/* ---- printing ---- */

/* Of further lines of an event's text. */
enum { EVENT_INDENT = 21, KIND_WIDTH = 18, WHO_WIDTH = 16, ZONE_SIZE = 16 };

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text && *text ? text : NULL;
}

static void print_event_titles(const struct flytctl *ctl)
{
    char zone[ZONE_SIZE] = "UTC", title[2 * ZONE_SIZE];
    time_t now = time(NULL);
    struct tm parts;
    if (!ctl->utc && localtime_r(&now, &parts))
        strftime(zone, sizeof zone, "%Z", &parts);
    snprintf(title, sizeof title, "TIME (%.10s)", zone);
    const char *color = color_title(ctl);
    printf("%s%-19s  %-7s  ", color, title, "LEVEL");
    if (table_width(ctl) >= EVENT_INDENT + 9 + KIND_WIDTH + 2 + 4)
        printf("%-18s  ", "KIND");
    if (table_width(ctl) >= EVENT_INDENT + 9 + KIND_WIDTH + 2 + WHO_WIDTH + 2 + 4)
        printf("%-16s  TEXT", "WHO");
    printf("%s\n", color_end(color));
}

static void print_event_line(const struct flytctl *ctl, const json_t *row)
{
    char when[32];
    const char *vm = text_of(row, "vm"), *node = text_of(row, "node"), *severity = text_of(row, "severity");
    const char *color = color_of(ctl, "severity", severity ? severity : ""), *kind = text_of(row, "kind");
    text_time(ctl, text_of(row, "time"), when, sizeof when);
    printf("%s  %s%-7s%s  ", when, color, severity ? severity : "-", color_end(color));
    int at = EVENT_INDENT + 9 + printf("%-18s  ", kind ? kind : "-");
    at += print_name(ctl, vm ? vm : node ? node : "-", at, WHO_WIDTH);
    print_text(ctl, text_of(row, "text") ? text_of(row, "text") : "", at, 2, EVENT_INDENT);
}

void print_event_table(const struct flytctl *ctl, const json_t *rows, bool headers)
{
    size_t i;
    json_t *row;
    if (headers)
        print_event_titles(ctl);
    json_array_foreach(rows, i, row) print_event_line(ctl, row);
}

/* In any form; with JSON and YAML each event stands alone, so that it can be read as it comes. Takes them over. */
static int print_events(struct flytctl *ctl, json_t *rows, bool headers)
{
    int code = EXIT_FINE;
    size_t i;
    json_t *row;
    if (ctl->json) {
        json_array_foreach(rows, i, row) print_data_line(ctl, json_incref(row));
    } else if (ctl->form > FORM_WIDE) {
        code = print_form(ctl, rows, event_columns, COUNT(event_columns), headers);
    } else {
        print_event_table(ctl, rows, headers);
    }
    fflush(stdout);
    json_decref(rows);
    return code;
}

/* ---- the command ---- */

static bool known_kinds(struct flytctl *ctl)
{
    char all[1024] = "";
    for (const char *const *kind = protocol_event_kinds; *kind; kind++) {
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "", *kind);
    }
    for (int i = 0; i < option_count(ctl, "kind"); i++) {
        const char *const *kind = protocol_event_kinds;
        while (*kind && strcmp(*kind, option_at(ctl, "kind", i)))
            kind++;
        if (!*kind) {
            complain(ctl, EXIT_USAGE, "--kind: there are no events '%s'; there are %s", option_at(ctl, "kind", i), all);
            return false;
        }
    }
    return true;
}

/* Which events are shown. */
struct chosen {
    struct event_filter filter;
    const char *kinds[MAX_REPEATED + 1];
    uint64_t after;   /* with a higher number */
    uint64_t newest;  /* that there is */
    int64_t time;     /* of the last one that came */
    uint64_t seen_number; /* those up to here came before the cluster manager went and came back */
    int64_t seen_time;
    uint64_t count;   /* of those that there are: the last ones */
    bool some;        /* not all that follow each other: --kind, --vm, --node, --since TIME */
    bool since_given; /* in one of its forms */
};

static bool choose(struct flytctl *ctl, struct chosen *chosen)
{
    const char *since = option(ctl, "since");
    char *end;
    *chosen = (struct chosen){ .count = 20, .since_given = since != NULL };
    if (!option_number(ctl, "count", 0, UINT32_MAX, &chosen->count) || !known_kinds(ctl))
        return false;
    for (int i = 0; i < option_count(ctl, "kind"); i++)
        chosen->kinds[i] = option_at(ctl, "kind", i);
    chosen->filter =
        (struct event_filter){ .vm = option(ctl, "vm"), .node = option(ctl, "node"), .kinds = chosen->kinds };
    chosen->some = *chosen->kinds || chosen->filter.vm || chosen->filter.node;
    if (!since)
        return true;
    if (!option(ctl, "count"))
        chosen->count = UINT32_MAX;
    strtoull(since, &end, 10);
    if (!*end)
        return option_number(ctl, "since", 0, UINT64_MAX >> 1, &chosen->after);
    chosen->some = true;
    return option_since(ctl, &chosen->filter.since);
}

/* Where to begin so that none of those that are wanted is missed, and where what has happened ends. */
static int find_ends(struct flytctl *ctl, struct chosen *chosen)
{
    admin_status_result status;
    int code = ask(ctl, ADMIN_STATUS, NULL, &status);
    if (code)
        return code;
    chosen->newest = status.last_event;
    if (!chosen->some && !chosen->since_given)
        chosen->after = status.last_event > chosen->count ? status.last_event - chosen->count : 0;
    protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    return EXIT_FINE;
}

int events_past(struct flytctl *ctl, const struct event_filter *filter, uint64_t newest, uint64_t *after,
                uint64_t count, json_t **rows)
{
    *rows = json_array();
    while (*after < newest) {
        admin_events_args args = { .after = *after };
        admin_events_result result;
        int code = ask(ctl, ADMIN_EVENTS, &args, &result);
        if (code) {
            json_decref(*rows);
            *rows = NULL;
            return code;
        }
        bool none = result.events.events_len == 0;
        for (unsigned i = 0; i < result.events.events_len; i++) {
            const admin_event *event = &result.events.events_val[i];
            *after = event->number;
            if (!event_wanted(filter, event) || !count)
                continue;
            if (json_array_size(*rows) == count)
                json_array_remove(*rows, 0);
            json_array_append_new(*rows, row_event(event));
        }
        protocol_free((xdrproc_t)xdr_admin_events_result, &result);
        if (none)
            break;
    }
    return EXIT_FINE;
}

/* A cluster manager that was killed may have forgotten its last events, and gives their numbers to others. */
static int begin_again(struct flytctl *ctl, struct chosen *chosen)
{
    enum { FORGOTTEN = 200 };
    admin_status_result status;
    int code = ask(ctl, ADMIN_STATUS, NULL, &status);
    if (code)
        return code;
    chosen->seen_number = chosen->after;
    chosen->seen_time = chosen->time;
    if (status.last_event < chosen->after)
        chosen->after = status.last_event;
    if (chosen->time)
        chosen->after = chosen->after > FORGOTTEN ? chosen->after - FORGOTTEN : 0;
    protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    return EXIT_FINE;
}

/* Whether it is one that has not been shown. */
static bool is_new(struct chosen *chosen, const admin_event *event)
{
    chosen->after = event->number;
    if (event->number <= chosen->seen_number && event->time <= chosen->seen_time)
        return false;
    chosen->time = event->time;
    return event_wanted(&chosen->filter, event);
}

static int follow(struct flytctl *ctl, struct chosen *chosen)
{
    while (!ferror(stdout)) { /* until nobody reads any more */
        admin_events_args args = { .after = chosen->after, .wait_ms = CTL_BEAT_SECONDS * 1000 };
        admin_events_result result;
        const unsigned returns = ctl->returns;
        int code = ask(ctl, ADMIN_EVENTS, &args, &result);
        const bool anew = ctl->returns != returns;
        json_t *rows = json_array();
        for (unsigned i = 0; !code && !anew && i < result.events.events_len; i++)
            if (is_new(chosen, &result.events.events_val[i]))
                json_array_append_new(rows, row_event(&result.events.events_val[i]));
        if (!code)
            protocol_free((xdrproc_t)xdr_admin_events_result, &result);
        if (!code && json_array_size(rows))
            code = print_events(ctl, json_incref(rows), false);
        json_decref(rows);
        if (!code && anew)
            code = begin_again(ctl, chosen);
        if (code)
            return code;
    }
    return EXIT_FINE;
}

/* With --json each event is a line of its own, so that they can be read as they come. */
int command_events(struct flytctl *ctl)
{
    struct chosen chosen;
    json_t *rows = NULL;
    if (!choose(ctl, &chosen))
        return EXIT_USAGE;
    bool follows = option_count(ctl, "follow") > 0, headers = with_headers(ctl);
    if (follows)
        session_lasts(ctl);
    int code = find_ends(ctl, &chosen);
    if (!code)
        code = events_past(ctl, &chosen.filter, chosen.newest, &chosen.after, chosen.count, &rows);
    if (code)
        return code;
    if (!follows && json_array_size(rows) == 0 && ctl->form <= FORM_WIDE) {
        printf("No matching events.\n");
        json_decref(rows);
        return EXIT_FINE;
    }
    code = print_events(ctl, rows, headers);
    return code || !follows ? code : follow(ctl, &chosen);
}
