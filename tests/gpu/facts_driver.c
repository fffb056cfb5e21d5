/* facts_driver.c: see facts.h. */
#include "facts.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void *library;
CUdevice device;
CUcontext context;
CUmodule module;

void *entry(const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        printf("not there: the driver has no %s\n", name);
        exit(0);
    }
    return address;
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void start(void)
{
    NEED(CALL(cuInit, (unsigned), 0));
    NEED(CALL(cuDeviceGet, (CUdevice *, int), &device, 0));
    NEED(CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, device));
    NEED(CALL(cuCtxSetCurrent, (CUcontext), context));
}

static const char kernels[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* waits until *flag is not 0 */
    ".visible .entry wait(.param .u64 flag)\n{\n .reg .u64 %a; .reg .u32 %v; .reg .pred %p;\n"
    " ld.param.u64 %a, [flag];\nagain: ld.volatile.global.u32 %v, [%a]; setp.eq.u32 %p, %v, 0; @%p bra again; ret;\n}\n"
    /* writes 1 to address */
    ".visible .entry touch(.param .u64 address)\n{\n .reg .u64 %a;\n ld.param.u64 %a, [address]; st.global.u32 [%a], "
    "1; ret;\n}\n"
    ".visible .entry stop()\n{\n trap;\n}\n"
    ".visible .entry few()\n.maxntid 64, 1, 1\n{\n ret;\n}\n"
    /* out[smid] = 1, after a while so that the blocks spread */
    ".visible .entry where(.param .u64 out)\n{\n .reg .u64 %a, %o; .reg .u32 %s, %t, %n; .reg .pred %p;\n"
    " ld.param.u64 %a, [out]; mov.u32 %s, %smid; mul.wide.u32 %o, %s, 4; add.u64 %a, %a, %o; st.global.u32 [%a], 1;\n"
    " mov.u32 %n, 0;\nmore: mov.u32 %t, %clock; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 2000; @%p bra more; ret;\n}\n";

CUfunction kernel(const char *name)
{
    CUfunction function;
    if (!module)
        NEED(CALL(cuModuleLoadData, (CUmodule *, const void *), &module, kernels));
    NEED(CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &function, module, name));
    return function;
}

CUresult launch(CUfunction f, unsigned blocks, unsigned threads, CUstream stream, CUdeviceptr argument)
{
    void *arguments[] = {&argument};
    return CALL(
        cuLaunchKernel,
        (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **),
        f, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}

CUresult synchronize(void) { return CALL(cuCtxSynchronize, (void)); }

CUdeviceptr allocate(size_t size)
{
    CUdeviceptr p;
    NEED(CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &p, size));
    NEED(CALL(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t), p, 0, size));
    return p;
}

CUstream new_stream(void)
{
    CUstream stream;
    NEED(CALL(cuStreamCreate, (CUstream *, unsigned), &stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

void store(CUdeviceptr to, uint32_t value)
{
    CUstream stream = new_stream();
    NEED(CALL(cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream), to, value, 1, stream));
    NEED(CALL(cuStreamSynchronize, (CUstream), stream));
}
