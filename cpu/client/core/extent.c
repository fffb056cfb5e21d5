/* extent.c: see extent.h. */
#include "extent.h"

#include "state.h"

static bool watched(void) { return core_session.hello.capabilities & FLYT_CAP_EXTENTS; }

int extent_say(uint64_t address, uint64_t size, flyt_extent_state state)
{
    extent_args args = { .address = address, .size = size, .state = state };
    return watched() ? wire_send(FLYT_EXTENT, (xdrproc_t)xdr_extent_args, &args) : CORE_OK;
}

int extent_say_in(struct client_stream *s, uint64_t address, uint64_t size, flyt_extent_state state)
{
    stream_extent_args args = { .stream = s->wire, .address = address, .size = size, .state = state };
    return watched() ? stream_send(s, &(struct stream_call){ FLYT_STREAM_EXTENT, (xdrproc_t)xdr_stream_extent_args,
                                                             &args, .weighty = true }, NULL)
                     : CORE_OK;
}
