// shows: peers: kernels of one device use memory of another that this process has imported: by an IPC handle with peer
//   access, which is enabled before, after or by the handle, and by a pool's pointer with the pool's access; error 700
//   without
#include "check.h"
#include "together.h"

enum { USER, OWNER };                         // devices
enum way { LAZY, BEFORE, AFTER, NEVER, DISABLED, RESET, POOL_BEFORE, POOL_AFTER, POOL_NEVER, POOL_TAKEN, WAYS };
static const char *const words[WAYS] = { "lazy", "before", "after", "never", "disabled", "reset",
                                         "pool_before", "pool_after", "pool_never", "pool_taken" };
enum { THREADS = 32, START = 10 };

__global__ void count(int *p) { atomicAdd_system(p, 1); }

struct message {
    bool none;                                // the server shares no memory, or has one device
    cudaIpcMemHandle_t handle;
    cudaMemPoolPtrExportData pointer;
};

static int *with_handle(enum way way, const message &m)
{
    int *p;
    if (way == LAZY) {                        // the handle's flag enables the access
        cudaPointerAttributes what;
        MUST(cudaIpcOpenMemHandle((void **)&p, m.handle, cudaIpcMemLazyEnablePeerAccess));
        MUST(cudaPointerGetAttributes(&what, p));
        HOLDS(what.type == cudaMemoryTypeDevice && what.device == OWNER);
        return p;
    }
    if (way == BEFORE || way == DISABLED)
        MUST(cudaDeviceEnablePeerAccess(OWNER, 0));
    MUST(cudaSetDevice(OWNER));
    MUST(cudaIpcOpenMemHandle((void **)&p, m.handle, cudaIpcMemLazyEnablePeerAccess));
    MUST(cudaSetDevice(USER));
    if (way == AFTER || way == RESET)
        MUST(cudaDeviceEnablePeerAccess(OWNER, 0));
    if (way == DISABLED)
        MUST(cudaDeviceDisablePeerAccess(OWNER));
    if (way == RESET)
        MUST(cudaDeviceReset());
    return p;
}

static int *with_pool(enum way way, message &m, int fd)
{
    int *p;
    cudaMemPool_t pool;
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = USER;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    MUST(cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, cudaMemHandleTypePosixFileDescriptor, 0));
    if (way == POOL_BEFORE || way == POOL_TAKEN)
        MUST(cudaMemPoolSetAccess(pool, &access, 1));
    MUST(cudaMemPoolImportPointer((void **)&p, pool, &m.pointer));
    if (way == POOL_AFTER)
        MUST(cudaMemPoolSetAccess(pool, &access, 1));
    if (way == POOL_TAKEN) {
        access.flags = cudaMemAccessFlagsProtNone;
        MUST(cudaMemPoolSetAccess(pool, &access, 1));
    }
    if (way == POOL_NEVER)                    // is about other memory
        MUST(cudaDeviceEnablePeerAccess(OWNER, 0));
    return p;
}

static int import_main(enum way way)
{
    message m;
    int fd, value = -1;
    together_hear(&m, sizeof m, &fd);
    if (m.none)
        return 0;
    MUST(cudaSetDevice(USER));
    int *p = way < POOL_BEFORE ? with_handle(way, m) : with_pool(way, m, fd);
    count<<<1, THREADS>>>(p);
    if (way == LAZY || way == BEFORE || way == AFTER || way == POOL_BEFORE || way == POOL_AFTER) {
        MUST(cudaDeviceSynchronize());
        MUST(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDefault));
        HOLDS(value == START + THREADS);
    } else {
        GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    }
    together_meet();
    return check_result(words[way]);
}

// 77: there is nothing to test.
static int export_main(enum way way)
{
    alarm(TOGETHER_SECONDS);
    pid_t child = together_start(words[way]);
    message m = {};
    cudaMemPool_t pool;
    cudaMemPoolProps properties = {};
    int *plain, *pooled, devices, fd = -1, value = START;
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = OWNER;
    properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    MUST(cudaGetDeviceCount(&devices));
    m.none = devices < 2;
    if (!m.none) {
        MUST(cudaSetDevice(OWNER));
        m.none = cudaMemPoolCreate(&pool, &properties) == cudaErrorNotSupported;
    }
    if (m.none) {
        together_say(&m, sizeof m);
        HOLDS(together_end(child) == 0);
        return check_failures ? 1 : 77;
    }
    MUST(cudaMalloc(&plain, sizeof *plain));
    MUST(cudaMallocFromPoolAsync((void **)&pooled, sizeof *pooled, pool, nullptr));
    MUST(cudaMemcpy(plain, &value, sizeof value, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(pooled, &value, sizeof value, cudaMemcpyHostToDevice));
    MUST(cudaDeviceSynchronize());
    MUST(cudaIpcGetMemHandle(&m.handle, plain));
    MUST(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    MUST(cudaMemPoolExportPointer(&m.pointer, pooled));
    together_say(&m, sizeof m, fd);
    together_meet();
    HOLDS(together_end(child) == 0);
    return check_failures != 0;
}

int main(int argc, char **argv)
{
    for (int way = 0; way < WAYS; way++)
        if (together_is(argc, argv, words[way]))
            return import_main((enum way)way);
    for (int way = 0; way < WAYS; way++) {
        int status = -1;
        fflush(stdout);
        pid_t child = fork();                 // this process uses no CUDA
        if (child == 0)
            _exit(export_main((enum way)way));
        HOLDS(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
            printf("ipc_peers: skipped: one device, or a server that shares no memory between processes\n");
            return 0;
        }
        if (status != 0)
            fprintf(stderr, "%s: status %#x\n", words[way], status);
        HOLDS(status == 0);
    }
    return check_result("ipc_peers");
}
