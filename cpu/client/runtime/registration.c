/*
 * registration.c: what compiled programs call before main (and dlopen calls later) to make their device code known,
 * and how kernels and variables are found again.
 *
 * Registering reads nothing of the code and needs no server: it keeps the address of the fat binary and a record per
 * kernel and variable. The key is the host address: that of the host function of a kernel, that of the shadow of a
 * variable. It says which fat binary is meant, so two translation units may each have a `static` kernel of one name.
 * When shared libraries hold the same template instance, the dynamic linker gives both one host address: both
 * records stay, the first registered serves, and the other takes over when the first library is unloaded.
 *
 * A kernel's handle (cudaKernel_t) is that same host address: it can be given wherever a kernel can, lasts as long as
 * the program's code, and is checked by the same look-up. The handle of a kernel of a library (library.c), and a
 * CUfunction or CUkernel of the Driver API, is the core's function itself.
 */
#include "cpu/client/runtime/runtime.h"
#include "cpu/client/core/code/registry.h"

#include <pthread.h>
#include <stdlib.h>

struct runtime_image {
    core_image *core;
    int error; /* of core_image_add: given at first use */
    struct runtime_function *functions;
    struct runtime_variable *variables;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* writers of the tables and of the lists in images */
static struct registry functions, variables;

/* ---- images ---- */

static struct runtime_image *image_open(const void *code)
{
    struct runtime_image *image = calloc(1, sizeof *image);
    if (image)
        image->error = core_image_add(code, &image->core);
    return image;
}

static void function_unlink(struct runtime_function *function)
{
    struct runtime_function *first = registry_find(&functions, function->key);
    if (first == function) {
        registry_set(&functions, function->key, function->next_same);
        return;
    }
    for (; first; first = first->next_same)
        if (first->next_same == function) {
            first->next_same = function->next_same;
            return;
        }
}

static void variable_unlink(struct runtime_variable *variable)
{
    struct runtime_variable *first = registry_find(&variables, variable->key);
    if (first == variable) {
        registry_set(&variables, variable->key, variable->next_same);
        return;
    }
    for (; first; first = first->next_same)
        if (first->next_same == variable) {
            first->next_same = variable->next_same;
            return;
        }
}

static void image_close(struct runtime_image *image)
{
    if (!image)
        return;
#if FLYT_CUDART == 11
    runtime_texrefs_forget(image);
#endif
    pthread_mutex_lock(&lock);
    for (struct runtime_function *function = image->functions, *next; function; function = next) {
        next = function->next_of_image;
        function_unlink(function);
        free(function);
    }
    for (struct runtime_variable *variable = image->variables, *next; variable; variable = next) {
        next = variable->next_of_image;
        variable_unlink(variable);
        free(variable);
    }
    pthread_mutex_unlock(&lock);
    if (image->core)
        core_image_remove(image->core);
    free(image);
}

int runtime_image_core(const struct runtime_image *image, core_image **core)
{
    *core = image->core;
    return image->core ? cudaSuccess : image->error;
}

static void image_function(struct runtime_image *image, const void *key, const char *name)
{
    struct runtime_function *function = calloc(1, sizeof *function);
    if (!function)
        return; /* its launch will say that there is no such function */
    function->key = key;
    function->image = image;
    function->name = name;
    pthread_mutex_lock(&lock);
    struct runtime_function *first = registry_find(&functions, key);
    bool kept = true;
    if (!first) {
        kept = registry_set(&functions, key, function);
    } else {
        while (first->next_same)
            first = first->next_same;
        first->next_same = function;
    }
    if (kept) {
        function->next_of_image = image->functions;
        image->functions = function;
    }
    pthread_mutex_unlock(&lock);
    if (!kept)
        free(function);
}

static void image_variable(struct runtime_image *image, const void *key, const char *name, size_t size, bool constant,
                           void **slot)
{
    struct runtime_variable *variable = calloc(1, sizeof *variable);
    if (!variable)
        return; /* its use will say that there is no such symbol */
    variable->key = key;
    variable->image = image;
    variable->name = name;
    variable->size = size;
    variable->constant = constant;
    variable->slot = slot;
    pthread_mutex_lock(&lock);
    struct runtime_variable *first = registry_find(&variables, key);
    bool kept = true;
    if (!first) {
        kept = registry_set(&variables, key, variable);
    } else {
        while (first->next_same)
            first = first->next_same;
        first->next_same = variable;
    }
    if (kept) {
        variable->next_of_image = image->variables;
        image->variables = variable;
    }
    pthread_mutex_unlock(&lock);
    if (!kept)
        free(variable);
}

/* ---- look-ups ---- */

struct runtime_function *runtime_function_record(const void *key) { return registry_find(&functions, key); }
struct runtime_variable *runtime_variable_record(const void *key) { return registry_find(&variables, key); }

/* The core's object is made at the first use; whichever of two threads comes second gets the same one. */
static int function_resolve(struct runtime_function *record, core_function **function)
{
    if (!record->image->core)
        return record->image->error;
    int error = core_function_add(record->image->core, record->name, function);
    if (!error)
        atomic_store_explicit(&record->core, *function, memory_order_release);
    return error == CORE_NOT_FOUND ? cudaErrorInvalidDeviceFunction : error;
}

static int function_by_handle(const void *key, core_function **function)
{
    *function = (core_function *)(uintptr_t)key;
    if (!core_function_check(*function, NULL, NULL))
        return cudaSuccess;
    return key ? RUNTIME_NO_KERNEL : cudaErrorInvalidDeviceFunction;
}

int runtime_function(const void *key, core_function **function)
{
    struct runtime_function *record = registry_find(&functions, key);
    if (UNLIKELY(!record))
        return function_by_handle(key, function);
    *function = atomic_load_explicit(&record->core, memory_order_acquire);
    return LIKELY(*function != NULL) ? cudaSuccess : function_resolve(record, function);
}

static int variable_address(core_context *context, struct runtime_variable *record, uint64_t *address, size_t *size)
{
    core_variable *variable = atomic_load_explicit(&record->core, memory_order_acquire);
    if (!variable) {
        if (!record->image->core)
            return record->image->error;
        int error = core_variable_add(record->image->core, record->name, record->size, record->constant, &variable);
        if (error)
            return error;
        atomic_store_explicit(&record->core, variable, memory_order_release);
    }
    int error = core_variable_address(context, variable, address, size);
    return error == CORE_NOT_FOUND ? cudaErrorInvalidSymbol : error;
}

/* Compiled code hands in a __managed__ variable's slot, or, once the slot is filled, the variable's own address. */
int runtime_symbol(core_context *context, const void *key, uint64_t *address, size_t *size)
{
    struct runtime_variable *record = registry_find(&variables, key);
    struct core_range range;
    if (record)
        return variable_address(context, record, address, size);
    if (!core_address_lookup((uint64_t)(uintptr_t)key, &range) || !(range.flags & CORE_MANAGED) ||
        range.flags == CORE_MANAGED || range.base != (uint64_t)(uintptr_t)key)
        return cudaErrorInvalidSymbol;
    *address = range.base;
    *size = range.size;
    return cudaSuccess;
}

/* ---- entry points of compiled code ---- */

void **runtime___cudaRegisterFatBinary(void *wrapper)
{
    return (void **)image_open(wrapper); /* a failure is returned when the code is used */
}

void runtime___cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

void runtime___cudaUnregisterFatBinary(void **handle) { image_close((struct runtime_image *)handle); }

void runtime___cudaRegisterFunction(void **handle, const char *host, char *device_function, const char *name,
                                    int thread_limit, uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size,
                                    int *warp_size)
{
    (void)device_function, (void)thread_limit, (void)thread, (void)block, (void)block_size, (void)grid_size,
        (void)warp_size;
    if (handle && host && name)
        image_function((struct runtime_image *)handle, host, name);
}

void runtime___cudaRegisterVar(void **handle, char *host, char *device_address, const char *name, int external,
                               size_t size, int constant, int global)
{
    (void)device_address, (void)external, (void)global;
    if (handle && host && name)
        image_variable((struct runtime_image *)handle, host, name, size, constant != 0, NULL);
}

/* `host` is the slot that holds the variable's address: see runtime___cudaInitModule. */
void runtime___cudaRegisterManagedVar(void **handle, void **host, char *device_address, const char *name, int external,
                                      size_t size, int constant, int global)
{
    (void)device_address, (void)external, (void)global;
    if (handle && host && name)
        image_variable((struct runtime_image *)handle, host, name, size, constant != 0, host);
}

/* The first __managed__ variable of the image whose slot is empty, or NULL. */
static struct runtime_variable *variable_unset(const struct runtime_image *image)
{
    pthread_mutex_lock(&lock);
    struct runtime_variable *variable = image->variables;
    while (variable && (!variable->slot || *variable->slot))
        variable = variable->next_of_image;
    pthread_mutex_unlock(&lock);
    return variable;
}

static int slots_fill(const struct runtime_image *image)
{
    core_context *context;
    uint64_t address;
    size_t size;
    struct runtime_variable *variable = variable_unset(image);
    int error = variable ? runtime_enter(&context) : cudaSuccess;
    for (; variable && !error; variable = variable_unset(image)) {
        error = variable_address(context, variable, &address, &size);
        if (!error)
            *variable->slot = (void *)(uintptr_t)address;
    }
    return error;
}

/* Called before the host touches a __managed__ variable of the image: fills the slots. The caller stores the answer as
   "has been initialised". If it cannot be done, the program crashes at that access, as natively. */
char runtime___cudaInitModule(void **handle)
{
    int error = handle ? slots_fill((struct runtime_image *)handle) : cudaSuccess;
    if (error)
        runtime_return(error);
    return 1;
}

/* Host variables that a kernel reads by address (needs a GPU that reads the program's pages), and tables of functions
   that both sides call. Nothing but that can be returned here; the kernel that uses one will not link. */
void runtime___cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size)
{
    (void)handle, (void)name, (void)host, (void)size;
    core_unsupported("__cudaRegisterHostVar");
}
#if FLYT_CUDART >= 12
void runtime___cudaRegisterUnifiedTable(void **handle, void *table)
{
    (void)handle, (void)table;
    core_unsupported("__cudaRegisterUnifiedTable");
}
#endif

#if FLYT_CUDART >= 12
/* Compiled code keeps the handle for the life of the process and asks once: so this answers without a server, where
   NVIDIA's fails, and the launch returns what is wrong. */
static int get_kernel(cudaKernel_t *kernel, const void *key)
{
    if (!kernel)
        return cudaErrorInvalidValue;
    if (!runtime_function_record(key) && core_function_check(key, NULL, NULL)) {
        int error = runtime_attach(NULL);
        return error ? error : cudaErrorInvalidDeviceFunction;
    }
    *kernel = key;
    return cudaSuccess;
}

cudaError_t runtime___cudaGetKernel(cudaKernel_t *kernel, const void *key)
{
    return runtime_local(get_kernel(kernel, key));
}

/* The Driver API, which lives on the same core, takes this handle too. */
static int get_driver_kernel(cudaKernel_t *kernel, const void *key)
{
    core_function *function;
    int error = runtime_attach(NULL);
    if (!error && !kernel)
        error = cudaErrorInvalidValue;
    if (!error && !(error = runtime_function(key, &function)))
        *kernel = function;
    return error == RUNTIME_NO_KERNEL ? cudaErrorInvalidDeviceFunction : error;       /* a handle is no key here */
}

cudaError_t runtime_cudaGetKernel(cudaKernel_t *kernel, const void *key)
{
    return runtime_local(get_driver_kernel(kernel, key));
}
#endif
