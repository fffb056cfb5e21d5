/* What kernels.c looks for: one kernel, and a function that is none. */
__device__ __noinline__ int one_more(int x) { return x + 1; }
extern "C" __global__ void twice(int *x) { *x = 2 * one_more(*x); }
