/* shows: Software GPU code: PTX text, fat binaries, device-linked programs, libraries, variables and initial values,
 *   refusals with a log */
/* test_modules.c: the forms in which code comes, variables, what is refused and how that is explained; bodies of
   functions are read when a kernel needs them, which nobody notices. */
#include "softgpu_test.h"
#include "kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

TEST(variables_and_initial_values)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr at, out;
    size_t size;
    unsigned got, table[4];
    OK(cuModuleLoadData(&m, ptx_variables));
    OK(cuModuleGetGlobal(&at, &size, m, "counter"));
    assert_int_equal(size, 4);
    OK(cuMemcpyDtoH(&got, at, 4));
    assert_int_equal(got, 5);
    OK(cuModuleGetGlobal(&at, &size, m, "table"));
    assert_int_equal(size, 16);
    OK(cuMemcpyDtoH(table, at, 16));
    assert_int_equal(table[3], 40);
    OK(cuModuleGetGlobal(NULL, &size, m, "blank"));
    assert_int_equal(size, 1000);
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal(&at, &size, m, "nothing"));
    OK(cuModuleGetFunction(&f, m, "bump"));
    OK(cuMemAlloc(&out, 4));
    void *params[] = { &out };
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(&got, out, 4));
    assert_int_equal(got, 35);
    OK(cuMemcpyHtoD(at, table, 16));
    table[2] = 100;
    OK(cuMemcpyHtoD(at, table, 16));         /* cudaMemcpyToSymbol */
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(&got, out, 4));
    assert_int_equal(got, 106);
    OK(cuModuleUnload(m));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(m));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(at, table, 16));
    OK(cuMemFree(out));
}

TEST(refused)
{
    CUmodule m;
    CUfunction f;
    char log[4096] = "x";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)sizeof log };
    FAILS(CUDA_ERROR_INVALID_PTX,
          cuModuleLoadDataEx(&m, PTX_HEAD ".visible .entry k() { add.u32 %r1, \n", 2, options, values));
    assert_true(strlen(log) > 5);
    assert_int_equal((size_t)values[1], strlen(log));
    FAILS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&m, "\001\002\003\004garbage"));
    static const unsigned char elf[128] = "\177ELF\002\001\001";
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&m, elf));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&m, NULL));
    FAILS(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&m, "/nonexistent.ptx"));

    size_t (*last_log)(char *, size_t) = (size_t (*)(char *, size_t))dlsym(RTLD_DEFAULT, "softgpu_last_log");
    assert_non_null(last_log);
    OK(cuModuleLoadData(&m, ptx_strange));
    CUresult r = cuModuleGetFunction(&f, m, "strange");
    assert_int_not_equal(r, CUDA_SUCCESS);
    assert_true(last_log(log, sizeof log) > 0);
    assert_non_null(strstr(log, "frobnicate"));
    OK(cuModuleGetFunction(&f, m, "fine"));  /* the others work */
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxSynchronize());
    FAILS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, m, "missing"));
    OK(cuModuleUnload(m));
}

TEST(files)
{
    char path[] = "/tmp/softgpu_test_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, ptx_axpy, sizeof ptx_axpy - 1), (ssize_t)sizeof ptx_axpy - 1);
    close(fd);
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoad(&m, path));
    unlink(path);
    OK(cuModuleGetFunction(&f, m, "axpy"));
    OK(cuModuleUnload(m));
}

/* What nvcc makes: a fat binary with machine code and PTX for two architectures. */
static void *nvcc(const char *options, const char *source, size_t *size)
{
    char dir[] = "/tmp/softgpu_nvcc_XXXXXX", command[1024], path[64];
    const char *compiler = getenv("NVCC") ? getenv("NVCC") : "/usr/local/cuda/bin/nvcc";
    if (access(compiler, X_OK) || !mkdtemp(dir))
        return NULL;
    snprintf(path, sizeof path, "%s/k.cu", dir);
    FILE *f = fopen(path, "w");
    fputs(source, f);
    fclose(f);
    snprintf(command, sizeof command, "cd %s && %s %s k.cu -o k.out >nvcc.log 2>&1", dir, compiler, options);
    void *data = NULL;
    *size = 0;
    if (!system(command)) {
        snprintf(path, sizeof path, "%s/k.out", dir);
        f = fopen(path, "rb");
        fseek(f, 0, SEEK_END);
        *size = (size_t)ftell(f);
        rewind(f);
        data = malloc(*size);
        if (fread(data, 1, *size, f) != *size)
            *size = 0;
        fclose(f);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command))
        perror(command);
    return data;
}

static const char source[] =
    "__device__ int which = __LINE__;\n"
    "extern \"C\" __global__ void arch(int *out) {\n"
    "#ifdef __CUDA_ARCH__\n"
    "    *out = __CUDA_ARCH__;\n"
    "#endif\n"
    "}\n";

TEST(fat_binary)
{
    size_t size;
    void *fat =
        nvcc("-fatbin -gencode arch=compute_75,code=compute_75 -gencode arch=compute_80,code=[sm_80,compute_80]",
             source, &size);
    if (!fat)
        skip();
    struct { unsigned magic, version; const void *data, *extra; } wrapper = { 0x466243B1, 1, fat, NULL };
    const void *forms[] = { fat, &wrapper };
    for (int i = 0; i < 2; i++) {
        CUmodule m;
        CUfunction f;
        CUdeviceptr out;
        int got = 0;
        OK(i ? cuModuleLoadFatBinary(&m, forms[i]) : cuModuleLoadData(&m, forms[i]));
        OK(cuModuleGetFunction(&f, m, "arch"));
        OK(cuMemAlloc(&out, 4));
        void *params[] = { &out };
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(&got, out, 4));
        assert_int_equal(got, 800);          /* the highest that is not above the device's */
        OK(cuMemFree(out));
        OK(cuModuleUnload(m));
    }
    free(fat);
    void *machine_code = nvcc("-fatbin -gencode arch=compute_80,code=sm_80", source, &size);
    assert_non_null(machine_code);
    CUmodule m;
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&m, machine_code));
    free(machine_code);
}

/* NVIDIA's libraries are often made with a newer compiler than the driver has. A GPU runs their machine code. */
TEST(newer_ptx)
{
    static const char *codes[] = { "[sm_80,compute_80]", "compute_80" };
    for (int alone = 0; alone < 2; alone++) {
        char options[128];
        size_t size;
        CUmodule m;
        CUfunction f;
        snprintf(options, sizeof options, "-fatbin --compress-mode=none -gencode arch=compute_80,code=%s",
                 codes[alone]);
        char *fat = nvcc(options, source, &size), *version = fat ? memmem(fat, size, ".version ", 9) : NULL;
        if (!fat)
            skip();
        assert_non_null(version);
        memcpy(version + 9, "9.7", 3);
        if (alone) {
            FAILS(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, cuModuleLoadData(&m, fat));
        } else {
            OK(cuModuleLoadData(&m, fat));
            OK(cuModuleGetFunction(&f, m, "arch"));
            OK(cuModuleUnload(m));
        }
        free(fat);
    }
}

/* nvcc -maxrregcount: the PTX does not say it, only the options in the fat binary. A kernel with bounds of its own is
   not bound. */
TEST(register_bound_of_the_fat_binary)
{
#define BUSY "float v[60];" \
             "for (int i = 0; i < 60; i++) v[i] = p[i * n];" \
             "for (int j = 0; j < n; j++)" \
             "for (int i = 0; i < 60; i++) v[i] = v[i] * v[(i + 7) % 60] + 1;" \
             "for (int i = 0; i < 60; i++) p[i * n] = v[i];"
    size_t size;
    void *fat = nvcc("-fatbin -arch=compute_75 -maxrregcount=48 -Xptxas -dlcm=ca",
                     "extern \"C\" __global__ void plain(float *p, int n) { " BUSY " }\n"
                     "extern \"C\" __global__ void __launch_bounds__(256) bounded(float *p, int n) { " BUSY " }\n",
                     &size);
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    int registers, n = 0;
    if (!fat)
        skip();
    OK(cuModuleLoadData(&m, fat));
    OK(cuModuleGetFunction(&f, m, "bounded"));
    OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    assert_in_range(registers, 49, 255);
    OK(cuModuleGetFunction(&f, m, "plain"));
    OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    assert_in_range(registers, 24, 48);
    OK(cuMemAlloc(&p, 4096));
    void *params[] = { &p, &n };
    OK(cuLaunchKernel(f, 1, 1, 1, 1024, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemFree(p));
    OK(cuModuleUnload(m));
    free(fat);
}

/* What the bound spills is in the local size, whether the number of registers comes from machine code or from PTX. */
TEST(registers_that_are_spilled)
{
    static const char *const codes[] = { "compute_75", "sm_75" };
    for (int i = 0; i < 2; i++) {
        char options[64];
        size_t size;
        CUmodule m;
        CUfunction f;
        int registers, local;
        snprintf(options, sizeof options, "-fatbin -arch=%s -maxrregcount=32", codes[i]);
        void *fat = nvcc(options, "extern \"C\" __global__ void plain(float *p, int n) { " BUSY " }\n", &size);
        if (!fat)
            skip();
        OK(cuModuleLoadData(&m, fat));
        OK(cuModuleGetFunction(&f, m, "plain"));
        OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
        OK(cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f));
        assert_in_range(registers, 28, 32);
        assert_in_range(local, 80, 1600); /* ptxas: 784 */
        OK(cuModuleUnload(m));
        free(fat);
    }
}

/* The linker keeps the bound, and so does what it has linked. */
TEST(register_bound_of_a_link)
{
    size_t size;
    void *fat = nvcc("-fatbin -rdc=true -arch=compute_75 -maxrregcount=48",
                     "extern \"C\" __global__ void plain(float *p, int n) { " BUSY " }\n", &size);
    void *image;
    int registers;
    if (!fat)
        skip();
    for (int twice = 0; twice < 2; twice++) {
        CUlinkState link;
        CUmodule m;
        CUfunction f;
        OK(cuLinkCreate(0, NULL, NULL, &link));
        OK(cuLinkAddData(link, twice ? CU_JIT_INPUT_CUBIN : CU_JIT_INPUT_FATBINARY, fat, size, "input", 0, NULL, NULL));
        OK(cuLinkComplete(link, &image, &size));
        OK(cuModuleLoadData(&m, image));
        OK(cuModuleGetFunction(&f, m, "plain"));
        OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
        assert_in_range(registers, 24, 48);
        OK(cuModuleUnload(m));
        free(fat);
        fat = malloc(size);
        assert_non_null(fat);
        memcpy(fat, image, size);
        OK(cuLinkDestroy(link));
    }
    free(fat);
}

/* The linker, too, would take the machine code, and its result is this driver's. */
TEST(newer_ptx_linked)
{
    static const char *codes[] = { "[sm_80,compute_80]", "compute_80" };
    for (int alone = 0; alone < 2; alone++) {
        char options[128];
        size_t size;
        CUmodule m;
        CUfunction f;
        CUlinkState link;
        void *result;
        snprintf(options, sizeof options, "-fatbin --compress-mode=none -gencode arch=compute_80,code=%s",
                 codes[alone]);
        char *fat = nvcc(options, source, &size), *version = fat ? memmem(fat, size, ".version ", 9) : NULL;
        if (!fat)
            skip();
        assert_non_null(version);
        memcpy(version + 9, "9.7", 3);
        OK(cuLinkCreate(0, NULL, NULL, &link));
        CUresult added = cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, fat, size, "newer", 0, NULL, NULL);
        assert_int_equal(added, alone ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION : CUDA_SUCCESS);
        if (!alone) {
            OK(cuLinkComplete(link, &result, &size));
            OK(cuModuleLoadData(&m, result));
            OK(cuModuleGetFunction(&f, m, "arch"));
            OK(cuModuleUnload(m));
        }
        OK(cuLinkDestroy(link));
        free(fat);
    }
}

/* A device-linked program: version 2 of the wrapper lists the containers of its units, whose PTX is linked here. */
TEST(linked)
{
    size_t size;
    void *one = nvcc("-fatbin -rdc=true -arch=compute_75", "extern __device__ int twice(int);\n"
                     "extern \"C\" __global__ void k(int *out) { *out = twice(21); }\n", &size);
    void *two = nvcc("-fatbin -rdc=true -arch=compute_75", "__device__ int twice(int a) { return 2 * a; }\n", &size);
    if (!one || !two)
        skip();
    const void *units[] = { one, two, NULL };
    struct {
        unsigned magic, version;
        const void *data;
        const void *const *extra;
    } wrapper = { 0x466243B1, 2, one, units };
    CUmodule m;
    CUfunction f;
    CUdeviceptr out;
    int got;
    CUresult r = cuModuleLoadData(&m, one);  /* twice is missing: found out here or at the kernel that wants it */
    assert_int_not_equal(r ? r : cuModuleGetFunction(&f, m, "k"), CUDA_SUCCESS);
    OK(cuModuleLoadData(&m, &wrapper));
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuMemAlloc(&out, 4));
    void *params[] = { &out };
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(&got, out, 4));
    assert_int_equal(got, 42);
    OK(cuMemFree(out));
    OK(cuModuleUnload(m));
    free(one);
    free(two);
}

#if CUDA_VERSION >= 12000
TEST(libraries)
{
    CUlibrary l;
    CUkernel k;
    CUfunction f;
    CUmodule m;
    CUdeviceptr out, at;
    size_t size;
    unsigned got;
    OK(cuLibraryLoadData(&l, ptx_variables, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, l, "bump"));
    FAILS(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&k, l, "nothing"));
    OK(cuMemAlloc(&out, 4));
    void *params[] = { &out };
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));     /* a CUkernel is a CUfunction */
    OK(cuMemcpyDtoH(&got, out, 4));
    assert_int_equal(got, 35);
    OK(cuLibraryGetGlobal(&at, &size, l, "counter"));
    OK(cuMemcpyDtoH(&got, at, 4));
    assert_int_equal(got, 6);
    OK(cuKernelGetFunction(&f, k));
    OK(cuFuncGetModule(&m, f));
    CUmodule again;
    OK(cuLibraryGetModule(&again, l));
    assert_ptr_equal(m, again);
    int threads;
    OK(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 0));
    assert_int_equal(threads, 1024);
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(m));
    OK(cuMemFree(out));
    OK(cuLibraryUnload(l));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(l));
}

TEST(managed_variables)
{
    static const char ptx[] = PTX_HEAD ".visible .global .attribute(.managed) .align 4 .u32 mv = 3;\n"
                                       ".visible .entry k()\n{\n    .reg .b32 %r<2>;\n    ld.global.u32 %r1, [mv];\n   "
                                       " add.u32 %r1, %r1, 1;\n    st.global.u32 [mv], %r1;\n    ret;\n}\n";
    CUlibrary l;
    CUkernel k;
    CUdeviceptr at, same;
    size_t size;
    CUcontext c;
    OK(cuCtxPopCurrent(&c));                 /* before there is a context */
    OK(cuLibraryLoadData(&l, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetManaged(&at, &size, l, "mv"));
    assert_int_equal(size, 4);
    volatile unsigned *v = (volatile unsigned *)(uintptr_t)at;
    assert_int_equal(*v, 3);
    *v = 10;
    OK(cuCtxPushCurrent(c));
    OK(cuLibraryGetKernel(&k, l, "k"));
    OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(*v, 11);
    OK(cuLibraryGetGlobal(&same, &size, l, "mv"));
    assert_int_equal(same, at);
    OK(cuLibraryUnload(l));
}
#endif

TEST(functions_of_a_module)
{
#if CUDA_VERSION >= 12040
    CUmodule m;
    CUfunction f[8] = { 0 };
    unsigned count;
    OK(cuModuleLoadData(&m, ptx_variables));
    OK(cuModuleGetFunctionCount(&count, m));
    assert_int_equal(count, 3);
    OK(cuModuleEnumerateFunctions(f, 8, m));
    assert_non_null(f[2]);
    assert_null(f[3]);
    OK(cuModuleUnload(m));
#else
    skip();
#endif
}

/* ---- bodies read when they are needed ---- */

/* A mistake anywhere in the text is an error of the load, with its line, whether the kernel is ever launched or not. */
TEST(a_mistake_in_a_kernel_that_nobody_launches)
{
    CUmodule m;
    char log[4096] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    static const char *const bodies[] = { "mov.u32 %r1, %r9;", "mov.u32 %r1 5;", "bra nowhere;", "@%r1 ret;" };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[1024];
        void *values[] = { log, (void *)sizeof log };
        snprintf(text, sizeof text,
                 "%s.visible .entry good() { ret; }\n.visible .entry bad()\n{\n.reg .b32 %%r<4>;\n"
                 "mov.u32 %%r1, %%r2;\n%s\nret;\n}\n",
                 PTX_HEAD, bodies[i]);
        FAILS(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&m, text, 2, options, values));
        assert_true(strlen(log) > 5);
    }
}

enum { THREADS = 4, KERNELS = 16, ROUNDS = 10 };

/* Kernel number i writes 1000 + i, which it has from a function that all kernels call. */
static char *kernels_with_one_function(void)
{
    char *text = malloc(KERNELS * 400 + 600);
    assert_non_null(text);
    int at = sprintf(text, "%s.func (.param .b32 r) plus(.param .b32 a)\n{\n.reg .b32 %%r<3>;\n"
                           "ld.param.b32 %%r1, [a];\nadd.s32 %%r2, %%r1, 1000;\nst.param.b32 [r], %%r2;\nret;\n}\n",
                     PTX_HEAD);
    for (int i = 0; i < KERNELS; i++)
        at += sprintf(text + at, ".visible .entry k%d(.param .u64 P)\n{\n.reg .b32 %%r<3>; .reg .b64 %%rd<2>;\n"
                                 "ld.param.u64 %%rd1, [P];\nmov.b32 %%r1, %d;\n{\n.param .b32 in; .param .b32 out;\n"
                                 "st.param.b32 [in], %%r1;\ncall (out), plus, (in);\nld.param.b32 %%r2, [out];\n}\n"
                                 "st.global.b32 [%%rd1], %%r2;\nret;\n}\n", i, i);
    return text;
}

struct launcher { CUmodule module; CUcontext context; unsigned first; pthread_barrier_t *start; bool good; };

static void *launch_kernels(void *argument)
{
    struct launcher *l = argument;
    CUdeviceptr out;
    CUstream stream;
    l->good = !cuCtxSetCurrent(l->context) && !cuMemAlloc(&out, 4) && !cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    pthread_barrier_wait(l->start);
    for (unsigned i = 0; i < KERNELS && l->good; i++) {
        char name[8];
        CUfunction f;
        unsigned number = (i * (2 * l->first + 1) + l->first) % KERNELS, got = 0;
        void *params[] = { &out };
        snprintf(name, sizeof name, "k%u", number);
        l->good = !cuModuleGetFunction(&f, l->module, name) &&
                  !cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) &&
                  !cuMemcpyDtoHAsync(&got, out, 4, stream) && !cuStreamSynchronize(stream) && got == 1000 + number;
    }
    l->good = l->good && !cuMemFree(out) && !cuStreamDestroy(stream);
    return NULL;
}

TEST(threads_launch_kernels_of_one_module)
{
    char *text = kernels_with_one_function();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    for (int round = 0; round < ROUNDS; round++) {
        struct launcher launchers[THREADS];
        pthread_t threads[THREADS];
        pthread_barrier_t start;
        CUmodule m;
        OK(cuModuleLoadData(&m, text));
        pthread_barrier_init(&start, NULL, THREADS);
        for (unsigned i = 0; i < THREADS; i++) {
            launchers[i] = (struct launcher){ .module = m, .context = context, .first = i, .start = &start };
            assert_int_equal(pthread_create(&threads[i], NULL, launch_kernels, &launchers[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (unsigned i = 0; i < THREADS; i++)
            assert_true(launchers[i].good);
        pthread_barrier_destroy(&start);
        OK(cuModuleUnload(m));
    }
    free(text);
}

int main(void) { return unit_run(with_context, without_context); }
