/*
 * texref.c: the texture, sampler and surface references of a module: its variables of type .texref, .samplerref and
 * .surfref, as the initialisers of the PTX make them. What CUDA leaves open is chosen as for a new texture reference: a
 * sampler that says nothing clamps to the edge and takes the nearest texel.
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

static bool is_reference(const struct sgd_module *m, const struct ptx_module *ptx, uint32_t i)
{
    const enum ptx_type type = ptx->variables[i].type;
    return m->addresses[i] && (type == PTX_TEXREF || type == PTX_SAMPLERREF || type == PTX_SURFREF);
}

/* What the variable's initialiser says. */
static struct ptx_opaque opaque_of(const struct ptx_variable *v)
{
    struct ptx_opaque o = { .given = 0 };
    if (v->init)
        memcpy(&o, v->init, sizeof o);
    return o;
}

static bool gives_address(const struct ptx_opaque *o, int k) { return o->given & PTX_GIVEN_ADDRESS_0 << k; }

static struct sg_texture sampler_of(const struct ptx_variable *v)
{
    static const uint8_t wraps[] = { [PTX_ADDRESS_WRAP] = SG_WRAP,
                                     [PTX_ADDRESS_MIRROR] = SG_MIRROR,
                                     [PTX_ADDRESS_CLAMP_OGL] = SG_CLAMP_OGL,
                                     [PTX_ADDRESS_CLAMP_TO_EDGE] = SG_CLAMP,
                                     [PTX_ADDRESS_CLAMP_TO_BORDER] = SG_BORDER };
    const struct ptx_opaque o = opaque_of(v);
    struct sg_texture s = { .channels = 1, .sampler = true, .linear_filter = o.linear, .unnormalized = o.unnormalized };
    for (int k = 0; k < 3; k++)
        s.wrap[k] = gives_address(&o, k) ? wraps[o.address[k]] : SG_CLAMP;
    return s;
}

/* CUDA has no clamp_ogl; such a reference clamps to the edge. */
static void begin(struct texref_state *s, const struct ptx_variable *v)
{
    static const uint8_t modes[] = { [PTX_ADDRESS_WRAP] = CU_TR_ADDRESS_MODE_WRAP,
                                     [PTX_ADDRESS_MIRROR] = CU_TR_ADDRESS_MODE_MIRROR,
                                     [PTX_ADDRESS_CLAMP_OGL] = CU_TR_ADDRESS_MODE_CLAMP,
                                     [PTX_ADDRESS_CLAMP_TO_EDGE] = CU_TR_ADDRESS_MODE_CLAMP,
                                     [PTX_ADDRESS_CLAMP_TO_BORDER] = CU_TR_ADDRESS_MODE_BORDER };
    const struct ptx_opaque o = opaque_of(v);
    texref_begin(s, v->type == PTX_SURFREF);
    if (o.normalized)
        s->flags |= CU_TRSF_NORMALIZED_COORDINATES;
    if (o.linear)
        s->filter = CU_TR_FILTER_MODE_LINEAR;
    for (int k = 0; k < 3; k++)
        if (gives_address(&o, k))
            s->wrap[k] = modes[o.address[k]];
}

bool sgd_texrefs_begin(struct sgd_module *m, const struct ptx_module *ptx)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    uint32_t count = 0;
    for (uint32_t i = 0; i < ptx->variable_count; i++)
        count += is_reference(m, ptx, i);
    if (!count)
        return true;
    m->texrefs = calloc(count, sizeof *m->texrefs);
    for (uint32_t i = 0; m->texrefs && i < ptx->variable_count; i++) {
        if (!is_reference(m, ptx, i))
            continue;
        struct sgd_texref *t = &m->texrefs[m->texref_count++];
        t->address = m->addresses[i];
        t->name = ptx->variables[i].name;
        t->is_sampler = ptx->variables[i].type == PTX_SAMPLERREF;
        if (t->is_sampler)
            t->sampler = sampler_of(&ptx->variables[i]);
        else
            begin(&t->state, &ptx->variables[i]);
    }
    return m->texrefs != NULL;
}

void sgd_texrefs_end(struct sgd_module *m)
{
    for (uint32_t i = 0; i < m->texref_count; i++)
        if (m->texrefs[i].handle)
            sgd_handle_drop(m->texrefs[i].handle);
    free(m->texrefs);
    m->texrefs = NULL;
    m->texref_count = 0;
}

struct sgd_texref *sgd_texref_find(struct sgd_module *m, const char *name, bool surface)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    for (uint32_t i = 0; i < m->texref_count; i++)
        if (!m->texrefs[i].is_sampler && m->texrefs[i].state.surface == surface && !strcmp(m->texrefs[i].name, name))
            return &m->texrefs[i];
    return NULL;
}
