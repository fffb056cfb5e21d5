/*
 * object.h: objects that only forwarded calls make, use and end: texture objects … (object.c). A kind is made of a
 * handle type with the word object=… in cpu/api/driver_types.api, and of a row of kinds.c.
 *
 * The client names such an object by a number: the driver's own value where kernels or programs see it (object=value),
 * else a number that the server gives and never gives again in this session (object=id). An object belongs to the
 * context in which it was made and ends with it. An object that the driver lends (a level of a mipmapped array) ends
 * with its owner. Everything under session.lock, unless a comment says otherwise.
 *
 * Copies address the bytes of an object that has a shape (an array): its name is followed by as many numbers, which no
 * other object of the kind has, as it has bytes.
 */
#ifndef FLYT_SERVER_OBJECT_H
#define FLYT_SERVER_OBJECT_H

#include "cpu/server/session.h"

struct charge;

/* Rows of so many bytes; 1 where it has no such dimension. */
struct object_shape { uint64_t row, height, depth; };

struct object_kind {
    enum kind kind;
    CUresult (*end)(const struct gpu *, uint64_t handle);
    bool value;
    CUresult missing;                     /* what to say where the client has no such object */
    CUresult (*shape)(const struct gpu *, uint64_t handle, struct object_shape *);      /* NULL: it has none */
};

/* The driver has made it. *name: by which the client knows it. On failure it has been ended. */
CUresult object_add(struct session *, struct context *, const struct object_kind *, uint64_t handle, uint64_t *name);
/* The driver has returned a handle that belongs to the object `owner`. The same handle has the same name. */
CUresult object_lend(struct session *, const struct object_kind *owner_kind, uint64_t owner, const struct object_kind *,
                     uint64_t handle, uint64_t *name);
/* The next object of the kind gets this name (of a value: has this handle), or is refused with 208. 0: as always. */
void object_name_next(struct session *, enum kind, uint64_t name);
/* The driver's handle; its context is current then. */
CUresult object_use(struct session *, const struct object_kind *, uint64_t name, uint64_t *handle);
/* The driver's handle; the context that is current stays so. */
CUresult object_look(struct session *, const struct object_kind *, uint64_t name, uint64_t *handle);
/* The driver's handle; 0: there is none. */
uint64_t object_handle(struct session *, enum kind, uint64_t name);
/* The name of what the driver calls by this handle. Looks at all objects of the kind. */
CUresult object_name(struct session *, const struct object_kind *, uint64_t handle, uint64_t *name);
/* What is lent cannot be ended. The driver ends it when launches that were received before have been issued. */
CUresult object_end(struct session *, const struct object_kind *, uint64_t name);

/* The memory of objects counts against the tenant's limit (charge.h). Without session.lock, by the loader.
   object_charge: the driver has made the object since charge_begin; on failure it has been ended. */
CUresult object_charge(struct session *, struct charge *, const struct object_kind *, uint64_t handle);
CUresult object_end_charged(struct session *, const struct object_kind *, uint64_t name);

/* Where a number is, in an object that has a shape. */
struct object_place { uint64_t handle; struct context *context; struct object_shape shape; uint64_t x, y, z; };
bool object_place(struct session *, enum kind, uint64_t number, struct object_place *);      /* false: in none */

/* ---- array.c ---- */

CUresult array_shape(const struct gpu *, uint64_t handle, struct object_shape *);
void objects_drop_all(struct session *, struct context *, const struct object_kind *);
uint64_t objects_count(const struct session *, const struct object_kind *);

#endif
