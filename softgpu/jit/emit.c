/* emit.c: the walk over a region's instructions: branches, the budget, calls of the interpreter. See compile.h. */
#include "softgpu/jit/compile.h"

/* ---- ways out ---- */

/* The lanes that run stand before the instruction. */
static void put_place(struct compiler *c, uint32_t k)
{
    LLVMValueRef pc = insn_address(c, k);
    store_to(c, pc, address_of(c, c->warp, offsetof(struct exec_warp, pc)), 8);
    if (c->places)
        store_to(c, active_lanes(c), address_of(c, c->warp, offsetof(struct exec_warp, mask)), 4);
}

/* The code ends; the interpreter goes on at the instruction. */
static LLVMBasicBlockRef leave_to(struct compiler *c, uint32_t k)
{
    if (c->leaves[k] && !c->whole.rest)
        return c->leaves[k];
    if (c->wish->whole && c->wish->insns[k].known == EXEC_STRAIGHT_END)
        return phase_ended(c);
    if (phase_waits(c, k))
        return phase_point(c, k);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(c->builder), leave = block_new(c, "leave");
    if (!c->whole.rest)
        c->leaves[k] = leave;
    LLVMPositionBuilderAtEnd(c->builder, leave);
    struct row_shape *now = c->now;
    if (c->shapes)
        c->now = shapes_at(c, k);
    if (c->wish->whole)
        whole_begin_warp(c);
    rows_end(c, k);
    c->now = now;
    if (c->places || c->wish->whole)
        put_place(c, k);
    if (c->wish->whole)
        whole_return(c);
    else
        LLVMBuildRet(c->builder, c->places ? constant_64(c, 0) : insn_address(c, k));
    LLVMPositionBuilderAtEnd(c->builder, here);
    return leave;
}

static LLVMBasicBlockRef body_of(struct compiler *c, uint32_t k)
{
    return c->in_region[k] ? c->blocks[k] : leave_to(c, k);
}

static LLVMBasicBlockRef way_to(struct compiler *c, uint32_t k)
{
    LLVMBasicBlockRef arrive = c->places ? place_block(c, k) : NULL;
    return arrive ? arrive : body_of(c, k);
}

/* A branch that is taken: one backward is paid for, and ends the group's turn where the budget is spent. */
static void take(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    const uint32_t to = (uint32_t)(i->target - c->wish->insns);
    LLVMBasicBlockRef target = way_to(c, to);
    if (!i->cost && c->places) { /* others may wait on the way */
        place_wait(c, to, active_lanes(c));
        set_active_lanes(c, constant_32(c, 0));
        target = place_behind(c, (uint32_t)(i - c->wish->insns));
    }
    if (!i->cost) {
        LLVMBuildBr(b, target);
        return;
    }
    if (c->wish->whole) {
        phase_spend(c, i->cost, target, leave_to(c, to));
        return;
    }
    LLVMValueRef place = address_of(c, c->warp, offsetof(struct exec_warp, budget));
    LLVMValueRef left = LLVMBuildSub(b, load_from(c, c->i32, place, 4), constant_32(c, i->cost), "");
    LLVMBasicBlockRef spent = block_new(c, "spent");
    store_to(c, left, place, 4);
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntSGT, left, constant_32(c, 0), ""), target, spent);
    LLVMPositionBuilderAtEnd(b, spent);
    put_place(c, to);
    store_to(c, insn_address(c, to), address_of(c, c->warp, offsetof(struct exec_warp, stop)), 8);
    rows_end(c, to);
    LLVMBuildRet(b, constant_64(c, 0));
}

static void emit_rest(struct compiler *, uint32_t k, uint32_t first, LLVMValueRef lanes);

/* In code for whole blocks: does the branch lead lanes to their end, and is what the others do then in one line up to
   theirs? first: where that begins. */
static bool rest_begins(const struct compiler *c, uint32_t k, uint32_t *first)
{
    enum { REST_MOST = 64 };
    const struct exec_insn *insns = c->wish->insns;
    const uint32_t to = (uint32_t)(insns[k].target - insns);
    uint32_t at = *first = insns[to].known == EXEC_STRAIGHT_END ? k + 1 : to;
    if (!c->wish->whole || (at == to && insns[k + 1].known != EXEC_STRAIGHT_END))
        return false;
    for (unsigned n = 0; n < REST_MOST; n++) {
        const struct exec_insn *i = &insns[at];
        if (i->known == EXEC_STRAIGHT_END)
            return true;
        if (!c->in_region[at] || i->straight == EXEC_STRAIGHT_BRANCH_IF || phase_splits(c, at) ||
            i->known == EXEC_STRAIGHT_EXCHANGE || i->known == EXEC_STRAIGHT_MATRIX)
            return false;
        at = i->straight == EXEC_STRAIGHT_BRANCH ? (uint32_t)(i->target - insns) : at + 1;
    }
    return false;
}

static void emit_skipped(struct compiler *, uint32_t k, LLVMValueRef lanes);

/* In code for whole blocks: does the branch lead over a few instructions in one line, which the other lanes may do
   alone? Then all go on together. */
static bool skips_line(struct compiler *c, uint32_t k)
{
    enum { LINE_MOST = 32 };
    const struct exec_insn *insns = c->wish->insns;
    const uint32_t to = (uint32_t)(insns[k].target - insns);
    if (!c->wish->whole || !c->shapes || to <= k + 1 || to - k > LINE_MOST ||
        (!c->in_region[to] && !phase_waits(c, to)))
        return false;
    for (uint32_t at = k + 1; at < to; at++) {
        const struct exec_insn *i = &insns[at];
        if (!c->in_region[at] || i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF ||
            i->known == EXEC_STRAIGHT_EXCHANGE || i->known == EXEC_STRAIGHT_MATRIX || !shapes_may_part(c, at, to))
            return false;
    }
    return true;
}

/* Lanes that branch backward go first; the others wait behind the branch. Those that branch forward wait. */
static void take_if_some(struct compiler *c, uint32_t k)
{
    LLVMBuilderRef b = c->builder;
    const struct exec_insn *i = &c->wish->insns[k];
    LLVMValueRef lanes = active_lanes(c), guard = predicate_read(c, i->guard, i->guard_flip),
                 taken = LLVMBuildAnd(b, guard, lanes, ""),
                 rest = LLVMBuildAnd(b, lanes, LLVMBuildNot(b, taken, ""), "");
    LLVMBasicBlockRef over = way_to(c, k + 1);
    if (!i->cost) {
        place_wait(c, (uint32_t)(i->target - c->wish->insns), taken);
        set_active_lanes(c, rest);
        LLVMBuildBr(b, over);
        return;
    }
    LLVMBasicBlockRef some = block_new(c, "some");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, taken, constant_32(c, 0), ""), over, some);
    LLVMPositionBuilderAtEnd(b, some);
    place_wait(c, k + 1, rest);
    set_active_lanes(c, taken);
    take(c, i);
}

/* Where only some lanes take it, the interpreter parts them, unless they come to their end. */
static void take_if(struct compiler *c, uint32_t k)
{
    LLVMBuilderRef b = c->builder;
    const struct exec_insn *i = &c->wish->insns[k];
    LLVMValueRef taken = predicate_read(c, i->guard, i->guard_flip);
    uint32_t rest;
    const bool ends = rest_begins(c, k, &rest), skips = !ends && skips_line(c, k);
    LLVMBasicBlockRef all = block_new(c, "all"),
                      parted = ends || skips ? block_new(c, "rest") : leave_to(c, k);
    if (!skips || !phase_has_line(c, k + 1, (uint32_t)(i->target - c->wish->insns))) {
        LLVMBasicBlockRef some = block_new(c, "some"), over = way_to(c, k + 1);
        LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, taken, constant_32(c, 0), ""), over, some);
        LLVMPositionBuilderAtEnd(b, some);
    }
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, taken, constant_32(c, UINT32_MAX), ""), all, parted);
    LLVMPositionBuilderAtEnd(b, all);
    take(c, i);
    LLVMPositionBuilderAtEnd(b, parted);
    if (skips)
        emit_skipped(c, k, LLVMBuildNot(b, taken, ""));
    else if (ends)
        emit_rest(c, k, rest, rest == k + 1 ? LLVMBuildNot(b, taken, "") : taken);
}

/* ---- the other instructions ---- */

/* A parameter of the kernel, the same for all lanes. */
static bool load_parameter(struct compiler *c, const struct exec_insn *i)
{
    if (i->known != EXEC_STRAIGHT_PARAM || i->straight == EXEC_STRAIGHT_GUARDED)
        return false;
    LLVMValueRef params = c->whole.params;
    if (!params) {
        LLVMValueRef grid = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, grid)), 8);
        params = load_from(c, c->i64, address_of(c, grid, offsetof(struct sg_grid, params)), 8);
    }
    LLVMValueRef value = load_from(c, i->size == 8 ? c->i64 : c->i32, address_of(c, params, (uint64_t)i->offset), 1);
    ranges_invariant(c, value);
    row_put(c, i, i->d, i->size == 8 ? ROW_64 : ROW_32, splat(c, value));
    return true;
}

/* Logic of predicates. */
static bool emit_logic(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    if (i->known != EXEC_STRAIGHT_LOGIC || i->straight == EXEC_STRAIGHT_GUARDED)
        return false;
    LLVMValueRef x = predicate_read(c, i->in, i->in_flip);
    LLVMValueRef y = i->kind == EXEC_LOGIC_MOV ? x : predicate_read(c, i->q, i->cost);
    row_put(c, i, i->p, ROW_PREDICATE,
            i->kind == EXEC_LOGIC_AND   ? LLVMBuildAnd(b, x, y, "")
            : i->kind == EXEC_LOGIC_OR  ? LLVMBuildOr(b, x, y, "")
            : i->kind == EXEC_LOGIC_XOR ? LLVMBuildXor(b, x, y, "")
                                        : x);
    return true;
}

/* Two halves of a row, and a row of two halves. */
static bool emit_pieces(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    const struct exec_pieces *p = i->extra;
    const bool wide = i->size == 8;
    const enum row_bits whole = wide ? ROW_64 : ROW_32;
    const unsigned bits = 4u * i->size;
    LLVMValueRef half = splat(c, wide ? constant_64(c, bits) : constant_32(c, bits));
    LLVMValueRef low = splat(c, constant_32(c, wide ? UINT32_MAX : 0xffff));
    if (i->known == EXEC_STRAIGHT_SPLIT) {
        LLVMValueRef value = row_read(c, i->s[0], whole);
        for (unsigned k = 0; k < 2; k++) {
            LLVMValueRef piece = k ? LLVMBuildLShr(b, value, half, "") : value;
            if (wide)
                piece = LLVMBuildTrunc(b, piece, c->row32, "");
            if (!p->sink[k])
                row_put(c, i, p->to[k], ROW_32, LLVMBuildAnd(b, piece, low, ""));
        }
        return true;
    }
    if (i->known != EXEC_STRAIGHT_JOIN)
        return false;
    LLVMValueRef piece[2];
    for (unsigned k = 0; k < 2; k++) {
        piece[k] = LLVMBuildAnd(b, row_read(c, p->rows[k], ROW_32), low, "");
        if (wide)
            piece[k] = LLVMBuildZExt(b, piece[k], c->row64, "");
    }
    row_put(c, i, i->d, whole, LLVMBuildOr(b, piece[0], LLVMBuildShl(b, piece[1], half, ""), ""));
    return true;
}

/* One that no lane asks for does no harm. */
static bool emit_fence(struct compiler *c, const struct exec_insn *i)
{
    if (i->known != EXEC_STRAIGHT_FENCE)
        return false;
    LLVMBuildFence(c->builder,
                   i->order == EXEC_SEQ_CST ? LLVMAtomicOrderingSequentiallyConsistent
                                            : LLVMAtomicOrderingAcquireRelease,
                   false, "");
    return true;
}

static bool lanewise(struct compiler *c, const struct exec_insn *i)
{
    return emit_arithmetic(c, i) || load_parameter(c, i) || emit_address(c, i) || emit_pieces(c, i);
}

/* The interpreter looks whether the warp has to halt, where it may have to. */
static void halt(struct compiler *c, uint32_t k)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef halts = load_from(c, c->i32, address_of(c, c->warp, offsetof(struct exec_warp, halts)), 4),
                 read = load_from(c, c->i8, address_of(c, c->block, offsetof(struct exec_block, read)), 1);
    LLVMValueRef never = LLVMBuildICmp(b, LLVMIntEQ, halts, constant_32(c, 0), ""),
                 unread = LLVMBuildICmp(b, LLVMIntEQ, read, LLVMConstInt(c->i8, 0, false), "");
    LLVMBasicBlockRef on = block_new(c, "on");
    branch_mostly(c, LLVMBuildOr(b, never, unread, ""), on, leave_to(c, k));
    LLVMPositionBuilderAtEnd(c->builder, on);
}

/* So many instructions are executed here; the interpreter takes those off that are left to it. */
static void count(struct compiler *c, uint32_t instructions)
{
    if (!c->wish->counted)
        return;
    LLVMValueRef at = address_of(c, c->warp, offsetof(struct exec_warp, compiled));
    store_to(c, address_of(c, load_from(c, c->i64, at, 8), instructions), at, 8);
}

/* Writes the code of an instruction that is no branch. */
static void emit_one(struct compiler *c, uint32_t k)
{
    const struct exec_insn *i = &c->wish->insns[k];
    if (i->straight == EXEC_STRAIGHT_REGION)
        return;
    if (i->straight == EXEC_STRAIGHT_HALT) {
        if (!c->wish->phases)
            halt(c, k);
        return;
    }
    if (!arithmetic_form_of(i))
        rows_settle_written(c, i);
    if (c->wish->whole && !c->wish->phases && (access_is_shared(i) || atomic_is_known(i)))
        c->whole.refused = true; /* the next block wants it cleared */
    if (!emit_in_steps(c, k, leave_to, lanewise) && !lanewise(c, i) && !run_store_emit(c, i) &&
        !emit_parameter(c, i) && !emit_access(c, i, leave_to) && !emit_fixed(c, i) && !emit_local(c, i) &&
        !emit_logic(c, i) && !emit_exchange(c, i) && !emit_atomic(c, i) && !emit_matrix(c, i) && !emit_fence(c, i) &&
        !emit_function(c, i)) {
        c->whole.refused = true; /* each warp would have to be set up */
        rows_step(c, i);
    }
}

/* Writes the code of an instruction, or of a run. Returns the last instruction of it. */
static uint32_t emit_instruction(struct compiler *c, uint32_t k)
{
    const struct exec_insn *i = &c->wish->insns[k];
    const bool defers = rows_may_defer(c, k) && !c->late.open;
    LLVMPositionBuilderAtEnd(c->builder, c->blocks[k]);
    shapes_begin(c, k);
    uint32_t behind = run_emit(c, k, leave_to, lanewise);
    if (behind == k)
        behind = bytes_emit(c, k, emit_one);
    if (behind != k) {
        count(c, behind - k);
        LLVMBuildBr(c->builder, way_to(c, behind));
        return behind - 1;
    }
    if (i->straight != EXEC_STRAIGHT_REGION && i->straight != EXEC_STRAIGHT_HALT)
        count(c, 1);
    switch (i->straight) {
    case EXEC_STRAIGHT_BRANCH: shapes_end(c, k); rows_settle(c); take(c, i); return k;
    case EXEC_STRAIGHT_BRANCH_IF:
        shapes_end(c, k);
        rows_settle(c);
        (c->places ? take_if_some : take_if)(c, k);
        return k;
    default:
        late_begin(c, k);
        c->deferring = defers;
        c->in_line = true;
        emit_one(c, k);
        c->in_line = false;
    }
    if (phase_splits(c, k)) {
        rows_settle(c);
        LLVMBuildBr(c->builder, phase_point(c, k));
        return k;
    }
    shapes_end(c, k);
    late_end(c, k);
    if (defers && (c->target[k + 1] || !c->in_region[k + 1] || place_block(c, k + 1) || !rows_may_defer(c, k + 1)))
        rows_end_line(c);
    if (c->target[k + 1] || !c->in_region[k + 1])
        rows_settle(c);
    LLVMBuildBr(c->builder, way_to(c, k + 1));
    return k;
}

/* The instructions from `first` on to the end, for these lanes: the others have come to theirs by the branch k. Rows of
   theirs need not be kept. */
static void emit_rest(struct compiler *c, uint32_t k, uint32_t first, LLVMValueRef lanes)
{
    const struct exec_insn *insns = c->wish->insns, *target = insns[k].target;
    c->whole.rest = lanes;
    c->whole.end = first == k + 1 ? target : &insns[k + 1];
    uint32_t at = first;
    while (insns[at].known != EXEC_STRAIGHT_END) {
        const struct exec_insn *i = &insns[at];
        shapes_begin(c, at);
        if (i->straight != EXEC_STRAIGHT_REGION)
            count(c, 1);
        if (i->straight != EXEC_STRAIGHT_BRANCH)
            emit_one(c, at);
        shapes_end(c, at);
        at = i->straight == EXEC_STRAIGHT_BRANCH ? (uint32_t)(i->target - insns) : at + 1;
    }
    LLVMBuildBr(c->builder, phase_ended(c));
    rows_forget_raw(c);
    c->whole.rest = NULL;
    c->whole.end = NULL;
}

/* Writes the instructions that branch k leads over, for the lanes that do not take it. */
static void emit_skipped(struct compiler *c, uint32_t k, LLVMValueRef lanes)
{
    const struct exec_insn *insns = c->wish->insns;
    const uint32_t to = (uint32_t)(insns[k].target - insns);
    c->whole.rest = lanes;
    c->whole.end = &insns[to];
    c->whole.keeps = true;
    for (uint32_t at = k + 1; at < to; at++) {
        shapes_begin(c, at);
        if (insns[at].straight != EXEC_STRAIGHT_REGION && insns[at].straight != EXEC_STRAIGHT_HALT)
            count(c, 1);
        emit_one(c, at);
        if (phase_splits(c, at))
            phase_halt_some(c, at);
        shapes_end(c, at);
    }
    c->whole.rest = NULL;
    c->whole.end = NULL;
    c->whole.keeps = false;
    LLVMBuildBr(c->builder, way_to(c, to));
}

static void begin(struct compiler *c, const char *name)
{
    LLVMTypeRef step[3] = { c->i64, c->i64, c->i32 };
    c->step_type = LLVMFunctionType(c->i8, step, 3, false);
    LLVMTypeRef types[5] = { c->i64, c->i64, c->i64, c->i64, c->i64 };
    const unsigned count = c->wish->whole ? 5 : 2;
    c->function = LLVMAddFunction(c->module, name, LLVMFunctionType(c->i64, types, count, false));
    c->head = LLVMGetParam(c->function, count - 1);
    build_begin(c);
    LLVMPositionBuilderAtEnd(c->builder, block_new(c, "begin"));
    if (c->wish->whole) {
        whole_begin(c);
        return;
    }
    c->warp = LLVMGetParam(c->function, 0);
    c->frame = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, rows)), 8);
    c->block = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, block)), 8);
}

static void find_targets(struct compiler *c)
{
    for (uint32_t k = 0; k < c->wish->count; k++) {
        const struct exec_insn *i = &c->wish->insns[k];
        if (c->in_region[k] && (i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF))
            c->target[i->target - c->wish->insns] = true;
    }
}

bool emit_region(struct compiler *c, const char *name)
{
    const uint32_t count = c->wish->count;
    begin(c, name);
    find_targets(c);
    rows_collect(c);
    if (c->failed || !live_find(c))
        return false;
    if (c->places)
        live_apart(c);
    if (c->failed || (!c->places && !c->has_runs && !shapes_find(c)))
        return false;
    rows_begin(c);
    lanes_begin(c);
    locals_begin(c);
    functions_begin(c);
    if (c->places)
        places_begin(c);
    if (c->shapes) {
        shapes_begin(c, c->wish->head);
        shapes_check(c);
    }
    for (uint32_t k = 0; k < count; k++)
        c->blocks[k] = c->in_region[k] ? block_new(c, "") : NULL;
    if (c->phase.count)
        phases_begin(c);
    else
        LLVMBuildBr(c->builder, c->places ? c->arrive[0] : c->blocks[c->wish->head]);
    for (uint32_t place = 0; c->places && place < c->places->count; place++)
        places_arrive(c, place, body_of(c, c->places->at[place]));
    for (uint32_t k = 0; k < count; k++)
        if (c->in_region[k] && !phase_is_for_some(c, k))
            k = emit_instruction(c, k);
    if (c->wish->whole)
        whole_end(c);
    if (c->phase.count)
        phases_end(c);
    for (uint32_t k = 0; k < count; k++) /* in the middle of runs */
        if (c->blocks[k] && !LLVMGetFirstInstruction(c->blocks[k]))
            LLVMDeleteBasicBlock(c->blocks[k]);
    return !c->failed;
}
