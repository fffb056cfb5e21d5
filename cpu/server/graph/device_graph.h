/*
 * device_graph.h: graphs that kernels launch (device_graph.c), and what of it concerns other files.
 */
#ifndef FLYT_SERVER_DEVICE_GRAPH_H
#define FLYT_SERVER_DEVICE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/list.h"
#include "cpu/common/softgpu.h"
#include "cpu/common/tree.h"

struct context;
struct session;

/* Of one session; under the lock of device_graph.c, which all sessions share. */
struct device_graphs {
    struct list of_all;                   /* in the list of sessions whose kernels launch graphs */
    struct tree graphs;                   /* by executable */
    struct tree running;                  /* environments: what runs, by executable */
    struct list environments, places;     /* all of them */
    uint64_t graph_count, environment_count;
    uint64_t serial;
};
/* Can kernels of this session's GPU launch graphs? */
bool device_graphs_offered(const struct session *);
/* What a launch of a kernel passes to the driver, from what the client says. CUDA_SUCCESS, or why not. */
int device_graph_attribute(struct session *, struct softgpu_graph *);
/* No graph begins any more, and no stream waits for one. NULL: of every context */
void device_graphs_release_all(struct session *, struct context *);
void device_graphs_drop(struct session *, struct context *);
void device_graphs_stop(struct session *);
uint64_t device_graphs_count(const struct session *);

#endif
