// shows: linear copies: every direction, Default kind, symbols, 2D, asynchronous, interior pointers, overlapping tails
// shows: memset: 1D, 2D, asynchronous, unaligned tails
// shows: host alloc: pinned memory, flags, freed twice
#include "check.h"

__constant__ int table[64];
__device__ int counter = 5;
__device__ double big[1000];

__global__ void use_table(int *out) { out[threadIdx.x] = table[threadIdx.x] * 3 + counter; }
__global__ void fill_big() { big[blockIdx.x] = blockIdx.x * 0.25; }
__global__ void bump() { counter++; }

static void copies_of_all_sizes()
{
    static const size_t sizes[] = {1, 3, 255, 4096, 65537, (1 << 20) - 1, (1 << 20) + 1, (5 << 20) + 13};
    for (size_t size : sizes) {
        unsigned char *from = (unsigned char *)malloc(size), *to = (unsigned char *)calloc(size, 1), *d, *e;
        for (size_t i = 0; i < size; i++)
            from[i] = (unsigned char)(i * 131 + size);
        MUST(cudaMalloc(&d, size + 7));
        MUST(cudaMalloc(&e, size + 7));
        MUST(cudaMemcpy(d + 7, from, size, cudaMemcpyHostToDevice));
        memset(from, 0xee, size);                       // the source may be used again at once
        MUST(cudaMemcpy(e + 3, d + 7, size, cudaMemcpyDeviceToDevice));
        MUST(cudaMemcpy(to, e + 3, size, cudaMemcpyDefault));
        size_t wrong = 0;
        for (size_t i = 0; i < size; i++)
            wrong += to[i] != (unsigned char)(i * 131 + size);
        HOLDS(wrong == 0);
        MUST(cudaFree(d));
        MUST(cudaFree(e));
        free(from);
        free(to);
    }
}

static void symbols()
{
    int values[64], out[64], *d, count = 0;
    for (int i = 0; i < 64; i++)
        values[i] = i * i;
    MUST(cudaMemcpyToSymbol(table, values, sizeof values));
    MUST(cudaMalloc(&d, sizeof out));
    use_table<<<1, 64>>>(d);
    MUST(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        HOLDS(out[i] == i * i * 3 + 5);
    bump<<<1, 1>>>();
    MUST(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    HOLDS(count == 6);
    values[0] = 77;
    MUST(cudaMemcpyToSymbol(table, values, sizeof(int), 5 * sizeof(int)));
    use_table<<<1, 64>>>(d);
    MUST(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    HOLDS(out[5] == 77 * 3 + 6 && out[6] == 36 * 3 + 6);
    fill_big<<<1000, 1>>>();
    double last = 0;
    MUST(cudaMemcpyFromSymbol(&last, big, sizeof last, 999 * sizeof(double)));
    HOLDS(last == 999 * 0.25);
    void *address = NULL;
    size_t size = 0;
    MUST(cudaGetSymbolAddress(&address, big));
    MUST(cudaGetSymbolSize(&size, big));
    HOLDS(size == sizeof big);
    MUST(cudaMemcpy(&last, (double *)address + 10, sizeof last, cudaMemcpyDeviceToHost));
    HOLDS(last == 2.5);
    GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, &last));
    GIVES(cudaErrorInvalidSymbol, cudaGetLastError());
    MUST(cudaFree(d));
}

static void two_dimensions()
{
    const size_t width = 100, height = 37;
    unsigned char *d, from[height][128], to[height][width];
    size_t pitch;
    MUST(cudaMallocPitch((void **)&d, &pitch, width, height));
    HOLDS(pitch >= width && pitch % 32 == 0);
    MUST(cudaMemset2D(d, pitch, 0xab, width, height));
    MUST(cudaMemcpy2D(to, width, d, pitch, width, height, cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) {
            wrong += to[y][x] != 0xab;
            from[y][x] = (unsigned char)(x * 3 + y * 7);
        }
    MUST(cudaMemcpy2D(d, pitch, from, 128, width, height, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2DAsync(to, width, d, pitch, width, height, cudaMemcpyDeviceToHost, 0));
    MUST(cudaStreamSynchronize(0));
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            wrong += to[y][x] != (unsigned char)(x * 3 + y * 7);
    HOLDS(wrong == 0);
    GIVES(cudaErrorInvalidPitchValue, cudaMemcpy2D(to, 10, d, pitch, width, height, cudaMemcpyDeviceToHost));
    cudaGetLastError();
    MUST(cudaFree(d));
}

static void pinned()
{
    const size_t count = 1 << 20;
    int *host, *back, *d;
    cudaStream_t stream;
    MUST(cudaMallocHost((void **)&host, count * sizeof(int)));
    MUST(cudaHostAlloc((void **)&back, count * sizeof(int), cudaHostAllocPortable));
    MUST(cudaMalloc(&d, count * sizeof(int)));
    MUST(cudaStreamCreate(&stream));
    for (size_t i = 0; i < count; i++)
        host[i] = (int)(i ^ 0x5a5a);
    MUST(cudaMemcpyAsync(d, host, count * sizeof(int), cudaMemcpyHostToDevice, stream));
    MUST(cudaMemcpyAsync(back, d, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(memcmp(host, back, count * sizeof(int)) == 0);
    struct cudaPointerAttributes attributes;
    MUST(cudaPointerGetAttributes(&attributes, host + 5));
    HOLDS(attributes.type == cudaMemoryTypeHost);
    MUST(cudaPointerGetAttributes(&attributes, d + 100));
    HOLDS(attributes.type == cudaMemoryTypeDevice && attributes.device == 0 && attributes.devicePointer == d + 100);
    MUST(cudaPointerGetAttributes(&attributes, &attributes));
    HOLDS(attributes.type == cudaMemoryTypeUnregistered);
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFreeHost(host));
    GIVES(cudaErrorInvalidValue, cudaFreeHost(host));
    cudaGetLastError();
    MUST(cudaFreeHost(back));
    MUST(cudaFree(d));
}

static void sets()
{
    unsigned char *d, to[1000];
    MUST(cudaMalloc(&d, 1000));
    MUST(cudaMemset(d, 0x11, 1000));
    MUST(cudaMemset(d + 13, 0x22, 501));
    MUST(cudaMemsetAsync(d + 900, 0x33, 99, 0));
    MUST(cudaMemcpy(to, d, 1000, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 1000; i++)
        HOLDS(to[i] == (i >= 900 && i < 999 ? 0x33 : i >= 13 && i < 514 ? 0x22 : 0x11));
    MUST(cudaFree(d));
}

int main()
{
    void *nothing = &nothing;
    MUST(cudaMalloc(&nothing, 0));
    MUST(cudaFree(NULL));
    copies_of_all_sizes();
    symbols();
    two_dimensions();
    pinned();
    sets();
    return check_result("memory");
}
