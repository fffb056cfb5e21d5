/* graph.h: what the files of chapter "Graph Management" share. */
#ifndef FLYT_RUNTIME_GRAPH_H
#define FLYT_RUNTIME_GRAPH_H

#include "cpu/client/graph/graph.h"
#include "cpu/client/runtime/runtime.h"

/* The forms of parameters that the chapter has, read and written. Each begins with runtime_enter. */
int graph_read_kernel(const cudaKernelNodeParams *, struct graph_parameters *);
int graph_read_copy(const cudaMemcpy3DParms *, struct graph_parameters *);
int graph_read_line(void *to, const void *from, size_t size, int kind, struct graph_parameters *);
int graph_read_to_symbol(const void *symbol, const void *from, size_t size, size_t offset, int kind,
                         struct graph_parameters *);
int graph_read_from_symbol(void *to, const void *symbol, size_t size, size_t offset, int kind,
                           struct graph_parameters *);
int graph_read_set(const cudaMemsetParams *, struct graph_parameters *);
int graph_read_host(const cudaHostNodeParams *, struct graph_parameters *);
int graph_read_event(enum graph_kind, cudaEvent_t, struct graph_parameters *);
int graph_read_allocation(const cudaMemAllocNodeParams *, struct graph_parameters *);
#if FLYT_CUDART >= 12
int graph_read_any(const cudaGraphNodeParams *, struct graph_parameters *);
#endif

#endif
