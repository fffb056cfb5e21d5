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
    double *da = on_device(a, sizeof a), *db = on_device(b, sizeof b);
    int *pivots = on_device(NULL, N * sizeof *pivots), *di = on_device(NULL, sizeof *di);
    MUST(cusolverDnDgetrf_bufferSize(h, N, N, da, N, &size));
    double *work = on_device(NULL, (size_t)size * sizeof *work);
    MUST(cusolverDnDgetrf(h, N, N, da, N, work, pivots, di));
    MUST(cusolverDnDgetrs(h, CUBLAS_OP_N, N, 1, da, N, pivots, db, N, di));
    to_host(x, db, sizeof x);
    to_host(&info, di, sizeof info);
    for (int i = 0; i < N; i++) {
        double sum = -b[i];
        for (int j = 0; j < N; j++)
            sum += a[j * N + i] * x[j];
        error = worse(error, fabs(sum));
    }
    judge("LU", error + info, 1e-12);
}

static void qr(cusolverDnHandle_t h)
{
    double r[N * N], error = 0;
    int size;
    double *da = on_device(a, sizeof a), *tau = on_device(NULL, N * sizeof *tau);
    int *di = on_device(NULL, sizeof *di);
    MUST(cusolverDnDgeqrf_bufferSize(h, N, N, da, N, &size));
    double *work = on_device(NULL, (size_t)size * sizeof *work);
    MUST(cusolverDnDgeqrf(h, N, N, da, N, tau, work, size, di));
    to_host(r, da, sizeof r);
    for (int i = 0; i < N; i++)                       /* R'R = A'A */
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i * N + k] * a[j * N + k] -
                       (k <= i && k <= j ? r[i * N + k] * r[j * N + k] : 0);
            error = worse(error, fabs(sum));
        }
    judge("QR", error, 1e-10);
}

static void svd(cusolverDnHandle_t h)
{
    double s[N], u[N * N], v[N * N], error = 0;
    int size;
    double *da = on_device(a, sizeof a), *ds = on_device(NULL, sizeof s), *du = on_device(NULL, sizeof u),
           *dv = on_device(NULL, sizeof v);
    int *di = on_device(NULL, sizeof *di);
    MUST(cusolverDnDgesvd_bufferSize(h, N, N, &size));
    double *work = on_device(NULL, (size_t)size * sizeof *work);
    MUST(cusolverDnDgesvd(h, 'A', 'A', N, N, da, N, ds, du, N, dv, N, work, size, NULL, di));
    to_host(s, ds, sizeof s);
    to_host(u, du, sizeof u);
    to_host(v, dv, sizeof v);
    for (int i = 0; i < N; i++)                       /* U S V' = A */
        for (int j = 0; j < N; j++) {
            double sum = -a[j * N + i];
            for (int k = 0; k < N; k++)
                sum += u[k * N + i] * s[k] * v[j * N + k];
            error = worse(error, fabs(sum));
        }
    judge("SVD", error, 1e-10);
}

int main(void)
{
    cusolverDnHandle_t h;
    for (int i = 0; i < N * N; i++)
        a[i] = i * 7919 % 101 / 10.0 + (i % (N + 1) ? 0 : 20);
    MUST(cusolverDnCreate(&h));
    lu(h);
    qr(h);
    svd(h);
    return failures != 0;
}
