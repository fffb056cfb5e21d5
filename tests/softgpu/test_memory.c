/* shows: Software GPU memory: cuMemAlloc, copies of one to three dimensions, memsets, pinned, registered and managed
 *   memory, pointer attributes */
/* test_memory.c: cuMemAlloc, copies, memsets, pinned and managed memory, pointer attributes. */
#include <sys/mman.h>

#include "softgpu_test.h"

TEST(alloc_and_free)
{
    size_t before, after, total;
    OK(cuMemGetInfo(&before, &total));
    assert_true(before <= total);
    CUdeviceptr small[100], large;
    for (size_t i = 0; i < 100; i++) {
        OK(cuMemAlloc(&small[i], 1 + i * 37));
        assert_int_equal(small[i] % 256, 0);
        for (size_t k = 0; k < i; k++)
            assert_true(small[k] + 1 + k * 37 <= small[i] || small[i] + 1 + i * 37 <= small[k]);
    }
    OK(cuMemAlloc(&large, 5 * MIB + 1));
    OK(cuMemGetInfo(&after, &total));
    assert_true(after <= before - 8 * MIB);
    CUdeviceptr base;
    size_t size;
    OK(cuMemGetAddressRange(&base, &size, large + 5 * MIB));
    assert_int_equal(base, large);
    assert_int_equal(size, 5 * MIB + 1);
    FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, large + 5 * MIB + 1));
    for (size_t i = 0; i < 100; i++)
        OK(cuMemFree(small[i]));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(large + 1));
    OK(cuMemFree(large));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(large));
    OK(cuMemFree(0));
    OK(cuMemGetInfo(&after, &total));
    assert_int_equal(after, before);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&large, 0));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&large, total + 1));
    OK(cuMemAlloc(&large, MIB));             /* out of memory leaves everything usable */
    OK(cuMemFree(large));
}

/* Stacks and the FIFO of printf are memory of the device; what does not fit changes nothing. */
TEST(stacks)
{
    size_t before, with, total, limit, most;
    int sms, threads;
    CUdevice d;
    OK(cuCtxGetDevice(&d));
    OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d));
    OK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, d));
    OK(cuMemGetInfo(&before, &total));
    OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    assert_true(total - before >= limit * (size_t)sms * (size_t)threads);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, limit + 8192));
    OK(cuMemGetInfo(&with, &total));
    assert_true(before - with >= (size_t)8192 * (size_t)sms * (size_t)threads - GRANULE);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, limit));
    OK(cuMemGetInfo(&with, &total));
    assert_int_equal(with, before);
    CUdeviceptr all;
    OK(cuMemAlloc(&all, before / GRANULE * GRANULE));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, limit + 8192));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB));
    OK(cuCtxGetLimit(&most, CU_LIMIT_STACK_SIZE));
    assert_int_equal(most, limit);
    OK(cuMemFree(all));
    OK(cuMemGetInfo(&with, &total));
    assert_int_equal(with, before);
}

TEST(copies_1d)
{
    enum { N = 3 * MIB + 17 };
    unsigned char *out = malloc(N), *in = malloc(N);
    for (size_t i = 0; i < N; i++)
        out[i] = (unsigned char)(i * 7 + i / 251);
    CUdeviceptr a, b;
    OK(cuMemAlloc(&a, N));
    OK(cuMemAlloc(&b, N));
    OK(cuMemcpyHtoD(a, out, N));
    OK(cuMemcpyDtoD(b, a, N));
    OK(cuMemcpyDtoH(in, b, N));
    assert_memory_equal(in, out, N);
    OK(cuMemsetD8(b, 0x5A, N));
    OK(cuMemcpyDtoH(in, b + 1000, 3));
    assert_memory_equal(in, "\x5A\x5A\x5A", 3);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)in, a, N));           /* kinds by address */
    assert_memory_equal(in, out, N);
    OK(cuMemcpy(b, (CUdeviceptr)(uintptr_t)in, N));
    memset(in, 0, N);
    OK(cuMemcpyPeer(a, NULL, b, NULL, N));
    OK(cuMemcpyDtoH(in, a, N));
    assert_memory_equal(in, out, N);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(a + 1, out, N));          /* one byte too far */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)in, out, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(in, 0, 4));
    OK(cuMemcpyHtoD(a, out, 0));
    OK(cuMemFree(a));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(in, a, 4));
    OK(cuMemFree(b));
    free(out);
    free(in);
}

/* Large enough to go past the caches, from and to odd places; the bytes beside the target stay. */
TEST(large_copies)
{
    enum { BYTES = 16 * MIB + 12345, ROOM = BYTES + 2 * GRANULE };
    uint8_t *source = malloc(ROOM), *back = malloc(ROOM), *pinned;
    CUdeviceptr a, b;
    for (size_t i = 0; i < ROOM; i++)
        source[i] = (uint8_t)(i * 29 + i / 253);
    OK(cuMemHostAlloc((void **)&pinned, ROOM, 0));
    memcpy(pinned, source, ROOM);
    OK(cuMemAlloc(&a, ROOM));
    OK(cuMemAlloc(&b, ROOM));
    OK(cuMemsetD8(a, 0x77, ROOM));
    OK(cuMemsetD8(b, 0x77, ROOM));
    OK(cuMemcpyHtoDAsync(a + 13, pinned + 5, BYTES, NULL));
    OK(cuMemcpyDtoDAsync(b + 101, a + 13, BYTES, NULL));
    OK(cuMemcpyDtoH(back, b, ROOM));
    for (size_t i = 0; i < 101; i++)
        assert_int_equal(back[i], 0x77);
    assert_memory_equal(back + 101, source + 5, BYTES);
    for (size_t i = 101 + BYTES; i < ROOM; i++)
        assert_int_equal(back[i], 0x77);
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    OK(cuMemFreeHost(pinned));
    free(source);
    free(back);
}

TEST(memsets)
{
    CUdeviceptr d;
    size_t pitch;
    OK(cuMemAllocPitch(&d, &pitch, 100, 9, 4));
    assert_true(pitch >= 100 && pitch % 256 == 0);
    OK(cuMemsetD8(d, 0, pitch * 9));
    OK(cuMemsetD2D32(d + 4, pitch, 0x01020304, 20, 9));
    OK(cuMemsetD2D16(d + 2 * pitch, pitch, 0xBEEF, 2, 3));
    unsigned host[2];
    for (size_t y = 0; y < 9; y++) {
        OK(cuMemcpyDtoH(host, d + y * pitch, 8));
        assert_int_equal(host[0], y >= 2 && y < 5 ? 0xBEEFBEEFu : 0);
        assert_int_equal(host[1], 0x01020304);
        OK(cuMemcpyDtoH(host, d + y * pitch + 80, 8));
        assert_int_equal(host[0], 0x01020304);
        assert_int_equal(host[1], 0);
    }
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(d + 2, 0, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD16(d + 1, 0, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(d, 0, pitch * 9 + 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8(d, 10, 0, 11, 2));
    OK(cuMemFree(d));
}

TEST(copies_2d_3d)
{
    enum { W = 13, H = 5, D = 4 };
    unsigned char host[D][H][W], back[D][H][W];
    for (size_t i = 0; i < sizeof host; i++)
        ((unsigned char *)host)[i] = (unsigned char)(i + 1);
    CUdeviceptr d;
    size_t pitch;
    OK(cuMemAllocPitch(&d, &pitch, 64, 8 * 6, 4));
    CUDA_MEMCPY3D c = { .srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcPitch = W,
                        .srcHeight = H,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = d,
                        .dstPitch = pitch,
                        .dstHeight = 8,
                        .dstXInBytes = 3,
                        .dstY = 1,
                        .dstZ = 2,
                        .WidthInBytes = W,
                        .Height = H,
                        .Depth = D };
    OK(cuMemcpy3D(&c));
    CUDA_MEMCPY3D r = { .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                        .srcDevice = d,
                        .srcPitch = pitch,
                        .srcHeight = 8,
                        .srcXInBytes = 3,
                        .srcY = 1,
                        .srcZ = 2,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = back,
                        .dstPitch = W,
                        .dstHeight = H,
                        .WidthInBytes = W,
                        .Height = H,
                        .Depth = D };
    OK(cuMemcpy3DAsync(&r, NULL));
    OK(cuStreamSynchronize(NULL));
    assert_memory_equal(back, host, sizeof host);
    unsigned char one;
    OK(cuMemcpyDtoH(&one, d + (2 * 8 + 1) * pitch + 3, 1));
    assert_int_equal(one, host[0][0][0]);
    CUDA_MEMCPY2D t = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = d,
                        .srcPitch = pitch,
                        .srcXInBytes = 3,
                        .srcY = 3 * 8 + 1,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = back,
                        .dstPitch = W,
                        .WidthInBytes = W,
                        .Height = H };
    OK(cuMemcpy2D(&t));
    assert_memory_equal(back, host[1], sizeof host[1]);
    t.srcPitch = 5;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&t));
    t.srcMemoryType = CU_MEMORYTYPE_ARRAY;                   /* and no array */
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuMemcpy2D(&t));
    OK(cuMemFree(d));
}

TEST(pinned_and_registered)
{
    char *p, *q = malloc(100000);
    unsigned flags;
    CUdeviceptr d, at;
    OK(cuMemHostAlloc((void **)&p, 5000, CU_MEMHOSTALLOC_PORTABLE));
    memset(p, 7, 5000);
    OK(cuMemHostGetDevicePointer(&at, p + 10, 0));
    assert_int_equal(at, (CUdeviceptr)(uintptr_t)p + 10);
    OK(cuMemHostGetFlags(&flags, p));
    assert_int_equal(flags & CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
    OK(cuMemAlloc(&d, 5000));
    OK(cuMemcpyDtoD(d, at, 4990));           /* pinned memory is device-accessible */
    char got;
    OK(cuMemcpyDtoH(&got, d + 4989, 1));
    assert_int_equal(got, 7);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)(uintptr_t)p));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(p));
    OK(cuMemFreeHost(p));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));

    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(d, (CUdeviceptr)(uintptr_t)q, 10));
    OK(cuMemHostRegister(q + 11, 80000, 0));
    FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(q + 20, 10, 0));
    memset(q, 9, 100000);
    OK(cuMemHostGetDevicePointer(&at, q + 11, 0));
    OK(cuMemcpyDtoD(d, at, 5000));
    OK(cuMemcpyDtoH(&got, d, 1));
    assert_int_equal(got, 9);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(q + 12));
    OK(cuMemHostUnregister(q + 11));
    FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(q + 11));
    for (int i = 0; i < 600; i++) {          /* slots of windows are used again */
        OK(cuMemHostRegister(q, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
        OK(cuMemHostUnregister(q));
    }
    OK(cuMemFree(d));
    free(q);
}

TEST(managed)
{
    CUdeviceptr m;
    OK(cuMemAllocManaged(&m, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
    *(volatile int *)(uintptr_t)m = 42;
    int got;
    OK(cuMemcpyDtoH(&got, m, 4));
    assert_int_equal(got, 42);
    unsigned is = 0;
    OK(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, m + 4));
    assert_int_equal(is & 1, 1);
    OK(cuMemFree(m));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&m, 4, 0));
}

TEST(pointer_attributes)
{
    CUdeviceptr d;
    OK(cuMemAlloc(&d, 1000));
    CUcontext current, of = NULL;
    CUmemorytype type = 0;
    CUdeviceptr device = 0, start = 0;
    void *host = (void *)1;
    size_t range = 0;
    int ordinal = 7;
    OK(cuCtxGetCurrent(&current));
    CUpointer_attribute which[] = { CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                    CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE };
    void *data[] = { &of, &type, &device, &host, &ordinal, &start, &range };
    OK(cuPointerGetAttributes(7, which, data, d + 10));
    assert_ptr_equal(of, current);
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(device, d + 10);
    assert_null(host);
    assert_int_equal(ordinal, 0);
    assert_int_equal(start, d);
    assert_int_equal(range, 1000);
    OK(cuPointerGetAttributes(7, which, data, (CUdeviceptr)(uintptr_t)&d));
    assert_int_equal(type, 0);
    assert_int_equal(ordinal, -2);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&d));
    OK(cuMemFree(d));
}

/* Each answer fills its whole width, and not a byte more. */
TEST(pointer_attribute_widths)
{
    static const struct {
        int attribute;
        size_t bytes;
    } widths[] = {
        { CU_POINTER_ATTRIBUTE_CONTEXT, 8 },
        { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4 },
        { CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 8 },
        { CU_POINTER_ATTRIBUTE_HOST_POINTER, 8 },
        { CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 4 },
        { CU_POINTER_ATTRIBUTE_BUFFER_ID, 8 },
        { CU_POINTER_ATTRIBUTE_IS_MANAGED, 4 },
        { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 4 },
        { CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 4 },
        { CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 8 },
        { CU_POINTER_ATTRIBUTE_RANGE_SIZE, 8 },
        { CU_POINTER_ATTRIBUTE_MAPPED, 4 },
        { CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 4 },
        { CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 4 },
        { CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 4 },
        { CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 8 },
    };
    CUdeviceptr d;
    OK(cuMemAllocManaged(&d, 1000, CU_MEM_ATTACH_GLOBAL));
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        unsigned char low[16], high[16]; /* filled with different bytes before: what is alike was written */
        memset(low, 0x11, sizeof low);
        memset(high, 0xee, sizeof high);
        CUpointer_attribute attribute = (CUpointer_attribute)widths[i].attribute;
        void *both[] = { high };
        OK(cuPointerGetAttribute(low, attribute, d));
        OK(cuPointerGetAttributes(1, &attribute, both, d));
        for (size_t at = 0; at < sizeof low; at++)
            if ((low[at] == high[at]) != (at < widths[i].bytes))
                fail_msg("attribute %d: byte %zu of %zu", widths[i].attribute, at, widths[i].bytes);
    }
    OK(cuMemFree(d));
}

/* Registered ranges of whole granules that adjoin share a window: hundreds of them fit, and none can be touched once it
 * is gone. */
TEST(many_registered)
{
    enum { RANGES = 600 };
    const size_t granule = 2 << 20;
    char *area =
        mmap(NULL, (RANGES + 2) * granule, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    char *base = (char *)(((uintptr_t)area + granule - 1) & ~(uintptr_t)(granule - 1));
    CUdeviceptr d;
    OK(cuMemAlloc(&d, 64));
    for (int i = 0; i < RANGES; i++) {
        OK(cuMemHostRegister(base + (size_t)i * granule, granule, CU_MEMHOSTREGISTER_DEVICEMAP));
        base[(size_t)i * granule] = (char)i;
    }
    FAILS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(base + 5 * granule, granule, 0));
    for (int i = 0; i < RANGES; i += 3)
        OK(cuMemHostUnregister(base + (size_t)i * granule));
    for (int i = 0; i < RANGES; i++) {
        CUdeviceptr from = (CUdeviceptr)(uintptr_t)base + (size_t)i * granule;
        char got = 0;
        if (i % 3 == 0) {
            FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(d, from, 1));
            continue;
        }
        OK(cuMemcpyDtoD(d, from, 1));
        OK(cuMemcpyDtoH(&got, d, 1));
        assert_int_equal(got, (char)i);
    }
    for (int i = 0; i < RANGES; i += 3)                      /* into the gaps */
        OK(cuMemHostRegister(base + (size_t)i * granule, granule, 0));
    for (int i = 0; i < RANGES; i++)
        OK(cuMemHostUnregister(base + (size_t)i * granule));
    FAILS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(base));
    OK(cuMemFree(d));
    munmap(area, (RANGES + 2) * granule);
}

int main(void) { return unit_run(with_context, without_context); }
