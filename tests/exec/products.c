/* products.c: sums of products of matrices, at each level of the processor, beside a reference in integers of 64 bits.
 *
 * shows: software GPU: products of matrices of random numbers add up the same at each level of the processor, also
 *   where numbers are far apart, and in no sum is a zero negative
 */
#include <math.h>
#include <string.h>

#include "softgpu/alu/clones.h"
#include "softgpu/exec/exec.h"
#include "tests/lib/unit.h"

enum { MOST = 32, INNER = 64, ROUNDS = 3000 };
SG_CLONE_DECLARE(const struct exec_product_functions, exec_product_functions);
static const struct exec_product_functions *const levels[] = SG_CLONE_ADDRESSES(exec_product_functions);
static const struct shape {
    unsigned m, n, k;
} shapes[] = { { 16, 8, 16 }, { 16, 8, 8 },  { 16, 8, 4 },  { 8, 8, 4 },
               { 8, 32, 16 }, { 32, 8, 16 }, { 16, 8, 32 }, { 16, 8, 64 } };
static uint64_t random_bits = 20261129;

static uint32_t next(void)
{
    random_bits ^= random_bits << 13;
    random_bits ^= random_bits >> 7;
    random_bits ^= random_bits << 17;
    return (uint32_t)(random_bits >> 16);
}

/* Zeros of both signs among numbers of `bits` bits whose exponents go from -spread to spread. */
static float number(unsigned bits, unsigned spread)
{
    const uint32_t r = next(), fraction = r >> 8 & ((1u << (bits - 1)) - 1);
    const float sign = r & 1 ? -1 : 1;
    if (!(next() % 5))
        return 0 * sign;
    return sign *
           ldexpf((float)((1u << (bits - 1)) + fraction), (int)(next() % (2 * spread + 1)) - (int)(spread + bits - 1));
}

static int exponent(float f, int least)
{
    const int e = ilogbf(f);
    return f == 0 ? -4096 : e < least ? least : e;
}

static int64_t units(double value, int shift) { return (int64_t)trunc(ldexp(value, shift)); }

/* One step of one element, all of whose numbers are finite. */
static float reference(const float *a, const float *b, unsigned stride, float c, unsigned k,
                       struct exec_accumulation how)
{
    int most = exponent(c, -126);
    for (unsigned at = 0; at < k; at++) {
        const int e = exponent(a[at], how.least) + exponent(b[at * stride], how.least);
        most = e > most ? e : most;
    }
    if (most < -2048)
        return 0;
    const int shift = (int)how.kept - most;
    int64_t sum = units(c, shift);
    for (unsigned at = 0; at < k; at++)
        sum += units((double)a[at] * b[at * stride], shift);
    const uint64_t size = (uint64_t)(sum < 0 ? -sum : sum);
    const int over = size ? 64 - __builtin_clzll(size) - (int)(how.coarse ? how.kept + 1 : 24) : 0;
    const uint64_t last = over > 0 ? UINT64_C(1) << over : 1, lost = size & (last - 1),
                   kept = (size - lost) | (how.odd && lost ? last : 0);
    const float value = (float)ldexp((double)kept, -shift);
    return sum < 0 ? -value : value;
}

static void reference_all(const float *a, const float *b, float *c, const struct shape *s, struct exec_accumulation how)
{
    for (unsigned i = 0; i < s->m; i++)
        for (unsigned j = 0; j < s->n; j++)
            for (unsigned at = 0; at < s->k; at += how.step)
                c[i * s->n + j] = reference(a + i * s->k + at, b + at * s->n + j, s->n, c[i * s->n + j], how.step, how);
}

static void fill(float *to, unsigned count, unsigned bits, unsigned spread)
{
    for (unsigned at = 0; at < count; at++)
        to[at] = number(bits, spread);
}

static void compare(const struct shape *s, unsigned bits, unsigned spread, struct exec_accumulation how)
{
    static _Alignas(64) float a[MOST * INNER], b[INNER * MOST], c[MOST * MOST], want[MOST * MOST], got[MOST * MOST];
    const unsigned size = s->m * s->n;
    fill(a, s->m * s->k, bits, spread);
    fill(b, s->k * s->n, bits, spread);
    fill(c, size, next() % 2 ? 24 : bits, next() % 2 ? 3 : spread);
    memcpy(want, c, sizeof c);
    reference_all(a, b, want, s, how);
    for (unsigned level = SG_CPU_BASE; level <= sg_cpu_level(); level++) {
        memcpy(got, c, sizeof c);
        levels[level]->add(a, b, got, s->m, s->n, s->k, how);
        for (unsigned at = 0; at < size; at++)
            if (memcmp(&got[at], &want[at], sizeof *got))
                fail_msg("%s: m%un%uk%u, %u bits, exponents to %u: element %u is %a, not %a",
                         sg_cpu_name((enum sg_cpu)level), s->m, s->n, s->k, bits, spread, at, (double)got[at],
                         (double)want[at]);
    }
}

TEST(sums_are_the_same_at_each_level)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        const struct shape *s = &shapes[next() % (sizeof shapes / sizeof *shapes)];
        const bool half = next() % 2, coarse = half && !(next() % 3);
        const unsigned steps[] = { s->k, 4, 8, 16 }, step = steps[next() % 4];
        const struct exec_accumulation how = { .kept = coarse ? 13 : 25,
                                               .step = step < s->k ? step : s->k,
                                               .least = half ? -14 : -126,
                                               .odd = next() % 2,
                                               .coarse = coarse };
        compare(s, half ? 11 : 8, half ? 14 : next() % 2 ? 4 : 60, how);
    }
}

int main(void) { return unit_run(NULL, NULL); }
