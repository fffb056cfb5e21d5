/* shows: The Driver API's linker (cuLink…) for programs: one input, several inputs whose names meet, fat binaries,
 *   objects and libraries; what is missing or defined twice */
/* test_linker.c: cuLink… of libcuda.so.1 of programs. */
#include <unistd.h>

#include "tests/driver/driver_test.h"

/* One input: PTX comes back as it went in, and its errors when it is added. */
TEST(linker)
{
    CUlinkState link;
    CUmodule module;
    CUfunction function;
    void *image;
    size_t size;
    char log[1000] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)sizeof log };
    OK(cuLinkCreate(0, NULL, NULL, &link));
    FAILS(CUDA_ERROR_INVALID_IMAGE, cuLinkComplete(link, &image, &size));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)ptx_add, sizeof ptx_add, "name", 0, NULL, NULL));
    OK(cuLinkComplete(link, &image, &size));
    assert_int_equal(size, sizeof ptx_add);
    OK(cuModuleLoadData(&module, image));
    OK(cuLinkDestroy(link));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link));
    OK(cuModuleGetFunction(&function, module, "add"));
    OK(cuModuleUnload(module));
    OK(cuLinkCreate(2, options, values, &link));
    char bad[] = ".version 7.0\n.target sm_70\n.entry {";
    FAILS(CUDA_ERROR_INVALID_PTX, cuLinkAddData(link, CU_JIT_INPUT_PTX, bad, sizeof bad, "bad", 0, NULL, NULL));
    assert_true(strlen(log) > 5);
    FAILS(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nonexistent.ptx", 0, NULL, NULL));
    OK(cuLinkDestroy(link));
}

#define LINK_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
/* Both inputs have a function and a variable of their own with the same names. */
static const char link_kernel[] = LINK_HEAD
    ".extern .func (.param .b32 r) twice (.param .b32 a);\n.extern .global .u32 shared_value;\n.global .u32 own = 1;\n"
    ".func (.param .b32 r) local (.param .b32 a)\n"
    "{ .reg .b32 %a; ld.param.b32 %a, [a]; add.u32 %a, %a, 100; st.param.b32 [r], %a; ret; }\n"
    ".visible .entry work(.param .u64 out)\n{ .reg .b64 %p; .reg .b32 %a, %b, %c;\n"
    "ld.param.u64 %p, [out]; ld.global.u32 %b, [own]; mov.b32 %a, 20;\n"
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %a; call (y), twice, (x); ld.param.b32 %c, [y]; }\n"
    "add.u32 %a, %c, %b;\n"
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %a; call (y), local, (x); ld.param.b32 %a, [y]; }\n"
    "ld.global.u32 %b, [shared_value]; add.u32 %a, %a, %b; st.global.u32 [%p], %a; ret; }\n";
static const char link_helper[] =
    LINK_HEAD ".visible .global .u32 shared_value = 5000;\n.global .u32 own = 3;\n"
              ".func (.param .b32 r) local (.param .b32 a)\n"
              "{ .reg .b32 %a; ld.param.b32 %a, [a]; shl.b32 %a, %a, 1; st.param.b32 [r], %a; ret; }\n"
              ".visible .func (.param .b32 r) twice (.param .b32 a)\n{ .reg .b32 %a, %b; ld.param.b32 %a, [a];\n"
              "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %a; call (y), local, (x); ld.param.b32 %a, [y]; }\n"
              "ld.global.u32 %b, [own]; add.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }\n";
enum { LINK_WANTED = 20 * 2 + 3 + 1 + 100 + 5000 };

static int run_linked(CUlinkState link)
{
    void *image;
    size_t size;
    CUmodule module;
    CUfunction function;
    CUdeviceptr out;
    int result = 0;
    OK(cuLinkComplete(link, &image, &size));
    OK(cuModuleLoadData(&module, image));
    OK(cuLinkDestroy(link));
    OK(cuModuleGetFunction(&function, module, "work"));
    OK(cuMemAlloc(&out, sizeof result));
    void *arguments[] = { &out };
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(&result, out, sizeof result));
    OK(cuMemFree(out));
    OK(cuModuleUnload(module));
    return result;
}

static unsigned registers_of(const void *image)
{
    CUmodule module;
    CUfunction hungry;
    int registers = 0;
    OK(cuModuleLoadData(&module, image));
    OK(cuModuleGetFunction(&hungry, module, "hungry"));
    OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, hungry));
    OK(cuModuleUnload(module));
    return (unsigned)registers;
}

/* CU_JIT_MAX_REGISTERS and CU_JIT_THREADS_PER_BLOCK: of the link, or of one input. */
TEST(linker_bounds_registers)
{
    enum { VALUES = 100, ROOM = VALUES * 100 };
    static char text[ROOM];
    int used = snprintf(text, ROOM, ".version 7.0\n.target sm_70\n.address_size 64\n"
                                    ".visible .entry hungry(.param .u64 p)\n"
                                    "{\n.reg .u64 %%p; .reg .f64 %%f<%d>; ld.param.u64 %%p, [p];\n", VALUES);
    for (int i = 0; i < VALUES; i++)
        used += snprintf(text + used, ROOM - (size_t)used, "ld.global.f64 %%f%d, [%%p + %d];\n", i, i * 8);
    used += snprintf(text + used, ROOM - (size_t)used, "bar.sync 0;\n");
    for (int i = 0; i < VALUES; i++)
        used += snprintf(text + used, ROOM - (size_t)used, "st.global.f64 [%%p + %d], %%f%d;\n", i * 7 % VALUES * 8, i);
    used += snprintf(text + used, ROOM - (size_t)used, "ret;\n}\n");
    assert_in_range(registers_of(text), 150, 255);
    CUjit_option options[] = { CU_JIT_MAX_REGISTERS, CU_JIT_THREADS_PER_BLOCK };
    for (unsigned option = 0; option < 4; option++) {
        void *values[] = { (void *)48, (void *)512 }, *image;
        CUlinkState link;
        size_t size;
        unsigned which = option % 2, of_input = option / 2;
        OK(cuLinkCreate(!of_input, &options[which], &values[which], &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, (size_t)used + 1, "text", of_input, &options[which],
                         &values[which]));
        OK(cuLinkComplete(link, &image, &size));
        assert_int_equal(registers_of(image), which ? 128 : 48);
        OK(cuLinkDestroy(link));
    }
    CUmodule module;
    char log[1000] = "";
    CUjit_option wordy[] = { CU_JIT_MAX_REGISTERS, CU_JIT_LOG_VERBOSE, CU_JIT_INFO_LOG_BUFFER,
                             CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES };
    void *words[] = { (void *)40, (void *)1, log, (void *)sizeof log };
    OK(cuModuleLoadDataEx(&module, text, 4, wordy, words));
    assert_non_null(strstr(log, "ptxas info    : Compiling entry function 'hungry' for 'sm_"));
    assert_non_null(strstr(log, "Used 40 registers\n"));
    assert_int_equal((uintptr_t)words[3], strlen(log));
    OK(cuModuleUnload(module));
    void *both[] = { (void *)200, (void *)1024 };
    CUfunction hungry;
    int registers;
    OK(cuModuleLoadDataEx(&module, text, 2, options, both));
    OK(cuModuleGetFunction(&hungry, module, "hungry"));
    OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, hungry));
    assert_int_equal(registers, 64);
    OK(cuModuleUnload(module));
}

/* Several inputs: names that are visible meet, local ones stay apart; a missing or doubled name is said in the log. */
TEST(linker_joins)
{
    CUlinkState link;
    void *image;
    size_t size;
    char log[1000] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)sizeof log };
    char *kernel = (char *)(uintptr_t)link_kernel, *helper = (char *)(uintptr_t)link_helper;
    for (int first = 0; first < 2; first++) {
        OK(cuLinkCreate(0, NULL, NULL, &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, first ? helper : kernel,
                         first ? sizeof link_helper : sizeof link_kernel, "a", 0, NULL, NULL));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, first ? kernel : helper,
                         first ? sizeof link_kernel : sizeof link_helper, "b", 0, NULL, NULL));
        assert_int_equal(run_linked(link), LINK_WANTED);
    }
    OK(cuLinkCreate(2, options, values, &link));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, kernel, sizeof link_kernel, "kernel.ptx", 0, NULL, NULL));
    FAILS(CUDA_ERROR_UNKNOWN, cuLinkComplete(link, &image, &size));
    assert_non_null(strstr(log, "Undefined reference to 'twice' in 'kernel.ptx'"));
    assert_int_equal((uintptr_t)values[1], strlen(log));
    OK(cuLinkDestroy(link));
    values[1] = (void *)sizeof log;
    OK(cuLinkCreate(2, options, values, &link));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, helper, sizeof link_helper, "a", 0, NULL, NULL));
    OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, helper, sizeof link_helper, "b", 0, NULL, NULL));
    FAILS(CUDA_ERROR_UNKNOWN, cuLinkComplete(link, &image, &size));
    assert_non_null(strstr(log, "defined twice"));
    OK(cuLinkDestroy(link));
}

/* A variable that is declared is defined somewhere, also where there is a single input. */
TEST(linker_wants_variables)
{
    static const struct {
        const char *text;
        CUresult gives;
    } cases[] = {
        { ".extern .global .u32 missing;\n.visible .entry k() { ret; }\n", CUDA_ERROR_UNKNOWN },
        { ".extern .const .u32 missing;\n.visible .entry k() { ret; }\n", CUDA_ERROR_UNKNOWN },
        { ".extern .shared .align 8 .b8 dynamic[];\n.visible .entry k() { ret; }\n", CUDA_SUCCESS },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CUlinkState link;
        void *image;
        size_t size;
        char log[1000] = "", text[1000];
        CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
        void *values[] = { log, (void *)sizeof log };
        int length = snprintf(text, sizeof text, ".version 7.0\n.target sm_70\n.address_size 64\n%s", cases[i].text);
        OK(cuLinkCreate(2, options, values, &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, (size_t)length + 1, "alone", 0, NULL, NULL));
        assert_int_equal(cuLinkComplete(link, &image, &size), cases[i].gives);
        if (cases[i].gives)
            assert_non_null(strstr(log, "Undefined reference to 'missing' in 'alone'"));
        OK(cuLinkDestroy(link));
    }
}

/* What is not defined anywhere is an error only where it is reached; nvJitLink 12.9 and 13.0 say the same of each. */
TEST(linker_reaches)
{
#define MISSING ".extern .func missing;\n"
#define CALLS(linkage, name, callee) linkage " .func " name " { call " callee "; ret; }\n"
#define TAKES(name, callee) ".visible .func " name " { .reg .u64 %a; mov.u64 %a, " callee "; ret; }\n"
#define ENTRY(name, body) ".visible .entry " name "() { .reg .u64 %a; " body " ret; }\n"
    static const struct {
        const char *text;
        bool fails;
    } cases[] = {
        { MISSING ENTRY("k", ""), false },
        { MISSING CALLS(".visible", "u", "missing") ENTRY("k", ""), false },
        { MISSING CALLS("", "u", "missing") ENTRY("k", ""), false },
        { MISSING CALLS(".weak", "u", "missing") CALLS(".visible", "w", "u") ENTRY("k", ""), false },
        { MISSING ".visible .func w;\n" CALLS(".visible", "u", "missing") CALLS(".visible", "w", "u"), false },
        { MISSING CALLS(".visible", "u", "missing") ENTRY("k", "P: .callprototype _ (); call %a, (), P;"), false },
        { MISSING ENTRY("k", "") ENTRY("u", "call missing;"), true },
        { MISSING ENTRY("k", "bra E; call missing; E:"), true },
        { MISSING CALLS("", "u", "missing") CALLS(".visible", "w", "u") ENTRY("k", "call w;"), true },
        { MISSING CALLS(".visible", "u", "missing") ".global .u64 t = u;\n" ENTRY("k", ""), true },
        { MISSING ".visible .global .u64 t = missing;\n" ENTRY("k", ""), true },
        { MISSING CALLS(".visible", "u", "missing") TAKES("w", "u") ENTRY("k", ""), true },
        { MISSING TAKES("w", "missing") ENTRY("k", ""), true },
        { ".extern .global .u32 missing;\n" ENTRY("k", ""), true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char other[] = LINK_HEAD ENTRY("other", "");
        CUlinkState link;
        void *image;
        size_t size;
        char log[1000] = "", text[1000];
        CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
        void *values[] = { log, (void *)sizeof log };
        int length = snprintf(text, sizeof text, LINK_HEAD "%s", cases[i].text);
        OK(cuLinkCreate(2, options, values, &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)other, sizeof other, "other", 0, NULL, NULL));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, (size_t)length + 1, "text", 0, NULL, NULL));
        CUresult result = cuLinkComplete(link, &image, &size);
        if (result != (cases[i].fails ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS))
            fail_msg("case %zu: %d %s", i, (int)result, log);
        if (cases[i].fails)
            assert_non_null(strstr(log, "missing"));
        else {
            CUmodule module;
            OK(cuModuleLoadData(&module, image));
            OK(cuModuleUnload(module));
        }
        OK(cuLinkDestroy(link));
    }
}

/* A fat binary, an object and a library of relocatable device code, made by nvcc from linked.cu. */
TEST(linker_files)
{
    static const struct {
        CUjitInputType type;
        const char *file;
    } inputs[] = {
        { CU_JIT_INPUT_FATBINARY, "linked.fatbin" },
        { CU_JIT_INPUT_OBJECT, "linked.o" },
        { CU_JIT_INPUT_LIBRARY, "linked.a" },
    };
    char folder[3000] = ""; /* beside this program */
    assert_true(readlink("/proc/self/exe", folder, sizeof folder - 1) > 0);
    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        CUlinkState link;
        char path[4096];
        snprintf(path, sizeof path, "%s/link/%s", folder, inputs[i].file);
        OK(cuLinkCreate(0, NULL, NULL, &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)link_kernel, sizeof link_kernel, "kernel", 0, NULL,
                         NULL));
        OK(cuLinkAddFile(link, inputs[i].type, path, 0, NULL, NULL));
        assert_int_equal(run_linked(link), LINK_WANTED);
        FAILS(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link));
        /* What nothing needs is left out of a library, and a definition may stand twice then. */
        OK(cuLinkCreate(0, NULL, NULL, &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)link_kernel, sizeof link_kernel, "kernel", 0, NULL,
                         NULL));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)link_helper, sizeof link_helper, "helper", 0, NULL,
                         NULL));
        OK(cuLinkAddFile(link, inputs[i].type, path, 0, NULL, NULL));
        if (inputs[i].type == CU_JIT_INPUT_LIBRARY) {
            assert_int_equal(run_linked(link), LINK_WANTED);
        } else {
            void *image;
            size_t size;
            FAILS(CUDA_ERROR_UNKNOWN, cuLinkComplete(link, &image, &size));
            OK(cuLinkDestroy(link));
        }
    }
}

/* What cannot be linked is refused when it is added, with a log, and is no part of the link. */
TEST(linker_refuses_when_added)
{
    static const struct {
        CUjitInputType type;
        CUresult result;
        char bytes[32];
    } inputs[] = {
        { CU_JIT_INPUT_FATBINARY, CUDA_ERROR_NO_BINARY_FOR_GPU, "\x50\xed\x55\xba\x01\0\x10\0" }, /* it is empty */
        { CU_JIT_INPUT_OBJECT, CUDA_ERROR_INVALID_IMAGE, "\177ELF, and nothing behind it" },
        { CU_JIT_INPUT_LIBRARY, CUDA_ERROR_INVALID_IMAGE, "!<arch>\nand nothing behind it" },
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        CUlinkState link;
        char log[1000] = "";
        CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
        void *values[] = { log, (void *)sizeof log };
        OK(cuLinkCreate(2, options, values, &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)link_kernel, sizeof link_kernel, "kernel", 0, NULL,
                         NULL));
        FAILS(inputs[i].result, cuLinkAddData(link, inputs[i].type, (void *)(uintptr_t)inputs[i].bytes,
                                              sizeof inputs[i].bytes, "broken", 0, NULL, NULL));
        assert_non_null(strstr(log, "broken"));
        OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)link_helper, sizeof link_helper, "helper", 0, NULL,
                         NULL));
        assert_int_equal(run_linked(link), LINK_WANTED);
    }
}

int main(void) { return unit_run(primary_set_up, primary_tear_down); }
