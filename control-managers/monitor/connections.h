/*
 * connections.h: how long a connection of the web side may take, and how many may wait.
 *
 * A request must have come whole, and its answer must be taken, within a time, however often a byte moves; only those
 * that follow events stay. When too many others are there, the one that has been waited for longest ends for a new
 * one: whoever opens connections and says nothing shuts nobody out, also where all callers have one address.
 */
#ifndef FLYT_MONITOR_CONNECTIONS_H
#define FLYT_MONITOR_CONNECTIONS_H

#include <microhttpd.h>
#include <stdbool.h>

enum { REQUEST_SECONDS = 20, ANSWER_SECONDS = 60 };

/* most: connections beside those that follow events. Begins a thread; false: it cannot. */
bool connections_begin(unsigned most);
/* After the web server has been stopped. */
void connections_end(void);

/* For MHD_OPTION_NOTIFY_CONNECTION and MHD_OPTION_NOTIFY_COMPLETED. */
void connections_notice(void *context, struct MHD_Connection *connection, void **one,
                        enum MHD_ConnectionNotificationCode what);
void connections_answered(void *, struct MHD_Connection *, void **state, enum MHD_RequestTerminationCode);

/* Its request has come whole. */
void connections_request(struct MHD_Connection *);
/* It follows events, and may stay. */
void connections_follow(struct MHD_Connection *);

#endif
