/* prefetch.c: managed memory moves to where it will be used. The only managed memory that a program can have here is
   variables of its modules; which of them are managed the server's driver knows. */
#include "cpu/common/cancel.h"
#include "device.h"
#include "memory.h"
#include "op.h"

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

int core_prefetch(core_context *c, core_stream stream, uint64_t address, size_t size, int device)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    struct core_range r;
    int code = client_stream_enter(c, stream, &s);
    if (code)
        return code;
    if (!size || !core_address_lookup(address, &r) || r.kind != CORE_DEVICE_MEMORY || r.flags != DEVICE_SYMBOL ||
        size > r.size - (address - r.base))
        return CORE_INVALID_VALUE;
    if (device != HOST && !client_device_find(device))
        return CORE_INVALID_DEVICE;
    return op_submit(s, &(struct op){ .kind = OP_PREFETCH, .prefetch = { address, size, device } });
}
