/*
 * pending.h: copies into pinned memory that have not arrived: what they come before, and waiting for them
 * (pending.c). How they begin: copy_pending.c.
 */
#ifndef FLYT_CLIENT_CORE_PENDING_H
#define FLYT_CLIENT_CORE_PENDING_H

#include "cpu/client/core/wire/span.h"
#include "stream.h"

void pending_wait(const struct point *);                       /* all that come before it */
/* all up to serial, of all streams of the context (NULL: of all) */
void pending_wait_context(const core_context *, uint64_t serial);
void pending_wait_memory(const struct point *, const struct host_rows *);       /* those that write there */
/* those that write there and have ended, as far as the server has reported: not those that still wait for work */
void pending_wait_done(const struct host_rows *);
bool pending_any(const struct point *);
/* Does one come before the point and write such rows? Its lock is held meanwhile. */
bool pending_any_where(const struct point *, bool (*)(const struct host_rows *));
bool pending_refer_to(const struct client_stream *);
/* a stream has been made to wait for another */
void pending_join(const struct point *before, const struct point *after);
/* those that have been sent come before its next call by the rules of the legacy stream */
void pending_join_next(const struct client_stream *);
/* host functions and copies that may yet write host memory */
unsigned pending_writers(void);
void pending_writer_begins(void);
void pending_writer_ends(void);

#endif
