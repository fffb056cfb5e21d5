/*
 * cmd_comm.c: `flytctl comm`: what communicators of GPU servers do, from the books that their workers keep
 * (cpu/common/comm_book.h). A communicator may have ranks on several servers and nodes: the books of all servers are
 * read, and pages of one name belong together.
 *
 * The books are what tenants' servers say of themselves: nothing of them is trusted, and texts are made fit to be
 * shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/flytctl/comm_rows.h"
#include "control-managers/flytctl/flytctl.h"
#include "cpu/comm/note.h"
#include "cpu/comm/plan/plan.h"
#include "cpu/common/comm_book.h"
#include "cpu/common/log.h"

const struct option_row comm_list_options[] = {
    { "all", 'a', NULL, "also those that have ended, as far as they are still recorded", false },
    { "vm", 0, "NAME", "only of this VM", false },
    { "node", 0, "NAME", "only what this node's servers have of them", false },
    { 0 },
};
const struct option_row comm_dump_options[] = {
    { "calls", 'n', "N", "of each rank only the newest N (all that are recorded: 1024 at most)", false },
    { 0 },
};

static const struct column list_columns[] = {
    { "COMMUNICATOR", "communicator", COLUMN_TEXT, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "RANKS", "seen", COLUMN_PART, "ranks", 0 },
    { "SERVERS", "servers", COLUMN_ANY, NULL, 3 },
    { "STATE", "state", COLUMN_TEXT, NULL, 0 },
    { "CALLS", "calls", COLUMN_NUMBER, NULL, 0 },
    { "BEHIND", "behind", COLUMN_ANY, NULL, 0 },
    { "MADE", "made", COLUMN_AGO, NULL, 2 },
    { "REMARK", "why", COLUMN_TEXT, NULL, 1 },
};
static const struct column rank_columns[] = {
    { "RANK", "rank", COLUMN_NUMBER, NULL, 0 },  { "SERVER", "server", COLUMN_NUMBER, NULL, 0 },
    { "NODE", "node", COLUMN_TEXT, NULL, 3 },    { "PROGRAM", "program", COLUMN_END, NULL, 4 },
    { "STATE", "state", COLUMN_TEXT, NULL, 0 },  { "CALLS", "calls", COLUMN_NUMBER, NULL, 0 },
    { "BEHIND", "behind", COLUMN_YES, NULL, 0 }, { "NEWEST CALL", "call", COLUMN_TEXT, NULL, 0 },
    { "BEGUN", "begun", COLUMN_AGO, NULL, 1 },   { "OVER", "over", COLUMN_YES, NULL, 1 },
    { "REMARK", "why", COLUMN_TEXT, NULL, 2 },
};

/* Says of which server there may be more: all pages of its book are of ranks that have not ended. */
static void warn_of_full(const json_t *ranks)
{
    const json_t *row;
    unsigned going_on = 0;
    size_t i;
    json_array_foreach(ranks, i, row) /* those of a server stand together */
    {
        const json_t *server = json_object_get(row, "server");
        if (i && !json_equal(server, json_object_get(json_array_get(ranks, i - 1), "server")))
            going_on = 0;
        going_on += json_is_null(json_object_get(row, "ended"));
        if (going_on == COMM_BOOK_PAGES)
            fprintf(stderr,
                    "flytctl: server %" JSON_INTEGER_FORMAT " records %d ranks at a time, and all go on: it may have "
                    "more, which are not shown\n",
                    json_integer_value(server), COMM_BOOK_PAGES);
    }
}

int command_comm_list(struct flytctl *ctl)
{
    const struct rows_query query = { .vm = option(ctl, "vm"), .node = option(ctl, "node") };
    json_t *ranks = NULL;
    int code = comm_ranks(ctl, NULL, &query, &ranks);
    if (!ranks)
        return code;
    warn_of_full(ranks);
    json_t *rows = comm_list(ranks, option_count(ctl, "all") > 0);
    json_decref(ranks);
    int printed = print_rows(ctl, rows, list_columns, COUNT(list_columns), "There are no communicators.");
    return code ? code : printed;
}

/* ---- one communicator ---- */

static int compare_ranks(const void *a, const void *b)
{
    json_int_t x = comm_number(*(json_t *const *)a, "rank"), y = comm_number(*(json_t *const *)b, "rank");
    return (x > y) - (x < y);
}

/* The ranks of the one communicator whose name begins so, in their order. */
static int ranks_of(struct flytctl *ctl, const char *name, json_t **rows)
{
    json_t *found = NULL, *row;
    size_t i;
    int code = comm_ranks(ctl, name, &(struct rows_query){ .only = NULL }, &found);
    size_t count = json_array_size(found);
    json_t *list = found ? comm_list(found, true) : NULL;
    if (found && json_array_size(list) != 1)
        code = complain(ctl, json_array_size(list) ? EXIT_USAGE : EXIT_NOT_FOUND,
                        json_array_size(list) ? "the names of several communicators begin with '%s'"
                                              : "there is no communicator '%s'",
                        name);
    else if (found)
        code = EXIT_FINE;
    json_decref(list);
    json_t **sorted = code ? NULL : calloc(count + 1, sizeof *sorted);
    if (!sorted) {
        json_decref(found);
        return code ? code : complain(ctl, EXIT_FAILED, "no memory");
    }
    json_array_foreach(found, i, row) sorted[i] = json_incref(row);
    qsort(sorted, count, sizeof *sorted, compare_ranks);
    *rows = json_array();
    for (i = 0; i < count; i++)
        json_array_append_new(*rows, sorted[i]);
    free(sorted);
    json_decref(found);
    return EXIT_FINE;
}

static json_t *call_row(const struct comm_book_call *call)
{
    char text[96], shown[3 * sizeof text];
    const bool over = call->status != COMM_BOOK_UNDER_WAY;
    comm_call_text(call->note, text, sizeof text);
    return json_pack("{s:I, s:s, s:s, s:o, s:o, s:o, s:o}", "number", (json_int_t)call->number, "call",
                     log_text(shown, sizeof shown, text), "algorithm",
                     call->algorithm ? comm_algorithm_name((enum comm_algorithm)call->algorithm) : "", "begun",
                     json_time((int64_t)(call->begun / 1000)), "ended",
                     over ? json_time((int64_t)(call->ended / 1000)) : json_null(), "us",
                     over && call->ended >= call->begun ? json_real((double)(call->ended - call->begun) / 1e3)
                                                        : json_null(),
                     "status", over ? json_integer(call->status) : json_null());
}

static uint64_t place_of(const json_t *row, uint64_t first)
{
    return offsetof(struct comm_book, calls) +
           ((uint64_t)comm_number(row, "page") * COMM_BOOK_CALLS + first) * sizeof(struct comm_book_call);
}

/* Makes the newest call a part of a rank's row. */
static int add_newest(struct flytctl *ctl, json_t *row, json_int_t most)
{
    struct comm_book_call call = { 0 };
    const json_int_t calls = comm_number(row, "calls");
    bool there = false;
    int code = EXIT_FINE;
    if (calls > 0)
        code = comm_book_read(ctl, (uint64_t)comm_number(row, "server"),
                              place_of(row, (uint64_t)(calls - 1) % COMM_BOOK_CALLS), &call, sizeof call, &there);
    json_t *shown = there ? call_row(&call) : NULL;
    json_object_set_new(row, "behind", json_boolean(calls < most));
    json_object_set(row, "call", there ? json_object_get(shown, "call") : json_null());
    json_object_set(row, "begun", there ? json_object_get(shown, "begun") : json_null());
    json_object_set_new(row, "over", json_boolean(there && call.status != COMM_BOOK_UNDER_WAY));
    json_decref(shown);
    return code;
}

int command_comm_show(struct flytctl *ctl)
{
    json_t *rows = NULL, *row;
    json_int_t most = 0;
    size_t i;
    int code = ranks_of(ctl, ctl->argv[0], &rows);
    if (code)
        return code;
    json_array_foreach(rows, i, row) most = comm_number(row, "calls") > most ? comm_number(row, "calls") : most;
    json_array_foreach(rows, i, row)
    {
        int one = add_newest(ctl, row, most);
        code = code ? code : one;
    }
    int printed = print_rows(ctl, rows, rank_columns, COUNT(rank_columns), "It has no ranks.");
    return code ? code : printed;
}

/* ---- all that is recorded ---- */

static int compare_calls(const void *a, const void *b)
{
    uint64_t x = ((const struct comm_book_call *)a)->number, y = ((const struct comm_book_call *)b)->number;
    return (x > y) - (x < y);
}

static int add_calls(struct flytctl *ctl, json_t *row, uint64_t newest)
{
    static struct comm_book_call calls[COMM_BOOK_CALLS];
    bool there;
    memset(calls, 0, sizeof calls);
    int code = comm_book_read(ctl, (uint64_t)comm_number(row, "server"), place_of(row, 0), calls, sizeof calls, &there);
    json_t *list = json_array();
    qsort(calls, COMM_BOOK_CALLS, sizeof *calls, compare_calls);
    for (unsigned i = newest < COMM_BOOK_CALLS ? COMM_BOOK_CALLS - (unsigned)newest : 0; there && i < COMM_BOOK_CALLS;
         i++)
        if (calls[i].number)
            json_array_append_new(list, call_row(&calls[i]));
    json_object_set_new(row, "recorded", list);
    return code;
}

int command_comm_dump(struct flytctl *ctl)
{
    json_t *rows = NULL, *row;
    uint64_t newest = COMM_BOOK_CALLS;
    size_t i;
    if (!option_number(ctl, "calls", 1, COMM_BOOK_CALLS, &newest))
        return EXIT_USAGE;
    int code = ranks_of(ctl, ctl->argv[0], &rows);
    if (code)
        return code;
    json_array_foreach(rows, i, row)
    {
        int one = add_calls(ctl, row, newest);
        code = code ? code : one;
    }
    if (ctl->json)
        print_data(ctl, rows);
    else
        print_json(rows);
    return code;
}
