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

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Launches an empty kernel `row` times and waits, over and over. A line as bench_all() prints: the median and the CPU
   time of one such row, in µs. */
static int bench_launches(const char *name, unsigned grid, unsigned block, int row)
{
    enum { TIMES = 20000 };
    static double times[TIMES];
    const int count = TIMES / row, before_count = count / 10;
    double cpu = 0;
    for (int k = -before_count; k < count; k++) {
        if (!k)
            cpu = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
        const double before = bench_clock(CLOCK_MONOTONIC);
        for (int i = 0; i < row; i++)
            empty<<<grid, block>>>();
        if (cudaDeviceSynchronize())
            return 1;
        if (k >= 0)
            times[k] = bench_clock(CLOCK_MONOTONIC) - before;
    }
    cpu = (bench_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu) / count;
    qsort(times, count, sizeof *times, compare_times);
    printf("%s %.3f %.3f 0\n", name, times[count / 2] * 1e6, cpu * 1e6);
    return 0;
}

static int bench_empty(void)
{
    return bench_launches("empty_1x1", 1, 1, 1) || bench_launches("empty_1x32", 1, 32, 1) ||
           bench_launches("empty_16x256", 16, 256, 1) || bench_launches("empty_row_of_1000", 1, 1, 1000);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "empty"))
        return bench_empty();
    return bench_all(argc > 1 ? argv[1] : NULL);
}
