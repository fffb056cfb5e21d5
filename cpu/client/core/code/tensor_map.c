/* tensor_map.c: tensor maps, which the server's driver writes: only the device reads them. Twin: cpu/server/. */
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/client/core/api_code.h"
#include "forward.h"

static int encode(core_context *c, tensor_map_args *args, void *map)
{
    tensor_map_result result = { .head = { 0 } };
    int code = context_enter(c);
    if (code)
        return code;
    args->context = c->wire;
    memcpy(args->map, map, sizeof args->map);
    code = wire_call(c->session, FLYT_TENSOR_MAP, (xdrproc_t)xdr_tensor_map_args, args,
                     (xdrproc_t)xdr_tensor_map_result, &result);
    if (!code)
        memcpy(map, result.map, sizeof result.map);
    xdr_free((xdrproc_t)xdr_tensor_map_result, &result);
    return code;
}

int core_tensor_map_encode(core_context *c, const struct core_tensor *t, void *map)
{
    CANCEL_DEFERRED;
    static const flyt_tensor_kind kinds[] = { FLYT_TENSOR_TILED, FLYT_TENSOR_IM2COL, FLYT_TENSOR_IM2COL_WIDE };
    tensor_map_args args = { .kind = kinds[t->kind],
                             .address = t->address,
                             .type = t->type,
                             .rank = t->rank,
                             .interleave = t->interleave,
                             .swizzle = t->swizzle,
                             .promotion = t->promotion,
                             .fill = t->fill };
    _Static_assert(sizeof args.dims == sizeof t->dims && sizeof args.box == sizeof t->box &&
                       sizeof args.lower == sizeof t->lower,
                   "as many numbers");
    memcpy(args.dims, t->dims, sizeof args.dims);
    memcpy(args.strides, t->strides, sizeof args.strides);
    memcpy(args.box, t->box, sizeof args.box);
    memcpy(args.steps, t->steps, sizeof args.steps);
    memcpy(args.lower, t->lower, sizeof args.lower);
    memcpy(args.upper, t->upper, sizeof args.upper);
    return encode(c, &args, map);
}

int core_tensor_map_replace(core_context *c, void *map, uint64_t address)
{
    CANCEL_DEFERRED;
    tensor_map_args args = { .kind = FLYT_TENSOR_REPLACE, .address = address };
    return encode(c, &args, map);
}
