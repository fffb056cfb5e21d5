/* facts_limits.c: limits of SMs and memory, green contexts, checkpoints. See facts.c. */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "facts.h"

static int count_sms(void)
{
    uint32_t seen[1024];
    CUdeviceptr out = allocate(sizeof seen);
    NEED(launch(kernel("where"), 2048, 128, NULL, out));
    NEED(synchronize());
    NEED(CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), seen, out, sizeof seen));
    int count = 0;
    for (unsigned i = 0; i < 1024; i++)
        count += seen[i] != 0;
    return count;
}

static void sms_without_limit(void)
{
    int sms = 0;
    start();
    NEED(CALL(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice), &sms,
              CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    printf("distinct %%smid: %d of %d", count_sms(), sms);
}

static void sms_with_affinity(void)
{
    NEED(CALL(cuInit, (unsigned), 0));
    NEED(CALL(cuDeviceGet, (CUdevice *, int), &device, 0));
    int supported = 0;
    CALL(cuDeviceGetExecAffinitySupport, (int *, CUexecAffinityType, CUdevice), &supported,
         CU_EXEC_AFFINITY_TYPE_SM_COUNT, device);
    CUexecAffinityParam affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 2};
    CUresult result = CALL(cuCtxCreate_v3, (CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice), &context,
                           &affinity, 1, 0, device);
    if (result)
        printf("execution affinity: supported %d, a context with 2 SMs gives %d", supported, result);
    else
        printf("execution affinity: supported %d, asked for 2 SMs, distinct %%smid %d", supported, count_sms());
}

static void sms_with_percentage(void)
{
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", 1);
    start();
    printf("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25: distinct %%smid %d (only under MPS a limit)", count_sms());
}

static void pinned_memory_limit(void)
{
    size_t free_bytes, total;
    setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=512M", 1);
    start();
    NEED(CALL(cuMemGetInfo_v2, (size_t *, size_t *), &free_bytes, &total));
    CUdeviceptr p;
    printf("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=512M: total %zu MiB, 600 MiB allocate with %d (only under MPS a limit)",
           total >> 20, CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, (size_t)600 << 20));
}

/* How much of a limit is left for allocations: each in a process of its own. */
static void pinned_memory_left(void)
{
    static const int limits[] = { 512, 640, 768, 1024, 2048 };
    int ends[2];
    if (pipe(ends) != 0)
        return;
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        int32_t said[3] = { -1, 0, 0 };
        if (fork() == 0) {
            char limit[32];
            size_t free_bytes = 0, total = 0;
            CUdeviceptr p;
            snprintf(limit, sizeof limit, "0=%dM", limits[i]);
            setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limit, 1);
            NEED(CALL(cuInit, (unsigned), 0));
            NEED(CALL(cuDeviceGet, (CUdevice *, int), &device, 0));
            said[0] = (int32_t)CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, device);
            if (!said[0]) {
                NEED(CALL(cuCtxSetCurrent, (CUcontext), context));
                NEED(CALL(cuMemGetInfo_v2, (size_t *, size_t *), &free_bytes, &total));
                while (said[2] < 4096 && CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, (size_t)16 << 20) == 0)
                    said[2] += 16;
            }
            said[1] = (int32_t)(free_bytes >> 20);
            _exit(write(ends[1], said, sizeof said) != sizeof said);
        }
        if (read(ends[0], said, sizeof said) != sizeof said)
            return;
        printf("%s%d MiB: context %d, free %d MiB, %d MiB allocated", i ? "; " : "", limits[i], said[0], said[1],
               said[2]);
    }
}

static void checkpoint_and_green_contexts(void)
{
    start();
    printf("cuCheckpointProcessLock %s, cuGreenCtxCreate %s, cuFuncGetParamInfo %s",
           dlsym(library, "cuCheckpointProcessLock") ? "there" : "not there",
           dlsym(library, "cuGreenCtxCreate") ? "there" : "not there",
           dlsym(library, "cuFuncGetParamInfo") ? "there" : "not there");
}

static void green_context(void)
{
    CUdevResource all, part, rest;
    unsigned groups = 1;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext plain;
    start();
    NEED(CALL(cuDeviceGetDevResource, (CUdevice, CUdevResource *, CUdevResourceType), device, &all,
              CU_DEV_RESOURCE_TYPE_SM));
    NEED(CALL(cuDevSmResourceSplitByCount,
              (CUdevResource *, unsigned *, const CUdevResource *, CUdevResource *, unsigned, unsigned), &part, &groups,
              &all, &rest, 0, 8));
    NEED(CALL(cuDevResourceGenerateDesc, (CUdevResourceDesc *, CUdevResource *, unsigned), &description, &part, 1));
    double t = now();
    NEED(CALL(cuGreenCtxCreate, (CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned), &green, description, device,
              CU_GREEN_CTX_DEFAULT_STREAM));
    NEED(CALL(cuCtxFromGreenCtx, (CUcontext *, CUgreenCtx), &plain, green));
    t = now() - t;
    CUfunction where = kernel("where");
    NEED(CALL(cuCtxSetCurrent, (CUcontext), plain));
    uint32_t seen[1024];
    CUdeviceptr out = allocate(sizeof seen);
    CUresult launched = launch(where, 2048, 128, NULL, out);
    printf("asked for 8 of %u SMs, got %u in %.1f ms; a function of the primary context launches with %d",
           all.sm.smCount, part.sm.smCount, t * 1e3, launched);
    if (launched)
        return;
    NEED(synchronize());
    NEED(CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), seen, out, sizeof seen));
    int count = 0;
    for (unsigned i = 0; i < 1024; i++)
        count += seen[i] != 0;
    printf(", distinct %%smid %d", count);
}

/* The driver's own checkpoints: of a child that has 1 GiB, by its parent. */
static void checkpoint_of_a_process(void)
{
    enum { LENGTH = 1 << 30 };
    int said[2], go[2];
    char byte = 0;
    if (pipe(said) != 0 || pipe(go) != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        uint32_t word = 0;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        start();
        CUdeviceptr p = allocate(LENGTH);
        NEED(CALL(cuMemsetD32_v2, (CUdeviceptr, unsigned, size_t), p, 0x12345678, LENGTH / 4));
        synchronize();
        byte = 1;
        if (write(said[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(1);
        CUresult r = CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), &word, p + LENGTH - 4, 4);
        byte = r == CUDA_SUCCESS && word == 0x12345678 ? 2 : 3;
        _exit(write(said[1], &byte, 1) != 1);
    }
    if (read(said[0], &byte, 1) != 1)
        return;
    NEED(CALL(cuInit, (unsigned), 0));
    double t[5];
    t[0] = now();
    NEED(CALL(cuCheckpointProcessLock, (int, CUcheckpointLockArgs *), child, NULL));
    t[1] = now();
    NEED(CALL(cuCheckpointProcessCheckpoint, (int, CUcheckpointCheckpointArgs *), child, NULL));
    t[2] = now();
    NEED(CALL(cuCheckpointProcessRestore, (int, CUcheckpointRestoreArgs *), child, NULL));
    t[3] = now();
    NEED(CALL(cuCheckpointProcessUnlock, (int, CUcheckpointUnlockArgs *), child, NULL));
    t[4] = now();
    if (write(go[1], &byte, 1) != 1 || read(said[0], &byte, 1) != 1)
        return;
    printf("1 GiB: lock %.0f ms, checkpoint %.0f ms, restore %.0f ms, unlock %.0f ms; memory afterwards %s",
           (t[1] - t[0]) * 1e3, (t[2] - t[1]) * 1e3, (t[3] - t[2]) * 1e3, (t[4] - t[3]) * 1e3,
           byte == 2 ? "the same" : "wrong");
}

static void start_time(void)
{
    double t = now();
    NEED(CALL(cuInit, (unsigned), 0));
    double initialised = now() - t;
    t = now();
    start();
    printf("cuInit %.0f ms, primary context %.0f ms", initialised * 1e3, (now() - t) * 1e3);
}

const struct fact limits_facts[] = {
    {"sms-without-limit", sms_without_limit, "all"},
    {"sms-with-affinity", sms_with_affinity, "2 under MPS, refused without"},
    {"sms-with-percentage", sms_with_percentage, "a quarter under MPS"},
    {"pinned-memory-limit", pinned_memory_limit, "2 under MPS"},
    {"pinned-memory-left", pinned_memory_left, "under MPS the limit less what a context takes"},
    {"newer-functions", checkpoint_and_green_contexts, "there"},
    {"green-context", green_context, "8 SMs"},
    {"checkpoint-of-a-process", checkpoint_of_a_process, "the same"},
    {"start-time", start_time, "hundreds of ms, hence workers started in advance"},
    {NULL, NULL, NULL},
};
