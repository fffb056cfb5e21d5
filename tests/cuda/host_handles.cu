// shows: memory: virtual memory of the host (cuMemCreate with HOST, HOST_NUMA): kernels and the program see the same
//   bytes, wherever it is mapped, also after it was mapped elsewhere, and while no context exists; copies, attributes,
//   CUDA's error codes
#include "check.h"
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER(X)                                                                                        \
    X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap)  \
    X(cuMemSetAccess) X(cuMemGetAccess) X(cuMemGetAllocationPropertiesFromHandle) X(cuDeviceGetAttribute) \
    X(cuMemGetAllocationGranularity) X(cuPointerGetAttribute)
#define POINTER(name) static decltype(&name) p_##name;
DRIVER(POINTER)

static void driver_find()
{
    MUST(cudaFree(nullptr));
#if CUDART_VERSION >= 13000
#define FIND(name) MUST(cudaGetDriverEntryPointByVersion(#name, (void **)&p_##name, CUDART_VERSION, 0, nullptr));
#else
#define FIND(name) MUST(cudaGetDriverEntryPoint(#name, (void **)&p_##name, 0));
#endif
    DRIVER(FIND)
}

#define DRIVES(expected, call) GIVES((cudaError_t)(expected), (cudaError_t)(call))
#define DOES(call) MUST((cudaError_t)(call))

// CUmemLocationType of later releases.
enum { ON_DEVICE = 1, ON_HOST = 2, ON_NODE = 3, ON_NODE_HERE = 4 };
static const size_t SIZE = 4 << 20;
static const unsigned WORDS = SIZE / sizeof(unsigned);

static CUmemLocation place(int type)
{
    CUmemLocation l = {};
    l.type = (CUmemLocationType)type;
    return l;
}

static CUmemAllocationProp properties(int type)
{
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = place(type);
    return p;
}

static CUmemAccessDesc access_of(int type, CUmemAccess_flags flags)
{
    CUmemAccessDesc a = {};
    a.location = place(type);
    a.flags = flags;
    return a;
}

__global__ void add(unsigned *words, unsigned what)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < WORDS; i += gridDim.x * blockDim.x)
        words[i] = words[i] * 3 + what + i;
}

static bool follows(const unsigned *words, unsigned times3, unsigned plus, unsigned each)
{
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != times3 + plus + each * i)
            return false;
    return true;
}

static unsigned *map(CUmemGenericAllocationHandle handle, int type)
{
    CUdeviceptr at;
    const CUmemAccessDesc both[] = { access_of(ON_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                                     access_of(type, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) };
    DOES(p_cuMemAddressReserve(&at, SIZE, 0, 0, 0));
    DOES(p_cuMemMap(at, SIZE, 0, handle, 0));
    DOES(p_cuMemSetAccess(at, SIZE, both, 2));
    return (unsigned *)at;
}

static void unmap(unsigned *words)
{
    DOES(p_cuMemUnmap((CUdeviceptr)words, SIZE));
    DOES(p_cuMemAddressFree((CUdeviceptr)words, SIZE));
}

static void attributes(unsigned *words, int type)
{
    CUdeviceptr at = (CUdeviceptr)(words + 100);
    unsigned kind = 0;
    void *host = nullptr;
    unsigned long long flags = 0;
    cudaPointerAttributes all;
    CUmemLocation here = place(type), device = place(ON_DEVICE);
    DOES(p_cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    DOES(p_cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    HOLDS(kind == CU_MEMORYTYPE_HOST && host == words + 100);
    MUST(cudaPointerGetAttributes(&all, words + 100));
    HOLDS(all.type == cudaMemoryTypeHost && all.hostPointer == words + 100 && all.devicePointer == words + 100);
    DOES(p_cuMemGetAccess(&flags, &here, at));
    HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    DOES(p_cuMemGetAccess(&flags, &device, at));
    HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static void both_sides(int type)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp p = properties(type), found = {};
    size_t granularity = 0;
    DOES(p_cuMemGetAllocationGranularity(&granularity, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    HOLDS(granularity && SIZE % granularity == 0);
    DOES(p_cuMemCreate(&handle, SIZE, &p, 0));
    DOES(p_cuMemGetAllocationPropertiesFromHandle(&found, handle));
    // a driver may say of memory of the host on which node it lies
    HOLDS((found.location.type == (CUmemLocationType)type || found.location.type == (CUmemLocationType)ON_NODE) &&
          found.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    unsigned *words = map(handle, type), *other = (unsigned *)malloc(SIZE), *memory;
    attributes(words, type);
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = 10;
    add<<<8, 256>>>(words, 7);
    MUST(cudaDeviceSynchronize());
    HOLDS(follows(words, 30, 7, 1));
    words[WORDS - 1] = 77;                        // stays the program's until it is unmapped, and goes along
    unmap(words);
    CUdeviceptr kept;                             // the handle is mapped elsewhere
    DOES(p_cuMemAddressReserve(&kept, SIZE, 0, 0, 0));
    words = map(handle, type);
    HOLDS(words[WORDS - 1] == 77 && words[5] == 42);
    words[WORDS - 1] = 37 + WORDS - 1;
    MUST(cudaMalloc(&memory, SIZE));
    MUST(cudaMemcpy(memory, words, SIZE, cudaMemcpyHostToDevice));
    memset(words, 0, SIZE);
    add<<<8, 256>>>(memory, 0);
    MUST(cudaMemcpy(words, memory, SIZE, cudaMemcpyDeviceToHost));
    HOLDS(follows(words, 111, 0, 4));
    MUST(cudaMemcpy(other, words, SIZE, cudaMemcpyHostToHost));
    HOLDS(follows(other, 111, 0, 4));
    DOES(p_cuMemRelease(handle));                 // the mapping keeps it
    add<<<8, 256>>>(words, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(follows(words, 333, 1, 13));
    unmap(words);
    DOES(p_cuMemAddressFree(kept, SIZE));
    MUST(cudaFree(memory));
    free(other);
}

// The program loses access and gets it back; the bytes stay.
static void access_comes_and_goes()
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp p = properties(ON_NODE);
    DOES(p_cuMemCreate(&handle, SIZE, &p, 0));
    unsigned *words = map(handle, ON_NODE);
    CUdeviceptr at = (CUdeviceptr)words;
    unsigned long long flags = 9;
    CUmemLocation here = place(ON_NODE), device = place(ON_DEVICE);
    memset(words, 0, SIZE);
    CUmemAccessDesc a = access_of(ON_NODE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    DOES(p_cuMemSetAccess(at, SIZE, &a, 1));
    DOES(p_cuMemGetAccess(&flags, &here, at));
    HOLDS(flags == 0);
    add<<<8, 256>>>(words, 4);
    MUST(cudaDeviceSynchronize());
    a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DOES(p_cuMemSetAccess(at, SIZE, &a, 1));
    HOLDS(follows(words, 0, 4, 1));
    a = access_of(ON_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    DOES(p_cuMemSetAccess(at, SIZE, &a, 1));
    DOES(p_cuMemGetAccess(&flags, &device, at));
    HOLDS(flags == 0);
    words[3] = 9;
    HOLDS(words[3] == 9 && words[4] == 8);
    unmap(words);
    DOES(p_cuMemRelease(handle));
}

// Handles and mappings outlive the device's contexts: what the program writes, and reads, while there is none.
static void without_context()
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp p = properties(ON_NODE);
    DOES(p_cuMemCreate(&handle, SIZE, &p, 0));
    unsigned *words = map(handle, ON_NODE);
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = 2;
    add<<<8, 256>>>(words, 1);                    // the bytes are the device's
    MUST(cudaDeviceReset());
    HOLDS(follows(words, 6, 1, 1));
    words[WORDS - 1] = 77;
    words[0] = 50;
    unmap(words);
    words = map(handle, ON_HOST);
    HOLDS(words[WORDS - 1] == 77 && words[0] == 50 && words[5] == 12);
    words[1] = 51;                                // a later context finds it
    add<<<8, 256>>>(words, 2);
    MUST(cudaDeviceSynchronize());
    HOLDS(words[0] == 152 && words[1] == 156 && words[5] == 43 && words[WORDS - 1] == 231 + 2 + WORDS - 1);
    unmap(words);
    DOES(p_cuMemRelease(handle));
}

// Kernels of another device use it, too, where the two devices can reach each other's memory.
static void other_device()
{
    int count = 0, reach = 0;
    MUST(cudaGetDeviceCount(&count));
    if (count > 1)
        MUST(cudaDeviceCanAccessPeer(&reach, 1, 0));
    if (!reach)
        return;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp p = properties(ON_HOST);
    CUmemAccessDesc a = access_of(ON_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    DOES(p_cuMemCreate(&handle, SIZE, &p, 0));
    unsigned *words = map(handle, ON_HOST);
    a.location.id = 1;
    DOES(p_cuMemSetAccess((CUdeviceptr)words, SIZE, &a, 1));
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = 2;
    add<<<8, 256>>>(words, 1);
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(1));
    add<<<8, 256>>>(words, 1);
    MUST(cudaDeviceSynchronize());
    HOLDS(follows(words, 21, 1, 4));
    MUST(cudaSetDevice(0));
    unmap(words);
    DOES(p_cuMemRelease(handle));
}

static void refused()
{
    CUmemGenericAllocationHandle handle;
    size_t granularity;
    CUmemAllocationProp p = properties(ON_NODE_HERE);
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemCreate(&handle, SIZE, &p, 0));
    DOES(p_cuMemGetAllocationGranularity(&granularity, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    p = properties(ON_HOST);
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemCreate(&handle, SIZE + 1, &p, 0));
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemCreate(&handle, SIZE, &p, 0));
    p = properties(ON_NODE);
    p.location.id = -1;
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemCreate(&handle, SIZE, &p, 0));
    CUdeviceptr at;
    p = properties(ON_DEVICE);
    CUmemAccessDesc a = access_of(ON_NODE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    DOES(p_cuMemCreate(&handle, SIZE, &p, 0));
    DOES(p_cuMemAddressReserve(&at, SIZE, 0, 0, 0));
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemSetAccess(at, SIZE, &a, 1));        // nothing is mapped
    DOES(p_cuMemMap(at, SIZE, 0, handle, 0));
    DRIVES(CUDA_ERROR_NOT_SUPPORTED, p_cuMemSetAccess(at, SIZE, &a, 1));        // it is no memory of the host
    unmap((unsigned *)at);
    DOES(p_cuMemRelease(handle));
}

int main()
{
    driver_find();
    int possible = 0, nodes = 0, managed = 0;
    DOES(p_cuDeviceGetAttribute(&possible, (CUdevice_attribute)145, 0));
    DOES(p_cuDeviceGetAttribute(&nodes, (CUdevice_attribute)141, 0));
    MUST(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0));
    HOLDS(possible == nodes && nodes == managed);
    refused();
    if (possible) {
        both_sides(ON_HOST);
        both_sides(ON_NODE);
        access_comes_and_goes();
        without_context();
        other_device();
    }
    return check_result("host_handles");
}
