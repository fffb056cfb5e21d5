/*
 * null_code.c: modules and launches of the null device. A module's kernels and variables are those of its
 * PTX or cubin (layout.c); its variables get addresses in a reservation of its own. A launch is checked and counted.
 */
#include "cpu/server/gpu/null.h"
#include "cpu/common/driver_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"
#include "cpu/code/layout.h"

enum { NULL_DEFAULT_SHARED = 49152, NULL_MAX_THREADS = 1024, NULL_THREADS_PER_SM = 2048, NULL_MAX_CLUSTER = 8,
       NULL_MAX_CLUSTER_NON_PORTABLE = 16, NULL_VARIABLE_ALIGN = 256 };
#define NULL_VARIABLES ((uint64_t)2 << 20)

struct null_function {
    struct null_object object;
    struct layout layout;
    _Atomic int max_dynamic_shared, non_portable_cluster;
    struct null_function *next;
    char name[];
};

struct null_variable {
    struct null_variable *next;
    CUdeviceptr address;
    size_t size;
    char name[];
};

struct null_module {
    struct null_object object;
    layout_image *image;
    struct null_function *functions;
    struct null_variable *variables;
    CUdeviceptr memory;                   /* one granule for the variables, 0: none yet; larger ones get their own */
    size_t memory_size, memory_used;
};

static pthread_mutex_t null_module_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic unsigned long null_launches, null_held, null_ran;

/* Writes the reason where the caller's CU_JIT_ERROR_LOG_BUFFER says. */
static void null_log(const char *text, unsigned int count, const CUjit_option *options, void **values)
{
    char *buffer = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            buffer = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            size = (size_t)(uintptr_t)values[i];
    }
    if (!buffer || !size)
        return;
    size_t n = strnlen(text, size - 1);
    memcpy(buffer, text, n);
    buffer[n] = 0;
}

CUresult null_ModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                               void **values)
{
    char log[1024];
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = null_check();
    struct null_module *new = r ? NULL : calloc(1, sizeof *new);
    if (!new)
        return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
    int error = layout_open(image, &new->image, log, sizeof log);
    if (error) {
        null_log(log, count, options, values);
        free(new);
        return (CUresult)error;
    }
    new->object.magic = NULL_MODULE;
    *module = (CUmodule)(void *)new;
    return CUDA_SUCCESS;
}

CUresult null_ModuleUnload(CUmodule handle)
{
    struct null_module *module = (struct null_module *)(void *)handle;
    if (!null_is(module, NULL_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    module->object.magic = NULL_DEAD;
    while (module->functions) {
        struct null_function *next = module->functions->next;
        module->functions->object.magic = NULL_DEAD;
        free(module->functions);
        module->functions = next;
    }
    while (module->variables) {
        struct null_variable *next = module->variables->next;
        free(module->variables);
        module->variables = next;
    }
    if (module->memory)
        null_MemAddressFree(module->memory, module->memory_size);
    layout_close(module->image);
    free(module);
    return CUDA_SUCCESS;
}

CUresult null_ModuleGetFunction(CUfunction *function, CUmodule handle, const char *name)
{
    struct null_module *module = (struct null_module *)(void *)handle;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    struct layout layout;
    if (!null_is(module, NULL_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&null_module_lock);
    struct null_function *f = module->functions;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    if (!f && layout_find(module->image, name, &layout) == 0) {
        size_t length = strlen(name) + 1;
        f = calloc(1, sizeof *f + length);
        if (f) {
            f->object.magic = NULL_FUNCTION;
            f->layout = layout;
            f->max_dynamic_shared = NULL_DEFAULT_SHARED;
            memcpy(f->name, name, length);
            f->next = module->functions;
            module->functions = f;
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (f) {
        *function = (CUfunction)(void *)f;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&null_module_lock);
    return result;
}

/* Memory for a variable. */
static CUresult null_variable_place(struct null_module *module, size_t size, CUdeviceptr *address)
{
    FLYT_ASSERT_HELD(&null_module_lock);
    size = (size + NULL_VARIABLE_ALIGN - 1) & ~(size_t)(NULL_VARIABLE_ALIGN - 1);
    if (!module->memory) {
        /* All of a module's variables in one reservation: the sizes of a PTX module are bounded by its text. */
        size_t room = (size + 8 * NULL_VARIABLES - 1) & ~(size_t)(NULL_VARIABLES - 1);
        CUresult r = null_reserve_variables(&module->memory, room);
        if (r)
            return r;
        module->memory_size = room;
    }
    if (size > module->memory_size - module->memory_used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = module->memory + module->memory_used;
    module->memory_used += size;
    return CUDA_SUCCESS;
}

CUresult null_ModuleGetGlobal(CUdeviceptr *address, size_t *size, CUmodule handle, const char *name)
{
    struct null_module *module = (struct null_module *)(void *)handle;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (!null_is(module, NULL_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&null_module_lock);
    struct null_variable *v = module->variables;
    while (v && strcmp(v->name, name) != 0)
        v = v->next;
    size_t bytes = v ? 0 : (size_t)layout_variable_size(module->image, name);
    if (bytes) {
        size_t length = strlen(name) + 1;
        CUdeviceptr at = 0;
        result = null_variable_place(module, bytes, &at);
        v = result ? NULL : calloc(1, sizeof *v + length);
        if (v) {
            v->address = at;
            v->size = bytes;
            memcpy(v->name, name, length);
            v->next = module->variables;
            module->variables = v;
        }
    }
    if (v) {
        *address = v->address;
        *size = v->size;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&null_module_lock);
    return result;
}

/* ---- functions ---- */

CUresult null_FuncGetAttribute(int *value, CUfunction_attribute name, CUfunction handle)
{
    struct null_function *f = (struct null_function *)(void *)handle;
    if (!null_is(f, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    switch ((int)name) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = NULL_MAX_THREADS; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->max_dynamic_shared; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = f->non_portable_cluster;
        return CUDA_SUCCESS;
    default:
        *value = 0;
        return (int)name >= 0 && (int)name < 16 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult null_FuncSetAttribute(CUfunction handle, CUfunction_attribute name, int value)
{
    struct null_function *f = (struct null_function *)(void *)handle;
    if (!null_is(f, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (name == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (name == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        f->non_portable_cluster = value != 0;
        return CUDA_SUCCESS;
    }
    if (name != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > NULL_MAX_SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    f->max_dynamic_shared = value;
    return CUDA_SUCCESS;
}

CUresult null_FuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    if (!null_is((void *)handle, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    return (int)config >= 0 && (int)config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult null_FuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    struct null_function *f = (struct null_function *)(void *)handle;
    if (!null_is(f, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (index >= f->layout.count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->layout.params[index].offset;
    *size = f->layout.params[index].size;
    return CUDA_SUCCESS;
}

/* The bytes of extra's parameter block, or SIZE_MAX where there is none. */
static size_t null_param_bytes(void **extra)
{
    size_t bytes = SIZE_MAX;
    for (size_t i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(size_t *)extra[i + 1];
    return bytes;
}

/* Whether this thread has called hold() and not yet run(), and how many kernels it has launched since. */
static _Thread_local bool null_holds;
static _Thread_local unsigned long null_pending;

void null_hold(void) { null_holds = true; }

void null_run(int here)
{
    (void)here;
    null_holds = false;
    atomic_fetch_add(&null_ran, null_pending);
    null_pending = 0;
}

static void null_held_one(void)
{
    if (!null_holds)
        return;
    null_pending++;
    atomic_fetch_add(&null_held, 1);
}

CUresult null_LaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                           unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                           CUstream stream, void **params, void **extra)
{
    struct null_function *f = (struct null_function *)(void *)handle;
    if (!null_is(f, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!grid_x || !grid_y || !grid_z || grid_x > INT32_MAX || grid_y > 65535 || grid_z > 65535 ||
        !block_x || !block_y || !block_z || block_x > 1024 || block_y > 1024 || block_z > 64 ||
        block_x * block_y * block_z > NULL_MAX_THREADS || shared > (unsigned)f->max_dynamic_shared)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->layout.count && !params && null_param_bytes(extra) != f->layout.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    null_held_one();
    return null_work(&null_launches, stream);
}

CUresult null_LaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
    return null_LaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                             config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, params,
                             extra);
}

CUresult null_OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size,
                                                                 size_t shared, unsigned int flags)
{
    if (!null_is((void *)function, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (block_size <= 0 || block_size > NULL_MAX_THREADS || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    size_t n = NULL_THREADS_PER_SM / (size_t)block_size, room = NULL_SHARED_PER_SM / (shared + NULL_RESERVED_SHARED);
    n = n > NULL_BLOCKS_PER_SM ? NULL_BLOCKS_PER_SM : n;
    *blocks = (int)(n < room ? n : room);
    return CUDA_SUCCESS;
}

CUresult null_OccupancyAvailableDynamicSMemPerBlock(size_t *shared, CUfunction function, int blocks, int block_size)
{
    if (!null_is((void *)function, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (block_size <= 0 || block_size > NULL_MAX_THREADS || blocks <= 0 || blocks > NULL_BLOCKS_PER_SM)
        return CUDA_ERROR_INVALID_VALUE;
    *shared = (size_t)(NULL_SHARED_PER_SM / blocks - NULL_RESERVED_SHARED);
    return CUDA_SUCCESS;
}

CUresult null_OccupancyMaxPotentialClusterSize(int *size, CUfunction handle, const CUlaunchConfig *config)
{
    struct null_function *f = (struct null_function *)(void *)handle;
    (void)config;
    if (!null_is(f, NULL_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    *size = f->non_portable_cluster ? NULL_MAX_CLUSTER_NON_PORTABLE : NULL_MAX_CLUSTER;
    return CUDA_SUCCESS;
}

CUresult null_OccupancyMaxActiveClusters(int *clusters, CUfunction handle, const CUlaunchConfig *config)
{
    unsigned blocks = 1;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const CUlaunchAttributeValue *value = &config->attrs[i].value;
            blocks = value->clusterDim.x * value->clusterDim.y * value->clusterDim.z;
        }
    int per_sm, largest;
    CUresult r = null_OccupancyMaxPotentialClusterSize(&largest, handle, config);
    if (r == CUDA_SUCCESS && (!blocks || blocks > (unsigned)largest))
        r = CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (r == CUDA_SUCCESS)
        r = null_OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &per_sm, handle, (int)(config->blockDimX * config->blockDimY * config->blockDimZ),
            config->sharedMemBytes, 0);
    if (r == CUDA_SUCCESS)
        *clusters = per_sm * NULL_MULTIPROCESSORS / (int)blocks;
    return r;
}

#if CUDA_VERSION >= 12000
/* A tensor map is opaque, and nothing here reads it: it holds what distinguishes two of them. */
CUresult null_TensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                   const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                   const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                   CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                   CUtensorMapFloatOOBfill fill)
{
    (void)strides, (void)element_strides, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    if (!map || !dims || !box || rank < 1 || rank > 5)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    map->opaque[0] = (cuuint64_t)(uintptr_t)address;
    map->opaque[1] = (cuuint64_t)type << 32 | rank;
    for (cuuint32_t i = 0; i < rank; i++) {
        map->opaque[2 + i] = dims[i];
        map->opaque[7 + i] = box[i];
    }
    return CUDA_SUCCESS;
}

CUresult null_TensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    if (!map)
        return CUDA_ERROR_INVALID_VALUE;
    map->opaque[0] = (cuuint64_t)(uintptr_t)address;
    return CUDA_SUCCESS;
}
#endif

CUresult null_GetErrorName(CUresult error, const char **name)
{
    *name = driver_error_name((int)error);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult null_GetErrorString(CUresult error, const char **text)
{
    *text = driver_error_text((int)error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
