/* shows: Software GPU faults: 700, 710, 716, 719 and what stays until the process ends, callbacks told, other
 *   processes of a card */
/*
 * test_faults.c: errors that stick. A fault ends CUDA for its process, so each is looked at in a process of its own:
 * this program started again with the name of a case, whose exit status says what went wrong.
 */
#include "softgpu_test.h"
#include "kernels.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static CUmodule module;

static CUresult start(const char *name, void *parameter, CUstream s)
{
    CUfunction f;
    void *params[] = { parameter };
    CUresult r = cuModuleGetFunction(&f, module, name);
    return r ? r : cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, parameter ? params : NULL, NULL);
}

static int sticks(CUresult expected)
{
    CUdeviceptr p;
    size_t a, b;
    const char *name;
    CUresult r = cuCtxSynchronize();
    if (r != expected) {
        fprintf(stderr, "# synchronising gave %d, not %d\n", r, expected);
        return 10;
    }
    if (cuMemAlloc(&p, 4) != expected || cuMemGetInfo(&a, &b) != expected)
        return 11;
    return cuGetErrorName(expected, &name) == CUDA_SUCCESS ? 0 : 12;
}

static int case_store(CUresult expected, CUdeviceptr at)
{
    if (start("store", &at, NULL))
        return 2;
    int r = sticks(expected);
    if (r)
        return r;
    CUcontext c;                             /* a reset ends the context, and there is no other */
    CUdeviceptr p;
    return cuDevicePrimaryCtxReset(0)                            ? 13
           : cuMemAlloc(&p, 4) != CUDA_ERROR_CONTEXT_IS_DESTROYED ? 14
           : cuDevicePrimaryCtxRetain(&c, 0) != expected          ? 15
                                                                  : 0;
}

static int case_null(void) { return case_store(CUDA_ERROR_ILLEGAL_ADDRESS, 0x10); }

static int case_freed(void)
{
    CUdeviceptr p;
    return cuMemAlloc(&p, 3 * MIB) || cuMemFree(p) ? 3 : case_store(CUDA_ERROR_ILLEGAL_ADDRESS, p);
}

static int case_misaligned(void)
{
    CUdeviceptr p;
    return cuMemAlloc(&p, 64) ? 3 : case_store(CUDA_ERROR_MISALIGNED_ADDRESS, p + 2);
}

static int case_no_access(void)              /* mapped, but cuMemSetAccess forgotten */
{
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    if (cuMemCreate(&h, GRANULE, &prop, 0) || cuMemAddressReserve(&p, GRANULE, 0, 0, 0) ||
        cuMemMap(p, GRANULE, 0, h, 0))
        return 3;
    return case_store(CUDA_ERROR_ILLEGAL_ADDRESS, p);
}

static int case_trap(void)
{
    return start("stop", NULL, NULL) ? 2 : sticks(CUDA_ERROR_LAUNCH_FAILED);
}

static CUresult told = CUDA_SUCCESS;
static int host_function_ran;
static void CUDA_CB tell(CUstream s, CUresult status, void *data)
{
    (void)s;
    (void)data;
    __atomic_store_n(&told, status, __ATOMIC_SEQ_CST);
}
static void CUDA_CB ran(void *data) { (void)data; host_function_ran = 1; }

static int case_callback(void)               /* callbacks are told, host functions are not called */
{
    CUstream s;
    unsigned *gate;
    if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuMemHostAlloc((void **)&gate, 4, 0))
        return 3;
    __atomic_store_n(gate, 0, __ATOMIC_SEQ_CST);
    if (cuStreamWaitValue32(s, (CUdeviceptr)(uintptr_t)gate, 1, 0) || start("stop", NULL, s) ||
        cuLaunchHostFunc(s, ran, NULL) || cuStreamAddCallback(s, tell, NULL, 0))
        return 2;
    __atomic_store_n(gate, 1, __ATOMIC_SEQ_CST);
    if (cuStreamSynchronize(s) != CUDA_ERROR_LAUNCH_FAILED)
        return 4;
    /* The fault ends the wait above; the callback has a thread of its own, which may not have run yet. */
    for (int ms = 0; __atomic_load_n(&told, __ATOMIC_SEQ_CST) == CUDA_SUCCESS && ms < 10000; ms++)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    return told == CUDA_ERROR_LAUNCH_FAILED && !host_function_ran ? 0 : 5;
}

static int case_other_stream(void)           /* what runs beside the fault ends too */
{
    CUstream s;
    CUdeviceptr p;
    if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuMemAlloc(&p, 4) || cuMemsetD32(p, 0, 1) || cuCtxSynchronize())
        return 3;
    if (start("spin", &p, s) || start("stop", NULL, NULL))
        return 2;
    return cuStreamSynchronize(s) == CUDA_ERROR_LAUNCH_FAILED ? sticks(CUDA_ERROR_LAUNCH_FAILED) : 4;
}

static int case_unmapped(void)               /* unmapping does not wait: a correct program's error, but not a crash */
{
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemAccessDesc both = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    if (cuMemCreate(&h, GRANULE, &prop, 0) || cuMemAddressReserve(&p, GRANULE, 0, 0, 0) ||
        cuMemMap(p, GRANULE, 0, h, 0) || cuMemSetAccess(p, GRANULE, &both, 1) || cuMemsetD32(p, 0, 1) ||
        cuCtxSynchronize() || start("spin", &p, NULL))
        return 3;
    nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    if (cuMemUnmap(p, GRANULE))
        return 4;
    return sticks(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int case_copy_unmapped(void)          /* a copy whose memory has gone since */
{
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemAccessDesc both = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle h;
    CUdeviceptr p;
    CUstream s;
    unsigned *gate;
    if (cuMemCreate(&h, GRANULE, &prop, 0) || cuMemAddressReserve(&p, GRANULE, 0, 0, 0) ||
        cuMemMap(p, GRANULE, 0, h, 0) || cuMemSetAccess(p, GRANULE, &both, 1) ||
        cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuMemHostAlloc((void **)&gate, 4, 0))
        return 3;
    __atomic_store_n(gate, 0, __ATOMIC_SEQ_CST);
    if (cuStreamWaitValue32(s, (CUdeviceptr)(uintptr_t)gate, 1, 0) || cuMemsetD8Async(p, 1, GRANULE, s) ||
        cuMemUnmap(p, GRANULE))
        return 4;
    __atomic_store_n(gate, 1, __ATOMIC_SEQ_CST);
    return sticks(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int case_not_started(void)            /* a grid that has no room yet when the fault comes */
{
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
    CUmemAccessDesc both = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle h;
    CUdeviceptr p, word, never;
    CUstream a, b, c;
    CUfunction f;
    if (cuMemCreate(&h, GRANULE, &prop, 0) || cuMemAddressReserve(&p, GRANULE, 0, 0, 0) ||
        cuMemMap(p, GRANULE, 0, h, 0) || cuMemSetAccess(p, GRANULE, &both, 1) ||
        cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) || cuStreamCreate(&b, CU_STREAM_NON_BLOCKING) ||
        cuStreamCreate(&c, CU_STREAM_NON_BLOCKING) || cuMemAlloc(&word, 4) || cuMemsetD32(word, 0, 1) ||
        cuMemAlloc(&never, 4) || cuMemsetD32(never, 0, 1) || cuCtxSynchronize() ||
        cuModuleGetFunction(&f, module, "spin"))
        return 3;
    void *params[] = { &never };               /* only the fault ends the kernels */
    if (cuStreamWaitValue32(c, word, 1, 0) || cuMemsetD8Async(p, 1, GRANULE, c) || cuMemUnmap(p, GRANULE) ||
        cuLaunchKernel(f, 4096, 1, 1, 1024, 1, 1, 0, a, params, NULL) ||
        cuLaunchKernel(f, 16, 1, 1, 1024, 1, 1, 0, b, params, NULL) || cuStreamWriteValue32(NULL, word, 1, 0))
        return 4;
    CUresult r = cuStreamSynchronize(b);
    return r == CUDA_ERROR_ILLEGAL_ADDRESS ? sticks(r) : 5;
}

static int case_assert(void)
{
    return start("check", NULL, NULL) ? 2 : sticks(CUDA_ERROR_ASSERT);
}

/* The card's other user: sees the fault although it did nothing; starts when `ready` can be read, says so itself. */
static int victim(int ready)
{
    CUdeviceptr p;
    CUstream s;
    if (cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cuMemAlloc(&p, 4) || cuMemsetD32(p, 0, 1) || cuCtxSynchronize() ||
        start("spin", &p, s) || write(ready, "x", 1) != 1)
        return 2;
    return cuStreamSynchronize(s) == CUDA_ERROR_LAUNCH_FAILED ? sticks(CUDA_ERROR_LAUNCH_FAILED) : 4;
}

static int case_domain(void)
{
    int ready[2], status;
    char number[16], byte;
    if (pipe(ready))
        return 3;
    snprintf(number, sizeof number, "%d", ready[1]);
    pid_t child = fork();
    if (!child) {
        execl("/proc/self/exe", "test_faults", "victim", number, (char *)NULL);
        _exit(98);
    }
    if (read(ready[0], &byte, 1) != 1 || start("stop", NULL, NULL) || cuCtxSynchronize() != CUDA_ERROR_LAUNCH_FAILED)
        return 4;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}

/* Who comes after the faulty ones have gone finds a card that works. */
static int case_domain_after(void)
{
    CUdeviceptr p;
    return cuMemAlloc(&p, 4) || start("store", &p, NULL) || cuCtxSynchronize() ? 2 : 0;
}

static const struct { const char *name; int (*run)(void);
} cases[] = {
    { "null", case_null },
    { "freed", case_freed },
    { "misaligned", case_misaligned },
    { "no_access", case_no_access },
    { "trap", case_trap },
    { "callback", case_callback },
    { "other_stream", case_other_stream },
    { "unmapped", case_unmapped },
    { "copy_unmapped", case_copy_unmapped },
    { "assert", case_assert },
    { "not_started", case_not_started },
    { "domain", case_domain },
    { "domain_after", case_domain_after },
};

static int run_case(const char *name, const char *argument)
{
    if (!strncmp(name, "domain", 6)) {
        setenv("FLYT_SOFTGPU_FAULT_DOMAIN", "gpu", 1);
    }
    if (with_context(NULL) || cuModuleLoadData(&module, ptx_faults))
        return 1;
    if (argument)
        return victim(atoi(argument));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, name))
            return cases[i].run();
    return 99;
}

static void in_a_process(void **state)
{
    const char *name = *state;
    pid_t child = fork();
    if (!child) {
        execl("/proc/self/exe", "test_faults", name, (char *)NULL);
        _exit(98);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status))
        fail_msg("%s: killed by signal %d", name, WTERMSIG(status));
    if (WEXITSTATUS(status))
        fail_msg("%s: step %d", name, WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_case(argv[1], argv[2]);
    struct CMUnitTest tests[sizeof cases / sizeof *cases];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name, .test_func = in_a_process,
                                        .initial_state = (void *)(uintptr_t)cases[i].name };
    char card[32], path[96];
    snprintf(card, sizeof card, "test-%d", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm/flyt-softgpu-%u-%s", (unsigned)geteuid(), card);
    setenv("FLYT_SOFTGPU_CARD", card, 1);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = _cmocka_run_group_tests("faults", tests, sizeof cases / sizeof *cases, NULL, NULL);
    unlink(path);
    return failed;
}
