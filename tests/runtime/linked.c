/*
 * linked.c: a program that is linked against libcudart and registers device code before main, as nvcc's do. Built once
 * per version. It prints what it saw; loading.py compares.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct dim3 { unsigned x, y, z; };
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaUnregisterFatBinary(void **);
int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
int cudaGetDeviceCount(int *);
int cudaDeviceGetPCIBusId(char *, int, int);
int cudaRuntimeGetVersion(int *);
int cudaGetLastError(void);
int cudaGraphicsUnregisterResource(void *);

static struct { uint32_t magic, version; const void *data, *extra; } wrapper = {0x466243B1, 1, 0, 0};
static char kernel;
static void **handle;

__attribute__((constructor)) static void begin(void)
{
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &kernel, 0, "kernel", -1, 0, 0, 0, 0, 0);
}
__attribute__((destructor)) static void end(void) { __cudaUnregisterFatBinary(handle); }

int main(int count, char **arguments)
{
    int version = 0, devices = -1, result;
    char bus[16] = "";
    if (count > 1 && strcmp(arguments[1], "quiet") == 0)
        return 0;                                   /* device code on board, and no CUDA call */
    cudaRuntimeGetVersion(&version);
    result = cudaGetDeviceCount(&devices);
    printf("runtime %d count %d:%d", version / 1000, result, devices);
    result = cudaDeviceGetPCIBusId(bus, sizeof bus, 0);
    printf(" bus %d:%s", result, bus);
    printf(" launch %d", cudaLaunchKernel(&kernel, (struct dim3){1, 1, 1}, (struct dim3){32, 1, 1}, 0, 0, 0));
    printf(" bad %d", cudaLaunchKernel(&kernel, (struct dim3){0, 1, 1}, (struct dim3){32, 1, 1}, 0, 0, 0));
    printf(" last %d", cudaGetLastError());
    printf(" unsupported %d\n", cudaGraphicsUnregisterResource(0));
    return 0;
}
