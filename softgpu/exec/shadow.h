/* shadow.h: what is known of global memory, byte by byte, under FLYT_SOFTGPU_MEMCHECK. */
#ifndef SOFTGPU_EXEC_SHADOW_H
#define SOFTGPU_EXEC_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

enum shadow_found { SHADOW_FINE, SHADOW_OUTSIDE, SHADOW_FREED, SHADOW_UNWRITTEN };
/* May n bytes be read (and written)? Bytes that are written count as such from now on. The address that is not as it
   should be goes to *at. known is false where nothing is known: then the answer is SHADOW_FINE. */
enum shadow_found shadow_access(uint64_t address, uint64_t n, bool read, bool write, uint64_t *at, bool *known);

/* The allocation that lies nearest to the address, or held it last if it is freed. false: there is none. */
bool shadow_nearest(uint64_t address, bool freed, uint64_t *base, uint64_t *size);

#endif
