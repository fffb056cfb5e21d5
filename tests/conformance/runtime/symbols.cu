// shows: conformance: symbols: addresses, sizes and copies of variables of every kind, what the copies wait for,
//   threads, after a reset, line by line with NVIDIA's runtime
#include "../gate.h"

enum { LARGE = 1 << 20 };
struct mixed {
    char a;
    double b;
    short c[3];
};
__device__ int plain = 41;
__device__ double table[3][5] = { { 1, 2, 3, 4, 5 } };
__device__ mixed record = { 'x', 2.5, { 1, 2, 3 } };
__device__ char large[LARGE];
static __device__ int hidden = 43;
namespace inner {
__device__ short named[7] = { 9, 8 };
}
__constant__ int fixed[64] = { 7 };
__constant__ char tiny = 'q';
__device__ __managed__ int both = 44;
__device__ const int never_changes[4] = { 1, 2, 3, 4 };
static int no_symbol;

__global__ void touch(int *out)
{
    out[0] = plain + hidden + both;
    out[1] = fixed[0] + tiny + never_changes[2];
    out[2] = (int)(table[0][4] + record.b) + inner::named[0] + large[LARGE - 1];
    plain++;
}

#define ADDRESS_OF(symbol)                                                    \
    do {                                                                      \
        void *at_ = NULL, *again_ = NULL;                                     \
        size_t size_ = 7;                                                     \
        WORKS(cudaGetSymbolAddress(&at_, symbol), "usual");                   \
        WORKS(cudaGetSymbolAddress(&again_, symbol), "again");                \
        WORKS(cudaGetSymbolSize(&size_, symbol), "usual");                    \
        printf("  %s: %zu bytes, %s\n", #symbol, size_, at_ && at_ == again_ ? "one address" : "other addresses"); \
        VALUE("aligned", "%d", (int)((uintptr_t)at_ % 8 == 0));               \
    } while (0)

static void addresses()
{
    void *at = (void *)1, *first = NULL;
    size_t size = 7;
    ADDRESS_OF(table);
    ADDRESS_OF(record);
    ADDRESS_OF(large);
    ADDRESS_OF(fixed);
    ADDRESS_OF(both);
    ADDRESS_OF(never_changes);
    WORKS(cudaGetSymbolSize(&size, plain), "usual");
    VALUE("size", "%zu", size);
    WORKS(cudaGetSymbolSize(&size, tiny), "usual");
    VALUE("size", "%zu", size);
    WORKS(cudaGetSymbolSize(&size, inner::named), "usual");
    VALUE("size", "%zu", size);
    WORKS(cudaGetSymbolAddress(&at, both), "managed");
    VALUE("the host's", "%d", at == &both);
    VALUE("value", "%d", both);
#ifdef NULL_POINTERS /* NVIDIA's runtime crashes */
    SAYS(cudaGetSymbolAddress(NULL, plain), "null pointer");
    SAYS(cudaGetSymbolSize(NULL, plain), "null pointer");
#endif
    at = &first;
    SAYS(cudaGetSymbolAddress(&at, (const void *)&no_symbol), "no symbol");
    VALUE("as before", "%d", at == &first);
    SAYS(cudaGetSymbolAddress(&at, (const void *)touch), "a kernel");
    SAYS(cudaGetSymbolAddress(&at, (const void *)NULL), "null symbol");
    SAYS(cudaGetSymbolSize(&size, (const void *)&no_symbol), "no symbol");
    SAYS(cudaGetSymbolSize(&size, (const void *)NULL), "null symbol");
    SAYS(cudaGetSymbolSize(&size, (const void *)touch), "a kernel");
    MUST(cudaGetSymbolAddress(&first, large));
    SAYS(cudaGetSymbolAddress(&at, (const void *)first), "an address of the device");
}

/* Every kind, every place. */
static void kinds()
{
    void *at;
    int host = 5, *pinned, *device;
    MUST(cudaMallocHost((void **)&pinned, 64));
    MUST(cudaMalloc((void **)&device, 64));
    MUST(cudaMemset(device, 1, 64));
    *pinned = 6;
    MUST(cudaGetSymbolAddress(&at, plain));
    const char *names[] = { "the stack", "pinned", "device", "the variable itself", "null" };
    void *places[] = { &host, pinned, device, at, NULL };
    for (int p = 0; p < 5; p++)
        for (int kind = -1; kind <= 5; kind++) {
            bool overlaps = places[p] == at;
            cudaError_t to = cudaMemcpyToSymbol(fixed, places[p], 4, 8, (cudaMemcpyKind)kind);
            cudaError_t last = cudaGetLastError();
            printf("cudaMemcpyToSymbol: %s, kind %d -> %s %s\n", names[p], kind, cudaGetErrorName(to),
                   cudaGetErrorName(last));
            to = overlaps ? cudaSuccess : cudaMemcpyFromSymbol(places[p], plain, 4, 0, (cudaMemcpyKind)kind);
            last = cudaGetLastError();
            printf("cudaMemcpyFromSymbol: %s, kind %d -> %s %s\n", names[p], kind, cudaGetErrorName(to),
                   cudaGetErrorName(last));
            to = cudaMemcpyToSymbolAsync(fixed, places[p], 4, 8, (cudaMemcpyKind)kind, 0);
            last = cudaGetLastError();
            printf("cudaMemcpyToSymbolAsync: %s, kind %d -> %s %s\n", names[p], kind, cudaGetErrorName(to),
                   cudaGetErrorName(last));
            to = overlaps ? cudaSuccess : cudaMemcpyFromSymbolAsync(places[p], plain, 4, 0, (cudaMemcpyKind)kind, 0);
            last = cudaGetLastError();
            printf("cudaMemcpyFromSymbolAsync: %s, kind %d -> %s %s\n", names[p], kind, cudaGetErrorName(to),
                   cudaGetErrorName(last));
        }
    MUST(cudaDeviceSynchronize());
    VALUE("on the stack", "%d", host);
    VALUE("pinned", "%d", *pinned);
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(device));
}

static void ranges()
{
    static char host[LARGE];
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 256, 257, LARGE, SIZE_MAX };
    static const size_t offsets[] = { 0, 1, 255, 256, 257, LARGE, SIZE_MAX };
    for (size_t n : sizes)
        for (size_t from : offsets) {
            cudaError_t to = cudaMemcpyToSymbol(fixed, host, n, from);
            cudaGetLastError();
            cudaError_t back = cudaMemcpyFromSymbol(host, fixed, n, from);
            cudaGetLastError();
            printf("fixed: %zu bytes at %zu -> %s %s\n", n, from, cudaGetErrorName(to), cudaGetErrorName(back));
        }
    MUST(cudaMemset(NULL, 0, 0));
    memset(host, 3, sizeof host);
    WORKS(cudaMemcpyToSymbol(large, host, LARGE), "all of it");
    WORKS(cudaMemcpyToSymbol(large, host, 1, LARGE - 1), "the last byte");
    SAYS(cudaMemcpyToSymbol(large, host, 2, LARGE - 1), "beyond the end");
    memset(host, 0, sizeof host);
    WORKS(cudaMemcpyFromSymbol(host, large, LARGE), "all of it");
    VALUE("the last byte", "%d", host[LARGE - 1]);
    SAYS(cudaMemcpyToSymbol(never_changes, host, 4), "a constant variable of the device");
    WORKS(cudaMemcpyToSymbol(both, host, 4), "managed");
    VALUE("managed", "%d", both);
}

static void *in_thread_value;
static void other_thread()
{
    void *at = NULL;
    int value = 0;
    WORKS(cudaGetSymbolAddress(&at, plain), "in another thread");
    VALUE("the same", "%d", at == in_thread_value);
    WORKS(cudaMemcpyFromSymbol(&value, plain, 4), "in another thread");
    SAYS(cudaMemcpyToSymbol(plain, &value, 5), "in another thread");
}

static void order()
{
    struct gate *g = gate_new();
    cudaStream_t s, t;
    int *out, got[3], host = 100;
    static char pageable[LARGE];
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&out, 64));
    MUST(cudaMemcpyToSymbol(plain, &host, 4));
    both = 44;
    memset(pageable, 1, sizeof pageable);
    MUST(cudaMemcpyToSymbol(fixed, &host, 4));
    MUST(cudaMemcpyToSymbol(large, pageable, LARGE));
    touch<<<1, 1, 0, s>>>(out);
    host = 200;
    WORKS(cudaMemcpyToSymbolAsync(plain, &host, 4, 0, cudaMemcpyHostToDevice, s), "behind the kernel");
    host = 0;
    touch<<<1, 1, 0, s>>>(out);
    WORKS(cudaMemcpyFromSymbolAsync(&host, plain, 4, 0, cudaMemcpyDeviceToHost, s), "behind the kernel");
    WORKS(cudaStreamSynchronize(s), "all");
    WORKS(cudaMemcpy(got, out, 12, cudaMemcpyDeviceToHost), "the results");
    VALUE("plain", "%d", host);
    VALUE("sum", "%d", got[0]);
    VALUE("sum of constants", "%d", got[1]);
    VALUE("other sum", "%d", got[2]);
    MUST(cudaGetSymbolAddress(&in_thread_value, plain));
    in_thread(other_thread);
    WORKS(cudaPeekAtLastError(), "errors belong to threads");
    SAYS(cudaMemcpyToSymbolAsync(plain, &host, 4, 0, cudaMemcpyHostToDevice, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaMemcpyFromSymbolAsync(&host, plain, 4, 0, cudaMemcpyDeviceToHost, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaMemcpyFromSymbolAsync(&host, plain, 5, 0, cudaMemcpyDeviceToHost, s), "too long");
    WAITS_FOR_KERNEL(true, g, s, , cudaMemcpyToSymbol(plain, &host, 4), "behind a blocking stream");
    WAITS_FOR_KERNEL(false, g, t, , cudaMemcpyToSymbol(plain, &host, 4), "beside a non-blocking stream");
    WAITS_FOR_KERNEL(true, g, s, , cudaMemcpyFromSymbol(&host, plain, 4), "behind a blocking stream");
    WAITS_FOR_KERNEL(false, g, t, , cudaMemcpyFromSymbol(&host, plain, 4), "beside a non-blocking stream");
    WAITS_FOR_KERNEL(false, g, s, , cudaMemcpyToSymbolAsync(plain, &host, 4, 0, cudaMemcpyHostToDevice, s),
                     "its stream");
    WAITS_FOR_KERNEL(false, g, s, , cudaMemcpyToSymbolAsync(plain, &host, 4, 0, cudaMemcpyHostToDevice, t),
                     "another stream");
    WAITS_FOR_KERNEL(false, g, t, , cudaMemcpyFromSymbolAsync(&host, plain, 4, 0, cudaMemcpyDeviceToHost, s),
                     "another stream");
    WAITS_FOR_KERNEL(true, g, s, , cudaMemcpyFromSymbolAsync(&host, plain, 4, 0, cudaMemcpyDeviceToHost, s),
                     "its stream, to pageable memory");
    void *at;
    size_t size;
    WAITS_FOR_KERNEL(false, g, s, , cudaGetSymbolAddress(&at, fixed), "any");
    WAITS_FOR_KERNEL(false, g, s, , cudaGetSymbolSize(&size, fixed), "any");
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(t));
}

/* Variables begin anew. */
static void reset()
{
    int value = 0;
    WORKS(cudaDeviceReset(), "usual");
    WORKS(cudaMemcpyFromSymbol(&value, plain, 4), "after the reset");
    VALUE("plain", "%d", value);
    WORKS(cudaMemcpyFromSymbol(&value, fixed, 4), "after the reset");
    VALUE("fixed", "%d", value);
}

static void first_of_all()
{
    int value = 0;
    WORKS(cudaMemcpyFromSymbol(&value, hidden, 4), "the first call of all");
    VALUE("hidden", "%d", value);
}

int main()
{
    in_child(first_of_all);
    addresses();
    kinds();
    ranges();
    order();
    reset();
    return 0;
}
