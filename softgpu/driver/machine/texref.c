/* texref.c: the texture and surface references of a module: its variables of type .texref and .surfref. */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

static bool is_reference(const struct sgd_module *m, const struct ptx_module *ptx, uint32_t i)
{
    return m->addresses[i] && (ptx->variables[i].type == PTX_TEXREF || ptx->variables[i].type == PTX_SURFREF);
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
        texref_begin(&t->state, ptx->variables[i].type == PTX_SURFREF);
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
        if (m->texrefs[i].state.surface == surface && !strcmp(m->texrefs[i].name, name))
            return &m->texrefs[i];
    return NULL;
}
