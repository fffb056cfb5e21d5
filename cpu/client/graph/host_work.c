/* host_work.c: see host_work.h. */
#include "cpu/client/graph/host_work.h"

#include <stdlib.h>

#include "cpu/client/graph/capture.h"
#include "cpu/common/cancel.h"

static void run(void *data, int status)
{
    struct host_work work = *(struct host_work *)data;
    free(data);
    if (work.callback)
        work.call_back(&work, status);
    else if (!status)
        work.function(work.user);
}

int host_work_add(core_context *context, const struct host_work *work, unsigned flags)
{
    CANCEL_DEFERRED;
    if (flags || (!work->callback && !work->function))
        return CORE_INVALID_VALUE;
    bool captured = false;
    int error = capture_any() ? capture_host(context, work->stream, work->function, work->user, &captured) : CORE_OK;
    if (captured)
        return error;
    struct host_work *kept = malloc(sizeof *kept);
    if (!kept)
        return CORE_OUT_OF_MEMORY;
    *kept = *work;
    if ((error = core_host_function(context, work->stream, run, kept, work->callback != NULL)))
        free(kept);
    return error;
}
