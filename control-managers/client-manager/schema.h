/* schema.h: the configuration of flyt-client-manager. The keys are described in schema.c. */
#ifndef FLYT_CLIENT_MANAGER_SCHEMA_H
#define FLYT_CLIENT_MANAGER_SCHEMA_H

#include "control-managers/common/config.h"

enum manager_status_of { MANAGER_STATUS_OWN, MANAGER_STATUS_ALL };
enum manager_wait { MANAGER_WAIT_DEFAULT, MANAGER_WAIT_FAIL, MANAGER_WAIT_IN_LINE };

struct manager_config {
    char *manager_address;
    int64_t manager_port;
    char *name;
    char *secret;
    char *state;
    char *socket;
    char *mode;
    char *group;
    struct config_strings users;
    bool user_shares;
    int status; /* manager_status_of */
    double monitor_period;
    double away_timeout;
    int wait; /* manager_wait */
    double wait_timeout;
    char *tls_ca, *tls_certificate, *tls_key;
    bool plain_servers;
    char *checkpoint_key;
    char *store;
    uint64_t journal; /* bytes */
};

extern const struct config_schema manager_schema;

#endif
