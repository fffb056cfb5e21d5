/* check.h: whether a daemon can work with its configuration: what it reads and writes is tried as its own user. */
#ifndef FLYT_FLYTCTL_CHECK_H
#define FLYT_FLYTCTL_CHECK_H

#include <jansson.h>
#include <stdbool.h>

#include "control-managers/common/config.h"

struct check_request {
    const char *path; /* of the configuration */
    const struct config_schema *schema;
    const char *usual_user; /* whom the daemon runs as where it is installed; NULL: root */
    bool anybody;           /* it is no daemon's: whoever reads it is right */
    const char *user;       /* whom the caller of flytctl named, or NULL */
    bool ports;             /* also that its ports are free */
    bool file_only;         /* not what it needs on this machine */
};

/* {"file", "daemon", "user", "ok", "problems": [text], "notes": [text]}. What only root could have tried is a note for
   others. NULL: no memory, or no process. */
json_t *check_configuration(const struct check_request *);

#endif
