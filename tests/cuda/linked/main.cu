// shows: fat binaries: relocatable device code, two translation units linked (the prelinked PTX is used)
// shows: static kernels and variables of the same name in two translation units stay apart
#include "../check.h"

extern __device__ int shared_total;
extern __device__ int from_other_unit(int x);
extern cudaError_t run_other(int *out);
extern __constant__ int shared_table[4];

static __device__ int own = 100;
static __global__ void same_name(int *out) { out[0] = own; shared_total += 5; }
__global__ void across(int *out) { out[1] = from_other_unit(20) + shared_table[3]; }

int main()
{
    int *d, h[4] = {0}, table[4] = {1, 2, 3, 4000}, total = 0;
    MUST(cudaMalloc((void **)&d, sizeof h));
    MUST(cudaMemcpyToSymbol(shared_table, table, sizeof table));
    same_name<<<1, 1>>>(d);
    across<<<1, 1>>>(d);
    MUST(run_other(d + 2));
    MUST(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpyFromSymbol(&total, shared_total, sizeof total));
    HOLDS(h[0] == 100 && h[1] == 21 * 2 + 4000 && h[2] == 200 && total == 5 + 7);
    return check_result("linked");
}
