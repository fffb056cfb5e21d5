/* on.h: the primary context of a device, as a front end finds it: retained when it does not exist. */
#ifndef TESTS_CORE_ON_H
#define TESTS_CORE_ON_H

#include "cpu/client/core/core.h"

/* NULL: there is no such device, or no server. */
static inline core_context *on(int device)
{
    core_context *context = device == 0 && core_attach_to_use() ? NULL : core_context_primary(device);
    if (context && !core_context_active(context))
        core_context_retain(context);
    return context;
}

/* Copies of one row, in each direction. */
static inline int copy_in(core_context *c, core_stream s, uint64_t to, const void *from, size_t size, bool blocking)
{
    return core_copy(c, s, (void *)(uintptr_t)to, from, size, CORE_HOST_TO_DEVICE, blocking);
}

static inline int copy_out(core_context *c, core_stream s, void *to, uint64_t from, size_t size, bool blocking)
{
    return core_copy(c, s, to, (const void *)(uintptr_t)from, size, CORE_DEVICE_TO_HOST, blocking);
}

static inline int copy_on_device(core_context *c, core_stream s, uint64_t to, uint64_t from, size_t size,
                                 bool blocking)
{
    return core_copy(c, s, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, size, CORE_DEVICE_TO_DEVICE, blocking);
}

#endif
