/* Registration, launches, function attributes, occupancy, symbols. */
#include "tests/runtime/api.h"

#include "cpu/client/core/code/registry.h"

#include <pthread.h>

static struct { uint32_t magic, version; const void *data, *extra; } wrapper = {0x466243B1, 1, NULL, NULL};
static char host_function, other_function, host_variable, missing_variable;

static void **register_image(const char *name)
{
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &host_function, NULL, name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(handle, &host_variable, NULL, "variable", 0, 16, 0, 0);
    __cudaRegisterVar(handle, &missing_variable, NULL, "missing", 0, 16, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    return handle;
}

/* Of what is no registered function. */
enum { NO_KERNEL = FLYT_CUDART >= 12 ? 400 : 98 };

static const dim3 one = {1, 1, 1}, warp = {32, 1, 1};

TEST_WITH(registration_needs_no_server, runtime_begin, NULL)
{
    void **handle = register_image("kernel");
    assert_non_null(handle);
    assert_int_equal(fake_core()->attached, 0);
#if FLYT_CUDART >= 12
    const void *kernel = NULL;
    const char *name = NULL;
    assert_int_equal(__cudaGetKernel(&kernel, &host_function), 0);
    assert_non_null(kernel);
    assert_int_equal(__cudaGetKernel(NULL, &host_function), 1);
    assert_int_equal(fake_core()->attached, 0);
    assert_int_equal(__cudaGetKernel(&kernel, &other_function), 98);
    assert_int_equal(cudaFuncGetName(&name, &host_function), 0);
    assert_string_equal(name, "kernel");
#endif
    fake_core()->attach_error = 802;
    assert_int_equal(cudaLaunchKernel(&host_function, one, warp, NULL, 0, 0), 802);
    __cudaUnregisterFatBinary(handle);
    assert_int_equal(fake_core()->images_removed, 1);
}

TEST_WITH(launches_in_every_form, runtime_begin, NULL)
{
    void **handle = register_image("kernel");
    int argument = 5;
    void *arguments[] = {&argument};
    assert_int_equal(cudaLaunchKernel(&host_function, (dim3){2, 3, 4}, (dim3){5, 6, 7}, arguments, 100,
                                      CORE_STREAM_LEGACY), 0);
    const struct core_launch *launch = &fake_core()->launch;
    assert_string_equal(fake_core()->launch_name, "kernel");
    assert_int_equal(launch->grid[0] * 100 + launch->grid[1] * 10 + launch->grid[2], 234);
    assert_int_equal(launch->block[0] * 100 + launch->block[1] * 10 + launch->block[2], 567);
    assert_int_equal(launch->shared, 100);
    assert_int_equal(launch->stream, CORE_STREAM_LEGACY);
    assert_ptr_equal(launch->arguments, arguments);
    assert_false(launch->cooperative);
    assert_int_equal(cudaLaunchKernel_ptsz(&host_function, one, warp, arguments, 0, 0), 0);
    assert_int_equal(launch->stream, CORE_STREAM_PER_THREAD);
    assert_int_equal(cudaLaunchCooperativeKernel(&host_function, one, warp, arguments, 0, 0), 0);
    assert_true(launch->cooperative);
#if FLYT_CUDART >= 12
    const void *kernel = NULL;
    assert_int_equal(__cudaGetKernel(&kernel, &host_function), 0);
    assert_int_equal(__cudaLaunchKernel(kernel, one, warp, arguments, 0, 0), 0);
    assert_false(launch->cooperative);
    /* the handle is also a function to every other call */
    assert_int_equal(cudaFuncSetCacheConfig(kernel, 1), 0);
    assert_int_equal(fake_core()->launches, 4);
#endif
    /* after a reset the context comes back with the launch */
    int launches = fake_core()->launches, activations = fake_core()->activations;
    assert_int_equal(cudaDeviceReset(), 0);
    assert_int_equal(cudaLaunchKernel(&host_function, one, warp, arguments, 0, 0), 0);
    assert_int_equal(fake_core()->launches, launches + 1);
    assert_int_equal(fake_core()->activations, activations + 1);
    /* an error that stays is the answer, whatever else is wrong with the launch */
    fake_core()->sticky = 700;
    assert_int_equal(cudaLaunchKernel(&launches, one, warp, arguments, 0, 0), 700);
    assert_int_equal(cudaLaunchKernel(&host_function, one, warp, arguments, 0, 0), 700);
    fake_core()->sticky = 0;
    __cudaUnregisterFatBinary(handle);
    assert_int_equal(cudaLaunchKernel(&host_function, one, warp, arguments, 0, 0), NO_KERNEL);
    assert_int_equal(cudaGetLastError(), NO_KERNEL);
}

TEST_WITH(bad_launches_are_told_at_once, runtime_begin, NULL)
{
    void **handle = register_image("kernel");
    const dim3 bad_grids[] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0x80000000u, 1, 1}, {1, 65536, 1}, {1, 1, 65536}};
    const dim3 bad_blocks[] = {{0, 1, 1}, {1025, 1, 1}, {1, 1025, 1}, {1, 1, 65}, {1024, 2, 1}, {32, 32, 2},
                               {1u << 31, 2, 1}};
    /* from 13 on the core looks at dimensions, which is not here */
    for (size_t i = 0; FLYT_CUDART < 13 && i < sizeof bad_grids / sizeof bad_grids[0]; i++) {
        assert_int_equal(cudaLaunchKernel(&host_function, bad_grids[i], warp, NULL, 0, 0), 9);
        assert_int_equal(cudaGetLastError(), 9);
    }
    for (size_t i = 0; FLYT_CUDART < 13 && i < sizeof bad_blocks / sizeof bad_blocks[0]; i++)
        assert_int_equal(cudaLaunchKernel(&host_function, one, bad_blocks[i], NULL, 0, 0), 9);
    assert_int_equal(cudaLaunchKernel(&other_function, one, warp, NULL, 0, 0), NO_KERNEL);
    assert_int_equal(cudaLaunchKernel(NULL, one, warp, NULL, 0, 0), 98);
    fake_core()->next_error = 1;                             /* what the core says of too much shared memory */
    assert_int_equal(cudaLaunchKernel(&host_function, one, warp, NULL, 1 << 20, 0), 1);
    assert_int_equal(fake_core()->launches, 0);
    assert_int_equal(cudaLaunchKernel(&host_function, one, (dim3){16, 16, 4}, NULL, 0, 0), 0);
    __cudaUnregisterFatBinary(handle);
}

TEST_WITH(extended_launches_carry_attributes, runtime_begin, NULL)
{
    void **handle = register_image("kernel");
    cudaLaunchAttribute attributes[3] = {
        {.id = cudaLaunchAttributeIgnore},
        {.id = cudaLaunchAttributeCooperative, .val.cooperative = 1},
        {.id = cudaLaunchAttributeClusterDimension, .val.clusterDim = {2, 1, 1}},
    };
    cudaLaunchConfig_t config = {.gridDim = one, .blockDim = warp, .dynamicSmemBytes = 8, .stream = 1,
                                 .attrs = attributes, .numAttrs = 3};
    assert_int_equal(cudaLaunchKernelExC(&config, &host_function, NULL), 0);
    assert_true(fake_core()->launch.cooperative);
    assert_int_equal(fake_core()->launch.attribute_count, 1);
    assert_int_equal(fake_core()->launch.stream, 1);
    assert_int_equal(cudaLaunchKernelExC(NULL, &host_function, NULL), 1);
    config.attrs = NULL;
    assert_int_equal(cudaLaunchKernelExC(&config, &host_function, NULL), 1);
    config.numAttrs = 0;
    config.gridDim.x = 0;
    assert_int_equal(cudaLaunchKernelExC(&config, &host_function, NULL), FLYT_CUDART < 13 ? 9 : 1);
    __cudaUnregisterFatBinary(handle);
}

TEST_WITH(configurations_are_a_stack, runtime_begin, NULL)
{
    dim3 grid, block;
    size_t shared;
    core_stream stream;
    assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), 52);
    for (unsigned i = 1; i <= 100; i++)
        assert_int_equal(__cudaPushCallConfiguration((dim3){i, 1, 1}, (dim3){i + 1, 1, 1}, i + 2, i + 3), 0);
    for (unsigned i = 100; i >= 1; i--) {
        assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), 0);
        assert_int_equal(grid.x, i);
        assert_int_equal(block.x, i + 1);
        assert_int_equal(shared, i + 2);
        assert_int_equal(stream, i + 3);
    }
    assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), 52);
}

/* Two translation units with a `static __global__` of one name. */
TEST_WITH(equal_names_in_two_binaries_are_two_kernels, runtime_begin, NULL)
{
    void **first = register_image("same"), **second = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(second, &other_function, NULL, "same", -1, NULL, NULL, NULL, NULL, NULL);
    assert_int_equal(cudaLaunchKernel(&host_function, one, warp, NULL, 0, 0), 0);
    const core_function *one_kernel = fake_core()->launch.function;
    assert_int_equal(cudaLaunchKernel(&other_function, one, warp, NULL, 0, 0), 0);
    assert_ptr_not_equal(fake_core()->launch.function, one_kernel);
    __cudaUnregisterFatBinary(first);
    __cudaUnregisterFatBinary(second);
}

/* A template's kernel in two shared libraries: one host address. */
TEST_WITH(one_address_in_two_binaries_outlives_either, runtime_begin, NULL)
{
    for (int order = 0; order < 2; order++) {
        void **images[] = {register_image("template"), register_image("template")};
        assert_int_equal(cudaLaunchKernel(&host_function, one, warp, NULL, 0, 0), 0);
        __cudaUnregisterFatBinary(images[order]);
        assert_int_equal(cudaLaunchKernel(&host_function, one, warp, NULL, 0, 0), 0);
        assert_string_equal(fake_core()->launch_name, "template");
        __cudaUnregisterFatBinary(images[!order]);
        assert_int_equal(cudaLaunchKernel(&host_function, one, warp, NULL, 0, 0), NO_KERNEL);
    }
}

TEST_WITH(functions_tell_about_themselves, runtime_begin, NULL)
{
    void **handle = register_image("kernel");
    cudaFuncAttributes a;
    int blocks;
    assert_int_equal(cudaFuncGetAttributes(&a, &host_function), 0);
    assert_int_equal(a.maxThreadsPerBlock, 512);
    assert_int_equal(a.localSizeBytes, 3);
    assert_int_equal(a.maxDynamicSharedSizeBytes, 49152);
    assert_int_equal(a.preferredShmemCarveout, -1);
#if FLYT_CUDART >= 12
    assert_int_equal(a.requiredClusterDepth, 8);
    assert_int_equal(a.nonPortableClusterSizeAllowed, 9);
#endif
    assert_int_equal(cudaFuncGetAttributes(NULL, &host_function), 1);
    assert_int_equal(cudaFuncGetAttributes(&a, &other_function), NO_KERNEL);
    assert_int_equal(cudaFuncSetAttribute(&host_function, 8, 65536), 0);
    assert_int_equal(fake_core()->attribute_value, 65536);
    assert_int_equal(cudaFuncSetAttribute(&host_function, 7, 1), 1);
    assert_int_equal(cudaFuncSetAttribute(&host_function, 99, 1), 1);
    assert_int_equal(cudaFuncSetCacheConfig(&host_function, 4), 1);
#if FLYT_CUDART >= 12
    size_t offset, size;
    assert_int_equal(cudaFuncGetParamInfo(&host_function, 1, &offset, &size), 0);
    assert_int_equal(offset, 8);
    assert_int_equal(size, 4);
    assert_int_equal(cudaFuncGetParamInfo(&host_function, 2, &offset, &size), 1);
#endif
    assert_int_equal(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &host_function, 256, 0), 0);
    assert_int_equal(blocks, 6);
    assert_int_equal(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &host_function, 0, 0), 1);
    assert_int_equal(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &other_function, 256, 0), NO_KERNEL);
    fake_core()->next_error = 209;                           /* no code for this GPU: told as natively */
    assert_int_equal(cudaFuncGetAttributes(&a, &host_function), 209);
    __cudaUnregisterFatBinary(handle);
}

TEST_WITH(symbols, runtime_begin, NULL)
{
    void **handle = register_image("kernel"), *address;
    size_t size;
    int in[4] = {1, 2, 3, 4}, out[4] = {0};
    assert_int_equal(cudaGetSymbolSize(&size, &host_variable), 0);
    assert_int_equal(size, 16);
    assert_int_equal(cudaMemcpyToSymbol(&host_variable, in, 16, 0, 1), 0);
    assert_int_equal(cudaMemcpyFromSymbol(out, &host_variable, 8, 8, 2), 0);
    assert_int_equal(out[0], 3);
    assert_int_equal(cudaMemcpyToSymbol(&host_variable, in, 16, 1, 1), 1);
    assert_int_equal(cudaMemcpyToSymbol(&host_variable, in, SIZE_MAX, 8, 1), 1);
    assert_int_equal(cudaMemcpyToSymbol(&host_variable, in, 4, 0, 2), 21);
    assert_int_equal(cudaMemcpyFromSymbol(out, &host_variable, 4, 0, 1), 21);
    assert_int_equal(cudaGetSymbolAddress(&address, &host_variable), 0);
    assert_int_equal(cudaMemcpy(out, address, 16, 4), 0);
    assert_int_equal(out[3], 4);
    assert_int_equal(cudaGetSymbolAddress(&address, &other_function), 13);
    assert_int_equal(cudaGetSymbolAddress(&address, &missing_variable), 13);
    assert_int_equal(cudaGetSymbolAddress(NULL, &host_variable), 1);
    __cudaUnregisterFatBinary(handle);
    assert_int_equal(cudaMemcpyToSymbol(&host_variable, in, 4, 0, 1), 13);
}

TEST_WITH(managed_variables_get_their_slots, runtime_begin, NULL)
{
    void *slot = NULL, *missing = NULL, *address;
    void **handle = __cudaRegisterFatBinary(&wrapper);
    size_t size;
    assert_int_equal(__cudaInitModule(handle), 1);
    __cudaRegisterManagedVar(handle, &slot, NULL, "managed", 0, 4, 0, 0);
    assert_int_equal(__cudaInitModule(handle), 1);
    assert_int_equal(cudaGetLastError(), 0);
    assert_non_null(slot);
    assert_int_equal(cudaGetSymbolAddress(&address, &slot), 0);
    assert_ptr_equal(address, slot);
    assert_int_equal(cudaGetSymbolSize(&size, &slot), 0);
    assert_int_equal(size, 4);
    __cudaRegisterManagedVar(handle, &missing, NULL, "missing", 0, 4, 0, 0);
    assert_int_equal(__cudaInitModule(handle), 1);
    assert_int_equal(cudaGetLastError(), 13);
    assert_null(missing);
    __cudaUnregisterFatBinary(handle);
}

/* ---- the table under it ---- */

TEST_WITH(the_table_grows_and_forgets, runtime_begin, NULL)
{
    enum { KEYS = 5000 };
    static char keys[KEYS];
    static struct registry registry;
    for (int i = 0; i < KEYS; i++)
        assert_true(registry_set(&registry, &keys[i], &keys[KEYS - 1 - i]));
    for (int i = 0; i < KEYS; i += 2)
        assert_true(registry_set(&registry, &keys[i], NULL));
    for (int i = 0; i < KEYS; i++)
        assert_ptr_equal(registry_find(&registry, &keys[i]), i % 2 ? &keys[KEYS - 1 - i] : NULL);
    for (int round = 0; round < 1000; round++) {             /* a library loaded and unloaded, always at one address */
        assert_true(registry_set(&registry, &keys[0], keys));
        assert_true(registry_set(&registry, &keys[0], NULL));
    }
    assert_null(registry_find(&registry, NULL));
    for (struct registry_table *table = registry.table, *older; table; table = older) {
        older = table->older;
        free(table);
    }
}

static struct registry shared_registry;
static atomic_bool stop;
static char stable_key, moving_keys[4096];

static void *read_always(void *failures)
{
    while (!stop)
        if (registry_find(&shared_registry, &stable_key) != &stable_key)
            ++*(int *)failures;
    return NULL;
}

TEST_WITH(readers_never_miss_a_key_while_others_come_and_go, runtime_begin, NULL)
{
    int failures = 0;
    pthread_t thread;
    assert_true(registry_set(&shared_registry, &stable_key, &stable_key));
    assert_int_equal(pthread_create(&thread, NULL, read_always, &failures), 0);
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof moving_keys; i++)
            registry_set(&shared_registry, &moving_keys[i], round % 2 ? NULL : moving_keys);
    stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(failures, 0);
}

int code_tests(void)
{
    return unit_run(NULL, NULL);
}
