// shows: conformance: texture and surface references of CUDA 11, line by line with NVIDIA's runtime of 11.8; what
//   kernels read through them
//
// The compilers of CUDA 12 and later know no references, so this file says itself what that of 11.8 makes of
//     texture<float> numbers; texture<uchar4, 1, cudaReadModeNormalizedFloat> parts; texture<int> whole;
//     texture<float, 2> plane; texture<float, cudaTextureType2DLayered> layers; surface<void, 2> picture;
#include "../../suite.h"

// As the headers of CUDA 11 have them.
struct textureReference {
    int normalized;
    cudaTextureFilterMode filterMode;
    cudaTextureAddressMode addressMode[3];
    cudaChannelFormatDesc channelDesc;
    int sRGB;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, reserved[14];
};
struct surfaceReference { cudaChannelFormatDesc channelDesc; };
extern "C" {
cudaError_t cudaBindTexture(size_t *, const textureReference *, const void *, const cudaChannelFormatDesc *, size_t);
cudaError_t cudaBindTexture2D(size_t *, const textureReference *, const void *, const cudaChannelFormatDesc *, size_t,
                              size_t, size_t);
cudaError_t cudaBindTextureToArray(const textureReference *, cudaArray_const_t, const cudaChannelFormatDesc *);
cudaError_t cudaBindTextureToMipmappedArray(const textureReference *, cudaMipmappedArray_const_t,
                                            const cudaChannelFormatDesc *);
cudaError_t cudaUnbindTexture(const textureReference *);
cudaError_t cudaGetTextureAlignmentOffset(size_t *, const textureReference *);
cudaError_t cudaGetTextureReference(const textureReference **, const void *);
cudaError_t cudaBindSurfaceToArray(const surfaceReference *, cudaArray_const_t, const cudaChannelFormatDesc *);
cudaError_t cudaGetSurfaceReference(const surfaceReference **, const void *);
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *, dim3 *, int *);
void __cudaRegisterTexture(void **, const textureReference *, const void **, const char *, int, int, int);
void __cudaRegisterSurface(void **, const surfaceReference *, const void **, const char *, int, int);
}

enum { N = 8, W = 8, H = 4 };

static const char code[] =
    ".version 7.8\n.target sm_60\n.address_size 64\n"
    ".global .texref numbers;\n.global .texref parts;\n.global .texref whole;\n.global .texref plane;\n"
    ".global .texref layers;\n.global .texref levels;\n.global .surfref picture;\n"
#define KERNEL(name, body) \
    ".visible .entry " name "(.param .u64 out)\n{\n.reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %rd<4>;\n" \
    "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mad.lo.u32 %r3, %r2, 8, %r1;\n" \
    "mad.wide.u32 %rd2, %r3, 4, %rd1; cvt.rn.f32.u32 %f1, %r1; cvt.rn.f32.u32 %f2, %r2;\n" \
    "add.f32 %f1, %f1, 0f3F000000; add.f32 %f2, %f2, 0f3F000000;\n" body "ret;\n}\n"
    KERNEL("read_numbers", "tex.1d.v4.f32.s32 {%f3, %f4, %f5, %f6}, [numbers, {%r1}]; st.global.f32 [%rd2], %f3;\n")
    KERNEL("read_parts", "tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [parts, {%r1}]; st.global.u32 [%rd2], %r6;\n")
    KERNEL("read_whole", "tex.1d.v4.s32.s32 {%r4, %r5, %r6, %r7}, [whole, {%r1}]; cvt.rn.f32.s32 %f3, %r4;\n"
                         "st.global.f32 [%rd2], %f3;\n")
    KERNEL("read_plane", "tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [plane, {%f1, %f2}]; st.global.f32 [%rd2], %f3;\n")
    KERNEL("read_quarters", "mul.f32 %f1, %f1, 0f3E800000; mul.f32 %f2, %f2, 0f3E800000;\n"
                            "tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [plane, {%f1, %f2}];\n"
                            "st.global.f32 [%rd2], %f3;\n")
    KERNEL("read_layers", "tex.a2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [layers, {%r2, %f1, %f1, %f1}];\n"
                          "st.global.f32 [%rd2], %f3;\n")
    KERNEL("read_levels", "mov.f32 %f7, 0f3F800000;\n"
                          "tex.level.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [levels, {%f1, %f2}], %f7;\n"
                          "st.global.f32 [%rd2], %f3;\n")
    KERNEL("draw", "shl.b32 %r4, %r1, 2; mov.b32 %r5, %f1; sust.b.2d.b32.trap [picture, {%r4, %r2}], {%r5};\n"
                   "suld.b.2d.b32.trap {%r6}, [picture, {%r4, %r2}]; st.global.u32 [%rd2], %r6;\n");

static textureReference numbers, parts, whole, plane, layers, levels, never;
static surfaceReference picture;
static const cudaChannelFormatDesc real = { 32, 0, 0, 0, cudaChannelFormatKindFloat },
                                   bytes = { 8, 8, 8, 8, cudaChannelFormatKindUnsigned },
                                   integer = { 32, 0, 0, 0, cudaChannelFormatKindSigned },
                                   triple = { 32, 32, 32, 0, cudaChannelFormatKindFloat };
static const char *const kernels[] = { "read_numbers", "read_parts", "read_whole", "read_plane", "read_quarters",
                                       "read_layers", "read_levels", "draw" };
static char stubs[sizeof kernels / sizeof *kernels];

// What the compiler puts into a program: a container with the code, and calls before main.
static void **registered;
static void register_all()
{
    static struct {
        uint32_t magic; uint16_t version, header; uint64_t size;
        uint16_t kind, one; uint32_t entry_header; uint64_t payload; uint32_t compressed, options;
        uint16_t minor, major; uint32_t sm, name, name_size; uint64_t flags, zero, uncompressed;
        char text[(sizeof code + 7) / 8 * 8];
    } container = { 0xBA55ED50u, 1, 16, sizeof container - 16, 1, 0x101, 64, sizeof container.text, 0, 0, 8, 7, 60, 0,
                    0, 0x11, 0, 0, { 0 } };
    static struct { uint32_t magic, version; const void *container, *extra; } wrapper = { 0x466243B1u, 1, &container,
                                                                                         NULL };
    memcpy(container.text, code, sizeof code);
    registered = __cudaRegisterFatBinary(&wrapper);
    for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
        __cudaRegisterFunction(registered, &stubs[i], (char *)kernels[i], kernels[i], -1, NULL, NULL, NULL, NULL, NULL);
    struct { textureReference *reference; const char *name; int dimensions, normalized; } all[] = {
        { &numbers, "numbers", 1, 0 }, { &parts, "parts", 1, 1 }, { &whole, "whole", 1, 0 }, { &plane, "plane", 2, 0 },
        { &layers, "layers", 0xF2, 0 }, { &levels, "levels", 2, 0 }
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        textureReference *reference = all[i].reference;
        reference->channelDesc = reference == &parts ? bytes : reference == &whole ? integer : real;
        for (int k = 0; k < 3; k++)
            all[i].reference->addressMode[k] = cudaAddressModeClamp;
        __cudaRegisterTexture(registered, all[i].reference, (const void **)all[i].name, "::of_the_source",
                              all[i].dimensions, all[i].normalized, 0);
    }
    __cudaRegisterSurface(registered, &picture, (const void **)"picture", "::picture", 2, 0);
    __cudaRegisterFatBinaryEnd(registered);
}

static float *out, results[H][W];
static void reads(const char *kernel, unsigned columns, unsigned rows)
{
    void *arguments[] = { &out };
    unsigned k = 0;
    while (strcmp(kernels[k], kernel))
        k++;
    MUST(cudaMemset(out, 0, sizeof results));
    MUST(cudaLaunchKernel(&stubs[k], dim3(1), dim3(columns, rows), arguments, 0, 0));
    MUST(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
    printf("  %s:", kernel);
    for (unsigned i = 0; i < rows * columns; i++)
        printf(" %g", results[i / columns][i % columns]);
    printf("\n");
}

static float *memory;

static void linear_memory()
{
    size_t offset = 99;
    WORKS(cudaBindTexture(&offset, &numbers, memory, &real, UINT_MAX), "all there is");
    VALUE("offset", "%zu", offset);
    reads("read_numbers", N, 1);
    WORKS(cudaBindTexture(&offset, &numbers, memory + 4, &real, 8), "the fifth and sixth");
    VALUE("offset", "%zu", offset);
    WORKS(cudaGetTextureAlignmentOffset(&offset, &numbers), "the same");
    VALUE("offset", "%zu", offset);
    reads("read_numbers", N, 1);
    GIVES(cudaErrorInvalidValue, cudaBindTexture(NULL, &numbers, memory + 4, &real, 8), "nowhere to put the offset");
    WORKS(cudaGetTextureAlignmentOffset(&offset, &numbers), "bound as before");
    SAYS(cudaBindTexture(&offset, &numbers, NULL, &real, 8), "no memory");
    SAYS(cudaBindTexture(&offset, &numbers, &offset, &real, 8), "memory of the host");
    SAYS(cudaBindTexture(&offset, &numbers, memory, &triple, 8), "three channels");
    SAYS(cudaBindTexture(&offset, &numbers, memory, &integer, 8), "not the type that is declared");
    SAYS(cudaBindTexture2D(&offset, &plane, memory, &integer, W, H, 512), "not the type that is declared");
    SAYS(cudaBindTexture(&offset, &numbers, memory, &real, 0), "no bytes");
    GIVES(cudaErrorInvalidTextureBinding, cudaGetTextureAlignmentOffset(&offset, &numbers), "no longer bound");
    reads("read_numbers", N, 1);
    WORKS(cudaBindTexture(NULL, &numbers, memory, &real, sizeof results), "bound again");
    WORKS(cudaUnbindTexture(&numbers), "bound");
    WORKS(cudaUnbindTexture(&numbers), "not bound");
    GIVES(cudaErrorInvalidTextureBinding, cudaGetTextureAlignmentOffset(&offset, &numbers), "not bound");
    WORKS(cudaBindTexture(NULL, &parts, memory, &bytes, 32), "bytes as floats of 0 to 1");
    reads("read_parts", N, 1);
    WORKS(cudaBindTexture(NULL, &whole, memory, &integer, 32), "integers");
    reads("read_whole", N, 1);
}

static void pitched_memory()
{
    size_t offset = 99;
    WORKS(cudaBindTexture2D(&offset, &plane, memory, &real, W, H, 512), "four rows");
    VALUE("offset", "%zu", offset);
    reads("read_plane", W, H);
    WORKS(cudaBindTexture2D(&offset, &plane, memory + 1, &real, W, H - 1, 512), "from the second element on");
    VALUE("offset", "%zu", offset);
    GIVES(cudaErrorInvalidValue, cudaBindTexture2D(NULL, &plane, memory + 1, &real, W, 1, 512), "no place for it");
    GIVES(cudaErrorInvalidValue, cudaBindTexture2D(&offset, &plane, memory, &real, W, H, 500), "the pitch");
    GIVES(cudaErrorInvalidValue, cudaBindTexture2D(&offset, &plane, memory, &real, 0, H, 512), "no columns");
    GIVES(cudaErrorInvalidValue, cudaBindTexture2D(&offset, &plane, memory, &real, W, 1 << 20, 512), "rows");
    SAYS(cudaBindTexture2D(&offset, &plane, NULL, &real, W, H, 512), "no memory");
}

static void arrays()
{
    cudaArray_t array, other, layered, ints;
    float values[3][H][W];
    for (int i = 0; i < 3 * H * W; i++)
        (&values[0][0][0])[i] = (float)(100 + i);
    MUST(cudaMallocArray(&array, &real, W, H));
    MUST(cudaMallocArray(&other, &real, W, H));
    MUST(cudaMallocArray(&ints, &integer, W, H));
    MUST(cudaMalloc3DArray(&layered, &real, make_cudaExtent(W, H, 3), cudaArrayLayered));
    MUST(cudaMemcpy2DToArray(array, 0, 0, values, W * 4, W * 4, H, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2DToArray(other, 0, 0, values[1], W * 4, W * 4, H, cudaMemcpyHostToDevice));
    cudaMemcpy3DParms copy;
    memset(&copy, 0, sizeof copy);
    copy.srcPtr = make_cudaPitchedPtr(values, W * 4, W, H);
    copy.dstArray = layered;
    copy.extent = make_cudaExtent(W, H, 3);
    copy.kind = cudaMemcpyHostToDevice;
    MUST(cudaMemcpy3D(&copy));
    WORKS(cudaBindTextureToArray(&plane, array, &real), "an array");
    reads("read_plane", W, H);
    WORKS(cudaBindTextureToArray(&plane, other, &real), "another one");
    reads("read_plane", W, H);
    // Counts as it is at the launch.
    plane.filterMode = cudaFilterModeLinear;
    plane.normalized = 1;
    plane.addressMode[0] = plane.addressMode[1] = cudaAddressModeWrap;
    reads("read_quarters", W, H);
    plane.filterMode = cudaFilterModePoint;
    plane.addressMode[0] = cudaAddressModeMirror;
    reads("read_quarters", W, H);
    plane.normalized = 0;
    plane.addressMode[0] = plane.addressMode[1] = cudaAddressModeClamp;
    reads("read_plane", W, H);
    WORKS(cudaBindTextureToArray(&layers, layered, &real), "layers");
    reads("read_layers", W, 3);
    SAYS(cudaBindTextureToArray(&plane, layered, &real), "layers, where none are declared");
    SAYS(cudaBindTextureToArray(&layers, array, &real), "no layers, where some are declared");
    GIVES(cudaErrorInvalidValue, cudaBindTextureToArray(&plane, ints, &real), "elements of another type");
    SAYS(cudaBindTextureToArray(&plane, ints, &integer), "not the type that is declared");
    SAYS(cudaBindTextureToArray(&plane, NULL, &real), "no array");
    SAYS(cudaBindTextureToArray(&plane, WRONG(cudaArray_t), &real), "not an array");
    reads("read_plane", 2, 1);
    cudaMipmappedArray_t mipmap;
    cudaArray_t level;
    MUST(cudaMallocMipmappedArray(&mipmap, &real, make_cudaExtent(W, H, 0), 2));
    MUST(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
    MUST(cudaMemcpy2DToArray(level, 0, 0, values[2], W * 2, W * 2, H / 2, cudaMemcpyHostToDevice));
    levels.normalized = 1;
    levels.maxMipmapLevelClamp = 1;
    WORKS(cudaBindTextureToMipmappedArray(&levels, mipmap, &real), "two levels");
    reads("read_levels", 1, 1);
    SAYS(cudaBindTextureToMipmappedArray(&levels, NULL, &real), "no array");
    GIVES(cudaErrorInvalidValue, cudaBindTextureToMipmappedArray(&levels, mipmap, &integer), "another type");
    MUST(cudaUnbindTexture(&levels));
    MUST(cudaUnbindTexture(&plane));
    MUST(cudaUnbindTexture(&layers));
    MUST(cudaFreeMipmappedArray(mipmap));
    MUST(cudaFreeArray(array));
    MUST(cudaFreeArray(other));
    MUST(cudaFreeArray(layered));
    MUST(cudaFreeArray(ints));
}

static void surfaces()
{
    cudaArray_t array, fixed;
    MUST(cudaMallocArray(&array, &real, W, H, cudaArraySurfaceLoadStore));
    MUST(cudaMallocArray(&fixed, &real, W, H));
    GIVES(cudaErrorInvalidValue, cudaBindSurfaceToArray(&picture, fixed, &real), "kernels may not write it");
    SAYS(cudaBindSurfaceToArray(&picture, NULL, &real), "no array");
    SAYS(cudaBindSurfaceToArray(&picture, array, &integer), "another type");
    WORKS(cudaBindSurfaceToArray(&picture, array, &real), "an array");
    reads("draw", W, H);
}

static void names()
{
    const textureReference *texture = NULL;
    const surfaceReference *surface = NULL;
    size_t offset;
    WORKS(cudaGetTextureReference(&texture, &plane), "a texture");
    VALUE("it is the variable", "%d", texture == &plane);
    WORKS(cudaGetSurfaceReference(&surface, &picture), "a surface");
    VALUE("it is the variable", "%d", surface == &picture);
    GIVES(cudaErrorInvalidTexture, cudaGetTextureReference(&texture, &never), "not registered");
    GIVES(cudaErrorInvalidTexture, cudaGetTextureReference(&texture, &picture), "a surface");
    GIVES(cudaErrorInvalidSurface, cudaGetSurfaceReference(&surface, &plane), "a texture");
    GIVES(cudaErrorInvalidTexture, cudaBindTexture(&offset, &never, memory, &real, 32), "not registered");
    GIVES(cudaErrorInvalidTexture, cudaBindTexture(&offset, NULL, memory, &real, 32), "null pointer");
    GIVES(cudaErrorInvalidTexture, cudaBindTextureToArray(&never, NULL, &real), "not registered");
    GIVES(cudaErrorInvalidSurface, cudaBindSurfaceToArray((surfaceReference *)&never, NULL, &real), "not registered");
    GIVES(cudaErrorInvalidTexture, cudaUnbindTexture(&never), "not registered");
    GIVES(cudaErrorInvalidTexture, cudaUnbindTexture(NULL), "null pointer");
    GIVES(cudaErrorInvalidTexture, cudaGetTextureAlignmentOffset(&offset, &never), "not registered");
}

int main()
{
    float values[512];
    for (int i = 0; i < 512; i++)
        values[i] = (float)i;
    register_all();
    MUST(cudaMalloc(&memory, sizeof values));
    MUST(cudaMalloc(&out, sizeof results));
    MUST(cudaMemcpy(memory, values, sizeof values, cudaMemcpyHostToDevice));
    reads("read_numbers", N, 1);
    linear_memory();
    pitched_memory();
    arrays();
    surfaces();
    names();
    __cudaUnregisterFatBinary(registered);
    return 0;
}
