/*
 * current.c: the stack of contexts of each thread. The top one is current. A context that has ended stays on the
 * stacks of other threads; their calls give 709 until they make another one current, as natively.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cpu/client/driver/driver.h"

/* What lies under the current one. */
struct stack {
    unsigned count, room;
    core_context *below[];
};
static _Thread_local struct stack *stack;

static pthread_key_t key; /* frees a thread's stack at its end */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_key(void) { pthread_key_create(&key, free); }

static int push(core_context *context)
{
    enum { FIRST_ROOM = 8 };
    unsigned count = stack ? stack->count : 0;
    if (driver_current && (!stack || count == stack->room)) {
        unsigned room = count ? 2 * count : FIRST_ROOM;
        struct stack *more = realloc(stack, sizeof *more + room * sizeof more->below[0]);
        if (!more)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pthread_once(&once, make_key);
        pthread_setspecific(key, more);
        more->count = count;
        more->room = room;
        stack = more;
    }
    if (driver_current)
        stack->below[stack->count++] = driver_current;
    driver_current = context;
    return CUDA_SUCCESS;
}

static core_context *pop(void)
{
    core_context *top = driver_current;
    driver_current = stack && stack->count ? stack->below[--stack->count] : NULL;
    return top;
}

/* ---- the calls ---- */

static int set_current(CUcontext context)
{
    int error = driver_ready();
    if (!error && context)
        error = driver_context_known(context);
    if (error)
        return error;
    if (core_in_host_function())
        driver_hold(context);
    else if (!context)
        pop();
    else if (driver_current)
        driver_current = context;
    else
        error = push(context);
    return error;
}

static int get_current(CUcontext *context)
{
    int error = driver_ready();
    if (!error && !context)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *context = driver_thread_context();
    return error;
}

static int push_current(CUcontext context)
{
    int error = driver_ready();
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (!error)
        error = driver_context_known(context);
    return error ? error : push(context);
}

static int pop_current(CUcontext *context)
{
    int error = driver_ready();
    if (!error && !driver_current)
        error = CUDA_ERROR_INVALID_CONTEXT;
    if (error)
        return error;
    core_context *top = pop();
    if (context)
        *context = top;
    return CUDA_SUCCESS;
}

CUresult driver_cuCtxSetCurrent(CUcontext context) { return driver_local(set_current(context)); }
CUresult driver_cuCtxGetCurrent(CUcontext *context) { return driver_local(get_current(context)); }
CUresult driver_cuCtxPushCurrent_v2(CUcontext context) { return driver_local(push_current(context)); }
CUresult driver_cuCtxPushCurrent(CUcontext context) { return driver_local(push_current(context)); }
CUresult driver_cuCtxPopCurrent_v2(CUcontext *context) { return driver_local(pop_current(context)); }
CUresult driver_cuCtxPopCurrent(CUcontext *context) { return driver_local(pop_current(context)); }

/* ---- contexts that programs make: they are current in the thread that makes them ---- */

static int create(CUcontext *out, unsigned flags, CUdevice device)
{
    enum { SCHEDULE = 0x7, KNOWN = 0xFF }; /* of CUctx_flags; the ways of waiting exclude each other */
    core_context *context;
    int error = driver_ready();
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (error)
        return error;
    if (!out || flags & ~(unsigned)KNOWN || (flags & SCHEDULE & ((flags & SCHEDULE) - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if ((error = driver_device(device)) || (error = core_context_create(device, flags, &context)))
        return error;
    if ((error = push(context))) {
        core_context_destroy(context);
        return error;
    }
    *out = context;
    return CUDA_SUCCESS;
}

static int destroy(CUcontext context)
{
    struct core_context_info info;
    core_context *found;
    int error = context ? driver_context(context, &found) : CUDA_ERROR_INVALID_CONTEXT;
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (error || (error = core_context_info(context, &info)))
        return error;
    if (info.primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    driver_context_ended(context);
    if (!(error = core_context_destroy(context)) && driver_current == context)
        pop();
    return error;
}

CUresult driver_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return driver_waited(create(context, flags, device));
}

CUresult driver_cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    return driver_waited(create(context, flags, device));
}

/* Flyt gives no context a part of a device's SMs; cuDeviceGetExecAffinitySupport answers 0. */
static int check_affinity(const CUexecAffinityParam *parameters, int count)
{
    int error = driver_ready();
    if (error || (!parameters && !count))
        return error;
    if (!parameters || count != 1 || parameters->type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    core_log(CORE_LOG_ERROR, "The device cannot limit a context to some of its SMs");
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

CUresult driver_cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *parameters, int count, unsigned flags,
                               CUdevice device)
{
    int error = check_affinity(parameters, count);
    return driver_waited(error ? error : create(context, flags, device));
}

/* Parameters ask for a part of the device's SMs, or for graphics; only one of the two. */
CUresult driver_cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device)
{
    int error = parameters ? check_affinity(parameters->execAffinityParams, parameters->numExecAffinityParams) : 0;
    if (parameters && parameters->cigParams) {
        if (parameters->execAffinityParams || parameters->numExecAffinityParams)
            return driver_waited(CUDA_ERROR_INVALID_VALUE);
        return driver_unsupported("cuCtxCreate_v4 with cigParams");
    }
    return driver_waited(error ? error : create(context, flags, device));
}

/* ---- the count of uses, of CUDA before 4.0: PyCUDA detaches its context at the end ---- */

static int attach(CUcontext *out, unsigned flags)
{
    core_context *context;
    struct driver_context *state;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!(state = driver_context_state(context)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_fetch_add(&state->attached, 1);
    *out = context;
    return CUDA_SUCCESS;
}

/* The last use ends a context that cuCtxCreate made. */
static int detach(CUcontext context)
{
    core_context *found;
    int error = context ? driver_context(context, &found) : CUDA_ERROR_INVALID_CONTEXT;
    if (error)
        return error;
    if (context != driver_thread_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct driver_context *state = driver_context_state(context);
    unsigned more = state ? atomic_load(&state->attached) : 0;
    while (more && !atomic_compare_exchange_weak(&state->attached, &more, more - 1))
        ;
    return more ? CUDA_SUCCESS : destroy(context);
}

CUresult driver_cuCtxAttach(CUcontext *context, unsigned flags) { return driver_local(attach(context, flags)); }
CUresult driver_cuCtxDetach(CUcontext context) { return driver_waited(detach(context)); }

CUresult driver_cuCtxDestroy_v2(CUcontext context) { return driver_waited(destroy(context)); }
CUresult driver_cuCtxDestroy(CUcontext context) { return driver_waited(destroy(context)); }
