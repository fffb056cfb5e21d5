// shows: arithmetic: f16, f32 and f64 with PTX's rounding, conversions, integer edge cases, against the host
#include "check.h"
#include <cuda_fp16.h>
#include <math.h>

__global__ void floats(const float *x, const double *y, float *f, double *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float a = x[i], b = x[(i + 1) % n];
    double c = y[i], e = y[(i + 1) % n];
    f[i * 8 + 0] = __fadd_rn(a, b);
    f[i * 8 + 1] = __fmaf_rn(a, b, a);
    f[i * 8 + 2] = a / b;
    f[i * 8 + 3] = sqrtf(fabsf(a));
    f[i * 8 + 4] = fminf(a, b) + 2 * fmaxf(a, b);
    f[i * 8 + 5] = rintf(a) + floorf(b);
    f[i * 8 + 6] = __fmul_rn(__fsub_rn(a, b), 0.3333f);
    f[i * 8 + 7] = (float)c;
    d[i * 8 + 0] = __dadd_rn(c, e);
    d[i * 8 + 1] = fma(c, e, c);
    d[i * 8 + 2] = c / e;
    d[i * 8 + 3] = sqrt(fabs(c));
    d[i * 8 + 4] = 1.0 / c;
    d[i * 8 + 5] = trunc(c) + ceil(e);
    d[i * 8 + 6] = (double)a;
    d[i * 8 + 7] = sin(c) * exp(-c * c);
}

__global__ void rounded(float *f, float a, float b)
{
    f[0] = __fadd_ru(a, b); f[1] = __fadd_rd(a, b); f[2] = __fadd_rz(a, b);
    f[3] = __fmul_ru(a, b); f[4] = __fmul_rd(a, b);
    f[5] = __fdiv_ru(a, b); f[6] = __fdiv_rd(a, b); f[7] = __fsqrt_rz(a);
    f[8] = __int2float_ru(16777217); f[9] = __int2float_rd(16777217); f[10] = (float)__double2int_rn(2.5);
    f[11] = (float)__float2int_rz(-3.9f); f[12] = __saturatef(a * 100); f[13] = (float)__float2int_rz(b * 1e30f);
}

__global__ void halves(const __half *in, __half *out, int n)
{
    int i = threadIdx.x;
    if (i + 1 < n) {
        out[i] = __hfma(in[i], in[i + 1], __float2half(0.5f));
        out[n + i] = __hadd(in[i], in[i + 1]);
    }
}

__global__ void integers(long long *out, int a, int b, long long c, long long d, unsigned u)
{
    out[0] = a / b; out[1] = a % b; out[2] = c / d; out[3] = c % d; out[4] = __mulhi(a, b); out[5] = __mul64hi(c, d);
    out[6] = (int)__umulhi(u, 0xdeadbeefu);
    out[7] = a >> 3;
    out[8] = (int)(u >> 5);
    out[9] = __popcll(c);
    out[10] = __clzll(d);
    out[11] = __funnelshift_l(u, (unsigned)a, 7);
    out[12] = __byte_perm(u, (unsigned)a, 0x5140);
    out[13] = __sad(a, b, 5u);
    out[14] = (long long)(1ull << (u & 63));
    out[15] = __dp4a((int)0x01020304, (int)0x05fb0708, 100);
    out[16] = __vabsdiffu4(u, 0x01020304u);
    out[17] = abs(a) + min(a, b) * max(b, 3);
}

int main()
{
    const int n = 1000;
    static float x[n], f[n * 8];
    static double y[n], d[n * 8];
    for (int i = 0; i < n; i++) {
        x[i] = (float)((i * 7919 % 2003 - 1000) * 0.0137 + 0.001);
        y[i] = (i * 6007 % 4001 - 2000) * 0.000731 + 1e-5;
    }
    float *dx, *df;
    double *dy, *dd;
    MUST(cudaMalloc((void **)&dx, sizeof x)); MUST(cudaMalloc((void **)&df, sizeof f));
    MUST(cudaMalloc((void **)&dy, sizeof y)); MUST(cudaMalloc((void **)&dd, sizeof d));
    MUST(cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(dy, y, sizeof y, cudaMemcpyHostToDevice));
    floats<<<(n + 127) / 128, 128>>>(dx, dy, df, dd, n);
    MUST(cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(d, dd, sizeof d, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        volatile float a = x[i], b = x[(i + 1) % n], difference = a - b;
        volatile double c = y[i], e = y[(i + 1) % n];
        HOLDS(f[i * 8] == a + b && f[i * 8 + 1] == fmaf(a, b, a) && f[i * 8 + 2] == a / b &&
              f[i * 8 + 3] == sqrtf(fabsf(a)));
        HOLDS(f[i * 8 + 4] == fmaf(2, fmaxf(a, b), fminf(a, b)) && f[i * 8 + 5] == rintf(a) + floorf(b));
        HOLDS(f[i * 8 + 6] == difference * 0.3333f && f[i * 8 + 7] == (float)c);
        HOLDS(d[i * 8] == c + e && d[i * 8 + 1] == fma(c, e, c) && d[i * 8 + 2] == c / e &&
              d[i * 8 + 3] == sqrt(fabs(c)));
        HOLDS(d[i * 8 + 4] == 1.0 / c && d[i * 8 + 5] == trunc(c) + ceil(e) && d[i * 8 + 6] == (double)a);
        HOLDS(fabs(d[i * 8 + 7] - sin(c) * exp(-c * c)) < 1e-14);
    }
    float r[14];
    rounded<<<1, 1>>>(df, 1.1f, 0.7f);
    MUST(cudaMemcpy(r, df, sizeof r, cudaMemcpyDeviceToHost));
    double sum = (double)1.1f + (double)0.7f, product = (double)1.1f * (double)0.7f;
    float near_sum = (float)sum, up = (double)near_sum < sum ? nextafterf(near_sum, 10) : near_sum,
          down = (double)near_sum > sum ? nextafterf(near_sum, -10) : near_sum;
    HOLDS(r[0] == up && r[1] == down && r[2] == down);
    HOLDS((double)r[3] >= product && (double)r[4] <= product && r[3] != r[4] && nextafterf(r[4], 10) == r[3]);
    HOLDS((double)r[5] * 0.7f >= (double)1.1f && (double)r[6] * 0.7f <= (double)1.1f && nextafterf(r[6], 10) == r[5]);
    HOLDS((double)r[7] * r[7] <= (double)1.1f && (double)nextafterf(r[7], 10) * nextafterf(r[7], 10) > (double)1.1f);
    HOLDS(r[8] == 16777218.0f && r[9] == 16777216.0f && r[10] == 2 && r[11] == -3 && r[12] == 1.0f &&
          r[13] == 2147483648.0f);

    __half in[64], out[128], *din, *dout;
    for (int i = 0; i < 64; i++)
        in[i] = __float2half(i * 0.37f - 9);
    MUST(cudaMalloc((void **)&din, sizeof in)); MUST(cudaMalloc((void **)&dout, sizeof out));
    MUST(cudaMemcpy(din, in, sizeof in, cudaMemcpyHostToDevice));
    halves<<<1, 64>>>(din, dout, 64);
    MUST(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 63; i++) {
        double p = (double)__half2float(in[i]) * __half2float(in[i + 1]) + 0.5;      // exact
        HOLDS(__half2float(out[i]) == __half2float(__double2half(p)));
        HOLDS(__half2float(out[64 + i]) == __half2float(__float2half(__half2float(in[i]) + __half2float(in[i + 1]))));
    }

    long long *di, o[18];
    MUST(cudaMalloc((void **)&di, sizeof o));
    int a = -123456789, b = 1234;
    long long c = -9123456789012345678ll, e = 987654321ll;
    unsigned u = 0x89abcdefu;
    integers<<<1, 1>>>(di, a, b, c, e, u);
    MUST(cudaMemcpy(o, di, sizeof o, cudaMemcpyDeviceToHost));
    HOLDS(o[0] == a / b && o[1] == a % b && o[2] == c / e && o[3] == c % e);
    HOLDS(o[4] == (int)(((long long)a * b) >> 32) && o[5] == (long long)(((__int128)c * e) >> 64));
    HOLDS(o[6] == (int)(((unsigned long long)u * 0xdeadbeefu) >> 32) && o[7] == a >> 3 && o[8] == (int)(u >> 5));
    HOLDS(o[9] == __builtin_popcountll(c) && o[10] == __builtin_clzll(e));
    HOLDS((unsigned)o[11] == (unsigned)((((unsigned long long)(unsigned)a << 32 | u) << 7) >> 32));
    unsigned bytes = 0, pool[8];
    for (int i = 0; i < 4; i++) { pool[i] = u >> (8 * i) & 255; pool[4 + i] = (unsigned)a >> (8 * i) & 255; }
    for (int i = 0; i < 4; i++) bytes |= pool[0x5140 >> (4 * i) & 7] << (8 * i);
    HOLDS((unsigned)o[12] == bytes && o[13] == (long long)b - a + 5);
    HOLDS(o[14] == (long long)(1ull << (u & 63)) && o[15] == 100 + 1 * 5 + 2 * -5 + 3 * 7 + 4 * 8);
    HOLDS((unsigned)o[16] == ((0x89u - 1) << 24 | (0xabu - 2) << 16 | (0xcdu - 3) << 8 | (0xefu - 4)));
    HOLDS(o[17] == 123456789ll + (long long)a * b || o[17] == (int)(123456789u + (unsigned)a * (unsigned)b));
    return check_result("numbers");
}
