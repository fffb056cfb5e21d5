/*
 * bridges.h: the listener's part of bridges (cpu/common/bridge_message.h). The node manager orders one for a program,
 * and gives an end of it; the worker of that program gets it. Whose worker it is, the program's pass says, which the
 * cluster manager has signed. A server that asks for no tickets knows no programs, and no node manager starts such a
 * one: there it is the only program that is there, and the next one that comes. Tests use that.
 */
#ifndef FLYT_SERVER_BRIDGES_H
#define FLYT_SERVER_BRIDGES_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/share_order.h"
#include "cpu/server/listener/workers.h"

/* Ends for programs that have not come yet; when there are more, the oldest goes. */
enum { BRIDGES_WAITING = 64 };
struct bridges {
    struct bridges_end { int fd; uint64_t program; } waiting[BRIDGES_WAITING]; /* the oldest first */
    unsigned count;
};

/* Takes fd over. departs: the program is here, and leaves; false: it is not here. Else it comes. */
bool bridges_add(struct bridges *, const struct workers *, uint64_t program, bool departs, int fd);
/* Connections to another server, for the worker of a program that leaves (SHARE_LANES) or makes a link (SHARE_LINKS).
   The descriptors stay the caller's. False: the program is not here. */
bool bridges_connections(const struct workers *, const struct share_order *, const int *fds, unsigned count);
/* A worker is about to get the connection of that program: the end goes with it. The listener keeps it, too, because
   the program has shown only its pass, which others may have seen. */
void bridges_lend(const struct bridges *, const struct worker *, uint64_t program);
/* The program has proved itself to its worker. */
void bridges_greeted(struct bridges *, uint64_t program);
void bridges_close(struct bridges *);

#endif
