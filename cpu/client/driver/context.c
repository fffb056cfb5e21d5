/*
 * context.c: chapters "Primary Context Management" and "Context Management"; the stack of current contexts is in
 * current.c.
 */
#include "cpu/client/core/code/own_images.h"
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

#include "api/forward/core.h"

enum { API_VERSION = 3020 }; /* of every context since CUDA 3.2 */
enum { SCHEDULE_MASK = 0x7, FLAGS_KNOWN = 0xFF };

void driver_context_ended(core_context *context)
{
    struct driver_context *state = driver_context_state(context);
    issue_context_ends(context);
    driver_storage_drop(context);
    driver_modules_forget_context(context);
    if (state) {
        state->cache = state->bank = 0;
        atomic_store(&state->attached, 0);
        driver_coredump_forget(state);
    }
}

int driver_context_id(core_context *context, unsigned long long *id)
{
    struct core_context_info info;
    int error = core_context_info(context, &info);
    if (!error)
        *id = info.id;
    return error;
}

static bool flags_valid(unsigned flags)
{
    unsigned schedule = flags & SCHEDULE_MASK;
    return !(flags & ~(unsigned)FLAGS_KNOWN) && (schedule & (schedule - 1)) == 0;
}

/* ---- primary contexts ---- */

static int retain(CUcontext *context, CUdevice device)
{
    int error = driver_ready();
    if (!error && !context)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = driver_device(device)))
        return error;
    core_context *primary = core_context_primary(device);
    core_find_own_images();
    driver_watch_ending();
    if (!(error = core_context_retain(primary)))
        *context = primary;
    return error;
}

/* The contexts' users outside are notified before the context ends, since they may still call with it. In a process
   that ends the context ends with it. */
static int release(CUdevice device)
{
    struct core_context_info info;
    if (driver_ending())
        return CUDA_SUCCESS;
    int error = driver_device(device);
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (error)
        return error;
    core_context *primary = core_context_primary(device);
    if (!(error = core_context_info(primary, &info)) && info.owners == 1)
        driver_context_ended(primary);
    if (!error && !(error = core_context_release(primary)) && !core_context_active(primary))
        driver_context_ended(primary); /* two threads may have released the last two owners at once */
    return error;
}

static int reset(CUdevice device)
{
    int error = driver_device(device);
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (error)
        return error;
    core_context *primary = core_context_primary(device);
    driver_context_ended(primary);
    return core_context_reset(primary);
}

/* only_inactive: as the first form of the call demands it. */
static int set_flags(CUdevice device, unsigned flags, bool only_inactive)
{
    int error = driver_device(device);
    if (error)
        return error;
    if (!flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    core_context *primary = core_context_primary(device);
    if (only_inactive && core_context_active(primary))
        return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
    return core_context_set_flags(primary, flags);
}

static int get_state(CUdevice device, unsigned *flags, int *active)
{
    struct core_context_info info;
    int error = driver_device(device);
    if (!error && (!flags || !active))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = core_context_info(core_context_primary(device), &info)))
        return error;
    *flags = info.flags;
    *active = info.active;
    return CUDA_SUCCESS;
}

CUresult driver_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    return driver_waited(retain(context, device));
}

CUresult driver_cuDevicePrimaryCtxRelease_v2(CUdevice device) { return driver_waited(release(device)); }
CUresult driver_cuDevicePrimaryCtxRelease(CUdevice device) { return driver_waited(release(device)); }
CUresult driver_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    int error = reset(device);
    core_take_latched(); /* what its work has left behind went with it */
    return driver_local(error);
}

CUresult driver_cuDevicePrimaryCtxReset(CUdevice device) { return driver_cuDevicePrimaryCtxReset_v2(device); }
CUresult driver_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    return driver_local(set_flags(device, flags, false));
}

CUresult driver_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return driver_local(set_flags(device, flags, true));
}

CUresult driver_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    return driver_local(get_state(device, flags, active));
}

/* ---- questions about contexts ---- */

static int describe(CUcontext handle, const void *out, struct core_context_info *info)
{
    core_context *context;
    int error = driver_context(handle, &context);
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : core_context_info(context, info);
}

CUresult driver_cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    struct core_context_info info;
    int error = describe(context, device, &info);
    /* A primary context that was reset, or has failed, still belongs to its device: NVIDIA's cudaGetDevice asks. */
    if (error && device && !context && (context = driver_thread_context()) && !core_forked() &&
        !core_context_info(context, &info) && info.primary)
        error = CUDA_SUCCESS;
    if (!error)
        *device = info.device;
    return driver_local(error);
}

CUresult driver_cuCtxGetDevice(CUdevice *device) { return driver_cuCtxGetDevice_v2(device, NULL); }

CUresult driver_cuCtxGetFlags(unsigned *flags)
{
    enum { MAP_HOST = 8 }; /* CU_CTX_MAP_HOST: all pinned memory is mapped */
    struct core_context_info info;
    int error = describe(NULL, flags, &info);
    if (!error)
        *flags = info.flags | MAP_HOST;
    return driver_local(error);
}

CUresult driver_cuCtxSetFlags(unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = flags_valid(flags) ? core_context_set_flags(context, flags) : CUDA_ERROR_INVALID_VALUE;
    return driver_local(error);
}

CUresult driver_cuCtxGetId(CUcontext context, unsigned long long *id)
{
    struct core_context_info info;
    int error = describe(context, id, &info);
    if (!error)
        *id = info.id;
    return driver_local(error);
}

CUresult driver_cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    struct core_context_info info;
    int error = describe(context, version, &info);
    if (!error)
        *version = API_VERSION;
    return driver_local(error);
}

CUresult driver_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    core_context *context;
    struct core_context_info info;
    int error = driver_enter(&context);
    if (error || (error = core_context_info(context, &info)))
        return driver_local(error);
    const struct core_device *device = core_device(info.device);
    if (least)
        *least = device->priority_least;
    if (greatest)
        *greatest = device->priority_greatest;
    return driver_local(CUDA_SUCCESS);
}

/* ---- execution affinity: no context is limited to some SMs ---- */

CUresult driver_cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = affinity && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                                                                   : CUDA_ERROR_INVALID_VALUE;
    return driver_local(error);
}

/* ---- events of all that a context has been given ---- */

/* The context's own streams must not be captured. */
static int enter_for_event(CUcontext handle, CUevent event, core_context **context)
{
    int error = handle ? driver_context(handle, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (!error)
        error = event ? core_event_check(event) : CUDA_ERROR_INVALID_HANDLE;
    return error ? error : issue_check_context(*context);
}

CUresult driver_cuCtxRecordEvent(CUcontext handle, CUevent event)
{
    core_context *context;
    int error = enter_for_event(handle, event, &context);
    return driver_waited(error ? error : core_context_record(context, event));
}

CUresult driver_cuCtxWaitEvent(CUcontext handle, CUevent event)
{
    core_context *context;
    int error = enter_for_event(handle, event, &context);
    if (!error)
        error = issue_check_event(event);
    return driver_waited(error ? error : core_context_wait(context, event));
}

/* ---- waiting, limits ---- */

CUresult driver_cuCtxSynchronize_v2(CUcontext handle)
{
    core_context *context;
    int error = driver_context(handle, &context);
    if (core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (!error)
        error = issue_check_context(context);
    return driver_waited(error ? error : core_context_synchronize(context));
}

CUresult driver_cuCtxSynchronize(void) { return driver_cuCtxSynchronize_v2(NULL); }

/* Those that can be set, and those that the header knows. */
enum {
    LIMIT_LAST = CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
    LIMIT_SHARED = 7,
    LIMIT_KNOWN = CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED
};

static int check_limit(CUlimit limit)
{
    if ((int)limit <= LIMIT_LAST)
        return CUDA_SUCCESS;
    return (int)limit <= LIMIT_KNOWN ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
}

static int get_limit(size_t *value, CUlimit limit)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !value)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error)
        return error;
    if (limit == CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED) {
        *value = 0; /* the context shares the GPU with no graphics API. cuBLAS asks, and ends without an answer */
        return CUDA_SUCCESS;
    }
    error = (int)limit == LIMIT_SHARED ? CUDA_SUCCESS : check_limit(limit);
    return error ? error : core_ctx_get_limit(context, value, (int)limit);
}

CUresult driver_cuCtxGetLimit(size_t *value, CUlimit limit) { return driver_waited(get_limit(value, limit)); }

CUresult driver_cuCtxSetLimit(CUlimit limit, size_t value)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = (int)limit == LIMIT_SHARED ? CUDA_ERROR_NOT_PERMITTED : check_limit(limit); /* it can be read only */
    return driver_waited(error ? error : core_limit_set(context, (int)limit, value));
}

/* ---- preferences: kept here, since they change nothing that a program could see through a server ---- */

static int preference(struct driver_context **state)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    *state = driver_context_state(context);
    return *state ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult driver_cuCtxGetCacheConfig(CUfunc_cache *config)
{
    struct driver_context *state;
    int error = preference(&state);
    if (!error && !config)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *config = (CUfunc_cache)state->cache;
    return driver_local(error);
}

CUresult driver_cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct driver_context *state;
    int error = preference(&state);
    if (!error && config > CU_FUNC_CACHE_PREFER_EQUAL)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        state->cache = config;
    return driver_local(error);
}

/* Bank sizes cannot be chosen on any GPU since compute capability 5: accepted, and four bytes is what they have. */
CUresult driver_cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    struct driver_context *state;
    int error = preference(&state);
    if (!error && !config)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return driver_local(error);
}

CUresult driver_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct driver_context *state;
    int error = preference(&state);
    if (!error && config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_local(error);
}
