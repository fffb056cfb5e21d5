/* cusparse.c: a sparse matrix times a vector. */
#include <cusparse.h>

#include "library.h"

int main(void)
{
    static const int rows[] = { 0, 2, 3, 5 }, columns[] = { 0, 2, 1, 0, 2 };
    static const float values[] = { 1, 2, 3, 4, 5 }, x[] = { 1, 2, 3 }, wanted[] = { 7, 6, 19 };
    float one = 1, zero = 0, y[3];
    size_t size;
    cusparseHandle_t handle;
    cusparseSpMatDescr_t matrix;
    cusparseDnVecDescr_t in, out;
    float *memory = to_device(NULL, sizeof y);
    GOOD(cusparseCreate(&handle));
    GOOD(cusparseCreateCsr(&matrix, 3, 3, 5, to_device(rows, sizeof rows), to_device(columns, sizeof columns),
                           to_device(values, sizeof values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                           CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    GOOD(cusparseCreateDnVec(&in, 3, to_device(x, sizeof x), CUDA_R_32F));
    GOOD(cusparseCreateDnVec(&out, 3, memory, CUDA_R_32F));
    GOOD(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
                                 CUSPARSE_SPMV_ALG_DEFAULT, &size));
    GOOD(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, in, &zero, out, CUDA_R_32F,
                      CUSPARSE_SPMV_ALG_DEFAULT, to_device(NULL, size + 1)));
    from_device(y, memory, sizeof y);
    for (int i = 0; i < 3; i++)
        near("product", y[i], wanted[i], 0);
    GOOD(cusparseDestroy(handle));
    return result("cusparse");
}
