/*
 * top.c: the cluster live: a summary, and one list: servers, nodes, GPUs, VMs or programs.
 *
 * On a terminal a picture has as many rows as fit, and keys turn pages, sort and filter. Elsewhere every picture has
 * all rows.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "control-managers/flytctl/flytctl.h"

const struct option_row top_options[] = {
    { "interval", 'd', "SECONDS", "between two pictures, 1 to 60 (2)", false },
    { "count", 'n', "N", "as many pictures (until interrupted)", false },
    { "filter", 0, "KEY=VALUE", "only these; also KEY!=VALUE; * in VALUE stands for anything", true },
    { "sort-by", 0, "KEY", "in the order of this key; -KEY: the largest first", false },
    { "no-headers", 0, NULL, "no line of titles", false },
    { 0 },
};

static const struct column server_columns[] = {
    { "SERVER", "id", COLUMN_NUMBER, NULL, 0 },         { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "NODE", "node", COLUMN_TEXT, NULL, 0 },           { "STATE", "state", COLUMN_TEXT, NULL, 0 },
    { "SMS", "sms", COLUMN_NUMBER, NULL, 0 },
    { "MEMORY", "memory_used", COLUMN_PART_SIZE, "memory_total", 0 },
    { "PROGRAMS", "programs", COLUMN_NUMBER, NULL, 0 }, { "WORKERS", "workers", COLUMN_NUMBER, NULL, 1 },
    { "UP", "created", COLUMN_AGO, NULL, 0 },
};

enum { SUMMARY_LINES = 3, NO_SORT = -1, SEARCH_SIZE = 64 };

struct top {
    struct flytctl *ctl;
    const struct row_kind *kind;
    const struct column *columns;
    size_t count;
    json_t *summary, *rows; /* rows: those that are shown, in their order */
    bool screen;
    int sort; /* index of a column, or NO_SORT */
    bool reverse, typing;
    char search[SEARCH_SIZE]; /* a row is shown if one of its columns has it */
    size_t first;             /* row at the top of the page */
};

/* ---- what is shown ---- */

static bool has_text(const struct top *top, const json_t *row)
{
    char text[256];
    for (size_t c = 0; c < top->count; c++) {
        value_text(json_object_get(row, top->columns[c].key), text, sizeof text);
        if (strcasestr(text, top->search))
            return true;
    }
    return !*top->search;
}

static int sort(struct top *top)
{
    return top->sort == NO_SORT ? EXIT_FINE : sort_rows(top->ctl, top->rows, top->columns[top->sort].key, top->reverse);
}

static int gather(struct top *top)
{
    admin_status_result status;
    int code = ask(top->ctl, ADMIN_STATUS, NULL, &status);
    if (code)
        return code;
    json_decref(top->summary);
    top->summary = row_status(&status);
    protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    json_decref(top->rows);
    code = kind_rows(top->ctl, top->kind, &(struct rows_query){ .only = NULL }, &top->rows);
    return code ? code : select_rows(top->ctl, top->rows, kind_example(top->kind));
}

/* ---- pictures ---- */

static long long number(const json_t *row, const char *key) { return json_integer_value(json_object_get(row, key)); }

static void print_summary(const json_t *all)
{
    char used[32], whole[32];
    printf("Nodes %lld/%lld   GPUs %lld/%lld   SMs %lld/%lld   Memory %s/%s\n"
           "VMs %lld/%lld   Servers %lld   Programs %lld, waiting %lld%s\n\n",
           number(all, "nodes_up"), number(all, "nodes"), number(all, "gpus_ready"), number(all, "gpus"),
           number(all, "sms_used"), number(all, "sms"),
           text_size((uint64_t)number(all, "memory_used"), used, sizeof used),
           text_size((uint64_t)number(all, "memory"), whole, sizeof whole), number(all, "vms_connected"),
           number(all, "vms"), number(all, "servers"), number(all, "programs"), number(all, "waiting"),
           json_is_true(json_object_get(all, "db_up")) ? "" : "   RESOURCE DB AWAY");
}

/* Rows that fit: the summary, the titles and the line of keys take theirs. */
static size_t page_rows(const struct top *top)
{
    int rows = screen_height() - SUMMARY_LINES - (with_headers(top->ctl) ? 1 : 0) - 1;
    return rows < 1 ? 1 : (size_t)rows;
}

static void print_page(struct top *top)
{
    json_t *found = json_array(), *page = json_array(), *row;
    size_t i, most = page_rows(top);
    json_array_foreach(top->rows, i, row) if (has_text(top, row)) json_array_append(found, row);
    size_t count = json_array_size(found);
    top->first = count <= most ? 0 : top->first > count - most ? count - most : top->first;
    for (i = top->first; i < count && i < top->first + most; i++)
        json_array_append(page, json_array_get(found, i));
    screen_clear();
    print_summary(top->summary);
    print_table(top->ctl, page, top->columns, top->count);
    char line[512];
    if (top->typing)
        snprintf(line, sizeof line, "/%s", top->search);
    else
        snprintf(line, sizeof line, "%zu-%zu of %zu  sort:%s%s%s%s  q quit  s sort  r reverse  / search  arrows page",
                 count ? top->first + 1 : 0, i, count, top->sort == NO_SORT ? "none" : top->columns[top->sort].title,
                 top->reverse ? " down" : "", *top->search ? "  only:" : "", top->search);
    int wide = table_width(top->ctl);
    printf("\033[%d;1H%.*s", screen_height(), wide < (int)sizeof line ? wide : (int)sizeof line, line);
    fflush(stdout);
    json_decref(page);
    json_decref(found);
}

static void print_picture(struct top *top)
{
    char key[32];
    if (top->screen) {
        print_page(top);
        return;
    }
    snprintf(key, sizeof key, "%ss", top->kind->name);
    if (top->ctl->json) {
        print_data_line(top->ctl, json_pack("{s:O, s:O}", "summary", top->summary, key, top->rows));
        return;
    }
    if (isatty(STDOUT_FILENO))
        screen_clear();
    if (top->ctl->form > FORM_WIDE) {
        print_form(top->ctl, top->rows, top->columns, top->count, with_headers(top->ctl));
    } else {
        print_summary(top->summary);
        print_table(top->ctl, top->rows, top->columns, top->count);
    }
    fflush(stdout);
}

/* ---- keys ---- */

/* A letter of what is searched for. */
static void take_letter(struct top *top, int key)
{
    size_t length = strlen(top->search);
    if (key == '\n' || key == '\r')
        top->typing = false;
    else if (key == 27)
        top->typing = false, *top->search = '\0';
    else if ((key == 127 || key == 8) && length)
        top->search[length - 1] = '\0';
    else if (key < 256 && isprint(key) && length + 1 < sizeof top->search)
        snprintf(top->search + length, sizeof top->search - length, "%c", key);
}

/* false: that is the end. */
static bool take_key(struct top *top, int key)
{
    size_t most = page_rows(top), back = key == KEY_UP ? 1 : most;
    if (top->typing && key != KEY_END) {
        take_letter(top, key);
        return true;
    }
    switch (key) {
    case 'q':
    case 'Q':
    case KEY_END: return false;
    case 's': top->sort = top->sort + 1 == (int)top->count ? NO_SORT : top->sort + 1; break;
    case 'r': top->reverse = !top->reverse; break;
    case '/':
        top->typing = true;
        *top->search = '\0';
        break;
    case KEY_UP:
    case KEY_PAGE_UP: top->first -= top->first < back ? top->first : back; break;
    case KEY_DOWN: top->first++; break;
    case ' ':
    case KEY_PAGE_DOWN: top->first += most; break;
    case KEY_HOME: top->first = 0; break;
    case KEY_LAST: top->first = json_array_size(top->rows); break;
    default: break;
    }
    return true;
}

/* Until the next picture is due: keys change this one. false: that is the end. */
static bool serve_keys(struct top *top, unsigned ms)
{
    int64_t end = since_now() + (int64_t)ms * 1000, now;
    while ((now = since_now()) < end) {
        int key = screen_key((unsigned)((end - now + 999) / 1000));
        if (key == KEY_NONE)
            continue;
        if (!take_key(top, key))
            return false;
        if (sort(top) != EXIT_FINE)
            return false;
        print_page(top);
    }
    return true;
}

static int show(struct top *top, uint64_t interval, uint64_t count)
{
    for (uint64_t shown = 0;;) {
        int code = gather(top);
        if (!code)
            code = sort(top);
        if (code)
            return code;
        print_picture(top);
        if (++shown == count || ferror(stdout) || !serve_keys(top, (unsigned)interval * 1000))
            return EXIT_FINE;
    }
}

int command_top(struct flytctl *ctl)
{
    uint64_t interval = 2, count = 0;
    char name[32] = "server";
    if (!option_number(ctl, "interval", 1, 60, &interval) || !option_number(ctl, "count", 0, 1000000000, &count))
        return EXIT_USAGE;
    if (ctl->argc)
        snprintf(name, sizeof name, "%s", ctl->argv[0]);
    if (ctl->argc && *name && name[strlen(name) - 1] == 's')
        name[strlen(name) - 1] = '\0';
    const struct row_kind *kind = kind_find(name);
    if (!kind)
        return complain(ctl, EXIT_USAGE, "top shows servers, nodes, gpus, vms, programs or moves, not '%s'",
                        ctl->argv[0]);
    bool servers = strcmp(name, "server") == 0;
    struct top top = { .ctl = ctl,
                       .kind = kind,
                       .sort = NO_SORT,
                       .columns = servers ? server_columns : kind->columns,
                       .count = servers ? COUNT(server_columns) : kind->count };
    session_lasts(ctl);
    top.screen = ctl->form <= FORM_WIDE && screen_open();
    int code = show(&top, interval, count);
    screen_close();
    json_decref(top.summary);
    json_decref(top.rows);
    return code;
}
