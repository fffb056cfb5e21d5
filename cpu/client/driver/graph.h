/* graph.h: what the files of chapter "Graph Management" share: NVIDIA's structures, read. */
#ifndef FLYT_DRIVER_GRAPH_H
#define FLYT_DRIVER_GRAPH_H

#include <stdlib.h>

#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/graph.h"

/* with_kernel: the structure is of the form that can name a CUkernel. */
int graph_read_kernel(const CUDA_KERNEL_NODE_PARAMS *, bool with_kernel, struct graph_parameters *);
int graph_read_copy(const CUDA_MEMCPY3D *, CUcontext, struct graph_parameters *);
int graph_read_set(const CUDA_MEMSET_NODE_PARAMS *, CUcontext, struct graph_parameters *);
int graph_read_host(const CUDA_HOST_NODE_PARAMS *, struct graph_parameters *);
int graph_read_event(enum graph_kind, CUevent, struct graph_parameters *);
int graph_read_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS *, struct graph_parameters *);
/* Of no parameters but a number: a child graph, or memory that is freed. */
int graph_read_number(enum graph_kind, uint64_t, struct graph_parameters *);
/* *room: the list, if there is one, which belongs to the caller. It is too large for the stacks of some threads. */
enum { GRAPH_VALUES_MOST = 255 };
int graph_read_values(unsigned count, const CUstreamBatchMemOpParams *, unsigned flags, struct core_value **room,
                      struct graph_values *);
int graph_read_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *, struct core_value **room, struct graph_parameters *);
/* Reads the parameters of a node of any kind. */
int graph_read_any(const CUgraphNodeParams *, struct core_value **room, struct graph_parameters *);
/* A `room` that is freed when its block ends. */
static inline void graph_room_free(struct core_value **room) { free(*room); }
#define GRAPH_ROOM __attribute__((cleanup(graph_room_free))) struct core_value *
void graph_write_copy(const struct graph_copy *, CUDA_MEMCPY3D *);

#endif
