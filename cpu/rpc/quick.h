/*
 * quick.h: XDR by hand for what travels most: the head of every reply, and kernel launches. rpcgen's code goes from
 * word to word through several calls each; these put or get all words at once where the message has its usual form, and
 * leave the others to rpcgen's. Both make the same bytes of the same values (tests/rpc/roundtrip.c).
 *
 * The head's takes the place of rpcgen's under its name, which becomes xdr_flyt_head_rpcgen (room.mk).
 */
#ifndef FLYT_RPC_QUICK_H
#define FLYT_RPC_QUICK_H

#include "cpu/rpc/cpu_rpc_prot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool_t xdr_flyt_head_rpcgen(XDR *, flyt_head *);

/* A launch without attributes: its parameters (at most FLYT_MAX_PARAMS bytes) stand QUICK_LAUNCH_PARAMETERS behind `at`
   already; puts everything else around them, QUICK_LAUNCH_ROOM bytes beside the parameters at most. The size in all. */
enum { QUICK_LAUNCH_PARAMETERS = 44, QUICK_LAUNCH_ROOM = QUICK_LAUNCH_PARAMETERS + 8 };
size_t quick_launch_put(const launch_args *args, uint8_t *at);

/* Decodes the arguments of a launch without attributes whose parameters fit into `room`, where they are put. False: it
   is another one, or nonsense: xdr_launch_args will find out; *args is as it was. */
bool quick_launch_decode(const uint8_t *body, size_t size, launch_args *args, void *room, size_t room_size);

#endif
