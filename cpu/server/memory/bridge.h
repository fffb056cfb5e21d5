/*
 * bridge.h: a session moves to another server of its node, and its memory with it, without being copied (bridge.c).
 *
 * The node manager has given this worker one end of a connection to the worker of the same program at the other server
 * (cpu/common/bridge_message.h). The client only says when: BRIDGE, ADOPT, HANDLE_ADOPT.
 */
#ifndef FLYT_SERVER_BRIDGE_H
#define FLYT_SERVER_BRIDGE_H

#include <stdbool.h>

struct session;

/* Whether the driver lets memory go from worker to worker so. */
bool bridge_possible(const struct session *);
/* Takes fd over, in place of what there was. departs: the session leaves by it, so its memory is asked for there. */
void bridge_open(struct session *, int fd, bool departs);

#endif
