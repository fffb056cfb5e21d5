/* metrics.h: samples in Prometheus' text format. Samples of one name stand together, in whatever order they come. */
#ifndef FLYT_MONITOR_METRICS_H
#define FLYT_MONITOR_METRICS_H

#include <jansson.h>
#include <stdbool.h>

#include "control-managers/common/protocol.h"

struct metrics;

struct metrics *metrics_create(void); /* NULL: no memory */
/* labels: as admin_sample has them, "" for none. */
void metrics_add(struct metrics *, const char *name, const char *labels, double value);
/* The text, to be freed; frees the metrics. NULL: no memory. */
char *metrics_end(struct metrics *, size_t *size);

/* What rows say. */
void metrics_of_status(struct metrics *, const json_t *status);
void metrics_of_nodes(struct metrics *, const json_t *nodes);
void metrics_of_vms(struct metrics *, const json_t *vms);
void metrics_of_servers(struct metrics *, const json_t *servers, bool each);
void metrics_of_programs(struct metrics *, const json_t *programs);

#endif
