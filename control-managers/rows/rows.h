/*
 * rows.h: what administrators' programs (flytctl, flyt-monitor) have in common: the cluster manager's rows as JSON, and
 * whole listings.
 *
 * The keys are an interface: they are added, never renamed. Memory is bytes, times are RFC 3339 in UTC.
 */
#ifndef FLYT_ROWS_H
#define FLYT_ROWS_H

#include <jansson.h>
#include <stdint.h>

#include "control-managers/common/protocol.h"

/* ---- texts and times ---- */

json_t *json_time(int64_t microseconds); /* RFC 3339; null for 0 */
json_t *json_text(const char *);

/* ---- rows ---- */

json_t *row_status(const admin_status_result *);
json_t *row_whoami(const admin_whoami_result *);
json_t *row_node(const admin_node *);
json_t *row_server(const admin_server *);
json_t *row_vm(const admin_vm *);
json_t *row_vm_state(const admin_vm_row *);
json_t *row_program(const admin_program *);
json_t *row_event(const admin_event *);
json_t *row_move(const admin_move_row *);
const char *row_move_phase(const admin_move_row *); /* "": it is over, or nothing is known yet */
/* The GPUs of rows of nodes, each with its node's name and state. */
json_t *rows_gpus(const json_t *nodes);

/* ---- whole listings, page by page (pages.c) ---- */

/* Makes one call; the caller frees *result with protocol_free if 0 is returned. */
struct rows_asker {
    int (*ask)(void *context, uint32_t procedure, const void *args, void *result);
    void *context;
};

enum rows_kind { ROWS_NODES, ROWS_VMS, ROWS_SERVERS, ROWS_PROGRAMS, ROWS_MOVES, ROWS_KINDS };
/* NULL: all. only: this one node or VM. vm, node: servers, programs and moves of these. */
struct rows_query {
    const char *only, *vm, *node;
};
/* 0, and the rows; or what `ask` returned, and NULL. */
int rows_list(const struct rows_asker *, enum rows_kind, const struct rows_query *, json_t **rows);
/* A row without values: it has the keys. */
json_t *rows_example(enum rows_kind);

#endif
