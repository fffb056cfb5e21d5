// shows: conformance: memory pools and stream-ordered allocation, line by line with NVIDIA's runtime
#include "../suite.h"

static cudaMemPoolProps device_pool(int device)
{
    cudaMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    return props;
}

static void making()
{
    cudaMemPool_t pool = NULL, other = NULL;
    cudaMemPoolProps props = device_pool(0);
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(NULL, &props), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, NULL), "null properties");
    props.location.id = 99;
    SAYS(cudaMemPoolCreate(&pool, &props), "device 99");
    props.location.id = -1;
    SAYS(cudaMemPoolCreate(&pool, &props), "device -1");
    props = device_pool(0);
    props.allocType = cudaMemAllocationTypeInvalid;
    SAYS(cudaMemPoolCreate(&pool, &props), "type 0");
    props.allocType = (cudaMemAllocationType)77;
    SAYS(cudaMemPoolCreate(&pool, &props), "type 77");
    props = device_pool(0);
    props.location.type = cudaMemLocationTypeInvalid;
    SAYS(cudaMemPoolCreate(&pool, &props), "no place");
    props.location.type = (cudaMemLocationType)99;
    SAYS(cudaMemPoolCreate(&pool, &props), "place 99");
    props = device_pool(0);
    props.handleTypes = (cudaMemAllocationHandleType)0x40;
    SAYS(cudaMemPoolCreate(&pool, &props), "handles of type 64");
    props = device_pool(0);
    WORKS(cudaMemPoolCreate(&pool, &props), "usual");
    SAYS(cudaMemPoolDestroy(NULL), "null pool");
    SAYS(cudaMemPoolDestroy(WRONG(cudaMemPool_t)), "no pool");
    WORKS(cudaMemPoolDestroy(pool), "once");
    SAYS(cudaMemPoolDestroy(pool), "twice");

    GIVES(cudaErrorInvalidValue, cudaDeviceGetDefaultMemPool(NULL, 0), "null pointer");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool(&pool, 99), "no device");
    WORKS(cudaDeviceGetDefaultMemPool(&pool, 0), "usual");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetMemPool(NULL, 0), "null pointer");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetMemPool(&other, -1), "negative device");
    WORKS(cudaDeviceGetMemPool(&other, 0), "usual");
    VALUE("the default pool", "%d", pool == other);
    SAYS(cudaMemPoolDestroy(pool), "the default pool");
    SAYS(cudaDeviceSetMemPool(0, NULL), "null pool");
    SAYS(cudaDeviceSetMemPool(0, WRONG(cudaMemPool_t)), "no pool");
    GIVES(cudaErrorInvalidDevice, cudaDeviceSetMemPool(99, pool), "no device");
    MUST(cudaMemPoolCreate(&other, &props));
    WORKS(cudaDeviceSetMemPool(0, other), "another pool");
    cudaMemPool_t now = NULL;
    MUST(cudaDeviceGetMemPool(&now, 0));
    VALUE("the other pool", "%d", now == other);
    WORKS(cudaMemPoolDestroy(other), "the device's pool");
    MUST(cudaDeviceGetMemPool(&now, 0));
    VALUE("the default pool again", "%d", now == pool);
    WORKS(cudaDeviceSetMemPool(0, pool), "the default pool");
}

static void attributes()
{
    cudaMemPool_t pool;
    cudaMemPoolProps props = device_pool(0);
    uint64_t value = 7;
    int number = 7;
    MUST(cudaMemPoolCreate(&pool, &props));
    for (int a = -1; a <= 12; a++) {
        value = 0;
        cudaError_t r = cudaMemPoolGetAttribute(pool, (cudaMemPoolAttr)a, &value);
        printf("cudaMemPoolGetAttribute: attribute %d -> %s, %llu\n", a, cudaGetErrorName(r),
               (unsigned long long)value);
        cudaGetLastError();
    }
    SAYS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, NULL), "null pointer");
    SAYS(cudaMemPoolGetAttribute(NULL, cudaMemPoolAttrReleaseThreshold, &value), "null pool");
    SAYS(cudaMemPoolGetAttribute(WRONG(cudaMemPool_t), cudaMemPoolAttrReleaseThreshold, &value), "no pool");
    value = 1 << 20;
    WORKS(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value), "1 MiB");
    value = 0;
    WORKS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value), "threshold");
    VALUE("threshold", "%llu", (unsigned long long)value);
    SAYS(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, NULL), "null pointer");
    SAYS(cudaMemPoolSetAttribute(NULL, cudaMemPoolAttrReleaseThreshold, &value), "null pool");
    SAYS(cudaMemPoolSetAttribute(pool, (cudaMemPoolAttr)99, &value), "attribute 99");
    for (int a = 1; a <= 3; a++)
        for (int set = 0; set <= 2; set++) {
            number = set;
            cudaError_t r = cudaMemPoolSetAttribute(pool, (cudaMemPoolAttr)a, &number);
            printf("cudaMemPoolSetAttribute: attribute %d, %d -> %s", a, set, cudaGetErrorName(r));
            number = 7;
            r = cudaMemPoolGetAttribute(pool, (cudaMemPoolAttr)a, &number);
            printf(", %s %d\n", cudaGetErrorName(r), number);
            cudaGetLastError();
        }
    for (int a = 5; a <= 8; a++)
        for (int set = 0; set <= 1; set++) {
            value = set;
            cudaError_t r = cudaMemPoolSetAttribute(pool, (cudaMemPoolAttr)a, &value);
            printf("cudaMemPoolSetAttribute: count %d, %d -> %s\n", a, set, cudaGetErrorName(r));
            cudaGetLastError();
        }
    WORKS(cudaMemPoolTrimTo(pool, 0), "empty");
    SAYS(cudaMemPoolTrimTo(NULL, 0), "null pool");
    SAYS(cudaMemPoolTrimTo(WRONG(cudaMemPool_t), 0), "no pool");
    WORKS(cudaMemPoolTrimTo(pool, SIZE_MAX), "to more than it has");
    cudaMemLocation place = { cudaMemLocationTypeDevice, 0 };
    cudaMemAccessFlags flags = (cudaMemAccessFlags)7;
    WORKS(cudaMemPoolGetAccess(&flags, pool, &place), "its device");
    VALUE("access", "%d", (int)flags);
    SAYS(cudaMemPoolGetAccess(&flags, NULL, &place), "null pool");
    place.id = 99;
    SAYS(cudaMemPoolGetAccess(&flags, pool, &place), "no device");
    cudaMemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = cudaMemLocationTypeDevice;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    WORKS(cudaMemPoolSetAccess(pool, &access, 1), "its device");
    WORKS(cudaMemPoolSetAccess(pool, &access, 0), "none");
    SAYS(cudaMemPoolSetAccess(pool, NULL, 0), "none, null");
    SAYS(cudaMemPoolSetAccess(NULL, &access, 1), "null pool");
    access.flags = cudaMemAccessFlagsProtNone;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "none for its device");
    access.flags = (cudaMemAccessFlags)2;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "flags 2");
    access.flags = cudaMemAccessFlagsProtReadWrite;
    access.location.id = 99;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "no device");
    access.location.id = 0;
    access.location.type = cudaMemLocationTypeInvalid;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "no place");
    WORKS(cudaMemPoolDestroy(pool), "it");
}

static void allocation()
{
    cudaMemPool_t pool, dead;
    cudaStream_t s, t;
    cudaMemPoolProps props = device_pool(0);
    void *p = NULL, *q = NULL;
    uint64_t used = 7;
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreate(&t));
    MUST(cudaMemPoolCreate(&pool, &props));
    MUST(cudaMemPoolCreate(&dead, &props));
    MUST(cudaMemPoolDestroy(dead));
    GIVES(cudaErrorInvalidValue, cudaMallocFromPoolAsync(NULL, 4, pool, s), "null pointer");
    SAYS(cudaMallocFromPoolAsync(&p, 0, pool, s), "no bytes");
    SAYS(cudaMallocFromPoolAsync(&p, 4, NULL, s), "null pool");
    SAYS(cudaMallocFromPoolAsync(&p, 4, WRONG(cudaMemPool_t), s), "no pool");
    SAYS(cudaMallocFromPoolAsync(&p, 4, dead, s), "a pool that has ended");
    SAYS(cudaMallocFromPoolAsync(&p, 4, pool, WRONG(cudaStream_t)), "no stream");
    GIVES(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&p, (size_t)1 << 50, pool, s), "too much");
    WORKS(cudaMallocFromPoolAsync(&p, 1000, pool, s), "1000 bytes");
    VALUE("aligned to 256", "%d", ((uintptr_t)p & 255) == 0);
    cudaPointerAttributes a;
    WORKS(cudaPointerGetAttributes(&a, p), "of a pool");
    VALUE("type", "%d", (int)a.type);
    VALUE("device", "%d", a.device);
    VALUE("host pointer", "%d", a.hostPointer != NULL);
    WORKS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), "used");
    VALUE("at least 1000", "%d", used >= 1000);
    WORKS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &used), "most used");
    VALUE("at least 1000", "%d", used >= 1000);
    SAYS(cudaFreeAsync(p, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaFreeAsync((char *)p + 8, s), "inside");
    WORKS(cudaFreeAsync(p, t), "in another stream");
    SAYS(cudaFreeAsync(p, t), "twice");
    int here;
    SAYS(cudaFreeAsync(&here, s), "of the host");
    SAYS(cudaFreeAsync(NULL, s), "null pointer");
    WORKS(cudaMallocAsync(&p, 256, 0), "legacy stream");
    WORKS(cudaFreeAsync(p, 0), "legacy stream");
    WORKS(cudaMallocAsync(&p, 256, cudaStreamPerThread), "per-thread stream");
    WORKS(cudaFreeAsync(p, cudaStreamPerThread), "per-thread stream");
    WORKS(cudaMallocFromPoolAsync(&p, 4096, pool, s), "before its pool ends");
    WORKS(cudaMemPoolDestroy(pool), "memory is still used");
    SAYS(cudaMallocFromPoolAsync(&q, 4096, pool, s), "the pool has ended");
    WORKS(cudaMemsetAsync(p, 1, 4096, s), "its memory");
    WORKS(cudaFreeAsync(p, s), "its memory");
    WORKS(cudaStreamSynchronize(s), "all");
    SAYS(cudaMemsetAsync(p, 1, 4096, s), "freed");
    MUST(cudaStreamDestroy(t));
    SAYS(cudaMallocAsync(&p, 64, t), "a stream that has ended");
    MUST(cudaStreamDestroy(s));
}

static void waiting()
{
    cudaStream_t s, t;
    void *p = NULL, *q = NULL;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    MUST(cudaMallocAsync(&q, 4096, s));
    MUST(cudaStreamSynchronize(s));
    WAITS(s, , cudaMallocAsync(&p, 4096, s), "work in the stream");
    WAITS(s, MUST(cudaMallocAsync(&q, 64, s)), cudaFreeAsync(q, s), "work in the stream");
    WAITS(s, MUST(cudaMallocAsync(&q, 64, t)), cudaFreeAsync(q, s), "work in another stream");
    MUST(cudaDeviceSynchronize());
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(t));
}

int main()
{
    MUST(cudaFree(0));
    making();
    attributes();
    allocation();
    waiting();
    return 0;
}
