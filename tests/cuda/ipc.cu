// shows: memory: another process opens an allocation of this one by its handle: both see what the other's kernels write
// shows: memory: handles: inside an allocation they name its beginning; opened twice they give one address; in the
//   process that made them, for freed memory and for other sorts of memory they give native's codes
// shows: robustness: a process goes on with opened memory when the one that made it is killed
#include "software.h"
#include "together.h"

enum { WORDS = 3 << 20 };                     // several pieces of memory
enum { REPORT = 8 };                          // the descriptor by which the importer says that all was well

__global__ void fill(unsigned *words, unsigned count, unsigned factor)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] = i * factor;
}

__global__ void add(unsigned *words, unsigned count, unsigned what)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] += what;
}

static bool holds(const unsigned *device, unsigned factor, unsigned more)
{
    static unsigned words[WORDS];
    MUST(cudaMemcpy(words, device, sizeof words, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != i * factor + more)
            return false;
    return true;
}

struct message {
    cudaIpcMemHandle_t large, small, freed;
};

static int child_main()
{
    message m;
    unsigned *large, *again, *small, word;
    together_hear(&m, sizeof m);
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle((void **)&large, m.large, 0));
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle((void **)&large, m.large, 2));
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle(nullptr, m.large, cudaIpcMemLazyEnablePeerAccess));
    cudaIpcMemHandle_t wrong = m.large;
    wrong.reserved[40] ^= 1;
    if (with_flyt()) // natively not all of a handle counts
        GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle((void **)&large, wrong, cudaIpcMemLazyEnablePeerAccess));
    memset(&wrong, 0, sizeof wrong);
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle((void **)&large, wrong, cudaIpcMemLazyEnablePeerAccess));
    MUST(cudaIpcOpenMemHandle((void **)&large, m.large, cudaIpcMemLazyEnablePeerAccess));
    HOLDS(holds(large, 3, 0));
    add<<<8, 128>>>(large, WORDS, 7);
    MUST(cudaIpcOpenMemHandle((void **)&again, m.large, cudaIpcMemLazyEnablePeerAccess));
    HOLDS(again == large);
    MUST(cudaIpcCloseMemHandle(again));
    HOLDS(holds(large, 3, 7));
    MUST(cudaIpcOpenMemHandle((void **)&small, m.small, cudaIpcMemLazyEnablePeerAccess));
    MUST(cudaMemcpy(&word, small, sizeof word, cudaMemcpyDeviceToHost));
    HOLDS(word == 4711);
    cudaPointerAttributes what;
    MUST(cudaPointerGetAttributes(&what, small));
    HOLDS(what.type == cudaMemoryTypeDevice && what.devicePointer == small);
    GIVES(cudaErrorInvalidValue, cudaFree(small));
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&wrong, small));
    if (with_flyt()) // natively the handle of other memory that has got the address
        GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle((void **)&again, m.freed, cudaIpcMemLazyEnablePeerAccess));
    MUST(cudaIpcCloseMemHandle(small));
    GIVES(cudaErrorInvalidValue, cudaIpcCloseMemHandle(small));
    GIVES(cudaErrorInvalidValue, cudaMemcpy(&word, small, sizeof word, cudaMemcpyDeviceToHost));
    together_meet();                          // the parent looks at what was added
    together_meet();                          // it has written 5 * i
    HOLDS(holds(large, 5, 0));
    pid_t parent = getppid();
    together_meet();
    HOLDS(kill(parent, SIGKILL) == 0);        // a process between this one and the test
    while (kill(parent, 0) == 0 && getppid() == parent)
        usleep(1000);
    add<<<8, 128>>>(large, WORDS, 1);
    HOLDS(holds(large, 5, 1));
    cudaError_t gone = cudaSuccess;                         // the server hears of the end a moment later
    while (with_flyt() &&
           (gone = cudaIpcOpenMemHandle((void **)&again, m.small, cudaIpcMemLazyEnablePeerAccess)) == cudaSuccess) {
        MUST(cudaIpcCloseMemHandle(again));
        usleep(10000);
    }
    HOLDS(!with_flyt() || gone == cudaErrorInvalidValue);
    MUST(cudaIpcCloseMemHandle(large));
    MUST(cudaMalloc(&again, sizeof(unsigned) * WORDS));
    fill<<<8, 128>>>(again, WORDS, 9);
    HOLDS(holds(again, 9, 0));
    int result = check_result("ipc, the other process");
    HOLDS(result || write(REPORT, "y", 1) == 1);
    return result;
}

static void refusals(unsigned *large, const cudaIpcMemHandle_t &handle)
{
    cudaIpcMemHandle_t other;
    void *pointer, *pooled, *pinned;
    static int ordinary;
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&other, nullptr));
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&other, &ordinary));
    MUST(cudaMallocAsync(&pooled, 4096, nullptr));
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&other, pooled));
    MUST(cudaFreeAsync(pooled, nullptr));
    MUST(cudaMallocHost(&pinned, 4096));
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&other, pinned));
    MUST(cudaFreeHost(pinned));
    GIVES(cudaErrorDeviceUninitialized, cudaIpcOpenMemHandle(&pointer, handle, cudaIpcMemLazyEnablePeerAccess));
    GIVES(cudaErrorInvalidValue, cudaIpcCloseMemHandle(large));
    (void)cudaGetLastError();
}

// Exports, and is killed by the process that imports. Status 1: something was wrong before that.
static int parent_main()
{
    unsigned *large, *small, *freed, *before, *behind, word = 4711;
    message m;
    together_start("import");
    MUST(cudaMalloc(&before, 256));
    MUST(cudaMalloc(&large, sizeof(unsigned) * WORDS));
    MUST(cudaMalloc(&behind, 256));
    MUST(cudaMalloc(&small, 1000));
    MUST(cudaMalloc(&freed, 100000));
    cudaIpcMemHandle_t inside, again;
    cudaError_t possible = cudaIpcGetMemHandle(&m.large, large);
    if (possible == cudaErrorNotSupported) {  // the server is in this process
        _exit(77);
    }
    MUST(possible);
    MUST(cudaIpcGetMemHandle(&inside, large + 12345));
    HOLDS(memcmp(&inside, &m.large, sizeof inside) == 0);
    fill<<<8, 128>>>(large, WORDS, 3);
    MUST(cudaMemcpy(small, &word, sizeof word, cudaMemcpyHostToDevice));
    MUST(cudaIpcGetMemHandle(&m.small, small));
    MUST(cudaIpcGetMemHandle(&m.freed, freed));
    MUST(cudaFree(freed));
    unsigned *same;
    MUST(cudaMalloc(&same, 100000));
    MUST(cudaIpcGetMemHandle(&again, same));
    HOLDS(!with_flyt() || memcmp(&again, &m.freed, sizeof again) != 0);
    refusals(large, m.large);
    MUST(cudaDeviceSynchronize());
    together_say(&m, sizeof m);
    together_meet();
    HOLDS(holds(large, 3, 7));
    fill<<<8, 128>>>(large, WORDS, 5);
    MUST(cudaDeviceSynchronize());
    together_meet();
    together_meet();
    if (check_failures)
        _exit(1);
    pause();
    return 1;
}

int main(int argc, char **argv)
{
    if (together_is(argc, argv, "import"))
        return child_main();
    alarm(TOGETHER_SECONDS);
    // The exporter is a process of its own, so that it can be killed.
    int ends[2], status = -1;
    if (pipe(ends) != 0)
        return 1;
    pid_t exporter = fork();
    if (exporter == 0) {
        dup2(ends[1], REPORT);
        close(ends[1]);
        close(ends[0]);
        _exit(parent_main());
    }
    close(ends[1]);
    char byte = 0;
    bool well = read(ends[0], &byte, 1) == 1 && byte == 'y';
    waitpid(exporter, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("ipc: skipped: this server shares no memory between processes\n");
        return 0;
    }
    HOLDS(well && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return check_result("ipc");
}
