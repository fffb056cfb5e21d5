/* output.c: tables for people, JSON for programs, and complaints. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

enum { CELL_SIZE = 192, MAX_COLUMNS = 16 };

/* ---- complaints and reports ---- */

static const char *exit_name(int code)
{
    static const char *const names[] = { "ok", "failed", "usage", "unreachable", "denied", "not-found", "exists", "busy", "no-room", "not-supported",
                                         "bad-config", "db-away", "unknown-outcome" };
    return code >= 0 && code < (int)COUNT(names) ? names[code] : "failed";
}

static int say_complaint(struct flytctl *ctl, int code, json_t *members, const char *format, va_list list)
{
    char text[2 * EXPLAIN_SIZE];
    vsnprintf(text, sizeof text, format, list);
    fprintf(stderr, "flytctl: %s\n", text);
    if (ctl->json) {
        json_t *object = json_pack("{s:b, s:s, s:i, s:o}", "ok", 0, "error", exit_name(code), "exit", code, "message", json_text(text));
        json_object_update(object, members);
        print_json(object);
    }
    json_decref(members);
    return code;
}

int complain(struct flytctl *ctl, int code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say_complaint(ctl, code, NULL, format, list);
    va_end(list);
    return code;
}

int complain_more(struct flytctl *ctl, int code, json_t *members, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say_complaint(ctl, code, members, format, list);
    va_end(list);
    return code;
}

int complain_status(struct flytctl *ctl, const ctl_status *status)
{
    int code = exit_of_code(status->code);
    return complain(ctl, code ? code : EXIT_FAILED, "%s%s", *status->text ? status->text : "the cluster manager refused: ",
                    *status->text ? "" : protocol_code_name(status->code));
}

void report(struct flytctl *ctl, json_t *members, const char *format, ...)
{
    char text[2 * EXPLAIN_SIZE];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (ctl->json) {
        json_t *object = json_pack("{s:b, s:o}", "ok", 1, "message", json_text(text));
        json_object_update(object, members);
        print_json(object);
    } else {
        printf("%s\n", text);
    }
    json_decref(members);
}

/* ---- JSON ---- */

void print_json(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(json);
}

void print_json_line(json_t *json)
{
    json_dumpf(json, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    putchar('\n');
    fflush(stdout);
    json_decref(json);
}

/* Texts of peers are cleaned when they are decoded; ours may hold what a user typed. */
json_t *json_text(const char *text)
{
    json_t *json = json_string(text ? text : "");
    if (json)
        return json;
    char *copy = strdup(text);
    if (copy)
        protocol_text_clean(copy);
    json = json_string(copy ? copy : "");
    free(copy);
    return json;
}

json_t *json_time(int64_t microseconds)
{
    if (microseconds == 0)
        return json_null();
    char text[64], all[96];
    time_t seconds = (time_t)(microseconds / 1000000);
    struct tm parts;
    if (microseconds < 0 || !gmtime_r(&seconds, &parts))
        return json_null();
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(all, sizeof all, "%s.%06dZ", text, (int)(microseconds % 1000000));
    return json_string(all);
}

/* ---- tables ---- */

char *text_size(uint64_t bytes, char *buffer, size_t size)
{
    static const char units[] = "BKMGTPE";
    int unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit < 6)
        value /= 1024, unit++;
    if (unit == 0)
        snprintf(buffer, size, "%" PRIu64, bytes);
    else
        snprintf(buffer, size, value < 9.95 && value != (int)value ? "%.1f%c" : "%.0f%c", value, units[unit]);
    return buffer;
}

static void text_ago(const char *when, char *buffer, size_t size)
{
    struct tm parts = { 0 };
    if (!when || !strptime(when, "%Y-%m-%dT%H:%M:%S", &parts)) {
        snprintf(buffer, size, "-");
        return;
    }
    long long seconds = (long long)(time(NULL) - timegm(&parts));
    if (seconds < 0)
        seconds = 0;
    if (seconds < 120)
        snprintf(buffer, size, "%llds", seconds);
    else if (seconds < 7200)
        snprintf(buffer, size, "%lldm", seconds / 60);
    else if (seconds < 172800)
        snprintf(buffer, size, "%lldh", seconds / 3600);
    else
        snprintf(buffer, size, "%lldd", seconds / 86400);
}

static void cell(const json_t *row, const struct column *column, char *buffer)
{
    const json_t *value = json_object_get(row, column->key);
    char a[64], b[64];
    switch (column->kind) {
    case COLUMN_TEXT:
        snprintf(buffer, CELL_SIZE, "%s", json_is_string(value) && *json_string_value(value) ? json_string_value(value) : "-");
        break;
    case COLUMN_NUMBER:
        snprintf(buffer, CELL_SIZE, "%" PRId64, (int64_t)json_integer_value(value));
        break;
    case COLUMN_SIZE:
        text_size((uint64_t)json_integer_value(value), buffer, CELL_SIZE);
        break;
    case COLUMN_AGO:
        text_ago(json_string_value(value), buffer, CELL_SIZE);
        break;
    case COLUMN_YES:
        snprintf(buffer, CELL_SIZE, "%s", json_is_true(value) ? "yes" : "no");
        break;
    case COLUMN_PART:
        snprintf(buffer, CELL_SIZE, "%" PRId64 "/%" PRId64, (int64_t)json_integer_value(value),
                 (int64_t)json_integer_value(json_object_get(row, column->key2)));
        break;
    case COLUMN_PART_SIZE:
        snprintf(buffer, CELL_SIZE, "%s/%s", text_size((uint64_t)json_integer_value(value), a, sizeof a),
                 text_size((uint64_t)json_integer_value(json_object_get(row, column->key2)), b, sizeof b));
        break;
    case COLUMN_LIST: {
        size_t i, at = 0;
        json_t *item;
        snprintf(buffer, CELL_SIZE, "-");
        json_array_foreach(value, i, item) {
            int written = snprintf(buffer + at, CELL_SIZE - at, "%s%s", at ? "," : "", json_string_value(item));
            if (written < 0 || (size_t)written >= CELL_SIZE - at)
                break;
            at += (size_t)written;
        }
        break;
    }
    }
}

/* Columns of a terminal that this UTF-8 text takes, near enough: one for each character. */
static int width(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static bool right_aligned(enum column_kind kind)
{
    return kind == COLUMN_NUMBER || kind == COLUMN_SIZE || kind == COLUMN_AGO || kind == COLUMN_PART || kind == COLUMN_PART_SIZE;
}

static void print_cell(const char *text, int wide, bool right, bool last)
{
    int padding = wide - width(text);
    if (right)
        printf("%*s%s", padding, "", text);
    else
        printf("%s%*s", text, last ? 0 : padding, "");
    fputs(last ? "\n" : "  ", stdout);
}

void print_table(const json_t *rows, const struct column *columns, size_t count)
{
    int wide[MAX_COLUMNS] = { 0 };
    char text[CELL_SIZE];
    size_t i;
    json_t *row;
    count = count < MAX_COLUMNS ? count : MAX_COLUMNS;
    for (size_t c = 0; c < count; c++)
        wide[c] = width(columns[c].title);
    json_array_foreach(rows, i, row)
        for (size_t c = 0; c < count; c++) {
            cell(row, &columns[c], text);
            if (width(text) > wide[c])
                wide[c] = width(text);
        }
    for (size_t c = 0; c < count; c++)
        print_cell(columns[c].title, wide[c], right_aligned(columns[c].kind), c + 1 == count);
    json_array_foreach(rows, i, row)
        for (size_t c = 0; c < count; c++) {
            cell(row, &columns[c], text);
            print_cell(text, wide[c], right_aligned(columns[c].kind), c + 1 == count);
        }
}

int print_rows(struct flytctl *ctl, json_t *rows, const struct column *columns, size_t count, const char *when_empty)
{
    if (ctl->json) {
        print_json(rows);
        return EXIT_FINE;
    }
    if (json_array_size(rows))
        print_table(rows, columns, count);
    else
        printf("%s\n", when_empty);
    json_decref(rows);
    return EXIT_FINE;
}

int print_object(struct flytctl *ctl, json_t *object, const struct column *columns, size_t count)
{
    char text[CELL_SIZE];
    int wide = 0;
    if (ctl->json) {
        print_json(object);
        return EXIT_FINE;
    }
    for (size_t c = 0; c < count; c++)
        if (width(columns[c].title) > wide)
            wide = width(columns[c].title);
    for (size_t c = 0; c < count; c++) {
        cell(object, &columns[c], text);
        printf("%-*s  %s\n", wide, columns[c].title, text);
    }
    json_decref(object);
    return EXIT_FINE;
}
