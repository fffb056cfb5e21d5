/*
 * texref.c: chapters "Texture Reference Management" and "Surface Reference Management", and what finds references in
 * modules. What the calls keep and refuse is in cpu/common/texref.c; the core tells the server before the next launch.
 */
#include "cpu/client/core/texref.h"
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

/* Such a reference's state and context. After 0 the caller ends with changed() or asked(). */
static int begin(core_texref *texref, bool surface, core_context **context, struct texref_state **state)
{
    int error = driver_enter(context);
    if (!error && !(*state = core_texref_open(texref, surface, context)))
        error = CUDA_ERROR_INVALID_VALUE;
    return error;
}

static CUresult changed(core_texref *texref, int error)
{
    core_texref_close(texref, !error);
    return driver_local(error);
}

static CUresult asked(core_texref *texref, int error)
{
    core_texref_close(texref, false);
    return driver_local(error);
}

static int texture(CUtexref texref, struct texref_state **state)
{
    core_context *context;
    return begin(texref, false, &context, state);
}

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

/* ---- reading ---- */

CUresult driver_cuTexRefSetFormat(CUtexref texref, CUarray_format format, int channels)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_format(state, (int)format, channels));
}

CUresult driver_cuTexRefSetAddressMode(CUtexref texref, int dimension, CUaddress_mode mode)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_wrap(state, dimension, (int)mode));
}

CUresult driver_cuTexRefSetFilterMode(CUtexref texref, CUfilter_mode mode)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_filter(&state->filter, (int)mode));
}

CUresult driver_cuTexRefSetMipmapFilterMode(CUtexref texref, CUfilter_mode mode)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_filter(&state->level_filter, (int)mode));
}

CUresult driver_cuTexRefSetMipmapLevelBias(CUtexref texref, float bias)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_bias(state, bias));
}

CUresult driver_cuTexRefSetMipmapLevelClamp(CUtexref texref, float least, float most)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_levels(state, least, most));
}

CUresult driver_cuTexRefSetMaxAnisotropy(CUtexref texref, unsigned most)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_anisotropy(state, most));
}

CUresult driver_cuTexRefSetBorderColor(CUtexref texref, float *color)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_border(state, color));
}

CUresult driver_cuTexRefSetFlags(CUtexref texref, unsigned flags)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : changed(texref, texref_set_flags(state, flags));
}

/* A launch takes what all references of its module are bound to, so this has nothing left to do. */
static int param_set(core_function *function, int unit, core_texref *texref)
{
    struct texref_state *state;
    int error = core_function_check(function, NULL, NULL);
    if (!error)
        error = texture(texref, &state);
    if (error)
        return error;
    core_texref_close(texref, false);
    return unit == PARAM_TR_DEFAULT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuParamSetTexRef(CUfunction function, int unit, CUtexref texref)
{
    return driver_local(param_set(function, unit, texref));
}

/* ---- asking ---- */

static int get_array(const struct texref_state *state, enum texref_resource resource, uint64_t *out)
{
    return out ? texref_get_array(state, resource, out) : CUDA_ERROR_INVALID_VALUE;
}

static int get_address(const struct texref_state *state, CUdeviceptr *out)
{
    uint64_t address;
    int error = out ? texref_get_address(state, &address) : CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *out = address;
    return error;
}

static int get_wrap(const struct texref_state *state, int dimension, CUaddress_mode *out)
{
    int mode, error = out ? texref_get_wrap(state, dimension, &mode) : CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *out = (CUaddress_mode)mode;
    return error;
}

CUresult driver_cuTexRefGetAddress_v2(CUdeviceptr *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, get_address(state, out));
}

CUresult driver_cuTexRefGetArray(CUarray *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, get_array(state, TEXREF_ARRAY, out));
}

CUresult driver_cuTexRefGetMipmappedArray(CUmipmappedArray *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, get_array(state, TEXREF_MIPMAP, out));
}

CUresult driver_cuSurfRefGetArray(CUarray *out, CUsurfref surfref)
{
    core_context *context;
    struct texref_state *state;
    int error = begin(surfref, true, &context, &state);
    return error ? driver_local(error) : asked(surfref, get_array(state, TEXREF_ARRAY, out));
}

CUresult driver_cuTexRefGetAddressMode(CUaddress_mode *out, CUtexref texref, int dimension)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, get_wrap(state, dimension, out));
}

CUresult driver_cuTexRefGetFilterMode(CUfilter_mode *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_tell((int *)out, state->filter));
}

CUresult driver_cuTexRefGetMipmapFilterMode(CUfilter_mode *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_tell((int *)out, state->level_filter));
}

CUresult driver_cuTexRefGetFormat(CUarray_format *format, int *channels, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_get_format(state, (int *)format, channels));
}

CUresult driver_cuTexRefGetMipmapLevelBias(float *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_tell_float(out, state->bias));
}

CUresult driver_cuTexRefGetMipmapLevelClamp(float *least, float *most, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_get_levels(state, least, most));
}

CUresult driver_cuTexRefGetMaxAnisotropy(int *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_tell(out, (int)state->anisotropy));
}

CUresult driver_cuTexRefGetBorderColor(float *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_get_border(state, out));
}

CUresult driver_cuTexRefGetFlags(unsigned *out, CUtexref texref)
{
    struct texref_state *state;
    int error = texture(texref, &state);
    return error ? driver_local(error) : asked(texref, texref_tell((int *)out, (int)state->flags));
}
