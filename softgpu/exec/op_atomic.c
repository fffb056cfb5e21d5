/*
 * op_atomic.c: atom and red.
 *
 * Lanes go in order. Integers and exchanges are C11 atomic operations, relaxed unless the instruction says otherwise;
 * floating point and what C11 lacks is a compare-and-swap loop. Scopes are all the widest: it costs nothing here.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/atomic.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

#include <math.h>
#include <string.h>

#include "softgpu/alu/small_float.h"
#include "softgpu/memory.h"

enum atomic_op {
    ADD = EXEC_ATOMIC_ADD, AND = EXEC_ATOMIC_AND, OR = EXEC_ATOMIC_OR, XOR = EXEC_ATOMIC_XOR,
    EXCH = EXEC_ATOMIC_EXCH, CAS = EXEC_ATOMIC_CAS, INC = EXEC_ATOMIC_INC, DEC = EXEC_ATOMIC_DEC,
    MIN = EXEC_ATOMIC_MIN, MAX = EXEC_ATOMIC_MAX
};

struct atomic_vector { uint32_t to[8]; exec_source from[8]; bool sink[8]; };

static float f32_of(uint32_t u) { union { uint32_t u; float f; } v = { .u = u }; return v.f; }
static uint32_t of_f32(float f) { union { uint32_t u; float f; } v = { .f = f }; return v.u; }

static uint32_t small_two(enum atomic_op op, uint32_t a, uint32_t b, struct small_float format)
{
    float x = small_to_f32(a, format), y = small_to_f32(b, format);
    if (op == ADD)                    /* one rounding: the sum of two f16 or bf16 is exact in f32, or far from a tie */
        return small_from_f32(of_f32(x + y), format, SMALL_RN, false);
    if (isnan(x) || isnan(y))
        return isnan(x) ? isnan(y) ? small_nan(format) : b : a;
    bool less = x < y || (x == y && signbit(x) && !signbit(y));
    return (op == MIN) == less ? a : b;
}

static uint32_t without_subnormal(uint32_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

/* flush: of f32, subnormal operands and results become zeros of their sign. NaNs are as on an H200. */
static uint32_t add_f32(uint32_t a, uint32_t b, bool flush)
{
    const float sum = flush ? f32_of(without_subnormal(a)) + f32_of(without_subnormal(b)) : f32_of(a) + f32_of(b);
    return sum != sum ? NAN_F32 : flush ? without_subnormal(of_f32(sum)) : of_f32(sum);
}

static uint64_t two(enum atomic_op op, enum ptx_type type, uint64_t a, uint64_t b, bool flush)
{
    switch (type) {
    case PTX_F32:  return add_f32((uint32_t)a, (uint32_t)b, flush);
    case PTX_F64: {
        union { uint64_t u; double f; } x = { .u = a }, y = { .u = b };
        if (flush && y.f != y.f)      /* global memory passes a NaN on as it is, the operand's first */
            return b;
        if (flush && x.f != x.f)
            return a;
        x.f += y.f;
        return x.u;
    }
    case PTX_F16:  return small_two(op, (uint32_t)a, (uint32_t)b, FORMAT_F16);
    case PTX_BF16: return small_two(op, (uint32_t)a, (uint32_t)b, FORMAT_BF16);
    case PTX_F16X2:
    case PTX_BF16X2: {
        struct small_float f = type == PTX_F16X2 ? FORMAT_F16 : FORMAT_BF16;
        return small_two(op, (uint32_t)a & 0xffff, (uint32_t)b & 0xffff, f) |
               small_two(op, (uint32_t)(a >> 16) & 0xffff, (uint32_t)(b >> 16) & 0xffff, f) << 16;
    }
    default: break;
    }
    bool wide = ptx_type_size(type) == 8, is_signed = type >= PTX_S8 && type <= PTX_S64;
    bool less = is_signed ? (wide ? (int64_t)a < (int64_t)b : (int32_t)a < (int32_t)b) : a < b;
    switch (op) {
    case INC: return a >= b ? 0 : a + 1;
    case DEC: return a == 0 || a > b ? b : a - 1;
    case MIN: return less ? a : b;
    case MAX: return less ? b : a;
    default:  return a;
    }
}

/* One lane. Relaxed and stronger differ for the compiler only in constants, hence the macro. */
#define ATOMIC(bits)                                                                                          \
    EXEC_RACY static uint##bits##_t atomic##bits(enum atomic_op op, enum ptx_type type, bool flush, void *at, \
                                                 uint##bits##_t b, uint##bits##_t c)                          \
    {                                                                                                         \
        uint##bits##_t *p = at, old;                                                                          \
        bool real = type >= PTX_F16 && type <= PTX_F64;                                                       \
        if (!real)                                                                                            \
            switch (op) {                                                                                     \
            case ADD: return __atomic_fetch_add(p, b, __ATOMIC_ACQ_REL);                                      \
            case AND: return __atomic_fetch_and(p, b, __ATOMIC_ACQ_REL);                                      \
            case OR: return __atomic_fetch_or(p, b, __ATOMIC_ACQ_REL);                                        \
            case XOR: return __atomic_fetch_xor(p, b, __ATOMIC_ACQ_REL);                                      \
            default: break;                                                                                   \
            }                                                                                                 \
        if (op == EXCH)                                                                                       \
            return __atomic_exchange_n(p, b, __ATOMIC_ACQ_REL);                                               \
        if (op == CAS) {                                                                                      \
            old = b;                                                                                          \
            __atomic_compare_exchange_n(p, &old, c, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);               \
            return old;                                                                                       \
        }                                                                                                     \
        old = __atomic_load_n(p, __ATOMIC_RELAXED);                                                           \
        while (!__atomic_compare_exchange_n(p, &old, (uint##bits##_t)two(op, type, old, b, flush), true,      \
                                            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))                              \
            ;                                                                                                 \
        return old;                                                                                           \
    }
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

/* Shared memory belongs to one block or cluster, which one host thread runs at a time: nothing to lock. */
static uint64_t shared_one(const struct exec_insn *i, void *at, uint64_t b, uint64_t c)
{
    enum atomic_op op = (enum atomic_op)i->kind;
    enum ptx_type type = (enum ptx_type)i->type;
    uint64_t old = i->size == 8 ? *(uint64_t *)at : i->size == 4 ? *(uint32_t *)at : *(uint16_t *)at, v;
    bool real = type >= PTX_F16 && type <= PTX_F64;
    switch (op) {
    case ADD:  v = real ? two(op, type, old, b, false) : old + b; break;
    case AND:  v = old & b; break;
    case OR:   v = old | b; break;
    case XOR:  v = old ^ b; break;
    case EXCH: v = b; break;
    case CAS:  v = old == b ? c : old; break;
    default:   v = two(op, type, old, b, false);
    }
    if (i->size == 8)
        *(uint64_t *)at = v;
    else if (i->size == 4)
        *(uint32_t *)at = (uint32_t)v;
    else
        *(uint16_t *)at = (uint16_t)v;
    return old;
}

/* atom.add.f32 and red.add.f32 flush subnormals on global memory and keep them on shared memory: by where the address
   leads, so for a generic one too. f16, bf16 (.noftz) and f64 keep them everywhere; NaNs of f64 differ (two). */
static bool flushes(const struct exec_warp *w, const struct exec_insn *i, const void *at)
{
    if ((i->type != PTX_F32 && i->type != PTX_F64) || i->space == PTX_SPACE_SHARED)
        return false;
    const struct exec_block *b = w->block;
    bool own = (uintptr_t)at - (uintptr_t)b->shared < b->shared_size;
    return !own && !(b->cluster && exec_in_shared(b, at));
}

static void run_atomic(struct exec_warp *w, const struct exec_insn *i)
{
    enum atomic_op op = (enum atomic_op)i->kind;
    enum ptx_type type = (enum ptx_type)i->type;
    unsigned size = i->size;
    enum exec_found found = exec_address(w, i, size, size, SG_READ | SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    if (i->order == EXEC_SEQ_CST)
        exec_fence_full();
    if (i->flags & EXEC_SYSTEM)
        exec_release();
    const void *b = exec_row(w, i->s[1]), *c = i->s[2] ? exec_row(w, i->s[2]) : b;
    unsigned char *to = i->d != UINT32_MAX ? w->rows + i->d : NULL;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        void *at = (void *)exec_found_address(w, found, l, size);
        if (i->space == PTX_SPACE_SHARED) {
            uint64_t old = shared_one(i, at, exec_lane(b, i->cell, l), exec_lane(c, i->cell, l));
            if (to && size == 8)
                ((uint64_t *)(void *)to)[l] = old;
            else if (to)
                ((uint32_t *)(void *)to)[l] = (uint32_t)old;
        } else if (size == 8) {
            uint64_t old =
                atomic64(op, type, flushes(w, i, at), at, ((const uint64_t *)b)[l], ((const uint64_t *)c)[l]);
            if (to)
                ((uint64_t *)(void *)to)[l] = old;
        } else if (size == 4) {
            uint32_t old =
                atomic32(op, type, flushes(w, i, at), at, ((const uint32_t *)b)[l], ((const uint32_t *)c)[l]);
            if (to)
                ((uint32_t *)(void *)to)[l] = old;
        } else {
            uint16_t old = atomic16(op, type, false, at, (uint16_t)((const uint32_t *)b)[l],
                                    (uint16_t)((const uint32_t *)c)[l]);
            if (to)
                ((uint32_t *)(void *)to)[l] = old;
        }
    }
    if (i->kind == CAS || i->kind == EXCH)
        exec_poll(w, EXEC_ATOMIC_POLL_COST);
    else
        w->budget -= EXEC_ATOMIC_COST;
}

/* Vectors: each element on its own is atomic. */
static void run_atomic_vector(struct exec_warp *w, const struct exec_insn *i)
{
    enum atomic_op op = (enum atomic_op)i->kind;
    enum ptx_type type = (enum ptx_type)i->type;
    const struct atomic_vector *v = i->extra;
    unsigned size = i->size, n = i->vector;
    enum exec_found found = exec_address(w, i, size * n, size * n, SG_READ | SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    for (unsigned k = 0; k < n; k++) {
        const uint32_t *b = exec_row(w, v->from[k]);
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            void *at = (void *)(exec_found_address(w, found, l, size * n) + k * size);
            uint32_t old = size == 4 ? atomic32(op, type, flushes(w, i, at), at, b[l], 0)
                                     : atomic16(op, type, false, at, (uint16_t)b[l], 0);
            if (!v->sink[k])
                ((uint32_t *)(void *)(w->rows + v->to[k]))[l] = old;
        }
    }
}

/* One exchange (CAS: if the bytes are those of `expected`) of 16 bytes. old: what was there. */
#ifdef __x86_64__
static void swap128(enum atomic_op op, void *p, const uint64_t *expected, const uint64_t *desired, uint64_t old[2])
{
    old[0] = op == CAS ? expected[0] : 0;
    old[1] = op == CAS ? expected[1] : 0;
    while (!exec_swap128(p, old, desired) && op == EXCH)
        ;
}
#else
/* One lock for all: whole for other 128-bit atomics, not for plain accesses. */
static pthread_mutex_t lock128 = PTHREAD_MUTEX_INITIALIZER;
EXEC_RACY static void swap128(enum atomic_op op, void *at, const uint64_t *expected, const uint64_t *desired,
                              uint64_t old[2])
{
    uint64_t *p = at;
    pthread_mutex_lock(&lock128);
    old[0] = exec_load64(p);
    old[1] = exec_load64(p + 1);
    if (op == EXCH || (old[0] == expected[0] && old[1] == expected[1])) {
        exec_store64(p, desired[0]);
        exec_store64(p + 1, desired[1]);
    }
    pthread_mutex_unlock(&lock128);
}
#endif

static void run_atomic128(struct exec_warp *w, const struct exec_insn *i)
{
    enum exec_found found = exec_address(w, i, 16, 16, SG_READ | SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    enum atomic_op op = (enum atomic_op)i->kind;
    const uint64_t *b = exec_row(w, i->s[1]), *c = op == CAS ? exec_row(w, i->s[2]) : b;
    uint64_t *to = i->d != UINT32_MAX ? (uint64_t *)(void *)(w->rows + i->d) : NULL, old[2];
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        swap128(op, (void *)exec_found_address(w, found, l, 16), b + 2 * l, c + 2 * l, old);
        if (to) {
            to[2 * l] = old[0];
            to[2 * l + 1] = old[1];
        }
    }
    if (op == CAS)
        exec_poll(w, EXEC_ATOMIC_POLL_COST);
}

EXEC_RACY void exec_reduce(struct exec_warp *w, const struct exec_insn *i, void *to, const void *from, unsigned bytes)
{
    enum atomic_op op = (enum atomic_op)i->kind;
    enum ptx_type type = (enum ptx_type)i->type;
    (void)w;
    for (unsigned at = 0; at < bytes; at += i->size) {
        void *d = (unsigned char *)to + at;
        const void *s = (const unsigned char *)from + at;
        if (i->size == 8)
            atomic64(op, type, true, d, *(const uint64_t *)s, 0);
        else if (i->size == 4)        /* unlike red.f32 these keep subnormals: seen on an H200 */
            atomic32(op, type, false, d, *(const uint32_t *)s, 0);
        else
            atomic16(op, type, false, d, *(const uint16_t *)s, 0);
    }
}

static bool allowed(enum atomic_op op, enum ptx_type t)
{
    size_t size = ptx_type_size(t);
    bool real = t >= PTX_F16 && t <= PTX_F64;
    switch (op) {
    case ADD:  return real || ((size == 4 || size == 8) && t != PTX_B32 && t != PTX_B64);
    case MIN:
    case MAX:
        return t == PTX_F16 || t == PTX_F16X2 || t == PTX_BF16 || t == PTX_BF16X2 ||
               (!real && (size == 4 || size == 8));
    case INC:
    case DEC:  return t == PTX_U32;
    case CAS:  return !real && (size == 2 || size == 4 || size == 8 || size == 16);
    case EXCH: return !real && (size == 4 || size == 8 || size == 16);
    default:   return !real && (size == 4 || size == 8);
    }
}

static int decode_vector(struct exec_decoder *d, struct exec_insn n, const struct ptx_operand *to,
                         const struct ptx_operand *from)
{
    const struct ptx_operand *elements[8];
    struct ptx_operand scratch[8];
    enum ptx_type declared;
    struct atomic_vector *v = exec_kernel_own(d->kernel, sizeof *v);
    if (!v)
        return decode_error(d, "no host memory");
    if (n.size > 4 || (n.kind != ADD && n.kind != MIN && n.kind != MAX) ||
        decode_elements(d, from, elements, scratch, 8) != n.vector)
        return decode_error(d, "a vector of this kind");
    for (unsigned k = 0; k < n.vector; k++)
        if (decode_source(d, elements[k], (enum ptx_type)n.type, &v->from[k]))
            return -1;
    if (to && decode_elements(d, to, elements, scratch, 8) != n.vector)
        return decode_error(d, "a vector of this kind");
    for (unsigned k = 0; k < n.vector; k++) {
        v->sink[k] = !to || elements[k]->kind == PTX_OP_SINK;
        if (!v->sink[k] && decode_destination(d, elements[k], (enum ptx_type)n.type, &v->to[k], &declared))
            return -1;
    }
    n.extra = v;
    n.run = run_atomic_vector;
    return decode_put_guarded(d, n);
}

static void decode_kind(const struct exec_decoder *d, struct exec_insn *n)
{
    static const char *const names[] = { "add", "and", "or", "xor", "exch", "cas", "inc", "dec", "min", "max" };
    n->kind = 255;
    for (uint8_t k = 0; k < sizeof names / sizeof *names; k++)
        if (decode_has(d, names[k]))
            n->kind = k;
}

/* The operation and the type that the modifiers name. */
static int decode_operation(struct exec_decoder *d, struct exec_insn *n)
{
    enum ptx_type type = decode_type(d, 0);
    decode_kind(d, n);
    if (n->kind == 255 || type == PTX_NONE || !allowed((enum atomic_op)n->kind, type))
        return decode_error(d, "no such atomic operation on that type");
    n->type = (uint8_t)type;
    n->size = (uint8_t)ptx_type_size(type);
    n->cell = (uint8_t)decode_cell(type);
    return 0;
}

int decode_reduction(struct exec_decoder *d, struct exec_insn *n)
{
    if (decode_operation(d, n))
        return -1;
    return n->kind == CAS || n->kind == EXCH ? decode_error(d, "no such reduction") : 0;
}

int decode_reduction_kind(struct exec_decoder *d, struct exec_insn *n)
{
    decode_kind(d, n);
    return n->kind == 255 || n->kind == CAS || n->kind == EXCH ? decode_error(d, "no such reduction") : 0;
}

bool exec_reduces(const struct exec_insn *i)
{
    return i->type != PTX_NONE && allowed((enum atomic_op)i->kind, (enum ptx_type)i->type);
}

static int decode_atom(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    bool red = !strcmp(in->opcode, "red");
    struct exec_insn n = { .run = run_atomic, .d = UINT32_MAX, .vector = 1 };
    if (decode_operation(d, &n))
        return -1;
    enum ptx_type type = (enum ptx_type)n.type, declared = type;
    n.vector = decode_has(d, "v2") ? 2 : decode_has(d, "v4") ? 4 : decode_has(d, "v8") ? 8 : 1;
    n.order = decode_has(d, "sc") ? EXEC_SEQ_CST : EXEC_ACQ_REL;
    if (decode_has(d, "sys") && (decode_has(d, "release") || decode_has(d, "acq_rel")))
        n.flags |= EXEC_SYSTEM;
    uint32_t at = red ? 0 : 1;
    if (in->operand_count < at + 2 + (n.kind == CAS))
        return decode_error(d, "%u operands", in->operand_count);
    if (decode_memory(d, &in->operands[at], decode_space(d, NULL), &n))
        return -1;
    if (n.vector > 1)
        return decode_vector(d, n, red ? NULL : &in->operands[0], &in->operands[at + 1]);
    if (!red && in->operands[0].kind != PTX_OP_SINK) {
        if (decode_destination(d, &in->operands[0], type, &n.d, &declared))
            return -1;
        if (ptx_type_size(declared) != n.size)
            return decode_error(d, "a destination of type %s", ptx_type_name(declared));
    }
    if (decode_source(d, &in->operands[at + 1], type, &n.s[1]) ||
        (n.kind == CAS && decode_source(d, &in->operands[at + 2], type, &n.s[2])))
        return -1;
    if (n.size == 16)
        n.run = run_atomic128;
    else
        n.known = EXEC_STRAIGHT_ATOMIC;
    if (decode_put_guarded(d, n))
        return -1;
    return red ? decode_store_complete(d, 2, n.size) : 0;
}

const struct decode_entry decode_atomic[] = { { "atom", decode_atom }, { "red", decode_atom }, { NULL, NULL } };
