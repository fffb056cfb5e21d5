/*
 * array.h: what copies need to know of arrays (array.c).
 */
#ifndef FLYT_CLIENT_CORE_ARRAY_H
#define FLYT_CLIENT_CORE_ARRAY_H

#include "cpu/client/core/api_copy.h"

/* Whether an address is one of a box in an array (core_array_box); such addresses have no memory. */
bool array_address(uint64_t address);
/* Whether an extent that begins there lies in one array, and of which context that is. 1: it does not; 709: the context
   has ended. */
int array_check(uint64_t address, const struct core_extent *, core_context **owner);

void array_forget_context(core_context *); /* after its end */
uint64_t arrays_count(void);
uint64_t mipmaps_count(void);

#endif
