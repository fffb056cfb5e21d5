/* patch.c: which bytes have changed, and changing them on the other side. */
#include "patch.h"

#include <string.h>

/* Others write the memory at the same time: that is the contract, and no race of ours. */
#define RACY __attribute__((no_sanitize("thread")))

enum { WORDS = PATCH_LINE / 8, HEAD = 8 };

/* ---- looking ---- */

/* Is there any difference? A quick look, which the compiler makes with vector instructions. */
RACY static bool differs(const uint8_t *memory, const uint8_t *base, size_t size)
{
    const uint64_t *m = (const uint64_t *)(const void *)memory, *b = (const uint64_t *)(const void *)base;
    uint64_t any = 0;
    for (size_t i = 0; i < size / 8; i++)
        any |= m[i] ^ b[i];
    return any != 0;
}

/* Bit i: byte i is not 0. */
static uint64_t bytes_set(uint64_t x)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t high = (((x & low) + low) | x) & ~low;                    /* bit 7 of each byte that is not 0 */
    return (high >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

/* One line: its mask, and the bytes, which become the base's. The size; 0: nothing has changed. */
RACY static size_t line_put(uint8_t *out, const uint8_t *memory, uint8_t *base)
{
    uint64_t mask = 0;
    uint8_t *at = out + 8;
    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t now = __atomic_load_n((const uint64_t *)(const void *)(memory + 8 * i), __ATOMIC_RELAXED), before;
        memcpy(&before, base + 8 * i, 8);
        if (now == before)
            continue;
        uint64_t changed = bytes_set(now ^ before);
        mask |= changed << 8 * i;
        for (uint64_t left = changed; left; left &= left - 1)
            *at++ = (uint8_t)(now >> 8 * (unsigned)__builtin_ctzll(left));
        memcpy(base + 8 * i, &now, 8);
    }
    memcpy(out, &mask, 8);
    return mask ? (size_t)(at - out) : 0;
}

/* The lines of a page, or of what is left of one. False: full before line *done. */
static bool page_put(struct patch *p, uint64_t address, const uint8_t *memory, uint8_t *base, size_t size, size_t *done)
{
    uint8_t *head = NULL;
    uint64_t first = 0, lines = 0;
    for (size_t at = 0; at < size; at += PATCH_LINE) {
        *done = at;
        if (p->room - p->used < HEAD + 8 + PATCH_LINE)
            return false;
        if (!differs(memory + at, base + at, PATCH_LINE)) {
            head = NULL;
            continue;
        }
        size_t gap = head ? 0 : HEAD, put = line_put(p->bytes + p->used + gap, memory + at, base + at);
        if (!put) {                           /* it was changed back meanwhile */
            head = NULL;
            continue;
        }
        if (!head) {
            head = p->bytes + p->used;
            first = address + at;
            lines = 0;
        }
        uint64_t number = first | lines++;
        memcpy(head, &number, HEAD);
        p->used += gap + put;
    }
    *done = size;
    return true;
}

size_t patch_add(struct patch *p, uint64_t address, uint8_t *memory, uint8_t *base, size_t size)
{
    for (size_t at = 0, page; at < size; at += page) {
        page = size - at < PATCH_PAGE ? size - at : PATCH_PAGE;
        size_t done;
        if (differs(memory + at, base + at, page) && !page_put(p, address + at, memory + at, base + at, page, &done))
            return at + done;
    }
    return size;
}

/* ---- applying ---- */

RACY static void merge(uint8_t *memory, uint8_t *base, uint64_t mask, uint64_t value)
{
    uint64_t *word = (uint64_t *)(void *)memory, before, now = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &now, (now & ~mask) | value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    memcpy(&before, base, 8);
    before = (before & ~mask) | value;
    memcpy(base, &before, 8);
}

/* The bytes that follow a line's mask; how many there are has been looked at. */
static void line_apply(uint64_t mask, const uint8_t *bytes, uint8_t *memory, uint8_t *base)
{
    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t wide = 0, value = 0;
        for (uint64_t left = mask >> 8 * i & 0xff; left; left &= left - 1) {
            unsigned shift = 8 * (unsigned)__builtin_ctzll(left);
            wide |= UINT64_C(0xff) << shift;
            value |= (uint64_t)*bytes++ << shift;
        }
        if (wide)
            merge(memory + 8 * i, base + 8 * i, wide, value);
    }
}

bool patch_apply(const uint8_t *bytes, size_t size, patch_place *place, void *user)
{
    const uint8_t *end = bytes + size;
    while (bytes < end) {
        uint64_t number, mask;
        uint8_t *memory, *base;
        if ((size_t)(end - bytes) < HEAD)
            return false;
        memcpy(&number, bytes, HEAD);
        bytes += HEAD;
        uint64_t address = number & ~(uint64_t)(PATCH_LINE - 1);
        size_t lines = (size_t)(number & (PATCH_LINE - 1)) + 1;
        if (address + lines * PATCH_LINE < address || !place(user, address, lines * PATCH_LINE, &memory, &base))
            return false;
        for (size_t i = 0; i < lines; i++) {
            if ((size_t)(end - bytes) < 8)
                return false;
            memcpy(&mask, bytes, 8);
            bytes += 8;
            size_t count = (size_t)__builtin_popcountll(mask);
            if ((size_t)(end - bytes) < count)
                return false;
            line_apply(mask, bytes, memory + i * PATCH_LINE, base + i * PATCH_LINE);
            bytes += count;
        }
    }
    return true;
}
