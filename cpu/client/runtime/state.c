/*
 * state.c: the calling thread's state, and NVIDIA's lazy initialisation on top of the core.
 *
 * The order is native's: a call that needs the runtime first needs the driver (here: a server; 802 or 803 when
 * there is none), then a device (100), then the device's context. What failed at the first connection stays
 * failed, as natively; the core remembers it.
 */
#include "cpu/client/runtime/runtime.h"

#include <pthread.h>
#include <stdlib.h>

_Thread_local struct runtime_thread runtime_thread;

/* Only threads that ever nested more than a few launches have something to free. */
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void make_thread_key(void) { pthread_key_create(&thread_key, free); }

int runtime_attach(int *device_count)
{
    static pthread_once_t settings = PTHREAD_ONCE_INIT;
    int count = 0;
    int error = core_attach();
    pthread_once(&settings, runtime_read_launch_blocking);
    if (!error)
        error = core_device_count(&count);
    if (!error && count == 0)
        error = cudaErrorNoDevice;
    if (!error)
        atomic_store_explicit(&core_initialised, true, memory_order_release);
    if (device_count)
        *device_count = count;
    return error;
}

int runtime_attach_device(int device)
{
    int count;
    int error = runtime_attach(&count);
    if (error)
        return error;
    return device < 0 || device >= count ? cudaErrorInvalidDevice : cudaSuccess;
}

int runtime_attach_to_use(int device)
{
    int error = device == 0 ? core_attach_to_use() : cudaSuccess;
    return error ? error : runtime_attach_device(device);
}

/* cudaSetValidDevices names the devices to try, in order: all of them can be used, so the first one is taken. Without
   a lock, which a forked child could find taken. */
static atomic_int first_valid;

static int first_device(void) { return atomic_load_explicit(&first_valid, memory_order_relaxed); }

/* The runtime works in the context that the program has made current with the Driver API, as natively. Where the
   program has made none current, the thread's device is that of its last cudaSetDevice, up to a call that needs a
   context: then it is the first one. */
static void follow_current(void)
{
    struct core_context_info info;
    if (core_current == runtime_thread.seen)
        return;
    runtime_thread.seen = core_current;
    if (!core_current) {
        runtime_thread.device = runtime_thread.chosen;
        runtime_thread.context = NULL;
        runtime_thread.taken_away = true;
    } else if (!core_context_info(core_current, &info)) {
        runtime_thread.device = info.device + 1;
        runtime_thread.context = core_current;
        runtime_thread.taken_away = false;
    }
}

int runtime_device(void)
{
    follow_current();
    return runtime_thread.device ? runtime_thread.device - 1 : first_device();
}

void runtime_choose(int device, core_context *context)
{
    if (context)
        core_current = context; /* for the Driver API, as natively */
    runtime_thread.device = device + 1;
    runtime_thread.context = context;
    runtime_thread.seen = core_current;
    runtime_thread.taken_away = false;
}

/* Whether a context is current that the program has made. A primary one comes back to life when the runtime needs
   it. */
static bool in_own_context(void)
{
    struct core_context_info info;
    return core_current && runtime_thread.context == core_current && !core_context_info(core_current, &info) &&
           !info.primary;
}

/* The devices whose primary context this library has retained. */
static atomic_bool retained[RUNTIME_MAX_DEVICES];

static bool is_retained(int device, const core_context *primary)
{
    return device < RUNTIME_MAX_DEVICES && atomic_load_explicit(&retained[device], memory_order_acquire) &&
           core_context_active(primary);
}

int runtime_retain(int device, core_context **context)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int error = cudaSuccess;
    *context = core_context_primary(device);
    if (is_retained(device, *context))
        return cudaSuccess;
    pthread_mutex_lock(&lock);
    if (!is_retained(device, *context) && !(error = core_context_retain(*context)) && device < RUNTIME_MAX_DEVICES)
        atomic_store_explicit(&retained[device], true, memory_order_release);
    pthread_mutex_unlock(&lock);
    /* Behind a kernel's fault there is no new context: the driver returns the fault, and NVIDIA's runtime this. */
    return error && error == core_sticky() ? cudaErrorDevicesUnavailable : error;
}

bool runtime_released(int device)
{
    return device < RUNTIME_MAX_DEVICES && atomic_exchange(&retained[device], false);
}

int runtime_enter_slow(core_context **context)
{
    if (core_in_host_function())
        return cudaErrorNotPermitted;
    int wanted = runtime_device();
    int error = wanted == 0 ? core_attach_to_use() : cudaSuccess;
    if (error || (error = runtime_attach(NULL)))
        return error;
    if (runtime_thread.taken_away)
        wanted = first_device();
    if (in_own_context()) {
        *context = core_current;
        error = core_context_enter(core_current);
        return error == cudaErrorContextIsDestroyed ? cudaErrorDeviceUninitialized : error;
    }
    if ((error = runtime_retain(wanted, context)))
        return error;
    runtime_choose(wanted, *context);
    return core_sticky();
}

static int set_valid_devices(const int *devices, int count)
{
    int available;
    int error = runtime_attach(&available);
    if (error)
        return error;
    if (count < 0 || count > available || count > RUNTIME_MAX_DEVICES || (count && !devices))
        return cudaErrorInvalidValue;
    for (int i = 0; i < count; i++)
        if (devices[i] < 0 || devices[i] >= available)
            return cudaErrorInvalidDevice;
    atomic_store_explicit(&first_valid, count ? devices[0] : 0, memory_order_relaxed);
    return cudaSuccess;
}

cudaError_t runtime_cudaSetValidDevices(int *devices, int count)
{
    return runtime_local(set_valid_devices(devices, count));
}

int runtime_unsupported(const char *name)
{
    core_unsupported(name);
    return runtime_local(cudaErrorNotSupported);
}

/* ---- configurations of `kernel<<<grid, block, shared, stream>>>`: pushed by the caller, popped by the stub ---- */

static struct runtime_configuration *pending_slot(unsigned index)
{
    struct runtime_thread *thread = &runtime_thread;
    if (index < RUNTIME_PENDING_INLINE)
        return &thread->inline_pending[index];
    index -= RUNTIME_PENDING_INLINE;
    if (index >= thread->more_capacity) {
        unsigned capacity = thread->more_capacity ? thread->more_capacity * 2 : 16;
        struct runtime_configuration *more = realloc(thread->more_pending, capacity * sizeof *more);
        if (!more)
            return NULL;
        thread->more_pending = more;
        thread->more_capacity = capacity;
        pthread_once(&thread_once, make_thread_key);
        pthread_setspecific(thread_key, more);
    }
    return &thread->more_pending[index];
}

unsigned runtime___cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    struct runtime_configuration *slot = pending_slot(runtime_thread.pending);
    if (!slot)
        return (unsigned)runtime_return(cudaErrorMemoryAllocation);
    *slot = (struct runtime_configuration){ grid, block, shared, stream };
    runtime_thread.pending++;
    return cudaSuccess;
}

cudaError_t runtime___cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (!runtime_thread.pending)
        return runtime_return(cudaErrorMissingConfiguration);
    const struct runtime_configuration *slot = pending_slot(--runtime_thread.pending);
    *grid = slot->grid;
    *block = slot->block;
    *shared = slot->shared;
    *(core_stream *)stream = slot->stream;
    return cudaSuccess;
}
