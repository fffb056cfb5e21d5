/* metrics.h: samples in Prometheus' text format. Samples of one name stand together, in whatever order they come. */
#ifndef FLYT_MONITOR_METRICS_H
#define FLYT_MONITOR_METRICS_H

#include <jansson.h>
#include <stdbool.h>

#include "control-managers/monitor/mirror.h"

struct metrics;

struct metrics *metrics_create(void); /* NULL: no memory */
/* labels: as admin_sample has them, "" for none. */
void metrics_add(struct metrics *, const char *name, const char *labels, double value);
/* The text, to be freed; frees the metrics. NULL: no memory. */
char *metrics_end(struct metrics *, size_t *size);
void metrics_drop(struct metrics *); /* NULL is fine */

/* That the monitor runs, and whether the cluster manager answers. */
void metrics_of_components(struct metrics *, bool manager_answers);
/* What rows say. */
void metrics_of_status(struct metrics *, const json_t *status);
void metrics_of_mirror(struct metrics *, struct monitor_mirror *);  /* all but each server */
void metrics_of_servers(struct metrics *, struct monitor_mirror *); /* each server */
void metrics_of_programs(struct metrics *, struct monitor_mirror *); /* each program */

#endif
