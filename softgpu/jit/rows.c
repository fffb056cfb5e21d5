/* rows.c: registers of the warp as values of 32 lanes. See compile.h. */
#include "softgpu/jit/compile.h"
#include "softgpu/jit/locals.h"

#include <stdlib.h>

#include "softgpu/exec/exchange.h"
#include "softgpu/exec/fused.h"

static LLVMTypeRef type_of(const struct compiler *c, enum row_bits bits)
{
    return bits == ROW_PREDICATE ? c->i32 : bits == ROW_32 ? c->row32 : c->row64;
}

static unsigned align_of(enum row_bits bits) { return bits == ROW_PREDICATE ? 4 : 64; }

static struct row_variable *find(struct compiler *c, exec_source at, enum row_bits bits)
{
    for (uint32_t k = c->bucket[bucket_of(at)]; k; k = c->rows[k - 1].next)
        if (c->rows[k - 1].at == at && c->rows[k - 1].bits == bits)
            return &c->rows[k - 1];
    return NULL;
}

static void note(struct compiler *c, exec_source at, enum row_bits bits, bool written)
{
    struct row_variable *r = find(c, at, bits);
    if ((at & 3) == EXEC_BASE_ABSOLUTE || !bits || c->failed)
        return;
    if (!r && c->row_count == c->row_room) {
        uint32_t room = c->row_room ? 2 * c->row_room : 64;
        struct row_variable *more = realloc(c->rows, room * sizeof *more);
        if (!more) {
            c->failed = true;
            return;
        }
        c->rows = more;
        c->row_room = room;
    }
    if (!r) {
        r = &c->rows[c->row_count++];
        *r = (struct row_variable){ .at = at, .bits = bits, .next = c->bucket[bucket_of(at)] };
        for (uint32_t k = r->next; k; k = c->rows[k - 1].next)
            if (c->rows[k - 1].at == at)
                r->two_widths = c->rows[k - 1].two_widths = true;
        c->bucket[bucket_of(at)] = c->row_count;
    }
    r->written |= written;
    r->phases |= written ? c->phase.noted : 0;
}

static void note_predicate(struct compiler *c, uint32_t at, bool written)
{
    if (at != EXEC_PRED_FALSE)
        note(c, at | EXEC_BASE_FRAME, ROW_PREDICATE, written);
}

static enum row_bits bits_of_cell(uint8_t cell)
{
    return cell == SG_CELL_32 ? ROW_32 : cell == SG_CELL_64 ? ROW_64 : 0;
}

static enum row_bits bits_of_bytes(uint8_t bytes) { return bytes == 8 ? ROW_64 : bytes <= 4 ? ROW_32 : 0; }

static void note_alu(struct compiler *c, const struct exec_insn *i)
{
    note_predicate(c, i->in, false);
    if (i->kind & EXEC_ALU_ROW)
        note(c, i->d | EXEC_BASE_FRAME, bits_of_cell(i->cell), true);
    if (i->kind & EXEC_ALU_P)
        note_predicate(c, i->p, true);
    if (i->kind & EXEC_ALU_Q)
        note_predicate(c, i->q, true);
    if (i->kind & EXEC_ALU_CARRY)
        note_predicate(c, EXEC_PRED_CARRY, true);
}

static void note_local_address(struct compiler *c, const struct exec_insn *i)
{
    if (!(i->flags & EXEC_ADDRESS_UNIFORM))
        note(c, i->s[0], i->flags & EXEC_ADDRESS_32 ? ROW_32 : ROW_64, false);
}

static void note_vector(struct compiler *c, const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    const bool load = i->known == EXEC_STRAIGHT_LOAD_VECTOR, local = local_is_known(i),
               known = local || exec_is_global_vector(i);
    if (local)
        note_local_address(c, i);
    else if (known)
        note(c, i->s[0], ROW_64, false);
    for (unsigned k = 0; k < i->vector; k++)
        if (load && !v->sink[k])
            note(c, v->to[k] | EXEC_BASE_FRAME, bits_of_bytes(v->bytes[k]), true);
        else if (!load && known)
            note(c, v->from[k], bits_of_bytes(v->bytes[k]), false);
}

/* One that has no code, or one of local memory. */
static void note_other_access(struct compiler *c, const struct exec_insn *i)
{
    if (i->known == EXEC_STRAIGHT_LOAD)
        note(c, i->d | EXEC_BASE_FRAME, bits_of_bytes(i->kind), true);
    if (!local_is_known(i))
        return;
    note_local_address(c, i);
    if (i->known == EXEC_STRAIGHT_STORE)
        note(c, i->s[1], bits_of_bytes(i->kind), false);
}

static void note_pieces(struct compiler *c, const struct exec_insn *i)
{
    const struct exec_pieces *p = i->extra;
    const enum row_bits whole = i->size == 8 ? ROW_64 : ROW_32;
    if (i->known == EXEC_STRAIGHT_SPLIT)
        note(c, i->s[0], whole, false);
    else
        note(c, i->d | EXEC_BASE_FRAME, whole, true);
    for (unsigned k = 0; k < 2; k++)
        if (i->known == EXEC_STRAIGHT_JOIN)
            note(c, p->rows[k], ROW_32, false);
        else if (!p->sink[k])
            note(c, p->to[k] | EXEC_BASE_FRAME, ROW_32, true);
}

static void note_access(struct compiler *c, const struct exec_insn *i)
{
    bool narrow = access_is_shared(i) && i->flags & EXEC_ADDRESS_32;
    note(c, i->s[0], narrow ? ROW_32 : ROW_64, false);
    if (access_is_store(i))
        note(c, i->s[1], access_bits(i), false);
    else
        note(c, i->d | EXEC_BASE_FRAME, access_bits(i), true);
}

static void note_atomic(struct compiler *c, const struct exec_insn *i)
{
    const enum row_bits bits = i->size == 8 ? ROW_64 : ROW_32;
    if (!(i->flags & EXEC_ADDRESS_UNIFORM))
        note(c, i->s[0], i->flags & EXEC_ADDRESS_32 ? ROW_32 : ROW_64, false);
    note(c, i->s[1], bits, false);
    if (i->kind == EXEC_ATOMIC_CAS)
        note(c, i->s[2], bits, false);
}

/* Its rows stay in the frame, where the interpreter finds them. */
static void note_matrix(struct compiler *c, const struct exec_insn *i)
{
    const struct exec_matrix_rows *x = i->extra;
    if (x->tiles && !(i->flags & EXEC_ADDRESS_UNIFORM))
        note(c, i->s[0], i->flags & EXEC_ADDRESS_32 ? ROW_32 : ROW_64, false);
    for (unsigned k = 0; k < x->reads; k++)
        note(c, x->from[k], x->wide_from >> k & 1 ? ROW_64 : ROW_32, false);
    for (unsigned k = 0; k < x->writes; k++)
        note(c, x->to[k] | EXEC_BASE_FRAME, x->wide_to >> k & 1 ? ROW_64 : ROW_32, true);
}

static void keep_in_frame(struct compiler *c, exec_source at)
{
    for (uint32_t k = c->bucket[bucket_of(at)]; k; k = c->rows[k - 1].next)
        if (c->rows[k - 1].at == at)
            c->rows[k - 1].in_memory = true;
}

static void keep_matrix(struct compiler *c, const struct exec_insn *i)
{
    const struct exec_matrix_rows *x = i->extra;
    for (unsigned k = 0; k < x->reads; k++)
        keep_in_frame(c, x->from[k]);
    for (unsigned k = 0; k < x->writes; k++)
        keep_in_frame(c, x->to[k] | EXEC_BASE_FRAME);
}

static void note_exchange(struct compiler *c, const struct exec_insn *i)
{
    note_predicate(c, i->in, false);
    note(c, i->s[3], ROW_32, false);
    if (i->kind <= EXEC_SHFL_IDX || (i->kind >= EXEC_REDUX_ADD && i->kind <= EXEC_REDUX_XOR))
        note(c, i->s[0], ROW_32, false);
    if (i->p)
        note_predicate(c, i->p, true);
    if (exec_exchange_gives_row(i->kind))
        note(c, i->d | EXEC_BASE_FRAME, ROW_32, true);
}

static void note_instruction(struct compiler *c, const struct exec_insn *i)
{
    const struct arithmetic_form *form = arithmetic_form_of(i);
    if (i->straight == EXEC_STRAIGHT_GUARDED || i->straight == EXEC_STRAIGHT_BRANCH_IF)
        note_predicate(c, i->guard, false);
    if (form) {
        for (unsigned k = 0; k < 4; k++)
            note(c, i->s[k], form->s[k], false);
        if (form->selects || form->d == ROW_PREDICATE)
            note_predicate(c, i->in, false);
        if (form->d == ROW_PREDICATE)
            note_predicate(c, i->p, true);
        else
            note(c, i->d | EXEC_BASE_FRAME, form->d, true);
        return;
    }
    switch (i->known) {
    case EXEC_STRAIGHT_ROWS_1: case EXEC_STRAIGHT_ROWS_2: case EXEC_STRAIGHT_ROWS_3: case EXEC_STRAIGHT_ROWS_P:
        note(c, i->d | EXEC_BASE_FRAME, bits_of_cell(i->cell), true);
        note_predicate(c, i->in, false);
        break;
    case EXEC_STRAIGHT_COMPARE:
        note_predicate(c, i->in, false);
        note_predicate(c, i->p, true);
        break;
    case EXEC_STRAIGHT_PARAM:
        note(c, i->d | EXEC_BASE_FRAME, i->size == 8 ? ROW_64 : ROW_32, true);
        break;
    case EXEC_STRAIGHT_ALU: note_alu(c, i); break;
    case EXEC_STRAIGHT_LOGIC:
        note_predicate(c, i->in, false);
        note_predicate(c, i->q, false);
        note_predicate(c, i->p, true);
        break;
    case EXEC_STRAIGHT_ATOMIC:
        if (atomic_is_known(i))
            note_atomic(c, i);
        if (i->d != UINT32_MAX)
            note(c, i->d | EXEC_BASE_FRAME, bits_of_bytes(i->size), true);
        break;
    case EXEC_STRAIGHT_EXCHANGE: note_exchange(c, i); break;
    case EXEC_STRAIGHT_MATRIX: note_matrix(c, i); break;
    case EXEC_STRAIGHT_SPECIAL: note(c, i->d | EXEC_BASE_FRAME, bits_of_cell(i->cell), true); break;
    case EXEC_STRAIGHT_SPLIT: case EXEC_STRAIGHT_JOIN: note_pieces(c, i); break;
    case EXEC_STRAIGHT_LOAD: case EXEC_STRAIGHT_STORE: note_other_access(c, i); break;
    case EXEC_STRAIGHT_LOCAL_ADDRESS: note(c, i->d | EXEC_BASE_FRAME, ROW_64, true); break;
    case EXEC_STRAIGHT_CVTA:
        note(c, i->s[0], ROW_64, false);
        note(c, i->d | EXEC_BASE_FRAME, ROW_64, true);
        break;
    case EXEC_STRAIGHT_LOAD_VECTOR: case EXEC_STRAIGHT_STORE_VECTOR: note_vector(c, i); break;
    default:
        if (access_bits(i))
            note_access(c, i);
    }
}

void rows_collect(struct compiler *c)
{
    for (uint32_t k = 0; k < c->wish->count; k++)
        if (c->in_region[k]) {
            c->phase.noted = c->phase.in ? c->phase.in[k] : 0;
            note_instruction(c, &c->wish->insns[k]);
        }
    for (uint32_t k = 0; k < c->row_count; k++)
        c->rows[k].in_memory = c->rows[k].two_widths || (c->has_runs && c->rows[k].bits != ROW_PREDICATE);
    for (uint32_t k = 0; k < c->wish->count; k++)
        if (c->in_region[k] && c->wish->insns[k].known == EXEC_STRAIGHT_MATRIX)
            keep_matrix(c, &c->wish->insns[k]);
}

LLVMValueRef row_place(struct compiler *c, exec_source at)
{
    return address_of(c, (at & 3) == EXEC_BASE_WARP ? c->warp : c->frame, at & ~(exec_source)3);
}

/* In code for whole blocks no frame is cleared: its fixed part is all zeros, as if it had been. */
static bool is_cleared(const struct compiler *c, const struct row_variable *r)
{
    return c->wish->whole && r->bits == ROW_PREDICATE && (r->at & 3) == EXEC_BASE_FRAME &&
           (r->at & ~(exec_source)3) < EXEC_CLEARED;
}

static void load_row(struct compiler *c, const struct row_variable *r)
{
    LLVMValueRef value = load_from(c, type_of(c, r->bits), row_place(c, r->at), align_of(r->bits));
    LLVMBuildStore(c->builder, value, r->variable);
}

static void store_row(struct compiler *c, const struct row_variable *r)
{
    store_to(c, row_read(c, r->at, r->bits), row_place(c, r->at), align_of(r->bits));
}

static LLVMTypeRef lane_of(const struct compiler *c, const struct row_variable *r)
{
    return r->bits == ROW_64 ? c->i64 : c->i32;
}

/* start: the kernel begins. */
static void begin_row(struct compiler *c, const struct row_variable *r, bool start)
{
    if (start && is_cleared(c, r))
        LLVMBuildStore(c->builder, constant_32(c, 0), r->variable);
    else
        load_row(c, r);
    if (r->bits != ROW_PREDICATE)
        LLVMBuildStore(c->builder, load_from(c, lane_of(c, r), row_place(c, r->at), 4), r->first);
}

static bool is_kept(const struct row_variable *r) { return r->written && !r->in_memory; }

/* Lanes that skip what is being written. */
static bool others_need(const struct compiler *c, uint32_t row)
{
    return c->whole.keeps && live_at(c, (uint32_t)(c->whole.end - c->wish->insns), row);
}

void rows_begin(struct compiler *c)
{
    for (uint32_t k = 0; k < c->row_count; k++) {
        struct row_variable *r = &c->rows[k];
        if (r->in_memory)
            continue;
        r->variable = variable_new(c, type_of(c, r->bits), "");
        if (r->bits != ROW_PREDICATE)
            r->first = variable_new(c, lane_of(c, r), "");
        if (!c->phase.count)
            begin_row(c, r, true);
    }
}

/* While lanes that skip something wait, theirs, too. */
void rows_begin_phase(struct compiler *c, uint32_t head)
{
    for (uint32_t k = 0; k < c->row_count; k++)
        if (!c->rows[k].in_memory && (live_at(c, head, k) || others_need(c, k)))
            begin_row(c, &c->rows[k], !head);
}

void rows_end(struct compiler *c, uint32_t k)
{
    for (uint32_t row = 0; row < c->row_count; row++)
        if (is_kept(&c->rows[row]) && (c->rows[row].awaited || live_at(c, k, row) || others_need(c, row)))
            store_row(c, &c->rows[row]);
}

/* In the frame, the fixed part is cleared by the first phase. */
void rows_end_phase(struct compiler *c, uint32_t k)
{
    for (uint32_t row = 0; row < c->row_count; row++) {
        const struct row_variable *r = &c->rows[row];
        const bool changed = r->phases & c->phase.in[k] || (c->phase.in[k] & 1 && is_cleared(c, r));
        if (is_kept(r) && changed && (live_at(c, k, row) || others_need(c, row)))
            store_row(c, r);
    }
}

static LLVMValueRef constant_row(const struct compiler *c, exec_source at, enum row_bits bits)
{
    const void *cells = (const void *)at; /* its two low bits are EXEC_BASE_ABSOLUTE, which is 0 */
    LLVMValueRef values[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        values[l] = bits == ROW_64 ? constant_64(c, ((const uint64_t *)cells)[l])
                                   : constant_32(c, ((const uint32_t *)cells)[l]);
    return LLVMConstVector(values, SG_LANES);
}

/* Lane 0 of a row of the warp. */
static LLVMValueRef first_special(struct compiler *c, exec_source at, LLVMTypeRef type)
{
    const exec_source thread = offsetof(struct exec_warp, special) + EXEC_ROW_TID * sizeof(uint32_t[SG_LANES]),
                      axis = ((at & ~(exec_source)3) - thread) / sizeof(uint32_t[SG_LANES]);
    LLVMValueRef same = whole_special(c, at), place = same ? NULL : row_place(c, at);
    if (same)
        return same;
    return c->wish->whole && axis < 3 ? ranges_thread(c, place, (unsigned)axis) : load_from(c, type, place, 4);
}

LLVMValueRef row_first_lane(struct compiler *c, exec_source at, enum row_bits bits)
{
    LLVMTypeRef type = bits == ROW_64 ? c->i64 : c->i32;
    const void *cells = (const void *)at;
    if ((at & 3) == EXEC_BASE_ABSOLUTE)
        return bits == ROW_64 ? constant_64(c, *(const uint64_t *)cells) : constant_32(c, *(const uint32_t *)cells);
    if ((at & 3) == EXEC_BASE_WARP)
        return first_special(c, at, type);
    return LLVMBuildLoad2(c->builder, type, find(c, at, bits)->first, "");
}

/* A row in steps, from its first lane. */
static LLVMValueRef stepped(struct compiler *c, exec_source at, enum row_bits bits, int64_t step)
{
    LLVMValueRef steps[SG_LANES], first = row_first_lane(c, at, bits);
    for (unsigned l = 0; l < SG_LANES; l++)
        steps[l] = LLVMConstInt(LLVMTypeOf(first), (uint64_t)step * l, false);
    return step ? LLVMBuildAdd(c->builder, splat(c, first), LLVMConstVector(steps, SG_LANES), "") : splat(c, first);
}

/* Lane 0 as a vector of one. */
static LLVMValueRef alone(struct compiler *c, LLVMValueRef lane)
{
    return LLVMBuildBitCast(c->builder, lane, LLVMVectorType(LLVMTypeOf(lane), 1), "");
}

LLVMValueRef row_read(struct compiler *c, exec_source at, enum row_bits bits)
{
    const bool fixed = (at & 3) == EXEC_BASE_ABSOLUTE;
    if (c->width == 1)
        return alone(c, row_first_lane(c, at, bits));
    if (c->width < SG_LANES)
        return run_read(c, fixed ? NULL : find(c, at, bits), at, bits);
    if (fixed)
        return constant_row(c, at, bits);
    const struct row_shape shape = shape_of(c, at, bits);
    if (shape.kind == SHAPE_STEPS)
        return stepped(c, at, bits, shape.step);
    const struct row_variable *r = find(c, at, bits);
    if (r->in_memory)
        return load_from(c, type_of(c, bits), row_place(c, at), align_of(bits));
    LLVMValueRef value = LLVMBuildLoad2(c->builder, type_of(c, bits), r->variable, "");
    return r->raw && !c->takes_raw ? canonical(c, value) : value;
}

void row_write(struct compiler *c, uint32_t d, enum row_bits bits, LLVMValueRef value)
{
    struct row_variable *r = find(c, d | EXEC_BASE_FRAME, bits);
    if (c->width == 1 || c->width == SG_LANES)
        r->raw = c->raw;
    if (c->width == 1)
        LLVMBuildStore(c->builder, LLVMBuildBitCast(c->builder, value, bits == ROW_64 ? c->i64 : c->i32, ""), r->first);
    else if (c->width < SG_LANES)
        run_write(c, r, value);
    else if (r->in_memory)
        store_to(c, value, row_place(c, r->at), align_of(bits));
    else
        LLVMBuildStore(c->builder, value, r->variable);
}

LLVMValueRef predicate_read(struct compiler *c, uint32_t at, uint32_t flip)
{
    LLVMValueRef value = at == EXEC_PRED_FALSE ? constant_32(c, 0)
                                               : row_read(c, at | EXEC_BASE_FRAME, ROW_PREDICATE);
    return flip ? LLVMBuildNot(c->builder, value, "") : value;
}

LLVMValueRef lanes_of(struct compiler *c, LLVMValueRef predicate)
{
    return LLVMBuildBitCast(c->builder, predicate, c->lanes, "");
}

/* ---- some lanes ---- */

LLVMValueRef lanes_that_act(struct compiler *c, const struct exec_insn *i)
{
    LLVMValueRef lanes = c->places ? active_lanes(c) : c->whole.rest;
    if (i->straight != EXEC_STRAIGHT_GUARDED)
        return lanes;
    LLVMValueRef guard = predicate_read(c, i->guard, i->guard_flip);
    return lanes ? LLVMBuildAnd(c->builder, guard, lanes, "") : guard;
}

LLVMValueRef lanes_or_behind(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef behind)
{
    LLVMValueRef lanes = lanes_that_act(c, i);
    if (lanes) {
        LLVMBasicBlockRef some = block_new(c, "some");
        LLVMBuildCondBr(c->builder, LLVMBuildICmp(c->builder, LLVMIntEQ, lanes, constant_32(c, 0), ""), behind, some);
        LLVMPositionBuilderAtEnd(c->builder, some);
    }
    return lanes;
}

LLVMValueRef lanes_spread(struct compiler *c, LLVMValueRef lanes, enum row_bits bits)
{
    LLVMBuilderRef b = c->builder;
    if (c->wish->avx512)
        return lanes_of(c, lanes);
    LLVMValueRef bit[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        bit[l] = bits == ROW_64 ? constant_64(c, UINT64_C(1) << l) : constant_32(c, UINT32_C(1) << l);
    LLVMValueRef all = splat(c, bits == ROW_64 ? LLVMBuildZExt(b, lanes, c->i64, "") : lanes),
                 own = LLVMConstVector(bit, SG_LANES);
    return LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, all, own, ""), own, "");
}

/* The value in these lanes, and what was before in the others. spread: the mask is no comparison's result. */
static LLVMValueRef blended(struct compiler *c, LLVMValueRef lanes, bool spread, enum row_bits bits, LLVMValueRef value,
                            LLVMValueRef before)
{
    LLVMBuilderRef b = c->builder;
    if (bits == ROW_PREDICATE)
        return LLVMBuildOr(b, LLVMBuildAnd(b, before, LLVMBuildNot(b, lanes, ""), ""),
                           LLVMBuildAnd(b, value, lanes, ""), "");
    return LLVMBuildSelect(b, spread ? lanes_spread(c, lanes, bits) : lanes_of(c, lanes), value, before, "");
}

void row_put(struct compiler *c, const struct exec_insn *i, uint32_t d, enum row_bits bits, LLVMValueRef value)
{
    struct row_variable *r = find(c, d | EXEC_BASE_FRAME, bits);
    const bool guarded = i->straight == EXEC_STRAIGHT_GUARDED,
               skipped = c->whole.keeps && c->width == SG_LANES, apart = skipped || (c->places && r->lasts);
    if (apart && c->deferring && !r->in_memory) {
        if (!r->others)
            r->others = row_read(c, r->at, bits);
        if (!guarded) {
            row_write(c, d, bits, value);
            return;
        }
    }
    if (guarded || apart) {
        LLVMValueRef before = row_read(c, d | EXEC_BASE_FRAME, bits);
        LLVMValueRef lanes = apart ? lanes_that_act(c, i) : predicate_read(c, i->guard, i->guard_flip);
        value = blended(c, lanes, apart, bits, value, before);
    }
    row_write(c, d, bits, value);
}

bool rows_may_defer(const struct compiler *c, uint32_t k)
{
    const struct exec_insn *i = &c->wish->insns[k];
    const struct arithmetic_form *form = arithmetic_form_of(i);
    return c->places && form && !form->calls &&
           (i->known < EXEC_STRAIGHT_ADD_F64 || i->known > EXEC_STRAIGHT_CVT_F64_U32);
}

void rows_end_line(struct compiler *c)
{
    c->deferring = false;
    for (uint32_t k = 0; k < c->row_count; k++) {
        struct row_variable *r = &c->rows[k];
        if (!r->others)
            continue;
        LLVMValueRef value = row_read(c, r->at, r->bits), lanes = active_lanes(c);
        row_write(c, (uint32_t)(r->at & ~(exec_source)3), r->bits, blended(c, lanes, true, r->bits, value, r->others));
        r->others = NULL;
    }
}

/* ---- NaNs ----
   Arithmetic of floats gives NaNs whose bits are up to the processor; the machine has one. Other arithmetic of floats
   does not mind. So a result is made the machine's where something else reads it, and where ways of the code meet. */

bool row_may_be_raw(struct compiler *c, const struct exec_insn *i, enum row_bits bits)
{
    if (bits != ROW_32 || c->width == 1 || c->places || c->whole.keeps || i->straight == EXEC_STRAIGHT_GUARDED)
        return false;
    return c->width < SG_LANES || !find(c, i->d | EXEC_BASE_FRAME, bits)->in_memory;
}

bool row_is_raw(struct compiler *c, exec_source at, enum row_bits bits)
{
    const uint32_t *cells = (const void *)at, infinity = 0x7f800000;
    if ((at & 3) == EXEC_BASE_FRAME)
        return find(c, at, bits)->raw;
    for (unsigned l = 0; (at & 3) == EXEC_BASE_ABSOLUTE && l < SG_LANES; l++)
        if ((cells[l] & INT32_MAX) > infinity)
            return false;
    return (at & 3) == EXEC_BASE_ABSOLUTE;
}

static void settle(struct compiler *c, struct row_variable *r)
{
    if (r->raw)
        LLVMBuildStore(c->builder, row_read(c, r->at, r->bits), r->variable);
    r->raw = false;
}

void rows_settle(struct compiler *c)
{
    for (uint32_t k = 0; !c->has_runs && k < c->row_count; k++)
        settle(c, &c->rows[k]);
}

void rows_forget_raw(struct compiler *c)
{
    for (uint32_t k = 0; !c->has_runs && k < c->row_count; k++)
        c->rows[k].raw = false;
}

/* ---- instructions that the interpreter executes ---- */

static void flush(struct compiler *c, exec_source at)
{
    for (uint32_t k = 0; k < c->row_count; k++)
        if (c->rows[k].at == at && is_kept(&c->rows[k]))
            store_row(c, &c->rows[k]);
}

static void reload(struct compiler *c, exec_source at)
{
    for (uint32_t k = 0; k < c->row_count; k++)
        if (c->rows[k].at == at && !c->rows[k].in_memory)
            load_row(c, &c->rows[k]);
}

LLVMValueRef row_in_frame(struct compiler *c, exec_source at)
{
    LLVMValueRef special = whole_special(c, at);
    flush(c, at);
    if (special) /* the warp's row still is that of another block */
        store_to(c, splat(c, special), row_place(c, at), align_of(ROW_32));
    return (at & 3) == EXEC_BASE_ABSOLUTE ? constant_64(c, at) : row_place(c, at);
}

/* Does the handler touch only rows that the instruction names, and go on unless there is a fault? Else all rows go to
   the frame and come back. Some lanes may have to wait for others in an exchange. */
static bool names_its_rows(const struct compiler *c, const struct exec_insn *i)
{
    return !(i->known == EXEC_STRAIGHT_EXCHANGE && c->places) && i->known != EXEC_STRAIGHT_NONE &&
           i->known != EXEC_STRAIGHT_CONTROL && i->known != EXEC_STRAIGHT_TABLE && i->known != EXEC_STRAIGHT_PART &&
           i->known != EXEC_STRAIGHT_GUARDED;
}

/* What the instruction writes, in the frame and in the variables. */
static void for_written(struct compiler *c, const struct exec_insn *i, void (*act)(struct compiler *, exec_source))
{
    const struct exec_vector *v = i->extra;
    act(c, i->d | EXEC_BASE_FRAME);
    act(c, i->p | EXEC_BASE_FRAME);
    if (i->known == EXEC_STRAIGHT_ALU) {
        act(c, i->q | EXEC_BASE_FRAME);
        act(c, EXEC_PRED_CARRY | EXEC_BASE_FRAME);
    }
    for (unsigned k = 0; i->known == EXEC_STRAIGHT_LOAD_VECTOR && k < i->vector; k++)
        act(c, v->to[k] | EXEC_BASE_FRAME);
}

static void settle_at(struct compiler *c, exec_source at)
{
    struct row_variable *r = find(c, at, ROW_32);
    if (r)
        settle(c, r);
}

void rows_settle_written(struct compiler *c, const struct exec_insn *i)
{
    if (!names_its_rows(c, i))
        rows_settle(c);
    else if (!c->has_runs)
        for_written(c, i, settle_at);
}

static void flush_named(struct compiler *c, const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    for (unsigned k = 0; k < SG_MAX_SOURCES; k++)
        flush(c, i->s[k]);
    for (unsigned k = 0; i->known == EXEC_STRAIGHT_STORE_VECTOR && k < i->vector; k++)
        flush(c, v->from[k]);
    flush(c, i->in | EXEC_BASE_FRAME);
    flush(c, i->q | EXEC_BASE_FRAME);
    if (i->known == EXEC_STRAIGHT_ALU)
        flush(c, EXEC_PRED_CARRY | EXEC_BASE_FRAME);
    if (i->straight == EXEC_STRAIGHT_GUARDED)
        flush(c, i->guard | EXEC_BASE_FRAME);
    if (i->straight == EXEC_STRAIGHT_GUARDED || c->places || c->whole.rest) /* what lanes do not write, they keep */
        for_written(c, i, flush);
}

void rows_step(struct compiler *c, const struct exec_insn *i)
{
    bool named = names_its_rows(c, i);
    if (c->wish->whole)
        whole_begin_warp(c);
    if (named)
        flush_named(c, i);
    for (uint32_t k = 0; !named && k < c->row_count; k++)
        if (is_kept(&c->rows[k]))
            store_row(c, &c->rows[k]);
    LLVMValueRef arguments[3] = { c->warp, insn_address(c, (uint32_t)(i - c->wish->insns)),
                                  c->places       ? active_lanes(c)
                                  : c->whole.rest ? c->whole.rest
                                                  : constant_32(c, UINT32_MAX) };
    LLVMValueRef done = call_machine(c, c->step_type, MACHINE(c->wish->step), arguments);
    LLVMBasicBlockRef behind = block_new(c, "behind"), away = block_new(c, "away");
    branch_mostly(c, LLVMBuildTrunc(c->builder, done, c->i1, ""), behind, away);
    LLVMPositionBuilderAtEnd(c->builder, away); /* after a fault, or all rows are in the frame */
    if (c->wish->whole)
        whole_return(c);
    else
        LLVMBuildRet(c->builder, constant_64(c, 0));
    LLVMPositionBuilderAtEnd(c->builder, behind);
    if (c->wish->whole)
        whole_forget_warp(c);
    if (named)
        for_written(c, i, reload);
    for (uint32_t k = 0; !named && k < c->row_count; k++)
        if (!c->rows[k].in_memory && (c->rows[k].at & 3) == EXEC_BASE_FRAME)
            load_row(c, &c->rows[k]);
}

void rows_step_apart(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef step, LLVMBasicBlockRef behind)
{
    LLVMBuildBr(c->builder, behind);
    LLVMPositionBuilderAtEnd(c->builder, step);
    rows_step(c, i);
    LLVMBuildBr(c->builder, behind);
    LLVMPositionBuilderAtEnd(c->builder, behind);
}
