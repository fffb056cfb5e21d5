/* check.h: whether a daemon can work with its configuration: what it reads and writes is tried as the user whom it runs as. */
#ifndef FLYT_FLYTCTL_CHECK_H
#define FLYT_FLYTCTL_CHECK_H

#include <jansson.h>
#include <stdbool.h>

#include "control-managers/common/config.h"

struct check_request {
    const char *path;                   /* of the configuration */
    const struct config_schema *schema;
    const char *usual_user;             /* whom the daemon runs as where it is installed; NULL: root */
    bool        anybody;                /* it is no daemon's: whoever reads it is right */
    const char *user;                   /* whom the caller of flytctl named, or NULL */
    bool        ports;                  /* also that its ports are free */
};

/* {"file", "daemon", "user", "ok", "problems": [text], "notes": [text]}. What can be tried as root only, and the caller is not, is a note.
   NULL: no memory, or no process. */
json_t *check_configuration(const struct check_request *);

#endif
