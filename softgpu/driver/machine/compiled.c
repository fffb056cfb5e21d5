/*
 * compiled.c: how many registers the compiler gave the kernels of an image. nvcc puts machine code beside the PTX, for
 * compute capability 7.5 where nobody names another, and libraries bring it for many. The software GPU cannot execute
 * it, but its tables say the registers of each kernel. Here the machine code is read that the device would run, or else
 * that for the nearest device; softgpu/exec/needs.c corrects the numbers of the latter.
 *
 * What is damaged, too large, or more than the budget for code allows says nothing. Names are kept as hashes: two names
 * with one hash cost a program no more than a wrong number for its own kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"
#include "cpu/code/kernels.h"
#include "softgpu/driver/machine/machine.h"
#include "softgpu/ptx/budget.h"

enum {
    OLDEST = 75, /* what older compilers made for older GPUs has never been compared */
    MOST = 64 << 20,
    AT_FIRST = 16,
};

static uint64_t hash(const char *name, size_t size) /* FNV-1a */
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* Would a device of capability cc run the machine code? */
static bool runs(const struct fatbin_entry *e, unsigned cc)
{
    if (e->flags & FATBIN_ARCH_SPECIFIC)
        return e->sm == cc;
    return e->sm / 10 == cc / 10 && e->sm <= cc;
}

static unsigned distance(unsigned a, unsigned b) { return a > b ? a - b : b - a; }

/* Is machine code `a` of more use than `b` for a device of capability cc? */
static bool nearer(const struct fatbin_entry *a, const struct fatbin_entry *b, unsigned cc)
{
    if (!b->payload || runs(a, cc) != runs(b, cc))
        return !b->payload || runs(a, cc);
    return distance(a->sm, cc) < distance(b->sm, cc);
}

static bool find_nearest(const void *container, unsigned cc, struct fatbin_entry *best)
{
    size_t size = fatbin_container_size(container, SIZE_MAX), cursor = 0;
    const char *why;
    struct fatbin_entry entry;
    *best = (struct fatbin_entry){ 0 };
    while (size && fatbin_next(container, size, &cursor, &entry, &why) > 0)
        if (entry.kind == FATBIN_CUBIN && entry.sm >= OLDEST && entry.size <= MOST && nearer(&entry, best, cc))
            *best = entry;
    return best->payload != NULL;
}

struct adding {
    struct sgd_compiled *to;
    struct sg_machine_code code; /* but for the registers */
};

static bool grow(struct sgd_compiled *c)
{
    size_t room = c->room ? 2 * c->room : AT_FIRST;
    if (!ptx_budget_take((room - c->room) * sizeof *c->kernels)) {
        ptx_budget_refused(); /* nobody is to hear of it */
        return false;
    }
    void *kernels = realloc(c->kernels, room * sizeof *c->kernels);
    if (!kernels) {
        ptx_budget_give((room - c->room) * sizeof *c->kernels);
        return false;
    }
    c->kernels = kernels;
    c->room = room;
    return true;
}

static bool add(void *context, const char *name, size_t size, unsigned registers)
{
    struct adding *a = context;
    struct sgd_compiled *c = a->to;
    if (c->count == c->room && !grow(c))
        return false;
    a->code.registers = (uint8_t)registers;
    c->kernels[c->count++] = (struct sgd_compiled_kernel){ hash(name, size), a->code };
    return true;
}

static int by_name(const void *a, const void *b)
{
    uint64_t left = ((const struct sgd_compiled_kernel *)a)->name,
             right = ((const struct sgd_compiled_kernel *)b)->name;
    return left < right ? -1 : left > right;
}

void sgd_compiled_add(struct sgd_compiled *c, const void *container, unsigned cc)
{
    struct fatbin_entry best;
    const char *why;
    size_t size;
    if (!find_nearest(container, cc, &best))
        return;
    struct adding adding = { c,
                             { .runs = runs(&best, cc),
                               .capability = (uint16_t)best.sm,
                               .threads_per_sm = (uint16_t)sgd_family_threads(best.sm) } };
    if (!ptx_budget_take(best.size)) {
        ptx_budget_refused();
        return;
    }
    uint8_t *cubin = fatbin_extract(&best, &size, &why);
    if (cubin)
        registers_of_cubin(cubin, size, add, &adding);
    free(cubin);
    ptx_budget_give(best.size);
    if (c->count) /* none: kernels is NULL */
        qsort(c->kernels, c->count, sizeof *c->kernels, by_name);
}

bool sgd_compiled_find(const struct sgd_compiled *c, const char *name, struct sg_machine_code *code)
{
    const struct sgd_compiled_kernel wanted = { .name = hash(name, strlen(name)) };
    const struct sgd_compiled_kernel *found =
        c->count ? bsearch(&wanted, c->kernels, c->count, sizeof wanted, by_name) : NULL;
    if (found)
        *code = found->code;
    return found;
}

void sgd_compiled_free(struct sgd_compiled *c)
{
    ptx_budget_give(c->room * sizeof *c->kernels);
    free(c->kernels);
    *c = (struct sgd_compiled){ 0 };
}
