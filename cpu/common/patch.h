/*
 * patch.h: bytes that changed in memory of which two processes have a copy each (mirrored pinned memory).
 *
 * Each side has, beside the memory, what both last had in common: the base. A patch holds the bytes in which memory and
 * base differ, and no others: so both sides may change different bytes of one page, even of one word. Making a patch
 * and applying one changes the base, too. The memory may be read and written by others meanwhile (the program, a
 * kernel): a word of 8 aligned bytes is read, and merged, in one step.
 *
 * A patch is a sequence of runs: 8 bytes with the address of the first line, of which the low 6 bits are free and hold
 * the number of lines less one; then for each line 8 bytes of which bit i says that byte i follows, and those bytes.
 * Numbers are little-endian, as everything in the memory itself.
 */
#ifndef FLYT_COMMON_PATCH_H
#define FLYT_COMMON_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATCH_LINE = 64, PATCH_LINES = 64, PATCH_PAGE = 4096 };

/* Bytes of a patch that is being made. Everything is the caller's. */
struct patch { uint8_t *bytes; size_t used, room; };

/* Appends what has changed in [memory, memory + size), whose first byte has that address; all multiples of PATCH_LINE.
   Returns how much of it has been looked at: less than size when the patch is full. */
size_t patch_add(struct patch *, uint64_t address, uint8_t *memory, uint8_t *base, size_t size);

/* Where the lines [address, address + size) lie. False: nowhere. */
typedef bool patch_place(void *user, uint64_t address, size_t size, uint8_t **memory, uint8_t **base);
/* False: the bytes are no patch, or name what lies nowhere; what stands before that has been applied. */
bool patch_apply(const uint8_t *bytes, size_t size, patch_place *, void *user);

#endif
