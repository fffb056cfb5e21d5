/* shows: Software GPU virtual memory: granules, whole handles, access, unmapping, reservations at hints, sharing by
 *   file descriptor */
/* test_vmm.c: virtual memory management is as strict as NVIDIA's. */
#include "softgpu_test.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const CUmemAllocationProp plain = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
static const CUmemAccessDesc both = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
                                      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

TEST(reservations)
{
    CUdeviceptr a, b;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&a, 0, 0, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&a, MIB, 0, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&a, GRANULE, 3, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&a, GRANULE, 0, 0, 1));
    OK(cuMemAddressReserve(&a, 4 * GRANULE, 0, 0, 0));
    assert_int_equal(a % GRANULE, 0);
    OK(cuMemAddressReserve(&b, GRANULE, 0, a + GRANULE, 0));           /* taken: another address */
    assert_true(b < a || b >= a + 4 * GRANULE);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(a, GRANULE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(a + GRANULE, 3 * GRANULE));
    OK(cuMemAddressFree(a, 4 * GRANULE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(a, 4 * GRANULE));
    if (!getenv("FLYT_SOFTGPU_CHAOS")) {
        CUdeviceptr again;
        OK(cuMemAddressReserve(&again, 4 * GRANULE, 0, a, 0));
        assert_int_equal(again, a);
        OK(cuMemAddressFree(again, 4 * GRANULE));
    }
    OK(cuMemAddressFree(b, GRANULE));
    OK(cuMemAddressReserve(&a, 8 * GRANULE, (size_t)64 * MIB, 0, 0));
    assert_int_equal(a % ((size_t)64 * MIB), 0);
    OK(cuMemAddressFree(a, 8 * GRANULE));
}

/* A window of the size that the server takes, at an address that somebody else chose. */
TEST(large_window)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip();
#endif
    const size_t size = (size_t)1 << 40;
    CUdeviceptr a, hint = 0x200000000000u;
    OK(cuMemAddressReserve(&a, size, 0, hint, 0));
    if (!getenv("FLYT_SOFTGPU_CHAOS"))
        assert_int_equal(a, hint);
    CUmemGenericAllocationHandle h;
    OK(cuMemCreate(&h, GRANULE, &plain, 0));
    OK(cuMemMap(a + size - GRANULE, GRANULE, 0, h, 0));
    OK(cuMemSetAccess(a + size - GRANULE, GRANULE, &both, 1));
    OK(cuMemRelease(h));
    OK(cuMemsetD8(a + size - GRANULE, 1, GRANULE));
    OK(cuCtxSynchronize());
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(a, size));        /* still mapped */
    OK(cuMemUnmap(a + size - GRANULE, GRANULE));
    OK(cuMemAddressFree(a, size));
}

TEST(create_and_map)
{
    size_t granularity, before, after, total;
    OK(cuMemGetAllocationGranularity(&granularity, &plain, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(granularity, GRANULE);
    OK(cuMemGetInfo(&before, &total));
    CUmemGenericAllocationHandle h, small;
    CUmemAllocationProp wrong = plain;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, MIB, &plain, 0));
    wrong.location.id = 99;
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&h, GRANULE, &wrong, 0));
    wrong = plain;
    wrong.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, GRANULE, &wrong, 0));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&h, (total / GRANULE + 1) * GRANULE, &plain, 0));
    OK(cuMemCreate(&h, 2 * GRANULE, &plain, 0));
    OK(cuMemCreate(&small, GRANULE, &plain, 0));
    OK(cuMemGetInfo(&after, &total));
    assert_int_equal(before - after, 3 * GRANULE);

    CUdeviceptr a;
    OK(cuMemAddressReserve(&a, 4 * GRANULE, 0, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(a, GRANULE, 0, h, 0));                  /* part of a handle */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(a, GRANULE, GRANULE, h, 0));            /* offset */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(a + MIB, 2 * GRANULE, 0, h, 0));        /* alignment */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(a + 3 * GRANULE, 2 * GRANULE, 0, h, 0));/* beyond the reservation */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(a + 8 * GRANULE, 2 * GRANULE, 0, h, 1));
    OK(cuMemMap(a, 2 * GRANULE, 0, h, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemMap(a + GRANULE, GRANULE, 0, small, 0));    /* mapped already */
    OK(cuMemMap(a + 2 * GRANULE, GRANULE, 0, small, 0));

    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(a, 1, 4));                            /* no access yet */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(a, GRANULE, &both, 1));           /* part of a mapping */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(a, 4 * GRANULE, &both, 1));       /* a gap */
    OK(cuMemSetAccess(a, 3 * GRANULE, &both, 1));
    unsigned long long flags;
    OK(cuMemGetAccess(&flags, &both.location, a));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemsetD8(a, 0x11, 3 * GRANULE));    /* across neighbouring mappings */
    unsigned char got;
    OK(cuMemcpyDtoH(&got, a + 3 * GRANULE - 1, 1));
    assert_int_equal(got, 0x11);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(a, 1, 3 * GRANULE + 1));

    CUmemAccessDesc read = both;
    read.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    OK(cuMemSetAccess(a + 2 * GRANULE, GRANULE, &read, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(a + 2 * GRANULE, 1, 1));
    OK(cuMemcpyDtoH(&got, a + 2 * GRANULE, 1));

    OK(cuMemRelease(h));                     /* the mapping keeps it */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(h));
    OK(cuMemcpyDtoH(&got, a, 1));
    assert_int_equal(got, 0x11);
    CUmemGenericAllocationHandle again;
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(a + 5)));
    OK(cuMemRelease(again));

    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(a, GRANULE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(a, 4 * GRANULE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(a, 4 * GRANULE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(a));
    OK(cuMemUnmap(a, 3 * GRANULE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&got, a, 1));
    OK(cuMemMap(a + GRANULE, GRANULE, 0, small, 0));                                 /* the same handle elsewhere */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&got, a + GRANULE, 1));             /* access is set after every map */
    OK(cuMemSetAccess(a + GRANULE, GRANULE, &both, 1));
    OK(cuMemcpyDtoH(&got, a + GRANULE, 1));
    assert_int_equal(got, 0x11);
    OK(cuMemUnmap(a + GRANULE, GRANULE));
    OK(cuMemRelease(small));
    OK(cuMemAddressFree(a, 4 * GRANULE));
    OK(cuMemGetInfo(&after, &total));
    assert_int_equal(before, after);
}

TEST(two_addresses)
{
    CUmemGenericAllocationHandle h;
    CUdeviceptr a;
    OK(cuMemCreate(&h, GRANULE, &plain, 0));
    OK(cuMemAddressReserve(&a, 2 * GRANULE, 0, 0, 0));
    OK(cuMemMap(a, GRANULE, 0, h, 0));
    OK(cuMemMap(a + GRANULE, GRANULE, 0, h, 0));
    OK(cuMemSetAccess(a, 2 * GRANULE, &both, 1));
    OK(cuMemsetD32(a, 0xCAFE, 1));
    unsigned got;
    OK(cuMemcpyDtoH(&got, a + GRANULE, 4));
    assert_int_equal(got, 0xCAFE);
    OK(cuMemUnmap(a, 2 * GRANULE));
    OK(cuMemRelease(h));
    OK(cuMemAddressFree(a, 2 * GRANULE));
}

/* The child is a fresh process, since a forked one may not use CUDA: it gets the descriptor by inheritance. */
static int importer(int fd)
{
    CUmemGenericAllocationHandle h;
    CUdeviceptr a;
    unsigned got = 0;
    if (with_context(NULL) ||
        cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
        cuMemAddressReserve(&a, GRANULE, 0, 0, 0) || cuMemMap(a, GRANULE, 0, h, 0) ||
        cuMemSetAccess(a, GRANULE, &both, 1) || cuMemcpyDtoH(&got, a + 8, 4) || cuMemsetD32(a + 16, 77, 1) ||
        cuCtxSynchronize())
        return 1;
    return got == 4711 ? 0 : 2;
}

TEST(sharing)
{
    CUmemAllocationProp shared = plain;
    shared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle h, private;
    CUdeviceptr a;
    int fd;
    OK(cuMemCreate(&private, GRANULE, &plain, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuMemExportToShareableHandle(&fd, private, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemRelease(private));
    OK(cuMemCreate(&h, GRANULE, &shared, 0));
    OK(cuMemAddressReserve(&a, GRANULE, 0, 0, 0));
    OK(cuMemMap(a, GRANULE, 0, h, 0));
    OK(cuMemSetAccess(a, GRANULE, &both, 1));
    OK(cuMemsetD32(a + 8, 4711, 1));
    OK(cuCtxSynchronize());
    OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    int inherited = dup(fd);                 /* without close-on-exec */
    char number[16];
    snprintf(number, sizeof number, "%d", inherited);
    pid_t child = fork();
    if (!child) {
        execl("/proc/self/exe", "test_vmm", "import", number, (char *)NULL);
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    unsigned got;
    OK(cuMemcpyDtoH(&got, a + 16, 4));
    assert_int_equal(got, 77);
    close(fd);
    close(inherited);
    OK(cuMemUnmap(a, GRANULE));
    OK(cuMemRelease(h));
    OK(cuMemAddressFree(a, GRANULE));
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "import"))
        return importer(atoi(argv[2]));
    return unit_run(with_context, without_context);
}
