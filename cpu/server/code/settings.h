/*
 * settings.h: what the program has set of a function (cuFuncSetAttribute), in the order of its calls (settings.c).
 *
 * A launch may have to wait for its turn, and the program goes on and changes the function's attributes meanwhile. What
 * they were when the launch was received counts for it. So the values are never changed: a call that sets one replaces
 * all of them, and a launch keeps those that it found. The driver gets them before the launch. All under
 * session.lock.
 */
#ifndef FLYT_SERVER_SETTINGS_H
#define FLYT_SERVER_SETTINGS_H

#include "cpu/server/session.h"

struct function;
struct settings;

/* cuFuncSetAttribute, of a function that has been looked up. Its context is current. */
CUresult settings_set(struct session *, struct function *, int attribute, int value);
/* Those that the function has now; *out NULL: nothing of it was ever set. shared: the bytes of dynamic shared memory
   that the launch asks for. The client has checked them: a node of a graph was allowed them when it was made, perhaps
   under an earlier limit. */
CUresult settings_take(struct session *, struct function *, uint32_t shared, struct settings **out);
void settings_drop(struct settings *);   /* NULL is allowed */
/* Gives the driver what it does not know of them. NULL: what the function began with. Its context is current. */
CUresult settings_apply(struct session *, struct function *, const struct settings *);
/* Gives the driver those that the function has now: before the driver is asked about it. */
CUresult settings_apply_now(struct session *, struct function *);
/* With the function. */
void settings_end(struct function *);

#endif
