// shows: conformance: arrays and mipmapped arrays and their copies, line by line with NVIDIA's runtime
#include "../suite.h"

static void shapes()
{
    static const struct {
        size_t w, h, d;
        unsigned flags;
    } rows[] = {
        { 0, 0, 0, 0 },      { 16, 0, 0, 0 },      { 16, 8, 0, 0 },      { 16, 8, 4, 0 },
        { 16, 0, 4, 0 },     { 0, 8, 0, 0 },       { 0, 8, 4, 0 },       { 16, 0, 3, 1 },
        { 16, 8, 3, 1 },     { 16, 8, 0, 1 },      { 16, 16, 6, 4 },     { 16, 8, 6, 4 },
        { 16, 16, 5, 4 },    { 16, 16, 12, 5 },    { 16, 16, 11, 5 },    { 16, 16, 6, 5 },
        { 16, 8, 0, 2 },     { 16, 8, 4, 2 },      { 16, 8, 0, 8 },      { 16, 8, 4, 8 },
        { 16, 0, 0, 8 },     { 16, 8, 0, 10 },     { 16, 8, 0, 0x100 },  { 16, 8, 4, 0x107 },
        { 131072, 0, 0, 0 }, { 131073, 0, 0, 0 },  { 131072, 1, 0, 0 },  { 131073, 1, 0, 0 },
        { 1, 65536, 0, 0 },  { 1, 65537, 0, 0 },   { 16384, 1, 1, 0 },   { 16385, 1, 1, 0 },
        { 1, 1, 16384, 0 },  { 1, 1, 16385, 0 },   { 16, 0, 2048, 1 },   { 16, 0, 2049, 1 },
        { 1, 1, 2048, 1 },   { 1, 1, 2049, 1 },    { 32768, 0, 1, 1 },   { 32769, 0, 1, 1 },
        { 32768, 1, 1, 1 },  { 32769, 1, 1, 1 },   { 1, 1, 2046, 5 },    { 1, 1, 2052, 5 },
    };
    cudaChannelFormatDesc bytes = cudaCreateChannelDesc<unsigned char>();
    for (auto &r : rows) {
        cudaArray_t a = NULL;
        cudaChannelFormatDesc d;
        cudaExtent e = { 7, 7, 7 };
        unsigned flags = 77;
        cudaError_t made = cudaMalloc3DArray(&a, &bytes, make_cudaExtent(r.w, r.h, r.d), r.flags);
        printf("cudaMalloc3DArray: %zu by %zu by %zu, flags %x -> %s", r.w, r.h, r.d, r.flags, cudaGetErrorName(made));
        if (made == cudaSuccess && a) {
            cudaError_t asked = cudaArrayGetInfo(&d, &e, &flags, a);
            printf(", %s %zu %zu %zu flags %x", cudaGetErrorName(asked), e.width, e.height, e.depth, flags);
            MUST(cudaFreeArray(a));
        } else if (made == cudaSuccess) {
            printf(", none");
        }
        printf("\n");
        cudaGetLastError();
    }
    for (unsigned levels = 0; levels <= 7; levels++)
        for (unsigned flags : { 0u, 1u, 4u, 2u, 8u }) {
            cudaMipmappedArray_t m = NULL;
            cudaArray_t level = NULL;
            cudaExtent e = { 7, 7, 7 };
            cudaError_t made =
                cudaMallocMipmappedArray(&m, &bytes, make_cudaExtent(16, 16, flags == 4 ? 6 : flags), levels, flags);
            printf("cudaMallocMipmappedArray: %u levels, flags %x -> %s", levels, flags, cudaGetErrorName(made));
            cudaGetLastError();
            for (unsigned i = 0; made == cudaSuccess && i < 7; i++) {
                cudaError_t got = cudaGetMipmappedArrayLevel(&level, m, i);
                if (got == cudaSuccess)
                    MUST(cudaArrayGetInfo(NULL, &e, NULL, level));
                printf(", %s", cudaGetErrorName(got));
                if (got == cudaSuccess)
                    printf(" %zu %zu %zu", e.width, e.height, e.depth);
                cudaGetLastError();
            }
            printf("\n");
            if (made == cudaSuccess)
                MUST(cudaFreeMipmappedArray(m));
        }
}

static void formats()
{
    for (int kind = 0; kind <= 32; kind++) {
        printf("cudaMallocArray: kind %d ->", kind);
        for (int bits : { 0, 8, 10, 16, 24, 32, 64 })
            for (int channels = 1; channels <= 4; channels++) {
                cudaArray_t a = NULL;
                cudaChannelFormatDesc d = cudaCreateChannelDesc(bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0,
                                                               channels > 3 ? bits : 0, (cudaChannelFormatKind)kind);
                cudaError_t made = cudaMallocArray(&a, &d, 16, 4, 0);
                printf(" %d", (int)made);
                cudaGetLastError();
                if (made == cudaSuccess)
                    MUST(cudaFreeArray(a));
            }
        printf("\n");
    }
    cudaArray_t a = NULL;
    cudaChannelFormatDesc d = cudaCreateChannelDesc(8, 16, 0, 0, cudaChannelFormatKindUnsigned);
    SAYS(cudaMallocArray(&a, &d, 16, 4, 0), "8 and 16 bits");
    d = cudaCreateChannelDesc(8, 0, 8, 0, cudaChannelFormatKindUnsigned);
    SAYS(cudaMallocArray(&a, &d, 16, 4, 0), "the second is missing");
    d = cudaCreateChannelDesc(-8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    SAYS(cudaMallocArray(&a, &d, 16, 4, 0), "-8 bits");
#if RUNTIME >= 13 /* 12.8 and later */
    d = cudaCreateChannelDesc(10, 10, 10, 2, (cudaChannelFormatKind)31);
    SAYS(cudaMallocArray(&a, &d, 16, 4, 0), "10, 10, 10 and 2 bits");
#endif
    d = cudaCreateChannelDesc(8, 0, 0, 0, (cudaChannelFormatKind)99);
    SAYS(cudaMallocArray(&a, &d, 16, 4, 0), "kind 99");
}

static void handles()
{
    cudaArray_t a = NULL, b = NULL, level = NULL;
    cudaMipmappedArray_t m = NULL;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<float>(), got;
    cudaExtent e;
    unsigned flags;
    cudaArrayMemoryRequirements needs;
    GIVES(cudaErrorInvalidValue, cudaMallocArray(NULL, &d, 16, 4, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMallocArray(&a, NULL, 16, 4, 0), "null format");
    GIVES(cudaErrorInvalidValue, cudaMalloc3DArray(NULL, &d, make_cudaExtent(1, 1, 1), 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMallocMipmappedArray(NULL, &d, make_cudaExtent(1, 1, 1), 1, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMallocMipmappedArray(&m, NULL, make_cudaExtent(1, 1, 1), 1, 0), "null format");
    WORKS(cudaMallocArray(&a, &d, 16, 4, 0), "usual");
    WORKS(cudaMalloc3DArray(&b, &d, make_cudaExtent(8, 8, 8), 0), "usual");
    WORKS(cudaMallocMipmappedArray(&m, &d, make_cudaExtent(16, 16, 0), 3, 0), "usual");
    WORKS(cudaArrayGetInfo(&got, &e, &flags, a), "usual");
    VALUE("bits", "%d", got.x);
    WORKS(cudaArrayGetInfo(NULL, NULL, NULL, a), "nothing is asked");
    SAYS(cudaArrayGetInfo(&got, &e, &flags, NULL), "null array");
    SAYS(cudaArrayGetInfo(&got, &e, &flags, WRONG(cudaArray_t)), "no array");
    SAYS(cudaArrayGetInfo(&got, &e, &flags, (cudaArray_t)m), "a mipmapped array");
    SAYS(cudaGetChannelDesc(&got, a), "usual");
    SAYS(cudaGetChannelDesc(NULL, a), "null pointer");
    SAYS(cudaGetChannelDesc(&got, NULL), "null array");
    SAYS(cudaGetChannelDesc(&got, WRONG(cudaArray_t)), "no array");
    SAYS(cudaGetMipmappedArrayLevel(NULL, m, 0), "null pointer");
    SAYS(cudaGetMipmappedArrayLevel(&level, NULL, 0), "null array");
    SAYS(cudaGetMipmappedArrayLevel(&level, WRONG(cudaMipmappedArray_t), 0), "no array");
    WORKS(cudaGetMipmappedArrayLevel(&level, m, 1), "the second");
    SAYS(cudaFreeArray(level), "a level");
    SAYS(cudaArrayGetPlane(&b, a, 0), "one plane");
    SAYS(cudaArrayGetPlane(NULL, a, 0), "null pointer");
    SAYS(cudaArrayGetMemoryRequirements(&needs, a, 0), "usual");
    SAYS(cudaArrayGetMemoryRequirements(&needs, a, 99), "no device");
    SAYS(cudaArrayGetMemoryRequirements(NULL, a, 0), "null pointer");
    SAYS(cudaMipmappedArrayGetMemoryRequirements(&needs, m, 0), "usual");
    cudaArraySparseProperties sparse;
    SAYS(cudaArrayGetSparseProperties(&sparse, a), "not sparse");
    SAYS(cudaMipmappedArrayGetSparseProperties(&sparse, m), "not sparse");
    SAYS(cudaFreeArray(NULL), "null array");
    SAYS(cudaFreeMipmappedArray(NULL), "null array");
    SAYS(cudaFreeArray(WRONG(cudaArray_t)), "no array");
    SAYS(cudaFreeMipmappedArray(WRONG(cudaMipmappedArray_t)), "no array");
    SAYS(cudaFree(a), "an array");
    WORKS(cudaFreeArray(a), "once");
    SAYS(cudaFreeArray(a), "twice");
    SAYS(cudaArrayGetInfo(&got, &e, &flags, a), "freed");
    WORKS(cudaFreeMipmappedArray(m), "once");
    SAYS(cudaFreeMipmappedArray(m), "twice");
    SAYS(cudaArrayGetInfo(&got, &e, &flags, level), "a level of an array that has ended");
    size_t width = 7;
    WORKS(cudaDeviceGetTexture1DLinearMaxWidth(&width, &d, 0), "floats");
    VALUE("width", "%zu", width);
    SAYS(cudaDeviceGetTexture1DLinearMaxWidth(NULL, &d, 0), "null pointer");
    SAYS(cudaDeviceGetTexture1DLinearMaxWidth(&width, &d, 99), "no device");
    WORKS(cudaFreeArray(b), "usual");
}

static void copies()
{
    static char host[65536];
    cudaArray_t a, b, three;
    char *device;
    cudaStream_t s;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<int>();
    MUST(cudaStreamCreate(&s));
    MUST(cudaMallocArray(&a, &d, 16, 8));
    MUST(cudaMallocArray(&b, &d, 16, 8));
    MUST(cudaMalloc3DArray(&three, &d, make_cudaExtent(8, 8, 4)));
    MUST(cudaMalloc((void **)&device, 65536));
    for (int i = 0; i < 65536; i++)
        host[i] = (char)i;
    WORKS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 64, 8, cudaMemcpyHostToDevice), "whole");
    WORKS(cudaMemcpy2DToArray(a, 4, 1, host, 64, 8, 2, cudaMemcpyHostToDevice), "a part");
    WORKS(cudaMemcpy2DToArray(a, 4, 1, device, 64, 8, 2, cudaMemcpyDeviceToDevice), "of the device");
    WORKS(cudaMemcpy2DToArray(a, 4, 1, host, 64, 8, 2, cudaMemcpyDefault), "by addresses");
    SAYS(cudaMemcpy2DToArray(a, 2, 1, host, 64, 8, 2, cudaMemcpyHostToDevice), "not at an element");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 6, 2, cudaMemcpyHostToDevice), "one element and a half");
    SAYS(cudaMemcpy2DToArray(a, 60, 0, host, 64, 8, 2, cudaMemcpyHostToDevice), "beyond the row");
    SAYS(cudaMemcpy2DToArray(a, 0, 7, host, 64, 8, 2, cudaMemcpyHostToDevice), "beyond the rows");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 4, 8, 2, cudaMemcpyHostToDevice), "narrow source");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 0, 2, cudaMemcpyHostToDevice), "no width");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 8, 0, cudaMemcpyHostToDevice), "no rows");
    SAYS(cudaMemcpy2DToArray(a, 99, 99, host, 64, 8, 0, cudaMemcpyHostToDevice), "no rows, beyond the end");
    SAYS(cudaMemcpy2DToArray(NULL, 0, 0, host, 64, 8, 2, cudaMemcpyHostToDevice), "null array");
    SAYS(cudaMemcpy2DToArray(NULL, 0, 0, host, 64, 8, 0, cudaMemcpyHostToDevice), "null array, no rows");
    SAYS(cudaMemcpy2DToArray(WRONG(cudaArray_t), 0, 0, host, 64, 8, 2, cudaMemcpyHostToDevice), "no array");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, NULL, 64, 8, 2, cudaMemcpyHostToDevice), "null source");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 8, 2, cudaMemcpyDeviceToHost), "the wrong way");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 8, 2, cudaMemcpyHostToHost), "on the host");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 8, 2, (cudaMemcpyKind)9), "kind 9");
    SAYS(cudaMemcpy2DToArray(three, 0, 0, host, 64, 32, 8, cudaMemcpyHostToDevice), "three dimensions");
    WORKS(cudaMemcpy2DFromArray(host, 64, a, 0, 0, 64, 8, cudaMemcpyDeviceToHost), "whole");
    WORKS(cudaMemcpy2DFromArray(device, 64, a, 0, 0, 64, 8, cudaMemcpyDeviceToDevice), "to the device");
    SAYS(cudaMemcpy2DFromArray(host, 64, a, 0, 0, 64, 8, cudaMemcpyHostToDevice), "the wrong way");
    SAYS(cudaMemcpy2DFromArray(host, 4, a, 0, 0, 8, 8, cudaMemcpyDeviceToHost), "narrow target");
    SAYS(cudaMemcpy2DFromArray(NULL, 64, a, 0, 0, 64, 8, cudaMemcpyDeviceToHost), "null target");
    SAYS(cudaMemcpy2DFromArray(host, 64, NULL, 0, 0, 64, 8, cudaMemcpyDeviceToHost), "null array");
    WORKS(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 0, 64, 8, cudaMemcpyDeviceToDevice), "whole");
    SAYS(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 0, 64, 8, cudaMemcpyHostToDevice), "host to device");
    SAYS(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 0, 64, 8, cudaMemcpyDefault), "by addresses");
    SAYS(cudaMemcpy2DArrayToArray(b, 0, 1, a, 0, 0, 64, 8, cudaMemcpyDeviceToDevice), "beyond the rows");
    SAYS(cudaMemcpy2DArrayToArray(b, 0, 0, NULL, 0, 0, 64, 8, cudaMemcpyDeviceToDevice), "null array");
    WORKS(cudaMemcpy2DToArrayAsync(a, 0, 0, host, 64, 64, 8, cudaMemcpyHostToDevice, s), "whole");
    SAYS(cudaMemcpy2DToArrayAsync(a, 0, 0, host, 64, 64, 8, cudaMemcpyHostToDevice, WRONG(cudaStream_t)), "no stream");
    WORKS(cudaMemcpy2DFromArrayAsync(host, 64, a, 0, 0, 64, 8, cudaMemcpyDeviceToHost, s), "whole");
    WORKS(cudaMemcpyToArray(a, 0, 0, host, 128, cudaMemcpyHostToDevice), "two rows");
    WORKS(cudaMemcpyToArray(a, 8, 0, host, 64, cudaMemcpyHostToDevice), "around the end of a row");
    SAYS(cudaMemcpyToArray(a, 0, 0, host, 600, cudaMemcpyHostToDevice), "beyond the end");
    SAYS(cudaMemcpyToArray(a, 0, 0, host, 0, cudaMemcpyHostToDevice), "no bytes");
    SAYS(cudaMemcpyToArray(NULL, 0, 0, host, 0, cudaMemcpyHostToDevice), "null array, no bytes");
    SAYS(cudaMemcpyToArray(a, 0, 0, host, 64, cudaMemcpyDeviceToHost), "the wrong way");
    WORKS(cudaMemcpyFromArray(host, a, 0, 0, 128, cudaMemcpyDeviceToHost), "two rows");
    SAYS(cudaMemcpyFromArray(host, a, 0, 7, 128, cudaMemcpyDeviceToHost), "beyond the end");
    WORKS(cudaMemcpyArrayToArray(b, 0, 0, a, 0, 0, 128, cudaMemcpyDeviceToDevice), "two rows");
    SAYS(cudaMemcpyArrayToArray(b, 0, 0, a, 0, 0, 6000, cudaMemcpyDeviceToDevice), "beyond the end");

    cudaMemcpy3DParms p;
    memset(&p, 0, sizeof p);
    p.srcPtr = make_cudaPitchedPtr(host, 32, 8, 8);
    p.dstArray = three;
    p.extent = make_cudaExtent(8, 8, 4);
    p.kind = cudaMemcpyHostToDevice;
    WORKS(cudaMemcpy3D(&p), "host to array");
    p.dstPos = make_cudaPos(1, 0, 0);
    SAYS(cudaMemcpy3D(&p), "beyond the row");
    p.dstPos = make_cudaPos(0, 0, 1);
    SAYS(cudaMemcpy3D(&p), "beyond the slices");
    p.dstPos = make_cudaPos(1, 1, 1);
    p.extent = make_cudaExtent(7, 7, 3);
    WORKS(cudaMemcpy3D(&p), "a part");
    p.dstPtr = make_cudaPitchedPtr(device, 32, 8, 8);
    SAYS(cudaMemcpy3D(&p), "two targets");
    p.dstArray = NULL;
    p.extent = make_cudaExtent(32, 8, 4);
    p.dstPos = make_cudaPos(0, 0, 0);
    WORKS(cudaMemcpy3D(&p), "bytes where there is no array");
    p.srcArray = three;
    SAYS(cudaMemcpy3D(&p), "two sources");
    p.srcPtr = make_cudaPitchedPtr(NULL, 0, 0, 0);
    p.extent = make_cudaExtent(8, 8, 4);
    SAYS(cudaMemcpy3D(&p), "array to device, kind of the host");
    p.kind = cudaMemcpyDeviceToDevice;
    WORKS(cudaMemcpy3D(&p), "array to device");
    p.kind = cudaMemcpyDefault;
    WORKS(cudaMemcpy3D(&p), "by addresses");
    WORKS(cudaMemcpy3DAsync(&p, s), "in a stream");
    SAYS(cudaMemcpy3DAsync(NULL, s), "null pointer");
    SAYS(cudaMemcpy3DAsync(&p, WRONG(cudaStream_t)), "no stream");
    WORKS(cudaStreamSynchronize(s), "all");
    MUST(cudaFreeArray(a));
    SAYS(cudaMemcpy2DToArray(a, 0, 0, host, 64, 64, 8, cudaMemcpyHostToDevice), "freed");
    MUST(cudaFreeArray(b));
    MUST(cudaFreeArray(three));
    MUST(cudaFree(device));
    MUST(cudaStreamDestroy(s));
}

int main()
{
    MUST(cudaFree(0));
    shapes();
    formats();
    handles();
    copies();
    return 0;
}
