/*
 * extent.h: informs a server that watches what kernels do to memory (FLYT_SOFTGPU_MEMCHECK) what is an allocation
 * (extent.c). Nothing is sent to other servers. CORE_OK, or the session's error.
 */
#ifndef FLYT_CLIENT_CORE_EXTENT_H
#define FLYT_CLIENT_CORE_EXTENT_H

#include "cpu/client/core/stream/stream.h"

/* At once. */
int extent_say(uint64_t address, uint64_t size, flyt_extent_state state);
/* Behind what the stream has been given. */
int extent_say_in(struct client_stream *, uint64_t address, uint64_t size, flyt_extent_state state);

#endif
