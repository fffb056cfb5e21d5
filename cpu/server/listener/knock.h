/*
 * knock.h: the pass that a program shows before anything else (cpu/rpc/call/knock.h), as the listener reads it. So the
 * listener knows who may come in before a worker, with its GPU, is spent on the connection.
 */
#ifndef FLYT_SERVER_KNOCK_H
#define FLYT_SERVER_KNOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/rpc/call/knock.h"
#include "cpu/server/listener/ticket.h"

struct knock {
    uint8_t bytes[RPC_KNOCK_MOST];
    size_t have;
    bool whole, good;                 /* good: it opens the door; pass then says which one it is */
    uint8_t pass[TICKET_PASS_SIZE];
    uint64_t program;                 /* whose it is; 0: no passes are asked for */
    char refusal[TICKET_REFUSAL_SIZE];
};

/* Takes of the socket what has come of it, and nothing behind it. When all of it has come, looks at it. 0; -errno: the
   connection is of no use. */
int knock_receive(struct knock *, int fd);

#endif
