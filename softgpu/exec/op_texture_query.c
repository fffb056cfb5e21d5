/*
 * op_texture_query.c: txq, suq and istypep: what textures, samplers and surfaces are. Queries that name no level look
 * at the first one. The numbers of filters and address modes are those of the PTX ISA, those of channels OpenCL's.
 */
#include "softgpu/exec/decode.h"
#include "softgpu/exec/op_texture.h"

#include <string.h>

enum query {
    QUERY_WIDTH,
    QUERY_HEIGHT,
    QUERY_DEPTH,
    QUERY_LAYERS,
    QUERY_CHANNELS_TYPE,
    QUERY_CHANNELS_ORDER,
    QUERY_LINEAR_MEMORY, /* up to here: of surfaces, too */
    QUERY_LEVELS,
    QUERY_SAMPLES,
    QUERY_NORMALIZED,
    QUERY_UNNORMALIZED, /* from here on: of samplers, too */
    QUERY_FILTER,
    QUERY_WRAP_0,
    QUERY_WRAP_1,
    QUERY_WRAP_2,
    QUERY_NONE
};
struct question {
    enum query query;
    bool levels; /* of the level that a lane names */
    exec_source level;
    uint32_t to; /* the register, of 32 or 64 bits */
    bool wide;
};

static void put(struct exec_warp *w, const struct question *a, unsigned lane, uint32_t v)
{
    unsigned char *row = w->rows + a->to;
    if (a->wide)
        ((uint64_t *)(void *)row)[lane] = v;
    else
        ((uint32_t *)(void *)row)[lane] = v;
}

static uint32_t answer(const struct sg_texture *t, enum query q)
{
    static const uint32_t types[] = {
        0x10DA, 0x10DB, 0x10DC, 0x10D7, 0x10D8, 0x10D9, 0x10DD, 0x10DE, /* of blocks: what they decode to */
        0x10D2, 0x10D2, 0x10D2, 0x10D2, 0x10D0, 0x10D2, 0x10D0, 0x10DD, 0x10DD, 0x10D2
    }; /* OpenCL's, as PTX wants */
    static const uint8_t addresses[] = { [SG_WRAP] = PTX_ADDRESS_WRAP,
                                         [SG_CLAMP] = PTX_ADDRESS_CLAMP_TO_EDGE,
                                         [SG_MIRROR] = PTX_ADDRESS_MIRROR,
                                         [SG_BORDER] = PTX_ADDRESS_CLAMP_TO_BORDER,
                                         [SG_CLAMP_OGL] = PTX_ADDRESS_CLAMP_OGL };
    switch (q) {
    case QUERY_WIDTH: return t->width;
    case QUERY_HEIGHT: return t->height;
    case QUERY_DEPTH: return t->depth;
    case QUERY_LAYERS: return t->layered ? t->layers : 0;
    case QUERY_LINEAR_MEMORY: return t->linear_memory;
    case QUERY_LEVELS: return t->levels;
    case QUERY_SAMPLES: return 0; /* CUDA has no textures of several samples */
    case QUERY_CHANNELS_TYPE: return types[t->format];
    case QUERY_CHANNELS_ORDER:
        return t->channels == 1 ? 0x10B0 : t->channels == 2 ? 0x10B2 : t->channels == 3 ? 0x10B4 : 0x10B5;
    case QUERY_NORMALIZED: return t->normalized;
    case QUERY_UNNORMALIZED: return t->unnormalized;
    case QUERY_FILTER: return t->linear_filter;
    default: return addresses[t->wrap[q - QUERY_WRAP_0]];
    }
}

/* kind: of a surface. A sampler, and a texture for its sampler, answer the same questions. */
static void run_query(struct exec_warp *w, const struct exec_insn *i)
{
    const struct question *a = i->extra;
    struct texture_object o = { .known = false };
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        const bool sampler = texture_look_up(w, i->s[0], l, &o) && o.t.sampler && a->query >= QUERY_UNNORMALIZED;
        if (!sampler && !texture_find(w, i, l, i->kind, &o))
            return;
        if (!a->levels) {
            put(w, a, l, answer(&o.t, a->query));
            continue;
        }
        const uint32_t level = ((const uint32_t *)exec_row(w, a->level))[l], count = o.t.levels ? o.t.levels : 1;
        const struct sg_texture at = level < count ? sg_texture_level(&o.t, level) : (struct sg_texture){ .width = 0 };
        put(w, a, l, answer(&at, a->query));
    }
}

/* kind: enum ptx_type of the opaque variable. An object counts as one. */
static void run_is_type(struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t yes = 0;
    struct texture_object o = { .known = false };
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (texture_look_up(w, i->s[0], l, &o) && i->kind == (o.t.sampler   ? PTX_SAMPLERREF
                                                              : o.t.surface ? PTX_SURFREF
                                                                            : PTX_TEXREF))
            yes |= 1u << l;
    }
    exec_pred_write(w, i->p, yes);
}

/* ---- decoding ---- */

static const char *const queries[] = {
    [QUERY_WIDTH] = "width",
    [QUERY_HEIGHT] = "height",
    [QUERY_DEPTH] = "depth",
    [QUERY_LAYERS] = "array_size",
    [QUERY_CHANNELS_TYPE] = "channel_data_type",
    [QUERY_CHANNELS_ORDER] = "channel_order",
    [QUERY_LINEAR_MEMORY] = "memory_layout",
    [QUERY_LEVELS] = "num_mipmap_levels",
    [QUERY_SAMPLES] = "num_samples",
    [QUERY_NORMALIZED] = "normalized_coords",
    [QUERY_UNNORMALIZED] = "force_unnormalized_coords",
    [QUERY_FILTER] = "filter_mode",
    [QUERY_WRAP_0] = "addr_mode_0",
    [QUERY_WRAP_1] = "addr_mode_1",
    [QUERY_WRAP_2] = "addr_mode_2",
};

/* [handle], the operand of a query. */
static int decode_asked(struct exec_decoder *d, const struct ptx_operand *o, enum query query, struct exec_insn *n)
{
    struct ptx_operand handle = *o;
    handle.kind = o->has_variable ? PTX_OP_VARIABLE : PTX_OP_REGISTER;
    if (o->kind != PTX_OP_MEMORY || o->has_register == o->has_variable || o->integer)
        return decode_error(d, "neither a handle in a register nor a texture, sampler or surface reference");
    if (query == QUERY_UNNORMALIZED && !d->module->texmode_independent)
        return decode_error(d, "force_unnormalized_coords is asked of samplers, which need texmode_independent");
    return decode_texture_handle(d, &handle, query >= QUERY_UNNORMALIZED && d->module->texmode_independent, &n->s[0]);
}

/* The register of the answer: 32 bits, or more. */
static int decode_answer(struct exec_decoder *d, const struct ptx_operand *o, struct question *a)
{
    enum ptx_type declared;
    if (decode_destination(d, o, PTX_B32, &a->to, &declared))
        return -1;
    if (ptx_type_size(declared) != 4 && ptx_type_size(declared) != 8)
        return decode_error(d, "a register of type %s for an answer of 32 bits", ptx_type_name(declared));
    a->wide = ptx_type_size(declared) == 8;
    return 0;
}

static int decode_query(struct exec_decoder *d)
{
    struct exec_insn n = { .run = run_query, .kind = !strcmp(d->in->opcode, "suq") };
    struct question *a = exec_kernel_own(d->kernel, sizeof *a);
    if (!a)
        return decode_error(d, "no host memory");
    while (a->query < QUERY_NONE && !decode_has(d, queries[a->query]))
        a->query++;
    a->levels = decode_has(d, "level");
    if (a->query == QUERY_NONE || d->in->operand_count != 2u + a->levels ||
        (n.kind ? a->query > QUERY_LINEAR_MEMORY : a->query == QUERY_LINEAR_MEMORY) ||
        (a->levels && (n.kind || a->query > QUERY_DEPTH)))
        return decode_error(d, "a query that is not answered here");
    if (decode_asked(d, &d->in->operands[1], a->query, &n) ||
        (a->levels && decode_source(d, &d->in->operands[2], PTX_B32, &a->level)) ||
        decode_answer(d, &d->in->operands[0], a))
        return -1;
    n.extra = a;
    return decode_put_guarded(d, n);
}

/* istypep.type p, address. */
static int decode_is_type(struct exec_decoder *d)
{
    struct exec_insn n = { .run = run_is_type,
                           .kind = decode_has(d, "texref")       ? PTX_TEXREF
                                   : decode_has(d, "samplerref") ? PTX_SAMPLERREF
                                   : decode_has(d, "surfref")    ? PTX_SURFREF
                                                                 : PTX_NONE };
    if (n.kind == PTX_NONE || d->in->operand_count != 2)
        return decode_error(d, "operands");
    return decode_predicate_destination(d, &d->in->operands[0], &n.p) ||
                   decode_source(d, &d->in->operands[1], PTX_B64, &n.s[0])
               ? -1
               : decode_put_guarded(d, n);
}

const struct decode_entry decode_texture_query_table[] = {
    { "txq", decode_query }, { "suq", decode_query }, { "istypep", decode_is_type }, { NULL, NULL }
};
