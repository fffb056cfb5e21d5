/* cublas.c: dot, nrm2, axpy, and products of matrices in single and double precision. */
#include <cublas_v2.h>

#include "library.h"

enum { N = 48 };

int main(void)
{
    static float a[N * N], b[N * N], c[N * N];
    static double x[N * N], y[N * N];
    cublasHandle_t handle;
    float one = 1, zero = 0, answer = 0;
    double half = 0.5, none = 0, dot = 0, squares = 0;
    GOOD(cublasCreate(&handle));
    for (int i = 0; i < N * N; i++) {
        a[i] = (float)(i % 7 - 3);
        b[i] = (float)(i % 5 - 2);
        x[i] = i % 11 - 5;
        dot += a[i] * b[i];
        squares += a[i] * a[i];
    }
    float *da = to_device(a, sizeof a), *db = to_device(b, sizeof b), *dc = to_device(NULL, sizeof c);
    GOOD(cublasSdot(handle, N * N, da, 1, db, 1, &answer));
    near("dot", answer, dot, 1e-3);
    GOOD(cublasSnrm2(handle, N * N, da, 1, &answer));
    near("nrm2", answer, sqrt(squares), 1e-3);
    GOOD(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, da, N, db, N, &zero, dc, N));
    from_device(c, dc, sizeof c);
    double *dx = to_device(x, sizeof x), *dy = to_device(NULL, sizeof y);
    GOOD(cublasDgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, N, N, N, &half, dx, N, dx, N, &none, dy, N));
    from_device(y, dy, sizeof y);
    for (int column = 0; column < N; column++)
        for (int row = 0; row < N; row++) {
            double sum = 0, product = 0;
            for (int k = 0; k < N; k++) {
                sum += a[k * N + row] * b[column * N + k];
                product += 0.5 * x[row * N + k] * x[column * N + k];
            }
            near("sgemm", c[column * N + row], sum, 1e-3);
            near("dgemm", y[column * N + row], product, 1e-9);
        }
    GOOD(cublasSaxpy(handle, N * N, &one, da, 1, db, 1));
    from_device(c, db, sizeof c);
    for (int i = 0; i < N * N; i++)
        near("axpy", c[i], a[i] + b[i], 0);
    GOOD(cublasDestroy(handle));
    return result("cublas");
}
