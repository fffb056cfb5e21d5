/* db_mongo.c: the resource DB by MongoDB. */
#include <errno.h>

#include "control-managers/common/db_fields.h"

static int mongo_open(const char *uri, struct db **out, char *error)
{
    char clean[512];
    *out = NULL;
    return explain(error, -ENOSYS, "resource DB %s: this build cannot speak to MongoDB", db_uri_clean(uri, clean, sizeof clean));
}

const struct db_operations db_mongo = { .kind = "mongodb", .open = mongo_open };
