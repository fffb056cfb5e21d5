// shows: memory: a memory handle goes to another process as a file descriptor, over a socket or by inheritance; both
//   map
//   the same memory
// shows: memory: a descriptor alone keeps its memory, until the last copy of it is closed in whatever process
// shows: robustness: descriptors that are none of Flyt's, and some that look like one, are refused
#include "software.h"
#include "together.h"
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>

#define DRIVER(X)                                                                                        \
    X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap)  \
    X(cuMemSetAccess) X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle)                  \
    X(cuMemGetAllocationPropertiesFromHandle) X(cuMemRetainAllocationHandle) X(cuDeviceGetAttribute)     \
    X(cuMemGetAllocationGranularity)
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

static const CUmemAllocationHandleType DESCRIPTOR = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
static const size_t SIZE = 4 << 20;

static CUmemAllocationProp properties(bool shared)
{
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.requestedHandleTypes = shared ? DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    return p;
}

__global__ void bump(unsigned *words, unsigned what) { words[blockIdx.x * blockDim.x + threadIdx.x] += what; }

static unsigned *map(CUmemGenericAllocationHandle handle)
{
    CUdeviceptr at;
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DOES(p_cuMemAddressReserve(&at, SIZE, 0, 0, 0));
    DOES(p_cuMemMap(at, SIZE, 0, handle, 0));
    DOES(p_cuMemSetAccess(at, SIZE, &access, 1));
    return (unsigned *)at;
}

static void unmap(unsigned *words)
{
    DOES(p_cuMemUnmap((CUdeviceptr)words, SIZE));
    DOES(p_cuMemAddressFree((CUdeviceptr)words, SIZE));
}

static bool holds(const unsigned *device, unsigned expected)
{
    static unsigned words[1024];
    MUST(cudaMemcpy(words, device, sizeof words, cudaMemcpyDeviceToHost));
    for (unsigned word : words)
        if (word != expected)
            return false;
    return true;
}

static void refused(int fd)
{
    CUmemGenericAllocationHandle handle;
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, DESCRIPTOR));
    if (fd >= 0)
        close(fd);
}

// Copies of a good descriptor's bytes into files that somebody could change while they are read, or with one bit wrong.
static void hostile(int good)
{
    char bytes[256];
    ssize_t size = pread(good, bytes, sizeof bytes, 0);
    HOLDS(size > 0 && size < (ssize_t)sizeof bytes);
    int ends[2], open_file = memfd_create("copy", MFD_ALLOW_SEALING), plain = memfd_create("plain", 0);
    HOLDS(pipe(ends) == 0);
    refused(-1);
    refused(9999);
    refused(ends[0]);
    refused(ends[1]);
    refused(open("/dev/zero", O_RDWR));
    refused(open("/proc/self/exe", O_RDONLY));
    refused(open("/", O_RDONLY));
    HOLDS(write(open_file, bytes, (size_t)size) == size && write(plain, bytes, (size_t)size) == size);
    refused(dup(open_file));                  // not sealed
    refused(plain);
    HOLDS(fcntl(open_file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    refused(open_file);
    for (ssize_t at : { (ssize_t)0, size - 1, size - 32 }) {
        int wrong = memfd_create("wrong", MFD_ALLOW_SEALING);
        bytes[at] ^= 1;
        HOLDS(write(wrong, bytes, (size_t)size) == size);
        bytes[at] ^= 1;
        HOLDS(fcntl(wrong, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
        refused(wrong);
    }
    int large = memfd_create("large", MFD_ALLOW_SEALING);
    HOLDS(ftruncate(large, (off_t)1 << 40) == 0);
    HOLDS(fcntl(large, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    refused(large);
    CUmemGenericAllocationHandle handle;
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemImportFromShareableHandle(nullptr, (void *)(intptr_t)good, DESCRIPTOR));
    DRIVES(CUDA_ERROR_INVALID_VALUE,
           p_cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)good, CU_MEM_HANDLE_TYPE_NONE));
}

static size_t free_bytes()
{
    size_t left, all;
    MUST(cudaMemGetInfo(&left, &all));
    return left;
}

// The exporter has neither a handle nor a mapping any more.
static void child_keeps()
{
    int fd;
    char byte;
    CUmemGenericAllocationHandle handle;
    together_hear(&byte, 1, &fd);
    together_meet();                          // the other process has closed its descriptor, too
    DOES(p_cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, DESCRIPTOR));
    unsigned *words = map(handle);
    HOLDS(holds(words, 77));
    unmap(words);
    DOES(p_cuMemRelease(handle));
    together_meet();                          // the descriptor still keeps it
    together_meet();
    close(fd);
    together_meet();
    together_meet();
}

static void parent_keeps()
{
    int fd;
    char byte = 1;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp p = properties(true);
    MUST(cudaDeviceSynchronize());
    size_t before = free_bytes();
    DOES(p_cuMemCreate(&handle, SIZE, &p, 0));
    unsigned *words = map(handle);
    MUST(cudaMemset(words, 0, SIZE));
    bump<<<4, 256>>>(words, 77);
    MUST(cudaDeviceSynchronize());
    unmap(words);
    DOES(p_cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 0));
    DOES(p_cuMemRelease(handle));
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemRelease(handle));
    together_say(&byte, 1, fd);
    close(fd);
    together_meet();
    together_meet();
    HOLDS(free_bytes() < before);
    together_meet();
    together_meet();                          // nobody has the descriptor any more
    HOLDS(free_bytes() == before);
    together_meet();                          // the other process lives until here: its end would free memory, too
}

static int child_main()
{
    int fd;
    char byte;
    CUmemGenericAllocationHandle handle, retained;
    CUmemAllocationProp p = {};
    driver_find();
    together_hear(&byte, 1, &fd);
    if (with_flyt()) // natively some of these end the process
        hostile(fd);
    DOES(p_cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, DESCRIPTOR));
    close(fd);
    DOES(p_cuMemGetAllocationPropertiesFromHandle(&p, handle));
    HOLDS(p.type == CU_MEM_ALLOCATION_TYPE_PINNED && p.location.id == 0 && p.requestedHandleTypes == DESCRIPTOR);
    unsigned *words = map(handle);
    HOLDS(holds(words, 5));
    bump<<<4, 256>>>(words, 6);
    MUST(cudaDeviceSynchronize());
    DOES(p_cuMemRetainAllocationHandle(&retained, words));
    HOLDS(retained == handle);
    DOES(p_cuMemRelease(retained));
    together_meet();
    together_meet();                          // the other process has released and unmapped all that it had
    HOLDS(holds(words, 18));
    unsigned *again = map(handle);
    bump<<<4, 256>>>(again, 1);
    HOLDS(holds(words, 19));
    DOES(p_cuMemRelease(handle));
    unmap(words);
    HOLDS(holds(again, 19));
    unmap(again);
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemRelease(handle));
    together_meet();
    child_keeps();
    return check_result("ipc_handles, the other process");
}

// Many exports, and what was not made for it.
static void exporting(CUmemGenericAllocationHandle handle)
{
    enum { MANY = 500 };
    int fd, first;
    CUmemGenericAllocationHandle private_one, own;
    CUmemAllocationProp p = properties(false);
    DOES(p_cuMemCreate(&private_one, SIZE, &p, 0));
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemExportToShareableHandle(&fd, private_one, DESCRIPTOR, 0));
    DOES(p_cuMemRelease(private_one));
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemExportToShareableHandle(nullptr, handle, DESCRIPTOR, 0));
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 1));
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_NONE, 0));
    DRIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemExportToShareableHandle(&fd, 12345, DESCRIPTOR, 0));
    DOES(p_cuMemExportToShareableHandle(&first, handle, DESCRIPTOR, 0));
    close(first);
    for (int i = 0; i < MANY; i++) {
        DOES(p_cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 0));
        HOLDS(fd == first);                   // the lowest number: nothing else was left open
        close(fd);
    }
    DOES(p_cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 0));
    // here it may be imported, too
    DOES(p_cuMemImportFromShareableHandle(&own, (void *)(intptr_t)fd, DESCRIPTOR));
    unsigned *words = map(own);
    HOLDS(holds(words, 5));
    unmap(words);
    DOES(p_cuMemRelease(own));
    close(fd);
}

int main(int argc, char **argv)
{
    if (together_is(argc, argv, "import"))
        return child_main();
    alarm(TOGETHER_SECONDS);
    pid_t child = together_start("import");
    int fd, supported = -1;
    char byte = 1;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp p = properties(true);
    driver_find();
    DOES(p_cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    CUresult possible = p_cuMemCreate(&handle, SIZE, &p, 0);
    if (possible == CUDA_ERROR_NOT_SUPPORTED) {               // the server is in this process
        HOLDS(supported == 0);
        kill(child, SIGKILL);
        return check_result("ipc_handles");
    }
    HOLDS(supported == 1);
    DOES(possible);
    unsigned *words = map(handle);
    MUST(cudaMemset(words, 0, SIZE));
    bump<<<4, 256>>>(words, 5);
    MUST(cudaDeviceSynchronize());
    exporting(handle);
    DOES(p_cuMemExportToShareableHandle(&fd, handle, DESCRIPTOR, 0));
    together_say(&byte, 1, fd);
    close(fd);
    together_meet();
    HOLDS(holds(words, 11));
    bump<<<4, 256>>>(words, 7);
    MUST(cudaDeviceSynchronize());
    DOES(p_cuMemRelease(handle));
    unmap(words);
    MUST(cudaDeviceSynchronize());
    together_meet();
    together_meet();                          // the child has nothing of it left
    parent_keeps();
    HOLDS(together_end(child) == 0);
    return check_result("ipc_handles");
}
