/* prefetch.c: variables of modules that are managed memory of the server's driver move to where they will be used. */
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/stream/op.h"

enum { HOST = -1 };

int prefetch_op(struct client_stream *s, const struct op *op)
{
    const struct op_prefetch *p = &op->prefetch;
    prefetch_args args = { .stream = s->wire,
                           .address = p->address,
                           .size = p->size,
                           .device = p->device == HOST ? HOST : client_device_find(p->device)->wire };
    return stream_send(s, &(struct stream_call){ FLYT_PREFETCH, (xdrproc_t)xdr_prefetch_args, .args = &args }, NULL);
}
