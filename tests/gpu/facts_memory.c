/* facts_memory.c: what a driver does with memory and addresses. See facts.c. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

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

const struct fact memory_facts[] = {
    {"address-hint", address_hint, "some hint is honoured"},
    {"host-sees-reservation", host_sees_reservation, "takes"},
    {"unmap-under-kernel", unmap_under_kernel, "does not wait"},
    {"time-to-map", time_to_map, "tens of us, hence credit in granules"},
    {"registered-pointer", registered_pointer, "the same"},
    {"registered-shared-memory", registered_shared_memory, "0"},
    {"context-size", context_size, "counts against the limits of VMs"},
    {"fresh-memory", fresh_memory, "zero, though nothing promises it"},
    {"clear-rate", clear_rate, "the rate of the memory"},
    {"addresses-again", addresses_again, "the same in a second process"},
    {NULL, NULL, NULL},
};
