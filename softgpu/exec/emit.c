/*
 * emit.c: what all files that decode share: errors, the modifiers of the instruction at hand, and appending what it
 * becomes. It stands below the op_*.c files.
 */
#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int decode_error(struct exec_decoder *d, const char *format, ...)
{
    if (d->failed)
        return -1;                    /* the first reason is the one to report */
    d->failed = true;
    char what[256] = "", why[512];
    size_t n = 0;
    if (d->in) {
        n = (size_t)snprintf(what, sizeof what, "%s", d->in->opcode);
        for (uint32_t i = 0; i < d->in->modifier_count && n < sizeof what; i++)
            n += (size_t)snprintf(what + n, sizeof what - n, ".%s", d->in->modifiers[i]);
    }
    va_list ap;
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    snprintf(d->log, d->log_size, "%s, line %u: cannot execute '%s': %s", d->f->name, d->in ? d->in->line : 0, what,
             why);
    return -1;
}

bool decode_has(const struct exec_decoder *d, const char *modifier)
{
    for (uint32_t i = 0; i < d->in->modifier_count; i++)
        if (!strcmp(d->in->modifiers[i], modifier))
            return true;
    return false;
}

enum ptx_type decode_type_of(const char *modifier)
{
    for (int t = PTX_PRED; t < PTX_TEXREF; t++)
        if (!strcmp(modifier, ptx_type_name((enum ptx_type)t)))
            return (enum ptx_type)t;
    return PTX_NONE;
}

enum ptx_type decode_type(const struct exec_decoder *d, unsigned n)
{
    for (uint32_t i = d->in->modifier_count; i-- > 0;) {
        enum ptx_type t = decode_type_of(d->in->modifiers[i]);
        if (t != PTX_NONE && n-- == 0)
            return t;
    }
    return PTX_NONE;
}

enum ptx_space decode_space(const struct exec_decoder *d, bool *given)
{
    static const struct { const char *name; enum ptx_space space; } names[] = {
        { "global", PTX_SPACE_GLOBAL }, { "shared", PTX_SPACE_SHARED }, { "shared::cta", PTX_SPACE_SHARED },
        { "shared::cluster", PTX_SPACE_SHARED }, { "local", PTX_SPACE_LOCAL }, { "const", PTX_SPACE_CONST },
        { "param", PTX_SPACE_PARAM }, { "param::entry", PTX_SPACE_PARAM }, { "param::func", PTX_SPACE_PARAM },
    };
    if (given)
        *given = true;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (decode_has(d, names[k].name))
            return names[k].space;
    if (given)
        *given = false;
    return PTX_SPACE_GENERIC;
}

int decode_put(struct exec_decoder *d, struct exec_insn n)
{
    if (d->count == d->capacity) {
        uint32_t capacity = d->capacity ? 2 * d->capacity : 64;
        struct exec_insn *more = NULL;
        if (exec_kernel_take(d->kernel, (capacity - d->capacity) * sizeof *more))
            more = realloc(d->insns, capacity * sizeof *more);
        if (!more)
            return decode_error(d, "no host memory");
        d->insns = more;
        d->capacity = capacity;
    }
    if (d->in && !n.line)
        n.line = d->in->line;
    d->insns[d->count++] = n;
    return 0;
}

static void guard_of(const struct exec_decoder *d, struct exec_insn *n)
{
    n->guard = d->register_at[d->in->guard];
    n->guard_flip = d->in->guard_negated ? UINT32_MAX : 0;
}

int decode_put_guarded(struct exec_decoder *d, struct exec_insn n)
{
    if (d->in->guard >= 0) {
        guard_of(d, &n);
        n.inner = n.run;
        n.run = exec_run_guarded;
    }
    return decode_put(d, n);
}

int decode_put_control(struct exec_decoder *d, struct exec_insn n)
{
    if (n.known == EXEC_STRAIGHT_NONE)
        n.known = EXEC_STRAIGHT_CONTROL;
    if (d->in->guard >= 0) {
        struct exec_insn part = { .run = exec_run_part, .known = EXEC_STRAIGHT_PART };
        guard_of(d, &part);
        if (decode_put(d, part))
            return -1;
    }
    return decode_put(d, n);
}
