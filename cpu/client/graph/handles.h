/* handles.h: tokens for what a program can name. A kind's table is made at its first use; look-ups take no lock. */
#ifndef FLYT_CLIENT_GRAPH_HANDLES_H
#define FLYT_CLIENT_GRAPH_HANDLES_H

#include <stdint.h>

enum handle_kind { HANDLE_GRAPH, HANDLE_NODE, HANDLE_EXECUTABLE, HANDLE_OBJECT, HANDLE_KINDS };

uint64_t handle_add(enum handle_kind, void *object); /* 0: no memory */
void *handle_find(enum handle_kind, uint64_t token); /* NULL: no such token */
void handle_remove(enum handle_kind, uint64_t token);

#endif
