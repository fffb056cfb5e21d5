/* straight.c: see straight.h. Compiled once per level of the processor. */
#include "softgpu/alu/small_float.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/fused_access.h"
#include "softgpu/exec/jit.h"
#include "softgpu/exec/straight.h"

#define TO(T)          ((T *)__builtin_assume_aligned(w->rows + i->d, ROW_ALIGN))
#define FROM(T, index) ((const T *)__builtin_assume_aligned(exec_row(w, i->s[index]), ROW_ALIGN))

/* A row of results; D, A, B, C: what cells hold. */
#define CASE_1(name, D, A, ...)                                                             \
    case EXEC_STRAIGHT_##name: {                                                            \
        D *d = TO(D);                                                                       \
        const A *s0 = FROM(A, 0);                                                           \
        SG_FOR_LANES(l) { const A a = s0[l]; d[l] = (D)(__VA_ARGS__); }                     \
        break;                                                                              \
    }
#define CASE_2(name, D, A, B, ...)                                                          \
    case EXEC_STRAIGHT_##name: {                                                            \
        D *d = TO(D);                                                                       \
        const A *s0 = FROM(A, 0);                                                           \
        const B *s1 = FROM(B, 1);                                                           \
        SG_FOR_LANES(l) { const A a = s0[l]; const B b = s1[l]; d[l] = (D)(__VA_ARGS__); }  \
        break;                                                                              \
    }
#define CASE_3(name, D, A, B, C, ...)                                                       \
    case EXEC_STRAIGHT_##name: {                                                            \
        D *d = TO(D);                                                                       \
        const A *s0 = FROM(A, 0);                                                           \
        const B *s1 = FROM(B, 1);                                                           \
        const C *s2 = FROM(C, 2);                                                           \
        SG_FOR_LANES(l) { const A a = s0[l]; const B b = s1[l]; const C c = s2[l]; d[l] = (D)(__VA_ARGS__); } \
        break;                                                                              \
    }
#ifdef __AVX512F__
#define COMPARE(T, operator, vector)                                                        \
    (uint32_t)_mm512_cmp##vector##_mask(_mm512_load_si512(s0), _mm512_load_si512(s1)) |     \
        (uint32_t)_mm512_cmp##vector##_mask(_mm512_load_si512(s0 + 16), _mm512_load_si512(s1 + 16)) << 16
#else
#define COMPARE(T, operator, vector) compare_##vector(s0, s1)
#define COMPARISON(T, operator, vector)                                                     \
    FUSED uint32_t compare_##vector(const uint32_t *s0, const uint32_t *s1)                 \
    {                                                                                       \
        ROW_ARRAY(uint32_t, yes);                                                           \
        SG_FOR_LANES(l) yes[l] = (T)s0[l] operator(T) s1[l] ? UINT32_MAX : 0;               \
        return pack_lanes32(yes);                                                           \
    }
COMPARISON(uint32_t, ==, eq_epu32)
COMPARISON(uint32_t, !=, neq_epu32)
COMPARISON(int32_t, <, lt_epi32)
COMPARISON(int32_t, <=, le_epi32)
COMPARISON(int32_t, >, gt_epi32)
COMPARISON(int32_t, >=, ge_epi32)
COMPARISON(uint32_t, <, lt_epu32)
COMPARISON(uint32_t, <=, le_epu32)
COMPARISON(uint32_t, >, gt_epu32)
COMPARISON(uint32_t, >=, ge_epu32)
#endif
#define CASE_COMPARE(name, T, operator, vector)                                             \
    case EXEC_STRAIGHT_##name: {                                                            \
        const uint32_t *s0 = FROM(uint32_t, 0), *s1 = FROM(uint32_t, 1);                    \
        *exec_pred(w, i->p) = COMPARE(T, operator, vector);                                 \
        break;                                                                              \
    }
#define CASE_ACCESS(name, access)                                                           \
    case EXEC_STRAIGHT_##name:                                                              \
        if (!(access))                                                                      \
            goto general;                                                                   \
        break;
#define F32(expression, ftz) store_f32(expression, ftz, false)
#define X(ftz) load_f32(a, ftz)
#define Y(ftz) load_f32(b, ftz)
#define Z(ftz) load_f32(c, ftz)
#define FMA(ftz) fma_f32(X(ftz), Y(ftz), Z(ftz), SG_RN)

/* Any function of rows that gives a row. */
FUSED void rows(struct exec_warp *w, const struct exec_insn *i, unsigned n)
{
    struct sg_rows r;
    for (unsigned k = 0; k < n; k++)
        r.s[k] = exec_row(w, i->s[k]);
    r.immediate = (uint64_t)i->offset;
    r.d = w->rows + i->d;
    i->alu(&r);
}
FUSED void rows_of_predicate(struct exec_warp *w, const struct exec_insn *i)
{
    struct sg_rows r = { .p = NULL };
    for (unsigned k = 0; k < SG_MAX_SOURCES; k++)
        r.s[k] = exec_row(w, i->s[k]);
    r.immediate = (uint64_t)i->offset;
    r.in = *exec_pred(w, i->in) ^ i->in_flip;
    r.d = w->rows + i->d;
    i->alu(&r);
}
FUSED void compare(struct exec_warp *w, const struct exec_insn *i)
{
    struct sg_rows r;
    r.s[0] = exec_row(w, i->s[0]);
    r.s[1] = exec_row(w, i->s[1]);
    r.in = *exec_pred(w, i->in) ^ i->in_flip;
    r.immediate = (uint64_t)i->offset;
    r.p = exec_pred(w, i->p);
    r.q = NULL;
    r.d = NULL;
    i->alu(&r);
}

/* A parameter of the kernel, which has as many bytes as the register. */
FUSED void load_param(struct exec_warp *w, const struct exec_insn *i)
{
    const unsigned char *at = w->block->grid->params + i->offset;
    if (i->size == 8) {
        uint64_t v, *d = TO(uint64_t);
        memcpy(&v, at, sizeof v);
        SG_FOR_LANES(l) d[l] = v;
    } else {
        uint32_t v, *d = TO(uint32_t);
        memcpy(&v, at, sizeof v);
        SG_FOR_LANES(l) d[l] = v;
    }
}

#ifdef __AVX2__
/* Not inline: they would take registers from the loads (matmul of `make bench-softgpu` took 1.4 times as long). */
#define APART static __attribute__((noinline))
APART bool store_shared(struct exec_warp *w, const struct exec_insn *i) { return shared_store(w, i); }
APART bool store_pairs(struct exec_warp *w, const struct exec_insn *i) { return shared_store_vector(w, i, 2); }
APART bool store_fours(struct exec_warp *w, const struct exec_insn *i) { return shared_store_vector(w, i, 4); }
#endif

/* The instruction alone, for any lanes. */
FUSED void general(struct exec_warp *w, const struct exec_insn *i)
{
    if (i->straight == EXEC_STRAIGHT_GUARDED)
        exec_run_guarded(w, i);
    else
        i->inner(w, i);
}

/* warp.c has counted one of them. */
static void straight(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_insn *from = i;                 /* what is before it has been counted */
    if (w->mask != UINT32_MAX) {
        general(w, i);
        return;
    }
    for (;; i++) {
        switch (i->straight) {
        CASE_2(ADD_F32, uint32_t, uint32_t, uint32_t, F32(X(false) + Y(false), false))
        CASE_2(SUB_F32, uint32_t, uint32_t, uint32_t, F32(X(false) - Y(false), false))
        CASE_2(MUL_F32, uint32_t, uint32_t, uint32_t, F32(X(false) * Y(false), false))
        CASE_3(FMA_F32, uint32_t, uint32_t, uint32_t, uint32_t, F32(FMA(false), false))
        CASE_2(ADD_FTZ_F32, uint32_t, uint32_t, uint32_t, F32(X(true) + Y(true), true))
        CASE_2(SUB_FTZ_F32, uint32_t, uint32_t, uint32_t, F32(X(true) - Y(true), true))
        CASE_2(MUL_FTZ_F32, uint32_t, uint32_t, uint32_t, F32(X(true) * Y(true), true))
        CASE_3(FMA_FTZ_F32, uint32_t, uint32_t, uint32_t, uint32_t, F32(FMA(true), true))
        CASE_2(ADD_32, uint32_t, uint32_t, uint32_t, a + b)
        CASE_2(SUB_32, uint32_t, uint32_t, uint32_t, a - b)
        CASE_2(MUL_LO_32, uint32_t, uint32_t, uint32_t, a * b)
        CASE_3(MAD_LO_32, uint32_t, uint32_t, uint32_t, uint32_t, a * b + c)
        CASE_2(AND_32, uint32_t, uint32_t, uint32_t, a & b)
        CASE_2(OR_32, uint32_t, uint32_t, uint32_t, a | b)
        CASE_2(XOR_32, uint32_t, uint32_t, uint32_t, a ^ b)
        CASE_1(NOT_32, uint32_t, uint32_t, ~a)
        CASE_2(SHL_32, uint32_t, uint32_t, uint32_t, b >= 32 ? 0 : a << (b & 31))
        CASE_2(SHR_U32, uint32_t, uint32_t, uint32_t, b >= 32 ? 0 : a >> (b & 31))
        CASE_2(SHR_S32, uint32_t, uint32_t, uint32_t, (int32_t)a >> (b >= 32 ? 31 : b)) /* arithmetic */
        CASE_2(MIN_S32, uint32_t, uint32_t, uint32_t, (int32_t)a < (int32_t)b ? a : b)
        CASE_2(MAX_S32, uint32_t, uint32_t, uint32_t, (int32_t)a > (int32_t)b ? a : b)
        CASE_2(MIN_U32, uint32_t, uint32_t, uint32_t, a < b ? a : b)
        CASE_2(MAX_U32, uint32_t, uint32_t, uint32_t, a > b ? a : b)
        CASE_2(ADD_64, uint64_t, uint64_t, uint64_t, a + b)
        CASE_2(SUB_64, uint64_t, uint64_t, uint64_t, a - b)
        CASE_2(AND_64, uint64_t, uint64_t, uint64_t, a & b)
        CASE_2(OR_64, uint64_t, uint64_t, uint64_t, a | b)
        CASE_2(SHL_64, uint64_t, uint64_t, uint32_t, b >= 64 ? 0 : a << (b & 63))
        CASE_2(MUL_WIDE_U32, uint64_t, uint32_t, uint32_t, (uint64_t)a * b)
        CASE_2(MUL_WIDE_S32, uint64_t, uint32_t, uint32_t, (int64_t)(int32_t)a * (int32_t)b)
        CASE_COMPARE(EQ_32, uint32_t, ==, eq_epu32)
        CASE_COMPARE(NE_32, uint32_t, !=, neq_epu32)
        CASE_COMPARE(LT_S32, int32_t, <, lt_epi32)
        CASE_COMPARE(LE_S32, int32_t, <=, le_epi32)
        CASE_COMPARE(GT_S32, int32_t, >, gt_epi32)
        CASE_COMPARE(GE_S32, int32_t, >=, ge_epi32)
        CASE_COMPARE(LT_U32, uint32_t, <, lt_epu32)
        CASE_COMPARE(LE_U32, uint32_t, <=, le_epu32)
        CASE_COMPARE(GT_U32, uint32_t, >, gt_epu32)
        CASE_COMPARE(GE_U32, uint32_t, >=, ge_epu32)
        case EXEC_STRAIGHT_SELP_32: {
            uint32_t *d = TO(uint32_t);
            const uint32_t *s0 = FROM(uint32_t, 0), *s1 = FROM(uint32_t, 1), in = *exec_pred(w, i->in) ^ i->in_flip;
            SG_FOR_LANES(l) { const uint32_t a = s0[l], b = s1[l]; d[l] = in >> l & 1 ? a : b; }
            break;
        }
        CASE_1(COPY_32, uint32_t, uint32_t, a)
        CASE_1(COPY_64, uint64_t, uint64_t, a)
        case EXEC_STRAIGHT_ROWS_1: rows(w, i, 1); break;
        case EXEC_STRAIGHT_ROWS_2: rows(w, i, 2); break;
        case EXEC_STRAIGHT_ROWS_3: rows(w, i, 3); break;
        case EXEC_STRAIGHT_ROWS_P: rows_of_predicate(w, i); break;
        case EXEC_STRAIGHT_COMPARE: compare(w, i); break;
        case EXEC_STRAIGHT_PARAM: load_param(w, i); break;
        CASE_ACCESS(LOAD_8, load8(w, i))
        CASE_ACCESS(LOAD_16, load16(w, i))
        CASE_ACCESS(LOAD_32, load32(w, i))
        CASE_ACCESS(LOAD_64, load64(w, i))
        CASE_ACCESS(LOAD_8S, load8s(w, i))
        CASE_ACCESS(LOAD_16S, load16s(w, i))
        CASE_ACCESS(STORE_8, store8(w, i))
        CASE_ACCESS(STORE_16, store16(w, i))
        CASE_ACCESS(STORE_32, store32(w, i))
        CASE_ACCESS(STORE_64, store64(w, i))
        CASE_ACCESS(LOAD_32X2, load_vector(w, i, EXEC_VECTOR_32X2, 2, 4))
        CASE_ACCESS(LOAD_32X4, load_vector(w, i, EXEC_VECTOR_32X4, 4, 4))
        CASE_ACCESS(LOAD_64X2, load_vector(w, i, EXEC_VECTOR_64X2, 2, 8))
        CASE_ACCESS(STORE_32X2, store_vector(w, i, EXEC_VECTOR_32X2, 2, 4))
        CASE_ACCESS(STORE_32X4, store_vector(w, i, EXEC_VECTOR_32X4, 4, 4))
        CASE_ACCESS(STORE_64X2, store_vector(w, i, EXEC_VECTOR_64X2, 2, 8))
#ifdef __AVX2__
        CASE_ACCESS(SHARED_LOAD, shared_load(w, i))
        CASE_ACCESS(SHARED_LOAD_2, shared_load_vector(w, i, 2))
        CASE_ACCESS(SHARED_LOAD_4, shared_load_vector(w, i, 4))
        CASE_ACCESS(SHARED_STORE, store_shared(w, i))
        CASE_ACCESS(SHARED_STORE_2, store_pairs(w, i))
        CASE_ACCESS(SHARED_STORE_4, store_fours(w, i))
#endif
        case EXEC_STRAIGHT_REGION: {
            sg_jit_code *code = exec_region_code(w, i);
            if (!code)
                break;
            const struct exec_insn *head = i;
            w->interpreted += (uint64_t)(i - from);
            i = code(w, i);
            if (!i || exec_region_part(w, head, i))
                return;
            from = i--;
            break;
        }
        case EXEC_STRAIGHT_HALT:
            if (w->halts && w->block->read)
                goto general;
            break;
        case EXEC_STRAIGHT_GUARDED:
            if (*exec_pred(w, i->guard) ^ i->guard_flip)
                goto general;
            break;
        case EXEC_STRAIGHT_BRANCH_IF: {
            const uint32_t taken = *exec_pred(w, i->guard) ^ i->guard_flip;
            if (!taken)
                break;
            if (taken != UINT32_MAX)
                goto general;
        }
        /* fall through */
        case EXEC_STRAIGHT_BRANCH:
            w->interpreted += (uint64_t)(i + 1 - from);
            w->budget -= (int32_t)i->cost;
            if (i->cost && w->budget <= 0) {
                w->pc = i->target;
                exec_leave(w);
                return;
            }
            from = i->target;
            i = from - 1;
            break;
        default:
            w->interpreted += (uint64_t)(i - from) - 1;
            w->pc = i;
            return;
        }
    }
general:
    w->interpreted += (uint64_t)(i - from);
    w->pc = i + 1;
    general(w, i);
}

SG_CLONE_DECLARE(const struct exec_straight_handler, exec_straight);
const struct exec_straight_handler SG_CLONE(exec_straight) = { straight };
