// shows: launch: a plain program with one kernel, from registration to result
// shows: linear copies: host to device, device to host, synchronous
#include "check.h"

__global__ void vector_add(const float *a, const float *b, float *sum, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        sum[i] = a[i] + b[i];
}

int main()
{
    const int count = 100000;
    const size_t size = count * sizeof(float);
    float *a = (float *)malloc(size), *b = (float *)malloc(size), *sum = (float *)malloc(size);
    for (int i = 0; i < count; i++) {
        a[i] = 0.5f * i;
        b[i] = 3.0f * i + 1;
        sum[i] = -1;
    }
    struct cudaDeviceProp properties;
    MUST(cudaGetDeviceProperties(&properties, 0));
    printf("device: %s, compute capability %d.%d, %d SMs, %zu MiB\n", properties.name, properties.major,
           properties.minor, properties.multiProcessorCount, properties.totalGlobalMem >> 20);

    float *da, *db, *dsum;
    MUST(cudaMalloc((void **)&da, size));
    MUST(cudaMalloc((void **)&db, size));
    MUST(cudaMalloc((void **)&dsum, size));
    MUST(cudaMemcpy(da, a, size, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(db, b, size, cudaMemcpyHostToDevice));
    vector_add<<<(count + 255) / 256, 256>>>(da, db, dsum, count);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(sum, dsum, size, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += sum[i] != a[i] + b[i];
    printf("%d elements added, %d wrong\n", count, wrong);
    HOLDS(wrong == 0);
    MUST(cudaFree(da));
    MUST(cudaFree(db));
    MUST(cudaFree(dsum));
    free(a);
    free(b);
    free(sum);
    return check_result("vector_add");
}
