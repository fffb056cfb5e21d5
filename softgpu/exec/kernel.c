/*
 * kernel.c: programs and kernels: what a kernel can reach, where its shared variables lie.
 *
 * Functions are decoded per kernel, since a function's shared variables lie elsewhere in each kernel that calls it.
 * What can only be reached by pointer is laid out with the kernel but decoded when it is first called.
 */
#include "softgpu/exec/exec.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sg_program_create(sg_engine *e, struct ptx_module *module, const uint64_t *address_of, sg_program **out)
{
    sg_program *p = calloc(1, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->address_of = calloc(module->variable_count + 1, sizeof *p->address_of);
    p->kernels = calloc(module->function_count + 1, sizeof *p->kernels);
    if (!p->address_of || !p->kernels) {
        free(p->address_of);
        free(p->kernels);
        free(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (module->variable_count)
        memcpy(p->address_of, address_of, module->variable_count * sizeof *p->address_of);
    p->engine = e;
    p->entry = sg_program_entry;
    p->module = module;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_lock(&e->lock);
    p->code_base = e->next_code;
    e->next_code += (uint64_t)module->function_count * EXEC_CODE_STEP + 4096;
    p->next = e->programs;
    p->back = &e->programs;
    if (p->next)
        p->next->back = &p->next;
    e->programs = p;
    pthread_mutex_unlock(&e->lock);
    *out = p;
    return CUDA_SUCCESS;
}

void sg_program_destroy(sg_program *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->engine->lock);
    *p->back = p->next;
    if (p->next)
        p->next->back = p->back;
    pthread_mutex_unlock(&p->engine->lock);
    for (uint32_t i = 0; i < p->module->function_count; i++)
        exec_kernel_free(p->kernels[i]);
    free(p->kernels);
    ptx_module_free(p->module);
    pthread_mutex_destroy(&p->lock);
    free(p->address_of);
    free(p);
}

const struct ptx_module *sg_program_module(const sg_program *p) { return p->module; }

void sg_program_survey(sg_program *p, sg_unknown *unknown, void *context)
{
    p->unknown = unknown;
    p->unknown_context = context;
}

uint64_t sg_program_function_address(sg_program *p, uint32_t index)
{
    return exec_code_address(p, index);
}

/* --- what a kernel owns --- */

void exec_kernel_free(sg_kernel *k)
{
    if (!k)
        return;
    for (uint32_t i = 0; k->functions && i < k->program->module->function_count; i++)
        exec_function_free(atomic_load(&k->functions[i]));
    for (uint32_t i = 0; k->function_shared && i < k->program->module->function_count; i++)
        free(k->function_shared[i]);
    while (k->constants) {
        struct exec_rows_block *c = k->constants;
        k->constants = c->next;
        free(c);
    }
    while (k->owned) {
        struct exec_owned *o = k->owned;
        k->owned = o->next;
        free(o);
    }
    pthread_mutex_destroy(&k->lock);
    free(k->slots);
    free(k->functions);
    free(k->function_shared);
    free(k->shared_offset);
    free(k);
}

/* --- what it reaches --- */

struct reach {
    struct ptx_module *module;
    bool *function;                   /* may run */
    bool *variable;                   /* may be used */
    uint32_t *work; uint32_t work_count;
    bool indirect, barriers, cluster_barriers;
    unsigned uses;                    /* SOFTGPU_USES_... */
};

static unsigned uses_of(const struct ptx_operand *o, const struct ptx_module *m)
{
    static const char launches[] = "__cuda_syscall_cnpv2LaunchDevice"; /* and …V2 */
    if (o->kind == PTX_OP_SPECIAL)
        return strcmp(o->text, "current_graph_exec") ? 0 : SOFTGPU_USES_GRAPHS;
    if (o->kind != PTX_OP_FUNCTION)
        return 0;
    const char *name = m->functions[o->index].name;
    if (!strcmp(name, "cudaGraphLaunch"))
        return SOFTGPU_USES_GRAPHS;
    return strncmp(name, launches, sizeof launches - 1) ? 0 : SOFTGPU_USES_CHILDREN;
}

static void reach_function(struct reach *r, uint32_t index)
{
    if (!r->function[index]) {
        r->function[index] = true;
        r->work[r->work_count++] = index;
    }
}

static void reach_operand(struct reach *r, const struct ptx_operand *o)
{
    r->uses |= uses_of(o, r->module);
    if (o->kind == PTX_OP_FUNCTION && !r->module->functions[o->index].is_entry)    /* an entry is launched */
        reach_function(r, o->index);
    if ((o->kind == PTX_OP_VARIABLE || (o->kind == PTX_OP_MEMORY && o->has_variable)) && o->scope == PTX_SCOPE_MODULE)
        r->variable[o->index] = true;
    for (uint32_t i = 0; i < o->element_count; i++)
        reach_operand(r, &o->elements[i]);
    if (o->second)
        reach_operand(r, o->second);
}

static bool is_indirect_call(const struct ptx_instruction *i)
{
    if (strcmp(i->opcode, "call"))
        return false;
    for (uint32_t k = 0; k < i->operand_count; k++)
        if (i->operands[k].kind == PTX_OP_REGISTER)
            return true;
    return false;
}

static bool is_cluster_barrier(const struct ptx_instruction *i)
{
    return !strcmp(i->opcode, "barrier") && i->modifier_count && !strcmp(i->modifiers[0], "cluster");
}

/* Reads the bodies of what it reaches. */
static int reach_all(struct reach *r, char *log, size_t log_size)
{
    while (r->work_count) {
        uint32_t index = r->work[--r->work_count];
        const struct ptx_function *f = &r->module->functions[index];
        if (ptx_function_read(r->module, index, log, log_size))
            return CUDA_ERROR_OUT_OF_MEMORY;           /* all else was checked when the module was read */
        for (uint32_t i = 0; i < f->instruction_count; i++) {
            const struct ptx_instruction *in = &f->instructions[i];
            for (uint32_t k = 0; k < in->operand_count; k++)
                reach_operand(r, &in->operands[k]);
            r->barriers |= !strcmp(in->opcode, "bar") || !strcmp(in->opcode, "barrier");
            r->cluster_barriers |= is_cluster_barrier(in);
            if (is_indirect_call(in) && !r->indirect) {
                r->indirect = true;   /* anything whose address was written down somewhere */
                for (uint32_t v = 0; v < r->module->variable_count; v++)
                    for (size_t x = 0; x < r->module->variables[v].relocation_count; x++)
                        if (r->module->variables[v].relocations[x].is_function &&
                            !r->module->functions[r->module->variables[v].relocations[x].symbol].is_entry)
                            reach_function(r, r->module->variables[v].relocations[x].symbol);
            }
        }
    }
    return CUDA_SUCCESS;
}

static uint64_t place(uint64_t *top, const struct ptx_variable *v, unsigned *max_align)
{
    unsigned align = v->align ? v->align : 1;
    *top = (*top + align - 1) / align * align;
    *max_align = align > *max_align ? align : *max_align;
    uint64_t at = *top;
    *top += v->size;
    return at;
}

/* The block's shared memory begins with what the system reserves, as on hardware; the kernel's own comes behind. */
static int layout_shared(sg_kernel *k, const struct reach *r)
{
    const struct ptx_module *m = r->module;
    const uint64_t reserved = k->program->engine->limits.shared_reserved;
    uint64_t top = reserved;
    unsigned align = 16;
    for (uint32_t v = 0; v < m->variable_count; v++)
        if (m->variables[v].space == PTX_SPACE_SHARED && r->variable[v] && !m->variables[v].unsized)
            k->shared_offset[v] = place(&top, &m->variables[v], &align);
    for (uint32_t f = 0; f < m->function_count; f++) {
        const struct ptx_function *fn = &m->functions[f];
        if (!r->function[f] || !fn->variable_count)
            continue;
        k->function_shared[f] = calloc(fn->variable_count, sizeof **k->function_shared);
        if (!k->function_shared[f])
            return -1;
        for (uint32_t v = 0; v < fn->variable_count; v++)
            if (fn->variables[v].space == PTX_SPACE_SHARED && !fn->variables[v].unsized)
                k->function_shared[f][v] = (uint32_t)place(&top, &fn->variables[v], &align);
    }
    bool dynamic = false;
    for (uint32_t v = 0; v < m->variable_count; v++)
        if (m->variables[v].space == PTX_SPACE_SHARED && r->variable[v] && m->variables[v].unsized) {
            unsigned a = m->variables[v].align;
            top = a ? (top + a - 1) / a * a : top;
            align = a > align ? a : align;
            dynamic = true;
        }
    if (dynamic)
        top = (top + 15) / 16 * 16;
    for (uint32_t v = 0; v < m->variable_count; v++)
        if (m->variables[v].space == PTX_SPACE_SHARED && r->variable[v] && m->variables[v].unsized)
            k->shared_offset[v] = top;
    for (uint32_t f = 0; f < m->function_count; f++)
        for (uint32_t v = 0; k->function_shared[f] && v < m->functions[f].variable_count; v++)
            if (m->functions[f].variables[v].space == PTX_SPACE_SHARED && m->functions[f].variables[v].unsized)
                k->function_shared[f][v] = (uint32_t)((top + 15) / 16 * 16);
    k->static_shared = (size_t)(top - reserved);
    k->shared_align = align;
    return 0;
}

/* Bytes of local memory per lane of the deepest chain of direct calls; sets k->recursive on a cycle. */
static uint32_t local_depth(sg_kernel *k, uint32_t index, uint8_t *state, uint32_t *known)
{
    const struct exec_function *f = atomic_load(&k->functions[index]);
    if (!f)
        return 0;                     /* built in, or only ever called by pointer */
    if (state[index] == 2)
        return known[index];
    if (state[index] == 1) {
        k->recursive = true;
        return 0;
    }
    state[index] = 1;
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < f->ptx->instruction_count; i++) {
        const struct ptx_instruction *in = &f->ptx->instructions[i];
        if (!strcmp(in->opcode, "alloca"))
            k->recursive = true;
        if (strcmp(in->opcode, "call"))
            continue;
        for (uint32_t o = 0; o < in->operand_count; o++)
            if (in->operands[o].kind == PTX_OP_FUNCTION) {
                uint32_t d = local_depth(k, in->operands[o].index, state, known);
                deepest = d > deepest ? d : deepest;
            } else if (in->operands[o].kind == PTX_OP_REGISTER)
                k->recursive = true;
    }
    state[index] = 2;
    return known[index] = f->local_size + deepest;
}

static const struct exec_function *kernel_function(sg_kernel *k, uint32_t index, char *log, size_t log_size)
{
    struct exec_function *f = atomic_load_explicit(&k->functions[index], memory_order_acquire);
    if (f)
        return f;
    pthread_mutex_lock(&k->lock);
    f = atomic_load(&k->functions[index]);
    if (!f && (f = exec_decode(k, index, log, log_size)))
        atomic_store_explicit(&k->functions[index], f, memory_order_release);
    pthread_mutex_unlock(&k->lock);
    return f;
}

/* Everything that runs without a pointer's help is decoded now, so that its errors show now. */
static int decode_called(sg_kernel *k, uint32_t entry, uint32_t *work, bool *seen, char *log, size_t log_size)
{
    const struct ptx_module *m = k->program->module;
    uint32_t count = 0;
    work[count++] = entry;
    seen[entry] = true;
    while (count) {
        uint32_t index = work[--count];
        if (!kernel_function(k, index, log, log_size))
            return CUDA_ERROR_INVALID_PTX;
        const struct ptx_function *f = &m->functions[index];
        for (uint32_t i = 0; i < f->instruction_count; i++)
            for (uint32_t o = 0; !strcmp(f->instructions[i].opcode, "call") && o < f->instructions[i].operand_count;
                 o++) {
                const struct ptx_operand *op = &f->instructions[i].operands[o];
                if (op->kind == PTX_OP_FUNCTION && m->functions[op->index].defined && !seen[op->index]) {
                    seen[op->index] = true;
                    work[count++] = op->index;
                }
            }
    }
    return CUDA_SUCCESS;
}

static int kernel_build(sg_program *p, uint32_t index, sg_kernel **out, char *log, size_t log_size)
{
    struct ptx_module *m = p->module;
    sg_kernel *k = calloc(1, sizeof *k);
    struct reach r = { .module = m };
    int result = CUDA_ERROR_OUT_OF_MEMORY;
    uint8_t *state = calloc(m->function_count + 1u, 1);
    uint32_t *known = calloc(m->function_count + 1u, sizeof *known);
    bool *seen = calloc(m->function_count + 1u, 1);
    r.function = calloc(m->function_count + 1u, 1);
    r.variable = calloc(m->variable_count + 1u, 1);
    r.work = calloc(m->function_count + 1u, sizeof *r.work);
    if (!k)
        goto out;
    pthread_mutex_init(&k->lock, NULL);
    k->program = p;
    k->decode = kernel_function;
    k->index = index;
    k->ptx = &m->functions[index];
    k->functions = calloc(m->function_count + 1u, sizeof *k->functions);
    k->function_shared = calloc(m->function_count + 1u, sizeof *k->function_shared);
    k->shared_offset = malloc((m->variable_count + 1u) * sizeof *k->shared_offset);
    if (!state || !known || !seen || !r.function || !r.variable || !r.work || !k->functions || !k->function_shared ||
        !k->shared_offset)
        goto out;
    memset(k->shared_offset, 0xff, (m->variable_count + 1u) * sizeof *k->shared_offset);
    reach_function(&r, index);
    result = reach_all(&r, log, log_size);
    if (result)
        goto out;
    result = CUDA_ERROR_OUT_OF_MEMORY;
    k->has_barriers = r.barriers;
    k->has_cluster_barriers = r.cluster_barriers;
    k->uses = r.uses;
    if (layout_shared(k, &r))
        goto out;
    result = decode_called(k, index, r.work, seen, log, log_size);
    if (result)
        goto out;
    k->local_static = local_depth(k, index, state, known);
    *out = k;
    k = NULL;
out:
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        snprintf(log, log_size, "no host memory to decode %s", m->functions[index].name);
    exec_kernel_free(k);
    free(state);
    free(known);
    free(seen);
    free(r.function);
    free(r.variable);
    free(r.work);
    return result;
}

int sg_program_entry(sg_program *p, uint32_t index, sg_kernel **out, char *log, size_t log_size)
{
    char none[1];
    if (!log || !log_size)
        log = none, log_size = sizeof none;
    log[0] = 0;
    pthread_mutex_lock(&p->lock);
    int result = p->kernels[index] ? CUDA_SUCCESS : kernel_build(p, index, &p->kernels[index], log, log_size);
    *out = p->kernels[index];
    pthread_mutex_unlock(&p->lock);
    return result;
}

void sg_program_forget(sg_program *p, uint32_t index)
{
    pthread_mutex_lock(&p->lock);
    exec_kernel_free(p->kernels[index]);
    p->kernels[index] = NULL;
    pthread_mutex_unlock(&p->lock);
}

int sg_program_kernel(sg_program *p, const char *name, sg_kernel **out, char *log, size_t log_size)
{
    const struct ptx_module *m = p->module;
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].is_entry && m->functions[i].defined && !strcmp(m->functions[i].name, name))
            return sg_program_entry(p, i, out, log, log_size);
    return CUDA_ERROR_NOT_FOUND;
}

void sg_kernel_describe(const sg_kernel *k, struct sg_kernel_info *info)
{
    const struct ptx_function *f = k->ptx;
    const struct sg_limits *l = &k->program->engine->limits;
    const struct exec_function *code = atomic_load_explicit(&k->functions[k->index], memory_order_acquire);
    *info = (struct sg_kernel_info){ .function = f,
                                     .static_shared = k->static_shared,
                                     .local_bytes = k->local_static,
                                     .uses = k->uses,
                                     .ptx_version = k->program->module->target,
                                     .binary_version = l->cc_major * 10 + l->cc_minor };
    unsigned most = l->max_threads_per_block;
    for (int pass = 0; pass < 2; pass++) {
        const uint32_t *n = pass ? f->req_ntid : f->max_ntid;
        if (n[0]) {
            unsigned limit = n[0] * (n[1] ? n[1] : 1) * (n[2] ? n[2] : 1);
            most = limit < most ? limit : most;
        }
    }
    unsigned registers = code->registers < 16 ? 16 : code->registers;
    unsigned cap = most ? l->regs_per_block / ((most + 31) / 32 * 32) : 255;
    cap = cap > 255 ? 255 : cap & ~7u;
    if (f->max_nreg && f->max_nreg < cap)
        cap = f->max_nreg;
    info->registers = registers < cap ? registers : cap;
    info->max_threads = most;
    for (uint32_t v = 0; v < k->program->module->variable_count; v++)
        if (k->program->module->variables[v].space == PTX_SPACE_CONST)
            info->const_bytes += k->program->module->variables[v].size;
}
