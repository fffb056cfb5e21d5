/* direct.c: a program that uses the CUDA driver API itself. It prints what it is answered. */
#include <dlfcn.h>
#include <stdio.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuMemAlloc_v2(unsigned long long *address, size_t size);
int cuGetErrorName(int code, const char **name);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, int *status);

int main(void)
{
    int version = -1, count = -1, status = -1;
    unsigned long long address = 77;
    const char *name = "none";
    void *function = NULL;
    int got = cuDriverGetVersion(&version);
    printf("version %d %d\n", got, version);
    printf("init %d\n", cuInit(0));
    got = cuGetErrorName(100, &name);
    printf("name %d %s\n", got, name);
    got = cuDeviceGetCount(&count);
    printf("count %d %d\n", got, count);
    got = cuMemAlloc_v2(&address, 100);
    printf("alloc %d %llu\n", got, address);
    got = cuGetProcAddress_v2("cuDeviceTotalMem", &function, 3020, 0, &status);
    printf("entry %d %d %d\n", got, status, function != NULL);
    got = cuGetProcAddress_v2("cuNoSuchFunction", &function, 13000, 0, &status);
    printf("none %d %d %d\n", got, status, function != NULL);
    return 0;
}
