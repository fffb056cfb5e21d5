/*
 * functions.c: the functions of a kernel, decoded.
 *
 * Functions are decoded per kernel, since a function's shared variables lie elsewhere in each kernel that calls it.
 * A function is decoded together with all that it calls directly, so a direct call needs no look at whether its target
 * is there. What only pointers lead to is decoded when it is first called, while other blocks of the kernel run.
 *
 * A program lives as long as a kernel of another one has functions of it (pointer.c), or code of it is being compiled,
 * also when the driver has destroyed it.
 */
#include "softgpu/exec/jit.h"
#include "softgpu/exec/place.h"
#include "softgpu/exec/reach.h"

#include <stdio.h>
#include <stdlib.h>

#include "softgpu/ptx/budget.h"

void exec_program_release(sg_program *p)
{
    if (atomic_fetch_sub(&p->holders, 1) > 1)
        return;
    if (p->pointed)
        exec_reach_free(p->pointed);
    free(p->pointed);
    free(p->depths);
    free(p->kernels);
    free(p->machine_code);
    ptx_module_free(p->module);
    pthread_mutex_destroy(&p->lock);
    free(p->address_of);
    free(p);
}

sg_kernel *exec_kernel_new(sg_program *p)
{
    const struct ptx_module *m = p->module;
    sg_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    pthread_mutex_init(&k->lock, NULL);
    k->program = p;
    if (!exec_kernel_take(k, (m->function_count + 1u) * (sizeof *k->functions + sizeof *k->callable +
                                                         sizeof *k->reached + sizeof *k->function_shared) +
                                 (m->variable_count + 1u) * sizeof *k->shared_offset)) {
        exec_kernel_free(k);
        return NULL;
    }
    k->functions = calloc(m->function_count + 1u, sizeof *k->functions);
    k->callable = calloc(m->function_count + 1u, sizeof *k->callable);
    k->reached = calloc(m->function_count + 1u, sizeof *k->reached);
    k->function_shared = calloc(m->function_count + 1u, sizeof *k->function_shared);
    k->shared_offset = malloc((m->variable_count + 1u) * sizeof *k->shared_offset);
    if (!k->functions || !k->callable || !k->reached || !k->function_shared || !k->shared_offset) {
        exec_kernel_free(k);
        return NULL;
    }
    memset(k->shared_offset, 0xff, (m->variable_count + 1u) * sizeof *k->shared_offset);
    return k;
}

void exec_guests_free(sg_kernel *guests)
{
    while (guests) {
        sg_kernel *g = guests;
        sg_program *p = g->program;
        guests = g->next_guest;
        exec_kernel_free(g);
        exec_program_release(p);
    }
}

/* Nobody uses it any more. The engine may have gone. */
static void kernel_end(sg_kernel *k)
{
    sg_program *p = k->program;
    for (uint32_t i = 0; k->functions && i < p->module->function_count; i++)
        exec_function_free(atomic_load(&k->functions[i]));
    for (uint32_t i = 0; k->function_shared && i < p->module->function_count; i++)
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
    ptx_budget_give(atomic_load(&k->taken));
    pthread_mutex_destroy(&k->lock);
    free(k->slots);
    free(k->functions);
    free(k->callable);
    free(k->reached);
    free(k->function_shared);
    free(k->shared_offset);
    free(k);
    exec_program_release(p);
}

void exec_kernel_free(sg_kernel *k)
{
    if (!k)
        return;
    exec_guests_free(atomic_load(&k->guests));
    exec_spares_free(k->program->engine, k);
    k->program->holders++;
    exec_regions_free(k->regions, kernel_end, k);
}

/* --- decoding --- */

/* The functions to decode together: each once. */
struct closure {
    uint32_t *list, count;
    bool *in;
};

static void closure_add(struct closure *c, const sg_kernel *k, uint32_t index)
{
    const struct ptx_function *f = &k->program->module->functions[index];
    bool known = atomic_load_explicit(&k->callable[index], memory_order_relaxed) != NULL;
    if (f->defined && !f->is_entry && !c->in[index] && !known) {
        c->in[index] = true;
        c->list[c->count++] = index;
    }
}

static void closure_add_called(struct closure *c, const sg_kernel *k, const struct ptx_function *f)
{
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        const struct ptx_instruction *in = &f->instructions[i];
        for (uint32_t o = 0; !strcmp(in->opcode, "call") && o < in->operand_count; o++)
            if (in->operands[o].kind == PTX_OP_FUNCTION)
                closure_add(c, k, in->operands[o].index);
    }
}

static bool closure_decode(struct closure *c, sg_kernel *k, char *log, size_t log_size)
{
    for (uint32_t at = 0; at < c->count; at++) {
        uint32_t index = c->list[at];
        struct exec_function *f = atomic_load(&k->functions[index]);
        if (!f && !(f = exec_decode(k, index, log, log_size)))
            return false;
        atomic_store(&k->functions[index], f);
        closure_add_called(c, k, f->ptx);
    }
    return true;
}

const struct exec_function *exec_kernel_decode(sg_kernel *k, uint32_t index, char *log, size_t log_size)
{
    const struct ptx_module *m = k->program->module;
    struct closure c = { .list = calloc(m->function_count + 1u, sizeof *c.list),
                         .in = calloc(m->function_count + 1u, sizeof *c.in) };
    const struct exec_function *f = NULL;
    if (!c.list || !c.in) {
        snprintf(log, log_size, "%s: no host memory", m->functions[index].name);
    } else {
        c.list[c.count++] = index; /* may be an entry, which no function calls */
        c.in[index] = true;
        if (closure_decode(&c, k, log, log_size)) {
            /* A block that finds a function callable must find what it calls. */
            for (uint32_t i = 0; i < c.count; i++)
                if (!m->functions[c.list[i]].is_entry)
                    atomic_store_explicit(&k->callable[c.list[i]], atomic_load(&k->functions[c.list[i]]),
                                          memory_order_release);
            f = atomic_load(&k->functions[index]);
        }
    }
    free(c.list);
    free(c.in);
    return f;
}
