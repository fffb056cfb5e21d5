/*
 * guess.c: what the lanes of a row may have, so that a run can load in the way that suits them (run_loads.c). It is a
 * guess from the arithmetic that stands before in the function: as if all of it were executed in that order, the warp
 * were the first one of a block whose threads are in a line, and what comes from memory, parameters and other registers
 * were 0. Code that follows a guess checks first whether it is right.
 */
#include "softgpu/jit/arithmetic.h"

/* So many instructions are looked at for a row; behind that, all is 0. */
enum { MOST = 256 };

/* The value of one constant in each lane. */
static LLVMValueRef constant_row(struct compiler *c, exec_source at, enum row_bits bits)
{
    LLVMValueRef lanes[SG_LANES];
    const void *cells = (const void *)at;
    for (unsigned l = 0; l < SG_LANES; l++)
        lanes[l] = bits == ROW_64 ? constant_64(c, ((const uint64_t *)cells)[l])
                                  : constant_32(c, ((const uint32_t *)cells)[l]);
    return LLVMConstVector(lanes, SG_LANES);
}

static LLVMValueRef threads(struct compiler *c)
{
    LLVMValueRef lanes[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        lanes[l] = constant_32(c, l);
    return LLVMConstVector(lanes, SG_LANES);
}

/* The last arithmetic before instruction `end` that gives the row; NULL: there is none. */
static const struct exec_insn *source_of(const struct compiler *c, exec_source at, enum row_bits bits, uint32_t end)
{
    for (uint32_t k = end; k-- > 0;) {
        const struct exec_insn *i = &c->wish->insns[k];
        const struct arithmetic_form *form = arithmetic_form_of(i);
        if (form && form->d == bits && (i->d | EXEC_BASE_FRAME) == at)
            return i;
    }
    return NULL;
}

static LLVMValueRef guessed(struct compiler *c, exec_source at, enum row_bits bits, uint32_t end, unsigned *left)
{
    const exec_source place = at & ~(exec_source)3, tid = offsetof(struct exec_warp, special[EXEC_ROW_TID]),
                      lane = offsetof(struct exec_warp, special[EXEC_ROW_LANEID]);
    LLVMValueRef none = LLVMConstNull(bits == ROW_64 ? c->row64 : c->row32);
    if ((at & 3) == EXEC_BASE_ABSOLUTE)
        return constant_row(c, at, bits);
    if ((at & 3) == EXEC_BASE_WARP)
        return place == tid || place == lane ? threads(c) : none;
    const struct exec_insn *i = *left ? source_of(c, at, bits, end) : NULL;
    if (!i)
        return none;
    const struct arithmetic_form *form = arithmetic_form_of(i);
    LLVMValueRef s[4] = { NULL };
    (*left)--;
    for (unsigned k = 0; k < 4; k++)
        if (form->s[k])
            s[k] = guessed(c, i->s[k], form->s[k], (uint32_t)(i - c->wish->insns), left);
    LLVMValueRef value = form->selects || form->calls ? NULL : integer_operation(c, i, s);
    return value && LLVMIsConstant(value) ? value : none;
}

void guess_row(struct compiler *c, exec_source at, enum row_bits bits, uint32_t end, uint64_t lanes[SG_LANES])
{
    unsigned left = MOST;
    LLVMValueRef row = guessed(c, at, bits, end, &left);
    for (unsigned l = 0; l < SG_LANES; l++)
        lanes[l] = LLVMConstIntGetZExtValue(LLVMBuildExtractElement(c->builder, row, constant_32(c, l), ""));
}
