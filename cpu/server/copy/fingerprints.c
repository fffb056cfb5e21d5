/* fingerprints.c: see fingerprints.h. */
#include "cpu/server/copy/fingerprints.h"

#include "cpu/server/session.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(FLYT_MAX_FINGERPRINTS * FLYT_FINGERPRINT_BYTES == FLYT_MAX_INLINE, "there is room for all");

static uint64_t part_of(uint64_t left) { return left < FLYT_FINGERPRINT_BYTES ? left : FLYT_FINGERPRINT_BYTES; }

static void make(const void *bytes, uint64_t size, void *fingerprint)
{
    const XXH128_hash_t hash = XXH3_128bits(bytes, size);
    *(flyt_fingerprint *)fingerprint = (flyt_fingerprint){ hash.low64, hash.high64 };
}

unsigned copy_fingerprints(const void *bytes, uint64_t size, flyt_fingerprint all[FLYT_MAX_FINGERPRINTS])
{
    unsigned count = 0;
    for (uint64_t at = 0; at < size; at += FLYT_FINGERPRINT_BYTES)
        make((const uint8_t *)bytes + at, part_of(size - at), &all[count++]);
    return count;
}

unsigned copy_fingerprints_in_place(const struct gpu *gpu, uint64_t address, uint64_t size,
                                    flyt_fingerprint all[FLYT_MAX_FINGERPRINTS])
{
    unsigned count = 0;
    for (uint64_t at = 0; at < size; at += FLYT_FINGERPRINT_BYTES)
        if (!gpu->read(address + at, part_of(size - at), make, &all[count++]))
            return 0;
    return count;
}
