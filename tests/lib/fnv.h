/* fnv.h: the hash FNV-1a of bytes, by which two runs are compared. */
#ifndef FLYT_TESTS_LIB_FNV_H
#define FLYT_TESTS_LIB_FNV_H

#include <stddef.h>
#include <stdint.h>

/* *hash, which may begin at 0, counts these bytes in. */
static inline void fnv_add(uint64_t *hash, const void *bytes, size_t size)
{
    for (const uint8_t *at = (const uint8_t *)bytes; size--; at++)
        *hash = (*hash ^ *at) * UINT64_C(1099511628211);
}

#endif
