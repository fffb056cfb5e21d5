/*
 * texture.c: the table of texture and surface objects, and what a fetch gives. See softgpu/texture.h.
 *
 * A filtered fetch looks at the two texels around x - 0.5 in each dimension; the weight is a fixed-point number of 9
 * bits,
 * 8 of them behind the point, so 1.0 is one of its values. Address modes are applied to each texel's index.
 */
#include "softgpu/texture.h"
#include "softgpu/exec/access.h"
#include "softgpu/exec/blocks.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "softgpu/memory.h"

/* ---- the table --------------------------------------------------------------------------------------------------- */

struct texture_slot {
    struct sg_texture texture;
    uint32_t generation, next_free;
    bool used;
};
static struct {
    pthread_rwlock_t lock;
    struct texture_slot *slots;
    uint32_t count, room, first_free;
} table = { .lock = PTHREAD_RWLOCK_INITIALIZER };

static const uint64_t tag = 0x7E3;                       /* not an address of the process, not a token of the driver */
enum { GENERATION_BITS = 20, SLOT_BITS = 32, SLOTS_MOST = 1 << 20 };

static uint64_t handle_of(uint32_t slot)                 /* slots count from 1: free-list ends are 0 */
{
    return tag << (GENERATION_BITS + SLOT_BITS) |
           (uint64_t)(table.slots[slot - 1].generation & ((1u << GENERATION_BITS) - 1)) << SLOT_BITS | slot;
}

static struct texture_slot *slot_of(uint64_t handle)
{
    uint32_t slot = (uint32_t)handle;
    if (!slot || slot > table.count || !table.slots[slot - 1].used || handle_of(slot) != handle)
        return NULL;
    return &table.slots[slot - 1];
}

static bool table_grow(void)
{
    uint32_t room = table.room ? 2 * table.room : 64;
    struct texture_slot *grown = room > SLOTS_MOST ? NULL : realloc(table.slots, room * sizeof *grown);
    if (!grown)
        return false;
    table.slots = grown;
    table.room = room;
    return true;
}

static void slot_out_of_free(uint32_t slot)
{
    uint32_t *at = &table.first_free;
    while (*at != slot)
        at = &table.slots[*at - 1].next_free;
    *at = table.slots[slot - 1].next_free;
}

static uint32_t generation_of(uint64_t handle) { return handle >> SLOT_BITS & ((1u << GENERATION_BITS) - 1); }

/* The slot that a handle of another process names, which may be new here. NULL: it is no handle, or no host memory. */
static struct texture_slot *slot_for(uint64_t handle)
{
    const uint32_t slot = (uint32_t)handle;
    if (handle >> (GENERATION_BITS + SLOT_BITS) != tag || !slot || slot > SLOTS_MOST)
        return NULL;
    while (slot > table.room)
        if (!table_grow())
            return NULL;
    while (table.count < slot) {
        table.slots[table.count] = (struct texture_slot){ .next_free = table.first_free };
        table.first_free = ++table.count;
    }
    return &table.slots[slot - 1];
}

bool sg_texture_add_at(const struct sg_texture *t, uint64_t handle)
{
    pthread_rwlock_wrlock(&table.lock);
    struct texture_slot *s = slot_for(handle);
    const bool free = s && !s->used;
    if (free) {
        slot_out_of_free((uint32_t)handle);
        *s = (struct texture_slot){ .texture = *t, .generation = generation_of(handle), .used = true };
    }
    pthread_rwlock_unlock(&table.lock);
    return free;
}

void sg_texture_retire(uint64_t handle)
{
    pthread_rwlock_wrlock(&table.lock);
    struct texture_slot *s = slot_for(handle);
    if (s && !s->used && s->generation <= generation_of(handle))
        s->generation = generation_of(handle) + 1;
    pthread_rwlock_unlock(&table.lock);
}

uint64_t sg_texture_add(const struct sg_texture *t)
{
    uint64_t handle = 0;
    pthread_rwlock_wrlock(&table.lock);
    if (!table.first_free && table.count == table.room && !table_grow())
        goto out;
    uint32_t slot = table.first_free;
    if (slot)
        table.first_free = table.slots[slot - 1].next_free;
    else
        table.slots[(slot = ++table.count) - 1].generation = 0;
    table.slots[slot - 1].texture = *t;
    table.slots[slot - 1].used = true;
    handle = handle_of(slot);
out:
    pthread_rwlock_unlock(&table.lock);
    return handle;
}

void sg_texture_remove(uint64_t handle)
{
    pthread_rwlock_wrlock(&table.lock);
    struct texture_slot *s = slot_of(handle);
    if (s) {
        s->used = false;
        s->generation++;
        s->next_free = table.first_free;
        table.first_free = (uint32_t)handle;
    }
    pthread_rwlock_unlock(&table.lock);
}

bool sg_texture_get(uint64_t handle, struct sg_texture *t)
{
    pthread_rwlock_rdlock(&table.lock);
    const struct texture_slot *s = slot_of(handle);
    if (s)
        *t = s->texture;
    pthread_rwlock_unlock(&table.lock);
    return s != NULL;
}

/* ---- texels ------------------------------------------------------------------------------------------------------ */

static uint32_t bits_of(float f)
{
    union { float f; uint32_t u; } v = { .f = f };
    return v.u;
}

static float float_of(uint32_t u)
{
    union { uint32_t u; float f; } v = { .u = u };
    return v.f;
}

static float half_to_float(uint16_t h)
{
    unsigned exponent = h >> 10 & 31u, fraction = h & 1023u;
    uint32_t sign = (uint32_t)(h >> 15) << 31;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    return float_of(sign | bits_of((float)fraction * 0x1p-24f));
}

static bool floats(const struct sg_texture *t) { return t->format >= SG_TEXEL_F16 || t->unit; }

static uint32_t component(const struct sg_texture *t, const unsigned char *p)
{
    switch (t->format) {
    case SG_TEXEL_U8:  { uint8_t v = exec_load8(p); return t->unit ? bits_of((float)v / 255.0f) : v; }
    case SG_TEXEL_U16: { uint16_t v = exec_load16(p); return t->unit ? bits_of((float)v / 65535.0f) : v; }
    case SG_TEXEL_S8: {
        int8_t v = (int8_t)exec_load8(p);
        return t->unit ? bits_of(fmaxf((float)v / 127.0f, -1.0f)) : (uint32_t)v;
    }
    case SG_TEXEL_S16: {
        int16_t v = (int16_t)exec_load16(p);
        return t->unit ? bits_of(fmaxf((float)v / 32767.0f, -1.0f)) : (uint32_t)v;
    }
    case SG_TEXEL_F16: return bits_of(half_to_float(exec_load16(p)));
    default:           return exec_load32(p);
    }
}

/* A colour of 8 bits, as sRGB has it, in linear light (IEC 61966-2-1). */
static float linear_light(float v) { return v <= 0.04045f ? v / 12.92f : powf((v + 0.055f) / 1.055f, 2.4f); }

/* The block that has the texel is decoded at each fetch. A view may have more texels than its array has blocks for. */
static void block_texel(const struct sg_texture *t, uint64_t block, const int64_t index[3], uint32_t out[4])
{
    uint8_t bytes[16] = { 0 };
    float texel[4];
    exec_copy_bytes(bytes, (const void *)(uintptr_t)block, sg_texel_bytes(t->format));
    sg_block_texel(t->format, bytes, (unsigned)(index[0] & 3), (unsigned)(index[1] & 3), texel);
    for (unsigned c = 0; c < 4; c++)
        out[c] = bits_of(t->srgb && c < 3 ? linear_light(texel[c]) : texel[c]);
}

/* The element that has the texel. */
static uint64_t element_of(const struct sg_texture *t, const int64_t index[3], uint32_t layer)
{
    uint64_t x = (uint64_t)index[0], y = (uint64_t)index[1];
    if (sg_in_blocks(t->format)) {
        const uint64_t last_x = sg_texture_columns(t) - 1, last_y = sg_texture_rows(t) - 1;
        x = x / 4 < last_x ? x / 4 : last_x;
        y = y / 4 < last_y ? y / 4 : last_y;
    }
    return t->base + x * sg_element_bytes(t) + y * t->pitch + ((uint64_t)index[2] + layer) * t->slice;
}

/* A component of the border's colour, in the precision of the texels. Texels that are read as integers have a border
   of 0, unless they have 32 bits: then its pattern (as on an H200). */
static uint32_t border_component(const struct sg_texture *t, unsigned c)
{
    const float b = t->border[c];
    const float least = t->format == SG_TEXEL_S8 || t->format == SG_TEXEL_S16 ? -1.0f : 0.0f;
    float levels;
    switch (t->format) {
    case SG_TEXEL_U8:  levels = 255.0f; break;
    case SG_TEXEL_S8:  levels = 127.0f; break;
    case SG_TEXEL_U16: levels = 65535.0f; break;
    case SG_TEXEL_S16: levels = 32767.0f; break;
    default:           return bits_of(b);
    }
    return t->unit ? bits_of(rintf(fminf(fmaxf(b, least), 1.0f) * levels) / levels) : 0;
}

/* index < 0: a texel of the border */
static bool texel(const struct sg_texture *t, unsigned device, const int64_t index[3], uint32_t layer, uint32_t out[4])
{
    out[0] = out[1] = out[2] = out[3] = 0;
    if (index[0] < 0 || index[1] < 0 || index[2] < 0) {
        for (unsigned c = 0; c < t->channels; c++)
            out[c] = border_component(t, c);
        return true;
    }
    const unsigned size = sg_texel_bytes(t->format);
    const uint64_t at = element_of(t, index, layer);
    if (!sg_memory_may(at, sg_element_bytes(t), device, SG_READ))
        return false;
    if (sg_in_blocks(t->format)) {
        block_texel(t, at, index, out);
        return true;
    }
    for (unsigned c = 0; c < t->channels; c++)
        out[c] = component(t, (const unsigned char *)(uintptr_t)at + c * size);
    for (unsigned c = 0; t->srgb && c < 3 && c < t->channels; c++)
        out[c] = bits_of(linear_light(float_of(out[c])));
    return true;                                      /* components that the texels lack are 0, the fourth one, too */
}

/* Wrapping and mirroring are for normalized coordinates; others are clamped then. */
static int64_t place(int64_t i, int64_t n, unsigned wrap, bool normalized)
{
    if (i >= 0 && i < n)
        return i;
    if (wrap == SG_BORDER)
        return -1;
    if (wrap == SG_WRAP && normalized)
        return (i % n + n) % n;
    if (wrap == SG_MIRROR && normalized) {
        int64_t k = (i % (2 * n) + 2 * n) % (2 * n);
        return k < n ? k : 2 * n - 1 - k;
    }
    return i < 0 ? 0 : n - 1;
}

/* How an index outside is placed. mixes: a filter looks at it; only then does SG_CLAMP_OGL see the border. */
static unsigned wrap_of(const struct sg_texture *t, unsigned dimension, bool mixes)
{
    unsigned wrap = t->wrap[dimension];
    return wrap != SG_CLAMP_OGL ? wrap : mixes ? SG_BORDER : SG_CLAMP;
}

/* In texels. Far outside and NaN become numbers that an index can hold. Wrapping first keeps large coordinates
   exact. */
static float scale(const struct sg_texture *t, float x, unsigned dimension, uint32_t n)
{
    if (!(x == x))
        return 0;
    if (t->normalized) {
        if (t->wrap[dimension] == SG_WRAP && isfinite(x))
            x -= floorf(x);
        x *= (float)n;
    }
    if (t->wrap[dimension] == SG_CLAMP_OGL)
        return fminf(fmaxf(x, 0), (float)n);
    return fminf(fmaxf(x, -0x1p30f), 0x1p30f);
}

static uint32_t extent(const struct sg_texture *t, unsigned dimension)
{
    return dimension == 0 ? t->width : dimension == 1 ? t->height : t->depth;
}
static uint32_t layer_of(const struct sg_texture *t, int64_t layer)
{
    return layer < 0 ? 0 : layer >= t->layers ? t->layers - 1 : (uint32_t)layer;
}

/* As sg_texture_sample_level, of an image that has no other levels. */
static bool sample(const struct sg_texture *t, unsigned dimensions, unsigned device, const float at[3], int64_t layer,
                   uint32_t out[4])
{
    int64_t index[3] = { 0, 0, 0 }, pair[3][2] = { { 0 } };
    float weight[3] = { 0 };
    uint32_t l = layer_of(t, layer);
    bool linear = t->linear_filter && floats(t);
    for (unsigned k = 0; k < dimensions; k++) {
        uint32_t n = extent(t, k);
        float x = scale(t, at[k], k, n);
        if (linear)
            x -= 0.5f;
        const unsigned wrap = wrap_of(t, k, linear);
        int64_t i = (int64_t)floorf(x) + t->offset[k];
        index[k] = place(i, n, wrap, t->normalized);
        pair[k][0] = index[k];
        pair[k][1] = place(i + 1, n, wrap, t->normalized);
        weight[k] = floorf((x - floorf(x)) * 256.0f + 0.5f) / 256.0f;
    }
    if (!linear)
        return texel(t, device, index, l, out);
    float sum[4] = { 0 };
    for (unsigned corner = 0; corner < 1u << dimensions; corner++) {
        float part = 1;
        for (unsigned k = 0; k < dimensions; k++) {
            unsigned second = corner >> k & 1u;
            index[k] = pair[k][second];
            part *= second ? weight[k] : 1.0f - weight[k];
        }
        if (part == 0)
            continue;                                    /* a texel of no weight is not looked at: infinity * 0 */
        uint32_t v[4];
        if (!texel(t, device, index, l, v))
            return false;
        for (unsigned c = 0; c < 4; c++)
            sum[c] += part * float_of(v[c]);
    }
    for (unsigned c = 0; c < 4; c++)
        out[c] = bits_of(sum[c]);
    return true;
}

/* ---- levels of mipmapped arrays ---- */

static uint32_t half(uint32_t size) { return size > 1 ? size / 2 : 1; }

struct sg_texture sg_texture_level(const struct sg_texture *t, unsigned level)
{
    struct sg_texture l = *t;
    l.levels = 0;
    for (unsigned k = 0; k < level; k++) {
        l.base += sg_texture_bytes(&l);
        l.width = half(l.width);
        l.height = half(l.height);
        l.depth = half(l.depth);
        l.columns = l.columns ? half(l.columns) : 0;
        l.rows = l.rows ? half(l.rows) : 0;
        uint64_t row = (uint64_t)sg_texture_columns(&l) * sg_element_bytes(&l);
        l.pitch = (row + SG_ROW_ALIGNMENT - 1) / SG_ROW_ALIGNMENT * SG_ROW_ALIGNMENT;
        l.slice = l.pitch * sg_texture_rows(&l);
    }
    l.base += l.first_layer * l.slice * l.depth;
    l.first_layer = l.all_layers = 0;
    return l;
}

bool sg_texture_sample_level(const struct sg_texture *t, unsigned dimensions, unsigned device, const float at[3],
                             int64_t layer, float detail, uint32_t out[4])
{
    if (!t->levels)
        return sample(t, dimensions, device, at, layer, out);
    float last = (float)(t->levels - 1);
    detail = fminf(fmaxf(detail + t->bias, t->least), t->most);
    detail = fminf(fmaxf(detail, 0), last);              /* NaN becomes 0 */
    bool blend = t->linear_levels && floats(t);
    unsigned first = (unsigned)(blend ? floorf(detail) : floorf(detail + 0.5f));
    struct sg_texture level = sg_texture_level(t, first);
    float part = blend ? floorf((detail - (float)first) * 256.0f + 0.5f) / 256.0f : 0;
    if (!sample(&level, dimensions, device, at, layer, out))
        return false;
    if (part == 0)
        return true;
    uint32_t next[4];
    level = sg_texture_level(t, first + 1);
    if (!sample(&level, dimensions, device, at, layer, next))
        return false;
    for (unsigned c = 0; c < 4; c++)
        out[c] = bits_of(float_of(out[c]) * (1.0f - part) + float_of(next[c]) * part);
    return true;
}

float sg_texture_detail(const struct sg_texture *t, unsigned dimensions, const float dx[3], const float dy[3])
{
    float x = 0, y = 0;
    for (unsigned k = 0; k < dimensions; k++) {
        float n = t->normalized ? (float)extent(t, k) : 1.0f;
        x += dx[k] * n * dx[k] * n;
        y += dy[k] * n * dy[k] * n;
    }
    float larger = fmaxf(x, y);
    return larger > 0 ? 0.5f * log2f(larger) : -INFINITY;
}

bool sg_texture_fetch(const struct sg_texture *t, unsigned dimensions, unsigned device, const int32_t at[3],
                      int64_t layer, uint32_t out[4])
{
    int64_t index[3] = { 0, 0, 0 };
    if (t->levels) {
        const struct sg_texture first = sg_texture_level(t, 0);
        return sg_texture_fetch(&first, dimensions, device, at, layer, out);
    }
    for (unsigned k = 0; k < dimensions; k++)
        index[k] = place((int64_t)at[k] + t->offset[k], extent(t, k),
                         t->linear_memory ? SG_BORDER : wrap_of(t, k, false), t->normalized);
    return texel(t, device, index, layer_of(t, layer), out);
}

bool sg_texture_gather(const struct sg_texture *t, unsigned device, const float at[3], int64_t layer, unsigned which,
                       uint32_t out[4])
{
    static const unsigned char corners[4][2] = { { 0, 1 }, { 1, 1 }, { 1, 0 }, { 0, 0 } };
    int64_t low[2];
    if (t->levels) {
        const struct sg_texture first = sg_texture_level(t, 0);
        return sg_texture_gather(&first, device, at, layer, which, out);
    }
    for (unsigned k = 0; k < 2; k++)
        low[k] = (int64_t)floorf(scale(t, at[k], k, extent(t, k)) - 0.5f) + t->offset[k];
    for (unsigned c = 0; c < 4; c++) {
        int64_t index[3] = { place(low[0] + corners[c][0], t->width, wrap_of(t, 0, true), t->normalized),
                             place(low[1] + corners[c][1], t->height, wrap_of(t, 1, true), t->normalized), 0 };
        uint32_t v[4];
        if (!texel(t, device, index, layer_of(t, layer), v))
            return false;
        out[c] = v[which];
    }
    return true;
}

unsigned sg_texture_face(const float d[3], float at[2])
{
    float x = fabsf(d[0]), y = fabsf(d[1]), z = fabsf(d[2]), s, r, m;
    unsigned face;
    if (x > y && x > z) {
        face = d[0] < 0;
        m = x;
        s = face ? d[2] : -d[2];
        r = -d[1];
    } else if (y > z) {
        face = 2 + (d[1] < 0);
        m = y;
        s = d[0];
        r = face == 3 ? -d[2] : d[2];
    } else {
        face = 4 + (d[2] < 0);
        m = z;
        s = face == 5 ? -d[0] : d[0];
        r = -d[1];
    }
    at[0] = m > 0 ? (s / m + 1) / 2 : 0;
    at[1] = m > 0 ? (r / m + 1) / 2 : 0;
    return face;
}
