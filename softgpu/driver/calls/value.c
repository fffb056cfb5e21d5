/* value.c: operations of a stream on one value in memory. CUDA reference: Stream Memory Operations. */
#include "softgpu/driver/calls/calls.h"

enum { BATCH_MOST = 256 };

struct value_op { bool wait, wide, nothing; uint64_t address, value; unsigned flags; };

static CUresult check(const struct value_op *v)
{
    if (v->nothing)
        return CUDA_SUCCESS;
    if (v->wait && v->flags & CU_STREAM_WAIT_VALUE_FLUSH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (v->flags & ~(v->wait ? 3u : 1u) || v->address % (v->wide ? 8 : 4))
        return CUDA_ERROR_INVALID_VALUE;
    return sgd_memory_covers(v->address, v->wide ? 8 : 4, v->wait ? SG_READ : SG_WRITE) ? CUDA_SUCCESS
                                                                                        : CUDA_ERROR_INVALID_VALUE;
}

/* All or none: everything is checked and made before the first is queued. */
static CUresult push(CUstream handle, const struct value_op *list, unsigned count)
{
    struct sgd_context *c;
    struct sgd_stream *s;
    struct sgd_op *ops[BATCH_MOST];
    unsigned made = 0;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_stream_find(handle, c, &s);
    for (; made < count && !r; made++) {
        r = check(&list[made]);
        ops[made] = r ? NULL
                      : sgd_op_new(list[made].nothing ? SGD_OP_NOTHING
                                   : list[made].wait  ? SGD_OP_WAIT_VALUE
                                                      : SGD_OP_WRITE_VALUE);
        if (!ops[made]) {
            r = r ? r : CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        ops[made]->value.address = list[made].address;
        ops[made]->value.value = list[made].wide ? list[made].value : (uint32_t)list[made].value;
        ops[made]->value.wide = list[made].wide;
        ops[made]->value.flags = list[made].flags;
    }
    for (unsigned i = 0; i < made; i++) {
        if (r)
            sgd_op_free(ops[i]);
        else
            r = sgd_queue_push(s, ops[i], NULL);
    }
    sgd_leave();
    return r;
}

static CUresult one(CUstream stream, bool wait, bool wide, uint64_t address, uint64_t value, unsigned flags)
{
    struct value_op v = { .wait = wait, .wide = wide, .address = address, .value = value, .flags = flags };
    return push(stream, &v, 1);
}

CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr a, cuuint32_t v, unsigned flags)
{
    return one(s, true, false, a, v, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream s, CUdeviceptr a, cuuint64_t v, unsigned flags)
{
    return one(s, true, true, a, v, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr a, cuuint32_t v, unsigned flags)
{
    return one(s, false, false, a, v, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr a, cuuint64_t v, unsigned flags)
{
    return one(s, false, true, a, v, flags);
}
CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr a, cuuint32_t v, unsigned flags)
{
    return one(s, true, false, a, v, flags);
}
CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr a, cuuint64_t v, unsigned flags)
{
    return one(s, true, true, a, v, flags);
}
CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr a, cuuint32_t v, unsigned flags)
{
    return one(s, false, false, a, v, flags);
}
CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr a, cuuint64_t v, unsigned flags)
{
    return one(s, false, true, a, v, flags);
}

static CUresult translate(const CUstreamBatchMemOpParams *p, struct value_op *v)
{
    *v = (struct value_op){ 0 };
    switch ((int)p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32: case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        v->wait = true;
        v->wide = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        v->address = p->waitValue.address;
        v->value = p->waitValue.value64;
        v->flags = p->waitValue.flags;
        return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        v->wide = p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        v->address = p->writeValue.address;
        v->value = p->writeValue.value64;
        v->flags = p->writeValue.flags;
        return CUDA_SUCCESS;
    case 6:                                  /* BARRIER: operations of a stream are in order anyway */
        v->nothing = true;
        return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams *params, unsigned flags)
{
    struct value_op list[BATCH_MOST];
    if (!count || count > BATCH_MOST || !params || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CUresult r = translate(&params[i], &list[i]);
        if (r)
            return r;
    }
    return push(stream, list, count);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *params, unsigned flags)
{
    return cuStreamBatchMemOp_v2(stream, count, params, flags);
}
