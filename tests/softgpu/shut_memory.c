/* shows: Software GPU memory: copies and sets of pinned memory while it is shut and opened for kernels, as it is over
 *   a network */
/* shut_memory.c: what a GPU server asks of the software GPU. Programs' libcuda.so.1 has no such calls, so this is none
   of the tests that tests/driver runs over it. */
#include <pthread.h>
#include <stdatomic.h>

#include "softgpu_test.h"

/* softgpu/driver/calls/host.c, for a server that brings memory when a kernel touches it: copies and sets do not stand
   before what is shut, also while it is shut and opened. */
CUresult softgpu_register_shut(void *, size_t, unsigned flags);
void softgpu_shut(uint64_t address, uint64_t size, bool shut);

static struct {
    char *memory;
    atomic_bool end;
} shutting;

static void *shut_and_open(void *unused)
{
    (void)unused;
    for (bool shut = true; !atomic_load(&shutting.end); shut = !shut)
        softgpu_shut((uintptr_t)shutting.memory, GRANULE, shut);
    return NULL;
}

TEST(copies_while_memory_is_shut)
{
    enum { ROUNDS = 400000, WORDS = 64 };
    pthread_t thread;
    CUdeviceptr device;
    shutting.memory = aligned_alloc(GRANULE, GRANULE);
    assert_non_null(shutting.memory);
    memset(shutting.memory, 0, GRANULE);
    const CUdeviceptr pinned = (uintptr_t)shutting.memory;
    OK(softgpu_register_shut(shutting.memory, GRANULE, CU_MEMHOSTREGISTER_PORTABLE));
    OK(cuMemAlloc(&device, WORDS * 4));
    atomic_store(&shutting.end, false);
    assert_int_equal(pthread_create(&thread, NULL, shut_and_open, NULL), 0);
    CUresult r = CUDA_SUCCESS;
    for (unsigned i = 1; i <= ROUNDS && !r; i++) {
        r = cuMemsetD32Async(pinned, i, WORDS, NULL);
        r = r ? r : cuMemcpyDtoDAsync(device, pinned, WORDS * 4, NULL);
        if (!r && i % 64 == 0)
            r = cuStreamSynchronize(NULL);
    }
    atomic_store(&shutting.end, true);
    pthread_join(thread, NULL);
    assert_int_equal(r, CUDA_SUCCESS);
    unsigned seen[WORDS];
    OK(cuMemcpyDtoH(seen, device, sizeof seen));
    assert_int_equal(seen[WORDS - 1], ROUNDS);
    OK(cuMemHostUnregister(shutting.memory));
    OK(cuMemFree(device));
    free(shutting.memory);
}

int main(void) { return unit_run(with_context, without_context); }
