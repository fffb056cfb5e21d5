/* curand.c: the generators on the device make what the same generator makes on the host. */
#include <curand.h>

#include "library.h"

enum { COUNT = 4096, SEED = 1234 };

static void compare(curandRngType_t type)
{
    static float host[COUNT], device[COUNT];
    float *memory = to_device(NULL, sizeof device);
    curandGenerator_t here, there;
    GOOD(curandCreateGeneratorHost(&here, type));
    GOOD(curandCreateGenerator(&there, type));
    GOOD(curandSetPseudoRandomGeneratorSeed(here, SEED));
    GOOD(curandSetPseudoRandomGeneratorSeed(there, SEED));
    GOOD(curandGenerateUniform(here, host, COUNT));
    GOOD(curandGenerateUniform(there, memory, COUNT));
    from_device(device, memory, sizeof device);
    for (int i = 0; i < COUNT; i++)
        near("uniform", device[i], host[i], 0);
    GOOD(curandGenerateNormal(here, host, COUNT, 0, 1));
    GOOD(curandGenerateNormal(there, memory, COUNT, 0, 1));
    from_device(device, memory, sizeof device);
    for (int i = 0; i < COUNT; i++)
        near("normal", device[i], host[i], 1e-5);
    GOOD(curandDestroyGenerator(here));
    GOOD(curandDestroyGenerator(there));
}

int main(void)
{
    compare(CURAND_RNG_PSEUDO_XORWOW);
    compare(CURAND_RNG_PSEUDO_MRG32K3A);
    compare(CURAND_RNG_PSEUDO_PHILOX4_32_10);
    return result("curand");
}
