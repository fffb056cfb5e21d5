/*
 * admin_rows.h: rows as administrators are shown them. A row points into what it is about, and into the buffers that
 * the caller gives: both have to stay until the row is encoded.
 */
#ifndef FLYT_CLUSTER_ADMIN_ROWS_H
#define FLYT_CLUSTER_ADMIN_ROWS_H

#include "control-managers/cluster-manager/cluster.h"

struct node_buffers {
    admin_gpu gpus[CTL_MAX_GPUS];
    ctl_host addresses[CTL_MAX_ADDRESSES];
};
struct server_addresses {
    ctl_uri uris[CTL_MAX_ADDRESSES];
};

void row_of_node(struct cluster *, struct node *, admin_node *, struct node_buffers *);
void row_of_server(struct server *, admin_server *, struct server_addresses *);
void row_of_entitlement(struct vm *, admin_vm *);
void row_of_vm(struct vm *, admin_vm_row *);
struct served_alone;
void row_of_served(const struct served_alone *, admin_program *);
void row_of_program(struct program *, admin_program *, char why[CTL_MAX_TEXT + 1]);

#endif
