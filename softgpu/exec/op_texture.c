/*
 * op_texture.c: tex, tld4, suld, sust and sured on objects whose handle is in a register, and on references (variables
 * of type .texref, .samplerref and .surfref), by name or by address. See softgpu/texture.h.
 * A kernel's parameters of these types are bound to nothing: OpenCL sets them, and no call of CUDA's does.
 * Gathering and integer coordinates look at the first level of a mipmapped array.
 *
 * A texture may be read with another sampler: a .samplerref variable, or, because CUDA has no sampler objects, the
 * sampler of a texture object.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/op_texture.h"

#include <cuda.h>
#include <math.h>
#include <string.h>

#include "softgpu/memory.h"
#include "softgpu/texture.h"

enum shape { SHAPE_1D, SHAPE_2D, SHAPE_3D, SHAPE_CUBE };
enum outside { OUTSIDE_TRAP, OUTSIDE_CLAMP, OUTSIDE_ZERO };
enum { COORDINATES = 4 };

/* insn: s[0] is the handle, s[1] that of the sampler or 0. */
struct access {
    enum shape shape;
    enum outside outside;
    bool layered, integer, half;         /* half: results as .f16x2 or .f16 */
    bool gather, formatted;
    unsigned component;
    unsigned dimensions, count;          /* elements of the vector */
    unsigned bytes;                      /* of an element of a surface access */
    exec_source at[COORDINATES];         /* coordinates, the layer first */
    unsigned levels;                     /* 0: the first level; 1: of .level; 2: of .grad */
    exec_source level[2][3];             /* the level of detail, or how the coordinates change */
    bool offsets;
    exec_source offset[3];               /* texels that are added */
    uint32_t to[4];
    uint8_t cell[4];                     /* bytes of the register: of to[], of from[] */
    exec_source from[4];
    struct exec_insn reduce;             /* sured: the operation; .p: its type is the surface's */
};

static uint32_t word(const struct exec_warp *w, exec_source s, unsigned lane)
{
    return ((const uint32_t *)exec_row(w, s))[lane];
}

static float as_float(uint32_t u)
{
    union { uint32_t u; float f; } v = { .u = u };
    return v.f;
}

static uint32_t as_half(uint32_t bits)
{
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7fff;
    if (magnitude >= 0x477ff000u)
        return sign | 0x7c00;
    if (magnitude < 0x38800000u)                         /* a subnormal, in units of 2^-24; nearbyint rounds to even */
        return sign | (uint32_t)nearbyintf(as_float(magnitude) * 0x1p24f);
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1u);
    return sign | ((rounded - 0x38000000u) >> 13);
}

static void put(struct exec_warp *w, const struct access *a, unsigned k, unsigned lane, uint64_t v)
{
    unsigned char *row = w->rows + a->to[k];
    if (a->cell[k] == 8)
        ((uint64_t *)(void *)row)[lane] = v;
    else
        ((uint32_t *)(void *)row)[lane] = a->cell[k] == 2 ? (uint32_t)(v & 0xffff) : (uint32_t)v;
}

/* What stands for a parameter of that type instead of a handle. */
enum { NOTHING_BOUND = 0x7e2 };
static uint64_t nothing_bound(enum ptx_type type) { return (uint64_t)NOTHING_BOUND << 52 | (uint64_t)type; }

/* Of a reference, which is named by its address. */
static bool bound(const struct exec_warp *w, uint64_t address, struct sg_texture *t)
{
    const struct sg_launch *launch = &w->block->grid->launch;
    size_t k = 0;
    while (k < launch->binding_count && launch->bindings[k].address != address)
        k++;
    if (k == launch->binding_count)
        return false;
    *t = launch->bindings[k].texture;
    return true;
}

bool texture_look_up(const struct exec_warp *w, exec_source row, unsigned lane, struct texture_object *o)
{
    uint64_t handle = ((const uint64_t *)exec_row(w, row))[lane];
    if (o->known && o->handle == handle)
        return true;
    o->handle = handle;
    if (handle >> 52 == NOTHING_BOUND) {
        const enum ptx_type type = (enum ptx_type)(handle & 0xff);
        o->t = (struct sg_texture){ .channels = 1,
                                    .surface = type == PTX_SURFREF,
                                    .sampler = type == PTX_SAMPLERREF,
                                    .wrap = { SG_CLAMP, SG_CLAMP, SG_CLAMP } };
        return o->known = true;
    }
    return o->known = sg_texture_get(handle, &o->t) || bound(w, handle, &o->t);
}

bool texture_find(struct exec_warp *w, const struct exec_insn *i, unsigned lane, bool surface, struct texture_object *o)
{
    if (texture_look_up(w, i->s[0], lane, o) && o->t.surface == surface && !o->t.sampler)
        return true;
    exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS,
                       surface ? "no surface object has this handle" : "no texture object has this handle", lane,
                       o->handle);
    return false;
}

/* The lane's texture, read as its sampler says. */
static bool find_sampler(struct exec_warp *w, const struct exec_insn *i, unsigned lane, struct texture_object *o,
                         struct sg_texture *t)
{
    if (!texture_look_up(w, i->s[1], lane, o) || o->t.surface) {
        exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "no sampler has this handle", lane, o->handle);
        return false;
    }
    const struct sg_texture *s = &o->t;
    memcpy(t->wrap, s->wrap, sizeof t->wrap);
    t->linear_filter = s->linear_filter && !t->linear_memory;
    t->normalized = s->sampler ? t->normalized && !s->unnormalized : s->normalized;
    if (s->sampler)
        return true;
    t->linear_levels = s->linear_levels;
    t->bias = s->bias, t->least = s->least, t->most = s->most;
    memcpy(t->border, s->border, sizeof t->border);
    return true;
}

/* The level of detail that a lane asks for. Of a cube the change of the direction stands for that on the face. */
static float detail(const struct exec_warp *w, const struct access *a, const struct sg_texture *t, unsigned l)
{
    float change[2][3] = { { 0 } };
    if (!a->levels || !t->levels)
        return 0;
    if (a->levels == 1)
        return as_float(word(w, a->level[0][0], l));
    for (unsigned s = 0; s < 2; s++)
        for (unsigned k = 0; k < a->dimensions; k++)
            change[s][k] = as_float(word(w, a->level[s][k], l));
    if (a->shape == SHAPE_CUBE)
        return sg_texture_detail(t, 2, change[0], change[1]) - 1;
    return sg_texture_detail(t, a->dimensions, change[0], change[1]);
}

static void run_texture(struct exec_warp *w, const struct exec_insn *i)
{
    const struct access *a = i->extra;
    struct texture_object object = { .known = false }, sampler = { .known = false };
    struct sg_texture with_sampler, *t = &object.t;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m), next = 0;
        if (!texture_find(w, i, l, false, &object))
            return;
        if (i->s[1]) {
            *(t = &with_sampler) = object.t;
            if (!find_sampler(w, i, l, &sampler, t))
                return;
        }
        int64_t layer = a->layered ? (int64_t)word(w, a->at[next++], l) : 0;
        uint32_t raw[3] = { 0 }, out[4];
        for (unsigned k = 0; k < a->dimensions; k++)
            raw[k] = word(w, a->at[next++], l);
        float at[3] = { as_float(raw[0]), as_float(raw[1]), as_float(raw[2]) };
        bool fine = true;
        for (unsigned k = 0; a->offsets && k < a->dimensions; k++) /* -8 … 7 */
            t->offset[k] = (int8_t)((int32_t)(word(w, a->offset[k], l) << 28) >> 28);
        if (!t->width) /* a reference that is bound to nothing */
            memset(out, 0, sizeof out);
        else if (a->integer) {
            int32_t index[3] = { (int32_t)raw[0], (int32_t)raw[1], (int32_t)raw[2] };
            fine = sg_texture_fetch(t, a->dimensions, w->granule_device, index, layer, out);
        } else if (a->shape == SHAPE_CUBE) {
            float on[3] = { 0 };
            unsigned face = sg_texture_face(at, on);
            struct sg_texture side = *t; /* a face ends at its edges, and its coordinates are 0 … 1 always */
            side.wrap[0] = side.wrap[1] = SG_CLAMP;
            side.normalized = true;
            fine = a->gather ? sg_texture_gather(&side, w->granule_device, on, 6 * layer + face, a->component, out)
                             : sg_texture_sample_level(&side, 2, w->granule_device, on, 6 * layer + face,
                                                       detail(w, a, &side, l), out);
        } else if (a->gather)
            fine = sg_texture_gather(t, w->granule_device, at, layer, a->component, out);
        else
            fine = sg_texture_sample_level(t, a->dimensions, w->granule_device, at, layer, detail(w, a, t, l), out);
        if (!fine) {
            exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "texture whose memory is gone", l, t->base);
            return;
        }
        for (unsigned k = 0; k < a->count; k++)
            put(w, a, k, l,
                !a->half        ? out[k]
                : a->count == 4 ? as_half(out[k])
                                : as_half(out[2 * k]) | as_half(out[2 * k + 1]) << 16);
    }
    exec_pred_write(w, i->p, UINT32_MAX);                /* all memory that there is is resident */
}

/* Where a lane's access goes; 0: outside and not done; false: a fault. x counts bytes, or texels if formatted. */
static bool surface_place(struct exec_warp *w, const struct exec_insn *i, unsigned l, const struct access *a,
                          const struct sg_texture *t, unsigned rights, uint64_t *address)
{
    unsigned next = 0, texel = sg_texel_bytes(t->format) * t->channels,
             size = a->formatted ? texel : a->bytes * a->count;
    int64_t layer = a->layered ? (int64_t)word(w, a->at[next++], l) : 0;
    int64_t at[3] = { 0, 0, 0 };
    for (unsigned k = 0; k < a->dimensions; k++)
        at[k] = (int32_t)word(w, a->at[next++], l);
    if (a->formatted)
        at[0] *= texel;
    if (at[0] % size) {
        exec_fault_address(w, i, CUDA_ERROR_MISALIGNED_ADDRESS, "surface access inside an element", l, (uint64_t)at[0]);
        return false;
    }
    int64_t most[3] = { (int64_t)t->width * texel - size, (int64_t)t->height - 1, (int64_t)t->depth - 1 };
    bool out = layer >= t->layers || most[0] < 0;
    for (unsigned k = 0; k < 3; k++)
        out |= at[k] < 0 || at[k] > most[k];
    *address = 0;
    if (out && a->outside == OUTSIDE_TRAP) {
        exec_fault_address(w, i, CUDA_ERROR_LAUNCH_FAILED, "surface access outside the surface", l, (uint64_t)at[0]);
        return false;
    }
    if (out && (a->outside == OUTSIDE_ZERO || most[0] < 0))
        return true;
    for (unsigned k = 0; k < 3; k++)
        at[k] = at[k] < 0 ? 0 : at[k] > most[k] ? most[k] : at[k];
    at[0] -= at[0] % size;                               /* the row may end within an element of this size */
    if (layer >= t->layers)
        layer = t->layers - 1;
    *address = t->base + (uint64_t)at[0] + (uint64_t)at[1] * t->pitch + (uint64_t)(at[2] + layer) * t->slice;
    if (!sg_memory_may(*address, size, w->granule_device, rights) && !exec_brought(w, *address, size, rights)) {
        exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "surface whose memory is gone", l, *address);
        return false;
    }
    return true;
}

static void run_surface_load(struct exec_warp *w, const struct exec_insn *i)
{
    const struct access *a = i->extra;
    struct texture_object o = { .known = false };
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at;
        if (!texture_find(w, i, l, true, &o) || !surface_place(w, i, l, a, &o.t, SG_READ, &at))
            return;
        for (unsigned k = 0; k < a->count; k++) {
            const void *p = (const void *)(uintptr_t)(at + k * a->bytes);
            put(w, a, k, l,
                !at             ? 0
                : a->bytes == 1 ? exec_load8(p)
                : a->bytes == 2 ? exec_load16(p)
                : a->bytes == 4 ? exec_load32(p)
                                : exec_load64(p));
        }
    }
}

static void store(uint64_t at, unsigned bytes, uint64_t v)
{
    void *p = (void *)(uintptr_t)at;
    switch (bytes) {
    case 1:  exec_store8(p, (uint8_t)v); break;
    case 2:  exec_store16(p, (uint16_t)v); break;
    case 4:  exec_store32(p, (uint32_t)v); break;
    default: exec_store64(p, v);
    }
}

/* sust.p: a 32-bit value as the surface's own format has it; integers are cut to its range. */
static uint32_t formatted(unsigned format, uint32_t v)
{
    int32_t s = (int32_t)v;
    switch (format) {
    case SG_TEXEL_U8:  return v > 255 ? 255 : v;
    case SG_TEXEL_U16: return v > 65535 ? 65535 : v;
    case SG_TEXEL_S8:  return (uint32_t)(s < -128 ? -128 : s > 127 ? 127 : s);
    case SG_TEXEL_S16: return (uint32_t)(s < -32768 ? -32768 : s > 32767 ? 32767 : s);
    case SG_TEXEL_F16: return as_half(v);
    default:           return v;
    }
}

static void run_surface_store(struct exec_warp *w, const struct exec_insn *i)
{
    const struct access *a = i->extra;
    struct texture_object o = { .known = false };
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at;
        if (!texture_find(w, i, l, true, &o) || !surface_place(w, i, l, a, &o.t, SG_WRITE, &at))
            return;
        unsigned count = a->formatted && o.t.channels < a->count ? o.t.channels : a->count;
        unsigned bytes = a->formatted ? sg_texel_bytes(o.t.format) : a->bytes;
        for (unsigned k = 0; at && k < count; k++) {
            uint64_t v = exec_lane(exec_row(w, a->from[k]), a->cell[k] == 8 ? SG_CELL_64 : SG_CELL_32, l);
            store(at + k * bytes, bytes, a->formatted ? formatted(o.t.format, (uint32_t)v) : v);
        }
    }
}

/* sured.p: integers of the size of the surface's elements, signed as they are. PTX_NONE: no such reduction. */
static enum ptx_type reduced_as(const struct sg_texture *t, unsigned bytes)
{
    if (bytes == 8)
        return sg_texel_bytes(t->format) * t->channels == 8 ? PTX_U64 : PTX_NONE;
    return t->format == SG_TEXEL_U32 ? PTX_U32 : t->format == SG_TEXEL_S32 ? PTX_S32 : PTX_NONE;
}

static void run_surface_reduce(struct exec_warp *w, const struct exec_insn *i)
{
    const struct access *a = i->extra;
    struct texture_object o = { .known = false };
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        struct exec_insn reduce = a->reduce;
        uint64_t at;
        if (!texture_find(w, i, l, true, &o))
            return;
        if (a->formatted)
            reduce.type = (uint8_t)reduced_as(&o.t, a->bytes);
        if (!exec_reduces(&reduce)) {
            exec_fault(w, i, CUDA_ERROR_ILLEGAL_INSTRUCTION, "no such reduction of the surface's elements");
            return;
        }
        if (!surface_place(w, i, l, a, &o.t, SG_READ | SG_WRITE, &at))
            return;
        uint64_t v = exec_lane(exec_row(w, a->from[0]), a->bytes == 8 ? SG_CELL_64 : SG_CELL_32, l);
        if (at)
            exec_reduce(w, &reduce, (void *)(uintptr_t)at, &v, a->bytes);
    }
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static bool one_of(const char *m, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(m, *list))
            return true;
    return false;
}

/* The type of the opaque variable, or of the kernel's parameter, that an operand names; PTX_NONE: neither. */
static enum ptx_type named_type(const struct exec_decoder *d, const struct ptx_operand *o)
{
    const struct ptx_variable *v = o->scope == PTX_SCOPE_MODULE                    ? &d->module->variables[o->index]
                                   : o->scope == PTX_SCOPE_PARAM && d->f->is_entry ? &d->f->signature.params[o->index]
                                                                                   : NULL;
    return v && v->type >= PTX_TEXREF && v->type < PTX_TYPE_COUNT && !v->is_array && !o->integer ? v->type : PTX_NONE;
}

int decode_texture_handle(struct exec_decoder *d, const struct ptx_operand *o, bool sampler, exec_source *s)
{
    if (o->kind == PTX_OP_REGISTER)
        return decode_source(d, o, PTX_B64, s);
    const enum ptx_type type = o->kind == PTX_OP_VARIABLE ? named_type(d, o) : PTX_NONE;
    if (type == PTX_NONE || (type == PTX_SAMPLERREF) != sampler)
        return decode_error(d, sampler ? "neither a handle in a register nor a sampler reference"
                                       : "neither a handle in a register nor a texture or surface reference");
    return o->scope == PTX_SCOPE_PARAM ? decode_constant(d, nothing_bound(type), SG_CELL_64, s)
                                       : decode_source(d, o, PTX_B64, s);
}

/* [handle, {…}] or [handle, sampler, {…}]: what they are, and the coordinates. */
static int places(struct exec_decoder *d, const struct ptx_operand *o, bool samples, struct exec_insn *n,
                  struct access *a)
{
    static const struct { const char *name; enum shape shape; bool layered; unsigned dimensions;
    } shapes[] = { { "1d", SHAPE_1D, false, 1 },    { "2d", SHAPE_2D, false, 2 }, { "3d", SHAPE_3D, false, 3 },
                   { "a1d", SHAPE_1D, true, 1 },    { "a2d", SHAPE_2D, true, 2 }, { "cube", SHAPE_CUBE, false, 3 },
                   { "acube", SHAPE_CUBE, true, 3 } };
    size_t s = 0;
    while (s < sizeof shapes / sizeof *shapes && !decode_has(d, shapes[s].name))
        s++;
    if (s == sizeof shapes / sizeof *shapes)
        return decode_error(d, "a geometry that textures and surfaces do not have here");
    a->shape = shapes[s].shape;
    a->layered = shapes[s].layered;
    a->dimensions = shapes[s].dimensions;
    const bool sampler = samples && d->module->texmode_independent;
    if (o->kind != PTX_OP_LIST || !o->bracketed || o->element_count != 2u + sampler)
        return decode_error(d, sampler ? "a texture, a sampler and coordinates are wanted in brackets"
                                       : "a handle and coordinates are wanted in brackets");
    if (decode_texture_handle(d, &o->elements[0], false, &n->s[0]) ||
        (sampler && decode_texture_handle(d, &o->elements[1], true, &n->s[1])))
        return -1;
    const struct ptx_operand *elements[COORDINATES];
    struct ptx_operand scratch[COORDINATES];
    uint32_t count = decode_elements(d, &o->elements[1 + sampler], elements, scratch, COORDINATES),
             want = a->dimensions + a->layered;
    if (count < want)
        return decode_error(d, "%u coordinates where %u are wanted", count, want);
    for (uint32_t k = 0; k < want; k++)
        if (decode_source(d, elements[k], PTX_B32, &a->at[k]))
            return -1;
    return 0;
}

/* Of a level of detail or offsets: one register, or a vector of as many as there are dimensions; more are ignored. */
static int decode_values(struct exec_decoder *d, const struct ptx_operand *o, unsigned want, exec_source at[3])
{
    const struct ptx_operand *elements[COORDINATES];
    struct ptx_operand scratch[COORDINATES];
    uint32_t count = decode_elements(d, o, elements, scratch, COORDINATES);
    if (count < want)
        return decode_error(d, "%u values where %u are wanted", count, want);
    for (unsigned k = 0; k < want; k++)
        if (decode_source(d, elements[k], PTX_B32, &at[k]))
            return -1;
    return 0;
}

/* Behind the coordinates and the level: a register, or a vector, of integers. A single f32 there is what a depth is
   compared with. */
static int decode_offsets(struct exec_decoder *d, const struct ptx_operand *o, struct access *a)
{
    bool real = o->kind == PTX_OP_FLOAT ||
                (o->kind == PTX_OP_REGISTER && d->f->registers[o->reg].type == PTX_F32);
    if (a->shape == SHAPE_CUBE || real)
        return decode_error(d, a->shape == SHAPE_CUBE ? "cubes have no offsets" : "depth comparison is not known");
    a->offsets = true;
    return decode_values(d, o, a->dimensions, a->offset);
}

static int results(struct exec_decoder *d, const struct ptx_operand *o, enum ptx_type type, unsigned want,
                   struct access *a)
{
    const struct ptx_operand *elements[4];
    struct ptx_operand scratch[4];
    a->count = decode_elements(d, o, elements, scratch, 4);
    if (a->count != want)
        return decode_error(d, "%u registers for a vector of %u", a->count, want);
    for (unsigned k = 0; k < want; k++) {
        enum ptx_type declared;
        if (decode_destination(d, elements[k], type, &a->to[k], &declared))
            return -1;
        if (ptx_type_size(declared) < ptx_type_size(type) || ptx_type_size(declared) > 8)
            return decode_error(d, "a register of type %s for a value of type %s", ptx_type_name(declared),
                                ptx_type_name(type));
        a->cell[k] = (uint8_t)ptx_type_size(declared);
    }
    return 0;
}

static unsigned vector_of(const struct exec_decoder *d)
{
    return decode_has(d, "v4") ? 4 : decode_has(d, "v2") ? 2 : 1;
}

static int known_modifiers(struct exec_decoder *d, const char *const *list)
{
    for (uint32_t k = 0; k < d->in->modifier_count; k++)
        if (!one_of(d->in->modifiers[k], list))
            return decode_error(d, "unknown modifier '%s'", d->in->modifiers[k]);
    return 0;
}

static int decode_texture(struct exec_decoder *d)
{
    static const char *const known[] = { "level", "grad",  "base", "1d", "2d",    "3d",  "a1d", "a2d",
                                         "cube",  "acube", "v2",   "v4", "f16x2", "f16", "f32", "s32",
                                         "u32",   "r",     "g",    "b",  "a",     NULL };
    struct exec_insn n = { .run = run_texture };
    struct access *a = exec_kernel_own(d->kernel, sizeof *a);
    bool gather = !strcmp(d->in->opcode, "tld4");
    unsigned levels = decode_has(d, "level") ? 1 : decode_has(d, "grad") ? 2 : 0;
    if (!a)
        return decode_error(d, "no host memory");
    const uint32_t more = d->in->operand_count - 2 - levels;
    if (known_modifiers(d, known) || d->in->operand_count < 2 + levels || more > 1)
        return decode_error(d, "depth comparison is not known");
    enum ptx_type to = decode_type(d, 1), by = decode_type(d, 0);
    a->half = to == PTX_F16X2 || to == PTX_F16;
    a->integer = by == PTX_S32;
    a->gather = gather;
    a->component = decode_has(d, "g") ? 1 : decode_has(d, "b") ? 2 : decode_has(d, "a") ? 3 : 0;
    if ((by != PTX_F32 && by != PTX_S32) || (to != PTX_F32 && to != PTX_S32 && to != PTX_U32 && !a->half))
        return decode_error(d, "types of texel and coordinate that do not go together");
    if (places(d, &d->in->operands[1], true, &n, a) ||
        results(d, &d->in->operands[0], to, to == PTX_F16X2 ? 2 : 4, a) ||
        decode_predicate_destination(d, d->in->operands[0].second, &n.p))
        return -1;
    a->levels = levels;
    for (unsigned k = 0; k < levels; k++)
        if (decode_values(d, &d->in->operands[2 + k], levels == 1 ? 1 : a->dimensions, a->level[k]))
            return -1;
    if (more && decode_offsets(d, &d->in->operands[2 + levels], a))
        return -1;
    if ((a->shape == SHAPE_CUBE && a->integer) ||
        (gather && (a->integer || a->half || a->shape == SHAPE_1D || a->shape == SHAPE_3D)))
        return decode_error(d, "a geometry that does not go with this instruction");
    n.extra = a;
    return decode_put_guarded(d, n);
}

static int decode_surface(struct exec_decoder *d)
{
    static const char *const known[] = { "b",    "p",   "1d",  "2d",  "3d",  "a1d", "a2d", "v2",   "v4",
                                         "b8",   "b16", "b32", "b64", "u32", "s32", "f32", "trap", "clamp",
                                         "zero", "ca",  "cg",  "cs",  "cv",  "wb",  "wt",  NULL };
    bool load = !strcmp(d->in->opcode, "suld");
    struct exec_insn n = { .run = load ? run_surface_load : run_surface_store };
    struct access *a = exec_kernel_own(d->kernel, sizeof *a);
    if (!a)
        return decode_error(d, "no host memory");
    if (known_modifiers(d, known) || d->in->operand_count != 2)
        return decode_error(d, "operands");
    enum ptx_type type = decode_type(d, 0);
    a->bytes = (unsigned)ptx_type_size(type);
    a->formatted = decode_has(d, "p");
    a->outside = decode_has(d, "clamp") ? OUTSIDE_CLAMP : decode_has(d, "zero") ? OUTSIDE_ZERO : OUTSIDE_TRAP;
    unsigned want = vector_of(d);
    if (!a->bytes || a->bytes * want > 16 || (a->formatted && (load || a->bytes != 4)))
        return decode_error(d, "a type that surfaces do not have");
    if (places(d, &d->in->operands[load], false, &n, a))
        return -1;
    if (load && d->in->operands[0].second)
        return decode_error(d, "operands");
    n.extra = a;
    if (load)
        return results(d, &d->in->operands[0], type, want, a) ? -1 : decode_put_guarded(d, n);
    const struct ptx_operand *elements[4];
    struct ptx_operand scratch[4];
    a->count = decode_elements(d, &d->in->operands[1], elements, scratch, 4);
    if (a->count != want)
        return decode_error(d, "%u registers for a vector of %u", a->count, want);
    for (unsigned k = 0; k < want; k++) {
        if (decode_source(d, elements[k], type, &a->from[k]))
            return -1;
        a->cell[k] = a->bytes == 8 ? 8 : 4;
    }
    return decode_put_guarded(d, n);
}

/* sured.b counts bytes, and says what is there; sured.p counts elements. */
static int decode_surface_reduce(struct exec_decoder *d)
{
    static const char *const known[] = { "b",   "p",   "1d",  "2d",  "3d",  "a1d", "a2d", "add",  "min",  "max", "and",
                                         "or",  "b32", "b64", "u32", "s32", "u64", "s64", "trap", "clamp", "zero",
                                         NULL };
    struct exec_insn n = { .run = run_surface_reduce };
    struct access *a = exec_kernel_own(d->kernel, sizeof *a);
    if (!a)
        return decode_error(d, "no host memory");
    enum ptx_type type = decode_type(d, 0);
    if (known_modifiers(d, known) || d->in->operand_count != 2 || decode_reduction_kind(d, &a->reduce))
        return decode_error(d, "operands");
    a->bytes = (unsigned)ptx_type_size(type);
    a->count = 1;
    a->formatted = decode_has(d, "p");
    a->outside = decode_has(d, "clamp") ? OUTSIDE_CLAMP : decode_has(d, "zero") ? OUTSIDE_ZERO : OUTSIDE_TRAP;
    a->reduce.type = (uint8_t)type;
    a->reduce.size = (uint8_t)a->bytes;
    if ((a->bytes != 4 && a->bytes != 8) || (!a->formatted && !exec_reduces(&a->reduce)))
        return decode_error(d, "a type that this reduction does not have");
    n.extra = a;
    return places(d, &d->in->operands[0], false, &n, a) || decode_source(d, &d->in->operands[1], type, &a->from[0])
               ? -1
               : decode_put_guarded(d, n);
}

const struct decode_entry decode_texture_table[] = { { "tex", decode_texture },
                                                     { "tld4", decode_texture },
                                                     { "suld", decode_surface },
                                                     { "sust", decode_surface },
                                                     { "sured", decode_surface_reduce },
                                                     { NULL, NULL } };
