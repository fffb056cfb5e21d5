/*
 * move_ask.c: whether a session may move: what its server, the kinds of its objects and the devices of the new server
 * say to that.
 */
#include <stdatomic.h>
#include <string.h>

#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/session/kinds.h"
#include "cpu/client/core/wire/wire.h"

static const char several[] = "the program has several GPU servers";

int move_ask_source(struct move *move)
{
    movable_args args = { FLYT_ABLE_ARRAYS | FLYT_ABLE_TEXTURES | FLYT_ABLE_DEVICE_GRAPHS |
                          (move->shares_go ? FLYT_ABLE_SHARES : 0) };
    movable_result result;
    memset(&result, 0, sizeof result);
    if (session_several())
        return move_refuse(move, 0, several);
    if (core_session.in_process)
        return move_refuse(move, 0, "its server is in the program's own process");
    if (!(core_session.hello.capabilities & FLYT_CAP_MOVES))
        return move_refuse(move, 0, "the old server is of an earlier version");
    int code = wire_call(&core_session, FLYT_MOVABLE, (xdrproc_t)xdr_movable_args, &args,
                         (xdrproc_t)xdr_movable_result, &result);
    if (!code && *result.refusal)
        code = move_refuse(move, 0, "%s", result.refusal);
    xdr_free((xdrproc_t)xdr_movable_result, &result);
    return code;
}

/* at_rest: else the program goes on meanwhile, so this is only a first look. */
int move_ask_kinds(struct move *move, bool at_rest)
{
    int code = CORE_OK;
    for (int kind = 0; kind < KINDS && !code; kind++) {
        const struct client_kind_row *row = &client_kinds[kind];
        bool stays = row->moves == MOVE_REFUSED || row->moves == MOVE_CHECKPOINT;
        if (kind == KIND_HOST_FUNCTION && !at_rest)
            continue;
        uint64_t count = stays && row->count ? row->count() : 0;
        if (count)
            code = move_refuse(move, 0, "it has %llu %s, which %s", (unsigned long long)count, row->name,
                               row->moves == MOVE_CHECKPOINT ? "only a checkpoint of the driver could move"
                                                             : "cannot be made again elsewhere");
        if (!code && row->save && at_rest)
            code = row->save(move);
    }
    return code;
}

/* CUdevice_attribute numbers: what decides which code is loaded, and what programs may be written for. Also called
   while another thread keeps the session at rest (recover.c). */
int move_ask_devices(struct move *move)
{
    static const int equal[] = { 10 /* WARP_SIZE */, 75, 76 /* COMPUTE_CAPABILITY_MAJOR, MINOR */ };
    const hello_result *hello = &move->at[MOVE_TARGET].hello;
    for (int i = 0; i < device_count(); i++) {
        const flyt_device *there = &hello->devices.devices_val[move->at[MOVE_TARGET].devices[i]];
        for (unsigned e = 0; e < sizeof equal / sizeof equal[0]; e++)
            for (unsigned a = 0; a < there->attributes.attributes_len; a++) {
                const flyt_attribute *attribute = &there->attributes.attributes_val[a];
                int value = 0;
                if (attribute->name == equal[e] && !device_attribute(i, equal[e], &value) &&
                    attribute->value != value)
                    return move_refuse(move, 0, "attribute %d of device %d is %d, and %d at the new server", equal[e],
                                       i, value, attribute->value);
            }
    }
    return CORE_OK;
}

void move_source_note(struct move *move)
{
    move->at[MOVE_SOURCE].client = core_session.client;
    move->at[MOVE_SOURCE].hello.capabilities = core_session.hello.capabilities;
    move->at[MOVE_SOURCE].hello.session = session_number();
    session_nonce(&core_session, move->at[MOVE_SOURCE].hello.nonce);
    for (int i = 0; i < device_count(); i++)
        move->at[MOVE_SOURCE].devices[i] = client_device_find(i)->wire;
}
