/*
 * decode.h: from the text of an instruction to a row function.
 *
 * An instruction is an opcode, a set of words (rounding, comparison, flags: order does not matter) and a list of
 * types. decode.c looks up the opcode, which names a decoder and what distinguishes its opcodes. The decoders
 * (decode_integer.c, decode_float.c …) say which words and types go together, choose the row function from the tables
 * of the processor's level, and describe the operands. decode_words.c is what they share.
 */
#ifndef SOFTGPU_ALU_DECODE_H
#define SOFTGPU_ALU_DECODE_H

#include "softgpu/alu/tables.h"

/* X(name, the ptx_type of a register that holds it, bits of a register that holds it) */
#define SG_TYPES(X)                                                                                       \
    X(pred, PTX_PRED, 1) X(b8, PTX_B8, 8) X(b16, PTX_B16, 16) X(b32, PTX_B32, 32) X(b64, PTX_B64, 64)     \
    X(b128, PTX_B128, 128)                                                                                \
    X(u8, PTX_U8, 8) X(u16, PTX_U16, 16) X(u32, PTX_U32, 32) X(u64, PTX_U64, 64)                          \
    X(s8, PTX_S8, 8) X(s16, PTX_S16, 16) X(s32, PTX_S32, 32) X(s64, PTX_S64, 64)                          \
    X(u2, PTX_B32, 32) X(s2, PTX_B32, 32) X(u4, PTX_B32, 32) X(s4, PTX_B32, 32)                           \
    X(u16x2, PTX_B32, 32) X(s16x2, PTX_B32, 32) X(u8x4, PTX_B32, 32) X(s8x4, PTX_B32, 32)                 \
    X(f16, PTX_F16, 16) X(bf16, PTX_BF16, 16) X(f16x2, PTX_F16X2, 32) X(bf16x2, PTX_BF16X2, 32)           \
    X(tf32, PTX_B32, 32) X(f32, PTX_F32, 32) X(f32x2, PTX_F32X2, 64) X(f64, PTX_F64, 64)                  \
    X(e4m3x2, PTX_B16, 16) X(e5m2x2, PTX_B16, 16) X(e2m1x2, PTX_B8, 8) X(e2m3x2, PTX_B16, 16)             \
    X(e3m2x2, PTX_B16, 16) X(ue8m0x2, PTX_B16, 16) X(s2f6x2, PTX_B16, 16)                                 \
    X(e4m3x4, PTX_B32, 32) X(e5m2x4, PTX_B32, 32) X(e2m1x4, PTX_B16, 16) X(e2m3x4, PTX_B32, 32)           \
    X(e3m2x4, PTX_B32, 32)
enum sg_type {
    SG_T_none,
#define X(name, ptx, bits) SG_T_##name,
    SG_TYPES(X)
#undef X
    SG_TYPE_COUNT
};

#define SG_WORDS(X)                                                                                       \
    X(rn) X(rz) X(rm) X(rp) X(rni) X(rzi) X(rmi) X(rpi) X(rna) X(rs)                                      \
    X(ftz) X(sat) X(satfinite) X(relu) X(approx) X(full) X(cc) X(NaN) X(xorsign) X(abs) X(oob)            \
    X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(lo) X(ls) X(hi) X(hs) X(equ) X(neu) X(ltu) X(leu) X(gtu) X(geu) \
    X(num) X(nan) X(and) X(or) X(xor) X(wide) X(clamp) X(wrap) X(shiftamt) X(l) X(r)                      \
    X(f4e) X(b4e) X(rc8) X(ecl) X(ecr) X(rc16)                                                            \
    X(finite) X(infinite) X(number) X(notanumber) X(normal) X(subnormal)                                  \
    X(add) X(min) X(max) X(mrg_16h) X(mrg_16l) X(shr7) X(shr15) X(po) X(pack)
enum sg_word {
#define X(name) SG_WORD_##name,
    SG_WORDS(X)
#undef X
    SG_WORD_scaled,                                   /* scaled::n2::ue8m0 */
    SG_WORD_COUNT
};
typedef unsigned __int128 sg_words;                   /* a set of them */
#define W(name) ((sg_words)1 << SG_WORD_##name)
#define W_ROUNDS (W(rn) | W(rz) | W(rm) | W(rp))
#define W_INTEGRAL_ROUNDS (W(rni) | W(rzi) | W(rmi) | W(rpi))
#define W_ORDERS (W(eq) | W(ne) | W(lt) | W(le) | W(gt) | W(ge))
#define W_UNSIGNED_ORDERS (W(lo) | W(ls) | W(hi) | W(hs))
#define W_FLOAT_ORDERS (W_ORDERS | W(equ) | W(neu) | W(ltu) | W(leu) | W(gtu) | W(geu) | W(num) | W(nan))
#define W_COMBINES (W(and) | W(or) | W(xor))

enum { SG_MAX_TYPES = 4 };

struct sg_decode {
    const struct ptx_instruction *instruction;
    struct sg_alu *alu;               /* what the decoder fills */
    enum sg_cpu level;
    int operation;                    /* from the opcode's entry */
    sg_words words;
    enum sg_type type[SG_MAX_TYPES];
    unsigned type_count;
    char *why;
    size_t why_size;
};
typedef int sg_decoder(struct sg_decode *);

/* sg_alu_find with the rows of a level that the processor must have; for tests of each clone. */
int sg_alu_find_for(enum sg_cpu, const struct ptx_instruction *, struct sg_alu *, char *why, size_t why_size);

static inline bool sg_has(const struct sg_decode *d, sg_words any) { return (d->words & any) != 0; }

int sg_fail(struct sg_decode *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sorts one modifier of the instruction into types or words. */
int sg_modifier(struct sg_decode *, const char *text);
/* Fails unless every word is in `allowed` and there are min to max types. */
int sg_allow(struct sg_decode *, sg_words allowed, unsigned min_types, unsigned max_types);
int sg_at_most_one(struct sg_decode *, sg_words of, const char *kind);
/* Exactly one of the set. */
int sg_need_one(struct sg_decode *, sg_words of, const char *kind);
/* Sets the function; fails with "PTX has no <opcode.modifiers>" where it is NULL. */
int sg_choose(struct sg_decode *, sg_alu_function *);
/* Describes destination and sources, in the order of operands; ends with SG_T_none. */
void sg_shape(struct sg_decode *, enum sg_type destination, ...);

const char *sg_type_text(enum sg_type);
unsigned sg_type_bits(enum sg_type);
/* enum sg_int of u8 … s64; of b8 … b64, as unsigned, where b is true; else -1 */
int sg_type_int(enum sg_type, bool b);
int sg_type_half(enum sg_type);       /* enum sg_half_kind, or -1 */
/* The mode that a word names; SG_RN where there is none. */
enum sg_round sg_rounding(const struct sg_decode *);

/* Decoders of families; operation is the number in brackets. */
enum sg_decoder_operation {
    SG_OP_ADD, SG_OP_SUB, SG_OP_MUL, SG_OP_MAD, SG_OP_FMA, SG_OP_DIV, SG_OP_REM, SG_OP_ABS, SG_OP_NEG, SG_OP_MIN,
    SG_OP_MAX, SG_OP_MUL24, SG_OP_MAD24, SG_OP_SAD, SG_OP_ADDC, SG_OP_SUBC, SG_OP_MADC, SG_OP_RCP, SG_OP_SQRT,
    SG_OP_RSQRT, SG_OP_SIN, SG_OP_COS, SG_OP_LG2, SG_OP_EX2, SG_OP_TANH, SG_OP_TESTP, SG_OP_COPYSIGN, SG_OP_AND,
    SG_OP_OR, SG_OP_XOR, SG_OP_NOT, SG_OP_CNOT, SG_OP_LOP3, SG_OP_SHL, SG_OP_SHR, SG_OP_SHF, SG_OP_PRMT, SG_OP_POPC,
    SG_OP_CLZ, SG_OP_BREV, SG_OP_BFIND, SG_OP_BFE, SG_OP_BFI, SG_OP_BMSK, SG_OP_SZEXT, SG_OP_FNS, SG_OP_DP4A,
    SG_OP_DP2A, SG_OP_SETP, SG_OP_SET, SG_OP_SELP, SG_OP_SLCT, SG_OP_CVT
};
sg_decoder sg_decode_integer, sg_decode_float, sg_decode_half;
sg_decoder sg_decode_bits, sg_decode_compare, sg_decode_convert;
sg_decoder sg_decode_video;           /* operation: enum sg_video_operation + SG_VIDEO_ELEMENTS * (1, 2 or 4) */
enum { SG_VIDEO_ELEMENTS = 16 };

#endif
