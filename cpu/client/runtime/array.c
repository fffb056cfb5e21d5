/* array.c: what of the array and texture chapters needs neither. Arrays are not implemented: only NULL can be
   freed. */
#include "cpu/client/runtime/runtime.h"

cudaChannelFormatDesc runtime_cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind)
{
    return (cudaChannelFormatDesc){ x, y, z, w, kind };
}

static int release(const void *array, const char *name)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error || !array)
        return runtime_return(error);
    return runtime_unsupported(name);
}

cudaError_t runtime_cudaFreeArray(cudaArray_t array) { return release(array, "cudaFreeArray"); }
cudaError_t runtime_cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
    return release(array, "cudaFreeMipmappedArray");
}
