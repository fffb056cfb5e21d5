// shows: launch: the rounding mode and the floating-point traps of the program's threads do not reach kernels
#include "check.h"

#include <fenv.h>

__global__ void compute(float *x)
{
    x[2] = x[0] + x[1];
    x[3] = x[0] / x[4];
}

int main()
{
    float x[5] = { 1, 0x1p-30f, 0, 0, 0 }, *device;
    fesetround(FE_UPWARD);
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    MUST(cudaMalloc((void **)&device, sizeof x));
    MUST(cudaMemcpy(device, x, sizeof x, cudaMemcpyHostToDevice));
    compute<<<1, 1>>>(device);
    MUST(cudaMemcpy(x, device, sizeof x, cudaMemcpyDeviceToHost));
    HOLDS(x[2] == 1);
    HOLDS(x[3] > 3e38f);
    MUST(cudaFree(device));
    return check_result("rounding");
}
