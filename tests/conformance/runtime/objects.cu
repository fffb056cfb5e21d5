// shows: conformance: arrays, textures, surfaces, attributes of kernels and of pools, occupancy and limits with random
//   arguments, line by line with NVIDIA's runtime
//
// As boxes.cu: a seed gives the arguments, most of them nearly right.
#include "../suite.h"
#include "../../lib/dice.h"

static unsigned long long seed = 1;
static char *linear;
static cudaMipmappedArray_t levels;
static cudaArray_t made;

__global__ void kernel(int *a)
{
    extern __shared__ int room[];
    if (a)
        *a = room[0];
}

static unsigned below(unsigned n) { return dice(&seed, n); }

static size_t extent_near()
{
    static const size_t likely[] = { 0, 1, 6, 12, 16, 64, 2048, 16384, 32768, 65536, 131072 };
    size_t n = likely[below(sizeof likely / sizeof *likely)];
    return n + (below(4) ? 0 : 1);
}

static cudaChannelFormatDesc format()
{
    static const int bits[] = { 8, 16, 32 };
    int b = bits[below(3)], channels = (int)below(12) ? 1 << below(3) : 3;
    return cudaCreateChannelDesc(b, channels > 1 ? b : 0, channels > 2 ? b : 0, channels > 3 ? b : 0,
                                 (cudaChannelFormatKind)below(3));
}

static void told(cudaError_t result) { printf(" -> %s\n", cudaGetErrorName(result)), cudaGetLastError(); }

static void array()
{
    cudaChannelFormatDesc d = format();
    cudaExtent e = make_cudaExtent(extent_near(), extent_near(), extent_near());
    unsigned flags = below(3) ? below(10) : 0, count = below(6) ? 0 : 1 + below(6);
    if (e.width > 4096 && (e.height > 64 || e.depth > 64))
        e.height = e.depth = below(2); /* no memory is not the question */
    if (e.height > 4096 && e.depth > 64)
        e.depth = 0;
    printf("array: kind %d, %d %d %d %d bits, %zu %zu %zu, flags %x, levels %u", (int)d.f, d.x, d.y, d.z, d.w, e.width,
           e.height, e.depth, flags, count);
    if (count) {
        cudaMipmappedArray_t m;
        cudaError_t r = cudaMallocMipmappedArray(&m, &d, e, count, flags);
        if (r == cudaSuccess)
            MUST(cudaFreeMipmappedArray(m));
        told(r);
        return;
    }
    cudaArray_t a;
    cudaError_t r = cudaMalloc3DArray(&a, &d, e, flags);
    if (r == cudaSuccess) {
        if (made)
            MUST(cudaFreeArray(made));
        made = a;
    }
    told(r);
}

static void object()
{
    cudaResourceDesc r;
    cudaTextureDesc t;
    memset(&r, 0, sizeof r);
    memset(&t, 0, sizeof t);
    r.resType = (cudaResourceType)below(below(12) ? 4 : 6);
    size_t width = 0, height = 0, pitch = 0, offset = below(4) ? 0 : 4 << below(8);
    if (r.resType == cudaResourceTypeArray)
        r.res.array.array = below(20) ? made : NULL;
    else if (r.resType == cudaResourceTypeMipmappedArray)
        r.res.mipmap.mipmap = below(20) ? levels : NULL;
    else if (r.resType == cudaResourceTypeLinear) {
        r.res.linear.devPtr = below(20) ? linear + offset : NULL;
        r.res.linear.desc = format();
        r.res.linear.sizeInBytes = width = below(3) ? 4096 : extent_near() * 4;
    } else if (r.resType == cudaResourceTypePitch2D) {
        r.res.pitch2D.devPtr = below(20) ? linear + offset : NULL;
        r.res.pitch2D.desc = format();
        r.res.pitch2D.width = width = below(3) ? 16 : extent_near();
        r.res.pitch2D.height = height = below(3) ? 16 : extent_near();
        r.res.pitch2D.pitchInBytes = pitch = below(4) ? 512 : below(600);
    }
    for (auto &mode : t.addressMode)
        mode = (cudaTextureAddressMode)below(4);
    t.filterMode = (cudaTextureFilterMode)below(2);
    t.readMode = (cudaTextureReadMode)below(2);
    t.normalizedCoords = (int)below(2);
    t.mipmapFilterMode = (cudaTextureFilterMode)below(2);
    t.maxMipmapLevelClamp = (float)below(4);
    t.maxAnisotropy = below(4) ? 0 : below(20);
    const cudaChannelFormatDesc &d = r.resType == cudaResourceTypeLinear ? r.res.linear.desc : r.res.pitch2D.desc;
    bool memory = r.resType == cudaResourceTypeLinear || r.resType == cudaResourceTypePitch2D;
    printf("object: type %d, %zu %zu pitch %zu offset %zu, kind %d %d %d %d, modes %d %d %d, filter %d %d, reads %d, "
           "normalized %d, anisotropy %u",
           (int)r.resType, width, height, pitch, offset, memory ? (int)d.f : -1, memory ? d.x : 0, memory ? d.y : 0,
           memory ? d.w : 0, (int)t.addressMode[0], (int)t.addressMode[1], (int)t.addressMode[2], (int)t.filterMode,
           (int)t.mipmapFilterMode, (int)t.readMode, t.normalizedCoords, t.maxAnisotropy);
    if (below(5) == 0) {
        cudaSurfaceObject_t s;
        cudaError_t result = cudaCreateSurfaceObject(&s, &r);
        if (result == cudaSuccess)
            MUST(cudaDestroySurfaceObject(s));
        printf(", surface");
        told(result);
        return;
    }
    cudaTextureObject_t o;
    cudaError_t result = cudaCreateTextureObject(&o, &r, &t, NULL);
    if (result == cudaSuccess)
        MUST(cudaDestroyTextureObject(o));
    told(result);
}

static void of_kernel()
{
    int attribute = (int)below(18) - 1, value = below(3) ? (int)below(4) : (int)below(200000) - 100, blocks = 77;
    cudaFuncAttributes a;
    switch (below(3)) {
    case 0:
        printf("cudaFuncSetAttribute: %d, %d", attribute, value);
        told(cudaFuncSetAttribute((const void *)kernel, (cudaFuncAttribute)attribute, value));
        MUST(cudaFuncGetAttributes(&a, (const void *)kernel));
        printf("  %d %d\n", a.maxDynamicSharedSizeBytes, a.preferredShmemCarveout);
        break;
    case 1: {
        int threads = (int)below(1100) - 10;
        size_t shared = below(2) ? 0 : below(120000);
        cudaError_t r = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)kernel, threads, shared);
        printf("occupancy: %d threads, %zu bytes: %d", threads, shared, blocks);
        told(r);
        break;
    }
    default: {
        size_t bytes = 77;
        int count = (int)below(40) - 2, size = (int)below(1100) - 10;
        cudaError_t r = cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, (const void *)kernel, count, size);
        printf("available: %d blocks of %d: %zu", count, size, r == cudaSuccess ? bytes : 0);
        told(r);
    }
    }
}

static void of_device()
{
    int which = (int)below(8), value = 0;
    size_t limit = 0;
    int attribute = (int)below(160) - 2, device = below(10) ? 0 : (int)below(4) - 2;
    cudaError_t r = cudaDeviceGetAttribute(&value, (cudaDeviceAttr)attribute, device);
    printf("attribute %d of %d", attribute, device);
    told(r);
    r = cudaDeviceSetLimit((cudaLimit)which, below(2) ? below(100000) : extent_near());
    cudaError_t got = cudaDeviceGetLimit(&limit, (cudaLimit)which);
    printf("limit %d: %s %zu", which, cudaGetErrorName(got), limit);
    told(r);
}

int main(int count, char **arguments)
{
    int calls = count > 2 ? atoi(arguments[2]) : 1500;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<float>();
    seed = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    MUST(cudaMalloc((void **)&linear, 1 << 20));
    MUST(cudaMallocMipmappedArray(&levels, &d, make_cudaExtent(16, 16, 0), 3));
    for (int i = 0; i < calls; i++)
        switch (below(4)) {
        case 0: array(); break;
        case 1: object(); break;
        case 2: of_kernel(); break;
        default: of_device(); break;
        }
    return 0;
}
