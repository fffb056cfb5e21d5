/* cmd_usage.c: who used what: sums by VM, user, day, GPU or node, or program by program. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

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
};

/* The ways to group rows (--by): the key whose value the rows of a group share, and the title of its column. */
static const struct grouping {
    const char *by, *title, *key;
    enum column_kind kind;
} groupings[] = {
    { "vm", "VM", "vm", COLUMN_TEXT },       { "user", "USER", "user", COLUMN_NUMBER },
    { "day", "DAY", "day", COLUMN_TEXT },    { "gpu", "GPU", "gpu", COLUMN_TEXT },
    { "node", "NODE", "node", COLUMN_TEXT },
};

static const struct grouping *grouping_find(const char *by)
{
    for (size_t i = 0; i < COUNT(groupings); i++)
        if (strcmp(groupings[i].by, by) == 0)
            return &groupings[i];
    return NULL;
}

/* A program counts for the day on which it ended, or, where it goes on, for today. UTC. */
static json_t *day_of(const admin_usage_row *row)
{
    char text[32];
    time_t when = row->ended ? (time_t)(row->ended / 1000000) : time(NULL);
    struct tm parts;
    if (!gmtime_r(&when, &parts))
        return json_null();
    strftime(text, sizeof text, "%Y-%m-%d", &parts);
    return json_string(text);
}

static json_t *row_usage(const admin_usage_row *row)
{
    json_t *object =
        json_pack("{s:I, s:o, s:I, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:f, s:I, s:o}", "program", (json_int_t)row->prog,
                  "vm", json_text(row->vm), "user", (json_int_t)row->uid, "executable", json_text(row->executable),
                  "node", json_text(row->node), "gpu", json_text(row->gpu), "sms", (json_int_t)row->sms, "memory",
                  (json_int_t)row->memory, "begun", json_time(row->begun), "ended", json_time(row->ended), "sm_seconds",
                  (double)row->sm_us / 1e6, "programs", (json_int_t)row->programs, "why", json_text(row->why));
    json_object_set_new(object, "day", day_of(row));
    return object;
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
    unsigned more;
    *rows = json_array();
    do {
        admin_usage_result result;
        int code = ask(ctl, ADMIN_USAGE, &args, &result);
        if (code) {
            json_decref(*rows);
            *rows = NULL;
            return code;
        }
        for (unsigned i = 0; i < result.rows.rows_len; i++)
            json_array_append_new(*rows, row_usage(&result.rows.rows_val[i]));
        more = result.more;
        args.after = result.next;
        protocol_free((xdrproc_t)xdr_admin_usage_result, &result);
    } while (more);
    return EXIT_FINE;
}

/* ---- sums ---- */

static void add_number(json_t *sum, const json_t *row, const char *key)
{
    const json_t *one = json_object_get(sum, key), *more = json_object_get(row, key);
    json_object_set_new(sum, key,
                        json_is_real(one) ? json_real(json_real_value(one) + json_number_value(more))
                                          : json_integer(json_integer_value(one) + json_integer_value(more)));
}

static void keep_larger(json_t *sum, const json_t *row, const char *key)
{
    if (json_integer_value(json_object_get(row, key)) > json_integer_value(json_object_get(sum, key)))
        json_object_set(sum, key, json_object_get(row, key));
}

static void add_row(json_t *sum, const json_t *row)
{
    const char *begun = json_string_value(json_object_get(row, "begun")), *ended;
    const char *first = json_string_value(json_object_get(sum, "begun")), *last;
    add_number(sum, row, "programs");
    add_number(sum, row, "sm_seconds");
    keep_larger(sum, row, "sms");
    keep_larger(sum, row, "memory");
    if (begun && first && strcmp(begun, first) < 0)
        json_object_set(sum, "begun", json_object_get(row, "begun"));
    ended = json_string_value(json_object_get(row, "ended"));
    last = json_string_value(json_object_get(sum, "ended"));
    if (!ended || (last && strcmp(ended, last) > 0)) /* null: one goes on */
        json_object_set(sum, "ended", json_object_get(row, "ended"));
}

static json_t *sums(json_t *rows, const struct grouping *grouping)
{
    json_t *found = json_object(), *list = json_array(), *row;
    size_t i;
    char key[CTL_MAX_NAME + 1];
    json_array_foreach(rows, i, row)
    {
        static const char *const kept[] = { "programs", "sm_seconds", "sms", "memory", "begun", "ended" };
        value_text(json_object_get(row, grouping->key), key, sizeof key);
        json_t *sum = json_object_get(found, key);
        if (sum) {
            add_row(sum, row);
            continue;
        }
        sum = json_object();
        json_object_set(sum, grouping->key, json_object_get(row, grouping->key));
        for (size_t k = 0; k < COUNT(kept); k++)
            json_object_set(sum, kept[k], json_object_get(row, kept[k]));
        json_object_set_new(found, key, sum);
        json_array_append(list, sum);
    }
    json_decref(found);
    json_decref(rows);
    return list;
}

int command_usage(struct flytctl *ctl)
{
    static const char none[] = "Nothing was used.";
    const char *by = option(ctl, "by") ? option(ctl, "by") : "vm";
    const struct grouping *grouping = grouping_find(by);
    const admin_usage_row empty = { .prog = 0 };
    json_t *rows = NULL, *example;
    if (!grouping && strcmp(by, "program") != 0)
        return complain(ctl, EXIT_USAGE, "--by wants vm, user, day, gpu, node or program, not '%s'", by);
    int code = list_usage(ctl, &rows);
    if (code)
        return code;
    example = row_usage(&empty);
    if (grouping) {
        rows = sums(rows, grouping);
        example = sums(json_pack("[o]", example), grouping);
        json_t *first = json_incref(json_array_get(example, 0));
        json_decref(example);
        example = first;
    }
    code = select_rows(ctl, rows, example);
    if (code) {
        json_decref(rows);
        return code;
    }
    if (!grouping)
        return print_rows(ctl, rows, program_columns, COUNT(program_columns), none);
    const struct column columns[] = {
        { grouping->title, grouping->key, grouping->kind, NULL, 0 },
        { "SM-SECONDS", "sm_seconds", COLUMN_NUMBER, NULL, 0 },
        { "PROGRAMS", "programs", COLUMN_NUMBER, NULL, 0 },
        { "SMS", "sms", COLUMN_NUMBER, NULL, 1 },
        { "MEMORY", "memory", COLUMN_SIZE, NULL, 1 },
        { "FIRST", "begun", COLUMN_TIME, NULL, 2 },
        { "LAST", "ended", COLUMN_TIME, NULL, 2 },
    };
    return print_rows(ctl, rows, columns, COUNT(columns), none);
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
