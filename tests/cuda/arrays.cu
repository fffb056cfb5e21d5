// shows: CUDA arrays: random boxes of arrays of one to three dimensions, with layers and as cubes, are copied from and
//   to pageable, pinned and device memory and other arrays, and agree with a model on the host
// shows: CUDA arrays: wrong shapes, places outside and handles that have ended give CUDA's errors
// shows: CUDA arrays: copies of arrays are kept by a stream that captures, and their memory counts and comes back
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // the calls that copy a number of bytes
#include "software.h"

#include <vector>

typedef unsigned char byte;

static unsigned state = 12345;
static unsigned below(unsigned n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

/* ---- an array and what it should hold ---- */

struct Model {
    cudaArray_t array;
    cudaChannelFormatDesc desc;
    cudaExtent extent; // as it was asked for
    size_t element, width, height, depth;
    bool layers_of_lines;
    std::vector<byte> bytes; // rows without gaps
    byte *at(size_t x, size_t y, size_t z) { return &bytes[((z * height + y) * width + x) * element]; }
};

static Model make(cudaChannelFormatDesc desc, size_t width, size_t height, size_t depth, unsigned flags)
{
    Model m;
    m.desc = desc;
    m.extent = make_cudaExtent(width, height, depth);
    m.element = (size_t)(desc.x + desc.y + desc.z + desc.w) / 8;
    m.width = width;
    m.height = height ? height : 1;
    m.depth = depth ? depth : 1;
    m.layers_of_lines = flags & cudaArrayLayered && !height;
    MUST(cudaMalloc3DArray(&m.array, &desc, m.extent, flags));
    m.bytes.resize(m.width * m.height * m.depth * m.element);
    for (size_t i = 0; i < m.bytes.size(); i++)
        m.bytes[i] = (byte)(i * 7 + i / 251 + width);
    cudaMemcpy3DParms all = { 0 };
    all.srcPtr = make_cudaPitchedPtr(m.bytes.data(), m.width * m.element, m.width, m.height);
    all.dstArray = m.array;
    all.extent = make_cudaExtent(m.width, m.height, m.depth);
    all.kind = cudaMemcpyHostToDevice;
    MUST(cudaMemcpy3D(&all));
    cudaChannelFormatDesc told;
    cudaExtent size;
    unsigned told_flags;
    MUST(cudaArrayGetInfo(&told, &size, &told_flags, m.array));
    HOLDS(!memcmp(&told, &desc, sizeof desc) && told_flags == flags);
    HOLDS(size.width == width && size.height == height && size.depth == depth);
    MUST(cudaGetChannelDesc(&told, m.array));
    HOLDS(!memcmp(&told, &desc, sizeof desc));
    return m;
}

static void agrees(Model &m, const char *after)
{
    std::vector<byte> found(m.bytes.size());
    cudaMemcpy3DParms all = { 0 };
    all.srcArray = m.array;
    all.dstPtr = make_cudaPitchedPtr(found.data(), m.width * m.element, m.width, m.height);
    all.extent = make_cudaExtent(m.width, m.height, m.depth);
    all.kind = cudaMemcpyDeviceToHost;
    MUST(cudaMemcpy3D(&all));
    if (found != m.bytes) {
        size_t i = 0;
        while (found[i] == m.bytes[i])
            i++;
        fprintf(stderr, "%zux%zux%zu of %zu bytes, byte %zu, differs from the model after %s\n", m.width, m.height,
                m.depth, m.element, i, after);
        check_failures++;
    }
}

/* ---- random boxes ---- */

enum { PAGEABLE, PINNED, DEVICE, KINDS };
enum { ROOM = 1 << 20 };
static const char *const kind_names[] = { "pageable", "pinned", "device" };
static byte *memory[KINDS];

static void random_box(Model &m, cudaStream_t stream)
{
    cudaPos at = { below((unsigned)m.width), below((unsigned)m.height), below((unsigned)m.depth) };
    cudaExtent size = { 1 + below((unsigned)(m.width - at.x)), 1 + below((unsigned)(m.height - at.y)),
                        1 + below((unsigned)(m.depth - at.z)) };
    int kind = (int)below(KINDS);
    size_t row = size.width * m.element, pitch = row + below(40), rows = size.height + below(3), skip = below(5);
    if (m.layers_of_lines)
        rows = 1; /* NVIDIA's driver reads the memory's layers of such an array without space between them */
    size_t total = pitch * rows * size.depth + skip;
    if (total > ROOM)
        return;
    std::vector<byte> image(total);
    bool up = below(2) != 0;
    if (up)
        for (size_t i = 0; i < total; i++)
            image[i] = (byte)(below(256));
    if (kind == DEVICE)
        MUST(cudaMemcpy(memory[kind], image.data(), total, cudaMemcpyHostToDevice));
    else
        memcpy(memory[kind], image.data(), total);
    cudaMemcpy3DParms copy = { 0 };
    cudaPitchedPtr flat = make_cudaPitchedPtr(memory[kind] + skip, pitch, row, rows);
    (up ? copy.srcPtr : copy.dstPtr) = flat;
    (up ? copy.dstArray : copy.srcArray) = m.array;
    (up ? copy.dstPos : copy.srcPos) = at;
    copy.extent = size;
    copy.kind = below(2)         ? cudaMemcpyDefault
                : kind == DEVICE ? cudaMemcpyDeviceToDevice
                : up             ? cudaMemcpyHostToDevice
                                 : cudaMemcpyDeviceToHost;
    if (below(2)) {
        MUST(cudaMemcpy3DAsync(&copy, stream));
        MUST(cudaStreamSynchronize(stream));
    } else {
        MUST(cudaMemcpy3D(&copy));
    }
    for (size_t z = 0; z < size.depth; z++)
        for (size_t y = 0; y < size.height; y++) {
            byte *there = m.at(at.x, at.y + y, at.z + z), *here = &image[skip + (z * rows + y) * pitch];
            memcpy(up ? there : here, up ? here : there, row);
        }
    if (up)
        return;
    std::vector<byte> found(total);
    MUST(cudaMemcpy(found.data(), memory[kind], total, cudaMemcpyDefault));
    if (found != image) {
        fprintf(stderr, "a box of %zux%zux%zu came into %s memory wrong\n", size.width, size.height, size.depth,
                kind_names[kind]);
        check_failures++;
    }
}

static void random_between(Model &to, Model &from, cudaStream_t stream)
{
    size_t w = to.width < from.width ? to.width : from.width, h = to.height < from.height ? to.height : from.height,
           d = to.depth < from.depth ? to.depth : from.depth;
    cudaExtent size = { 1 + below((unsigned)w), 1 + below((unsigned)h), 1 + below((unsigned)d) };
    cudaMemcpy3DParms copy = { 0 };
    copy.srcArray = from.array;
    copy.dstArray = to.array;
    copy.srcPos =
        make_cudaPos(below((unsigned)(from.width - size.width + 1)), below((unsigned)(from.height - size.height + 1)),
                     below((unsigned)(from.depth - size.depth + 1)));
    copy.dstPos =
        make_cudaPos(below((unsigned)(to.width - size.width + 1)), below((unsigned)(to.height - size.height + 1)),
                     below((unsigned)(to.depth - size.depth + 1)));
    copy.extent = size;
    copy.kind = cudaMemcpyDeviceToDevice;
    MUST(below(2) ? cudaMemcpy3D(&copy) : cudaMemcpy3DAsync(&copy, stream));
    MUST(cudaStreamSynchronize(stream));
    for (size_t z = 0; z < size.depth; z++)
        for (size_t y = 0; y < size.height; y++)
            memcpy(to.at(copy.dstPos.x, copy.dstPos.y + y, copy.dstPos.z + z),
                   from.at(copy.srcPos.x, copy.srcPos.y + y, copy.srcPos.z + z), size.width * to.element);
}

/* ---- the calls for two dimensions; places and widths in bytes ---- */

static void two_dimensions(Model &m, Model &other, cudaStream_t stream)
{
    size_t row = m.width * m.element;
    size_t x = below((unsigned)m.width) * m.element, y = below((unsigned)m.height);
    size_t width = (1 + below((unsigned)(m.width - x / m.element))) * m.element,
           height = 1 + below((unsigned)(m.height - y));
    size_t pitch = width + 12;
    std::vector<byte> out(pitch * height, 1), in(pitch * height, 2);
    for (size_t i = 0; i < out.size(); i++)
        out[i] = (byte)below(256);
    MUST(cudaMemcpy2DToArray(m.array, x, y, out.data(), pitch, width, height, cudaMemcpyHostToDevice));
    for (size_t i = 0; i < height; i++)
        memcpy(&m.bytes[(y + i) * row + x], &out[i * pitch], width);
    agrees(m, "cudaMemcpy2DToArray");
    MUST(cudaMemcpy2DFromArrayAsync(in.data(), pitch, m.array, x, y, width, height, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < height; i++)
        HOLDS(!memcmp(&in[i * pitch], &out[i * pitch], width) && (i + 1 == height || in[i * pitch + width] == 2));
    MUST(cudaMemcpy2DArrayToArray(other.array, 0, 0, m.array, x, y, width, height, cudaMemcpyDeviceToDevice));
    for (size_t i = 0; i < height; i++)
        memcpy(&other.bytes[i * row], &m.bytes[(y + i) * row + x], width);
    agrees(other, "cudaMemcpy2DArrayToArray");
    /* a number of bytes that goes on from row to row */
    size_t begins = y * row + x, count = (1 + below((unsigned)((m.bytes.size() - begins) / m.element))) * m.element;
    out.resize(count);
    for (size_t i = 0; i < count; i++)
        out[i] = (byte)below(256);
    MUST(cudaMemcpyToArray(m.array, x, y, out.data(), count, cudaMemcpyHostToDevice));
    memcpy(&m.bytes[begins], out.data(), count);
    agrees(m, "cudaMemcpyToArray");
    in.assign(count, 0);
    MUST(cudaMemcpyFromArray(in.data(), m.array, x, y, count, cudaMemcpyDeviceToHost));
    HOLDS(in == out);
    MUST(cudaMemcpyArrayToArray(other.array, 0, 0, m.array, x, y, count, cudaMemcpyDeviceToDevice));
    memcpy(&other.bytes[0], &m.bytes[begins], count);
    agrees(other, "cudaMemcpyArrayToArray");
}

static void all_shapes(void)
{
    static const struct {
        cudaChannelFormatDesc desc;
        size_t width, height, depth;
        unsigned flags;
    } shapes[] = {
        { { 32, 0, 0, 0, cudaChannelFormatKindFloat }, 100, 0, 0, 0 },
        { { 8, 8, 8, 8, cudaChannelFormatKindUnsigned }, 33, 17, 0, 0 },
        { { 16, 0, 0, 0, cudaChannelFormatKindSigned }, 21, 9, 0, cudaArraySurfaceLoadStore },
        { { 32, 32, 32, 32, cudaChannelFormatKindFloat }, 9, 8, 7, 0 },
        { { 8, 0, 0, 0, cudaChannelFormatKindSigned }, 37, 5, 6, 0 },
        { { 16, 16, 0, 0, cudaChannelFormatKindFloat }, 13, 0, 5, cudaArrayLayered },
        { { 32, 32, 0, 0, cudaChannelFormatKindUnsigned }, 19, 11, 4, cudaArrayLayered },
        { { 32, 0, 0, 0, cudaChannelFormatKindFloat }, 16, 16, 6, cudaArrayCubemap },
        { { 16, 16, 16, 16, cudaChannelFormatKindSigned }, 8, 8, 12, cudaArrayCubemap | cudaArrayLayered },
    };
    cudaStream_t stream;
    MUST(cudaStreamCreate(&stream));
    for (const auto &s : shapes) {
        Model m = make(s.desc, s.width, s.height, s.depth, s.flags),
              n = make(s.desc, s.width, s.height, s.depth, s.flags);
        for (int i = 0; i < 40; i++)
            random_box(m, stream);
        agrees(m, "copies from and to memory");
        for (int i = 0; i < 10; i++) {
            random_between(n, m, stream);
            random_between(m, n, stream);
        }
        agrees(m, "copies between arrays");
        agrees(n, "copies between arrays");
        if (!s.depth)
            for (int i = 0; i < 5; i++)
                two_dimensions(m, n, stream);
        MUST(cudaFreeArray(m.array));
        MUST(cudaFreeArray(n.array));
    }
    MUST(cudaStreamDestroy(stream));
}

/* ---- many bytes, which take other ways than few ---- */

static void large(void)
{
    enum { WIDTH = 1000, HEIGHT = 1500 };
    Model m = make(cudaChannelFormatDesc{ 32, 32, 0, 0, cudaChannelFormatKindFloat }, WIDTH, HEIGHT, 0, 0);
    agrees(m, "12 MB at once");
    size_t pitch = WIDTH * 8 + 64, width = (WIDTH - 3) * 8;
    byte *pinned, *device;
    cudaStream_t stream;
    MUST(cudaMallocHost(&pinned, pitch * HEIGHT));
    MUST(cudaMalloc(&device, pitch * HEIGHT));
    MUST(cudaStreamCreate(&stream));
    for (size_t i = 0; i < pitch * HEIGHT; i++)
        pinned[i] = (byte)(i * 3 + i / 1000);
    MUST(cudaMemcpy2DToArrayAsync(m.array, 8, 1, pinned, pitch, width, HEIGHT - 1, cudaMemcpyHostToDevice, stream));
    MUST(cudaMemcpy2DFromArrayAsync(device, pitch, m.array, 8, 1, width, HEIGHT - 1, cudaMemcpyDeviceToDevice, stream));
    MUST(cudaMemsetAsync(pinned, 0, pitch * HEIGHT, stream));
    MUST(cudaMemcpy2DFromArrayAsync(pinned, pitch, m.array, 8, 1, width, HEIGHT - 1, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    std::vector<byte> back(pitch * HEIGHT);
    MUST(cudaMemcpy(back.data(), device, pitch * (HEIGHT - 1) - 64, cudaMemcpyDeviceToHost));
    for (size_t y = 1; y < HEIGHT; y++)
        for (size_t x = 0; x < width; x++)
            m.bytes[y * WIDTH * 8 + 8 + x] = (byte)(((y - 1) * pitch + x) * 3 + ((y - 1) * pitch + x) / 1000);
    agrees(m, "a large asynchronous copy");
    for (size_t y = 0; y + 1 < HEIGHT; y++) {
        const byte *row = &m.bytes[(y + 1) * WIDTH * 8 + 8];
        if (memcmp(row, pinned + y * pitch, width) || memcmp(row, &back[y * pitch], width)) {
            fprintf(stderr, "row %zu of a large copy from an array is wrong\n", y);
            check_failures++;
            break;
        }
    }
    MUST(cudaFreeArray(m.array));
    MUST(cudaFree(device));
    MUST(cudaFreeHost(pinned));
    MUST(cudaStreamDestroy(stream));
}

/* ---- errors ---- */

static void errors(void)
{
    cudaArray_t a = NULL, gone;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    byte block[4096] = { 0 };
    MUST(cudaFreeArray(NULL));
    MUST(cudaFreeMipmappedArray(NULL));
    GIVES(cudaErrorInvalidValue, cudaMallocArray(NULL, &f, 4, 4, 0));
    GIVES(cudaErrorInvalidValue, cudaMallocArray(&a, NULL, 4, 4, 0));
    GIVES(cudaErrorInvalidValue, cudaMallocArray(&a, &f, 0, 4, 0));
    GIVES(cudaErrorInvalidValue, cudaMallocArray(&a, &f, (size_t)1 << 40, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaMalloc3DArray(&a, &f, make_cudaExtent(4, 5, 6), cudaArrayCubemap));
    GIVES(cudaErrorInvalidValue, cudaMalloc3DArray(&a, &f, make_cudaExtent(4, 4, 5), cudaArrayCubemap));
    GIVES(cudaErrorInvalidValue, cudaMalloc3DArray(&a, &f, make_cudaExtent(4, 0, 5), 0));
    cudaChannelFormatDesc strange = { 12, 0, 0, 0, cudaChannelFormatKindFloat },
                          three = { 8, 8, 8, 0, cudaChannelFormatKindUnsigned };
    GIVES(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&a, &strange, 4, 4, 0));
    GIVES(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&a, &three, 4, 4, 0));
    MUST(cudaMallocArray(&a, &f, 16, 8, 0));
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DToArray(a, 4, 0, block, 64, 64, 8, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpy2DToArray(a, 0, 1, block, 64, 64, 8, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2DToArray(a, 0, 0, block, 60, 64, 8, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy2DToArray(a, 0, 0, block, 64, 64, 8, (cudaMemcpyKind)9));
    GIVES(cudaErrorInvalidMemcpyDirection, cudaMemcpy2DToArray(a, 0, 0, block, 64, 64, 8, cudaMemcpyDeviceToHost));
    GIVES(cudaErrorInvalidResourceHandle, cudaMemcpy2DToArray(NULL, 0, 0, block, 64, 64, 8, cudaMemcpyHostToDevice));
    GIVES(cudaSuccess, cudaMemcpy2DToArray(a, 2, 0, block, 64, 8, 1, cudaMemcpyHostToDevice)); // parts of elements
    GIVES(cudaSuccess, cudaMemcpy2DToArray(a, 0, 0, block, 64, 6, 1, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpyToArray(a, 4, 7, block, 64, cudaMemcpyHostToDevice));
    GIVES(cudaErrorInvalidValue, cudaMemcpyFromArray(block, a, 0, 0, 16 * 8 * 4 + 1, cudaMemcpyDeviceToHost));
    cudaMemcpy3DParms copy = { 0 };
    copy.srcPtr = make_cudaPitchedPtr(block, 64, 16, 8);
    copy.dstArray = a;
    copy.extent = make_cudaExtent(16, 8, 2);
    copy.kind = cudaMemcpyHostToDevice;
    GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&copy));
    copy.extent.depth = 1;
    copy.dstPos.x = 1;
    GIVES(cudaErrorInvalidValue, cudaMemcpy3D(&copy));
    copy.dstPos.x = 0;
    MUST(cudaMemcpy3D(&copy));
    /* positions are in elements on both sides */
    float back[4];
    copy.srcPos.x = 3;
    copy.extent = make_cudaExtent(4, 1, 1);
    MUST(cudaMemcpy3D(&copy));
    MUST(cudaMemcpyFromArray(back, a, 0, 0, sizeof back, cudaMemcpyDeviceToHost));
    HOLDS(memcmp(back, (const char *)block + 12, sizeof back) == 0);
    copy.extent.depth = 0;
    MUST(cudaMemcpy3D(&copy));
    cudaArraySparseProperties sparse;
    GIVES(cudaErrorInvalidValue, cudaArrayGetSparseProperties(&sparse, a));
    gone = a;
    MUST(cudaFreeArray(a));
    (void)gone;
}

/* ---- capture, memory, reset ---- */

static void captured(void)
{
    Model m = make(cudaCreateChannelDesc<int>(), 32, 8, 0, 0), n = make(cudaCreateChannelDesc<int>(), 32, 8, 0, 0);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    byte *source, *target;
    size_t bytes = m.bytes.size();
    MUST(cudaMallocHost(&source, bytes));
    MUST(cudaMallocHost(&target, bytes));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    MUST(cudaMemcpy2DToArrayAsync(m.array, 0, 0, source, 128, 128, 8, cudaMemcpyHostToDevice, stream));
    cudaMemcpy3DParms copy = { 0 };
    copy.srcArray = m.array;
    copy.dstArray = n.array;
    copy.dstPos.y = 1;
    copy.extent = make_cudaExtent(32, 7, 1);
    copy.kind = cudaMemcpyDeviceToDevice;
    MUST(cudaMemcpy3DAsync(&copy, stream));
    MUST(cudaMemcpy2DFromArrayAsync(target, 128, n.array, 0, 0, 128, 8, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&run, graph, 0));
    for (int turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < bytes; i++)
            source[i] = (byte)(i * (turn + 3));
        MUST(cudaGraphLaunch(run, stream));
        MUST(cudaStreamSynchronize(stream));
        m.bytes.assign(source, source + bytes);
        memcpy(&n.bytes[128], source, 7 * 128);
        agrees(m, "a launch of a graph");
        agrees(n, "a launch of a graph");
        HOLDS(!memcmp(target, n.bytes.data(), bytes));
    }
    /* a node that is made by hand, and what it tells */
    cudaGraph_t other;
    cudaGraphNode_t node;
    cudaMemcpy3DParms told;
    MUST(cudaGraphCreate(&other, 0));
    MUST(cudaGraphAddMemcpyNode(&node, other, NULL, 0, &copy));
    MUST(cudaGraphMemcpyNodeGetParams(node, &told));
    HOLDS(told.srcArray == m.array && told.dstArray == n.array && told.dstPos.y == 1 && told.srcPos.y == 0);
    HOLDS(told.extent.width == 32 && told.extent.height == 7 && told.extent.depth == 1);
    MUST(cudaGraphDestroy(other));
    MUST(cudaGraphExecDestroy(run));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFreeHost(source));
    MUST(cudaFreeHost(target));
    MUST(cudaFreeArray(m.array));
    MUST(cudaFreeArray(n.array));
}

static void counted(void)
{
    size_t before, with, after, total;
    cudaArray_t a;
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float4>();
    MUST(cudaMemGetInfo(&before, &total));
    MUST(cudaMallocArray(&a, &f, 1024, 1024, 0));
    MUST(cudaMemGetInfo(&with, &total));
    bool alone = on_software_gpu();               // others use a real one, too
    HOLDS(!alone || with + (16u << 20) <= before);
    MUST(cudaFreeArray(a));
    MUST(cudaMemGetInfo(&after, &total));
    HOLDS(!alone || after == before);
    MUST(cudaMallocArray(&a, &f, 1024, 1024, 0));
    MUST(cudaDeviceReset());
    MUST(cudaMemGetInfo(&after, &total));
    HOLDS(!alone || after >= before);
    MUST(cudaMallocArray(&a, &f, 1024, 1024, 0));
    MUST(cudaFreeArray(a));
}

int main(int argc, char **argv)
{
    if (argc > 1)
        state = (unsigned)atoi(argv[1]);
    memory[PAGEABLE] = (byte *)malloc(ROOM);
    MUST(cudaMallocHost(&memory[PINNED], ROOM));
    MUST(cudaMalloc(&memory[DEVICE], ROOM));
    all_shapes();
    large();
    errors();
    captured();
    counted();
    free(memory[PAGEABLE]);
    return check_result("arrays");
}
