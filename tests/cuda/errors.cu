// shows: errors: codes of bad launches and calls, last error per thread, names and strings
// shows: errors: copies of device memory that is not there: freed, or beyond what a position in a volume can be
// shows: launch: limits are checked at the launch itself
#include "check.h"
#include <pthread.h>

__global__ void kernel(int *p)
{
    extern __shared__ int room[];
    room[threadIdx.x] = threadIdx.x;
    if (p)
        p[threadIdx.x] = room[threadIdx.x] + 1;
}
__global__ void __launch_bounds__(64) small(int *p) { p[threadIdx.x] = 1; }

static void *other_thread(void *)
{
    GIVES(cudaSuccess, cudaGetLastError());          // each thread has its own
    return NULL;
}

// The program's own memory is whatever is no memory of the device's: these addresses are neither.
static void nowhere()
{
    char *there, *freed, here[64];
    MUST(cudaMalloc(&there, 4096));
    MUST(cudaMalloc(&freed, 8 << 20));
    MUST(cudaFree(freed));
    for (cudaMemcpyKind kind : { cudaMemcpyDefault, cudaMemcpyDeviceToDevice }) {
        GIVES(cudaErrorInvalidValue, cudaMemcpy(there, freed, 64, kind));
        GIVES(cudaErrorInvalidValue, cudaMemcpy(freed, there, 64, kind));
    }
    GIVES(cudaErrorInvalidValue, cudaMemcpy(here, freed, 64, cudaMemcpyDefault));
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(here, freed, 64, cudaMemcpyDefault, 0));
    cudaMemcpy3DParms volume = {};
    volume.srcPtr = make_cudaPitchedPtr(there, 64, 64, 4);
    volume.dstPtr = make_cudaPitchedPtr(here, 64, 64, 1);
    volume.extent = make_cudaExtent(64, 1, 1);
    volume.kind = cudaMemcpyDefault;
    for (size_t z : { (size_t)1 << 20, (size_t)1 << 40, (size_t)1 << 56, (size_t)1 << 63, ~(size_t)0 }) {
        volume.srcPos.z = z;
        GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&volume));
    }
    volume.srcPos.z = 15;                              // the last one
    GIVES(cudaSuccess, cudaMemcpy3D(&volume));
    MUST(cudaFree(there));
    cudaGetLastError();
}

int main()
{
    int *d, h[32];
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(1000));
    GIVES(cudaErrorInvalidDevice, cudaPeekAtLastError());
    GIVES(cudaErrorInvalidDevice, cudaGetLastError());
    GIVES(cudaSuccess, cudaGetLastError());
    MUST(cudaMalloc(&d, 4096));

    int runtime;
    MUST(cudaRuntimeGetVersion(&runtime));
    /* NVIDIA's runtimes before 13.0 look at the dimensions; that of 13.0 passes the driver's answer on. */
    const cudaError_t impossible = runtime < 13000 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
    kernel<<<0, 32>>>(NULL);
    GIVES(impossible, cudaPeekAtLastError());
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
    GIVES(impossible, cudaGetLastError());
    kernel<<<1, 2048>>>(NULL);
    GIVES(impossible, cudaGetLastError());
    kernel<<<1, dim3(1, 1, 65)>>>(NULL);
    GIVES(impossible, cudaGetLastError());
    kernel<<<dim3(1, 65536), 1>>>(NULL);
    GIVES(impossible, cudaGetLastError());
    kernel<<<1, 32, 1 << 20>>>(NULL);
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    small<<<1, 128>>>(d);
    cudaError_t bounds = cudaGetLastError();           // more threads than __launch_bounds__ allows
    HOLDS(bounds == cudaErrorInvalidValue || bounds == cudaErrorLaunchOutOfResources);

    GIVES(cudaErrorInvalidValue, cudaMalloc(NULL, 16));
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    GIVES(cudaErrorMemoryAllocation, cudaMalloc((void **)&h, (size_t)1 << 50));
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    GIVES(cudaErrorInvalidValue, cudaFree((char *)d + 8));
    cudaGetLastError();
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d, h, 16, (cudaMemcpyKind)17));
    cudaGetLastError();
    GIVES(cudaErrorInvalidValue, cudaEventCreate(NULL));
#if CUDART_VERSION >= 13000
    cudaMemLocation here = { cudaMemLocationTypeDevice, { 0 } };
    GIVES(cudaErrorInvalidValue, cudaMemPrefetchAsync(d, 4096, here, 0, 0));       /* d is not managed */
#else
    GIVES(cudaErrorInvalidValue, cudaMemPrefetchAsync(d, 4096, 0, 0));
#endif
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    cudaGetLastError();
    struct cudaFuncAttributes attributes;
    /* from 12.9 on it counts as a kernel's handle */
    GIVES(runtime < 12090 ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidResourceHandle,
          cudaFuncGetAttributes(&attributes, (const void *)&main));
    cudaGetLastError();

    HOLDS(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
    HOLDS(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
    HOLDS(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code") == 0);

    nowhere();

    // nothing of all that has hurt the context
    kernel<<<1, 32, 128>>>(d);
    MUST(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        HOLDS(h[i] == i + 1);
    MUST(cudaFree(d));
    GIVES(cudaErrorInvalidValue, cudaFree(d));
    return check_result("errors");
}
