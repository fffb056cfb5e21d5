/* linked.cu: what test_linker.c links: the same as its link_helper, as relocatable device code. */
extern "C" {
__device__ unsigned shared_value = 5000;
static __device__ unsigned own = 3;

static __device__ __noinline__ unsigned local(unsigned a) { return a << 1; }
__device__ __noinline__ unsigned twice(unsigned a) { return local(a) + own; }
}
