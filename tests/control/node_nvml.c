/*
 * node_nvml.c: stands in for libnvidia-ml.so.1 and libcuda.so.1 in the test of the node manager: one GPU with 132 SMs
 * and 80 GiB, of which 1 GiB is in use; in MIG mode where FLYT_TEST_MIG is set.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

SHOWN int nvmlInit_v2(void) { return 0; }
SHOWN int nvmlShutdown(void) { return 0; }
SHOWN const char *nvmlErrorString(int code) { return code ? "an error" : "none"; }
SHOWN int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
SHOWN int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &"device"[index];
    return index != 0;
}
SHOWN int nvmlDeviceGetUUID(void *device, char *out, unsigned size)
{
    (void)device;
    snprintf(out, size, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    return 0;
}
SHOWN int nvmlDeviceGetName(void *device, char *out, unsigned size)
{
    (void)device;
    snprintf(out, size, "NVIDIA Test");
    return 0;
}
SHOWN int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *info)
{
    (void)device;
    info[0] = 80ull << 30;
    info[1] = 79ull << 30;
    info[2] = 1ull << 30;
    return 0;
}
SHOWN int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *mhz)
{
    (void)device;
    (void)kind;
    *mhz = 1980;
    return 0;
}
SHOWN int nvmlDeviceGetComputeMode(void *device, int *mode) { (void)device; *mode = 0; return 0; }
SHOWN int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later)
{
    (void)device;
    *now = *later = getenv("FLYT_TEST_MIG") != NULL;
    return 0;
}

SHOWN int cuInit(unsigned flags) { return flags != 0; }
SHOWN int cuDeviceGetCount(int *count) { *count = 1; return 0; }
SHOWN int cuDeviceGet(int *device, int index) { *device = index; return 0; }
SHOWN int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = 132;
    return attribute != 16 || device;
}
SHOWN int cuDeviceGetUuid(unsigned char *out, int device)
{
    for (int i = 0; i < 16; i++)
        out[i] = (unsigned char)i;
    return device;
}
