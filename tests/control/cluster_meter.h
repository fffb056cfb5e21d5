/*
 * cluster_meter.h: what a test of a cluster manager (cluster_rig.h) costs: time, processor time, memory; and how busy
 * the machine is with other things meanwhile.
 */
#ifndef FLYT_TESTS_CLUSTER_METER_H
#define FLYT_TESTS_CLUSTER_METER_H

#include <sys/types.h>

#include "tests/lib/now.h"

/* Seconds of processor time so far: of the manager, and of another process. */
double manager_cpu(void);
double process_cpu(pid_t);
void print_memory(void); /* the manager's, as a comment of TAP */

/* A moment: seconds, processor time of all on this machine, and of the manager and this test. */
struct meter {
    double start, busy, ours;
};
struct meter meter_read(void);
/* Fails the test unless others used a fifth of the machine since then; what: the target, for people. */
void missed(const struct meter *then, const char *what);

#endif
