/*
 * describe.c: all about one thing: what `show` says, what belongs to it, and its last events.
 *
 * In JSON and YAML the lists take the place of the numbers that `show` has under the same keys.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

enum { EVENTS = 10, MOST_EVENTS = 10000 };

const struct option_row describe_options[] = {
    { "events", 'n', "N", "the last N events of it (10)", false },
    { "since", 0, "TIME", "only events from 1h or 2d ago on, or from 14:30 or 2026-11-23T14:30 on", false },
    { "no-headers", 0, NULL, "no lines of titles", false },
    { 0 },
};

/* Lists of others that belong to a thing: those whose `theirs` is its `ours`, or has it in a list. */
static const struct belonging {
    const char *of, *title, *kind, *theirs, *ours;
} parts[] = {
    { "vm", "GPU servers", "server", "vm", "name" },
    { "vm", "Programs", "program", "vm", "name" },
    { "vm", "Moves", "move", "vm", "name" },
    { "node", "GPUs", "gpu", "node", "name" },
    { "node", "GPU servers", "server", "node", "name" },
    { "gpu", "GPU servers", "server", "gpus", "id" },
    { "server", "Programs", "program", "server", "id" },
    { "program", "GPU server", "server", "id", "server" },
    { "program", "Moves", "move", "program", "id" },
};

/* A value, or a list of them, as a server's GPUs. */
static bool belongs(const json_t *theirs, const json_t *ours)
{
    for (size_t i = 0; i < json_array_size(theirs); i++)
        if (json_equal(json_array_get(theirs, i), ours))
            return true;
    return json_equal(theirs, ours);
}

static int list_part(struct flytctl *ctl, const struct belonging *part, const json_t *row, json_t **rows)
{
    const json_t *ours = json_object_get(row, part->ours);
    const char *name = json_string_value(ours);
    const struct rows_query query = { .vm = strcmp(part->theirs, "vm") == 0 ? name : NULL,
                                      .node = strcmp(part->theirs, "node") == 0 ? name : NULL };
    int code = kind_rows(ctl, kind_find(part->kind), &query, rows);
    for (size_t i = code ? 0 : json_array_size(*rows); i-- > 0;)
        if (!belongs(json_object_get(json_array_get(*rows, i), part->theirs), ours))
            json_array_remove(*rows, i);
    return code;
}

static uint64_t id_of(const json_t *row, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(row, key));
}

/* Events name a VM, a node, a server and a program. Of a GPU and of a move there are those of its node and program. */
static int list_events(struct flytctl *ctl, const struct row_kind *kind, const json_t *row, json_t **rows)
{
    struct event_filter filter = { 0 };
    admin_status_result status;
    uint64_t count = EVENTS, after = 0;
    if (!option_number(ctl, "events", 0, MOST_EVENTS, &count) || !option_since(ctl, &filter.since))
        return EXIT_USAGE;
    if (strcmp(kind->name, "vm") == 0)
        filter.vm = json_string_value(json_object_get(row, "name"));
    else if (strcmp(kind->name, "node") == 0 || kind->of_nodes)
        filter.node = json_string_value(json_object_get(row, kind->of_nodes ? "node" : "name"));
    else if (strcmp(kind->name, "server") == 0)
        filter.server = id_of(row, "id");
    else
        filter.program = id_of(row, strcmp(kind->name, "move") == 0 ? "program" : "id");
    int code = ask(ctl, ADMIN_STATUS, NULL, &status);
    if (code)
        return code;
    uint64_t newest = status.last_event;
    protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    return events_past(ctl, &filter, newest, &after, count, rows);
}

static int gather(struct flytctl *ctl, const struct row_kind *kind, json_t *row, json_t *lists)
{
    json_t *rows;
    int code = EXIT_FINE;
    for (size_t i = 0; !code && i < COUNT(parts); i++) {
        char key[32];
        if (strcmp(parts[i].of, kind->name) != 0)
            continue;
        code = list_part(ctl, &parts[i], row, &rows);
        snprintf(key, sizeof key, "%ss", parts[i].kind);
        if (!code)
            json_object_set_new(lists, key, rows);
    }
    if (!code)
        code = list_events(ctl, kind, row, &rows);
    if (!code)
        json_object_set_new(lists, "events", rows);
    return code;
}

static void print_lists(const struct flytctl *ctl, const struct row_kind *kind, const json_t *lists)
{
    const char *color = color_title(ctl);
    for (size_t i = 0; i < COUNT(parts); i++) {
        char key[32];
        snprintf(key, sizeof key, "%ss", parts[i].kind);
        const json_t *rows = json_object_get(lists, key);
        if (strcmp(parts[i].of, kind->name) != 0 || !json_array_size(rows))
            continue;
        const struct row_kind *other = kind_find(parts[i].kind);
        printf("\n%s%s%s\n", color, parts[i].title, color_end(color));
        print_table_without(ctl, rows, other, strcmp(parts[i].theirs, "id") == 0 ? "" : parts[i].theirs);
    }
    const json_t *events = json_object_get(lists, "events");
    printf("\n%sLast events%s\n", color, color_end(color));
    if (json_array_size(events))
        print_event_table(ctl, events, with_headers(ctl));
    else
        printf("None.\n");
}

int command_describe(struct flytctl *ctl)
{
    const struct row_kind *kind = kind_find(ctl->argv[0]);
    json_t *row, *lists = json_object();
    int code = kind ? kind_row(ctl, kind, ctl->argv[1], &row)
                    : complain(ctl, EXIT_USAGE, "there is no kind '%s': vm, node, gpu, server, program and move are",
                               ctl->argv[0]);
    if (!code) {
        code = gather(ctl, kind, row, lists);
        if (ctl->json)
            json_object_update(row, lists);
        if (code)
            json_decref(row);
        else
            code = print_object(ctl, row, kind->fields, kind->field_count);
    }
    if (!code && ctl->form <= FORM_WIDE)
        print_lists(ctl, kind, lists);
    json_decref(lists);
    return code;
}
