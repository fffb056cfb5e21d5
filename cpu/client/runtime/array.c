/* array.c: what of the array and texture chapters needs neither. Arrays cannot be made yet, so only NULL can be freed. */
#include "cpu/client/runtime/runtime.h"

RUNTIME_API struct cudart_channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return (struct cudart_channel){x, y, z, w, kind}; }

static int release(const void *array, const char *name) {
    int device;
    int error = runtime_enter(&device);
    if (error || !array)
        return runtime_return(error);
    return runtime_unsupported(name);
}

RUNTIME_API int cudaFreeArray(void *array) { return release(array, "cudaFreeArray"); }
RUNTIME_API int cudaFreeMipmappedArray(void *array) { return release(array, "cudaFreeMipmappedArray"); }
