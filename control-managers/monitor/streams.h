/*
 * streams.h: callers that follow the events (server-sent events).
 *
 * A stream that has nothing to say rests: libmicrohttpd suspends its connection, which costs no thread and no look
 * then. An event of its kind, its beat, or the end of all streams wakes it. The beat is a line that says nothing, so
 * that a connection which has ended is noticed.
 */
#ifndef FLYT_MONITOR_STREAMS_H
#define FLYT_MONITOR_STREAMS_H

#include <microhttpd.h>

#include "control-managers/monitor/access.h"
#include "control-managers/monitor/monitor.h"

/* The web server begins. */
void streams_open(struct monitor *);
/* Ends all; callers that still have the right connect again. */
void streams_end(struct monitor *);
/* The web server is about to stop: ends all, and there are none from now on. */
void streams_close(struct monitor *);

/* A response with the events that the caller may see, from its Last-Event-ID on; NULL: too many follow, or no
   memory. */
struct MHD_Response *stream_begin(struct monitor *, struct MHD_Connection *, const struct access_rights *);

/* An event about this VM, or "", has come. The monitor's lock is held. */
void streams_news(const char *vm);
/* The events are numbered anew from here: the cluster manager has lost some, or has another DB. A stream whose last
   event has a higher number gives all that come from now on. Takes the monitor's lock. */
void streams_renumber(struct monitor *, uint64_t newest);
/* Each second, in any thread: wakes those that have said nothing for long. */
void streams_beat(struct monitor *);

#endif
