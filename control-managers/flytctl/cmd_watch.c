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
    { "follow", 'f', NULL, "go on until interrupted", false },
    { "count", 'n', "N", "at most the last N (20)", false },
    { "since", 0, "NUMBER", "those after this one", false },
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
    { "wait", 'w', "SECONDS", "until the cluster manager serves, at most so long; for scripts that start it", false },
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

static void print_event(const struct flytctl *ctl, const admin_event *event)
{
    json_t *row = row_event(event);
    if (ctl->json) {
        print_json_line(row);
        return;
    }
    const char *time = json_string_value(json_object_get(row, "time"));
    int at = printf("%.19s  %-7s  %-18s  ", time ? time : "-", json_string_value(json_object_get(row, "severity")),
                    event->kind);
    at += print_name(ctl, *event->vm ? event->vm : *event->node ? event->node : "-", at, 16);
    print_text(ctl, event->text, at, 2, EVENT_INDENT);
    fflush(stdout);
    json_decref(row);
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

/* With --json each event is a line of its own, so that they can be read as they come. */
int command_events(struct flytctl *ctl)
{
    uint64_t count = 20, since = 0;
    bool follow = option_count(ctl, "follow") > 0, all = option(ctl, "since") != NULL;
    if (!option_number(ctl, "count", 0, UINT32_MAX, &count) ||
        !option_number(ctl, "since", 0, UINT64_MAX >> 1, &since) || !known_kinds(ctl))
        return EXIT_USAGE;
    if (!all) {
        admin_status_result status;
        int code = ask(ctl, ADMIN_STATUS, NULL, &status);
        if (code)
            return code;
        since = status.last_event > count ? status.last_event - count : 0;
        protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    }
    uint64_t shown = 0, end = UINT64_MAX;
    for (;;) {
        admin_events_args args = { .after = since, .wait_ms = follow ? CTL_BEAT_SECONDS * 1000 : 0 };
        admin_events_result result;
        int code = ask(ctl, ADMIN_EVENTS, &args, &result);
        if (code)
            return code;
        if (end == UINT64_MAX && !follow)
            end = result.last;
        unsigned got = result.events.events_len;
        for (unsigned i = 0; i < got; i++) {
            const admin_event *event = &result.events.events_val[i];
            since = event->number;
            if (wanted(ctl, event) && (follow || !all || !option(ctl, "count") || shown < count)) {
                print_event(ctl, event);
                shown++;
            }
        }
        protocol_free((xdrproc_t)xdr_admin_events_result, &result);
        if (ferror(stdout))
            return EXIT_FINE;
        if (!follow && (got == 0 || since >= end))
            break;
    }
    if (!shown && !ctl->json)
        printf("Nothing happened.\n");
    return EXIT_FINE;
}
