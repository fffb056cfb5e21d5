/*
 * connections.h: how long a connection of the web side may take, and how many may wait.
 *
 * A request must have come whole, and its answer must be taken, within a time, however often a byte moves; only those
 * that follow events stay. When too many others are there, one ends for a new one: of the address that has the most,
 * the one that has used up most of its time. So whoever opens connections and says nothing, or reads nothing, takes
 * them from nobody else; and where all callers have one address, he shuts nobody out.
 */
#ifndef FLYT_MONITOR_CONNECTIONS_H
#define FLYT_MONITOR_CONNECTIONS_H

#include <microhttpd.h>
#include <stdbool.h>

enum { REQUEST_SECONDS = 20, ANSWER_SECONDS = 60, HURRY_SECONDS = 5 };

/* most: connections beside those that follow events. Begins a thread, which also calls each_second; false: it
   cannot. */
bool connections_begin(unsigned most, void (*each_second)(void *), void *context);
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
/* Ends those that have been taking their answer for HURRY_SECONDS: memory is short. */
void connections_hurry(void);

#endif
