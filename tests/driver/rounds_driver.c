/*
 * rounds_driver.c: the first result of a kernel in a program of the Driver API, for rounds.py.
 *
 *     rounds-driver start          a context of the program's own
 *     rounds-driver count          only asks about the devices
 *     rounds-driver unused         a context that is destroyed before anything needs it
 */
#include "../lib/must.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice); /* exported, and not in the header of CUDA 13 */

static const char code[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
                           ".visible .entry add(.param .u64 out, .param .u32 a, .param .u32 b)\n{\n"
                           "    .reg .u32 %r<4>;\n    .reg .u64 %d<3>;\n"
                           "    ld.param.u64 %d1, [out];\n    ld.param.u32 %r1, [a];\n    ld.param.u32 %r2, [b];\n"
                           "    cvta.to.global.u64 %d2, %d1;\n    add.u32 %r3, %r1, %r2;\n"
                           "    st.global.u32 [%d2], %r3;\n    ret;\n}\n";

static void start(CUdevice device)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    int result = 0, a = 40, b = 2;
    MUST(cuCtxCreate_v2(&context, 0, device));
    MUST(cuModuleLoadData(&module, code));
    MUST(cuModuleGetFunction(&function, module, "add"));
    MUST(cuMemAlloc_v2(&memory, sizeof result));
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){ &memory, &a, &b }, NULL));
    MUST(cuMemcpyDtoH_v2(&result, memory, sizeof result));
    if (result != 42)
        MUST(CUDA_ERROR_UNKNOWN); /* a wrong result */
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    int count;
    const char *what = argc > 1 ? argv[1] : "start";
    MUST(cuInit(0));
    MUST(cuDeviceGetCount(&count));
    MUST(cuDeviceGet(&device, 0));
    if (strcmp(what, "start") == 0)
        start(device);
    if (strcmp(what, "unused") == 0) {
        MUST(cuCtxCreate_v2(&context, 0, device));
        MUST(cuCtxDestroy_v2(context));
    }
    printf("%s: passed\n", what);
    return 0;
}
