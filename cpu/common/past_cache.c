#include "cpu/common/past_cache.h"

#include <stdint.h>
#include <string.h>

/* A sanitizer would not see these stores. */
#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED
#endif

#if defined __x86_64__ && !defined SANITIZED

#include <emmintrin.h>

/* A line is written whole, by four stores without others between them. AHEAD: so far in front of the loads the source
   is asked for; the processor's own prefetching stops at the end of each page. */
enum { LINE = 64, AHEAD = 1024 };

void past_cache_copy(void *target, const void *source, size_t size)
{
    uint8_t *to = target;
    const uint8_t *from = source;
    size_t head = -(uintptr_t)to % LINE;
    if (size < head + LINE) {
        memcpy(to, from, size);
        return;
    }
    memcpy(to, from, head);
    to += head;
    from += head;
    size -= head;
    for (; size >= LINE; size -= LINE, to += LINE, from += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)from), b = _mm_loadu_si128((const __m128i *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)), d = _mm_loadu_si128((const __m128i *)(from + 48));
        /* Behind the end of the source that is no access. As a number: there may be no such place. */
        _mm_prefetch((const char *)((uintptr_t)from + AHEAD), _MM_HINT_T0);
        _mm_stream_si128((__m128i *)to, a);
        _mm_stream_si128((__m128i *)(to + 16), b);
        _mm_stream_si128((__m128i *)(to + 32), c);
        _mm_stream_si128((__m128i *)(to + 48), d);
    }
    _mm_sfence();                             /* these stores are ordered with no others but by this */
    memcpy(to, from, size);
}

#else

void past_cache_copy(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}

#endif
