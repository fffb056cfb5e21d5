/* cmd_watch.c: the cluster as it is, as it changes, and what happened to it. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"

const struct option_row events_options[] = {
    { "follow", 'f', NULL, "print new events until interrupted", false },
    { "count", 'n', "N", "at most the last N (20)", false },
    { "since", 0, "TIME", "from 1h or 2d ago on, from 14:30 or 2026-11-23T14:30 (UTC) on; NUMBER: after that event",
      false },
    { "kind", 0, "KIND", "only of this kind", true },
    { "vm", 0, "NAME", "only of this VM", false },
    { "node", 0, "NAME", "only of this node", false },
    { 0 },
};

const struct option_row top_options[] = {
    { "interval", 'd', "SECONDS", "between two pictures, 1 to 60 (2)", false },
    { "count", 'n', "N", "as many pictures (until interrupted)", false },
    { 0 },
};

static const struct column status_fields[] = {
    { "Cluster", "cluster", COLUMN_TEXT, NULL, 0 },
    { "Software", "software", COLUMN_TEXT, NULL, 0 },
    { "Started", "started", COLUMN_AGO, NULL, 0 },
    { "Resource DB", "db", COLUMN_TEXT, NULL, 0 },
    { "Resource DB is up", "db_up", COLUMN_YES, NULL, 0 },
    { "Resource DB says", "db_text", COLUMN_TEXT, NULL, 0 },
    { "Placement", "policy", COLUMN_TEXT, NULL, 0 },
    { "TLS", "tls", COLUMN_YES, NULL, 0 },
    { "Without TLS", "unencrypted", COLUMN_NUMBER, NULL, 0 },
    { "Nodes up", "nodes_up", COLUMN_PART, "nodes", 0 },
    { "GPUs ready", "gpus_ready", COLUMN_PART, "gpus", 0 },
    { "SMs used", "sms_used", COLUMN_PART, "sms", 0 },
    { "Memory used", "memory_used", COLUMN_PART_SIZE, "memory", 0 },
    { "VMs connected", "vms_connected", COLUMN_PART, "vms", 0 },
    { "GPU servers", "servers", COLUMN_NUMBER, NULL, 0 },
    { "Programs", "programs", COLUMN_NUMBER, NULL, 0 },
    { "Programs waiting", "waiting", COLUMN_NUMBER, NULL, 0 },
};

const struct option_row status_options[] = {
    { "wait", 'w', "SECONDS", "until the cluster manager serves, at most this long; for scripts that start it", false },
    { "check", 'c', NULL, "for monitoring: one line; exit status 0 ok, 1 warning, 2 critical, 3 unknown", false },
    { 0 },
};

/* The exit status that flytctl status would have now. A process of its own finds out, and prints nothing. */
static int status_now(struct flytctl *ctl)
{
    admin_status_result result;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        _exit(ask(ctl, ADMIN_STATUS, NULL, &result));
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return EXIT_FAILED;
    return WEXITSTATUS(status);
}

/* What is wrong for good is left to the command itself to say. */
static void wait_until_it_serves(struct flytctl *ctl, uint64_t seconds)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)seconds;
    for (;;) {
        int code = status_now(ctl);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((code != EXIT_UNREACHABLE && code != EXIT_DB_AWAY) || now.tv_sec > end.tv_sec ||
            (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec))
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    }
}

int command_status(struct flytctl *ctl)
{
    admin_status_result result;
    uint64_t seconds = 0;
    if (!option_number(ctl, "wait", 1, 3600, &seconds))
        return EXIT_USAGE;
    if (seconds)
        wait_until_it_serves(ctl, seconds);
    if (option_count(ctl, "check"))
        return status_check(ctl);
    int code = ask(ctl, ADMIN_STATUS, NULL, &result);
    if (code)
        return code;
    json_t *row = row_status(&result);
    protocol_free((xdrproc_t)xdr_admin_status_result, &result);
    return print_object(ctl, row, status_fields, COUNT(status_fields));
}

int command_key_rotate(struct flytctl *ctl)
{
    look_with(ctl, "flytctl events --kind key-changed");
    return ask_plain(ctl, ADMIN_KEY_ROTATE, NULL, "tickets are signed with a new key");
}

/* What is wrong with the configuration is no wrong use of this command. */
int command_reload(struct flytctl *ctl)
{
    ctl_plain_result result;
    look_with(ctl, "flytctl events --kind reloaded");
    int code = ask_raw(ctl, ADMIN_RELOAD, NULL, &result);
    if (code)
        return code;
    if (result.status.code == CTL_OK)
        report(ctl, NULL, "the configuration was read again: %s", result.status.text);
    else if (result.status.code == CTL_INVALID)
        code = complain(ctl, EXIT_BAD_CONFIG, "%s", result.status.text);
    else
        code = complain_status(ctl, &result.status);
    protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
    return code;
}

/* ---- top ---- */

static void print_top(const struct flytctl *ctl, const admin_top_result *top)
{
    static const struct column columns[] = {
        { "SERVER", "id", COLUMN_NUMBER, NULL, 0 },
        { "VM", "vm", COLUMN_TEXT, NULL, 0 },
        { "NODE", "node", COLUMN_TEXT, NULL, 0 },
        { "STATE", "state", COLUMN_TEXT, NULL, 0 },
        { "SMS", "sms", COLUMN_NUMBER, NULL, 0 },
        { "MEMORY", "memory_used", COLUMN_PART_SIZE, "memory", 0 },
        { "PROGRAMS", "programs", COLUMN_NUMBER, NULL, 0 },
        { "WORKERS", "workers", COLUMN_NUMBER, NULL, 1 },
        { "UP", "created", COLUMN_AGO, NULL, 0 },
    };
    const admin_status_result *all = &top->summary;
    char used[32], whole[32];
    json_t *rows = json_array();
    for (unsigned i = 0; i < top->servers.servers_len; i++)
        json_array_append_new(rows, row_server(&top->servers.servers_val[i]));
    printf(
        "Nodes %u/%u   GPUs %u/%u   SMs %u/%u   Memory %s/%s\nVMs %u/%u   Servers %u   Programs %u, waiting %u%s\n\n",
        all->nodes_up, all->nodes, all->gpus_ready, all->gpus, all->sms_used, all->sms,
        text_size(all->memory_used, used, sizeof used), text_size(all->memory, whole, sizeof whole), all->vms_connected,
        all->vms, all->servers, all->programs, all->waiting, all->db_up ? "" : "   RESOURCE DB AWAY");
    print_table(ctl, rows, columns, COUNT(columns));
    json_decref(rows);
    fflush(stdout);
}

static void print_top_json(const admin_top_result *top)
{
    json_t *rows = json_array();
    for (unsigned i = 0; i < top->servers.servers_len; i++)
        json_array_append_new(rows, row_server(&top->servers.servers_val[i]));
    print_json_line(json_pack("{s:o, s:o}", "summary", row_status(&top->summary), "servers", rows));
}

int command_top(struct flytctl *ctl)
{
    uint64_t interval = 2, count = 0;
    if (!option_number(ctl, "interval", 1, 60, &interval) || !option_number(ctl, "count", 0, 1000000000, &count))
        return EXIT_USAGE;
    bool screen = isatty(STDOUT_FILENO) && !ctl->json;
    uint64_t waited = interval * 1000;  /* the first picture comes at once */
    for (uint64_t shown = 0; count == 0 || shown < count;) {
        /* A call may wait CTL_BEAT_SECONDS at most: longer intervals are several. */
        uint64_t left = interval * 1000 - waited, most = CTL_BEAT_SECONDS * 1000;
        admin_top_args args = { .wait_ms = (unsigned)(left < most ? left : most) };
        admin_top_result result;
        int code = ask(ctl, ADMIN_TOP, &args, &result);
        if (code)
            return code;
        waited += args.wait_ms;
        if (waited >= interval * 1000) {
            waited = 0;
            shown++;
            if (screen)
                printf("\033[H\033[2J");
            if (ctl->json)
                print_top_json(&result);
            else
                print_top(ctl, &result);
        }
        protocol_free((xdrproc_t)xdr_admin_top_result, &result);
        if (ferror(stdout))
            return EXIT_FINE;           /* nobody reads any more */
    }
    return EXIT_FINE;
}

/* ---- events ---- */

static bool wanted(const struct flytctl *ctl, const admin_event *event)
{
    const char *vm = option(ctl, "vm"), *node = option(ctl, "node");
    bool kind = option_count(ctl, "kind") == 0;
    for (int i = 0; i < option_count(ctl, "kind"); i++)
        kind = kind || strcmp(option_at(ctl, "kind", i), event->kind) == 0;
    return kind && (!vm || strcmp(vm, event->vm) == 0) && (!node || strcmp(node, event->node) == 0);
}

/* Of further lines of an event's text. */
enum { EVENT_INDENT = 21 };

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text && *text ? text : NULL;
}

/* The row stays the caller's. */
static void print_event(const struct flytctl *ctl, json_t *row)
{
    if (ctl->json) {
        print_json_line(json_incref(row));
        return;
    }
    const char *time = text_of(row, "time"), *vm = text_of(row, "vm"), *node = text_of(row, "node");
    int at = printf("%.19s  %-7s  %-18s  ", time ? time : "-", text_of(row, "severity"), text_of(row, "kind"));
    at += print_name(ctl, vm ? vm : node ? node : "-", at, 16);
    print_text(ctl, text_of(row, "text") ? text_of(row, "text") : "", at, 2, EVENT_INDENT);
    fflush(stdout);
}

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
    uint64_t after;   /* with a higher number */
    uint64_t newest;  /* that there is */
    int64_t since;    /* not before, microseconds since 1970 */
    uint64_t count;   /* of those that there are: the last ones */
    bool some;        /* not all that follow each other: --kind, --vm, --node, --since TIME */
    bool since_given; /* in one of its forms */
};

static bool choose(struct flytctl *ctl, struct chosen *chosen)
{
    const char *since = option(ctl, "since");
    struct timespec now;
    char *end;
    *chosen = (struct chosen){ .count = 20, .since_given = since != NULL };
    if (!option_number(ctl, "count", 0, UINT32_MAX, &chosen->count) || !known_kinds(ctl))
        return false;
    chosen->some = option_count(ctl, "kind") || option(ctl, "vm") || option(ctl, "node");
    if (!since)
        return true;
    if (!option(ctl, "count"))
        chosen->count = UINT32_MAX;
    strtoull(since, &end, 10);
    if (!*end)
        return option_number(ctl, "since", 0, UINT64_MAX >> 1, &chosen->after);
    clock_gettime(CLOCK_REALTIME, &now);
    chosen->some = true;
    if (parse_since(since, (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, &chosen->since))
        return true;
    complain(ctl, EXIT_USAGE,
             "--since wants an age (30s, 10m, 1h, 2d), a time (14:30, 2026-11-23, 2026-11-23T14:30:05; UTC) or the "
             "number of an event, not '%s'",
             since);
    return false;
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

/* Those that are wanted are printed at the end, since only the last ones are. */
static int show_past(struct flytctl *ctl, struct chosen *chosen, uint64_t *shown)
{
    json_t *rows = json_array();
    while (chosen->after < chosen->newest) {
        admin_events_args args = { .after = chosen->after };
        admin_events_result result;
        int code = ask(ctl, ADMIN_EVENTS, &args, &result);
        if (code) {
            json_decref(rows);
            return code;
        }
        bool none = result.events.events_len == 0;
        for (unsigned i = 0; i < result.events.events_len; i++) {
            const admin_event *event = &result.events.events_val[i];
            chosen->after = event->number;
            if (!wanted(ctl, event) || event->time < chosen->since || !chosen->count)
                continue;
            if (json_array_size(rows) == chosen->count)
                json_array_remove(rows, 0);
            json_array_append_new(rows, row_event(event));
        }
        protocol_free((xdrproc_t)xdr_admin_events_result, &result);
        if (none)
            break;
    }
    size_t at;
    json_t *row;
    json_array_foreach(rows, at, row) print_event(ctl, row);
    *shown = json_array_size(rows);
    json_decref(rows);
    return EXIT_FINE;
}

static int follow(struct flytctl *ctl, struct chosen *chosen)
{
    while (!ferror(stdout)) {           /* until nobody reads any more */
        admin_events_args args = { .after = chosen->after, .wait_ms = CTL_BEAT_SECONDS * 1000 };
        admin_events_result result;
        int code = ask(ctl, ADMIN_EVENTS, &args, &result);
        if (code)
            return code;
        for (unsigned i = 0; i < result.events.events_len; i++) {
            const admin_event *event = &result.events.events_val[i];
            chosen->after = event->number;
            if (!wanted(ctl, event))
                continue;
            json_t *row = row_event(event);
            print_event(ctl, row);
            json_decref(row);
        }
        protocol_free((xdrproc_t)xdr_admin_events_result, &result);
    }
    return EXIT_FINE;
}

/* With --json each event is a line of its own, so that they can be read as they come. */
int command_events(struct flytctl *ctl)
{
    struct chosen chosen;
    uint64_t shown = 0;
    if (!choose(ctl, &chosen))
        return EXIT_USAGE;
    int code = find_ends(ctl, &chosen);
    if (!code)
        code = show_past(ctl, &chosen, &shown);
    if (!code && option_count(ctl, "follow"))
        return follow(ctl, &chosen);
    if (!code && !shown && !ctl->json)
        printf("No matching events.\n");
    return code;
}
