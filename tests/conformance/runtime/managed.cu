// shows: conformance: managed memory, its advice and its prefetching, line by line with NVIDIA's runtime
#include "../suite.h"

__managed__ int variable[64];

__global__ void add(int *a, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] += i;
}

static void allocation()
{
    int *p = NULL;
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)NULL, 4, cudaMemAttachGlobal), "null pointer");
    SAYS(cudaMallocManaged((void **)&p, 0, cudaMemAttachGlobal), "no bytes");
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)&p, 4, 0), "flags 0");
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)&p, 4, cudaMemAttachSingle), "one stream");
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)&p, 4, 3), "two flags");
    GIVES(cudaErrorInvalidValue, cudaMallocManaged((void **)&p, 4, 0x100), "unknown flag");
    SAYS(cudaMallocManaged((void **)&p, (size_t)1 << 50, cudaMemAttachGlobal), "too much");
    WORKS(cudaMallocManaged((void **)&p, 100 * sizeof *p, cudaMemAttachGlobal), "100 numbers");
    pointer_row("managed", p);
    pointer_row("inside managed", p + 3);
    pointer_row("variable", variable);
    for (int i = 0; i < 100; i++)
        p[i] = 1000;
    add<<<1, 32>>>(p, 100);
    WORKS(cudaDeviceSynchronize(), "a kernel");
    VALUE("last", "%d", p[99]);
    for (int i = 0; i < 64; i++)
        variable[i] = 5;
    add<<<1, 32>>>(variable, 64);
    WORKS(cudaDeviceSynchronize(), "a kernel");
    VALUE("last of the variable", "%d", variable[63]);
    int got = 0;
    WORKS(cudaMemcpy(&got, p + 7, 4, cudaMemcpyDeviceToHost), "from it");
    WORKS(cudaMemcpy(&got, p + 7, 4, cudaMemcpyDefault), "from it");
    WORKS(cudaMemcpy(&got, p + 7, 4, cudaMemcpyHostToHost), "from it");
    VALUE("eighth", "%d", got);
    WORKS(cudaMemset(p, 1, 40), "it");
    VALUE("first", "%d", p[0]);
    SAYS(cudaMemset(p, 1, 401), "one byte too many");
    SAYS(cudaFreeHost(p), "managed");
    SAYS(cudaHostRegister(p, 400, 0), "managed");
    SAYS(cudaHostGetDevicePointer((void **)&p, p, 0), "managed");
    unsigned flags = 7;
    SAYS(cudaHostGetFlags(&flags, p), "managed");
    WORKS(cudaFree(p), "once");
    SAYS(cudaFree(p), "twice");
    SAYS(cudaFree(variable), "a variable");
    WORKS(cudaMallocManaged((void **)&p, 64, cudaMemAttachHost), "for the host");
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    WORKS(cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachSingle), "to a stream");
    WORKS(cudaStreamAttachMemAsync(s, p, 64, cudaMemAttachGlobal), "to all");
    WORKS(cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachHost), "to the host");
    SAYS(cudaStreamAttachMemAsync(s, p, 32, cudaMemAttachSingle), "half of it");
    SAYS(cudaStreamAttachMemAsync(s, p + 1, 0, cudaMemAttachSingle), "inside");
    SAYS(cudaStreamAttachMemAsync(s, p, 0, 0), "flags 0");
    SAYS(cudaStreamAttachMemAsync(s, p, 0, 7), "flags 7");
    SAYS(cudaStreamAttachMemAsync(s, NULL, 0, cudaMemAttachSingle), "null pointer");
    SAYS(cudaStreamAttachMemAsync(0, p, 0, cudaMemAttachSingle), "to the legacy stream");
    SAYS(cudaStreamAttachMemAsync(0, p, 0, cudaMemAttachGlobal), "to all, in the legacy stream");
    SAYS(cudaStreamAttachMemAsync(WRONG(cudaStream_t), p, 0, cudaMemAttachSingle), "no stream");
    int *device;
    MUST(cudaMalloc((void **)&device, 64));
    SAYS(cudaStreamAttachMemAsync(s, device, 0, cudaMemAttachSingle), "memory of the device");
    WORKS(cudaStreamSynchronize(s), "attached");
    WORKS(cudaFree(p), "attached");
    MUST(cudaFree(device));
    MUST(cudaStreamDestroy(s));
}

#if RUNTIME >= 13
static cudaMemLocation place(cudaMemLocationType type, int id)
{
    cudaMemLocation at;
    memset(&at, 0, sizeof at);
    at.type = type;
    at.id = id;
    return at;
}
#define DEVICE(n) place(cudaMemLocationTypeDevice, n)
#define PREFETCH(p, n, where, s) cudaMemPrefetchAsync(p, n, where, 0, s)
#define HOST place(cudaMemLocationTypeHost, 0)
#else
#define DEVICE(n) (n)
#define PREFETCH(p, n, where, s) cudaMemPrefetchAsync(p, n, where, s)
#define HOST cudaCpuDeviceId
#endif

static void advice()
{
    char *p, *device, host[64];
    int value = 7, two[2] = { 7, 7 };
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    MUST(cudaMallocManaged((void **)&p, 1 << 20, cudaMemAttachGlobal));
    MUST(cudaMalloc((void **)&device, 4096));
    for (int a = 0; a <= 7; a++) {
        SAYS(cudaMemAdvise(p, 4096, (cudaMemoryAdvise)a, DEVICE(0)), "for the device");
        SAYS(cudaMemAdvise(p, 4096, (cudaMemoryAdvise)a, HOST), "for the host");
        SAYS(cudaMemAdvise(p, 4096, (cudaMemoryAdvise)a, DEVICE(99)), "for no device");
    }
    SAYS(cudaMemAdvise(p, 4096, (cudaMemoryAdvise)99, DEVICE(0)), "advice 99");
    SAYS(cudaMemAdvise(p, 0, cudaMemAdviseSetReadMostly, DEVICE(0)), "no bytes");
    SAYS(cudaMemAdvise(NULL, 4096, cudaMemAdviseSetReadMostly, DEVICE(0)), "null pointer");
    SAYS(cudaMemAdvise(p, 2 << 20, cudaMemAdviseSetReadMostly, DEVICE(0)), "too much");
    SAYS(cudaMemAdvise(device, 4096, cudaMemAdviseSetReadMostly, DEVICE(0)), "memory of the device");
    SAYS(cudaMemAdvise(host, 64, cudaMemAdviseSetReadMostly, DEVICE(0)), "of the host");
    for (int a = 0; a <= 9; a++) {
        value = 77;
        cudaError_t r = cudaMemRangeGetAttribute(&value, 4, (cudaMemRangeAttribute)a, p, 4096);
        printf("cudaMemRangeGetAttribute: attribute %d -> %s %d\n", a, cudaGetErrorName(r), value);
        cudaGetLastError();
    }
    SAYS(cudaMemRangeGetAttribute(NULL, 4, cudaMemRangeAttributeReadMostly, p, 4096), "null pointer");
    SAYS(cudaMemRangeGetAttribute(&value, 3, cudaMemRangeAttributeReadMostly, p, 4096), "3 bytes");
    SAYS(cudaMemRangeGetAttribute(two, 8, cudaMemRangeAttributeReadMostly, p, 4096), "8 bytes");
    SAYS(cudaMemRangeGetAttribute(two, 8, cudaMemRangeAttributeAccessedBy, p, 4096), "two devices");
    VALUE("first", "%d", two[0]);
    VALUE("second", "%d", two[1]);
    SAYS(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, 0), "no bytes");
    SAYS(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, NULL, 4096), "null range");
    SAYS(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, device, 4096), "memory of the device");
    SAYS(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, 2 << 20), "too much");
    void *data[] = { &value, two };
    size_t sizes[] = { 4, 8 };
    cudaMemRangeAttribute which[] = { cudaMemRangeAttributePreferredLocation, cudaMemRangeAttributeAccessedBy };
    WORKS(cudaMemRangeGetAttributes(data, sizes, which, 2, p, 4096), "two");
    VALUE("preferred", "%d", value);
    SAYS(cudaMemRangeGetAttributes(data, sizes, which, 0, p, 4096), "none");
    SAYS(cudaMemRangeGetAttributes(NULL, sizes, which, 2, p, 4096), "null data");
    SAYS(cudaMemRangeGetAttributes(data, NULL, which, 2, p, 4096), "null sizes");
    SAYS(cudaMemRangeGetAttributes(data, sizes, NULL, 2, p, 4096), "null attributes");
    which[1] = (cudaMemRangeAttribute)99;
    SAYS(cudaMemRangeGetAttributes(data, sizes, which, 2, p, 4096), "attribute 99");

    SAYS(PREFETCH(p, 1 << 20, DEVICE(0), s), "to the device");
    SAYS(PREFETCH(p, 1 << 20, HOST, s), "to the host");
    SAYS(PREFETCH(p, 1 << 20, DEVICE(99), s), "to no device");
    SAYS(PREFETCH(p, 0, DEVICE(0), s), "no bytes");
    SAYS(PREFETCH(NULL, 64, DEVICE(0), s), "null pointer");
    SAYS(PREFETCH(p, 2 << 20, DEVICE(0), s), "too much");
    SAYS(PREFETCH(device, 4096, DEVICE(0), s), "memory of the device");
    SAYS(PREFETCH(host, 64, DEVICE(0), s), "of the host");
    SAYS(PREFETCH(p, 64, DEVICE(0), WRONG(cudaStream_t)), "no stream");
#if RUNTIME >= 13
    SAYS(cudaMemPrefetchAsync(p, 64, DEVICE(99), 0, s), "device 99");
    SAYS(cudaMemPrefetchAsync(p, 64, DEVICE(0), 1, s), "flags 1");
    SAYS(cudaMemPrefetchAsync(p, 64, place(cudaMemLocationTypeInvalid, 0), 0, s), "no place");
    SAYS(cudaMemPrefetchAsync(p, 64, place((cudaMemLocationType)99, 0), 0, s), "place 99");
    SAYS(cudaMemPrefetchAsync(p, 64, place(cudaMemLocationTypeHostNuma, 0), 0, s), "host node 0");
    SAYS(cudaMemPrefetchAsync(p, 64, place(cudaMemLocationTypeHostNumaCurrent, 0), 0, s), "the thread's host node");
    SAYS(cudaMemAdvise(p, 64, cudaMemAdviseSetPreferredLocation, place(cudaMemLocationTypeHostNuma, 0)), "host node 0");
#endif
    WORKS(cudaStreamSynchronize(s), "all");
    MUST(cudaFree(p));
    MUST(cudaFree(device));
    MUST(cudaStreamDestroy(s));
}

#if RUNTIME >= 13
static void batches()
{
    char *p, *q, *device;
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    MUST(cudaMallocManaged((void **)&p, 1 << 20, cudaMemAttachGlobal));
    MUST(cudaMallocManaged((void **)&q, 1 << 20, cudaMemAttachGlobal));
    MUST(cudaMalloc((void **)&device, 4096));
    memset(p, 3, 1 << 20);
    void *parts[] = { p, q, p + 4096 };
    size_t sizes[] = { 4096, 1 << 20, 4096 };
    cudaMemLocation places[] = { DEVICE(0), HOST };
    size_t from[] = { 0, 2 };
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, s), "three parts to two places");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 0, places, from, 2, 0, s), "no parts");
    SAYS(cudaMemPrefetchBatchAsync(NULL, sizes, 3, places, from, 2, 0, s), "null parts");
    SAYS(cudaMemPrefetchBatchAsync(parts, NULL, 3, places, from, 2, 0, s), "null sizes");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, NULL, from, 2, 0, s), "null places");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, NULL, 2, 0, s), "null indices");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 0, 0, s), "no places");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 1, places, from, 2, 0, s), "more places than parts");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 1, s), "flags 1");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, 0), "the legacy stream");
    from[0] = 1;
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, s), "the first part has no place");
    from[0] = 0, from[1] = 0;
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, s), "two places for one part");
    from[1] = 3;
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, s), "a part that is not there");
    from[1] = 2;
    places[1] = DEVICE(99);
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, s), "no device");
    parts[1] = device;
    sizes[1] = 4096;
    places[1] = HOST;
    SAYS(cudaMemPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, s), "memory of the device");
    parts[1] = q;
    WORKS(cudaStreamSynchronize(s), "all");
    VALUE("byte", "%d", p[5000]);
    SAYS(cudaMemDiscardBatchAsync(parts, sizes, 2, 0, s), "two parts");
    SAYS(cudaMemDiscardBatchAsync(parts, sizes, 0, 0, s), "no parts");
    SAYS(cudaMemDiscardBatchAsync(NULL, sizes, 2, 0, s), "null parts");
    SAYS(cudaMemDiscardBatchAsync(parts, NULL, 2, 0, s), "null sizes");
    SAYS(cudaMemDiscardBatchAsync(parts, sizes, 2, 1, s), "flags 1");
    SAYS(cudaMemDiscardAndPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 0, s), "three parts");
    SAYS(cudaMemDiscardAndPrefetchBatchAsync(parts, sizes, 3, places, from, 2, 1, s), "flags 1");
    WORKS(cudaStreamSynchronize(s), "all");
    VALUE("byte of a part that was not discarded", "%d", p[9000]);
    MUST(cudaFree(p));
    MUST(cudaFree(q));
    MUST(cudaFree(device));
    MUST(cudaStreamDestroy(s));
}
#endif

int main()
{
    MUST(cudaFree(0));
    allocation();
    advice();
#if RUNTIME >= 13
    batches();
#endif
    return 0;
}
