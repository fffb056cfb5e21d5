/* gpu.c: finds and loads the driver. See gpu.h. */
#include "cpu/server/gpu/gpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/driver_library.h"
#include "cpu/common/env.h"

/* The one driver of this process. */
static pthread_mutex_t gpu_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu gpu_table;
static bool gpu_ready;

/* Path of libsoftgpu.so: beside the program or library that this code is in. */
static void gpu_software_path(char *path, size_t size)
{
    Dl_info here;
    char real[PATH_MAX];
    ssize_t n = -1;

    if (dladdr((void *)&gpu_ready, &here) && here.dli_fname && strstr(here.dli_fname, ".so")) {
        if (realpath(here.dli_fname, real))
            n = (ssize_t)strlen(real);
    } else {
        n = readlink("/proc/self/exe", real, sizeof real - 1);
        if (n >= 0)
            real[n] = 0;
    }
    char *slash = n > 0 ? strrchr(real, '/') : NULL;
    if (slash) {
        *slash = 0;
        snprintf(path, size, "%s/libsoftgpu.so", real);
        if (access(path, R_OK) == 0)
            return;
    }
    snprintf(path, size, "libsoftgpu.so");
}

/* What only the software GPU has. */
static void gpu_fill_software(void *library, struct gpu *gpu)
{
    *(void **)&gpu->last_log = dlsym(library, "softgpu_last_log");
    *(void **)&gpu->extent = dlsym(library, "softgpu_extent");
    *(void **)&gpu->graphs = dlsym(library, "softgpu_graphs");
    *(void **)&gpu->absences = dlsym(library, "softgpu_absences");
    *(void **)&gpu->releases = dlsym(library, "softgpu_releases");
    *(void **)&gpu->register_shut = dlsym(library, "softgpu_register_shut");
    *(void **)&gpu->shut = dlsym(library, "softgpu_shut");
    *(void **)&gpu->capability = dlsym(library, "softgpu_capability");
    *(void **)&gpu->limits = dlsym(library, "softgpu_limits");
    *(void **)&gpu->adopt_memory = dlsym(library, "softgpu_adopt_memory");
    *(void **)&gpu->place_object = dlsym(library, "softgpu_place_object");
    *(void **)&gpu->retire_object = dlsym(library, "softgpu_retire_object");
    *(void **)&gpu->place_heap = dlsym(library, "softgpu_place_heap");
    *(void **)&gpu->heap = dlsym(library, "softgpu_heap");
    *(void **)&gpu->heap_state = dlsym(library, "softgpu_heap_state");
    *(void **)&gpu->place_module = dlsym(library, "softgpu_place_module");
    *(void **)&gpu->module_place = dlsym(library, "softgpu_module_place");
    *(void **)&gpu->host_view = dlsym(library, "softgpu_host_view");
    *(void **)&gpu->read = dlsym(library, "softgpu_read");
    *(void **)&gpu->watch = dlsym(library, "softgpu_watch");
    *(void **)&gpu->announce = dlsym(library, "softgpu_announce");
    *(void **)&gpu->look = dlsym(library, "softgpu_look");
    *(void **)&gpu->hold = dlsym(library, "softgpu_hold");
    *(void **)&gpu->run = dlsym(library, "softgpu_run");
    *(void **)&gpu->tell_compiled = dlsym(library, "softgpu_tell_compiled");
}

/* Fills the table from the driver that dlopen gave; path is for messages. */
static int gpu_fill(void *library, const char *path, const char *kind, struct gpu *gpu, char *error)
{
    env_share(library);
    gpu->kind = kind;
    const char *missing = NULL;
#define REQUIRED(field, symbol, parameters) \
    *(void **)&gpu->field = dlsym(library, symbol); \
    if (!gpu->field && !missing) \
        missing = symbol;
#define OPTIONAL(field, symbol, parameters) *(void **)&gpu->field = dlsym(library, symbol);
#include "api/driver/server.inc"
#undef REQUIRED
#undef OPTIONAL
    if (missing) {
        snprintf(error, GPU_ERROR_SIZE, "the driver %s lacks %s: CUDA 11.8 or later is needed", path, missing);
        dlclose(library);
        return -1;
    }
    return 0;
}

/* A driver may have cuStreamWaitValue32 and devices that cannot do it. */
static void gpu_without_stream_values(struct gpu *gpu, int count)
{
    bool can = true;
    for (int i = 0; can && i < count; i++) {
        int first = 0, second = 0;
        CUdevice device;
        can = gpu->DeviceGet(&device, i) == CUDA_SUCCESS;
        if (can) {
            gpu->DeviceGetAttribute(&first, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, device);
            gpu->DeviceGetAttribute(&second, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device);
            can = first || second;
        }
    }
    if (!can)
        gpu->StreamWaitValue32 = NULL, gpu->StreamWriteValue32 = NULL;
}

/* For forwarded calls that this driver lacks. */
#define DEFAULT(field, parameters) \
    static CUresult CUDAAPI default_##field parameters \
    { \
        return CUDA_ERROR_NOT_SUPPORTED; \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "api/forward/defaults.inc"
#pragma GCC diagnostic pop
#undef DEFAULT

static void gpu_fill_defaults(struct gpu *gpu)
{
    (void)gpu;
#define DEFAULT(field, parameters) \
    if (!gpu->field) \
        gpu->field = default_##field;
#include "api/forward/defaults.inc"
#undef DEFAULT
}

/* Initialises what has been loaded; a driver without a device is of no use here. */
static int gpu_start(struct gpu *gpu, char *error)
{
    char name[64];
    int count = 0;
    gpu_fill_defaults(gpu);
    CUresult r = gpu->Init(0);
    if (r == CUDA_SUCCESS)
        r = gpu->DeviceGetCount(&count);
    if (r != CUDA_SUCCESS) {
        snprintf(error, GPU_ERROR_SIZE, "the %s driver does not start: %s", gpu->kind,
                 gpu_error_name(gpu, r, name, sizeof name));
        return -1;
    }
    if (count == 0) {
        snprintf(error, GPU_ERROR_SIZE, "the %s driver has no device (CUDA_VISIBLE_DEVICES?)", gpu->kind);
        return -1;
    }
    gpu_without_stream_values(gpu, count);
    return 0;
}

static int gpu_open_kind(const char *kind, struct gpu *gpu, char *error)
{
    if (strcmp(kind, "null") == 0) {
        memset(gpu, 0, sizeof *gpu);
        gpu_null_fill(gpu);
        return gpu_start(gpu, error);
    }
    if (strcmp(kind, "nvidia") == 0) {
        void *library = driver_library_open(error, GPU_ERROR_SIZE);
        if (!library || gpu_fill(library, "libcuda.so.1", "nvidia", gpu, error) < 0)
            return -1;
        return gpu_start(gpu, error);
    }
    if (strcmp(kind, "software") == 0) {
        char path[PATH_MAX + 32];
        gpu_software_path(path, sizeof path);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            snprintf(error, GPU_ERROR_SIZE, "cannot load the software GPU: %s", dlerror());
            return -1;
        }
        if (gpu_fill(library, path, "software", gpu, error) < 0)
            return -1;
        gpu_fill_software(library, gpu);
        return gpu_start(gpu, error);
    }
    snprintf(error, GPU_ERROR_SIZE, "there is no GPU of kind \"%s\"; auto, nvidia, software and null are", kind);
    return -1;
}

int gpu_open(const char *kind, const struct gpu **out, char *error)
{
    int result = 0;
    if (!kind)
        kind = "auto";
    pthread_mutex_lock(&gpu_lock);
    if (gpu_ready) {
        if (strcmp(kind, "auto") != 0 && strcmp(kind, gpu_table.kind) != 0) {
            snprintf(error, GPU_ERROR_SIZE, "this process uses the %s driver already, so it cannot use %s",
                     gpu_table.kind, kind);
            result = -1;
        }
    } else if (strcmp(kind, "auto") == 0) {
        char first[GPU_ERROR_SIZE];
        result = gpu_open_kind("nvidia", &gpu_table, first);
        if (result < 0) {
            char second[GPU_ERROR_SIZE];
            result = gpu_open_kind("software", &gpu_table, second);
            if (result < 0)
                snprintf(error, GPU_ERROR_SIZE, "no GPU: %.200s; %.200s", first, second);
        }
    } else {
        result = gpu_open_kind(kind, &gpu_table, error);
    }
    if (result == 0) {
        gpu_ready = true;
        *out = &gpu_table;
    }
    pthread_mutex_unlock(&gpu_lock);
    return result;
}

const char *gpu_error_name(const struct gpu *gpu, CUresult result, char *buffer, size_t size)
{
    const char *name = NULL;
    if (gpu->GetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "CUDA error";
    snprintf(buffer, size, "%s (%d)", name, (int)result);
    return buffer;
}
