/*
 * kernel.c: programs and kernels: how a kernel is made when it is first asked for, where its shared variables lie.
 *
 * What can only be reached by pointer is laid out with the kernel but decoded when it is first called.
 */
#include "softgpu/exec/pointer.h"
#include "softgpu/exec/reach.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/env.h"

/* Where functions lie: behind those of all programs before, with a gap, or exactly there. */
static bool place_code(sg_engine *e, sg_program *p, uint64_t at)
{
    enum { GAP = 4096 };
    const uint64_t size = (uint64_t)p->module->function_count * EXEC_CODE_STEP + GAP;
    const uint64_t window = EXEC_WINDOW_BASE(EXEC_WINDOW_CODE);
    if (!at)
        at = e->next_code;
    /* What is placed leaves nearly all of the window for what comes later. */
    else if (at % EXEC_CODE_STEP || at < window + GAP || at - window > UINT64_C(1) << 40)
        return false;
    for (const sg_program *other = e->programs; other; other = other->next)
        if (at < other->code_base + other->module->function_count * EXEC_CODE_STEP && other->code_base < at + size)
            return false;
    p->code_base = at;
    if (e->next_code < at + size)
        e->next_code = at + size;
    return true;
}

int sg_program_create(sg_engine *e, struct ptx_module *module, const uint64_t *address_of, const void *space,
                      sg_program **out)
{
    return sg_program_create_at(e, module, address_of, space, 0, out);
}

int sg_program_create_at(sg_engine *e, struct ptx_module *module, const uint64_t *address_of, const void *space,
                         uint64_t code, sg_program **out)
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
    p->module = module;
    p->space = space;
    p->holders = 1;
    const char *fused = env_get("FLYT_SOFTGPU_FUSED");
    p->plain = fused && !strcmp(fused, "off");
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_lock(&e->lock);
    if (!place_code(e, p, code)) {
        pthread_mutex_unlock(&e->lock);
        pthread_mutex_destroy(&p->lock);
        free(p->address_of);
        free(p->kernels);
        free(p);
        return CUDA_ERROR_ALREADY_MAPPED;
    }
    p->next = e->programs;
    p->back = &e->programs;
    if (p->next)
        p->next->back = &p->next;
    e->programs = p;
    pthread_mutex_unlock(&e->lock);
    *out = p;
    return CUDA_SUCCESS;
}

bool sg_program_machine_code(sg_program *p, uint32_t index, struct sg_machine_code code)
{
    if (!p->machine_code)
        p->machine_code = calloc(p->module->function_count, sizeof *p->machine_code);
    if (!p->machine_code)
        return false;
    p->machine_code[index] = code;
    return true;
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
    atomic_store(&p->gone, true);
    for (uint32_t i = 0; i < p->module->function_count; i++) {
        exec_kernel_free(p->kernels[i]);
        p->kernels[i] = NULL;
    }
    exec_program_release(p);
}

uint64_t sg_program_code(const sg_program *p) { return p->code_base; }

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
static int layout_shared(sg_kernel *k, const struct exec_reach *r)
{
    const struct ptx_module *m = k->program->module;
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

static int kernel_build(sg_program *p, uint32_t index, sg_kernel **out, char *log, size_t log_size)
{
    struct ptx_module *m = p->module;
    struct exec_reach r;
    struct exec_depth depth;
    sg_kernel *k = exec_kernel_new(p);
    int result = exec_reach_entry(p, index, &r, log, log_size);
    if (!result && !k)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result)
        goto out;
    k->index = index;
    k->ptx = &m->functions[index];
    k->calls_pointers = r.calls_pointers;
    k->has_barriers = r.barriers;
    k->has_cluster_barriers = r.cluster_barriers || r.calls_pointers; /* another module may have some */
    k->uses = r.uses;
    memcpy(k->reached, r.function, m->function_count * sizeof *k->reached);
    if (layout_shared(k, &r) || !exec_depth_of(p, index, &depth)) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
        goto out;
    }
    k->stack_limited = depth.recursive || r.calls_pointers;
    k->local_static = depth.local;
    k->stack_static = depth.stack;
    /* Everything that runs without a pointer's help is decoded now, so that its errors show now. */
    if (!exec_kernel_decode(k, index, log, log_size)) {
        result = CUDA_ERROR_INVALID_PTX;
        goto out;
    }
    *out = k;
    k = NULL;
out:
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        snprintf(log, log_size, "no host memory to decode %s", m->functions[index].name);
    exec_kernel_free(k);
    exec_reach_free(&r);
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
