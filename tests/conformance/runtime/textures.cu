// shows: conformance: texture and surface objects, line by line with NVIDIA's runtime
#include "../suite.h"

static cudaArray_t array, surface_array;
static cudaMipmappedArray_t levels;
static float *linear;

static cudaError_t made(const cudaResourceDesc *r, const cudaTextureDesc *t, const cudaResourceViewDesc *v)
{
    cudaTextureObject_t object = 0;
    cudaError_t result = cudaCreateTextureObject(&object, r, t, v);
    if (result == cudaSuccess) {
        cudaError_t ended = cudaDestroyTextureObject(object);
        if (ended != cudaSuccess)
            printf("cudaDestroyTextureObject -> %s\n", cudaGetErrorName(ended));
        cudaGetLastError();
    }
    return result;
}

static cudaResourceDesc of_array()
{
    cudaResourceDesc r;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    return r;
}
static cudaResourceDesc of_linear(size_t bytes)
{
    cudaResourceDesc r;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = linear;
    r.res.linear.desc = cudaCreateChannelDesc<float>();
    r.res.linear.sizeInBytes = bytes;
    return r;
}
static cudaResourceDesc of_pitch(size_t width, size_t height, size_t pitch)
{
    cudaResourceDesc r;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = linear;
    r.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    r.res.pitch2D.width = width;
    r.res.pitch2D.height = height;
    r.res.pitch2D.pitchInBytes = pitch;
    return r;
}

static void free_again(const char *about, const cudaChannelFormatDesc *desc, size_t height, unsigned flags)
{
    cudaArray_t a;
    cudaError_t result = cudaMallocArray(&a, desc, 16, height, flags);
    row("cudaMallocArray", about, result, -1);
    if (result == cudaSuccess)
        MUST(cudaFreeArray(a));
}

/* Formats of normalized integers and of compressed blocks: which arrays, copies and textures there are. */
static void special_format(const char *name, cudaChannelFormatDesc desc, size_t wide, size_t rows)
{
    static char bytes[16 * 16 * 8];
    cudaArray_t a;
    cudaMipmappedArray_t m;
    cudaChannelFormatDesc told;
    cudaExtent extent;
    unsigned flags;
    cudaTextureDesc t;
    cudaResourceDesc r;
    printf("%s\n", name);
    free_again("one dimension", &desc, 0, 0);
    WORKS(cudaMallocArray(&a, &desc, 16, 16), "16 by 16");
    WORKS(cudaArrayGetInfo(&told, &extent, &flags, a), "usual");
    printf("  kind %d, bits %d %d %d %d, %zu by %zu by %zu, flags %u\n", told.f == desc.f, told.x, told.y, told.z,
           told.w, extent.width, extent.height, extent.depth, flags);
    SAYS(cudaMemcpy2DToArray(a, 0, 0, bytes, wide, wide, rows, cudaMemcpyHostToDevice), "the whole");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, bytes, wide, wide, rows + 1, cudaMemcpyHostToDevice), "a row too many");
    SAYS(cudaMemcpy2DToArray(a, 0, 0, bytes, 2 * wide, 2 * wide, rows, cudaMemcpyHostToDevice), "rows too long");
    SAYS(cudaMemcpy2DFromArray(bytes, wide, a, 0, 0, wide, rows, cudaMemcpyDeviceToHost), "the whole");
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    for (int filter = 0; filter <= 1; filter++)
        for (int read = 0; read <= 1; read++)
            for (int srgb = 0; srgb <= 1; srgb++) {
                memset(&t, 0, sizeof t);
                t.filterMode = (cudaTextureFilterMode)filter;
                t.readMode = (cudaTextureReadMode)read;
                t.sRGB = srgb;
                printf("  filter %d, reads as %d, sRGB %d -> %s\n", filter, read, srgb,
                       cudaGetErrorName(made(&r, &t, NULL)));
                cudaGetLastError();
            }
    MUST(cudaFreeArray(a));
    WORKS(cudaMallocMipmappedArray(&m, &desc, make_cudaExtent(16, 16, 0), 3), "three levels");
    MUST(cudaFreeMipmappedArray(m));
    free_again("to gather from", &desc, 16, cudaArrayTextureGather);
    desc.x++;
    free_again("other bits", &desc, 16, 0);
}

/* What cudaMemcpy3D counts in an array of blocks, and on its other side. */
static void boxes_of_blocks(cudaChannelFormatDesc desc)
{
    enum { PITCH = 520, ROWS = 40 };
    static const size_t places[][4] = {
        { 0, 0, 0, 0 }, { 4, 4, 0, 0 }, { 0, 0, 4, 4 }, { 2, 2, 2, 2 }, { 3, 0, 12, 12 }
    };
    static unsigned char bytes[PITCH * ROWS], back[16 * 16 * 4];
    cudaArray_t a;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(7 * i + i / 256);
    MUST(cudaMalloc3DArray(&a, &desc, make_cudaExtent(16, 16, 2)));
    cudaMemcpy3DParms zeros;
    memset(&zeros, 0, sizeof zeros);
    zeros.srcPtr = make_cudaPitchedPtr(back, 64, 64, 4);
    zeros.dstArray = a;
    zeros.extent = make_cudaExtent(16, 16, 2);
    zeros.kind = cudaMemcpyHostToDevice;
    MUST(cudaMemcpy3D(&zeros));
    for (auto &p : places)
        for (size_t size : { 1, 4, 5, 12, 16 })
            for (size_t rows : { 3, 4, 16 }) {
                cudaMemcpy3DParms to, from;
                memset(&to, 0, sizeof to);
                memset(&from, 0, sizeof from);
                memset(back, 0, sizeof back);
                to.srcPtr = make_cudaPitchedPtr(bytes, PITCH, 64, rows);
                to.srcPos = make_cudaPos(p[0], p[1], 0);
                to.dstArray = from.srcArray = a;
                to.dstPos = make_cudaPos(p[2], p[3], 0);
                to.extent = make_cudaExtent(size, size, 2);
                to.kind = cudaMemcpyHostToDevice;
                printf("kind %d, %zu by %zu from %zu %zu to %zu %zu, %zu rows\n", (int)desc.f, size, size, p[0], p[1],
                       p[2], p[3], rows);
                SAYS(cudaMemcpy3D(&to), "into blocks");
                from.dstPtr = make_cudaPitchedPtr(back, 64, 64, 4);
                from.extent = make_cudaExtent(16, 16, 2);
                from.kind = cudaMemcpyDeviceToHost;
                MUST(cudaMemcpy3D(&from));
                unsigned sum = 0;
                for (unsigned char c : back)
                    sum = sum * 31 + c;
                VALUE("the array's bytes", "%u", sum);
            }
    MUST(cudaFreeArray(a));
}

/* Words of 32 bits, looked at as blocks. */
static void views_in_blocks(int words, cudaResourceViewFormat format)
{
    const cudaChannelFormatDesc desc = words == 2 ? cudaCreateChannelDesc<uint2>() : cudaCreateChannelDesc<uint4>();
    cudaArray_t a;
    cudaResourceDesc r;
    cudaResourceViewDesc view;
    cudaTextureDesc t;
    MUST(cudaMallocArray(&a, &desc, 4, 4));
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    memset(&view, 0, sizeof view);
    view.format = format;
    view.width = view.height = 16;
    for (int filter = 0; filter <= 1; filter++)
        for (int read = 0; read <= 1; read++) {
            memset(&t, 0, sizeof t);
            t.filterMode = (cudaTextureFilterMode)filter;
            t.readMode = (cudaTextureReadMode)read;
            printf("a view of format %d, %d words, filter %d, reads as %d -> %s\n", (int)format, words, filter, read,
                   cudaGetErrorName(made(&r, &t, &view)));
            cudaGetLastError();
        }
    memset(&t, 0, sizeof t);
    view.width = 4;
    SAYS(made(&r, &t, &view), "as wide as the words");
    MUST(cudaFreeArray(a));
}

static void special_formats()
{
#define FORMAT(kind, row, rows) special_format(#kind, cudaCreateChannelDesc<cudaChannelFormatKind##kind>(), row, rows)
    FORMAT(UnsignedNormalized8X1, 16, 16);
    FORMAT(UnsignedNormalized8X2, 32, 16);
    FORMAT(UnsignedNormalized8X4, 64, 16);
    FORMAT(UnsignedNormalized16X4, 128, 16);
    FORMAT(SignedNormalized8X1, 16, 16);
    FORMAT(SignedNormalized16X2, 64, 16);
    FORMAT(UnsignedBlockCompressed1, 32, 4);
    FORMAT(UnsignedBlockCompressed1SRGB, 32, 4);
    FORMAT(UnsignedBlockCompressed2, 64, 4);
    FORMAT(UnsignedBlockCompressed3SRGB, 64, 4);
    FORMAT(UnsignedBlockCompressed4, 32, 4);
    FORMAT(SignedBlockCompressed4, 32, 4);
    FORMAT(UnsignedBlockCompressed5, 64, 4);
    FORMAT(SignedBlockCompressed5, 64, 4);
    FORMAT(UnsignedBlockCompressed6H, 64, 4);
    FORMAT(SignedBlockCompressed6H, 64, 4);
    FORMAT(UnsignedBlockCompressed7, 64, 4);
    FORMAT(UnsignedBlockCompressed7SRGB, 64, 4);
    boxes_of_blocks(cudaCreateChannelDesc<cudaChannelFormatKindUnsignedBlockCompressed1>());
    boxes_of_blocks(cudaCreateChannelDesc<cudaChannelFormatKindUnsignedBlockCompressed7>());
    for (int format = cudaResViewFormatUnsignedBlockCompressed1; format <= cudaResViewFormatUnsignedBlockCompressed7;
         format++)
        for (int words = 2; words <= 4; words += 2)
            views_in_blocks(words, (cudaResourceViewFormat)format);
}

static void textures()
{
    cudaTextureObject_t object = 0, other;
    cudaTextureDesc t, told;
    cudaResourceDesc r, back;
    cudaResourceViewDesc view;
    memset(&t, 0, sizeof t);
    r = of_array();
    GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(NULL, &r, &t, NULL), "null pointer");
    SAYS(cudaCreateTextureObject(&object, NULL, &t, NULL), "null resource");
    SAYS(cudaCreateTextureObject(&object, &r, NULL, NULL), "null texture");
    WORKS(cudaCreateTextureObject(&object, &r, &t, NULL), "an array");
    WORKS(cudaGetTextureObjectResourceDesc(&back, object), "usual");
    VALUE("type", "%d", (int)back.resType);
    VALUE("the array", "%d", back.res.array.array == array);
    WORKS(cudaGetTextureObjectTextureDesc(&told, object), "usual");
    VALUE("address mode", "%d", (int)told.addressMode[0]);
    SAYS(cudaGetTextureObjectResourceViewDesc(&view, object), "no view");
    SAYS(cudaGetTextureObjectResourceDesc(NULL, object), "null pointer");
    SAYS(cudaGetTextureObjectTextureDesc(NULL, object), "null pointer");
    SAYS(cudaGetTextureObjectResourceDesc(&back, 12345), "no object");
    SAYS(cudaGetTextureObjectTextureDesc(&told, 12345), "no object");
    SAYS(cudaGetTextureObjectResourceViewDesc(&view, 12345), "no object");
    WORKS(cudaDestroyTextureObject(object), "once");
    SAYS(cudaDestroyTextureObject(object), "twice");
    SAYS(cudaDestroyTextureObject(0), "zero");
    SAYS(cudaDestroyTextureObject(12345), "no object");
    r.res.array.array = NULL;
    SAYS(made(&r, &t, NULL), "null array");
    r.res.array.array = WRONG(cudaArray_t);
    SAYS(made(&r, &t, NULL), "no array");
    r = of_array();
    r.resType = (cudaResourceType)9;
    SAYS(made(&r, &t, NULL), "resource of type 9");
    r = of_array();
    for (int mode = 0; mode <= 4; mode++)
        for (int normalized = 0; normalized <= 1; normalized++) {
            memset(&t, 0, sizeof t);
            t.addressMode[0] = t.addressMode[1] = (cudaTextureAddressMode)mode;
            t.normalizedCoords = normalized;
            cudaError_t result = cudaCreateTextureObject(&other, &r, &t, NULL);
            printf("cudaCreateTextureObject: address mode %d, normalized %d -> %s", mode, normalized,
                   cudaGetErrorName(result));
            if (result == cudaSuccess) {
                MUST(cudaGetTextureObjectTextureDesc(&told, other));
                printf(" %d %d", (int)told.addressMode[0], told.normalizedCoords);
                MUST(cudaDestroyTextureObject(other));
            }
            printf("\n");
            cudaGetLastError();
        }
    for (int filter = 0; filter <= 2; filter++)
        for (int read = 0; read <= 2; read++) {
            memset(&t, 0, sizeof t);
            t.filterMode = (cudaTextureFilterMode)filter;
            t.readMode = (cudaTextureReadMode)read;
            printf("cudaCreateTextureObject: filter %d, reads as %d -> %s\n", filter, read,
                   cudaGetErrorName(made(&r, &t, NULL)));
            cudaGetLastError();
        }
    cudaArray_t numbers;
    for (int bits : { 8, 16, 32 })
        for (int filter = 0; filter <= 1; filter++)
            for (int read = 0; read <= 1; read++) {
                cudaChannelFormatDesc d = cudaCreateChannelDesc(bits, 0, 0, 0, cudaChannelFormatKindUnsigned);
                MUST(cudaMallocArray(&numbers, &d, 16, 16));
                memset(&t, 0, sizeof t);
                t.filterMode = (cudaTextureFilterMode)filter;
                t.readMode = (cudaTextureReadMode)read;
                r.res.array.array = numbers;
                printf("cudaCreateTextureObject: %d bits, filter %d, reads as %d -> %s\n", bits, filter, read,
                       cudaGetErrorName(made(&r, &t, NULL)));
                cudaGetLastError();
                MUST(cudaFreeArray(numbers));
            }
    r = of_array();
    memset(&t, 0, sizeof t);
    t.maxAnisotropy = 17;
    SAYS(made(&r, &t, NULL), "anisotropy 17");
    t.maxAnisotropy = 16;
    SAYS(made(&r, &t, NULL), "anisotropy 16");
    memset(&t, 0, sizeof t);
    t.mipmapFilterMode = (cudaTextureFilterMode)7;
    SAYS(made(&r, &t, NULL), "filter 7 between levels");
    memset(&t, 0, sizeof t);
    t.readMode = cudaReadModeElementType;
    r = of_linear(4096);
    WORKS(made(&r, &t, NULL), "memory");
    r.res.linear.devPtr = (char *)linear + 4;
    SAYS(made(&r, &t, NULL), "memory, not aligned");
    r.res.linear.devPtr = NULL;
    SAYS(made(&r, &t, NULL), "null memory");
    r = of_linear(0);
    SAYS(made(&r, &t, NULL), "no bytes");
    r = of_linear((size_t)1 << 40);
    SAYS(made(&r, &t, NULL), "too much memory");
    r = of_linear(4096);
    r.res.linear.desc.x = 7;
    SAYS(made(&r, &t, NULL), "7 bits");
    r = of_linear(4096);
    t.filterMode = cudaFilterModeLinear;
    SAYS(made(&r, &t, NULL), "memory, filtered");
    t.filterMode = cudaFilterModePoint;
    t.normalizedCoords = 1;
    SAYS(made(&r, &t, NULL), "memory, normalized");
    t.normalizedCoords = 0;
    r = of_pitch(16, 16, 512);
    WORKS(made(&r, &t, NULL), "pitched memory");
    r = of_pitch(16, 16, 100);
    SAYS(made(&r, &t, NULL), "a pitch of 100");
    r = of_pitch(256, 16, 512);
    SAYS(made(&r, &t, NULL), "a pitch that is too small");
    r = of_pitch(0, 16, 512);
    SAYS(made(&r, &t, NULL), "pitched, no width");
    r = of_pitch(16, 0, 512);
    SAYS(made(&r, &t, NULL), "pitched, no rows");
    r = of_pitch(200000, 1, 800256);
    SAYS(made(&r, &t, NULL), "pitched, too wide");
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeMipmappedArray;
    r.res.mipmap.mipmap = levels;
    memset(&t, 0, sizeof t);
    SAYS(made(&r, &t, NULL), "a mipmapped array, not normalized");
    t.normalizedCoords = 1;
    WORKS(made(&r, &t, NULL), "a mipmapped array");
    t.maxMipmapLevelClamp = -1;
    SAYS(made(&r, &t, NULL), "level -1");
    t.maxMipmapLevelClamp = 0;
    r.res.mipmap.mipmap = NULL;
    SAYS(made(&r, &t, NULL), "null mipmapped array");
    r = of_array();
    memset(&t, 0, sizeof t);
    memset(&view, 0, sizeof view);
    view.format = cudaResViewFormatFloat1;
    view.width = 16;
    view.height = 16;
    WORKS(cudaCreateTextureObject(&object, &r, &t, &view), "the same view");
    memset(&view, 0, sizeof view);
    WORKS(cudaGetTextureObjectResourceViewDesc(&view, object), "a view");
    VALUE("format", "%d", (int)view.format);
    VALUE("width", "%zu", view.width);
    MUST(cudaDestroyTextureObject(object));
    view.width = 17;
    SAYS(made(&r, &t, &view), "too wide a view");
    view.width = 16;
    view.format = (cudaResourceViewFormat)99;
    SAYS(made(&r, &t, &view), "view of format 99");
    view.format = cudaResViewFormatFloat4;
    SAYS(made(&r, &t, &view), "view of another size");
    r = of_linear(4096);
    view.format = cudaResViewFormatFloat1;
    SAYS(made(&r, &t, &view), "view of memory");
}

static void surfaces()
{
    cudaSurfaceObject_t object = 0;
    cudaResourceDesc r = of_array(), back;
    r.res.array.array = surface_array;
    GIVES(cudaErrorInvalidValue, cudaCreateSurfaceObject(NULL, &r), "null pointer");
    SAYS(cudaCreateSurfaceObject(&object, NULL), "null resource");
    WORKS(cudaCreateSurfaceObject(&object, &r), "usual");
    WORKS(cudaGetSurfaceObjectResourceDesc(&back, object), "usual");
    VALUE("the array", "%d", back.res.array.array == surface_array);
    SAYS(cudaGetSurfaceObjectResourceDesc(NULL, object), "null pointer");
    SAYS(cudaGetSurfaceObjectResourceDesc(&back, 12345), "no object");
    WORKS(cudaDestroySurfaceObject(object), "once");
    SAYS(cudaDestroySurfaceObject(object), "twice");
    SAYS(cudaDestroySurfaceObject(0), "zero");
    r.res.array.array = array;
    SAYS(cudaCreateSurfaceObject(&object, &r), "an array without the flag");
    r.res.array.array = NULL;
    SAYS(cudaCreateSurfaceObject(&object, &r), "null array");
    r = of_linear(4096);
    SAYS(cudaCreateSurfaceObject(&object, &r), "memory");
    r.resType = (cudaResourceType)9;
    SAYS(cudaCreateSurfaceObject(&object, &r), "type 9");
    r.resType = cudaResourceTypeArray;
    r.res.array.array = surface_array;
    MUST(cudaCreateSurfaceObject(&object, &r));
    SAYS(cudaDestroyTextureObject(object), "a surface");
    SAYS(cudaFreeArray(surface_array), "a surface uses it");
    SAYS(cudaDestroySurfaceObject(object), "its array has ended");
}

int main()
{
    cudaChannelFormatDesc d = cudaCreateChannelDesc<float>();
    MUST(cudaMallocArray(&array, &d, 16, 16));
    MUST(cudaMallocArray(&surface_array, &d, 16, 16, cudaArraySurfaceLoadStore));
    MUST(cudaMallocMipmappedArray(&levels, &d, make_cudaExtent(16, 16, 0), 3));
    MUST(cudaMalloc((void **)&linear, 1 << 20));
    textures();
    special_formats();
    surfaces();
    MUST(cudaFreeArray(array));
    MUST(cudaFreeMipmappedArray(levels));
    MUST(cudaFree(linear));
    return 0;
}
