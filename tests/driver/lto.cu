/* lto.cu: what links.py gives to nvJitLink as LTO IR in a fat binary. */
__device__ int forty() { return 40; }
extern "C" __global__ void add(int *p) { *p += forty(); }
