/* load_after_fault.c: its kernel does what memcheck reports, and the first call that learns of it loads a module. For
   memcheck.sh. */
#include <stdio.h>

#include <cuda.h>

static const char image[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b64 %d;\n"
    "ld.param.u64 %d, [p];\nst.global.u32 [%d], 1;\nret;\n}\n";

int main(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr nowhere = 0;
    void *parameters[] = { &nowhere };
    CUresult error;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuModuleLoadData(&module, image) || cuModuleGetFunction(&kernel, module, "k") ||
        cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL))
        return 1;
    while (!(error = cuModuleLoadData(&module, image))) /* the kernel may still run */
        if (cuModuleUnload(module))
            return 1;
    printf("load: error %d\n", error);
    return 0;
}
