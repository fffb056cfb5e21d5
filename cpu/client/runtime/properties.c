/*
 * properties.c: cudaGetDeviceProperties in the layout of each version, and cudaChooseDevice. Every member that has an
 * attribute of its own is that attribute. What the core says of a device never changes while the process lives, so the
 * structure is put together once per device and then copied.
 */
#include "cpu/client/runtime/runtime.h"

#include <string.h>

/* Where a member is, and which attribute it repeats. */
static const struct property {
    uint16_t offset;
    uint8_t size, attribute;
} property_table[] = {
#define MEMBER(member, attribute) { offsetof(cudaDeviceProp, member), sizeof((cudaDeviceProp *)0)->member, attribute },
#define ELEMENT(member, index, attribute) \
    { offsetof(cudaDeviceProp, member) + (index) * sizeof(int), sizeof(int), attribute },
    CUDART_PROPERTIES(MEMBER, ELEMENT)
#undef MEMBER
#undef ELEMENT
};

static int fill_properties(int ordinal, cudaDeviceProp *properties)
{
    const struct core_device *device = core_device(ordinal);
    if (!device)
        return cudaErrorInvalidDevice;
    memset(properties, 0, sizeof *properties);
    strncpy(properties->name, device->name, sizeof properties->name - 1);
    memcpy(properties->uuid.bytes, device->uuid, sizeof properties->uuid.bytes);
    properties->totalGlobalMem = (size_t)device->total_memory;
    for (size_t i = 0; i < sizeof property_table / sizeof property_table[0]; i++) {
        const struct property *row = &property_table[i];
        int value;
        if (core_device_attribute(ordinal, row->attribute, &value))
            value = 0; /* newer than the server's driver */
        char *member = (char *)properties + row->offset;
        size_t wide = (size_t)value;
        if (row->size == sizeof wide)
            memcpy(member, &wide, sizeof wide);
        else
            memcpy(member, &value, sizeof value);
    }
    return cudaSuccess;
}

static struct kept_properties {
    atomic_bool known;
    cudaDeviceProp properties;
} kept_properties[RUNTIME_MAX_DEVICES];

/* Makes a table of the device's own, or NULL: *space has been filled instead. Two threads may come here at once: both
   would write the same values, so the table is written only by the one that wins the flag `filling`. */
static const cudaDeviceProp *keep_properties(int device, cudaDeviceProp *space, int *error)
{
    static atomic_flag filling[RUNTIME_MAX_DEVICES];
    *error = fill_properties(device, space);
    if (*error || device >= RUNTIME_MAX_DEVICES || atomic_flag_test_and_set(&filling[device]))
        return NULL;
    struct kept_properties *kept = &kept_properties[device];
    kept->properties = *space;
    atomic_store_explicit(&kept->known, true, memory_order_release);
    return &kept->properties;
}

/* size: how much of the structure the caller's layout has. */
static int get_properties(void *out, int device, size_t size)
{
    cudaDeviceProp space;
    const cudaDeviceProp *properties = NULL;
    int error = out ? runtime_attach_device(device) : runtime_attach(NULL);
    if (!error && !out)
        error = cudaErrorInvalidValue;
    if (error)
        return error;
    if (LIKELY(device < RUNTIME_MAX_DEVICES &&
               atomic_load_explicit(&kept_properties[device].known, memory_order_acquire)))
        properties = &kept_properties[device].properties;
    else
        properties = keep_properties(device, &space, &error);
    if (!error)
        memcpy(out, properties ? properties : &space, size);
    return error;
}

#if FLYT_CUDART == 12
/* What a program of CUDA 11 expects of cudaGetDeviceProperties. */
enum { CUDART_PROPERTIES_11_SIZE = 728 };

/* CUDA 12 added members and a second entry for them; the first keeps 11's size, which is a prefix. */
cudaError_t runtime_cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    return runtime_local(get_properties(out, device, CUDART_PROPERTIES_11_SIZE));
}

cudaError_t runtime_cudaGetDeviceProperties_v2(cudaDeviceProp *out, int device)
{
    return runtime_local(get_properties(out, device, sizeof(cudaDeviceProp)));
}
#else
cudaError_t runtime_cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    return runtime_local(get_properties(out, device, sizeof(cudaDeviceProp)));
}
#endif

/* How much of what was asked for a device has; members that are zero in the request ask for nothing. Only members
   of 11's layout are read, because CUDA 12 has one entry for both sizes. */
static int score(const cudaDeviceProp *wanted, const cudaDeviceProp *has)
{
    int points = 0;
    if (wanted->major)
        points += (has->major > wanted->major || (has->major == wanted->major && has->minor >= wanted->minor)) * 8;
    points += (wanted->name[0] && strncmp(wanted->name, has->name, sizeof has->name) == 0) * 4;
    points += wanted->totalGlobalMem && has->totalGlobalMem >= wanted->totalGlobalMem;
    points += wanted->multiProcessorCount && has->multiProcessorCount >= wanted->multiProcessorCount;
    points += wanted->sharedMemPerBlock && has->sharedMemPerBlock >= wanted->sharedMemPerBlock;
    points += wanted->regsPerBlock && has->regsPerBlock >= wanted->regsPerBlock;
    points += wanted->maxThreadsPerBlock && has->maxThreadsPerBlock >= wanted->maxThreadsPerBlock;
    return points;
}

static int choose_device(int *device, const cudaDeviceProp *wanted)
{
    int count, best = -1;
    cudaDeviceProp has;
    int error = runtime_attach(&count);
    if (!error && (!device || !wanted))
        error = cudaErrorInvalidValue;
    for (int i = 0; !error && i < count; i++) {
        error = get_properties(&has, i, sizeof has);
        if (!error && score(wanted, &has) > best) {
            best = score(wanted, &has);
            *device = i;
        }
    }
    return error;
}

cudaError_t runtime_cudaChooseDevice(int *device, const cudaDeviceProp *wanted)
{
    return runtime_local(choose_device(device, wanted));
}
