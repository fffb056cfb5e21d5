/* arithmetic.h: what the files of arithmetic share. See compile.h. */
#ifndef SOFTGPU_JIT_ARITHMETIC_H
#define SOFTGPU_JIT_ARITHMETIC_H

#include "softgpu/jit/compile.h"

/* ---- floats.c ---- */

/* A constant in each lane. */
LLVMValueRef splat_32(struct compiler *, uint32_t);
LLVMValueRef splat_64(struct compiler *, uint64_t);
/* An intrinsic of LLVM whose result, and one operand at least, has that type; n: at most 3. */
LLVMValueRef call_intrinsic(struct compiler *, const char *name, LLVMTypeRef, LLVMValueRef *s, unsigned n);
/* Of f32 as bits: subnormals become zeros of their sign; which lanes have a NaN. */
LLVMValueRef float_flush(struct compiler *, LLVMValueRef bits);
LLVMValueRef float_is_nan(struct compiler *, LLVMValueRef bits);
/* f32 of bits, and bits of f32. ftz: subnormals become zeros of their sign. Any NaN becomes the machine's, unless the
   row may be raw, and then is. */
LLVMValueRef float_from(struct compiler *, LLVMValueRef bits, bool ftz);
LLVMValueRef float_to(struct compiler *, LLVMValueRef x, bool ftz);
/* Between 0 and 1; NaN is 0. */
LLVMValueRef float_saturated(struct compiler *, LLVMValueRef bits);
/* EQ, NE, LT, LE, GT, GE, and these with u, by number. */
LLVMRealPredicate float_predicate(unsigned number);

/* ---- others ---- */

/* functions.c. Of an instruction with .ftz: a result that is the least normal number may have been rounded up to it;
   then the function knows better. */
LLVMValueRef float_least(struct compiler *, const struct exec_insn *, LLVMValueRef bits);

/* integers.c. NULL: the function of softgpu/alu has to do it. */
LLVMValueRef integer_operation(struct compiler *, const struct exec_insn *, LLVMValueRef *s);
/* conversions.c: f32 to a whole number of the same type, or of 32 bits; mode: an exec_round */
LLVMValueRef whole_float(struct compiler *, uint8_t operation, unsigned mode, LLVMValueRef bits);
/* between f32 and f16 */
LLVMValueRef half_conversion(struct compiler *, uint8_t operation, LLVMValueRef bits);
/* from an integer; detail: EXEC_FROM_... */
LLVMValueRef float_of_integer(struct compiler *, uint8_t operation, unsigned detail, LLVMValueRef bits);
/* divisions.c: of 32 bits */
LLVMValueRef division(struct compiler *, const struct exec_insn *, LLVMValueRef *s);
/* doubles.c */
LLVMValueRef double_operation(struct compiler *, const struct exec_insn *, LLVMValueRef *s);
/* A whole number of the same type, or of 32 bits; mode: an exec_round. */
LLVMValueRef whole_double(struct compiler *, uint8_t operation, unsigned mode, LLVMValueRef bits);
/* elementary.c: functions that PTX calls approximations */
LLVMValueRef approximation(struct compiler *, const struct exec_insn *, LLVMValueRef *s);
/* rounded.c: sums and products of f32 that are not just rounded to nearest */
LLVMValueRef rounded(struct compiler *, const struct exec_insn *, LLVMValueRef *s);

#endif
