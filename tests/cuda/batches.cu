// shows: batched copies: lines between memory of all kinds and boxes between memory and arrays give what the same
//   copies give in a model; they keep their place in the stream; when sources are read; what is refused
#include "check.h"

#if CUDART_VERSION >= 12080
#if CUDART_VERSION >= 13000
#define COPY_LINES cudaMemcpyBatchAsync
#define COPY_BOXES cudaMemcpy3DBatchAsync
#else
/* CUDA 12 also says which copy failed. */
static size_t failed;
static cudaError_t COPY_LINES(void **to, const void **from, size_t *sizes, size_t count,
                              cudaMemcpyAttributes *attributes, size_t *firsts, size_t sets, cudaStream_t stream)
{
    return cudaMemcpyBatchAsync(to, (void **)from, sizes, count, attributes, firsts, sets, &failed, stream);
}
static cudaError_t COPY_BOXES(size_t count, cudaMemcpy3DBatchOp *list, unsigned long long flags, cudaStream_t stream)
{
    return cudaMemcpy3DBatchAsync(count, list, &failed, flags, stream);
}
#endif

static cudaMemcpyAttributes in_order(void)
{
    cudaMemcpyAttributes a = {};
    a.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    return a;
}

/* ---- lines ---- */

enum { SIDE = 4096, SIDES = 4, ROUNDS = 60, MOST = 12 };

struct place {
    unsigned char *memory, *model;
    bool device;
};

static void make_places(struct place *places)
{
    for (int i = 0; i < SIDES; i++) {
        struct place *p = &places[i];
        p->device = i >= 2;
        p->model = (unsigned char *)malloc(SIDE);
        if (i == 0)
            p->memory = (unsigned char *)malloc(SIDE);
        else if (i == 1)
            MUST(cudaMallocHost((void **)&p->memory, SIDE));
        else
            MUST(cudaMalloc((void **)&p->memory, SIDE));
        for (int k = 0; k < SIDE; k++)
            p->model[k] = (unsigned char)rand();
        MUST(cudaMemcpy(p->memory, p->model, SIDE, cudaMemcpyDefault));
    }
}

static void compare_places(const struct place *places)
{
    static unsigned char now[SIDE];
    for (int i = 0; i < SIDES; i++) {
        MUST(cudaMemcpy(now, places[i].memory, SIDE, cudaMemcpyDefault));
        HOLDS(!memcmp(now, places[i].model, SIDE));
    }
}

/* No copy of a batch reads or writes what another one writes: sources lie in the first half, targets in the second,
   each in a part of its own. */
static void random_lines(cudaStream_t stream)
{
    struct place places[SIDES];
    make_places(places);
    for (int round = 0; round < ROUNDS; round++) {
        void *to[MOST];
        const void *from[MOST];
        size_t sizes[MOST], firsts[MOST];
        cudaMemcpyAttributes attributes[MOST];
        size_t count = 1 + rand() % MOST, sets = 0;
        for (size_t i = 0; i < count; i++) {
            struct place *target = &places[rand() % SIDES], *source = &places[rand() % SIDES];
            size_t part = SIDE / 2 / MOST, at = SIDE / 2 + i * part + rand() % 8, origin = rand() % (SIDE / 2 - part);
            sizes[i] = 1 + rand() % (part - 9);
            to[i] = target->memory + at;
            from[i] = source->memory + origin;
            memcpy(target->model + at, source->model + origin, sizes[i]);
            if (i == 0 || rand() % 3 == 0) {
                firsts[sets] = i;
                attributes[sets] = in_order();
                attributes[sets].srcAccessOrder = (cudaMemcpySrcAccessOrder)(1 + rand() % 3);
                attributes[sets++].flags = rand() % 2;
            }
        }
        MUST(COPY_LINES(to, from, sizes, count, attributes, firsts, sets, stream));
        MUST(cudaStreamSynchronize(stream));
        compare_places(places);
    }
}

/* ---- order, and when sources are read ---- */

__global__ void add_one(int *numbers, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        numbers[i]++;
}

static void order_among_work(cudaStream_t stream)
{
    enum { COUNT = 1000 };
    int *device, *pinned, *result;
    MUST(cudaMalloc((void **)&device, COUNT * sizeof *device));
    MUST(cudaMallocHost((void **)&pinned, COUNT * sizeof *pinned));
    MUST(cudaMallocHost((void **)&result, COUNT * sizeof *result));
    for (int i = 0; i < COUNT; i++)
        pinned[i] = i;
    cudaMemcpyAttributes attributes = in_order();
    size_t first = 0, bytes = COUNT * sizeof *device;
    void *to = device;
    const void *from = pinned;
    MUST(COPY_LINES(&to, &from, &bytes, 1, &attributes, &first, 1, stream));
    add_one<<<(COUNT + 255) / 256, 256, 0, stream>>>(device, COUNT);
    to = result, from = device;
    MUST(COPY_LINES(&to, &from, &bytes, 1, &attributes, &first, 1, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++)
        HOLDS(result[i] == i + 1);

    /* "during the call": page-locked memory may be changed at once, and so may the device's, by another stream */
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
    to = device, from = pinned;
    MUST(COPY_LINES(&to, &from, &bytes, 1, &attributes, &first, 1, stream));
    memset(pinned, 0xff, bytes);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(result, device, bytes, cudaMemcpyDefault));
    for (int i = 0; i < COUNT; i++)
        HOLDS(result[i] == i);
}

/* ---- boxes ---- */

static cudaMemcpy3DOperand memory_at(void *memory, size_t row, size_t rows)
{
    cudaMemcpy3DOperand o = {};
    o.type = cudaMemcpyOperandTypePointer;
    o.op.ptr.ptr = memory;
    o.op.ptr.rowLength = row;
    o.op.ptr.layerHeight = rows;
    return o;
}

static cudaMemcpy3DOperand array_at(cudaArray_t array, size_t x, size_t y, size_t z)
{
    cudaMemcpy3DOperand o = {};
    o.type = cudaMemcpyOperandTypeArray;
    o.op.array.array = array;
    o.op.array.offset.x = x, o.op.array.offset.y = y, o.op.array.offset.z = z;
    return o;
}

static cudaMemcpy3DBatchOp box(cudaMemcpy3DOperand to, cudaMemcpy3DOperand from, size_t width, size_t height,
                               size_t depth)
{
    cudaMemcpy3DBatchOp op = {};
    op.dst = to, op.src = from;
    op.extent = make_cudaExtent(width, height, depth);
    op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    return op;
}

/* Memory to an array (elements of 8 bytes), array to array, array to memory; the device's memory with rows of its
 * own. */
static void boxes(cudaStream_t stream)
{
    enum { W = 9, H = 7, D = 5 };
    static float2 host[D][H][W], back[D][H][W];
    for (float *f = (float *)host; f < (float *)(host + D); f++)
        *f = (float)rand();
    cudaArray_t first, second;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
    MUST(cudaMalloc3DArray(&first, &format, make_cudaExtent(W, H, D)));
    MUST(cudaMalloc3DArray(&second, &format, make_cudaExtent(W, H, D)));
    unsigned char *device;
    MUST(cudaMalloc((void **)&device, 2 * D * 10 * 100));
    cudaMemcpy3DBatchOp fill[2] = { box(array_at(first, 0, 0, 0), memory_at(host, W, H), W, H, D),
                                    box(memory_at(device, 100, 10), memory_at(host, 0, 0), W * 8, H, D) };
    MUST(COPY_BOXES(2, fill, 0, stream));
    cudaMemcpy3DBatchOp move = box(array_at(second, 1, 2, 1), array_at(first, 2, 1, 2), W - 2, H - 2, D - 2);
    MUST(COPY_BOXES(1, &move, 0, stream));
    cudaMemcpy3DBatchOp out = box(memory_at(&back[1][2][1], W, H), array_at(second, 1, 2, 1), W - 2, H - 2, D - 2);
    MUST(COPY_BOXES(1, &out, 0, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int z = 0; z < D - 2; z++)
        for (int y = 0; y < H - 2; y++)
            HOLDS(!memcmp(&back[z + 1][y + 2][1], &host[z + 2][y + 1][2], (W - 2) * 8));
    memset(back, 0, sizeof back);
    out = box(memory_at(back, 0, 0), memory_at(device, 100, 10), W * 8, H, D);
    MUST(COPY_BOXES(1, &out, 0, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(!memcmp(back, host, sizeof host));
}

/* ---- what is refused ---- */

static void refused(cudaStream_t stream)
{
    char *device, *source, bytes[64] = { 0 };
    MUST(cudaMalloc((void **)&device, 64));
    MUST(cudaMallocHost((void **)&source, 64));
    memset(source, 1, 64);
    MUST(cudaMemset(device, 0, 64));
    void *to[2] = { device, device + 32 };
    const void *from[2] = { source, source };
    size_t sizes[2] = { 8, 8 }, firsts[2] = { 0, 1 };
    cudaMemcpyAttributes a[2] = { in_order(), in_order() };
#define LINES(n, sets, s) COPY_LINES(to, from, sizes, n, a, firsts, sets, s)
    GIVES(cudaErrorInvalidValue, LINES(2, 1, (cudaStream_t)0));
    GIVES(cudaErrorInvalidValue, LINES(2, 1, cudaStreamLegacy));
    GIVES(cudaErrorInvalidValue, LINES(0, 0, stream));
    GIVES(cudaErrorInvalidValue, LINES(2, 0, stream));
    GIVES(cudaErrorInvalidValue, LINES(1, 2, stream));
    firsts[0] = 1;
    GIVES(cudaErrorInvalidValue, LINES(2, 1, stream));
    firsts[0] = firsts[1] = 0;
    GIVES(cudaErrorInvalidValue, LINES(2, 2, stream));
    firsts[1] = 2;
    GIVES(cudaErrorInvalidValue, LINES(2, 2, stream));
    firsts[1] = 1;
    a[1].srcAccessOrder = (cudaMemcpySrcAccessOrder)0; /* what is wrong with the second stops the first */
    GIVES(cudaErrorInvalidValue, LINES(2, 2, stream));
    a[1] = in_order();
    to[1] = NULL;
    GIVES(cudaErrorInvalidValue, LINES(2, 2, stream));
    cudaMemcpy3DBatchOp op = box(memory_at(device, 4, 0), memory_at(source, 0, 0), 8, 1, 1);
    GIVES(cudaErrorInvalidValue, COPY_BOXES(1, &op, 0, stream)); /* rows shorter than the extent */
    op = box(memory_at(device, 0, 0), memory_at(source, 0, 0), 8, 0, 1);
    GIVES(cudaErrorInvalidValue, COPY_BOXES(1, &op, 0, stream));
    op = box(memory_at(device, 0, 0), memory_at(source, 0, 0), 8, 1, 1);
    GIVES(cudaErrorInvalidValue, COPY_BOXES(1, &op, 1, stream));
    GIVES(cudaErrorInvalidValue, COPY_BOXES(1, &op, 0, (cudaStream_t)0));
    GIVES(cudaErrorInvalidValue, COPY_BOXES(0, &op, 0, stream));
    GIVES(cudaErrorInvalidValue, COPY_BOXES(1, NULL, 0, stream));
    op.src.type = (cudaMemcpy3DOperandType)3;
    GIVES(cudaErrorInvalidValue, COPY_BOXES(1, &op, 0, stream));
    MUST(cudaMemcpy(bytes, device, 64, cudaMemcpyDefault));
    for (int i = 0; i < 64; i++)
        HOLDS(bytes[i] == 0);
}

int main()
{
    cudaStream_t stream;
    srand(7);
    MUST(cudaStreamCreate(&stream));
    random_lines(stream);
    random_lines(cudaStreamPerThread);
    order_among_work(stream);
    boxes(stream);
    refused(stream);
    return check_result("batches");
}
#else
int main()
{
    printf("batches: this CUDA has no batched copies\n");
    return 77;
}
#endif
