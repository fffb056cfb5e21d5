/*
 * kernels.h: the names of the kernels in a code image, and the registers of those in machine code, found quickly and
 * without reading the code. A guess, for callers that can do without it: a name may be missing, and a comment in PTX
 * may look like a kernel.
 */
#ifndef FLYT_CODE_KERNELS_H
#define FLYT_CODE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* A name of `size` characters, without a NUL. False: no more, please. */
typedef bool kernel_name(void *context, const char *name, size_t size);

/* Visits the kernels of PTX text (with or without a NUL behind it). False: the visitor has had enough. */
bool kernels_of_ptx(const char *text, size_t size, kernel_name *each, void *context);
/* Of a cubin. A damaged one has none. */
bool kernels_of_cubin(const void *elf, size_t size, kernel_name *each, void *context);
/* Of the first entry of a fat binary container that has any: the others are the same code for other GPUs. Entries of
   more than `most` bytes are not looked at. */
bool kernels_of_container(const void *container, size_t size, size_t most, kernel_name *each, void *context);

/* A name of `size` characters, and how many registers a thread has, 1 to 255. False: no more, please. */
typedef bool kernel_registers(void *context, const char *name, size_t size, unsigned registers);
/* Visits the functions of a cubin whose registers it says: kernels, and other functions of code that is not linked. A
   damaged cubin has none, or fewer. Takes time linear in its size. */
bool registers_of_cubin(const void *elf, size_t size, kernel_registers *each, void *context);

#endif
