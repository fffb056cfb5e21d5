/* capability.cu: opens the libraries that its arguments name, then prints the compute capability in every way in which
   a program can ask for it. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>

__global__ void architecture(int *out)
{
#ifdef __CUDA_ARCH__
    *out = __CUDA_ARCH__ / 10;
#endif
}

/* NVML's, which a program asks before CUDA is initialised. */
static int of_nvml(void)
{
    int major = -1, minor = -1;
    void *device = nullptr, *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void) = library ? (int (*)(void))dlsym(library, "nvmlInit_v2") : nullptr;
    int (*get)(unsigned, void **) =
        library ? (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2") : nullptr;
    int (*ask)(void *, int *, int *) =
        library ? (int (*)(void *, int *, int *))dlsym(library, "nvmlDeviceGetCudaComputeCapability") : nullptr;
    return init && get && ask && !init() && !get(0, &device) && !ask(device, &major, &minor) ? major * 10 + minor : -1;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW)) {
            printf("%s\n", dlerror());
            return 1;
        }
    const int nvml = of_nvml();
    int major = 0, minor = 0, old_major = 0, old_minor = 0, target = 0, *out;
    cudaDeviceProp properties;
    cudaFuncAttributes function;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto get = (CUresult(*)(int *, CUdevice_attribute, CUdevice))dlsym(driver, "cuDeviceGetAttribute");
    auto ask = (CUresult(*)(int *, int *, CUdevice))dlsym(driver, "cuDeviceComputeCapability");
    if (cudaGetDeviceProperties(&properties, 0) || cudaFuncGetAttributes(&function, architecture) ||
        cudaMalloc(&out, sizeof *out))
        return 2;
    get(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    get(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    ask(&old_major, &old_minor, 0);
    architecture<<<1, 1>>>(out);
    if (cudaMemcpy(&target, out, sizeof target, cudaMemcpyDeviceToHost))
        return 3;
    printf("driver %d.%d function %d.%d properties %d.%d nvml %d.%d binary %d code %d shared %zu\n", major, minor,
           old_major, old_minor, properties.major, properties.minor, nvml / 10, nvml % 10, function.binaryVersion,
           target, properties.sharedMemPerMultiprocessor);
    fflush(stdout);
    getchar(); /* its session stays until its input ends */
    return 0;
}
