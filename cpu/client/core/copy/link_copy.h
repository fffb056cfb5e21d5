/*
 * link_copy.h: copies from one GPU server of the program to another one over a link of the two, so that no byte passes
 * through the program (link_copy.c).
 */
#ifndef FLYT_CLIENT_CORE_LINK_COPY_H
#define FLYT_CLIENT_CORE_LINK_COPY_H

#include "cpu/client/core/stream/stream.h"
#include "cpu/client/core/wire/span.h"

/* Whether the servers of the two contexts, which differ, have a link. The first caller makes it, and waits for that.
   False: there is none, and why has been logged. */
bool link_copy_can(const core_context *to, const core_context *from);

/* Begins a copy between device memory of the two streams' contexts, behind what the streams have been given. `done` is
   called once when the bytes are in their place, or with the error of the first part that failed: in any thread, maybe
   before this returns. It must not wait. May wait for room, which other copies give back. After an error there is no
   link any more: see link_copy_end. Not 0: nothing was begun. */
int  link_copy_begin(struct client_stream *to, struct client_stream *from, const struct copy_span *,
                     void (*done)(void *user, int code), void *user);
/* Begins it and waits for its end. */
int  link_copy_wait(struct client_stream *to, struct client_stream *from, const struct copy_span *);
/* A copy over the link has failed: it is not used any more. Logs that once, unless one of the servers is lost. */
void link_copy_end(const core_context *to, const core_context *from, int code);

#endif
