/* schema.h: the configuration of flyt-monitor. The keys are described in schema.c. */
#ifndef FLYT_MONITOR_SCHEMA_H
#define FLYT_MONITOR_SCHEMA_H

#include "control-managers/common/config.h"

struct monitor_config {
    char *manager, *tls_folder, *name;
    double interval;
    char *address;
    int64_t port;
    struct config_strings hosts;
    int64_t streams;
    bool programs;
    char *web_folder, *tokens;
};

extern const struct config_schema monitor_schema;

#endif
