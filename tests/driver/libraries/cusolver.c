/* cusolver.c: a system of linear equations, by LU. */
#include <cusolverDn.h>

#include "library.h"

enum { N = 24 };

int main(void)
{
    static double a[N * N], b[N], x[N];
    cusolverDnHandle_t handle;
    int room = 0, state = 1;
    for (int i = 0; i < N * N; i++)
        a[i] = sin(i * 1.3) + (i % (N + 1) == 0 ? N : 0);
    for (int i = 0; i < N; i++)
        b[i] = i + 1;
    double *matrix = to_device(a, sizeof a), *right = to_device(b, sizeof b);
    int *pivots = to_device(NULL, N * sizeof *pivots), *info = to_device(NULL, sizeof *info);
    GOOD(cusolverDnCreate(&handle));
    GOOD(cusolverDnDgetrf_bufferSize(handle, N, N, matrix, N, &room));
    GOOD(cusolverDnDgetrf(handle, N, N, matrix, N, to_device(NULL, (size_t)room * sizeof *a), pivots, info));
    from_device(&state, info, sizeof state);
    near("info", state, 0, 0);
    GOOD(cusolverDnDgetrs(handle, CUBLAS_OP_N, N, 1, matrix, N, pivots, right, N, info));
    from_device(x, right, sizeof x);
    for (int row = 0; row < N; row++) {
        double sum = 0;
        for (int column = 0; column < N; column++)
            sum += a[column * N + row] * x[column];
        near("equation", sum, b[row], 1e-9);
    }
    GOOD(cusolverDnDestroy(handle));
    return result("cusolver");
}
