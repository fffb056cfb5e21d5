// shows: speed: what the client knows costs no message: errors, devices, attributes, functions, occupancy, symbols,
//   pointers, capture, queries
// shows: errors: a query of finished work clears no error; "not ready" is none
//
// Counts the calls that travel (core_statistics of libflyt-client.so, as FLYT_STATS prints them) around each question
// that may not travel a second time.
#include "check.h"
#include <dlfcn.h>
#include <stdint.h>

struct statistics { uint64_t travelled, waited, local, bytes_sent, bytes_received; };
static void (*statistics)(struct statistics *);

__device__ int variable = 7;
__constant__ float table[16];

__global__ void kernel(int *p) { *p += variable; }

__global__ void held(volatile int *flag)
{
    while (*flag == 0)
        __nanosleep(20000);
}

static uint64_t travelled()
{
    struct statistics s;
    statistics(&s);
    return s.travelled;
}

/* Asked once more, ten times: nothing travels. */
#define STAYS_HERE(call)                                                                                              \
    do {                                                                                                              \
        MUST(call);                                                                                                   \
        uint64_t before = travelled();                                                                                \
        for (int i = 0; i < 10; i++)                                                                                  \
            MUST(call);                                                                                               \
        if (travelled() != before) {                                                                                  \
            fprintf(stderr, "%s:%d: %d messages for ten times %s\n", __FILE__, __LINE__, (int)(travelled() - before), \
                    #call);                                                                                           \
            check_failures++;                                                                                         \
        }                                                                                                             \
    } while (0)

int main()
{
    setenv("FLYT_STATS", "json", 1);
    statistics = (void (*)(struct statistics *))dlsym(RTLD_DEFAULT, "core_statistics");
    if (!statistics)
        return 77;                                      /* not through Flyt */
    int *d, *pinned, number, block, least, greatest;
    unsigned flags;
    size_t size;
    void *address;
    char text[64];
    cudaStream_t stream, other;
    cudaEvent_t event, unfinished;
    cudaDeviceProp properties;
    cudaFuncAttributes function;
    cudaPointerAttributes pointer;
    cudaStreamCaptureStatus capture;
    MUST(cudaMalloc(&d, 100 * sizeof *d));
    MUST(cudaMallocHost(&pinned, 4096));
    MUST(cudaMemset(d, 0, 100 * sizeof *d));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&event));
    MUST(cudaEventCreate(&unfinished));
    MUST(cudaDeviceSynchronize());
    HOLDS(travelled() > 5);                             /* or nothing would be counted */

    STAYS_HERE(cudaGetLastError());
    STAYS_HERE(cudaPeekAtLastError());
    STAYS_HERE(cudaGetDevice(&number));
    STAYS_HERE(cudaSetDevice(0));
    STAYS_HERE(cudaGetDeviceCount(&number));
    STAYS_HERE(cudaGetDeviceProperties(&properties, 0));
    STAYS_HERE(cudaDeviceGetAttribute(&number, cudaDevAttrMultiProcessorCount, 0));
    STAYS_HERE(cudaChooseDevice(&number, &properties));
    STAYS_HERE(cudaDeviceGetPCIBusId(text, sizeof text, 0));
    STAYS_HERE(cudaDeviceGetByPCIBusId(&number, text));
    STAYS_HERE(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    STAYS_HERE(cudaDriverGetVersion(&number));
    STAYS_HERE(cudaRuntimeGetVersion(&number));
    STAYS_HERE(cudaGetDeviceFlags(&flags));
    STAYS_HERE(cudaFuncGetAttributes(&function, kernel));
    STAYS_HERE(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&number, kernel, 128, 0));
    STAYS_HERE(cudaOccupancyMaxPotentialBlockSize(&number, &block, kernel));
    STAYS_HERE(cudaGetSymbolAddress(&address, variable));
    STAYS_HERE(cudaGetSymbolSize(&size, table));
    STAYS_HERE(cudaPointerGetAttributes(&pointer, d));
    STAYS_HERE(cudaPointerGetAttributes(&pointer, pinned));
    STAYS_HERE(cudaPointerGetAttributes(&pointer, &number));
    STAYS_HERE(cudaHostGetFlags(&flags, pinned));
    STAYS_HERE(cudaStreamIsCapturing(stream, &capture));
    STAYS_HERE(cudaStreamGetFlags(stream, &flags));
    STAYS_HERE(cudaStreamGetPriority(stream, &number));

    /* Finished work: queries, and after one synchronisation the others too; a wait for it is no work. */
    kernel<<<1, 1, 0, stream>>>(d);
    MUST(cudaEventRecord(event, stream));
    while (cudaEventQuery(event) == cudaErrorNotReady)
        ;
    STAYS_HERE(cudaEventQuery(event));
    STAYS_HERE(cudaStreamQuery(stream));
    STAYS_HERE(cudaStreamWaitEvent(0, event, 0));
    STAYS_HERE(cudaStreamSynchronize(stream));
    STAYS_HERE(cudaEventSynchronize(event));
    STAYS_HERE(cudaDeviceSynchronize());
    STAYS_HERE(cudaStreamQuery(0));
    STAYS_HERE(cudaStreamSynchronize(0));

    /* Memory comes from credit. */
    void *more;
    STAYS_HERE((cudaMalloc(&more, 1000), cudaFree(more)));

    /* "Not ready" is no error, and a query of finished work takes none away. */
    HOLDS(cudaMemcpy(d, pinned, 4, (cudaMemcpyKind)77) != cudaSuccess);
    held<<<1, 1, 0, stream>>>(d + 50);
    MUST(cudaEventRecord(unfinished, stream));
    GIVES(cudaErrorNotReady, cudaEventQuery(unfinished));
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaPeekAtLastError());
    MUST(cudaEventQuery(event));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaGetLastError());
    MUST(cudaGetLastError());
    number = 1;
    MUST(cudaMemcpyAsync(d + 50, &number, sizeof number, cudaMemcpyHostToDevice, other));
    MUST(cudaDeviceSynchronize());
    MUST(cudaEventQuery(unfinished));
    return check_result("answers");
}
