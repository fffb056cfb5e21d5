/*
 * gpu_nvidia.c: NVIDIA GPUs, through NVML, which is opened with dlopen so that this program runs without it too. NVML
 * does not give the number of multiprocessors: the CUDA driver does, asked in a child process, so that the daemon
 * itself never holds a context (which would cost memory of the device and end with the driver's first fatal error).
 *
 * Types and values of NVML are declared here, as its documentation gives them; its header is not needed to build.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/driver_library.h"
#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

typedef struct nvml_device *nvml_device;
struct nvml_memory_info { unsigned long long total, free, used; };
enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_COMPUTE_EXCLUSIVE = 3, NVML_COMPUTE_PROHIBITED = 2 };

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device *);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*name)(nvml_device, char *, unsigned);
    int (*memory)(nvml_device, struct nvml_memory_info *);
    int (*max_clock)(nvml_device, int, unsigned *);
    int (*compute_mode)(nvml_device, int *);
    int (*mig_mode)(nvml_device, unsigned *current, unsigned *pending);     /* NULL: too old */
    int (*minor)(nvml_device, unsigned *);                                  /* NULL: too old */
};

static bool nvml_open(struct nvml *nvml, char *error)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        explain(error, 0, "%s", dlerror());
        return false;
    }
    const struct { const char *name; void *at; } symbols[] = {
        { "nvmlInit_v2", &nvml->init }, { "nvmlShutdown", &nvml->shutdown }, { "nvmlErrorString", &nvml->error },
        { "nvmlDeviceGetCount_v2", &nvml->count }, { "nvmlDeviceGetHandleByIndex_v2", &nvml->by_index },
        { "nvmlDeviceGetUUID", &nvml->uuid }, { "nvmlDeviceGetName", &nvml->name },
        { "nvmlDeviceGetMemoryInfo", &nvml->memory }, { "nvmlDeviceGetMaxClockInfo", &nvml->max_clock },
        { "nvmlDeviceGetComputeMode", &nvml->compute_mode },
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            explain(error, 0, "libnvidia-ml.so.1 lacks %s; install a newer driver", symbols[i].name);
            return false;
        }
        memcpy(symbols[i].at, &symbol, sizeof symbol);
    }
    void *mig = dlsym(library, "nvmlDeviceGetMigMode");
    memcpy(&nvml->mig_mode, &mig, sizeof mig);
    void *minor = dlsym(library, "nvmlDeviceGetMinorNumber");
    memcpy(&nvml->minor, &minor, sizeof minor);
    return true;                        /* the library stays: unloading it is not foreseen */
}

/* ---- the driver's part, in a child ---- */

struct cuda_answer { char uuid[48]; int sms; };

static void cuda_child(int out)
{
    enum { ATTRIBUTE_MULTIPROCESSOR_COUNT = 16 };
    void *library = driver_library_open(NULL, 0);
    int (*init)(unsigned), (*count)(int *), (*get)(int *, int), (*attribute)(int *, int, int),
        (*uuid)(unsigned char *, int);
    if (!library)
        _exit(1);
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&count = dlsym(library, "cuDeviceGetCount");
    *(void **)&get = dlsym(library, "cuDeviceGet");
    *(void **)&attribute = dlsym(library, "cuDeviceGetAttribute");
    *(void **)&uuid = dlsym(library, "cuDeviceGetUuid");
    int devices = 0;
    if (!init || !count || !get || !attribute || !uuid || init(0) || count(&devices))
        _exit(1);
    for (int i = 0; i < devices; i++) {
        struct cuda_answer answer;
        unsigned char bytes[16];
        int device;
        memset(&answer, 0, sizeof answer);
        if (get(&device, i) || uuid(bytes, device) || attribute(&answer.sms, ATTRIBUTE_MULTIPROCESSOR_COUNT, device))
            continue;
        size_t at = (size_t)snprintf(answer.uuid, sizeof answer.uuid, "GPU-");
        for (int b = 0; b < 16; b++)
            at += (size_t)snprintf(answer.uuid + at, sizeof answer.uuid - at, "%s%02x",
                                   b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "", bytes[b]);
        if (write(out, &answer, sizeof answer) != sizeof answer)
            _exit(1);
    }
    _exit(0);
}

/* Fills in the numbers of multiprocessors; they stay 0 where the driver does not answer. */
static void cuda_ask(struct node_manager *node)
{
    struct cuda_answer answer;
    int ends[2], status;
    if (pipe(ends) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        alarm(60);
        cuda_child(ends[1]);
    }
    close(ends[1]);
    while (pid > 0 && read(ends[0], &answer, sizeof answer) == sizeof answer)
        for (unsigned i = 0; i < node->gpu_count; i++)
            if (strcmp(node->gpus[i].id, answer.uuid) == 0)
                node->gpus[i].sms = (uint32_t)answer.sms;
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
}

/* ---- what a GPU offers ---- */

static void offer(struct node_manager *node, const struct nvml *nvml, nvml_device device, struct node_gpu *gpu)
{
    int mode = 0;
    unsigned mig = 0, pending;
    char why[CTL_MAX_TEXT + 1];
    gpu->sharing = CTL_SHARING_EXCLUSIVE | CTL_SHARING_TIME_SLICE;
    if (nvml->compute_mode(device, &mode) == NVML_SUCCESS && mode == NVML_COMPUTE_PROHIBITED) {
        gpu->sharing = 0;
        gpu->state = CTL_GPU_FAULTY;
        snprintf(gpu->text, sizeof gpu->text, "its compute mode is PROHIBITED: nvidia-smi -c DEFAULT");
        return;
    }
    if (nvml->mig_mode && nvml->mig_mode(device, &mig, &pending) == NVML_SUCCESS && mig) {
        gpu->sharing = 0;
        gpu->state = CTL_GPU_FAULTY;
        snprintf(gpu->text, sizeof gpu->text,
                 "it is in MIG mode, whose instances this version does not place on: nvidia-smi -mig 0");
        return;
    }
    if (mps_ready(node->config->mps_directory, why)) {
        gpu->sharing |= CTL_SHARING_MPS;
        gpu->sm_limits = 1;
        return;
    }
    if (mode == NVML_COMPUTE_EXCLUSIVE)
        gpu->sharing = CTL_SHARING_EXCLUSIVE;
    snprintf(gpu->text, sizeof gpu->text, "SMs can be limited under MPS only, and %.900s", why);
}

int gpu_nvidia_discover(struct node_manager *node, char *error)
{
    struct nvml nvml;
    unsigned count = 0;
    memset(&nvml, 0, sizeof nvml);
    if (!nvml_open(&nvml, error))
        return -ENOENT;
    int r = nvml.init();
    if (r != NVML_SUCCESS)
        return explain(error, -ENOENT, "NVML cannot be initialised: %s", nvml.error(r));
    r = nvml.count(&count);
    for (unsigned i = 0; r == NVML_SUCCESS && i < count && node->gpu_count < CTL_MAX_GPUS; i++) {
        struct node_gpu *gpu = &node->gpus[node->gpu_count];
        struct nvml_memory_info memory = { 0 };
        nvml_device device;
        *gpu = (struct node_gpu){ .index = i, .minor = -1 };
        if (nvml.by_index(i, &device) != NVML_SUCCESS || nvml.uuid(device, gpu->id, sizeof gpu->id) != NVML_SUCCESS) {
            log_warning("event=gpu-skipped index=%u: NVML gives no handle or UUID for it", i);
            continue;
        }
        if (nvml.name(device, gpu->product, sizeof gpu->product) != NVML_SUCCESS)
            snprintf(gpu->product, sizeof gpu->product, "NVIDIA GPU");
        if (nvml.memory(device, &memory) == NVML_SUCCESS)
            gpu->memory = memory.total - (memory.used < memory.total ? memory.used : 0);
        nvml.max_clock(device, NVML_CLOCK_SM, &gpu->clock_mhz);
        unsigned minor;
        if (nvml.minor && nvml.minor(device, &minor) == NVML_SUCCESS && minor < 1u << 20)
            gpu->minor = (int)minor;
        offer(node, &nvml, device, gpu);
        node->gpu_count++;
    }
    nvml.shutdown();
    if (r != NVML_SUCCESS)
        return explain(error, -ENOENT, "NVML cannot count the GPUs: %s", nvml.error(r));
    cuda_ask(node);
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (!node->gpus[i].sms && node->gpus[i].state == CTL_GPU_READY) {
            node->gpus[i].state = CTL_GPU_FAULTY;
            snprintf(node->gpus[i].text, sizeof node->gpus[i].text,
                     "the CUDA driver (libcuda.so.1) does not answer for it");
        }
    return (int)node->gpu_count;
}
