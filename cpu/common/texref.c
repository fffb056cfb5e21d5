/* texref.c: the state of texture and surface references. See texref.h. */
#include "cpu/common/texref.h"

#include <float.h>
#include <string.h>

#include "cpu/common/texel.h"

enum { SUCCESS = 0, INVALID_VALUE = 1 };
enum { OVERRIDE_FORMAT = 1 };
enum { READ_AS_INTEGER = 1, NORMALIZED = 2, SRGB = 0x10, NO_TRILINEAR_OPTIMIZATION = 0x20, SEAMLESS = 0x40 };
enum { FORMAT_FLOAT = 32, CLAMP = 1, BORDER = 3, LINEAR_FILTER = 1 };

void texref_begin(struct texref_state *state, bool surface)
{
    *state = (struct texref_state){ .surface = surface,
                                    .resource = TEXREF_UNBOUND,
                                    .format = FORMAT_FLOAT,
                                    .channels = 1,
                                    .wrap = { CLAMP, CLAMP, CLAMP },
                                    .most = FLT_MAX };
}

static void texref_unbind(struct texref_state *state)
{
    state->resource = TEXREF_UNBOUND;
    state->array = state->address = state->bytes = state->width = state->height = state->pitch = state->offset = 0;
}

int texref_set_array(struct texref_state *state, enum texref_resource resource, uint64_t array, int format,
                     unsigned channels, unsigned flags)
{
    if (flags & ~(unsigned)OVERRIDE_FORMAT)
        return INVALID_VALUE;
    texref_unbind(state);
    state->resource = resource;
    state->array = array;
    state->format = format;
    state->channels = channels;
    return SUCCESS;
}

int texref_set_address(struct texref_state *state, const struct texref_limits *limits, uint64_t address, uint64_t bytes,
                       size_t *offset)
{
    uint64_t texel = texel_size(state->format, state->channels);
    uint64_t before = limits->alignment ? address % limits->alignment : 0;
    if (!address && !bytes) {
        texref_unbind(state);
        return SUCCESS;
    }
    if (!texel || !address || !bytes || (before && !offset) || bytes > UINT64_MAX - before ||
        (before + bytes) / texel > limits->linear_width)
        return INVALID_VALUE;
    texref_unbind(state);
    state->resource = TEXREF_LINEAR;
    state->address = address;
    state->bytes = bytes;
    if (offset)
        *offset = before;
    return SUCCESS;
}

int texref_set_address_2d(struct texref_state *state, const struct texref_limits *limits, uint64_t address, int format,
                          unsigned channels, uint64_t width, uint64_t height, uint64_t pitch)
{
    uint64_t texel = texel_size(format, channels);
    if (!texel || !address || !width || !height || width > limits->width || height > limits->height ||
        pitch > limits->pitch || pitch < width * texel || (limits->alignment && address % limits->alignment) ||
        (limits->pitch_alignment && pitch % limits->pitch_alignment))
        return INVALID_VALUE;
    texref_unbind(state);
    state->resource = TEXREF_PITCH2D;
    state->address = address;
    state->width = width;
    state->height = height;
    state->pitch = pitch;
    state->format = format;
    state->channels = channels;
    return SUCCESS;
}

int texref_set_format(struct texref_state *state, int format, int channels)
{
    if (channels < 0 || !texel_size(format, (unsigned)channels))
        return INVALID_VALUE;
    state->format = format;
    state->channels = (unsigned)channels;
    return SUCCESS;
}

int texref_set_wrap(struct texref_state *state, int dimension, int mode)
{
    if (dimension < 0 || dimension > 2 || mode < 0 || mode > BORDER)
        return INVALID_VALUE;
    state->wrap[dimension] = mode;
    return SUCCESS;
}

int texref_set_filter(int *filter, int mode)
{
    if (mode < 0 || mode > LINEAR_FILTER)
        return INVALID_VALUE;
    *filter = mode;
    return SUCCESS;
}

int texref_set_bias(struct texref_state *state, float bias)
{
    state->bias = bias;
    return SUCCESS;
}

int texref_set_levels(struct texref_state *state, float least, float most)
{
    state->least = least;
    state->most = most;
    return SUCCESS;
}

int texref_set_anisotropy(struct texref_state *state, unsigned most)
{
    state->anisotropy = most;
    return SUCCESS;
}

int texref_set_border(struct texref_state *state, const float color[4])
{
    if (!color)
        return INVALID_VALUE;
    memcpy(state->border, color, sizeof state->border);
    return SUCCESS;
}

int texref_set_flags(struct texref_state *state, unsigned flags)
{
    if (flags & ~(unsigned)(READ_AS_INTEGER | NORMALIZED | SRGB | NO_TRILINEAR_OPTIMIZATION | SEAMLESS))
        return INVALID_VALUE;
    state->flags = flags;
    return SUCCESS;
}

int texref_set_surface(struct texref_state *state, uint64_t array, bool writable, unsigned flags)
{
    if (flags || !writable)
        return INVALID_VALUE;
    state->resource = TEXREF_ARRAY;
    state->array = array;
    return SUCCESS;
}

int texref_get_address(const struct texref_state *state, uint64_t *address)
{
    if (state->resource != TEXREF_LINEAR && state->resource != TEXREF_PITCH2D)
        return INVALID_VALUE;
    *address = state->address;
    return SUCCESS;
}

int texref_get_array(const struct texref_state *state, enum texref_resource resource, uint64_t *array)
{
    if (state->resource != resource)
        return INVALID_VALUE;
    *array = state->array;
    return SUCCESS;
}

int texref_get_wrap(const struct texref_state *state, int dimension, int *mode)
{
    if (dimension < 0 || dimension > 2)
        return INVALID_VALUE;
    *mode = state->wrap[dimension];
    return SUCCESS;
}

int texref_get_format(const struct texref_state *state, int *format, int *channels)
{
    if (format)
        *format = state->format;
    if (channels)
        *channels = (int)state->channels;
    return SUCCESS;
}

int texref_get_levels(const struct texref_state *state, float *least, float *most)
{
    if (!least || !most)
        return INVALID_VALUE;
    *least = state->least;
    *most = state->most;
    return SUCCESS;
}

int texref_get_border(const struct texref_state *state, float color[4])
{
    if (!color)
        return INVALID_VALUE;
    memcpy(color, state->border, sizeof state->border);
    return SUCCESS;
}

int texref_tell(int *to, int value)
{
    if (!to)
        return INVALID_VALUE;
    *to = value;
    return SUCCESS;
}

int texref_tell_float(float *to, float value)
{
    if (!to)
        return INVALID_VALUE;
    *to = value;
    return SUCCESS;
}
