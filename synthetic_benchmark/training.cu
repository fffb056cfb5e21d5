/*
 * training.cu: trains a network of two layers (forward, backward, Adam), and waits for the loss of each step, as
 * training does. Beside what changes in each step (weights, gradients, Adam's averages) it holds memory that does not,
 * as for a data set or a part of a network that is frozen. No sum depends on the order of threads.
 *
 *     training STEPS WIDTH HELD_MB          time_us: of all steps but the first; loss: the last one's bits
 */
#include "bench.h"

enum { BATCH = 8, BLOCK = 128 };

struct layer { float *weights, *gradient, *mean, *square; };

/* out[b][j] = sum of in[b][i] * weights[i][j], below 0 only a little of it */
__global__ static void forward(const float *in, const float *weights, float *out, int width)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    float sum = 0;
    for (int i = 0; i < width; i++)
        sum += in[b * width + i] * weights[i * width + j];
    out[b * width + j] = sum > 0 ? sum : 0.01f * sum;
}

/* The loss is the mean square of what `out` misses `wanted` by; error: its derivative. One thread. */
__global__ static void compare(const float *out, const float *wanted, float *error, float *loss, int count)
{
    float sum = 0;
    for (int i = 0; i < count; i++) {
        const float miss = out[i] - wanted[i];
        error[i] = 2 * miss / (float)count;
        sum += miss * miss;
    }
    *loss = sum / (float)count;
}

/* gradient[i][j] = sum of in[b][i] * error[b][j] */
__global__ static void backward(const float *in, const float *out, const float *error, float *gradient, int width)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    float sum = 0;
    for (int b = 0; b < BATCH; b++)
        sum += in[b * width + i] * error[b * width + j] * (out[b * width + j] > 0 ? 1 : 0.01f);
    gradient[i * width + j] = sum;
}

/* before[b][i] = sum of error[b][j] * weights[i][j] */
__global__ static void error_before(const float *error, const float *weights, float *before, int width)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    float sum = 0;
    for (int j = 0; j < width; j++)
        sum += error[b * width + j] * weights[i * width + j];
    before[b * width + i] = sum;
}

__global__ static void adam(struct layer layer, float corrects_mean, float corrects_square)
{
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    const float g = layer.gradient[i];
    const float mean = layer.mean[i] = 0.9f * layer.mean[i] + 0.1f * g;
    const float square = layer.square[i] = 0.999f * layer.square[i] + 0.001f * g * g;
    layer.weights[i] -= 1e-3f * mean * corrects_mean / (sqrtf(square * corrects_square) + 1e-8f);
}

static void fill(float *to, size_t count, uint32_t seed, float scale)
{
    float *values = (float *)malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = scale * ((float)(seed >> 8) / (float)(1 << 23) - 1);
    }
    MUST(cudaMemcpy(to, values, count * sizeof *values, cudaMemcpyHostToDevice));
    free(values);
}

static float *room(size_t count)
{
    float *at;
    MUST(cudaMalloc((void **)&at, count * sizeof *at));
    MUST(cudaMemset(at, 0, count * sizeof *at));
    return at;
}

static struct layer layer_new(int width, uint32_t seed)
{
    const size_t count = (size_t)width * width;
    struct layer layer = { room(count), room(count), room(count), room(count) };
    fill(layer.weights, count, seed, 1 / sqrtf((float)width));
    return layer;
}

int main(int argc, char **argv)
{
    const int steps = argc == 4 ? atoi(argv[1]) : 0, width = argc == 4 ? atoi(argv[2]) : 0;
    if (steps < 2 || width < BLOCK || width % BLOCK) {
        fprintf(stderr, "usage: training STEPS WIDTH HELD_MB; WIDTH is a multiple of %d\n", (int)BLOCK);
        return 2;
    }
    const size_t held = (size_t)atoi(argv[3]) << 20, row = (size_t)BATCH * width;
    struct layer one = layer_new(width, 1), two = layer_new(width, 2);
    float *in = room(row), *wanted = room(row), *middle = room(row), *out = room(row), *error = room(row);
    float *error_middle = room(row), *loss_there = room(1), *frozen = held ? room(held / sizeof(float)) : NULL;
    if (frozen)
        fill(frozen, held / sizeof(float), 5, 1);
    fill(in, row, 3, 1);
    fill(wanted, row, 4, 1);
    const dim3 rows(width / BLOCK, BATCH), all(width / BLOCK, width);
    float loss = 0, mean = 1, square = 1;
    uint64_t begun = 0;
    for (int step = 0; step < steps; step++) {
        if (step == 1)
            begun = bench_now();
        mean *= 0.9f;
        square *= 0.999f;
        forward<<<rows, BLOCK>>>(in, one.weights, middle, width);
        forward<<<rows, BLOCK>>>(middle, two.weights, out, width);
        compare<<<1, 1>>>(out, wanted, error, loss_there, (int)row);
        backward<<<all, BLOCK>>>(middle, out, error, two.gradient, width);
        error_before<<<rows, BLOCK>>>(error, two.weights, error_middle, width);
        backward<<<all, BLOCK>>>(in, middle, error_middle, one.gradient, width);
        adam<<<width * (width / BLOCK), BLOCK>>>(one, 1 / (1 - mean), 1 / (1 - square));
        adam<<<width * (width / BLOCK), BLOCK>>>(two, 1 / (1 - mean), 1 / (1 - square));
        MUST(cudaGetLastError());
        MUST(cudaMemcpy(&loss, loss_there, sizeof loss, cudaMemcpyDeviceToHost));
    }
    uint32_t bits;
    memcpy(&bits, &loss, sizeof bits);
    printf("time_us %.3f\nloss %u\n", (double)(bench_now() - begun) / 1e3, bits);
    return 0;
}
