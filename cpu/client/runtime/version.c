/* version.c: chapter "Version Management". The driver is the server's. Without a server its version is 0, as natively
   without a driver. */
#include "cpu/client/runtime/runtime.h"

/* The release of each major version that the exports were taken from. */

cudaError_t runtime_cudaRuntimeGetVersion(int *version)
{
    /* CUDA 11 initialises in every call, this one included. */
    int error = FLYT_CUDART == 11 ? runtime_attach(NULL) : cudaSuccess;
    if (error)
        return runtime_local(error);
    if (!version)
        return runtime_local(cudaErrorInvalidValue);
    *version = RUNTIME_VERSION;
    return runtime_local(cudaSuccess);
}

cudaError_t runtime_cudaDriverGetVersion(int *version)
{
    if (!version)
        return runtime_local(cudaErrorInvalidValue);
    if (core_attach() || core_driver_version(version))
        *version = 0;
    return runtime_local(cudaSuccess);
}
