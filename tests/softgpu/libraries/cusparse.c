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
    void *dx = on_device(x, sizeof x), *dy = on_device(NULL, sizeof y), *dz = on_device(NULL, sizeof y);
    cusparseDnVecDescr_t vx, vy;
    cusparseDnMatDescr_t mx, mz;
    size_t size;
    MUST(cusparseCreateDnVec(&vx, N, dx, CUDA_R_32F));
    MUST(cusparseCreateDnVec(&vy, N, dy, CUDA_R_32F));
    MUST(cusparseSpMV_bufferSize(h, OP, &one, a, vx, &zero, vy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &size));
    void *buffer = on_device(NULL, size + 16);
    MUST(cusparseSpMV(h, OP, &one, a, vx, &zero, vy, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, buffer));
    MUST(cusparseCreateDnMat(&mx, N, COLUMNS, N, dx, CUDA_R_32F, CUSPARSE_ORDER_COL));
    MUST(cusparseCreateDnMat(&mz, N, COLUMNS, N, dz, CUDA_R_32F, CUSPARSE_ORDER_COL));
    MUST(cusparseSpMM_bufferSize(h, OP, OP, &one, a, mx, &zero, mz, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, &size));
    buffer = on_device(NULL, size + 16);
    MUST(cusparseSpMM(h, OP, OP, &one, a, mx, &zero, mz, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, buffer));
    for (int pass = 0; pass < 2; pass++) {
        double error = 0;
        to_host(y, pass ? dz : dy, sizeof y);
        for (int j = 0; j < (pass ? COLUMNS : 1); j++)
            for (int i = 0; i < N; i++) {
                float want = 0;
                for (int k = i - 1; k <= i + 1; k++)
                    want += k >= 0 && k < N ? entry(i, k) * x[j * N + k] : 0;
                error = worse(error, fabs(want - y[j * N + i]));
            }
        judge(pass ? "SpMM" : "SpMV", error, 0);
    }
}

static void square(cusparseHandle_t h, cusparseSpMatDescr_t a)
{
    cusparseSpMatDescr_t p;
    cusparseSpGEMMDescr_t plan;
    size_t first = 0, second = 0;
    int64_t height, width, filled;
    void *dr = on_device(NULL, sizeof rows);
    MUST(cusparseCreateCsr(&p, N, N, 0, dr, NULL, NULL, I32, I32, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    MUST(cusparseSpGEMM_createDescr(&plan));
    const cusparseSpGEMMAlg_t how = CUSPARSE_SPGEMM_DEFAULT;
    MUST(cusparseSpGEMM_workEstimation(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &first, NULL));
    void *work = on_device(NULL, first + 16);
    MUST(cusparseSpGEMM_workEstimation(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &first, work));
    MUST(cusparseSpGEMM_compute(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &second, NULL));
    void *more = on_device(NULL, second + 16);
    MUST(cusparseSpGEMM_compute(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan, &second, more));
    MUST(cusparseSpMatGetSize(p, &height, &width, &filled));
    judge("SpGEMM, entries", fabs((double)filled - (5 * N - 6)), 0);
    static int pr[N + 1], pc[5 * N];
    static float pv[5 * N];
    void *dc = on_device(NULL, sizeof pc), *dv = on_device(NULL, sizeof pv);
    MUST(cusparseCsrSetPointers(p, dr, dc, dv));
    MUST(cusparseSpGEMM_copy(h, OP, OP, &one, a, a, &zero, p, CUDA_R_32F, how, plan));
    to_host(pr, dr, sizeof pr);
    to_host(pc, dc, sizeof pc);
    to_host(pv, dv, sizeof pv);
    double error = pr[N] != filled;
    for (int i = 0; i < N; i++)
        for (int at = pr[i]; at < pr[i + 1] && at < 5 * N; at++) {
            float want = 0;
            for (int k = i - 1; k <= i + 1; k++)
                want += k >= 0 && k < N ? entry(i, k) * entry(k, pc[at]) : 0;
            error = worse(error, fabs(want - pv[at]));
        }
    judge("SpGEMM", error, 0);
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
    void *dr = on_device(rows, sizeof rows), *dc = on_device(columns, sizeof columns);
    void *dv = on_device(values, sizeof values);
    MUST(cusparseCreate(&h));
    MUST(cusparseCreateCsr(&a, N, N, count, dr, dc, dv, I32, I32, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    multiply(h, a);
    square(h, a);
    return failures != 0;
}
