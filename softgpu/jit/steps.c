/*
 * steps.c: accesses of full warps whose lanes are a known number of bytes apart (shapes.c): lane 0 says where all are.
 * Side by side, or in small steps, they are a few loads whose elements change places; at one place, they are one load.
 */
#include "softgpu/jit/access.h"

#include <string.h>

enum { PIECE = 16, PIECES_MOST = 4, LAST = SG_LANES - 1 };

static void go_on_if(struct compiler *c, LLVMValueRef condition, LLVMBasicBlockRef rare)
{
    LLVMBasicBlockRef right = block_new(c, "right");
    branch_mostly(c, condition, right, rare);
    LLVMPositionBuilderAtEnd(c->builder, right);
}

/* ---- global memory ---- */

/* Goes on where all bytes from lane 0's place on may be touched. Returns that place. */
static LLVMValueRef find_first(struct compiler *c, const struct exec_insn *i, unsigned align, unsigned bytes,
                               unsigned rights, LLVMBasicBlockRef rare)
{
    struct window_place p = { .low = address_of(c, row_first_lane(c, i->s[0], ROW_64), (uint64_t)i->offset) };
    if (whole_find(c, i, p.low, align, bytes, rare))
        return p.low;
    LLVMBasicBlockRef right = together_ask(c, i, p.low, align, bytes);
    go_on_inside(c, is_aligned(c, p.low, align), &p, 1, bytes, rare);
    go_on_if(c, may_touch(c, &p, bytes, rights), rare);
    if (right) {
        LLVMBuildBr(c->builder, right);
        LLVMPositionBuilderAtEnd(c->builder, right);
    }
    return p.low;
}

void find_steps(struct compiler *c, const struct exec_insn *i, unsigned each, unsigned rights, LLVMBasicBlockRef rare,
                LLVMValueRef *address)
{
    address[0] = find_first(c, i, each, SG_LANES * each, rights, rare);
    address[1] = address_of(c, address[0], HALF * each);
}

static LLVMValueRef load_one(struct compiler *c, const struct exec_insn *i, LLVMTypeRef type, LLVMValueRef at)
{
    LLVMValueRef value = load_from(c, type, at, i->size);
    LLVMSetVolatile(value, true);
    return value;
}

static LLVMTypeRef element_of(const struct compiler *c, const struct exec_insn *i)
{
    return LLVMIntTypeInContext(c->context, 8u * i->size);
}

/* All lanes load one element. */
static void load_same(struct compiler *c, const struct exec_insn *i, LLVMValueRef at)
{
    LLVMValueRef value = widened(c, i, load_one(c, i, element_of(c, i), at));
    row_write(c, i->d, access_bits(i), splat(c, value));
}

/* Bytes from the first element of a group of lanes, whose elements fill a piece, to the end of the last piece that has
   one of its elements. */
static unsigned group_bytes(const struct exec_insn *i, unsigned step)
{
    const unsigned lanes = PIECE / i->size, bytes = (lanes - 1) * step + i->size;
    return (bytes + PIECE - 1) / PIECE * PIECE;
}

/* The elements of so many lanes, which lie in these pieces. */
static LLVMValueRef pick_elements(struct compiler *c, const struct exec_insn *i, unsigned step, LLVMValueRef at)
{
    const unsigned lanes = PIECE / i->size, pieces = group_bytes(i, step) / PIECE;
    LLVMTypeRef type = LLVMVectorType(element_of(c, i), lanes);
    LLVMValueRef all = LLVMGetUndef(type), which[PIECE];
    for (unsigned p = 0; p < pieces; p++) {
        LLVMValueRef piece = load_one(c, i, type, address_of(c, at, p * PIECE));
        for (unsigned l = 0; l < lanes; l++) {
            const unsigned from = l * step / i->size;
            which[l] = constant_32(c, from / lanes == p ? lanes + from % lanes : l);
        }
        all = LLVMBuildShuffleVector(c->builder, all, piece, LLVMConstVector(which, lanes), "");
    }
    return all;
}

static void load_spread(struct compiler *c, const struct exec_insn *i, unsigned step, LLVMValueRef at)
{
    const unsigned lanes = PIECE / i->size, groups = SG_LANES / lanes;
    LLVMValueRef group[SG_LANES];
    for (unsigned g = 0; g < groups; g++)
        group[g] = pick_elements(c, i, step, address_of(c, at, g * lanes * step));
    row_write(c, i->d, access_bits(i), widened(c, i, vectors_join(c, group, groups)));
}

bool global_steps(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind)
{
    const struct row_shape shape = shape_of(c, i->s[0], ROW_64);
    const int64_t step = shape.step;
    if (shape.kind != SHAPE_STEPS || access_is_store(i))
        return false;
    if (!step)
        load_same(c, i, find_first(c, i, i->size, i->size, SG_READ, rare));
    else if (step > i->size && step <= PIECES_MOST * i->size && step % i->size == 0) {
        const unsigned lanes = PIECE / i->size, by = (unsigned)step,
                       bytes = (SG_LANES - lanes) * by + group_bytes(i, by);
        load_spread(c, i, by, find_first(c, i, i->size, bytes, SG_READ, rare));
    } else
        return false;
    LLVMBuildBr(c->builder, behind);
    return true;
}

/* ---- shared memory: elements of 32 bits ---- */

static void load_each(struct compiler *c, const struct exec_insn *i, int64_t step, LLVMValueRef at)
{
    LLVMValueRef row = LLVMGetUndef(c->row32);
    for (unsigned l = 0; l < SG_LANES; l++)
        row = LLVMBuildInsertElement(c->builder, row,
                                     load_one(c, i, c->i32, address_of(c, at, (uint64_t)(step * (int64_t)l))),
                                     constant_32(c, l), "");
    row_write(c, i->d, ROW_32, row);
}

static void store_each(struct compiler *c, const struct exec_insn *i, int64_t step, LLVMValueRef at)
{
    LLVMValueRef row = row_read(c, i->s[1], ROW_32);
    for (unsigned l = 0; l < SG_LANES; l++) {
        LLVMValueRef value = LLVMBuildExtractElement(c->builder, row, constant_32(c, l), "");
        LLVMSetVolatile(store_to(c, value, address_of(c, at, (uint64_t)(step * (int64_t)l)), 4), true);
    }
}

/* Lane 0's offset in shared memory, of 32 bits. */
static LLVMValueRef shared_first(struct compiler *c, const struct exec_insn *i)
{
    const enum row_bits bits = i->flags & EXEC_ADDRESS_32 ? ROW_32 : ROW_64;
    LLVMValueRef first = row_first_lane(c, i->s[0], bits);
    if (bits == ROW_64)
        first = LLVMBuildTrunc(c->builder, first, c->i32, "");
    return LLVMBuildAdd(c->builder, first, constant_32(c, (uint32_t)i->offset), "");
}

static LLVMValueRef shared_member(struct compiler *c, size_t offset)
{
    return load_from(c, c->i64, address_of(c, c->block, offset), 8);
}

static LLVMValueRef shared_address(struct compiler *c, LLVMValueRef offset)
{
    return LLVMBuildAdd(c->builder, shared_member(c, offsetof(struct exec_block, shared)), offset, "");
}

/* Goes on where all lanes are in shared memory. Returns where lane 0 is. */
static LLVMValueRef find_shared(struct compiler *c, const struct exec_insn *i, int64_t step, LLVMBasicBlockRef rare)
{
    LLVMBuilderRef b = c->builder;
    const int64_t span = (step < 0 ? -step : step) * LAST;
    LLVMValueRef first = shared_first(c, i), offset = LLVMBuildZExt(b, first, c->i64, ""),
                 low = address_of(c, offset, step < 0 ? (uint64_t)-span : 0); /* below 0 it is far too large */
    LLVMValueRef size = shared_member(c, offsetof(struct exec_block, shared_size));
    LLVMValueRef inside = both(c, fits_shared(c, low, (unsigned)span + 4), LLVMBuildICmp(b, LLVMIntULT, low, size, ""));
    go_on_if(c, both(c, inside, is_aligned(c, first, 4)), rare);
    return shared_address(c, offset);
}

/* Words that lie side by side: goes on where those of these lanes and that of lane 0 are in shared memory. Returns
   where lane 0's is. */
static LLVMValueRef find_shared_some(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes,
                                     LLVMBasicBlockRef rare)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef first = shared_first(c, i), offset = LLVMBuildZExt(b, first, c->i64, ""),
                 left = LLVMBuildSub(b, shared_member(c, offsetof(struct exec_block, shared_size)), offset, ""),
                 most = constant_64(c, SG_LANES), count = LLVMBuildLShr(b, left, constant_64(c, 2), "");
    go_on_if(c, both(c, LLVMBuildICmp(b, LLVMIntSGT, left, constant_64(c, 0), ""), is_aligned(c, first, 4)), rare);
    count = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntULT, count, most, ""), count, most, "");
    LLVMValueRef beyond = LLVMBuildTrunc(b, LLVMBuildShl(b, constant_64(c, UINT64_MAX), count, ""), c->i32, "");
    LLVMValueRef wrong = LLVMBuildAnd(b, beyond, lanes, "");
    go_on_if(c, LLVMBuildICmp(b, LLVMIntEQ, wrong, constant_32(c, 0), ""), rare);
    return shared_address(c, offset);
}

/* The shape of the lanes' offsets in shared memory. */
static struct row_shape shared_shape(const struct compiler *c, const struct exec_insn *i)
{
    struct row_shape shape = shape_of(c, i->s[0], i->flags & EXEC_ADDRESS_32 ? ROW_32 : ROW_64);
    shape.step = (int32_t)shape.step;
    return shape;
}

bool is_side_by_side(const struct compiler *c, const struct exec_insn *i)
{
    const struct row_shape shape = access_is_shared(i) ? shared_shape(c, i) : shape_of(c, i->s[0], ROW_64);
    return access_bits(i) && shape.kind == SHAPE_STEPS && shape.step == i->size;
}

bool shared_steps(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind)
{
    const struct row_shape shape = shared_shape(c, i);
    const int64_t step = shape.step;
    const bool store = access_is_store(i);
    if (shape.kind != SHAPE_STEPS || step % 4 || (store && !step) ||
        (step < 0 ? -step : step) * LAST > (int64_t)EXEC_SHARED_OFFSET)
        return false;
    LLVMValueRef at = find_shared(c, i, step, rare);
    const LLVMValueRef half[2] = { at, address_of(c, at, 4 * HALF) };
    if (step == 4)
        (store ? move_to : move_from)(c, i, half);
    else if (store)
        store_each(c, i, step, at);
    else if (!step)
        load_same(c, i, at);
    else
        load_each(c, i, step, at);
    if (!store)
        note_read(c, i);
    LLVMBuildBr(c->builder, behind);
    return true;
}

/* ---- in code for whole blocks: lanes that go on, where others have come to their end ---- */

/* Where lane 0 is. */
static LLVMValueRef find_some(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes,
                              LLVMBasicBlockRef rare)
{
    if (access_is_shared(i))
        return find_shared_some(c, i, lanes, rare);
    LLVMValueRef low = address_of(c, row_first_lane(c, i->s[0], ROW_64), (uint64_t)i->offset);
    whole_find(c, i, low, i->size, SG_LANES * i->size, rare);
    return low;
}

bool some_steps(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef rare,
                LLVMBasicBlockRef behind)
{
    LLVMBuilderRef b = c->builder;
    const enum row_bits bits = access_bits(i);
    if (!c->whole.rest || i->size < 4 || !is_side_by_side(c, i) ||
        (!access_is_shared(i) && !whole_has_span(c, i, SG_LANES * i->size)))
        return false;
    LLVMBasicBlockRef some = block_new(c, "some");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, lanes, constant_32(c, 0), ""), behind, some);
    LLVMPositionBuilderAtEnd(b, some);
    const bool store = access_is_store(i);
    LLVMTypeRef row = bits == ROW_64 ? c->row64 : c->row32;
    LLVMValueRef low = find_some(c, i, lanes, rare), at = LLVMBuildIntToPtr(b, low, LLVMPointerType(row, 0), ""),
                 which = lanes_spread(c, lanes, bits), align = constant_32(c, i->size);
    if (store) {
        LLVMValueRef s[4] = { row_read(c, i->s[1], bits), at, align, which };
        masked(c, "llvm.masked.store", row, LLVMVoidTypeInContext(c->context), s);
    } else {
        LLVMValueRef s[4] = { at, align, which, row_read(c, i->d | EXEC_BASE_FRAME, bits) };
        row_write(c, i->d, bits, masked(c, "llvm.masked.load", row, row, s));
        note_read(c, i);
    }
    LLVMBuildBr(b, behind);
    return true;
}
