/*
 * usage_rig.h: for tests of the record of use (usage.h) without a cluster: a resource DB that is played, and one server
 * whose time can be moved.
 */
#ifndef FLYT_TESTS_CONTROL_USAGE_RIG_H
#define FLYT_TESTS_CONTROL_USAGE_RIG_H

#include "control-managers/cluster-manager/usage.h"
#include "control-managers/cluster-manager/usage_state.h"
#include "tests/lib/unit.h"

enum { ROWS = 4000, SHARERS = 4 };
static const int64_t second = 1000000;

/* The DB: its rows; how much waits there, as it says; how often it was given something. */
extern struct db_usage rows[ROWS];
extern size_t row_count, waiting;
extern unsigned batches;

/* Programs that the node was asked about, the last eight; how often it was, and how often it got another order. */
extern uint64_t asked_about[8];
extern unsigned asked, asked_other;

/* The server has number 1000, the program 77, and the sharers 100 and above. */
extern struct cluster cluster;
extern struct node node;
extern struct vm vm;
extern struct server server;
extern struct program program, sharers[SHARERS];

int rig_set_up(void **state);
int rig_tear_down(void **state);
/* The loop, for so long. */
void rig_run(unsigned ms);
/* Writes into the DB. */
void rig_put(const struct db_change *);
/* All SM-microseconds of the VM's rows in the DB. */
uint64_t rig_sum_of(enum db_usage_kind, const char *name);
/* Until the DB has all that memory has of the VM. */
void rig_until_written(void);
/* The sharers have places on the server, which runs. */
void rig_attach_all(void);
/* Moves all that is known of the server into the past, as if so much time had passed. */
void rig_pass(int64_t us);
/* The node reports until when a worker served the program: see node_left. */
void rig_says(uint64_t id, int64_t ended);
uint64_t rig_sm_us_of(uint64_t id);
/* Within a tenth of a second of the server's SMs. */
void rig_has_seconds(uint64_t id, double seconds);
/* Rows and VM have the same, but for what could not be divided. */
void rig_nothing_is_lost(void);
/* A row of an earlier run of this manager, which was away for 20 s. ended: 0: it has not. */
struct used *rig_load_program(uint64_t id, int64_t ended);

#endif
