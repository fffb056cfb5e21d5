/* openmp.c: the kernels of kernels.h as one writes them in C with OpenMP, for `make bench-softgpu`. */
#include <math.h>
#include <stdint.h>

#include "cases.h"

static void *memory[BENCH_BUFFERS];

static void vector_add(const float *a, const float *b, float *c, unsigned n)
{
#pragma omp parallel for simd
    for (unsigned i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

static void stencil(const float *a, float *b, unsigned n)
{
#pragma omp parallel for
    for (unsigned y = 1; y < n - 1; y++)
#pragma omp simd
        for (unsigned x = 1; x < n - 1; x++) {
            const unsigned i = y * n + x;
            b[i] = 0.5f * a[i] + 0.125f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n]);
        }
}

static void collatz(uint32_t *steps, unsigned n)
{
#pragma omp parallel for schedule(dynamic, 1024)
    for (unsigned i = 0; i < n; i++) {
        uint32_t value = i + 1, count = 0;
        while (value != 1) {
            value = value & 1 ? 3 * value + 1 : value / 2;
            count++;
        }
        steps[i] = count;
    }
}

static void matmul(const float *a, const float *b, float *c, unsigned n)
{
#pragma omp parallel for
    for (unsigned y = 0; y < n; y++) {
        float *row = c + (size_t)y * n;
        memset(row, 0, n * sizeof *row);
        for (unsigned k = 0; k < n; k++) {
            const float factor = a[(size_t)y * n + k];
            const float *from = b + (size_t)k * n;
#pragma omp simd
            for (unsigned x = 0; x < n; x++)
                row[x] += factor * from[x];
        }
    }
}

static void nbody(const float *x, const float *y, float *force, unsigned n)
{
#pragma omp parallel for
    for (unsigned i = 0; i < n; i++) {
        float fx = 0, fy = 0;
#pragma omp simd reduction(+ : fx, fy)
        for (unsigned k = 0; k < n; k++) {
            const float dx = x[k] - x[i], dy = y[k] - y[i], r = 1 / sqrtf(dx * dx + dy * dy + 0.01f), s = r * r * r;
            fx += dx * s;
            fy += dy * s;
        }
        force[2 * i] = fx;
        force[2 * i + 1] = fy;
    }
}

static void histogram(const uint8_t *data, uint32_t *bins, unsigned n)
{
#pragma omp parallel
    {
        uint32_t own[256] = { 0 };
#pragma omp for
        for (unsigned i = 0; i < n; i++)
            own[data[i]]++;
#pragma omp critical
        for (unsigned k = 0; k < 256; k++)
            bins[k] += own[k];
    }
}

static inline float below(float d)
{
    const float t = 1 / (1 + 0.2316419f * fabsf(d));
    const float tail = 0.39894228f * expf(-0.5f * d * d) * t *
        (0.31938153f + t * (-0.35656378f + t * (1.7814779f + t * (-1.8212559f + t * 1.3302744f))));
    return d > 0 ? 1 - tail : tail;
}

static void black_scholes(const float *price, const float *strike, float *call, unsigned n)
{
#pragma omp parallel for simd
    for (unsigned i = 0; i < n; i++) {
        const float s = 5 + 25 * price[i], k = 1 + 99 * strike[i], years = 2, rate = 0.02f, volatility = 0.3f;
        const float root = sqrtf(years),
                    d1 = (logf(s / k) + (rate + 0.5f * volatility * volatility) * years) / (volatility * root);
        call[i] = s * below(d1) - k * expf(-rate * years) * below(d1 - volatility * root);
    }
}

static void fma_chain(float *values, unsigned n, unsigned rounds)
{
    enum { PIECE = 64 }; /* gcc does not vectorise the loop over i with another one in it */
#pragma omp parallel for
    for (unsigned first = 0; first < n; first += PIECE)
        for (unsigned k = 0; k < rounds; k++)
#pragma omp simd
            for (unsigned i = first; i < first + PIECE; i++)
                values[i] = fmaf(values[i], 0.9999f, 0.0001f);
}

static void reduction(const uint32_t *data, uint32_t *sums, unsigned parts, unsigned each)
{
#pragma omp parallel for
    for (unsigned p = 0; p < parts; p++) {
        uint32_t sum = 0;
        for (unsigned i = 0; i < each; i++)
            sum += data[(size_t)p * each + i];
        sums[p] = sum;
    }
}

static void transpose(const float *a, float *b, unsigned n)
{
    enum { SQUARE = 32 };
#pragma omp parallel for collapse(2)
    for (unsigned y = 0; y < n; y += SQUARE)
        for (unsigned x = 0; x < n; x += SQUARE)
            for (unsigned k = 0; k < SQUARE; k++)
                for (unsigned l = 0; l < SQUARE; l++)
                    b[(size_t)(x + k) * n + y + l] = a[(size_t)(y + l) * n + x + k];
}

static void grey(const uint8_t *colours, uint8_t *light, unsigned n)
{
#pragma omp parallel for simd
    for (unsigned i = 0; i < n; i++)
        light[i] = (uint8_t)((colours[3 * i] * 77u + colours[3 * i + 1] * 150u + colours[3 * i + 2] * 29u) >> 8);
}

static int form_prepare(const struct bench_case *c)
{
    for (unsigned k = 0; k < BENCH_BUFFERS; k++) {
        free(memory[k]);
        memory[k] = k < bench_buffers(c) ? aligned_alloc(64, (bench_size(&c->buffers[k]) + 63) / 64 * 64) : NULL;
        if (k < bench_buffers(c) && !memory[k])
            return -1;
    }
    return 0;
}
static int form_write(const struct bench_case *c, unsigned buffer, const void *from, size_t bytes)
{
    (void)c;
    memcpy(memory[buffer], from, bytes);
    return 0;
}
static int form_read(const struct bench_case *c, unsigned buffer, void *to, size_t bytes)
{
    (void)c;
    memcpy(to, memory[buffer], bytes);
    return 0;
}
static int form_run(const struct bench_case *c)
{
    void *const *m = memory;
    const unsigned n = c->numbers[0];
    const char *name = c->name;
    if (!strcmp(name, "vector_add"))
        vector_add(m[0], m[1], m[2], n);
    else if (!strcmp(name, "stencil"))
        stencil(m[0], m[1], n);
    else if (!strcmp(name, "collatz"))
        collatz(m[0], n);
    else if (!strcmp(name, "matmul"))
        matmul(m[0], m[1], m[2], n);
    else if (!strcmp(name, "nbody"))
        nbody(m[0], m[1], m[2], n);
    else if (!strcmp(name, "histogram"))
        histogram(m[0], m[1], c->buffers[0].count);
    else if (!strcmp(name, "black_scholes"))
        black_scholes(m[0], m[1], m[2], n);
    else if (!strcmp(name, "fma_chain"))
        fma_chain(m[0], n, c->numbers[1]);
    else if (!strcmp(name, "reduction"))
        reduction(m[0], m[1], c->grid[0], n * c->block[0]);
    else if (!strcmp(name, "transpose"))
        transpose(m[0], m[1], n);
    else if (!strcmp(name, "grey"))
        grey(m[0], m[1], n);
    else
        return -1;
    return 0;
}

int main(int argc, char **argv) { return bench_all(argc > 1 ? argv[1] : NULL); }
