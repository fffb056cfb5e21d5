/* cusparse.c: a matrix with three diagonals times a vector, a dense matrix, and itself. */
#include "library.h"

#include <cusparse.h>

enum { N = 200, COLUMNS = 8, OP = CUSPARSE_OPERATION_NON_TRANSPOSE, I32 = CUSPARSE_INDEX_32I };
static int rows[N + 1], columns[3 * N], count;
static float values[3 * N];
static const float one = 1, zero;

static float entry(int row, int column)
{
    return column >= 0 && column < N && abs(row - column) <= 1 ? (float)(1 + (row + column) % 5) : 0;
}

static void multiply(cusparseHandle_t h, cusparseSpMatDescr_t a)
{
    float x[N * COLUMNS], y[N * COLUMNS];
    for (int i = 0; i < N * COLUMNS; i++)
        x[i] = (float)(i % 7);
    void *dx = to_device(x, sizeof x), *dy = to_device(NULL, sizeof y), *dz = to_device(NULL, sizeof y);
    cusparseDnVecDescr_t vx, vy;
    cusparseDnMatDescr_t mx, mz;
    size_t size;
    GOOD(cusparseCreateDnVec(&vx, N, dx, CUDA_R_32F));
    GOOD(cusparseCreateDnVec(&vy, N, dy, CUDA_R_32F));
    GOOD(cusparseSpMV_bufferSize(h, OP, &one, a, vx, &zero, vy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &size));
    void *buffer = to_device(NULL, size + 16);
    GOOD(cusparseSpMV(h, OP, &one, a, vx, &zero, vy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, buffer));
    GOOD(cusparseCreateDnMat(&mx, N, COLUMNS, N, dx, CUDA_R_32F, CUSPARSE_ORDER_COL));
    GOOD(cusparseCreateDnMat(&mz, N, COLUMNS, N, dz, CUDA_R_32F, CUSPARSE_ORDER_COL));
    GOOD(cusparseSpMM_bufferSize(h, OP, OP, &one, a, mx, &zero, mz, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, &size));
    buffer = to_device(NULL, size + 16);
    GOOD(cusparseSpMM(h, OP, OP, &one, a, mx, &zero, mz, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, buffer));
    for (int pass = 0; pass < 2; pass++) {
        double error = 0;
        from_device(y, pass ? dz : dy, sizeof y);
        for (int j = 0; j < (pass ? COLUMNS : 1); j++)
            for (int i = 0; i < N; i++) {
                float want = 0;
                for (int k = i - 1; k <= i + 1; k++)
                    want += k >= 0 && k < N ? entry(i, k) * x[j * N + k] : 0;
                error = worse(error, fabs(want - y[j * N + i]));
            }
        near(pass ? "SpMM" : "SpMV", error, 0, 0);
    }
}

static void square(cusparseHandle_t h, cusparseSpMatDescr_t a)
{
    cusparseSpMatDescr_t p;
    cusparseSpGEMMDescr_t plan;
    size_t first = 0, second = 0;
    int64_t height, width, filled;
    void *dr = to_device(NULL, sizeof rows);
    GOOD(cusparseCreateCsr(&p, N, N, 0, dr, NULL, NULL, I32, I32, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    GOOD(cusparseSpGEMM_createDescr(&plan));
    const cusparseSpGEMMAlg_t how = CUSPARSE_SPGEMM_DEFAULT;
    GOOD(cusparseSpGEMM_workEstimation(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &first, NULL));
    void *work = to_device(NULL, first + 16);
    GOOD(cusparseSpGEMM_workEstimation(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &first, work));
    GOOD(cusparseSpGEMM_compute(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &second, NULL));
    void *more = to_device(NULL, second + 16);
    GOOD(cusparseSpGEMM_compute(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &second, more));
    GOOD(cusparseSpMatGetSize(p, &height, &width, &filled));
    near("SpGEMM, entries", fabs((double)filled - (5 * N - 6)), 0, 0);
    static int pr[N + 1], pc[5 * N];
    static float pv[5 * N];
    void *dc = to_device(NULL, sizeof pc), *dv = to_device(NULL, sizeof pv);
    GOOD(cusparseCsrSetPointers(p, dr, dc, dv));
    GOOD(cusparseSpGEMM_copy(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan));
    from_device(pr, dr, sizeof pr);
    from_device(pc, dc, sizeof pc);
    from_device(pv, dv, sizeof pv);
    double error = pr[N] != filled;
    for (int i = 0; i < N; i++)
        for (int at = pr[i]; at < pr[i + 1] && at < 5 * N; at++) {
            float want = 0;
            for (int k = i - 1; k <= i + 1; k++)
                want += k >= 0 && k < N ? entry(i, k) * entry(k, pc[at]) : 0;
            error = worse(error, fabs(want - pv[at]));
        }
    near("SpGEMM", error, 0, 0);
}

int main(void)
{
    cusparseHandle_t h;
    cusparseSpMatDescr_t a;
    for (int i = 0; i < N; i++) {
        rows[i] = count;
        for (int j = i - 1; j <= i + 1; j++)
            if (j >= 0 && j < N)
                columns[count] = j, values[count++] = entry(i, j);
    }
    rows[N] = count;
    void *dr = to_device(rows, sizeof rows), *dc = to_device(columns, sizeof columns);
    void *dv = to_device(values, sizeof values);
    GOOD(cusparseCreate(&h));
    GOOD(cusparseCreateCsr(&a, N, N, count, dr, dc, dv, I32, I32, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    multiply(h, a);
    square(h, a);
    return result("cusparse");
}
