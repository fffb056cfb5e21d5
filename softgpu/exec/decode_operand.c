/* decode_operand.c: operands of PTX into rows, predicates and addresses. */
#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

#include <string.h>

enum sg_cell decode_cell(enum ptx_type t)
{
    if (t == PTX_PRED)
        return SG_CELL_PRED;
    size_t size = ptx_type_size(t);
    return size == 16 ? SG_CELL_128 : size == 8 ? SG_CELL_64 : SG_CELL_32;
}

uint32_t decode_temp(struct exec_decoder *d)
{
    uint32_t row = d->temp_base + d->temp_next++ * 16 * SG_LANES;
    d->temp_most = d->temp_next > d->temp_most ? d->temp_next : d->temp_most;
    return row;
}

uint64_t decode_immediate(const struct ptx_operand *o, enum ptx_type t)
{
    uint64_t v = (uint64_t)o->integer;
    if (o->kind == PTX_OP_FLOAT) {
        v = o->bits;
        union { float f; uint32_t u; } f32;
        union { double f; uint64_t u; } f64;
        if (t == PTX_F32 && o->float_bits == 64) {
            f64.u = o->bits;
            f32.f = (float)f64.f;
            v = f32.u;
        } else if (t == PTX_F64 && o->float_bits == 32) {
            f32.u = (uint32_t)o->bits;
            f64.f = f32.f;
            v = f64.u;
        }
    }
    size_t size = ptx_type_size(t);
    return size >= 8 || !size ? v : v & ((UINT64_C(1) << (8 * size)) - 1);
}

int decode_constant(struct exec_decoder *d, uint64_t value, enum sg_cell cell, exec_source *out)
{
    const void *row = exec_kernel_constant(d->kernel, value, cell);
    if (!row)
        return decode_error(d, "no host memory");
    *out = (exec_source)row | EXEC_BASE_ABSOLUTE;
    return 0;
}

int decode_register(struct exec_decoder *d, const struct ptx_operand *o, uint32_t *row, enum ptx_type *type)
{
    if (o->kind != PTX_OP_REGISTER)
        return decode_error(d, "a register is wanted here");
    const struct ptx_register *r = &d->f->registers[o->reg];
    *type = r->type;
    *row = d->register_at[o->reg];
    if (r->type == PTX_PRED)
        return 0;
    if (o->component > 0 && o->component < PTX_BYTE_0) {      /* parts of a register are the business of softgpu/alu */
        if ((unsigned)o->component >= r->vector)
            return decode_error(d, "%s has no such component", r->name);
        *row += (uint32_t)o->component * SG_LANES *
                (uint32_t)(decode_cell(r->type) == SG_CELL_128  ? 16
                           : decode_cell(r->type) == SG_CELL_64 ? 8
                                                                : 4);
    }
    return 0;
}

int decode_variable(struct exec_decoder *d, uint8_t scope, uint32_t index, enum ptx_space *space, uint64_t *address,
                    bool *frame)
{
    *frame = false;
    if (scope == PTX_SCOPE_MODULE) {
        const struct ptx_variable *v = &d->module->variables[index];
        *space = v->space;
        if (v->space == PTX_SPACE_SHARED) {
            *address = d->kernel->shared_offset[index];
            return *address == UINT64_MAX ? decode_error(d, "shared variable %s has no address", v->name) : 0;
        }
        if (v->space != PTX_SPACE_GLOBAL && v->space != PTX_SPACE_CONST)
            return decode_error(d, "variable %s of module scope in a space other than global, const and shared",
                                v->name);
        *address = d->kernel->program->address_of[index];
        return 0;
    }
    if (scope == PTX_SCOPE_FUNCTION) {
        const struct ptx_variable *v = &d->f->variables[index];
        *space = v->space;
        if (v->space == PTX_SPACE_SHARED) {
            const uint32_t *at = d->kernel->function_shared[d->index];
            if (!at || at[index] == UINT32_MAX)
                return decode_error(d, "shared variable %s has no address", v->name);
            *address = at[index];
            return 0;
        }
        if (v->space != PTX_SPACE_LOCAL && v->space != PTX_SPACE_PARAM)
            return decode_error(d, "variable %s inside a function in a space other than local, shared and param",
                                v->name);
        *address = d->out->variable_offset[index];
        *frame = true;
        return 0;
    }
    *space = PTX_SPACE_PARAM;
    if (scope == PTX_SCOPE_PARAM && d->f->is_entry) {
        *address = d->f->signature.params[index].offset;
        return 0;
    }
    *frame = true;
    *address = scope == PTX_SCOPE_PARAM ? d->out->param_offset[index] : d->out->return_offset[index];
    return 0;
}

/* A variable's address as a value: for .param that is its generic address, so that ld.param [register] knows whose it
   is. type: what is wanted, and becomes what it is. */
static int variable_value(struct exec_decoder *d, const struct ptx_operand *o, exec_source *out, enum ptx_type *type)
{
    enum ptx_space space;
    uint64_t address;
    bool frame;
    if (decode_variable(d, o->scope, o->index, &space, &address, &frame))
        return -1;
    address += (uint64_t)o->integer;
    if (space == PTX_SPACE_PARAM)
        address += EXEC_WINDOW_BASE(frame ? EXEC_WINDOW_LOCAL : EXEC_WINDOW_PARAM);
    if (!frame && ptx_type_size(*type) == 4)
        return decode_constant(d, (uint32_t)address, SG_CELL_32, out);
    *type = PTX_B64;
    if (!frame)
        return decode_constant(d, address, SG_CELL_64, out);
    uint32_t row = decode_temp(d);
    *out = row | EXEC_BASE_FRAME;
    return decode_put(d, (struct exec_insn){ .run = exec_run_local_address,
                                             .d = row,
                                             .offset = (int64_t)address,
                                             .known = EXEC_STRAIGHT_LOCAL_ADDRESS });
}

static int special_value(struct exec_decoder *d, const struct ptx_operand *o, exec_source *out, enum ptx_type *type)
{
    unsigned kind;
    bool wide;
    if (exec_special_find(o->text, o->component, &kind, &wide))
        return decode_error(d, "unknown special register %%%s", o->text);
    *type = wide ? PTX_B64 : PTX_B32;
    if (kind < EXEC_ROW_COUNT) {
        *out = (offsetof(struct exec_warp, special) + kind * sizeof(uint32_t[SG_LANES])) | EXEC_BASE_WARP;
        return 0;
    }
    uint32_t row = decode_temp(d);
    *out = row | EXEC_BASE_FRAME;
    return decode_put(d, (struct exec_insn){ .run = exec_run_special, .kind = (uint8_t)kind, .d = row,
                                             .cell = wide ? SG_CELL_64 : SG_CELL_32,
                                             .known = EXEC_STRAIGHT_SPECIAL });
}

/* What a row of bits of one size becomes in another size. */
static uint8_t fitted_as(size_t from, size_t to)
{
    if (to == 8)
        return from < 8 ? EXEC_STRAIGHT_EXTEND_U32 : EXEC_STRAIGHT_ROWS_1;
    if (from == 8)
        return to == 4 ? EXEC_STRAIGHT_CUT_64 : to == 2 ? EXEC_STRAIGHT_CUT_64_16 : EXEC_STRAIGHT_ROWS_1;
    if (from > 8 || to > 8)
        return EXEC_STRAIGHT_ROWS_1;
    return to > from ? EXEC_STRAIGHT_COPY_32 : to == 2 ? EXEC_STRAIGHT_CUT_16 : EXEC_STRAIGHT_CUT_8;
}

/* Makes a row of type `from` one of type `to`, where their sizes differ. */
static int fit(struct exec_decoder *d, enum ptx_type from, enum ptx_type to, exec_source *s)
{
    if (ptx_type_size(from) == ptx_type_size(to))
        return 0;
    sg_alu_function *resize = sg_alu_resize(from, to);
    if (!resize) {
        if (decode_cell(from) == decode_cell(to))
            return 0;
        return decode_error(d, "a register of type %s where %s is wanted", ptx_type_name(from), ptx_type_name(to));
    }
    uint32_t row = decode_temp(d);
    struct exec_insn n = { .run = exec_run_alu_row,
                           .alu = resize,
                           .s = { *s },
                           .source_count = 1,
                           .d = row,
                           .cell = (uint8_t)decode_cell(to),
                           .straight = EXEC_STRAIGHT_ROWS_1,
                           .known = fitted_as(ptx_type_size(from), ptx_type_size(to)) };
    *s = row | EXEC_BASE_FRAME;
    return decode_put(d, n);
}

static enum ptx_type as_bits(enum ptx_type t)
{
    switch (ptx_type_size(t)) {
    case 1:  return PTX_B8;
    case 2:  return PTX_B16;
    case 4:  return PTX_B32;
    case 8:  return PTX_B64;
    default: return PTX_B128;
    }
}

int decode_source(struct exec_decoder *d, const struct ptx_operand *o, enum ptx_type type, exec_source *out)
{
    enum ptx_type from = PTX_B64;
    switch (o->kind) {
    case PTX_OP_REGISTER: {
        uint32_t row;
        if (decode_register(d, o, &row, &from))
            return -1;
        if (from == PTX_PRED)
            return decode_error(d, "a predicate where a value is wanted");
        *out = row | EXEC_BASE_FRAME;
        break;
    }
    case PTX_OP_SPECIAL:
        if (special_value(d, o, out, &from))
            return -1;
        break;
    case PTX_OP_INTEGER:
    case PTX_OP_FLOAT:
        return decode_constant(d, decode_immediate(o, type), decode_cell(type), out);
    case PTX_OP_VARIABLE:
        from = type;
        if (variable_value(d, o, out, &from))
            return -1;
        break;
    case PTX_OP_FUNCTION:
        if (decode_constant(d, exec_code_address(d->kernel->program, o->index), SG_CELL_64, out))
            return -1;
        break;
    default:
        return decode_error(d, "an operand of a kind that is not expected here");
    }
    return fit(d, as_bits(from), as_bits(type), out);
}

int decode_destination(struct exec_decoder *d, const struct ptx_operand *o, enum ptx_type type, uint32_t *row,
                       enum ptx_type *declared)
{
    if (o->kind == PTX_OP_SINK) {
        *row = decode_temp(d);
        *declared = type;
        return 0;
    }
    if (decode_register(d, o, row, declared))
        return -1;
    return *declared == PTX_PRED ? decode_error(d, "a predicate as destination") : 0;
}

int decode_predicate(struct exec_decoder *d, const struct ptx_operand *o, uint32_t *at, uint32_t *flip)
{
    *flip = o->negated ? UINT32_MAX : 0;
    if (o->kind == PTX_OP_INTEGER) {
        *at = EXEC_PRED_FALSE;
        if (o->integer)
            *flip = ~*flip;
        return 0;
    }
    if (o->kind == PTX_OP_SPECIAL && !strcmp(o->text, "is_explicit_cluster")) {
        *at = EXEC_PRED_CLUSTER;
        return decode_put(d, (struct exec_insn){ .run = exec_run_explicit_cluster, .p = EXEC_PRED_CLUSTER });
    }
    enum ptx_type type = PTX_NONE;
    if (decode_register(d, o, at, &type))
        return -1;
    return type == PTX_PRED ? 0 : decode_error(d, "a predicate is wanted here");
}

int decode_predicate_destination(struct exec_decoder *d, const struct ptx_operand *o, uint32_t *at)
{
    *at = EXEC_PRED_SINK;
    if (!o || o->kind == PTX_OP_SINK)
        return 0;
    uint32_t flip;
    return o->kind == PTX_OP_REGISTER ? decode_predicate(d, o, at, &flip)
                                      : decode_error(d, "a predicate is wanted as destination");
}

int decode_memory(struct exec_decoder *d, const struct ptx_operand *o, enum ptx_space space, struct exec_insn *n)
{
    if (o->kind != PTX_OP_MEMORY && o->kind != PTX_OP_VARIABLE)
        return decode_error(d, "an address is wanted here");
    bool variable = o->kind == PTX_OP_VARIABLE || o->has_variable;
    n->space = (uint8_t)space;
    n->offset = o->integer;
    if (variable) {
        enum ptx_space of;
        uint64_t address;
        bool frame;
        if (decode_variable(d, o->scope, o->index, &of, &address, &frame))
            return -1;
        n->offset += (int64_t)address;
        if (frame) {
            n->flags |= EXEC_ADDRESS_FRAME;
            of = PTX_SPACE_LOCAL;
        }
        if (space == PTX_SPACE_GENERIC || space == PTX_SPACE_PARAM)
            n->space = (uint8_t)of;
        else if (of != space && !(of == PTX_SPACE_LOCAL && space == PTX_SPACE_LOCAL))
            return decode_error(d, "the variable lies in another space");
    }
    if (o->kind == PTX_OP_MEMORY && o->has_register) {
        struct ptx_operand r = { .kind = PTX_OP_REGISTER, .reg = o->reg, .component = o->component };
        uint32_t row;
        enum ptx_type type;
        if (decode_register(d, &r, &row, &type))
            return -1;
        n->s[0] = row | EXEC_BASE_FRAME;
        if (ptx_type_size(type) == 4)
            n->flags |= EXEC_ADDRESS_32;
        else if (ptx_type_size(type) != 8)
            return decode_error(d, "an address in a register of type %s", ptx_type_name(type));
        if (n->space == PTX_SPACE_PARAM && d->f->is_entry)
            n->flags |= EXEC_PARAMETERS;
        if (space == PTX_SPACE_PARAM && !variable) {
            n->space = PTX_SPACE_GENERIC;     /* addresses of parameters are generic ones: see variable_value */
            if (n->flags & EXEC_ADDRESS_32)   /* the lower half of one */
                n->offset += (int64_t)EXEC_WINDOW_BASE(d->f->is_entry ? EXEC_WINDOW_PARAM : EXEC_WINDOW_LOCAL);
        } else if (variable && n->space == PTX_SPACE_PARAM)
            n->space = PTX_SPACE_GENERIC, n->offset += (int64_t)EXEC_WINDOW_BASE(EXEC_WINDOW_PARAM);
    } else
        n->flags |= EXEC_ADDRESS_UNIFORM;
    return 0;
}

uint32_t decode_elements(struct exec_decoder *d, const struct ptx_operand *o, const struct ptx_operand *out[],
                         struct ptx_operand *scratch, uint32_t most)
{
    if (o->kind == PTX_OP_VECTOR) {
        for (uint32_t i = 0; i < o->element_count && i < most; i++)
            out[i] = &o->elements[i];
        return o->element_count <= most ? o->element_count : 0;
    }
    if (o->kind == PTX_OP_REGISTER && o->component < 0 && d->f->registers[o->reg].vector > 1) {
        uint32_t n = d->f->registers[o->reg].vector;
        for (uint32_t i = 0; i < n && i < most; i++) {
            scratch[i] = *o;
            scratch[i].component = (int8_t)i;
            out[i] = &scratch[i];
        }
        return n <= most ? n : 0;
    }
    out[0] = o;
    return 1;
}
