/*
 * share_move.c: memory that several programs use, on a move to another server (move.h). The programs that share memory
 * move together, and each piece goes once: the program that made it makes it again and exports it under the share by
 * which the others know it. When all have done so, the others import it there. Events of several programs are cells of
 * such memory (event_shared.c).
 *
 * The same when they are suspended and resumed. A piece is kept by the program that made it, so each program finds out
 * before it leaves whether what it has imported has such a program. When they come back no server knows who they are:
 * each names those that the old server named last.
 *
 * A share that nobody but this program has known so far moves with it: others may import it at the new server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_session.h"
#include "cpu/client/core/memory/event_shared.h"
#include "cpu/client/core/memory/handle_state.h"
#include "cpu/client/core/memory/share.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/state.h"

_Static_assert((int)MOVE_PARTNERS_MOST == (int)FLYT_MAX_PARTNERS, "as many as the server names");

/* ---- at the old server ---- */

static int partners(bool leaves, struct move_partners *out)
{
    partners_args args = { .most = FLYT_MAX_PARTNERS, .leaves = leaves };
    partners_result result;
    memset(&result, 0, sizeof result);
    int code = wire_call(&core_session, FLYT_PARTNERS, (xdrproc_t)xdr_partners_args, &args,
                         (xdrproc_t)xdr_partners_result, &result);
    *out = (struct move_partners){ .session = result.session, .more = result.more };
    for (u_int i = 0; i < result.partners.partners_len && !code; i++)
        out->of[out->count++] = result.partners.partners_val[i];
    xdr_free((xdrproc_t)xdr_partners_result, &result);
    return code;
}

/* The shares of what the program has imported. */
struct share_list {
    char (*all)[FLYT_SHARE_SIZE];
    size_t count, room;
    bool full;                                /* there was no memory for more */
};

static void list_imported(void *object, id_token token, void *context)
{
    const struct physical *physical = object;
    struct share_list *list = context;
    (void)token;
    if (!physical->imported || list->full)
        return;
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 16;
        void *more = realloc(list->all, room * sizeof *list->all);
        list->full = !more;
        if (!more)
            return;
        list->all = more;
        list->room = room;
    }
    memcpy(list->all[list->count++], physical->share, FLYT_SHARE_SIZE);
}

/* Each piece that this program has imported is still exported, so that another program of the group keeps it. All of
   them are at rest: that stays so until they have left. */
static int ask_makers(struct move *move)
{
    struct share_list list = { 0 };
    int code = CORE_OK;
    if (handle_wires)
        id_table_each(handle_wires, list_imported, &list);
    if (list.full)
        code = CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < list.count && !code; i++)
        if (!handle_share_lives(list.all[i]))
            code = move_refuse(move, 0, "it has memory of another program, which has ended or freed it, and so keeps "
                                        "nothing of it");
    free(list.all);
    return code;
}

static int meet_at_rest(struct move *move)
{
    int code = move->group ? move_meet(move, CORE_MEETS_RESTED) : CORE_OK;
    return code || move->steps != MOVE_OUT ? code : ask_makers(move);
}

/* Whoever has no partners, and is nobody's, goes alone. */
static int meet_first(struct move *move)
{
    int code = move_meet(move, CORE_MEETS_PREPARED);
    if (code == CORE_NOT_FOUND)
        move->group = NULL;
    return code == CORE_NOT_FOUND ? CORE_OK : code;
}

int share_meet_again(struct move *move, const struct move_partners *of_before)
{
    if (!share_count() || !move->group) {
        move->group = NULL;
        return CORE_OK;
    }
    move->group->partners = *of_before;
    return meet_first(move);
}

int share_ask(struct move *move, bool at_rest)
{
    struct move_partners found = { 0 };
    if (!share_count() || !(core_session.hello.capabilities & FLYT_CAP_GROUPS)) {
        move->group = NULL; /* MOVABLE refuses what there is */
        return CORE_OK;
    }
    int code = partners(at_rest, &found);
    if (code)
        return move_refuse(move, code, "the old server does not say with whom the program shares memory (error %d)",
                           code);
    move->shares_leave |= at_rest;
    move->shares_go = move->group || (!found.count && !found.more);
    if (move->group && found.more)
        return move_refuse(move, 0, "it shares memory with more than %d programs", FLYT_MAX_PARTNERS);
    if (move->group)
        move->group->partners = found;
    if (at_rest)
        return meet_at_rest(move);
    return move->group ? meet_first(move) : CORE_OK;
}

/* ---- at the new server ---- */

struct moving { struct move *move; int code; };

static int say_again(struct move *move, share_again_args *args, const char *share)
{
    memcpy(args->share, share, sizeof args->share);
    int code = wire_plain(&core_session, FLYT_SHARE_AGAIN, (xdrproc_t)xdr_share_again_args, args);
    return code ? move_refuse(move, code, "the new server does not export memory for other programs (error %d)", code)
                : CORE_OK;
}

static void range_again(const struct share_range *range, void *context)
{
    struct moving *moving = context;
    share_again_args args = { .in_window = true, .address = range->address, .size = range->size };
    if (!moving->code)
        moving->code = say_again(moving->move, &args, range->share);
}

static void handle_again(void *object, id_token token, void *context)
{
    const struct physical *physical = object;
    struct moving *moving = context;
    share_again_args args = { .handle = physical->wire };
    (void)token;
    if (!moving->code && physical->named_there && !physical->imported)
        moving->code = say_again(moving->move, &args, physical->share);
}

static void import_again(void *object, id_token token, void *context)
{
    const struct physical *physical = object;
    struct moving *moving = context;
    handle_import_args args = { .handle = physical->wire };
    import_result result;
    memset(&result, 0, sizeof result);
    (void)token;
    if (moving->code || !physical->imported)
        return;
    memcpy(args.share, physical->share, sizeof args.share);
    int code = wire_call(&core_session, FLYT_HANDLE_IMPORT, (xdrproc_t)xdr_handle_import_args, &args,
                         (xdrproc_t)xdr_import_result, &result);
    if (code)
        code = move_refuse(moving->move, code == CORE_INVALID_VALUE ? 0 : code,
                           "memory of another program is not at the new server (error %d): has the program that made it"
                           " ended?",
                           code);
    else if (result.size != physical->size || result.device != client_device_find(physical->device)->wire)
        code = move_refuse(moving->move, 0, "memory of another program is not the same at the new server");
    xdr_free((xdrproc_t)xdr_import_result, &result);
    if (!code && physical->chunk_at)
        code = mapping_ask_with(physical, physical->chunk_at, &physical->chunk_rights);
    moving->code = code;
}

int share_restore(struct move *move)
{
    struct moving moving = { move, CORE_OK };
    if (!share_count() && !move->group)
        return CORE_OK;
    if (share_count() && !(move->at[MOVE_TARGET].hello.capabilities & FLYT_CAP_GROUPS))
        return move_refuse(move, 0, "the new server is of an earlier version, and takes no memory of several programs");
    share_ranges_each(range_again, &moving);
    id_table_each(handle_wires, handle_again, &moving);
    if (!moving.code && move->group)
        moving.code = move_meet(move, CORE_MEETS_MADE);
    id_table_each(handle_wires, import_again, &moving);
    const struct client_mapping *mapping = mapping_at_or_above(0);
    for (; mapping && !moving.code; mapping = mapping_at_or_above(mapping->node.key + 1)) {
        const struct rights rights = mapping_rights(mapping);
        if (mapping->of->imported)
            moving.code = mapping_ask_with(mapping->of, mapping->node.key, &rights);
    }
    return moving.code;
}

/* ---- the end ---- */

void share_moved(struct move *move, bool moved)
{
    struct move_partners ignored;
    if (moved && !move->notes)
        share_has_moved();
    else if (move->shares_leave && !rpc_client_lost(core_session.client))
        partners(false, &ignored);            /* others may import again */
    move->shares_leave = false;
}
