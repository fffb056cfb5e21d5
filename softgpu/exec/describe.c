/* describe.c: what a GPU's driver would say of a kernel: its attributes. */
#include <stdatomic.h>

#include "softgpu/exec/exec.h"
#include "softgpu/exec/place.h"
#include "softgpu/exec/pressure.h"

enum {
    REGISTERS_LEAST = 16,
    REGISTERS_ABI = 24, /* ptxas takes a lower bound for this one */
    REGISTERS_MOST = 255,
    REGISTERS_FOR_1024 = 64,
    REGISTERS_UNIT = 8,
    STACK_UNIT = 8,
    OF_NONE = 4
};

/* Threads of a block, as the kernel was declared: at most `most`. */
static unsigned declared_threads(const struct ptx_function *f, unsigned most)
{
    for (int pass = 0; pass < 2; pass++) {
        const uint32_t *n = pass ? f->req_ntid : f->max_ntid;
        uint64_t threads = n[0];
        for (int i = 1; i < 3 && threads < most; i++)
            threads *= n[i] ? n[i] : 1;
        if (n[0] && threads < most)
            most = (unsigned)threads;
    }
    return most;
}

static unsigned registers_of(const sg_kernel *k, const struct exec_function *code)
{
    struct exec_measures measures;
    return exec_registers_measure(k->program->module, code->ptx, &measures)
               ? exec_registers_weigh(&measures, k->program->engine->limits.max_threads_per_sm)
               : code->registers;
}

/* NULL: nothing is known of its machine code. */
static const struct sg_machine_code *machine_code_of(const sg_kernel *k)
{
    const struct sg_machine_code *all = k->program->machine_code;
    return all && all[k->index].registers ? &all[k->index] : NULL;
}

/* estimate: of the kernel and of what it calls. The compiler's number counts both. */
static unsigned registers_by_machine_code(const sg_kernel *k, unsigned estimate)
{
    const struct sg_machine_code *code = machine_code_of(k);
    struct exec_measures measures;
    if (!code)
        return estimate;
    if (code->runs)
        return code->registers;
    unsigned needed = exec_registers_measure(k->program->module, k->ptx, &measures) ? measures.needed : estimate;
    return exec_registers_near(code, estimate, needed, k->program->engine->limits.max_threads_per_sm);
}

/* Looks at the kernel and at all that it calls by name; what it calls by pointer is not known. Once: it takes about as
   long as decoding, and each launch asks. Two threads at a time come to the same. The stack: .local variables of the
   kernel, and of the function that has most among the others. */
static void look(sg_kernel *k)
{
    unsigned most = OF_NONE, own = 0, called = 0;
    for (uint32_t i = 0; i < k->program->module->function_count; i++) {
        const struct exec_function *code = atomic_load_explicit(&k->functions[i], memory_order_acquire);
        if (!code || !code->ptx->defined)
            continue;
        unsigned registers = registers_of(k, code);
        unsigned stack = (code->stack_size + STACK_UNIT - 1) / STACK_UNIT * STACK_UNIT;
        most = registers > most ? registers : most;
        if (i == k->index)
            own = stack;
        else
            called = stack > called ? stack : called;
    }
    atomic_store_explicit(&k->estimate, most < REGISTERS_MOST ? most : REGISTERS_MOST, memory_order_relaxed);
    most = registers_by_machine_code(k, most);
    atomic_store_explicit(&k->stack_bytes, own + called, memory_order_relaxed);
    /* release: who sees it sees the stack */
    atomic_store_explicit(&k->registers, most < REGISTERS_MOST ? most : REGISTERS_MOST, memory_order_release);
}

static unsigned registers_needed(const sg_kernel *k)
{
    if (!atomic_load_explicit(&k->registers, memory_order_acquire))
        look((sg_kernel *)(uintptr_t)k);
    return atomic_load_explicit(&k->registers, memory_order_relaxed);
}

/* Does its number of registers stand in machine code that this device would run? Then it is no estimate. */
static bool is_known(const sg_kernel *k)
{
    const struct sg_machine_code *code = machine_code_of(k);
    return code && code->runs;
}

/* What the bound leaves no registers for lies in local memory. An estimate: where the kernel needs hardly more than it
   may have, ptxas often finds a way without. */
static unsigned spilled_bytes(unsigned registers, unsigned most)
{
    enum { BYTES = 4, IN_DOUBT = 10 };
    if (registers <= most + most / IN_DOUBT)
        return 0;
    return ((registers - most) * BYTES + STACK_UNIT - 1) / STACK_UNIT * STACK_UNIT;
}

/* In doubt, a block of 1,024 threads can be launched: a program that does so has run on a GPU.
   .maxntid, .reqntid, .minnctapersm and .maxnreg bound them, as they bound what ptxas gives. *threads: of a block.
   *spilled: bytes of local memory that this costs. */
static unsigned registers_bounded(const sg_kernel *k, unsigned *threads, unsigned *spilled)
{
    const struct sg_limits *l = &k->program->engine->limits;
    const struct ptx_function *f = k->ptx;
    unsigned registers = registers_needed(k), most = REGISTERS_MOST;
    *threads = declared_threads(f, l->max_threads_per_block);
    if (f->max_ntid[0] || f->req_ntid[0]) {
        unsigned all = (*threads + 31) / 32 * 32, blocks = f->min_ncta_per_sm;
        blocks = !blocks ? 1 : blocks > l->max_blocks_per_sm ? l->max_blocks_per_sm : blocks;
        most = l->regs_per_block / (all * blocks) / REGISTERS_UNIT * REGISTERS_UNIT;
        most = most > REGISTERS_MOST ? REGISTERS_MOST : most < REGISTERS_LEAST ? REGISTERS_LEAST : most;
    } else if (!is_known(k) && registers > REGISTERS_FOR_1024 && registers <= REGISTERS_FOR_1024 + REGISTERS_UNIT) {
        registers = REGISTERS_FOR_1024;
    }
    unsigned bound = f->max_nreg < REGISTERS_ABI ? REGISTERS_ABI : f->max_nreg;
    if (f->max_nreg && bound < most)
        most = bound;
    if (is_known(k) && registers > most) /* a driver does not compile it again */
        most = registers;
    /* Machine code that leaves registers over has spilled none. */
    bool full = registers + REGISTERS_UNIT > most;
    *spilled = full ? spilled_bytes(atomic_load_explicit(&k->estimate, memory_order_relaxed), most) : 0;
    return registers < most ? registers : most;
}

unsigned exec_registers_of_thread(const sg_kernel *k)
{
    unsigned threads, spilled;
    return (registers_bounded(k, &threads, &spilled) + REGISTERS_UNIT - 1) / REGISTERS_UNIT * REGISTERS_UNIT;
}

void sg_kernel_describe(const sg_kernel *k, struct sg_kernel_info *info)
{
    const struct sg_limits *l = &k->program->engine->limits;
    *info = (struct sg_kernel_info){ .function = k->ptx,
                                     .static_shared = k->static_shared,
                                     .local_bytes = k->local_static,
                                     .uses = k->uses,
                                     .calls_pointers = k->calls_pointers,
                                     .ptx_version = k->program->module->target,
                                     .binary_version = l->cc_major * 10 + l->cc_minor };
    unsigned spilled;
    info->registers = registers_bounded(k, &info->max_threads, &spilled);
    info->stack_bytes = atomic_load_explicit(&k->stack_bytes, memory_order_relaxed) + spilled;
    unsigned room = exec_warps_of_registers(l, info->registers) * l->warp_size;
    if (room < info->max_threads)
        info->max_threads = room;
    for (uint32_t v = 0; v < k->program->module->variable_count; v++)
        if (k->program->module->variables[v].space == PTX_SPACE_CONST)
            info->const_bytes += k->program->module->variables[v].size;
}
