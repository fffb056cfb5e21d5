/*
 * runs.c: code for many registers. A processor has room for four rows of 32 lanes with AVX2; a product of matrices has
 * a hundred. So what stands in line between branches and stores, a run, is computed for eight lanes (AVX-512: 16) after
 * the other: in a loop, whose body is the whole run. Then a row takes one register of the processor, and what the run
 * computes and reads itself never goes to memory as long as there are registers.
 *
 * Between runs all rows are in the frame. A run reads each row there when it needs it first, and writes behind its last
 * instruction those that the function may still read. Nothing in a run looks at other lanes, and nothing in it stores:
 * loads of shared memory see the same as if each was done for all lanes at once, since no other warp runs meanwhile.
 * The places that they read are looked at before the run; if one is wrong, the code ends there, and the interpreter
 * goes on.
 *
 * A NaN that arithmetic gives is made the canonical one where something else than arithmetic on floats reads it, or at
 * the end of the run.
 */
#include "softgpu/jit/compile.h"

#include "softgpu/exec/fused.h"
#include "softgpu/jit/runs.h"

/* LEAST, MOST: instructions of a run; one with loads may be shorter. ROWS: a region with fewer rows has them in
   registers of the processor, or nearly. LOADS: so many gain all the same. */
enum { LEAST = 8, MOST = 4000, ROWS = 20, LOADS = 4 };

static bool fits(const struct exec_insn *i)
{
    const struct arithmetic_form *form = arithmetic_form_of(i);
    if (i->straight == EXEC_STRAIGHT_GUARDED)
        return false;
    if (form)
        return form->d != ROW_PREDICATE && !form->selects && !form->calls;
    return i->known == EXEC_STRAIGHT_PARAM || i->known == EXEC_STRAIGHT_SPLIT || i->known == EXEC_STRAIGHT_JOIN ||
           (run_load_elements(i) && (i->s[0] & 3) == EXEC_BASE_FRAME && i->offset > -RUN_OFFSET &&
            i->offset < RUN_OFFSET);
}

/* Calls act for each row that the instruction, which fits, writes. */
static bool for_each_written(const struct exec_insn *i, bool (*act)(void *, uint32_t), void *context)
{
    const struct exec_vector *v = i->extra;
    const struct exec_pieces *p = i->extra;
    bool all = true;
    if (run_load_elements(i) > 1)
        for (unsigned k = 0; k < i->vector; k++)
            all &= v->sink[k] || act(context, v->to[k]);
    else if (i->known == EXEC_STRAIGHT_SPLIT)
        for (unsigned k = 0; k < 2; k++)
            all &= p->sink[k] || act(context, p->to[k]);
    else
        all = act(context, i->d);
    return all;
}

struct differs { uint32_t from; };
static bool is_another(void *context, uint32_t row) { return (((struct differs *)context)->from & ~3u) != row; }

/* Does an instruction from `first` to before `end` write the row? */
static bool is_written(const struct compiler *c, uint32_t first, uint32_t end, exec_source at)
{
    struct differs from = { (uint32_t)at };
    for (uint32_t k = first; k < end; k++)
        if (!for_each_written(&c->wish->insns[k], is_another, &from))
            return true;
    return false;
}

/* The end of the run that begins with the instruction; the instruction itself: there is none. */
static uint32_t end_of(const struct compiler *c, uint32_t first, struct run_loads *g)
{
    const struct exec_insn *insns = c->wish->insns;
    uint32_t k = first;
    g->count = 0;
    for (; k < c->wish->count && k - first < MOST && c->in_region[k] && (k == first || !c->target[k]); k++) {
        if (!fits(&insns[k]))
            break;
        if (run_load_elements(&insns[k]) && (is_written(c, first, k, insns[k].s[0]) || !run_load_add(g, &insns[k])))
            break;
    }
    return k - first >= LEAST || g->count ? k : first;
}

/* ---- whether a region has runs ---- */

/* The first rows that runs write. */
struct written { uint32_t rows[ROWS], count; };
static bool add_written(void *context, uint32_t row)
{
    struct written *x = context;
    for (uint32_t k = 0; k < x->count; k++)
        if (x->rows[k] == row)
            return true;
    if (x->count < ROWS)
        x->rows[x->count++] = row;
    return true;
}

bool runs_find(struct compiler *c)
{
    const struct sg_jit_wish *w = c->wish;
    uint32_t all = 0, inside = 0, loads = 0;
    struct written written = { .count = 0 };
    struct run_loads g;
    for (uint32_t k = 0; k < w->count; k++) {
        const struct exec_insn *i = &w->insns[k];
        if (c->in_region[k] && (i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF))
            c->target[i->target - w->insns] = true;
    }
    for (uint32_t k = 0, end; k < w->count; k = end > k ? end : k + 1) {
        end = c->in_region[k] ? end_of(c, k, &g) : k;
        all += end > k ? end - k : c->in_region[k];
        inside += end - k;
        for (uint32_t at = k; at < end; at++) {
            for_each_written(&w->insns[at], add_written, &written);
            loads += run_load_elements(&w->insns[at]) > 0;
        }
    }
    return (written.count == ROWS || loads >= LOADS) && 2 * inside >= all;
}

/* ---- rows in a run ---- */

static unsigned bytes_of(enum row_bits bits) { return bits == ROW_64 ? 8 : 4; }

static unsigned align_of(const struct compiler *c, enum row_bits bits)
{
    const unsigned bytes = c->width * bytes_of(bits);
    return bytes < 64 ? bytes : 64;
}

LLVMValueRef run_cells(struct compiler *c, exec_source at, enum row_bits bits)
{
    LLVMValueRef offset = LLVMBuildMul(c->builder, c->lane, constant_64(c, bytes_of(bits)), "");
    const exec_source place = at & ~(exec_source)3;
    if ((at & 3) == EXEC_BASE_ABSOLUTE)
        return address_of(c, offset, place);
    return address_of(c, LLVMBuildAdd(c->builder, (at & 3) == EXEC_BASE_WARP ? c->warp : c->frame, offset, ""), place);
}

static LLVMTypeRef row_type(const struct compiler *c, enum row_bits bits)
{
    return bits == ROW_64 ? c->row64 : c->row32;
}

static LLVMValueRef load_cells(struct compiler *c, exec_source at, enum row_bits bits)
{
    return load_from(c, row_type(c, bits), run_cells(c, at, bits), align_of(c, bits));
}

static void store_cells(struct compiler *c, const struct row_variable *r, LLVMValueRef value)
{
    store_to(c, value, run_cells(c, r->at, r->bits), align_of(c, r->bits));
}

static LLVMValueRef constant(struct compiler *c, exec_source at, enum row_bits bits)
{
    const void *from = (const void *)at;
    uint64_t first = bits == ROW_64 ? *(const uint64_t *)from : *(const uint32_t *)from;
    for (unsigned l = 1; l < SG_LANES; l++)
        if (first != (bits == ROW_64 ? ((const uint64_t *)from)[l] : ((const uint32_t *)from)[l]))
            return load_cells(c, at, bits);
    return splat(c, bits == ROW_64 ? constant_64(c, first) : constant_32(c, first));
}

LLVMValueRef run_read(struct compiler *c, struct row_variable *r, exec_source at, enum row_bits bits)
{
    if (!r)
        return constant(c, at, bits);
    if (r->two_widths)
        return load_cells(c, at, bits);
    if (!r->held) {
        r->held = load_cells(c, at, bits);
        r->raw = false;
    }
    if (r->raw && !c->takes_raw) {
        r->held = canonical(c, r->held);
        r->raw = false;
    }
    return r->held;
}

void run_write(struct compiler *c, struct row_variable *r, LLVMValueRef value)
{
    if (r->two_widths) {
        store_cells(c, r, c->raw ? canonical(c, value) : value);
        return;
    }
    r->held = value;
    r->raw = c->raw;
    r->changed = true;
}

/* What the run has changed goes to the frame. */
static void put_back(struct compiler *c, uint32_t end)
{
    for (uint32_t k = 0; k < c->row_count; k++) {
        struct row_variable *r = &c->rows[k];
        if (r->changed && live_at(c, end, k)) {
            c->takes_raw = false;
            LLVMValueRef value = run_read(c, r, r->at, r->bits);
            store_cells(c, r, value);
        }
        r->held = NULL;
        r->changed = r->raw = false;
    }
}

/* ---- the run ---- */

static void has_read(struct compiler *c, uint32_t first, uint32_t end)
{
    for (uint32_t k = first; k < end; k++)
        if (run_load_elements(&c->wish->insns[k]) && c->wish->insns[k].flags & EXEC_READS_SHARED) {
            LLVMValueRef at = address_of(c, c->block, offsetof(struct exec_block, read));
            store_to(c, LLVMConstInt(c->i8, true, false), at, 1);
            return;
        }
}

typedef bool lanewise(struct compiler *, const struct exec_insn *);

/* All rounds. Goes on in `behind`. */
static void emit_rounds(struct compiler *c, uint32_t first, uint32_t end, struct run_loads *g, LLVMBasicBlockRef behind,
                        lanewise *other)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = block_new(c, "round");
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    c->lane = LLVMBuildPhi(b, c->i64, "");
    set_width(c, run_round(c));
    run_loads_begin(c, g);
    for (uint32_t k = first; k < end; k++) {
        const struct exec_insn *i = &c->wish->insns[k];
        c->raw = false;
        if (run_load_elements(i))
            run_load_emit(c, g, i);
        else
            other(c, i);
    }
    c->raw = false;
    put_back(c, end);
    LLVMValueRef next = address_of(c, c->lane, run_round(c)), start = constant_64(c, 0);
    LLVMAddIncoming(c->lane, &start, &from, 1);
    LLVMAddIncoming(c->lane, &next, &loop, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, next, constant_64(c, SG_LANES), ""), behind, loop);
    set_width(c, SG_LANES);
}

uint32_t run_emit(struct compiler *c, uint32_t first, LLVMBasicBlockRef (*leave_to)(struct compiler *, uint32_t),
                  lanewise *other)
{
    struct run_loads g;
    const uint32_t end = c->has_runs ? end_of(c, first, &g) : first;
    if (end == first)
        return first;
    LLVMBasicBlockRef behind = block_new(c, "ran"), otherwise = NULL;
    if (g.count) {
        run_loads_check(c, &g, leave_to(c, first));
        has_read(c, first, end);
        if (run_loads_guess(c, &g, first)) {
            otherwise = block_new(c, "near");
            run_loads_fit(c, &g, otherwise);
            emit_rounds(c, first, end, &g, behind, other);
            LLVMPositionBuilderAtEnd(c->builder, otherwise);
            run_loads_set(&g, RUN_NEAR);
        }
        otherwise = block_new(c, "apart");
        run_loads_fit(c, &g, otherwise);
    }
    emit_rounds(c, first, end, &g, behind, other);
    if (otherwise) {
        LLVMPositionBuilderAtEnd(c->builder, otherwise);
        run_loads_set(&g, RUN_APART);
        emit_rounds(c, first, end, &g, behind, other);
    }
    LLVMPositionBuilderAtEnd(c->builder, behind);
    return end;
}
