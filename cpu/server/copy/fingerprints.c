/* fingerprints.c: see fingerprints.h. */
#include "cpu/server/copy/fingerprints.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(FLYT_MAX_FINGERPRINTS * FLYT_FINGERPRINT_BYTES == FLYT_MAX_INLINE, "there is room for all");

unsigned copy_fingerprints(const void *bytes, uint64_t size, flyt_fingerprint all[FLYT_MAX_FINGERPRINTS])
{
    unsigned count = 0;
    for (uint64_t at = 0; at < size; at += FLYT_FINGERPRINT_BYTES) {
        const uint64_t left = size - at;
        const XXH128_hash_t hash = XXH3_128bits((const uint8_t *)bytes + at,
                                                left < FLYT_FINGERPRINT_BYTES ? left : FLYT_FINGERPRINT_BYTES);
        all[count++] = (flyt_fingerprint){ hash.low64, hash.high64 };
    }
    return count;
}
