/* extent.c: see extent.h. */
#include "extent.h"

#include "cpu/common/cancel.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/op.h"
#include "cpu/client/core/wire/state.h"

static bool watched(void) { return core_session.hello.capabilities & FLYT_CAP_EXTENTS; }

int extent_say(uint64_t address, uint64_t size, flyt_extent_state state)
{
    extent_args args = { .address = address, .size = size, .state = state };
    return watched() ? wire_send(&core_session, FLYT_EXTENT, (xdrproc_t)xdr_extent_args, &args) : CORE_OK;
}

int extent_say_in(struct client_stream *s, uint64_t address, uint64_t size, flyt_extent_state state)
{
    return watched() ? op_submit(s, &(struct op){ .kind = OP_EXTENT, .extent = { address, size, state } }) : CORE_OK;
}

int extent_op(struct client_stream *s, const struct op *op)
{
    stream_extent_args args = { .stream = s->wire, .address = op->extent.address, .size = op->extent.size,
                                .state = op->extent.state };
    return stream_send(s, &(struct stream_call){ FLYT_STREAM_EXTENT, (xdrproc_t)xdr_stream_extent_args, &args,
                                                 .weighty = true }, NULL);
}

/* ---- for other folders ---- */

static flyt_extent_state on_wire(enum core_extent_state state)
{
    return state == CORE_EXTENT_FREED       ? FLYT_EXTENT_FREED
           : state == CORE_EXTENT_ALLOCATED ? FLYT_EXTENT_ALLOCATED
                                            : FLYT_EXTENT_NOBODYS;
}

int core_extent_note(uint64_t address, uint64_t size, enum core_extent_state state)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    return code ? code : extent_say(address, size, on_wire(state));
}

int core_extent_note_in(core_context *c, core_stream stream, uint64_t address, uint64_t size,
                        enum core_extent_state state)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, stream, &s);
    return code ? code : extent_say_in(s, address, size, on_wire(state));
}
