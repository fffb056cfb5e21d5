/* list.c: list commands: which rows, in which order and form, once or again and again. */
#include <stdlib.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

const struct option_row list_options[] = { LIST_OPTIONS, { 0 } };

/* The sentence that is printed in place of rows. some: filters have left out all rows that there are. */
static const char *when_empty(const struct flytctl *ctl, const struct row_kind *kind, bool some)
{
    return some || option(ctl, "vm") || option(ctl, "node") ? "No row matches the filters." : kind->when_empty;
}

static int print_picture(struct flytctl *ctl, const struct row_kind *kind, json_t *rows, const char *none, bool again,
                         uint64_t shown)
{
    if (!again)
        return print_rows(ctl, rows, kind->columns, kind->count, none);
    if (ctl->json) {
        print_data_line(ctl, rows);
        return EXIT_FINE;
    }
    if (isatty(STDOUT_FILENO))
        screen_clear();
    else if (shown)
        putchar('\n');
    int code = print_rows(ctl, rows, kind->columns, kind->count, none);
    fflush(stdout);
    return code;
}

int list_kind(struct flytctl *ctl, const char *name)
{
    const struct row_kind *kind = kind_find(name);
    const struct rows_query query = { .vm = option(ctl, "vm"), .node = option(ctl, "node") };
    bool again = option_count(ctl, "watch") > 0;
    uint64_t interval = 2, count = 0;
    if (!option_number(ctl, "interval", 1, 60, &interval) || !option_number(ctl, "count", 1, 1000000000, &count))
        return EXIT_USAGE;
    if (!again && (option(ctl, "interval") || option(ctl, "count")))
        return complain(ctl, EXIT_USAGE, "--interval and --count go with --watch");
    if (again)
        session_lasts(ctl);
    for (uint64_t shown = 0;; shown++) {
        json_t *rows;
        int code = kind_rows(ctl, kind, &query, &rows);
        if (code)
            return code;
        bool some = json_array_size(rows) > 0;
        code = select_rows(ctl, rows, kind_example(kind));
        if (code) {
            json_decref(rows);
            return code;
        }
        code = print_picture(ctl, kind, rows, when_empty(ctl, kind, some), again, shown);
        if (code || !again || shown + 1 == count || ferror(stdout))
            return code;
        if (screen_key((unsigned)interval * 1000) == KEY_END)
            return EXIT_FINE;
    }
}
