/*
 * reach.c: what a kernel may run and use, and how deep its calls are.
 *
 * A call by pointer may lead to every function whose address is taken anywhere in the module: another kernel may have
 * stored it, or an initialiser holds it. NVIDIA's compiler sees it that way, too: the shared memory of all these
 * functions is laid out in every kernel that calls by pointer, and also in those that only take the address of a
 * function, or use a variable that begins with one. For the depth of calls both look at prototypes: a call may lead to
 * functions whose parameters and results have the sizes that the call names. A call that leads elsewhere, in spite of
 * its prototype, runs with the memory that there is.
 *
 * What pointers may lead to is found once for a module, when the first such kernel asks for it: all those bodies are
 * read for it, and a library that has many need not call any.
 */
#include "softgpu/exec/reach.h"

#include <cuda.h>
#include <stdlib.h>

struct work {
    struct exec_reach *r;
    struct ptx_module *module;
    uint32_t *list, count; /* functions whose bodies are to be looked at */
};

bool sg_is_of_heap(const struct ptx_function *f)
{
    return !f->defined && f->name && (!strcmp(f->name, "malloc") || !strcmp(f->name, "free") ||
                                      !strcmp(f->name, "__cuda_syscall_cnpv2GetParameterBuffer"));
}

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
    if (sg_is_of_heap(&m->functions[o->index]))
        return SOFTGPU_USES_HEAP;
    return strncmp(name, launches, sizeof launches - 1) ? 0 : SOFTGPU_USES_CHILDREN;
}

static void reach_function(struct work *w, uint32_t index)
{
    if (!w->r->function[index]) {
        w->r->function[index] = true;
        w->list[w->count++] = index;
    }
}

static void reach_variable(struct work *w, uint32_t index)
{
    const struct ptx_variable *v = &w->module->variables[index];
    if (w->r->variable[index])
        return;
    w->r->variable[index] = true;
    for (size_t i = 0; i < v->relocation_count; i++)
        w->r->takes_addresses |= v->relocations[i].is_function;
}

static void reach_operand(struct work *w, const struct ptx_operand *o, bool called)
{
    w->r->uses |= uses_of(o, w->module);
    if (o->kind == PTX_OP_FUNCTION && !w->module->functions[o->index].is_entry) { /* an entry is launched */
        w->r->takes_addresses |= !called;
        reach_function(w, o->index);
    }
    if ((o->kind == PTX_OP_VARIABLE || (o->kind == PTX_OP_MEMORY && o->has_variable)) && o->scope == PTX_SCOPE_MODULE)
        reach_variable(w, o->index);
    for (uint32_t i = 0; i < o->element_count; i++)
        reach_operand(w, &o->elements[i], false);
    if (o->second)
        reach_operand(w, o->second, false);
}

static bool is_call(const struct ptx_instruction *i) { return !strcmp(i->opcode, "call"); }

static bool is_pointer_call(const struct ptx_instruction *i)
{
    if (!is_call(i))
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
static int reach_all(struct work *w, char *log, size_t log_size)
{
    while (w->count) {
        uint32_t index = w->list[--w->count];
        const struct ptx_function *f = &w->module->functions[index];
        if (ptx_function_read(w->module, index, log, log_size))
            return CUDA_ERROR_OUT_OF_MEMORY; /* all else was checked when the module was read */
        for (uint32_t i = 0; i < f->instruction_count; i++) {
            const struct ptx_instruction *in = &f->instructions[i];
            for (uint32_t k = 0; k < in->operand_count; k++)
                reach_operand(w, &in->operands[k], is_call(in));
            w->r->barriers |= !strcmp(in->opcode, "bar") || !strcmp(in->opcode, "barrier");
            w->r->cluster_barriers |= is_cluster_barrier(in);
            w->r->calls_pointers |= is_pointer_call(in);
        }
    }
    return CUDA_SUCCESS;
}

static int start(struct work *w)
{
    const struct ptx_module *m = w->module;
    w->r->function = calloc(m->function_count + 1u, sizeof *w->r->function);
    w->r->variable = calloc(m->variable_count + 1u, sizeof *w->r->variable);
    w->list = calloc(m->function_count + 1u, sizeof *w->list);
    return w->r->function && w->r->variable && w->list ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

const struct exec_reach *exec_reach_pointed(sg_program *p, char *log, size_t log_size)
{
    struct ptx_module *m = p->module;
    if (p->pointed)
        return p->pointed;
    struct work w = { .r = calloc(1, sizeof *w.r), .module = m };
    if (!w.r || start(&w))
        goto fail;
    for (uint32_t f = 0; f < m->function_count; f++)
        if (m->functions[f].address_taken && !m->functions[f].is_entry)
            reach_function(&w, f);
    if (reach_all(&w, log, log_size))
        goto fail;
    free(w.list);
    return p->pointed = w.r;
fail:
    if (w.r)
        exec_reach_free(w.r);
    free(w.r);
    free(w.list);
    return NULL;
}

static void add_pointed(struct exec_reach *r, const struct exec_reach *pointed, const struct ptx_module *m)
{
    for (uint32_t f = 0; f < m->function_count; f++)
        r->function[f] |= pointed->function[f];
    for (uint32_t v = 0; v < m->variable_count; v++)
        r->variable[v] |= pointed->variable[v];
    if (r->calls_pointers) {
        r->barriers |= pointed->barriers;
        r->cluster_barriers |= pointed->cluster_barriers;
        r->uses |= pointed->uses;
    }
}

int exec_reach_entry(sg_program *p, uint32_t index, struct exec_reach *r, char *log, size_t log_size)
{
    struct work w = { .r = r, .module = p->module };
    *r = (struct exec_reach){ 0 };
    int result = start(&w);
    if (!result) {
        reach_function(&w, index);
        result = reach_all(&w, log, log_size);
    }
    if (!result && (r->calls_pointers || r->takes_addresses)) {
        const struct exec_reach *pointed = exec_reach_pointed(p, log, log_size);
        if (pointed)
            add_pointed(r, pointed, p->module);
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(w.list);
    return result;
}

void exec_reach_free(struct exec_reach *r)
{
    free(r->function);
    free(r->variable);
}

/* --- depth --- */

enum { NEW, OPEN, KNOWN };
/* More than any launch gets. */
enum { DEEPEST = 1 << 30 };

/* A function on the way from the first one: which of its calls are next, and which target of a call by pointer. */
struct visit {
    uint32_t function, instruction, target;
};

static uint32_t sum(uint32_t a, uint32_t b) { return a + b < DEEPEST ? a + b : DEEPEST; }

static bool same_sizes(const struct ptx_variable *a, uint32_t a_count, const struct ptx_variable *b, uint32_t b_count)
{
    if (a_count != b_count)
        return false;
    for (uint32_t i = 0; i < a_count; i++)
        if (a[i].size != b[i].size)
            return false;
    return true;
}

/* prototype NULL: the call does not name one. */
static bool may_be_called(const struct ptx_function *f, const struct ptx_prototype *prototype)
{
    if (!f->address_taken || !f->defined || f->is_entry)
        return false;
    return !prototype ||
           (same_sizes(f->signature.returns, f->signature.return_count, prototype->returns, prototype->return_count) &&
            same_sizes(f->signature.params, f->signature.param_count, prototype->params, prototype->param_count));
}

static const struct ptx_prototype *prototype_of(const struct ptx_function *f, const struct ptx_instruction *in)
{
    for (uint32_t k = 0; k < in->operand_count; k++)
        if (in->operands[k].kind == PTX_OP_PROTOTYPE && in->operands[k].index < f->prototype_count)
            return &f->prototypes[in->operands[k].index];
    return NULL;
}

/* The target of a call that names its function; UINT32_MAX: it has no body here. */
static uint32_t named_target(const struct ptx_module *m, const struct ptx_instruction *in)
{
    for (uint32_t k = 0; k < in->operand_count; k++)
        if (in->operands[k].kind == PTX_OP_FUNCTION && m->functions[in->operands[k].index].defined &&
            !m->functions[in->operands[k].index].is_entry)
            return in->operands[k].index;
    return UINT32_MAX;
}

/* The next function that the visited one may call; UINT32_MAX: that were all. */
static uint32_t next_callee(const struct ptx_module *m, struct visit *v)
{
    const struct ptx_function *f = &m->functions[v->function];
    for (; v->instruction < f->instruction_count; v->instruction++, v->target = 0) {
        const struct ptx_instruction *in = &f->instructions[v->instruction];
        if (!is_call(in))
            continue;
        if (!is_pointer_call(in)) {
            uint32_t named = named_target(m, in);
            if (v->target++ || named == UINT32_MAX)
                continue;
            return named;
        }
        const struct ptx_prototype *prototype = prototype_of(f, in);
        while (v->target < m->function_count)
            if (may_be_called(&m->functions[v->target++], prototype))
                return v->target - 1;
    }
    return UINT32_MAX;
}

static bool takes_stack(const struct ptx_function *f)
{
    for (uint32_t i = 0; i < f->instruction_count; i++)
        if (!strcmp(f->instructions[i].opcode, "alloca"))
            return true;
    return false;
}

static struct exec_locals locals_of(const struct ptx_function *f)
{
    struct exec_locals l = { 0 };
    if (exec_locals_place(f, &l))
        l.stack = l.size = DEEPEST; /* decoding it will say why not */
    return l;
}

static void called(struct exec_depth *caller, const struct exec_depth *callee, const struct ptx_function *f)
{
    uint32_t stack = sum(EXEC_CALL_STACK + locals_of(f).stack, callee->stack);
    caller->local = callee->local > caller->local ? callee->local : caller->local;
    caller->stack = stack > caller->stack ? stack : caller->stack;
    caller->recursive |= callee->recursive;
}

/* With a loop, not by recursion: a chain of calls is as long as the module has functions. While a function is OPEN,
   its depth is that of what it calls. */
bool exec_depth_of(sg_program *p, uint32_t index, struct exec_depth *out)
{
    const struct ptx_module *m = p->module;
    if (!p->depths && !(p->depths = calloc(m->function_count + 1u, sizeof *p->depths)))
        return false;
    struct exec_depth *d = p->depths;
    struct visit *way = d[index].state == KNOWN ? NULL : calloc(m->function_count + 1u, sizeof *way);
    uint32_t count = 0;
    if (d[index].state != KNOWN) {
        if (!way)
            return false;
        way[count++].function = index;
        d[index].state = OPEN;
    }
    while (count) {
        struct visit *v = &way[count - 1];
        uint32_t at = v->function, to = next_callee(m, v);
        if (to == UINT32_MAX) {
            d[at].local = sum(d[at].local, locals_of(&m->functions[at]).size);
            d[at].recursive |= takes_stack(&m->functions[at]);
            d[at].state = KNOWN;
            if (--count)
                called(&d[way[count - 1].function], &d[at], &m->functions[at]);
        } else if (d[to].state == NEW) {
            d[to].state = OPEN;
            way[count++] = (struct visit){ .function = to };
        } else if (d[to].state == OPEN) {
            d[at].recursive = true;
        } else {
            called(&d[at], &d[to], &m->functions[to]);
        }
    }
    free(way);
    *out = d[index];
    return true;
}
