/* comm_rows.h: rows of communicators and of their ranks, from the books of GPU servers (cpu/common/comm_book.h). */
#ifndef FLYT_FLYTCTL_COMM_ROWS_H
#define FLYT_FLYTCTL_COMM_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control-managers/rows/rows.h"

struct flytctl;

/* Reads so many bytes of a server's book. *there false: the server has none. An exit code. */
int comm_book_read(struct flytctl *, uint64_t server, uint64_t from, void *to, size_t size, bool *there);
/* A row for each rank that books of servers have. name: only of communicators whose names begin so; NULL: all. *rows is
   NULL only if the servers cannot be listed; else an exit code other than EXIT_FINE says that one did not answer. */
int comm_ranks(struct flytctl *, const char *name, const struct rows_query *, json_t **rows);
/* A row for each communicator of these ranks. all: also of those that have ended. New reference. */
json_t *comm_list(const json_t *ranks, bool all);
/* Of a row; 0 if it has no such key. */
json_int_t comm_number(const json_t *row, const char *key);

#endif
