/*
 * facts.c: asks a CUDA driver, natively, what the design takes for granted about it.
 *
 *   facts [--driver LIBRARY] [NAME...]        default: libcuda.so.1, all facts
 *
 * Each fact is a small program of its own in a child process (errors stick to a process, and the driver reads its
 * environment once), with a time limit; it prints one line: name, answer, and the assumption of the design in brackets.
 * Nothing here passes or fails: the answers are committed under docs/measurements/, and design and code follow them.
 * Run it with and without MPS, and with --driver bin/libsoftgpu.so to see where the software GPU differs.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the driver, by name ---- */

static void *library;

static void *entry(const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        printf("not there: the driver has no %s\n", name);
        exit(0);
    }
    return address;
}

/* Calls a driver function by its exported name. */
#define CALL(name, types, ...) (((CUresult(*) types)entry(#name))(__VA_ARGS__))
#define NEED(call)                                                    \
    do {                                                              \
        CUresult need_result_ = (call);                               \
        if (need_result_ != CUDA_SUCCESS) {                           \
            printf("cannot tell: %s gives %d\n", #call, need_result_); \
            exit(0);                                                  \
        }                                                             \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char kernels[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* waits until *flag is not 0 */
    ".visible .entry wait(.param .u64 flag)\n{\n .reg .u64 %a; .reg .u32 %v; .reg .pred %p;\n"
    " ld.param.u64 %a, [flag];\nagain: ld.volatile.global.u32 %v, [%a]; setp.eq.u32 %p, %v, 0; @%p bra again; ret;\n}\n"
    /* writes 1 to address */
    ".visible .entry touch(.param .u64 address)\n{\n .reg .u64 %a;\n ld.param.u64 %a, [address]; st.global.u32 [%a], "
    "1; ret;\n}\n"
    ".visible .entry stop()\n{\n trap;\n}\n"
    ".visible .entry few()\n.maxntid 64, 1, 1\n{\n ret;\n}\n"
    /* out[smid] = 1, after a while so that the blocks spread */
    ".visible .entry where(.param .u64 out)\n{\n .reg .u64 %a, %o; .reg .u32 %s, %t, %n; .reg .pred %p;\n"
    " ld.param.u64 %a, [out]; mov.u32 %s, %smid; mul.wide.u32 %o, %s, 4; add.u64 %a, %a, %o; st.global.u32 [%a], 1;\n"
    " mov.u32 %n, 0;\nmore: mov.u32 %t, %clock; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 2000; @%p bra more; ret;\n}\n";

static CUdevice device;
static CUcontext context;
static CUmodule module;

static void start(void)
{
    NEED(CALL(cuInit, (unsigned), 0));
    NEED(CALL(cuDeviceGet, (CUdevice *, int), &device, 0));
    NEED(CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, device));
    NEED(CALL(cuCtxSetCurrent, (CUcontext), context));
}

static CUfunction kernel(const char *name)
{
    CUfunction function;
    if (!module)
        NEED(CALL(cuModuleLoadData, (CUmodule *, const void *), &module, kernels));
    NEED(CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &function, module, name));
    return function;
}

static CUresult launch(CUfunction f, unsigned blocks, unsigned threads, CUstream stream, CUdeviceptr argument)
{
    void *arguments[] = {&argument};
    return CALL(
        cuLaunchKernel,
        (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **),
        f, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}

static CUresult synchronize(void) { return CALL(cuCtxSynchronize, (void)); }

static CUdeviceptr allocate(size_t size)
{
    CUdeviceptr p;
    NEED(CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, size));
    NEED(CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t), p, 0, size));
    return p;
}

static CUstream new_stream(void)
{
    CUstream stream;
    NEED(CALL(cuStreamCreate, (CUstream *, unsigned), &stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void store(CUdeviceptr to, uint32_t value)
{
    CUstream stream = new_stream();
    NEED(CALL(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream), to, value, 1, stream));
    NEED(CALL(cuStreamSynchronize, (CUstream), stream));
}

static CUmemGenericAllocationHandle piece(size_t size)
{
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;
    NEED(CALL(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long),
              &handle, size, &p, 0));
    return handle;
}

static CUdeviceptr reserve(size_t size, CUdeviceptr hint)
{
    CUdeviceptr p;
    NEED(CALL(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), &p, size, 0, hint,
              0));
    return p;
}

static CUresult map(CUdeviceptr p, size_t size, CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = CALL(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long), p,
                           size, 0, handle, 0);
    return result ? result
                  : CALL(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t), p, size, &access, 1);
}

/* ---- the facts ---- */

static void sticky_in_process(void)
{
    CUcontext second = NULL;
    start();
    launch(kernel("touch"), 1, 1, NULL, 0);
    CUresult fault = synchronize();
    CALL(cuDevicePrimaryCtxReset_v2, (CUdevice), device);
    CUresult after_reset = CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &second, device);
    CUdeviceptr p;
    CUresult alloc = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, 64);
    printf("fault gives %d; after a reset of the primary context: retain %d, allocation %d", fault, after_reset, alloc);
}

static void sticky_other_process(void)
{
    pid_t child = fork();       /* before cuInit */
    if (child == 0) {
        start();
        launch(kernel("touch"), 1, 1, NULL, 0);
        synchronize();
        _exit(0);
    }
    start();
    CUdeviceptr p = allocate(64);
    waitpid(child, NULL, 0);
    CUresult result = launch(kernel("touch"), 1, 1, NULL, p);
    printf("while another process faults: launch %d, synchronise %d", result, synchronize());
}

static void trap_code(void)
{
    start();
    launch(kernel("stop"), 1, 1, NULL, 0);
    printf("trap gives %d", synchronize());
}

static void launch_bounds_code(void)
{
    start();
    printf("128 threads for .maxntid 64: %d; 2048 threads: %d; grid 0: %d", launch(kernel("few"), 1, 128, NULL, 0),
           launch(kernel("touch"), 1, 2048, NULL, 0), launch(kernel("touch"), 0, 1, NULL, 0));
}

static void address_hint(void)
{
    start();
    static const CUdeviceptr hints[] = {0x100000000000, 0x200000000000, 0x300000000000, 0x600000000000};
    for (unsigned i = 0; i < 4; i++) {
        CUdeviceptr p = reserve((size_t)1 << 40, hints[i]);
        printf("%s1 TiB at %#llx: %s", i ? "; " : "", (unsigned long long)hints[i],
               p == hints[i] ? "honoured" : "elsewhere");
    }
}

static void host_sees_reservation(void)
{
    start();
    CUdeviceptr p = reserve((size_t)1 << 40, 0);
    void *same = mmap((void *)(uintptr_t)p, 1 << 21, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    printf("a reservation %s host address space in the process", same == MAP_FAILED ? "takes" : "does not take");
}

static void unmap_under_kernel(void)
{
    start();
    CUdeviceptr flag = allocate(64), p = reserve(2 << 20, 0);
    CUmemGenericAllocationHandle handle = piece(2 << 20);
    NEED(map(p, 2 << 20, handle));
    NEED(launch(kernel("wait"), 1, 1, new_stream(), flag));
    double before = now();
    CUresult result = CALL(cuMemUnmap, (CUdeviceptr, size_t), p, 2 << 20);
    double waited = now() - before;
    store(flag, 1);
    printf("cuMemUnmap of other memory while a kernel runs: %d after %.0f us, then synchronise %d", result,
           waited * 1e6, synchronize());
}

static void time_to_map(void)
{
    static const size_t sizes[] = {2 << 20, 32 << 20, 1 << 30};
    start();
    CUdeviceptr p = reserve((size_t)2 << 30, 0);
    for (unsigned i = 0; i < 3; i++) {
        double create = 0, mapping = 0, unmapping = 0;
        enum { rounds = 5 };
        for (int r = 0; r < rounds; r++) {
            double t = now();
            CUmemGenericAllocationHandle handle = piece(sizes[i]);
            create += now() - t;
            t = now();
            NEED(map(p, sizes[i], handle));
            mapping += now() - t;
            t = now();
            NEED(CALL(cuMemUnmap, (CUdeviceptr, size_t), p, sizes[i]));
            NEED(CALL(cuMemRelease, (CUmemGenericAllocationHandle), handle));
            unmapping += now() - t;
        }
        printf("%s%zu MiB: create %.0f us, map + access %.0f us, unmap + release %.0f us", i ? "; " : "",
               sizes[i] >> 20, create / rounds * 1e6, mapping / rounds * 1e6, unmapping / rounds * 1e6);
    }
}

static void launches_until_blocked(void)
{
    start();
    CUdeviceptr flag = allocate(64), p = allocate(64);
    CUstream stream = new_stream();
    CUfunction touch = kernel("touch");
    NEED(launch(kernel("wait"), 1, 1, stream, flag));
    for (int count = 0; count < 20000; count++) {
        /* A launch that blocks does so for ever: what is printed until then is the answer. */
        if (count % 50 == 0 && count >= 900) {
            printf("%s%d", count == 900 ? "launches made behind a running kernel: " : " ", count);
            fflush(stdout);
        }
        if (count == 2000) {
            store(flag, 1);
            printf("; none blocked");
            return;
        }
        NEED(launch(touch, 1, 1, stream, p));
    }
}

static void registered_pointer(void)
{
    start();
    void *memory = aligned_alloc(4096, 1 << 20);
    CUdeviceptr p = 0;
    NEED(CALL(cuMemHostRegister_v2, (void *, size_t, unsigned), memory, 1 << 20, CU_MEMHOSTREGISTER_DEVICEMAP));
    NEED(CALL(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned), &p, memory, 0));
    printf("registered pointer and device pointer are %s",
           p == (CUdeviceptr)(uintptr_t)memory ? "the same" : "different");
}

static void registered_shared_memory(void)
{
    start();
    int fd = memfd_create("facts", 0);
    if (fd < 0 || ftruncate(fd, 1 << 21) != 0) {
        printf("cannot tell: memfd: %s", strerror(errno));
        return;
    }
    void *memory = mmap(NULL, 1 << 21, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    printf("registering a shared memfd mapping: %d",
           CALL(cuMemHostRegister_v2, (void *, size_t, unsigned), memory, 1 << 21, CU_MEMHOSTREGISTER_DEVICEMAP));
}

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

static void *allocate_elsewhere(void *result)
{
    CUdeviceptr p;
    CALL(cuCtxSetCurrent, (CUcontext), context);
    *(CUresult *)result = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, 64);
    return NULL;
}

static void capture_and_another_thread(void)
{
    static const char *const modes[] = {"global", "thread-local", "relaxed"};
    start();
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = new_stream();
        CUgraph graph = NULL;
        CUresult other = 0;
        pthread_t thread;
        NEED(CALL(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode), stream, (CUstreamCaptureMode)mode));
        pthread_create(&thread, NULL, allocate_elsewhere, &other);
        pthread_join(thread, NULL);
        printf("%s%s: allocation in another thread %d, end of capture %d", mode ? "; " : "", modes[mode], other,
               CALL(cuStreamEndCapture, (CUstream, CUgraph *), stream, &graph));
    }
}

static volatile int callback_runs;
static void count_run(void *unused)
{
    (void)unused;
    callback_runs++;
}

static void host_function_after_error(void)
{
    start();
    CUstream stream = new_stream();
    launch(kernel("touch"), 1, 1, stream, 0);
    CUresult queued = CALL(cuLaunchHostFunc, (CUstream, CUhostFn, void *), stream, count_run, NULL);
    CUresult synced = CALL(cuStreamSynchronize, (CUstream), stream);
    printf("host function behind a fault: queueing %d, synchronise %d, ran %d times", queued, synced, callback_runs);
}

static void wait_value_latency(void)
{
    start();
    uint32_t *flag;
    CUdeviceptr p;
    NEED(CALL(cuMemHostAlloc, (void **, size_t, unsigned), (void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(CALL(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned), &p, flag, 0));
    *flag = 0;
    CUstream stream = new_stream();
    CUresult result = CALL(cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, cuuint32_t, unsigned), stream, p, 1,
                           CU_STREAM_WAIT_VALUE_GEQ);
    if (result) {
        printf("cuStreamWaitValue32 on mapped host memory: %d", result);
        return;
    }
    usleep(50000);
    double t = now();
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    NEED(CALL(cuStreamSynchronize, (CUstream), stream));
    printf("a stream that waits for a value in host memory goes on %.0f us after it was written", (now() - t) * 1e6);
}

static void cooperative_launch(void)
{
    int supported = 0;
    start();
    CALL(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice), &supported,
         CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device);
    CUdeviceptr p = allocate(64);
    void *arguments[] = {&p};
    CUresult result =
        CALL(cuLaunchCooperativeKernel,
             (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **),
             kernel("touch"), 2, 1, 1, 32, 1, 1, 0, NULL, arguments);
    printf("cooperative launch: attribute %d, launch %d, synchronise %d", supported, result, synchronize());
}

static void checkpoint_and_green_contexts(void)
{
    start();
    printf("cuCheckpointProcessLock %s, cuGreenCtxCreate %s, cuFuncGetParamInfo %s",
           dlsym(library, "cuCheckpointProcessLock") ? "there" : "not there",
           dlsym(library, "cuGreenCtxCreate") ? "there" : "not there",
           dlsym(library, "cuFuncGetParamInfo") ? "there" : "not there");
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

static void context_size(void)
{
    size_t before, after, total;
    start();
    NEED(CALL(cuMemGetInfo_v2, (size_t *, size_t *), &before, &total));
    kernel("touch");
    NEED(CALL(cuMemGetInfo_v2, (size_t *, size_t *), &after, &total));
    printf("with one context %zu MiB of %zu MiB are taken, a small module takes %zu KiB", (total - before) >> 20,
           total >> 20, (before - after) >> 10);
}

/* Another process writes much memory and ends; then how much of ours is not zero? */
static void fresh_memory(void)
{
    enum { size = 1 << 28 };
    pid_t child = fork(); /* before cuInit */
    if (child == 0) {
        CUdeviceptr p[8];
        start();
        for (int i = 0; i < 8; i++) {
            p[i] = allocate(size);
            NEED(CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t), p[i], 0xa5, size));
        }
        synchronize();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    start();
    unsigned char *bytes = malloc(size);
    size_t used = 0;
    for (int i = 0; bytes && i < 8; i++) {
        CUdeviceptr p;
        NEED(CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, size));
        NEED(CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), bytes, p, size));
        for (size_t k = 0; k < size; k++)
            used += bytes[k] != 0;
    }
    printf("%zu of %zu bytes are not zero", used, (size_t)8 * size);
}

static void clear_rate(void)
{
    const size_t size = (size_t)1 << 30;
    start();
    CUdeviceptr p = allocate(size);
    synchronize();
    double t = now();
    for (int i = 0; i < 10; i++)
        NEED(CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t), p, 0, size));
    synchronize();
    printf("setting 1 GiB to zero takes %.0f us", (now() - t) * 1e5);
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

/* Are addresses the same in a second process that makes the same calls? */
static void addresses_again(void)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .u32 word;\n"
                               ".visible .entry none()\n{\n ret;\n}\n";
    int ends[2];
    uint64_t found[2][3] = { { 0 } };
    if (pipe(ends) != 0)
        return;
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            uint64_t all[3] = { 0 };
            size_t size;
            CUmodule own;
            CUarray array;
            CUtexObject texture;
            CUDA_ARRAY_DESCRIPTOR shape = { .Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1 };
            CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_ARRAY };
            CUDA_TEXTURE_DESC sampler = { .filterMode = CU_TR_FILTER_MODE_POINT };
            start();
            NEED(CALL(cuModuleLoadData, (CUmodule *, const void *), &own, text));
            NEED(CALL(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *), (CUdeviceptr *)&all[0],
                      &size, own, "word"));
            all[1] = allocate(1 << 20);
            NEED(CALL(cuArrayCreate_v2, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *), &array, &shape));
            resource.res.array.hArray = array;
            NEED(CALL(cuTexObjectCreate,
                      (CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
                       const CUDA_RESOURCE_VIEW_DESC *),
                      &texture, &resource, &sampler, NULL));
            all[2] = texture;
            _exit(write(ends[1], all, sizeof all) != sizeof all);
        }
        if (read(ends[0], found[i], sizeof found[i]) != sizeof found[i])
            return;
    }
    printf("variable %#llx %#llx, memory %#llx %#llx, texture object %#llx %#llx", (unsigned long long)found[0][0],
           (unsigned long long)found[1][0], (unsigned long long)found[0][1], (unsigned long long)found[1][1],
           (unsigned long long)found[0][2], (unsigned long long)found[1][2]);
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

static void launch_time(void)
{
    enum { LAUNCHES = 20000 };
    start();
    CUdeviceptr p = allocate(64);
    CUfunction touch = kernel("touch");
    NEED(launch(touch, 1, 1, NULL, p));
    NEED(synchronize());
    double t = now();
    for (int i = 0; i < LAUNCHES; i++)
        NEED(launch(touch, 1, 1, NULL, p));
    double issued = now() - t;
    NEED(synchronize());
    double done = now() - t;
    t = now();
    for (int i = 0; i < 1000; i++) {
        NEED(launch(touch, 1, 1, NULL, p));
        NEED(synchronize());
    }
    printf("a launch takes %.2f us of the caller's time, %.2f us with its run; launch and synchronise %.1f us",
           issued / LAUNCHES * 1e6, done / LAUNCHES * 1e6, (now() - t) * 1e3);
}

/* ---- code ---- */

/* The section of an ELF file in memory; *size 0: it has none of that name. */
static char *section(char *elf, const char *name, size_t *size)
{
    Elf64_Ehdr *head = (Elf64_Ehdr *)elf;
    Elf64_Shdr *all = (Elf64_Shdr *)(elf + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++)
        if (strcmp(elf + all[head->e_shstrndx].sh_offset + all[i].sh_name, name) == 0) {
            *size = all[i].sh_size;
            return elf + all[i].sh_offset;
        }
    *size = 0;
    return NULL;
}

/* The fat binary containers in a section, at most `room`. */
static unsigned containers(char *at, size_t size, void **all, unsigned room)
{
    unsigned count = 0;
    for (size_t i = 0; i + 16 <= size && count < room;) {
        uint64_t payload;
        memcpy(&payload, at + i + 8, sizeof payload);
        if (*(uint32_t *)(at + i) == 0xBA55ED50u)
            all[count++] = at + i;
        i += *(uint32_t *)(at + i) == 0xBA55ED50u ? 16 + payload : 8;
    }
    return count;
}

static int answer_of_link(void *const *parts, unsigned count)
{
    CUlinkState state;
    void *made;
    size_t size;
    CUresult r = CALL(cuLinkCreate_v2, (unsigned, CUjit_option *, void **, CUlinkState *), 0, NULL, NULL, &state);
    for (unsigned i = 0; i < count && !r; i++)
        r = CALL(cuLinkAddData_v2,
                 (CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned, CUjit_option *, void **), state,
                 CU_JIT_INPUT_FATBINARY, parts[i], 16 + (size_t)((uint64_t *)parts[i])[1], "part", 0, NULL, NULL);
    r = r ? r : CALL(cuLinkComplete, (CUlinkState, void **, size_t *), state, &made, &size);
    return r ? (int)r : (int)CALL(cuModuleLoadData, (CUmodule *, const void *), &module, made);
}

/* build/cuda/linked has machine code for 7.5, and PTX in parts. */
static void device_linked(void)
{
    struct { uint32_t magic, version; void *container, *extra; } wrapper = { 0x466243B1u, 2, NULL, NULL };
    static char file[16 << 20];
    void *own[4], *parts[8] = { NULL };
    size_t size;
    FILE *f = fopen("build/cuda/linked", "rb");
    if (!f || !fread(file, 1, sizeof file, f)) {
        printf("cannot tell: build/cuda/linked is not there");
        return;
    }
    start();
    char *at = section(file, ".nv_fatbin", &size);
    unsigned count = containers(at, size, own, 4);
    wrapper.container = count ? own[count - 1] : NULL;
    at = section(file, "__nv_relfatbin", &size);
    count = containers(at, size, parts, 7);
    wrapper.extra = parts;
    printf("%u parts", count);
    printf("; wrapper: cuModuleLoadData %d", CALL(cuModuleLoadData, (CUmodule *, const void *), &module, &wrapper));
    printf(", cuModuleLoadFatBinary %d", CALL(cuModuleLoadFatBinary, (CUmodule *, const void *), &module, &wrapper));
    printf("; its container: %d", CALL(cuModuleLoadData, (CUmodule *, const void *), &module, wrapper.container));
    for (int preserved = 0; preserved < 2; preserved++) {
        CUlibrary made;
        CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
        void *value = (void *)1;
        CUresult r = CALL(cuLibraryLoadData,
                          (CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **,
                           unsigned),
                          &made, &wrapper, NULL, NULL, 0, &option, &value, (unsigned)preserved);
        printf("; cuLibraryLoadData%s %d", preserved ? " (preserved)" : "", r);
        if (!r) {
            r = CALL(cuLibraryGetModule, (CUmodule *, CUlibrary), &module, made);
            printf(", its module %d", r);
            printf(", unload %d", CALL(cuLibraryUnload, (CUlibrary), made));
        }
    }
    printf("; a wrapper of one part: ");
    wrapper.version = 1, wrapper.container = parts[0], wrapper.extra = NULL;
    printf("cuModuleLoadData %d", CALL(cuModuleLoadData, (CUmodule *, const void *), &module, &wrapper));
    printf(", cuModuleLoadFatBinary %d", CALL(cuModuleLoadFatBinary, (CUmodule *, const void *), &module, &wrapper));
    printf("; link of the parts: %d", answer_of_link(parts, count));
}

/* A kernel that does nothing, with what its entry says of blocks. */
static CUfunction nothing(const char *says)
{
    char text[256];
    CUmodule own;
    CUfunction f;
    snprintf(text, sizeof text,
             ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry f() %s { ret; }\n", says);
    NEED(CALL(cuModuleLoadData, (CUmodule *, const void *), &own, text));
    NEED(CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &f, own, "f"));
    return f;
}

static CUresult launch_shaped(CUfunction f, unsigned grid, CUlaunchAttribute *attributes, unsigned count)
{
    CUlaunchConfig c = { .gridDimX = grid, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
                         .attrs = attributes, .numAttrs = count };
    CUresult r = CALL(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **), &c, f, NULL, NULL);
    return r ? r : synchronize();
}

/* Grids of 16 blocks: cluster, or preferred by itself, or both. */
static void cluster_codes(void)
{
    static const unsigned given[][6] = {
        { 3, 1, 1 },          { 0, 1, 1 },          { 2, 0, 1 },          { 16, 1, 1 },         { 2, 2, 1 },
        { 0, 0, 0, 4, 1, 1 }, { 0, 0, 0, 3, 1, 1 }, { 0, 0, 0, 0, 1, 1 }, { 0, 0, 0, 1, 1, 7 }, { 0, 0, 0, 16, 1, 1 },
        { 2, 1, 1, 4, 1, 1 }, { 2, 1, 1, 3, 1, 1 }, { 2, 1, 1, 32, 1, 1 },
    };
    start();
    CUfunction plain = nothing(""), ranked = nothing(".maxclusterrank 2");
    CUfunction pairs = nothing(".reqnctapercluster 2, 1, 1");
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const unsigned *g = given[i];
        CUlaunchAttribute a[2] = { { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION }, { .id = (CUlaunchAttributeID)11 } };
        a[0].value.clusterDim.x = g[0], a[0].value.clusterDim.y = g[1], a[0].value.clusterDim.z = g[2];
        a[1].value.clusterDim.x = g[3], a[1].value.clusterDim.y = g[4], a[1].value.clusterDim.z = g[5];
        bool both = g[0] + g[1] + g[2] && g[3] + g[4] + g[5];
        CUresult r = launch_shaped(plain, 16, g[0] + g[1] + g[2] ? a : a + 1, both ? 2 : 1);
        printf("%s%u %u %u", i ? "; " : "", g[0], g[1], g[2]);
        if (g[3] + g[4] + g[5])
            printf(" preferred %u %u %u", g[3], g[4], g[5]);
        printf(": %d", r);
    }
    CUlaunchAttribute four = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    four.value.clusterDim.x = 4, four.value.clusterDim.y = four.value.clusterDim.z = 1;
    printf("; 4 for .maxclusterrank 2: %d", launch_shaped(ranked, 16, &four, 1));
    printf("; 4 for .reqnctapercluster 2: %d, 3 blocks of it: %d", launch_shaped(pairs, 16, &four, 1),
           launch_shaped(pairs, 3, NULL, 0));
}

/* Blocks of one thread and of 64 for .reqntid 32, 2, 1: who says so, and when. */
static void required_block(void)
{
    CUgraph graph, captured;
    CUgraphNode node;
    CUgraphExec executable;
    start();
    CUfunction f = nothing(".reqntid 32, 2, 1");
    CUDA_KERNEL_NODE_PARAMS p = { .func = f, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64,
                                  .blockDimY = 1, .blockDimZ = 1 };
    printf("launch of 1 %d", launch_shaped(f, 1, NULL, 0));
    printf(", of 64 %d", launch(f, 1, 64, NULL, 0));
    NEED(CALL(cuGraphCreate, (CUgraph *, unsigned), &graph, 0));
    CUresult r = CALL(cuGraphAddKernelNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                               const CUDA_KERNEL_NODE_PARAMS *), &node, graph, NULL, 0, &p);
    printf("; node %d", r);
    if (!r)
        printf(", instantiate %d", CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long),
                                        &executable, graph, 0));
    CUstream stream = new_stream();
    NEED(CALL(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode), stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("; captured launch %d", CALL(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                                         unsigned, unsigned, CUstream, void **, void **),
                                        f, 1, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
    printf(", end %d", CALL(cuStreamEndCapture, (CUstream, CUgraph *), stream, &captured));
    int value = -1;
    for (int id = 0; id < 24; id++) {
        r = CALL(cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction), &value, (CUfunction_attribute)id, f);
        printf(id ? " %d" : "; attributes %d", r ? -(int)r : value);
    }
}

/* A kernel is launched for the first time, in a stream of its own, while another one runs. */
static void first_launch(int prepared)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry late()\n{\n ret;\n}\n";
    CUmodule own;
    CUfunction late;
    int registers = 0;
    start();
    CUfunction wait = kernel("wait");
    CUdeviceptr flag = allocate(4);
    CUstream first = new_stream(), second = new_stream();
    NEED(CALL(cuModuleLoadData, (CUmodule *, const void *), &own, text));
    NEED(CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &late, own, "late"));
    if (prepared == 1)
        NEED(CALL(cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction), &registers,
                  CU_FUNC_ATTRIBUTE_NUM_REGS, late));
    if (prepared == 2)
        NEED(CALL(cuFuncLoad, (CUfunction), late));
    NEED(launch(wait, 1, 1, first, flag));
    double t = now();
    printf("launch ");
    fflush(stdout);
    CUresult r = CALL(
        cuLaunchKernel,
        (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **),
        late, 1, 1, 1, 1, 1, 1, 0, second, NULL, NULL);
    printf("%d after %.0f us", r, (now() - t) * 1e6);
    fflush(stdout);
    r = CALL(cuStreamSynchronize, (CUstream), second);
    printf(", it ends with %d after %.0f us", r, (now() - t) * 1e6);
    store(flag, 1);
    printf("; all %d", synchronize());
}

static void first_launch_lazy(void) { first_launch(0); }
static void first_launch_asked(void) { first_launch(1); }
static void first_launch_loaded(void) { first_launch(2); }

/* A stream is held by a kernel: how many others do not wait for it? */
static void streams_beside(void)
{
    enum { STREAMS = 40 };
    CUstream all[STREAMS];
    start();
    CUfunction wait = kernel("wait"), touch = kernel("touch");
    CUdeviceptr flag = allocate(4), other = allocate(4);
    NEED(launch(touch, 1, 1, NULL, other));
    NEED(synchronize());
    for (int i = 0; i < STREAMS; i++)
        all[i] = new_stream();
    NEED(launch(wait, 1, 1, all[0], flag));
    for (int k = 0; k < 8; k++)
        NEED(launch(touch, 1, 1, all[0], other));
    for (int i = 1; i < STREAMS; i++)
        NEED(launch(touch, 1, 1, all[i], other));
    usleep(300000);
    int ended = 0;
    for (int i = 1; i < STREAMS; i++)
        ended += CALL(cuStreamQuery, (CUstream), all[i]) == CUDA_SUCCESS;
    printf("%d of %d have ended", ended, STREAMS - 1);
    CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream), flag, &(uint32_t){ 1 }, 4, all[1]);
    printf("; all %d", synchronize());
}

static const struct fact {
    const char *name;
    void (*ask)(void);
    const char *assumption;
} facts[] = {
    {"sticky-in-process", sticky_in_process, "700 stays until the process ends"},
    {"sticky-other-process", sticky_other_process, "0, 0 without MPS"},
    {"trap-code", trap_code, "719"},
    {"launch-bounds-code", launch_bounds_code, "1 or 701; 1; 1"},
    {"address-hint", address_hint, "some hint is honoured"},
    {"host-sees-reservation", host_sees_reservation, "takes"},
    {"unmap-under-kernel", unmap_under_kernel, "does not wait"},
    {"time-to-map", time_to_map, "tens of us, hence credit in granules"},
    {"launches-until-blocked", launches_until_blocked, "near 1,000; no answer within the limit means blocked"},
    {"registered-pointer", registered_pointer, "the same"},
    {"registered-shared-memory", registered_shared_memory, "0"},
    {"sms-without-limit", sms_without_limit, "all"},
    {"sms-with-affinity", sms_with_affinity, "2 under MPS, refused without"},
    {"sms-with-percentage", sms_with_percentage, "a quarter under MPS"},
    {"pinned-memory-limit", pinned_memory_limit, "2 under MPS"},
    {"pinned-memory-left", pinned_memory_left, "under MPS the limit less what a context takes"},
    {"capture-and-another-thread", capture_and_another_thread, "global: refused and invalidated; others: 0, 0"},
    {"host-function-after-error", host_function_after_error, "does not run"},
    {"wait-value-latency", wait_value_latency, "a few us"},
    {"cooperative-launch", cooperative_launch, "1, 0, 0, also under MPS"},
    {"newer-functions", checkpoint_and_green_contexts, "there"},
    {"context-size", context_size, "counts against the limits of VMs"},
    {"fresh-memory", fresh_memory, "zero, though nothing promises it"},
    {"clear-rate", clear_rate, "the rate of the memory"},
    {"green-context", green_context, "8 SMs"},
    {"addresses-again", addresses_again, "the same in a second process"},
    {"first-launch-lazy", first_launch_lazy, "may wait for the kernel that runs"},
    {"first-launch-asked", first_launch_asked, "may wait, too"},
    {"first-launch-loaded", first_launch_loaded, "does not wait"},
    {"streams-beside", streams_beside, "all"},
    {"device-linked", device_linked, "a wrapper with parts only by cuLibraryLoadData, a link of the parts works"},
    {"cluster-codes", cluster_codes, "912 for all that is wrong"},
    {"required-block", required_block, "of 1: 0, of 64: 1 at the launch"},
    {"checkpoint-of-a-process", checkpoint_of_a_process, "the same"},
    {"launch-time", launch_time, "2 to 5 us"},
    {"start-time", start_time, "hundreds of ms, hence workers started in advance"},
};

/* Runs the fact in a child, so that nothing it breaks reaches the others. */
static void ask(const struct fact *fact, const char *driver)
{
    int ends[2];
    char answer[2048] = "";
    size_t length = 0;
    if (pipe(ends) != 0)
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("no driver: %s", dlerror());
        } else {
            fact->ask();
        }
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    double deadline = now() + 10;
    while (length < sizeof answer - 1) {
        struct timeval left = {.tv_sec = 0, .tv_usec = 100000};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        if (select(ends[0] + 1, &set, NULL, NULL, &left) > 0) {
            ssize_t n = read(ends[0], answer + length, sizeof answer - 1 - length);
            if (n <= 0)
                break;
            length += (size_t)n;
        }
        if (now() > deadline) {
            kill(child, SIGKILL);
            snprintf(answer + length, sizeof answer - length, "%sno answer within 10 s", length ? "; " : "");
            break;
        }
    }
    waitpid(child, NULL, 0);
    close(ends[0]);
    answer[strcspn(answer, "\n")] = 0;
    printf("%-28s %s  [%s]\n", fact->name, answer, fact->assumption);
}

int main(int argc, char **argv)
{
    const char *driver = "libcuda.so.1";
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--driver") == 0) {
        driver = argv[2];
        first = 3;
    } else if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "usage: facts [--driver LIBRARY] [NAME...]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        bool wanted = first >= argc;
        for (int a = first; a < argc; a++)
            wanted |= strcmp(argv[a], facts[i].name) == 0;
        if (wanted)
            ask(&facts[i], driver);
    }
    return 0;
}
