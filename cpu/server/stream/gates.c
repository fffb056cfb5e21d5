/*
 * gates.c: words of host-mapped memory, one for each stream of a context that has host functions: the stream waits on
 * its gate until the client has ended the function (host_function.c). A gate that passes to another stream keeps its
 * value and counts on: the device may not have looked at it for the last time.
 */
#include "cpu/server/session.h"
#include "cpu/server/stream/host_function.h"

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
    if (session->gpu->announce && session->gpu->look)
        session->gpu->announce((uint64_t)(uintptr_t)memory);
    return CUDA_SUCCESS;
}

void gates_prepare(struct session *session, struct context *context) { gates_make(session, context); }

static CUresult gate_pick(struct session *session, struct context *context, struct gate *out)
{
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
    *out = gate;
    return gate.index == HOST_FUNCTION_GATES ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult gate_take(struct session *session, struct stream *stream)
{
    struct context *context = stream->context;
    struct gate gate;
    CUresult r = stream->gate ? CUDA_SUCCESS : gate_pick(session, context, &gate);
    if (stream->gate || r != CUDA_SUCCESS)
        return r;
    stream->gate = &context->gates[gate.index];
    stream->gate_address = context->gates_address + gate.index * sizeof(uint32_t);
    stream->gate_ticket = gate.ticket;
    return CUDA_SUCCESS;
}

/* The word is no gate, but keeps its value like one: the next stream that has it as a gate counts on from there. */
CUresult gate_seen_take(struct session *session, struct stream *stream)
{
    CUresult r = stream->seen ? CUDA_SUCCESS : gate_pick(session, stream->context, &stream->seen_gate);
    if (r == CUDA_SUCCESS && !stream->seen)
        stream->seen = &stream->context->gates[stream->seen_gate.index];
    return r;
}

static void spare_add(struct context *context, struct gate gate)
{
    pthread_mutex_lock(&context->gates_lock);
    if (context->gates_spare)
        context->gates_spare[context->gates_spare_count++] = gate;
    pthread_mutex_unlock(&context->gates_lock);
}

CUresult gate_wait(struct session *session, struct stream *stream, uint32_t *ticket)
{
    *ticket = ++stream->gate_ticket;
    return session->gpu->StreamWaitValue32(stream->handle, stream->gate_address, *ticket, CU_STREAM_WAIT_VALUE_GEQ);
}

void gate_look(const struct session *session)
{
    if (session->gpu->look)
        session->gpu->look();
}

void gate_pass(const struct session *session, struct stream *stream, uint32_t ticket)
{
    uint32_t *gate = stream->gate, now = gate ? __atomic_load_n(gate, __ATOMIC_ACQUIRE) : ticket;
    while ((int32_t)(ticket - now) > 0 && /* a thread that opens it further must not be undone */
           !__atomic_compare_exchange_n(gate, &now, ticket, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        ;
    gate_look(session);
}

void gate_give(struct stream *stream)
{
    struct context *context = stream->context;
    if (stream->gate)
        spare_add(context, (struct gate){ .index = (uint32_t)(stream->gate - context->gates),
                                          .ticket = stream->gate_ticket });
    /* The ticket says what the word holds now: nobody waits on it. */
    if (stream->seen)
        spare_add(context, (struct gate){ .index = stream->seen_gate.index, .ticket = *stream->seen });
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
