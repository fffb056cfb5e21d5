/* curand.c: numbers of each kind of generator are those that cuRAND makes on the host, bit by bit. */
#include "library.h"

#include <curand.h>

enum { COUNT = 10000 };

static void generator(const char *name, curandRngType_t type, int seeded)
{
    curandGenerator_t device, host;
    float *numbers = on_device(NULL, COUNT * sizeof *numbers), here[COUNT], wanted[COUNT];
    MUST(curandCreateGenerator(&device, type));
    MUST(curandCreateGeneratorHost(&host, type));
    if (seeded) {
        MUST(curandSetPseudoRandomGeneratorSeed(device, 1234));
        MUST(curandSetPseudoRandomGeneratorSeed(host, 1234));
    }
    MUST(curandGenerateUniform(device, numbers, COUNT));
    MUST(curandGenerateUniform(host, wanted, COUNT));
    to_host(here, numbers, sizeof here);
    int different = 0;
    for (int i = 0; i < COUNT; i++)
        different += here[i] != wanted[i];
    judge(name, different, 0);
    double squares = 0;
    MUST(curandGenerateNormal(device, numbers, COUNT, 0, 1));
    to_host(here, numbers, sizeof here);
    for (int i = 0; i < COUNT; i++)
        squares += here[i] * here[i];
    judge("  variance of normal numbers", fabs(squares / COUNT - 1), 0.05);
    MUST(curandDestroyGenerator(device));
    MUST(curandDestroyGenerator(host));
}

int main(void)
{
    generator("XORWOW", CURAND_RNG_PSEUDO_XORWOW, 1);
    generator("Philox", CURAND_RNG_PSEUDO_PHILOX4_32_10, 1);
    generator("MRG32k3a", CURAND_RNG_PSEUDO_MRG32K3A, 1);
    generator("Sobol", CURAND_RNG_QUASI_SOBOL32, 0);
    return failures != 0;
}
