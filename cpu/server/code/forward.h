/*
 * forward.h: what the handlers of forwarded calls share. The handlers are generated from cpu/api/driver.api: each finds
 * what the client names, checks numbers, calls the driver's function of the same name and answers.
 *
 * Each server_find_<kind>() finds what an id stands for, for the handle types that have the word wire=<kind> in
 * cpu/api/driver_types.api, and makes its context current. Under session.lock.
 */
#ifndef FLYT_SERVER_FORWARD_H
#define FLYT_SERVER_FORWARD_H

#include <string.h>

#include "cpu/server/session.h"

/* 201: the client has no such context. */
CUresult server_find_context(struct session *, uint32_t id, struct context **);
/* 400: no such function, or it is still being looked up; or the error that looking it up gave. */
CUresult server_find_function(struct session *, uint32_t id, CUfunction *);
/* event.c. 400: no such event; 600: it was recorded, and the driver has not been given that yet. */
CUresult server_find_event(struct session *, uint32_t id, CUevent *);

#endif
