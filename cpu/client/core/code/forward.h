/*
 * forward.h: what the core's functions of forwarded calls share. They are generated from cpu/api/driver.api
 * (api/forward/core.h); their twins are the server's handlers (cpu/server/code/forward.h).
 *
 * Each forward_<kind>() finds the id of what a front end names, for the handle types that have the word wire=<kind> in
 * cpu/api/driver_types.api. The context has been entered. A result code.
 */
#ifndef FLYT_CLIENT_CORE_FORWARD_H
#define FLYT_CLIENT_CORE_FORWARD_H

#include "code.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

/* The session of a device, and its number on the server. 101: there is none. */
int forward_device(int device, struct client_session **, int *wire);
/* Loads the function into the context if need be. Waits, the first time. */
int forward_function(core_context *, core_function *, flyt_id *);
int forward_event(core_context *, core_event, flyt_id *);   /* event.c */

#endif
