/*
 * op_absent.c: instructions of hardware that the software GPU does not have. A message names it; what else a module
 * or a kernel holds works as long as such an instruction is not reached.
 */
#include "softgpu/exec/decode.h"

#include <cuda.h>

/* Programs ask the device whether it has multicast objects, and this one says no: no address can be right. */
static void run_multimem(struct exec_warp *w, const struct exec_insn *i)
{
    exec_fault(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "multimem: the device has no multicast objects");
}

static int decode_multimem(struct exec_decoder *d)
{
    return decode_put_guarded(d, (struct exec_insn){ .run = run_multimem });
}

static int decode_tcgen05(struct exec_decoder *d)
{
    return decode_error(d, "tensor memory, which only devices of sm_100 to sm_110 have");
}

const struct decode_entry decode_absent[] = {
    { "multimem", decode_multimem }, { "tcgen05", decode_tcgen05 }, { NULL, NULL }
};
