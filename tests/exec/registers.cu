/*
 * registers.cu: kernels of the kinds that people write, for tests/exec/registers.py. They are only compiled: what the
 * software GPU says of their registers is compared with what ptxas gives them. None of them was used to make the
 * weights of softgpu/exec/needs.c, and none should be.
 */
#include <cuda_fp16.h>
#include <mma.h>

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)

/* ---- element by element ---- */

template <typename T> __global__ void axpy(T *y, const T *x, T a, int n)
{
    int i = THREAD;
    if (i < n)
        y[i] += a * x[i];
}

template <typename T> __global__ void strided_sum(T *out, const T *a, const T *b, const T *c, int n)
{
    for (int i = THREAD; i < n; i += gridDim.x * blockDim.x)
        out[i] = a[i] + b[i] * c[i];
}

__global__ void copy_vectors(float4 *out, const float4 *in, float scale, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float4 v = in[i];
    out[i] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}

__global__ void options(float *calls, float *puts, const float *price, const float *strike, const float *years,
                        float rate, float volatility, int n)
{
    int i = THREAD;
    if (i >= n)
        return;
    float root = sqrtf(years[i]);
    float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
    float d2 = d1 - volatility * root, later = strike[i] * expf(-rate * years[i]);
    float n1 = 0.5f * erfcf(-d1 * 0.70710678f), n2 = 0.5f * erfcf(-d2 * 0.70710678f);
    calls[i] = price[i] * n1 - later * n2;
    puts[i] = later * (1 - n2) - price[i] * (1 - n1);
}

__global__ void to_polar(double *radius, double *angle, const double *x, const double *y, int n)
{
    int i = THREAD;
    if (i < n) {
        radius[i] = sqrt(x[i] * x[i] + y[i] * y[i]);
        angle[i] = atan2(y[i], x[i]);
    }
}

__global__ void half_activation(__half2 *out, const __half2 *in, __half2 bias, int n)
{
    int i = THREAD;
    if (i < n)
        out[i] = __hmax2(__hadd2(in[i], bias), __float2half2_rn(0.0f));
}

/* ---- sums and scans ---- */

template <typename T> __global__ void block_sum(T *out, const T *in, int n)
{
    __shared__ T part[256];
    T sum = 0;
    for (int i = THREAD; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (!threadIdx.x)
        out[blockIdx.x] = part[0];
}

template <typename T> __global__ void warp_sum(T *out, const T *in, int n)
{
    T sum = THREAD < n ? in[THREAD] : T(0);
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}

__global__ void softmax(float *out, const float *in, int columns)
{
    const float *row = in + (size_t)blockIdx.x * columns;
    __shared__ float most, all;
    float best = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32)
        best = fmaxf(best, row[i]);
    for (int step = 16; step; step /= 2)
        best = fmaxf(best, __shfl_xor_sync(~0u, best, step));
    for (int i = threadIdx.x; i < columns; i += 32)
        sum += __expf(row[i] - best);
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (!threadIdx.x) {
        most = best;
        all = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += 32)
        out[(size_t)blockIdx.x * columns + i] = __expf(row[i] - most) / all;
}

__global__ void scan(int *data, int *sums, int n)
{
    extern __shared__ int part[];
    int own = threadIdx.x, at = THREAD;
    part[own] = at < n ? data[at] : 0;
    for (int step = 1; step < blockDim.x; step *= 2) {
        __syncthreads();
        int before = own >= step ? part[own - step] : 0;
        __syncthreads();
        part[own] += before;
    }
    if (at < n)
        data[at] = part[own];
    if (own == blockDim.x - 1)
        sums[blockIdx.x] = part[own];
}

__global__ void histogram(unsigned *bins, const unsigned char *bytes, int n)
{
    __shared__ unsigned own[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    for (int i = THREAD; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[bytes[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&bins[i], own[i]);
}

/* ---- matrices ---- */

template <typename T, int TILE> __global__ void product(T *c, const T *a, const T *b, int n)
{
    __shared__ T as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int at = 0; at < n; at += TILE) {
        as[threadIdx.y][threadIdx.x] = a[row * n + at + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

/* Each thread makes a square of the result in its registers. */
template <typename T, int SIDE> __global__ void product_in_registers(T *c, const T *a, const T *b, int n)
{
    int row = (blockIdx.y * blockDim.y + threadIdx.y) * SIDE, column = (blockIdx.x * blockDim.x + threadIdx.x) * SIDE;
    T sum[SIDE][SIDE] = {};
    for (int k = 0; k < n; k++) {
        T left[SIDE], right[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            left[i] = a[(row + i) * n + k];
            right[i] = b[k * n + column + i];
        }
#pragma unroll
        for (int i = 0; i < SIDE; i++)
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                sum[i][j] += left[i] * right[j];
    }
#pragma unroll
    for (int i = 0; i < SIDE; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j++)
            c[(row + i) * n + column + j] = sum[i][j];
}

__global__ void product_of_tensor_cores(float *c, const __half *a, const __half *b, int n)
{
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, __half, row_major> left;
    fragment<matrix_b, 16, 16, 16, __half, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(left, a + blockIdx.y * 16 * n + k, n);
        load_matrix_sync(right, b + blockIdx.x * 16 * n + k, n);
        mma_sync(sum, left, right, sum);
    }
    store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, mem_row_major);
}

__global__ void transpose(float *out, const float *in, int width, int height)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width)
            out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <typename T>
__global__ void sparse(T *y, const int *rows, const int *columns, const T *values, const T *x, int n)
{
    int row = THREAD;
    if (row >= n)
        return;
    T sum = 0;
    for (int k = rows[row]; k < rows[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}

template <typename T, int N> __global__ void solve(T *matrices, int count)
{
    T a[N][N];
    int which = THREAD;
    if (which >= count)
        return;
#pragma unroll
    for (int i = 0; i < N * N; i++)
        a[i / N][i % N] = matrices[i * count + which];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
        for (int i = k + 1; i < N; i++) {
            a[i][k] /= a[k][k];
#pragma unroll
            for (int j = k + 1; j < N; j++)
                a[i][j] -= a[i][k] * a[k][j];
        }
#pragma unroll
    for (int i = 0; i < N * N; i++)
        matrices[i * count + which] = a[i / N][i % N];
}

/* ---- neighbours ---- */

template <typename T> __global__ void heat(T *out, const T *in, T k, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    int at = y * width + x;
    out[at] = in[at] + k * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] - 4 * in[at]);
}

template <int RADIUS>
__global__ void wave(float *out, const float *in, const float *before, const float *c, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x + RADIUS, y = blockIdx.y * blockDim.y + threadIdx.y + RADIUS;
    if (x >= nx - RADIUS || y >= ny - RADIUS)
        return;
    for (int z = RADIUS; z < nz - RADIUS; z++) {
        size_t at = ((size_t)z * ny + y) * nx + x;
        float sum = c[0] * in[at];
#pragma unroll
        for (int r = 1; r <= RADIUS; r++)
            sum += c[r] * (in[at - r] + in[at + r] + in[at - r * nx] + in[at + r * nx] + in[at - (size_t)r * nx * ny] +
                           in[at + (size_t)r * nx * ny]);
        out[at] = 2 * in[at] - before[at] + sum;
    }
}

__constant__ float filter[25];
__global__ void filtered(float *out, const float *in, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++)
            if (x + i >= 0 && x + i < width && y + j >= 0 && y + j < height)
                sum += filter[(j + 2) * 5 + i + 2] * in[(y + j) * width + x + i];
    if (x < width && y < height)
        out[y * width + x] = sum;
}

__global__ void sampled(uchar4 *out, cudaTextureObject_t image, float angle, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float u = x / (float)width - 0.5f, v = y / (float)height - 0.5f, s = sinf(angle), c = cosf(angle);
    float4 p = tex2D<float4>(image, u * c - v * s + 0.5f, v * c + u * s + 0.5f);
    if (x < width && y < height)
        out[y * width + x] = make_uchar4(p.x * 255, p.y * 255, p.z * 255, p.w * 255);
}

/* ---- particles, random numbers, searching ---- */

template <typename T> struct four { T x, y, z, w; };
template <typename T> __global__ void bodies(four<T> *out, const four<T> *in, T soft, int n)
{
    __shared__ four<T> near[128];
    four<T> own = in[THREAD];
    T ax = 0, ay = 0, az = 0;
    for (int at = 0; at < n; at += 128) {
        near[threadIdx.x] = in[at + threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < 128; k++) {
            T dx = near[k].x - own.x, dy = near[k].y - own.y, dz = near[k].z - own.z;
            T d = dx * dx + dy * dy + dz * dz + soft, f = near[k].w * rsqrt(d * d * d);
            ax += dx * f;
            ay += dy * f;
            az += dz * f;
        }
        __syncthreads();
    }
    out[THREAD] = four<T>{ ax, ay, az, own.w };
}

template <typename T> __global__ void mandelbrot(int *out, T left, T top, T step, int width, int most)
{
    T x = left + step * (blockIdx.x * blockDim.x + threadIdx.x), y = top + step * blockIdx.y, a = 0, b = 0;
    int n = 0;
    for (; n < most && a * a + b * b < 4; n++) {
        T next = a * a - b * b + x;
        b = 2 * a * b + y;
        a = next;
    }
    out[blockIdx.y * width + blockIdx.x * blockDim.x + threadIdx.x] = n;
}

__global__ void dice(float *out, unsigned long long seed, int rounds)
{
    unsigned long long s = seed + THREAD * 0x9e3779b97f4a7c15ull;
    float inside = 0;
    for (int i = 0; i < rounds; i++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        float x = (s >> 40) * 5.9604645e-8f, y = (s & 0xffffff) * 5.9604645e-8f;
        inside += x * x + y * y < 1;
    }
    out[THREAD] = 4 * inside / rounds;
}

__global__ void hashes(unsigned *out, const unsigned *words, int rounds)
{
    unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476, w[16];
    for (int i = 0; i < 16; i++)
        w[i] = words[THREAD * 16 + i];
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            unsigned f = ((b & c) | (~b & d)) + a + w[i] + 0x5a827999;
            a = d, d = c, c = b, b += __funnelshift_l(f, f, 7 + i % 4 * 5);
            w[i] ^= b + w[(i + 5) % 16];
        }
    reinterpret_cast<uint4 *>(out)[THREAD] = make_uint4(a, b, c, d);
}

__global__ void sort_step(int *values, int j, int k)
{
    int i = THREAD, other = i ^ j;
    if (other <= i)
        return;
    int a = values[i], b = values[other];
    if ((i & k ? a < b : a > b)) {
        values[i] = b;
        values[other] = a;
    }
}

__global__ void searched(int *out, const int *sorted, const int *wanted, int n, int count)
{
    int i = THREAD;
    if (i >= count)
        return;
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < wanted[i])
            low = middle + 1;
        else
            high = middle;
    }
    out[i] = low;
}

__global__ void next_front(int *next, int *count, int *levels, const int *front, const int *edges, const int *targets,
                           int size, int level)
{
    if (THREAD >= size)
        return;
    int node = front[THREAD];
    for (int e = edges[node]; e < edges[node + 1]; e++)
        if (atomicCAS(&levels[targets[e]], -1, level) == -1)
            next[atomicAdd(count, 1)] = targets[e];
}

__global__ void digits(int *out, const long long *numbers, int base, int n)
{
    if (THREAD >= n)
        return;
    long long left = numbers[THREAD];
    int sum = 0;
    for (; left; left /= base)
        sum += left % base;
    out[THREAD] = sum;
}

/* ---- values that are all needed at once ---- */

template <typename T, int N> __global__ void turned(T *data)
{
    T v[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = data[i * gridDim.x * blockDim.x + THREAD];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; i++)
        data[(N - 1 - i) * gridDim.x * blockDim.x + THREAD] = v[i];
}

template <int N> __global__ void transformed(float2 *data, int stride)
{
    float2 v[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = data[THREAD + i * stride];
#pragma unroll
    for (int half = N / 2; half; half /= 2)
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!(i & half)) {
                float2 a = v[i], b = v[i + half];
                float s = sinpif(i * 1.0f / N), c = cospif(i * 1.0f / N);
                v[i] = make_float2(a.x + b.x, a.y + b.y);
                v[i + half] = make_float2((a.x - b.x) * c - (a.y - b.y) * s, (a.x - b.x) * s + (a.y - b.y) * c);
            }
#pragma unroll
    for (int i = 0; i < N; i++)
        data[THREAD + i * stride] = v[i];
}

struct settings {
    float weights[12];
    int columns, rows;
    const float *from;
    float *to;
};
__global__ void by_settings(settings s)
{
    int i = THREAD;
    if (i >= s.rows * s.columns)
        return;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 12; k++)
        sum = sum * 0.5f + s.weights[k] * s.from[(i + k * s.columns) % (s.rows * s.columns)];
    s.to[i] = sum;
}

__global__ void __launch_bounds__(256, 4) bounded(double *out, const double *in, int n)
{
    double v[24];
#pragma unroll
    for (int i = 0; i < 24; i++)
        v[i] = in[THREAD + i * n];
    for (int round = 0; round < n; round++)
#pragma unroll
        for (int i = 0; i < 24; i++)
            v[i] = v[i] * v[(i + 7) % 24] + round;
#pragma unroll
    for (int i = 0; i < 24; i++)
        out[THREAD + i * n] = v[i];
}

/* ---- which there are ---- */

#define MAKE(...) template __global__ decltype(__VA_ARGS__) __VA_ARGS__
MAKE(axpy<float>);
MAKE(axpy<double>);
MAKE(axpy<int>);
MAKE(strided_sum<float>);
MAKE(strided_sum<double>);
MAKE(block_sum<float>);
MAKE(block_sum<double>);
MAKE(block_sum<long long>);
MAKE(warp_sum<float>);
MAKE(warp_sum<int>);
MAKE(product<float, 16>);
MAKE(product<float, 32>);
MAKE(product<double, 16>);
MAKE(product_in_registers<float, 4>);
MAKE(product_in_registers<float, 8>);
MAKE(product_in_registers<double, 4>);
MAKE(sparse<float>);
MAKE(sparse<double>);
MAKE(solve<float, 3>);
MAKE(solve<float, 5>);
MAKE(solve<double, 4>);
MAKE(heat<float>);
MAKE(heat<double>);
MAKE(wave<1>);
MAKE(wave<4>);
MAKE(bodies<float>);
MAKE(bodies<double>);
MAKE(mandelbrot<float>);
MAKE(mandelbrot<double>);
MAKE(turned<float, 8>);
MAKE(turned<float, 32>);
MAKE(turned<double, 16>);
MAKE(turned<double, 48>);
MAKE(transformed<4>);
MAKE(transformed<8>);
MAKE(transformed<16>);
