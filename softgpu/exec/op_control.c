/* op_control.c: branches, calls, returns, ends; the thread's stack. */
#include "softgpu/exec/call.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/pointer.h"
#include "softgpu/exec/straight.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_COST = 16 };

static void branch_back(struct exec_warp *w, const struct exec_insn *i)
{
    w->budget -= (int32_t)i->cost;
    exec_jump(w, i->target);
    if (w->budget <= 0)
        exec_leave(w);
}

void exec_run_branch(struct exec_warp *w, const struct exec_insn *i)
{
    if (i->cost)
        branch_back(w, i);
    else
        exec_jump(w, i->target);
}

void exec_run_branch_if(struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t taken = (*exec_pred(w, i->guard) ^ i->guard_flip) & w->mask;
    if (!taken)
        return;
    if (taken == w->mask) {
        exec_run_branch(w, i);
        return;
    }
    exec_group_add(w, i->target, w->frame, taken);
    w->mask &= ~taken;
    if (i->cost) {
        w->budget -= (int32_t)i->cost;
        exec_leave(w);                /* lower pc first */
    } else if (!w->stop || i->target < w->stop)
        w->stop = i->target;
}

static int decode_bra(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (in->operand_count != 1 || in->operands[0].kind != PTX_OP_LABEL)
        return decode_error(d, "a label is wanted");
    struct exec_insn n = { .run = exec_run_branch, .flags = EXEC_LABEL, .d = in->operands[0].index };
    if (in->guard >= 0) {
        n.run = exec_run_branch_if;
        n.guard = d->register_at[in->guard];
        n.guard_flip = in->guard_negated ? UINT32_MAX : 0;
    }
    return decode_put(d, n);
}

int decode_jump(struct exec_decoder *d, uint32_t to)
{
    return decode_put(d, (struct exec_insn){ .run = exec_run_branch, .flags = EXEC_LABEL, .d = to });
}

/* Lanes that differ from the first in `value` do the instruction again, as a group of their own. */
static void keep_equal(struct exec_warp *w, const struct exec_insn *i, const void *row, unsigned cell)
{
    uint64_t first = exec_lane(row, cell, (unsigned)__builtin_ctz(w->mask));
    uint32_t rest = 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (exec_lane(row, cell, l) != first)
            rest |= 1u << l;
    }
    if (rest) {
        exec_group_add(w, i, w->frame, rest);
        w->mask &= ~rest;
    }
}

static void run_branch_table(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_targets *t = i->extra;
    const uint32_t *index = exec_row(w, i->s[0]);
    keep_equal(w, i, index, SG_CELL_32);
    uint32_t k = index[__builtin_ctz(w->mask)];
    if (k >= t->count) {
        exec_fault(w, i, CUDA_ERROR_INVALID_PC, "brx.idx behind the end of its table");
        return;
    }
    w->budget -= CALL_COST;           /* may lead backward */
    exec_jump(w, w->frame->function->insns + t->at[k]);
    if (w->budget <= 0)
        exec_leave(w);
}

static int decode_brx(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (in->operand_count != 2 || in->operands[1].kind != PTX_OP_LABEL_TABLE)
        return decode_error(d, "an index and a .branchtargets label are wanted");
    const struct ptx_operand *o = &in->operands[1];
    struct exec_targets *t = exec_kernel_own(d->kernel, sizeof *t + o->element_count * sizeof *t->at);
    if (!t)
        return decode_error(d, "no host memory");
    t->count = o->element_count;
    for (uint32_t k = 0; k < t->count; k++) {
        if (o->elements[k].kind != PTX_OP_LABEL)
            return decode_error(d, "target %u is no label", k + 1);
        t->at[k] = o->elements[k].index;
    }
    struct exec_insn n = { .run = run_branch_table, .extra = t, .known = EXEC_STRAIGHT_TABLE };
    if (decode_source(d, &in->operands[0], PTX_B32, &n.s[0]))
        return -1;
    return decode_put_control(d, n);
}

/* --- calls --- */

/* Bytes of the lanes, from every `step` bytes to every `to_step`. */
static void copy_lanes(unsigned char *to, unsigned to_step, const unsigned char *from, unsigned step, uint32_t size,
                       uint32_t lanes)
{
    if (lanes == UINT32_MAX && size == 8) {
        for (unsigned l = 0; l < SG_LANES; l++)
            memcpy(to + l * to_step, from + l * step, 8);
        return;
    }
    if (lanes == UINT32_MAX && size == 4) {
        for (unsigned l = 0; l < SG_LANES; l++)
            memcpy(to + l * to_step, from + l * step, 4);
        return;
    }
    for (uint32_t m = lanes; m; m &= m - 1) {
        const unsigned l = (unsigned)__builtin_ctz(m);
        switch (size) {
        case 4:  memcpy(to + l * to_step, from + l * step, 4); break;
        case 8:  memcpy(to + l * to_step, from + l * step, 8); break;
        default: memcpy(to + l * to_step, from + l * step, size);
        }
    }
}

static bool in_one_piece(uint64_t at, uint64_t size) { return at % 16 + size <= 16; }
static unsigned cell_of(const struct exec_value *v) { return v->bytes < 4 ? 4u : v->bytes; }

/* An argument of all active lanes, into the callee's local memory at `to`, if it is in one piece here and there. */
static bool pass_at_once(const struct exec_warp *w, const struct exec_value *v, const struct exec_frame *caller,
                         uint32_t to, uint64_t formal)
{
    const uint32_t size = formal < v->size ? (uint32_t)formal : v->size, from = caller->local_base + v->at;
    if (!in_one_piece(to, size) || (!v->in_row && !in_one_piece(from, size)))
        return false;
    copy_lanes(exec_local(w, 0, to), 16, v->in_row ? exec_row(w, v->row) : exec_local(w, 0, from),
               v->in_row ? cell_of(v) : 16, size, w->mask);
    return true;
}

/* Copies a result for all lanes at once, out of the callee's local memory at `from`. */
static bool give_back_at_once(const struct exec_warp *w, const struct exec_value *v, const struct exec_frame *caller,
                              uint32_t from, uint64_t formal)
{
    const uint32_t size = formal < v->size ? (uint32_t)formal : v->size, to = caller->local_base + v->at;
    if (!in_one_piece(from, size) || (v->in_row ? size != cell_of(v) : !in_one_piece(to, size)))
        return false;
    copy_lanes(v->in_row ? caller->rows + v->to : exec_local(w, 0, to), v->in_row ? size : 16, exec_local(w, 0, from),
               16, size, w->mask);
    return true;
}

/* An argument into the callee's local memory at `to`. */
static void pass(const struct exec_warp *w, const struct exec_value *v, const struct exec_frame *caller, unsigned lane,
                 uint32_t to, uint64_t formal)
{
    uint32_t size = formal < v->size ? (uint32_t)formal : v->size;
    if (v->in_row) {
        exec_local_write(w, lane, to,
                         (const unsigned char *)exec_row(w, v->row) + lane * (v->bytes < 4 ? 4u : v->bytes), size);
        return;
    }
    for (uint32_t from = caller->local_base + v->at; size;) {
        unsigned char piece[16];
        uint32_t n = size < sizeof piece ? size : (uint32_t)sizeof piece;
        exec_local_read(w, lane, from, piece, n);
        exec_local_write(w, lane, to, piece, n);
        from += n, to += n, size -= n;
    }
}

/* A result out of the callee's local memory at `from`. */
static void give_back(struct exec_warp *w, const struct exec_value *v, const struct exec_frame *caller, unsigned lane,
                      uint32_t from, uint64_t formal)
{
    uint32_t size = formal < v->size ? (uint32_t)formal : v->size;
    for (uint32_t at = 0; at < size;) {
        unsigned char piece[16];
        uint32_t n = size - at < sizeof piece ? size - at : (uint32_t)sizeof piece;
        exec_local_read(w, lane, from + at, piece, n);
        exec_result_write(w, v, caller, lane, at, piece, n);
        at += n;
    }
}

static void pass_all(struct exec_warp *w, const struct exec_value *v, const struct exec_frame *caller, uint32_t to,
                     uint64_t formal)
{
    if (pass_at_once(w, v, caller, to, formal))
        return;
    for (uint32_t m = w->mask; m; m &= m - 1)
        pass(w, v, caller, (unsigned)__builtin_ctz(m), to, formal);
}

static void give_back_all(struct exec_warp *w, const struct exec_value *v, const struct exec_frame *caller,
                          uint32_t from, uint64_t formal)
{
    if (give_back_at_once(w, v, caller, from, formal))
        return;
    for (uint32_t m = w->mask; m; m &= m - 1)
        give_back(w, v, caller, (unsigned)__builtin_ctz(m), from, formal);
}

static void use_frame(struct exec_warp *w, struct exec_frame *f)
{
    w->frame = f;
    w->rows = f->rows;
    w->bases[EXEC_BASE_FRAME] = (uintptr_t)f->rows;
    w->whole = f->live;
}

static void enter(struct exec_warp *w, const struct exec_insn *i, const struct exec_function *f)
{
    const struct exec_call *c = i->extra;
    struct exec_frame *caller = w->frame;
    const sg_grid *g = w->block->grid;
    uint32_t stack = caller->stack_used + EXEC_CALL_STACK + f->stack_size;
    if (caller->local_top + f->local_size > g->local_size || (g->kernel->stack_limited && stack > g->launch.stack)) {
        exec_fault(w, i, CUDA_ERROR_HARDWARE_STACK_ERROR, "stack overflow (cuCtxSetLimit sets the size of stacks)");
        return;
    }
    struct exec_frame *frame = exec_frame_push(w, f, caller, w->mask);
    if (!frame) {
        exec_fault(w, i, CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a call");
        return;
    }
    frame->stack_used = stack;
    frame->return_pc = w->pc;
    frame->call = i;
    const struct ptx_prototype *p = &f->ptx->signature;
    for (uint32_t k = 0; k < c->argument_count && k < p->param_count; k++)
        pass_all(w, &c->arguments[k], caller, frame->local_base + f->param_offset[k], p->params[k].size);
    use_frame(w, frame);
    w->budget -= CALL_COST;
    exec_jump(w, f->insns);
}

static void run_call(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_call *c = i->extra;
    enter(w, i, atomic_load_explicit(c->callee, memory_order_acquire));
}

static void run_call_pointer(struct exec_warp *w, const struct exec_insn *i)
{
    sg_kernel *k = (sg_kernel *)(uintptr_t)w->block->grid->kernel; /* what changes in it is behind its lock */
    const uint64_t *to = exec_row(w, i->s[0]);
    keep_equal(w, i, to, SG_CELL_64);
    uint64_t address = to[__builtin_ctz(w->mask)];
    uint32_t index = exec_code_index(k->program, address);
    struct exec_callee found;
    found.builtin = NULL;
    found.function = index == UINT32_MAX ? NULL : atomic_load_explicit(&k->callable[index], memory_order_acquire);
    if (!found.function)
        exec_pointer_find(k, address, &found);
    if (found.function)
        enter(w, i, found.function);
    else if (found.builtin)
        found.builtin(w, i);
    else {
        exec_fault_address(w, i, found.error, found.log, (unsigned)__builtin_ctz(w->mask), address);
        return;
    }
    if (w->group_count > 1)
        exec_leave(w);
}

void exec_run_return(struct exec_warp *w, const struct exec_insn *i)
{
    struct exec_frame *frame = w->frame, *caller = frame->parent;
    (void)i;
    if (!caller) {
        exec_warp_exit(w);
        return;
    }
    const struct exec_call *c = frame->call->extra;
    const struct exec_function *f = frame->function;
    const struct ptx_prototype *p = &f->ptx->signature;
    for (uint32_t k = 0; k < c->result_count && k < p->return_count; k++)
        give_back_all(w, &c->results[k], caller, frame->local_base + f->return_offset[k], p->returns[k].size);
    const struct exec_insn *to = frame->return_pc;
    exec_frame_leave(w, frame, w->mask);
    use_frame(w, caller);
    exec_jump(w, to);
}

/* --- parameters in registers --- */

static void run_take_register(struct exec_warp *w, const struct exec_insn *i)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        unsigned char value[16] = { 0 };
        exec_local_read(w, l, w->frame->local_base + (uint32_t)i->offset, value, i->size);
        memcpy(w->rows + i->d + l * i->kind, value, i->kind);
    }
}

static void run_give_register(struct exec_warp *w, const struct exec_insn *i)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        exec_local_write(w, l, w->frame->local_base + (uint32_t)i->offset, w->rows + i->d + l * i->kind, i->size);
    }
}

static int decode_registers(struct exec_decoder *d, const struct ptx_variable *list, uint32_t count,
                            const uint32_t *offsets, exec_handler *run)
{
    for (uint32_t k = 0; k < count; k++) {
        if (list[k].space != PTX_SPACE_REG)
            continue;
        if (list[k].type == PTX_PRED || list[k].vector > 1)
            return decode_error(d, "%s: a parameter in a predicate or a vector register", list[k].name);
        uint8_t size = (uint8_t)ptx_type_size(list[k].type);
        struct exec_insn n = { .run = run,
                               .d = d->register_at[list[k].offset],
                               .offset = offsets[k],
                               .size = size,
                               .kind = size < 4 ? 4 : size };
        if (decode_put(d, n))
            return -1;
    }
    return 0;
}

int decode_take_registers(struct exec_decoder *d)
{
    const struct ptx_prototype *p = &d->f->signature;
    return decode_registers(d, p->params, p->param_count, d->out->param_offset, run_take_register);
}

int decode_give_registers(struct exec_decoder *d)
{
    const struct ptx_prototype *p = &d->f->signature;
    return decode_registers(d, p->returns, p->return_count, d->out->return_offset, run_give_register);
}

static int decode_value(struct exec_decoder *d, const struct ptx_operand *o, const struct ptx_variable *formal,
                        bool result, struct exec_value *v)
{
    if (o->kind == PTX_OP_VARIABLE) {
        enum ptx_space space;
        uint64_t address;
        bool frame;
        if (decode_variable(d, o->scope, o->index, &space, &address, &frame))
            return -1;
        if (space == PTX_SPACE_PARAM && frame) {
            const struct ptx_variable *var = o->scope == PTX_SCOPE_FUNCTION ? &d->f->variables[o->index]
                : o->scope == PTX_SCOPE_PARAM ? &d->f->signature.params[o->index] : &d->f->signature.returns[o->index];
            v->at = (uint32_t)address;
            v->size = (uint32_t)var->size;
            return 0;
        }
    }
    enum ptx_type type = formal ? formal->type : PTX_B64, declared = type;
    v->in_row = true;
    if (result) {
        if (decode_destination(d, o, type, &v->to, &declared))
            return -1;
    } else if (o->kind == PTX_OP_REGISTER) {
        uint32_t row;
        if (decode_register(d, o, &row, &declared))
            return -1;
        v->row = row | EXEC_BASE_FRAME;
    } else if (decode_source(d, o, type, &v->row))
        return -1;
    if (declared == PTX_PRED)
        return decode_error(d, "a predicate as argument or result of a call");
    v->bytes = (uint8_t)ptx_type_size(declared);
    v->size = v->bytes;
    return 0;
}

static struct exec_value *decode_values(struct exec_decoder *d, const struct ptx_operand *list,
                                        const struct ptx_variable *formals, uint32_t formal_count, bool result,
                                        uint32_t *count)
{
    *count = list ? list->element_count : 0;
    struct exec_value *v = exec_kernel_own(d->kernel, (*count + 1u) * sizeof *v);
    if (!v) {
        decode_error(d, "no host memory");
        return NULL;
    }
    for (uint32_t k = 0; k < *count; k++)
        if (decode_value(d, &list->elements[k], k < formal_count ? &formals[k] : NULL, result, &v[k]))
            return NULL;
    return v;
}

static int decode_call(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    const struct ptx_operand *target = NULL, *results = NULL, *arguments = NULL;
    const struct ptx_prototype *p = NULL;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const struct ptx_operand *o = &in->operands[k];
        if (o->kind == PTX_OP_LIST)
            *(target ? &arguments : &results) = o;
        else if (o->kind == PTX_OP_FUNCTION || o->kind == PTX_OP_REGISTER) {
            if (!target)
                target = o;
        } else if (o->kind == PTX_OP_PROTOTYPE && o->index < d->f->prototype_count)
            p = &d->f->prototypes[o->index];
    }
    if (!target)
        return decode_error(d, "no function to call");
    struct exec_call *c = exec_kernel_own(d->kernel, sizeof *c);
    if (!c)
        return decode_error(d, "no host memory");
    struct exec_insn n = { .run = run_call_pointer, .extra = c };
    const struct ptx_function *f = NULL;
    if (target->kind == PTX_OP_FUNCTION) {
        f = &d->module->functions[target->index];
        p = &f->signature;
        c->callee = &d->kernel->functions[target->index];
        n.run = f->defined ? run_call : exec_builtin_find(f->name);
        if (f->defined && f->is_entry)
            return decode_error(d, "%s is a kernel: kernels are launched, not called", f->name);
        if (!n.run)
            return decode_error(d, "function %s is not defined and not one that the device provides", f->name);
    } else if (decode_source(d, target, PTX_B64, &n.s[0]))
        return -1;
    c->results = decode_values(d, results, p ? p->returns : NULL, p ? p->return_count : 0, true, &c->result_count);
    c->arguments = decode_values(d, arguments, p ? p->params : NULL, p ? p->param_count : 0, false, &c->argument_count);
    if (!c->results || !c->arguments)
        return -1;
    return decode_put_control(d, n);
}

/* --- ends --- */

static void run_exit(struct exec_warp *w, const struct exec_insn *i)
{
    (void)i;
    exec_warp_exit(w);
}
static void run_trap(struct exec_warp *w, const struct exec_insn *i)
{
    exec_fault(w, i, CUDA_ERROR_LAUNCH_FAILED, "trap");
}

static int decode_ret(struct exec_decoder *d)
{
    /* without its guard: only a return looks at what is given */
    struct exec_insn n = { .run = exec_run_return, .known = EXEC_STRAIGHT_END };
    return decode_give_registers(d) ? -1 : decode_put_control(d, n);
}
static int decode_exit(struct exec_decoder *d)
{
    return decode_put_control(d, (struct exec_insn){ .run = run_exit, .known = EXEC_STRAIGHT_END });
}
static int decode_trap(struct exec_decoder *d) { return decode_put_control(d, (struct exec_insn){ .run = run_trap }); }

/* --- the stack: lanes may differ in what they ask for, so the largest is taken for all --- */

/* Gives all lanes one address of local memory: 32 bits suffice. */
static void put_address(struct exec_warp *w, const struct exec_insn *i, uint64_t address)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (i->cell == SG_CELL_64)
            ((uint64_t *)(void *)(w->rows + i->d))[l] = address;
        else
            ((uint32_t *)(void *)(w->rows + i->d))[l] = (uint32_t)address;
    }
}

static void run_alloca(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *sizes = exec_row(w, i->s[0]);
    uint64_t most = 0, align = i->cost;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        uint64_t n = sizes[__builtin_ctz(m)];
        most = n > most ? n : most;
    }
    struct exec_frame *f = w->frame;
    uint64_t at = (f->local_top + align - 1) / align * align, top = at + (most + 15) / 16 * 16;
    uint64_t used = f->stack_used + (top - f->local_top);
    if (most > w->block->grid->local_size || top > w->block->grid->local_size || used > w->block->grid->launch.stack) {
        exec_fault(w, i, CUDA_ERROR_HARDWARE_STACK_ERROR, "alloca beyond the stack");
        return;
    }
    f->local_top = (uint32_t)top;
    f->stack_used = (uint32_t)used;
    put_address(w, i, at);
}

static int decode_alloca(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    enum ptx_type declared;
    struct exec_insn n = { .run = run_alloca, .cost = 16 };
    if (in->operand_count < 2 || decode_destination(d, &in->operands[0], PTX_B64, &n.d, &declared) ||
        decode_source(d, &in->operands[1], PTX_B64, &n.s[0]))
        return decode_error(d, "operands");
    if (ptx_type_size(declared) < 4 || ptx_type_size(declared) > 8)
        return decode_error(d, "an address in a register of type %s", ptx_type_name(declared));
    n.cell = (uint8_t)decode_cell(declared);
    if (in->operand_count > 2 && in->operands[2].integer > 16 && in->operands[2].integer <= 4096)
        n.cost = (uint32_t)in->operands[2].integer;
    return decode_put_guarded(d, n);
}

static void run_stacksave(struct exec_warp *w, const struct exec_insn *i) { put_address(w, i, w->frame->local_top); }

static void run_stackrestore(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *from = exec_row(w, i->s[0]);
    struct exec_frame *f = w->frame;
    uint64_t top = from[__builtin_ctz(w->mask)];
    if (exec_full(w) && top <= f->local_top && top >= f->local_base + f->function->local_size) {
        f->stack_used -= f->local_top - (uint32_t)top;
        f->local_top = (uint32_t)top;
    }
}

static int decode_stack(struct exec_decoder *d)
{
    enum ptx_type declared;
    struct exec_insn n = { .run = run_stacksave };
    if (d->in->operand_count != 1)
        return decode_error(d, "operands");
    if (!strcmp(d->in->opcode, "stacksave")) {
        if (decode_destination(d, &d->in->operands[0], PTX_B64, &n.d, &declared))
            return -1;
        if (ptx_type_size(declared) < 4 || ptx_type_size(declared) > 8)
            return decode_error(d, "an address in a register of type %s", ptx_type_name(declared));
        n.cell = (uint8_t)decode_cell(declared);
        return decode_put_guarded(d, n);
    }
    n.run = run_stackrestore;
    return decode_source(d, &d->in->operands[0], PTX_B64, &n.s[0]) ? -1 : decode_put_guarded(d, n);
}

const struct decode_entry decode_control[] = { { "bra", decode_bra },
                                               { "brx", decode_brx },
                                               { "call", decode_call },
                                               { "ret", decode_ret },
                                               { "exit", decode_exit },
                                               { "trap", decode_trap },
                                               { "brkpt", decode_trap },
                                               { "alloca", decode_alloca },
                                               { "stacksave", decode_stack },
                                               { "stackrestore", decode_stack },
                                               { NULL, NULL } };
