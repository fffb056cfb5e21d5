/*
 * init.c: cuInit, and whether the driver is usable. CUDA reference: Initialization.
 * In the child of a fork the mutex may be held by a thread that is not there: nothing but `forked` is looked at.
 */
#include "softgpu/driver/calls/calls.h"

#include <stdatomic.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool initialised, forked;
static CUresult start_result;

static void in_child(void)
{
    if (atomic_load(&initialised))
        atomic_store(&forked, true);
}

static void start(void)
{
    sgd_config_read();
    sgd_state_start();
    pthread_atfork(NULL, NULL, in_child);
    start_result = sgd_config.devices ? sgd_space_start() : CUDA_ERROR_NO_DEVICE;
    if (start_result == CUDA_SUCCESS && sgd_config.fault_gpu)
        start_result = sgd_domain_join();
    if (start_result == CUDA_SUCCESS) {
        sgd_lock();
        start_result = sgd_devices_start();
        for (unsigned i = 0; i < sgd_config.devices && !start_result; i++) {
            struct sgd_device *d = sgd_device((int)i);
            start_result = sgd_context_new(d, true, 0, 0, &d->primary);
        }
        sgd_unlock();
    }
    if (start_result == CUDA_SUCCESS)
        atomic_store(&initialised, true);
}

CUresult cuInit(unsigned int flags)
{
    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, start);
    return start_result;
}

bool sgd_initialised(void)
{
    return atomic_load(&initialised) && !atomic_load(&forked);
}

CUresult sgd_enter(void)
{
    if (!sgd_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!sgd_fault() && sgd_in_callback())
        return CUDA_ERROR_NOT_PERMITTED;
    sgd_lock();
    if (!sgd_fault() && sgd_domain_fault())
        sgd_fault_raise(sgd_domain_fault());
    /* Under the lock: what has ended by now and the fault that ended it are seen together. */
    CUresult stuck = sgd_fault();
    if (stuck)
        sgd_unlock();
    return stuck;
}

void sgd_leave(void) { sgd_unlock(); }

/* For servers: the compute capability that a client asks for, times ten. It is taken where the environment names none
   or the client insists, and only while no device has an active context: nothing has been loaded or launched then that
   goes by another one. Returns the capability that holds from here on, times ten. */
__attribute__((visibility("default"))) unsigned softgpu_capability(unsigned wanted, bool insists);
unsigned softgpu_capability(unsigned wanted, bool insists)
{
    sgd_lock();
    bool sound = wanted >= 30 && wanted <= 999, asked = insists || !sgd_config.cc_given;
    if (sound && asked && sgd_initialised() && !sgd_context_any()) {
        sgd_config.cc_major = wanted / 10;
        sgd_config.cc_minor = wanted % 10;
        sgd_devices_describe();
    }
    unsigned now = sgd_config.cc_major * 10 + sgd_config.cc_minor;
    sgd_unlock();
    return now;
}
