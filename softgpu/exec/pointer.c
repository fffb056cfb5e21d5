/*
 * pointer.c: what calls by pointer lead to.
 *
 * An address of code is one of its engine, whichever module it is of, and never used twice. A kernel may call the
 * functions of its own program, and of every other program of the same space, whose addresses are taken there. Those of
 * another program are decoded for it, as its own ones are, in a guest: their global variables are those of their
 * program. Their shared memory is another matter: the block has none for them, since it began before anybody knew of
 * the call. So a function that has shared variables of a fixed size can be called from kernels of its own module only.
 * Dynamic shared memory is the kernel's.
 *
 * Every address is checked against the tables before anything is read, since a program can make up any number.
 */
#include "softgpu/exec/pointer.h"
#include "softgpu/exec/reach.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

/* The program whose code lies there, held for the caller; NULL: none of this one's space. */
static sg_program *hold_program(const sg_program *from, uint64_t address)
{
    sg_engine *e = from->engine;
    pthread_mutex_lock(&e->lock);
    sg_program *p = e->programs;
    while (p && (p->space != from->space || exec_code_index(p, address) == UINT32_MAX))
        p = p->next;
    if (p)
        p->holders++;
    pthread_mutex_unlock(&e->lock);
    return p;
}

/* --- guests --- */

/* Where the kernel's dynamic shared memory begins. */
static uint64_t dynamic_base(const sg_kernel *host)
{
    return (host->program->engine->limits.shared_reserved + host->static_shared + 15) / 16 * 16;
}

static bool lay_out(sg_kernel *g, const sg_kernel *host)
{
    const struct ptx_module *m = g->program->module;
    for (uint32_t v = 0; v < m->variable_count; v++)
        if (m->variables[v].space == PTX_SPACE_SHARED && m->variables[v].unsized)
            g->shared_offset[v] = dynamic_base(host);
    for (uint32_t f = 0; f < m->function_count; f++) {
        const struct ptx_function *fn = &m->functions[f];
        if (!g->reached[f] || !fn->variable_count)
            continue;
        g->function_shared[f] = malloc(fn->variable_count * sizeof **g->function_shared);
        if (!g->function_shared[f])
            return false;
        for (uint32_t v = 0; v < fn->variable_count; v++)
            g->function_shared[f][v] = fn->variables[v].unsized ? (uint32_t)dynamic_base(host) : UINT32_MAX;
    }
    return true;
}

/* Takes over the hold on the program, if it succeeds. */
static sg_kernel *guest_new(sg_kernel *host, sg_program *p, char *log, size_t log_size)
{
    pthread_mutex_lock(&p->lock);
    const struct exec_reach *pointed = exec_reach_pointed(p, log, log_size);
    pthread_mutex_unlock(&p->lock);
    sg_kernel *g = pointed ? exec_kernel_new(p) : NULL;
    if (!g)
        return NULL;
    g->ptx = host->ptx;
    g->index = UINT32_MAX;
    g->has_barriers = pointed->barriers;
    memcpy(g->reached, pointed->function, p->module->function_count * sizeof *g->reached);
    if (!lay_out(g, host)) {
        exec_kernel_free(g);
        return NULL;
    }
    return g;
}

static sg_kernel *find_guest(const sg_kernel *host, uint64_t address)
{
    sg_kernel *g = atomic_load_explicit(&host->guests, memory_order_acquire);
    while (g && exec_code_index(g->program, address) == UINT32_MAX)
        g = g->next_guest;
    return g;
}

/* The kernel or guest that has the function; NULL: *to says why not. */
static sg_kernel *owner_of(sg_kernel *k, uint64_t address, struct exec_callee *to)
{
    if (exec_code_index(k->program, address) != UINT32_MAX)
        return k;
    sg_kernel *g = find_guest(k, address);
    if (g)
        return g;
    pthread_mutex_lock(&k->lock);
    sg_program *p = NULL;
    if (!(g = find_guest(k, address)) && (p = hold_program(k->program, address))) {
        g = guest_new(k, p, to->log, sizeof to->log);
        if (g) {
            g->next_guest = atomic_load(&k->guests);
            atomic_store_explicit(&k->guests, g, memory_order_release);
        } else {
            to->error = CUDA_ERROR_OUT_OF_MEMORY;
            snprintf(to->log, sizeof to->log, "no host memory for functions of another module");
        }
    }
    pthread_mutex_unlock(&k->lock);
    if (p && !g)
        exec_program_release(p);
    return g;
}

sg_kernel *exec_guests_gone(sg_kernel *k)
{
    sg_kernel *kept = NULL, *gone = NULL, *next;
    for (sg_kernel *g = atomic_load(&k->guests); g; g = next) {
        next = g->next_guest;
        sg_kernel **list = atomic_load(&g->program->gone) ? &gone : &kept;
        g->next_guest = *list;
        *list = g;
    }
    atomic_store(&k->guests, kept);
    return gone;
}

/* --- what a pointer leads to --- */

static void decode(sg_kernel *of, uint32_t index, struct exec_callee *to)
{
    to->function = atomic_load_explicit(&of->callable[index], memory_order_acquire);
    if (to->function)
        return;
    pthread_mutex_lock(&of->lock);
    to->function = atomic_load(&of->callable[index]);
    if (!to->function)
        to->function = exec_kernel_decode(of, index, to->log, sizeof to->log);
    pthread_mutex_unlock(&of->lock);
    if (!to->function)
        to->error = CUDA_ERROR_ILLEGAL_INSTRUCTION;
}

void exec_pointer_find(sg_kernel *k, uint64_t address, struct exec_callee *to)
{
    to->function = NULL;
    to->builtin = NULL;
    to->error = CUDA_SUCCESS;
    to->log[0] = 0;
    sg_kernel *of = owner_of(k, address, to);
    if (to->error)
        return;
    uint32_t index = of && !atomic_load(&of->program->gone) ? exec_code_index(of->program, address) : UINT32_MAX;
    const struct ptx_function *f = index == UINT32_MAX ? NULL : &of->program->module->functions[index];
    if (f && of->reached[index] && !f->is_entry) {
        if (f->defined)
            decode(of, index, to);
        else
            to->builtin = exec_builtin_find(f->name);
    }
    if (!to->function && !to->builtin && !to->error) {
        to->error = CUDA_ERROR_INVALID_PC;
        snprintf(to->log, sizeof to->log, "call through a pointer that is no function");
    }
}
