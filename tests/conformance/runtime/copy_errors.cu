// shows: conformance: what copies, sets and allocations refuse, each form of them, line by line with NVIDIA's runtime
#include "../suite.h"

enum { WIDTH = 64, HEIGHT = 16, TEXELS = WIDTH / 4 };
__device__ int variable[16];
static char host[WIDTH * HEIGHT];
static char *device;
static cudaStream_t stream;
static cudaArray_t array, second;
static const cudaStream_t no_stream = WRONG(cudaStream_t);
static const cudaMemcpyKind no_kind = (cudaMemcpyKind)9;
static const cudaMemcpyKind to_device = cudaMemcpyHostToDevice, to_host = cudaMemcpyDeviceToHost;

static void lines()
{
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(NULL, host, 4, to_device, stream), "to null");
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(device, NULL, 4, to_device, stream), "from null");
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(device, host, WIDTH * HEIGHT + 1, to_device, stream), "too long");
    SAYS(cudaMemcpyAsync(device, host, 4, to_device, no_stream), "no stream");
    WORKS(cudaMemcpy2DAsync(device, WIDTH, host, WIDTH, WIDTH, HEIGHT, to_device, stream), "usual");
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2DAsync(device, 8, host, WIDTH, 16, 2, to_device, stream), "narrow");
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2DAsync(device, WIDTH, host, 8, 16, 2, to_device, stream), "narrow");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy2DAsync(device, WIDTH, host, WIDTH, 16, 2, no_kind, stream),
          "kind 9");
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DAsync(NULL, WIDTH, host, WIDTH, 16, 2, to_device, stream), "to null");
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DAsync(device, WIDTH, host, WIDTH, WIDTH, HEIGHT + 1, to_device, stream),
          "beyond the end");
    SAYS(cudaMemcpy2DAsync(device, WIDTH, host, WIDTH, 16, 2, to_device, no_stream), "no stream");
}

static void arrays()
{
    WORKS(cudaMemcpy2DToArrayAsync(array, 0, 0, host, WIDTH, WIDTH, HEIGHT, to_device, stream), "usual");
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DToArrayAsync(array, 0, 1, host, WIDTH, WIDTH, HEIGHT, to_device, stream),
          "beyond the end");
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2DToArrayAsync(array, 0, 0, host, 8, 16, 2, to_device, stream),
          "narrow");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy2DToArrayAsync(array, 0, 0, host, WIDTH, 16, 2, no_kind, stream),
          "kind 9");
    SAYS(cudaMemcpy2DToArrayAsync(array, 0, 0, host, WIDTH, 16, 2, to_host, stream), "the wrong way");
    SAYS(cudaMemcpy2DToArrayAsync(NULL, 0, 0, host, WIDTH, 16, 2, to_device, stream), "null array");
    WORKS(cudaMemcpy2DFromArrayAsync(host, WIDTH, array, 0, 0, WIDTH, HEIGHT, to_host, stream), "usual");
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DFromArrayAsync(host, WIDTH, array, 4, 0, WIDTH, 2, to_host, stream),
          "beyond the end");
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2DFromArrayAsync(host, 8, array, 0, 0, 16, 2, to_host, stream),
          "narrow");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy2DFromArrayAsync(host, WIDTH, array, 0, 0, 16, 2, no_kind, stream),
          "kind 9");
    WORKS(cudaMemcpyToArrayAsync(array, 0, 0, host, 32, to_device, stream), "usual");
    GIVES(cudaErrorInvalidValue, cudaMemcpyToArrayAsync(array, 0, 0, host, WIDTH * HEIGHT + 4, to_device, stream),
          "beyond the end");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyToArrayAsync(array, 0, 0, host, 32, no_kind, stream), "kind 9");
    WORKS(cudaMemcpyFromArrayAsync(host, array, 0, 0, 32, to_host, stream), "usual");
    GIVES(cudaErrorInvalidValue, cudaMemcpyFromArrayAsync(host, array, 0, 0, WIDTH * HEIGHT + 4, to_host, stream),
          "beyond the end");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromArrayAsync(host, array, 0, 0, 32, no_kind, stream), "kind 9");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromArray(host, array, 0, 0, 32, no_kind), "kind 9");
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpyArrayToArray(second, 0, 0, array, 0, 0, 32, no_kind), "kind 9");
    WORKS(cudaStreamSynchronize(stream), "all");
}

static cudaMemcpy3DParms box(void *to, const void *from, size_t pitch, size_t width, cudaMemcpyKind kind)
{
    cudaMemcpy3DParms p = {};
    p.dstPtr = make_cudaPitchedPtr(to, pitch, pitch, 2);
    p.srcPtr = make_cudaPitchedPtr((void *)from, pitch, pitch, 2);
    p.extent = make_cudaExtent(width, 2, 2);
    p.kind = kind;
    return p;
}

static cudaMemcpy3DPeerParms peer_box(void *to, const void *from, size_t pitch, size_t width, int device_of_target)
{
    cudaMemcpy3DPeerParms p = {};
    p.dstPtr = make_cudaPitchedPtr(to, pitch, pitch, 2);
    p.srcPtr = make_cudaPitchedPtr((void *)from, pitch, pitch, 2);
    p.extent = make_cudaExtent(width, 2, 2);
    p.dstDevice = device_of_target;
    return p;
}

static void boxes()
{
    cudaMemcpy3DParms p = box(device, host, 16, 16, to_device);
    WORKS(cudaMemcpy3DAsync(&p, stream), "usual");
    p = box(device, host, 16, 16, no_kind);
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy3DAsync(&p, stream), "kind 9");
    p = box(device, host, 8, 16, to_device);
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy3DAsync(&p, stream), "narrow");
    p = box(NULL, host, 16, 16, to_device);
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DAsync(&p, stream), "to null");
    cudaMemcpy3DPeerParms q = peer_box(device, device + 512, 16, 16, 0);
    WORKS(cudaMemcpy3DPeer(&q), "usual");
    WORKS(cudaMemcpy3DPeerAsync(&q, stream), "usual");
    q = peer_box(device, device + 512, 8, 16, 0);
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy3DPeer(&q), "narrow");
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy3DPeerAsync(&q, stream), "narrow");
    q = peer_box(device, device + 512, 16, 16, 99);
    GIVES(cudaErrorInvalidDevice, cudaMemcpy3DPeer(&q), "no device");
    GIVES(cudaErrorInvalidDevice, cudaMemcpy3DPeerAsync(&q, stream), "no device");
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DPeerAsync(NULL, stream), "null pointer");
}

static void symbols()
{
    const void *none = host;
    GIVES(cudaErrorInvalidSymbol, cudaMemcpyFromSymbol(host, none, 4), "no variable");
    GIVES(cudaErrorInvalidSymbol, cudaMemcpyFromSymbolAsync(host, none, 4, 0, to_host, stream), "no variable");
    GIVES(cudaErrorInvalidSymbol, cudaMemcpyToSymbolAsync(none, host, 4, 0, to_device, stream), "no variable");
    GIVES(cudaErrorInvalidValue, cudaMemcpyFromSymbolAsync(host, variable, 4, 64, to_host, stream), "beyond the end");
    WORKS(cudaMemcpyFromSymbolAsync(host, variable, 4, 60, to_host, stream), "the last word");
}

static void sets()
{
    const cudaPitchedPtr area = make_cudaPitchedPtr(device, 16, 16, 4), nowhere = make_cudaPitchedPtr(NULL, 16, 16, 4);
    WORKS(cudaMemset2DAsync(device, WIDTH, 1, 32, 4, stream), "usual");
    WORKS(cudaMemset2DAsync(device, WIDTH, 1, 0, 4, stream), "no width");
    GIVES(cudaErrorInvalidValue, cudaMemset2DAsync(device, 16, 1, 32, 4, stream), "narrow");
    GIVES(cudaErrorInvalidValue, cudaMemset2DAsync(NULL, WIDTH, 1, 32, 4, stream), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMemset2DAsync(host, WIDTH, 1, 32, 4, stream), "of the host");
    SAYS(cudaMemset2DAsync(device, WIDTH, 1, 32, 4, no_stream), "no stream");
    WORKS(cudaMemset3DAsync(area, 1, make_cudaExtent(16, 4, 4), stream), "usual");
    WORKS(cudaMemset3DAsync(area, 1, make_cudaExtent(16, 4, 0), stream), "no depth");
    GIVES(cudaErrorInvalidValue, cudaMemset3DAsync(area, 1, make_cudaExtent(17, 4, 4), stream), "wider than its rows");
    GIVES(cudaErrorInvalidValue, cudaMemset3DAsync(nowhere, 1, make_cudaExtent(16, 4, 4), stream), "null pointer");
    SAYS(cudaMemset3DAsync(area, 1, make_cudaExtent(16, 4, 4), no_stream), "no stream");
    WORKS(cudaStreamSynchronize(stream), "all");
}

static void too_much()
{
    void *p;
    size_t pitch;
    cudaPitchedPtr pitched;
    GIVES(cudaErrorMemoryAllocation, cudaMallocPitch(&p, &pitch, 1 << 30, 1 << 20), "too much");
    GIVES(cudaErrorMemoryAllocation, cudaMalloc3D(&pitched, make_cudaExtent(1 << 20, 1 << 15, 1 << 15)), "too much");
    GIVES(cudaErrorMemoryAllocation, cudaMallocHost(&p, (size_t)1 << 50), "too much");
    GIVES(cudaErrorMemoryAllocation, cudaMallocAsync(&p, (size_t)1 << 50, stream), "too much");
    GIVES(cudaErrorMemoryAllocation, cudaMallocManaged(&p, (size_t)1 << 50), "too much");
}

int main()
{
    const cudaChannelFormatDesc words = cudaCreateChannelDesc<int>();
    MUST(cudaMalloc((void **)&device, sizeof host));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaMallocArray(&array, &words, TEXELS, HEIGHT));
    MUST(cudaMallocArray(&second, &words, TEXELS, HEIGHT));
    lines();
    arrays();
    boxes();
    symbols();
    sets();
    too_much();
    WORKS(cudaDeviceSynchronize(), "all");
    return 0;
}
