/* cufft.c: complex transforms of several lengths, there and back. */
#include <cufft.h>

#include "library.h"

static void transform(int n)
{
    cufftComplex in[1024], out[1024];
    cufftHandle plan;
    for (int i = 0; i < n; i++)
        in[i] = (cufftComplex){ sinf((float)i * 0.3f) + (float)(i % 3), cosf((float)i * 1.7f) };
    cufftComplex *memory = to_device(in, (size_t)n * sizeof *in);
    GOOD(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
    GOOD(cufftExecC2C(plan, memory, memory, CUFFT_FORWARD));
    from_device(out, memory, (size_t)n * sizeof *out);
    for (int k = 0; k < n; k++) {
        double x = 0, y = 0;
        for (int i = 0; i < n; i++) {
            double angle = -2 * 3.14159265358979 * k * i / n;
            x += in[i].x * cos(angle) - in[i].y * sin(angle);
            y += in[i].x * sin(angle) + in[i].y * cos(angle);
        }
        near("real part", out[k].x, x, 1e-3);
        near("imaginary part", out[k].y, y, 1e-3);
    }
    GOOD(cufftExecC2C(plan, memory, memory, CUFFT_INVERSE));
    from_device(out, memory, (size_t)n * sizeof *out);
    for (int i = 0; i < n; i++)
        near("there and back", out[i].x / n, in[i].x, 1e-4);
    GOOD(cufftDestroy(plan));
}

int main(void)
{
    static const int lengths[] = { 8, 64, 100, 256, 1000 };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        transform(lengths[i]);
    return result("cufft");
}
