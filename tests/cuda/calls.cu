// shows: calls: recursion, function pointers, virtual functions, local arrays, device heap, long parameter lists
#include "check.h"

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ int twice(int x) { return 2 * x; }
__device__ int square(int x) { return x * x; }
typedef int (*function)(int);
__device__ function table[2] = {twice, square};

struct shape { __device__ virtual double area() const = 0; };
struct box : shape {
    double w, h;
    __device__ box(double a, double b) : w(a), h(b) {}
    __device__ double area() const override { return w * h; }
};
struct disc : shape {
    double r;
    __device__ disc(double a) : r(a) {}
    __device__ double area() const override { return 3.0 * r * r; }
};

struct large { int values[500]; double weight; };

__global__ void run(int *out, double *areas, large argument)
{
    int i = threadIdx.x;
    out[i] = fibonacci(i % 13);
    out[64 + i] = table[i & 1](i);
    int local[40];
    for (int k = 0; k < 40; k++)
        local[(k * 7 + i) % 40] = k;
    out[128 + i] = local[i % 40];
    shape *s;
    if (i % 2)
        s = new box(i, 2);
    else
        s = new disc(i);
    areas[i] = s->area();
    delete s;
    int *heap = (int *)malloc(100 * sizeof(int));
    for (int k = 0; k < 100; k++)
        heap[k] = k * i;
    out[192 + i] = heap[99];
    free(heap);
    out[256 + i] = argument.values[i * 7] + (int)argument.weight;
}

__global__ void deep(int n, int *out) { *out = fibonacci(n); }

int main()
{
    int *d, h[320];
    double *areas, a[64];
    large argument;
    for (int i = 0; i < 500; i++)
        argument.values[i] = i * 3;
    argument.weight = 1000.5;
    MUST(cudaMalloc((void **)&d, sizeof h));
    MUST(cudaMalloc((void **)&areas, sizeof a));
    run<<<1, 64>>>(d, areas, argument);
    MUST(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(a, areas, sizeof a, cudaMemcpyDeviceToHost));
    static const int fib[13] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144};
    for (int i = 0; i < 64; i++) {
        int local[40];
        for (int k = 0; k < 40; k++)
            local[(k * 7 + i) % 40] = k;
        HOLDS(h[i] == fib[i % 13]);
        HOLDS(h[64 + i] == (i & 1 ? i * i : 2 * i));
        HOLDS(h[128 + i] == local[i % 40]);
        HOLDS(h[192 + i] == 99 * i);
        HOLDS(h[256 + i] == i * 21 + 1000);
        HOLDS(a[i] == (i % 2 ? i * 2.0 : 3.0 * i * i));
    }
    deep<<<1, 1>>>(20, d);
    MUST(cudaMemcpy(h, d, sizeof(int), cudaMemcpyDeviceToHost));
    HOLDS(h[0] == 6765);
    return check_result("calls");
}
