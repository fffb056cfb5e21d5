/*
 * state.c: what calls begin with: is the driver initialised, which context is current, is the device there.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/client/driver/driver.h"
#include "cpu/common/thread_block.h"

static atomic_bool initialised;
bool driver_launches_block;

int driver_ready(void)
{
    if (core_forked())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (atomic_load_explicit(&initialised, memory_order_acquire))
        return CUDA_SUCCESS;
    return atomic_load(&core_initialised) ? driver_initialise() : CUDA_ERROR_NOT_INITIALIZED;
}

int driver_initialise(void)
{
    int count = 0;
    int error = core_attach();
    if (!error)
        error = core_device_count(&count);
    if (!error && count == 0)
        error = CUDA_ERROR_NO_DEVICE;
    if (error)
        return error;
    if (!atomic_load(&initialised)) {
        const char *text = getenv("CUDA_LAUNCH_BLOCKING");
        driver_launches_block = text && atoi(text) != 0;
        core_library_ends = driver_modules_forget_library;
        atomic_store_explicit(&initialised, true, memory_order_release);
    }
    return CUDA_SUCCESS;
}

int driver_device(CUdevice device)
{
    int count, error = driver_ready();
    if (error || (error = core_device_count(&count)))
        return error;
    return device >= 0 && device < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult driver_unsupported(const char *name)
{
    core_unsupported(name);
    return driver_local(CUDA_ERROR_NOT_SUPPORTED);
}

/* ---- the current context; the stack below it is in current.c ---- */

/* What a host function has made current. Its other calls find no current context, and so their way to the answer 800.
   */
static THREAD_BLOCK core_context *held;

void driver_hold(core_context *context) { held = context; }

int driver_enter_slow(core_context **context)
{
    int error = driver_ready();
    if (error)
        return error;
    if (core_in_host_function())
        return CUDA_ERROR_NOT_PERMITTED;
    if (!driver_current) {
        core_log(CORE_LOG_ERROR, "No CUDA context is current to the calling thread");
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *context = driver_current;
    return core_context_enter(driver_current);
}

core_context *driver_thread_context(void) { return driver_current ? driver_current : held; }

int driver_context(CUcontext handle, core_context **context)
{
    int error = driver_ready();
    if (error)
        return error;
    *context = handle ? handle : driver_thread_context();
    if (!handle)
        return *context ? core_context_enter(*context) : CUDA_ERROR_INVALID_CONTEXT;
    error = core_context_check(handle);
    return error == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_ERROR_INVALID_CONTEXT : error;
}

int driver_context_known(CUcontext handle)
{
    struct core_context_info info;
    core_context *context;
    int error = handle ? driver_context(handle, &context) : CUDA_ERROR_INVALID_CONTEXT;
    if (error != CUDA_ERROR_INVALID_CONTEXT || core_context_check(handle) != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return error;
    return !core_context_info(handle, &info) && info.primary ? CUDA_SUCCESS : error;
}
