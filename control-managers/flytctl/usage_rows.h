/* usage_rows.h: what was used, as JSON: a row for each program, and sums of rows. `usage` prints them. */
#ifndef FLYT_FLYTCTL_USAGE_ROWS_H
#define FLYT_FLYTCTL_USAGE_ROWS_H

#include "control-managers/flytctl/flytctl.h"

/* A way to group rows (--by): the key whose value the rows of a group share, and the title of its column. */
struct usage_grouping {
    const char *by, *title, *key;
    enum column_kind kind;
    bool per_vm; /* the key means something within a VM only */
};
const struct usage_grouping *usage_grouping_find(const char *by); /* NULL: there is none of that name */

/* New reference. */
json_t *usage_row(const admin_usage_row *);
/* A row for each group. Takes the rows over; new reference. */
json_t *usage_sums(json_t *rows, const struct usage_grouping *);

#endif
