/* shows: Software GPU contexts: several on one device, each with its own streams, modules, memory, limits, heap and
 *   printf; the stack of contexts; ends */
/* test_contexts.c: the context is the unit: what belongs to it, what it shares with the others of its device, how it
 * ends. */
#include "softgpu_test.h"
#include "kernels.h"

#include <pthread.h>
#include <unistd.h>

#if CUDA_VERSION >= 13000                                /* the header of 13 declares its successor only */
CUresult cuCtxCreate_v3(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice);
#endif

static CUcontext create(unsigned flags)
{
    CUcontext c;
#if CUDA_VERSION >= 13000
    OK(cuCtxCreate(&c, NULL, flags, 0));
#else
    OK(cuCtxCreate(&c, flags, 0));
#endif
    return c;
}

static CUfunction function_of(const char *ptx, const char *name)
{
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoadData(&m, ptx));
    OK(cuModuleGetFunction(&f, m, name));
    return f;
}

static void run_one(CUfunction f, CUstream stream, void **arguments)
{
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

/* Recursion, so that the stack's limit counts: n calls with 64 bytes each. */
static const char ptx_deep[] =
    PTX_HEAD ".func deep(.param .b32 n);\n"
             ".func deep(.param .b32 n)\n{\n    .local .align 8 .b8 frame[64]; .reg .b32 %r<3>; .reg .pred %p<2>;\n"
             "    ld.param.b32 %r1, [n]; st.local.u32 [frame], %r1; sub.u32 %r2, %r1, 1; setp.eq.u32 %p1, %r1, 0;\n    "
             "@%p1 ret;\n"
             "    { .param .b32 x; st.param.b32 [x], %r2; call.uni deep, (x); }\n    ret;\n}\n"
             ".visible .entry dive(.param .u32 n)\n{\n    .reg .b32 %r<2>; ld.param.u32 %r1, [n];\n"
             "    { .param .b32 x; st.param.b32 [x], %r1; call.uni deep, (x); }\n    ret;\n}\n";

/* *out = malloc(n) */
static const char ptx_malloc[] = PTX_HEAD
    ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
    ".visible .entry take(.param .u64 out, .param .u64 n)\n{\n    .reg .b64 %rd<4>;\n    ld.param.u64 %rd1, [out]; "
    "ld.param.u64 %rd2, [n];\n"
    "    { .param .b64 x; .param .b64 y; st.param.b64 [x], %rd2; call.uni (y), malloc, (x); ld.param.b64 %rd3, [y]; }\n"
    "    st.global.u64 [%rd1], %rd3;\n    ret;\n}\n";

/* printf("<\n") */
static const char ptx_print[] = PTX_HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
                                         ".global .align 1 .b8 text[3] = {60, 10, 0};\n"
                                         ".visible .entry say()\n{\n    .reg .b64 %rd<3>;\n    mov.u64 %rd1, text; "
                                         "cvta.global.u64 %rd1, %rd1; mov.u64 %rd2, 0;\n"
                                         "    { .param .b64 x; .param .b64 y; .param .b32 z; st.param.b64 [x], %rd1; "
                                         "st.param.b64 [y], %rd2; call.uni (z), vprintf, (x, y); }\n"
                                         "    ret;\n}\n";

/* No context is current when a test begins. */
static int empty_stack(void **state)
{
    (void)state;
    CUcontext c;
    while (cuCtxPopCurrent(&c) == CUDA_SUCCESS)
        ;
    return 0;
}

TEST_WITH(each_has_its_own, empty_stack, NULL)
{
    CUcontext a = create(0), b = create(0), c;
    assert_ptr_not_equal(a, b);
    CUmodule in_b, in_a;
    CUfunction bump_b, bump_a;
    CUstream stream_b, stream_a;
    CUevent event_b;
    CUdeviceptr counter_b, counter_a, memory_b;
    size_t size;
    OK(cuModuleLoadData(&in_b, ptx_variables));
    OK(cuModuleGetFunction(&bump_b, in_b, "bump"));
    OK(cuModuleGetGlobal(&counter_b, &size, in_b, "counter"));
    OK(cuStreamCreate(&stream_b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event_b, 0));
    OK(cuMemAlloc(&memory_b, 4096));
    OK(cuStreamGetCtx(stream_b, &c));
    assert_ptr_equal(c, b);
    OK(cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_CONTEXT, memory_b));
    assert_ptr_equal(c, b);

    OK(cuCtxSetCurrent(a));
    OK(cuModuleLoadData(&in_a, ptx_variables));
    OK(cuModuleGetFunction(&bump_a, in_a, "bump"));
    OK(cuModuleGetGlobal(&counter_a, &size, in_a, "counter"));
    OK(cuStreamCreate(&stream_a, 0));
    assert_true(counter_a != counter_b);
    unsigned got;
    void *arguments[] = { &memory_b };                   /* device memory is one for all contexts of a device */
    run_one(bump_a, stream_a, arguments);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&got, memory_b, 4));
    assert_int_equal(got, 5 + 30);
    OK(cuMemcpyDtoH(&got, counter_a, 4));
    assert_int_equal(got, 6);
    OK(cuMemcpyDtoH(&got, counter_b, 4));
    assert_int_equal(got, 5);
    /* A function runs in streams of its own context only; an event is recorded in its own only, and waited for in
     * any. */
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(bump_b, 1, 1, 1, 1, 1, 1, 0, stream_a, arguments, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(bump_b, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    OK(cuLaunchKernel(bump_b, 1, 1, 1, 1, 1, 1, 0, stream_b, arguments, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event_b, stream_a));
    OK(cuEventRecord(event_b, stream_b));
    OK(cuStreamWaitEvent(stream_a, event_b, 0));
    OK(cuStreamSynchronize(stream_a));
    OK(cuEventQuery(event_b));

    OK(cuCtxDestroy(b));                                 /* all that is b's goes, nothing else */
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream_b));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event_b));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(in_b));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(memory_b));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&got, counter_b, 4));
    OK(cuStreamQuery(stream_a));
    OK(cuMemcpyDtoH(&got, counter_a, 4));
    assert_int_equal(got, 6);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(counter_a));       /* the module's, not the program's */
    OK(cuCtxDestroy(a));
}

/* The legacy default streams of two contexts do not wait for each other. */
TEST_WITH(default_streams, empty_stack, NULL)
{
    CUcontext a = create(0), b = create(0);
    volatile unsigned *gate;
    OK(cuMemHostAlloc((void **)(uintptr_t)&gate, 4, CU_MEMHOSTALLOC_PORTABLE));
    *gate = 0;
    OK(cuCtxSetCurrent(a));
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)gate, p;
    void *arguments[] = { &at };
    run_one(function_of(ptx_faults, "spin"), NULL, arguments);
    OK(cuCtxPushCurrent(b));
    unsigned got = 0;
    OK(cuMemAlloc(&p, 4));
    OK(cuMemsetD32(p, 7, 1));
    OK(cuMemcpyDtoH(&got, p, 4));
    OK(cuCtxSynchronize());
    assert_int_equal(got, 7);
    OK(cuCtxPopCurrent(&b));
    FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    *gate = 1;
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy(a));
    OK(cuCtxDestroy(b));
}

TEST_WITH(limits, empty_stack, NULL)
{
    enum { STACK = 16384, DEPTH = 100 };                 /* 100 calls need more than the 1024 bytes of a new context */
    size_t got;
    unsigned depth = DEPTH;
    void *arguments[] = { &depth };
    CUcontext a = create(0);
    CUfunction dive = function_of(ptx_deep, "dive");
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, STACK));
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 4 * MIB));
    CUcontext b = create(0);                             /* leaves a's limits alone */
    OK(cuCtxGetLimit(&got, CU_LIMIT_STACK_SIZE));
    assert_int_equal(got, 1024);
    OK(cuCtxSetCurrent(a));
    OK(cuCtxGetLimit(&got, CU_LIMIT_STACK_SIZE));
    assert_int_equal(got, STACK);
    OK(cuCtxGetLimit(&got, CU_LIMIT_PRINTF_FIFO_SIZE));
    assert_int_equal(got, 4 * MIB);
    run_one(dive, NULL, arguments);
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy(b));
    run_one(dive, NULL, arguments);
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy(a));
}

/* A kernel that calls nothing, beside one that calls malloc() through a function, and one that calls by pointer a
   function that does. */
static const char ptx_heaps[] = PTX_HEAD
    ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
    ".func take\n{\n    { .param .b64 x; .param .b64 y; st.param.b64 [x], 16; call.uni (y), malloc, (x); }\n"
    "    ret;\n}\n"
    ".visible .entry none()\n{\n    ret;\n}\n"
    ".visible .entry calls()\n{\n    call take;\n    ret;\n}\n"
    ".visible .entry points()\n{\n    .reg .b64 %a;\n    mov.b64 %a, take;\n"
    "    P: .callprototype _ ();\n    call %a, (), P;\n    ret;\n}\n";

static uint64_t device_malloc(uint64_t size)
{
    CUfunction take = function_of(ptx_malloc, "take");
    CUdeviceptr out;
    uint64_t at = 1;
    OK(cuMemAlloc(&out, 8));
    void *arguments[] = { &out, &size };
    run_one(take, NULL, arguments);
    OK(cuMemcpyDtoH(&at, out, 8));
    OK(cuMemFree(out));
    return at;
}

/* The size counts that was set before the first launch, although the module, and with it a heap, exists already. */
TEST_WITH(heap_of_a_loaded_module, empty_stack, NULL)
{
    size_t before, grown, got;
    CUcontext c = create(0);
    function_of(ptx_malloc, "take");
    OK(cuMemGetInfo(&before, &got));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
    OK(cuMemGetInfo(&grown, &got));
    assert_int_equal(before - grown, 56 * MIB);          /* it was 8 MiB */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)1 << 50));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, got));
    OK(cuCtxGetLimit(&got, CU_LIMIT_MALLOC_HEAP_SIZE));
    assert_int_equal(got, 64 * MIB);                     /* it has stayed */
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB));
    assert_true(device_malloc(16 * MIB) != 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB));
    OK(cuCtxDestroy(c));
}

/* It is the kernel that counts, not its module. */
TEST_WITH(heap_of_a_kernel, empty_stack, NULL)
{
    static const char *const users[] = { "calls", "points" };
    for (int i = 0; i < 2; i++) {
        CUcontext c = create(0);
        CUfunction none = function_of(ptx_heaps, "none"), user = function_of(ptx_heaps, users[i]);
        run_one(none, NULL, NULL);
        OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB));
        run_one(user, NULL, NULL);
        OK(cuCtxSynchronize());
        FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
        OK(cuCtxDestroy(c));
    }
}

TEST_WITH(heaps, empty_stack, NULL)
{
    CUcontext a = create(0);
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * MIB));
    uint64_t in_a = device_malloc(1 * MIB);
    assert_true(in_a != 0);
    assert_true(device_malloc(4 * MIB) == 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 4 * MIB));   /* a has its heap */
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(in_a));    /* malloc()'s, not the program's */
    CUcontext b = create(0);
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB));
    assert_true(device_malloc(16 * MIB) != 0);
    OK(cuCtxDestroy(b));
    OK(cuMemsetD8(in_a, 1, 1 * MIB));                    /* a's heap is still there */
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy(a));
}

/* What synchronising writes to stdout. */
static size_t printed_by_synchronising(void)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stdout);
    int before = dup(1);
    dup2(fileno(f), 1);
    CUresult r = cuCtxSynchronize();
    fflush(stdout);
    dup2(before, 1);
    close(before);
    assert_int_equal(r, CUDA_SUCCESS);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fclose(f);
    return (size_t)size;
}

/* Synchronising a context writes what its own kernels have printed. */
TEST_WITH(printing, empty_stack, NULL)
{
    CUcontext a = create(0);
    CUevent said;
    OK(cuEventCreate(&said, 0));
    run_one(function_of(ptx_print, "say"), NULL, NULL);
    OK(cuEventRecord(said, NULL));
    while (cuEventQuery(said) == CUDA_ERROR_NOT_READY)   /* asking writes nothing */
        usleep(100);
    CUcontext b = create(0);
    assert_int_equal(printed_by_synchronising(), 0);
    OK(cuCtxSetCurrent(a));
    assert_int_equal(printed_by_synchronising(), 2);
    assert_int_equal(printed_by_synchronising(), 0);
    OK(cuCtxDestroy(a));
    OK(cuCtxDestroy(b));
}

TEST_WITH(flags, empty_stack, NULL)
{
    unsigned got;
    CUcontext c = create(CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_LMEM_RESIZE_TO_MAX), bad;
    OK(cuCtxGetFlags(&got));
    assert_int_equal(got, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_LMEM_RESIZE_TO_MAX);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxGetFlags(NULL));
    OK(cuCtxDestroy(c));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetFlags(&got));
#if CUDA_VERSION >= 13000
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&bad, NULL, 3, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&bad, NULL, 0, 5));
#else
    FAILS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&bad, 3, 0));
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&bad, 0, 5));
#endif
    CUexecAffinityParam two = { .type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 2 }, of;
    OK(cuCtxCreate_v3(&c, &two, 1, CU_CTX_SCHED_YIELD, 0));
    OK(cuCtxGetFlags(&got));
    assert_int_equal(got, CU_CTX_SCHED_YIELD);
    OK(cuCtxGetExecAffinity(&of, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    assert_int_equal(of.param.smCount.val, 2);
    OK(cuCtxDestroy(c));
#if CUDA_VERSION >= 12050
    CUctxCreateParams params = { .execAffinityParams = &two, .numExecAffinityParams = 1 };
    OK(cuCtxCreate_v4(&c, &params, CU_CTX_SCHED_SPIN, 0));
    OK(cuCtxGetFlags(&got));
    assert_int_equal(got, CU_CTX_SCHED_SPIN);
    OK(cuCtxDestroy(c));
#endif
}

TEST_WITH(the_stack_of_contexts, empty_stack, NULL)
{
    CUcontext a = create(0), b = create(0), got;          /* each is pushed by its creation */
    OK(cuCtxPushCurrent(a));
    OK(cuCtxPopCurrent(&got));
    assert_ptr_equal(got, a);
    OK(cuCtxPopCurrent(&got));
    assert_ptr_equal(got, b);
    OK(cuCtxGetCurrent(&got));
    assert_ptr_equal(got, a);
    OK(cuCtxDestroy(b));                                 /* not current: the stack stays */
    OK(cuCtxGetCurrent(&got));
    assert_ptr_equal(got, a);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(b));
    OK(cuCtxDestroy(a));                                 /* current: it is popped */
    OK(cuCtxGetCurrent(&got));
    assert_null(got);
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&got));
}

struct waiter { CUcontext context; CUstream stream; CUresult entered, waited; pthread_barrier_t begun; };

static void *wait_in_stream(void *argument)
{
    struct waiter *w = argument;
    w->entered = cuCtxSetCurrent(w->context);
    pthread_barrier_wait(&w->begun);
    w->waited = cuStreamSynchronize(w->stream);
    return NULL;
}

static void *open_gate(void *gate)
{
    usleep(20000);                                       /* after the main thread has gone into cuCtxDestroy, mostly */
    *(volatile unsigned *)gate = 1;
    return NULL;
}

/* cuCtxDestroy waits for the context's work and for threads that wait for it. With affinity its machine goes too. */
TEST_WITH(destroyed_while_others_wait, empty_stack, NULL)
{
    CUcontext keep = create(0);
    unsigned *gate;
    OK(cuMemHostAlloc((void **)&gate, 4, CU_MEMHOSTALLOC_PORTABLE));
    for (int round = 0; round < 6; round++) {
        CUexecAffinityParam one = { .type = CU_EXEC_AFFINITY_TYPE_SM_COUNT, .param.smCount.val = 1 };
        struct waiter w = { .waited = CUDA_ERROR_UNKNOWN };
        CUdeviceptr at = (CUdeviceptr)(uintptr_t)gate;
        void *arguments[] = { &at };
        pthread_t waiting, opening;
        *gate = 0;
        OK(cuCtxCreate_v3(&w.context, &one, 1, 0, 0));
        OK(cuStreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
        run_one(function_of(ptx_faults, "spin"), w.stream, arguments);
        pthread_barrier_init(&w.begun, NULL, 2);
        assert_int_equal(pthread_create(&waiting, NULL, wait_in_stream, &w), 0);
        assert_int_equal(pthread_create(&opening, NULL, open_gate, gate), 0);
        pthread_barrier_wait(&w.begun);
        OK(cuCtxDestroy(w.context));
        pthread_join(waiting, NULL);
        pthread_join(opening, NULL);
        pthread_barrier_destroy(&w.begun);
        assert_int_equal(w.entered, CUDA_SUCCESS);       /* it waited, or came when the context was ending or gone */
        assert_true(w.waited == CUDA_SUCCESS || w.waited == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
                    w.waited == CUDA_ERROR_INVALID_HANDLE);
    }
    OK(cuMemFreeHost(gate));
    OK(cuCtxDestroy(keep));
}

struct loader { CUcontext context; CUresult loaded; pthread_barrier_t begun; };

static void *load_modules(void *argument)
{
    struct loader *l = argument;
    CUmodule m;
    OK(cuCtxSetCurrent(l->context));
    pthread_barrier_wait(&l->begun);
    while (!(l->loaded = cuModuleLoadData(&m, ptx_variables)))
        ;
    return NULL;
}

/* A module that another thread is loading when its context ends. */
TEST_WITH(destroyed_while_loading, empty_stack, NULL)
{
    for (int round = 0; round < 10; round++) {
        struct loader l = { .context = create(0) };
        pthread_t thread;
        pthread_barrier_init(&l.begun, NULL, 2);
        assert_int_equal(pthread_create(&thread, NULL, load_modules, &l), 0);
        pthread_barrier_wait(&l.begun);
        usleep((useconds_t)(round * 100));
        OK(cuCtxDestroy(l.context));
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&l.begun);
        assert_int_equal(l.loaded, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
}

static void *retain_and_use(void *argument)
{
    CUcontext c;
    CUdeviceptr p;
    (void)argument;
    for (int i = 0; i < 200; i++) {
        OK(cuDevicePrimaryCtxRetain(&c, 0));
        OK(cuCtxSetCurrent(c));
        CUresult r = cuMemAlloc(&p, 4096);               /* a reset may be between the two calls */
        assert_true(r == CUDA_SUCCESS || r == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    return NULL;
}

/* The primary context may be retained while another thread resets it. */
TEST_WITH(reset_while_retained, empty_stack, NULL)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, retain_and_use, NULL), 0);
    for (int i = 0; i < 100; i++)
        OK(cuDevicePrimaryCtxReset(0));
    pthread_join(thread, NULL);
    for (int i = 0; i < 200; i++)
        OK(cuDevicePrimaryCtxRelease(0));
}

static CUresult prefetch(CUdeviceptr at, size_t size, CUdevice to, CUstream stream)
{
#if CUDA_VERSION >= 13000
    CUmemLocation where = { .type = to == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                            .id = to };
    return cuMemPrefetchAsync(at, size, where, 0, stream);
#else
    return cuMemPrefetchAsync(at, size, to, stream);
#endif
}

/* Managed memory is where everybody sees it, so prefetching moves nothing; its arguments are checked. */
TEST_WITH(prefetching, empty_stack, NULL)
{
    CUcontext c = create(0);
    CUdeviceptr managed, plain;
    CUstream stream;
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&plain, 4096));
    OK(cuMemsetD32Async(managed, 99, 1024, stream));
    OK(prefetch(managed, 4096, 0, stream));
    OK(prefetch(managed + 1024, 1024, CU_DEVICE_CPU, stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 1024; i++)
        assert_int_equal(((unsigned *)(uintptr_t)managed)[i], 99);
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch(plain, 4096, 0, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch(managed, 8192, 0, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, prefetch(managed, 0, 0, stream));
    FAILS(CUDA_ERROR_INVALID_DEVICE, prefetch(managed, 4096, 9, stream));
    FAILS(CUDA_ERROR_INVALID_HANDLE, prefetch(managed, 4096, 0, (CUstream)(uintptr_t)0x1234560));
    OK(cuMemFree(managed));
    OK(cuCtxDestroy(c));
}

static int start(void **state)
{
    (void)state;
    return cuInit(0) ? -1 : 0;
}

int main(void) { return unit_run(start, NULL); }
