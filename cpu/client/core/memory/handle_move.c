/*
 * handle_move.c: handles and their mappings on a move to another server (move.h). The new server makes each handle
 * under its old name and maps it where the program has it; what it holds is copied.
 */
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/memory/handle_state.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/stream/move_written.h"
#include "cpu/client/core/wire/state.h"

/* looks: `touched` of each handle is known. */
struct moving { struct move *move; int code; bool looks; };

static void handle_again(void *object, id_token token, void *context)
{
    struct physical *physical = object;
    struct moving *moving = context;
    (void)token;
    if (physical->imported)
        return;                                 /* share_move.c */
    handle_create_args args = { .handle = physical->wire, .device = client_device_find(physical->device)->wire,
                                .size = physical->size };
    struct move *move = moving->move;
    if (moving->code)
        return;
    if (move->adopts)
        moving->code = move_adopt(move, FLYT_HANDLE_ADOPT, (xdrproc_t)xdr_handle_create_args, &args);
    if (!moving->code && !move->adopts)
        moving->code = wire_plain(&core_session, FLYT_HANDLE_CREATE, (xdrproc_t)xdr_handle_create_args, &args);
    if (moving->code)
        move_refuse(moving->move, moving->code, "the new server does not give %llu MiB for a memory handle (error %d)",
                    (unsigned long long)(physical->size >> 20), moving->code);
    if (!moving->code && physical->chunk_at)
        moving->code = mapping_ask_with(physical, physical->chunk_at, &physical->chunk_rights);
}

int handle_restore(struct move *move)
{
    struct moving moving = { move, CORE_OK, false };
    id_table_each(handle_wires, handle_again, &moving);
    const struct client_mapping *mapping = mapping_at_or_above(0);
    for (; mapping && !moving.code; mapping = mapping_at_or_above(mapping->node.key + 1)) {
        const struct rights rights = mapping_rights(mapping);
        if (!mapping->of->imported)
            moving.code = mapping_ask_with(mapping->of, mapping->node.key, &rights);
    }
    return moving.code ? move_refuse(move, moving.code, "the new server does not map a memory handle (error %d)",
                                     moving.code)
                       : CORE_OK;
}

/* A context through which bytes of the device's memory are copied; NULL: none exists. */
static core_context *context_on(int device)
{
    core_context *c = context_next(NULL);
    while (c && c->device != device)
        c = context_next(c);
    return c;
}

/* ---- what was not written since the store before ---- */

static void look_at(void *object, id_token token, void *question)
{
    struct physical *physical = object;
    const uint32_t since = *(const uint32_t *)question;
    (void)token;
    physical->touched = physical->moved > since ||
                        (physical->chunk_at && move_written_since(since, physical->chunk_at, physical->size));
}

/* It is written where it is mapped alone. False: nothing is known. */
static bool look(const struct move *move)
{
    uint32_t since = move->steps == MOVE_OUT ? move_store_question(move->store) : 0;
    if (!since)
        return false;
    id_table_each(handle_wires, look_at, &since);
    for (struct client_mapping *mapping = mapping_at_or_above(0); mapping;
         mapping = mapping_at_or_above(mapping->node.key + 1))
        mapping->of->touched |= move_written_since(since, mapping->node.key, mapping->size);
    return true;
}

/* Whether it need not be copied, or that failed. */
static bool keep(struct moving *moving, const struct physical *physical)
{
    bool kept = false;
    if (!physical->touched)
        moving->code = move_bytes_keep(moving->move, physical->wire, physical->size, &kept);
    return kept || moving->code;
}

/* It may be mapped nowhere, so both servers map it for a moment, at an address that the program does not use. A store
   knows it by its own name. */
static void handle_copy(void *object, id_token token, void *context)
{
    struct physical *physical = object;
    struct moving *moving = context;
    struct move *move = moving->move;
    core_context *c = context_on(physical->device);
    bool mapped[2] = { false };
    struct rights own = { 0 };
    rights_note(&own, physical->device, ACCESS_READ_WRITE);
    (void)token;
    if (moving->code || physical->imported || (moving->looks && keep(moving, physical)))
        return;
    uint64_t at = c ? addresses_take(0, physical->size, core_session.granularity) : 0;
    int code = at ? CORE_OK
                  : move_refuse(move, 0, "no %s to copy what a memory handle on device %d holds",
                                c ? "addresses are free" : "context exists", physical->device);
    for (enum move_end end = MOVE_SOURCE; end <= MOVE_TARGET && !code; end++) {
        if (!move_needs(move, end))
            continue;
        move_go(move, end);
        code = mapping_ask_with(physical, at, &own);
        mapped[end] = !code;
    }
    if (!code)
        code = move_bytes_of(move, c, physical->wire, at, physical->size);
    int ended = move_stream_end(move);              /* nothing uses it any more */
    for (enum move_end end = MOVE_SOURCE; end <= MOVE_TARGET; end++) {
        if (!mapped[end])
            continue;
        move_go(move, end);
        mapping_end(&core_session, at, physical->size);
    }
    if (at)
        window_give(at, physical->size);
    moving->code = code ? code : ended;
}

static void add_size(void *object, id_token token, void *sum)
{
    (void)token;
    const struct physical *physical = object;
    *(uint64_t *)sum += physical->imported ? 0 : physical->size;
}

uint64_t handle_size(const struct move *move, bool adopts)
{
    uint64_t sum = 0;
    (void)move;
    pthread_mutex_lock(&handle_lock);             /* the program may be ending one */
    if (handle_wires && !adopts)
        id_table_each(handle_wires, add_size, &sum);
    pthread_mutex_unlock(&handle_lock);
    return sum;
}

int handle_contents(struct move *move)
{
    struct moving moving = { move, CORE_OK, false };
    if (!move->adopts) {
        moving.looks = look(move);
        id_table_each(handle_wires, handle_copy, &moving);
    }
    return moving.code ? move_refuse(move, moving.code, "what a memory handle holds cannot be copied (error %d)",
                                     moving.code)
                       : CORE_OK;
}
