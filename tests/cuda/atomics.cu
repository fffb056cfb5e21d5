// shows: atomics: every operation on 32 and 64 bits and floats, global and shared, against a serial reference
#include "check.h"

__global__ void all(unsigned *u, int *s, unsigned long long *l, float *f, double *d)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&u[0], i);
    atomicSub(&u[1], 3u);
    atomicMin(&s[0], (int)i - 500);
    atomicMax(&s[1], (int)i * 2);
    atomicInc(&u[2], 17u);
    atomicDec(&u[3], 23u);
    atomicAnd(&u[4], ~(1u << (i % 13)));
    atomicOr(&u[5], 1u << (i % 29));
    atomicXor(&u[6], i * 2654435761u);
    atomicAdd(&l[0], (unsigned long long)i << 20);
    atomicMax(&l[1], (unsigned long long)i * i);
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d[0], 0.25);
    unsigned long long seen = l[2], old;
    do {
        old = seen;
        seen = atomicCAS(&l[2], old, old * 1 + 3);
    } while (seen != old);
    __shared__ unsigned bins[8];
    if (threadIdx.x < 8)
        bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[i & 7], 1u);
    __syncthreads();
    if (threadIdx.x < 8)
        atomicAdd(&u[8 + threadIdx.x], bins[threadIdx.x]);
    if (i == 77)
        atomicExch(&u[7], 99u);
}

int main()
{
    const unsigned count = 96 * 128;
    unsigned *du, u[16] = {0, 0, 0, 5, ~0u, 0, 0, 0};
    int *ds, s[2] = {1000, -1000};
    unsigned long long *dl, l[3] = {0, 0, 0};
    float *df, f = 0;
    double *dd, d = 0;
    MUST(cudaMalloc((void **)&du, sizeof u));
    MUST(cudaMalloc((void **)&ds, sizeof s));
    MUST(cudaMalloc((void **)&dl, sizeof l));
    MUST(cudaMalloc((void **)&df, sizeof f));
    MUST(cudaMalloc((void **)&dd, sizeof d));
    MUST(cudaMemcpy(du, u, sizeof u, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(ds, s, sizeof s, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(dl, l, sizeof l, cudaMemcpyHostToDevice));
    MUST(cudaMemset(df, 0, sizeof f));
    MUST(cudaMemset(dd, 0, sizeof d));
    all<<<96, 128>>>(du, ds, dl, df, dd);
    MUST(cudaMemcpy(u, du, sizeof u, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(s, ds, sizeof s, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(l, dl, sizeof l, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(&f, df, sizeof f, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(&d, dd, sizeof d, cudaMemcpyDeviceToHost));
    unsigned x = 0, inc = 0, dec = 5;
    for (unsigned i = 0; i < count; i++) {
        x ^= i * 2654435761u;
        inc = inc >= 17 ? 0 : inc + 1;
        dec = dec == 0 || dec > 23 ? 23 : dec - 1;
    }
    HOLDS(u[0] == count * (count - 1) / 2);
    HOLDS(u[1] == 0u - 3 * count);
    HOLDS(u[2] == inc && u[3] == dec);
    HOLDS(u[4] == ~0x1fffu && u[5] == 0x1fffffffu && u[6] == x && u[7] == 99);
    HOLDS(s[0] == -500 && s[1] == (int)(count - 1) * 2);
    HOLDS(l[0] == ((unsigned long long)count * (count - 1) / 2) << 20);
    HOLDS(l[1] == (unsigned long long)(count - 1) * (count - 1));
    HOLDS(l[2] == 3ull * count);
    HOLDS(f == count * 0.5f && d == count * 0.25);
    for (int i = 0; i < 8; i++)
        HOLDS(u[8 + i] == count / 8);
    return check_result("atomics");
}
