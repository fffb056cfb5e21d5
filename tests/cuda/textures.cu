// shows: textures and surfaces: textures of arrays of one to three dimensions, with layers and as cubes, of linear and
//   of pitched memory: formats, filters, address modes, normalized coordinates and read modes agree with a model on the
//   host
// shows: textures and surfaces: arrays and views of compressed blocks, also with levels, and arrays of normalized
//   integers
// shows: textures and surfaces: kernels read and write arrays through surfaces, and textures see what they wrote
// shows: textures and surfaces: levels of mipmapped arrays are copied, written through surfaces and sampled
// shows: textures and surfaces: objects tell what they were made of; wrong ones give CUDA's errors
#include "check.h"

#include <cmath>
#include <cuda_fp16.h>
#include <vector>

enum { WIDTH = 13, HEIGHT = 9, DEPTH = 5, LAYERS = 4, CUBE = 8 };

static int mod(int a, int n) { return ((a % n) + n) % n; }

/* ---- the model: CUDA programming guide, "Texture Fetching" ---- */

/* The texel that an index means; -1: the border, which is 0. */
static int wrapped(int i, int n, cudaTextureAddressMode mode)
{
    if (i >= 0 && i < n)
        return i;
    switch (mode) {
    case cudaAddressModeClamp: return i < 0 ? 0 : n - 1;
    case cudaAddressModeWrap: return mod(i, n);
    case cudaAddressModeMirror: return mod(i, 2 * n) < n ? mod(i, 2 * n) : 2 * n - 1 - mod(i, 2 * n);
    default: return -1;
    }
}

static float texel(const std::vector<float> &t, int w, int h, int x, int y, int z, int d, cudaTextureAddressMode mode)
{
    x = wrapped(x, w, mode), y = wrapped(y, h, mode), z = wrapped(z, d, mode);
    return x < 0 || y < 0 || z < 0 ? 0 : t[((size_t)z * h + y) * w + x];
}

static float model(const std::vector<float> &t, int w, int h, int d, float x, float y, float z, bool linear,
                   cudaTextureAddressMode mode)
{
    if (!linear)
        return texel(t, w, h, (int)floorf(x), (int)floorf(y), (int)floorf(z), d, mode);
    float bx = x - 0.5f, by = y - 0.5f, bz = z - 0.5f;
    int i = (int)floorf(bx), j = h > 1 ? (int)floorf(by) : 0, k = d > 1 ? (int)floorf(bz) : 0;
    /* the hardware keeps eight bits of the weights */
    float a = floorf((bx - i) * 256 + 0.5f) / 256, b = h > 1 ? floorf((by - j) * 256 + 0.5f) / 256 : 0,
          c = d > 1 ? floorf((bz - k) * 256 + 0.5f) / 256 : 0, sum = 0;
    for (int corner = 0; corner < 8; corner++) {
        int dx = corner & 1, dy = corner >> 1 & 1, dz = corner >> 2;
        float weight = (dx ? a : 1 - a) * (dy ? b : 1 - b) * (dz ? c : 1 - c);
        if (weight != 0)
            sum += weight * texel(t, w, h, i + dx, h > 1 ? j + dy : 0, d > 1 ? k + dz : 0, d, mode);
    }
    return sum;
}

/* ---- making ---- */

static cudaArray_t array_of(const void *texels, cudaChannelFormatDesc desc, size_t w, size_t h, size_t d,
                            unsigned flags)
{
    cudaArray_t array;
    MUST(cudaMalloc3DArray(&array, &desc, make_cudaExtent(w, h, d), flags));
    cudaMemcpy3DParms copy = { 0 };
    size_t element = (size_t)(desc.x + desc.y + desc.z + desc.w) / 8;
    copy.srcPtr = make_cudaPitchedPtr((void *)texels, w * element, w, h ? h : 1);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(w, h ? h : 1, d ? d : 1);
    copy.kind = cudaMemcpyHostToDevice;
    MUST(cudaMemcpy3D(&copy));
    return array;
}

static cudaResourceDesc resource(cudaArray_t array)
{
    cudaResourceDesc r;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    return r;
}

static cudaTextureDesc sampler(cudaTextureAddressMode mode, cudaTextureFilterMode filter, cudaTextureReadMode read,
                               bool normalized)
{
    cudaTextureDesc s;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < 3; i++)
        s.addressMode[i] = mode;
    s.filterMode = filter;
    s.readMode = read;
    s.normalizedCoords = normalized;
    return s;
}

static cudaTextureObject_t texture(cudaArray_t array, const cudaTextureDesc &how)
{
    cudaTextureObject_t t;
    cudaResourceDesc from = resource(array), told;
    cudaTextureDesc how_told;
    MUST(cudaCreateTextureObject(&t, &from, &how, NULL));
    MUST(cudaGetTextureObjectResourceDesc(&told, t));
    HOLDS(told.resType == cudaResourceTypeArray && told.res.array.array == array);
    MUST(cudaGetTextureObjectTextureDesc(&how_told, t));
    HOLDS(!memcmp(&how_told, &how, sizeof how));
    return t;
}

static float *out;    /* device: what kernels found */
static float *points; /* device: where to look */
enum { MOST = 1 << 16 };

static std::vector<float> found(size_t count)
{
    std::vector<float> result(count);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(result.data(), out, count * 4, cudaMemcpyDeviceToHost));
    return result;
}

static void close_to(float is, float should, float tolerance, const char *what, size_t i)
{
    if (fabsf(is - should) <= tolerance)
        return;
    if (check_failures++ < 20)
        fprintf(stderr, "%s: sample %zu is %g and should be %g\n", what, i, is, should);
}

/* ---- kernels ---- */

enum Shape { ONE, TWO, THREE, ONE_LAYERED, TWO_LAYERED };

__global__ void sample(cudaTextureObject_t t, int shape, const float *at, float *to, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = at[3 * i], y = at[3 * i + 1], z = at[3 * i + 2];
    switch (shape) {
    case ONE: to[i] = tex1D<float>(t, x); break;
    case TWO: to[i] = tex2D<float>(t, x, y); break;
    case THREE: to[i] = tex3D<float>(t, x, y, z); break;
    case ONE_LAYERED: to[i] = tex1DLayered<float>(t, x, (int)z); break;
    default: to[i] = tex2DLayered<float>(t, x, y, (int)z); break;
    }
}

__global__ void cube(cudaTextureObject_t t, const float *at, float *to, int count, int layer)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = layer < 0 ? texCubemap<float>(t, at[3 * i], at[3 * i + 1], at[3 * i + 2])
                          : texCubemapLayered<float>(t, at[3 * i], at[3 * i + 1], at[3 * i + 2], layer);
}

/* ---- shapes, filters, modes ---- */

static void all_samplers(Shape shape, int w, int h, int d)
{
    bool layered = shape == ONE_LAYERED || shape == TWO_LAYERED;
    std::vector<float> texels((size_t)w * h * d);
    for (size_t i = 0; i < texels.size(); i++)
        texels[i] = (float)((i * 37) % 101) + (float)i * 0.25f;
    cudaArray_t array =
        array_of(texels.data(), cudaCreateChannelDesc<float>(), w, shape == ONE || shape == ONE_LAYERED ? 0 : h,
                 shape == ONE || shape == TWO ? 0 : d, layered ? cudaArrayLayered : 0);
    std::vector<float> at;
    for (float z = layered ? 0 : -1.3f; z < d + (layered ? 0 : 1.5f); z += layered ? 1 : 0.65f)
        for (float y = h > 1 ? -1.2f : 0.5f; y < h + (h > 1 ? 1.5f : 0); y += 0.85f)
            for (float x = -2.15f; x < w + 2.5f; x += 0.35f) {
                float three[] = { x, y, d > 1 ? z : 0.5f };
                at.insert(at.end(), three, three + 3);
            }
    int count = (int)(at.size() / 3);
    std::vector<float> scaled(at);
    for (int linear = 0; linear < 2; linear++)
        for (int normalized = 0; normalized < 2; normalized++)
            for (int mode = 0; mode < 4; mode++) {
                if (!normalized && (mode == cudaAddressModeWrap || mode == cudaAddressModeMirror))
                    continue;
                for (int i = 0; i < count; i++) {
                    scaled[3 * i] = normalized ? at[3 * i] / w : at[3 * i];
                    scaled[3 * i + 1] = normalized ? at[3 * i + 1] / h : at[3 * i + 1];
                    scaled[3 * i + 2] = normalized && !layered ? at[3 * i + 2] / d : at[3 * i + 2];
                }
                MUST(cudaMemcpy(points, scaled.data(), scaled.size() * 4, cudaMemcpyHostToDevice));
                cudaTextureObject_t t = texture(array, sampler((cudaTextureAddressMode)mode,
                                                               linear ? cudaFilterModeLinear : cudaFilterModePoint,
                                                               cudaReadModeElementType, normalized));
                sample<<<(count + 127) / 128, 128>>>(t, shape, points, out, count);
                std::vector<float> is = found(count);
                char what[80];
                snprintf(what, sizeof what, "shape %d, %s, %s coordinates, address mode %d", (int)shape,
                         linear ? "linear" : "point", normalized ? "normalized" : "plain", mode);
                for (int i = 0; i < count; i++) {
                    int layer = layered ? (int)at[3 * i + 2] : 0;
                    std::vector<float> slice(texels.begin() + (size_t)layer * w * h,
                                             layered ? texels.begin() + (size_t)(layer + 1) * w * h : texels.end());
                    float x = normalized ? scaled[3 * i] * w : at[3 * i],
                          y = normalized ? scaled[3 * i + 1] * h : at[3 * i + 1],
                          z = normalized ? scaled[3 * i + 2] * d : at[3 * i + 2];
                    close_to(is[i],
                             model(slice, w, h, layered ? 1 : d, x, y, layered ? 0.5f : z, linear,
                                   (cudaTextureAddressMode)mode),
                             linear ? 1.5f : 0, what, i);
                }
                MUST(cudaDestroyTextureObject(t));
            }
    MUST(cudaFreeArray(array));
}

static void cubes(void)
{
    for (int layered = 0; layered < 2; layered++) {
        int layers = layered ? 2 : 1;
        std::vector<float> texels((size_t)CUBE * CUBE * 6 * layers), at;
        for (size_t i = 0; i < texels.size(); i++)
            texels[i] = (float)i;
        cudaArray_t array = array_of(texels.data(), cudaCreateChannelDesc<float>(), CUBE, CUBE, 6 * layers,
                                     cudaArrayCubemap | (layered ? cudaArrayLayered : 0));
        /* the middle of each texel of each face: axes as in the programming guide, "Cubemap Textures" */
        for (int face = 0; face < 6; face++)
            for (int y = 0; y < CUBE; y++)
                for (int x = 0; x < CUBE; x++) {
                    float s = (x + 0.5f) * 2 / CUBE - 1, r = (y + 0.5f) * 2 / CUBE - 1;
                    float directions[6][3] = { { 1, -r, -s }, { -1, -r, s }, { s, 1, r },
                                               { s, -1, -r }, { s, -r, 1 },  { -s, -r, -1 } };
                    at.insert(at.end(), directions[face], directions[face] + 3);
                }
        int count = CUBE * CUBE * 6;
        MUST(cudaMemcpy(points, at.data(), at.size() * 4, cudaMemcpyHostToDevice));
        cudaTextureObject_t t =
            texture(array, sampler(cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, true));
        for (int layer = 0; layer < layers; layer++) {
            cube<<<(count + 127) / 128, 128>>>(t, points, out, count, layered ? layer : -1);
            std::vector<float> is = found(count);
            for (int i = 0; i < count; i++)
                close_to(is[i], (float)(layer * count + i), 0, "a cube", i);
        }
        MUST(cudaDestroyTextureObject(t));
        MUST(cudaFreeArray(array));
    }
}

/* ---- formats and read modes ---- */

template <class T> __device__ float first(T v) { return (float)v; }
template <> __device__ float first(uchar4 v) { return (float)v.x + 1000 * (float)v.w; }
template <> __device__ float first(short2 v) { return (float)v.x + (float)v.y / 1024; }
template <> __device__ float first(float4 v) { return v.x + v.z; }

template <class T> __global__ void read_2d(cudaTextureObject_t t, float *to)
{
    to[threadIdx.y * WIDTH + threadIdx.x] = first(tex2D<T>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f));
}

template <class Stored, class Read, class Should>
static void format(cudaChannelFormatDesc desc, cudaTextureReadMode mode, const char *what, Should should)
{
    std::vector<Stored> texels(WIDTH * HEIGHT);
    for (size_t i = 0; i < sizeof(Stored) * texels.size(); i++)
        ((unsigned char *)texels.data())[i] = (unsigned char)(i * 29 + i / 7);
    if (desc.f == cudaChannelFormatKindFloat && desc.x == 32)
        for (size_t i = 0; i < sizeof(Stored) / 4 * texels.size(); i++)
            ((float *)texels.data())[i] = (float)i * 0.5f;
    cudaArray_t array = array_of(texels.data(), desc, WIDTH, HEIGHT, 0, 0);
    cudaTextureObject_t t = texture(array, sampler(cudaAddressModeClamp, cudaFilterModePoint, mode, false));
    read_2d<Read><<<1, dim3(WIDTH, HEIGHT)>>>(t, out);
    std::vector<float> is = found(WIDTH * HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        close_to(is[i], should(texels[i]), fabsf(should(texels[i])) * 1e-6f, what, i);
    MUST(cudaDestroyTextureObject(t));
    MUST(cudaFreeArray(array));
}

static void formats(void)
{
    format<uchar4, uchar4>(cudaCreateChannelDesc<uchar4>(), cudaReadModeElementType, "uchar4",
                           [](uchar4 v) { return (float)v.x + 1000 * (float)v.w; });
    format<short2, short2>(cudaCreateChannelDesc<short2>(), cudaReadModeElementType, "short2",
                           [](short2 v) { return (float)v.x + (float)v.y / 1024; });
    format<int, int>(cudaCreateChannelDesc<int>(), cudaReadModeElementType, "int", [](int v) { return (float)v; });
    format<unsigned, unsigned>(cudaCreateChannelDesc<unsigned>(), cudaReadModeElementType, "unsigned",
                               [](unsigned v) { return (float)v; });
    format<signed char, signed char>(cudaCreateChannelDesc<signed char>(), cudaReadModeElementType, "signed char",
                                     [](signed char v) { return (float)v; });
    format<float4, float4>(cudaCreateChannelDesc<float4>(), cudaReadModeElementType, "float4",
                           [](float4 v) { return v.x + v.z; });
    format<unsigned char, float>(cudaCreateChannelDesc<unsigned char>(), cudaReadModeNormalizedFloat,
                                 "normalized uchar", [](unsigned char v) { return v / 255.f; });
    format<short, float>(cudaCreateChannelDesc<short>(), cudaReadModeNormalizedFloat, "normalized short",
                         [](short v) { return v == -32768 ? -1.f : v / 32767.f; });
}

/* ---- normalized integers, and compressed blocks of 4 by 4 texels ---- */

__global__ void read_colours(cudaTextureObject_t t, float4 *to, float level)
{
    const float x = (threadIdx.x + 0.5f) / blockDim.x, y = (threadIdx.y + 0.5f) / blockDim.y;
    to[threadIdx.y * blockDim.x + threadIdx.x] = tex2DLod<float4>(t, x, y, level);
}

static void colours_are(const cudaResourceDesc *r, const cudaResourceViewDesc *view, int side, float level,
                        float4 (*should)(int, int), const char *what)
{
    cudaTextureDesc how = sampler(cudaAddressModeClamp, cudaFilterModePoint, view ? cudaReadModeElementType
                                                                                  : cudaReadModeNormalizedFloat, true);
    cudaTextureObject_t t;
    float4 *to, is[64];
    how.maxMipmapLevelClamp = 9;
    MUST(cudaMalloc(&to, sizeof is));
    MUST(cudaCreateTextureObject(&t, r, &how, view));
    read_colours<<<1, dim3(side, side)>>>(t, to, level);
    MUST(cudaMemcpy(is, to, side * side * sizeof *to, cudaMemcpyDeviceToHost));
    for (int i = 0; i < side * side; i++) {
        const float4 want = should(i % side, i / side);
        close_to(is[i].x, want.x, 1e-6f, what, i);
        close_to(is[i].y, want.y, 1e-6f, what, i);
        close_to(is[i].z, want.z, 1e-6f, what, i);
        close_to(is[i].w, want.w, 1e-6f, what, i);
    }
    MUST(cudaDestroyTextureObject(t));
    MUST(cudaFree(to));
}

static float4 quarters(int x, int y) /* of 8 by 8: red, green; blue, white */
{
    return make_float4(x / 4 == y / 4, x / 4 == 1, y / 4 == 1, 1);
}
static float4 green(int, int) { return make_float4(0, 1, 0, 1); }

static void compressed(void)
{
    struct block { unsigned short first, second; unsigned indices; };
    static const struct block blocks[] = { { 0xf800, 0xf800, 0 }, { 0x07e0, 0x07e0, 0 },
                                           { 0x001f, 0x001f, 0 }, { 0xffff, 0xffff, 0 } };
    struct block back[4] = {};
    cudaChannelFormatDesc bc1 = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsignedBlockCompressed1), told;
    cudaChannelFormatDesc words = cudaCreateChannelDesc<uint2>();
    cudaExtent extent;
    unsigned flags;
    cudaArray_t array, level;
    cudaMipmappedArray_t levels;
    cudaResourceDesc r = {};
    MUST(cudaMallocArray(&array, &bc1, 8, 8));
    MUST(cudaArrayGetInfo(&told, &extent, &flags, array));
    HOLDS(told.f == bc1.f && told.w == 8 && extent.width == 8 && extent.height == 8);
    MUST(cudaMemcpy2DToArray(array, 0, 0, blocks, 16, 16, 2, cudaMemcpyHostToDevice)); // bytes and rows of blocks
    MUST(cudaMemcpy2DFromArray(back, 16, array, 0, 0, 16, 2, cudaMemcpyDeviceToHost));
    HOLDS(!memcmp(back, blocks, sizeof blocks));
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DToArray(array, 0, 0, blocks, 16, 16, 3, cudaMemcpyHostToDevice));
    cudaGetLastError();
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    colours_are(&r, NULL, 8, 0, quarters, "an array of blocks");
    MUST(cudaFreeArray(array));
    // The same blocks as words, looked at as blocks.
    cudaResourceViewDesc view = {};
    view.format = cudaResViewFormatUnsignedBlockCompressed1;
    view.width = view.height = 8;
    MUST(cudaMallocArray(&array, &words, 2, 2));
    MUST(cudaMemcpy2DToArray(array, 0, 0, blocks, 16, 16, 2, cudaMemcpyHostToDevice));
    r.res.array.array = array;
    colours_are(&r, &view, 8, 0, quarters, "a view in blocks");
    MUST(cudaFreeArray(array));
    // Levels: of 8 by 8, 4 by 4, 2 by 2 texels.
    MUST(cudaMallocMipmappedArray(&levels, &bc1, make_cudaExtent(8, 8, 0), 3));
    for (unsigned k = 0; k < 3; k++) {
        MUST(cudaGetMipmappedArrayLevel(&level, levels, k));
        MUST(cudaMemcpy2DToArray(level, 0, 0, k ? &blocks[1] : blocks, k ? 8 : 16, k ? 8 : 16, k ? 1 : 2,
                                 cudaMemcpyHostToDevice));
    }
    r.resType = cudaResourceTypeMipmappedArray;
    r.res.mipmap.mipmap = levels;
    colours_are(&r, NULL, 8, 0, quarters, "level 0 of blocks");
    colours_are(&r, NULL, 4, 1, green, "level 1 of blocks");
    colours_are(&r, NULL, 2, 2, green, "level 2 of blocks");
    MUST(cudaFreeMipmappedArray(levels));
}

static float4 bytes_of_one(int x, int y)
{
    return make_float4(x / 255.f, y / 255.f, (x + y) / 255.f, 1);
}

static void normalized(void)
{
    cudaChannelFormatDesc desc = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsignedNormalized8X4), told;
    uchar4 texels[64];
    cudaArray_t array;
    cudaResourceDesc r = {};
    for (int i = 0; i < 64; i++)
        texels[i] = make_uchar4(i % 8, i / 8, i % 8 + i / 8, 255);
    MUST(cudaMallocArray(&array, &desc, 8, 8));
    MUST(cudaGetChannelDesc(&told, array));
    HOLDS(told.f == desc.f && told.x == 8 && told.w == 8);
    MUST(cudaMemcpy2DToArray(array, 0, 0, texels, 32, 32, 8, cudaMemcpyHostToDevice));
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    colours_are(&r, NULL, 8, 0, bytes_of_one, "normalized bytes");
    MUST(cudaFreeArray(array));
}

/* ---- memory without an array ---- */

__global__ void fetch(cudaTextureObject_t line, cudaTextureObject_t sheet, float *to)
{
    int i = threadIdx.x;
    to[i] = tex1Dfetch<float>(line, i) + tex2D<float>(sheet, i % WIDTH + 0.5f, i / WIDTH + 0.5f);
}

static void plain_memory(void)
{
    float texels[WIDTH * HEIGHT], *line, *sheet;
    size_t pitch;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        texels[i] = (float)i * 3;
    MUST(cudaMalloc(&line, sizeof texels));
    MUST(cudaMemcpy(line, texels, sizeof texels, cudaMemcpyHostToDevice));
    MUST(cudaMallocPitch(&sheet, &pitch, WIDTH * 4, HEIGHT));
    MUST(cudaMemcpy2D(sheet, pitch, texels, WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
    cudaResourceDesc r, told;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = line;
    r.res.linear.desc = cudaCreateChannelDesc<float>();
    r.res.linear.sizeInBytes = sizeof texels;
    cudaTextureDesc how = sampler(cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false);
    cudaTextureObject_t one, two;
    MUST(cudaCreateTextureObject(&one, &r, &how, NULL));
    MUST(cudaGetTextureObjectResourceDesc(&told, one));
    HOLDS(told.resType == cudaResourceTypeLinear && told.res.linear.devPtr == line && told.res.linear.desc.x == 32 &&
          told.res.linear.sizeInBytes == sizeof texels);
    r.res.linear.sizeInBytes = (size_t)1 << 40;
    GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(&two, &r, &how, NULL));
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = sheet;
    r.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    r.res.pitch2D.width = WIDTH;
    r.res.pitch2D.height = HEIGHT;
    r.res.pitch2D.pitchInBytes = pitch;
    MUST(cudaCreateTextureObject(&two, &r, &how, NULL));
    fetch<<<1, WIDTH * HEIGHT>>>(one, two, out);
    std::vector<float> is = found(WIDTH * HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        close_to(is[i], (float)i * 6, 0, "linear and pitched memory", i);
    size_t widest;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    MUST(cudaDeviceGetTexture1DLinearMaxWidth(&widest, &f, 0));
    HOLDS(widest >= 1 << 27);
    MUST(cudaDestroyTextureObject(one));
    MUST(cudaDestroyTextureObject(two));
    MUST(cudaFree(line));
    MUST(cudaFree(sheet));
}

/* ---- surfaces ---- */

__global__ void surfaces_write(cudaSurfaceObject_t one, cudaSurfaceObject_t two, cudaSurfaceObject_t three,
                               cudaSurfaceObject_t layered)
{
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    if (!y && !z)
        surf1Dwrite(x * 11, one, x * 4);
    if (!z)
        surf2Dwrite(make_short2((short)(x * 100), (short)-y), two, x * 4, y);
    surf3Dwrite(make_float4((float)x, (float)y, (float)z, 1), three, x * 16, y, z);
    if (z < LAYERS)
        surf2DLayeredwrite((unsigned char)(x + y * 16 + z * 50), layered, x, y, z);
}

__global__ void surfaces_read(cudaSurfaceObject_t one, cudaSurfaceObject_t two, cudaSurfaceObject_t three,
                              cudaSurfaceObject_t layered, float *to)
{
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    short2 s = surf2Dread<short2>(two, x * 4, y);
    float4 f = surf3Dread<float4>(three, x * 16, y, z);
    float sum = surf1Dread<int>(one, x * 4) + s.x + s.y + f.x + 10 * f.y + 100 * f.z + f.w;
    sum += z < LAYERS ? surf2DLayeredread<unsigned char>(layered, x, y, z) : 0;
    sum += surf1Dread<int>(one, -4 - x * 4, cudaBoundaryModeZero);
    to[(z * HEIGHT + y) * WIDTH + x] = sum;
}

static cudaSurfaceObject_t surface(cudaArray_t array)
{
    cudaSurfaceObject_t s;
    cudaResourceDesc r = resource(array), told;
    MUST(cudaCreateSurfaceObject(&s, &r));
    MUST(cudaGetSurfaceObjectResourceDesc(&told, s));
    HOLDS(told.resType == cudaResourceTypeArray && told.res.array.array == array);
    return s;
}

static void surfaces(void)
{
    cudaArray_t arrays[4];
    cudaSurfaceObject_t s[4];
    cudaChannelFormatDesc desc[4] = { cudaCreateChannelDesc<int>(), cudaCreateChannelDesc<short2>(),
                                      cudaCreateChannelDesc<float4>(), cudaCreateChannelDesc<unsigned char>() };
    cudaExtent size[4] = { { WIDTH, 0, 0 }, { WIDTH, HEIGHT, 0 }, { WIDTH, HEIGHT, DEPTH }, { WIDTH, HEIGHT, LAYERS } };
    for (int i = 0; i < 4; i++) {
        MUST(cudaMalloc3DArray(&arrays[i], &desc[i], size[i],
                               cudaArraySurfaceLoadStore | (i == 3 ? cudaArrayLayered : 0)));
        s[i] = surface(arrays[i]);
    }
    surfaces_write<<<1, dim3(WIDTH, HEIGHT, DEPTH)>>>(s[0], s[1], s[2], s[3]);
    surfaces_read<<<1, dim3(WIDTH, HEIGHT, DEPTH)>>>(s[0], s[1], s[2], s[3], out);
    std::vector<float> is = found(WIDTH * HEIGHT * DEPTH);
    for (int i = 0; i < WIDTH * HEIGHT * DEPTH; i++) {
        int x = i % WIDTH, y = i / WIDTH % HEIGHT, z = i / WIDTH / HEIGHT;
        float should = (float)(x * 11 + x * 100 - y + x + 10 * y + 100 * z + 1);
        close_to(is[i], should + (z < LAYERS ? (unsigned char)(x + y * 16 + z * 50) : 0), 0, "surfaces", i);
    }
    /* what a kernel wrote through a surface, a texture and a copy see */
    short2 copied[HEIGHT][WIDTH];
    MUST(cudaMemcpy2DFromArray(copied, sizeof copied[0], arrays[1], 0, 0, sizeof copied[0], HEIGHT,
                               cudaMemcpyDeviceToHost));
    cudaTextureObject_t t =
        texture(arrays[1], sampler(cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false));
    read_2d<short2><<<1, dim3(WIDTH, HEIGHT)>>>(t, out);
    is = found(WIDTH * HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        int x = i % WIDTH, y = i / WIDTH;
        HOLDS(copied[y][x].x == x * 100 && copied[y][x].y == -y);
        close_to(is[i], (float)(x * 100) + (float)-y / 1024, 0, "a texture of a surface's array", i);
    }
    MUST(cudaDestroyTextureObject(t));
    for (int i = 0; i < 4; i++) {
        MUST(cudaDestroySurfaceObject(s[i]));
        MUST(cudaFreeArray(arrays[i]));
    }
}

/* ---- mipmapped arrays ---- */

__global__ void fill(cudaSurfaceObject_t s, int size, float value)
{
    for (int y = threadIdx.y; y < size; y += blockDim.y)
        for (int x = threadIdx.x; x < size; x += blockDim.x)
            surf2Dwrite(value + x, s, x * 4, y);
}

__global__ void levels(cudaTextureObject_t t, float *to)
{
    int i = threadIdx.x;
    to[i] = tex2DLod<float>(t, 0.01f, 0.01f, (float)i * 0.25f);
}

static void mipmaps(void)
{
    enum { SIZE = 32, COUNT = 6 };
    cudaMipmappedArray_t mipmap;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    MUST(cudaMallocMipmappedArray(&mipmap, &f, make_cudaExtent(SIZE, SIZE, 0), COUNT, cudaArraySurfaceLoadStore));
    for (int i = 0; i < COUNT; i++) {
        cudaArray_t level, again;
        cudaExtent size;
        MUST(cudaGetMipmappedArrayLevel(&level, mipmap, i));
        MUST(cudaGetMipmappedArrayLevel(&again, mipmap, i));
        HOLDS(level == again);
        MUST(cudaArrayGetInfo(NULL, &size, NULL, level));
        HOLDS(size.width == (size_t)SIZE >> i && size.height == (size_t)SIZE >> i && size.depth == 0);
        cudaSurfaceObject_t s = surface(level);
        fill<<<1, dim3(16, 16)>>>(s, SIZE >> i, 1000.f * i);
        MUST(cudaDeviceSynchronize());
        MUST(cudaDestroySurfaceObject(s));
        std::vector<float> row(SIZE >> i);
        MUST(cudaMemcpy2DFromArray(row.data(), SIZE * 4, level, 0, (SIZE >> i) - 1, (SIZE >> i) * 4, 1,
                                   cudaMemcpyDeviceToHost));
        for (int x = 0; x < SIZE >> i; x++)
            HOLDS(row[x] == 1000.f * i + x);
    }
    cudaArray_t none;
    GIVES(cudaErrorInvalidValue, cudaGetMipmappedArrayLevel(&none, mipmap, COUNT));
    GIVES(cudaErrorInvalidValue, cudaGetLastError());
    cudaResourceDesc r, told;
    memset(&r, 0, sizeof r);
    r.resType = cudaResourceTypeMipmappedArray;
    r.res.mipmap.mipmap = mipmap;
    for (int linear = 0; linear < 2; linear++) {
        cudaTextureDesc how = sampler(cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, true);
        how.mipmapFilterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
        how.maxMipmapLevelClamp = 4;
        cudaTextureObject_t t;
        MUST(cudaCreateTextureObject(&t, &r, &how, NULL));
        MUST(cudaGetTextureObjectResourceDesc(&told, t));
        HOLDS(told.resType == cudaResourceTypeMipmappedArray && told.res.mipmap.mipmap == mipmap);
        levels<<<1, 24>>>(t, out);
        std::vector<float> is = found(24);
        for (int i = 0; i < 24; i++) {
            float lod = fminf((float)i * 0.25f, 4);
            close_to(is[i], 1000 * (linear ? lod : floorf(lod + 0.5f)), linear || i % 4 != 2 ? 5 : 1000,
                     "a level of detail", i);
        }
        MUST(cudaDestroyTextureObject(t));
    }
    MUST(cudaFreeMipmappedArray(mipmap));
}

/* ---- errors ---- */

static void errors(void)
{
    cudaArray_t array;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>(), i4 = cudaCreateChannelDesc<int>();
    cudaTextureObject_t t;
    cudaSurfaceObject_t s;
    MUST(cudaMallocArray(&array, &f, 8, 8, 0));
    cudaResourceDesc r = resource(array);
    cudaTextureDesc how = sampler(cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false);
    GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(NULL, &r, &how, NULL));
    GIVES(cudaErrorInvalidValue, cudaCreateTextureObject(&t, NULL, &how, NULL));
    GIVES(cudaErrorInvalidResourceHandle, cudaCreateTextureObject(&t, &r, NULL, NULL));
    GIVES(cudaErrorInvalidValue, cudaCreateSurfaceObject(&s, &r)); /* not made for surfaces */
    GIVES(cudaErrorInvalidValue, cudaCreateSurfaceObject(NULL, &r));
    MUST(cudaFreeArray(array));
    MUST(cudaMallocArray(&array, &i4, 8, 8, 0));
    r = resource(array);
    MUST(cudaCreateTextureObject(&t, &r, &how, NULL));
    MUST(cudaDestroyTextureObject(t));
    MUST(cudaFreeArray(array));
}

int main(void)
{
    MUST(cudaMalloc(&out, MOST * 4));
    MUST(cudaMalloc(&points, MOST * 12));
    all_samplers(ONE, WIDTH, 1, 1);
    all_samplers(TWO, WIDTH, HEIGHT, 1);
    all_samplers(THREE, WIDTH, HEIGHT, DEPTH);
    all_samplers(ONE_LAYERED, WIDTH, 1, LAYERS);
    all_samplers(TWO_LAYERED, WIDTH, HEIGHT, LAYERS);
    cubes();
    formats();
    compressed();
    normalized();
    plain_memory();
    surfaces();
    mipmaps();
    errors();
    return check_result("textures");
}
