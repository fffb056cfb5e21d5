/* cuda.cu: the kernels of kernels.h as CUDA, for `make bench-softgpu`. */
#include <cuda_runtime.h>

#include "kernels.h"

#include "cases.h"

static void *memory[BENCH_BUFFERS];

static const void *kernel_of(const char *name)
{
    static const struct { const char *name; const void *kernel; } kernels[] = {
#define KERNEL_OF(name) { #name, (const void *)name }
        KERNEL_OF(vector_add), KERNEL_OF(stencil), KERNEL_OF(collatz), KERNEL_OF(matmul), KERNEL_OF(nbody),
        KERNEL_OF(histogram), KERNEL_OF(black_scholes), KERNEL_OF(fma_chain), KERNEL_OF(reduction),
        KERNEL_OF(transpose), KERNEL_OF(grey),
    };
    for (const auto &k : kernels)
        if (!strcmp(k.name, name))
            return k.kernel;
    return NULL;
}

static int form_prepare(const struct bench_case *c)
{
    for (unsigned k = 0; k < BENCH_BUFFERS; k++) {
        cudaFree(memory[k]);
        memory[k] = NULL;
    }
    for (unsigned k = 0; k < bench_buffers(c); k++)
        if (cudaMalloc(&memory[k], bench_size(&c->buffers[k])))
            return -1;
    return 0;
}
static int form_write(const struct bench_case *, unsigned buffer, const void *from, size_t bytes)
{
    return cudaMemcpy(memory[buffer], from, bytes, cudaMemcpyHostToDevice);
}
static int form_read(const struct bench_case *, unsigned buffer, void *to, size_t bytes)
{
    return cudaMemcpy(to, memory[buffer], bytes, cudaMemcpyDeviceToHost);
}
static int form_run(const struct bench_case *c)
{
    void *arguments[BENCH_BUFFERS + BENCH_NUMBERS];
    unsigned n = 0;
    for (; n < bench_buffers(c); n++)
        arguments[n] = &memory[n];
    for (unsigned k = 0; k < c->number_count; k++)
        arguments[n++] = (void *)&c->numbers[k];
    const dim3 grid(c->grid[0], c->grid[1]), block(c->block[0], c->block[1]);
    return cudaLaunchKernel(kernel_of(c->name), grid, block, arguments, 0, 0) || cudaDeviceSynchronize();
}

__global__ void empty() { }

/* The best time of a launch and the wait for it, in µs. */
static int bench_empty(void)
{
    double best = 1e9;
    for (int k = 0; k < 2000; k++) {
        const double before = bench_clock(CLOCK_MONOTONIC);
        empty<<<1, 1>>>();
        if (cudaDeviceSynchronize())
            return 1;
        const double t = bench_clock(CLOCK_MONOTONIC) - before;
        best = t < best ? t : best;
    }
    printf("empty %.3f\n", best * 1e6);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "empty"))
        return bench_empty();
    return bench_all(argc > 1 ? argv[1] : NULL);
}
