// shows: arithmetic: 128-bit integers (nvcc's __int128: division, remainder, product, sum, comparison), against the
//   host
#include "check.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

enum { RESULTS = 10 };

__host__ __device__ void operations(u128 a, u128 b, u128 *out)
{
    out[0] = a / b;
    out[1] = a % b;
    out[2] = (u128)((s128)a / (s128)b);
    out[3] = (u128)((s128)a % (s128)b);
    out[4] = a * b;
    out[5] = a - b;
    out[6] = a + b;
    out[7] = (a < b) + 2 * ((s128)a < (s128)b);
    out[8] = (a << (int)(b & 127)) ^ (a >> (int)(b & 127));
    out[9] = (u128)((s128)a >> (int)(b & 127));
}

__global__ void compute(const u128 *a, const u128 *b, u128 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        operations(a[i], b[i], out + i * RESULTS);
}

static unsigned long long state = 2026;
static unsigned long long some()
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    unsigned long long word = state ^ state >> 29;
    switch (state >> 61) {
    case 0:  return 0;
    case 1:  return ~0ull;
    case 2:  return word & 7;
    case 3:  return ~0ull << (word & 63);
    default: return word;
    }
}

int main()
{
    const int n = 4096;
    static u128 a[n], b[n], out[n * RESULTS];
    u128 *da, *db, *dout;
    for (int i = 0; i < n; i++) {
        a[i] = (u128)some() << 64 | some();
        do
            b[i] = (u128)some() << 64 | some();
        while (!b[i] || (a[i] == (u128)1 << 127 && !~b[i]));         // neither x / 0 nor the one signed overflow
    }
    a[0] = 0, b[0] = 1;
    a[1] = ~(u128)0, b[1] = 1;
    MUST(cudaMalloc((void **)&da, sizeof a));
    MUST(cudaMalloc((void **)&db, sizeof b));
    MUST(cudaMalloc((void **)&dout, sizeof out));
    MUST(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
    compute<<<n / 128, 128>>>(da, db, dout, n);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        u128 want[RESULTS];
        operations(a[i], b[i], want);
        for (int k = 0; k < RESULTS; k++)
            if (out[i * RESULTS + k] != want[k] && wrong++ < 5)
                fprintf(stderr,
                        "operation %d of %016llx%016llx and %016llx%016llx: %016llx%016llx, not %016llx%016llx\n", k,
                        (unsigned long long)(a[i] >> 64), (unsigned long long)a[i], (unsigned long long)(b[i] >> 64),
                        (unsigned long long)b[i], (unsigned long long)(out[i * RESULTS + k] >> 64),
                        (unsigned long long)out[i * RESULTS + k], (unsigned long long)(want[k] >> 64),
                        (unsigned long long)want[k]);
    }
    HOLDS(wrong == 0);
    return check_result("wide");
}
