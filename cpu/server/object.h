/*
 * object.h: objects that only forwarded calls make, use and end: texture objects … (object.c). A kind is made of a
 * handle type with the word object=… in cpu/api/driver_types.api, and of a row of kinds.c.
 *
 * The client names such an object by a number: the driver's own value where kernels or programs see it (object=value),
 * else a number that the server gives and never gives again in this session (object=id). An object belongs to the
 * context in which it was made and ends with it. Everything under session.lock.
 */
#ifndef FLYT_SERVER_OBJECT_H
#define FLYT_SERVER_OBJECT_H

#include "cpu/server/session.h"

struct object_kind {
    enum kind kind;
    CUresult (*end)(const struct gpu *, uint64_t handle);
    bool value;
    CUresult missing;                     /* what to say where the client has no such object */
};

/* The driver has made it. *name: by which the client knows it. On failure it has been ended. */
CUresult object_add(struct session *, struct context *, const struct object_kind *, uint64_t handle, uint64_t *name);
/* The driver's handle; its context is current then. */
CUresult object_use(struct session *, const struct object_kind *, uint64_t name, uint64_t *handle);
CUresult object_end(struct session *, const struct object_kind *, uint64_t name);
void objects_drop_all(struct session *, struct context *, const struct object_kind *);
uint64_t objects_count(const struct session *, const struct object_kind *);

#endif
