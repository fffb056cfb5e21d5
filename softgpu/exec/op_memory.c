/*
 * op_memory.c: ld and st in all their forms, and ldu.
 *
 * The element is 1, 2, 4, 8 or 16 bytes, the register may be wider. Orders: weak, relaxed and volatile are relaxed C11
 * accesses; acquire and release put a fence behind and before.
 *
 * A lane's vector is one access of up to 16 bytes, as on GPUs; one of 32 bytes is two. So vectors go through w->temp,
 * where they stand one behind the other as in contiguous memory, and only from there are their elements taken apart.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/fused.h"
#include "softgpu/exec/straight.h"

#include <string.h>

#include "softgpu/memory.h"

enum { MAX_VECTOR = EXEC_VECTOR_MOST };

static inline uint64_t load_element(uintptr_t p, unsigned size, bool sign)
{
    switch (size) {
    case 1:  { uint8_t v = exec_load8((void *)p); return sign ? (uint64_t)(int64_t)(int8_t)v : v; }
    case 2:  { uint16_t v = exec_load16((void *)p); return sign ? (uint64_t)(int64_t)(int16_t)v : v; }
    case 4:  { uint32_t v = exec_load32((void *)p); return sign ? (uint64_t)(int64_t)(int32_t)v : v; }
    default: return exec_load64((void *)p);
    }
}

/* bytes: of the register. */
static inline void put_cell(unsigned char *row, unsigned lane, unsigned bytes, uint64_t v)
{
    if (bytes == 8)
        ((uint64_t *)(void *)row)[lane] = v;
    else
        ((uint32_t *)(void *)row)[lane] = bytes == 4 ? (uint32_t)v : (uint32_t)(v & 0xffff);
}

/* One element of each active lane. */
static void load_lanes(struct exec_warp *w, enum exec_found found, unsigned size, bool sign, uint32_t to,
                       unsigned bytes)
{
    unsigned char *row = w->rows + to;
    if (size == 4 && bytes == 4) {
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            ((uint32_t *)(void *)row)[l] = exec_load32((void *)exec_found_address(w, found, l, 4));
        }
        return;
    }
    if (size == 8 && bytes == 8) {
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            ((uint64_t *)(void *)row)[l] = exec_load64((void *)exec_found_address(w, found, l, 8));
        }
        return;
    }
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uintptr_t p = exec_found_address(w, found, l, size);
        if (size == 16)
            exec_copy_piece(row + 16 * l, (const void *)p, 16);
        else
            put_cell(row, l, bytes, load_element(p, size, sign));
    }
}

/* Gives all active lanes one element. */
static void fill(struct exec_warp *w, uint64_t v, uint32_t to, unsigned bytes)
{
    unsigned char *row = w->rows + to;
    if (exec_full(w)) {
        if (bytes == 8)
            w->row->fill64((uint64_t *)(void *)row, v);
        else
            w->row->fill32((uint32_t *)(void *)row, bytes == 4 ? (uint32_t)v : (uint32_t)(v & 0xffff));
        return;
    }
    for (uint32_t m = w->mask; m; m &= m - 1)
        put_cell(row, (unsigned)__builtin_ctz(m), bytes, v);
}

static inline unsigned log2_of(unsigned size) { return (unsigned)__builtin_ctz(size); }

static void after_load(struct exec_warp *w, const struct exec_insn *i)
{
    if (i->order != EXEC_RELAXED)
        exec_fence_acq_rel();
    if (!(i->flags & (EXEC_POLL | EXEC_READS_SHARED)))
        return;
    if (i->flags & EXEC_POLL)
        exec_poll(w, EXEC_POLL_COST);
    if (i->flags & EXEC_READS_SHARED)
        w->block->read = true;
}

void exec_run_load(struct exec_warp *w, const struct exec_insn *i)
{
    unsigned size = i->size, bytes = i->kind;
    bool sign = i->flags & EXEC_SIGNED;
    enum exec_found found = exec_address(w, i, size, size, SG_READ);
    if (found == EXEC_FOUND_NONE)
        return;
    if (found == EXEC_FOUND_UNIFORM && size <= 8)
        fill(w, load_element(w->address[0], size, sign), i->d, bytes);
    else if (found == EXEC_FOUND_ROW && (bytes == 8) == (size == 8) && (!sign || bytes == 4 || size == 8) &&
             size <= 8) {
        void (*load)(void *, const void *) = (sign ? w->row->load_signed : w->row->load)[log2_of(size)];
        if (exec_full(w))
            load(w->rows + i->d, (void *)w->address[0]);
        else {
            load(w->temp[0], (void *)w->address[0]);
            if (bytes == 8)
                w->row->blend64((uint64_t *)(void *)(w->rows + i->d), (const uint64_t *)(void *)w->temp[0], w->mask);
            else
                w->row->blend32((uint32_t *)(void *)(w->rows + i->d), (const uint32_t *)(void *)w->temp[0], w->mask);
        }
    } else if (found == EXEC_FOUND_LANES && w->mask == UINT32_MAX && size == bytes) {
        if (size == 4)
            w->row->gather32((uint32_t *)(void *)(w->rows + i->d), w->address);
        else if (size == 8)
            w->row->gather64((uint64_t *)(void *)(w->rows + i->d), w->address);
        else
            load_lanes(w, found, size, sign, i->d, bytes);
    } else
        load_lanes(w, found, size, sign, i->d, bytes);
    after_load(w, i);
}

/* The active lanes' vectors, one behind the other. */
static const void *collect(struct exec_warp *w, enum exec_found found, unsigned size)
{
    unsigned char *to = w->temp[0];
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        exec_copy_piece(to + l * size, (const void *)exec_found_address(w, found, l, size), size);
    }
    return to;
}

static void load_vector_uniform(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    _Alignas(16) unsigned char one[32];
    exec_copy_piece(one, (const void *)w->address[0], i->size * i->vector);
    for (unsigned k = 0; k < i->vector; k++)
        if (!v->sink[k])
            fill(w, load_element((uintptr_t)one + k * i->size, i->size, i->flags & EXEC_SIGNED), v->to[k], v->bytes[k]);
}

/* Vectors that are contiguous, of a shape that row functions know. All 32 may be read. */
static void load_vector_rows(struct exec_warp *w, const struct exec_insn *i, const void *from)
{
    const struct exec_vector *v = i->extra;
    unsigned n = i->vector;
    _Alignas(64) unsigned char spare[4][8 * SG_LANES];
    void *d[4] = { NULL };
    bool full = exec_full(w);
    for (unsigned k = 0; k < n; k++)
        d[k] = full && !v->sink[k] ? w->rows + v->to[k] : spare[k];
    w->row->load_vector[v->shape](d, from);
    for (unsigned k = 0; !full && k < n; k++) {
        if (v->sink[k])
            continue;
        if (i->size == 8)
            w->row->blend64((uint64_t *)(void *)(w->rows + v->to[k]), d[k], w->mask);
        else
            w->row->blend32((uint32_t *)(void *)(w->rows + v->to[k]), d[k], w->mask);
    }
}

void exec_run_load_vector(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    unsigned size = i->size, n = i->vector;
    enum exec_found found = exec_address(w, i, size * n, size * n, SG_READ);
    if (found == EXEC_FOUND_NONE)
        return;
    if (found == EXEC_FOUND_UNIFORM)
        load_vector_uniform(w, i);
    else if (v->shape != EXEC_VECTOR_OTHER)
        load_vector_rows(w, i, found == EXEC_FOUND_ROW ? (const void *)w->address[0] : collect(w, found, size * n));
    else {
        const unsigned char *from = collect(w, found, size * n);
        for (unsigned k = 0; k < n; k++)
            for (uint32_t m = v->sink[k] ? 0 : w->mask; m; m &= m - 1) {
                unsigned l = (unsigned)__builtin_ctz(m);
                uintptr_t at = (uintptr_t)from + l * size * n + k * size;
                put_cell(w->rows + v->to[k], l, v->bytes[k], load_element(at, size, i->flags & EXEC_SIGNED));
            }
    }
    after_load(w, i);
}

static inline void store_lane(uintptr_t p, unsigned size, const void *row, unsigned bytes, unsigned l)
{
    switch (size) {
    case 1:
        exec_store8((void *)p, (uint8_t)(bytes == 8 ? ((const uint64_t *)row)[l] : ((const uint32_t *)row)[l]));
        break;
    case 2:
        exec_store16((void *)p, (uint16_t)(bytes == 8 ? ((const uint64_t *)row)[l] : ((const uint32_t *)row)[l]));
        break;
    case 4:
        exec_store32((void *)p, (uint32_t)(bytes == 8 ? ((const uint64_t *)row)[l] : ((const uint32_t *)row)[l]));
        break;
    case 8:  exec_store64((void *)p, ((const uint64_t *)row)[l]); break;
    default: exec_copy_piece((void *)p, (const unsigned char *)row + 16 * l, 16);
    }
}

static void store_lanes(struct exec_warp *w, enum exec_found found, unsigned size, const void *row, unsigned bytes)
{
    if (size == 4 && bytes == 4) {
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            exec_store32((void *)exec_found_address(w, found, l, 4), ((const uint32_t *)row)[l]);
        }
        return;
    }
    if (size == 8) {
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            exec_store64((void *)exec_found_address(w, found, l, 8), ((const uint64_t *)row)[l]);
        }
        return;
    }
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        store_lane(exec_found_address(w, found, l, size), size, row, bytes, l);
    }
}

void exec_run_store(struct exec_warp *w, const struct exec_insn *i)
{
    unsigned size = i->size, bytes = i->kind;
    enum exec_found found = exec_address(w, i, size, size, SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    if (i->order != EXEC_RELAXED) {
        exec_fence_acq_rel();
        exec_release();
    }
    const void *row = exec_row(w, i->s[1]);
    if (found >= EXEC_FOUND_CONTIGUOUS && (bytes == 8) == (size == 8) && size <= 8) {
        if (w->mask == UINT32_MAX)
            w->row->store[log2_of(size)]((void *)w->address[0], row);
        else
            w->row->store_some[log2_of(size)]((void *)w->address[0], row, w->mask);
    } else
        store_lanes(w, found, size, row, bytes);
}

void exec_run_store_vector(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    unsigned size = i->size, n = i->vector;
    enum exec_found found = exec_address(w, i, size * n, size * n, SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    if (i->order != EXEC_RELAXED) {
        exec_fence_acq_rel();
        exec_release();
    }
    const void *rows[MAX_VECTOR];
    unsigned char *all = w->temp[0];
    for (unsigned k = 0; k < n; k++)
        rows[k] = exec_row(w, v->from[k]);
    if (v->shape != EXEC_VECTOR_OTHER) {
        if (found >= EXEC_FOUND_CONTIGUOUS && w->mask == UINT32_MAX) {
            w->row->store_vector[v->shape]((void *)w->address[0], rows);
            return;
        }
        w->row->store_vector[v->shape](all, rows);
    } else
        for (unsigned k = 0; k < n; k++)
            for (uint32_t m = w->mask; m; m &= m - 1) {
                unsigned l = (unsigned)__builtin_ctz(m);
                store_lane((uintptr_t)all + l * size * n + k * size, size, rows[k], v->bytes[k], l);
            }
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        exec_copy_piece((void *)exec_found_address(w, found, l, size * n), all + l * size * n, size * n);
    }
}

/* --- decoding --- */

/* One address of each lane in global or constant memory, or in shared memory; no order. */
static bool fits_fused(const struct exec_insn *n, bool shared)
{
    const unsigned odd = EXEC_ADDRESS_UNIFORM | EXEC_ADDRESS_FRAME | EXEC_POLL | (shared ? 0 : EXEC_ADDRESS_32);
    if (n->flags & odd || n->order != EXEC_RELAXED)
        return false;
    return shared ? n->space == PTX_SPACE_SHARED
                  : n->space == PTX_SPACE_GLOBAL || n->space == PTX_SPACE_GENERIC || n->space == PTX_SPACE_CONST;
}

static exec_handler *fused_load(const struct exec_insn *n)
{
    const struct exec_fused *f = exec_fused_best();
    const struct exec_vector *v = n->vector > 1 ? n->extra : NULL;
    bool shared = fits_fused(n, true), sign = n->flags & EXEC_SIGNED && n->size < 4;
    exec_handler *run = NULL;
    if (!shared && !fits_fused(n, false))
        return n->run;
    if (v)
        run = v->shape == EXEC_VECTOR_OTHER ? NULL : (shared ? f->shared_load_vector : f->load_vector)[v->shape];
    else if (shared)
        run = n->size == 4 && n->kind == 4 ? f->shared_load : NULL;
    else if (n->size <= 8 && (n->kind == 8) == (n->size == 8) && (!sign || n->kind == 4))
        run = sign ? f->load_signed[log2_of(n->size)] : f->load[log2_of(n->size)];
    return run ? run : n->run;
}

static exec_handler *fused_store(const struct exec_insn *n)
{
    const struct exec_fused *f = exec_fused_best();
    const struct exec_vector *v = n->vector > 1 ? n->extra : NULL;
    bool shared = fits_fused(n, true);
    exec_handler *run = NULL;
    if (!shared && !fits_fused(n, false))
        return n->run;
    if (v)
        run = v->shape == EXEC_VECTOR_OTHER ? NULL : (shared ? f->shared_store_vector : f->store_vector)[v->shape];
    else if (shared)
        run = n->size == 4 && n->kind == 4 ? f->shared_store : NULL;
    else if (n->size <= 8 && (n->kind == 8) == (n->size == 8))
        run = f->store[log2_of(n->size)];
    return run ? run : n->run;
}

/* Gives a load that loops may wait with the number of the plain load: for compilers only its cost differs. */
static uint8_t polling_load(const struct exec_insn *n)
{
    struct exec_insn plain = *n;
    const bool sign = n->flags & EXEC_SIGNED && n->size < 4;
    plain.flags &= (uint8_t)~EXEC_POLL;
    if (!(n->flags & EXEC_POLL) || !fits_fused(&plain, false) || n->size > 8 || (n->kind == 8) != (n->size == 8) ||
        (sign && n->kind != 4))
        return EXEC_STRAIGHT_NONE;
    return (uint8_t)((sign ? EXEC_STRAIGHT_LOAD_8S : EXEC_STRAIGHT_LOAD_8) + log2_of(n->size));
}

/* A byte that becomes a signed number of 16 bits. */
static bool is_short_of_byte(const struct exec_insn *n)
{
    return n->run == exec_run_load && n->flags & EXEC_SIGNED && n->size == 1 && n->kind == 2 && fits_fused(n, false);
}

/* What compilers know an access of one row as: one of 32 bits in shared memory is `shared`; the handler of others says
   more (straighten.c), or they are `other`. */
static uint8_t plain_access(const struct exec_insn *n, uint8_t shared, uint8_t other)
{
    if (fits_fused(n, true) && n->size == 4 && n->kind == 4)
        return shared;
    bool general = n->run == exec_run_load || n->run == exec_run_store;
    return general && n->straight != EXEC_STRAIGHT_PARAM ? other : EXEC_STRAIGHT_NONE;
}

static bool is_hint(const char *m)
{
    static const char *const hints[] = { "weak",
                                         "volatile",
                                         "relaxed",
                                         "acquire",
                                         "release",
                                         "mmio",
                                         "cta",
                                         "cluster",
                                         "gpu",
                                         "sys",
                                         "ca",
                                         "cg",
                                         "cs",
                                         "lu",
                                         "cv",
                                         "wb",
                                         "wt",
                                         "nc",
                                         "unified",
                                         "global",
                                         "shared",
                                         "shared::cta",
                                         "shared::cluster",
                                         "local",
                                         "const",
                                         "param",
                                         "param::entry",
                                         "param::func",
                                         "v2",
                                         "v4",
                                         "v8",
                                         NULL };
    for (int k = 0; hints[k]; k++)
        if (!strcmp(m, hints[k]))
            return true;
    return !strncmp(m, "L1::", 4) || !strncmp(m, "L2::", 4) || !strncmp(m, "level::", 7);
}

static int access_of(struct exec_decoder *d, struct exec_insn *n, bool load)
{
    const struct ptx_instruction *in = d->in;
    bool asynchronous = !load && decode_has(d, "async");         /* it is done at once */
    for (uint32_t k = 0; k < in->modifier_count; k++)
        if (asynchronous && (!strcmp(in->modifiers[k], "async") || !strncmp(in->modifiers[k], "mbarrier::", 10)))
            continue;
        else if (!is_hint(in->modifiers[k]) && decode_type_of(in->modifiers[k]) == PTX_NONE)
            return decode_error(d, "unknown modifier '%s'", in->modifiers[k]);
    enum ptx_type type = decode_type(d, 0);
    size_t size = ptx_type_size(type);
    if (!size)
        return decode_error(d, "no type that memory can hold");
    n->size = (uint8_t)size;
    n->type = (uint8_t)type;
    n->vector = decode_has(d, "v2") ? 2 : decode_has(d, "v4") ? 4 : decode_has(d, "v8") ? 8 : 1;
    bool given;
    enum ptx_space space = decode_space(d, &given);
    if (n->size * n->vector > 32 || (n->size == 16 && n->vector > 1))
        return decode_error(d, "a vector of %u values of %u bytes", n->vector, n->size);
    if (n->size * n->vector > 16 && space != PTX_SPACE_GLOBAL && space != PTX_SPACE_GENERIC)
        return decode_error(d, "more than 16 bytes at once are for .global");
    if (type >= PTX_S8 && type <= PTX_S64)
        n->flags |= EXEC_SIGNED;
    if (decode_has(d, "acquire"))
        n->order = EXEC_ACQUIRE;
    if (decode_has(d, "release"))
        n->order = EXEC_RELEASE;
    if (load && (decode_has(d, "volatile") || decode_has(d, "relaxed") || decode_has(d, "acquire") ||
                 decode_has(d, "cv") || decode_has(d, "cg")))
        n->flags |= EXEC_POLL;
    if (load && d->kernel->has_barriers && (space == PTX_SPACE_SHARED || space == PTX_SPACE_GENERIC))
        n->flags |= EXEC_READS_SHARED;
    return 0;
}

static enum exec_vector_shape shape_of(const struct exec_insn *n, const struct exec_vector *v)
{
    for (unsigned k = 0; k < n->vector; k++)
        if (v->bytes[k] != n->size)
            return EXEC_VECTOR_OTHER;
    return n->size == 4 && n->vector == 2 ? EXEC_VECTOR_32X2 : n->size == 4 && n->vector == 4 ? EXEC_VECTOR_32X4
         : n->size == 8 && n->vector == 2 ? EXEC_VECTOR_64X2 : EXEC_VECTOR_OTHER;
}

static uint8_t vector_kind(const struct exec_insn *n, const struct exec_vector *v)
{
    return v->shape != EXEC_VECTOR_OTHER && fits_fused(n, false) ? EXEC_VECTOR_GLOBAL : 0;
}

/* A whole parameter of the kernel, or a part, into a register of its size. */
static bool is_plain_parameter(const struct exec_decoder *d, const struct exec_insn *n)
{
    const uint64_t offset = (uint64_t)n->offset;
    return d->f->is_entry && n->space == PTX_SPACE_PARAM && n->flags & EXEC_ADDRESS_UNIFORM &&
           !(n->flags & (EXEC_ADDRESS_FRAME | EXEC_POLL)) && n->order == EXEC_RELAXED && n->vector == 1 &&
           (n->size == 4 || n->size == 8) && n->kind == n->size && !(offset & (n->size - 1u)) &&
           offset < d->f->param_size && n->size <= d->f->param_size - offset;
}

static int decode_load(struct exec_decoder *d)
{
    struct exec_insn n = { .run = exec_run_load };
    /* L2::cache_hint brings a third operand, which says how long to keep it */
    if (d->in->operand_count < 2 || access_of(d, &n, true) ||
        decode_memory(d, &d->in->operands[1], decode_space(d, NULL), &n))
        return decode_error(d, "operands");
    const struct ptx_operand *elements[MAX_VECTOR];
    struct ptx_operand scratch[MAX_VECTOR];
    uint32_t count = decode_elements(d, &d->in->operands[0], elements, scratch, MAX_VECTOR);
    if (count != n.vector)
        return decode_error(d, "%u registers for a vector of %u", count, n.vector);
    struct exec_vector *v = count > 1 ? exec_kernel_own(d->kernel, sizeof *v) : NULL;
    if (count > 1 && !v)
        return decode_error(d, "no host memory");
    for (uint32_t k = 0; k < count; k++) {
        uint32_t row;
        enum ptx_type declared;
        if (decode_destination(d, elements[k], (enum ptx_type)n.type, &row, &declared))
            return -1;
        if (ptx_type_size(declared) < n.size)
            return decode_error(d, "a value of %u bytes into a register of type %s", n.size, ptx_type_name(declared));
        if (v) {
            v->to[k] = row;
            v->bytes[k] = (uint8_t)ptx_type_size(declared);
            v->sink[k] = elements[k]->kind == PTX_OP_SINK;
        } else {
            n.d = row;
            n.kind = (uint8_t)ptx_type_size(declared);
        }
    }
    if (v) {
        v->shape = shape_of(&n, v);
        n.run = exec_run_load_vector;
        n.extra = v;
        n.kind = vector_kind(&n, v);
    }
    if (is_plain_parameter(d, &n))
        n.straight = EXEC_STRAIGHT_PARAM;
    if (!d->kernel->program->plain)
        n.run = fused_load(&n);
    n.known = v ? EXEC_STRAIGHT_LOAD_VECTOR : polling_load(&n);
    if (!v && is_short_of_byte(&n))
        n.known = EXEC_STRAIGHT_LOAD_8S_16;
    if (n.known == EXEC_STRAIGHT_NONE)
        n.known = plain_access(&n, EXEC_STRAIGHT_SHARED_LOAD, EXEC_STRAIGHT_LOAD);
    return decode_put_guarded(d, n);
}

static enum ptx_type bits(unsigned size)
{
    return size == 1 ? PTX_B8 : size == 2 ? PTX_B16 : size == 4 ? PTX_B32 : size == 8 ? PTX_B64 : PTX_B128;
}

/* A source of a store: wider registers are cut by the store itself. */
static int store_source(struct exec_decoder *d, const struct ptx_operand *o, unsigned size, exec_source *row,
                        uint8_t *bytes)
{
    *bytes = (uint8_t)(size < 4 ? 4 : size);
    if (o->kind == PTX_OP_REGISTER) {
        uint32_t at;
        enum ptx_type type;
        if (decode_register(d, o, &at, &type))
            return -1;
        if (type == PTX_PRED || ptx_type_size(type) < size)
            return decode_error(d, "a register of type %s for a value of %u bytes", ptx_type_name(type), size);
        if (size != 16 && ptx_type_size(type) != 16) {
            *row = at | EXEC_BASE_FRAME;
            *bytes = (uint8_t)ptx_type_size(type);
            return 0;
        }
    }
    return decode_source(d, o, bits(size), row);
}

static int decode_store(struct exec_decoder *d)
{
    struct exec_insn n = { .run = exec_run_store };
    if (decode_has(d, "bulk"))
        return decode_bulk_store(d);
    if (d->in->operand_count < 2 || access_of(d, &n, false) ||
        decode_memory(d, &d->in->operands[0], decode_space(d, NULL), &n))
        return decode_error(d, "operands");
    const struct ptx_operand *elements[MAX_VECTOR];
    struct ptx_operand scratch[MAX_VECTOR];
    uint32_t count = decode_elements(d, &d->in->operands[1], elements, scratch, MAX_VECTOR);
    if (count != n.vector)
        return decode_error(d, "%u registers for a vector of %u", count, n.vector);
    if (count == 1) {
        const struct ptx_operand *o = elements[0];
        struct ptx_operand typed = *o;
        if (o->kind == PTX_OP_FLOAT) {            /* st.f32 of 0d…: as a value of that type */
            typed.kind = PTX_OP_INTEGER;
            typed.integer = (int64_t)decode_immediate(o, (enum ptx_type)n.type);
        }
        if (store_source(d, &typed, n.size, &n.s[1], &n.kind))
            return -1;
        if (!d->kernel->program->plain)
            n.run = fused_store(&n);
        n.known = plain_access(&n, EXEC_STRAIGHT_SHARED_STORE, EXEC_STRAIGHT_STORE);
        return decode_put_guarded(d, n) || decode_store_complete(d, 2, n.size) ? -1 : 0;
    }
    struct exec_vector *v = exec_kernel_own(d->kernel, sizeof *v);
    if (!v)
        return decode_error(d, "no host memory");
    for (uint32_t k = 0; k < count; k++) {
        struct ptx_operand typed = *elements[k];
        if (typed.kind == PTX_OP_FLOAT) {
            typed.integer = (int64_t)decode_immediate(elements[k], (enum ptx_type)n.type);
            typed.kind = PTX_OP_INTEGER;
        }
        if (store_source(d, &typed, n.size, &v->from[k], &v->bytes[k]))
            return -1;
    }
    v->shape = shape_of(&n, v);
    n.run = exec_run_store_vector;
    n.extra = v;
    n.kind = vector_kind(&n, v);
    n.known = EXEC_STRAIGHT_STORE_VECTOR;
    if (!d->kernel->program->plain)
        n.run = fused_store(&n);
    return decode_put_guarded(d, n) || decode_store_complete(d, 2, (uint64_t)n.size * n.vector) ? -1 : 0;
}

const struct decode_entry decode_memory_table[] = {
    { "ld", decode_load }, { "ldu", decode_load }, { "st", decode_store }, { NULL, NULL }
};
