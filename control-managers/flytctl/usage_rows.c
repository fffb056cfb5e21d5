/* usage_rows.c: what was used, as JSON: a row for each program, and sums of rows. See usage_rows.h. */
#include "control-managers/flytctl/usage_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct usage_grouping groupings[] = {
    { "vm", "VM", "vm", COLUMN_TEXT, false },       { "user", "USER", "user", COLUMN_NUMBER, true },
    { "day", "DAY", "day", COLUMN_TEXT, false },    { "gpu", "GPU", "gpu", COLUMN_TEXT, false },
    { "node", "NODE", "node", COLUMN_TEXT, false },
};

const struct usage_grouping *usage_grouping_find(const char *by)
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

/* (uid_t)-1: several users, or one whom its client manager does not know. */
static json_t *user_of(const admin_usage_row *row)
{
    return row->uid == UINT32_MAX ? json_null() : json_integer(row->uid);
}

/* The word before the colon; "": it goes on, it is a sum, or an earlier release wrote the row. */
static json_t *reason_of(const char *why)
{
    size_t length = why ? strspn(why, "abcdefghijklmnopqrstuvwxyz") : 0;
    return json_stringn(length && why[length] == ':' ? why : "", length && why[length] == ':' ? length : 0);
}

json_t *usage_row(const admin_usage_row *row)
{
    json_t *object =
        json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:f, s:I, s:o}", "program", (json_int_t)row->prog,
                  "vm", json_text(row->vm), "user", user_of(row), "executable", json_text(row->executable),
                  "node", json_text(row->node), "gpu", json_text(row->gpu), "sms", (json_int_t)row->sms, "memory",
                  (json_int_t)row->memory, "begun", json_time(row->begun), "ended", json_time(row->ended), "sm_seconds",
                  (double)row->sm_us / 1e6, "programs", (json_int_t)row->programs, "why", json_text(row->why));
    json_object_set_new(object, "day", day_of(row));
    json_object_set_new(object, "reason", reason_of(row->ended ? row->why : NULL));
    return object;
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

enum { GROUP_SIZE = 2 * CTL_MAX_NAME + 32 };

/* What the rows of a group have in common. Users of two VMs are not the same people. */
static void group_of(const json_t *row, const struct usage_grouping *grouping, char out[GROUP_SIZE])
{
    const json_t *value = json_object_get(row, grouping->key);
    if (json_is_string(value))
        snprintf(out, GROUP_SIZE, "%s", json_string_value(value));
    else if (grouping->per_vm)
        snprintf(out, GROUP_SIZE, "%lld %s", json_is_null(value) ? -1LL : (long long)json_integer_value(value),
                 json_string_value(json_object_get(row, "vm")));
    else
        *out = '\0';
}

static void add_to_group(json_t *found, json_t *list, json_t *row, const struct usage_grouping *grouping)
{
    static const char *const kept[] = { "programs", "sm_seconds", "sms", "memory", "begun", "ended" };
    char group[GROUP_SIZE];
    group_of(row, grouping, group);
    json_t *sum = json_object_get(found, group);
    if (sum) {
        add_row(sum, row);
        return;
    }
    sum = json_object();
    if (grouping->per_vm)
        json_object_set(sum, "vm", json_object_get(row, "vm"));
    json_object_set(sum, grouping->key, json_object_get(row, grouping->key));
    for (size_t k = 0; k < COUNT(kept); k++)
        json_object_set(sum, kept[k], json_object_get(row, kept[k]));
    json_object_set_new(found, group, sum);
    json_array_append(list, sum);
}

/* Each of several GPUs has an equal part of the row. */
static void add_to_gpus(json_t *found, json_t *list, const json_t *row, const struct usage_grouping *grouping)
{
    char *names = strdup(json_string_value(json_object_get(row, "gpu"))), *rest = names, *name;
    double count = 1, seconds = json_real_value(json_object_get(row, "sm_seconds"));
    for (const char *at = names; at && (at = strchr(at, ',')); at++)
        count++;
    while (names && (name = strsep(&rest, ","))) {
        json_t *part = json_copy((json_t *)(uintptr_t)row);
        json_object_set_new(part, "gpu", json_string(name));
        json_object_set_new(part, "sm_seconds", json_real(seconds / count));
        add_to_group(found, list, part, grouping);
        json_decref(part);
    }
    free(names);
}

json_t *usage_sums(json_t *rows, const struct usage_grouping *grouping)
{
    json_t *found = json_object(), *list = json_array(), *row;
    const bool of_gpus = strcmp(grouping->key, "gpu") == 0;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (of_gpus)
            add_to_gpus(found, list, row, grouping);
        else
            add_to_group(found, list, row, grouping);
    }
    json_decref(found);
    json_decref(rows);
    return list;
}

json_t *usage_example(const char *by)
{
    const admin_usage_row empty = { .prog = 0 };
    const struct usage_grouping *grouping = usage_grouping_find(by);
    if (!grouping)
        return strcmp(by, "program") == 0 ? usage_row(&empty) : NULL;
    json_t *rows = usage_sums(json_pack("[o]", usage_row(&empty)), grouping),
           *first = json_incref(json_array_get(rows, 0));
    json_decref(rows);
    return first;
}
