// shows: launches: kernels launch kernels (dynamic parallelism): order in streams of device code, tail launches,
//   copies, events, questions, errors; the host waits for all of them, and learns of a child's fault
#include "software.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

enum { MOST = 4096 };

__device__ int order_count;
__device__ int order[64];
__global__ void note(int what) { order[atomicAdd(&order_count, 1)] = what; }
__global__ void add(int *to, int value) { atomicAdd(to + threadIdx.x, value); }
__global__ void fill(int *to, int value, int count)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        to[i] = value + i;
}
__global__ void sum(const int *from, int count, int *to)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        atomicAdd(to, from[i]);
}
__global__ void bad(int *p) { *p = 1; }

// The NULL stream of a block is in order; a tail launch comes last, though it is launched first.
__global__ void ordered()
{
    note<<<1, 1, 0, cudaStreamTailLaunch>>>(100);
    note<<<1, 1, 0, cudaStreamTailLaunch>>>(101);
    for (int i = 0; i < 20; i++)
        note<<<1, 1>>>(i);
}

// What a child writes the next one in its stream sees; a stream of its own waits for an event.
__global__ void streams(int *values, int *results, int *errors)
{
    cudaStream_t one, two;
    cudaEvent_t event;
    errors[0] = cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    errors[1] = cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    errors[2] = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    fill<<<1, 64, 0, one>>>(values, 5, 1000);
    errors[3] = cudaEventRecord(event, one);
    errors[4] = cudaStreamWaitEvent(two, event, 0);
    sum<<<1, 32, 0, two>>>(values, 1000, results);
    sum<<<1, 96, 0, one>>>(values, 1000, results + 1);
    errors[5] = cudaEventDestroy(event);
    errors[6] = cudaStreamDestroy(one);
    errors[7] = cudaStreamDestroy(two);
    errors[8] = cudaStreamCreateWithFlags(&one, cudaStreamDefault);       // must be cudaStreamNonBlocking
    errors[9] = cudaPeekAtLastError();
    errors[10] = cudaGetLastError();
    errors[11] = cudaGetLastError();
}

// Every block of every level launches two more.
__global__ void tree(int levels, int *count)
{
    if (threadIdx.x == 0)
        atomicAdd(count, 1);
    if (threadIdx.x < 2 && levels > 1)
        tree<<<1, 32, 0, cudaStreamFireAndForget>>>(levels - 1, count);
}

__global__ void copies(int *to, const int *from, int count, int *errors)
{
    errors[0] = cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDeviceToDevice, 0);
    // zero: the device runtime of CUDA 13.0 stores zeros, whatever value it is given
    errors[1] = cudaMemsetAsync(to + count, 0, 100 * sizeof *to, 0);
    add<<<1, 4>>>(to, 1000);
}

__global__ void questions(int *answers)
{
    cudaFuncAttributes attributes;
    size_t limit = 0;
    answers[0] = cudaDeviceGetAttribute(&answers[1], cudaDevAttrMultiProcessorCount, 0);
    answers[2] = cudaGetDevice(&answers[3]);
    answers[4] = cudaFuncGetAttributes(&attributes, add);
    answers[5] = attributes.maxThreadsPerBlock;
    answers[6] = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&answers[7], add, 128, 0);
    answers[8] = cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
    answers[9] = (int)limit;
    int *p = nullptr;
    answers[10] = cudaMalloc((void **)&p, 100);
    answers[11] = p != nullptr;
    answers[12] = cudaFree(p);
    add<<<1, 5000>>>(p, 1);                               // more threads than a block may have
    answers[13] = cudaGetLastError();
    add<<<0, 1>>>(p, 1);
    answers[14] = cudaGetLastError();
}

__global__ void too_many(int *error, int *count)
{
    for (int i = 0; i < 40; i++) {
        add<<<1, 1>>>(count, 1);
        if (*error == 0)
            *error = cudaGetLastError();
    }
}

__device__ int deepest, depth_error;
__global__ void deep(int level)
{
    atomicMax(&deepest, level);
    deep<<<1, 1>>>(level + 1);
    int error = cudaGetLastError();
    if (error)
        depth_error = error;
}

__global__ void launches_bad() { bad<<<1, 1>>>((int *)16); }

static int *device_ints(int count)
{
    int *p;
    MUST(cudaMalloc((void **)&p, count * sizeof *p));
    MUST(cudaMemset(p, 0, count * sizeof *p));
    return p;
}

static void test_order()
{
    int host[64], count = 0;
    MUST(cudaMemcpyToSymbol(order_count, &count, sizeof count));
    ordered<<<1, 1>>>();
    note<<<1, 1>>>(200);                                  // behind all of it, tail launches too
    GIVES(cudaSuccess, cudaDeviceSynchronize());
    MUST(cudaMemcpyFromSymbol(host, order, sizeof host));
    MUST(cudaMemcpyFromSymbol(&count, order_count, sizeof count));
    HOLDS(count == 23);
    for (int i = 0; i < 20; i++)
        HOLDS(host[i] == i);
    HOLDS(host[20] == 100 && host[21] == 101 && host[22] == 200);
}

static void test_streams()
{
    int *values = device_ints(1000), *results = device_ints(2), *errors = device_ints(12), host[12], sums[2];
    streams<<<1, 1>>>(values, results, errors);
    GIVES(cudaSuccess, cudaDeviceSynchronize());
    MUST(cudaMemcpy(host, errors, sizeof host, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(sums, results, sizeof sums, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        HOLDS(host[i] == cudaSuccess);
    if (host[8] != cudaErrorInvalidValue || host[9] != cudaErrorInvalidValue || host[10] != cudaErrorInvalidValue)
        fprintf(stderr, "a stream that would block: %d %d %d %d\n", host[8], host[9], host[10], host[11]);
    HOLDS(!on_software_gpu() || (host[8] == cudaErrorInvalidValue && host[9] == cudaErrorInvalidValue &&
                                 host[10] == cudaErrorInvalidValue));
    HOLDS(host[11] == cudaSuccess);
    HOLDS(sums[0] == 5 * 1000 + 999 * 500 && sums[1] == sums[0]);
}

static void test_tree()
{
    int *count = device_ints(1), host = 0;
    tree<<<3, 32>>>(7, count);
    MUST(cudaMemcpy(&host, count, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host == 3 * 127);
}

static void test_copies()
{
    static int from[MOST], to[MOST + 100];
    int *device_from = device_ints(MOST), *device_to = device_ints(MOST + 100), *errors = device_ints(2), found[2];
    for (int i = 0; i < MOST; i++)
        from[i] = 7 * i;
    MUST(cudaMemcpy(device_from, from, sizeof from, cudaMemcpyHostToDevice));
    MUST(cudaMemset(device_to, 0x11, sizeof to));
    copies<<<1, 1>>>(device_to, device_from, MOST, errors);
    MUST(cudaMemcpy(found, errors, sizeof found, cudaMemcpyDeviceToHost));
    HOLDS(found[0] == cudaSuccess && found[1] == cudaSuccess);
    MUST(cudaMemcpy(to, device_to, sizeof to, cudaMemcpyDeviceToHost));
    for (int i = 0; i < MOST + 100; i++)
        HOLDS(to[i] == (i < MOST ? 7 * i + (i < 4 ? 1000 : 0) : 0));
}

static void test_questions()
{
    int *answers = device_ints(16), host[16], multiprocessors;
    size_t heap;
    cudaFuncAttributes attributes;
    int blocks;
    MUST(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    MUST(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    MUST(cudaFuncGetAttributes(&attributes, add));
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, 0));
    questions<<<1, 1>>>(answers);
    MUST(cudaMemcpy(host, answers, sizeof host, cudaMemcpyDeviceToHost));
    const int fine[] = { 0, 2, 4, 6, 8, 10, 12 };
    for (int i : fine)
        HOLDS(host[i] == cudaSuccess);
    HOLDS(host[1] == multiprocessors);
    HOLDS(host[3] == 0);
    HOLDS(host[5] == attributes.maxThreadsPerBlock);
    HOLDS(host[7] == blocks);
    HOLDS(host[9] == (int)heap);
    HOLDS(host[11] == 1);
    HOLDS(host[13] == cudaErrorInvalidConfiguration);
    HOLDS(host[14] == cudaErrorInvalidConfiguration);
}

static sem_t gate_opens;
static void CUDART_CB wait_for_gate(void *) { sem_wait(&gate_opens); }
static void *open_gate(void *)
{
    usleep(200000);
    sem_post(&gate_opens);
    return NULL;
}

// The limit at the call counts, not the one that the context has when the kernel's turn comes.
static void test_lowered_limit()
{
    int *error = device_ints(1), *count = device_ints(1), host[2];
    pthread_t opener;
    sem_init(&gate_opens, 0, 0);
    MUST(cudaLaunchHostFunc(0, wait_for_gate, NULL));
    too_many<<<1, 1>>>(error, count);
    pthread_create(&opener, NULL, open_gate, NULL);       // NVIDIA's driver waits for the kernel in the next call
    MUST(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 16));
    pthread_join(opener, NULL);
    MUST(cudaMemcpy(&host[0], error, sizeof(int), cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(&host[1], count, sizeof(int), cudaMemcpyDeviceToHost));
    HOLDS(host[0] == cudaSuccess && host[1] == 40);
}

// A chain of 30 launches in one stream is more than may wait.
static void test_limits()
{
    int *error = device_ints(1), *count = device_ints(1), host[2];
    size_t before;
    MUST(cudaDeviceGetLimit(&before, cudaLimitDevRuntimePendingLaunchCount));
    HOLDS(before == 2048);
    test_lowered_limit();
    MUST(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 16));
    too_many<<<1, 1>>>(error, count);
    GIVES(cudaSuccess, cudaDeviceSynchronize());
    MUST(cudaMemcpy(&host[0], error, sizeof(int), cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(&host[1], count, sizeof(int), cudaMemcpyDeviceToHost));
    HOLDS((host[0] == cudaErrorLaunchOutOfResources && host[1] < 40) || (host[0] == cudaSuccess && host[1] == 40));
    MUST(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, before));
    deep<<<1, 1>>>(0);
    GIVES(cudaSuccess, cudaDeviceSynchronize());
    MUST(cudaMemcpyFromSymbol(&host[0], deepest, sizeof(int)));
    MUST(cudaMemcpyFromSymbol(&host[1], depth_error, sizeof(int)));
    HOLDS(host[0] == 24 && host[1] == cudaErrorLaunchMaxDepthExceeded);
}

int main()
{
    test_order();
    test_streams();
    test_tree();
    test_copies();
    test_questions();
    test_limits();
    launches_bad<<<1, 1>>>();
    GIVES(cudaSuccess, cudaGetLastError());
    GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    return check_result("dynamic");
}
