/* cmd_usage.c: who used what: sums by VM, user, day, GPU or node, or program by program. */
#include <stdlib.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"
#include "control-managers/flytctl/usage_rows.h"

const struct option_row usage_options[] = {
    { "by", 'b', "vm|user|day|gpu|node|program", "what is summed (vm)", false },
    { "since", 0, "TIME", "what ended after 1h or 30d ago, or after 2026-11-01, or goes on", false },
    { "until", 0, "TIME", "what began before then", false },
    { "vm", 0, "NAME", "only of this VM", false },
    { "filter", 0, "KEY=VALUE", "only these; also KEY!=VALUE; * in VALUE stands for anything", true },
    { "sort-by", 0, "KEY", "in the order of this key; -KEY: the largest first", false },
    { "no-headers", 0, NULL, "no line of titles", false },
    { 0 },
};

static const struct column program_columns[] = {
    { "PROGRAM", "program", COLUMN_NUMBER, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "USER", "user", COLUMN_NUMBER, NULL, 1 },
    { "NODE", "node", COLUMN_TEXT, NULL, 4 },
    { "GPU", "gpu", COLUMN_END, NULL, 5 },
    { "SMS", "sms", COLUMN_NUMBER, NULL, 0 },
    { "MEMORY", "memory", COLUMN_SIZE, NULL, 0 },
    { "BEGUN", "begun", COLUMN_TIME, NULL, 3 },
    { "ENDED", "ended", COLUMN_TIME, NULL, 2 },
    { "SM-SECONDS", "sm_seconds", COLUMN_NUMBER, NULL, 0 },
    { "WHY", "why", COLUMN_TEXT, NULL, 6 },
    { "EXECUTABLE", "executable", COLUMN_END, NULL, 7 },
    { "PROGRAMS", "programs", COLUMN_NUMBER, NULL, 8 }, /* this and the next: in CSV only */
    { "DAY", "day", COLUMN_TEXT, NULL, 8 },
    { "REASON", "reason", COLUMN_TEXT, NULL, 8 },
};
enum { CSV_COLUMNS = COUNT(program_columns), TABLE_COLUMNS = CSV_COLUMNS - 3 };

/* The cluster manager sums rows now and then: what was read until then counts no more, and is read again. */
enum { READINGS = 8 };

/* Adds the rows of a page. *again: the pages before count no more. */
static int read_page(struct flytctl *ctl, admin_usage_args *args, json_t *rows, bool *more, bool *again)
{
    admin_usage_result result;
    int code = ask_raw(ctl, ADMIN_USAGE, args, &result);
    if (code)
        return code;
    *again = args->after && result.status.code == CTL_BUSY;
    if (result.status.code != CTL_OK && !*again)
        code = complain_status(ctl, &result.status);
    for (unsigned i = 0; i < result.rows.rows_len; i++)
        json_array_append_new(rows, usage_row(&result.rows.rows_val[i]));
    *more = result.more;
    args->after = result.next;
    protocol_free((xdrproc_t)xdr_admin_usage_result, &result);
    return code;
}

static int read_rows(struct flytctl *ctl, admin_usage_args *args, json_t *rows)
{
    int code = EXIT_FINE, readings = 0;
    bool more = true, again;
    while (!code && more) {
        code = read_page(ctl, args, rows, &more, &again);
        if (code || !again)
            continue;
        if (++readings == READINGS)
            return complain(ctl, EXIT_BUSY, "rows are summed faster than they can be read: try again later");
        json_array_clear(rows);
        args->after = 0;
        more = true;
    }
    return code;
}

static int list_usage(struct flytctl *ctl, json_t **rows)
{
    int64_t since = 0, until = 0;
    static char nothing[1];
    const char *text = option(ctl, "until");
    if (!option_since(ctl, &since))
        return EXIT_USAGE;
    if (text && !parse_since(text, since_now(), ctl->utc, &until))
        return complain(ctl, EXIT_USAGE, "--until wants an age or a time, as --since, not '%s'", text);
    admin_usage_args args = { .since = since,
                              .until = until,
                              .vm = option(ctl, "vm") ? (char *)(uintptr_t)option(ctl, "vm") : nothing };
    *rows = json_array();
    int code = read_rows(ctl, &args, *rows);
    if (code) {
        json_decref(*rows);
        *rows = NULL;
    }
    return code;
}

int command_usage(struct flytctl *ctl)
{
    static const char none[] = "Nothing was used.";
    const char *by = option(ctl, "by") ? option(ctl, "by") : "vm";
    const struct usage_grouping *grouping = usage_grouping_find(by);
    json_t *rows = NULL, *example = usage_example(by);
    if (!example)
        return complain(ctl, EXIT_USAGE, "--by wants vm, user, day, gpu, node or program, not '%s'", by);
    int code = list_usage(ctl, &rows);
    if (code) {
        json_decref(example);
        return code;
    }
    if (grouping)
        rows = usage_sums(rows, grouping);
    code = select_rows(ctl, rows, example);
    if (code) {
        json_decref(rows);
        return code;
    }
    if (!grouping)
        return print_rows(ctl, rows, program_columns, ctl->form == FORM_CSV ? CSV_COLUMNS : TABLE_COLUMNS, none);
    const struct column columns[] = {
        { "VM", "vm", COLUMN_TEXT, NULL, 0 },
        { grouping->title, grouping->key, grouping->kind, NULL, 0 },
        { "SM-SECONDS", "sm_seconds", COLUMN_NUMBER, NULL, 0 },
        { "PROGRAMS", "programs", COLUMN_NUMBER, NULL, 0 },
        { "SMS", "sms", COLUMN_NUMBER, NULL, 1 },
        { "MEMORY", "memory", COLUMN_SIZE, NULL, 1 },
        { "FIRST", "begun", COLUMN_TIME, NULL, 2 },
        { "LAST", "ended", COLUMN_TIME, NULL, 2 },
    };
    const size_t skipped = !grouping->per_vm;
    return print_rows(ctl, rows, columns + skipped, COUNT(columns) - skipped, none);
}

/* ---- program why ---- */

int command_program_why(struct flytctl *ctl)
{
    json_t *row;
    int code = kind_row(ctl, kind_find("program"), ctl->argv[0], &row);
    if (code)
        return code;
    const char *state = json_string_value(json_object_get(row, "state")), *why;
    why = json_string_value(json_object_get(row, "why"));
    long long position = json_integer_value(json_object_get(row, "position"));
    json_t *members = json_pack("{s:O, s:O, s:O, s:O}", "state", json_object_get(row, "state"), "position",
                                json_object_get(row, "position"), "server", json_object_get(row, "server"), "why",
                                json_object_get(row, "why"));
    if (strcmp(state, "running") == 0)
        report(ctl, members, "program %s runs on GPU server %lld", ctl->argv[0],
               (long long)json_integer_value(json_object_get(row, "server")));
    else if (position)
        report(ctl, members, "program %s is %s, at place %lld in line: %s", ctl->argv[0], state, position, why);
    else
        report(ctl, members, "program %s is %s: %s", ctl->argv[0], state, *why ? why : "no reason is known");
    json_decref(row);
    return EXIT_FINE;
}
