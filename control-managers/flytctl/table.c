/*
 * table.c: tables for people, as wide as the terminal.
 *
 * A table that is too wide loses columns, those with the highest rank first, and of these first the ones that say
 * nothing ("-" in all rows). If that is not enough, the longest texts are cut. With --wide, or where the output is no
 * terminal, nothing is left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"

enum {
    CELL_SIZE = 192,
    MAX_COLUMNS = 16,
    GAP = 2,
    SHORTEST = 10,
    ANY_WIDTH = 1 << 20,
    USUAL_WIDTH = 80,
    NARROWEST = 40
};

/* ---- cells ---- */

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

void text_time(const struct flytctl *ctl, const char *when, char *buffer, size_t size)
{
    struct tm parts = { 0 }, here;
    snprintf(buffer, size, "%.19s", when ? when : "-");
    if (ctl->utc || !when || !strptime(when, "%Y-%m-%dT%H:%M:%S", &parts))
        return;
    time_t seconds = timegm(&parts);
    if (localtime_r(&seconds, &here))
        strftime(buffer, size, "%Y-%m-%dT%H:%M:%S", &here);
}

static void cell(const struct flytctl *ctl, const json_t *row, const struct column *column, char *buffer)
{
    const json_t *value = json_object_get(row, column->key);
    char a[64], b[64];
    switch (column->kind) {
    case COLUMN_TEXT:
    case COLUMN_END:
        snprintf(buffer, CELL_SIZE, "%s",
                 json_is_string(value) && *json_string_value(value) ? json_string_value(value) : "-");
        break;
    case COLUMN_NUMBER:
        if (json_is_real(value))
            snprintf(buffer, CELL_SIZE, "%.1f", json_real_value(value));
        else
            snprintf(buffer, CELL_SIZE, "%" PRId64, (int64_t)json_integer_value(value));
        break;
    case COLUMN_ANY: {
        json_t *found = value_at(row, column->key);
        value_text(found, buffer, CELL_SIZE);
        if (!*buffer)
            snprintf(buffer, CELL_SIZE, "-");
        json_decref(found);
        break;
    }
    case COLUMN_SIZE:
        text_size((uint64_t)json_integer_value(value), buffer, CELL_SIZE);
        break;
    case COLUMN_AGO:
        text_ago(json_string_value(value), buffer, CELL_SIZE);
        break;
    case COLUMN_TIME:
        text_time(ctl, json_string_value(value), buffer, CELL_SIZE);
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
static int text_width(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* Cuts the text to so many columns; of a COLUMN_END the end is kept, which says more of a path. */
static void cut(char *text, int wide, bool keep_end)
{
    char copy[CELL_SIZE];
    int excess = text_width(text) - wide;
    if (excess <= 0)
        return;
    snprintf(copy, sizeof copy, "%s", text);
    const char *from = copy;
    for (int skip = keep_end ? excess + 1 : 0; skip > 0 && *from; skip--)
        while (((unsigned char)*++from & 0xc0) == 0x80)
            ;
    size_t bytes = 0;
    for (int left = wide - 1; left > 0 && from[bytes]; left--)
        while (((unsigned char)from[++bytes] & 0xc0) == 0x80)
            ;
    snprintf(text, CELL_SIZE, "%s%.*s%s", keep_end ? "…" : "", (int)bytes, from, keep_end ? "" : "…");
}

/* ---- the terminal ---- */

static int terminal_width(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    int wide = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : columns ? atoi(columns) : 0;
    return wide <= 0 ? USUAL_WIDTH : wide < NARROWEST ? NARROWEST : wide;
}

int table_width(const struct flytctl *ctl)
{
    return ctl->wide || !isatty(STDOUT_FILENO) ? ANY_WIDTH : terminal_width();
}

void print_wrapped(const char *text, int at, int gap, int indent, int wide)
{
    for (bool first = true; *text; first = false) {
        const char *blank = text + strcspn(text, " \n");
        int length = 0;
        for (const char *c = text; c < blank; c++)
            length += ((unsigned char)*c & 0xc0) != 0x80;
        int blanks = first ? gap : 1;
        if (at > indent && at + blanks + length > wide) {
            printf("\n%*s", indent, "");
            at = indent;
        } else {
            printf("%*s", blanks, "");
            at += blanks;
        }
        printf("%.*s", (int)(blank - text), text);
        at += length;
        text = blank + strspn(blank, " \n");
    }
    putchar('\n');
}

void print_text(const struct flytctl *ctl, const char *text, int at, int gap, int indent)
{
    print_wrapped(text, at, gap, indent, table_width(ctl));
}

int print_name(const struct flytctl *ctl, const char *name, int at, int pad)
{
    char text[CELL_SIZE];
    int most = table_width(ctl) - at;
    snprintf(text, sizeof text, "%s", name);
    cut(text, most < SHORTEST ? SHORTEST : most, false);
    int padding = pad < most ? pad - text_width(text) : 0;
    return printf("%s%*s", text, padding > 0 ? padding : 0, "") > 0 ? text_width(text) + (padding > 0 ? padding : 0)
                                                                    : 0;
}

/* ---- tables ---- */

struct table_layout {
    const struct column *columns;
    size_t count;
    int wide[MAX_COLUMNS];
    bool shown[MAX_COLUMNS], says_nothing[MAX_COLUMNS];
};

static int whole_width(const struct table_layout *layout)
{
    int sum = -GAP;
    for (size_t c = 0; c < layout->count; c++)
        sum += layout->shown[c] ? layout->wide[c] + GAP : 0;
    return sum;
}

static void measure(const struct flytctl *ctl, struct table_layout *layout, const json_t *rows)
{
    char text[CELL_SIZE];
    size_t i;
    json_t *row;
    for (size_t c = 0; c < layout->count; c++) {
        layout->wide[c] = text_width(layout->columns[c].title);
        layout->shown[c] = layout->says_nothing[c] = true;
    }
    json_array_foreach(rows, i, row)
        for (size_t c = 0; c < layout->count; c++) {
            cell(ctl, row, &layout->columns[c], text);
            layout->says_nothing[c] &= strcmp(text, "-") == 0;
            if (text_width(text) > layout->wide[c])
                layout->wide[c] = text_width(text);
        }
}

/* Leaves one column out; false: all that are left are needed. */
static bool leave_out(struct table_layout *layout)
{
    size_t worst = layout->count;
    for (size_t c = 0; c < layout->count; c++) {
        if (!layout->shown[c] || !layout->columns[c].rank)
            continue;
        bool worse = worst == layout->count || (layout->says_nothing[c] != layout->says_nothing[worst]
                                                    ? layout->says_nothing[c]
                                                    : layout->columns[c].rank > layout->columns[worst].rank);
        worst = worse ? c : worst;
    }
    if (worst == layout->count)
        return false;
    layout->shown[worst] = false;
    return true;
}

static bool is_text(enum column_kind kind)
{
    return kind == COLUMN_TEXT || kind == COLUMN_END || kind == COLUMN_LIST;
}

static void cut_longest(struct table_layout *layout, int most)
{
    for (int excess; (excess = whole_width(layout) - most) > 0;) {
        size_t longest = layout->count;
        for (size_t c = 0; c < layout->count; c++)
            if (layout->shown[c] && is_text(layout->columns[c].kind) &&
                (longest == layout->count || layout->wide[c] > layout->wide[longest]))
                longest = c;
        if (longest == layout->count || layout->wide[longest] <= SHORTEST)
            return;
        layout->wide[longest] -= layout->wide[longest] - excess < SHORTEST ? layout->wide[longest] - SHORTEST : excess;
    }
}

static bool right_aligned(enum column_kind kind)
{
    return kind == COLUMN_NUMBER || kind == COLUMN_SIZE || kind == COLUMN_AGO || kind == COLUMN_PART ||
           kind == COLUMN_PART_SIZE;
}

/* row NULL: the titles. */
static void print_cells(const struct flytctl *ctl, const struct table_layout *layout, const json_t *row)
{
    char text[CELL_SIZE];
    size_t last = layout->count;
    while (last > 1 && !layout->shown[last - 1])
        last--;
    for (size_t c = 0; c < last; c++) {
        const struct column *column = &layout->columns[c];
        if (!layout->shown[c])
            continue;
        if (row)
            cell(ctl, row, column, text);
        else
            snprintf(text, sizeof text, "%s", column->title);
        const char *color = row ? color_of(ctl, column->key, text) : color_title(ctl);
        cut(text, layout->wide[c], column->kind == COLUMN_END);
        int padding = layout->wide[c] - text_width(text);
        bool right = right_aligned(column->kind), end = c + 1 == last;
        printf("%*s%s%s%s%*s%s", right ? padding : 0, "", color, text, color_end(color), right || end ? 0 : padding, "",
               end ? "\n" : "  ");
    }
}

void print_table(const struct flytctl *ctl, const json_t *rows, const struct column *columns, size_t count)
{
    struct table_layout layout = { .columns = columns, .count = count < MAX_COLUMNS ? count : MAX_COLUMNS };
    int most = table_width(ctl);
    size_t i;
    json_t *row;
    measure(ctl, &layout, rows);
    while (whole_width(&layout) > most && leave_out(&layout))
        ;
    cut_longest(&layout, most);
    if (with_headers(ctl))
        print_cells(ctl, &layout, NULL);
    json_array_foreach(rows, i, row) print_cells(ctl, &layout, row);
}

void print_table_without(const struct flytctl *ctl, const json_t *rows, const struct row_kind *kind, const char *key)
{
    struct column columns[MAX_COLUMNS];
    size_t count = 0;
    for (size_t c = 0; c < kind->count && count < MAX_COLUMNS; c++)
        if (strcmp(kind->columns[c].key, key) != 0)
            columns[count++] = kind->columns[c];
    print_table(ctl, rows, columns, count);
}

int print_rows(struct flytctl *ctl, json_t *rows, const struct column *columns, size_t count, const char *when_empty)
{
    int code = EXIT_FINE;
    if (ctl->json) {
        print_data(ctl, rows);
        return EXIT_FINE;
    }
    if (ctl->form > FORM_WIDE)
        code = print_form(ctl, rows, columns, count, with_headers(ctl));
    else if (json_array_size(rows))
        print_table(ctl, rows, columns, count);
    else if (with_headers(ctl)) /* without them scripts read it */
        printf("%s\n", when_empty);
    json_decref(rows);
    return code;
}

static void print_fields(const struct flytctl *ctl, const json_t *object, const struct column *columns, size_t count)
{
    char text[CELL_SIZE];
    int wide = 0;
    for (size_t c = 0; c < count; c++)
        if (text_width(columns[c].title) > wide)
            wide = text_width(columns[c].title);
    for (size_t c = 0; c < count; c++) {
        const char *whole =
            columns[c].kind == COLUMN_TEXT ? json_string_value(json_object_get(object, columns[c].key)) : NULL;
        cell(ctl, object, &columns[c], text);
        const char *color = color_of(ctl, columns[c].key, text);
        printf("%-*s%s", wide, columns[c].title, color);
        print_text(ctl, whole && *whole ? whole : text, wide, GAP, wide + GAP);
        printf("%s", color_end(color));
    }
}

int print_object(struct flytctl *ctl, json_t *object, const struct column *columns, size_t count)
{
    if (ctl->json) {
        print_data(ctl, object);
        return EXIT_FINE;
    }
    if (ctl->form > FORM_WIDE)
        return print_rows(ctl, json_pack("[o]", object), columns, count, "");
    print_fields(ctl, object, columns, count);
    json_decref(object);
    return EXIT_FINE;
}
