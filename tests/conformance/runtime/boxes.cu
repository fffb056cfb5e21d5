// shows: conformance: copies and memsets of rows, volumes and arrays with random arguments, line by line with NVIDIA's
//   runtime
//
// Each line is a call with arguments that a seed gives, most of them nearly right; then what is in the memory. The seed
// is an argument of the program.
#include "../suite.h"
#include "../../lib/dice.h"

enum { SIZE = 1 << 17 }; /* more than a box of small numbers can reach */
static unsigned long long seed = 1;
static char *device[2], *host[2];
static cudaArray_t flat, other, deep; /* other: what `flat` is copied from, since copies must not overlap */

static unsigned below(unsigned n) { return dice(&seed, n); }

static size_t size_near(size_t right)
{
    switch (below(12)) {
    case 0: return 0;
    case 1: return right + 1;
    case 2: return right ? right - 1 : 0;
    case 3: return below(40);
    case 4: return below(24) ? right : SIZE_MAX;
    default: return right;
    }
}

static cudaMemcpyKind kind_near(int right) { return (cudaMemcpyKind)(below(10) ? right : (int)below(8)); }

/* Nothing checks a copy from the host to the host. */
static bool too_far(size_t size, cudaMemcpyKind kind, bool on_host)
{
    return size > SIZE && (kind == cudaMemcpyHostToHost || on_host);
}

static void *place(int of_device) { return below(25) ? of_device ? device[below(2)] : host[below(2)] : NULL; }

static unsigned sum(const char *from)
{
    unsigned long long s = 17, word;
    for (int i = 0; i < SIZE; i += 8) {
        memcpy(&word, from + i, 8);
        s = (s ^ word) * 0x9E3779B97F4A7C15ull;
    }
    return (unsigned)(s >> 32);
}

static unsigned sum_of_all()
{
    static char copy[SIZE];
    cudaMemcpy3DParms all_of_deep = {};
    all_of_deep.srcArray = deep;
    all_of_deep.dstPtr = make_cudaPitchedPtr(copy + 4096, 32, 8, 8);
    all_of_deep.extent = make_cudaExtent(8, 8, 4);
    all_of_deep.kind = cudaMemcpyDeviceToHost;
    unsigned s = sum(host[0]) * 3 + sum(host[1]);
    for (char *d : device) {
        MUST(cudaMemcpy(copy, d, SIZE, cudaMemcpyDeviceToHost));
        s = s * 5 + sum(copy);
    }
    MUST(cudaMemcpy2DFromArray(copy, 64, flat, 0, 0, 64, 16, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy3D(&all_of_deep));
    return s * 7 + sum(copy);
}

/* Each call finds the same, so that a difference is in one line. */
static void fill()
{
    for (int i = 0; i < 2; i++) {
        MUST(cudaMemset(device[i], i, SIZE));
        for (int k = 0; k < SIZE; k++)
            host[i][k] = (char)(k * (i + 3));
    }
    MUST(cudaMemcpy2DToArray(flat, 0, 0, host[0], 64, 64, 16, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2DToArray(other, 0, 0, host[1], 64, 64, 16, cudaMemcpyHostToDevice));
    cudaMemcpy3DParms all_of_deep = {};
    all_of_deep.dstArray = deep;
    all_of_deep.srcPtr = make_cudaPitchedPtr(host[1], 32, 8, 8);
    all_of_deep.extent = make_cudaExtent(8, 8, 4);
    all_of_deep.kind = cudaMemcpyHostToDevice;
    MUST(cudaMemcpy3D(&all_of_deep));
}

/* in_parts: NVIDIA's runtime makes several calls of it, so what comes before one that fails has been written. */
static void told(const char *call, cudaError_t result, bool in_parts)
{
    MUST(cudaDeviceSynchronize());
    printf("%s -> %s (%s) %08x\n", call, cudaGetErrorName(result), cudaGetErrorName(cudaGetLastError()),
           in_parts && result != cudaSuccess ? 0 : sum_of_all());
}

static cudaPos position() { return below(3) ? make_cudaPos(0, 0, 0) : make_cudaPos(below(9), below(5), below(4)); }

static int which(cudaArray_t array) { return array == flat ? 1 : array == deep ? 2 : array ? 3 : 0; }

static void volume()
{
    cudaMemcpy3DParms p;
    char call[300];
    memset(&p, 0, sizeof p);
    int to = (int)below(2), from = (int)below(2);
    size_t width = below(33), height = 1 + below(8), depth = 1 + below(4);
    p.extent = make_cudaExtent(size_near(width), size_near(height), size_near(depth));
    p.srcPtr = make_cudaPitchedPtr(place(from), size_near(width + below(20)), width, size_near(height + below(3)));
    p.dstPtr = make_cudaPitchedPtr(place(to), size_near(width + below(20)), width, size_near(height + below(3)));
    p.srcPos = position();
    p.dstPos = position();
    p.kind = kind_near(below(4) ? from ? to ? 3 : 2 : to : 4);
    unsigned arrays = below(9);
    if (arrays == 0 || arrays == 1) {
        p.dstArray = below(2) ? flat : deep;
        if (below(8))
            p.dstPtr = make_cudaPitchedPtr(NULL, 0, 0, 0);
    }
    if (arrays == 1 || arrays == 2) {
        p.srcArray = below(2) ? other : deep;
        if (below(8))
            p.srcPtr = make_cudaPitchedPtr(NULL, 0, 0, 0);
    }
    if (too_far(p.extent.width | p.extent.height | p.extent.depth | p.srcPtr.pitch | p.srcPtr.ysize | p.dstPtr.pitch |
                    p.dstPtr.ysize,
                p.kind, !to && !from) ||
        (!to && p.dstPtr.ptr == p.srcPtr.ptr && p.dstPtr.ptr)) /* onto itself: undefined */
        return;
    snprintf(call, sizeof call,
             "cudaMemcpy3D: %zu %zu %zu from array %d memory %d pitch %zu rows %zu at %zu %zu %zu to array %d memory "
             "%d pitch %zu "
             "rows %zu at %zu %zu %zu kind %d",
             p.extent.width, p.extent.height, p.extent.depth, which(p.srcArray), p.srcPtr.ptr != NULL, p.srcPtr.pitch,
             p.srcPtr.ysize, p.srcPos.x, p.srcPos.y, p.srcPos.z, which(p.dstArray), p.dstPtr.ptr != NULL,
             p.dstPtr.pitch, p.dstPtr.ysize, p.dstPos.x, p.dstPos.y, p.dstPos.z, (int)p.kind);
    told(call, below(2) ? cudaMemcpy3D(&p) : cudaMemcpy3DAsync(&p, 0), false);
}

static void rows()
{
    char call[300];
    int to = (int)below(2), from = (int)below(2);
    size_t width = below(65), height = 1 + below(20);
    size_t w = size_near(width), h = size_near(height), a = size_near(width + below(10)),
           b = size_near(width + below(10));
    cudaMemcpyKind kind = kind_near(below(4) ? from ? to ? 3 : 2 : to : 4);
    char *target = (char *)place(to), *source = (char *)place(from);
    if (too_far(w | h | a | b, kind, !to && !from) || (!to && target == source)) /* onto itself: undefined */
        return;
    snprintf(call, sizeof call, "cudaMemcpy2D: %zu %zu pitches %zu %zu from %d %d to %d %d kind %d", w, h, a, b, from,
             source != NULL, to, target != NULL, (int)kind);
    told(call,
         below(2) ? cudaMemcpy2D(target, a, source, b, w, h, kind)
                  : cudaMemcpy2DAsync(target, a, source, b, w, h, kind, 0),
         false);
}

static void array_rows()
{
    char call[300];
    bool in = below(2), between = below(5) == 0;
    size_t w = size_near(4 * below(17)), h = size_near(below(17)), x = below(3) ? 0 : 4 * below(9),
           y = below(3) ? 0 : below(9);
    size_t pitch = size_near(w + below(10)), n = size_near(4 * below(40)) & ~(size_t)3;
    int of_device = (int)below(2);
    char *memory = (char *)place(of_device);
    cudaArray_t array = below(20) ? flat : below(2) ? deep : NULL;
    cudaMemcpyKind kind = kind_near(between ? 3 : below(4) ? of_device ? 3 : in ? 1 : 2 : 4);
    bool line = below(3) == 0;
    if (line && kind > cudaMemcpyDefault)
        kind = cudaMemcpyDefault; /* NVIDIA's runtime copies nothing then, and says nothing */
    if (!pitch)
        pitch = 1; /* 0: NVIDIA's runtime divides by it */
    snprintf(call, sizeof call, "%s%s: %zu %zu at %zu %zu pitch %zu bytes %zu memory %d %d array %d kind %d",
             between ? "between arrays"
             : in    ? "to an array"
                     : "from an array",
             line ? ", a line" : "", w, h, x, y, pitch, n, of_device, memory != NULL, which(array), (int)kind);
    cudaError_t r;
    if (between)
        r = line ? cudaMemcpyArrayToArray(array, x, y, other, 0, 0, n, kind)
                 : cudaMemcpy2DArrayToArray(array, x, y, other, 0, 0, w, h, kind);
    else if (line)
        r = in ? cudaMemcpyToArray(array, x, y, memory, n, kind) : cudaMemcpyFromArray(memory, array, x, y, n, kind);
    else
        r = in ? cudaMemcpy2DToArray(array, x, y, memory, pitch, w, h, kind)
               : cudaMemcpy2DFromArray(memory, pitch, array, x, y, w, h, kind);
    told(call, r, line);
}

static void sets()
{
    char call[300];
    size_t width = below(65), height = 1 + below(20), depth = 1 + below(4);
    size_t w = size_near(width), h = size_near(height), d = size_near(depth), pitch = size_near(width + below(10)),
           lines = size_near(height + below(3));
    void *memory = below(30) ? place(1) : place(0);
    int value = (int)below(1000);
    unsigned form = below(3);
    snprintf(call, sizeof call, "memset of form %u: %zu %zu %zu pitch %zu rows %zu memory %d", form, w, h, d, pitch,
             lines, memory ? memory == device[0] || memory == device[1] ? 2 : 1 : 0);
    told(call,
         form == 0   ? cudaMemset(memory, value, w)
         : form == 1 ? cudaMemset2D(memory, pitch, value, w, h)
                     : cudaMemset3D(make_cudaPitchedPtr(memory, pitch, width, lines), value, make_cudaExtent(w, h, d)),
         form == 2);
}

int main(int count, char **arguments)
{
    int calls = count > 2 ? atoi(arguments[2]) : 600;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<int>();
    seed = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    MUST(cudaMallocArray(&flat, &d, 16, 16));
    MUST(cudaMallocArray(&other, &d, 16, 16));
    MUST(cudaMalloc3DArray(&deep, &d, make_cudaExtent(8, 8, 4)));
    for (int i = 0; i < 2; i++) {
        MUST(cudaMalloc((void **)&device[i], SIZE));
        host[i] = (char *)calloc(1, 1 << 20);
    }
    for (int i = 0; i < calls; i++) {
        fill();
        switch (below(4)) {
        case 0: volume(); break;
        case 1: rows(); break;
        case 2: array_rows(); break;
        default: sets(); break;
        }
    }
    return 0;
}
