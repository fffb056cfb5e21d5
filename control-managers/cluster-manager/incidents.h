/*
 * incidents.h: how often each GPU had a fault that took the whole GPU, and how often GPU servers of each node were
 * started anew after a crash. For metrics.
 *
 * No count falls: metrics have what the resource DB has taken. It is written whenever it changes, which is as rare as
 * the event that says the same. A count goes when its node is removed.
 */
#ifndef FLYT_CLUSTER_INCIDENTS_H
#define FLYT_CLUSTER_INCIDENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "control-managers/common/map.h"
#include "control-managers/common/protocol.h"

struct cluster;
struct node;

enum incident_kind { INCIDENT_GPU_FAULT, INCIDENT_RESTART };

struct incident {
    struct cluster *cluster; /* NULL: it was forgotten, while the resource DB has it in hand */
    enum incident_kind kind;
    char name[CTL_MAX_NAME + 1]; /* of the GPU, or the node */
    uint64_t id;                 /* of its row of meta */
    uint64_t now, written, durable;
    bool writing;
};

void incidents_add(struct cluster *, enum incident_kind, const char *name, uint64_t more);
void incidents_load(struct cluster *, const char *key, const char *value); /* of a row of meta */
void incidents_forget(struct cluster *, const struct node *);              /* it was removed, with its GPUs */
void incidents_end(struct cluster *);                                      /* at the end: frees */

#endif
