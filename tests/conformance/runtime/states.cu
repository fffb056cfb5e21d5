// shows: conformance: the same calls for a captured stream, beside a capture of each mode, for a destroyed stream, and
//   behind a kernel's fault, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void one(int *out) { *out += 1; }
__global__ void faulty(int *at) { *at = 1; }
__device__ int variable[16];
static void CUDART_CB nothing(void *) {}
static void CUDART_CB called(cudaStream_t, cudaError_t, void *) {}

enum { BYTES = 256, WIDTH = 16 };
static char *device, *pinned, *managed;
static char host[BYTES];
static cudaStream_t stream, idle;
static cudaEvent_t event, recorded;
static cudaArray_t array;
static cudaGraph_t graph;
static cudaGraphExec_t ready;
static cudaMemcpy3DParms box;

/* How each call is made: as it is, or in a capture of its own. */
static bool captures;
static cudaStreamCaptureMode mode;
static void before()
{
    if (captures)
        MUST(cudaStreamBeginCapture(stream, mode));
}
static void after()
{
    cudaGraph_t captured = NULL;
    size_t nodes = 0;
    if (!captures)
        return;
    cudaError_t result = cudaStreamEndCapture(stream, &captured);
    if (captured)
        MUST(cudaGraphGetNodes(captured, NULL, &nodes));
    printf("  the capture: %s, %zu nodes\n", cudaGetErrorName(result), nodes);
    cudaGetLastError();
    if (captured)
        MUST(cudaGraphDestroy(captured));
}
#define CASE(call)         \
    do {                   \
        before();          \
        SAYS(call, about); \
        after();           \
    } while (0)

/* ---- calls that name a stream ---- */

static void in_stream(cudaStream_t s, const char *about)
{
    int number;
    unsigned flags;
    void *memory;
    int *at = (int *)device;
    void *arguments[] = { &at };
    cudaStreamAttrValue value;
    cudaStreamCaptureStatus status;
    memset(&value, 0, sizeof value);
    CASE(cudaStreamQuery(s));
    CASE(cudaStreamSynchronize(s));
    CASE(cudaStreamGetPriority(s, &number));
    CASE(cudaStreamGetFlags(s, &flags));
    CASE(cudaStreamIsCapturing(s, &status));
    CASE(cudaStreamBeginCapture(s, (cudaStreamCaptureMode)7));
    CASE(cudaStreamWaitEvent(s, recorded, 0));
    CASE(cudaStreamAddCallback(s, called, NULL, 0));
    CASE(cudaLaunchHostFunc(s, nothing, NULL));
    CASE(cudaStreamAttachMemAsync(s, managed, 0, cudaMemAttachGlobal));
    CASE(cudaStreamGetAttribute(s, cudaLaunchAttributeSynchronizationPolicy, &value));
    CASE(cudaStreamSetAttribute(s, cudaLaunchAttributeSynchronizationPolicy, &value));
    CASE(cudaStreamCopyAttributes(s, idle));
    CASE(cudaEventRecord(event, s));
    CASE(cudaEventRecordWithFlags(event, s, cudaEventRecordExternal));
    CASE(cudaLaunchKernel((const void *)one, 1, 1, arguments, 0, s));
    CASE(cudaLaunchCooperativeKernel((const void *)one, 1, 1, arguments, 0, s));
    CASE(cudaMemcpyAsync(device, host, 16, cudaMemcpyHostToDevice, s));
    CASE(cudaMemcpyAsync(device, pinned, 16, cudaMemcpyHostToDevice, s));
    CASE(cudaMemcpyAsync(host, device, 16, cudaMemcpyDeviceToHost, s));
    CASE(cudaMemcpyAsync(device, device + 64, 16, cudaMemcpyDefault, s));
    CASE(cudaMemcpyAsync(device, NULL, 16, cudaMemcpyDefault, s));
    CASE(cudaMemcpyAsync(device, host, 0, cudaMemcpyDefault, s));
    CASE(cudaMemcpy2DAsync(device, WIDTH, host, WIDTH, 8, 4, cudaMemcpyHostToDevice, s));
    CASE(cudaMemcpy3DAsync(&box, s));
    CASE(cudaMemcpyPeerAsync(device, 0, device + 64, 0, 16, s));
    CASE(cudaMemcpy2DToArrayAsync(array, 0, 0, host, WIDTH, WIDTH, 2, cudaMemcpyHostToDevice, s));
    CASE(cudaMemcpyToSymbolAsync(variable, host, 16, 0, cudaMemcpyHostToDevice, s));
    CASE(cudaMemcpyFromSymbolAsync(host, variable, 16, 0, cudaMemcpyDeviceToHost, s));
    CASE(cudaMemsetAsync(device, 1, 16, s));
    CASE(cudaMemsetAsync(device, 1, 0, s));
    CASE(cudaMemcpy2DAsync(device, WIDTH, host, WIDTH, 0, 4, cudaMemcpyHostToDevice, s));
    CASE(cudaMemset2DAsync(device, WIDTH, 1, 8, 4, s));
    CASE(cudaMallocAsync(&memory, 0, s));
    CASE(cudaMallocAsync(&memory, (size_t)1 << 50, s));
    CASE(cudaFreeAsync(NULL, s));
    CASE(cudaGraphLaunch(ready, s));
    CASE(cudaGraphUpload(ready, s));
}

/* ---- calls that name none ---- */

static void without_stream(const char *about)
{
    void *memory;
    size_t size, total;
    cudaStream_t made;
    cudaEvent_t made_event;
    cudaGraph_t made_graph;
    cudaGraphExec_t made_ready;
    cudaFuncAttributes attributes;
    cudaPointerAttributes pointer;
    static char page[8192] __attribute__((aligned(4096)));
    int number;
    CASE(cudaDeviceSynchronize());
    CASE(cudaStreamSynchronize(idle));
    CASE(cudaStreamQuery(idle));
    CASE(cudaStreamQuery(0));
    CASE(cudaStreamSynchronize(0));
    CASE(cudaEventQuery(recorded));
    CASE(cudaEventSynchronize(recorded));
    CASE(cudaMemcpy(device, host, 16, cudaMemcpyHostToDevice));
    CASE(cudaMemcpy(host, device, 16, cudaMemcpyDeviceToHost));
    CASE(cudaMemcpy(host, host + 64, 16, cudaMemcpyHostToHost));
    CASE(cudaMemcpyAsync(device, host, 16, cudaMemcpyHostToDevice, 0));
    CASE(cudaMemset(device, 0, 16));
    CASE(cudaMemcpyToSymbol(variable, host, 16));
    CASE(cudaMemcpyFromSymbol(host, variable, 16));
    CASE(cudaMemcpy2D(device, WIDTH, host, WIDTH, 8, 4, cudaMemcpyHostToDevice));
    CASE(cudaMemcpyPeer(device, 0, device + 64, 0, 16));
    CASE(cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
    CASE(cudaMemcpy2D(device, WIDTH, host, WIDTH, 0, 4, cudaMemcpyHostToDevice));
    CASE(cudaMemcpyToSymbol(variable, host, 0));
    CASE(cudaMemcpyPeer(device, 0, device + 64, 0, 0));
    CASE(cudaMemset(device, 0, 0));
    CASE(cudaMemset2D(device, WIDTH, 0, 0, 4));
    CASE(cudaMallocPitch(&memory, &size, 0, 4));
    CASE(cudaMallocManaged(&memory, 0));
    CASE(cudaHostAlloc(&memory, 0, 0));
    CASE(cudaMemcpy3D(&box));
    CASE(cudaFree(NULL));
    CASE(cudaFreeHost(NULL));
    CASE(cudaMalloc(&memory, 0));
    CASE(cudaMalloc(&memory, (size_t)1 << 50));
    CASE(cudaMallocHost(&memory, 0));
    CASE(cudaHostRegister(page, 4096, 0));
    CASE(cudaHostUnregister(page));
    CASE(cudaMemGetInfo(&size, &total));
    CASE(cudaStreamCreate(&made));
    CASE(cudaStreamDestroy(WRONG(cudaStream_t)));
    CASE(cudaEventCreate(&made_event));
    CASE(cudaEventDestroy(WRONG(cudaEvent_t)));
    CASE(cudaGraphCreate(&made_graph, 0));
    CASE(cudaGraphInstantiateWithFlags(&made_ready, graph, 0));
    CASE(cudaGraphLaunch(ready, idle));
    CASE(cudaFuncGetAttributes(&attributes, (const void *)one));
    CASE(cudaFuncSetAttribute((const void *)one, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    CASE(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&number, (const void *)one, 32, 0));
    CASE(cudaPointerGetAttributes(&pointer, device));
    CASE(cudaGetSymbolAddress(&memory, variable));
    CASE(cudaGetSymbolSize(&size, variable));
    CASE(cudaDeviceGetLimit(&size, cudaLimitStackSize));
    CASE(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
    CASE(cudaDeviceGetStreamPriorityRange(&number, &number));
    CASE(cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 0));
    CASE(cudaDeviceCanAccessPeer(&number, 0, 0));
    CASE(cudaGetDevice(&number));
    CASE(cudaSetDevice(0));
    CASE(cudaDeviceGraphMemTrim(0));
    CASE(cudaCtxResetPersistingL2Cache());
}

/* ---- states ---- */

static void begin()
{
    const cudaChannelFormatDesc words = cudaCreateChannelDesc<int>();
    cudaGraphNode_t node;
    cudaHostNodeParams p = { nothing, NULL };
    MUST(cudaMalloc((void **)&device, BYTES));
    MUST(cudaMallocHost((void **)&pinned, BYTES));
    MUST(cudaMallocManaged((void **)&managed, BYTES));
    MUST(cudaMallocArray(&array, &words, WIDTH, WIDTH));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamCreate(&idle));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&recorded, cudaEventDisableTiming));
    MUST(cudaEventRecord(recorded, idle));
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphAddHostNode(&node, graph, NULL, 0, &p));
    MUST(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    box.srcPtr = make_cudaPitchedPtr(host, WIDTH, WIDTH, 2);
    box.dstPtr = make_cudaPitchedPtr(device, WIDTH, WIDTH, 2);
    box.extent = make_cudaExtent(8, 2, 2);
    box.kind = cudaMemcpyHostToDevice;
    one<<<1, 1, 0, idle>>>((int *)device);
    MUST(cudaDeviceSynchronize());
}

static void captured()
{
    begin();
    captures = true;
    mode = cudaStreamCaptureModeRelaxed;
    in_stream(stream, "captured");
    static const char *const modes[] = { "beside a global capture", "beside a thread's capture",
                                         "beside a relaxed capture" };
    for (int m = 0; m < 3; m++) {
        mode = (cudaStreamCaptureMode)m;
        without_stream(modes[m]);
    }
}

static void destroyed()
{
    begin();
    cudaStream_t gone = stream;
    MUST(cudaStreamDestroy(stream));
    in_stream(gone, "destroyed");
}

static void behind_a_fault()
{
    begin();
    faulty<<<1, 1, 0, stream>>>((int *)0x100);
    GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize(), "finds it");
    in_stream(stream, "behind a fault");
    without_stream("behind a fault");
}

int main()
{
    in_child(captured);
    in_child(destroyed);
    in_child(behind_a_fault);
    return 0;
}
