/* texref.c: texture and surface references. See texref.h. Twin: cpu/client/core/code/texref.c. */
#include "cpu/server/code/texref.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/server/code/code.h"
#include "cpu/server/memory/object.h"

struct binding {
    unsigned references;   /* the texref's, and launches' */
    struct texref *texref; /* which launches may use: they hold the module */
    texref_set_args state; /* without the name */
};

struct texref {
    struct texref *next; /* of the module */
    char *name;
    bool surface;
    void *handle;                  /* CUtexref or CUsurfref */
    struct binding *now;           /* NULL: the client has never set it */
    const struct binding *applied; /* what the driver knows; only compared, while `now` or a launch has it */
};

struct texref_bindings {
    unsigned count;
    struct binding *at[];
};

static void binding_drop(struct binding *binding)
{
    if (!binding || --binding->references)
        return;
    if (binding->texref->applied == binding)
        binding->texref->applied = NULL; /* another one may get its address */
    free(binding);
}

/* ---- the references of a module ---- */

static CUresult ask(struct session *session, const struct module *module, const char *name, bool surface, void **handle)
{
    const struct gpu *gpu = session->gpu;
    if (surface ? !gpu->ModuleGetSurfRef || !gpu->SurfRefSetArray : !gpu->ModuleGetTexRef || !gpu->TexRefSetArray)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = context_use(session, module->context);
    if (r != CUDA_SUCCESS)
        return r;
    return surface ? gpu->ModuleGetSurfRef((CUsurfref *)handle, module->handle, name)
                   : gpu->ModuleGetTexRef((CUtexref *)handle, module->handle, name);
}

static CUresult texref_find(struct session *session, uint32_t id, const char *name, bool surface, struct texref **out)
{
    struct module *module = id_map_find(session->ids[KIND_MODULE], id);
    if (!module || module->state == CODE_LOADING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (module->state == CODE_FAILED)
        return module->result;
    for (struct texref *t = module->texrefs; t; t = t->next)
        if (t->surface == surface && strcmp(t->name, name) == 0) {
            *out = t;
            return CUDA_SUCCESS;
        }
    void *handle;
    CUresult r = ask(session, module, name, surface, &handle);
    if (r != CUDA_SUCCESS)
        return r;
    struct texref *t = calloc(1, sizeof *t);
    if (!t || !(t->name = strdup(name))) {
        free(t);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    t->surface = surface;
    t->handle = handle;
    t->next = module->texrefs;
    module->texrefs = t;
    *out = t;
    return CUDA_SUCCESS;
}

void texrefs_free(struct texref *texref)
{
    while (texref) {
        struct texref *next = texref->next;
        binding_drop(texref->now);
        free(texref->name);
        free(texref);
        texref = next;
    }
}

void serve_texref_find(struct session *session, struct call *call)
{
    const texref_find_args *args = &call->args.texref_find;
    plain_result result = { .head = { 0 } };
    struct texref *texref;
    CUresult r = texref_find(session, args->module, args->name, args->surface != 0, &texref);
    session_reply(session, call->xid, (xdrproc_t)xdr_plain_result, &result, r, false);
}

void serve_texref_set(struct session *session, struct call *call)
{
    const texref_set_args *args = &call->args.texref_set;
    struct texref *texref;
    CUresult r = texref_find(session, args->module, args->name, args->surface != 0, &texref);
    struct binding *binding = r == CUDA_SUCCESS ? malloc(sizeof *binding) : NULL;
    if (r == CUDA_SUCCESS && !binding)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        call_fail(session, call, r);
        return;
    }
    *binding = (struct binding){ 1, texref, *args };
    binding->state.name = NULL;
    binding_drop(texref->now);
    texref->now = binding;
}

/* ---- what a launch keeps ---- */

struct texref_bindings *texref_bindings_take(const struct module *module)
{
    unsigned count = 0;
    for (const struct texref *t = module->texrefs; t; t = t->next)
        count += t->now != NULL;
    struct texref_bindings *bindings = malloc(sizeof *bindings + count * sizeof bindings->at[0]);
    if (!bindings)
        return NULL;
    bindings->count = 0;
    for (const struct texref *t = module->texrefs; t; t = t->next)
        if (t->now) {
            t->now->references++;
            bindings->at[bindings->count++] = t->now;
        }
    return bindings;
}

void texref_bindings_drop(struct texref_bindings *bindings)
{
    for (unsigned i = 0; bindings && i < bindings->count; i++)
        binding_drop(bindings->at[i]);
    free(bindings);
}

/* ---- to the driver ---- */

static CUresult apply_surface(struct session *session, CUsurfref handle, const texref_set_args *state)
{
    uint64_t array = object_handle(session, KIND_ARRAY, state->array);
    return array ? session->gpu->SurfRefSetArray(handle, (CUarray)(uintptr_t)array, 0) : CUDA_SUCCESS;
}

static CUresult apply_sampler(const struct gpu *gpu, CUtexref handle, const texref_set_args *state)
{
    bool border = false;
    CUresult r = gpu->TexRefSetFlags(handle, state->flags);
    for (int i = 0; i < FLYT_TEXREF_DIMENSIONS && r == CUDA_SUCCESS; i++) {
        r = gpu->TexRefSetAddressMode(handle, i, (CUaddress_mode)state->wrap[i]);
        border |= state->wrap[i] == CU_TR_ADDRESS_MODE_BORDER;
    }
    if (r == CUDA_SUCCESS)
        r = gpu->TexRefSetFilterMode(handle, (CUfilter_mode)state->filter);
    if (r == CUDA_SUCCESS && state->anisotropy && gpu->TexRefSetMaxAnisotropy)
        r = gpu->TexRefSetMaxAnisotropy(handle, state->anisotropy);
    if (r == CUDA_SUCCESS && border && gpu->TexRefSetBorderColor) {
        float color[FLYT_TEXREF_COLORS];
        memcpy(color, state->border, sizeof color);
        r = gpu->TexRefSetBorderColor(handle, color);
    }
    return r;
}

static CUresult apply_levels(const struct gpu *gpu, CUtexref handle, const texref_set_args *state)
{
    CUresult r = gpu->TexRefSetMipmapFilterMode(handle, (CUfilter_mode)state->level_filter);
    if (r == CUDA_SUCCESS)
        r = gpu->TexRefSetMipmapLevelBias(handle, state->bias);
    return r == CUDA_SUCCESS ? gpu->TexRefSetMipmapLevelClamp(handle, state->least, state->most) : r;
}

/* An array that has ended meanwhile: the driver keeps what it knows. */
static CUresult apply_resource(struct session *session, CUtexref handle, const texref_set_args *state)
{
    const struct gpu *gpu = session->gpu;
    uint64_t array;
    size_t offset;
    CUresult r;
    switch (state->resource) {
    case FLYT_TEXREF_ARRAY:
        array = object_handle(session, KIND_ARRAY, state->array);
        return array ? gpu->TexRefSetArray(handle, (CUarray)(uintptr_t)array, CU_TRSA_OVERRIDE_FORMAT) : CUDA_SUCCESS;
    case FLYT_TEXREF_MIPMAP:
        array = object_handle(session, KIND_MIPMAP, state->array);
        if (!array)
            return CUDA_SUCCESS;
        r = apply_levels(gpu, handle, state);
        return r ? r
                 : gpu->TexRefSetMipmappedArray(handle, (CUmipmappedArray)(uintptr_t)array, CU_TRSA_OVERRIDE_FORMAT);
    case FLYT_TEXREF_LINEAR:
        r = gpu->TexRefSetFormat(handle, (CUarray_format)state->format, (int)state->channels);
        return r ? r : gpu->TexRefSetAddress(&offset, handle, state->address, state->bytes);
    case FLYT_TEXREF_PITCH2D: {
        const CUDA_ARRAY_DESCRIPTOR shape = { .Width = state->width,
                                              .Height = state->height,
                                              .Format = (CUarray_format)state->format,
                                              .NumChannels = state->channels };
        return gpu->TexRefSetAddress2D(handle, &shape, state->address, state->pitch);
    }
    default: return gpu->TexRefSetAddress(NULL, handle, 0, 0); /* as NVIDIA's runtime unbinds */
    }
}

/* The driver has these functions, or none of them (ask). */
static CUresult apply(struct session *session, const struct binding *binding)
{
    const texref_set_args *state = &binding->state;
    struct texref *texref = binding->texref;
    if (texref->surface)
        return apply_surface(session, texref->handle, state);
    CUresult r = apply_sampler(session->gpu, texref->handle, state);
    return r ? r : apply_resource(session, texref->handle, state);
}

CUresult texref_bindings_apply(struct session *session, const struct texref_bindings *bindings)
{
    CUresult r = CUDA_SUCCESS;
    for (unsigned i = 0; i < bindings->count && r == CUDA_SUCCESS; i++) {
        struct texref *texref = bindings->at[i]->texref;
        if (texref->applied == bindings->at[i])
            continue;
        r = apply(session, bindings->at[i]);
        texref->applied = r == CUDA_SUCCESS ? bindings->at[i] : NULL;
    }
    return r;
}
