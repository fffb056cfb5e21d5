/*
 * open.cu: questions about NVIDIA's runtime and driver that documents leave open; natively on a machine with a GPU.
 *
 * Each question is a child process with a time limit, and prints one line or a few. Nothing passes or fails: Flyt
 * follows what is found.
 */
#include <cuda_runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define NEED(call)                                                                       \
    do {                                                                                 \
        cudaError_t need_ = (call);                                                      \
        if (need_ != cudaSuccess) {                                                      \
            printf("  cannot tell: %s gives %s\n", #call, cudaGetErrorName(need_));     \
            exit(0);                                                                     \
        }                                                                                \
    } while (0)
#define TELL(call) printf("  %s: %s\n", #call, cudaGetErrorName(call)), cudaGetLastError()

__global__ void fault() { *(volatile int *)0x10 = 1; }
__global__ void add(int *p, int value) { *p += value; }

/* When a memcpy node reads pageable memory: when it is made, instantiated, launched, or when its turn comes. */
static void pageable_nodes()
{
    static int source = 1, result, later = 2;
    int *device;
    cudaGraph_t graph;
    cudaGraphNode_t host, up, down;
    cudaGraphExec_t e;
    NEED(cudaMalloc(&device, sizeof(int)));
    NEED(cudaGraphCreate(&graph, 0));
    cudaHostNodeParams p = { [](void *) { source = 100; }, NULL };
    NEED(cudaGraphAddHostNode(&host, graph, NULL, 0, &p));
    NEED(cudaGraphAddMemcpyNode1D(&up, graph, &host, 1, device, &source, sizeof(int), cudaMemcpyHostToDevice));
    NEED(cudaGraphAddMemcpyNode1D(&down, graph, &up, 1, &result, device, sizeof(int), cudaMemcpyDeviceToHost));
    source = later;
    NEED(cudaGraphInstantiate(&e, graph, 0));
    source = 3;
    NEED(cudaGraphLaunch(e, 0));
    NEED(cudaDeviceSynchronize());
    printf("  read %d (1: made, 2: instantiated, 3: launched, 100: its turn)\n", result);
}

/* The layout in memory of the layers of an array of lines. */
static void layers_of_lines()
{
    enum { W = 4, ROWS = 3, D = 3 };
    cudaArray_t array;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<int>();
    NEED(cudaMalloc3DArray(&array, &f, make_cudaExtent(W, 0, D), cudaArrayLayered));
    for (int device = 0; device < 2; device++) {
        int host[W * ROWS * D], back[W * D] = { 0 }, *memory = host;
        for (int i = 0; i < W * ROWS * D; i++)
            host[i] = i;
        if (device) {
            NEED(cudaMalloc(&memory, sizeof host));
            NEED(cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice));
        }
        cudaMemcpy3DParms c = {};
        c.srcPtr = make_cudaPitchedPtr(memory, W * sizeof(int), W, ROWS);
        c.dstArray = array;
        c.extent = make_cudaExtent(W, 1, D);
        c.kind = cudaMemcpyDefault;
        NEED(cudaMemcpy3D(&c));
        cudaMemcpy3DParms o = {};
        o.srcArray = array;
        o.dstPtr = make_cudaPitchedPtr(back, W * sizeof(int), W, 1);
        o.extent = c.extent;
        o.kind = cudaMemcpyDefault;
        NEED(cudaMemcpy3D(&o));
        printf("  %s memory of %d rows: layers begin with %d %d %d (with its rows: 0 12 24; without: 0 4 8)\n",
               device ? "device" : "host", ROWS, back[0], back[W], back[2 * W]);
    }
}

static void behind_a_fault()
{
    int *p;
    unsigned flags;
    NEED(cudaMalloc(&p, 4));
    fault<<<1, 1>>>();
    TELL(cudaDeviceSynchronize());
    TELL(cudaGraphDestroy(NULL));
    TELL(cudaGetDeviceFlags(&flags));
    TELL(cudaDeviceReset());
    TELL(cudaDeviceReset());
    TELL(cudaGetDeviceFlags(&flags));
    TELL(cudaSetDevice(0));
    TELL(cudaFree(0));
    TELL(cudaFree(p));
    TELL(cudaMemcpy(p, p, 0, cudaMemcpyDeviceToDevice));
    cudaPointerAttributes a;
    TELL(cudaPointerGetAttributes(&a, p));
}

static void limits()
{
    const cudaLimit all[] = { cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize, cudaLimitDevRuntimePendingLaunchCount,
                              cudaLimitPersistingL2CacheSize };
    for (cudaLimit limit : all)
        for (size_t value : { (size_t)0, (size_t)1, (size_t)33, (size_t)524289, (size_t)1000000, (size_t)(4 << 20) + 1,
                              (size_t)5000000, (size_t)100 << 20 }) {
            size_t now = 0;
            cudaError_t set = cudaDeviceSetLimit(limit, value), got = cudaDeviceGetLimit(&now, limit);
            printf("  limit %d: %zu gives %d, then %d %zu\n", (int)limit, value, (int)set, (int)got, now);
        }
}

/* What makes an update of an executable impossible. */
static void updates()
{
    int *p, one = 1;
    NEED(cudaMalloc(&p, 64));
    void *arguments[] = { &p, &one };
    cudaKernelNodeParams k = {};
    k.func = (void *)add;
    k.gridDim = k.blockDim = dim3(1);
    k.kernelParams = arguments;
    for (int change = 0; change < 6; change++) {
        static char pageable[64], other[64];
        cudaGraph_t graphs[2];
        cudaGraphExec_t e;
        for (int i = 0; i < 2; i++) {
            cudaGraphNode_t n, m;
            cudaMemsetParams s = {};
            s.dst = p, s.elementSize = 1, s.pitch = 32;
            s.width = i && change == 0 ? 8 : 16, s.height = i && change == 1 ? 2 : 1;
            if (i && change == 5)
                s.elementSize = 4, s.width = 4;
            NEED(cudaGraphCreate(&graphs[i], 0));
            NEED(cudaGraphAddKernelNode(&n, graphs[i], NULL, 0, &k));
            NEED(cudaGraphAddMemsetNode(&m, graphs[i], &n, 1, &s));
            NEED(cudaGraphAddMemcpyNode1D(&n, graphs[i], &m, 1, i && change == 2 ? other : pageable, p,
                                          i && change == 3 ? 8 : 16,
                                          i && change == 4 ? cudaMemcpyDefault : cudaMemcpyDeviceToHost));
        }
        NEED(cudaGraphInstantiate(&e, graphs[0], 0));
        cudaGraphExecUpdateResultInfo r = {};
        cudaError_t code = cudaGraphExecUpdate(e, graphs[1], &r);
        printf("  change %d: %s, result %d (0: a set's width, 1: its height, 2: a copy's target, 3: its size, "
               "4: its kind, 5: a set's element)\n", change, cudaGetErrorName(code), (int)r.result);
        cudaGetLastError();
    }
}

static void odds()
{
    char *p, *q, host[16];
    size_t size = 0, first = 0;
    cudaStream_t s;
    NEED(cudaStreamCreate(&s));
    NEED(cudaMalloc(&p, 64));
    cudaMemcpyAttributes a = {};
    a.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    void *to = p;
    const void *from = host;
    TELL(cudaMemcpyBatchAsync(&to, &from, &size, 1, &a, &first, 1, s));
    NEED(cudaMallocManaged(&q, 400));
    TELL(cudaFree(q));
    TELL(cudaFree(q));
    NEED(cudaMallocManaged(&q, 4 << 20));
    TELL(cudaFree(q));
    TELL(cudaFree(q));
    TELL(cudaFree(p));
    TELL(cudaFree(p));
    cudaArray_t array;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<int>();
    for (int w : { 16, 16384 })
        for (int h : { 16, 16384 }) {
            printf("  3D array of %d %d 16385: ", w, h);
            printf("%s\n", cudaGetErrorName(cudaMalloc3DArray(&array, &f, make_cudaExtent(w, h, 16385), 0)));
            cudaGetLastError();
        }
}

static void ask(const char *name, void (*question)())
{
    int status = 0;
    printf("%s\n", name);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        question();
        exit(0);
    }
    waitpid(child, &status, 0);
    if (status)
        printf("  ended with status %#x\n", status);
}

int main()
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    ask("pageable-nodes", pageable_nodes);
    ask("layers-of-lines", layers_of_lines);
    ask("behind-a-fault", behind_a_fault);
    ask("limits", limits);
    ask("updates", updates);
    ask("odds", odds);
    return 0;
}
