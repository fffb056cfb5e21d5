/*
 * texref_calls.h: the calls that change or return how a reference reads texels: code, which each of the two drivers has
 * once. The file that includes it has included its cuda.h and texref.h, and defines:
 *
 *   TEXREF_CALL(name)   the name under which it implements a call
 *   CUresult texref_enter(void *handle, bool surface, struct texref_state **)
 *                       Finds the state of such a reference. An error is the call's result.
 *   CUresult texref_changed(void *handle, int code), texref_asked(void *handle, int code)
 *                       One of them ends what texref_enter began; `code` is the call's result.
 */

/* ---- reading ---- */

CUresult TEXREF_CALL(cuTexRefSetFormat)(CUtexref texref, CUarray_format format, int channels)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_format(state, (int)format, channels));
}

CUresult TEXREF_CALL(cuTexRefSetAddressMode)(CUtexref texref, int dimension, CUaddress_mode mode)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_wrap(state, dimension, (int)mode));
}

CUresult TEXREF_CALL(cuTexRefSetFilterMode)(CUtexref texref, CUfilter_mode mode)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_filter(&state->filter, (int)mode));
}

CUresult TEXREF_CALL(cuTexRefSetMipmapFilterMode)(CUtexref texref, CUfilter_mode mode)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_filter(&state->level_filter, (int)mode));
}

CUresult TEXREF_CALL(cuTexRefSetMipmapLevelBias)(CUtexref texref, float bias)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_bias(state, bias));
}

CUresult TEXREF_CALL(cuTexRefSetMipmapLevelClamp)(CUtexref texref, float least, float most)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_levels(state, least, most));
}

CUresult TEXREF_CALL(cuTexRefSetMaxAnisotropy)(CUtexref texref, unsigned most)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_anisotropy(state, most));
}

CUresult TEXREF_CALL(cuTexRefSetBorderColor)(CUtexref texref, float *color)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_border(state, color));
}

CUresult TEXREF_CALL(cuTexRefSetFlags)(CUtexref texref, unsigned flags)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_changed(texref, texref_set_flags(state, flags));
}

/* ---- asking ---- */

static int texref_address(const struct texref_state *state, CUdeviceptr *out)
{
    uint64_t address;
    int code = out ? texref_get_address(state, &address) : CUDA_ERROR_INVALID_VALUE;
    if (!code)
        *out = address;
    return code;
}

static int texref_array(const struct texref_state *state, CUarray *out)
{
    uint64_t array;
    int code = out ? texref_get_array(state, TEXREF_ARRAY, &array) : CUDA_ERROR_INVALID_VALUE;
    if (!code)
        *out = (CUarray)(uintptr_t)array;
    return code;
}

static int texref_mipmap(const struct texref_state *state, CUmipmappedArray *out)
{
    uint64_t array;
    int code = out ? texref_get_array(state, TEXREF_MIPMAP, &array) : CUDA_ERROR_INVALID_VALUE;
    if (!code)
        *out = (CUmipmappedArray)(uintptr_t)array;
    return code;
}

static int texref_wrap(const struct texref_state *state, int dimension, CUaddress_mode *out)
{
    int mode, code = out ? texref_get_wrap(state, dimension, &mode) : CUDA_ERROR_INVALID_VALUE;
    if (!code)
        *out = (CUaddress_mode)mode;
    return code;
}

CUresult TEXREF_CALL(cuTexRefGetAddress_v2)(CUdeviceptr *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_address(state, out));
}

CUresult TEXREF_CALL(cuTexRefGetArray)(CUarray *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_array(state, out));
}

CUresult TEXREF_CALL(cuTexRefGetMipmappedArray)(CUmipmappedArray *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_mipmap(state, out));
}

CUresult TEXREF_CALL(cuSurfRefGetArray)(CUarray *out, CUsurfref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, true, &state);
    return code ? code : texref_asked(texref, texref_array(state, out));
}

CUresult TEXREF_CALL(cuTexRefGetAddressMode)(CUaddress_mode *out, CUtexref texref, int dimension)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_wrap(state, dimension, out));
}

CUresult TEXREF_CALL(cuTexRefGetFilterMode)(CUfilter_mode *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_tell((int *)out, state->filter));
}

CUresult TEXREF_CALL(cuTexRefGetMipmapFilterMode)(CUfilter_mode *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_tell((int *)out, state->level_filter));
}

CUresult TEXREF_CALL(cuTexRefGetFormat)(CUarray_format *format, int *channels, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_get_format(state, (int *)format, channels));
}

CUresult TEXREF_CALL(cuTexRefGetMipmapLevelBias)(float *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_tell_float(out, state->bias));
}

CUresult TEXREF_CALL(cuTexRefGetMipmapLevelClamp)(float *least, float *most, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_get_levels(state, least, most));
}

CUresult TEXREF_CALL(cuTexRefGetMaxAnisotropy)(int *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_tell(out, (int)state->anisotropy));
}

CUresult TEXREF_CALL(cuTexRefGetBorderColor)(float *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_get_border(state, out));
}

CUresult TEXREF_CALL(cuTexRefGetFlags)(unsigned *out, CUtexref texref)
{
    struct texref_state *state;
    CUresult code = texref_enter(texref, false, &state);
    return code ? code : texref_asked(texref, texref_tell((int *)out, (int)state->flags));
}
