/* schema.h: the configuration of flyt-cluster-manager. */
#ifndef FLYT_CLUSTER_SCHEMA_H
#define FLYT_CLUSTER_SCHEMA_H

#include "control-managers/common/config.h"

enum { CLUSTER_TLS_AUTO, CLUSTER_TLS_ON, CLUSTER_TLS_OFF, CLUSTER_TLS_ALLOW };
enum { CLUSTER_WAIT_IN_LINE, CLUSTER_WAIT_FAIL };
enum { CLUSTER_BEST_FIT, CLUSTER_SPREAD, CLUSTER_FIRST_FIT };
enum { CLUSTER_ELASTIC_OFF, CLUSTER_ELASTIC_ADVISE, CLUSTER_ELASTIC_ACT };

struct cluster_config {
    /* vm-resource-db */
    char *db_uri, *db_host, *db_user, *db_password, *db_name;
    int64_t db_port;
    /* ports */
    char *address;
    int64_t node_port, client_port;
    /* ipc */
    char *socket, *socket_group;
    int64_t socket_role; /* of the group's members: 0 admin, 1 operator, 2 viewer */
    /* virt-server-auto-deallocate */
    bool deallocate;
    double grace;
    /* placement */
    int policy;
    double overcommit_sms, overcommit_memory;
    int wait;
    double wait_seconds;
    unsigned sharing;
    int64_t ungrouped_programs, overtaking, failed_starts;
    /* elastic */
    int elastic_policy;
    int64_t elastic_moves, elastic_at_once, elastic_bandwidth;
    double elastic_pause, elastic_margin;
    /* silence */
    double suspect, lost, client_lost, suspended, reclaimed;
    double start_seconds;
    /* security */
    char *node_secret, *admin_secret, *tls_folder, *ticket_key;
    int tls;
    double ticket_seconds, certificate_days;
    bool address_identity;
    /* accounting */
    double keep_days, detail_days;
    /* log */
    int log_level;
    int64_t events_kept;
    char *audit;
};

extern const struct config_schema cluster_config_schema;
extern const char *const cluster_policies[]; /* names, in the order of place.c's table */

#endif
