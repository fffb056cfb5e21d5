/* arithmetic.h: what the files of arithmetic share. See compile.h. */
#ifndef SOFTGPU_JIT_ARITHMETIC_H
#define SOFTGPU_JIT_ARITHMETIC_H

#include "softgpu/jit/compile.h"

/* A constant in each lane. */
LLVMValueRef splat_32(struct compiler *, uint32_t);
LLVMValueRef splat_64(struct compiler *, uint64_t);
/* An intrinsic of LLVM whose result, and one operand at least, has that type; n: at most 3. */
LLVMValueRef call_intrinsic(struct compiler *, const char *name, LLVMTypeRef, LLVMValueRef *s, unsigned n);
/* EQ, NE, LT, LE, GT, GE, and these with u, by number. */
LLVMRealPredicate float_predicate(unsigned number);

/* integers.c. NULL: the function of softgpu/alu has to do it. */
LLVMValueRef integer_operation(struct compiler *, const struct exec_insn *, LLVMValueRef *s);
/* conversions.c: from f32 and f16 */
LLVMValueRef float_conversion(struct compiler *, uint8_t operation, LLVMValueRef bits);
/* divisions.c: of 32 bits */
LLVMValueRef division(struct compiler *, const struct exec_insn *, LLVMValueRef *s);
/* doubles.c */
LLVMValueRef double_operation(struct compiler *, const struct exec_insn *, LLVMValueRef *s);

#endif
