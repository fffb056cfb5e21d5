/*
 * texref.h: texture and surface references of a module (texref.c). What a reference is bound to counts for a launch as
 * it was when the launch was received, which may have to wait for its turn. So a binding is never changed: the client
 * replaces it, and a launch keeps those that it found. All under session.lock.
 */
#ifndef FLYT_SERVER_TEXREF_H
#define FLYT_SERVER_TEXREF_H

#include "cpu/server/session.h"

struct module;
struct texref;
struct texref_bindings;

/* Those that the module's references have now. NULL: no memory. The module has references. */
struct texref_bindings *texref_bindings_take(const struct module *);
void texref_bindings_drop(struct texref_bindings *); /* NULL is allowed */
/* Gives the driver what it does not know of them. The module's context is current. */
CUresult texref_bindings_apply(struct session *, const struct texref_bindings *);
/* With the module. */
void texrefs_free(struct texref *);

#endif
