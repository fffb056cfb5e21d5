/*
 * access.c: accesses of memory. Straight is the usual case: a full warp, the lanes of each half of it side by side, in
 * the window (softgpu/memory.h) of the access before, or in shared memory, where they may also be at one place. Where
 * the lanes are in steps that are known (shapes.c), only lane 0 is looked at (steps.c). Other cases are done lane by
 * lane (lanes.c), or by the interpreter, which does those with a fault, before anything has been changed. Accesses are
 * volatile: as many as the kernel makes, in its order. What was looked up in the window stays known until the next
 * branch backward that ends the turn at the latest.
 */
#include "softgpu/jit/access.h"

#include <string.h>

static bool is_load(uint8_t k) { return k >= EXEC_STRAIGHT_LOAD_8 && k <= EXEC_STRAIGHT_LOAD_8S_16; }
static LLVMValueRef all_equal(struct compiler *c, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef lanes = LLVMBuildBitCast(c->builder, LLVMBuildICmp(c->builder, LLVMIntEQ, a, b, ""), c->i32, "");
    return LLVMBuildICmp(c->builder, LLVMIntEQ, lanes, constant_32(c, UINT32_MAX), "");
}

/* Goes on where the first and the last lanes of both halves are so many bytes apart, in `rare` where not: that says of
   most rows that they are not as is wanted, before all lanes are compared. */
static void go_on_if_ends(struct compiler *c, LLVMValueRef a, const LLVMValueRef *first, uint64_t apart,
                          LLVMBasicBlockRef rare)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef fits[2];
    for (unsigned h = 0; h < 2; h++) {
        LLVMValueRef last = LLVMBuildExtractElement(b, a, constant_32(c, h * HALF + HALF - 1), "");
        fits[h] = LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildSub(b, last, first[h], ""),
                                LLVMConstInt(LLVMTypeOf(last), apart, false), "");
    }
    LLVMBasicBlockRef ends = block_new(c, "ends");
    LLVMBuildCondBr(b, LLVMBuildAnd(b, fits[0], fits[1], ""), ends, rare);
    LLVMPositionBuilderAtEnd(b, ends);
}

/* ---- halves of a warp: each lies side by side, or is at one place ---- */

static LLVMValueRef part(struct compiler *c, LLVMValueRef row, unsigned first)
{
    LLVMValueRef which[HALF];
    for (unsigned l = 0; l < HALF; l++)
        which[l] = constant_32(c, first + l);
    return LLVMBuildShuffleVector(c->builder, row, LLVMGetUndef(LLVMTypeOf(row)), LLVMConstVector(which, HALF), "");
}

static void set_volatile(LLVMValueRef access) { LLVMSetVolatile(access, true); }

LLVMValueRef widened(struct compiler *c, const struct exec_insn *i, LLVMValueRef elements)
{
    const bool half = i->known == EXEC_STRAIGHT_LOAD_8S_16,
               sign = half || i->known == EXEC_STRAIGHT_LOAD_8S || i->known == EXEC_STRAIGHT_LOAD_16S;
    if (i->size >= 4)
        return elements;
    const bool one = LLVMGetTypeKind(LLVMTypeOf(elements)) == LLVMIntegerTypeKind;
    LLVMValueRef value = LLVMBuildCast(c->builder, sign ? LLVMSExt : LLVMZExt, elements, one ? c->i32 : c->row32, ""),
                 low = constant_32(c, UINT16_MAX);
    return half ? LLVMBuildAnd(c->builder, value, one ? low : splat(c, low), "") : value;
}

void move_from(struct compiler *c, const struct exec_insn *i, const LLVMValueRef *address)
{
    LLVMTypeRef type = LLVMVectorType(LLVMIntTypeInContext(c->context, 8 * i->size), HALF);
    LLVMValueRef half[2];
    for (unsigned h = 0; h < 2; h++) {
        half[h] = load_from(c, type, address[h], i->size);
        set_volatile(half[h]);
    }
    row_write(c, i->d, access_bits(i), widened(c, i, halves_join(c, half)));
}

void move_to(struct compiler *c, const struct exec_insn *i, const LLVMValueRef *address)
{
    LLVMTypeRef type = LLVMVectorType(LLVMIntTypeInContext(c->context, 8 * i->size), SG_LANES);
    LLVMValueRef value = row_read(c, i->s[1], access_bits(i));
    if (i->size < 4)
        value = LLVMBuildTrunc(c->builder, value, type, "");
    for (unsigned h = 0; h < 2; h++)
        set_volatile(store_to(c, part(c, value, h * HALF), address[h], i->size));
}

/* ---- global memory ---- */

/* Goes on where the condition holds and both places may be touched. */
static void find_both(struct compiler *c, const struct exec_insn *i, LLVMValueRef condition, struct window_place *p,
                      unsigned bytes, unsigned rights, LLVMBasicBlockRef rare)
{
    if (whole_has_span(c, i, bytes)) {
        LLVMBasicBlockRef found = block_new(c, "found");
        branch_mostly(c, condition, found, rare);
        LLVMPositionBuilderAtEnd(c->builder, found);
        for (unsigned h = 0; h < 2; h++)
            whole_find(c, i, p[h].low, 1, bytes, rare);
        return;
    }
    LLVMBasicBlockRef allowed = block_new(c, "allowed");
    go_on_inside(c, condition, p, 2, bytes, rare);
    branch_mostly(c, both(c, may_touch(c, &p[0], bytes, rights), may_touch(c, &p[1], bytes, rights)), allowed, rare);
    LLVMPositionBuilderAtEnd(c->builder, allowed);
}

/* Where the halves of a warp are; goes on in `rare` if that is not the usual case. each: bytes of a lane. */
static void find_halves(struct compiler *c, const struct exec_insn *i, unsigned each, LLVMBasicBlockRef rare,
                        LLVMValueRef *address)
{
    LLVMBuilderRef b = c->builder;
    const bool load = is_load(i->known) || i->known == EXEC_STRAIGHT_LOAD_VECTOR;
    unsigned bytes = each * HALF, rights = load ? SG_READ : SG_WRITE;
    const struct row_shape shape = shape_of(c, i->s[0], ROW_64);
    if (shape.kind == SHAPE_STEPS && shape.step == (int64_t)each) {
        find_steps(c, i, each, rights, rare, address);
        return;
    }
    LLVMValueRef a = row_read(c, i->s[0], ROW_64), first[2];
    struct window_place p[2];
    for (unsigned h = 0; h < 2; h++) {
        first[h] = LLVMBuildExtractElement(b, a, constant_32(c, h * HALF), "");
        p[h].low = address[h] = address_of(c, first[h], (uint64_t)i->offset);
    }
    go_on_if_ends(c, a, first, (uint64_t)each * (HALF - 1), rare);
    LLVMValueRef beside = all_equal(c, a, half_ramps(c, first[0], first[1], each));
    LLVMValueRef usual = both(c, beside, is_aligned(c, LLVMBuildOr(b, address[0], address[1], ""), each));
    find_both(c, i, usual, p, bytes, rights, rare);
}

/* Each half loads one element: blocks of 16 by 16 threads do, of a row that they have in common. */
static void load_two(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef a = row_read(c, i->s[0], ROW_64), first[2], value[2];
    struct window_place p[2];
    for (unsigned h = 0; h < 2; h++) {
        first[h] = LLVMBuildExtractElement(b, a, constant_32(c, h * HALF), "");
        p[h].low = address_of(c, first[h], (uint64_t)i->offset);
    }
    go_on_if_ends(c, a, first, 0, rare);
    LLVMValueRef same = all_equal(c, a, halves_of(c, first[0], first[1])),
                 aligned = is_aligned(c, LLVMBuildOr(b, p[0].low, p[1].low, ""), i->size);
    find_both(c, i, both(c, same, aligned), p, i->size, SG_READ, rare);
    for (unsigned h = 0; h < 2; h++) {
        value[h] = load_from(c, LLVMIntTypeInContext(c->context, 8u * i->size), p[h].low, i->size);
        set_volatile(value[h]);
        value[h] = widened(c, i, value[h]);
    }
    row_write(c, i->d, access_bits(i), halves_of(c, value[0], value[1]));
    LLVMBuildBr(b, behind);
}

void prefetch(struct compiler *c, LLVMValueRef address, bool store, unsigned level)
{
    static const char name[] = "llvm.prefetch";
    LLVMTypeRef at = LLVMPointerType(c->i8, 0), types[4] = { at, c->i32, c->i32, c->i32 };
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), &at, 1);
    LLVMValueRef arguments[4] = { LLVMBuildIntToPtr(c->builder, address, at, ""), constant_32(c, store),
                                  constant_32(c, 4 - level), constant_32(c, 1) };
    LLVMBuildCall2(c->builder, LLVMFunctionType(LLVMVoidTypeInContext(c->context), types, 4, false), f, arguments, 4,
                   "");
}

/* Products of matrices load the next tile while they compute with this one, from rows that are a page apart, so that
   the processor does not see what comes next, and each load would wait. The next is as far from this as this is from
   the one before. Where that is wrong, nothing happens. */
static void foretell(struct compiler *c, const LLVMValueRef *address)
{
    LLVMBuilderRef b = c->builder;
    if (!c->has_runs || c->seen == EXEC_SEEN)
        return;
    LLVMValueRef at = address_of(c, c->warp, offsetof(struct exec_warp, seen) + c->seen++ * sizeof(uint64_t)),
                 step = LLVMBuildSub(b, address[0], load_from(c, c->i64, at, 8), "");
    store_to(c, address[0], at, 8);
    for (unsigned h = 0; h < 2; h++)
        prefetch(c, LLVMBuildAdd(b, address[h], step, ""), false, 1);
}

/* Where each warp has a row of its own, the processor sees no sequence in what the block touches. Blocks that come next
   lie beside it. To the second level of the cache: the first one has too few places for lines that are on their way. */
static void foretell_blocks(struct compiler *c, const LLVMValueRef *address, bool store)
{
    for (unsigned h = 0; c->whole.ahead && h < 2; h++)
        prefetch(c, LLVMBuildAdd(c->builder, address[h], c->whole.ahead, ""), store, 2);
}

static void global(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind)
{
    LLVMValueRef address[2];
    if (global_steps(c, i, rare, behind))
        return;
    const bool loads = !access_is_store(i),
               two = loads && shape_of(c, i->s[0], ROW_64).kind != SHAPE_STEPS;
    LLVMBasicBlockRef other = two ? block_new(c, "other") : rare;
    find_halves(c, i, i->size, other, address);
    if (loads)
        foretell(c, address);
    foretell_blocks(c, address, !loads);
    (loads ? move_from : move_to)(c, i, address);
    LLVMBuildBr(c->builder, behind);
    if (!two)
        return;
    LLVMPositionBuilderAtEnd(c->builder, other);
    load_two(c, i, rare, behind);
}

/* A vector for each lane. */
static void global_vector(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef rare,
                          LLVMBasicBlockRef behind)
{
    LLVMValueRef address[2];
    find_halves(c, i, i->size * i->vector, rare, address);
    if (i->known == EXEC_STRAIGHT_STORE_VECTOR)
        vector_store(c, i, address);
    else
        vector_load(c, i, address, true);
    LLVMBuildBr(c->builder, behind);
}

/* ---- shared memory ---- */

LLVMValueRef fits_shared(struct compiler *c, LLVMValueRef offset, unsigned bytes)
{
    LLVMValueRef size = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared_size)), 8);
    LLVMValueRef end = address_of(c, offset, bytes);
    return LLVMBuildICmp(c->builder, LLVMIntULE, end, size, "");
}

/* Where the first lane of each half is: offsets and addresses; whether both are aligned. */
struct shared_place { LLVMValueRef offset[2], at[2], address[2], aligned; };

static struct shared_place shared_place_of(struct compiler *c, LLVMValueRef offsets)
{
    LLVMBuilderRef b = c->builder;
    struct shared_place p;
    LLVMValueRef base = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared)), 8);
    for (unsigned h = 0; h < 2; h++) {
        p.offset[h] = LLVMBuildExtractElement(b, offsets, constant_32(c, h * HALF), "");
        p.at[h] = LLVMBuildZExt(b, p.offset[h], c->i64, "");
        p.address[h] = LLVMBuildAdd(b, base, p.at[h], "");
    }
    p.aligned = is_aligned(c, LLVMBuildOr(b, p.offset[0], p.offset[1], ""), 4);
    return p;
}

static LLVMValueRef both_fit(struct compiler *c, const struct shared_place *p, unsigned bytes)
{
    return both(c, p->aligned, both(c, fits_shared(c, p->at[0], bytes), fits_shared(c, p->at[1], bytes)));
}

static void shared_load_same(struct compiler *c, const struct exec_insn *i, const struct shared_place *p)
{
    LLVMValueRef value[2];
    for (unsigned h = 0; h < 2; h++) {
        value[h] = load_from(c, c->i32, p->address[h], 4);
        set_volatile(value[h]);
    }
    row_write(c, i->d, ROW_32, halves_of(c, value[0], value[1]));
    note_read(c, i);
}

static void shared(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind)
{
    LLVMBuilderRef b = c->builder;
    bool narrow = i->flags & EXEC_ADDRESS_32, store = access_is_store(i);
    if (shared_steps(c, i, rare, behind))
        return;
    LLVMValueRef a = row_read(c, i->s[0], narrow ? ROW_32 : ROW_64);
    LLVMValueRef offsets = narrow ? a : LLVMBuildTrunc(b, a, c->row32, "");
    offsets = LLVMBuildAdd(b, offsets, splat(c, constant_32(c, (uint32_t)i->offset)), "");
    struct shared_place p = shared_place_of(c, offsets);
    LLVMValueRef first = halves_of(c, p.offset[0], p.offset[1]);
    LLVMValueRef beside = all_equal(c, offsets, half_ramp(c, first, 4));
    LLVMBasicBlockRef steps = block_new(c, "steps"), other = store ? rare : block_new(c, "other");
    branch_mostly(c, both(c, beside, both_fit(c, &p, 4 * HALF)), steps, other);
    LLVMPositionBuilderAtEnd(b, steps);
    (store ? move_to : move_from)(c, i, p.address);
    note_read(c, i);
    LLVMBuildBr(b, behind);
    if (store)
        return;
    LLVMBasicBlockRef same = block_new(c, "same");
    LLVMPositionBuilderAtEnd(b, other);
    branch_mostly(c, both(c, all_equal(c, offsets, first), both_fit(c, &p, 4)), same, rare);
    LLVMPositionBuilderAtEnd(b, same);
    shared_load_same(c, i, &p);
    LLVMBuildBr(b, behind);
}

/* Behind a load that loops may wait with, as exec_poll has it. */
static void poll(struct compiler *c)
{
    LLVMValueRef at = address_of(c, c->warp, offsetof(struct exec_warp, budget)), left = load_from(c, c->i32, at, 4);
    store_to(c, LLVMBuildSub(c->builder, left, constant_32(c, EXEC_POLL_COST), ""), at, 4);
    store_to(c, LLVMConstInt(c->i8, true, false), address_of(c, c->warp, offsetof(struct exec_warp, polled)), 1);
}

bool emit_access(struct compiler *c, const struct exec_insn *i,
                 LLVMBasicBlockRef (*leave_to)(struct compiler *, uint32_t k))
{
    const bool polls = i->flags & EXEC_POLL;
    if ((!access_bits(i) && !exec_is_global_vector(i)) || (polls && c->wish->whole))
        return false;
    LLVMBasicBlockRef rare = block_new(c, "rare"), behind = block_new(c, "accessed"),
                      moved = polls ? block_new(c, "moved") : behind;
    LLVMValueRef lanes = lanes_that_act(c, i);
    const bool done = lanes && some_steps(c, i, lanes, rare, moved);
    if (lanes && !done)
        begin_some(c, lanes, rare, behind);
    if (done)
        ;
    else if (access_is_shared(i))
        shared(c, i, rare, moved);
    else if (exec_is_global_vector(i))
        global_vector(c, i, rare, moved);
    else
        global(c, i, rare, moved);
    /* Where lanes are known to be side by side, or in shared memory, what is left is a fault, as good as always. */
    const bool beside = is_side_by_side(c, i) && (!lanes || (done && access_is_shared(i))),
               ends = c->wish->whole && (beside || access_is_shared(i));
    LLVMBasicBlockRef step = ends ? leave_to(c, (uint32_t)(i - c->wish->insns)) : block_new(c, "step");
    LLVMPositionBuilderAtEnd(c->builder, rare);
    if (beside)
        LLVMBuildBr(c->builder, step);
    else
        lanes_access(c, i, lanes, step, moved);
    if (polls) {
        LLVMPositionBuilderAtEnd(c->builder, moved);
        poll(c);
        LLVMBuildBr(c->builder, behind);
    }
    if (!ends) {
        LLVMPositionBuilderAtEnd(c->builder, step);
        rows_step(c, i);
        LLVMBuildBr(c->builder, behind);
    }
    LLVMPositionBuilderAtEnd(c->builder, behind);
    return true;
}
