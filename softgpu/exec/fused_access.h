/*
 * fused_access.h: accesses of full warps in one pass, inline, for the files that are compiled once per level of the
 * processor. Each returns false, and has changed nothing, where the general handler has to look.
 *
 * The accesses are loops and vector moves as in rows.c: each naturally aligned element is accessed whole. Elements of
 * shared memory may be taken apart, since one host thread at a time runs all that can reach them.
 */
#ifndef SOFTGPU_EXEC_FUSED_ACCESS_H
#define SOFTGPU_EXEC_FUSED_ACCESS_H

#include "softgpu/alu/clones.h"
#include "softgpu/exec/access.h"
#include "softgpu/exec/fused.h"
#include "softgpu/memory.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* gcc lets ThreadSanitizer instrument always_inline functions even inside functions that EXEC_RACY exempts. */
#ifdef __SANITIZE_THREAD__
#define FUSED __attribute__((unused)) static inline
#else
#define FUSED static inline __attribute__((always_inline))
#endif
enum { HALF = SG_LANES / 2 };

/* Are the addresses of each half of the warp `size` bytes apart? */
FUSED bool in_steps(const uint64_t *a, unsigned size)
{
#ifdef __AVX512F__
    const __m512i ramp = _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(size)),
                  later = _mm512_add_epi64(ramp, _mm512_set1_epi64(8 * size));
    const __m512i low = _mm512_set1_epi64((long long)a[0]), high = _mm512_set1_epi64((long long)a[HALF]);
    const __mmask8 wrong = _mm512_cmpneq_epu64_mask(_mm512_load_si512(a), _mm512_add_epi64(low, ramp)) |
                           _mm512_cmpneq_epu64_mask(_mm512_load_si512(a + 8), _mm512_add_epi64(low, later)) |
                           _mm512_cmpneq_epu64_mask(_mm512_load_si512(a + 16), _mm512_add_epi64(high, ramp)) |
                           _mm512_cmpneq_epu64_mask(_mm512_load_si512(a + 24), _mm512_add_epi64(high, later));
    return !wrong;
#else
    uint64_t wrong = 0;
    for (unsigned l = 0; l < HALF; l++)
        wrong |= (a[l] ^ (a[0] + l * size)) | (a[HALF + l] ^ (a[HALF] + l * size));
    return !wrong;
#endif
}

/* Where the two halves of a full warp are in global memory. False: the general handler has to look. */
FUSED bool find_halves(const struct exec_warp *w, const struct exec_insn *i, unsigned size, unsigned rights,
                       unsigned char *half[2])
{
    const uint64_t *a = exec_row(w, i->s[0]);
    const uint64_t low = a[0] + (uint64_t)i->offset, high = a[HALF] + (uint64_t)i->offset;
    if (w->mask != UINT32_MAX || (low | high) & (size - 1) || !in_steps(a, size))
        return false;
    half[0] = (unsigned char *)(uintptr_t)low;
    half[1] = (unsigned char *)(uintptr_t)high;
    if (high == low + (uint64_t)HALF * size)
        return sg_memory_may(low, (uint64_t)SG_LANES * size, w->granule_device, rights);
    return sg_memory_may(low, (uint64_t)HALF * size, w->granule_device, rights) &&
           sg_memory_may(high, (uint64_t)HALF * size, w->granule_device, rights);
}

#define LOAD(name, from_type, cell_type, middle)                                                \
    EXEC_RACY FUSED bool name(struct exec_warp *w, const struct exec_insn *i)                   \
    {                                                                                           \
        unsigned char *half[2];                                                                 \
        if (!find_halves(w, i, sizeof(from_type), SG_READ, half))                               \
            return false;                                                                       \
        cell_type *to = (cell_type *)(void *)(w->rows + i->d);                                  \
        for (unsigned h = 0; h < 2; h++) {                                                      \
            const from_type *from = (const from_type *)(const void *)half[h];                   \
            SG_LANES_INDEPENDENT for (unsigned l = 0; l < HALF; l++)                            \
                to[h * HALF + l] = (cell_type)(middle)from[l];                                  \
        }                                                                                       \
        return true;                                                                            \
    }
LOAD(load8, uint8_t, uint32_t, uint32_t)
LOAD(load16, uint16_t, uint32_t, uint32_t)
LOAD(load32, uint32_t, uint32_t, uint32_t)
LOAD(load64, uint64_t, uint64_t, uint64_t)
LOAD(load8s, int8_t, uint32_t, int32_t)
LOAD(load16s, int16_t, uint32_t, int32_t)

#define STORE(name, to_type, cell_type)                                                         \
    EXEC_RACY FUSED bool name(struct exec_warp *w, const struct exec_insn *i)                   \
    {                                                                                           \
        unsigned char *half[2];                                                                 \
        if (!find_halves(w, i, sizeof(to_type), SG_WRITE, half))                                \
            return false;                                                                       \
        const cell_type *from = exec_row(w, i->s[1]);                                           \
        for (unsigned h = 0; h < 2; h++) {                                                      \
            to_type *to = (to_type *)(void *)half[h];                                           \
            SG_LANES_INDEPENDENT for (unsigned l = 0; l < HALF; l++)                            \
                to[l] = (to_type)from[h * HALF + l];                                            \
        }                                                                                       \
        return true;                                                                            \
    }
STORE(store8, uint8_t, uint32_t)
STORE(store16, uint16_t, uint32_t)
STORE(store32, uint32_t, uint32_t)
STORE(store64, uint64_t, uint64_t)

/* Vectors of full warps whose lanes are contiguous throughout. */
FUSED bool find_row(const struct exec_warp *w, const struct exec_insn *i, unsigned size, unsigned rights,
                    unsigned char **row)
{
    unsigned char *half[2];
    if (!find_halves(w, i, size, rights, half) || half[1] != half[0] + HALF * size)
        return false;
    *row = half[0];
    return true;
}

FUSED bool load_vector(struct exec_warp *w, const struct exec_insn *i, enum exec_vector_shape shape, unsigned n,
                       unsigned size)
{
    const struct exec_vector *v = i->extra;
    unsigned char *row;
    _Alignas(64) unsigned char sink[8 * SG_LANES];
    void *d[4];
    if (!find_row(w, i, n * size, SG_READ, &row))
        return false;
    for (unsigned k = 0; k < n; k++)
        d[k] = v->sink[k] ? sink : w->rows + v->to[k];
    w->row->load_vector[shape](d, row);
    return true;
}

FUSED bool store_vector(struct exec_warp *w, const struct exec_insn *i, enum exec_vector_shape shape, unsigned n,
                        unsigned size)
{
    const struct exec_vector *v = i->extra;
    unsigned char *row;
    const void *rows[4];
    if (!find_row(w, i, n * size, SG_WRITE, &row))
        return false;
    for (unsigned k = 0; k < n; k++)
        rows[k] = exec_row(w, v->from[k]);
    w->row->store_vector[shape](row, rows);
    return true;
}

#ifdef __AVX512F__
/*
 * Shared memory: the offsets of 32 lanes are two vectors. Threads that work together mostly read places that are near
 * each other, and often the same ones: then all lanes lie in one aligned window of 128 or 256 bytes, which is loaded
 * once, and each lane picks its element from these registers. That takes a third of the time of a gathering load.
 */
enum { WINDOW = 128, WORDS = 16 };
struct offsets { __m512i low, high; };

/* The offsets of accesses of n aligned bytes by a full warp. False: the general handler has to look. */
FUSED bool find_shared(const struct exec_warp *w, const struct exec_insn *i, unsigned n, struct offsets *o)
{
    const uint64_t size = w->block->shared_size;
    const unsigned char *a = exec_row(w, i->s[0]);
    if (w->mask != UINT32_MAX || size < n)
        return false;
    if (i->flags & EXEC_ADDRESS_32) {
        o->low = _mm512_load_si512(a);
        o->high = _mm512_load_si512(a + 64);
    } else {
        o->low = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(_mm512_load_si512(a))),
                                    _mm512_cvtepi64_epi32(_mm512_load_si512(a + 64)), 1);
        o->high = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(_mm512_load_si512(a + 128))),
                                     _mm512_cvtepi64_epi32(_mm512_load_si512(a + 192)), 1);
    }
    const __m512i offset = _mm512_set1_epi32((int)i->offset), last = _mm512_set1_epi32((int)(uint32_t)(size - n)),
                  odd = _mm512_set1_epi32((int)n - 1);
    o->low = _mm512_add_epi32(o->low, offset);
    o->high = _mm512_add_epi32(o->high, offset);
    return !(_mm512_cmpgt_epu32_mask(o->low, last) | _mm512_cmpgt_epu32_mask(o->high, last) |
             _mm512_test_epi32_mask(_mm512_or_si512(o->low, o->high), odd));
}

/* n elements of 32 bits for each lane. */
FUSED void shared_words(struct exec_warp *w, const struct offsets *o, unsigned n, void *const *d)
{
    const unsigned char *shared = w->block->shared;
    const uint32_t first = (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(o->low));
    const __m512i same = _mm512_set1_epi32((int)first);
    const __m512i spread = _mm512_or_si512(_mm512_xor_si512(o->low, same), _mm512_xor_si512(o->high, same));
    const __m512i low = _mm512_srli_epi32(o->low, 2), high = _mm512_srli_epi32(o->high, 2);
    if (!_mm512_test_epi32_mask(spread, _mm512_set1_epi32(-WINDOW))) {
        const unsigned char *at = shared + (first & ~(uint32_t)(WINDOW - 1));
        const __m512i x = _mm512_load_si512(at), y = _mm512_load_si512(at + 64);
        for (unsigned k = 0; k < n; k++) {
            const __m512i by = _mm512_set1_epi32((int)k);
            _mm512_store_si512(d[k], _mm512_permutex2var_epi32(x, _mm512_add_epi32(low, by), y));
            _mm512_store_si512((char *)d[k] + 64, _mm512_permutex2var_epi32(x, _mm512_add_epi32(high, by), y));
        }
        return;
    }
    if (!_mm512_test_epi32_mask(spread, _mm512_set1_epi32(-2 * WINDOW))) {
        const unsigned char *at = shared + (first & ~(uint32_t)(2 * WINDOW - 1));
        const __m512i x = _mm512_load_si512(at), y = _mm512_load_si512(at + 64), z = _mm512_load_si512(at + 128),
                      u = _mm512_load_si512(at + 192), second = _mm512_set1_epi32(2 * WORDS);
        for (unsigned k = 0; k < n; k++) {
            const __m512i by = _mm512_set1_epi32((int)k), a = _mm512_add_epi32(low, by),
                          b = _mm512_add_epi32(high, by);
            _mm512_store_si512(d[k], _mm512_mask_blend_epi32(_mm512_test_epi32_mask(a, second),
                                                             _mm512_permutex2var_epi32(x, a, y),
                                                             _mm512_permutex2var_epi32(z, a, u)));
            _mm512_store_si512((char *)d[k] + 64, _mm512_mask_blend_epi32(_mm512_test_epi32_mask(b, second),
                                                                          _mm512_permutex2var_epi32(x, b, y),
                                                                          _mm512_permutex2var_epi32(z, b, u)));
        }
        return;
    }
    for (unsigned k = 0; k < n; k++) {
        _mm512_store_si512(d[k], _mm512_i32gather_epi32(o->low, shared + 4 * k, 1));
        _mm512_store_si512((char *)d[k] + 64, _mm512_i32gather_epi32(o->high, shared + 4 * k, 1));
    }
}

FUSED void has_read(struct exec_warp *w, const struct exec_insn *i)
{
    if (i->flags & EXEC_READS_SHARED)
        w->block->read = true;
}

FUSED bool shared_load(struct exec_warp *w, const struct exec_insn *i)
{
    struct offsets o;
    if (!find_shared(w, i, 4, &o))
        return false;
    void *d = w->rows + i->d;
    shared_words(w, &o, 1, &d);
    has_read(w, i);
    return true;
}

FUSED bool shared_load_vector(struct exec_warp *w, const struct exec_insn *i, unsigned n)
{
    const struct exec_vector *v = i->extra;
    _Alignas(64) unsigned char sink[4 * SG_LANES];
    struct offsets o;
    void *d[4];
    if (!find_shared(w, i, 4 * n, &o))
        return false;
    for (unsigned k = 0; k < n; k++)
        d[k] = v->sink[k] ? sink : w->rows + v->to[k];
    shared_words(w, &o, n, d);
    has_read(w, i);
    return true;
}

/* Of lanes with one address the last one wins, as in the general handler. */
FUSED bool shared_store(struct exec_warp *w, const struct exec_insn *i)
{
    struct offsets o;
    if (!find_shared(w, i, 4, &o))
        return false;
    unsigned char *shared = w->block->shared;
    const uint32_t first = (uint32_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(o.low));
    const __m512i ramp = _mm512_slli_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 2),
                  low = _mm512_add_epi32(_mm512_set1_epi32((int)first), ramp),
                  high = _mm512_add_epi32(low, _mm512_set1_epi32(64));
    const unsigned char *row = exec_row(w, i->s[1]);
    const __m512i x = _mm512_load_si512(row), y = _mm512_load_si512(row + 64);
    if (!(_mm512_cmpneq_epi32_mask(o.low, low) | _mm512_cmpneq_epi32_mask(o.high, high))) {
        _mm512_storeu_si512(shared + first, x);
        _mm512_storeu_si512(shared + first + 64, y);
        return true;
    }
    _mm512_i32scatter_epi32(shared, o.low, x, 1);
    _mm512_i32scatter_epi32(shared, o.high, y, 1);
    return true;
}

FUSED bool find_shared_array(const struct exec_warp *w, const struct exec_insn *i, unsigned n, uint32_t *to)
{
    struct offsets o;
    if (!find_shared(w, i, n, &o))
        return false;
    _mm512_store_si512(to, o.low);
    _mm512_store_si512(to + WORDS, o.high);
    return true;
}
#elif defined __AVX2__
/* Loads of shared memory: threads that work together mostly read places near each other. Where those of eight lanes lie
   within 64 bytes behind the first one's, these are loaded, and each lane picks its words from two registers. Else
   each lane's vector is one load of a scalar or a half register, and the elements of four lanes change places. Both
   take less time than gathering loads do. */

/* The offsets of accesses of n aligned bytes by a full warp. False: the general handler has to look. */
FUSED bool find_shared(const struct exec_warp *w, const struct exec_insn *i, unsigned n, uint32_t *o)
{
    const uint64_t size = w->block->shared_size;
    const uint32_t offset = (uint32_t)i->offset, last = (uint32_t)(size - n);
    uint32_t odd = 0, beyond = 0;
    if (w->mask != UINT32_MAX || size < n)
        return false;
    if (i->flags & EXEC_ADDRESS_32) {
        const uint32_t *a = exec_row(w, i->s[0]);
        SG_FOR_LANES(l) o[l] = a[l] + offset;
    } else {
        const uint64_t *a = exec_row(w, i->s[0]);
        SG_FOR_LANES(l) o[l] = (uint32_t)a[l] + offset;
    }
    for (unsigned l = 0; l < SG_LANES; l++) {
        odd |= o[l];
        beyond |= o[l] > last ? UINT32_MAX : 0;
    }
    return !(odd & (n - 1)) && !beyond;
}

FUSED void has_read(struct exec_warp *w, const struct exec_insn *i)
{
    if (i->flags & EXEC_READS_SHARED)
        w->block->read = true;
}

/* n words of each lane. false: they are not near; nothing has been changed. Memory goes on for more than 64 bytes
   behind the block's shared memory (block.c). */
FUSED bool load_near(const unsigned char *shared, const uint32_t *o, unsigned n, void *const *d)
{
    enum { EIGHT = 8, NEAR = 64 };
    const __m256i most = _mm256_set1_epi32((int)(NEAR - 4 * n)), *places = (const __m256i *)(const void *)o;
    __m256i far = _mm256_setzero_si256();
    for (unsigned l = 0; l < SG_LANES; l += EIGHT) {
        const __m256i behind = _mm256_sub_epi32(_mm256_load_si256(places + l / EIGHT), _mm256_set1_epi32((int)o[l]));
        far = _mm256_or_si256(far, _mm256_xor_si256(_mm256_max_epu32(behind, most), most));
    }
    if (!_mm256_testz_si256(far, far))
        return false;
    for (unsigned l = 0; l < SG_LANES; l += EIGHT) {
        const __m256i *at = (const __m256i *)(const void *)(shared + o[l]);
        const __m256i low = _mm256_loadu_si256(at), high = _mm256_loadu_si256(at + 1);
        const __m256i behind = _mm256_sub_epi32(_mm256_load_si256(places + l / EIGHT), _mm256_set1_epi32((int)o[l]));
        for (unsigned k = 0; k < n; k++) {
            const __m256i which = _mm256_add_epi32(_mm256_srli_epi32(behind, 2), _mm256_set1_epi32((int)k));
            const __m256i upper = _mm256_cmpgt_epi32(which, _mm256_set1_epi32(EIGHT - 1));
            const __m256i x = _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(low, which),
                                                 _mm256_permutevar8x32_epi32(high, which), upper);
            _mm256_store_si256((__m256i *)(void *)((uint32_t *)d[k] + l), x);
        }
    }
    return true;
}

FUSED bool shared_load(struct exec_warp *w, const struct exec_insn *i)
{
    _Alignas(64) uint32_t o[SG_LANES];
    if (!find_shared(w, i, 4, o))
        return false;
    const unsigned char *shared = w->block->shared;
    void *row = w->rows + i->d;
    uint32_t *d = row;
    if (!load_near(shared, o, 1, &row))
        for (unsigned l = 0; l < SG_LANES; l++)
            memcpy(&d[l], shared + o[l], 4);
    has_read(w, i);
    return true;
}

/* Two lanes' pairs in one register. */
FUSED __m128 two_pairs(const unsigned char *a, const unsigned char *b)
{
    const __m128 low = _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)a));
    return _mm_loadh_pi(low, (const __m64 *)(const void *)b);
}

FUSED void load_pairs_of(const unsigned char *shared, const uint32_t *o, void *const *d)
{
    for (unsigned l = 0; l < SG_LANES; l += 4) {
        const __m128 a = two_pairs(shared + o[l], shared + o[l + 1]);
        const __m128 b = two_pairs(shared + o[l + 2], shared + o[l + 3]);
        _mm_store_ps((float *)d[0] + l, _mm_shuffle_ps(a, b, 0x88));
        _mm_store_ps((float *)d[1] + l, _mm_shuffle_ps(a, b, 0xdd));
    }
}

FUSED void load_fours_of(const unsigned char *shared, const uint32_t *o, void *const *d)
{
    for (unsigned l = 0; l < SG_LANES; l += 4) {
        __m128 a[4];
        for (unsigned k = 0; k < 4; k++)
            a[k] = _mm_load_ps((const float *)(const void *)(shared + o[l + k]));
        _MM_TRANSPOSE4_PS(a[0], a[1], a[2], a[3]);
        for (unsigned k = 0; k < 4; k++)
            _mm_store_ps((float *)d[k] + l, a[k]);
    }
}

FUSED bool shared_load_vector(struct exec_warp *w, const struct exec_insn *i, unsigned n)
{
    const struct exec_vector *v = i->extra;
    _Alignas(64) unsigned char sink[4 * SG_LANES];
    _Alignas(64) uint32_t o[SG_LANES];
    void *d[4];
    if (!find_shared(w, i, 4 * n, o))
        return false;
    for (unsigned k = 0; k < n; k++)
        d[k] = v->sink[k] ? sink : w->rows + v->to[k];
    if (load_near(w->block->shared, o, n, d)) {
        has_read(w, i);
        return true;
    }
    if (n == 2)
        load_pairs_of(w->block->shared, o, d);
    else
        load_fours_of(w->block->shared, o, d);
    has_read(w, i);
    return true;
}

/* Of lanes with one address the last one wins, as in the general handler. */
FUSED bool shared_store(struct exec_warp *w, const struct exec_insn *i)
{
    _Alignas(64) uint32_t o[SG_LANES];
    if (!find_shared(w, i, 4, o))
        return false;
    unsigned char *shared = w->block->shared;
    const uint32_t *row = exec_row(w, i->s[1]);
    for (unsigned l = 0; l < SG_LANES; l++)
        memcpy(shared + o[l], &row[l], 4);
    return true;
}

FUSED bool find_shared_array(const struct exec_warp *w, const struct exec_insn *i, unsigned n, uint32_t *o)
{
    return find_shared(w, i, n, o);
}
#endif

#ifdef __AVX2__
FUSED bool shared_store_vector(struct exec_warp *w, const struct exec_insn *i, unsigned n)
{
    const struct exec_vector *v = i->extra;
    _Alignas(64) uint32_t o[SG_LANES];
    const uint32_t *row[4];
    if (!find_shared_array(w, i, 4 * n, o))
        return false;
    unsigned char *shared = w->block->shared;
    for (unsigned k = 0; k < n; k++)
        row[k] = exec_row(w, v->from[k]);
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned k = 0; k < n; k++)
            memcpy(shared + o[l] + 4 * k, &row[k][l], 4);
    return true;
}
#endif

#endif
