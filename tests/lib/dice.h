/* dice.h: numbers drawn by chance, the same ones for the same seed. */
#ifndef FLYT_TESTS_LIB_DICE_H
#define FLYT_TESTS_LIB_DICE_H

#include <stdint.h>

/* One of 0 to n - 1. The seed, of 64 bits, changes. */
#ifdef __cplusplus
template <class Seed> static inline unsigned dice(Seed *seed, unsigned n)
#else
static inline uint32_t dice(uint64_t *seed, uint32_t n)
#endif
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

#endif
