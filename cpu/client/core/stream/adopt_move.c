/*
 * adopt_move.c: memory goes to a server of the same node without being copied. The node manager has connected the two
 * workers before this process learned of the move; this process says when. The old server keeps the pages too, so
 * nothing is lost if the program stays there: nobody writes to them until one of the two connections has ended.
 */
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/log.h"

static bool may(struct move *move, enum move_end end)
{
    bridge_args args = { .departs = end == MOVE_SOURCE };
    if (!(move->at[end].hello.capabilities & FLYT_CAP_BRIDGE))
        return false;
    move_go(move, end);
    return wire_plain(move_calls(move), FLYT_BRIDGE, (xdrproc_t)xdr_bridge_args, &args) == CORE_OK;
}

void move_ask_bridge(struct move *move)
{
    move->adopts = may(move, MOVE_TARGET) && may(move, MOVE_SOURCE);
}

int move_adopt(struct move *move, uint32_t procedure, xdrproc_t encode, void *args)
{
    int code = wire_plain(&core_session, procedure, encode, args);
    if (code && !move->adopted) {
        log_info("memory is copied, because the new server could not take it over (error %d)", code);
        move->adopts = false;
        return CORE_OK;
    }
    move->adopted |= !code;
    return code;
}
