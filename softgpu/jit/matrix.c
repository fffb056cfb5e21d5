/*
 * matrix.c: matrices that a full warp holds together. Their rows stay in the frame (rows.c), where the interpreter's
 * products find them: a product is some hundred vector instructions, the same for all of its kind, which are compiled
 * once and for all in products.c, and not again for each place where a kernel has one.
 *
 * ldmatrix and stmatrix are here: lines of 16 bytes of shared memory, each of which is a quarter of a register of the
 * processor on its way, whose addresses the first lanes have.
 */
#include "softgpu/jit/compile.h"

enum { LINES = 8, LINE = 16, ELEMENTS = LINES * LINES };

/* Element c of line r becomes element r of line c. */
static LLVMValueRef transposed(struct compiler *c, LLVMValueRef row)
{
    LLVMValueRef which[ELEMENTS];
    LLVMTypeRef type = LLVMVectorType(LLVMIntTypeInContext(c->context, 16), ELEMENTS);
    for (unsigned k = 0; k < ELEMENTS; k++)
        which[k] = constant_32(c, k % LINES * LINES + k / LINES);
    LLVMValueRef halves = LLVMBuildBitCast(c->builder, row, type, "");
    halves = LLVMBuildShuffleVector(c->builder, halves, LLVMGetUndef(type), LLVMConstVector(which, ELEMENTS), "");
    return LLVMBuildBitCast(c->builder, halves, c->row32, "");
}

/* Where the lines are, as addresses of the processor. Goes on in `rare` if one of them is wrong. */
static void find_lines(struct compiler *c, const struct exec_insn *i, unsigned lines, LLVMBasicBlockRef rare,
                       LLVMValueRef *at)
{
    LLVMBuilderRef b = c->builder;
    const bool narrow = i->flags & EXEC_ADDRESS_32;
    LLVMValueRef a = row_read(c, i->s[0], narrow ? ROW_32 : ROW_64);
    a = LLVMBuildAdd(b, narrow ? a : LLVMBuildTrunc(b, a, c->row32, ""),
                     splat(c, constant_32(c, (uint32_t)i->offset)), "");
    LLVMValueRef size = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared_size)), 8),
                 shared = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared)), 8);
    LLVMValueRef end = LLVMBuildAdd(b, a, splat(c, constant_32(c, LINE)), ""),
                 beyond = LLVMBuildICmp(b, LLVMIntUGT, end, splat(c, LLVMBuildTrunc(b, size, c->i32, "")), ""),
                 bits = LLVMBuildAnd(b, a, splat(c, constant_32(c, 0x80000000u | (LINE - 1))), ""),
                 odd = LLVMBuildICmp(b, LLVMIntNE, bits, LLVMConstNull(c->row32), "");
    LLVMValueRef wrong = LLVMBuildBitCast(b, LLVMBuildOr(b, beyond, odd, ""), c->i32, "");
    const uint32_t first = lines == SG_LANES ? UINT32_MAX : (1u << lines) - 1;
    LLVMBasicBlockRef right = block_new(c, "right");
    wrong = LLVMBuildAnd(b, wrong, constant_32(c, first), "");
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, wrong, constant_32(c, 0), ""), right, rare);
    LLVMPositionBuilderAtEnd(b, right);
    for (unsigned k = 0; k < lines; k++) {
        LLVMValueRef offset = LLVMBuildExtractElement(b, a, constant_32(c, k), "");
        at[k] = LLVMBuildAdd(b, LLVMBuildZExt(b, offset, c->i64, ""), shared, "");
    }
}

static LLVMTypeRef line_type(const struct compiler *c) { return LLVMVectorType(c->i32, LINE / 4); }

static LLVMValueRef load_lines(struct compiler *c, const LLVMValueRef *at)
{
    LLVMValueRef line[LINES];
    for (unsigned k = 0; k < LINES; k++) {
        line[k] = load_from(c, line_type(c), at[k], LINE);
        LLVMSetVolatile(line[k], true);
    }
    return vectors_join(c, line, LINES);
}

static void store_lines(struct compiler *c, LLVMValueRef row, const LLVMValueRef *at)
{
    for (unsigned k = 0; k < LINES; k++) {
        LLVMValueRef which[LINE / 4];
        for (unsigned l = 0; l < LINE / 4; l++)
            which[l] = constant_32(c, k * (LINE / 4) + l);
        LLVMValueRef line = LLVMBuildShuffleVector(c->builder, row, LLVMGetUndef(c->row32),
                                                   LLVMConstVector(which, LINE / 4), "");
        LLVMSetVolatile(store_to(c, line, at[k], LINE), true);
    }
}

static void move_tiles(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef rare)
{
    const struct exec_matrix_rows *x = i->extra;
    const bool store = i->kind & EXEC_TILES_STORE, other = i->kind & EXEC_TILES_TRANSPOSED;
    const unsigned tiles = store ? x->reads : x->writes;
    LLVMValueRef at[SG_LANES], rows[SG_LANES / LINES];
    find_lines(c, i, tiles * LINES, rare, at);
    for (unsigned k = 0; k < tiles; k++) {
        rows[k] = store ? row_read(c, x->from[k], ROW_32) : load_lines(c, at + k * LINES);
        if (other)
            rows[k] = transposed(c, rows[k]);
    }
    for (unsigned k = 0; k < tiles; k++) /* the last of them may be where addresses were */
        if (store)
            store_lines(c, rows[k], at + k * LINES);
        else
            row_write(c, x->to[k], ROW_32, rows[k]);
    if (!store)
        store_to(c, LLVMConstInt(c->i8, true, false), address_of(c, c->block, offsetof(struct exec_block, read)), 1);
}

bool emit_matrix(struct compiler *c, const struct exec_insn *i)
{
    const struct exec_matrix_rows *x = i->extra;
    if (i->known != EXEC_STRAIGHT_MATRIX || c->places || i->straight == EXEC_STRAIGHT_GUARDED || !x->tiles ||
        i->space != PTX_SPACE_SHARED || i->flags & (EXEC_ADDRESS_UNIFORM | EXEC_ADDRESS_FRAME) ||
        (i->s[0] & 3) != EXEC_BASE_FRAME)
        return false;
    LLVMBasicBlockRef rare = block_new(c, "rare"), behind = block_new(c, "moved");
    move_tiles(c, i, rare);
    rows_step_apart(c, i, rare, behind);
    return true;
}
