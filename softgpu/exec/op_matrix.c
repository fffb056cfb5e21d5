/* op_matrix.c: matrices that a warp holds together: ldmatrix, stmatrix, movmatrix, mma, wmma. */
#include "softgpu/exec/decode.h"

const struct decode_entry decode_matrix[] = { { NULL, NULL } };
