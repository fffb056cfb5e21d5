/* array.c: CUDA reference: Memory Management, cuArrayCreate, cuMipmappedArrayCreate and their like. Arrays themselves:
   softgpu/driver/machine/array.c. */
#include "softgpu/driver/calls/calls.h"

CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = out && wanted ? sgd_array_new(c, wanted, out) : CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *wanted)
{
    if (!wanted)
        return cuArray3DCreate_v2(out, NULL);
    CUDA_ARRAY3D_DESCRIPTOR same = {
        .Width = wanted->Width, .Height = wanted->Height, .Format = wanted->Format, .NumChannels = wanted->NumChannels
    };
    return cuArray3DCreate_v2(out, &same);
}

/* Waits for the context, as freeing memory does. */
CUresult cuArrayDestroy(CUarray handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_array *a = sgd_array_get(handle);
    if (a && a->owner)                                   /* a level goes with the whole */
        a = NULL;
    r = a ? sgd_context_wait(a->context) : CUDA_ERROR_INVALID_HANDLE;
    a = sgd_array_get(handle);                           /* another thread may have destroyed it meanwhile */
    if (!r && a)
        sgd_array_destroy(a);
    sgd_leave();
    return r;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray handle)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const struct sgd_array *a = sgd_array_get(handle);
    r = !a ? CUDA_ERROR_INVALID_HANDLE : !out ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (!r)
        *out = a->description;
    sgd_leave();
    return r;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray handle)
{
    CUDA_ARRAY3D_DESCRIPTOR whole;
    CUresult r = cuArray3DGetDescriptor_v2(out ? &whole : NULL, handle);
    if (!r)
        *out = (CUDA_ARRAY_DESCRIPTOR){
            .Width = whole.Width, .Height = whole.Height, .Format = whole.Format, .NumChannels = whole.NumChannels
        };
    return r;
}

/* ---- mipmapped arrays ---- */

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = out && wanted ? sgd_mipmap_new(c, wanted, levels, out) : CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle, unsigned level)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const struct sgd_mipmap *m = sgd_mipmap_get(handle);
    if (!m)
        r = CUDA_ERROR_INVALID_HANDLE;
    else if (!out || level >= m->texture.levels)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *out = m->level[level]->handle;
    sgd_leave();
    return r;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_mipmap *m = sgd_mipmap_get(handle);
    r = m ? sgd_context_wait(m->context) : CUDA_ERROR_INVALID_HANDLE;
    m = sgd_mipmap_get(handle);                          /* another thread may have destroyed it meanwhile */
    if (!r && m)
        sgd_mipmap_destroy(m);
    sgd_leave();
    return r;
}
