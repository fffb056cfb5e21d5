/*
 * kernels.h: the kernels of `make bench-softgpu`, as one text for CUDA and OpenCL C. openmp.c has them as loops.
 *
 * A kernel's arguments are its buffers, then whole numbers, as cases.h lists them.
 */
#ifdef __OPENCL_C_VERSION__
#define KERNEL           __kernel void
#define GLOBAL           __global
#define SHARED           __local
#define BARRIER()        barrier(CLK_LOCAL_MEM_FENCE)
#define THREAD(axis)     ((uint)get_local_id(axis))
#define BLOCK(axis)      ((uint)get_group_id(axis))
#define BLOCK_SIZE(axis) ((uint)get_local_size(axis))
#define ADD_SHARED(p, n) atomic_add(p, n)
#define ADD_GLOBAL(p, n) atomic_add(p, n)
#define FMA(a, b, c)     fma(a, b, c)
#define EXP(x)           exp(x)
#define LOG(x)           log(x)
#define SQRT(x)          sqrt(x)
#define RSQRT(x)         rsqrt(x)
#define ABS(x)           fabs(x)
#else
typedef unsigned int uint;
typedef unsigned char uchar;
#define KERNEL           extern "C" __global__ void
#define GLOBAL
#define SHARED           __shared__
#define BARRIER()        __syncthreads()
#define THREAD(axis)     ((axis) ? threadIdx.y : threadIdx.x)
#define BLOCK(axis)      ((axis) ? blockIdx.y : blockIdx.x)
#define BLOCK_SIZE(axis) ((axis) ? blockDim.y : blockDim.x)
#define ADD_SHARED(p, n) atomicAdd(p, n)
#define ADD_GLOBAL(p, n) atomicAdd(p, n)
#define FMA(a, b, c)     fmaf(a, b, c)
#define EXP(x)           expf(x)
#define LOG(x)           logf(x)
#define SQRT(x)          sqrtf(x)
#define RSQRT(x)         rsqrtf(x)
#define ABS(x)           fabsf(x)
#endif
#define PLACE(axis) (BLOCK(axis) * BLOCK_SIZE(axis) + THREAD(axis))

KERNEL vector_add(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *c, uint n)
{
    const uint i = PLACE(0);
    if (i < n)
        c[i] = a[i] + b[i];
}

KERNEL stencil(GLOBAL const float *a, GLOBAL float *b, uint n)
{
    const uint x = PLACE(0), y = PLACE(1), i = y * n + x;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        b[i] = 0.5f * a[i] + 0.125f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n]);
}

KERNEL collatz(GLOBAL uint *steps, uint n)
{
    const uint i = PLACE(0);
    if (i >= n)
        return;
    uint value = i + 1, count = 0;
    while (value != 1) {
        value = value & 1 ? 3 * value + 1 : value / 2;
        count++;
    }
    steps[i] = count;
}

#define TILE 16
KERNEL matmul(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *c, uint n)
{
    SHARED float as[TILE][TILE], bs[TILE][TILE];
    const uint tx = THREAD(0), ty = THREAD(1), x = PLACE(0), y = PLACE(1);
    float sum = 0;
    for (uint t = 0; t < n; t += TILE) {
        as[ty][tx] = a[y * n + t + tx];
        bs[ty][tx] = b[(t + ty) * n + x];
        BARRIER();
        for (uint k = 0; k < TILE; k++)
            sum += as[ty][k] * bs[k][tx];
        BARRIER();
    }
    c[y * n + x] = sum;
}

#define BODIES 128
KERNEL nbody(GLOBAL const float *x, GLOBAL const float *y, GLOBAL float *force, uint n)
{
    SHARED float xs[BODIES], ys[BODIES];
    const uint i = PLACE(0), t = THREAD(0);
    const float mx = x[i], my = y[i];
    float fx = 0, fy = 0;
    for (uint first = 0; first < n; first += BODIES) {
        xs[t] = x[first + t];
        ys[t] = y[first + t];
        BARRIER();
        for (uint k = 0; k < BODIES; k++) {
            const float dx = xs[k] - mx, dy = ys[k] - my, r = RSQRT(dx * dx + dy * dy + 0.01f), s = r * r * r;
            fx += dx * s;
            fy += dy * s;
        }
        BARRIER();
    }
    force[2 * i] = fx;
    force[2 * i + 1] = fy;
}

#define BINS 256
KERNEL histogram(GLOBAL const uchar *data, GLOBAL uint *bins, uint each)
{
    SHARED uint own[BINS];
    const uint t = THREAD(0), first = BLOCK(0) * each * BINS;
    own[t] = 0;
    BARRIER();
    for (uint k = 0; k < each; k++)
        ADD_SHARED(&own[data[first + k * BINS + t]], 1u);
    BARRIER();
    ADD_GLOBAL(&bins[t], own[t]);
}

KERNEL black_scholes(GLOBAL const float *price, GLOBAL const float *strike, GLOBAL float *call, uint n)
{
    const uint i = PLACE(0);
    if (i >= n)
        return;
    const float s = 5 + 25 * price[i], k = 1 + 99 * strike[i], years = 2, rate = 0.02f, volatility = 0.3f;
    const float root = SQRT(years), d1 = (LOG(s / k) + (rate + 0.5f * volatility * volatility) * years) /
                                         (volatility * root), d2 = d1 - volatility * root;
    float part[2];
    for (int which = 0; which < 2; which++) {
        const float d = which ? d2 : d1, t = 1 / (1 + 0.2316419f * ABS(d));
        const float tail = 0.39894228f * EXP(-0.5f * d * d) * t *
            (0.31938153f + t * (-0.35656378f + t * (1.7814779f + t * (-1.8212559f + t * 1.3302744f))));
        part[which] = d > 0 ? 1 - tail : tail;
    }
    call[i] = s * part[0] - k * EXP(-rate * years) * part[1];
}

KERNEL fma_chain(GLOBAL float *values, uint n, uint rounds)
{
    const uint i = PLACE(0);
    if (i >= n)
        return;
    float v = values[i];
    for (uint k = 0; k < rounds; k++)
        v = FMA(v, 0.9999f, 0.0001f);
    values[i] = v;
}

#define SUMMED 256
KERNEL reduction(GLOBAL const uint *data, GLOBAL uint *sums, uint each)
{
    SHARED uint own[SUMMED];
    const uint t = THREAD(0), first = BLOCK(0) * each * SUMMED;
    uint sum = 0;
    for (uint k = 0; k < each; k++)
        sum += data[first + k * SUMMED + t];
    own[t] = sum;
    BARRIER();
    for (uint rest = SUMMED / 2; rest > 0; rest /= 2) {
        if (t < rest)
            own[t] += own[t + rest];
        BARRIER();
    }
    if (t == 0)
        sums[BLOCK(0)] = own[0];
}

#define SQUARE 32
KERNEL transpose(GLOBAL const float *a, GLOBAL float *b, uint n)
{
    SHARED float square[SQUARE][SQUARE + 1];
    const uint tx = THREAD(0), ty = THREAD(1), x = BLOCK(0) * SQUARE, y = BLOCK(1) * SQUARE;
    for (uint k = ty; k < SQUARE; k += 8)
        square[k][tx] = a[(y + k) * n + x + tx];
    BARRIER();
    for (uint k = ty; k < SQUARE; k += 8)
        b[(x + k) * n + y + tx] = square[tx][k];
}

KERNEL grey(GLOBAL const uchar *colours, GLOBAL uchar *light, uint n)
{
    const uint i = PLACE(0);
    if (i < n)
        light[i] = (uchar)((colours[3 * i] * 77u + colours[3 * i + 1] * 150u + colours[3 * i + 2] * 29u) >> 8);
}
