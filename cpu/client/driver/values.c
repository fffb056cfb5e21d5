/*
 * values.c: chapter "Stream Memory Operations". Functions with and without _v2 do the same. No graph has such a node,
 * so a stream that is captured refuses them.
 */
#include <stdlib.h>

#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

enum { BATCH_MOST = 255 };

static int submit(CUstream stream, const struct core_value *list, unsigned count)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return error ? error : core_values(context, stream, list, count);
}

static CUresult one(CUstream stream, enum core_value_kind kind, CUdeviceptr address, uint64_t value, unsigned flags)
{
    return (CUresult)submit(stream, &(struct core_value){ kind, address, value, flags }, 1);
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

static int batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *parameters, unsigned flags)
{
    struct core_value list[BATCH_MOST];
    if (!parameters || !count || count > BATCH_MOST || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        list[i] = value_of(&parameters[i]);
    return submit(stream, list, count);
}

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
