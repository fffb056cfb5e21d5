/*
 * values.c: chapter "Stream Memory Operations". Functions with and without _v2 do the same. A captured stream keeps
 * the operations of one call as a node.
 */
#include <stdlib.h>

#include "cpu/client/driver/driver.h"
#include "cpu/client/driver/graph.h"
#include "cpu/client/graph/capture.h"

static struct core_value value_of(const CUstreamBatchMemOpParams *p)
{
    switch ((int)p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return (struct core_value){ (enum core_value_kind)p->operation, p->waitValue.address, p->waitValue.value64,
                                    p->waitValue.flags };
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return (struct core_value){ (enum core_value_kind)p->operation, p->writeValue.address, p->writeValue.value64,
                                    p->writeValue.flags };
    default: return (struct core_value){ .kind = (enum core_value_kind)p->operation, .flags = p->memoryBarrier.flags };
    }
}

int graph_read_values(unsigned count, const CUstreamBatchMemOpParams *parameters, unsigned flags,
                      struct core_value **room, struct graph_values *out)
{
    if (!parameters || !count || count > GRAPH_VALUES_MOST || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct core_value *list = *room = malloc(count * sizeof *list);
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        list[i] = value_of(&parameters[i]);
    *out = (struct graph_values){ list, count, parameters, count * sizeof *parameters };
    return CUDA_SUCCESS;
}

static int batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *parameters, unsigned flags)
{
    core_context *context;
    GRAPH_ROOM room = NULL;
    struct graph_values values = { 0 };
    bool kept = false;
    int error = driver_enter(&context);
    if (!error)
        error = graph_read_values(count, parameters, flags, &room, &values);
    if (!error && capture_any())
        error = capture_values(context, stream, &values, &kept);
    return error || kept ? error : core_values(context, stream, values.list, values.count);
}

static CUresult one(CUstream stream, enum core_value_kind kind, CUdeviceptr address, uint64_t value, unsigned flags)
{
    CUstreamBatchMemOpParams p = { .operation = (CUstreamBatchMemOpType)kind };
    if (kind == CORE_WAIT_VALUE_32 || kind == CORE_WAIT_VALUE_64) {
        p.waitValue.address = address;
        p.waitValue.value64 = value;
        p.waitValue.flags = flags;
    } else {
        p.writeValue.address = address;
        p.writeValue.value64 = value;
        p.writeValue.flags = flags;
    }
    return (CUresult)batch(stream, 1, &p, 0);
}

CUresult driver_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)
{
    return one(stream, CORE_WAIT_VALUE_32, address, value, flags);
}

CUresult driver_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags)
{
    return one(stream, CORE_WAIT_VALUE_64, address, value, flags);
}

CUresult driver_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)
{
    return one(stream, CORE_WRITE_VALUE_32, address, value, flags);
}

CUresult driver_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags)
{
    return one(stream, CORE_WRITE_VALUE_64, address, value, flags);
}

CUresult driver_cuStreamWaitValue32(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)
{
    return one(stream, CORE_WAIT_VALUE_32, address, value, flags);
}

CUresult driver_cuStreamWaitValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags)
{
    return one(stream, CORE_WAIT_VALUE_64, address, value, flags);
}

CUresult driver_cuStreamWriteValue32(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)
{
    return one(stream, CORE_WRITE_VALUE_32, address, value, flags);
}

CUresult driver_cuStreamWriteValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags)
{
    return one(stream, CORE_WRITE_VALUE_64, address, value, flags);
}

/* ---- several ---- */

CUresult driver_cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams *parameters,
                                      unsigned flags)
{
    return (CUresult)batch(stream, count, parameters, flags);
}

CUresult driver_cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *parameters,
                                   unsigned flags)
{
    return (CUresult)batch(stream, count, parameters, flags);
}
