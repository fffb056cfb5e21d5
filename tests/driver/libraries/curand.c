/* curand.c: numbers of each kind of generator are those that cuRAND makes on the host, bit by bit. */
#include "library.h"

#include <curand.h>

enum { COUNT = 10000 };

static void generator(const char *name, curandRngType_t type, int seeded)
{
    curandGenerator_t device, host;
    float *numbers = to_device(NULL, COUNT * sizeof *numbers), here[COUNT], wanted[COUNT];
    GOOD(curandCreateGenerator(&device, type));
    GOOD(curandCreateGeneratorHost(&host, type));
    if (seeded) {
        GOOD(curandSetPseudoRandomGeneratorSeed(device, 1234));
        GOOD(curandSetPseudoRandomGeneratorSeed(host, 1234));
    }
    GOOD(curandGenerateUniform(device, numbers, COUNT));
    GOOD(curandGenerateUniform(host, wanted, COUNT));
    from_device(here, numbers, sizeof here);
    int different = 0;
    for (int i = 0; i < COUNT; i++)
        different += here[i] != wanted[i];
    near(name, different, 0, 0);
    double squares = 0;
    GOOD(curandGenerateNormal(device, numbers, COUNT, 0, 1));
    from_device(here, numbers, sizeof here);
    for (int i = 0; i < COUNT; i++)
        squares += here[i] * here[i];
    near("  variance of normal numbers", fabs(squares / COUNT - 1), 0, 0.05);
    GOOD(curandDestroyGenerator(device));
    GOOD(curandDestroyGenerator(host));
}

int main(void)
{
    generator("XORWOW", CURAND_RNG_PSEUDO_XORWOW, 1);
    generator("Philox", CURAND_RNG_PSEUDO_PHILOX4_32_10, 1);
    generator("MRG32k3a", CURAND_RNG_PSEUDO_MRG32K3A, 1);
    generator("Sobol", CURAND_RNG_QUASI_SOBOL32, 0);
    return result("curand");
}
