/* on.h: the primary context of a device, as a front end finds it: retained when it does not exist. */
#ifndef TESTS_CORE_ON_H
#define TESTS_CORE_ON_H

#include "cpu/client/core/core.h"

/* NULL: there is no such device, or no server. */
static inline core_context *on(int device)
{
    core_context *context = core_context_primary(device);
    if (context && !core_context_active(context))
        core_context_retain(context);
    return context;
}

#endif
