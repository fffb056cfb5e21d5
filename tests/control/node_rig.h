/*
 * node_rig.h: a real flyt-node-manager in a process of its own, whose cluster manager is played by the test
 * (node_fake.h).
 */
#ifndef FLYT_TESTS_CONTROL_NODE_RIG_H
#define FLYT_TESTS_CONTROL_NODE_RIG_H

#include "tests/control/node_fake.h"

enum { START_MS = 30000, SOON_MS = 15000 };

/* Of the node manager that start_node starts. Each test begins with the first values again. */
extern char more_config[512];   /* further keys of virt-server; "" */
extern const char *gpu_kind;    /* "software" */
extern char *environment[8];    /* NAME=value; none */

int node_setup(void **state);
int node_teardown(void **state);
/* Waits until it has registered. */
pid_t start_node(void);
/* It must end in peace. */
void end_node(pid_t);

/* The number of the order. */
uint64_t order_start(const ctl_server_spec *);
uint64_t order_stop(uint64_t id, unsigned grace);
/* As the newest report says. */
bool in_state(uint64_t id, ctl_server_state);
/* Its process, when it runs. */
pid_t start_server(uint64_t id);
void stop_server(uint64_t id, unsigned grace); /* until it has ended */

/* What /proc/PID/status says after "name:"; -1: nothing. */
long status_number(pid_t, const char *name, int base);
/* The value behind "NAME=" in a process's environment, until the next call. */
const char *variable(pid_t, const char *name);

#endif
