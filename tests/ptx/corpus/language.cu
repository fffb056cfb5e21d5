// What the language gives: templates, classes, printf, assert, device heap, switch, atomics, constants, recursion.
#include <cassert>
#include <cstdio>

__device__ int table[4] = {1, 2, 3, 4};
__device__ int *inside = &table[2];
__constant__ float factors[3] = {1.5f, 2, 3};
__managed__ int managed = 7;
static __device__ const char *const names[] = {"one", "two"};
struct Base { __device__ virtual int f(int x) { return x + 1; } __device__ virtual ~Base() {} };
struct Derived : Base { int y = 3; __device__ int f(int x) override { return x * y; } };
struct __align__(16) Big { double d[3]; char c; };
typedef int (*Function)(int);
__device__ __noinline__ int twice(int x) { return x * 2; }
__device__ __noinline__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
__device__ Function functions[] = {twice, factorial};

__global__ void __launch_bounds__(256, 2) everything(Big big, int *out, int n)
{
    extern __shared__ int shared[];
    __shared__ double fixed[32];
    Base *object = n > 5 ? new Base : new Derived;
    shared[threadIdx.x] = object->f(n);
    fixed[threadIdx.x & 31] = big.d[n % 3];
    __syncthreads();
    assert(n != 99);
    printf("%s %d %f\n", names[n & 1], n, fixed[5]);
    int local[8];
    for (int i = 0; i < n; i++)
        local[(i * 7) & 7] = shared[i] + functions[n & 1](i);
    out[threadIdx.x] = local[n & 7] + *inside + managed + (int)factors[n % 3];
    switch (n) {
    case 0: out[1] = 5; break;
    case 1: out[2] = 9; break;
    case 2: out[7] = 11; break;
    case 3: out[9] = out[4]; break;
    case 4: out[3] = out[2]; break;
    case 5: out[1] = out[8]; break;
    case 6: out[11] = 2; break;
    case 7: out[5] = out[6]; break;
    }
    delete object;
}

template <class T> __global__ void add(T *a, T b)
{
    a[blockIdx.x * blockDim.x + threadIdx.x] += b;
    atomicAdd(a, b);
}
template __global__ void add<float>(float *, float);
template __global__ void add<double>(double *, double);
template __global__ void add<unsigned long long>(unsigned long long *, unsigned long long);
static __global__ void hidden(int *a) { asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p st.u32 [%0], %1; L: }" :: "l"(a), "r"(*a)); asm volatile("{ bra L; L: }"); }
void use() { hidden<<<1, 1>>>(nullptr); }
