/*
 * forms.c: rows as names, as CSV (RFC 4180) and as columns that the caller chose (--output custom=HEAD:key,…).
 *
 * CSV has the values as JSON has them: bytes, times in UTC. Its titles are the keys. A text that a spreadsheet would
 * take for a formula has a single quote before it: programs choose what some of them say.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

enum { VALUE_SIZE = 4096, MAX_CUSTOM = 16, HEAD_SIZE = 64, KEY_SIZE = 128 };

bool with_headers(const struct flytctl *ctl) { return option_count(ctl, "no-headers") == 0; }

static size_t append(char *text, size_t size, size_t at, const char *more)
{
    int written = snprintf(text + at, size - at, "%s", more);
    return written < 0 || (size_t)written >= size - at ? size - 1 : at + (size_t)written;
}

void value_text(const json_t *value, char *text, size_t size)
{
    size_t i, at = 0;
    json_t *item;
    *text = '\0';
    if (json_is_string(value)) {
        snprintf(text, size, "%s", json_string_value(value));
    } else if (json_is_array(value)) {
        char one[VALUE_SIZE];
        json_array_foreach(value, i, item)
        {
            value_text(item, one, sizeof one);
            at = append(text, size, at, i ? "," : "");
            at = append(text, size, at, one);
        }
    } else if (value && !json_is_null(value)) {
        char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        snprintf(text, size, "%s", dumped ? dumped : "");
        free(dumped);
    }
}

json_t *value_at(const json_t *row, const char *key)
{
    json_t *value = json_object_get(row, key), *item;
    size_t i, length = strcspn(key, ".");
    char first[KEY_SIZE];
    if (value || !key[length] || length >= sizeof first)
        return json_incref(value);
    snprintf(first, sizeof first, "%.*s", (int)length, key);
    value = json_object_get(row, first);
    if (!json_is_array(value))
        return json_is_object(value) ? value_at(value, key + length + 1) : NULL;
    json_t *list = json_array();
    json_array_foreach(value, i, item)
    {
        json_t *one = value_at(item, key + length + 1);
        json_array_append_new(list, one ? one : json_null());
    }
    return list;
}

/* ---- CSV ---- */

/* is_text: not a number, a word of JSON or a title. */
static void print_csv_field(const char *text, bool is_text, bool first)
{
    const char *quote = is_text && *text && strchr("=+-@\t\r", *text) ? "'" : "";
    printf("%s", first ? "" : ",");
    if (!strpbrk(text, ",\"\r\n") && *text != ' ') {
        printf("%s%s", quote, text);
        return;
    }
    printf("\"%s", quote);
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

/* The whole of a part, "4 of 8 SMs", is a field of its own. row NULL: the titles. */
static void print_csv_line(const json_t *row, const struct column *columns, size_t count)
{
    char text[VALUE_SIZE];
    for (size_t c = 0; c < count; c++) {
        const char *const keys[] = { columns[c].key, columns[c].key2 };
        for (size_t k = 0; k < COUNT(keys) && keys[k]; k++) {
            const json_t *value = row ? json_object_get(row, keys[k]) : NULL;
            if (row)
                value_text(value, text, sizeof text);
            print_csv_field(row ? text : keys[k], json_is_string(value) || json_is_array(value), c == 0 && k == 0);
        }
    }
    printf("\n");
}

static void print_csv(const json_t *rows, const struct column *columns, size_t count, bool headers)
{
    size_t i;
    json_t *row;
    if (headers)
        print_csv_line(NULL, columns, count);
    json_array_foreach(rows, i, row) print_csv_line(row, columns, count);
}

/* ---- names, and columns of the caller ---- */

static void print_names(const json_t *rows, const struct column *first)
{
    char text[VALUE_SIZE];
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        value_text(json_object_get(row, first->key), text, sizeof text);
        printf("%s\n", text);
    }
}

struct custom {
    char heads[MAX_CUSTOM][HEAD_SIZE], keys[MAX_CUSTOM][KEY_SIZE];
    struct column columns[MAX_CUSTOM];
    size_t count;
};

/* HEAD:key,HEAD:key. A key alone is its own title. */
static bool read_custom(const char *text, struct custom *custom)
{
    while (*text) {
        size_t length = strcspn(text, ","), head = strcspn(text, ":,");
        bool titled = text[head] == ':';
        const char *key = titled ? text + head + 1 : text;
        size_t key_length = titled ? length - head - 1 : length;
        if (custom->count == MAX_CUSTOM || !key_length || key_length >= KEY_SIZE || !head || head >= HEAD_SIZE)
            return false;
        size_t at = custom->count++;
        snprintf(custom->heads[at], HEAD_SIZE, "%.*s", (int)head, text);
        snprintf(custom->keys[at], KEY_SIZE, "%.*s", (int)key_length, key);
        custom->columns[at] =
            (struct column){ .title = custom->heads[at], .key = custom->keys[at], .kind = COLUMN_ANY };
        text += length + (text[length] == ',');
        if (text[-1] == ',' && !*text)
            return false;
    }
    return custom->count > 0;
}

static bool is_known(const json_t *rows, const char *key)
{
    size_t i;
    json_t *row;
    bool found = json_array_size(rows) == 0;
    json_array_foreach(rows, i, row)
    {
        json_t *value = found ? NULL : value_at(row, key);
        found = found || value;
        json_decref(value);
    }
    return found;
}

int check_custom(struct flytctl *ctl, const json_t *rows)
{
    struct custom *custom = calloc(1, sizeof *custom);
    int code = custom ? EXIT_FINE : complain(ctl, EXIT_FAILED, "no memory");
    bool understood = custom && read_custom(ctl->custom, custom); /* else printing says it */
    for (size_t c = 0; understood && !code && c < custom->count; c++)
        if (!is_known(rows, custom->keys[c]))
            code = complain(ctl, EXIT_USAGE, "--output custom: there is no key '%s'; --output json shows all",
                            custom->keys[c]);
    free(custom);
    return code;
}

static int print_custom(struct flytctl *ctl, const json_t *rows)
{
    struct custom *custom = calloc(1, sizeof *custom);
    int code = EXIT_FINE;
    if (!custom)
        return complain(ctl, EXIT_FAILED, "no memory");
    if (!read_custom(ctl->custom, custom))
        code = complain(ctl, EXIT_USAGE, "--output custom=HEAD:key,… wants up to %d columns, not '%s'", MAX_CUSTOM,
                        ctl->custom);
    for (size_t c = 0; !code && c < custom->count; c++)
        if (!is_known(rows, custom->keys[c]))
            code = complain(ctl, EXIT_USAGE, "--output custom: there is no key '%s'; --output json shows all",
                            custom->keys[c]);
    if (!code)
        print_table(ctl, rows, custom->columns, custom->count);
    free(custom);
    return code;
}

int print_form(struct flytctl *ctl, const json_t *rows, const struct column *columns, size_t count, bool headers)
{
    if (ctl->form == FORM_CUSTOM)
        return print_custom(ctl, rows);
    if (ctl->form == FORM_CSV)
        print_csv(rows, columns, count, headers);
    else
        print_names(rows, columns);
    return EXIT_FINE;
}
