/* select.c: which rows of a list are shown, and in which order: --filter and --sort-by. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

enum { VALUE_SIZE = 1024, KEY_SIZE = 128 };

struct row_filter {
    char key[KEY_SIZE];
    const char *value;
    bool differs; /* KEY!=VALUE */
};

static bool read_filter(const char *text, struct row_filter *filter)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return false;
    filter->differs = equals[-1] == '!';
    size_t length = (size_t)(equals - text) - filter->differs;
    if (!length || length >= sizeof filter->key)
        return false;
    snprintf(filter->key, sizeof filter->key, "%.*s", (int)length, text);
    filter->value = equals + 1;
    return true;
}

static int unknown_key(struct flytctl *ctl, const char *option, const char *key, json_t *example)
{
    char all[1024] = "";
    const char *each;
    json_t *value;
    json_object_foreach(example, each, value)
    {
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", at ? ", " : "", each);
    }
    return complain(ctl, EXIT_USAGE, "--%s: there is no key '%s'; there are %s", option, key, all);
}

static bool has_key(const json_t *example, const char *key)
{
    json_t *value = value_at(example, key);
    json_decref(value);
    return value != NULL;
}

/* A list of several values fits if one of them does. */
static bool fits(const json_t *value, const struct row_filter *filter)
{
    char text[VALUE_SIZE];
    size_t i;
    json_t *item;
    if (json_is_array(value)) {
        json_array_foreach(value, i, item) if (fits(item, filter)) return true;
        return json_array_size(value) == 0 && !*filter->value;
    }
    if (json_is_null(value) && strcmp(filter->value, "null") == 0)
        return true; /* as JSON shows it; "" is as other forms do */
    value_text(value, text, sizeof text);
    if (json_is_boolean(value) && (strcmp(filter->value, "yes") == 0 || strcmp(filter->value, "no") == 0))
        snprintf(text, sizeof text, "%s", json_is_true(value) ? "yes" : "no");
    return fnmatch(filter->value, text, 0) == 0;
}

/* One of those with the same key is enough; those with != must all hold. */
static bool wanted(const json_t *row, const struct row_filter *filters, int count)
{
    for (int i = 0; i < count; i++) {
        bool one = false;
        for (int k = 0; k < count; k++) {
            if (strcmp(filters[i].key, filters[k].key) != 0 || filters[i].differs != filters[k].differs)
                continue;
            json_t *value = value_at(row, filters[k].key);
            bool same = fits(value, &filters[k]);
            json_decref(value);
            if (filters[k].differs && same)
                return false;
            one = one || same || filters[k].differs;
        }
        if (!one)
            return false;
    }
    return true;
}

/* ---- order ---- */

struct sortable {
    json_t *row, *value;
    size_t at;
};

static int compare_values(const json_t *a, const json_t *b)
{
    char one[VALUE_SIZE], other[VALUE_SIZE];
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);
        return x < y ? -1 : x > y;
    }
    value_text(a, one, sizeof one);
    value_text(b, other, sizeof other);
    return strcmp(one, other);
}

static int in_order(const void *a, const void *b)
{
    const struct sortable *one = a, *other = b;
    int order = compare_values(one->value, other->value);
    return order ? order : one->at < other->at ? -1 : one->at > other->at;
}

static int in_reverse(const void *a, const void *b)
{
    const struct sortable *one = a, *other = b;
    int order = compare_values(other->value, one->value);
    return order ? order : one->at < other->at ? -1 : one->at > other->at;
}

int sort_rows(struct flytctl *ctl, json_t *rows, const char *key, bool reverse)
{
    size_t count = json_array_size(rows), i;
    json_t *row;
    struct sortable *sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted)
        return complain(ctl, EXIT_FAILED, "no memory");
    json_array_foreach(rows, i, row) sorted[i] =
        (struct sortable){ .row = json_incref(row), .value = value_at(row, key), .at = i };
    qsort(sorted, count, sizeof *sorted, reverse ? in_reverse : in_order);
    json_array_clear(rows);
    for (i = 0; i < count; i++) {
        json_decref(sorted[i].value);
        json_array_append_new(rows, sorted[i].row);
    }
    free(sorted);
    return EXIT_FINE;
}

static int select_wanted(struct flytctl *ctl, json_t *rows, json_t *example)
{
    struct row_filter filters[MAX_REPEATED];
    int count = option_count(ctl, "filter");
    const char *sort = option(ctl, "sort-by");
    bool reverse = sort && *sort == '-';
    for (int i = 0; i < count; i++) {
        if (!read_filter(option_at(ctl, "filter", i), &filters[i]))
            return complain(ctl, EXIT_USAGE, "--filter wants KEY=VALUE or KEY!=VALUE, not '%s'",
                            option_at(ctl, "filter", i));
        if (!has_key(example, filters[i].key))
            return unknown_key(ctl, "filter", filters[i].key, example);
    }
    if (sort && !has_key(example, sort + reverse))
        return unknown_key(ctl, "sort-by", sort + reverse, example);
    if (ctl->form == FORM_CUSTOM && !json_array_size(rows)) { /* of rows that there are, printing looks at the keys */
        json_t *one = json_pack("[O]", example);
        int code = check_custom(ctl, one);
        json_decref(one);
        if (code)
            return code;
    }
    for (size_t i = json_array_size(rows); i-- > 0;)
        if (!wanted(json_array_get(rows, i), filters, count))
            json_array_remove(rows, i);
    return sort ? sort_rows(ctl, rows, sort + reverse, reverse) : EXIT_FINE;
}

int select_rows(struct flytctl *ctl, json_t *rows, json_t *example)
{
    int code = select_wanted(ctl, rows, example);
    json_decref(example);
    return code;
}
