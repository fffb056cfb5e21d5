/* event.c: events as objects. */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

void sgd_event_unref(struct sgd_event *e)
{
    if (--e->refs)
        return;
    if (e->stream)
        sgd_stream_unref(e->stream);
    free(e);
}

void sgd_event_retire(struct sgd_event *e)
{
    sgd_handle_drop(e->handle);
    *e->back = e->next;
    if (e->next)
        e->next->back = e->back;
    e->context = NULL;
    sgd_event_unref(e);
}
