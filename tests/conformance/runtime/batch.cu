// shows: conformance: batches of copies: attributes, places, boxes, order, what they wait for, line by line with
//   NVIDIA's runtime
#include "../gate.h"

#if RUNTIME == 12 /* of 12.8 and 12.9: they tell which copy failed */
extern "C" cudaError_t batch_12(void **, void **, size_t *, size_t, cudaMemcpyAttributes *, size_t *, size_t, size_t *,
                                cudaStream_t) __asm__("cudaMemcpyBatchAsync");
extern "C" cudaError_t boxes_12(size_t, cudaMemcpy3DBatchOp *, size_t *, unsigned long long,
                                cudaStream_t) __asm__("cudaMemcpy3DBatchAsync");
#endif

static cudaStream_t stream;
static char *device, *pinned, host[4096], other[4096];

static size_t failed = 77;
static cudaError_t batch(void **to, void **from, size_t *sizes, size_t count, cudaMemcpyAttributes *attributes,
                         size_t *firsts, size_t attribute_count, cudaStream_t s)
{
#if RUNTIME == 12
    failed = 77;
    return batch_12(to, from, sizes, count, attributes, firsts, attribute_count, &failed, s);
#else
    return cudaMemcpyBatchAsync(to, (const void **)from, sizes, count, attributes, firsts, attribute_count, s);
#endif
}
static cudaError_t boxes(size_t count, cudaMemcpy3DBatchOp *list, unsigned long long flags, cudaStream_t s)
{
#if RUNTIME == 12
    failed = 77;
    return boxes_12(count, list, &failed, flags, s);
#else
    return cudaMemcpy3DBatchAsync(count, list, flags, s);
#endif
}

static cudaMemcpyAttributes of(int order)
{
    cudaMemcpyAttributes a;
    memset(&a, 0, sizeof a);
    a.srcAccessOrder = (cudaMemcpySrcAccessOrder)order;
    return a;
}

static void lines()
{
    void *to[4] = { device, device + 1024, device + 2048, device + 3072 };
    void *from[4] = { host, host + 1024, pinned, host + 3072 };
    size_t sizes[4] = { 1024, 1024, 1024, 1024 }, firsts[4] = { 0, 1, 2, 3 };
    cudaMemcpyAttributes a[4] = { of(1), of(1), of(1), of(1) };
    for (int i = 0; i < 4096; i++)
        host[i] = pinned[i] = (char)(i * 7 + i / 256);
    MUST(cudaMemset(device, 0, 4096));
    WORKS(batch(to, from, sizes, 4, a, firsts, 1, stream), "one set of attributes");
    WORKS(cudaMemcpyAsync(other, device, 4096, cudaMemcpyDeviceToHost, stream), "behind it");
    WORKS(cudaStreamSynchronize(stream), "all");
    VALUE("differs", "%d", memcmp(other, host, 2048) != 0 || memcmp(other + 2048, pinned, 1024) != 0);
    WORKS(batch(to, from, sizes, 4, a, firsts, 4, stream), "four sets");
    firsts[1] = 3;
    WORKS(batch(to, from, sizes, 4, a, firsts, 2, stream), "two sets");
    for (int order = -1; order <= 4; order++) {
        a[0] = of(order);
        SAYS(batch(to, from, sizes, 4, a, firsts, 1, stream), "an order");
    }
    a[0] = of(1);
    for (unsigned flags = 1; flags <= 4; flags *= 2) {
        a[0].flags = flags;
        SAYS(batch(to, from, sizes, 4, a, firsts, 1, stream), "flags");
    }
    a[0] = of(1);
    for (int type = -1; type <= 6; type++)
        for (int id = -1; id <= 1; id++) {
            a[0].srcLocHint.type = (cudaMemLocationType)type;
            a[0].srcLocHint.id = id;
            cudaError_t r = batch(to, from, sizes, 4, a, firsts, 1, stream);
            printf("a place of the source: %d, %d -> %s\n", type, id, cudaGetErrorName(r));
            cudaGetLastError();
        }
    a[0] = of(1);
    SAYS(batch(to, from, sizes, 0, a, firsts, 1, stream), "no copies");
    SAYS(batch(NULL, NULL, NULL, 0, NULL, NULL, 0, stream), "nothing");
    SAYS(batch(to, from, sizes, 4, a, firsts, 0, stream), "no attributes");
    SAYS(batch(to, from, sizes, 4, NULL, firsts, 1, stream), "null attributes");
    SAYS(batch(to, from, sizes, 4, a, NULL, 1, stream), "null indices");
    SAYS(batch(NULL, from, sizes, 4, a, firsts, 1, stream), "null targets");
    SAYS(batch(to, NULL, sizes, 4, a, firsts, 1, stream), "null sources");
    SAYS(batch(to, from, NULL, 4, a, firsts, 1, stream), "null sizes");
    SAYS(batch(to, from, sizes, 4, a, firsts, 5, stream), "more attributes than copies");
    firsts[0] = 1;
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, stream), "the first copy has no attributes");
    firsts[0] = 0, firsts[1] = 0;
    SAYS(batch(to, from, sizes, 4, a, firsts, 2, stream), "indices that do not grow");
    firsts[1] = 4;
    SAYS(batch(to, from, sizes, 4, a, firsts, 2, stream), "an index beyond the end");
    firsts[1] = 3, firsts[2] = 2;
    SAYS(batch(to, from, sizes, 4, a, firsts, 3, stream), "indices that fall");
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, 0), "stream 0");
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, cudaStreamLegacy), "legacy");
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, cudaStreamPerThread), "per thread");
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, WRONG(cudaStream_t)), "no stream");
    sizes[2] = 0;
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, stream), "one of no bytes");
    sizes[2] = 1025 * 1024;
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, stream), "one beyond the end");
    VALUE("failed", "%zu", failed);
    sizes[2] = 1024;
    to[3] = NULL;
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, stream), "one to null");
    VALUE("failed", "%zu", failed);
    to[3] = device + 3072;
    from[1] = NULL;
    SAYS(batch(to, from, sizes, 4, a, firsts, 1, stream), "one from null");
    VALUE("failed", "%zu", failed);
    from[1] = host + 1024;
    to[0] = other, to[1] = other + 1024, from[0] = device, from[1] = host;
    WORKS(batch(to, from, sizes, 4, a, firsts, 1, stream), "to the host, and on the host");
    MUST(cudaStreamSynchronize(stream));
    VALUE("on the host", "%d", memcmp(other + 1024, host, 1024) == 0);
}

static void volumes()
{
    cudaMemcpy3DBatchOp op[2];
    cudaArray_t array;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<char>();
    MUST(cudaMalloc3DArray(&array, &d, make_cudaExtent(16, 8, 4)));
    memset(op, 0, sizeof op);
    SAYS(boxes(1, op, 0, stream), "all zero");
    op[0].src.type = cudaMemcpyOperandTypePointer;
    op[0].src.op.ptr.ptr = host;
    op[0].src.op.ptr.rowLength = 16;
    op[0].src.op.ptr.layerHeight = 8;
    op[0].dst.type = cudaMemcpyOperandTypePointer;
    op[0].dst.op.ptr.ptr = device;
    op[0].extent = make_cudaExtent(16, 8, 4);
    op[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    op[1] = op[0];
    op[1].dst.type = cudaMemcpyOperandTypeArray;
    memset(&op[1].dst.op, 0, sizeof op[1].dst.op);
    op[1].dst.op.array.array = array;
    WORKS(boxes(1, op, 0, stream), "lines without gaps");
    SAYS(boxes(2, op, 0, stream), "to an array, too");
    WORKS(cudaMemcpyAsync(other, device, 512, cudaMemcpyDeviceToHost, stream), "behind it");
    WORKS(cudaStreamSynchronize(stream), "all");
    VALUE("differs", "%d", memcmp(other, host, 512) != 0);
    SAYS(boxes(0, op, 0, stream), "none");
    SAYS(boxes(0, NULL, 0, stream), "nothing");
    SAYS(boxes(1, NULL, 0, stream), "null list");
    SAYS(boxes(1, op, 1, stream), "flags");
    SAYS(boxes(1, op, 0, 0), "stream 0");
    SAYS(boxes(1, op, 0, WRONG(cudaStream_t)), "no stream");
    for (int order = 0; order <= 4; order++) {
        op[0].srcAccessOrder = (cudaMemcpySrcAccessOrder)order;
        SAYS(boxes(1, op, 0, stream), "an order");
    }
    op[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    op[0].flags = 1;
    SAYS(boxes(1, op, 0, stream), "flag 1 of a copy");
    op[0].flags = 2;
    SAYS(boxes(1, op, 0, stream), "flag 2 of a copy");
    op[0].flags = 0;
    op[0].src.op.ptr.rowLength = 15;
    SAYS(boxes(1, op, 0, stream), "rows shorter than the box");
    op[0].src.op.ptr.rowLength = 16;
    op[0].src.op.ptr.layerHeight = 7;
    SAYS(boxes(1, op, 0, stream), "layers lower than the box");
    op[0].src.op.ptr.layerHeight = 8;
    op[0].src.type = (cudaMemcpy3DOperandType)3;
    SAYS(boxes(1, op, 0, stream), "an unknown operand");
    op[0].src.type = cudaMemcpyOperandTypePointer;
    op[0].extent = make_cudaExtent(0, 8, 4);
    SAYS(boxes(1, op, 0, stream), "no width");
    op[0].extent = make_cudaExtent(16, 8, 0);
    SAYS(boxes(1, op, 0, stream), "no depth");
    op[0].extent = make_cudaExtent(16, 8, 4);
    op[0].dst.op.ptr.ptr = NULL;
    SAYS(boxes(1, op, 0, stream), "to null");
    VALUE("failed", "%zu", failed);
    op[1].dst.op.array.array = NULL;
    SAYS(boxes(1, op + 1, 0, stream), "null array");
    op[1].dst.op.array.array = array;
    op[1].dst.op.array.offset.x = 1;
    SAYS(boxes(1, op + 1, 0, stream), "beyond the array");
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaFreeArray(array));
}

static void waits()
{
    struct gate *g = gate_new();
    void *to[1] = { device }, *from[1] = { pinned };
    size_t sizes[1] = { 4096 }, firsts[1] = { 0 };
    cudaMemcpyAttributes a[1] = { of(1) };
    cudaStream_t apart;
    cudaGraph_t graph = NULL;
    MUST(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    WAITS_FOR_KERNEL(false, g, stream, , batch(to, from, sizes, 1, a, firsts, 1, stream), "from pinned memory");
    WAITS_FOR_KERNEL(false, g, stream, , batch(to, from, sizes, 1, a, firsts, 1, apart), "another stream");
    a[0] = of(2);
    WAITS_FOR_KERNEL(false, g, stream, , batch(to, from, sizes, 1, a, firsts, 1, stream), "read during the call");
    from[0] = host;
    WAITS_FOR_KERNEL(false, g, stream, , batch(to, from, sizes, 1, a, firsts, 1, stream),
                     "pageable, read during the call");
    /* What is read during the call may change behind it. */
    memset(host, 5, sizeof host);
    gate_close(g, stream, 100000);
    WORKS(batch(to, from, sizes, 1, a, firsts, 1, stream), "read during the call");
    memset(host, 6, sizeof host);
    gate_open(g);
    WORKS(cudaMemcpy(other, device, 4096, cudaMemcpyDeviceToHost), "the result");
    VALUE("value", "%d", other[100]);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    SAYS(batch(to, from, sizes, 1, a, firsts, 1, stream), "captured");
    SAYS(cudaStreamEndCapture(stream, &graph), "captured");
    if (graph)
        MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(apart));
}

#if RUNTIME >= 13
static void managed()
{
    void *p, *list[1];
    size_t sizes[1] = { 4096 }, firsts[1] = { 0 };
    cudaMemLocation place;
    memset(&place, 0, sizeof place);
    place.type = cudaMemLocationTypeDevice;
    MUST(cudaMallocManaged(&p, 4096, cudaMemAttachGlobal));
    list[0] = p;
    SAYS(cudaMemPrefetchBatchAsync(list, sizes, 1, &place, firsts, 1, 0, stream), "managed memory");
    SAYS(cudaMemDiscardBatchAsync(list, sizes, 1, 0, stream), "managed memory");
    SAYS(cudaMemDiscardAndPrefetchBatchAsync(list, sizes, 1, &place, firsts, 1, 0, stream), "managed memory");
    SAYS(cudaMemPrefetchBatchAsync(NULL, NULL, 0, NULL, NULL, 0, 0, stream), "nothing");
    SAYS(cudaMemDiscardBatchAsync(NULL, NULL, 0, 0, stream), "nothing");
    SAYS(cudaMemPrefetchBatchAsync(list, sizes, 1, &place, firsts, 1, 1, stream), "flags");
    MUST(cudaFree(p));
}
#endif

#if RUNTIME >= 13
/* The functions themselves; those above go through batch() and boxes(), for the forms of two releases. */
static void refused()
{
    void *to[1] = { device };
    const void *from[1] = { host };
    size_t size = 64, first = 0;
    cudaMemcpyAttributes a = of(1);
    WORKS(cudaMemcpyBatchAsync(to, from, &size, 1, &a, &first, 1, stream), "one copy");
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(NULL, from, &size, 1, &a, &first, 1, stream), "no targets");
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, NULL, 1, &a, &first, 1, stream), "no sizes");
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, &size, 1, NULL, &first, 1, stream), "no attributes");
    GIVES(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, &size, 1, &a, &first, 2, stream), "too many of them");
    SAYS(cudaMemcpyBatchAsync(to, from, &size, 1, &a, &first, 1, WRONG(cudaStream_t)), "no stream");
    cudaMemcpy3DBatchOp op;
    memset(&op, 0, sizeof op);
    op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
    op.src.op.ptr.ptr = host;
    op.dst.op.ptr.ptr = device;
    op.src.op.ptr.rowLength = op.dst.op.ptr.rowLength = 16;
    op.src.op.ptr.layerHeight = op.dst.op.ptr.layerHeight = 2;
    op.extent = make_cudaExtent(16, 2, 1);
    op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    WORKS(cudaMemcpy3DBatchAsync(1, &op, 0, stream), "one box");
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(1, NULL, 0, stream), "null list");
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(1, &op, 1, stream), "flags");
    op.src.type = (cudaMemcpy3DOperandType)9;
    GIVES(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(1, &op, 0, stream), "a side of type 9");
    WORKS(cudaStreamSynchronize(stream), "all");
}
#endif

int main()
{
    MUST(cudaFree(0));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaMalloc((void **)&device, 4096));
    MUST(cudaMallocHost((void **)&pinned, 4096));
    lines();
    volumes();
    waits();
#if RUNTIME >= 13
    managed();
    refused();
#endif
    return 0;
}
