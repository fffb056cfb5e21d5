/*
 * past_cache.h: copies whose target is too large to stay in a cache.
 *
 * An ordinary store reads its line from memory before it writes it. Where the target will have left the caches before
 * anybody looks at it, that is a third of all traffic for nothing, and it drives out what others have there. So from
 * PAST_CACHE_LEAST bytes on a copy is faster with stores that go past the caches, also if the target is read directly
 * afterwards; below, its target is still in the last cache then, and ordinary stores are better (docs/measurements).
 * The C library has such stores too, but reckons with all of the processor's last cache, which in a virtual machine is
 * mostly other people's.
 *
 * Who copies in pieces decides by the size of the whole.
 */
#ifndef FLYT_PAST_CACHE_H
#define FLYT_PAST_CACHE_H

#include <stdbool.h>
#include <stddef.h>

enum { PAST_CACHE_LEAST = 16 << 20 };

/* memcpy. What it has written, other threads may see when this one next stores with release order, as with memcpy. */
void past_cache_copy(void *to, const void *from, size_t size);

#endif
