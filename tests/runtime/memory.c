/* Allocation, copies, memset, pointer attributes. */
#include "tests/runtime/api.h"

TEST_WITH(allocation_and_its_edges, runtime_begin, NULL)
{
    void *pointer = state;
    size_t available, total;
    assert_int_equal(cudaMalloc(&pointer, 0), 0);
    assert_null(pointer);
    assert_int_equal(cudaMalloc(NULL, 16), 1);
    assert_int_equal(cudaFree(NULL), 0);
    assert_int_equal(cudaMalloc(&pointer, 16), 0);
    assert_int_equal(cudaFree((char *)pointer + 4), 1);
    assert_int_equal(cudaFree(&pointer), 1);
    assert_int_equal(cudaFree(pointer), 0);
    assert_int_equal(cudaFree(pointer), 1);
    assert_int_equal(cudaMemGetInfo(&available, &total), 0);
    assert_int_equal(total, FAKE_MEMORY);
    assert_int_equal(cudaMemGetInfo(NULL, &total), 0);
    assert_int_equal(cudaMemGetInfo(&available, NULL), 0);
}

TEST_WITH(pitched_allocation, runtime_begin, NULL)
{
    void *pointer = state;
    size_t pitch = 1;
    cudaPitchedPtr pitched;
    assert_int_equal(cudaMallocPitch(&pointer, &pitch, 100, 3), 0);
    assert_int_equal(pitch, 512);
    assert_int_equal(cudaMallocPitch(&pointer, NULL, 100, 3), 1);
    assert_int_equal(cudaMallocPitch(&pointer, &pitch, 0, 3), 0);
    assert_null(pointer);
    assert_int_equal(cudaMallocPitch(&pointer, &pitch, 1 << 30, SIZE_MAX / 4), 2);
    assert_int_equal(cudaMalloc3D(&pitched, (cudaExtent){600, 3, 2}), 0);
    assert_int_equal(pitched.pitch, 1024);
    assert_int_equal(pitched.xsize, 600);
    assert_int_equal(pitched.ysize, 3);
    assert_int_equal(cudaMalloc3D(&pitched, (cudaExtent){600, SIZE_MAX, 2}), 2);
}

TEST_WITH(pinned_memory, runtime_begin, NULL)
{
    void *pointer = state, *mapped;
    unsigned flags;
    static char registered[64];
    assert_int_equal(cudaHostAlloc(&pointer, 0, 0), 0);
    assert_null(pointer);
    assert_int_equal(cudaHostAlloc(&pointer, 64, 8), 1);
    assert_int_equal(cudaHostAlloc(&pointer, 64, 3), 0);
    assert_int_equal(cudaHostGetFlags(&flags, pointer), 0);
    assert_int_equal(flags, 3);
    assert_int_equal(cudaHostGetFlags(&flags, &flags), 1);
    assert_int_equal(cudaHostGetDevicePointer(&mapped, pointer, 0), 0);
    assert_ptr_equal(mapped, pointer);
    assert_int_equal(cudaHostGetDevicePointer(&mapped, pointer, 1), 1);
    fake_core()->host_mapping_error = 801;
    assert_int_equal(cudaHostGetDevicePointer(&mapped, pointer, 0), 801);
    assert_int_equal(cudaFree(pointer), 1);
    assert_int_equal(cudaFreeHost(pointer), 0);
    assert_int_equal(cudaFreeHost(NULL), 0);
    assert_int_equal(cudaFreeHost(registered), 1);
    assert_int_equal(cudaHostRegister(registered, 0, 0), 1);
    assert_int_equal(cudaHostRegister(registered, sizeof registered, 16), 1);
    assert_int_equal(cudaHostRegister(registered, sizeof registered, 0), 0);
    assert_int_equal(cudaHostRegister(registered, sizeof registered, 0), 712);
    assert_int_equal(cudaHostUnregister(registered), 0);
    assert_int_equal(cudaHostUnregister(registered), 713);
}

TEST_WITH(copies_in_all_directions, runtime_begin, NULL)
{
    char *one, *two, from[8] = "flyt", to[8];
    assert_int_equal(cudaMalloc((void **)&one, 8), 0);
    assert_int_equal(cudaMalloc((void **)&two, 8), 0);
    assert_int_equal(cudaMemcpy(one, from, 8, cudaMemcpyHostToDevice), 0);
    assert_true(fake_core()->blocking);
    assert_int_equal(cudaMemcpy(two, one, 8, cudaMemcpyDeviceToDevice), 0);
    memset(to, 0, sizeof to);
    assert_int_equal(cudaMemcpy(to, two, 8, cudaMemcpyDeviceToHost), 0);
    assert_string_equal(to, "flyt");
    memset(to, 0, sizeof to);
    assert_int_equal(cudaMemcpyAsync(to, from, 8, cudaMemcpyHostToHost, 0), 0);
    assert_false(fake_core()->blocking);
    assert_string_equal(to, "flyt");
    /* by address */
    memset(to, 0, sizeof to);
    assert_int_equal(cudaMemcpy(two, "born", 5, cudaMemcpyDefault), 0);
    assert_int_equal(cudaMemcpy(one, two, 8, cudaMemcpyDefault), 0);
    assert_int_equal(cudaMemcpy(to, one, 8, cudaMemcpyDefault), 0);
    assert_string_equal(to, "born");
    assert_int_equal(cudaMemcpyPeer(two, 1, one, 0, 8), 0);
    assert_int_equal(cudaMemcpyPeer(two, 2, one, 0, 8), 101);
    /* default streams */
    assert_int_equal(cudaMemcpy_ptds(one, from, 8, cudaMemcpyHostToDevice), 0);
    assert_int_equal(fake_core()->stream, CORE_STREAM_PER_THREAD);
    assert_int_equal(cudaMemcpyAsync_ptsz(one, from, 8, cudaMemcpyHostToDevice, 0), 0);
    assert_int_equal(fake_core()->stream, CORE_STREAM_PER_THREAD);
}

TEST_WITH(pinned_memory_stands_on_both_sides, runtime_begin, NULL)
{
    char *pinned, *device, to[8] = "";
    assert_int_equal(cudaMallocHost((void **)&pinned, 8), 0);
    assert_int_equal(cudaMalloc((void **)&device, 8), 0);
    strcpy(pinned, "pin");
    assert_int_equal(cudaMemcpy(device, pinned, 8, cudaMemcpyDeviceToDevice), 0);
    assert_int_equal(cudaMemcpy(to, device, 8, cudaMemcpyDeviceToHost), 0);
    assert_string_equal(to, "pin");
    assert_int_equal(cudaMemcpy(to, pinned, 8, cudaMemcpyDeviceToHost), 0);
    assert_int_equal(cudaFreeHost(pinned), 0);
}

TEST_WITH(wrong_copies_are_errors_not_crashes, runtime_begin, NULL)
{
    char *device, host[8] = "";
    assert_int_equal(cudaMalloc((void **)&device, 8), 0);
    assert_int_equal(cudaMemcpy(device, host, 8, 5), 21);
    assert_int_equal(cudaMemcpy(device, host, 8, -1), 21);
    assert_int_equal(cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice), 0);
    assert_int_equal(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice), 0);
    assert_int_equal(cudaMemcpy(NULL, host, 8, cudaMemcpyHostToDevice), 1);
    assert_int_equal(cudaMemcpy(device, NULL, 8, cudaMemcpyHostToDevice), 1);
    assert_int_equal(cudaMemcpy(device, host, 9, cudaMemcpyHostToDevice), 1);
    assert_int_equal(cudaGetLastError(), 1);
}

TEST_WITH(copies_of_boxes, runtime_begin, NULL)
{
    char *device, from[6][10], to[6][10];
    size_t pitch;
    for (int i = 0; i < 60; i++)
        (&from[0][0])[i] = (char)i;
    assert_int_equal(cudaMallocPitch((void **)&device, &pitch, 10, 6), 0);
    assert_int_equal(cudaMemcpy2D(device, pitch, from, 10, 7, 6, cudaMemcpyHostToDevice), 0);
    memset(to, -1, sizeof to);
    assert_int_equal(cudaMemcpy2D(to, 10, device, pitch, 7, 6, cudaMemcpyDeviceToHost), 0);
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 10; x++)
            assert_int_equal(to[y][x], x < 7 ? from[y][x] : -1);
    assert_int_equal(cudaMemcpy2D(device, pitch, from, 6, 7, 6, cudaMemcpyHostToDevice), 12);
    assert_int_equal(cudaMemcpy2D(device, pitch, from, 6, 7, 1, cudaMemcpyHostToDevice), 1);
    assert_int_equal(cudaMemcpy2D(device, pitch, from, 0, 7, 1, cudaMemcpyHostToDevice), 0); /* one row needs none */
    assert_int_equal(cudaMemcpy2D(device, (size_t)1 << 32, from, 10, 7, 6, cudaMemcpyHostToDevice), 1);
    assert_int_equal(cudaMemcpy2D(device, pitch, from, 10, 0, 6, cudaMemcpyHostToDevice), 0);
    assert_int_equal(cudaMemcpy2D(device, pitch, from, 10, 7, 6, 9), 21);
    memset(to, -1, sizeof to);
    assert_int_equal(cudaMemcpy2D(to, 10, from, 10, 3, 2, cudaMemcpyHostToHost), 0);
    assert_int_equal(to[1][2], 12);
    assert_int_equal(to[1][3], -1);
}

TEST_WITH(copies_of_volumes, runtime_begin, NULL)
{
    static unsigned char from[4][5][16], to[4][5][16];
    cudaPitchedPtr memory;
    for (size_t i = 0; i < sizeof from; i++)
        (&from[0][0][0])[i] = (unsigned char)i;
    assert_int_equal(cudaMalloc3D(&memory, (cudaExtent){16, 5, 4}), 0);
    cudaMemcpy3DParms in = {
        .srcPtr = { from, 16, 16, 5 },
        .dstPtr = memory,
        .srcPos = { 2, 1, 1 },
        .dstPos = { 3, 0, 0 },
        .extent = { 8, 3, 2 },
        .kind = cudaMemcpyHostToDevice,
    };
    assert_int_equal(cudaMemcpy3D(&in), 0);
    cudaMemcpy3DParms out = {
        .srcPtr = memory,
        .dstPtr = { to, 16, 16, 5 },
        .srcPos = { 3, 0, 0 },
        .dstPos = { 0, 2, 2 },
        .extent = { 8, 3, 2 },
        .kind = cudaMemcpyDefault,
    };
    memset(to, 0, sizeof to);
    assert_int_equal(cudaMemcpy3D(&out), 0);
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 3; y++)
            assert_memory_equal(&to[z + 2][y + 2][0], &from[z + 1][y + 1][2], 8);
    assert_int_equal(to[2][2][8], 0);
    out.dstPtr.ysize = 4;
    assert_int_equal(cudaMemcpy3D(&out), 1); /* each as NVIDIA's runtime says */
    out.dstPtr.ysize = 2;
    assert_int_equal(cudaMemcpy3D(&out), 12);
    out.dstPtr.ysize = 5;
    out.dstPos.x = 9;
    assert_int_equal(cudaMemcpy3D(&out), 1);
    out.dstPtr.pitch = 7;
    assert_int_equal(cudaMemcpy3D(&out), 12);
    out.srcArray = (cudaArray_t)&out;                /* beside srcPtr; and it is none */
    assert_int_equal(cudaMemcpy3D(&out), 400);
    assert_int_equal(cudaMemcpy3D(NULL), 1);
}

TEST_WITH(memset_of_rows_and_volumes, runtime_begin, NULL)
{
    char *device, host[40];
    cudaPitchedPtr memory;
    assert_int_equal(cudaMalloc((void **)&device, 40), 0);
    assert_int_equal(cudaMemset(device, 0x107, 40), 0);
    assert_int_equal(cudaMemset2D(device, 10, 1, 4, 4), 0);
    assert_int_equal(cudaMemcpy(host, device, 40, cudaMemcpyDeviceToHost), 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(host[i], i % 10 < 4 ? 1 : 7);
    assert_int_equal(cudaMemset2D(device, 3, 1, 4, 4), 1);
    assert_int_equal(cudaMemset(NULL, 0, 4), 1);
    assert_int_equal(cudaMemset(NULL, 0, 0), 0);
    assert_int_equal(cudaMemset(host, 0, 4), 1);
    assert_int_equal(cudaMalloc3D(&memory, (cudaExtent){8, 2, 2}), 0);
    assert_int_equal(cudaMemset3D(memory, 9, (cudaExtent){8, 2, 2}), 0);
    assert_int_equal(cudaMemcpy(host, (char *)memory.ptr + memory.pitch * 3, 8, cudaMemcpyDeviceToHost), 0);
    assert_int_equal(host[7], 9);
    assert_int_equal(cudaMemset3D(memory, 9, (cudaExtent){8, 3, 2}), 1);
}

TEST_WITH(attributes_of_pointers, runtime_begin, NULL)
{
    cudaPointerAttributes a;
    char *device, *pinned, plain;
    assert_int_equal(cudaMalloc((void **)&device, 8), 0);
    assert_int_equal(cudaMallocHost((void **)&pinned, 8), 0);
    assert_int_equal(cudaPointerGetAttributes(&a, device + 3), 0);
    assert_int_equal(a.type, 2);
    assert_int_equal(a.device, 0);
    assert_ptr_equal(a.devicePointer, device + 3);
    assert_null(a.hostPointer);
    assert_int_equal(cudaPointerGetAttributes(&a, pinned + 1), 0);
    assert_int_equal(a.type, 1);
    assert_ptr_equal(a.hostPointer, pinned + 1);
    assert_ptr_equal(a.devicePointer, pinned + 1);
    fake_core()->host_mapping_error = 801;
    assert_int_equal(cudaPointerGetAttributes(&a, pinned + 1), 0);
    assert_null(a.devicePointer);
    assert_int_equal(cudaPointerGetAttributes(&a, &plain), 0);
    assert_int_equal(a.type, 0);
    assert_int_equal(a.device, -2);
    assert_int_equal(cudaPointerGetAttributes(&a, NULL), 0);
    assert_int_equal(cudaPointerGetAttributes(NULL, device), 1);
    assert_int_equal(cudaFreeHost(pinned), 0);
}

TEST_WITH(stream_ordered_memory, runtime_begin, NULL)
{
    void *pointer = state;
    assert_int_equal(cudaMallocAsync(&pointer, 0, 0), 0);
    assert_null(pointer);
    assert_int_equal(cudaMallocAsync(&pointer, 64, 12345), 400);
    assert_int_equal(cudaMallocAsync(&pointer, 64, 0), 0);
    assert_int_equal(cudaFreeAsync(pointer, 12345), 400);
    assert_int_equal(cudaFreeAsync(pointer, 0), 0);
    assert_int_equal(cudaFreeAsync(pointer, 0), 1);
    assert_int_equal(cudaFreeAsync(NULL, 0), 0);
}

static cudaMemPoolProps pool_properties(void)
{
    return (cudaMemPoolProps){ .allocType = cudaMemAllocationTypePinned, .location = { .type = 1, .id = 0 } };
}

TEST_WITH(pools, runtime_begin, NULL)
{
    cudaMemPool_t pool = 0;
    cudaMemPoolProps p = pool_properties();
    assert_int_equal(cudaMemPoolCreate(&pool, &p), 0);
    assert_int_equal(cudaMemPoolCreate(NULL, &p), 1);
    assert_int_equal(cudaMemPoolCreate(&pool, NULL), 1);
    p.reserved[sizeof p.reserved - 1] = 1;
    assert_int_equal(cudaMemPoolCreate(&pool, &p), 1);
    p = pool_properties();
    p.location.id = 99;
    assert_int_equal(cudaMemPoolCreate(&pool, &p), 1);
    p = pool_properties();
    p.location.type = 2;
    assert_int_equal(cudaMemPoolCreate(&pool, &p), 801);
    p.location.type = 4;
    assert_int_equal(cudaMemPoolCreate(&pool, &p), 1);
    /* three attributes are int, the others 64 bits */
    struct {
        int value, behind;
    } flag = { 7, 7 };
    assert_int_equal(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &flag), 0);
    assert_int_equal(flag.value, cudaMemPoolReuseAllowInternalDependencies);
    assert_int_equal(flag.behind, 7);
    assert_int_equal(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &flag), 0);
    assert_int_equal(fake_core()->pool_value, 1);
    uint64_t bytes = UINT64_C(5) << 40;
    assert_int_equal(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes), 0);
    assert_int_equal(fake_core()->pool_value, bytes);
    assert_int_equal(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &bytes), 0);
    assert_int_equal(bytes, cudaMemPoolAttrUsedMemHigh);
    assert_int_equal(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, NULL), 1);
    assert_int_equal(cudaMemPoolSetAttribute(pool, (cudaMemPoolAttr)0, &bytes), 1);
    assert_int_equal(cudaMemPoolSetAttribute(0, cudaMemPoolAttrReleaseThreshold, &bytes), 1);
    void *pointer;
    assert_int_equal(cudaMallocFromPoolAsync(&pointer, 64, 0, 0), 1);
    assert_int_equal(cudaDeviceGetDefaultMemPool(&pool, 99), 101);
    assert_int_equal(cudaDeviceGetDefaultMemPool(NULL, 0), 1);
}

/* The array has 8 rows of 16 floats. */
TEST_WITH(copies_of_arrays, runtime_begin, NULL)
{
    cudaArray_t array;
    const cudaChannelFormatDesc floats = { 32, 0, 0, 0, cudaChannelFormatKindFloat }, odd = { 32, 16, 0, 0, floats.f };
    cudaChannelFormatDesc told;
    float from[8][16], to[8][20] = { { 0 } };
    for (int i = 0; i < 128; i++)
        from[i / 16][i % 16] = (float)i;
    assert_int_equal(cudaMallocArray(NULL, &floats, 16, 8, 0), 1);
    assert_int_equal(cudaMallocArray(&array, NULL, 16, 8, 0), 1);
    assert_int_equal(cudaMallocArray(&array, &odd, 16, 8, 0), 20);
    assert_int_equal(cudaMallocArray(&array, &floats, 0, 8, 0), 1);
    assert_int_equal(cudaMallocArray(&array, &floats, 16, 8, 0), 0);
    assert_int_equal(cudaGetChannelDesc(&told, array), 0);
    assert_memory_equal(&told, &floats, sizeof told);
    /* bytes that go on from row to row: the rest of a row, whole rows, and the beginning of one */
    assert_int_equal(cudaMemcpyToArray(array, 0, 0, from, sizeof from, cudaMemcpyHostToDevice), 0);
    assert_int_equal(cudaMemcpyFromArray(to, array, 8, 1, 56 + 3 * 64 + 12, cudaMemcpyDeviceToHost), 0);
    for (int i = 0; i < (56 + 3 * 64 + 12) / 4; i++)
        assert_true(((const float *)to)[i] == (float)(18 + i));
    assert_int_equal(cudaMemcpyToArray(array, 4, 7, from, 64, cudaMemcpyHostToDevice), 1);
    assert_int_equal(cudaMemcpyToArray(array, 68, 0, from, 4, cudaMemcpyHostToDevice), 1);
    /* positions are in elements of the array on both sides, as NVIDIA's runtime has it */
    cudaMemcpy3DParms copy = { .srcArray = array,
                               .srcPos = { 2, 3, 0 },
                               .dstPtr = { to, 80, 80, 8 },
                               .dstPos = { 2, 1, 0 },
                               .extent = { 5, 4, 1 },
                               .kind = cudaMemcpyDeviceToHost };
    assert_int_equal(cudaMemcpy3D(&copy), 0);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 5; x++)
            assert_true(to[y + 1][x + 2] == from[y + 3][x + 2]);
    copy.extent.width = 15;
    assert_int_equal(cudaMemcpy3D(&copy), 1);
    copy.extent = (cudaExtent){ 5, 4, 1 };
    copy.srcPtr = copy.dstPtr;                        /* two sources */
    assert_int_equal(cudaMemcpy3D(&copy), 1);
    assert_int_equal(cudaMemcpy2DToArray(array, 0, 0, from, 60, 64, 8, cudaMemcpyHostToDevice), 12);
    assert_int_equal(cudaMemcpy2DToArray(array, 0, 0, from, 64, 64, 8, (cudaMemcpyKind)9), 21);
    assert_int_equal(cudaMemcpy2DToArray(array, 0, 1, from, 64, 64, 8, cudaMemcpyHostToDevice), 1);
    assert_int_equal(cudaMemcpy2DToArray(array, 0, 0, from, 64, 64, 8, cudaMemcpyDeviceToHost), 21);
    assert_int_equal(cudaMemcpy2DToArray(NULL, 0, 0, from, 64, 64, 8, cudaMemcpyHostToDevice), 400);
    assert_int_equal(cudaFreeArray(array), 0);
    assert_int_equal(cudaFreeArray(NULL), 0);
    assert_int_equal(cudaFreeArray((cudaArray_t)&copy), 400);
}

int memory_tests(void)
{
    return unit_run(NULL, NULL);
}
