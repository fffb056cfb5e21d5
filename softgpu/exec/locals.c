/* locals.c: the local memory of a frame: .local variables first, then .param variables of calls, then the function's
   own parameters and results. */
#include "softgpu/exec/exec.h"

enum { MOST = 1 << 24 };

/* Puts a variable at the end of *top. false: there is no room. */
static bool put(uint64_t *top, const struct ptx_variable *v, uint32_t *at)
{
    uint32_t align = v->align ? v->align : 8;
    *top = (*top + align - 1) / align * align;
    if (at)
        *at = (uint32_t)*top;
    if (v->size > MOST)
        return false;
    *top += v->size;
    return *top <= MOST;
}

const char *exec_locals_place(const struct ptx_function *f, struct exec_locals *l)
{
    uint64_t top = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t v = 0; v < f->variable_count; v++)
            if (f->variables[v].space == (pass ? PTX_SPACE_PARAM : PTX_SPACE_LOCAL) &&
                !put(&top, &f->variables[v], l->variables ? &l->variables[v] : NULL))
                return "more than 16 MiB of local memory per thread";
        if (!pass)
            l->stack = (uint32_t)top;
    }
    for (int pass = 0; pass < 2 && !f->is_entry; pass++) {
        const struct ptx_variable *list = pass ? f->signature.returns : f->signature.params;
        uint32_t n = pass ? f->signature.return_count : f->signature.param_count;
        uint32_t *at = pass ? l->returns : l->params;
        for (uint32_t v = 0; v < n; v++)
            if (!put(&top, &list[v], at ? &at[v] : NULL))
                return "more than 16 MiB of parameters";
    }
    l->size = (uint32_t)((top + 15) / 16 * 16);
    return NULL;
}
