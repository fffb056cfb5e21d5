/* little_endian.h: numbers of messages whose bytes are little-endian, one behind the other. */
#ifndef FLYT_COMMON_LITTLE_ENDIAN_H
#define FLYT_COMMON_LITTLE_ENDIAN_H

#include <stdint.h>

/* Returns where the next one goes. */
static inline uint8_t *little_put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static inline uint64_t little_get(const uint8_t **at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)*(*at)++ << 8 * i;
    return value;
}

#endif
