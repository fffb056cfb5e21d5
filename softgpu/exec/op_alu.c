/* op_alu.c: instructions whose meaning is in softgpu/alu: operands to rows, results under the active mask. */
#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

#include <string.h>

/* One result row of n source rows, no predicate, no carry: nearly all of them. */
static inline __attribute__((always_inline)) void alu_row(struct exec_warp *w, const struct exec_insn *i, unsigned n)
{
    struct sg_rows r;
    for (unsigned k = 0; k < n; k++)
        r.s[k] = exec_row(w, i->s[k]);
    r.immediate = (uint64_t)i->offset;
    if (exec_full(w)) {
        r.d = w->rows + i->d;
        i->alu(&r);
    } else {
        r.d = w->temp[0];
        i->alu(&r);
        exec_blend(w, i->d, i->cell, w->temp[0]);
    }
}

static void run_one(struct exec_warp *w, const struct exec_insn *i) { alu_row(w, i, 1); }
static void run_two(struct exec_warp *w, const struct exec_insn *i) { alu_row(w, i, 2); }
static void run_three(struct exec_warp *w, const struct exec_insn *i) { alu_row(w, i, 3); }
/* setp with one predicate, nothing read but the rows */
static void run_compare(struct exec_warp *w, const struct exec_insn *i)
{
    struct sg_rows r;
    uint32_t p = 0;
    r.s[0] = exec_row(w, i->s[0]);
    r.s[1] = exec_row(w, i->s[1]);
    r.in = *exec_pred(w, i->in) ^ i->in_flip;
    r.immediate = (uint64_t)i->offset;
    r.p = &p;
    r.q = NULL;
    r.d = NULL;
    i->alu(&r);
    exec_pred_write(w, i->p, p);
}

static void run_alu(struct exec_warp *w, const struct exec_insn *i)
{
    struct sg_rows r;
    uint32_t p = 0, q = 0, carry = *exec_pred(w, EXEC_PRED_CARRY);
    for (unsigned k = 0; k < SG_MAX_SOURCES; k++)
        r.s[k] = exec_row(w, i->s[k]);
    r.immediate = (uint64_t)i->offset;
    r.in = *exec_pred(w, i->in) ^ i->in_flip;
    r.carry = &carry;
    r.p = &p;
    r.q = i->kind & EXEC_ALU_Q ? &q : NULL;
    r.d = i->kind & EXEC_ALU_ROW ? w->temp[0] : NULL;
    i->alu(&r);
    if (i->kind & EXEC_ALU_ROW)
        exec_blend(w, i->d, i->cell, w->temp[0]);
    if (i->kind & EXEC_ALU_P)
        exec_pred_write(w, i->p, p);
    if (i->kind & EXEC_ALU_Q)
        exec_pred_write(w, i->q, q);
    if (i->kind & EXEC_ALU_CARRY)
        exec_pred_write(w, EXEC_PRED_CARRY, carry);
}

/* What setp does with a comparison: of `kind`. */
static uint8_t combination_of(const struct exec_decoder *d)
{
    if (strcmp(d->in->opcode, "setp"))
        return 0;
    const unsigned combined = decode_has(d, "and")   ? EXEC_ALU_AND
                              : decode_has(d, "or")  ? EXEC_ALU_OR
                              : decode_has(d, "xor") ? EXEC_ALU_XOR
                                                     : 0;
    return (uint8_t)(combined | (decode_has(d, "ftz") ? EXEC_ALU_FLUSHED : 0));
}

int decode_arithmetic(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct sg_alu alu;
    char why[160] = "";
    memset(&alu, 0, sizeof alu);
    alu.predicate_source = alu.immediate_source = -1;
    if (sg_alu_find(in, &alu, why, sizeof why))
        return decode_error(d, "%s", why);
    struct exec_insn n = {
        .run = exec_run_alu_row, .alu = alu.function, .offset = (int64_t)alu.immediate, .in = EXEC_PRED_FALSE
    };
    if (!in->operand_count)
        return decode_error(d, "it has no operands");
    const struct ptx_operand *to = &in->operands[0];
    enum ptx_type declared = alu.destination_type;
    bool resize = false;
    if (alu.destination == SG_CELL_PRED) {
        n.kind |= EXEC_ALU_P;
        if (decode_predicate_destination(d, to, &n.p))
            return -1;
        if (to->second) {
            n.kind |= EXEC_ALU_Q;
            if (decode_predicate_destination(d, to->second, &n.q))
                return -1;
        }
    } else {
        n.kind |= EXEC_ALU_ROW;
        n.cell = (uint8_t)alu.destination;
        if (decode_destination(d, to, alu.destination_type, &n.d, &declared))
            return -1;
        resize = ptx_type_size(declared) != ptx_type_size(alu.destination_type);
        if (alu.second_predicate && to->second) {
            n.kind |= EXEC_ALU_P;
            if (decode_predicate_destination(d, to->second, &n.p))
                return -1;
        }
    }
    uint32_t row = 0;
    const struct ptx_operand *group = &in->operands[1];
    if (alu.grouped && (group->kind != PTX_OP_VECTOR || group->element_count != alu.grouped))
        return decode_error(d, "a vector of %u registers is wanted as operand 1", alu.grouped);
    for (; row < alu.grouped; row++)
        if (decode_source(d, &group->elements[row], alu.source_type[row], &n.s[row]))
            return -1;
    for (uint32_t o = alu.grouped ? 2 : 1; o < in->operand_count; o++) {
        int place = (int)o;
        const struct ptx_operand *from = &in->operands[o];
        if (place == alu.predicate_source) {
            if (decode_predicate(d, from, &n.in, &n.in_flip))
                return -1;
        } else if (place == alu.immediate_source) {
            if (from->kind != PTX_OP_INTEGER)
                return decode_error(d, "operand %u has to be a constant", o);
            n.offset = from->integer;
        } else if (row >= alu.source_count)
            return decode_error(d, "too many operands");
        else if (alu.source[row] == SG_CELL_PRED) {
            enum ptx_type type;
            uint32_t at;
            if (from->negated || from->kind != PTX_OP_REGISTER)
                return decode_error(d, "a predicate register is wanted as operand %u", o);
            if (decode_register(d, from, &at, &type))
                return -1;
            n.s[row++] = at | EXEC_BASE_FRAME;
        } else {
            if (decode_source(d, from, alu.source_type[row], &n.s[row]))
                return -1;
            row++;
        }
    }
    if (row != alu.source_count)
        return decode_error(d, "%u operands where %u are wanted", row, alu.source_count);
    n.source_count = (uint8_t)row;
    if (alu.reads_carry || alu.writes_carry)
        n.kind |= EXEC_ALU_CARRY;
    if (n.kind == EXEC_ALU_P && row == 2)
        n.run = run_compare;
    else if (n.kind != EXEC_ALU_ROW)
        n.run = run_alu;
    else if (alu.predicate_source < 0)
        n.run = row == 1 ? run_one : row == 2 ? run_two : row == 3 ? run_three : exec_run_alu_row;
    uint8_t otherwise = n.run == run_one             ? EXEC_STRAIGHT_ROWS_1
                        : n.run == run_two           ? EXEC_STRAIGHT_ROWS_2
                        : n.run == run_three         ? EXEC_STRAIGHT_ROWS_3
                        : n.run == exec_run_alu_row  ? EXEC_STRAIGHT_ROWS_P
                        : n.run == run_compare       ? EXEC_STRAIGHT_COMPARE
                                                     : EXEC_STRAIGHT_NONE;
    const uint8_t combination = combination_of(d);
    n.kind |= combination;
    n.known = otherwise == EXEC_STRAIGHT_NONE ? EXEC_STRAIGHT_ALU : exec_straight_of(in, otherwise, &n.detail);
    n.straight = n.known < EXEC_STRAIGHT_COMPILED && !combination ? n.known : otherwise;
    if (!resize)
        return decode_put_guarded(d, n);
    sg_alu_function *change = sg_alu_resize(alu.destination_type, declared);
    if (!change && decode_cell(alu.destination_type) != n.cell)
        return decode_error(d, "a result of type %s in a register of type %s", ptx_type_name(alu.destination_type),
                            ptx_type_name(declared));
    if (!change)
        return decode_put_guarded(d, n);
    struct exec_insn after = { .run = exec_run_alu_row,
                               .alu = change,
                               .source_count = 1,
                               .d = n.d,
                               .cell = (uint8_t)decode_cell(declared),
                               .in = EXEC_PRED_FALSE,
                               .straight = EXEC_STRAIGHT_ROWS_1,
                               .known = EXEC_STRAIGHT_ROWS_1 };
    n.d = decode_temp(d);
    after.s[0] = n.d | EXEC_BASE_FRAME;
    return decode_put_guarded(d, n) || decode_put_guarded(d, after) ? -1 : 0;
}
