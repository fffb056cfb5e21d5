/* schema.h: flytctl's own settings. */
#ifndef FLYT_FLYTCTL_SCHEMA_H
#define FLYT_FLYTCTL_SCHEMA_H

#include "control-managers/common/config.h"

struct flytctl_config {
    char *manager, *secret, *name, *tls_folder;
};
extern const struct config_schema flytctl_config_schema;

#endif
