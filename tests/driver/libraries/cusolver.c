/* cusolver.c: a system of equations by LU, a QR factorisation, singular values. */
#include "library.h"

#include <cusolverDn.h>

enum { N = 24 };
static double a[N * N];

static void lu(cusolverDnHandle_t h)
{
    double b[N], x[N], error = 0;
    int size, info = -1;
    for (int i = 0; i < N; i++)
        b[i] = i;
    double *da = to_device(a, sizeof a), *db = to_device(b, sizeof b);
    int *pivots = to_device(NULL, N * sizeof *pivots), *di = to_device(NULL, sizeof *di);
    GOOD(cusolverDnDgetrf_bufferSize(h, N, N, da, N, &size));
    double *work = to_device(NULL, (size_t)size * sizeof *work);
    GOOD(cusolverDnDgetrf(h, N, N, da, N, work, pivots, di));
    GOOD(cusolverDnDgetrs(h, CUBLAS_OP_N, N, 1, da, N, pivots, db, N, di));
    from_device(x, db, sizeof x);
    from_device(&info, di, sizeof info);
    for (int i = 0; i < N; i++) {
        double sum = -b[i];
        for (int j = 0; j < N; j++)
            sum += a[j * N + i] * x[j];
        error = worse(error, fabs(sum));
    }
    near("LU", error + info, 0, 1e-12);
}

static void qr(cusolverDnHandle_t h)
{
    double r[N * N], error = 0;
    int size;
    double *da = to_device(a, sizeof a), *tau = to_device(NULL, N * sizeof *tau);
    int *di = to_device(NULL, sizeof *di);
    GOOD(cusolverDnDgeqrf_bufferSize(h, N, N, da, N, &size));
    double *work = to_device(NULL, (size_t)size * sizeof *work);
    GOOD(cusolverDnDgeqrf(h, N, N, da, N, tau, work, size, di));
    from_device(r, da, sizeof r);
    for (int i = 0; i < N; i++)                       /* R'R = A'A */
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i * N + k] * a[j * N + k] -
                       (k <= i && k <= j ? r[i * N + k] * r[j * N + k] : 0);
            error = worse(error, fabs(sum));
        }
    near("QR", error, 0, 1e-10);
}

static void svd(cusolverDnHandle_t h)
{
    double s[N], u[N * N], v[N * N], error = 0;
    int size;
    double *da = to_device(a, sizeof a), *ds = to_device(NULL, sizeof s), *du = to_device(NULL, sizeof u),
           *dv = to_device(NULL, sizeof v);
    int *di = to_device(NULL, sizeof *di);
    GOOD(cusolverDnDgesvd_bufferSize(h, N, N, &size));
    double *work = to_device(NULL, (size_t)size * sizeof *work);
    GOOD(cusolverDnDgesvd(h, 'A', 'A', N, N, da, N, ds, du, N, dv, N, work, size, NULL, di));
    from_device(s, ds, sizeof s);
    from_device(u, du, sizeof u);
    from_device(v, dv, sizeof v);
    for (int i = 0; i < N; i++)                       /* U S V' = A */
        for (int j = 0; j < N; j++) {
            double sum = -a[j * N + i];
            for (int k = 0; k < N; k++)
                sum += u[k * N + i] * s[k] * v[j * N + k];
            error = worse(error, fabs(sum));
        }
    near("SVD", error, 0, 1e-10);
}

int main(void)
{
    cusolverDnHandle_t h;
    for (int i = 0; i < N * N; i++)
        a[i] = i * 7919 % 101 / 10.0 + (i % (N + 1) ? 0 : 20);
    GOOD(cusolverDnCreate(&h));
    lu(h);
    qr(h);
    svd(h);
    return result("cusolver");
}
