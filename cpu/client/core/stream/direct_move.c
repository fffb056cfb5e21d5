/*
 * direct_move.c: the bytes of a session that moves go straight from the old server to the new one, over direct lanes
 * (cpu_rpc_prot.x). The new server gives the keys of these lanes to this process, which gives them to the old server:
 * so both servers know that this session wants it. Where the old server is not connected to the new one, or anything
 * else is missing, the bytes pass through this process (move_bytes.c).
 */
#include <string.h>

#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/log.h"

enum { DIRECT_LANES = 4 };          /* as many as node managers connect, at most */

static bool able(const struct move *move)
{
    return !core_perf.no_direct && move->at[MOVE_SOURCE].hello.capabilities & FLYT_CAP_DIRECT &&
           move->at[MOVE_TARGET].hello.capabilities & FLYT_CAP_DIRECT;
}

/* How many keys the new server gives. Of its chunk and window, the smallest. */
static unsigned ask_keys(struct move *move, depart_key *keys)
{
    unsigned count = 0;
    bool good = true;
    move_go(move, MOVE_TARGET);
    while (good && count < DIRECT_LANES) {
        lane_args args = { .lane = FLYT_MAX_LANES + 1 + count };
        lane_result result = { 0 };
        good = wire_call(move_calls(move), FLYT_LANE, (xdrproc_t)xdr_lane_args, &args, (xdrproc_t)xdr_lane_result,
                         &result) == CORE_OK &&
               result.chunk && result.window >= MOVE_WINDOW;
        if (good) {
            memcpy(keys[count++], result.key, sizeof keys[0]);
            move->direct_chunk = result.chunk;
        }
        explicit_bzero(result.key, sizeof result.key);
        xdr_free((xdrproc_t)xdr_lane_result, &result);
    }
    return count;
}

/* session: at the new server. */
static int depart(struct move *move, uint64_t session, depart_key *keys, unsigned count, unsigned *open)
{
    depart_args args = { .session = session, .keys = { count, keys } };
    depart_result result = { .lanes = 0 };
    move_go(move, MOVE_SOURCE);
    int code = wire_call(move_calls(move), FLYT_DEPART, (xdrproc_t)xdr_depart_args, &args, (xdrproc_t)xdr_depart_result,
                         &result);
    *open = code ? 0 : result.lanes;
    xdr_free((xdrproc_t)xdr_depart_result, &result);
    return code;
}

void move_direct_begin(struct move *move)
{
    depart_key keys[DIRECT_LANES];
    unsigned count = able(move) ? ask_keys(move, keys) : 0, open = 0;
    if (count)
        depart(move, move->at[MOVE_TARGET].hello.session, keys, count, &open);
    explicit_bzero(keys, sizeof keys);
    move->direct_lanes = open < count ? open : count;
    if (move->direct_lanes)
        log_info("memory goes from server to server, over %u connections", move->direct_lanes);
}

int move_direct_end(struct move *move, bool copied)
{
    unsigned none;
    int code = CORE_OK;
    if (move->direct_lanes)
        code = depart(move, copied ? move->at[MOVE_TARGET].hello.session : 0, NULL, 0, &none);
    move->direct_lanes = 0;
    return code;
}
