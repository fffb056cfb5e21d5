// shows: order: what a launch was allowed when it was called counts, also where it has to wait for its turn behind a
//   host function and the program meanwhile changes attributes of the kernel, limits, textures and surfaces
//
// Each part blocks a stream, launches a kernel into it, takes away what the kernel needs, and lets the stream go on.
// The GPU server gives its driver at most 512 operations of a stream at a time, so the stream is filled first.
#include "check.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool open_;

static void CUDART_CB wait_for_gate(void *)
{
    pthread_mutex_lock(&lock);
    while (!open_)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static cudaStream_t stream;
static int *device, *host;
enum { COUNT = 64, LAUNCHES = 100, FILL = 600 };

static void close_gate()
{
    open_ = false;
    MUST(cudaLaunchHostFunc(stream, wait_for_gate, NULL));
    for (int i = 0; i < FILL; i++)
        MUST(cudaMemsetAsync(device + COUNT, i, 1, stream));
}

static void open_gate()
{
    pthread_mutex_lock(&lock);
    open_ = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

// The numbers that the kernels have left, when all work is done; they are 0 again then.
static const int *results()
{
    GIVES(cudaSuccess, cudaStreamSynchronize(stream));
    GIVES(cudaSuccess, cudaMemcpy(host, device, COUNT * sizeof *host, cudaMemcpyDeviceToHost));
    GIVES(cudaSuccess, cudaMemset(device, 0, COUNT * sizeof *host));
    GIVES(cudaSuccess, cudaDeviceSynchronize()); // the stream does not wait for the memset
    return host;
}

// ---- dynamic shared memory ----

__global__ void shared_end(int *out, int bytes)
{
    extern __shared__ char room[];
    room[bytes - 1] = 7;
    __syncthreads();
    atomicAdd(out, room[bytes - 1]);
}

static void set_shared(int bytes)
{
    MUST(cudaFuncSetAttribute(shared_end, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

static void lowered_shared_memory()
{
    close_gate();
    for (int i = 0; i < LAUNCHES; i++) {
        int bytes = 60000 - 500 * i;
        set_shared(bytes);
        shared_end<<<1, 1, bytes, stream>>>(device, bytes);
        GIVES(cudaSuccess, cudaGetLastError());
    }
    shared_end<<<1, 1, 60000, stream>>>(device, 60000);
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    cudaFuncAttributes now;
    MUST(cudaFuncGetAttributes(&now, shared_end));
    HOLDS(now.maxDynamicSharedSizeBytes == 60000 - 500 * (LAUNCHES - 1));
    open_gate();
    HOLDS(results()[0] == 7 * LAUNCHES);
    // and after them the last limit counts again
    size_t room;
    MUST(cudaOccupancyAvailableDynamicSMemPerBlock(&room, shared_end, 1, 32));
    HOLDS(room == 60000 - 500 * (LAUNCHES - 1));
}

// A node of a graph was allowed its shared memory when it was made.
static void lowered_under_a_graph()
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    set_shared(60000);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    shared_end<<<1, 1, 60000, stream>>>(device, 60000);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&executable, graph, 0));
    set_shared(1000);
    GIVES(cudaSuccess, cudaGraphLaunch(executable, stream));
    HOLDS(results()[0] == 7);
    close_gate();
    GIVES(cudaSuccess, cudaGraphLaunch(executable, stream));
    set_shared(60000);
    GIVES(cudaSuccess, cudaGraphLaunch(executable, stream));
    set_shared(2000);
    open_gate();
    HOLDS(results()[0] == 14);
    shared_end<<<1, 1, 2001, stream>>>(device, 2001);
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
}

// ---- clusters ----

#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 900
__global__ void cluster_size(int *out)
{
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    if (blockIdx.x == 0)
        atomicAdd(out, size);
}
#else
__global__ void cluster_size(int *) {}
#endif

static void other_clusters()
{
    MUST(cudaFuncSetAttribute(cluster_size, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    MUST(cudaFuncSetAttribute(cluster_size, cudaFuncAttributeRequiredClusterWidth, 16));
    close_gate();
    cluster_size<<<16, 32, 0, stream>>>(device);
    GIVES(cudaSuccess, cudaGetLastError());
    MUST(cudaFuncSetAttribute(cluster_size, cudaFuncAttributeRequiredClusterWidth, 2));
    MUST(cudaFuncSetAttribute(cluster_size, cudaFuncAttributeNonPortableClusterSizeAllowed, 0));
    cluster_size<<<16, 32, 0, stream>>>(device + 1);
    GIVES(cudaSuccess, cudaGetLastError());
    open_gate();
    const int *size = results();
    HOLDS(size[0] == 16 * 32);
    HOLDS(size[1] == 2 * 32);
}

// ---- the stack ----

__noinline__ __device__ int deep(int n, volatile int *out)
{
    volatile int room[64];
    for (int i = 0; i < 64; i++)
        room[i] = n + i;
    return n ? deep(n - 1, out) + room[n % 64] - n - n % 64 + 1 : room[0];
}

__global__ void recurse(int *out, int depth) { *out = deep(depth, out); }

static void lowered_stack()
{
    size_t value;
    MUST(cudaDeviceSetLimit(cudaLimitStackSize, 64 << 10));
    close_gate();
    recurse<<<1, 1, 0, stream>>>(device, 100);
    GIVES(cudaSuccess, cudaGetLastError());
    MUST(cudaDeviceSetLimit(cudaLimitStackSize, 1024));
    MUST(cudaDeviceGetLimit(&value, cudaLimitStackSize));
    HOLDS(value == 1024);
    open_gate();
    HOLDS(results()[0] == 100);
    MUST(cudaDeviceGetLimit(&value, cudaLimitStackSize));
    HOLDS(value == 1024);
}

// ---- textures and surfaces ----

__global__ void fetch(int *out, cudaTextureObject_t texture) { *out = tex1Dfetch<int>(texture, 5); }
__global__ void put(cudaSurfaceObject_t surface) { surf2Dwrite(77, surface, 8, 1); }

static cudaTextureObject_t texture_of(int *data)
{
    cudaResourceDesc from = {};
    cudaTextureDesc how = {};
    cudaTextureObject_t texture;
    from.resType = cudaResourceTypeLinear;
    from.res.linear.devPtr = data;
    from.res.linear.desc = cudaCreateChannelDesc<int>();
    from.res.linear.sizeInBytes = COUNT * sizeof(int);
    MUST(cudaCreateTextureObject(&texture, &from, &how, NULL));
    return texture;
}

static void ended_texture()
{
    int *data, values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = 1000 + i;
    MUST(cudaMalloc(&data, sizeof values));
    MUST(cudaMemcpy(data, values, sizeof values, cudaMemcpyHostToDevice));
    close_gate();
    cudaTextureObject_t texture = texture_of(data), other;
    fetch<<<1, 1, 0, stream>>>(device, texture);
    MUST(cudaDestroyTextureObject(texture));
    other = texture_of(device);
    fetch<<<1, 1, 0, stream>>>(device + 1, other);
    open_gate();
    const int *fetched = results();
    HOLDS(fetched[0] == 1005);
    HOLDS(fetched[1] == 0);
    MUST(cudaDestroyTextureObject(other));
    MUST(cudaDestroyTextureObject(texture)); // natively no error either
    MUST(cudaFree(data));
}

static void ended_surface()
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaResourceDesc of = {};
    cudaSurfaceObject_t surface;
    int written = 0;
    of.resType = cudaResourceTypeArray;
    MUST(cudaMallocArray(&of.res.array.array, &format, 4, 4, cudaArraySurfaceLoadStore));
    MUST(cudaCreateSurfaceObject(&surface, &of));
    close_gate();
    put<<<1, 1, 0, stream>>>(surface);
    MUST(cudaDestroySurfaceObject(surface));
    open_gate();
    GIVES(cudaSuccess, cudaStreamSynchronize(stream));
    MUST(cudaMemcpy2DFromArray(&written, sizeof written, of.res.array.array, 8, 1, sizeof written, 1,
                               cudaMemcpyDeviceToHost));
    HOLDS(written == 77);
    MUST(cudaFreeArray(of.res.array.array));
}

int main()
{
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&device, (COUNT + 1) * sizeof *device));
    MUST(cudaMemset(device, 0, COUNT * sizeof *device));
    host = (int *)malloc(COUNT * sizeof *host);
    cudaDeviceProp device_is;
    MUST(cudaGetDeviceProperties(&device_is, 0));
    lowered_shared_memory();
    lowered_under_a_graph();
    if (device_is.major >= 9)
        other_clusters();
    lowered_stack();
    ended_texture();
    ended_surface();
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(device));
    free(host);
    return check_result("overtaken");
}
