/*
 * texref.c: chapters "Texture Reference Management" and "Surface Reference Management", and what finds references in
 * modules. What the calls keep and refuse is in cpu/common/texref.c; the core informs the server before the next
 * launch.
 */
#include "cpu/client/core/code/texref.h"
#include "cpu/client/driver/driver.h"

enum { PARAM_TR_DEFAULT = -1 }; /* CU_PARAM_TR_DEFAULT */

/* ---- handles ---- */

static int of_module(core_texref **out, CUmodule handle, const char *name, bool surface)
{
    core_context *context;
    core_image *image;
    int error = driver_ready();
    if (!error && (!out || !name))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = driver_module_image(handle, &context, &image);
    if (!error)
        error = core_texref_find(context, image, name, surface, out);
    if (error == CUDA_ERROR_NOT_SUPPORTED)
        core_unsupported(surface ? "cuModuleGetSurfRef, with this driver," : "cuModuleGetTexRef, with this driver,");
    return error;
}

CUresult driver_cuModuleGetTexRef(CUtexref *out, CUmodule module, const char *name)
{
    return driver_waited(of_module(out, module, name, false));
}

CUresult driver_cuModuleGetSurfRef(CUsurfref *out, CUmodule module, const char *name)
{
    return driver_waited(of_module(out, module, name, true));
}

static int create(CUtexref *out)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : core_texref_create(context, out);
}

CUresult driver_cuTexRefCreate(CUtexref *out) { return driver_waited(create(out)); }

static int destroy(CUtexref texref)
{
    core_context *context;
    int error = driver_enter(&context);
    return error ? error : core_texref_destroy(texref);
}

CUresult driver_cuTexRefDestroy(CUtexref texref) { return driver_local(destroy(texref)); }

/* ---- binding ---- */

CUresult driver_cuTexRefSetArray(CUtexref texref, CUarray array, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(error ? error : core_texref_set_array(texref, TEXREF_ARRAY, array, flags));
}

CUresult driver_cuTexRefSetMipmappedArray(CUtexref texref, CUmipmappedArray mipmap, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(error ? error : core_texref_set_array(texref, TEXREF_MIPMAP, mipmap, flags));
}

CUresult driver_cuTexRefSetAddress_v2(size_t *offset, CUtexref texref, CUdeviceptr address, size_t bytes)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(error ? error : core_texref_set_address(texref, address, bytes, offset));
}

static int set_address_2d(CUtexref texref, const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr address, size_t pitch)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !shape)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error
                 : core_texref_set_address_2d(texref, address, (int)shape->Format, shape->NumChannels, shape->Width,
                                              shape->Height, pitch);
}

CUresult driver_cuTexRefSetAddress2D_v3(CUtexref texref, const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr address,
                                        size_t pitch)
{
    return driver_local(set_address_2d(texref, shape, address, pitch));
}

/* Of CUDA 3.2 to 4.0. */
CUresult driver_cuTexRefSetAddress2D_v2(CUtexref texref, const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr address,
                                        size_t pitch)
{
    return driver_local(set_address_2d(texref, shape, address, pitch));
}

CUresult driver_cuSurfRefSetArray(CUsurfref surfref, CUarray array, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(error ? error : core_texref_set_surface(surfref, array, flags));
}

/* ---- reading and asking ---- */

static CUresult texref_enter(void *texref, bool surface, struct texref_state **state)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !(*state = core_texref_open(texref, surface, &context)))
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? driver_local(error) : CUDA_SUCCESS;
}

static CUresult texref_changed(void *texref, int error)
{
    core_texref_close(texref, !error);
    return driver_local(error);
}

static CUresult texref_asked(void *texref, int error)
{
    core_texref_close(texref, false);
    return driver_local(error);
}

#define TEXREF_CALL(name) driver_##name
#include "cpu/common/texref_calls.h"

/* A launch takes what all references of its module are bound to, so this has nothing left to do. */
CUresult driver_cuParamSetTexRef(CUfunction function, int unit, CUtexref texref)
{
    struct texref_state *state;
    int error = core_function_check(function, NULL, NULL);
    if (error)
        return driver_local(error);
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, unit == PARAM_TR_DEFAULT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
