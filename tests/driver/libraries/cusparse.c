/* cusparse.c: a matrix with three diagonals times a vector, a dense matrix, and itself; systems of equations whose
   matrices are sparse triangles. */
#include "library.h"

#include <cusparse.h>
#include <stdbool.h>

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

/* ---- triangular systems ---- */

enum { SIZE = 300, RIGHT = 5, MOST = SIZE * 12 };
struct system {
    int rows[SIZE + 1], columns[MOST], count;
    float values[MOST];
    double full[SIZE][SIZE];       /* what of it counts: the triangle */
};

/* Some elements on both sides of a diagonal that is larger than the sum of the rest: so the system is solved without
   loss. With unit, the diagonal is left out and counts as 1. */
static void make_system(struct system *s, bool lower, bool unit)
{
    unsigned seed = 12345;
    memset(s, 0, sizeof *s);
    for (int i = 0; i < SIZE; i++) {
        s->rows[i] = s->count;
        for (int j = 0; j < SIZE; j++) {
            seed = seed * 1664525u + 1013904223u;
            bool inside = lower ? j < i : j > i;
            float value = i == j ? (unit ? 0 : (float)(4 + i % 3))
                          : seed >> 8 < (1u << 24) / 60 || j == i - 1 ? (float)(1 + j % 7) / 64 : 0;
            if (value == 0)
                continue;
            s->columns[s->count] = j;
            s->values[s->count++] = value;
            if (inside || i == j)
                s->full[i][j] = value;
        }
        if (unit)
            s->full[i][i] = 1;
    }
    s->rows[SIZE] = s->count;
}

static void solve_here(const struct system *s, bool forward, bool transposed, double *x)
{
    for (int n = 0; n < SIZE; n++) {
        int i = forward ? n : SIZE - 1 - n;
        for (int k = 0; k < n; k++) {
            int j = forward ? k : SIZE - 1 - k;
            x[i] -= (transposed ? s->full[j][i] : s->full[i][j]) * x[j];
        }
        x[i] /= s->full[i][i];
    }
}

static void solve(cusparseHandle_t h, bool lower, bool unit, bool transposed, cusparseOrder_t order)
{
    static struct system s;
    static float right[SIZE * RIGHT], got[SIZE * RIGHT];
    static double want[SIZE];
    const cusparseFillMode_t fill = lower ? CUSPARSE_FILL_MODE_LOWER : CUSPARSE_FILL_MODE_UPPER;
    const cusparseDiagType_t diagonal = unit ? CUSPARSE_DIAG_TYPE_UNIT : CUSPARSE_DIAG_TYPE_NON_UNIT;
    const cusparseOperation_t op = transposed ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE;
    bool by_rows = order == CUSPARSE_ORDER_ROW;
    cusparseSpMatDescr_t a;
    cusparseDnMatDescr_t b, x;
    cusparseSpSMDescr_t plan;
    size_t size;
    char what[80];
    make_system(&s, lower, unit);
    for (int i = 0; i < SIZE * RIGHT; i++)
        right[i] = (float)(i % 11 - 5);
    void *dr = to_device(s.rows, sizeof s.rows), *dc = to_device(s.columns, sizeof s.columns),
         *dv = to_device(s.values, sizeof s.values), *db = to_device(right, sizeof right),
         *dx = to_device(NULL, sizeof got);
    GOOD(cusparseCreateCsr(&a, SIZE, SIZE, s.count, dr, dc, dv, I32, I32, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    GOOD(cusparseSpMatSetAttribute(a, CUSPARSE_SPMAT_FILL_MODE, (void *)&fill, sizeof fill));
    GOOD(cusparseSpMatSetAttribute(a, CUSPARSE_SPMAT_DIAG_TYPE, (void *)&diagonal, sizeof diagonal));
    GOOD(cusparseCreateDnMat(&b, SIZE, RIGHT, by_rows ? RIGHT : SIZE, db, CUDA_R_32F, order));
    GOOD(cusparseCreateDnMat(&x, SIZE, RIGHT, by_rows ? RIGHT : SIZE, dx, CUDA_R_32F, order));
    GOOD(cusparseSpSM_createDescr(&plan));
    GOOD(cusparseSpSM_bufferSize(h, op, OP, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, plan, &size));
    void *buffer = to_device(NULL, size + 16);
    GOOD(cusparseSpSM_analysis(h, op, OP, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, plan, buffer));
    GOOD(cusparseSpSM_solve(h, op, OP, &one, a, b, x, CUDA_R_32F, CUSPARSE_SPSM_ALG_DEFAULT, plan));
    from_device(got, dx, sizeof got);
    double error = 0;
    for (int j = 0; j < RIGHT; j++) {
        for (int i = 0; i < SIZE; i++)
            want[i] = right[by_rows ? i * RIGHT + j : j * SIZE + i];
        solve_here(&s, lower != transposed, transposed, want);
        for (int i = 0; i < SIZE; i++)
            error = worse(error, fabs(want[i] - got[by_rows ? i * RIGHT + j : j * SIZE + i]));
    }
    snprintf(what, sizeof what, "SpSM, %s%s%s, %s", lower ? "lower" : "upper", unit ? ", unit diagonal" : "",
             transposed ? ", transposed" : "", by_rows ? "rows" : "columns");
    near(what, error, 0, 1e-4);

    cusparseSpSVDescr_t line;
    cusparseDnVecDescr_t vb, vx;
    GOOD(cusparseCreateDnVec(&vb, SIZE, db, CUDA_R_32F));
    GOOD(cusparseCreateDnVec(&vx, SIZE, dx, CUDA_R_32F));
    GOOD(cusparseSpSV_createDescr(&line));
    GOOD(cusparseSpSV_bufferSize(h, op, &one, a, vb, vx, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, line, &size));
    buffer = to_device(NULL, size + 16);
    GOOD(cusparseSpSV_analysis(h, op, &one, a, vb, vx, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, line, buffer));
    GOOD(cusparseSpSV_solve(h, op, &one, a, vb, vx, CUDA_R_32F, CUSPARSE_SPSV_ALG_DEFAULT, line));
    from_device(got, dx, sizeof got);
    for (int i = 0; i < SIZE; i++)
        want[i] = right[i];
    solve_here(&s, lower != transposed, transposed, want);
    error = 0;
    for (int i = 0; i < SIZE; i++)
        error = worse(error, fabs(want[i] - got[i]));
    memcpy(what, "SpSV", 4);
    near(what, error, 0, 1e-4);
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
    for (int i = 0; i < 8; i++)
        solve(h, i & 1, i & 2, i & 4, i & 1 ? CUSPARSE_ORDER_ROW : CUSPARSE_ORDER_COL);
    return result("cusparse");
}
