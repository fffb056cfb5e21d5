/*
 * registers_loaded.c: what the software GPU says of the registers of the kernels in files of code (PTX, or fat binaries
 * with machine code beside it), one line per kernel, for tests/exec/registers.py. The capability is that of
 * FLYT_SOFTGPU_CC.
 *
 *     registers-loaded FILE …
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static CUresult print_kernel(const char *path, CUfunction kernel)
{
    const char *name;
    int registers;
    CUresult error = cuFuncGetName(&name, kernel);
    if (!error)
        error = cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel);
    if (!error)
        printf("%s\t%s\t%d\n", path, name, registers);
    return error;
}

static CUresult print_file(const char *path)
{
    CUmodule module;
    unsigned count;
    CUresult error = cuModuleLoad(&module, path);
    if (error)
        return error;
    error = cuModuleGetFunctionCount(&count, module);
    CUfunction *kernels = calloc(count + 1, sizeof *kernels);
    if (!error && kernels)
        error = cuModuleEnumerateFunctions(kernels, count, module);
    for (unsigned i = 0; !error && kernels && i < count; i++)
        error = print_kernel(path, kernels[i]);
    free(kernels);
    return error ? error : cuModuleUnload(module);
}

int main(int count, char **paths)
{
    CUcontext context;
    int failed = cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context);
    for (int i = 1; !failed && i < count; i++) {
        CUresult error = print_file(paths[i]);
        if (error)
            fprintf(stderr, "%s: error %d\n", paths[i], error);
        failed |= error != CUDA_SUCCESS;
    }
    return failed;
}
