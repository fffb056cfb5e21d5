/*
 * gates.c: words of host-mapped memory, one for each stream of a context that has host functions: the stream waits on
 * its gate until the client has ended the function (host_function.c). A gate that passes to another stream keeps its
 * value and counts on: the device may not have looked at it for the last time.
 */
#include "cpu/server/session.h"

#include <stdlib.h>
#include <string.h>

enum { HOST_FUNCTION_GATES = 131072 };     /* streams of a context that have host functions at one time */

static CUresult gates_make(struct session *session, struct context *context)
{
    void *memory = NULL;
    if (context->gates || !session->gpu->StreamWaitValue32)
        return CUDA_SUCCESS;
    if (!context->gates_spare)
        context->gates_spare = calloc(HOST_FUNCTION_GATES, sizeof *context->gates_spare);
    if (!context->gates_spare)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = session->gpu->MemHostAlloc(&memory, HOST_FUNCTION_GATES * sizeof(uint32_t),
                                            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (r != CUDA_SUCCESS)
        return r;
    r = session->gpu->MemHostGetDevicePointer(&context->gates_address, memory, 0);
    if (r != CUDA_SUCCESS) {
        session->gpu->MemFreeHost(memory);
        return r;
    }
    memset(memory, 0, HOST_FUNCTION_GATES * sizeof(uint32_t));
    context->gates = memory;
    return CUDA_SUCCESS;
}

void gates_prepare(struct session *session, struct context *context) { gates_make(session, context); }

CUresult gate_take(struct session *session, struct stream *stream)
{
    struct context *context = stream->context;
    if (stream->gate)
        return CUDA_SUCCESS;
    CUresult r = gates_make(session, context);
    if (r != CUDA_SUCCESS)
        return r;
    struct gate gate = { .index = HOST_FUNCTION_GATES };
    pthread_mutex_lock(&context->gates_lock);
    if (context->gates_spare_count)
        gate = context->gates_spare[--context->gates_spare_count];
    else if (context->gates_used < HOST_FUNCTION_GATES)
        gate = (struct gate){ .index = context->gates_used++ };
    pthread_mutex_unlock(&context->gates_lock);
    if (gate.index == HOST_FUNCTION_GATES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->gate = &context->gates[gate.index];
    stream->gate_address = context->gates_address + gate.index * sizeof(uint32_t);
    stream->gate_ticket = gate.ticket;
    return CUDA_SUCCESS;
}

void gate_give(struct stream *stream)
{
    struct context *context = stream->context;
    if (!stream->gate)
        return;
    pthread_mutex_lock(&context->gates_lock);
    if (context->gates_spare)
        context->gates_spare[context->gates_spare_count++] =
            (struct gate){ .index = (uint32_t)(stream->gate - context->gates), .ticket = stream->gate_ticket };
    pthread_mutex_unlock(&context->gates_lock);
}

void gates_free(struct session *session, struct context *context)
{
    if (context->gates)
        session->gpu->MemFreeHost(context->gates);
    pthread_mutex_lock(&context->gates_lock);            /* a stream that still exists may give its gate back */
    free(context->gates_spare);
    context->gates = NULL;
    context->gates_spare = NULL;
    context->gates_used = context->gates_spare_count = 0;
    pthread_mutex_unlock(&context->gates_lock);
}
