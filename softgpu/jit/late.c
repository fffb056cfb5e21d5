/*
 * late.c: NaNs of f64. A NaN that arithmetic gives is a quieted operand; of two operands, the one that the processor
 * takes, which is up to the order in which a compiler hands them to it. So the interpreter's function says which. To
 * ask after each operation whether a lane has a NaN costs more than the operation.
 *
 * A stretch is a line of arithmetic, without loads, stores and branches. In it NaNs may have any bits: their rows are
 * late. What follows in the stretch computes, compares and selects with them; an instruction that looks at the bits of
 * a late row is not in the stretch. At the end the code asks whether a late row that the function may still read has a
 * NaN. If so, which is rare, the interpreter does the whole stretch again, from the rows as they were at its beginning.
 */
#include "softgpu/jit/compile.h"

#define IS(name) EXEC_STRAIGHT_##name

/* The row's variable; NULL: it has none, because it is a constant, a special register or in memory. */
static struct row_variable *variable_of(const struct compiler *c, exec_source at)
{
    for (const struct row_variable *r = row_first(c, at); r; r = r->next ? &c->rows[r->next - 1] : NULL)
        if (r->at == at)
            return r->in_memory ? NULL : (struct row_variable *)(uintptr_t)r;
    return NULL;
}

/* ---- what instructions read and write ---- */

enum { READS = 8, WRITES = 2 };
struct use { exec_source reads[READS]; uint32_t writes[WRITES]; unsigned read_count, write_count; };

static void add_read(struct use *u, exec_source at) { u->reads[u->read_count++] = at; }
static void add_predicate(struct use *u, uint32_t at)
{
    if (at != EXEC_PRED_FALSE)
        add_read(u, at | EXEC_BASE_FRAME);
}

/* false: it does more than compute rows and predicates of those that it names, or may leave the code. */
static bool find_use(const struct exec_insn *i, struct use *u)
{
    const struct arithmetic_form *form = arithmetic_form_of(i);
    const struct exec_pieces *p = i->extra;
    const bool guarded = i->straight == IS(GUARDED);
    *u = (struct use){ .read_count = 0 };
    if (i->straight == IS(REGION) || i->straight == IS(HALT))
        return false;
    if (guarded)
        add_predicate(u, i->guard);
    if (form) {
        for (unsigned k = 0; k < 4; k++)
            if (form->s[k])
                add_read(u, i->s[k]);
        if (form->selects || form->d == ROW_PREDICATE)
            add_predicate(u, i->in);
        u->writes[u->write_count++] = form->d == ROW_PREDICATE ? i->p : i->d;
        return !shapes_widen(i);
    }
    if (guarded)
        return false;
    switch (i->known) {
    case IS(PARAM): u->writes[u->write_count++] = i->d; return true;
    case IS(LOGIC):
        add_predicate(u, i->in);
        if (i->kind != EXEC_LOGIC_MOV)
            add_predicate(u, i->q);
        u->writes[u->write_count++] = i->p;
        return true;
    case IS(SPLIT):
        add_read(u, i->s[0]);
        for (unsigned k = 0; k < 2; k++)
            if (!p->sink[k])
                u->writes[u->write_count++] = p->to[k];
        return true;
    case IS(JOIN):
        for (unsigned k = 0; k < 2; k++)
            add_read(u, p->rows[k]);
        u->writes[u->write_count++] = i->d;
        return true;
    default: return false;
    }
}

/* Gives a NaN that is up to the processor. */
static bool makes_late(uint8_t k)
{
    return k == IS(ADD_F64) || k == IS(SUB_F64) || k == IS(MUL_F64) || k == IS(FMA_F64) || k == IS(DIV_F64);
}

/* Do the bits of a NaN among the operands only matter for those of the result? */
static bool passes_late(uint8_t k)
{
    return makes_late(k) || (k >= IS(RCP_F64) && k <= IS(MAX_F64)) || k == IS(INTEGRAL_F64) || k == IS(SELP_64) ||
           k == IS(COPY_64);
}
static bool ignores_nan(uint8_t k)
{
    return (k >= IS(EQ_F64) && k <= IS(GEU_F64)) || k == IS(F64_TO_S32) || k == IS(F64_TO_U32);
}

/* May the instruction be in a stretch? */
static bool fits(const struct compiler *c, const struct exec_insn *i, struct use *u)
{
    if (!find_use(i, u))
        return false;
    for (unsigned k = 0; k < u->read_count; k++) {
        const struct row_variable *r = variable_of(c, u->reads[k]);
        const bool minds = !passes_late(i->known) && !ignores_nan(i->known);
        if ((u->reads[k] & 3) == EXEC_BASE_FRAME && (!r || (r->late && minds)))
            return false;
    }
    for (unsigned k = 0; k < u->write_count; k++)
        if (!variable_of(c, u->writes[k] | EXEC_BASE_FRAME))
            return false;
    return true;
}

/* ---- a stretch ---- */

/* Keeps what the rows hold that the instruction overwrites, where the interpreter would need it. */
static void take_in(struct compiler *c, const struct exec_insn *i, const struct use *u)
{
    for (unsigned k = 0; k < u->read_count; k++) {
        struct row_variable *r = variable_of(c, u->reads[k]);
        if (r && !r->late_written)
            r->late_read = true;
    }
    for (unsigned k = 0; k < u->write_count; k++) {
        struct row_variable *r = variable_of(c, u->writes[k] | EXEC_BASE_FRAME);
        const bool keeps = i->straight == IS(GUARDED) || (c->places && r->lasts); /* some lanes */
        if (!r->late_written && (r->late_read || keeps)) {
            c->takes_raw = true;
            r->before = row_read(c, r->at, r->bits);
            c->takes_raw = false;
            r->before_raw = r->raw;
        }
        r->late_written = true;
    }
}

void late_begin(struct compiler *c, uint32_t k)
{
    const struct exec_insn *i = &c->wish->insns[k];
    struct use u;
    if (!c->late.open && (!makes_late(i->known) || c->has_runs || c->whole.rest || !fits(c, i, &u)))
        return;
    if (!c->late.open)
        c->late.first = k;
    else if (!fits(c, i, &u)) /* never: the stretch has ended before */
        c->failed = true;
    c->late.open = true;
    take_in(c, i, &u);
}

static bool row_is_late(const struct compiler *c, exec_source at)
{
    const struct row_variable *r = (at & 3) == EXEC_BASE_FRAME ? variable_of(c, at) : NULL;
    return r && r->late;
}

/* Does a lane that runs have a NaN in a late row that is needed from the instruction on? NULL: there is no such row. */
static LLVMValueRef lane_with_nan(struct compiler *c, uint32_t k)
{
    LLVMBuilderRef b = c->builder;
    const unsigned lanes = c->places ? SG_LANES : c->wish->avx512 ? 8 : 4;
    LLVMTypeRef doubles = LLVMVectorType(LLVMDoubleTypeInContext(c->context), SG_LANES);
    LLVMValueRef found = NULL, left = NULL;
    for (uint32_t row = 0; row < c->row_count; row++) {
        if (!c->rows[row].late || !live_at(c, k, row))
            continue;
        LLVMValueRef x = LLVMBuildBitCast(b, row_read(c, c->rows[row].at, ROW_64), doubles, "");
        for (unsigned part = 0; part < SG_LANES / lanes; part++) { /* two parts at once */
            LLVMValueRef some = lanes == SG_LANES ? x : vector_part(c, x, part * lanes, lanes);
            if (!left) {
                left = some;
                continue;
            }
            LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, left, some, "");
            found = found ? LLVMBuildOr(b, found, nan, "") : nan;
            left = NULL;
        }
    }
    if (left) {
        LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, left, left, "");
        found = found ? LLVMBuildOr(b, found, nan, "") : nan;
    }
    if (!found)
        return NULL;
    LLVMTypeRef mask = LLVMIntTypeInContext(c->context, lanes);
    LLVMValueRef bits = LLVMBuildBitCast(b, found, mask, "");
    if (c->places)
        bits = LLVMBuildAnd(b, bits, active_lanes(c), "");
    return LLVMBuildICmp(b, LLVMIntEQ, bits, LLVMConstInt(mask, 0, false), "none");
}

/* The rows that the stretch reads go to the frame as they were. */
static void put_rows(struct compiler *c)
{
    for (uint32_t row = 0; row < c->row_count; row++) {
        const struct row_variable *r = &c->rows[row];
        if (r->before) {
            LLVMValueRef value = r->before_raw ? canonical(c, r->before) : r->before;
            store_to(c, value, row_place(c, r->at), r->bits == ROW_PREDICATE ? 4 : 64);
        } else if (r->late_read)
            row_in_frame(c, r->at);
    }
}

/* The interpreter does the stretch, before which nothing can go wrong. */
static void do_again(struct compiler *c, uint32_t end)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = block_new(c, "again"), done = block_new(c, "done");
    LLVMValueRef first = insn_address(c, c->late.first), last = insn_address(c, end);
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef at = LLVMBuildPhi(b, c->i64, "");
    LLVMValueRef arguments[3] = { c->warp, at, c->places ? active_lanes(c) : constant_32(c, UINT32_MAX) };
    call_machine(c, c->step_type, MACHINE(c->wish->step), arguments);
    LLVMValueRef next = address_of(c, at, sizeof(struct exec_insn));
    LLVMAddIncoming(at, &first, &from, 1);
    LLVMAddIncoming(at, &next, &loop, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, next, last, ""), done, loop);
    LLVMPositionBuilderAtEnd(b, done);
}

/* The stretch ends before the instruction. */
static void settle(struct compiler *c, uint32_t end)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef none = lane_with_nan(c, end);
    if (none) {
        LLVMBasicBlockRef rare = block_new(c, "nan"), behind = block_new(c, "behind");
        branch_mostly(c, none, behind, rare);
        LLVMPositionBuilderAtEnd(b, rare);
        if (c->wish->whole)
            whole_begin_warp(c);
        put_rows(c);
        do_again(c, end);
        if (c->wish->whole)
            whole_forget_warp(c);
        for (uint32_t row = 0; row < c->row_count; row++)
            if (c->rows[row].late)
                LLVMBuildStore(b, load_from(c, c->row64, row_place(c, c->rows[row].at), 64), c->rows[row].variable);
        LLVMBuildBr(b, behind);
        LLVMPositionBuilderAtEnd(b, behind);
    }
    for (uint32_t row = 0; row < c->row_count; row++) {
        struct row_variable *r = &c->rows[row];
        r->late = r->late_read = r->late_written = r->before_raw = false;
        r->before = NULL;
    }
    c->late.open = false;
}

void late_end(struct compiler *c, uint32_t k)
{
    enum { MOST = 400 }; /* what a NaN may cost */
    const struct exec_insn *i = &c->wish->insns[k];
    struct use u;
    if (!c->late.open)
        return;
    find_use(i, &u);
    bool late = makes_late(i->known) || i->known == IS(NEG_F64) || i->known == IS(ABS_F64);
    for (unsigned n = 0; passes_late(i->known) && n < u.read_count; n++)
        late |= row_is_late(c, u.reads[n]);
    for (unsigned n = 0; n < u.write_count; n++) {
        struct row_variable *r = variable_of(c, u.writes[n] | EXEC_BASE_FRAME);
        r->late = late || (r->late && i->straight == IS(GUARDED));
    }
    if (c->target[k + 1] || !c->in_region[k + 1] || phase_is_for_some(c, k + 1) ||
        (c->places && place_block(c, k + 1)) || k - c->late.first >= MOST || !fits(c, &c->wish->insns[k + 1], &u))
        settle(c, k + 1);
}
