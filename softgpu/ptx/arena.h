/*
 * arena.h: memory that is freed all at once. Blocks grow, so that n allocations cost O(n) in total;
 * a large request gets a zeroed block of its own, so that big mostly-zero initialisers cost no touched pages.
 * Everything handed out is zeroed and aligned for any scalar type.
 */
#ifndef SOFTGPU_PTX_ARENA_H
#define SOFTGPU_PTX_ARENA_H

#include <stddef.h>

struct ptx_arena;

/* Bytes that one may hand out: the memory that a text costs is some twenty times its size. Set before the first is
   made. */
extern size_t ptx_arena_most;

struct ptx_arena *ptx_arena_create(void);              /* NULL: out of memory */
void ptx_arena_destroy(struct ptx_arena *);            /* NULL is fine */
/* NULL: out of memory; size 0 gives an address all the same */
void *ptx_arena_alloc(struct ptx_arena *, size_t size);
void *ptx_arena_array(struct ptx_arena *, size_t count, size_t item);  /* the same, checks count * item */
char *ptx_arena_string(struct ptx_arena *, const char *text, size_t size);  /* copy, NUL added */
/* Takes back all that was handed out, and keeps one block for what comes next. */
void ptx_arena_reset(struct ptx_arena *);
size_t ptx_arena_used(const struct ptx_arena *);       /* bytes handed out, for tests */

#endif
