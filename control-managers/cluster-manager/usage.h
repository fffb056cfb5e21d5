/*
 * usage.h: what has been counted, and who used what.
 *
 * Figures. A node reports what the programs of each server have done (ctl_figures). What has been added since its last
 * report is added to the server's figures, and to the totals of its VM, node and GPU, so no total ever falls. A lost
 * report costs nothing: the next one has it. What was added is written to the DB now and then, in one batch with what
 * the report was: so a restarted manager adds nothing twice, and nothing is left out.
 *
 * Usage. Each program on each server is a row: from when to when, its part of the server's SMs times that time, why it
 * ended. Programs that share a server have equal parts. A row goes on until the program has gone and no worker of the
 * server serves it any more, which its node says: a program that leaves its client manager and keeps its session is
 * charged. While a node is away, its programs are charged nothing. When it is back, it reports which of them have left
 * and when, and the time is charged to the programs that were there. Rows are kept for accounting.detail-days, then
 * summed by day, VM, user and GPU, and those sums for accounting.keep-days.
 */
#ifndef FLYT_CLUSTER_USAGE_H
#define FLYT_CLUSTER_USAGE_H

#include "control-managers/cluster-manager/cluster.h"

struct usage;

struct usage *usage_create(void); /* NULL: no memory */
void usage_free(struct usage *);
/* After everything else was loaded. */
void usage_load(struct cluster *, const struct db_usage *);
void usage_begin(struct cluster *); /* all is loaded: saves from now on */
void usage_end(struct cluster *);   /* the manager ends, programs and servers go on: saves everything */

/* A node has reported; the server is one of its own. */
void usage_report(struct cluster *, struct server *, const node_usage *);
/* A node has reported what the workers of one program have done. */
void usage_report_program(struct cluster *, struct server *, const node_program *);
/* The VM of a program that a row says goes on, whoever names it; NULL: there is no such row. */
const char *usage_owner(const struct cluster *, uint64_t program);
/* Before and after the programs or the SMs of a server change: what they have had until now is theirs. */
void usage_accrue(struct cluster *, struct server *);
void usage_attached(struct cluster *, struct program *);                  /* it has program->server now */
void usage_detached(struct cluster *, struct program *, const char *why); /* still has program->server */
void usage_named(struct cluster *, const struct vm *); /* its client manager has named all programs that it has */
void usage_settle(struct cluster *, struct server *); /* it goes: all is charged until now, whoever is away */
void usage_server_gone(struct cluster *, struct server *);
void usage_node_away(struct cluster *, struct node *);
void usage_node_back(struct cluster *, struct node *); /* it has registered */
/* No worker of the server serves the program any more, or, as it says, one does. After all that a node has reported in
   one call, usage_divide. */
void usage_divide(struct cluster *);
void usage_left(struct cluster *, struct server *, const node_left *);
/* No worker serves a program of a server that was lost with this node, which is back. */
void usage_left_lost(struct cluster *, const struct node *, const node_left *);

/* Programs that have left their client manager, and that workers serve all the same: how many on this server; those
   with greater ids than `after`, in the order of their ids, to be freed; of this VM, NULL: of all. */
struct served_alone {
    struct server *server;
    struct db_usage *row;
};
size_t usage_served_alone(const struct server *);
struct served_alone *usage_list_served(struct cluster *, const struct vm *, uint64_t after, size_t *count);

/* Rows are read page by page. after 0: from the beginning; false: what was read before counts no more, since rows were
   summed meanwhile. *from: a place in usage.rows. */
bool usage_read(struct cluster *, uint64_t after, size_t *from);
uint64_t usage_read_on(const struct cluster *, size_t next); /* the next page's `after` */
void usage_read_end(struct cluster *);

extern conn_handler admin_handle_counters, admin_handle_follow, admin_handle_usage;

#endif
