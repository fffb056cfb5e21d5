/*
 * straight.h: one handler that executes many instructions of a full warp.
 *
 * Where all 32 lanes of a warp are in one group, no other group exists, and nothing parts the lanes before a branch
 * does. So the handler goes from instruction to instruction by itself, with the common ones inline: no call, no look at
 * masks. It goes back to the loop of warp.c where an instruction is none of these, where a branch parts the lanes,
 * where the budget is spent, and where an access is not the usual one: then the instruction's own handler does it.
 */
#ifndef SOFTGPU_EXEC_STRAIGHT_H
#define SOFTGPU_EXEC_STRAIGHT_H

#include "softgpu/exec/exec.h"

/* What exec_insn.straight holds. NONE: the loop of warp.c alone executes it. ROWS_1 and so on: any function of so many
   rows that softgpu/alu has, ROWS_P with a predicate as source; COMPARE: its setp. */
enum exec_straight {
    EXEC_STRAIGHT_NONE,
    EXEC_STRAIGHT_ROWS_1, EXEC_STRAIGHT_ROWS_2, EXEC_STRAIGHT_ROWS_3, EXEC_STRAIGHT_ROWS_P, EXEC_STRAIGHT_COMPARE,
    EXEC_STRAIGHT_COPY_32, EXEC_STRAIGHT_COPY_64, EXEC_STRAIGHT_BRANCH, EXEC_STRAIGHT_BRANCH_IF,
    EXEC_STRAIGHT_GUARDED, EXEC_STRAIGHT_HALT, EXEC_STRAIGHT_PARAM, EXEC_STRAIGHT_REGION,
    EXEC_STRAIGHT_LOAD_8, EXEC_STRAIGHT_LOAD_16, EXEC_STRAIGHT_LOAD_32, EXEC_STRAIGHT_LOAD_64,
    EXEC_STRAIGHT_LOAD_8S, EXEC_STRAIGHT_LOAD_16S,
    EXEC_STRAIGHT_LOAD_8S_16,         /* known to compilers only: into a register of 16 bits */
    EXEC_STRAIGHT_STORE_8, EXEC_STRAIGHT_STORE_16, EXEC_STRAIGHT_STORE_32, EXEC_STRAIGHT_STORE_64,
    EXEC_STRAIGHT_SHARED_LOAD, EXEC_STRAIGHT_SHARED_STORE,
    EXEC_STRAIGHT_SHARED_LOAD_2, EXEC_STRAIGHT_SHARED_LOAD_4,
    EXEC_STRAIGHT_SHARED_STORE_2, EXEC_STRAIGHT_SHARED_STORE_4,
    EXEC_STRAIGHT_LOAD_32X2, EXEC_STRAIGHT_LOAD_32X4, EXEC_STRAIGHT_LOAD_64X2,
    EXEC_STRAIGHT_STORE_32X2, EXEC_STRAIGHT_STORE_32X4, EXEC_STRAIGHT_STORE_64X2,
    /* each is one operation of PTX: straighten.c says which, straight.c what it does */
    EXEC_STRAIGHT_ADD_F32, EXEC_STRAIGHT_SUB_F32, EXEC_STRAIGHT_MUL_F32, EXEC_STRAIGHT_FMA_F32,
    EXEC_STRAIGHT_ADD_FTZ_F32, EXEC_STRAIGHT_SUB_FTZ_F32, EXEC_STRAIGHT_MUL_FTZ_F32, EXEC_STRAIGHT_FMA_FTZ_F32,
    EXEC_STRAIGHT_ADD_32, EXEC_STRAIGHT_SUB_32, EXEC_STRAIGHT_MUL_LO_32, EXEC_STRAIGHT_MAD_LO_32,
    EXEC_STRAIGHT_AND_32, EXEC_STRAIGHT_OR_32, EXEC_STRAIGHT_XOR_32, EXEC_STRAIGHT_NOT_32, EXEC_STRAIGHT_SHL_32,
    EXEC_STRAIGHT_SHR_U32, EXEC_STRAIGHT_SHR_S32, EXEC_STRAIGHT_MIN_S32, EXEC_STRAIGHT_MAX_S32,
    EXEC_STRAIGHT_MIN_U32, EXEC_STRAIGHT_MAX_U32, EXEC_STRAIGHT_ADD_64, EXEC_STRAIGHT_SUB_64, EXEC_STRAIGHT_AND_64,
    EXEC_STRAIGHT_OR_64, EXEC_STRAIGHT_SHL_64, EXEC_STRAIGHT_MUL_WIDE_U32, EXEC_STRAIGHT_MUL_WIDE_S32,
    EXEC_STRAIGHT_SELP_32, EXEC_STRAIGHT_EQ_32, EXEC_STRAIGHT_NE_32, EXEC_STRAIGHT_LT_S32, EXEC_STRAIGHT_LE_S32,
    EXEC_STRAIGHT_GT_S32, EXEC_STRAIGHT_GE_S32, EXEC_STRAIGHT_LT_U32, EXEC_STRAIGHT_LE_U32, EXEC_STRAIGHT_GT_U32,
    EXEC_STRAIGHT_GE_U32,
    /* known to compilers only */
    EXEC_STRAIGHT_COMPILED,
    EXEC_STRAIGHT_CONTROL = EXEC_STRAIGHT_COMPILED, /* ends, divides or parks groups, or calls */
    EXEC_STRAIGHT_PART,               /* one of these, which changes no registers; others skip the one behind it */
    EXEC_STRAIGHT_TABLE,              /* one of these, which changes none either: jumps, `extra` is an exec_targets */
    EXEC_STRAIGHT_END,                /* one of these, behind which the lanes need no register any more */
    EXEC_STRAIGHT_BARRIER,            /* one of these, which reads its sources and goes on behind itself */
    EXEC_STRAIGHT_ALU,                /* any function of softgpu/alu: rows, predicates, the carry */
    EXEC_STRAIGHT_LOGIC,              /* of predicates: `kind` is an exec_logic */
    EXEC_STRAIGHT_LOAD, EXEC_STRAIGHT_STORE, EXEC_STRAIGHT_LOAD_VECTOR, EXEC_STRAIGHT_STORE_VECTOR, /* any others */
    EXEC_STRAIGHT_ATOMIC,             /* of one value of up to 64 bits; d is UINT32_MAX where nothing is returned */
    EXEC_STRAIGHT_EXCHANGE,           /* of lanes with each other: exchange.h. A full warp goes on, others may park */
    EXEC_STRAIGHT_SPECIAL,            /* reads a special register into a row */
    EXEC_STRAIGHT_LOCAL_ADDRESS,      /* `offset`, counted from the beginning of the frame's local memory */
    EXEC_STRAIGHT_CVTA,               /* the low 32 bits of an address, in the window that begins at `offset` */
    EXEC_STRAIGHT_SPLIT, EXEC_STRAIGHT_JOIN, /* of halves: `extra` is an exec_pieces */
    EXEC_STRAIGHT_FENCE,              /* below system scope: `order` says which */
    EXEC_STRAIGHT_MATRIX,             /* of matrices that a full warp holds: `extra` begins with exec_matrix_rows */
    EXEC_STRAIGHT_NEG_F32, EXEC_STRAIGHT_ABS_F32, EXEC_STRAIGHT_CVT_F32_S32, EXEC_STRAIGHT_CVT_F32_U32,
    EXEC_STRAIGHT_EXTEND_U32, EXEC_STRAIGHT_EXTEND_S32, EXEC_STRAIGHT_CUT_64, EXEC_STRAIGHT_NEG_32,
    EXEC_STRAIGHT_MUL_HI_U32, EXEC_STRAIGHT_MUL_HI_S32, EXEC_STRAIGHT_XOR_64, EXEC_STRAIGHT_SHR_U64,
    EXEC_STRAIGHT_SHR_S64, EXEC_STRAIGHT_MUL_LO_64, EXEC_STRAIGHT_MAD_WIDE_U32, EXEC_STRAIGHT_MAD_WIDE_S32,
    EXEC_STRAIGHT_SELP_64,
    EXEC_STRAIGHT_EQ_F32, EXEC_STRAIGHT_NE_F32, EXEC_STRAIGHT_LT_F32, EXEC_STRAIGHT_LE_F32, EXEC_STRAIGHT_GT_F32,
    EXEC_STRAIGHT_GE_F32, EXEC_STRAIGHT_EQU_F32, EXEC_STRAIGHT_NEU_F32, EXEC_STRAIGHT_LTU_F32, EXEC_STRAIGHT_LEU_F32,
    EXEC_STRAIGHT_GTU_F32, EXEC_STRAIGHT_GEU_F32,
    EXEC_STRAIGHT_DIV_F32, EXEC_STRAIGHT_RCP_F32, EXEC_STRAIGHT_SQRT_F32, EXEC_STRAIGHT_RSQRT_F32,
    EXEC_STRAIGHT_MIN_F32, EXEC_STRAIGHT_MAX_F32,
    EXEC_STRAIGHT_DIV_FTZ_F32, EXEC_STRAIGHT_RCP_FTZ_F32, EXEC_STRAIGHT_SQRT_FTZ_F32, EXEC_STRAIGHT_RSQRT_FTZ_F32,
    EXEC_STRAIGHT_MIN_FTZ_F32, EXEC_STRAIGHT_MAX_FTZ_F32,
    EXEC_STRAIGHT_SAT_F32, EXEC_STRAIGHT_LOP3_32, EXEC_STRAIGHT_CUT_16, EXEC_STRAIGHT_MUL_WIDE_U16,
    EXEC_STRAIGHT_ADD_F64, EXEC_STRAIGHT_SUB_F64, EXEC_STRAIGHT_MUL_F64, EXEC_STRAIGHT_FMA_F64, EXEC_STRAIGHT_DIV_F64,
    EXEC_STRAIGHT_RCP_F64, EXEC_STRAIGHT_SQRT_F64, EXEC_STRAIGHT_NEG_F64, EXEC_STRAIGHT_ABS_F64, EXEC_STRAIGHT_MIN_F64,
    EXEC_STRAIGHT_MAX_F64,
    EXEC_STRAIGHT_EQ_F64, EXEC_STRAIGHT_NE_F64, EXEC_STRAIGHT_LT_F64, EXEC_STRAIGHT_LE_F64, EXEC_STRAIGHT_GT_F64,
    EXEC_STRAIGHT_GE_F64, EXEC_STRAIGHT_EQU_F64, EXEC_STRAIGHT_NEU_F64, EXEC_STRAIGHT_LTU_F64, EXEC_STRAIGHT_LEU_F64,
    EXEC_STRAIGHT_GTU_F64, EXEC_STRAIGHT_GEU_F64,
    EXEC_STRAIGHT_CVT_F64_F32, EXEC_STRAIGHT_CVT_F32_F64, EXEC_STRAIGHT_CVT_F64_S32, EXEC_STRAIGHT_CVT_F64_U32,
    EXEC_STRAIGHT_EQ_64, EXEC_STRAIGHT_NE_64, EXEC_STRAIGHT_LT_S64, EXEC_STRAIGHT_LE_S64, EXEC_STRAIGHT_GT_S64,
    EXEC_STRAIGHT_GE_S64, EXEC_STRAIGHT_LT_U64, EXEC_STRAIGHT_LE_U64, EXEC_STRAIGHT_GT_U64, EXEC_STRAIGHT_GE_U64,
    EXEC_STRAIGHT_LT_S16, EXEC_STRAIGHT_LE_S16, EXEC_STRAIGHT_GT_S16, EXEC_STRAIGHT_GE_S16,
    EXEC_STRAIGHT_MIN_S64, EXEC_STRAIGHT_MAX_S64, EXEC_STRAIGHT_MIN_U64, EXEC_STRAIGHT_MAX_U64, EXEC_STRAIGHT_MIN_S16,
    EXEC_STRAIGHT_MAX_S16, EXEC_STRAIGHT_NEG_64, EXEC_STRAIGHT_NOT_64, EXEC_STRAIGHT_NOT_16, EXEC_STRAIGHT_ABS_32,
    EXEC_STRAIGHT_ABS_64, EXEC_STRAIGHT_MAD_LO_64, EXEC_STRAIGHT_ADD_16, EXEC_STRAIGHT_SUB_16, EXEC_STRAIGHT_MUL_LO_16,
    EXEC_STRAIGHT_MUL_WIDE_S16, EXEC_STRAIGHT_SHL_16, EXEC_STRAIGHT_SHR_S16, EXEC_STRAIGHT_NEG_16,
    EXEC_STRAIGHT_CUT_8, EXEC_STRAIGHT_CUT_64_16, EXEC_STRAIGHT_SIGN_8, EXEC_STRAIGHT_SIGN_16, EXEC_STRAIGHT_SIGN_8_16,
    EXEC_STRAIGHT_BFE_U32, EXEC_STRAIGHT_BFE_S32, EXEC_STRAIGHT_BFI_32, EXEC_STRAIGHT_BFI_64,
    EXEC_STRAIGHT_POPC_32, EXEC_STRAIGHT_POPC_64,
    EXEC_STRAIGHT_CLZ_32, EXEC_STRAIGHT_CLZ_64, EXEC_STRAIGHT_BREV_32,
    EXEC_STRAIGHT_SHF_L_WRAP, EXEC_STRAIGHT_SHF_L_CLAMP, EXEC_STRAIGHT_SHF_R_WRAP, EXEC_STRAIGHT_SHF_R_CLAMP,
    EXEC_STRAIGHT_PRMT, EXEC_STRAIGHT_DP4A_UU, EXEC_STRAIGHT_DP4A_US, EXEC_STRAIGHT_DP4A_SU, EXEC_STRAIGHT_DP4A_SS,
    EXEC_STRAIGHT_CVT_F32_F16, EXEC_STRAIGHT_CVT_F16_F32,
    EXEC_STRAIGHT_DIV_U32, EXEC_STRAIGHT_DIV_S32, EXEC_STRAIGHT_REM_U32, EXEC_STRAIGHT_REM_S32,
    /* of these `detail` says more: an exec_approx; an exec_round, and EXEC_ROUNDED_...; an exec_round; EXEC_FROM_... */
    EXEC_STRAIGHT_APPROX_F32, EXEC_STRAIGHT_APPROX_2_F32, EXEC_STRAIGHT_APPROX_F64,
    EXEC_STRAIGHT_ROUNDED_2_F32, EXEC_STRAIGHT_ROUNDED_3_F32,
    EXEC_STRAIGHT_INTEGRAL_F32, EXEC_STRAIGHT_F32_TO_S32, EXEC_STRAIGHT_F32_TO_U32,
    EXEC_STRAIGHT_INTEGRAL_F64, EXEC_STRAIGHT_F64_TO_S32, EXEC_STRAIGHT_F64_TO_U32,
    EXEC_STRAIGHT_CVT_F32_SMALL, EXEC_STRAIGHT_CVT_F32_64, EXEC_STRAIGHT_CVT_F64_64, /* from integers */
    EXEC_STRAIGHT_COUNT
};

/* Functions that PTX only promises a bound of the error for; of f32 also with EXEC_APPROX_FTZ. */
enum exec_approx {
    EXEC_APPROX_EX2, EXEC_APPROX_LG2, EXEC_APPROX_SIN, EXEC_APPROX_COS, EXEC_APPROX_TANH, EXEC_APPROX_DIV,
    EXEC_APPROX_RCP_FTZ_F64, EXEC_APPROX_RSQRT_F64, EXEC_APPROX_RSQRT_FTZ_F64,
    EXEC_APPROX_FTZ = 16
};
enum exec_round { EXEC_ROUND_NEAREST, EXEC_ROUND_ZERO, EXEC_ROUND_DOWN, EXEC_ROUND_UP, EXEC_ROUND = 3 };
enum {
    EXEC_ROUNDED_ADD = 0, EXEC_ROUNDED_SUB = 4, EXEC_ROUNDED_MUL = 8, EXEC_ROUNDED_FMA = 12, EXEC_ROUNDED = 12,
    EXEC_ROUNDED_FTZ = 16, EXEC_ROUNDED_SAT = 32
};
/* Of an integer: its bits, and its sign. */
enum { EXEC_FROM_BITS = 127, EXEC_FROM_SIGNED = 128 };

/* `kind` of EXEC_STRAIGHT_REGION. INSIDE: where a warp comes in that has halted; other code goes on over it. */
enum { EXEC_REGION_HEAD, EXEC_REGION_INSIDE };
/* p = a or b, a being `in` and b the predicate `q`, inverted by `cost`. */
enum exec_logic { EXEC_LOGIC_MOV, EXEC_LOGIC_AND, EXEC_LOGIC_OR, EXEC_LOGIC_XOR };
/* What `kind` holds where an access of a vector is one of global memory, in a shape that row functions know, and
   without an order. */
enum { EXEC_VECTOR_GLOBAL = 1 };
static inline bool exec_is_global_vector(const struct exec_insn *i)
{
    return (i->known == EXEC_STRAIGHT_LOAD_VECTOR || i->known == EXEC_STRAIGHT_STORE_VECTOR) &&
           i->kind == EXEC_VECTOR_GLOBAL;
}
/* What an insn of softgpu/alu writes, in `kind`; and of setp, how the comparison is combined with the predicate `in`,
   and whether subnormals are flushed before. */
enum {
    EXEC_ALU_ROW = 1, EXEC_ALU_P = 2, EXEC_ALU_Q = 4, EXEC_ALU_CARRY = 8,
    EXEC_ALU_AND = 16, EXEC_ALU_OR = 32, EXEC_ALU_XOR = 48, EXEC_ALU_COMBINED = 48, EXEC_ALU_FLUSHED = 64
};

/* Of an insn that puts a row together from others, or takes it apart: equal pieces of so many bytes. */
struct exec_pieces { uint32_t count, size; exec_source rows[16]; uint32_t to[16]; bool sink[16]; };

/* Of an insn that jumps by a table: numbers of instructions of the function. */
struct exec_targets { uint32_t count, at[]; };

/* Of an insn of EXEC_STRAIGHT_MATRIX: the rows that it reads and writes in all lanes, beside the sources s. wide: a bit
   for each row of 64 bits. tiles: it moves one matrix of 8 by 8 elements of 16 bits for each row between registers and
   memory, whose lines are where the first lanes say; `kind` has EXEC_TILES_... */
enum { EXEC_MATRIX_READS = 32, EXEC_MATRIX_WRITES = 8 };
struct exec_matrix_rows {
    exec_source from[EXEC_MATRIX_READS];
    uint32_t to[EXEC_MATRIX_WRITES];
    uint32_t wide_from, wide_to;
    uint8_t reads, writes;
    bool tiles;
};
enum { EXEC_TILES_STORE = 1, EXEC_TILES_TRANSPOSED = 2 };

struct exec_straight_handler { exec_handler *run; };

/* For an instruction of PTX that became the insn with that handler, of softgpu/alu: which it is, and its `detail`. */
uint8_t exec_straight_of(const struct ptx_instruction *, uint8_t otherwise, uint8_t *detail);
/* Of a decoded function, with `straight` set: hands the instructions to the handler. */
void exec_straighten(struct exec_insn *, uint32_t count);

#endif
