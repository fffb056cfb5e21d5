/* sync.h: waits that several streams must end: DEVICE_SYNC, and the legacy stream behind blocking ones. */
#ifndef FLYT_SERVER_SYNC_H
#define FLYT_SERVER_SYNC_H

#include "cpu/server/session.h"

struct group;

/* One of the group's parts has come to its end; the last one answers the call. Any thread. */
void group_part(struct session *, struct group *, CUresult);

#endif
