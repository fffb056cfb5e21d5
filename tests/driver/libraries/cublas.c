/* cublas.c: products of matrices of small integers, exact in every type. */
#include "library.h"

#include <cublas_v2.h>

enum { N = 64 };
static int a_at(int i, int k) { return (k * N + i) % 7 - 3; }
static int b_at(int k, int j) { return (j * N + k) % 5 - 2; }

static void put(void *to, int at, cudaDataType type, int v)
{
    float f = (float)v;
    double d = v;
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t bf16 = (uint16_t)(u >> 16);
    uint16_t f16 = v ? (uint16_t)((u >> 31) << 15 | ((u >> 13 & 0x3ffff) - (112 << 10))) : 0;
    if (type == CUDA_R_16BF || type == CUDA_R_16F)
        memcpy((char *)to + 2 * at, type == CUDA_R_16F ? &f16 : &bf16, 2);
    else if (type == CUDA_R_32F)
        memcpy((char *)to + 4 * at, &f, 4);
    else
        memcpy((char *)to + 8 * at, &d, 8);
}

/* Products of f64 are half of A' times B. */
static void product(cublasHandle_t h, const char *name, cudaDataType in, size_t in_bytes, cublasComputeType_t compute,
                    int batches)
{
    size_t matrix = N * N * in_bytes;
    char *a = calloc(1, matrix), *b = calloc(1, matrix);
    for (int i = 0; i < N * N; i++) {
        put(a, i, in, i % 7 - 3);
        put(b, i, in, i % 5 - 2);
    }
    cudaDataType out = in == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
    size_t bytes = out == CUDA_R_64F ? 8 : 4, all = N * N * bytes * (size_t)batches;
    void *da = to_device(a, matrix), *db = to_device(b, matrix), *dc = to_device(NULL, all);
    double half = 0.5, zero = 0;
    float one_f = 1, zero_f = 0;
    const void *alpha = in == CUDA_R_64F ? (void *)&half : (void *)&one_f;
    const void *beta = in == CUDA_R_64F ? (void *)&zero : (void *)&zero_f;
    cublasOperation_t turn = in == CUDA_R_64F ? CUBLAS_OP_T : CUBLAS_OP_N;
    GOOD(cublasGemmStridedBatchedEx(h, turn, CUBLAS_OP_N, N, N, N, alpha, da, in, N, 0, db, in, N, 0, beta, dc,
                                    out, N, N * N, batches, compute, CUBLAS_GEMM_DEFAULT));
    char *c = malloc(all);
    from_device(c, dc, all);
    double error = 0;
    for (int t = 0; t < batches; t++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++) {
                double want = 0, got;
                float f;
                for (int k = 0; k < N; k++)
                    want += in == CUDA_R_64F ? 0.5 * a_at(k, i) * b_at(k, j) : a_at(i, k) * b_at(k, j);
                memcpy(&f, c + ((t * N + j) * N + i) * 4, 4);
                got = f;
                if (out == CUDA_R_64F)
                    memcpy(&got, c + ((t * N + j) * N + i) * 8, 8);
                error = worse(error, fabs(got - want));
            }
    near(name, error, 0, 0);
    free(a);
    free(b);
    free(c);
}

int main(void)
{
    cublasHandle_t h;
    GOOD(cublasCreate(&h));
    product(h, "f32", CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, 1);
    product(h, "f64", CUDA_R_64F, 8, CUBLAS_COMPUTE_64F, 1);
    product(h, "f16", CUDA_R_16F, 2, CUBLAS_COMPUTE_32F, 1);
    product(h, "bf16", CUDA_R_16BF, 2, CUBLAS_COMPUTE_32F, 1);
    product(h, "f32, three at once", CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, 3);
    float x[1000], dot, norm, alpha = 2, want = 0;
    for (int i = 0; i < 1000; i++)
        x[i] = (float)(i % 5 - 2), want += x[i] * x[i];
    float *dx = to_device(x, sizeof x), *dy = to_device(x, sizeof x);
    GOOD(cublasSdot(h, 1000, dx, 1, dy, 1, &dot));
    near("dot", fabs(dot - want), 0, 0);
    GOOD(cublasSnrm2(h, 1000, dx, 1, &norm));
    near("nrm2", fabs(norm - sqrt(want)), 0, 1e-4);
    GOOD(cublasSaxpy(h, 1000, &alpha, dx, 1, dy, 1));
    GOOD(cublasSdot(h, 1000, dx, 1, dy, 1, &dot));
    near("axpy", fabs(dot - 3 * want), 0, 0);
    return result("cublas");
}
