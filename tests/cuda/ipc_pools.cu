// shows: memory: pools: another process imports a pool and allocations of it by their pointer data, and frees them;
//   what is not of this pool, or of no pool, is refused
// shows: attacks: pointer data of a pool's allocation with any single byte changed is refused
#include "software.h"
#include "together.h"

enum { WORDS = 100000, MANY = 40 };

__global__ void add(unsigned *words, unsigned count, unsigned what)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] += what;
}

static bool holds(const unsigned *device, unsigned expected)
{
    static unsigned words[WORDS];
    MUST(cudaMemcpy(words, device, sizeof words, cudaMemcpyDeviceToHost));
    for (unsigned word : words)
        if (word != expected)
            return false;
    return true;
}

struct message { cudaMemPoolPtrExportData pointer[MANY]; };

static int child_main()
{
    int fd, other;
    char byte;
    message m;
    cudaMemPool_t pool, second;
    unsigned *words[MANY];
    void *pointer;
    together_hear(&byte, 1, &fd);
    together_hear(&byte, 1, &other);
    together_hear(&m, sizeof m);
    MUST(cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, cudaMemHandleTypePosixFileDescriptor, 0));
    MUST(cudaMemPoolImportFromShareableHandle(&second, (void *)(intptr_t)other, cudaMemHandleTypePosixFileDescriptor,
                                              0));
    GIVES(cudaErrorInvalidValue, cudaMemPoolImportFromShareableHandle(&second, (void *)(intptr_t)0,
                                                                      cudaMemHandleTypePosixFileDescriptor, 0));
    close(fd);
    close(other);
    GIVES(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&pointer, 4096, pool, nullptr));
    GIVES(cudaErrorInvalidValue, cudaDeviceSetMemPool(0, pool));
    GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&pointer, second, &m.pointer[0]));
    for (size_t at = 0; with_flyt() && at < sizeof m.pointer[0].reserved; at++) { // natively not all bytes count
        cudaMemPoolPtrExportData wrong = m.pointer[1];
        wrong.reserved[at] ^= 16;
        GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&pointer, pool, &wrong));
    }
    for (int i = 0; i < MANY; i++) {
        MUST(cudaMemPoolImportPointer((void **)&words[i], pool, &m.pointer[i]));
        HOLDS(holds(words[i], (unsigned)i));
        add<<<4, 128>>>(words[i], WORDS, 100);
    }
    GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&pointer, pool, &m.pointer[0]));
    MUST(cudaDeviceSynchronize());
    together_meet();
    for (int i = 0; i < MANY; i++) {
        if (i % 2)
            MUST(cudaFreeAsync(words[i], nullptr));
        else
            MUST(cudaFree(words[i]));
    }
    GIVES(cudaErrorInvalidValue, cudaFree(words[0]));
    MUST(cudaMemPoolImportPointer(&pointer, pool, &m.pointer[3]));
    HOLDS(holds((unsigned *)pointer, 103));
    MUST(cudaFreeAsync(pointer, nullptr));
    MUST(cudaStreamSynchronize(nullptr));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaMemPoolDestroy(second));
    together_meet();
    return check_result("ipc_pools, the other process");
}

int main(int argc, char **argv)
{
    if (together_is(argc, argv, "import"))
        return child_main();
    alarm(TOGETHER_SECONDS);
    pid_t child = together_start("import");
    cudaMemPoolProps properties = {};
    cudaMemPool_t pool, second, usual;
    message m;
    unsigned *words[MANY];
    int fd, supported = -1;
    char byte = 1;
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    MUST(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
    cudaError_t possible = cudaMemPoolCreate(&pool, &properties);
    if (possible == cudaErrorNotSupported) {                  // the server is in this process
        HOLDS(supported == 0);
        kill(child, SIGKILL);
        return check_result("ipc_pools");
    }
    MUST(possible);
    HOLDS(supported & cudaMemHandleTypePosixFileDescriptor); // and a driver may have others
    MUST(cudaMemPoolCreate(&second, &properties));
    MUST(cudaDeviceGetDefaultMemPool(&usual, 0));
    GIVES(cudaErrorInvalidValue,
          cudaMemPoolExportToShareableHandle(&fd, usual, cudaMemHandleTypePosixFileDescriptor, 0));
    MUST(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    together_say(&byte, 1, fd);
    close(fd);
    MUST(cudaMemPoolExportToShareableHandle(&fd, second, cudaMemHandleTypePosixFileDescriptor, 0));
    together_say(&byte, 1, fd);
    close(fd);
    for (unsigned i = 0; i < MANY; i++) {
        MUST(cudaMallocFromPoolAsync((void **)&words[i], WORDS * sizeof *words[i], pool, nullptr));
        MUST(cudaMemsetAsync(words[i], 0, WORDS * sizeof *words[i]));
        add<<<4, 128>>>(words[i], WORDS, i);
        MUST(cudaMemPoolExportPointer(&m.pointer[i], words[i]));
    }
    void *plain;
    cudaMemPoolPtrExportData data;
    MUST(cudaMalloc(&plain, 4096));
    GIVES(cudaErrorInvalidValue, cudaMemPoolExportPointer(&data, plain));
    GIVES(cudaErrorInvalidValue, cudaMemPoolExportPointer(&data, nullptr));
    MUST(cudaDeviceSynchronize());
    together_say(&m, sizeof m);
    together_meet();
    for (unsigned i = 0; i < MANY; i++)
        HOLDS(holds(words[i], 100 + i));
    together_meet();
    for (unsigned i = 0; i < MANY; i++)
        MUST(cudaFreeAsync(words[i], nullptr));
    MUST(cudaStreamSynchronize(nullptr));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaMemPoolDestroy(second));
    HOLDS(together_end(child) == 0);
    return check_result("ipc_pools");
}
