/*
 * gaps.h: which parts of an address space are free. Taking and giving back takes O(log n) steps, n being the number of
 * free ranges. The caller protects it.
 */
#ifndef FLYT_COMMON_GAPS_H
#define FLYT_COMMON_GAPS_H

#include <stdbool.h>

#include "cpu/common/tree.h"

/* Free ranges, never adjacent to each other: by address, and by size (the address as tie). Zeros: nothing is free. */
struct gaps { struct tree by_address, by_size; };

/* [base, base + size) becomes free; none of it was. False: no memory; then those addresses are lost. size 0: true. */
bool gaps_give(struct gaps *, uint64_t base, uint64_t size);
/* Takes exactly this range. False: not all of it is free, or no memory. */
bool gaps_take_at(struct gaps *, uint64_t base, uint64_t size);
/* Takes `size` bytes from about the smallest gap that holds them, at its lowest (highest, with `top`) address that is a
   multiple of `unit` away from `origin`. unit: a power of two. The address; 0: there is no such gap, or no memory. */
uint64_t gaps_take(struct gaps *, uint64_t size, uint64_t unit, uint64_t origin, bool top);

#endif
