/*
 * suspects.h: whether a program gets any further between the losses of its GPU servers.
 *
 * A call, or an operation of a stream, that makes each server end is under way at each of the losses. So the program
 * has got further when nothing of what was under way at an earlier loss still is.
 */
#ifndef FLYT_CLIENT_CORE_SUSPECTS_H
#define FLYT_CLIENT_CORE_SUSPECTS_H

#include <stdbool.h>
#include <stdint.h>

/* A server was lost, and nobody adds to the journal. since: when the session had begun to use it. False: the program
   has not got further since the loss of which this last said that it had. */
bool suspects_cleared(uint64_t since);

#endif
