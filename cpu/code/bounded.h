/*
 * bounded.h: gives PTX a bound of its kernels' registers, as nvcc -maxrregcount does: PTX itself has no place for it,
 * but an entry of a fat binary has one, which every driver obeys when it compiles the entry.
 */
#ifndef FLYT_CODE_BOUNDED_H
#define FLYT_CODE_BOUNDED_H

#include <stddef.h>
#include <stdint.h>

/* A container with the text as its only entry. malloc'ed; NULL: no memory. */
uint8_t *code_bounded_text(const char *text, unsigned registers, size_t *size);
/* A copy of the container in which all PTX has this bound. malloc'ed; NULL: no memory, or it is damaged. */
uint8_t *code_bounded_container(const void *container, size_t available, unsigned registers, size_t *size);

#endif
