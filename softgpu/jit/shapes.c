/*
 * shapes.c: rows whose lanes differ by a constant: lane l has what lane 0 has, plus l times a step. Addresses mostly
 * are such rows, and loop counters (step 0). Of these the code keeps lane 0 only, and computes one number instead of
 * 32; accesses know without looking where their lanes are. Sums wrap as in the row; where a number of 32 bits becomes
 * one of 64 and a lane between would wrap, the code ends before that, and the interpreter goes on.
 *
 * Which rows are so is found for each instruction from those before it, for code of full warps without runs: for the
 * kernel itself, if the warp is united, from its beginning; else from the head, where nothing is known of what the
 * frame holds. Where the interpreter has done the instruction that may wrap, the row may not be in steps after all: so
 * rows that depend on that are looked at where the code begins, and there is other code for warps where they are not.
 */
#include "softgpu/jit/compile.h"

#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/fused.h"

#define IS(name) EXEC_STRAIGHT_##name
/* Instructions times rows of a kernel that is looked at from its beginning. */
enum { WHOLE_MOST = 1 << 20 };

static const struct row_shape any = { .kind = SHAPE_ANY };
static struct row_shape in_steps(int64_t step) { return (struct row_shape){ .kind = SHAPE_STEPS, .step = step }; }

/* ---- shapes of sources ---- */

/* A constant that is the same in all lanes. */
static bool is_constant(exec_source at, enum row_bits bits, int64_t *value)
{
    const void *cells = (const void *)at;
    if ((at & 3) != EXEC_BASE_ABSOLUTE || !at)
        return false;
    for (unsigned l = 0; l < SG_LANES; l++) {
        const int64_t cell = bits == ROW_64 ? ((const int64_t *)cells)[l] : ((const int32_t *)cells)[l];
        if (l && cell != *value)
            return false;
        *value = cell;
    }
    return true;
}

/* A row of special registers (enum exec_special_row). */
static struct row_shape special_shape(const struct compiler *c, exec_source at)
{
    const exec_source first = offsetof(struct exec_warp, special), place = at & ~(exec_source)3;
    const exec_source row = (place - first) / sizeof(uint32_t[SG_LANES]);
    if (place < first || row >= EXEC_ROW_COUNT)
        return any;
    if (row == EXEC_ROW_LANEID)
        return in_steps(1);
    if (row >= EXEC_ROW_NTID)
        return in_steps(0);
    return c->wish->united ? in_steps(row == EXEC_ROW_TID) : any;
}

static struct row_shape find_shape(const struct compiler *c, const struct row_shape *rows, exec_source at,
                                   enum row_bits bits)
{
    int64_t value;
    if ((at & 3) == EXEC_BASE_ABSOLUTE)
        return is_constant(at, bits, &value) ? in_steps(0) : any;
    if ((at & 3) == EXEC_BASE_WARP)
        return special_shape(c, at);
    for (const struct row_variable *r = row_first(c, at); r; r = r->next ? &c->rows[r->next - 1] : NULL)
        if (r->at == at && r->bits == bits && !r->in_memory)
            return rows[r - c->rows];
    return any;
}

struct row_shape shape_of(const struct compiler *c, exec_source at, enum row_bits bits)
{
    return c->now ? find_shape(c, c->now, at, bits) : any;
}

/* ---- shapes of results ---- */

/* Operations that have code for one lane. */
static bool is_simple(uint8_t k)
{
    switch (k) {
    case IS(COPY_32): case IS(COPY_64): case IS(ADD_32): case IS(ADD_64): case IS(SUB_32): case IS(SUB_64):
    case IS(MUL_LO_32): case IS(MUL_LO_64): case IS(MAD_LO_32): case IS(MAD_LO_64): case IS(SHL_32): case IS(SHL_64):
    case IS(SHR_U32): case IS(SHR_S32): case IS(SHR_U64): case IS(SHR_S64): case IS(AND_32): case IS(AND_64):
    case IS(OR_32): case IS(OR_64): case IS(XOR_32): case IS(XOR_64): case IS(NOT_32): case IS(NEG_32): case IS(NEG_64):
    case IS(MIN_S32): case IS(MAX_S32): case IS(MIN_U32): case IS(MAX_U32): case IS(MUL_WIDE_U32):
    case IS(MUL_WIDE_S32): case IS(MAD_WIDE_U32): case IS(MAD_WIDE_S32): case IS(EXTEND_U32): case IS(EXTEND_S32):
    case IS(CUT_64): case IS(DIV_U32): case IS(DIV_S32): case IS(REM_U32): case IS(REM_S32):
        return true;
    default: return false;
    }
}

/* Does a row of 32 bits become one of 64? */
static bool widens(uint8_t k)
{
    return k == IS(MUL_WIDE_U32) || k == IS(MUL_WIDE_S32) || k == IS(MAD_WIDE_U32) || k == IS(MAD_WIDE_S32) ||
           k == IS(EXTEND_U32) || k == IS(EXTEND_S32);
}
bool shapes_widen(const struct exec_insn *i) { return widens(i->known); }
static bool is_signed(uint8_t k) { return k == IS(MUL_WIDE_S32) || k == IS(MAD_WIDE_S32) || k == IS(EXTEND_S32); }

static int64_t product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* A step times a factor, which has to be known unless the step is 0. */
static bool scaled(const struct exec_insn *i, const struct arithmetic_form *form, const struct row_shape *s,
                   int64_t *step)
{
    int64_t factor;
    const unsigned by = s[0].step ? 1 : 0;
    *step = 0;
    if (!s[0].step && !s[1].step)
        return true;
    if (s[by].step || !is_constant(i->s[by], form->s[by], &factor))
        return false;
    if (form->s[by] == ROW_32 && widens(i->known) && !is_signed(i->known))
        factor = (uint32_t)factor;
    *step = product(s[!by].step, factor);
    return true;
}

/* Of sources that all are in steps, of which not all are 0. */
static struct row_shape moved(const struct exec_insn *i, const struct arithmetic_form *form, const struct row_shape *s)
{
    int64_t step;
    switch (i->known) {
    case IS(COPY_32): case IS(COPY_64): case IS(EXTEND_U32): case IS(EXTEND_S32): case IS(CUT_64): return s[0];
    case IS(ADD_32): case IS(ADD_64): return in_steps(sum(s[0].step, s[1].step));
    case IS(SUB_32): case IS(SUB_64): return in_steps(sum(s[0].step, -s[1].step));
    case IS(NEG_32): case IS(NEG_64): return in_steps(-s[0].step);
    case IS(MUL_LO_32): case IS(MUL_LO_64): case IS(MUL_WIDE_U32): case IS(MUL_WIDE_S32):
        return scaled(i, form, s, &step) ? in_steps(step) : any;
    case IS(MAD_LO_32): case IS(MAD_LO_64): case IS(MAD_WIDE_U32): case IS(MAD_WIDE_S32):
        return scaled(i, form, s, &step) ? in_steps(sum(step, s[2].step)) : any;
    case IS(SHL_32): case IS(SHL_64): {
        int64_t by;
        const int64_t bits = i->known == IS(SHL_32) ? 32 : 64;
        if (s[1].step || !is_constant(i->s[1], ROW_32, &by) || by < 0 || by >= bits)
            return any;
        return in_steps((int64_t)((uint64_t)s[0].step << by));
    }
    default: return any;
    }
}

/* Of a result that lane 0 says all about if all lanes of the source are the same. */
static struct row_shape same_in_all(struct row_shape source)
{
    return source.kind == SHAPE_STEPS && !source.step ? source : any;
}

/* The shape of the one row that the instruction writes, if there is code for one lane. */
static struct row_shape result_shape(const struct compiler *c, const struct exec_insn *i, const struct row_shape *rows)
{
    const struct arithmetic_form *form = arithmetic_form_of(i);
    struct row_shape s[3] = { in_steps(0), in_steps(0), in_steps(0) };
    bool uniform = true, checked = false;
    if (i->straight == EXEC_STRAIGHT_GUARDED)
        return any;
    if (i->known == IS(PARAM) || i->known == IS(LOCAL_ADDRESS))
        return in_steps(0);
    if (i->known == IS(CVTA))
        return same_in_all(find_shape(c, rows, i->s[0], ROW_64));
    if (!form || !is_simple(i->known))
        return any;
    for (unsigned k = 0; k < 3; k++) {
        if (form->s[k])
            s[k] = find_shape(c, rows, i->s[k], form->s[k]);
        if (s[k].kind != SHAPE_STEPS)
            return any;
        uniform &= !s[k].step;
        checked |= s[k].checked || (widens(i->known) && form->s[k] == ROW_32 && s[k].step);
    }
    struct row_shape d = uniform ? in_steps(0) : moved(i, form, s);
    if (form->d == ROW_32)
        d.step = (int32_t)d.step;
    d.checked = checked;
    return d;
}

bool shapes_all_equal(const struct compiler *c, const struct exec_insn *i)
{
    const struct arithmetic_form *form = arithmetic_form_of(i);
    const bool comparison = (i->known >= IS(EQ_32) && i->known <= IS(GE_U32)) ||
                            (i->known >= IS(EQ_64) && i->known <= IS(GE_U64));
    for (unsigned k = 0; comparison && c->now && k < 2; k++) {
        const struct row_shape shape = find_shape(c, c->now, i->s[k], form->s[k]);
        if (shape.kind != SHAPE_STEPS || shape.step)
            return false;
    }
    return comparison && c->now;
}

/* ---- what an instruction changes ---- */

static void set_shape(const struct compiler *c, struct row_shape *rows, uint32_t d, struct row_shape shape)
{
    const exec_source at = d | EXEC_BASE_FRAME;
    for (const struct row_variable *r = row_first(c, at); r; r = r->next ? &c->rows[r->next - 1] : NULL)
        if (r->at == at)
            rows[r - c->rows] = r->in_memory || r->bits == ROW_PREDICATE ? any : shape;
}

struct written { const struct compiler *c; struct row_shape *rows; };
static void set_any(const struct written *w, uint32_t d) { set_shape(w->c, w->rows, d, any); }

/* Calls act for each row that the instruction writes; not where it may write any. */
static void for_each_written(const struct exec_insn *i, void (*act)(const struct written *, uint32_t d),
                             const struct written *w)
{
    const struct exec_vector *v = i->extra;
    const struct exec_pieces *p = i->extra;
    for (unsigned k = 0; i->known == IS(LOAD_VECTOR) && k < i->vector; k++)
        act(w, v->to[k]);
    for (unsigned k = 0; i->known == IS(SPLIT) && k < 2; k++)
        if (!p->sink[k])
            act(w, p->to[k]);
    act(w, i->d);
}

static void forget(const struct compiler *c, struct row_shape *rows)
{
    for (uint32_t k = 0; k < c->row_count; k++)
        rows[k] = any;
}

/* rows: before the instruction; then behind it. */
static void change(const struct compiler *c, const struct exec_insn *i, struct row_shape *rows)
{
    const uint8_t known = i->known;
    if (i->flags & EXEC_LABEL || i->straight == IS(REGION) || i->straight == IS(HALT))
        return;
    if (known == IS(PART) || known == IS(TABLE))
        return;
    if (known == IS(NONE) || known == IS(CONTROL) || known == IS(GUARDED)) {
        forget(c, rows);
        return;
    }
    const struct row_shape d = result_shape(c, i, rows);
    const struct written w = { c, rows };
    for_each_written(i, set_any, &w);
    set_shape(c, rows, i->d, d);
}

/* ---- for all instructions ---- */

/* Joins what holds on one way to the instruction with what was known. true: that has changed it. */
static bool join(struct compiler *c, uint32_t k, const struct row_shape *rows)
{
    struct row_shape *known = shapes_at(c, k);
    bool more = false;
    for (uint32_t row = 0; row < c->row_count; row++) {
        struct row_shape x = known[row];
        if (x.kind == SHAPE_NONE)
            x = rows[row];
        else if (x.kind == SHAPE_STEPS && (rows[row].kind != SHAPE_STEPS || rows[row].step != x.step))
            x = any;
        else if (x.kind == SHAPE_STEPS)
            x.checked |= rows[row].checked;
        more |= x.kind != known[row].kind || x.checked != known[row].checked;
        known[row] = x;
    }
    return more;
}

/* Calls act for each instruction that may come next. */
static bool for_each_next(const struct compiler *c, uint32_t k, bool (*act)(struct compiler *, uint32_t,
                                                                            const struct row_shape *),
                          const struct row_shape *rows)
{
    const struct exec_insn *i = &c->wish->insns[k];
    struct compiler *own = (struct compiler *)(uintptr_t)c;
    const struct exec_targets *t = i->extra;
    bool more = false;
    if (i->straight == IS(BRANCH) || i->straight == IS(BRANCH_IF))
        more |= act(own, (uint32_t)(i->target - c->wish->insns), rows);
    for (uint32_t n = 0; i->known == IS(TABLE) && n < t->count; n++)
        more |= act(own, t->at[n], rows);
    if (i->straight != IS(BRANCH) && i->known != IS(END) && i->known != IS(TABLE) && k + 1 < c->wish->count)
        more |= act(own, k + 1, rows);
    if (i->known == IS(PART) && k + 2 < c->wish->count)
        more |= act(own, k + 2, rows);
    return more;
}

/* From the instruction on, before which nothing is known. false: no memory. */
static bool flow(struct compiler *c, uint32_t first, const bool *inside)
{
    struct row_shape *rows = calloc(c->row_count + 1u, sizeof *rows);
    c->shapes = calloc((size_t)c->wish->count * c->row_count + 1u, sizeof *c->shapes);
    for (bool more = rows && c->shapes; more;) {
        more = false;
        forget(c, shapes_at(c, first));
        for (uint32_t k = first; k < c->wish->count; k++) {
            if (!inside[k] || (c->row_count && shapes_at(c, k)->kind == SHAPE_NONE))
                continue;
            memcpy(rows, shapes_at(c, k), c->row_count * sizeof *rows);
            change(c, &c->wish->insns[k], rows);
            more |= for_each_next(c, k, join, rows);
        }
    }
    free(rows);
    return rows && c->shapes;
}

/* Takes over what is known of the rows of c in the whole function. */
static void take_over(struct compiler *c, const struct compiler *whole)
{
    for (uint32_t k = 0; k < c->wish->count; k++)
        for (uint32_t row = 0; row < c->row_count; row++) {
            const struct row_variable *r = &c->rows[row];
            shapes_at(c, k)[row] = r->in_memory ? any : find_shape(whole, shapes_at(whole, k), r->at, r->bits);
            if (shapes_at(c, k)[row].kind == SHAPE_NONE)
                shapes_at(c, k)[row] = any;
        }
}

/* Of the kernel, from its beginning. false: it is too large, or there is no memory. */
static bool find_from_beginning(struct compiler *c)
{
    const uint32_t count = c->wish->count;
    struct compiler whole = { .wish = c->wish, .in_region = malloc(count), .width = SG_LANES };
    bool done = whole.in_region;
    if (done) {
        memset(whole.in_region, true, count);
        rows_collect(&whole);
        done = !whole.failed && (uint64_t)count * whole.row_count < WHOLE_MOST && flow(&whole, 0, whole.in_region);
    }
    if (done)
        take_over(c, &whole);
    free(whole.in_region);
    free(whole.rows);
    free(whole.shapes);
    return done;
}

/* Barriers between phases are in its way. */
static bool flow_region(struct compiler *c)
{
    bool *inside = malloc(c->wish->count + 1u), done = inside;
    for (uint32_t k = 0; inside && k < c->wish->count; k++)
        inside[k] = c->in_region[k] || phase_waits(c, k);
    done = done && flow(c, c->wish->head, inside);
    free(inside);
    return done;
}

bool shapes_find(struct compiler *c)
{
    c->now = calloc(c->row_count + 1u, sizeof *c->now);
    bool done = c->now && flow_region(c);
    if (done && c->wish->united && c->wish->entry)
        find_from_beginning(c);
    return done;
}

static bool writes_row(const struct exec_insn *i, exec_source at)
{
    const struct exec_vector *v = i->extra;
    const struct exec_pieces *p = i->extra;
    bool writes = at == (i->d | EXEC_BASE_FRAME);
    for (unsigned k = 0; i->known == IS(LOAD_VECTOR) && k < i->vector; k++)
        writes |= at == (v->to[k] | EXEC_BASE_FRAME);
    for (unsigned k = 0; i->known == IS(SPLIT) && k < 2; k++)
        writes |= at == (p->to[k] | EXEC_BASE_FRAME);
    return writes;
}

bool shapes_may_part(struct compiler *c, uint32_t k, uint32_t to)
{
    const struct exec_insn *i = &c->wish->insns[k];
    const bool steps = i->known != IS(LOAD_VECTOR) && result_shape(c, i, shapes_at(c, k)).kind == SHAPE_STEPS;
    for (uint32_t row = 0; row < c->row_count; row++)
        if (live_at(c, to, row) && c->rows[row].bits != ROW_PREDICATE && writes_row(i, c->rows[row].at) &&
            (steps || shapes_at(c, to)[row].kind == SHAPE_STEPS))
            return false;
    return true;
}

/* ---- while code is written ---- */

/* The row goes to its variable. */
static void settle(const struct written *w, uint32_t d)
{
    struct compiler *c = (struct compiler *)(uintptr_t)w->c;
    const exec_source at = d | EXEC_BASE_FRAME;
    for (const struct row_variable *r = row_first(c, at); r; r = r->next ? &c->rows[r->next - 1] : NULL) {
        struct row_shape *shape = &c->now[r - c->rows];
        if (r->at != at || shape->kind != SHAPE_STEPS)
            continue;
        LLVMBuildStore(c->builder, row_read(c, at, r->bits), r->variable);
        *shape = any;
    }
}

/* Under a guard, a row may stay as it is. */
void shapes_begin(struct compiler *c, uint32_t k)
{
    const struct exec_insn *i = &c->wish->insns[k];
    if (!c->shapes)
        return;
    memcpy(c->now, shapes_at(c, k), c->row_count * sizeof *c->now);
    const struct written w = { c, c->now };
    if (i->straight == IS(GUARDED))
        for_each_written(i, settle, &w);
}

/* The row goes to its variable where the instruction k needs it there. */
static bool store_for(struct compiler *c, uint32_t k, const struct row_shape *rows)
{
    const struct row_shape *wanted = shapes_at(c, k);
    for (uint32_t row = 0; row < c->row_count; row++)
        if (rows[row].kind != SHAPE_STEPS)
            c->failed |= wanted[row].kind == SHAPE_STEPS; /* never: its lanes are not in steps there */
        else if (wanted[row].kind == SHAPE_ANY)
            LLVMBuildStore(c->builder, row_read(c, c->rows[row].at, c->rows[row].bits), c->rows[row].variable);
    return false;
}

void shapes_end(struct compiler *c, uint32_t k)
{
    if (!c->shapes)
        return;
    change(c, &c->wish->insns[k], c->now);
    for_each_next(c, k, store_for, c->now);
}

void shapes_check(struct compiler *c)
{
    LLVMBuilderRef b = c->builder;
    const uint32_t head = c->wish->head;
    const struct row_shape *rows = shapes_at(c, head);
    LLVMBasicBlockRef other = NULL;
    for (uint32_t row = 0; row < c->row_count; row++) {
        const struct row_variable *r = &c->rows[row];
        if (rows[row].kind != SHAPE_STEPS || !rows[row].checked || !live_at(c, head, row))
            continue;
        other = other ? other : block_new(c, "other");
        LLVMTypeRef type = r->bits == ROW_64 ? c->row64 : c->row32;
        LLVMValueRef differ = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildLoad2(b, type, r->variable, ""),
                                            row_read(c, r->at, r->bits), "");
        LLVMValueRef mask = LLVMBuildBitCast(b, differ, c->i32, "");
        LLVMBasicBlockRef right = block_new(c, "right");
        branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, mask, constant_32(c, 0), ""), right, other);
        LLVMPositionBuilderAtEnd(b, right);
    }
    if (!other)
        return;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    LLVMPositionBuilderAtEnd(b, other);
    store_to(c, LLVMConstInt(c->i8, false, false), address_of(c, c->warp, offsetof(struct exec_warp, united)), 1);
    LLVMBuildRet(b, insn_address(c, head));
    LLVMPositionBuilderAtEnd(b, here);
}

/* Do all lanes of the source, which becomes one of 64 bits, stay in range? Goes on where they do. */
static void check_range(struct compiler *c, uint32_t k, const struct exec_insn *i, exec_source at,
                        LLVMBasicBlockRef (*leave_to)(struct compiler *, uint32_t))
{
    LLVMBuilderRef b = c->builder;
    const int64_t step = shape_of(c, at, ROW_32).step;
    const bool sign = is_signed(i->known);
    if (!step)
        return;
    LLVMValueRef first = LLVMBuildCast(b, sign ? LLVMSExt : LLVMZExt, row_first_lane(c, at, ROW_32), c->i64, ""),
                 last = address_of(c, first, (uint64_t)product(step, SG_LANES - 1));
    LLVMBasicBlockRef right = block_new(c, "right");
    ranges_fits(c, first, product(step, SG_LANES - 1), sign, right);
    LLVMValueRef low = LLVMBuildTrunc(b, last, c->i32, ""), again = LLVMBuildCast(b, sign ? LLVMSExt : LLVMZExt, low,
                                                                                  c->i64, "");
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, last, again, ""), right, leave_to(c, k));
    LLVMPositionBuilderAtEnd(b, right);
}

/* A row that code keeps in the frame, all lanes of it. */
static bool stays_in_frame(const struct compiler *c, exec_source at)
{
    for (const struct row_variable *r = row_first(c, at); r; r = r->next ? &c->rows[r->next - 1] : NULL)
        if (r->at == at && r->in_memory)
            return true;
    return false;
}

bool emit_in_steps(struct compiler *c, uint32_t k, LLVMBasicBlockRef (*leave_to)(struct compiler *, uint32_t),
                   bool (*lanewise)(struct compiler *, const struct exec_insn *))
{
    const struct exec_insn *i = &c->wish->insns[k];
    if (!c->shapes || result_shape(c, i, c->now).kind != SHAPE_STEPS || stays_in_frame(c, i->d | EXEC_BASE_FRAME))
        return false;
    const struct arithmetic_form *form = arithmetic_form_of(i);
    for (unsigned n = 0; widens(i->known) && n < 2; n++)
        if (form->s[n] == ROW_32)
            check_range(c, k, i, i->s[n], leave_to);
    set_width(c, 1);
    lanewise(c, i);
    set_width(c, SG_LANES);
    return true;
}
