/* symbols.h: what libsoftgpu.so exports, and what cuGetProcAddress gives. Without cuda.h: see symbols.c. */
#ifndef SOFTGPU_DRIVER_SYMBOLS_H
#define SOFTGPU_DRIVER_SYMBOLS_H

#include "cpu/common/driver_names.h"

extern const struct driver_entry sgd_entries[];
extern const size_t sgd_entry_count;

int sgd_unsupported(const char *name);   /* says so once; CUDA_ERROR_NOT_SUPPORTED */

#endif
