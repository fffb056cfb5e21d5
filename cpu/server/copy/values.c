/* values.c: stream memory operations: a stream waits for a value in memory, or writes one. */
#include <string.h>

#include "cpu/server/session.h"

static bool is_wide(int kind)
{
    return kind == CU_STREAM_MEM_OP_WAIT_VALUE_64 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static bool is_wait(int kind)
{
    return kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static bool is_write(int kind)
{
    return kind == CU_STREAM_MEM_OP_WRITE_VALUE_32 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

/* The driver checks the flags. */
static bool value_good(struct session *session, const flyt_value *v)
{
    uint64_t size = is_wide(v->kind) ? sizeof(uint64_t) : sizeof(uint32_t);
    if (v->kind == CU_STREAM_MEM_OP_BARRIER)
        return true;
    return (is_wait(v->kind) || is_write(v->kind)) && v->address % size == 0 && memory_known(session, v->address, size);
}

static void value_fill(CUstreamBatchMemOpParams *out, const flyt_value *v)
{
    memset(out, 0, sizeof *out);
    out->operation = (CUstreamBatchMemOpType)v->kind;
    if (is_wait(v->kind)) {
        out->waitValue.address = v->address;
        out->waitValue.value64 = v->value;
        out->waitValue.flags = v->flags;
    } else if (is_write(v->kind)) {
        out->writeValue.address = v->address;
        out->writeValue.value64 = v->value;
        out->writeValue.flags = v->flags;
    } else {
        out->memoryBarrier.flags = v->flags;
    }
}

static int values_issue(struct session *session, struct call *call)
{
    const values_args *args = &call->args.values;
    CUstreamBatchMemOpParams operations[FLYT_MAX_VALUES];
    for (u_int i = 0; i < args->operations.operations_len; i++)
        value_fill(&operations[i], &args->operations.operations_val[i]);
    return (int)session->gpu->StreamBatchMemOp(call->stream->handle, args->operations.operations_len, operations, 0);
}
static const struct operation values_operation = { .issue = values_issue, .numbered = true };

void serve_values(struct session *session, struct call *call)
{
    const values_args *args = &call->args.values;
    if (!server_stream_enter(session, call, args->stream))
        return;
    bool good = args->operations.operations_len > 0;
    call->parts = args->operations.operations_len;
    for (u_int i = 0; good && i < args->operations.operations_len; i++)
        good = value_good(session, &args->operations.operations_val[i]);
    if (!good)
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
    else if (!session->gpu->StreamBatchMemOp)
        stream_refuse(session, call, CUDA_ERROR_NOT_SUPPORTED);
    else
        server_stream_submit(session, call, &values_operation);
}
