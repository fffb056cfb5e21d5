/* Initialisation, errors, devices, versions. */
#include "tests/runtime/api.h"

#include <pthread.h>

/* ---- initialisation: server, device, context, in this order ---- */

TEST_WITH(nothing_is_connected_before_it_is_needed, runtime_begin, NULL)
{
#if FLYT_CUDART >= 12
    int version;
    assert_int_equal(cudaRuntimeGetVersion(&version), 0);
    assert_int_equal(version / 1000, FLYT_CUDART);
#endif
    assert_string_equal(cudaGetErrorName(2), "cudaErrorMemoryAllocation");
    assert_int_equal(fake_core()->attached, 0);
    assert_int_equal(cudaGetLastError(), 0);            /* NVIDIA's asks the driver here */
    assert_int_equal(fake_core()->attached, 1);
    assert_int_equal(fake_core()->activations, 0);
}

TEST_WITH(without_server_every_call_says_so, runtime_begin, NULL)
{
    int value = 77;
    void *pointer;
    size_t size;
    fake_core()->attach_error = 802;
    assert_int_equal(cudaGetDeviceCount(&value), 802);
    assert_int_equal(value, 77);
    assert_int_equal(cudaGetLastError(), 802);
    assert_int_equal(cudaGetLastError(), 802);
    assert_int_equal(cudaMalloc(NULL, 4), 802);
    assert_int_equal(cudaMalloc(&pointer, 4), 802);
    assert_int_equal(cudaFree(NULL), 802);
    assert_int_equal(cudaSetDevice(0), 802);
    assert_int_equal(cudaGetDevice(&value), 802);
    assert_int_equal(cudaDeviceSynchronize(), 802);
    assert_int_equal(cudaDeviceReset(), 802);
    assert_int_equal(cudaMemGetInfo(&size, &size), 802);
    assert_int_equal(cudaDriverGetVersion(&value), 0);
    assert_int_equal(value, 0);
}

TEST_WITH(without_device_the_code_is_100, runtime_begin, NULL)
{
    int value = 5;
    void *pointer;
    fake_core()->device_count = 0;
    assert_int_equal(cudaGetDeviceCount(&value), 100);
    assert_int_equal(value, 5);
    assert_int_equal(cudaMalloc(&pointer, 4), 100);
    assert_int_equal(cudaSetDevice(0), 100);
    assert_int_equal(cudaPeekAtLastError(), 100);
}

TEST_WITH(the_child_of_a_fork_gets_initialisation_errors, runtime_begin, NULL)
{
    void *pointer;
    fake_core()->forked = true;
    assert_int_equal(cudaMalloc(&pointer, 4), 3);
    assert_int_equal(cudaDeviceSynchronize(), 3);
}

TEST_WITH(questions_make_no_context, runtime_begin, NULL)
{
    int value;
    cudaDeviceProp properties;
    assert_int_equal(cudaGetDeviceCount(&value), 0);
    assert_int_equal(value, FAKE_DEVICES);
    assert_int_equal(cudaGetDevice(&value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(cudaDeviceGetAttribute(&value, 16, 1), 0);
    assert_int_equal(cudaGetDeviceProperties(&properties, 1), 0);
    assert_int_equal(cudaDriverGetVersion(&value), 0);
    assert_int_equal(value, 13010);
    assert_int_equal(fake_core()->activations, 0);
    assert_int_equal(cudaFree(NULL), 0);
    assert_int_equal(fake_core()->activations, 1);
}

TEST_WITH(set_device_makes_a_context_since_12, runtime_begin, NULL)
{
    int value;
    assert_int_equal(cudaSetDevice(1), 0);
    assert_int_equal(fake_core()->activations, FLYT_CUDART >= 12);
    assert_int_equal(cudaGetDevice(&value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cudaSetDevice(2), 101);
    assert_int_equal(cudaSetDevice(-1), 101);
    assert_int_equal(cudaGetDevice(&value), 0);
    assert_int_equal(value, 1);
}

TEST_WITH(the_context_comes_back_after_a_reset, runtime_begin, NULL)
{
    void *pointer;
    assert_int_equal(cudaMalloc(&pointer, 4), 0);
    assert_int_equal(cudaDeviceReset(), 0);
    assert_int_equal(fake_core()->resets, 1);
    assert_int_equal(cudaMalloc(&pointer, 4), 0);
    assert_int_equal(fake_core()->activations, 2);
}

static void *device_of_another_thread(void *out) { return (void)cudaGetDevice(out), NULL; }

TEST_WITH(the_current_device_is_the_threads, runtime_begin, NULL)
{
    int other = -1;
    pthread_t thread;
    assert_int_equal(cudaSetDevice(1), 0);
    assert_int_equal(pthread_create(&thread, NULL, device_of_another_thread, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other, 0);
}

TEST_WITH(valid_devices_choose_the_first, runtime_begin, NULL)
{
    int value, devices[] = {1, 0}, bad[] = {7};
    assert_int_equal(cudaSetValidDevices(bad, 1), 101);
    assert_int_equal(cudaSetValidDevices(NULL, 1), 1);
    assert_int_equal(cudaSetValidDevices(devices, 3), 1);
    assert_int_equal(cudaSetValidDevices(devices, 2), 0);
    assert_int_equal(cudaFree(NULL), 0);
    assert_int_equal(cudaGetDevice(&value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cudaSetValidDevices(NULL, 0), 0);
}

/* ---- the last error ---- */

TEST_WITH(get_clears_and_peek_does_not, runtime_begin, NULL)
{
    assert_int_equal(cudaSetDevice(99), 101);
    assert_int_equal(cudaPeekAtLastError(), 101);
    assert_int_equal(cudaPeekAtLastError(), 101);
    assert_int_equal(cudaGetLastError(), 101);
    assert_int_equal(cudaGetLastError(), 0);
}

TEST_WITH(success_does_not_clear_and_a_later_error_replaces, runtime_begin, NULL)
{
    void *pointer;
    assert_int_equal(cudaSetDevice(99), 101);
    assert_int_equal(cudaMalloc(&pointer, 4), 0);
    assert_int_equal(cudaPeekAtLastError(), 101);
    assert_int_equal(cudaMalloc(NULL, 4), 1);
    assert_int_equal(cudaGetLastError(), 1);
}

TEST_WITH(not_ready_is_no_error, runtime_begin, NULL)
{
    assert_int_equal(cudaFree(NULL), 0);
    fake_core()->next_error = 600;
    assert_int_equal(cudaStreamQuery(0), 600);
    assert_int_equal(cudaGetLastError(), 0);
}

static void *fail_in_another_thread(void *out)
{
    cudaSetDevice(99);
    *(int *)out = cudaGetLastError();
    return NULL;
}

TEST_WITH(the_last_error_is_the_threads, runtime_begin, NULL)
{
    int other = 0;
    pthread_t thread;
    assert_int_equal(cudaMalloc(NULL, 4), 1);
    assert_int_equal(pthread_create(&thread, NULL, fail_in_another_thread, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other, 101);
    assert_int_equal(cudaGetLastError(), 1);
}

TEST_WITH(sticky_errors_come_back, runtime_begin, NULL)
{
    void *pointer;
    assert_int_equal(cudaFree(NULL), 0);
    fake_core()->sticky = 700;
    assert_int_equal(cudaDeviceSynchronize(), 700);
    assert_int_equal(cudaGetLastError(), 700);
    assert_int_equal(cudaGetLastError(), 0);
    assert_int_equal(cudaMalloc(&pointer, 4), 700);
    assert_int_equal(cudaMalloc(&pointer, 0), 0); /* nothing to do: as NVIDIA's runtime */
    assert_int_equal(cudaDeviceReset(), 0);
    assert_int_equal(cudaMalloc(&pointer, 4), 46); /* there is no new context */
}

TEST_WITH(errors_of_asynchronous_work_are_delivered_once, runtime_begin, NULL)
{
    assert_int_equal(cudaFree(NULL), 0);
    fake_core()->latched = 719;
    assert_int_equal(cudaGetLastError(), 0);
    assert_int_equal(cudaDeviceSynchronize(), 719);
    assert_int_equal(cudaGetLastError(), 719);
    assert_int_equal(cudaDeviceSynchronize(), 0);
}

TEST_WITH(out_of_memory_leaves_everything_usable, runtime_begin, NULL)
{
    void *pointer;
    assert_int_equal(cudaMalloc(&pointer, (size_t)1 << 40), 2);
    assert_int_equal(cudaGetLastError(), 2);
    assert_int_equal(cudaMalloc(&pointer, 4), 0);
}

/* ---- devices ---- */

TEST_WITH(properties_are_the_attributes, runtime_begin, NULL)
{
    cudaDeviceProp p;
    memset(&p, 0xAA, sizeof p);
#if FLYT_CUDART == 12
    enum { PROPERTIES_11_SIZE = 728 };
    assert_int_equal(cudaGetDeviceProperties(&p, 0), 0);
    assert_int_equal(((unsigned char *)&p)[PROPERTIES_11_SIZE], 0xAA);
    assert_int_equal(cudaGetDeviceProperties_v2(&p, 0), 0);
#else
    assert_int_equal(cudaGetDeviceProperties(&p, 0), 0);
#endif
    assert_string_equal(p.name, "Fake GPU");
    assert_int_equal(p.uuid.bytes[15], 16);
    assert_int_equal(p.totalGlobalMem, FAKE_MEMORY);
    assert_int_equal(p.sharedMemPerBlock, 1008);
    assert_int_equal(p.maxThreadsDim[2], 64);
    assert_int_equal(p.maxGridSize[0], INT32_MAX);
    assert_int_equal(p.memPitch, INT32_MAX);
    assert_int_equal(p.multiProcessorCount, 1016);
    assert_int_equal(p.major, 1075);
    assert_int_equal(p.maxTexture2DLinear[2], 1072);
    assert_int_equal(p.maxSurfaceCubemapLayered[1], 1068);
    assert_int_equal(p.pciDomainID, 1050);
    assert_int_equal(p.reservedSharedMemPerBlock, 1111);
#if FLYT_CUDART <= 12
    assert_int_equal(p.clockRate, 1013);
    assert_int_equal(p.singleToDoublePrecisionPerfRatio, 1087);
#endif
#if FLYT_CUDART >= 12
    assert_int_equal(p.clusterLaunch, 1120);
    assert_int_equal(p.memoryPoolsSupported, 1115);
#endif
#if FLYT_CUDART == 13
    assert_int_equal(p.gpuPciSubsystemID, 1140);
#endif
    assert_int_equal(cudaGetDeviceProperties(&p, 2), 101);
    assert_int_equal(cudaGetDeviceProperties(NULL, 0), 1);
}

/* Device 1 is asked for by several threads at once, for the first time; later nobody asks the core. */
static void *ask_for_properties(void *space)
{
    cudaDeviceProp *p = space;
    for (int i = 0; i < 1000; i++) {
        memset(p, 0xAA, sizeof *p);
        if (cudaGetDeviceProperties(p, 1) || p->multiProcessorCount != 1016 || p->maxSurfaceCubemapLayered[1] != 1068 ||
            p->uuid.bytes[0] != 2)
            return NULL;
    }
    return space;
}

TEST_WITH(properties_are_put_together_once, runtime_begin, NULL)
{
    enum { THREADS = 4 };
    static cudaDeviceProp p[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_properties, &p[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    int read = fake_core()->attributes_read;
    assert_non_null(ask_for_properties(&p[0]));
    assert_int_equal(fake_core()->attributes_read, read);
}

TEST_WITH(attributes_and_their_errors, runtime_begin, NULL)
{
    int value;
    assert_int_equal(cudaDeviceGetAttribute(&value, 16, 0), 0);
    assert_int_equal(value, 1016);
    assert_int_equal(cudaDeviceGetAttribute(&value, 0, 0), 1);
    assert_int_equal(cudaDeviceGetAttribute(&value, 100000, 0), 1);
    assert_int_equal(cudaDeviceGetAttribute(NULL, 16, 0), 1);
    assert_int_equal(cudaDeviceGetAttribute(&value, 16, 5), 101);
    assert_true(fake_core()->local_calls >= 5);
}

TEST_WITH(choosing_a_device, runtime_begin, NULL)
{
    int value = -1;
    cudaDeviceProp wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.major = 7;
    assert_int_equal(cudaChooseDevice(&value, &wanted), 0);
    assert_int_equal(value, 0);
    assert_int_equal(cudaChooseDevice(NULL, &wanted), 1);
}

TEST_WITH(pci_bus_ids, runtime_begin, NULL)
{
    char text[13];
    int value = -1;
    assert_int_equal(cudaDeviceGetPCIBusId(text, sizeof text, 0), 0);
    assert_string_equal(text, "0000:01:00.0");
    assert_int_equal(cudaDeviceGetPCIBusId(text, 12, 0), 1);
    assert_int_equal(cudaDeviceGetPCIBusId(text, sizeof text, 9), 101);
    assert_int_equal(cudaDeviceGetByPCIBusId(&value, "0000:0a:00.0"), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cudaDeviceGetByPCIBusId(&value, "01:00.0"), 0);
    assert_int_equal(value, 0);
    assert_int_equal(cudaDeviceGetByPCIBusId(&value, "00000000:0A:00.0"), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cudaDeviceGetByPCIBusId(&value, "0000:0b:00.0"), 101);
    assert_int_equal(cudaDeviceGetByPCIBusId(&value, "nonsense"), 1);
}

TEST_WITH(limits_flags_and_preferences, runtime_begin, NULL)
{
    size_t size;
    unsigned value;
    int least, greatest;
    assert_int_equal(cudaDeviceGetLimit(&size, 2), 0);
    assert_int_equal(size, 102);
    assert_int_equal(cudaDeviceGetLimit(&size, 7), 0);
    assert_int_equal(cudaDeviceSetLimit(7, 1), 800);
    assert_int_equal(cudaDeviceGetLimit(&size, 8), 215);
    assert_int_equal(cudaDeviceGetLimit(&size, 10), 1);
    assert_int_equal(cudaDeviceGetLimit(NULL, 2), 1);
    assert_int_equal(cudaDeviceSetLimit(0, 4096), 0);
    assert_int_equal(cudaSetDeviceFlags(4), 0);
    assert_int_equal(cudaGetDeviceFlags(&value), 0);
    assert_int_equal(value, 4 | 8);
    assert_int_equal(cudaSetDeviceFlags(0x100), 1);
    assert_int_equal(cudaSetDeviceFlags(3), 1);
    assert_int_equal(cudaDeviceSetCacheConfig(2), 0);
    assert_int_equal(cudaDeviceGetCacheConfig(&value), 0);
    assert_int_equal(value, 2);
    assert_int_equal(cudaDeviceSetCacheConfig(4), 1);
    assert_int_equal(cudaDeviceGetStreamPriorityRange(&least, &greatest), 0);
    assert_int_equal(least, 0);
    assert_int_equal(greatest, -5);
    assert_int_equal(cudaDeviceGetStreamPriorityRange(NULL, NULL), 0);
}

TEST_WITH(peers, runtime_begin, NULL)
{
    int value = -1;
    assert_int_equal(cudaDeviceCanAccessPeer(&value, 0, 1), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cudaDeviceCanAccessPeer(&value, 0, 2), 101);
    assert_int_equal(cudaDeviceCanAccessPeer(NULL, 0, 1), 1);
    assert_int_equal(cudaDeviceGetP2PAttribute(&value, 3, 0, 1), 0);
    assert_int_equal(value, 3);
    assert_int_equal(cudaDeviceGetP2PAttribute(&value, 3, 0, 0), 101);
    assert_int_equal(cudaDeviceGetP2PAttribute(&value, 6, 0, 1), 1);
    assert_int_equal(cudaDeviceEnablePeerAccess(0, 0), 217);
    assert_int_equal(cudaDeviceEnablePeerAccess(2, 0), 101);
    assert_int_equal(cudaDeviceEnablePeerAccess(1, 1), 1);
    assert_int_equal(cudaDeviceDisablePeerAccess(1), 705);
    assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), 0);
    assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), 704);
    assert_int_equal(cudaDeviceDisablePeerAccess(1), 0);
    assert_int_equal(cudaDeviceDisablePeerAccess(1), 705);
}

TEST_WITH(driver_entry_points_are_not_found, runtime_begin, NULL)
{
    void *pointer = &pointer;
#if FLYT_CUDART == 11
    assert_int_equal(cudaGetDriverEntryPoint("cuInit", &pointer, 0), 500);
    assert_ptr_equal(pointer, &pointer);
#else
    cudaDriverEntryPointQueryResult status = 99;
    assert_int_equal(cudaGetDriverEntryPoint("cuInit", &pointer, 0, &status), 0);
    assert_int_equal(status, 1);
    assert_null(pointer);
#endif
}

int device_tests(void)
{
    return unit_run(NULL, NULL);
}
