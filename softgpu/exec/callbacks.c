/* callbacks.c: see callbacks.h. Callbacks for instructions of one text are counted together, as far as there is
   room. */
#include "softgpu/exec/callbacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024, TEXT = 48, TOLD = 16 };
bool exec_callbacks_counted;
static struct {
    _Atomic(const struct exec_insn *) insn;
    atomic_ullong count;
    char text[TEXT];
} slots[SLOTS];

/* The PTX that the insn was made of, by its line. */
static void text_of(const struct exec_warp *w, const struct exec_insn *i, char *text)
{
    const struct ptx_function *f = w->frame->function->ptx;
    for (uint32_t k = 0; k < f->instruction_count; k++) {
        const struct ptx_instruction *in = &f->instructions[k];
        if (in->line != i->line)
            continue;
        size_t n = (size_t)snprintf(text, TEXT, "%s", in->opcode);
        for (uint32_t m = 0; m < in->modifier_count && n < TEXT; m++)
            n += (size_t)snprintf(text + n, TEXT - n, ".%s", in->modifiers[m]);
        return;
    }
    snprintf(text, TEXT, "%s", "others");
}

/* Instructions of warps, by kernel. Kernels that find no room share the last place; one that lies where an earlier one
   was freed shares its place. */
enum { KERNELS = 512, NAME = 200 };
static struct {
    _Atomic(const sg_kernel *) kernel;
    atomic_ullong interpreted, compiled;
    char name[NAME];
} kernels[KERNELS + 1];

static unsigned kernel_slot(const sg_kernel *kernel)
{
    for (size_t k = (uintptr_t)kernel / sizeof *kernel % KERNELS, tries = 0; tries < KERNELS;
         k = (k + 1) % KERNELS, tries++) {
        const sg_kernel *there = atomic_load_explicit(&kernels[k].kernel, memory_order_relaxed);
        if (!there && atomic_compare_exchange_strong(&kernels[k].kernel, &there, kernel)) {
            snprintf(kernels[k].name, NAME, "%s", kernel->ptx->name);
            there = kernel;
        }
        if (there == kernel)
            return (unsigned)k;
    }
    return KERNELS;
}

void exec_instructions_sum(struct exec_warp *w)
{
    const unsigned k = kernel_slot(w->block->grid->kernel);
    atomic_fetch_add_explicit(&kernels[k].interpreted, w->interpreted, memory_order_relaxed);
    atomic_fetch_add_explicit(&kernels[k].compiled, w->compiled, memory_order_relaxed);
    w->interpreted = w->compiled = 0;
}

void exec_callback_count(const struct exec_warp *w, const struct exec_insn *i)
{
    for (size_t k = (uintptr_t)i / sizeof *i % SLOTS, tries = 0; tries < SLOTS; k = (k + 1) % SLOTS, tries++) {
        const struct exec_insn *there = NULL;
        if (atomic_compare_exchange_strong(&slots[k].insn, &there, i))
            text_of(w, i, slots[k].text);
        else if (there != i)
            continue;
        atomic_fetch_add_explicit(&slots[k].count, 1, memory_order_relaxed);
        return;
    }
}

static int by_count(const void *a, const void *b)
{
    const unsigned long long x = slots[*(const unsigned *)a].count, y = slots[*(const unsigned *)b].count;
    return x > y ? -1 : x < y;
}

static void say_share(void (*say)(const char *), unsigned long long compiled, unsigned long long all, const char *where)
{
    char line[128 + NAME];
    snprintf(line, sizeof line, "softgpu: %llu instructions of warps%s%s, %.1f %% of them in compiled code", all,
             *where ? " of " : "", where, 100.0 * (double)compiled / (double)all);
    say(line);
}

static int by_interpreted(const void *a, const void *b)
{
    const unsigned long long x = kernels[*(const unsigned *)a].interpreted,
                             y = kernels[*(const unsigned *)b].interpreted;
    return x > y ? -1 : x < y;
}

/* All kernels together, and those of which the interpreter has executed most. */
static void tell_kernels(void (*say)(const char *))
{
    unsigned order[KERNELS + 1];
    unsigned long long compiled = 0, interpreted = 0;
    for (unsigned k = 0; k <= KERNELS; k++) {
        order[k] = k;
        compiled += kernels[k].compiled;
        interpreted += kernels[k].interpreted;
    }
    if (compiled + interpreted)
        say_share(say, compiled, compiled + interpreted, "");
    qsort(order, KERNELS + 1, sizeof *order, by_interpreted);
    for (unsigned k = 0; k < TOLD && kernels[order[k]].interpreted; k++)
        say_share(say, kernels[order[k]].compiled, kernels[order[k]].interpreted + kernels[order[k]].compiled,
                  order[k] == KERNELS ? "other kernels" : kernels[order[k]].name);
}

void exec_callbacks_tell(void (*say)(const char *))
{
    char line[128 + TEXT];
    tell_kernels(say);
    unsigned order[SLOTS] = { 0 }, count = 0;
    for (unsigned k = 0; k < SLOTS; k++) {
        unsigned first = 0;
        while (first < count && strcmp(slots[order[first]].text, slots[k].text))
            first++;
        if (!slots[k].count)
            continue;
        if (first < count)
            slots[order[first]].count += slots[k].count;
        else
            order[count++] = k;
    }
    qsort(order, count, sizeof *order, by_count);
    for (unsigned k = 0; k < count && k < TOLD; k++) {
        snprintf(line, sizeof line, "softgpu: interpreted %llu times from compiled code: %s",
                 (unsigned long long)slots[order[k]].count, slots[order[k]].text);
        say(line);
    }
}
