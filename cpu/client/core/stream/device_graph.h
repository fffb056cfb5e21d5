/*
 * device_graph.h: graphs that kernels launch, as the server has them: what was given to it for each, so that another
 * server gets the same (device_graph.c).
 */
#ifndef FLYT_CLIENT_CORE_DEVICE_GRAPH_H
#define FLYT_CLIENT_CORE_DEVICE_GRAPH_H

#include "context.h"
#include "cpu/client/core/wire/state.h"

/* The server has these calls from now on, in place of earlier ones. A result code; nothing is sent. */
int  device_graph_keep(core_context *, const device_graph_args *);
void device_graph_forget(uint64_t executable);
/* For the table of kinds. */
void device_graphs_forget_context(core_context *);
uint64_t device_graphs_count(void);

#endif
